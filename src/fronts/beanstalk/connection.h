/*
 * connection: reads and writes the bytes of one client until either side closes. Does not interpret
 * commands.
 *
 * The owner embeds it in its own structure for the client. Input stays contiguous until it is
 * consumed. Output is collected and sent in one write when the owner asks for it. Reading stops
 * while the unread input reaches the length of the longest command. The owner must not begin a
 * command while too much output is unsent, or while the client does not read and one answer waits
 * behind those being sent. Then little input is read, too. All buffers are counted in a budget. While the budget is
 * spent, the connection reads ahead only a little, and the owner may answer only after earlier
 * output has been sent.
 *
 * Used on the loop's thread only. Life cycle: open, any number of calls, end (by either side),
 * `gone`. A hold delays `gone` until its release, so that replies of a queue find the connection.
 */
#ifndef TARRY_BEANSTALK_CONNECTION_H
#define TARRY_BEANSTALK_CONNECTION_H

#include "base/buffer.h"
#include "net/budget.h"
#include "net/outflow.h"

#include <uv.h>

enum {
    BEANSTALK_READ_BYTES = 64 * 1024,      /* per read */
    BEANSTALK_UNSENT_BYTES_MAX = 64 * 1024 /* limit above which no command may begin */
};

struct beanstalk_connection;

/* Callbacks to the owner. */
struct beanstalk_connection_events {
    /* Input has arrived, the input has ended (`has_ended`), or all output has been sent. */
    void (*ready)(struct beanstalk_connection *connection);
    /* The time set by beanstalk_connection_wake has come. */
    void (*woken)(struct beanstalk_connection *connection);
    /* The connection has ended. Called once; nothing more is read or sent. */
    void (*ended)(struct beanstalk_connection *connection);
    /* No operation is in progress any longer, so the owner may free the memory. */
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
    struct outflow outflow; /* of `writing` */
    struct buffer in, out, writing;
    struct budget *budget;
    size_t counted;         /* bytes counted in the budget */
    size_t in_at;           /* number of consumed bytes in `in` */
    size_t input_bytes_max; /* limit of unread input above which reading stops */
    /* size of the command at the front, if the budget has room for it; otherwise 0 */
    size_t wanted_bytes;
    char *read_at; /* buffer of BEANSTALK_READ_BYTES, shared by all connections of a loop */
    uint32_t handles, holds;
    bool is_closing, is_reading, is_writing;
    bool has_ended; /* the client sends no more */
};

/* Opens a connection on `fd` and takes ownership of it. On failure, the connection ends through
 * `ended` and `gone`. The caller zeroes the memory; `read_at` and `budget` must outlive the
 * connection. */
void beanstalk_connection_open(struct beanstalk_connection *connection, struct reactor *reactor,
                               int fd, bool is_unix, size_t bytes_max, char *read_at,
                               struct budget *budget,
                               const struct beanstalk_connection_events *events);
void beanstalk_connection_end(struct beanstalk_connection *connection);

void beanstalk_connection_hold(struct beanstalk_connection *connection);
/* Releases a hold. A connection that has ended may then be freed. */
void beanstalk_connection_release(struct beanstalk_connection *connection);

/* Returns the unconsumed input. Valid until it is consumed or the owner returns to the loop. */
struct slice beanstalk_connection_input(const struct beanstalk_connection *connection);
void beanstalk_connection_consume(struct beanstalk_connection *connection, size_t bytes);

/* Announces the size of the command at the front, for which the budget has room. Moves the input. */
void beanstalk_connection_want(struct beanstalk_connection *connection, size_t bytes);

/* Returns true if unsent answers and the budget permit another command. */
bool beanstalk_connection_may_answer(const struct beanstalk_connection *connection);

/* Returns how many bytes of a write in progress the socket has not taken yet. */
size_t beanstalk_connection_unsent(const struct beanstalk_connection *connection);

/* Sends `out` and resumes reading if there is room. May end the connection. */
void beanstalk_connection_go_on(struct beanstalk_connection *connection);

/* Schedules `woken` in `in_ms` milliseconds and replaces an earlier schedule. A negative value
 * cancels it. */
void beanstalk_connection_wake(struct beanstalk_connection *connection, int64_t in_ms);

#endif
