/*
 * load_protocol: the load engine's interface to one kind of server.
 *
 * A protocol is a table of functions over its own `struct load_speech`, which holds requests
 * rendered in advance as far as possible. On each connection, answers come in the order of the
 * requests. Only `open` blocks.
 */
#ifndef TARRY_LOAD_PROTOCOL_H
#define TARRY_LOAD_PROTOCOL_H

#include "base/buffer.h"
#include "load/body.h"
#include "load/load.h"

struct load_speech; /* defined by each protocol */

enum load_kind { LOAD_GREET = 1, LOAD_PUSH, LOAD_TAKE, LOAD_ACK };

enum load_outcome {
    LOAD_ANSWER = 1, /* one answer is complete and described */
    LOAD_PARTIAL,    /* more bytes are needed; `need` is a lower bound of the total */
    LOAD_BROKEN      /* not an answer of this protocol; `problem` shows what was received */
};

struct load_item { /* a taken job; valid as long as the bytes it was parsed from */
    struct slice lease, body;
    int64_t due_ms; /* wall clock, as returned by the server; 0: not given */
};

struct load_answer {
    size_t bytes;    /* length of the answer */
    size_t need;     /* PARTIAL: parse again when this many bytes are available */
    uint64_t failed; /* rejected jobs in the answer; at most `expected` counts */
    unsigned item_count;
    struct load_item items[LOAD_TAKE_MAX];
    struct slice problem; /* if failed or broken: the server's message */
};

struct load_protocol {
    const char *name;
    const char *port;      /* default port */
    int64_t delay_unit_ms; /* delays are whole multiples of this */
    unsigned batch_max;    /* jobs in one push */
    /* Whether a consumer acks over a separate connection. Answers come in order, and answers to
     * acks wait for the disk, which must not hold up the deliveries behind them. */
    bool acks_apart;
    int64_t poll_us; /* pause after an empty take; 0: the server waits */

    /* Opens a speech. Returns NULL and fills in `problem` if the server cannot be used. Strings
     * of the plan must outlive the speech. */
    struct load_speech *(*open)(const struct load_plan *plan, uint32_t run,
                                char problem[LOAD_TEXT_BYTES_MAX]);
    void (*close)(struct load_speech *speech);

    /* Appends one request that pushes these jobs; it gets one answer. */
    void (*push)(struct load_speech *speech, struct buffer *out, const struct load_stamp *stamps,
                 unsigned count);

    /* Append requests to `out` and return the number of answers to expect. */
    unsigned (*greet)(struct load_speech *speech, struct buffer *out); /* NULL: no greeting */
    unsigned (*take)(struct load_speech *speech, struct buffer *out, unsigned got_last_time);
    unsigned (*ack)(struct load_speech *speech, struct buffer *out, const struct load_item *items,
                    unsigned count);

    /* Parses the first answer in `bytes`, which answers a request of this kind about `count`
     * jobs. */
    enum load_outcome (*parse)(struct load_speech *speech, enum load_kind kind, uint32_t count,
                               struct slice bytes, struct load_answer *answer);
};

extern const struct load_protocol load_http;

#endif
