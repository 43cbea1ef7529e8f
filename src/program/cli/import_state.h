/*
 * import_state: how far an import has come, kept in a small file, so that it can be gone on with
 * after whatever ended it.
 *
 *   {"tarry_import":1,"url":URL,"line":N,"hash":HASH}
 *
 * Says that the first N lines are in the server at URL (or were refused); HASH is that of these
 * lines, so that another input is not taken for the same. Replaced as a whole, at most once a
 * second; gone once the end of the input was reached. One thread.
 */
#ifndef TARRY_CLI_IMPORT_STATE_H
#define TARRY_CLI_IMPORT_STATE_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum { IMPORT_STATE_LINES = 1 << 16 }; /* as far as what is done may be behind what was read */

struct import_state {
    const char *path; /* NULL: nothing is kept */
    const char *url;
    uint64_t line; /* of the file found at the start; 0: there was none */
    uint64_t line_hash;
    uint64_t kept_line; /* what the file says now */
    int64_t kept_us;
    uint64_t read, hash; /* how many lines were read, and theirs */
    uint64_t hashes[IMPORT_STATE_LINES];
};

/* An exit code, explained: the file cannot be read, or is not of an import into `url`. */
int import_state_open(struct import_state *state, const char *path, const char *url);
/* The next line of the input, the n-th from 1. False, explained: the state is of another input. */
bool import_state_add(struct import_state *state, struct slice line, uint64_t n);
/* The first `done` lines are in. Written now, or a moment later. */
int import_state_keep(struct import_state *state, uint64_t done, bool now);
/* Nothing is left to do. */
void import_state_remove(struct import_state *state);

#endif
