/*
 * load_protocol: how the load engine speaks with one kind of server.
 *
 * A protocol is a table of functions over a `struct load_speech` of its own: requests rendered
 * ahead as far as they can be. Answers come in the order of the requests on each connection.
 * Nothing here blocks, except `open`.
 */
#ifndef TARRY_LOAD_PROTOCOL_H
#define TARRY_LOAD_PROTOCOL_H

#include "base/buffer.h"
#include "load/body.h"
#include "load/load.h"

struct load_speech; /* each protocol defines what it needs */

enum load_kind { LOAD_GREET = 1, LOAD_PUSH, LOAD_TAKE, LOAD_ACK };

enum load_outcome {
    LOAD_ANSWER = 1, /* one answer is complete and described */
    LOAD_PARTIAL,    /* more bytes are needed; `need` says how many in all, at least */
    LOAD_BROKEN      /* this is no answer of that protocol; `problem` says what came */
};

struct load_item { /* a job taken; valid as long as the bytes it was parsed from */
    struct slice lease, body;
    int64_t due_ms; /* wall clock, as the server tells it; 0: it does not */
};

struct load_answer {
    size_t bytes;    /* how long it is */
    size_t need;     /* PARTIAL: try again when so many bytes are there */
    uint64_t failed; /* how many of the jobs it speaks of were refused; at most `expected` counts */
    unsigned item_count;
    struct load_item items[LOAD_TAKE_MAX];
    struct slice problem; /* where failed or broken: what the server said */
};

struct load_protocol {
    const char *name;
    const char *port;      /* the default one */
    int64_t delay_unit_ms; /* delays are whole multiples of this */
    unsigned batch_max;    /* jobs in one push */
    /* A consumer acks over a connection of its own: answers come in order, and those to acks wait
     * for the disk, which no delivery behind them should have to. */
    bool acks_apart;
    int64_t poll_us; /* after a take that brought nothing: wait so long. 0: the server waits */

    /* NULL with `problem` filled in when the server cannot be used. Strings of the plan must
     * outlive the speech. */
    struct load_speech *(*open)(const struct load_plan *plan, uint32_t run,
                                char problem[LOAD_TEXT_BYTES_MAX]);
    void (*close)(struct load_speech *speech);

    /* One request that pushes these jobs; it gets one answer. */
    void (*push)(struct load_speech *speech, struct buffer *out, const struct load_stamp *stamps,
                 unsigned count);

    /* Each appends requests to `out` and returns how many answers to expect for them. */
    unsigned (*greet)(struct load_speech *speech, struct buffer *out); /* NULL: no greeting */
    unsigned (*take)(struct load_speech *speech, struct buffer *out, unsigned got_last_time);
    unsigned (*ack)(struct load_speech *speech, struct buffer *out, const struct load_item *items,
                    unsigned count);

    /* Looks at the first answer in `bytes`, which is to a request of this kind about `count` jobs.
     */
    enum load_outcome (*parse)(struct load_speech *speech, enum load_kind kind, uint32_t count,
                               struct slice bytes, struct load_answer *answer);
};

extern const struct load_protocol load_http;

#endif
