/* A domain pattern, and (behind a newline) a host: what is accepted has the strict grammar,
 * stays so when it is normalised, and matches only what it names. */
#include "fuzz/fuzz.h"
#include "shared/policy.h"

static bool
is_strict(const char *s)
{
	for (; *s != '\0'; s++) {
		if (strchr("abcdefghijklmnopqrstuvwxyz0123456789.-*:_[]", *s) == NULL)
			return false;
	}
	return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct koda_error err;
	char *pattern, *host, *before;

	if (size > 2048 || memchr(data, '\0', size) != NULL)
		return 0;
	pattern = strndup((const char *)data, size);
	must(pattern != NULL);
	host = strchr(pattern, '\n');
	if (host != NULL)
		*host++ = '\0';
	if (policy_domain_check(pattern, &err) < 0) {
		must(err.code == KODA_INVALID && err.message[0] != '\0');
		free(pattern);
		return 0;
	}
	policy_domain_normalise(pattern);
	must(policy_domain_check(pattern, &err) == 0);
	must(is_strict(pattern));
	before = strdup(pattern);
	must(before != NULL);
	policy_domain_normalise(pattern);
	must(strcmp(before, pattern) == 0);
	if (host != NULL && host[0] != '\0') {
		size_t len = strcspn(pattern, ":"), host_len = strlen(host);

		if (policy_domain_matches(pattern, host, 443, false)) {
			const char *name = pattern[0] == '*' ? pattern + 1 : pattern;
			size_t k = len - (size_t)(name - pattern);

			must(policy_domain_matches(pattern, host, 443, true));
			must(host_len >= k && memcmp(host + host_len - k, name, k) == 0);
			if (name == pattern) {
				must(host_len == k);
			} else {
				/* Exactly one label more. */
				must(host_len > k && memchr(host, '.', host_len - k) == NULL);
			}
		}
	}
	free(before);
	free(pattern);
	return 0;
}
