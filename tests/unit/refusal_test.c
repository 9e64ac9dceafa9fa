/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/gate.c: what a client reads when it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/accept/http.h"
#include "proxy/gate.h"
#include "shared/base/cleanup.h"

#define X16  "xxxxxxxxxxxxxxxx"
#define X63  X16 X16 X16 "xxxxxxxxxxxxxxx"
#define X253 X63 X63 X63 X63 "x"

static const struct {
	const char *label;
	int status;
	const char *rule, *host, *sentence;
	enum koda_mode mode;
	bool close;
	const char *field; /* Koda-Sandbox */
	const char *body;
} cases[] = {
	/* clang-format off */
	{ "denied", 403, "allowed_domains", "a.test:443", "a.test is not allowed", KODA_AUTO, false,
	    "deny; host=a.test:443; rule=allowed_domains; mode=auto", "koda-sandbox: a.test is not allowed\n" },
	{ "denied, and closed", 403, "denied_domains", "a.test:443", "no", KODA_SAFE, true,
	    "deny; host=a.test:443; rule=denied_domains; mode=safe", "koda-sandbox: no\n" },
	{ "plan", 403, "allowed_domains", "[::1]:80", "no", KODA_PLAN, true,
	    "deny; host=[::1]:80; rule=allowed_domains; mode=plan", "koda-sandbox: no\n" },
	{ "malformed", 400, "malformed", "", "a CR without LF", KODA_AUTO, true,
	    "invalid; host=-; rule=malformed; mode=auto", "koda-sandbox: a CR without LF\n" },
	{ "slow", 408, "too_slow", "", "slow", KODA_AUTO, true, "invalid; host=-; rule=too_slow; mode=auto", "koda-sandbox: slow\n" },
	{ "large", 431, "too_large", "", "large", KODA_AUTO, true, "invalid; host=-; rule=too_large; mode=auto", "koda-sandbox: large\n" },
	{ "no such name", 502, "dns", "a.test:80", "gone", KODA_AUTO, false, "fail; host=a.test:80; rule=dns; mode=auto", "koda-sandbox: gone\n" },
	{ "too many", 503, "limit", "", "many", KODA_AUTO, true, "fail; host=-; rule=limit; mode=auto", "koda-sandbox: many\n" },
	{ "timeout", 504, "timeout", "a.test:80", "late", KODA_AUTO, false, "fail; host=a.test:80; rule=timeout; mode=auto", "koda-sandbox: late\n" },
	/* A sentence may quote a server, and a rule what a user wrote. */
	{ "lines in a sentence", 502, "server", "a.test:80", "it said\r\nX: y\r\n\r\nHTTP/1.1 200 OK\n", KODA_AUTO, false,
	    "fail; host=a.test:80; rule=server; mode=auto", "koda-sandbox: it said  X: y    HTTP/1.1 200 OK \n" },
	{ "lines in a rule", 403, "a\r\nX: y\x1b", "a.test:80", "no", KODA_AUTO, false,
	    "deny; host=a.test:80; rule=a  X: y ; mode=auto", "koda-sandbox: no\n" },
	{ "as long as all can be", 403, X63, X253 ":65535", X253 X253, KODA_PLAN, false,
	    "deny; host=" X253 ":65535; rule=" X63 "; mode=plan", "koda-sandbox: " X253 X253 "\n" },
	/* clang-format on */
};

/* Our own parser of responses must see one response, as long as it states, with nothing after
 * it. */
static void
refusal_case(void **state)
{
	size_t i = (uintptr_t)*state;
	struct refusal r = { .status = cases[i].status };
	char text[REFUSAL_TEXT_MAX];
	const struct http_field *field;
	const char *why = "";
	struct http_head *h = calloc(1, sizeof(*h));
	size_t n;

	assert_non_null(h);
	assert_true(strlen(cases[i].rule) < sizeof(r.rule) &&
	    strlen(cases[i].host) < sizeof(r.host) &&
	    strlen(cases[i].sentence) < sizeof(r.sentence));
	strcpy(r.rule, cases[i].rule);
	strcpy(r.host, cases[i].host);
	strcpy(r.sentence, cases[i].sentence);
	n = refusal_text(&r, cases[i].mode, cases[i].close, text);
	if (http_response_parse(text, n, false, false, h, &why) != HTTP_OK)
		fail_msg("%s", why);
	assert_int_equal(h->status, cases[i].status);
	assert_int_equal(h->keep_alive, !cases[i].close);
	assert_int_equal(h->body, HTTP_BODY_LENGTH);
	assert_int_equal(h->len + h->length, n);
	assert_int_equal(h->length, strlen(cases[i].body));
	assert_memory_equal(text + h->len, cases[i].body, h->length);
	field = http_field(h, "koda-sandbox", 0);
	assert_non_null(field);
	assert_int_equal(field->value.n, strlen(cases[i].field));
	assert_memory_equal(field->value.p, cases[i].field, field->value.n);
	assert_null(http_field(h, "koda-sandbox", 1));
	assert_null(http_field(h, "x", 0));
	free(h);
}

int
main(void)
{
	struct CMUnitTest tests[N_ELEMENTS(cases)];

	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		tests[i] =
		    (struct CMUnitTest){ cases[i].label, refusal_case, NULL, NULL, (void *)i };
	return cmocka_run_group_tests_name("refusal_text", tests, NULL, NULL);
}
