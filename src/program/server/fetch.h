/*
 * fetch: fetches a text from an external source on its own thread, each time on request, one fetch
 * at a time.
 *
 * Life: fetch_open before the reactor runs; fetch_begin on its thread; fetch_close after the
 * reactor has ended. fetch_close waits for a fetch in progress, so `get` has to check is_ending
 * while it waits.
 */
#ifndef TARRY_SERVER_FETCH_H
#define TARRY_SERVER_FETCH_H

#include "base/buffer.h"
#include "net/worker.h"

#include <stdatomic.h>

enum { FETCH_ERROR_BYTES = 512 };

struct fetch { /* zeroed: closed */
    struct work work;
    struct worker *worker;
    bool is_under_way;
    atomic_bool is_ending;
    /* Runs on the fetch's thread. Appends the text; returns 0, or negative errno with `error`. */
    int (*get)(void *ctx, struct fetch *fetch);
    /* Runs on the reactor's thread. */
    void (*got)(void *ctx, struct fetch *fetch);
    void *ctx;
    struct buffer text;
    int result;
    char error[FETCH_ERROR_BYTES];
};

/* Opens a fetch whose `get`, `got` and `ctx` are set. Returns false when out of memory or without a
 * thread. */
bool fetch_open(struct fetch *fetch, struct reactor *reactor, const char *name, size_t bytes_max);
/* Does nothing if a fetch is in progress. */
void fetch_begin(struct fetch *fetch);
void fetch_close(struct fetch *fetch);

#endif
