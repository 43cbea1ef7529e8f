/* A front before a queue that answers when and in what order it is told. */
#include "front_rig.h"

#include <poll.h>
#include <stdatomic.h>

/* ---- a queue that keeps its answers back ---- */

enum { HELD_MAX = 2000, SLOW_ANSWERS = 8000 };

struct held {
    struct queue_reply_to to;
    char topic[32], id[32];
};

struct fake {
    struct queue queue;
    struct reactor *reactor;
    struct held held[HELD_MAX];
    int held_count;
    atomic_int
        holds; /* answer once so many are here, the last one first; 0: at the end of the turn */
    atomic_int pushed, most_held, returned;
    atomic_int ready; /* jobs the next take gets */
};

static void fake_push(struct queue *queue, const struct queue_push *pushes, size_t count,
                      struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    struct held *held = &fake->held[fake->held_count++];
    assert_true(count == 1 && fake->held_count <= HELD_MAX);
    held->to = to;
    (void)snprintf(held->topic, sizeof held->topic, "%.*s", (int)pushes->topic.len,
                   pushes->topic.at);
    (void)snprintf(held->id, sizeof held->id, "%.*s", (int)pushes->id.len, pushes->id.at);
    atomic_fetch_add(&fake->pushed, 1);
    if (fake->held_count > atomic_load(&fake->most_held))
        atomic_store(&fake->most_held, fake->held_count);
}

struct taken {
    struct letter letter;
    struct fake *fake;
    struct queue_reply_to to;
    int jobs;
};

static void answer_take(struct letter *letter)
{
    struct taken *taken = (struct taken *)(void *)letter;
    struct queue_job job = {.job = {.topic = slice_of("t"),
                                    .id = slice_of("1"),
                                    .body = slice_of("\xff raw"),
                                    .content_type = slice_of("a/b"),
                                    .meta = slice_make("k\0v\0", 4),
                                    .state = JOB_LEASED,
                                    .attempt = 1,
                                    .delivery = 7},
                            .lease = slice_of("lease-1")};
    struct queue_reply reply = {.jobs = &job, .job_count = (size_t)taken->jobs};
    taken->to.done(taken->to.owner, taken->to.tag, &reply);
    free(taken);
}

static void fake_take(struct queue *queue, const struct queue_take *take, struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    struct taken *taken = calloc(1, sizeof *taken);
    (void)take;
    taken->letter.run = answer_take;
    taken->to = to;
    taken->jobs = fake->ready;
    fake->ready = 0;
    reactor_post(fake->reactor, &taken->letter);
}

static void fake_answer(struct queue *queue, const struct queue_answer *answers, size_t count,
                        struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    (void)to;
    for (size_t i = 0; i < count; i++)
        if (answers[i].verb == QUEUE_RETURN)
            atomic_fetch_add(&fake->returned, 1);
}

static const struct queue_ops fake_ops = {
    .push = fake_push,
    .take = fake_take,
    .answer = fake_answer,
    .watch = front_rig_watch,
    .info = front_rig_info,
};

static bool answer_held(void *ctx)
{
    struct fake *fake = ctx;
    if (fake->held_count < fake->holds || !fake->held_count)
        return false;
    while (fake->held_count) {
        struct held *held = &fake->held[--fake->held_count];
        struct queue_result result = {.status = QUEUE_CREATED,
                                      .state = JOB_READY,
                                      .topic = slice_of(held->topic),
                                      .id = slice_of(held->id)};
        struct queue_reply reply = {.results = &result, .result_count = 1};
        held->to.done(held->to.owner, held->to.tag, &reply);
    }
    return false;
}

/* ---- the server ---- */

struct server {
    struct fake fake;
    struct front_rig rig;
    struct letter drain;
    atomic_bool drained;
};

static void start(struct server *server, struct http_options options)
{
    memset(server, 0, sizeof *server);
    server->fake.queue.ops = &fake_ops;
    front_rig_open(&server->rig, &server->fake.queue, options);
    server->fake.reactor = server->rig.reactor;
    /* After the front's hook: the worst place for it. */
    reactor_at_turn_end(server->rig.reactor, answer_held, &server->fake);
    assert_int_equal(reactor_start(server->rig.reactor), 0);
}

static void stop(struct server *server)
{
    front_rig_halt(&server->rig);
    server->fake.holds = 0;
    (void)answer_held(&server->fake);
    front_rig_close(&server->rig);
}

static void on_drained(void *ctx)
{
    atomic_store((atomic_bool *)ctx, true);
}

static void run_drain(struct letter *letter)
{
    struct server *server =
        (struct server *)(void *)((char *)letter - offsetof(struct server, drain));
    waiters_drain(server->rig.waiters);
    http_front_drain(server->rig.front, on_drained, &server->drained);
}

static void drain(struct server *server)
{
    server->drain.run = run_drain;
    reactor_post(server->rig.reactor, &server->drain);
}

/* ---- the client ---- */

struct client {
    int fd;
    char *text; /* all that came, ended by NUL */
    size_t len;
};

static void dial(struct client *client, const struct server *server)
{
    *client = (struct client){.fd = front_rig_dial(&server->rig), .text = calloc(1, 1)};
}

static void hang_up(struct client *client)
{
    close(client->fd);
    free(client->text);
}

static void say(struct client *client, const char *text)
{
    size_t len = strlen(text);
    assert_int_equal(send(client->fd, text, len, MSG_NOSIGNAL), len);
}

/* False when nothing comes for so long, or no more ever will. */
static bool hear(struct client *client, int wait_ms)
{
    static char piece[65536];
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN};
    if (poll(&poll_fd, 1, wait_ms) <= 0)
        return false;
    ssize_t got = recv(client->fd, piece, sizeof piece, 0);
    if (got <= 0)
        return false;
    client->text = realloc(client->text, client->len + (size_t)got + 1);
    memcpy(client->text + client->len, piece, (size_t)got);
    client->len += (size_t)got;
    client->text[client->len] = 0;
    return true;
}

static int count_of(const char *text, const char *what)
{
    const char *end = text + strlen(text);
    size_t len = strlen(what);
    int count = 0;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), what, len)); at += len)
        count++;
    return count;
}

static void hear_answers(struct client *client, int count)
{
    while (count_of(client->text, "HTTP/1.1 ") < count)
        assert_true(hear(client, 5000));
    while (hear(client, 20))
        ;
}

static void hear_all(struct client *client)
{
    while (hear(client, 5000))
        ;
    char byte;
    assert_true(recv(client->fd, &byte, 1, MSG_DONTWAIT) <= 0);
}

static void eventually(const atomic_int *value, int expected)
{
    for (int i = 0; i < 5000 && atomic_load(value) != expected; i++)
        usleep(1000);
    assert_int_equal(atomic_load(value), expected);
}

#define PUSH(ID) "PUT /v1/topics/t/jobs/" ID " HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
#define HEALTH "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
#define TAKE(QUERY) "POST /v1/topics/t/take?" QUERY " HTTP/1.1\r\nHost: a\r\n\r\n"

/* ---- claims ---- */

static void answers_keep_the_order_of_requests(void **state)
{
    static struct server server;
    struct client client;
    (void)state;
    start(&server, (struct http_options){0});
    server.fake.holds = 3;
    dial(&client, &server);
    say(&client, PUSH("first") PUSH("second") HEALTH PUSH("third"));
    hear_answers(&client, 4);
    const char *first = strstr(client.text, "\"first\""),
               *second = strstr(client.text, "\"second\"");
    const char *ok = strstr(client.text, "ok\n"), *third = strstr(client.text, "\"third\"");
    assert_true(first && second && ok && third);
    assert_true(first < second && second < ok && ok < third);
    hang_up(&client);
    stop(&server);
}

static void reading_stops_where_too_much_is_under_way(void **state)
{
    static struct server server;
    struct client client;
    (void)state;
    start(&server, (struct http_options){0});
    server.fake.holds = 256;
    dial(&client, &server);
    for (int i = 0; i < 512; i++)
        say(&client, PUSH("x"));
    hear_answers(&client, 512);
    assert_int_equal(atomic_load(&server.fake.most_held), 256);
    assert_int_equal(count_of(client.text, "\"created\""), 512);
    hang_up(&client);
    stop(&server);
}

static void a_slow_reader_gets_it_all(void **state)
{
    static struct server server;
    struct client client;
    (void)state;
    start(&server, (struct http_options){0});
    dial(&client, &server);
    /* Far more than the buffers of both ends hold. */
    static const char ask[] = "GET /v1/info HTTP/1.1\r\nHost: a\r\n\r\n";
    char *all = calloc(SLOW_ANSWERS + 1, sizeof ask);
    for (int i = 0; i < SLOW_ANSWERS; i++)
        memcpy(all + (size_t)i * (sizeof ask - 1), ask, sizeof ask);
    say(&client, all);
    free(all);
    say(&client, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    usleep(100 * 1000);
    hear_all(&client);
    assert_int_equal(count_of(client.text, "HTTP/1.1 200 OK"), SLOW_ANSWERS + 1);
    hang_up(&client);
    stop(&server);
}

static void connections_close_when_they_should(void **state)
{
    static const struct {
        const char *sentence, *request, *answer;
        bool closes;
    } rows[] = {
        {"1.1 stays", HEALTH, "200 OK", false},
        {"told to close", "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
         "Connection: close", true},
        {"1.0 closes", "GET /healthz HTTP/1.0\r\n\r\n", "Connection: close", true},
        {"1.0 told to stay", "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
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
    static struct server server;
    struct client client;

    (void)state;
    start(&server, (struct http_options){0});
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        dial(&client, &server);
        say(&client, rows[i].request);
        hear_answers(&client, 1);
        CASE_HOLDS(rows[i].sentence, strstr(client.text, rows[i].answer) != NULL);
        if (rows[i].closes) {
            hear_all(&client);
        } else {
            say(&client, HEALTH);
            hear_answers(&client, 2);
        }
        CASE_HOLDS(rows[i].sentence, count_of(client.text, "HTTP/1.1 ") == 2 - rows[i].closes);
        hang_up(&client);
    }
    stop(&server);
}

static void HEAD_has_no_body(void **state)
{
    static struct server server;
    struct client client;
    (void)state;
    start(&server, (struct http_options){0});
    dial(&client, &server);
    say(&client, "HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    hear_answers(&client, 1);
    assert_string_equal(client.text + client.len - 4, "\r\n\r\n");
    hang_up(&client);
    stop(&server);
}

static void a_body_is_asked_for_where_the_client_waits(void **state)
{
    static struct server server;
    struct client client;
    (void)state;
    start(&server, (struct http_options){0});
    dial(&client, &server);
    say(&client, "PUT /v1/topics/t/jobs/1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                 "Content-Length: 2\r\n\r\n");
    hear_answers(&client, 1);
    assert_string_equal(client.text, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(atomic_load(&server.fake.pushed), 0);
    say(&client, "hi");
    hear_answers(&client, 2);
    assert_non_null(strstr(client.text, "201 Created"));
    /* And not where it is there already. */
    say(&client, "PUT /v1/topics/t/jobs/1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                 "Content-Length: 2\r\n\r\nhi");
    hear_answers(&client, 3);
    assert_int_equal(count_of(client.text, "100 Continue"), 1);
    hang_up(&client);
    stop(&server);
}

static void a_body_may_come_in_pieces(void **state)
{
    static struct server server;
    struct client client;
    (void)state;
    start(&server, (struct http_options){0});
    dial(&client, &server);
    char *body = calloc(1, 600001);
    memset(body, 'x', 600000);
    say(&client, "PUT /v1/topics/t/jobs/big HTTP/1.1\r\nHost: a\r\nContent-Length: 600000\r\n\r\n");
    usleep(2000);
    say(&client, body);
    say(&client, PUSH("next"));
    hear_answers(&client, 2);
    assert_non_null(strstr(client.text, "\"big\""));
    assert_non_null(strstr(client.text, "\"next\""));
    free(body);
    hang_up(&client);
    stop(&server);
}

static void a_take_is_raw_where_that_is_asked_for(void **state)
{
    static struct server server;
    struct client client;
    (void)state;
    start(&server, (struct http_options){0});
    server.fake.ready = 1;
    dial(&client, &server);
    say(&client, "POST /v1/topics/t/take HTTP/1.1\r\nHost: a\r\nAccept: application/octet-stream"
                 "\r\n\r\n");
    hear_answers(&client, 1);
    assert_non_null(strstr(client.text, "Content-Type: a/b\r\n"));
    assert_non_null(strstr(client.text, "Tarry-Lease: lease-1\r\n"));
    assert_non_null(strstr(client.text, "Tarry-Delivery: 7\r\n"));
    assert_non_null(strstr(client.text, "Tarry-Meta-k: v\r\n"));
    assert_string_equal(client.text + client.len - 5, "\xff raw");
    say(&client, "POST /v1/topics/t/take HTTP/1.1\r\nHost: a\r\nAccept: application/octet-stream"
                 "\r\n\r\n");
    hear_answers(&client, 2);
    assert_non_null(strstr(client.text, "204 No Content"));
    hang_up(&client);
    stop(&server);
}

static void a_take_whose_client_goes_is_cancelled(void **state)
{
    static struct server server;
    struct client client, other;
    (void)state;
    start(&server, (struct http_options){.waiting_max = 1});
    dial(&client, &server);
    say(&client, TAKE("wait=10s"));
    assert_false(hear(&client, 100));
    /* The one place is taken until the client goes. */
    dial(&other, &server);
    say(&other, TAKE("wait=10s"));
    hear_answers(&other, 1);
    assert_non_null(strstr(other.text, "too_many_waiting"));
    assert_non_null(strstr(other.text, "\"limit\":1"));
    hang_up(&client);
    usleep(100 * 1000);
    say(&other, TAKE("wait=50ms"));
    hear_answers(&other, 2);
    assert_non_null(strstr(other.text, "{\"jobs\":[]}"));
    hang_up(&other);
    stop(&server);
}

static void a_wait_ends_in_time(void **state)
{
    static struct server server;
    struct client client;
    (void)state;
    start(&server, (struct http_options){0});
    dial(&client, &server);
    say(&client, TAKE("wait=200ms"));
    assert_false(hear(&client, 150));
    assert_true(hear(&client, 1000));
    assert_non_null(strstr(client.text, "{\"jobs\":[]}"));
    hang_up(&client);
    stop(&server);
}

static void patience_ends(void **state)
{
    static const struct {
        const char *sentence, *request, *answer;
    } rows[] = {
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
    static struct server server;
    struct client client;

    (void)state;
    start(&server, (struct http_options){.idle_ms = 60, .header_ms = 60, .body_ms = 60});
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        dial(&client, &server);
        say(&client, rows[i].request);
        hear_all(&client);
        CASE_HOLDS(rows[i].sentence, strstr(client.text, rows[i].answer) != NULL);
        CASE_HOLDS(rows[i].sentence, rows[i].answer[0] || client.len == 0);
        hang_up(&client);
    }
    /* A take that waits is no idle connection. */
    dial(&client, &server);
    say(&client, TAKE("wait=300ms"));
    hear_answers(&client, 1);
    assert_non_null(strstr(client.text, "{\"jobs\":[]}"));
    hang_up(&client);
    stop(&server);
}

static void connections_have_a_limit(void **state)
{
    static struct server server;
    struct client first, second;
    (void)state;
    start(&server, (struct http_options){.connections_max = 1});
    dial(&first, &server);
    say(&first, HEALTH);
    hear_answers(&first, 1);
    dial(&second, &server);
    hear_all(&second);
    assert_non_null(strstr(second.text, "503 "));
    assert_non_null(strstr(second.text, "too_many_connections"));
    assert_non_null(strstr(second.text, "\"limit\":1"));
    hang_up(&second);
    hang_up(&first);
    usleep(50 * 1000);
    dial(&first, &server);
    say(&first, HEALTH);
    hear_answers(&first, 1);
    assert_non_null(strstr(first.text, "200 OK"));
    hang_up(&first);
    stop(&server);
}

static void draining_answers_what_is_under_way(void **state)
{
    static struct server server;
    struct client idle, waiting, half;
    (void)state;
    start(&server, (struct http_options){0});
    dial(&idle, &server);
    say(&idle, HEALTH);
    hear_answers(&idle, 1);
    dial(&half, &server);
    say(&half, "GET /heal");
    dial(&waiting, &server);
    say(&waiting, TAKE("wait=10s"));
    assert_false(hear(&waiting, 100));
    drain(&server);
    hear_all(&waiting);
    assert_non_null(strstr(waiting.text, "{\"jobs\":[]}"));
    assert_non_null(strstr(waiting.text, "Connection: close"));
    hear_all(&idle);
    hear_all(&half);
    for (int i = 0; i < 5000 && !atomic_load(&server.drained); i++)
        usleep(1000);
    assert_true(atomic_load(&server.drained));
    hang_up(&idle);
    hang_up(&half);
    hang_up(&waiting);
    stop(&server);
}

static void an_end_of_input_lets_answers_out(void **state)
{
    static struct server server;
    struct client client;
    (void)state;
    start(&server, (struct http_options){0});
    dial(&client, &server);
    say(&client, PUSH("1") TAKE("wait=10s") PUSH("2"));
    shutdown(client.fd, SHUT_WR);
    hear_all(&client);
    assert_int_equal(count_of(client.text, "\"created\""), 2);
    assert_int_equal(count_of(client.text, "{\"jobs\":[]}"), 1);
    hang_up(&client);
    stop(&server);
}

static void a_client_that_goes_harms_nobody(void **state)
{
    static struct server server;
    struct client client;
    (void)state;
    start(&server, (struct http_options){0});
    server.fake.holds = 50;
    for (int i = 0; i < 49; i++) {
        dial(&client, &server);
        say(&client, PUSH("gone") "GET /hea");
        hang_up(&client);
    }
    eventually(&server.fake.pushed, 49);
    dial(&client, &server);
    say(&client, PUSH("here"));
    hear_answers(&client, 1);
    assert_non_null(strstr(client.text, "\"here\""));
    hang_up(&client);
    stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_keep_the_order_of_requests),
        cmocka_unit_test(reading_stops_where_too_much_is_under_way),
        cmocka_unit_test(a_slow_reader_gets_it_all),
        cmocka_unit_test(connections_close_when_they_should),
        cmocka_unit_test(HEAD_has_no_body),
        cmocka_unit_test(a_body_is_asked_for_where_the_client_waits),
        cmocka_unit_test(a_body_may_come_in_pieces),
        cmocka_unit_test(a_take_is_raw_where_that_is_asked_for),
        cmocka_unit_test(a_take_whose_client_goes_is_cancelled),
        cmocka_unit_test(a_wait_ends_in_time),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(connections_have_a_limit),
        cmocka_unit_test(draining_answers_what_is_under_way),
        cmocka_unit_test(an_end_of_input_lets_answers_out),
        cmocka_unit_test(a_client_that_goes_harms_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
