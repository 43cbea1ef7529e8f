/*
 * connection: the bytes of one client, in and out, and the end of both. It knows no command.
 *
 * Embedded in what its owner keeps of the client. What came stands in one piece until it is consumed; what
 * is answered is gathered and goes out as one write when the owner says so. Reading stops while there
 * is as much unread as the longest command takes; the owner begins no command while too much is unsent.
 * All its buffers are counted in a budget; while that is spent only little is read ahead, and nothing is
 * answered before what was answered earlier has gone out.
 *
 * One thread: the loop's. Life: open, any number of calls, end (by either side), `gone`. Between a
 * hold and its release it is not gone, so that replies of a queue find it.
 */
#ifndef TARRY_BEANSTALK_CONNECTION_H
#define TARRY_BEANSTALK_CONNECTION_H

#include "base/buffer.h"
#include "net/budget.h"

#include <uv.h>

enum {
    BEANSTALK_READ_BYTES = 64 * 1024,    /* at once */
    BEANSTALK_UNSENT_BYTES_MAX = 1 << 20 /* then no command is begun */
};

struct beanstalk_connection;

/* What the owner is told of. */
struct beanstalk_connection_events {
    /* Something came, or nothing more will (`has_ended`), or what was unsent has gone out. */
    void (*ready)(struct beanstalk_connection *connection);
    /* The moment of beanstalk_connection_wake. */
    void (*woken)(struct beanstalk_connection *connection);
    /* It ends, once: nothing more is read or sent. */
    void (*ended)(struct beanstalk_connection *connection);
    /* Nothing of it is under way any more, its memory may go. */
    void (*gone)(struct beanstalk_connection *connection);
};

struct beanstalk_connection {
    const struct beanstalk_connection_events *events;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    };
    uv_timer_t timer;
    uv_write_t write;
    struct buffer in, out, writing;
    struct budget *budget;
    size_t counted;         /* in the budget */
    size_t in_at;           /* of `in`: what is consumed */
    size_t input_bytes_max; /* unread, then reading stops */
    size_t
        wanted_bytes; /* the command at the front takes so many, and has room in the budget; else 0 */
    char *read_at;    /* BEANSTALK_READ_BYTES that all connections of a loop read into */
    uint32_t handles, holds;
    bool is_closing, is_reading, is_writing;
    bool has_ended; /* the client sends no more */
};

/* Takes `fd`. Where it fails it ends, by `ended` and `gone`. Its memory is zeroed; `read_at` and `budget`
 * outlive it. */
void beanstalk_connection_open(struct beanstalk_connection *connection, uv_loop_t *loop, int fd,
                               bool is_unix, size_t bytes_max, char *read_at, struct budget *budget,
                               const struct beanstalk_connection_events *events);
void beanstalk_connection_end(struct beanstalk_connection *connection);

void beanstalk_connection_hold(struct beanstalk_connection *connection);
/* It may be gone after that, where it has ended. */
void beanstalk_connection_release(struct beanstalk_connection *connection);

/* What came and is not consumed; good until it is consumed or the owner returns to the loop. */
struct slice beanstalk_connection_input(const struct beanstalk_connection *connection);
void beanstalk_connection_consume(struct beanstalk_connection *connection, size_t bytes);

/* The command at the front takes so many bytes, for which the budget has room. The input moves. */
void beanstalk_connection_want(struct beanstalk_connection *connection, size_t bytes);

/* May a command be begun, as far as unsent answers and the budget go? */
bool beanstalk_connection_may_answer(const struct beanstalk_connection *connection);

/* Sends what `out` has, in one write, and reads on where there is room. It may end by that. */
void beanstalk_connection_go_on(struct beanstalk_connection *connection);

/* `woken` in so many ms, in place of the moment before; negative: not at all. */
void beanstalk_connection_wake(struct beanstalk_connection *connection, int64_t in_ms);

#endif
