/*
 * load_conn: one connection of the generator: bytes waiting to be sent, bytes received but not yet
 * understood, and which answers are still to come, in order.
 *
 * Owner: the engine. Never blocks. Errors end the run, so they are sentences for people.
 */
#ifndef TARRY_LOAD_CONN_H
#define TARRY_LOAD_CONN_H

#include "load/protocol.h"

struct load_expected {
    int64_t sent_us;
    uint32_t count; /* jobs */
    uint32_t kind;  /* enum load_kind */
};

enum load_role { LOAD_PUSHER = 1, LOAD_CONSUMER, LOAD_ACKER };

struct load_conn {
    int fd;
    enum load_role role;
    struct load_conn *acker; /* of a consumer: where its acks go, maybe itself */
    bool blocked;            /* the socket takes no more: waiting for EPOLLOUT */
    struct buffer out;
    size_t out_sent;
    struct buffer in;
    size_t in_need;                 /* no use looking before so many bytes are there */
    struct load_expected *expected; /* a ring */
    uint32_t expected_mask, expected_head, expected_tail;
    unsigned waiting[LOAD_ACK + 1]; /* answers to come, by kind */
    unsigned got;                   /* jobs taken in this round */
    int64_t take_at_us;             /* not before; 0: at once */
};

/* `to_second`: to the plan's second server. */
bool load_conn_open(struct load_conn *conn, const struct load_plan *plan, enum load_role role,
                    bool to_second, char problem[LOAD_TEXT_BYTES_MAX]);
void load_conn_close(struct load_conn *conn);

/* Notes that `answers` answers will come, which share `count` jobs evenly. */
void load_conn_expect(struct load_conn *conn, enum load_kind kind, unsigned answers, uint32_t count,
                      int64_t sent_us);

/* The answer that comes next; NULL when none is expected. Settle it when it has come. */
const struct load_expected *load_conn_next(const struct load_conn *conn);
void load_conn_settle(struct load_conn *conn);

/* Nothing is to be sent or to come. */
bool load_conn_is_idle(const struct load_conn *conn);

/* Sends and receives what goes without waiting. False with `problem` when the connection is lost.
 */
bool load_conn_send(struct load_conn *conn, char problem[LOAD_TEXT_BYTES_MAX]);
bool load_conn_receive(struct load_conn *conn, char problem[LOAD_TEXT_BYTES_MAX]);

/* Drops the first bytes received. */
void load_conn_consume(struct load_conn *conn, size_t bytes);

#endif
