/*
 * option: a configuration option: a row of a table with the format of its value and its position in
 * a struct. Pure.
 */
#ifndef TARRY_SERVER_OPTION_H
#define TARRY_SERVER_OPTION_H

#include "access/limits.h"
#include "server/address.h"
#include "store/wal.h"

#include <stddef.h>

enum option_kind {
    OPTION_TEXT = 1, /* char[OPTION_TEXT_BYTES] */
    OPTION_NAMES,    /* the same type: host names; repeated flags add to it */
    OPTION_ORIGINS,  /* the same type: origins of web pages */
    OPTION_LISTEN,   /* struct option_listen; if repeated in the same place, listeners are added */
    OPTION_SYNC,     /* struct option_sync */
    OPTION_CHOICE,   /* uint32_t: one of `values`, stored as its number from 1 */
    OPTION_COUNT,    /* uint32_t */
    OPTION_BYTES,    /* int64_t */
    OPTION_DURATION, /* int64_t, milliseconds */
    OPTION_RATE,     /* struct access_rate; may be empty */
    OPTION_SHARE,    /* uint32_t: a fraction in billionths */
    OPTION_SWITCH,   /* bool */
    /* int64_t: a switch with an optional time; 0: off, OPTION_CLOCK_NOW: on without a time */
    OPTION_CLOCK
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
    const char *values;  /* name of the value in the help; for a choice all values, "a|b" */
    size_t offset;       /* of the field in the table's struct */
    const char *initial; /* the default */
    int64_t least, most; /* for numbers only */
    const char *help;
};

/* Parses `text` into the field of `option` in `base`. `more` is true if it was already set in the
 * same place. Returns false and changes nothing if the value is invalid; `why` may then describe
 * valid values. */
bool option_set(const struct option *option, void *base, const char *text, bool more,
                char why[ADDRESS_ERROR_BYTES]);
/* Describes valid values: "give a number from 1 to 64". */
void option_describe(const struct option *option, char *out, size_t out_bytes);

/* Returns the size of the field. */
size_t option_bytes(const struct option *option);
/* Returns true if both fields have the same value. */
bool option_is_same(const struct option *option, const void *a, const void *b);

#endif
