/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a packed policy. An accepted policy passes policy_check, packs to the same policy
 * again, composes with another to one that allows no more than either, and can judge every place.
 * Input: length of the first policy in two bytes, that policy, the second one.
 */
#include "fuzz/fuzz.h"
#include "shared/rules/access.h"
#include "shared/rules/egress.h"
#include "shared/rules/policy.h"

static const char *const places[] = { "/", "/proc/self/environ", "/home/u", "/home/u/p",
	"/home/u/p/src/main.c", "/home/u/p/.git/config", "/home/u/p/.GIT/hooks/pre-commit",
	"/home/u/p/secret/key", "/home/u/p/secret/open/x", "/home/u/.config/koda/db/x",
	"/home/u/p/.koda/agents/a", "/tmp/x", "/home/u/p/a/HEAD", "/home/u/p/a/config" };
static const char *const hosts[] = { "github.com", "a.github.com", "a.b.github.com", "x",
	"127.0.0.1", "[::1]", "8.8.8.8" };
static const unsigned ports[] = { 22, 80, 443, 8080 };

static bool
has_head(void *data, const char *path, size_t dir_len, const char *name)
{
	return strcmp(name, "HEAD") == 0 || strcmp(name, "objects") == 0;
}

static void
must_pack_again(const struct policy *p)
{
	struct policy again;
	struct koda_error err;
	uint8_t *packed = NULL, *second = NULL;
	size_t len, second_len;

	must(policy_check(p, &err) == 0);
	if (policy_pack(p, &packed, &len, &err) < 0) {
		must(err.code == KODA_TOO_LARGE);
		return;
	}
	must(policy_unpack(packed, len, &again, &err) == 0);
	must(policy_equal(p, &again));
	must(policy_pack(&again, &second, &second_len, &err) == 0);
	must(len == second_len && memcmp(packed, second, len) == 0);
	policy_done(&again);
	free(packed);
	free(second);
}

static void
must_not_reach_more(const struct policy *both, const struct policy *one)
{
	struct egress_rules *narrow = egress_rules_new(both, NULL);
	struct egress_rules *wide = egress_rules_new(one, NULL);

	must(narrow != NULL && wide != NULL);
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		struct sockaddr_storage addr;
		socklen_t len;
		bool literal = address_parse(hosts[i], 1, &addr, &len);
		enum domain_kind kind = !literal ? DOMAIN_NAME
		    : hosts[i][0] == '['         ? DOMAIN_IPV6
						 : DOMAIN_IPV4;

		for (size_t k = 0; k < sizeof(ports) / sizeof(ports[0]); k++) {
			struct egress_verdict n = egress_judge(narrow, hosts[i], kind, ports[k]);
			struct egress_verdict w = egress_judge(wide, hosts[i], kind, ports[k]);

			must(n.decision != EGRESS_ALLOW ||
			    (w.decision == EGRESS_ALLOW && (!n.any_sni || w.any_sni)));
			for (int own = 0; literal && own < 2; own++) {
				n = egress_judge_address(narrow, (struct sockaddr *)&addr, ports[k],
				    own != 0);
				w = egress_judge_address(wide, (struct sockaddr *)&addr, ports[k],
				    own != 0);
				must(n.decision != EGRESS_ALLOW || w.decision == EGRESS_ALLOW);
			}
		}
	}
	egress_rules_free(narrow);
	egress_rules_free(wide);
}

static void
must_not_widen(const struct policy *both, const struct policy *one, enum koda_mode mode)
{
	const struct access_disk disk = { NULL, has_head };

	const struct access_subject narrow = { both, mode, "/home/u", NULL };
	const struct access_subject wide = { one, mode, "/home/u", NULL };

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		for (int op = ACCESS_OP_READ; op <= ACCESS_OP_HOP_CHANGE; op++) {
			struct access_verdict n =
			    access_judge(&narrow, (enum access_op)op, places[i], &disk);
			struct access_verdict w =
			    access_judge(&wide, (enum access_op)op, places[i], &disk);
			struct koda_error err;

			must(!n.allowed || w.allowed);
			if (!n.allowed) {
				access_refuse(&err, &narrow, (enum access_op)op, places[i], n);
				must(err.code == KODA_POLICY_DENIED && err.rule[0] != '\0' &&
				    strcmp(err.path, places[i]) == 0);
			}
			n = access_judge_tree(&narrow, (enum access_op)op, places[i]);
			(void)n;
		}
	}
	must_not_reach_more(both, one);
}

/* A child inherits a list that it does not have: make it as if the child had its parent's list. */
static void
inherit(struct policy *child, const struct policy *parent, enum koda_list list)
{
	if (child->list[list].present)
		return;
	for (size_t i = 0; i < parent->list[list].n; i++)
		must(policy_list_add(&child->list[list], parent->list[list].v[i], NULL) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct policy a, b, both;
	struct koda_error err;
	enum koda_mode mode;
	size_t n;

	if (size < 2 || size > POLICY_PACKED_MAX)
		return 0;
	n = (size_t)data[0] << 8 | data[1];
	mode = (enum koda_mode)(KODA_PLAN + data[1] % 3);
	data += 2;
	size -= 2;
	if (n > size)
		n = size;
	if (policy_unpack(data, n, &a, &err) < 0) {
		must(err.code != KODA_OK && err.message[0] != '\0');
		return 0;
	}
	must_pack_again(&a);
	must_not_widen(&a, &a, mode);
	if (policy_unpack(data + n, size - n, &b, &err) == 0) {
		must_pack_again(&b);
		if (policy_compose(&a, &b, &both, &err) == 0) {
			must_pack_again(&both);
			must_not_widen(&both, &a, mode);
			inherit(&b, &a, KODA_ALLOW_WRITE);
			inherit(&b, &a, KODA_ALLOWED_DOMAINS);
			must_not_widen(&both, &b, mode);
			policy_done(&both);
		}
		policy_done(&b);
	}
	policy_done(&a);
	return 0;
}
