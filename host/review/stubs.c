/* Not written yet. */
#include "host/context/context.h"

static int
missing(struct koda_error *err)
{
	return err_set(err, KODA_UNSUPPORTED, 0, "not written yet");
}

int
koda_drafts_visit(const char *root, koda_drafted_fn *fn, void *data, struct koda_error *err)
{
	return missing(err);
}

struct koda_draft *
koda_draft_open(struct koda_session *session, const char *id, struct koda_error *err)
{
	missing(err);
	return NULL;
}

void
koda_draft_close(struct koda_draft *draft)
{
}

int
koda_draft_changes(struct koda_draft *draft, koda_change_fn *fn, void *data, bool *ret_cut,
    struct koda_error *err)
{
	return missing(err);
}

int
koda_draft_read(struct koda_draft *draft, const char *path, bool before, uint64_t max,
    struct koda_result *ret, struct koda_error *err)
{
	return missing(err);
}

int
koda_draft_apply(struct koda_draft *draft, const struct koda_apply_options *options,
    koda_applied_fn *fn, void *data, char *ret_undo, struct koda_error *err)
{
	return missing(err);
}

int
koda_draft_discard(struct koda_draft *draft, const char *const *paths, size_t n,
    struct koda_error *err)
{
	return missing(err);
}

int
koda_history_visit(const char *root, koda_history_fn *fn, void *data, struct koda_error *err)
{
	return missing(err);
}

int
koda_history_changes(const char *root, const char *id, koda_change_fn *fn, void *data,
    struct koda_error *err)
{
	return missing(err);
}

int
koda_history_undo(struct koda_session *session, const char *id,
    const struct koda_undo_options *options, koda_applied_fn *fn, void *data,
    struct koda_error *err)
{
	return missing(err);
}
