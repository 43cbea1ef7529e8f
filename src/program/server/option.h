/*
 * option: something that can be configured: a row of a table, which says how its value is written and
 * where in a struct it lies. Pure.
 */
#ifndef TARRY_SERVER_OPTION_H
#define TARRY_SERVER_OPTION_H

#include "access/limits.h"
#include "server/address.h"
#include "store/wal.h"

#include <stddef.h>

enum option_kind {
    OPTION_TEXT = 1, /* char[OPTION_TEXT_BYTES] */
    OPTION_NAMES,    /* the same: host names; given again on the command line they are added */
    OPTION_ORIGINS,  /* the same: origins of pages */
    OPTION_LISTEN,   /* struct option_listen; given again in the same place they are added */
    OPTION_SYNC,     /* struct option_sync */
    OPTION_CHOICE,   /* uint32_t: one of `values`, kept as its number from 1 */
    OPTION_COUNT,    /* uint32_t */
    OPTION_BYTES,    /* int64_t */
    OPTION_DURATION, /* int64_t, milliseconds */
    OPTION_RATE,     /* struct access_rate; empty: none */
    OPTION_SHARE,    /* uint32_t: of all, in billionths */
    OPTION_SWITCH,   /* bool */
    OPTION_CLOCK /* int64_t: a switch that may be given a time; 0: off, OPTION_CLOCK_NOW: on without one */
};

enum { OPTION_TEXT_BYTES = 1024, OPTION_LISTEN_MAX = 16, OPTION_CLOCK_NOW = -1 };

struct option_sync {
    enum wal_sync kind;
    int64_t interval_ms; /* WAL_SYNC_INTERVAL */
};

struct option_listen {
    struct listener_options at[OPTION_LISTEN_MAX];
    uint32_t count;
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

/* Sets the field of `option` within `base` from text; `more`: it was set in the same place before.
 * False, nothing changed, where it will not do; `why` may say what would. */
bool option_set(const struct option *option, void *base, const char *text, bool more,
                char why[ADDRESS_ERROR_BYTES]);
/* Says what would do: "give a number from 1 to 64". */
void option_describe(const struct option *option, char *out, size_t out_bytes);

/* Of the field. */
size_t option_bytes(const struct option *option);
/* Do both fields say the same? */
bool option_is_same(const struct option *option, const void *a, const void *b);

#endif
