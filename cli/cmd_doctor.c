/* SPDX-License-Identifier: Apache-2.0 */
/* doctor: what this machine can enforce, and what to do about what it cannot. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/show.h"

/* Nothing on this machine shows whether this was done, and without it the user is not safe. */
static const char reminder[] =
    "An agent's own file and command tools are not sandboxed: if it uses 'koda-sandbox mcp', turn them off in its settings.";

struct doctor_rows {
	json_t *list; /* NULL: print instead */
	bool colour;
	bool fit; /* everything that auto needs is there */
	size_t n;
};

static void
print(const struct doctor_rows *doctor, const struct koda_capability *capability)
{
	const char *verdict = capability->available ? "yes"
	    : capability->needed_for_auto           ? "NO"
						    : "no";
	const char *colour = capability->available ? "\033[32m"
	    : capability->needed_for_auto          ? "\033[31m"
						   : "\033[33m";

	printf("%s%-4s%s", doctor->colour ? colour : "", verdict, doctor->colour ? "\033[0m" : "");
	printf("%-24s ", capability->name);
	show_string(stdout, capability->detail);
	putchar('\n');
	if (!capability->available && capability->remedy[0] != '\0') {
		fputs("      try: ", stdout);
		show_string(stdout, capability->remedy);
		putchar('\n');
	}
}

static int
on_capability(void *data, const struct koda_capability *capability)
{
	struct doctor_rows *doctor = data;
	json_t *object;

	doctor->n++;
	if (capability->needed_for_auto && !capability->available)
		doctor->fit = false;
	if (doctor->list == NULL) {
		print(doctor, capability);
		return 0;
	}
	object = json_object();
	json_object_set_new(object, "name", json_string(capability->name));
	json_object_set_new(object, "available", json_boolean(capability->available));
	json_object_set_new(object, "needed_for_auto", json_boolean(capability->needed_for_auto));
	json_object_set_new(object, "detail",
	    show_json_lossy(capability->detail, strlen(capability->detail)));
	json_object_set_new(object, "remedy",
	    show_json_lossy(capability->remedy, strlen(capability->remedy)));
	json_array_append_new(doctor->list, object);
	return 0;
}

int
cmd_doctor(const struct cli *cli)
{
	struct doctor_rows doctor = { .fit = true, .colour = output_colour(STDOUT_FILENO) };
	int status;

	if (args_has(&cli->args, OPT_JSON))
		doctor.list = json_array();
	/* If no capability was tested, the machine must not pass. */
	if (koda_doctor(NULL, on_capability, &doctor) != 0 || doctor.n == 0)
		doctor.fit = false;
	status = doctor.fit ? EXIT_DONE : EXIT_FAILED;
	if (doctor.list == NULL) {
		puts(doctor.fit
			? "This machine has everything that auto mode needs."
			: "Something that auto mode needs is missing: auto mode will refuse to start.");
		puts(reminder);
		return output_done(status);
	} else {
		json_t *object = output_object();
		int printed;

		json_object_set_new(object, "auto_ready", json_boolean(doctor.fit));
		json_object_set_new(object, "capabilities", doctor.list);
		json_object_set_new(object, "reminder", json_string(reminder));
		printed = output_json(object);
		return printed != EXIT_DONE ? printed : status;
	}
}
