/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/ops/op.h"

int
op_ping(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	static Koda__Pong pong = KODA__PONG__INIT;

	rep->result_case = KODA__REPLY__RESULT_PONG;
	rep->pong = &pong;
	return 0;
}
