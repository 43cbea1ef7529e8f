/*
 * import_state: the progress of an import, kept in a small file so that an interrupted import can
 * be resumed.
 *
 * {"tarry_import":1,"url":URL,"line":N,"hash":HASH}
 *
 * The first N lines are stored in the server at URL (or were rejected). HASH is the hash of these
 * lines, so that another input is not mistaken for the same. The file is replaced atomically, at
 * most once a second, and removed at the end of the input. One thread.
 */
#ifndef TARRY_CLI_IMPORT_STATE_H
#define TARRY_CLI_IMPORT_STATE_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum { IMPORT_STATE_LINES = 1 << 16 }; /* maximum lines read but not yet done */

struct import_state {
    const char *path; /* NULL: no progress is kept */
    const char *url;
    uint64_t line; /* of the file found at the start; 0: no file */
    uint64_t line_hash;
    uint64_t kept_line; /* line in the file now */
    int64_t kept_us;
    uint64_t read, hash; /* number of lines read, and their hash */
    uint64_t hashes[IMPORT_STATE_LINES];
};

/* Reads the state file. Returns an exit code after printing an error if the file cannot be read
 * or belongs to an import into another URL. */
int import_state_open(struct import_state *state, const char *path, const char *url);
/* Adds the next line of the input, line n counted from 1. Returns false after printing an error
 * if the state belongs to another input. */
bool import_state_add(struct import_state *state, struct slice line, uint64_t n);
/* Records that the first `done` lines are stored. Writes the file if `now` is set, else possibly
 * later. */
int import_state_keep(struct import_state *state, uint64_t done, bool now);
/* Removes the file when the import is complete. */
void import_state_remove(struct import_state *state);

#endif
