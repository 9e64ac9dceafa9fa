/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/trees.h"

#include <err.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "bench/bench.h"
#include "bench/floor.h"
#include "shared/base/cleanup.h"

#define BIG_DIRS      2000
#define BIG_FILES     10 /* files in each of them */
#define SOURCES       50
#define SOURCES_BRIEF 5

void
make_dir(const char *path)
{
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		err(1, "%s", path);
}

static void
git(const char *dir, const char *const *words)
{
	const char *argv[16] = { "git", "-c", "user.name=bench", "-c", "user.email=bench@localhost",
		"-c", "gc.auto=0" };
	size_t n = 7;

	while (*words != NULL && n < N_ELEMENTS(argv) - 1)
		argv[n++] = *words++;
	if (floor_run(argv, dir) < 0)
		errx(1, "git %s", argv[7]);
}

void
make_repository(const char *dir)
{
	static const char *const init[] = { "init", "-q", NULL };
	static const char *const add[] = { "add", "-A", NULL };
	static const char *const commit[] = { "commit", "-q", "-m", "all", NULL };

	git(dir, init);
	git(dir, add);
	git(dir, commit);
}

void
make_sources(const char *dir, bool brief)
{
	const size_t n = brief ? SOURCES_BRIEF : SOURCES;
	char name[PATH_MAX], text[1024];

	for (size_t i = 0; i < n; i++) {
		int len = snprintf(text, sizeof(text),
		    "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n"
		    "struct item%zu {\n\tconst char *name;\n\tint value;\n};\n\n"
		    "int\nsum%zu(const struct item%zu *items, size_t n, const char *name)\n{\n"
		    "\tint sum = %zu;\n\n"
		    "\tfor (size_t i = 0; i < n; i++)\n"
		    "\t\tif (strcmp(items[i].name, name) == 0)\n\t\t\tsum += items[i].value;\n"
		    "\tif (sum < 0)\n\t\tfprintf(stderr, \"%%s: %%d\\n\", name, sum);\n"
		    "\treturn abs(sum);\n}\n",
		    i, i, i, i);

		snprintf(name, sizeof(name), "%s/unit%zu.c", dir, i);
		put_file(name, text, (size_t)len);
	}
}

void
make_big(const char *dir)
{
	char name[PATH_MAX], text[32];

	make_dir(dir);
	for (unsigned i = 0; i < BIG_DIRS; i++) {
		if (i % 40 == 0) {
			snprintf(name, sizeof(name), "%s/part%u", dir, i / 40);
			make_dir(name);
		}
		snprintf(name, sizeof(name), "%s/part%u/dir%u", dir, i / 40, i);
		make_dir(name);
		for (unsigned k = 0; k < BIG_FILES; k++) {
			/* Few distinct contents, because this tree measures the cost of names and
			 * not of git's objects. */
			int len = snprintf(text, sizeof(text), "text %u\n", k);

			snprintf(name, sizeof(name), "%s/part%u/dir%u/file%u", dir, i / 40, i, k);
			put_file(name, text, (size_t)len);
		}
	}
}

void
make_flat(const char *dir, unsigned dirs, unsigned files, size_t size)
{
	static const char text[FLAT_SIZE_MAX];
	char name[PATH_MAX];

	make_dir(dir);
	for (unsigned i = 0; i < dirs; i++) {
		snprintf(name, sizeof(name), "%s/dir%u", dir, i);
		make_dir(name);
		for (unsigned k = 0; k < files; k++) {
			snprintf(name, sizeof(name), "%s/dir%u/file%u", dir, i, k);
			put_file(name, text, size);
		}
	}
}
