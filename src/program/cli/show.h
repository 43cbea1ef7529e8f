/*
 * show: answers as people read them: tables, local times, bodies cut short. What comes from a
 * server is never let through to the terminal as control bytes.
 */
#ifndef TARRY_CLI_SHOW_H
#define TARRY_CLI_SHOW_H

#include "base/timestamp.h"
#include "base/vector.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A table: the first row is the head. Columns are as wide as their widest cell. */
enum { SHOW_COLUMNS_MAX = 10, SHOW_CELL_BYTES = 256 };

struct show_cell {
    char text[SHOW_CELL_BYTES];
};
VECTOR_DECLARE(show_cells, struct show_cell)

struct show_table {
    struct show_cells cells;
    size_t columns;
    bool right[SHOW_COLUMNS_MAX]; /* columns of numbers */
};

/* Heads ended by NULL; one that starts with '>' is a column of numbers. */
void show_table_init(struct show_table *table, const char *const *heads);
void show_table_fini(struct show_table *table);
/* The next cell, row by row. NULL: empty. */
void show_table_add(struct show_table *table, const char *text);
void show_table_print(const struct show_table *table);

/* Control bytes become '?': what comes from a server moves no cursor. */
void show_disarm(char *text);

/* A value as a cell: a string as it is, another value as JSON; absent or null: "". Returns `out`.
 */
const char *show_text(const json_t *value, char out[SHOW_CELL_BYTES]);
/* A time of the API ("…Z") as "2026-11-20 09:00:00.000" where the user lives. */
const char *show_time(const json_t *value, char out[SHOW_CELL_BYTES]);
/* The same with "in 29m 12s" or "3s ago" in brackets. */
const char *show_time_from_now(const json_t *value, char out[SHOW_CELL_BYTES]);
/* The reverse of both: RFC 3339 into `out`. False where it is no such time; *out is unspecified
 * then. */
bool show_time_read(const char *text, char out[TIMESTAMP_BYTES + 1]);
/* A number of milliseconds as "12ms", "1m 3s". */
const char *show_span(const json_t *ms, char out[SHOW_CELL_BYTES]);
/* A job's body in at most `columns` columns. */
const char *show_body(const json_t *job, size_t columns, char out[SHOW_CELL_BYTES]);

#endif
