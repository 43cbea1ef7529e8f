#include "net/outflow.h"

#include "base/clock.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TEXT_BYTES = 4 * 1024 * 1024, RUNS_MAX = 100000 };

/* An outflow to one end of a pair of sockets. */
struct flow {
    struct outflow outflow;
    uv_pipe_t pipe;
    int reader;
    char *text;
    size_t read;
    int ended, status;
};

static void on_ended(struct outflow *outflow, int status)
{
    struct flow *flow = list_entry(outflow, struct flow, outflow);
    flow->ended++;
    flow->status = status;
}

static void flow_open(struct flow *flow, struct reactor *reactor)
{
    int fds[2];
    *flow = (struct flow){.text = malloc(TEXT_BYTES)};
    for (size_t i = 0; i < TEXT_BYTES; i++)
        flow->text[i] = (char)(i * 31 >> 5);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    flow->reader = fds[0];
    assert_int_equal(uv_pipe_init(reactor_loop(reactor), &flow->pipe, 0), 0);
    assert_int_equal(uv_pipe_open(&flow->pipe, fds[1]), 0);
    outflow_init(&flow->outflow, reactor, (uv_stream_t *)&flow->pipe, on_ended);
}

static void flow_close(struct flow *flow, struct reactor *reactor)
{
    uv_close((uv_handle_t *)&flow->pipe, NULL);
    (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    close(flow->reader);
    free(flow->text);
}

/* Reads what the socket has, and checks it. */
static void flow_read(struct flow *flow)
{
    static char bytes[100 * 1000];
    ssize_t got;
    while ((got = read(flow->reader, bytes, sizeof bytes)) > 0) {
        assert_memory_equal(bytes, flow->text + flow->read, (size_t)got);
        flow->read += (size_t)got;
    }
}

CLAIM(a_long_text_arrives_whole_at_a_slow_reader)
{
    struct reactor *reactor = reactor_new(0);
    struct flow flow;
    flow_open(&flow, reactor);
    assert_int_equal(outflow_start(&flow.outflow, flow.text, TEXT_BYTES), 0);
    for (int i = 0; i < RUNS_MAX && !flow.ended; i++) {
        size_t left = outflow_left(&flow.outflow);
        flow_read(&flow);
        assert_int_equal(flow.read, TEXT_BYTES - left);
        (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    }
    flow_read(&flow);
    assert_int_equal(flow.ended, 1);
    assert_int_equal(flow.status, 0);
    assert_int_equal(flow.read, TEXT_BYTES);
    flow_close(&flow, reactor);
    reactor_free(reactor);
}

CLAIM(a_short_text_is_written_immediately)
{
    struct reactor *reactor = reactor_new(0);
    struct flow flow;
    flow_open(&flow, reactor);
    assert_int_equal(outflow_start(&flow.outflow, flow.text, 1000), 1);
    flow_read(&flow);
    assert_int_equal(flow.read, 1000);
    assert_int_equal(flow.ended, 0);
    flow_close(&flow, reactor);
    reactor_free(reactor);
}

CLAIM(a_full_socket_has_no_more_than_a_probe)
{
    struct reactor *reactor = reactor_new(0);
    struct flow flow;
    flow_open(&flow, reactor);
    assert_int_equal(outflow_start(&flow.outflow, flow.text, TEXT_BYTES), 0);
    for (int i = 0; i < 100; i++)
        (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    size_t queued = uv_stream_get_write_queue_size((uv_stream_t *)&flow.pipe);
    assert_in_range(queued, 1, OUTFLOW_PROBE_BYTES);
    outflow_cancel(&flow.outflow);
    assert_int_equal(flow.ended, 0);
    flow_close(&flow, reactor);
    assert_int_equal(flow.ended, 1);
    assert_int_equal(flow.status, UV_ECANCELED);
    reactor_free(reactor);
}

/* Makes each iteration late before its tasks run. */
static bool be_late(void *ctx)
{
    struct reactor *reactor = ctx;
    while (!reactor_is_late(reactor))
        ;
    return true;
}

/* Lets a socket have room for everything. */
static bool has_room_for_text(const struct flow *flow)
{
    const int bytes = TEXT_BYTES;
    int fd, has = 0;
    socklen_t len = sizeof has;
    assert_int_equal(uv_fileno((const uv_handle_t *)&flow->pipe, &fd), 0);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &has, &len), 0);
    return has >= 16 * OUTFLOW_PIECE_BYTES;
}

CLAIM(in_late_iterations_outflows_alternate_by_pieces)
{
    struct reactor *reactor = reactor_new(0);
    struct flow flows[2];
    size_t done[2];
    for (size_t i = 0; i < 2; i++)
        flow_open(&flows[i], reactor);
    if (!has_room_for_text(&flows[0]) || !has_room_for_text(&flows[1]))
        skip();
    reactor_at_iteration_end(reactor, be_late, reactor);
    (void)be_late(reactor);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(outflow_start(&flows[i].outflow, flows[i].text, TEXT_BYTES), 0);
        done[i] = flows[i].outflow.done;
        assert_int_equal(done[i], OUTFLOW_PIECE_BYTES);
    }
    for (size_t i = 0; i < 6; i++) {
        (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
        done[i % 2] += OUTFLOW_PIECE_BYTES;
        assert_int_equal(flows[0].outflow.done, done[0]);
        assert_int_equal(flows[1].outflow.done, done[1]);
    }
    for (size_t i = 0; i < 2; i++) {
        outflow_cancel(&flows[i].outflow); /* waits for an iteration, not for its socket */
        assert_int_equal(flows[i].ended, 1);
        assert_int_equal(flows[i].status, UV_ECANCELED);
        flow_close(&flows[i], reactor);
    }
    reactor_free(reactor);
}

CLAIM(a_peer_that_left_ends_it_with_an_error)
{
    struct reactor *reactor = reactor_new(0);
    struct flow flow;
    flow_open(&flow, reactor);
    assert_int_equal(outflow_start(&flow.outflow, flow.text, TEXT_BYTES), 0);
    close(flow.reader);
    for (int i = 0; i < RUNS_MAX && !flow.ended; i++)
        (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    assert_int_equal(flow.ended, 1);
    assert_true(flow.status < 0);
    flow_close(&flow, reactor);
    reactor_free(reactor);
}

CLAIMS_MAIN(NULL, NULL)
