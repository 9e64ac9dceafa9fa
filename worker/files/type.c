/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/files/type.h"

Koda__FileType
file_type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return KODA__FILE_TYPE__FILE_REGULAR;
	case S_IFDIR:
		return KODA__FILE_TYPE__FILE_DIRECTORY;
	case S_IFLNK:
		return KODA__FILE_TYPE__FILE_SYMLINK;
	default:
		return KODA__FILE_TYPE__FILE_OTHER;
	}
}

uint64_t
change_ctime_ns(const struct stat *st)
{
	return (uint64_t)st->st_ctim.tv_sec * 1000000000 + (uint64_t)st->st_ctim.tv_nsec;
}
