/*
 * show: answers as people read them: tables, local times, bodies cut short. What comes from a
 * server reaches the terminal only as characters that it shows.
 */
#ifndef TARRY_CLI_SHOW_H
#define TARRY_CLI_SHOW_H

#include "base/timestamp.h"
#include "base/vector.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

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

/* Turns each character that a terminal would obey (text_unshown_bytes) into '?'. */
void show_disarm(char *text);

/* Writes JSON for a program that may have a terminal behind it: characters that a terminal would obey are
 * escaped, which changes no value. Blanks between values stay. False: it cannot be written. */
bool show_json_text(struct slice json, FILE *out);
/* The same for a value, as one line. */
bool show_json(const json_t *value, FILE *out);

/* A value as a cell: a string as it is, another value as JSON; absent or null: "". Returns `out`.
 */
const char *show_text(const json_t *value, char out[SHOW_CELL_BYTES]);
/* A time of the API ("…Z") as "2026-11-20 09:00:00.000+01:00" where the user lives. */
const char *show_time(const json_t *value, char out[SHOW_CELL_BYTES]);
/* The same with "in 29m 12s" or "3s ago" in brackets. */
const char *show_time_from_now(const json_t *value, char out[SHOW_CELL_BYTES]);
/* A number of milliseconds as "12ms", "1m 3s". */
const char *show_span(const json_t *ms, char out[SHOW_CELL_BYTES]);
/* A job's body in at most `columns` columns. */
const char *show_body(const json_t *job, size_t columns, char out[SHOW_CELL_BYTES]);

#endif
