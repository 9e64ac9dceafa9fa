#include "host/defaults.h"

#include <stddef.h>

/* Package registries by wildcard: each has several hosts below its name, and they come and go. */
const char *const default_domains[] = {
	"github.com",
	"api.github.com",
	"codeload.github.com",
	"*.githubusercontent.com",
	"*.npmjs.org",
	"*.pypi.org",
	"*.pythonhosted.org",
	"*.crates.io",
	"*.docker.io",
	NULL,
};

const char *const default_git_pair[] = { "/.git/hooks", "/.git/config", NULL };
