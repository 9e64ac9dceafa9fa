/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shared/base/cleanup.h"
#include "worker/ops/op.h"

int
op_record(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	const int needed = F_SEAL_GROW | F_SEAL_SHRINK;
	static Koda__Done done = KODA__DONE__INIT;
	cleanup_close int fd = session_take_fd(ses, err);
	struct stat st;
	int seals;
	void *p;

	if (fd < 0)
		return -1;
	seals = fcntl(fd, F_GET_SEALS);
	/* It has to be of fixed size: otherwise the host could turn this worker's next write
	 * into a SIGBUS. */
	if (ses->record != NULL || seals < 0 || (seals & needed) != needed || fstat(fd, &st) < 0 ||
	    st.st_size != sizeof(*ses->record))
		return err_set(err, KODA_PROTOCOL, 0, "that is not a record, or not the first");
	p = mmap(NULL, sizeof(*ses->record), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return err_set(err, KODA_INTERNAL, errno, "map the record");
	ses->record = p;
	rep->result_case = KODA__REPLY__RESULT_DONE;
	rep->done = &done;
	return 0;
}
