/*
 * option: one row of a table of options: its kind, its limits, its words; how its text becomes a
 * value. Pure.
 */
#ifndef TARRY_SERVER_OPTION_H
#define TARRY_SERVER_OPTION_H

#include "store/wal.h"

#include <stddef.h>

enum option_kind {
    OPTION_TEXT = 1, /* char[OPTION_TEXT_BYTES] */
    OPTION_NAMES,    /* the same: host names; given again on the command line they are added */
    OPTION_ADDRESS,  /* struct address */
    OPTION_SYNC,     /* struct option_sync */
    OPTION_CHOICE,   /* uint32_t: one of `values`, kept as its number from 1 */
    OPTION_COUNT,    /* uint32_t */
    OPTION_BYTES,    /* int64_t */
    OPTION_DURATION, /* int64_t, milliseconds */
    OPTION_SWITCH    /* bool */
};

enum { OPTION_TEXT_BYTES = 1024 };

struct option_sync {
    enum wal_sync kind;
    int64_t interval_ms; /* WAL_SYNC_INTERVAL */
};

struct option {
    const char *name;
    enum option_kind kind;
    const char *values;  /* how the value is called in the help; of a choice: all of them, "a|b" */
    size_t offset;       /* of the field, in the struct that the table is about */
    const char *initial; /* the default */
    int64_t least, most; /* numbers only */
    const char *help;
};

/* `option`'s field within `base` from text. False, nothing changed, where the text will not do. */
bool option_set(const struct option *option, void *base, const char *text);

/* What would do: "give a number from 1 to 64". */
void option_describe(const struct option *option, char *out, size_t out_bytes);

#endif
