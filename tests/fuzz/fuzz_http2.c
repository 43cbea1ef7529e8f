/* Frames of HTTP/2 against a front with two calls, one that echoes its body and one that echoes in
 * both directions. The first byte chooses the sizes of the reads, and whether the rest are raw bytes
 * after the preface or frames in a short form, so that more of them are valid: a type, flags, a
 * stream, a length, and the payload. */
#include "http/http2_call.h"

#include "claim.h"

#include "http/front.h"
#include "http/state.h"
#include "net/listener.h"
#include "queue/waiter.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { IS_RAW = 1, IS_CUT = 2, OUT_BYTES = 1 << 18, RUNS = 40, RUNS_MAX = 4000 };

static struct {
    struct queue queue;
    struct reactor *reactor;
    struct waiters *waiters;
    struct http_shared *shared;
    struct http_front *front;
    struct listeners listeners;
    uint64_t used; /* of the budget without connections */
    int open_calls;
} rig;

/* ---- calls ---- */

static void echo(struct http_call *call)
{
    struct buffer *body = http_answer_start(call->exchange);
    buffer_append_slice(body, call->request->body);
    http_answer_field(call->exchange, "X-Echo", slice_of("yes"));
    http_answer_trailer(call->exchange, "X-Trailer", slice_of("yes"));
    http_answer_end(call->exchange, 200, "text/plain");
}

static void on_data(void *ctx, struct slice bytes)
{
    struct http2_call *call = *(struct http2_call **)ctx;
    struct queue_job job = {.lease = slice_of("lease")};
    (void)http2_note_leases(call, &job, 0, bytes.len);
    (void)http2_send(call, bytes);
    http2_consumed(call, bytes.len);
    if (bytes.len && *bytes.at == 'r')
        http2_reset(call, 2);
}

static void on_end(void *ctx)
{
    struct http2_call *call = *(struct http2_call **)ctx;
    http2_trailer(call, "X-Trailer", slice_of("yes"));
    http2_end(call);
}

static void on_close(void *ctx, uint64_t written, bool is_whole)
{
    (void)written;
    (void)is_whole;
    rig.open_calls--;
    free(ctx);
}

static const struct http2_receiver receiver = {
    .on_data = on_data, .on_end = on_end, .on_close = on_close};

static void stream(struct http_call *call)
{
    struct http2_call **ctx = calloc(1, sizeof(struct http2_call *));
    if (!call->exchange->frames) { /* HTTP/1.1 */
        free(ctx);
        http_answer_problem(call->exchange, PROBLEM_BAD_REQUEST, 0, "not HTTP/2");
        return;
    }
    (void)http_answer_start(call->exchange);
    rig.open_calls++;
    *ctx = http2_open(call->exchange, call->caller, "text/plain", &receiver, ctx);
    if (!*ctx) {
        rig.open_calls--;
        free(ctx);
    }
}

static const struct http_route routes[] = {
    {.method = HTTP_METHOD_POST,
     .scope = HTTP_FOR_CALLERS,
     .topics = HTTP_TOPICS_NONE,
     .body = HTTP_BODY_JOB,
     .pattern = "/e",
     .name = "echo",
     .handle = echo},
    {.method = HTTP_METHOD_POST,
     .scope = HTTP_FOR_CALLERS,
     .topics = HTTP_TOPICS_NONE,
     .answer = HTTP_ANSWER_STREAM,
     .takes_frames = true,
     .pattern = "/s",
     .name = "stream",
     .handle = stream},
    {0},
};

/* ---- the front ---- */

static void run_loop(int times)
{
    for (int i = 0; i < times; i++)
        (void)uv_run(reactor_loop(rig.reactor), UV_RUN_NOWAIT);
}

static void open_rig(void)
{
    char error[LISTENER_ERROR_BYTES];
    (void)signal(SIGPIPE, SIG_IGN);
    struct listener_options loopback = {.kind = LISTENER_TCP};
    struct sockaddr_in *address = (struct sockaddr_in *)&loopback.address;
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CLAIM("a listener opens", listeners_open(&rig.listeners, &loopback, 1, error));
    struct http_options options = {.listeners = &rig.listeners, .allowed_hosts = "a"};
    rig.reactor = reactor_new(0);
    rig.waiters = waiters_new(&rig.queue, 10);
    rig.shared = http_shared_new("test");
    http_shared_add_routes(rig.shared, routes, NULL);
    http_shared_set_ready(rig.shared, true);
    CLAIM("a front opens", http_front_new(rig.reactor, &rig.queue, rig.waiters, &options,
                                          rig.shared, &rig.front, error) == 0);
    run_loop(RUNS);
    rig.used = budget_used(http_shared_budget(rig.shared));
}

static int dial(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(rig.listeners.at[0].address.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CLAIM("a client connects", connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

/* ---- input ---- */

/* Writes the bytes of a connection to `out`. Returns their number. */
static size_t write_frames(const uint8_t *bytes, size_t len, bool is_raw, uint8_t *out)
{
    static const char begin[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    size_t at = sizeof begin;
    memcpy(out, begin, sizeof begin); /* with the last 0 of the head of SETTINGS */
    if (is_raw) {
        len = len < OUT_BYTES - at ? len : OUT_BYTES - at;
        memcpy(out + at, bytes, len);
        return at + len;
    }
    while (len >= 4 && at + 9 + 255 < OUT_BYTES) {
        size_t payload = bytes[3] < len - 4 ? bytes[3] : len - 4;
        uint8_t head[9] = {0, 0, (uint8_t)payload, bytes[0], bytes[1], 0, 0, 0, bytes[2]};
        memcpy(out + at, head, sizeof head);
        memcpy(out + at + sizeof head, bytes + 4, payload);
        at += sizeof head + payload;
        bytes += 4 + payload;
        len -= 4 + payload;
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static uint8_t out[OUT_BYTES], answer[65536];
    if (len == 0)
        return 0;
    if (!rig.front)
        open_rig();
    size_t all = write_frames(bytes + 1, len - 1, bytes[0] & IS_RAW, out);
    size_t step = bytes[0] & IS_CUT ? 1 + (size_t)(bytes[0] >> 2) : all;
    int fd = dial();
    for (size_t at = 0; at < all; at += step) {
        ssize_t sent =
            send(fd, out + at, at + step < all ? step : all - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        run_loop(1);
        while (recv(fd, answer, sizeof answer, MSG_DONTWAIT) > 0)
            ;
        if (sent < 0)
            break;
    }
    run_loop(RUNS);
    close(fd);
    for (int i = 0; i < RUNS_MAX && budget_used(http_shared_budget(rig.shared)) != rig.used; i++)
        run_loop(1);
    CLAIM("a connection that has ended holds no memory",
          budget_used(http_shared_budget(rig.shared)) == rig.used);
    CLAIM("and no call", rig.open_calls == 0);
    return 0;
}
