/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/report.h"

#include <err.h>
#include <stdlib.h>
#include <sys/statfs.h>

#include "shared/base/cleanup.h"

static double
ratio(const struct outcome *o)
{
	return o->ours.p50 / o->floor.p50;
}

static const char *
file_system(void)
{
	static const struct {
		unsigned long magic;
		const char *name;
	} known[] = {
		{ 0xef53, "ext4" },
		{ 0x01021994, "tmpfs" },
		{ 0x794c7630, "overlayfs" },
		{ 0x9123683e, "btrfs" },
		{ 0x58465342, "xfs" },
	};
	static char other[32];
	struct statfs fs;

	if (statfs(".", &fs) < 0)
		err(1, "statfs");
	for (size_t i = 0; i < N_ELEMENTS(known); i++)
		if ((unsigned long)fs.f_type == known[i].magic)
			return known[i].name;
	snprintf(other, sizeof(other), "0x%lx", (unsigned long)fs.f_type);
	return other;
}

/* ---- the table ---- */

void
report_head(void)
{
	double load[1];

	if (getloadavg(load, N_ELEMENTS(load)) < 1)
		load[0] = -1;
	/* Print the load, because a busy machine slows our two processes down more than the floor,
	 * which mostly is one process. */
	printf("files on %s; load average %.1f; '*': not what is to be reached\n", file_system(),
	    load[0]);
	printf("%-18s %-6s%10s %10s %10s %10s %6s %8s %10s %10s %6s\n", "", "", "ours p50", "p99",
	    "floor p50", "p99", "ratio", "reach", "free: ours", "floor", "ratio");
	fflush(stdout);
}

static void
print_side(const struct outcome *o, const struct row *row)
{
	printf("%10.1f %10.1f", o->ours.p50 * row->scale, o->ours.p99 * row->scale);
	if (row->race.floor != NULL)
		printf(" %10.1f %10.1f %6.2f", o->floor.p50 * row->scale, o->floor.p99 * row->scale,
		    ratio(o));
	else
		printf(" %10s %10s %6s", "-", "-", "-");
}

/* Store the goal in ret, as text. Returns whether the outcome reaches it. */
static bool
reached(const struct row *row, const struct outcome *o, char *ret, size_t size)
{
	bool rate = row->race.amount > 0;

	snprintf(ret, size, "-");
	if (row->reach_ours > 0) {
		snprintf(ret, size, "%s %.0f", rate ? ">=" : "<=", row->reach_ours);
		return rate ? o->ours.p50 * row->scale >= row->reach_ours
			    : o->ours.p50 * row->scale <= row->reach_ours;
	}
	if (row->reach < 0) {
		snprintf(ret, size, "<= +%.0f", -row->reach);
		return (o->ours.p50 - o->floor.p50) * row->scale <= -row->reach;
	}
	if (row->reach == 0)
		return true;
	snprintf(ret, size, "%s %.*f", rate ? ">=" : "<=", row->reach < 0.1 ? 3 : 2, row->reach);
	return rate ? ratio(o) >= row->reach : ratio(o) <= row->reach;
}

void
report_row(const struct row *row, const struct result *r)
{
	char reach[16];
	bool good;

	if (!r->ran[0]) {
		printf("%-18s FAILED\n", row->name);
		return;
	}
	good = reached(row, &r->outcome[0], reach, sizeof(reach));
	printf("%-18s %-6s", row->name, row->unit);
	print_side(&r->outcome[0], row);
	printf(" %8s", reach);
	if (r->ran[1] && row->race.floor != NULL)
		printf(" %10.1f %10.1f %6.2f", r->outcome[1].ours.p50 * row->scale,
		    r->outcome[1].floor.p50 * row->scale, ratio(&r->outcome[1]));
	else if (r->ran[1])
		printf(" %10.1f %10s %6s", r->outcome[1].ours.p50 * row->scale, "-", "-");
	printf("%s\n", good ? "" : " *");
	fflush(stdout);
}

void
report_value(const struct value *v)
{
	bool small = v->reach > 0 && v->reach < 1;
	int digits = small ? 2 : 1;
	char reach[16];

	if (!v->has) {
		printf("%-18s not to be seen by this user\n", v->name);
		return;
	}
	snprintf(reach, sizeof(reach), "<= %.*f", small ? 2 : 0, v->reach);
	printf("%-18s %-6s%10.*f %10.*f %10s %10s %6s %8s%s\n", v->name, v->unit, digits,
	    v->figure.p50, digits, v->figure.p99, "-", "-", "-", reach,
	    v->figure.p50 > v->reach ? " *" : "");
}

/* ---- JSON ---- */

static FILE *json;
static const char *comma;

void
json_begin(FILE *f)
{
	json = f;
	comma = "[\n";
}

static void
json_sides(const struct row *row, const struct outcome *o)
{
	fprintf(json, "\"ours\": {\"p50\": %.3f, \"p99\": %.3f}, ", o->ours.p50 * row->scale,
	    o->ours.p99 * row->scale);
	if (row->race.floor != NULL)
		fprintf(json, "\"floor\": {\"p50\": %.3f, \"p99\": %.3f}, \"ratio\": %.3f",
		    o->floor.p50 * row->scale, o->floor.p99 * row->scale, ratio(o));
	else
		fprintf(json, "\"floor\": null, \"ratio\": null");
}

void
json_row(const struct row *row, const struct result *r)
{
	if (!r->ran[0])
		return;
	fprintf(json, "%s  {\"name\": \"%s\", \"unit\": \"%s\", ", comma, row->name, row->unit);
	comma = ",\n";
	json_sides(row, &r->outcome[0]);
	if (row->reach_ours > 0)
		fprintf(json, ", \"reach\": {\"ours\": {\"%s\": %.1f}}",
		    row->race.amount > 0 ? "at_least" : "at_most", row->reach_ours);
	else if (row->reach < 0)
		fprintf(json, ", \"reach\": {\"above_floor\": {\"at_most\": %.1f}}", -row->reach);
	else if (row->reach > 0)
		fprintf(json, ", \"reach\": {\"ratio\": {\"%s\": %.3f}}",
		    row->race.amount > 0 ? "at_least" : "at_most", row->reach);
	else
		fprintf(json, ", \"reach\": null");
	fprintf(json, ", \"samples\": %zu, \"file_system\": \"%s\", \"free\": ", r->outcome[0].n,
	    file_system());
	if (r->ran[1]) {
		fprintf(json, "{");
		json_sides(row, &r->outcome[1]);
		fprintf(json, "}");
	} else {
		fprintf(json, "null");
	}
	fprintf(json, "}");
}

/* A value has no floor, so its goal is for the value itself. */
void
json_value(const struct value *v)
{
	fprintf(json, "%s  {\"name\": \"%s\", \"unit\": \"%s\", \"ours\": ", comma, v->name,
	    v->unit);
	comma = ",\n";
	if (v->has)
		fprintf(json, "{\"p50\": %.3f, \"p99\": %.3f}", v->figure.p50, v->figure.p99);
	else
		fprintf(json, "null");
	fprintf(json,
	    ", \"floor\": null, \"ratio\": null, \"reach\": {\"ours\": {\"at_most\": %.2f}}}",
	    v->reach);
}

void
json_end(void)
{
	fprintf(json, "%s]\n", comma[0] == '[' ? "[\n" : "\n");
	if (fclose(json) != 0)
		err(1, "json");
}
