/* The end of a connection: asked for, by a limit, in the middle of things. */
#include "front_client.h"
#include "http/state.h"
#include "unit/claim.h"

static const struct ending {
    const char *sentence, *request, *answer;
    bool closes;
} endings[] = {
    {"1.1 stays", HEALTH, "200 OK", false},
    {"close requested", "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
     "Connection: close", true},
    {"1.0 closes", "GET /healthz HTTP/1.0\r\n\r\n", "Connection: close", true},
    {"1.0 keep-alive requested", "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
     "Connection: keep-alive", false},
    {"a request that is not understood", "nonsense\r\n\r\n", "400 Bad Request", true},
    {"an option that is none stays", "GET /healthz?x=1 HTTP/1.1\r\nHost: a\r\n\r\n",
     "unknown_option", false},
    {"no such path stays", "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", "404 Not Found", false},
    {"a body too big",
     "PUT /v1/topics/t/jobs/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999"
     "\r\nExpect: 100-continue\r\n\r\n",
     "413 ", true},
    {"HEAD has no body", "HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n", "Content-Length: 3\r\n",
     false},
};

static void assert_closes_or_stays(const struct server *server, const struct ending *ending)
{
    struct client client;

    client_dial(&client, server);
    client_write(&client, ending->request);
    client_receive_answers(&client, 1);
    CASE_HOLDS(ending->sentence, strstr(client.text, ending->answer) != NULL);
    if (ending->closes) {
        client_receive_all(&client);
    } else {
        client_write(&client, HEALTH);
        client_receive_answers(&client, 2);
    }
    CASE_HOLDS(ending->sentence, client_count_of(client.text, "HTTP/1.1 ") == 2 - ending->closes);
    client_hang_up(&client);
}

CLAIM(connections_close_when_they_should)
{
    static struct server server;

    server_start(&server, (struct http_options){0});
    for (size_t i = 0; i < COUNT_OF(endings); i++)
        assert_closes_or_stays(&server, &endings[i]);
    server_stop(&server);
}

static const struct half {
    const char *sentence, *request, *answer;
} halves[] = {
    {"no request", "", ""},
    {"half a request line", "GET /heal", "408 "},
    {"half a header", "GET /healthz HTTP/1.1\r\nHost: a\r\nX", "408 "},
    {"half a body", "PUT /v1/topics/t/jobs/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nh",
     "408 "},
    {"half a chunk",
     "PUT /v1/topics/t/jobs/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked"
     "\r\n\r\n2\r\nh",
     "408 "},
};

static void assert_timeout_ends(const struct server *server, const struct half *half)
{
    struct client client;

    client_dial(&client, server);
    client_write(&client, half->request);
    client_receive_all(&client);
    CASE_HOLDS(half->sentence, strstr(client.text, half->answer) != NULL);
    CASE_HOLDS(half->sentence, half->answer[0] || client.len == 0);
    client_hang_up(&client);
}

CLAIM(timeout_ends)
{
    static struct server server;
    struct client client;

    server_start(&server, (struct http_options){.idle_ms = 60, .header_ms = 60, .body_ms = 60});
    for (size_t i = 0; i < COUNT_OF(halves); i++)
        assert_timeout_ends(&server, &halves[i]);
    /* A waiting take is not an idle connection. */
    client_dial(&client, &server);
    client_write(&client, TAKE("wait=300ms"));
    client_receive_answers(&client, 1);
    assert_non_null(strstr(client.text, "{\"jobs\":[]}"));
    client_hang_up(&client);
    server_stop(&server);
}

/* A handshake has the time of a header, not that of a connection which has made one. */
CLAIM(a_handshake_that_does_not_come_ends)
{
    static struct server server;
    struct client client;

    front_rig_has_tls = true;
    server_start(&server, (struct http_options){.idle_ms = 600 * 1000, .header_ms = 60});
    front_rig_has_tls = false;
    client_dial(&client, &server);
    client_receive_all(&client);
    assert_int_equal(client.len, 0);
    client_hang_up(&client);
    server_stop(&server);
}

/* A request begins with its first byte; what is blank before it lengthens no time-out. */
CLAIM(blank_lines_keep_no_connection)
{
    static const char *const blanks[] = {"\r\n", "\r", "\n"};
    static struct server server;
    struct client client;
    int rounds = 0;

    server_start(&server, (struct http_options){.idle_ms = 300, .header_ms = 300});
    for (int pieces = 0; pieces < 2; pieces++) {
        client_dial(&client, &server);
        for (rounds = 0; rounds < 100 && !client_receive(&client, 20); rounds++) {
            const char *next = pieces ? blanks[1 + rounds % 2] : blanks[0];
            char byte;
            if (recv(client.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0 ||
                send(client.fd, next, strlen(next), MSG_NOSIGNAL) < 0)
                break;
        }
        CASE_HOLDS(pieces ? "in pieces" : "whole", rounds < 60);
        CASE_HOLDS("an idle connection is closed without a word", client.len == 0);
        client_hang_up(&client);
    }
    /* They do no harm to a request that follows. */
    client_dial(&client, &server);
    client_write(&client, "\r\n\r\n" HEALTH "\r\n" HEALTH);
    client_receive_answers(&client, 2);
    client_hang_up(&client);
    server_stop(&server);
}

CLAIM(connections_have_a_limit)
{
    static struct server server;
    struct client first, second;
    server_start(&server, (struct http_options){.connections_max = 1});
    client_dial(&first, &server);
    client_write(&first, HEALTH);
    client_receive_answers(&first, 1);
    client_dial(&second, &server);
    client_receive_all(&second);
    assert_non_null(strstr(second.text, "503 "));
    assert_non_null(strstr(second.text, "too_many_connections"));
    assert_non_null(strstr(second.text, "\"limit\":1"));
    client_hang_up(&second);
    client_hang_up(&first);
    usleep(50 * 1000);
    client_dial(&first, &server);
    client_write(&first, HEALTH);
    client_receive_answers(&first, 1);
    assert_non_null(strstr(first.text, "200 OK"));
    client_hang_up(&first);
    server_stop(&server);
}

CLAIM(draining_answers_requests_in_progress)
{
    static struct server server;
    struct client idle, waiting, half, never;
    server_start(&server, (struct http_options){0});
    client_dial(&idle, &server);
    client_write(&idle, HEALTH);
    client_receive_answers(&idle, 1);
    client_dial(&half, &server);
    client_write(&half, "GET /heal");
    client_dial(&never, &server);
    client_write(&never, "GET /heal");
    client_dial(&waiting, &server);
    client_write(&waiting, TAKE("wait=10s"));
    assert_false(client_receive(&waiting, 100));
    server_drain(&server);
    client_receive_all(&waiting);
    assert_non_null(strstr(waiting.text, "{\"jobs\":[]}"));
    assert_non_null(strstr(waiting.text, "Connection: close"));
    client_receive_all(&idle);
    client_write(&half, "thz HTTP/1.1\r\nHost: a\r\n\r\n" HEALTH);
    client_receive_all(&half);
    assert_int_equal(client_count_of(half.text, "200 OK"), 1);
    assert_non_null(strstr(half.text, "Connection: close"));
    client_receive_all(&never);
    assert_non_null(strstr(never.text, "408 "));
    for (int i = 0; i < 5000 && !atomic_load(&server.drained); i++)
        usleep(1000);
    assert_true(atomic_load(&server.drained));
    client_hang_up(&idle);
    client_hang_up(&half);
    client_hang_up(&never);
    client_hang_up(&waiting);
    server_stop(&server);
}

/* Requests sent by then are answered, even unread ones: on a connection that is
 * kept, on one that is accepted, and on one that is not. */
CLAIM(draining_answers_received_requests)
{
    enum { CLIENTS = 30 };
    static struct server server;
    static struct client clients[CLIENTS];
    server_start(&server, (struct http_options){0});
    for (int i = 0; i < CLIENTS; i++) {
        client_dial(&clients[i], &server);
        if (i % 2)
            continue;
        client_write(&clients[i], HEALTH);
        client_receive_answers(&clients[i], 1);
    }
    server_drain(&server);
    for (int i = 0; i < CLIENTS; i++)
        client_write(&clients[i], HEALTH);
    for (int i = 0; i < CLIENTS; i++) {
        client_receive_all(&clients[i]);
        assert_int_equal(client_count_of(clients[i].text, "200 OK"), i % 2 ? 1 : 2);
        assert_int_equal(client_count_of(clients[i].text, "Connection: close"), 1);
        client_hang_up(&clients[i]);
    }
    for (int i = 0; i < 5000 && !atomic_load(&server.drained); i++)
        usleep(1000);
    assert_true(atomic_load(&server.drained));
    server_stop(&server);
}

/* The client is slow to make its first request, or its next one. The wait is far longer than
 * HTTP_POLITE_MS, and the client paused a third of it before its earlier requests. */
CLAIM(draining_waits_for_clients_that_pause)
{
    enum { PAUSE_MS = 150, LATE_MS = 450 };
    static struct server server;
    struct client fresh, slow;
    server_start(&server, (struct http_options){0});
    client_dial(&slow, &server);
    for (int i = 1; i <= 3; i++) {
        client_write(&slow, HEALTH);
        client_receive_answers(&slow, i);
        usleep(PAUSE_MS * 1000);
    }
    client_write(&slow, HEALTH);
    client_receive_answers(&slow, 4);
    client_dial(&fresh, &server);
    server_drain(&server);
    usleep(LATE_MS * 1000);
    client_write(&slow, HEALTH);
    client_write(&fresh, HEALTH);
    client_receive_all(&slow);
    client_receive_all(&fresh);
    assert_int_equal(client_count_of(slow.text, "200 OK"), 5);
    assert_int_equal(client_count_of(slow.text, "Connection: close"), 1);
    assert_int_equal(client_count_of(fresh.text, "200 OK"), 1);
    assert_int_equal(client_count_of(fresh.text, "Connection: close"), 1);
    client_hang_up(&slow);
    client_hang_up(&fresh);
    server_stop(&server);
}

CLAIM(an_end_of_input_lets_answers_out)
{
    static struct server server;
    struct client client;
    server_start(&server, (struct http_options){0});
    client_dial(&client, &server);
    client_write(&client, PUSH("1") TAKE("wait=10s") PUSH("2"));
    shutdown(client.fd, SHUT_WR);
    client_receive_all(&client);
    assert_int_equal(client_count_of(client.text, "\"created\""), 2);
    assert_int_equal(client_count_of(client.text, "{\"jobs\":[]}"), 1);
    client_hang_up(&client);
    server_stop(&server);
}

static void eventually(const atomic_int *value, int expected)
{
    for (int i = 0; i < 5000 && atomic_load(value) != expected; i++)
        usleep(1000);
    assert_int_equal(atomic_load(value), expected);
}

CLAIM(a_disconnected_client_does_no_harm)
{
    static struct server server;
    struct client client;
    server_start(&server, (struct http_options){0});
    server.fake.holds = 50;
    for (int i = 0; i < 49; i++) {
        client_dial(&client, &server);
        client_write(&client, PUSH("gone") "GET /hea");
        client_hang_up(&client);
    }
    eventually(&server.fake.pushed, 49);
    client_dial(&client, &server);
    client_write(&client, PUSH("here"));
    client_receive_answers(&client, 1);
    assert_non_null(strstr(client.text, "\"here\""));
    client_hang_up(&client);
    server_stop(&server);
}

static uint64_t count_answers(const struct http_front *front)
{
    uint64_t sum = 0;
    for (size_t route = 0; route < HTTP_ROUTES_MAX; route++)
        for (size_t status = 0; status < HTTP_STATUSES; status++)
            sum += atomic_load(&front->counters.requests[route][status]);
    return sum;
}

static uint64_t count_status(const struct http_front *front, uint16_t status)
{
    uint64_t sum = 0;
    for (size_t route = 0; route < HTTP_ROUTES_MAX; route++)
        sum += atomic_load(&front->counters.requests[route][http_status_index(status)]);
    return sum;
}

/* Counts the durations of requests with a status of the class of 400. */
static uint64_t count_durations(const struct http_front *front)
{
    struct buckets sum = {0};
    for (size_t route = 0; route < HTTP_ROUTES_MAX; route++)
        buckets_merge(&sum, &front->counters.durations[route][2]);
    return buckets_total(&sum);
}

static void reset(const struct client *client)
{
    const struct linger now = {.l_onoff = 1};
    assert_int_equal(setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
}

CLAIM(reads_of_a_disconnected_client_are_counted_but_not_answered)
{
    static const char get[] = "GET /v1/topics/t/jobs/1 HTTP/1.1\r\nHost: a\r\n\r\n";
    static const char list[] = "GET /v1/topics/t/jobs HTTP/1.1\r\nHost: a\r\n\r\n";
    static struct server server;
    struct client reader, lister, pusher;
    struct http_front *front;

    server_start(&server, (struct http_options){0});
    front = server.rig.front;
    server.fake.holds = 1000;
    client_dial(&reader, &server);
    for (int i = 0; i < 10; i++)
        client_write(&reader, get);
    client_dial(&lister, &server);
    client_write(&lister, list);
    client_dial(&pusher, &server);
    client_write(&pusher, PUSH("gone"));
    eventually(&server.fake.most_held, 12);
    reset(&reader);
    reset(&lister);
    reset(&pusher);
    client_hang_up(&reader);
    client_hang_up(&lister);
    client_hang_up(&pusher);
    for (int i = 0; i < 1000 && atomic_load(&front->counters.connections); i++)
        usleep(10 * 1000);
    front_rig_halt(&server.rig);
    assert_int_equal(atomic_load(&front->counters.connections), 0);
    assert_int_equal(front->exchanges.live, 2); /* the long read and the change */
    assert_int_equal(front->long_count, 1);
    assert_int_equal(count_status(front, HTTP_STATUS_ABANDONED), 10);
    server.fake.holds = 0;
    (void)fake_answer_held(&server.fake);
    assert_int_equal(front->exchanges.live, 0);
    assert_int_equal(front->long_count, 0);
    assert_int_equal(count_status(front, HTTP_STATUS_ABANDONED), 11);
    assert_int_equal(count_durations(front), 11);
    assert_int_equal(count_answers(front), 12); /* also the change */
    front_rig_close(&server.rig);
}

CLAIMS_MAIN(NULL, NULL)
