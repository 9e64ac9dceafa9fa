/* SPDX-License-Identifier: Apache-2.0 */
/* Print the results as a table on standard output, and as JSON. */
#ifndef KODA_BENCH_REPORT_H
#define KODA_BENCH_REPORT_H

#include <stdio.h>

#include "bench/bench.h"

struct result {
	bool ran[2]; /* [0]: on one processor; [1]: on all */
	struct outcome outcome[2];
};

void report_head(void);
void report_row(const struct row *row, const struct result *r);
void report_value(const struct value *value);

/* json_begin() takes ownership of f, json_end() closes it. A row that did not run is left out. */
void json_begin(FILE *f);
void json_row(const struct row *row, const struct result *r);
void json_value(const struct value *value);
void json_end(void);

#endif
