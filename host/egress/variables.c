/* SPDX-License-Identifier: Apache-2.0 */
#include "host/egress/variables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An empty variable counts as not set. */
static int
copy_variable(const char *upper, const char *lower, const char **ret, struct koda_error *err)
{
	const char *value = getenv(upper);

	if (value == NULL || value[0] == '\0')
		value = getenv(lower);
	if (value == NULL || value[0] == '\0')
		return 0;
	if (strlen(value) > UPSTREAM_VALUE_MAX)
		return err_set(err, KODA_INVALID, 0,
		    "the environment variable %s has more than %d bytes", upper,
		    UPSTREAM_VALUE_MAX);
	*ret = strdup(value);
	return *ret != NULL ? 0 : err_set(err, KODA_INTERNAL, ENOMEM, "session");
}

int
variables_read(struct upstream_variables *ret, struct koda_error *err)
{
	struct upstream upstream = { 0 };

	if (copy_variable("HTTPS_PROXY", "https_proxy", &ret->https_proxy, err) < 0 ||
	    copy_variable("HTTP_PROXY", "http_proxy", &ret->http_proxy, err) < 0 ||
	    copy_variable("ALL_PROXY", "all_proxy", &ret->all_proxy, err) < 0 ||
	    copy_variable("NO_PROXY", "no_proxy", &ret->no_proxy, err) < 0)
		return -1;
	if (upstream_parse(ret, &upstream, err) < 0)
		return err_wrap(err, "commands have no network with these proxy settings");
	upstream_done(&upstream);
	return 0;
}

void
variables_done(struct upstream_variables *v)
{
	const char *const all[] = { v->https_proxy, v->http_proxy, v->all_proxy, v->no_proxy };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free((void *)(uintptr_t)all[i]);
	*v = (struct upstream_variables){ 0 };
}
