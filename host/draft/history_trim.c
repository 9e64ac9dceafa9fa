#include "host/draft/history_trim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/base/cleanup.h"

struct trim_one {
	char id[NAMED_ID_MAX + 1];
	char *root;
	int64_t changed_ns;
	uint64_t bytes;
};

struct trim_list {
	struct trim_one *v;
	size_t n;
	uint64_t bytes;
};

static void
list_done(struct trim_list *l)
{
	while (l->n > 0)
		free(l->v[--l->n].root);
	free(l->v);
}

static int
add(void *data, const struct history *h)
{
	struct trim_list *l = data;
	struct trim_one *grown = reallocarray(l->v, l->n + 1, sizeof(*grown)), *one;

	if (grown == NULL)
		return -1;
	l->v = grown;
	one = &l->v[l->n];
	*one = (struct trim_one){ .changed_ns = h->changed_ns, .bytes = history_bytes(h) };
	snprintf(one->id, sizeof(one->id), "%s", h->id);
	one->root = strdup(h->root);
	if (one->root == NULL)
		return -1;
	l->bytes += one->bytes;
	l->n++;
	return 0;
}

int
history_trim(const char *state, uint64_t bytes_max, int64_t age_max_ns, struct history_trimmed *ret)
{
	cleanup(list_done) struct trim_list l = { 0 };
	struct timespec now;

	*ret = (struct history_trimmed){ 0 };
	clock_gettime(CLOCK_REALTIME, &now);
	if (history_list(state, NULL, add, &l, NULL) != 0)
		return -1;
	/* They come by age. */
	for (size_t i = 0; i < l.n; i++) {
		const struct trim_one *one = &l.v[i];
		const int64_t age =
		    (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - one->changed_ns;
		struct history h;

		if (l.bytes <= bytes_max && age <= age_max_ns)
			continue;
		if (history_open_at_once(state, one->root, one->id, &h, NULL) < 0)
			continue;
		if (history_remove(state, &h, NULL) < 0) {
			history_close(&h);
			continue;
		}
		l.bytes -= one->bytes;
		ret->entries++;
		ret->bytes += one->bytes;
	}
	return 0;
}
