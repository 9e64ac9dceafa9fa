/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/ops/op.h"

int
op_shutdown(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	static Koda__Done done = KODA__DONE__INIT;

	ses->ended = true;
	rep->result_case = KODA__REPLY__RESULT_DONE;
	rep->done = &done;
	return 0;
}
