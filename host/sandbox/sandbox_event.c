#include "host/sandbox/sandbox_event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/cleanup.h"
#include "shared/rules/access.h"

static bool
is_of_git(const char *path)
{
	const char *at = strstr(path, "/.git");

	while (at != NULL && at[5] != '/' && at[5] != '\0')
		at = strstr(at + 1, "/.git");
	return at != NULL;
}

void
sandbox_event(struct sandbox *sb, const Koda__Event *e)
{
	cleanup_free char *target =
	    e->target.len > 0 ? strndup((const char *)e->target.data, e->target.len) : NULL;
	struct koda_violation v = { .kind = KODA_VIOLATION_OTHER,
		.target = target == NULL ? "" : target,
		.command = sandbox_only_command(sb),
		.rule = "",
		.detail = "",
		.certain = true };
	char untold[128];

	switch ((int)e->kind) {
	case KODA__EVENT_KIND__EVENT_KIND_CONNECT_REFUSED:
		v.kind = KODA_VIOLATION_NETWORK_OUTBOUND;
		v.rule = "host_socket";
		v.detail = "a socket of the host is not for commands";
		if (!e->has_untold)
			break;
		snprintf(untold, sizeof(untold),
		    "%llu more sockets of the host, too fast to be told one by one",
		    (unsigned long long)e->untold);
		v.detail = untold;
		break;
	case KODA__EVENT_KIND__EVENT_KIND_LINK_REFUSED:
		v.kind = KODA_VIOLATION_FILE_WRITE;
		v.rule = access_rule_name(ACCESS_RULE_GIT_CONFIG);
		v.detail =
		    "a command may not make a link or a special file in a git directory: git on the "
		    "host would write through it; make it outside of the git directory";
		if (!e->has_untold)
			break;
		snprintf(untold, sizeof(untold),
		    "%llu more links or special files in git directories, too fast to be told one by one",
		    (unsigned long long)e->untold);
		v.detail = untold;
		break;
	case KODA__EVENT_KIND__EVENT_KIND_REMOUNTED:
		v.rule = "replaced_outside";
		v.detail = "somebody outside replaced a protected place; it is protected again";
		break;
	case KODA__EVENT_KIND__EVENT_KIND_HIDDEN:
		v.kind = KODA_VIOLATION_FILE_READ;
		v.rule = access_rule_name(ACCESS_RULE_DENY_READ);
		v.detail =
		    "it did not exist when the sandbox was built; it is hidden since it appeared";
		break;
	case KODA__EVENT_KIND__EVENT_KIND_LOST:
		v.rule = "replaced_outside";
		v.detail = "somebody outside removed or replaced a protected place";
		break;
	case KODA__EVENT_KIND__EVENT_KIND_APPEARED:
		/* The comparison finds out what it is, and moves it away if it was planted. A
		 * repository that a command is creating is checked when that command is done: git
		 * would fail if parts of it disappeared. In a cache it does not affect the host. */
		if (target == NULL || is_of_git(target) || view_is_cached(&sb->view, target))
			return;
		sb->compare_at = 1;
		session_wake_at(sb->slot->ses, 0);
		return;
	default:
		return;
	}
	violations_record(&sb->violations, &v);
}
