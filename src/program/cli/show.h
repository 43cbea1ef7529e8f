/*
 * show: human-readable answers: tables, local times, shortened bodies. Text from a server is
 * printed without characters that a terminal would interpret.
 */
#ifndef TARRY_CLI_SHOW_H
#define TARRY_CLI_SHOW_H

#include "base/timestamp.h"
#include "base/vector.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A table: the first row is the header. Columns are as wide as their widest cell. */
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

/* Initializes a table. `heads` ends with NULL; a head that starts with '>' is a column of
 * numbers. */
void show_table_init(struct show_table *table, const char *const *heads);
void show_table_fini(struct show_table *table);
/* Adds the next cell, row by row. NULL: empty. */
void show_table_add(struct show_table *table, const char *text);
void show_table_print(const struct show_table *table);

/* Replaces each character that a terminal would interpret (text_unshown_bytes) with '?'. */
void show_disarm(char *text);

/* Writes JSON for a program whose output may reach a terminal: characters that a terminal would
 * interpret are escaped, which changes no value. Blanks between values are kept. Returns false
 * if writing fails. */
bool show_json_text(struct slice json, FILE *out);
/* Returns the JSON of a value, which the caller frees, or NULL. Numbers have at most 15 digits if that keeps their values: the 17 digits that a
 * double may need would show 595.33 as 595.33000000000004. */
char *show_dump(const json_t *value);
/* Writes a value in the same way, as one line. */
bool show_json(const json_t *value, FILE *out);

/* Formats a value as a cell: a string unchanged, other values as JSON, absent or null as "".
 * Returns `out`. */
const char *show_text(const json_t *value, char out[SHOW_CELL_BYTES]);
/* Formats a time of the API ("…Z") as "2026-11-20 09:00:00.000+01:00" in the user's time zone. */
const char *show_time(const json_t *value, char out[SHOW_CELL_BYTES]);
/* Formats a time in the same way, followed by "in 29m 12s" or "3s ago" in parentheses. */
const char *show_time_from_now(const json_t *value, char out[SHOW_CELL_BYTES]);
/* Formats when a job is due as ", due …", or ", waits for its members" if it waits for them. */
const char *show_due(const json_t *job, char out[SHOW_CELL_BYTES]);
/* Formats a number of milliseconds as "12ms", "1m 3s". */
const char *show_span(const json_t *ms, char out[SHOW_CELL_BYTES]);
/* Formats a job's body in at most `columns` columns; bytes as their size, with the steps of a codec. */
const char *show_body(const json_t *job, size_t columns, char out[SHOW_CELL_BYTES]);
/* Formats the size and the type of a finished job's result: "9 bytes, application/json"; "" if it
 * has none. */
const char *show_result_size(const json_t *job, char out[SHOW_CELL_BYTES]);
/* Prints a text or JSON under a label: its lines in full, those after the first indented, up to
 * SHOW_LINES_BYTES in total. */
enum { SHOW_LINES_BYTES = 4096 };
void show_lines(const char *label, const json_t *value);

#endif
