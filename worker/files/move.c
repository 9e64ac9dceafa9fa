/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/files/move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "worker/files/tree.h"
#include "worker/say.h"

int
move_check_root(struct session *ses, const char *verb, const struct place *at,
    struct koda_error *err)
{
	char what[64];

	if (!path_is_inside(ses->root, at->path))
		return 0;
	snprintf(what, sizeof(what), "cannot %s the session's root, or what holds it:", verb);
	say(err, KODA_POLICY_DENIED, 0, what, at->path);
	return err_about(err, at->path, "root");
}

int
move_check_tree(struct session *ses, enum access_op op, const struct place *at,
    uint64_t *ret_entries, struct koda_error *err)
{
	struct access_verdict verdict = access_judge_tree(&ses->who, op, at->path);

	if (!verdict.allowed)
		return access_refuse(err, &ses->who, op, at->path, verdict);
	if (ret_entries == NULL)
		return 0;
	return tree_check(&ses->who, op, at->target_fd, at->path, ret_entries, err);
}

bool
moved_is(int dir_fd, const char *name, const struct stat *was)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == was->st_dev &&
	    st.st_ino == was->st_ino;
}
