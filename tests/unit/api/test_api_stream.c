/* Answers that stay open: how events are framed, what a slow client loses, and every end there is. */
#include "front_client.h"
#include "http/state.h"
#include "http/stream.h"
#include "unit/claim.h"

#define STREAM "GET /v1/stream HTTP/1.1\r\nHost: a\r\n\r\n"

/* ---- a server with a call that opens a stream ---- */

static struct streams {
    struct http_stream *open[HTTP_STREAMS_MAX + 1];
    atomic_int begun, ended;
} streams;

static void on_stream_end(void *ctx)
{
    *(struct http_stream **)ctx = NULL;
    atomic_fetch_add(&streams.ended, 1);
}

static void open_stream(struct http_call *call)
{
    int i = atomic_load(&streams.begun);
    streams.open[i] =
        http_stream_begin(call->exchange, call->caller, on_stream_end, &streams.open[i]);
    if (streams.open[i])
        atomic_fetch_add(&streams.begun, 1);
}

static void stream_server_start(struct server *server, struct http_options options)
{
    static const struct http_route route = {.method = HTTP_METHOD_GET,
                                            .pattern = "/v1/stream",
                                            .name = "stream",
                                            .handle = open_stream,
                                            .answer = HTTP_ANSWER_STREAM,
                                            .scope = ACCESS_READ,
                                            .topics = HTTP_TOPICS_SHOWN,
                                            .head_bytes = 10};
    memset(&streams, 0, sizeof streams);
    memset(server, 0, sizeof *server);
    server->fake.queue.ops = &fake_ops;
    front_rig_open(&server->rig, &server->fake.queue, options);
    server->rig.shared->routes[server->rig.shared->route_count++] = route;
    server->fake.reactor = server->rig.reactor;
    reactor_at_iteration_end(server->rig.reactor, fake_answer_held, &server->fake);
    assert_int_equal(reactor_start(server->rig.reactor), 0);
}

/* Work that the test gives to the reactor's thread and waits for. */
struct order {
    struct letter letter;
    struct server *server;
    int count, bytes; /* events of so many bytes */
    atomic_bool done;
};

static void order_run(struct server *server, void (*run)(struct letter *letter), int count,
                      int bytes)
{
    struct order order = {
        .letter.run = run, .server = server, .count = count, .bytes = bytes, .done = false};
    reactor_post(server->rig.reactor, &order.letter);
    while (!atomic_load(&order.done))
        usleep(100);
}

static struct order *order_of(struct letter *letter)
{
    return (struct order *)(void *)((char *)letter - offsetof(struct order, letter));
}

/* Sends {"n":0,"pad":"…"} and so on to all streams. */
static void send_events(struct letter *letter)
{
    static char text[HTTP_STREAM_BYTES_MAX + 100];
    struct order *order = order_of(letter);
    for (int i = 0; i < order->count; i++) {
        int len =
            snprintf(text, sizeof text, "{\"n\":%d,\"pad\":\"%0*d\"}", i, order->bytes - 20, 0);
        for (int k = 0; k < streams.begun; k++)
            if (streams.open[k])
                http_stream_send(streams.open[k], "tick", slice_make(text, (size_t)len));
    }
    atomic_store(&order->done, true);
}

enum { LOST_OF_FEED = 7 };

/* Sends gaps of the feed between events. In one loop iteration, so that the stream has to drop both. */
static void send_gaps(struct letter *letter)
{
    static char text[1000], gap[40];
    struct order *order = order_of(letter);
    snprintf(gap, sizeof gap, "{\"lost\":%d}", LOST_OF_FEED);
    int len = snprintf(text, sizeof text, "{\"pad\":\"%0*d\"}", order->bytes, 0);
    for (int i = 0; i < order->count; i++) {
        http_stream_send(streams.open[0], "tick", slice_make(text, (size_t)len));
        http_stream_send(streams.open[0], "gap", slice_of(gap));
    }
    atomic_store(&order->done, true);
}

static void end_streams(struct letter *letter)
{
    for (int k = 0; k < streams.begun; k++)
        if (streams.open[k])
            http_stream_end(streams.open[k]);
    atomic_store(&order_of(letter)->done, true);
}

/* Lets so many milliseconds pass, until the alarm rings. */
static void pass_time(struct letter *letter)
{
    struct order *order = order_of(letter);
    clock_fake_advance(order->count);
    http_streams_ping(order->server->rig.front);
    atomic_store(&order->done, true);
}

static void await_count(atomic_int *count, int wanted)
{
    for (int i = 0; i < 50000 && atomic_load(count) < wanted; i++)
        usleep(100);
    assert_int_equal(atomic_load(count), wanted);
}

static void client_receive_until(struct client *client, const char *what)
{
    while (!strstr(client->text, what))
        assert_true(client_receive(client, 60000));
}

/* ---- claims ---- */

CLAIM(events_come_in_chunks)
{
    static struct server server;
    struct client client;

    stream_server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    client_write(&client, STREAM);
    client_receive_until(&client, "\r\n\r\n");
    assert_non_null(strstr(client.text, "200 OK"));
    assert_non_null(strstr(client.text, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(client.text, "Transfer-Encoding: chunked\r\n"));
    assert_non_null(strstr(client.text, "Cache-Control: no-store\r\n"));
    assert_non_null(strstr(client.text, "X-Accel-Buffering: no\r\n"));
    assert_null(strstr(client.text, "Content-Length"));
    await_count(&streams.begun, 1);
    order_run(&server, send_events, 2, 21);
    client_receive_until(&client, "\"n\":1");
    /* The events of one loop iteration are one chunk. */
    assert_non_null(strstr(client.text, "\r\n\r\n4a\r\nevent: tick\ndata: {\"n\":0,\"pad\":\"0\"}"
                                        "\n\nevent: tick\ndata: {\"n\":1,\"pad\":\"0\"}\n\n\r\n"));
    order_run(&server, end_streams, 0, 0);
    client_receive_all(&client);
    assert_string_equal(client.text + client.len - 7, "\r\n0\r\n\r\n");
    assert_int_equal(streams.ended, 1);
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(http_1_0_reads_to_the_end)
{
    static struct server server;
    struct client client;

    stream_server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    client_write(&client, "GET /v1/stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    await_count(&streams.begun, 1);
    order_run(&server, send_events, 1, 21);
    order_run(&server, end_streams, 0, 0);
    client_receive_all(&client);
    assert_null(strstr(client.text, "chunked"));
    assert_non_null(strstr(client.text, "Connection: close\r\n\r\nevent: tick\n"));
    assert_string_equal(client.text + client.len - 3, "}\n\n");
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(head_opens_nothing)
{
    static struct server server;
    struct client client;

    stream_server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    client_write(&client, "HEAD /v1/stream HTTP/1.1\r\nHost: a\r\n\r\n");
    client_receive_all(&client);
    assert_non_null(strstr(client.text, "text/event-stream\r\n"));
    assert_string_equal(client.text + client.len - 4, "\r\n\r\n");
    assert_int_equal(streams.begun, 0);
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(earlier_answers_come_first_and_later_requests_never)
{
    static struct server server;
    struct client client;

    stream_server_start(&server, (struct http_options){0});
    server.fake.holds = 2;
    client_dial(&client, &server);
    client_write(&client, PUSH("1") STREAM PUSH("2") HEALTH);
    await_count(&server.fake.pushed, 1);
    assert_int_equal(streams.begun, 0);
    server.fake.holds = 0;
    order_run(&server, end_streams, 0, 0); /* a round */
    client_receive_until(&client, "text/event-stream");
    assert_non_null(strstr(client.text, "201 Created"));
    client_write(&client, PUSH("3"));
    order_run(&server, send_events, 1, 21);
    order_run(&server, end_streams, 0, 0);
    client_receive_all(&client);
    assert_int_equal(client_count_of(client.text, "HTTP/1.1 "), 2);
    assert_int_equal(server.fake.pushed, 1);
    client_hang_up(&client);
    server_stop(&server);
}

/* A client that takes what it gets loses nothing, however much one iteration brings. */
CLAIM(a_good_reader_loses_nothing)
{
    static struct server server;
    struct client client;

    stream_server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    client_write(&client, STREAM);
    await_count(&streams.begun, 1);
    order_run(&server, send_events, 200, 1000);
    client_receive_until(&client, "\"n\":199");
    assert_int_equal(client_count_of(client.text, "event: tick"), 200);
    assert_null(strstr(client.text, "gap"));
    client_hang_up(&client);
    server_stop(&server);
}

/* Every event arrives or is reported as lost, in the order of sending. */
CLAIM(a_slow_reader_loses_the_oldest_events_and_gets_a_gap)
{
    enum { EVENTS = 4000, ROUNDS = 4 };
    static struct server server;
    struct client client;
    uint64_t lost = 0;
    int small = 64 * 1024;

    stream_server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    assert_int_equal(setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    client_write(&client, STREAM);
    await_count(&streams.begun, 1);
    for (int i = 0; i < ROUNDS; i++)
        order_run(&server, send_events, EVENTS, 1000);
    assert_true(http_budget_used(server.rig.shared) < 1024 * 1024);
    order_run(&server, end_streams, 0, 0);
    client_receive_all(&client);
    for (const char *at = client.text; (at = strstr(at, "{\"lost\":")); at++)
        lost += strtoull(at + 8, NULL, 10);
    assert_true(lost > 0);
    assert_int_equal(lost + (uint64_t)client_count_of(client.text, "event: tick"), EVENTS * ROUNDS);
    assert_non_null(strstr(client.text, "\"n\":3999,")); /* the newest is there */
    assert_string_equal(client.text + client.len - 7, "\r\n0\r\n\r\n");
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(a_dropped_gap_counts_the_events_that_it_reports)
{
    enum { EVENTS = 2000 };
    static struct server server;
    struct client client;
    uint64_t lost = 0;

    stream_server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    client_write(&client, STREAM);
    await_count(&streams.begun, 1);
    order_run(&server, send_gaps, EVENTS, 900);
    order_run(&server, end_streams, 0, 0);
    client_receive_all(&client);
    for (const char *at = client.text; (at = strstr(at, "{\"lost\":")); at++)
        lost += strtoull(at + 8, NULL, 10);
    assert_true(client_count_of(client.text, "event: gap") < EVENTS); /* some were dropped */
    assert_int_equal(lost + (uint64_t)client_count_of(client.text, "event: tick"),
                     EVENTS * (1 + LOST_OF_FEED));
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(an_oversized_event_is_reported_as_lost)
{
    static struct server server;
    struct client client;

    stream_server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    client_write(&client, STREAM);
    await_count(&streams.begun, 1);
    order_run(&server, send_events, 1, HTTP_STREAM_BYTES_MAX);
    client_receive_until(&client, "event: gap\ndata: {\"lost\":1}\n\n");
    assert_null(strstr(client.text, "tick"));
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(a_quiet_stream_is_kept_alive)
{
    static struct server server;
    struct client client;

    clock_fake_start(1000 * 1000, 1000 * 1000);
    stream_server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    client_write(&client, STREAM);
    await_count(&streams.begun, 1);
    order_run(&server, pass_time, 10 * 1000, 0);
    order_run(&server, send_events, 1, 21);
    order_run(&server, pass_time, 14999, 0); /* a stream with events needs no comment */
    client_receive_until(&client, "tick");
    order_run(&server, send_events, 1, 21);
    order_run(&server, pass_time, 15000, 0);
    client_receive_until(&client, "8\r\n: ping\n\n\r\n");
    assert_int_equal(client_count_of(client.text, "tick"), 2);
    assert_int_equal(client_count_of(client.text, "ping"), 1);
    client_hang_up(&client);
    server_stop(&server);
    clock_fake_end();
}

CLAIM(it_ends_with_its_client)
{
    static struct server server;
    struct client client;

    stream_server_start(&server, (struct http_options){0});
    uint64_t before = http_budget_used(server.rig.shared);
    client_dial(&client, &server);
    client_write(&client, STREAM);
    await_count(&streams.begun, 1);
    assert_true(http_budget_used(server.rig.shared) - before >= HTTP_STREAM_BYTES_MAX);
    client_hang_up(&client);
    await_count(&streams.ended, 1);
    client_dial(&client, &server);
    client_write(&client, STREAM);
    await_count(&streams.begun, 2);
    shutdown(client.fd, SHUT_WR);
    client_receive_all(&client);
    assert_string_equal(client.text + client.len - 5, "0\r\n\r\n");
    assert_int_equal(streams.ended, 2);
    client_hang_up(&client);
    for (int i = 0; i < 50000 && http_budget_used(server.rig.shared) > before; i++)
        usleep(100);
    assert_int_equal(http_budget_used(server.rig.shared), before);
    server_stop(&server);
}

/* Nor does one whose client takes nothing hold it up. */
CLAIM(a_drain_ends_it)
{
    static struct server server;
    struct client good, slow;
    int small = 64 * 1024;

    stream_server_start(&server, (struct http_options){0});
    client_dial(&slow, &server);
    assert_int_equal(setsockopt(slow.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    client_write(&slow, STREAM);
    await_count(&streams.begun, 1);
    order_run(&server, send_events, 8000, 1000);
    client_dial(&good, &server);
    client_write(&good, STREAM);
    await_count(&streams.begun, 2);
    server_drain(&server);
    client_receive_all(&good);
    assert_non_null(strstr(good.text, "retry: 1000\n\n\r\n0\r\n\r\n"));
    for (int i = 0; i < 50000 && !atomic_load(&server.drained); i++)
        usleep(100);
    assert_true(server.drained);
    assert_int_equal(streams.ended, 2);
    client_hang_up(&good);
    client_hang_up(&slow);
    server_stop(&server);
}

CLAIM(the_end_of_the_front_ends_it)
{
    static struct server server;
    struct client client;

    stream_server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    client_write(&client, STREAM);
    await_count(&streams.begun, 1);
    server_stop(&server);
    assert_int_equal(streams.ended, 1);
    client_hang_up(&client);
}

CLAIM(beyond_the_limit_there_is_503)
{
    static struct server server;
    static struct client clients[HTTP_STREAMS_MAX], last;

    stream_server_start(&server, (struct http_options){0});
    for (int i = 0; i < HTTP_STREAMS_MAX; i++) {
        client_dial(&clients[i], &server);
        client_write(&clients[i], STREAM);
        await_count(&streams.begun, i + 1);
    }
    client_dial(&last, &server);
    client_write(&last, STREAM);
    client_receive_answers(&last, 1);
    assert_non_null(strstr(last.text, "503 "));
    assert_non_null(strstr(last.text, "too_many_streams"));
    client_write(&last, HEALTH);
    client_receive_answers(&last, 2);
    client_hang_up(&clients[0]);
    await_count(&streams.ended, 1);
    client_write(&last, STREAM);
    client_receive_until(&last, "text/event-stream");
    for (int i = 1; i < HTTP_STREAMS_MAX; i++)
        client_hang_up(&clients[i]);
    client_hang_up(&last);
    server_stop(&server);
}

CLAIMS_MAIN(NULL, NULL)
