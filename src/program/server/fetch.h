/*
 * fetch: a text from elsewhere, got on a thread of its own, as often as it is asked for, one at a
 * time.
 *
 * Life: fetch_open before the reactor runs; fetch_begin on its thread; fetch_close after it has ended,
 * which waits for what is under way: whoever gets looks at is_ending while he waits.
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
    /* On the fetch's thread: the text, appended; 0 or negative errno with `error`. */
    int (*get)(void *ctx, struct fetch *fetch);
    /* On the reactor's. */
    void (*got)(void *ctx, struct fetch *fetch);
    void *ctx;
    struct buffer text;
    int result;
    char error[FETCH_ERROR_BYTES];
};

/* `get`, `got` and `ctx` are set. False: no memory or no thread. */
bool fetch_open(struct fetch *fetch, struct reactor *reactor, const char *name, size_t bytes_max);
/* Nothing where one is under way. */
void fetch_begin(struct fetch *fetch);
void fetch_close(struct fetch *fetch);

#endif
