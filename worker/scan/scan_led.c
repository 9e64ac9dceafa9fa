/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/scan/scan_led.h"

#include <fcntl.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "worker/scan/scan.h"
#include "worker/scan/scan_judge.h"
#include "worker/scan/scan_known.h"
#include "worker/scan/scan_state.h"

int
scan_learn_led(struct scan *sc, struct koda_error *err)
{
	const struct policy_list *rules = &sc->who->policy->list[KODA_DENY_WRITE_WITHIN_ALLOW];
	const struct policy_list *roots = &sc->who->policy->list[KODA_ALLOW_WRITE];

	for (size_t i = 0; i < roots->n; i++) {
		if (scan_add_root(sc, roots->v[i], err) < 0)
			return -1;
	}
	sc->phase = PHASE_LEARN;
	for (size_t i = 0; i < rules->n; i++) {
		const char *name = strrchr(rules->v[i], '/') + 1;
		cleanup_close int fd = -1;
		struct stamp stamp;
		struct stat st;

		if (!scan_covers(sc, rules->v[i]))
			continue;
		fd = resolve_canonical_dir(sc->res, rules->v[i], (size_t)(name - rules->v[i]) - 1);
		if (fd < 0 || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		stamp_of(&st, &stamp);
		remember(sc, WHAT_RULE, rules->v[i], &stamp, true);
	}
	find_all_targets(sc);
	sc->phase = PHASE_JUDGE;
	return 0;
}

const char *
scan_led(const struct scan *sc, const char *path, bool below, enum access_rule *ret)
{
	for (size_t i = 0; i < sc->n_guards; i++) {
		const struct guard *g = &sc->guard[i];

		if (g->what == WHAT_RULE ||
		    (!path_is_inside(path, g->path) && !(below && path_is_inside(g->path, path))))
			continue;
		*ret = g->what == WHAT_LED ? ACCESS_RULE_LINK : ACCESS_RULE_GIT_CONFIG;
		return g->path;
	}
	return NULL;
}

const char *
scan_guarded(const struct scan *sc, size_t i)
{
	for (size_t k = 0; k < sc->n_guards; k++)
		if (sc->guard[k].what != WHAT_RULE && i-- == 0)
			return sc->guard[k].path;
	return NULL;
}
