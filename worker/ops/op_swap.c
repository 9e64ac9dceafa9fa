#include "worker/ops/op.h"

int
op_swap(struct session *ses, const Koda__Request *req, Koda__Reply *rep, struct koda_error *err)
{
	return err_set(err, KODA_UNSUPPORTED, 0, "swap");
}
