/*
 * export_file: where an export goes, and where one that was cut short can be gone on with.
 *
 * A file is never written over: it is new, or it is an export's beginning. One thread.
 */
#ifndef TARRY_CLI_EXPORT_FILE_H
#define TARRY_CLI_EXPORT_FILE_H

#include "cli/dump.h"

#include <stdio.h>

struct export_file {
    const char *path; /* NULL: standard output */
    FILE *out;        /* NULL: not open */
};

/* How far a file has come. */
struct export_state {
    dump_name *names; /* topics to be exported, in their order; give back with free() */
    size_t name_count;
    size_t topics;       /* written */
    uint64_t jobs;       /* written */
    size_t at;           /* the topic to go on with */
    bool has_topic_line; /* of that one */
    char cursor[DUMP_CURSOR_BYTES_MAX];
    bool is_complete;
};

/* Each returns an exit code, explained. */
int export_file_create(struct export_file *file);
/* What stands there is read, and cut off behind a page that is whole. Jobs that stand there may be
 * written once more. */
int export_file_resume(struct export_file *file, struct export_state *state);
int export_file_write(struct export_file *file, struct buffer *lines); /* empties it */
int export_file_close(struct export_file *file);                       /* on disk */

/* False: out of memory. */
bool export_state_add(struct export_state *state, const char *name);

#endif
