/* SPDX-License-Identifier: Apache-2.0 */
#include "shared/rules/policy_field.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/policy.pb-c.h"
#include "shared/base/cleanup.h"
#include "shared/rules/policy.h"

const char *const policy_section_name[POLICY_N_SECTIONS] = {
	[POLICY_FS] = "fs",
	[POLICY_NET] = "net",
	[POLICY_LIMITS] = "limits",
	[POLICY_TOP] = "",
};

/* A choice is read and written as a number. */
_Static_assert(sizeof(enum koda_trust) == sizeof(unsigned), "an enum has the size of an int");
static const char *const trust_names[] = {
	"",
	[KODA_TRUST_AUTO] = "auto",
	[KODA_TRUST_REQUIRE] = "require",
	[KODA_TRUST_FORBID] = "forbid",
	NULL,
};

#define FS     POLICY_FS, Koda__FsPolicy
#define NET    POLICY_NET, Koda__NetPolicy
#define LIMITS POLICY_LIMITS, Koda__Limits
#define TOP    POLICY_TOP, Koda__Policy

/* A row is named as its field in the schema. ROW_ and HAS_ get the section as two arguments. */
#define MEMBERS(first, last)                                                                       \
	.offset = offsetof(struct policy, first),                                                  \
	.size = offsetof(struct policy, last) + sizeof(((struct policy *)0)->last) -               \
	    offsetof(struct policy, first)
#define MEMBER(m) MEMBERS(m, m)
#define ROW(...)  ROW_(__VA_ARGS__)
#define ROW_(sect, message, field, is, composed, ...)                                              \
	{                                                                                          \
		.section = sect, .name = #field, .kind = is, .rule = composed,                     \
		.wire = offsetof(message, field), __VA_ARGS__                                      \
	}
#define HAS(...)                   HAS_(__VA_ARGS__)
#define HAS_(sect, message, field) .wire_has = offsetof(message, has_##field)

#define LIST(where, field, is, composed, which) ROW(where, field, is, composed, MEMBER(list[which]))
#define FLAG(where, field, which)                                                                  \
	ROW(where, field, POLICY_FLAG, POLICY_BOTH, MEMBER(flag[which]), HAS(where, field))
#define LIMIT(field, which, highest, reason)                                                       \
	ROW(LIMITS, field, POLICY_LIMIT, POLICY_LOWEST, MEMBER(limit[which]), HAS(LIMITS, field),  \
	    .max = highest, .why = reason)

/* clang-format off */
const struct policy_field policy_fields[] = {
	LIST(FS, deny_read, POLICY_PATHS, POLICY_UNION, KODA_DENY_READ),
	LIST(FS, allow_read_within_deny, POLICY_PATHS, POLICY_HOLES, KODA_ALLOW_READ_WITHIN_DENY),
	LIST(FS, allow_write, POLICY_PATHS, POLICY_INTERSECTION, KODA_ALLOW_WRITE),
	LIST(FS, deny_write_within_allow, POLICY_PATHS, POLICY_UNION, KODA_DENY_WRITE_WITHIN_ALLOW),
	LIST(FS, deny_write_names, POLICY_NAMES, POLICY_UNION, KODA_DENY_WRITE_NAMES),
	FLAG(FS, allow_git_config, KODA_ALLOW_GIT_CONFIG),
	ROW(FS, mandatory_deny_search_depth, POLICY_NUMBER, POLICY_HIGHEST, MEMBER(depth),
	    HAS(FS, mandatory_deny_search_depth), .initial = POLICY_DEPTH_DEFAULT),
	FLAG(FS, share_caches, KODA_SHARE_CACHES),

	LIST(NET, allowed_domains, POLICY_DOMAINS, POLICY_INTERSECTION, KODA_ALLOWED_DOMAINS),
	LIST(NET, denied_domains, POLICY_DOMAINS, POLICY_UNION, KODA_DENIED_DOMAINS),
	FLAG(NET, any_domain, KODA_ANY_DOMAIN),
	FLAG(NET, allow_local_binding, KODA_ALLOW_LOCAL_BINDING),
	FLAG(NET, weaker_macos_isolation, KODA_WEAKER_MACOS_ISOLATION),
	ROW(NET, mitm, POLICY_MITM, POLICY_OF_PARENT, MEMBERS(ca_bundle, n_sockets)),

	LIMIT(cpu_time_secs, KODA_CPU_TIME_SECS, 1000000000, "the kernel counts nanoseconds in 64 bits"),
	LIMIT(wall_time_secs, KODA_WALL_TIME_SECS, POLICY_WALL_TIME_MAX,
	    "no command is waited for longer; run a longer one in the background"),
	LIMIT(max_rss_bytes, KODA_MAX_RSS_BYTES, UINT64_MAX, ""),
	LIMIT(max_open_fds, KODA_MAX_OPEN_FDS, 1u << 20, "the kernel gives no process more (fs.nr_open)"),
	LIMIT(max_output_bytes, KODA_MAX_OUTPUT_BYTES, 1u << 30, "it is kept in memory"),
	LIMIT(max_processes, KODA_MAX_PROCESSES, 1u << 22, "the kernel has no more process numbers"),
	LIMIT(max_file_bytes, KODA_MAX_FILE_BYTES, INT64_MAX, "no file can be larger"),

	/* enum koda_trust is in the order of strictness. */
	ROW(TOP, trust, POLICY_CHOICE, POLICY_HIGHEST, MEMBER(trust), HAS(TOP, trust),
	    .initial = KODA_TRUST_AUTO, .choices = trust_names),
};
/* clang-format on */
_Static_assert(N_ELEMENTS(policy_fields) == POLICY_N_FIELDS,
    "a list, flag or limit of the public header has no row, or a new row is not counted");

static const struct policy_field *
field_at(size_t offset)
{
	for (size_t i = 0; i < POLICY_N_FIELDS; i++) {
		if (policy_fields[i].offset == offset)
			return &policy_fields[i];
	}
	return NULL;
}

const struct policy_field *
policy_field_of_list(enum koda_list list)
{
	return field_at(offsetof(struct policy, list) + list * sizeof(struct policy_list));
}

const struct policy_field *
policy_field_of_limit(enum koda_limit limit)
{
	return field_at(offsetof(struct policy, limit) + limit * sizeof(struct policy_limit));
}

unsigned
policy_field_number(const struct policy *p, const struct policy_field *f)
{
	const void *member = policy_field_in(p, f);

	return f->kind == POLICY_NUMBER ? *(const uint8_t *)member : *(const unsigned *)member;
}

void
policy_field_set_number(struct policy *p, const struct policy_field *f, unsigned value)
{
	void *member = policy_field_in(p, f);

	if (f->kind == POLICY_NUMBER)
		*(uint8_t *)member = (uint8_t)value;
	else
		*(unsigned *)member = value;
}

const char *
policy_field_choice(const struct policy_field *f, unsigned value)
{
	for (unsigned i = 1; f->choices[i] != NULL; i++) {
		if (i == value)
			return f->choices[i];
	}
	return NULL;
}

static int
no_memory(struct koda_error *err)
{
	return err_set(err, KODA_INTERNAL, ENOMEM, "policy");
}

static int
mitm_copy(struct policy *dst, const struct policy *src, struct koda_error *err)
{
	if (src->ca_bundle != NULL) {
		dst->ca_bundle = strdup(src->ca_bundle);
		if (dst->ca_bundle == NULL)
			return no_memory(err);
	}
	if (src->n_sockets == 0)
		return 0;
	dst->sockets = calloc(src->n_sockets, sizeof(*dst->sockets));
	if (dst->sockets == NULL)
		return no_memory(err);
	/* policy_done() accepts half-filled entries: they are NULL. */
	dst->n_sockets = src->n_sockets;
	for (size_t i = 0; i < src->n_sockets; i++) {
		dst->sockets[i].domain = strdup(src->sockets[i].domain);
		dst->sockets[i].path = strdup(src->sockets[i].path);
		if (dst->sockets[i].domain == NULL || dst->sockets[i].path == NULL)
			return no_memory(err);
	}
	return 0;
}

int
policy_field_copy(const struct policy_field *f, struct policy *dst, const struct policy *src,
    struct koda_error *err)
{
	switch (f->kind) {
	case POLICY_PATHS:
	case POLICY_NAMES:
	case POLICY_DOMAINS:
		return policy_list_add_all(policy_field_in(dst, f), policy_field_in(src, f), err);
	case POLICY_FLAG:
	case POLICY_LIMIT:
	case POLICY_NUMBER:
	case POLICY_CHOICE:
		memcpy(policy_field_in(dst, f), policy_field_in(src, f), f->size);
		return 0;
	case POLICY_MITM:
		return mitm_copy(dst, src, err);
	}
	return 0;
}
