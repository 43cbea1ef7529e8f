/* Calls about topics that deliver by themselves: a front before a queue that holds one topic, and
 * hooks that judge by a word. */
#include "front_rig.h"
#include "unit/claim.h"

#include <stdatomic.h>

/* ---- a queue with one topic, "t", and dead jobs without end ---- */

struct fake {
    struct queue queue;
    struct reactor *reactor;
    char extension[5000], meta[200], error[100];
    size_t extension_len, meta_len;
    struct topic_settings settings;
    atomic_int gets, puts, pushes, lists, redriven, finals, nacks;
};

enum kind { REPLY_TOPIC = 1, REPLY_DONE, REPLY_JOBS, REPLY_RESULT };

struct reply {
    struct letter letter;
    struct fake *fake;
    struct queue_reply_to to;
    enum kind kind;
    enum queue_status status;
};

static void send_reply(struct letter *letter)
{
    struct reply *out = (struct reply *)(void *)letter;
    struct fake *fake = out->fake;
    struct queue_topic topic = {.name = slice_of("t"),
                                .settings = fake->settings,
                                .counts = {.dead = 1, .dead_bytes = 123}};
    struct queue_job job = {.job = {.state = JOB_DEAD, .topic = topic.name, .id = slice_of("1")}};
    struct queue_result result = {
        .status = QUEUE_CREATED, .state = JOB_READY, .topic = topic.name, .id = slice_of("1")};
    struct queue_reply reply = {.status = out->status, .affected = 1};
    topic.settings.extension = slice_make(fake->extension, fake->extension_len);
    if (out->kind == REPLY_TOPIC && out->status != QUEUE_NOT_FOUND)
        reply.topics = &topic, reply.topic_count = 1;
    if (out->kind == REPLY_JOBS) {
        reply.jobs = &job, reply.job_count = 1;
        reply.cursor = slice_of("on");
    }
    if (out->kind == REPLY_RESULT)
        reply.results = &result, reply.result_count = 1;
    out->to.done(out->to.owner, out->to.tag, &reply);
    free(out);
}

static void answer(struct fake *fake, struct queue_reply_to to, enum kind kind,
                   enum queue_status status)
{
    struct reply *out = calloc(1, sizeof *out);
    *out = (struct reply){
        .letter = {.run = send_reply}, .fake = fake, .to = to, .kind = kind, .status = status};
    reactor_post(fake->reactor, &out->letter);
}

static void put(struct fake *fake, const struct topic_settings *settings)
{
    fake->settings = *settings;
    fake->extension_len = settings->extension.len;
    assert_true(settings->extension.len < sizeof fake->extension);
    if (settings->extension.len)
        memcpy(fake->extension, settings->extension.at, settings->extension.len);
    atomic_fetch_add(&fake->puts, 1);
}

static void fake_topic(struct queue *queue, const struct queue_topic_call *call,
                       struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    bool is_known = slice_is(call->topic, "t");
    if (call->verb == QUEUE_TOPIC_GET)
        atomic_fetch_add(&fake->gets, 1);
    if (call->verb == QUEUE_TOPIC_PUT) {
        put(fake, &call->settings);
        answer(fake, to, REPLY_TOPIC, is_known ? QUEUE_OK : QUEUE_CREATED);
        return;
    }
    if (call->verb == QUEUE_TOPIC_REDRIVE) {
        atomic_fetch_add(&fake->redriven, 1);
        answer(fake, to, REPLY_DONE, QUEUE_OK);
        return;
    }
    answer(fake, to, REPLY_TOPIC, is_known ? QUEUE_OK : QUEUE_NOT_FOUND);
}

static void fake_list(struct queue *queue, const struct queue_list *list, struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    assert_int_equal(list->state, JOB_DEAD);
    atomic_fetch_add(&fake->lists, 1);
    usleep(1000);
    answer(fake, to, REPLY_JOBS, QUEUE_OK);
}

static void fake_push(struct queue *queue, const struct queue_push *pushes, size_t count,
                      struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    assert_true(count == 1 && pushes->meta.len < sizeof fake->meta);
    fake->meta_len = pushes->meta.len;
    memcpy(fake->meta, pushes->meta.at, pushes->meta.len);
    atomic_fetch_add(&fake->pushes, 1);
    answer(fake, to, REPLY_RESULT, QUEUE_OK);
}

static void fake_answer(struct queue *queue, const struct queue_answer *answers, size_t count,
                        struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    for (size_t i = 0; i < count; i++) {
        atomic_fetch_add(&fake->nacks, answers[i].verb == QUEUE_NACK);
        atomic_fetch_add(&fake->finals, answers[i].final);
    }
    answer(fake, to, REPLY_RESULT, QUEUE_OK);
}

static void fake_submit(struct queue *queue, const struct command *command,
                        struct queue_reply_to to)
{
    if (command->kind == COMMAND_PUSH) {
        fake_push(queue, command->pushes, command->count, to);
    } else if (command->kind == COMMAND_ANSWER) {
        fake_answer(queue, command->answers, command->count, to);
    } else if (command->kind == COMMAND_LIST) {
        fake_list(queue, &command->list, to);
    } else {
        assert_int_equal(command->kind, COMMAND_TOPIC);
        fake_topic(queue, &command->topic, to);
    }
}

static const struct queue_ops fake_ops = {
    .submit = fake_submit,
    .watch = front_rig_watch,
    .info = front_rig_info,
};

/* ---- hooks ---- */

static bool check_extension(void *ctx, struct slice topic, struct slice extension, char *error)
{
    (void)ctx;
    (void)topic;
    (void)snprintf(error, HTTP_HOOK_ERROR_BYTES, "the word is bad");
    return !memmem(extension.at, extension.len, "bad", 3);
}

static bool check_callback(void *ctx, struct slice url, char *error)
{
    (void)ctx;
    (void)snprintf(error, HTTP_HOOK_ERROR_BYTES, "the host is bad");
    return !memmem(url.at, url.len, "bad", 3);
}

struct test {
    struct letter letter;
    enum queue_status status;
    char body[32];
    http_tested *done;
    void *owner;
    uint64_t tag;
};

static void send_test(struct letter *letter)
{
    struct test *test = (struct test *)(void *)letter;
    char json[80];
    (void)snprintf(json, sizeof json, "{\"outcome\":\"done\",\"body\":\"%s\"}", test->body);
    test->done(test->owner, test->tag, test->status, slice_of(json));
    free(test);
}

static void hook_test(void *ctx, struct reactor *reactor, struct slice topic, struct slice body,
                      http_tested *done, void *owner, uint64_t tag)
{
    struct test *test = calloc(1, sizeof *test);
    (void)ctx;
    *test = (struct test){.letter = {.run = send_test},
                          .status = slice_is(topic, "t") ? QUEUE_OK : QUEUE_NOT_FOUND,
                          .done = done,
                          .owner = owner,
                          .tag = tag};
    (void)snprintf(test->body, sizeof test->body, "%.*s", (int)body.len, body.len ? body.at : "");
    reactor_post(reactor, &test->letter);
}

static atomic_bool delivery_is_on;

static bool is_on(void *ctx)
{
    (void)ctx;
    return atomic_load(&delivery_is_on);
}

static const struct http_hooks hooks = {.is_on = is_on,
                                        .check_extension = check_extension,
                                        .check_callback = check_callback,
                                        .test = hook_test};

/* ---- the server ---- */

struct server {
    struct fake fake;
    struct front_rig rig;
};

static void start(struct server *server)
{
    memset(server, 0, sizeof *server);
    atomic_store(&delivery_is_on, true);
    server->fake.queue.ops = &fake_ops;
    front_rig_open(&server->rig, &server->fake.queue, (struct http_options){0});
    server->fake.reactor = server->rig.reactor;
    http_shared_set_hooks(server->rig.shared, &hooks);
    assert_int_equal(reactor_start(server->rig.reactor), 0);
}

static void stop(struct server *server)
{
    front_rig_halt(&server->rig);
    front_rig_close(&server->rig);
}

static void show(int fd, const char *line, const char *headers, const char *body)
{
    static char text[10000];
    int len = snprintf(text, sizeof text,
                       "%s HTTP/1.1\r\nHost: a\r\n%sContent-Length: %zu\r\nConnection: "
                       "close\r\n\r\n%s",
                       line, headers, strlen(body), body);
    assert_int_equal(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
}

/* The answer; good until the next call. */
static const char *ask(const struct server *server, const char *line, const char *headers,
                       const char *body)
{
    static char text[20000];
    size_t len = 0;
    int fd = front_rig_dial(&server->rig);
    show(fd, line, headers, body);
    for (ssize_t got; (got = recv(fd, text + len, sizeof text - 1 - len, 0)) > 0;)
        len += (size_t)got;
    text[len] = 0;
    close(fd);
    return text;
}

/* ---- claims ---- */

CLAIM(topics_are_set_as_a_whole_or_in_part)
{
    static const struct {
        const char *sentence, *line, *body;
        bool is_on;
        const char *status, *holds;
    } rows[] = {
        {"nothing yet", "GET /v1/topics/t", "", true, "200", "\"dead\":1},\"dead_bytes\":123,"},
        {"settings and delivery", "PUT /v1/topics/t",
         "{\"ttl\":\"1h\", \"dead_letter\": {\"to\":\"d\"}, \"deliver\": { \"to\": \"https://a b\" "
         "}}",
         true, "200",
         "\"settings\":{\"dead_letter_expired\":false,\"ttl\":\"1h\",\"deliver\":{\"to\":\"https://"
         "a "
         "b\"},\"dead_letter\":{\"to\":\"d\"}}"},
        {"refused in the hook's words", "PUT /v1/topics/t", "{\"deliver\":{\"bad\":1}}", true,
         "400", "\"code\":\"bad_delivery\",\"detail\":\"the word is bad\""},
        {"the same again while delivery is off", "PUT /v1/topics/t",
         "{\"dead_letter\":{\"to\":\"d\"},\"deliver\":{\"to\":\"https://a b\"},\"ttl\":\"2h\"}",
         false, "200", "\"ttl\":\"2h\",\"deliver\""},
        {"another while delivery is off", "PUT /v1/topics/t",
         "{\"dead_letter\":{\"to\":\"d\"},\"deliver\":{\"to\":\"https://a c\"}}", false, "400",
         "\"code\":\"delivery_is_off\""},
        {"a new topic while delivery is off", "PUT /v1/topics/u", "{\"deliver\":{}}", false, "400",
         "\"code\":\"delivery_is_off\""},
        {"a new topic", "PUT /v1/topics/u",
         "{\"dead_letter\":{\"to\":\"d\"},\"deliver\":{\"to\":\"https://a b\"},\"ttl\":\"2h\"}",
         true, "201", "\"deliver\""},
        {"another setting alone, while delivery is off", "PATCH /v1/topics/t",
         "{\"ttl\":null,\"max_attempts\":3}", false, "200",
         "\"settings\":{\"dead_letter_expired\":false,\"max_attempts\":3,\"deliver\":{\"to\":"
         "\"https://a b\"},\"dead_letter\":{\"to\":\"d\"}}"},
        {"within deliver", "PATCH /v1/topics/t", "{\"deliver\":{\"max_in_flight\":9}}", true, "200",
         "\"deliver\":{\"to\":\"https://a b\",\"max_in_flight\":9},\"dead_letter\""},
        {"within deliver, refused", "PATCH /v1/topics/t", "{\"deliver\":{\"x\":\"bad\"}}", true,
         "400", "\"code\":\"bad_delivery\",\"detail\":\"the word is bad\""},
        {"within deliver, delivery is off", "PATCH /v1/topics/t", "{\"deliver\":{\"x\":1}}", false,
         "400", "\"code\":\"delivery_is_off\""},
        {"a topic that is not there", "PATCH /v1/topics/u", "{\"ttl\":1}", true, "404",
         "\"code\":\"not_found\""},
        {"no patch", "PATCH /v1/topics/t", "[]", true, "400", "\"code\":\"bad_json\""},
        {"options do not go in the query", "PATCH /v1/topics/t?ttl=1h", "{}", true, "400",
         "\"code\":\"unknown_option\""},
        {"an end to delivery, while it is off", "PATCH /v1/topics/t", "{\"deliver\":null}", false,
         "200", "\"max_attempts\":3,\"dead_letter\":{\"to\":\"d\"}}"},
        {"dead letters are judged also then", "PATCH /v1/topics/t", "{\"dead_letter\":{\"bad\":1}}",
         false, "400", "\"code\":\"bad_delivery\""},
        {"both go", "PATCH /v1/topics/t", "{\"deliver\":null,\"dead_letter\":null}", false, "200",
         "\"settings\":{\"dead_letter_expired\":false,\"max_attempts\":3}"},
        {"once more", "PUT /v1/topics/t", "{\"deliver\":{\"to\":\"x\"}}", true, "200",
         "\"deliver\""},
        {"a put without a body replaces all", "PUT /v1/topics/t?ttl=1h", "", false, "200",
         "\"settings\":{\"dead_letter_expired\":false,\"ttl\":\"1h\"}"},
    };
    static struct server server;
    start(&server);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        atomic_store(&delivery_is_on, rows[i].is_on);
        const char *output = ask(&server, rows[i].line, "", rows[i].body);
        CASE_HOLDS(rows[i].sentence, strncmp(output + strlen("HTTP/1.1 "), rows[i].status, 3) == 0);
        CASE_HOLDS(rows[i].sentence, strstr(output, rows[i].holds));
    }
    stop(&server);
}

CLAIM(a_patch_has_a_limit)
{
    static struct server server;
    char *body = malloc(20000);
    int fd;
    char output[2000] = "";
    memset(body, ' ', 20000);
    start(&server);
    fd = front_rig_dial(&server.rig);
    static const char head[] =
        "PATCH /v1/topics/t HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n";
    assert_int_equal(send(fd, head, strlen(head), MSG_NOSIGNAL), strlen(head));
    assert_int_equal(send(fd, body, 20000, MSG_NOSIGNAL), 20000);
    assert_true(recv(fd, output, sizeof output - 1, 0) > 0);
    assert_non_null(strstr(output, "413"));
    assert_non_null(strstr(output, "\"limit\":16384"));
    close(fd);
    free(body);
    stop(&server);
}

CLAIM(a_push_may_bring_its_callback)
{
    static struct server server;
    start(&server);
    assert_non_null(strstr(ask(&server, "PUT /v1/topics/t/jobs/1?callback=https://good/%3Fa",
                               "Tarry-Meta-K: v\r\n", "x"),
                           "201 Created"));
    assert_memory_equal(server.fake.meta, "k\0v\0tarry-callback\0https://good/?a", 35);
    assert_int_equal(server.fake.meta_len, 4 + 15 + 16);
    assert_non_null(strstr(
        ask(&server, "POST /v1/topics/t/jobs", "Tarry-Callback: https://good/\r\n", "x"), "201"));
    assert_non_null(strstr(
        ask(&server, "POST /v1/jobs", "", "{\"topic\":\"t\",\"callback\":\"https:\\/\\/g\"}"),
        "created"));
    assert_int_equal(server.fake.meta_len, 15 + 10);
    assert_memory_equal(server.fake.meta, "tarry-callback\0https://g", 25);
    assert_int_equal(atomic_load(&server.fake.pushes), 3);

    const char *output = ask(&server, "POST /v1/topics/t/jobs?callback=https://bad/", "", "x");
    assert_non_null(strstr(output, "400"));
    assert_non_null(strstr(output, "\"code\":\"bad_callback\",\"detail\":\"the host is bad\""));
    assert_non_null(
        strstr(ask(&server, "POST /v1/jobs", "", "{\"topic\":\"t\",\"callback\":\"https://bad\"}"),
               "{\"result\":\"bad_callback\",\"detail\":\"the host is bad\"}"));
    assert_non_null(strstr(
        ask(&server, "POST /v1/topics/t/jobs", "Tarry-Meta-Tarry-Callback: https://good/\r\n", "x"),
        "bad_meta"));
    assert_non_null(
        strstr(ask(&server, "POST /v1/jobs", "", "{\"topic\":\"t\",\"meta\":{\"tarry-x\":\"\"}}"),
               "bad_meta"));
    atomic_store(&delivery_is_on, false);
    assert_non_null(strstr(ask(&server, "POST /v1/topics/t/jobs?callback=https://good/", "", "x"),
                           "delivery_is_off"));
    assert_int_equal(atomic_load(&server.fake.pushes), 3);
    stop(&server);
}

CLAIM(a_failure_may_be_final)
{
    static const struct {
        const char *sentence, *line, *body, *holds;
        int finals;
    } rows[] = {
        {"in the query", "POST /v1/nack?lease=a&final=true", "", "200 OK", 1},
        {"not", "POST /v1/nack?lease=a&final=false", "", "200 OK", 0},
        {"final for all", "POST /v1/nack", "{\"final\":true,\"leases\":[\"a\",\"b\"]}", "200 OK",
         2},
        {"final for one", "POST /v1/nack",
         "{\"leases\":[{\"lease\":\"a\",\"final\":true},{\"lease\":\"b\"}]}", "200 OK", 1},
        {"with a delay", "POST /v1/nack?lease=a&final=true&delay=1s", "", "option_clash", 0},
        {"with a delay in the body", "POST /v1/nack",
         "{\"leases\":[{\"lease\":\"a\",\"final\":true,\"delay\":\"1s\"}]}", "option_clash", 0},
        {"with a delay for all", "POST /v1/nack?delay=1s", "{\"leases\":[\"a\"],\"final\":true}",
         "option_clash", 0},
        {"an ack", "POST /v1/ack?lease=a&final=true", "", "unknown_option", 0},
    };
    static struct server server;
    start(&server);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        atomic_store(&server.fake.finals, 0);
        const char *output = ask(&server, rows[i].line, "", rows[i].body);
        CASE_HOLDS(rows[i].sentence, strstr(output, rows[i].holds));
        CASE_HOLDS(rows[i].sentence, atomic_load(&server.fake.finals) == rows[i].finals);
    }
    stop(&server);
}

CLAIM(a_target_can_be_tested)
{
    static struct server server;
    start(&server);
    const char *output = ask(&server, "POST /v1/topics/t/deliver-test", "", "hi");
    assert_non_null(strstr(output, "200 OK"));
    assert_non_null(strstr(output, "{\"outcome\":\"done\",\"body\":\"hi\"}"));
    output = ask(&server, "POST /v1/topics/u/deliver-test", "", "");
    assert_non_null(strstr(output, "404"));
    assert_non_null(strstr(output, "\"code\":\"no_target\""));
    atomic_store(&delivery_is_on, false);
    output = ask(&server, "POST /v1/topics/t/deliver-test", "", "");
    assert_non_null(strstr(output, "501"));
    assert_non_null(strstr(output, "\"code\":\"no_delivery\""));
    stop(&server);
}

/* The fake never ends its list. */
CLAIM(a_sweep_ends_with_its_client)
{
    static struct server server;
    int fds[4], lists;
    start(&server);
    for (int i = 0; i < 4; i++) {
        fds[i] = front_rig_dial(&server.rig);
        show(fds[i], "POST /v1/topics/t/redrive?error=x", "", "");
    }
    for (int i = 0; i < 5000 && atomic_load(&server.fake.lists) < 20; i++)
        usleep(1000);
    const char *output = ask(&server, "POST /v1/topics/t/purge?state=dead&id_prefix=x", "", "");
    assert_non_null(strstr(output, "503"));
    assert_non_null(strstr(output, "\"code\":\"too_many_sweeps\""));
    assert_non_null(strstr(output, "\"limit\":4"));
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    do {
        lists = atomic_load(&server.fake.lists);
        usleep(100 * 1000);
    } while (lists != atomic_load(&server.fake.lists));
    output = ask(&server, "POST /v1/topics/t/redrive?id_prefix=1&max=1", "", "");
    assert_non_null(strstr(output, "\"jobs\":1,\"seen\":1,\"complete\":false}"));
    assert_int_equal(atomic_load(&server.fake.redriven), 1);
    stop(&server);
}

CLAIM(conflicting_filters_are_rejected)
{
    static const struct {
        const char *sentence, *line, *holds;
    } rows[] = {
        {"an id and a filter", "POST /v1/topics/t/redrive?id=1&error=x", "option_clash"},
        {"purge of others by a filter", "POST /v1/topics/t/purge?error=x", "option_clash"},
        {"a purge has a maximum only with dead jobs", "POST /v1/topics/t/purge?state=ready&max=1",
         "option_clash"},
        {"an empty error", "POST /v1/topics/t/redrive?error=", "bad_option"},
        {"a time that is none", "POST /v1/topics/t/redrive?died_after=x", "bad_option"},
        {"a rehearsal", "POST /v1/topics/t/redrive?max=2&dry_run=true",
         "{\"topic\":\"t\",\"result\":\"ok\",\"jobs\":2,\"dry_run\":true,\"seen\":2,\"complete\":"
         "false}"},
    };
    static struct server server;
    start(&server);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].sentence, strstr(ask(&server, rows[i].line, "", ""), rows[i].holds));
    assert_int_equal(atomic_load(&server.fake.redriven), 0);
    stop(&server);
}

CLAIMS_MAIN(NULL, NULL)
