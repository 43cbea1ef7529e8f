/* Requests and answers on a connection: their order, their bodies, takes. */
#include "front_client.h"
#include "unit/claim.h"

enum { SLOW_ANSWERS = 8000 };

/* A sample on its way to a topic's target. */
struct sample {
    struct letter letter;
    http_tested *done;
    void *owner;
    uint64_t tag;
};

CLAIM(answers_keep_the_order_of_requests)
{
    static struct server server;
    struct client client;
    server_start(&server, (struct http_options){0});
    server.fake.holds = 3;
    client_dial(&client, &server);
    client_write(&client, PUSH("first") PUSH("second") HEALTH PUSH("third"));
    client_receive_answers(&client, 4);
    const char *first = strstr(client.text, "\"first\""),
               *second = strstr(client.text, "\"second\"");
    const char *ok = strstr(client.text, "ok\n"), *third = strstr(client.text, "\"third\"");
    assert_true(first && second && ok && third);
    assert_true(first < second && second < ok && ok < third);
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(reading_stops_with_too_many_requests_in_flight)
{
    static struct server server;
    struct client client;
    server_start(&server, (struct http_options){0});
    server.fake.holds = 256;
    client_dial(&client, &server);
    for (int i = 0; i < 512; i++)
        client_write(&client, PUSH("x"));
    client_receive_answers(&client, 512);
    assert_int_equal(atomic_load(&server.fake.most_held), 256);
    assert_int_equal(client_count_of(client.text, "\"created\""), 512);
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(a_slow_reader_gets_it_all)
{
    static struct server server;
    struct client client;
    server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    /* Far more than the buffers of both ends hold. */
    static const char ask[] = "GET /v1/info HTTP/1.1\r\nHost: a\r\n\r\n";
    char *all = calloc(SLOW_ANSWERS + 1, sizeof ask);
    for (int i = 0; i < SLOW_ANSWERS; i++)
        memcpy(all + (size_t)i * (sizeof ask - 1), ask, sizeof ask);
    client_write(&client, all);
    free(all);
    client_write(&client, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    usleep(100 * 1000);
    client_receive_all(&client);
    assert_int_equal(client_count_of(client.text, "HTTP/1.1 200 OK"), SLOW_ANSWERS + 1);
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(HEAD_has_no_body)
{
    static struct server server;
    struct client client;
    server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    client_write(&client, "HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    client_receive_answers(&client, 1);
    assert_string_equal(client.text + client.len - 4, "\r\n\r\n");
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(a_client_that_waits_for_100_continue_gets_it)
{
    static struct server server;
    struct client client;
    server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    client_write(&client, "PUT /v1/topics/t/jobs/1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                          "Content-Length: 2\r\n\r\n");
    client_receive_answers(&client, 1);
    assert_string_equal(client.text, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(atomic_load(&server.fake.pushed), 0);
    client_write(&client, "hi");
    client_receive_answers(&client, 2);
    assert_non_null(strstr(client.text, "201 Created"));
    /* And not where it is there already. */
    client_write(&client, "PUT /v1/topics/t/jobs/1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                          "Content-Length: 2\r\n\r\nhi");
    client_receive_answers(&client, 3);
    assert_int_equal(client_count_of(client.text, "100 Continue"), 1);
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(a_body_may_come_in_pieces)
{
    static struct server server;
    struct client client;
    server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    char *body = calloc(1, 600001);
    memset(body, 'x', 600000);
    client_write(&client,
                 "PUT /v1/topics/t/jobs/big HTTP/1.1\r\nHost: a\r\nContent-Length: 600000\r\n\r\n");
    usleep(2000);
    client_write(&client, body);
    client_write(&client, PUSH("next"));
    client_receive_answers(&client, 2);
    assert_non_null(strstr(client.text, "\"big\""));
    assert_non_null(strstr(client.text, "\"next\""));
    free(body);
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(a_take_returns_the_raw_body_on_request)
{
    static struct server server;
    struct client client;
    server_start(&server, (struct http_options){0});
    server.fake.ready = 1;
    client_dial(&client, &server);
    client_write(&client,
                 "POST /v1/topics/t/take HTTP/1.1\r\nHost: a\r\nAccept: application/octet-stream"
                 "\r\n\r\n");
    client_receive_answers(&client, 1);
    assert_non_null(strstr(client.text, "Content-Type: a/b\r\n"));
    assert_non_null(strstr(client.text, "Tarry-Lease: lease-1\r\n"));
    assert_non_null(strstr(client.text, "Tarry-Delivery: 7\r\n"));
    assert_non_null(strstr(client.text, "Tarry-Meta-k: v\r\n"));
    assert_string_equal(client.text + client.len - 5, "\xff raw");
    client_write(&client,
                 "POST /v1/topics/t/take HTTP/1.1\r\nHost: a\r\nAccept: application/octet-stream"
                 "\r\n\r\n");
    client_receive_answers(&client, 2);
    assert_non_null(strstr(client.text, "204 No Content"));
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(a_take_of_a_disconnected_client_is_cancelled)
{
    static struct server server;
    struct client client, other;
    server_start(&server, (struct http_options){.waiting_max = 1});
    client_dial(&client, &server);
    client_write(&client, TAKE("wait=10s"));
    assert_false(client_receive(&client, 100));
    /* The one place is taken until the client goes. */
    client_dial(&other, &server);
    client_write(&other, TAKE("wait=10s"));
    client_receive_answers(&other, 1);
    assert_non_null(strstr(other.text, "too_many_waiting"));
    assert_non_null(strstr(other.text, "\"limit\":1"));
    client_hang_up(&client);
    usleep(100 * 1000);
    client_write(&other, TAKE("wait=50ms"));
    client_receive_answers(&other, 2);
    assert_non_null(strstr(other.text, "{\"jobs\":[]}"));
    client_hang_up(&other);
    server_stop(&server);
}

static void answer_sample(struct letter *letter)
{
    struct sample *sample = (struct sample *)(void *)letter;
    sample->done(sample->owner, sample->tag, QUEUE_OK, slice_of("{}"));
    free(sample);
}

static void test_target(void *ctx, struct reactor *reactor, struct slice topic, struct slice body,
                        http_tested *done, void *owner, uint64_t tag)
{
    struct sample *sample = calloc(1, sizeof *sample);
    (void)ctx;
    (void)topic;
    (void)body;
    *sample =
        (struct sample){.letter.run = answer_sample, .done = done, .owner = owner, .tag = tag};
    reactor_post(reactor, &sample->letter);
}

CLAIM(a_large_sample_counts_as_no_waiting_take)
{
    static const struct http_hooks hooks = {.test = test_target};
    static struct server server;
    static char sample[70001];
    struct client client;
    memset(sample, 'x', sizeof sample - 1);
    server_start(&server, (struct http_options){0});
    http_shared_set_hooks(server.rig.shared, &hooks);
    client_dial(&client, &server);
    client_write(&client, "POST /v1/topics/t/deliver-test HTTP/1.1\r\nHost: a\r\n"
                          "Content-Length: 70000\r\n\r\n");
    client_write(&client, sample);
    client_receive_answers(&client, 1);
    client_write(&client, TAKE("max=1"));
    client_receive_answers(&client, 2);
    assert_non_null(strstr(client.text, "{\"jobs\":[]}"));
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(a_wait_ends_in_time)
{
    static struct server server;
    struct client client;
    server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    int64_t began_ms = clock_inner_ms();
    client_write(&client, TAKE("wait=200ms"));
    assert_true(client_receive(&client, 60000));
    /* The server reads the clock once per iteration, so the wait may seem shorter. */
    assert_true(clock_inner_ms() - began_ms >= 150);
    assert_non_null(strstr(client.text, "{\"jobs\":[]}"));
    client_hang_up(&client);
    server_stop(&server);
}

CLAIMS_MAIN(NULL, NULL)
