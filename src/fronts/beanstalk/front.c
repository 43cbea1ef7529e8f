/* The front: accepting connections, starting and stopping. */
#include "beanstalk/commands.h"
#include "beanstalk/job_view.h"
#include "beanstalk/session.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { IDLE_MS = 3600 * 1000, LINE_MS = 10 * 1000, BODY_MS = 120 * 1000, WRITE_MS = 60 * 1000 };

/* ---- connections ---- */

static void on_connections(uv_poll_t *poll, int status, int events)
{
    enum { AT_ONCE = 64 };
    struct beanstalk_front *front = poll->data;
    struct listener *listener = front->options.listener;
    struct peer peer;
    (void)status;
    (void)events;
    for (int i = 0; i < AT_ONCE; i++) {
        int fd = listener_accept(listener, front->fd, &peer);
        if (fd < 0)
            return;
        if (front->connection_count >= front->options.connections_max)
            (void)close(fd);
        else
            beanstalk_session_open(front, fd, &peer, &beanstalk_dispatch);
    }
}

static void on_handle_closed(struct beanstalk_front *front)
{
    if (--front->open_handles || !front->is_stopping || !front->stopped)
        return;
    void (*stopped)(void *ctx) = front->stopped;
    front->stopped = NULL;
    stopped(front->stopped_ctx);
}

static void on_poll_closed(uv_handle_t *handle)
{
    on_handle_closed(handle->data);
}

/* ---- life ---- */

static void set_options(struct beanstalk_options *into, const struct beanstalk_options *given)
{
    *into = *given;
    if (!into->job_bytes_max)
        into->job_bytes_max = BEANSTALK_JOB_BYTES;
    if (!into->idle_ms)
        into->idle_ms = IDLE_MS;
    if (!into->line_ms)
        into->line_ms = LINE_MS;
    if (!into->body_ms)
        into->body_ms = BODY_MS;
    if (!into->write_ms)
        into->write_ms = WRITE_MS;
}

struct beanstalk_front *beanstalk_front_new(const struct beanstalk_options *options, char *error)
{
    struct beanstalk_front *front = calloc(1, sizeof *front);
    if (!front) {
        (void)error_text(error, BEANSTALK_ERROR_BYTES, "out of memory");
        return NULL;
    }
    set_options(&front->options, options);
    front->fd = -1;
    front->closed = on_handle_closed;
    list_init(&front->sessions);
    beanstalk_share_init(front);
    front->started_ms = clock_inner_ms();
    front->numbers = beanstalk_numbers_new(options->queue);
    front->read_at = malloc(BEANSTALK_READ_BYTES);
    snprintf(front->instance, sizeof front->instance, "%016" PRIx64, random_u64());
    if (!beanstalk_tubes_init(&front->tubes) || !beanstalk_aliases_init(front) || !front->numbers ||
        !front->read_at || !beanstalk_phases_init(front)) {
        (void)error_text(error, BEANSTALK_ERROR_BYTES, "out of memory");
        beanstalk_front_free(front);
        return NULL;
    }
    front->fd = listener_descriptor(options->listener, error);
    if (front->fd < 0) {
        beanstalk_front_free(front);
        return NULL;
    }
    return front;
}

void beanstalk_front_start(struct beanstalk_front *front)
{
    uv_loop_t *loop = reactor_loop(front->options.reactor);
    if (uv_poll_init(loop, &front->poll, front->fd) != 0)
        return;
    front->poll.data = front;
    front->is_polling = true;
    front->open_handles++;
    uv_poll_start(&front->poll, UV_READABLE, on_connections);
}

void beanstalk_front_stop(struct beanstalk_front *front, void (*stopped)(void *ctx), void *ctx)
{
    struct beanstalk_session *session;
    front->is_stopping = true;
    front->stopped = stopped;
    front->stopped_ctx = ctx;
    front->open_handles++; /* keeps the count above 0 until all handles have been asked to close */
    if (front->is_polling)
        uv_close((uv_handle_t *)&front->poll, on_poll_closed);
    front->is_polling = false;
    while ((session = beanstalk_session_first(front)))
        beanstalk_session_end(session);
    /* Does not call `stopped` here: the poll closes in a later loop iteration. */
    front->open_handles--;
}

void beanstalk_front_free(struct beanstalk_front *front)
{
    if (!front)
        return;
    if (front->fd >= 0)
        (void)close(front->fd);
    beanstalk_phases_fini(front);
    beanstalk_share_fini(front);
    beanstalk_numbers_free(front->numbers);
    beanstalk_tubes_fini(&front->tubes);
    beanstalk_aliases_fini(front);
    free(front->read_at);
    free(front);
}
