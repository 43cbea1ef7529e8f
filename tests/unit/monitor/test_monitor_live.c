/* A server's figures of itself: samples of many topics in loop iterations of their own, and the meaning of a sample. */
#include "http/state.h"
#include "monitor/monitor.h"
#include "monitor/status.h"
#include "unit/api/front_client.h"
#include "unit/claim.h"

#define STATUS "GET /v1/status HTTP/1.1\r\nHost: a\r\n\r\n"
#define LIVE "GET /v1/live HTTP/1.1\r\nHost: a\r\n\r\n"

/* ---- a queue with so many topics, which answers at the end of the iteration ---- */

static struct many {
    struct queue queue;
    int topics;
    atomic_bool is_away;      /* nothing is answered, and the store is not well */
    atomic_bool is_slow;      /* nothing is answered for now */
    struct queue_reply_to to; /* of the requested page; done NULL: no request */
    struct queue_topics_page page;
    char after[JOB_TOPIC_BYTES_MAX];
    atomic_int asked, most_in_turn, in_turn;
} many;

static void many_submit(struct queue *queue, const struct command *command,
                        struct queue_reply_to to)
{
    (void)queue;
    assert_int_equal(command->kind, COMMAND_TOPICS);
    assert_null(many.to.done);
    many.to = to;
    many.page = command->topics;
    if (many.page.after.len) /* it is good during the call only */
        memcpy(many.after, many.page.after.at, many.page.after.len);
    many.page.after.at = many.after;
    atomic_fetch_add(&many.asked, 1);
    if (atomic_fetch_add(&many.in_turn, 1) + 1 > many.most_in_turn)
        many.most_in_turn = many.in_turn;
}

static void many_info(struct queue *queue, struct queue_info *out)
{
    (void)queue;
    *out = (struct queue_info){.store = "fake", .healthy = !many.is_away, .accepting = true};
}

static const struct queue_ops many_ops = {
    .submit = many_submit, .watch = front_rig_watch, .info = many_info};

static void many_answer_page(void)
{
    static char names[1000][16];
    static struct queue_topic topics[1000];
    size_t count = 0;
    for (int i = 0; i < many.topics && count < many.page.limit; i++) {
        int len = snprintf(names[count], sizeof names[0], "topic-%05d", i);
        struct slice name = slice_make(names[count], (size_t)len);
        if (many.page.after.len && slice_compare(name, many.page.after) <= 0)
            continue;
        topics[count++] = (struct queue_topic){
            .name = name, .counts = {.delayed = 2}, .totals = {.pushed = (uint64_t)many.asked}};
    }
    struct queue_reply_to to = many.to;
    struct queue_reply reply = {.topics = topics, .topic_count = count};
    many.to.done = NULL;
    to.done(to.owner, to.tag, &reply);
}

/* Answers like the store: a request made by an answer is answered in the same loop iteration. */
static bool many_answer(void *ctx)
{
    (void)ctx;
    while (many.to.done && !many.is_away && !many.is_slow)
        many_answer_page();
    many.in_turn = 0;
    return false;
}

static void many_start(struct server *server, int topics)
{
    memset(server, 0, sizeof *server);
    memset(&many, 0, sizeof many);
    many.queue.ops = &many_ops;
    many.topics = topics;
    front_rig_add = monitor_open;
    front_rig_open(&server->rig, &many.queue, (struct http_options){0});
    assert_true(monitor_look(server->rig.shared, server->rig.reactor, &many.queue, NULL));
    reactor_at_iteration_end(server->rig.reactor, many_answer, NULL);
    assert_int_equal(reactor_start(server->rig.reactor), 0);
}

static void many_stop(struct server *server)
{
    front_rig_halt(&server->rig);
    front_rig_close(&server->rig);
}

/* ---- claims about samples ---- */

CLAIM(many_topics_are_read_in_pages_over_several_iterations)
{
    enum { TOPICS = 2100 };
    static struct server server;
    struct client client;
    char text[100];

    many_start(&server, TOPICS);
    client_dial(&client, &server);
    client_write(&client, STATUS);
    client_receive_answers(&client, 1);
    (void)snprintf(text, sizeof text, "all is well: %d topics, %d jobs", TOPICS, 2 * TOPICS);
    assert_non_null(strstr(client.text, text));
    assert_true(many.asked >= TOPICS / 250);
    assert_int_equal(many.most_in_turn, 1);
    client_hang_up(&client);
    many_stop(&server);
}

CLAIM(a_store_out_of_reach_is_not_waited_for)
{
    static struct server server;
    struct client client;

    many_start(&server, 3);
    client_dial(&client, &server);
    client_write(&client, STATUS);
    client_receive_answers(&client, 1);
    assert_non_null(strstr(client.text, "\"well\":true"));
    many.is_away = true;
    client_write(&client, STATUS);
    client_receive_answers(&client, 2);
    assert_non_null(strstr(client.text, "\"code\":\"store_failed\",\"severity\":\"critical\""));
    client_hang_up(&client);
    many.is_away = false;
    many_stop(&server);
}

CLAIM(a_status_is_built_at_most_ten_times_a_second)
{
    static struct server server;
    struct client client;

    many_start(&server, 3);
    client_dial(&client, &server);
    int64_t began_us = clock_boot_us();
    for (int i = 0; i < 200; i++)
        client_write(&client, STATUS);
    while (client_count_of(client.text, "\"well\":true") < 200)
        assert_true(client_receive(&client, 60000));
    assert_true(many.asked <= 3 + (clock_boot_us() - began_us) / 100000);
    client_hang_up(&client);
    many_stop(&server);
}

/* Sends at most `most` requests that need no sample, for iterations, until the queue has been asked
 * so often. */
static void many_iterate(struct client *client, int asked, int most)
{
    int answers = client_count_of(client->text, "HTTP/1.1 ");
    for (int i = 1; i <= most && many.asked < asked; i++) {
        client_write(client, HEALTH);
        client_receive_answers(client, answers + i);
    }
}

CLAIM(a_slow_sample_for_the_history_is_followed_by_a_pause)
{
    enum { TOOK_MS = 2000, LOAD = 10, PERIOD_MS = 5000, ALL = 100, SOME = 4 };
    static struct server server;
    struct client client;

    clock_fake_start(1000 * 1000, 1000 * 1000);
    many_start(&server, 3);
    many.is_slow = true;
    client_dial(&client, &server);
    many_iterate(&client, 1, ALL);
    assert_int_equal(many.asked, 1);
    clock_fake_advance(TOOK_MS);
    many.is_slow = false;
    many_iterate(&client, 2, SOME); /* the sample ends */
    clock_fake_advance(PERIOD_MS);
    many_iterate(&client, 2, SOME);
    assert_int_equal(many.asked, 1);
    clock_fake_advance(LOAD * TOOK_MS);
    many_iterate(&client, 2, ALL);
    assert_int_equal(many.asked, 2);
    client_hang_up(&client);
    many_stop(&server);
    clock_fake_end();
}

/* A front may end while a client listens to it. */
CLAIM(the_end_of_the_front_ends_listening)
{
    static struct server server;
    struct client client;

    many_start(&server, 600);
    client_dial(&client, &server);
    client_write(&client, LIVE);
    while (!strstr(client.text, "event: snapshot"))
        assert_true(client_receive(&client, 60000));
    assert_non_null(strstr(client.text, "event: history"));
    assert_non_null(strstr(client.text, "\"topics_left_out\":550"));
    many_stop(&server);
    client_hang_up(&client);
}

/* ---- claims about what a sample means ---- */

static struct monitor_sample_topic topic = {.name = {.at = "t", .len = 1}};
static struct monitor_sample sample = {.wall_ms = 10000000,
                                       .inner_ms = 10000000,
                                       .is_whole = true,
                                       .is_healthy = true,
                                       .is_accepting = true,
                                       .topics = &topic,
                                       .topic_count = 1};

#define MINUTE 60000

static const struct judged {
    const char *sentence;
    uint64_t ready, dead, held, leased;
    int64_t due_ms, taken_ms, paused_ms, stopped_ms; /* ago */
    const char *breaker;
    bool delivers, is_away, is_redis, is_full, is_moved;
    int64_t late_ms;
    uint64_t late_count, process_bytes;
    bool is_memory_spent;
    int64_t ends_s, stepped_ms; /* ends_s: from now; stepped_ms: ago */
    int64_t disk_full_in_ms;
    const char *code, *reports; /* NULL: all is well */
    bool is_critical;
} judgements[] = {
    {.sentence = "nothing"},
    {"ready since now", .ready = 1, .due_ms = 100},
    {"ready for a while", .ready = 1, .due_ms = 9000},
    {"slow", .ready = 1, .due_ms = 11000, .code = "late", .reports = "too few workers, or none"},
    {"slow for long, but taken", .ready = 1, .due_ms = 9 * MINUTE, .taken_ms = 50000,
     .code = "late", .reports = "9 min ago"},
    {"stuck", .ready = 1, .due_ms = 61000, .taken_ms = 61000, .code = "stuck",
     .reports = "no worker takes", .is_critical = true},
    {"stuck before its target", .ready = 1, .due_ms = 61000, .taken_ms = 61000, .delivers = true,
     .code = "stuck", .reports = "do not reach its target", .is_critical = true},
    {"stuck before an open breaker", .ready = 1, .due_ms = 61000, .taken_ms = 61000,
     .delivers = true, .breaker = "open", .code = "stuck",
     .reports = "do not reach its target (the circuit breaker is open): the oldest",
     .is_critical = true},
    {"a target that has begun to fail", .ready = 1, .due_ms = 11000, .delivers = true,
     .breaker = "open", .code = "late",
     .reports = "too slow or fails (the circuit breaker is open): its oldest"},
    {"a target that is tried", .ready = 1, .due_ms = 11000, .delivers = true,
     .breaker = "half_open", .code = "late",
     .reports = "too slow or fails (the circuit breaker is half open): its oldest"},
    {"a slow target", .ready = 1, .due_ms = 11000, .delivers = true, .code = "late",
     .reports = "the target of 't' is too slow or fails: its oldest"},
    {"a target that has not answered yet", .ready = 1, .leased = 1, .due_ms = 5 * MINUTE,
     .taken_ms = 5 * MINUTE, .delivers = true, .code = "late", .reports = "is too slow or fails"},
    {"a target that never answers", .ready = 1, .leased = 1, .due_ms = 7 * MINUTE,
     .taken_ms = 7 * MINUTE, .delivers = true, .code = "stuck",
     .reports = "do not reach its target", .is_critical = true},
    {"held by a limit", .ready = 2, .held = 2, .due_ms = 9 * MINUTE, .taken_ms = 9 * MINUTE},
    {"held by a limit for long", .ready = 2, .held = 2, .due_ms = 11 * MINUTE,
     .taken_ms = 11 * MINUTE, .code = "held", .reports = "all ready jobs of 't' are held"},
    {"held by a limit, but taken", .ready = 2, .held = 2, .due_ms = 99 * MINUTE,
     .taken_ms = 9 * MINUTE},
    {"held in a paused topic", .ready = 2, .held = 2, .due_ms = 59 * MINUTE,
     .taken_ms = 59 * MINUTE, .paused_ms = 59 * MINUTE},
    {"a group is stopped", .ready = 2, .held = 1, .due_ms = 5000, .stopped_ms = 59 * MINUTE},
    {"a group is stopped for long", .ready = 2, .held = 1, .due_ms = 5000,
     .stopped_ms = 61 * MINUTE, .code = "held", .reports = "paused or on hold, for 61 min"},
    {"partly held", .ready = 2, .held = 1, .due_ms = 61000, .taken_ms = 61000, .code = "stuck",
     .reports = "no worker takes", .is_critical = true},
    {"nothing taken, nothing ready", .taken_ms = 99 * MINUTE},
    {"paused", .ready = 1, .due_ms = 90 * MINUTE, .taken_ms = 90 * MINUTE,
     .paused_ms = 59 * MINUTE},
    {"paused for long", .ready = 1, .due_ms = 90 * MINUTE, .taken_ms = 90 * MINUTE,
     .paused_ms = 61 * MINUTE, .code = "stuck", .reports = "paused for 61 min"},
    {"paused for long, and empty", .paused_ms = 61 * MINUTE},
    {"dead", .dead = 1, .code = "dead", .reports = "'t' has 1 job that died"},
    {"failed", .is_away = true, .code = "store_failed", .is_critical = true},
    {"away", .is_away = true, .is_redis = true, .code = "redis_away", .is_critical = true},
    {"full", .is_full = true, .code = "full", .is_critical = true},
    {"moved", .is_full = true, .is_moved = true, .code = "store_failed", .is_critical = true},
    {"late", .late_ms = 1500, .late_count = 5, .code = "late", .reports = "1.5 s late"},
    {"not late", .late_ms = 1000, .late_count = 5000},
    {"very late, few", .late_ms = 2 * MINUTE, .late_count = 99, .code = "late"},
    {"very late", .late_ms = 2 * MINUTE, .late_count = 100, .code = "late", .reports = "2 min late",
     .is_critical = true},
    {"memory is short", .process_bytes = 95 << 20, .code = "memory", .reports = "95.0 MiB"},
    {"memory is not short", .process_bytes = 85 << 20},
    {"memory is spent", .process_bytes = 99 << 20, .is_memory_spent = true, .code = "memory",
     .is_critical = true},
    {"a disk that fills up in hours", .disk_full_in_ms = 239 * MINUTE, .code = "disk",
     .reports = "the disk will be full in 4 h"},
    {"a disk that fills up tomorrow", .disk_full_in_ms = 241 * MINUTE},
    {"a disk that is full", .disk_full_in_ms = 1, .is_full = true, .code = "full",
     .is_critical = true},
    {"a certificate", .ends_s = 8 * 86400},
    {"a certificate ends", .ends_s = 6 * 86400, .code = "certificate", .reports = "in 6 days"},
    {"a certificate ends now", .ends_s = 7200, .code = "certificate", .is_critical = true},
    {"a certificate ended", .ends_s = -86400, .code = "certificate", .is_critical = true},
    {"the clock was changed", .stepped_ms = 9 * MINUTE, .code = "clock",
     .reports = "changed by 5.0 s"},
    {"the clock was changed long ago", .stepped_ms = 11 * MINUTE},
};

static void judge(const struct judged *judged, struct buffer *out)
{
    struct monitor_status status;
    topic.figures.counts = (struct queue_counts){.ready = judged->ready,
                                                 .dead = judged->dead,
                                                 .held = judged->held,
                                                 .leased = judged->leased};
    topic.figures.oldest_ready_due_ms = judged->ready ? sample.wall_ms - judged->due_ms : 0;
    topic.taken_ms = sample.inner_ms - judged->taken_ms;
    topic.paused_ms = judged->paused_ms ? sample.inner_ms - judged->paused_ms : 0;
    topic.stopped_ms = judged->stopped_ms ? sample.inner_ms - judged->stopped_ms : 0;
    topic.delivers = judged->delivers;
    topic.breaker = judged->breaker;
    sample.is_healthy = !judged->is_away;
    sample.is_redis = judged->is_redis;
    sample.is_accepting = !judged->is_full;
    sample.is_moved = judged->is_moved;
    struct monitor_status_input input = {
        .sample = &sample,
        .caller = access_anyone(),
        .wall_ms = sample.wall_ms,
        .lateness = {.p50_ms = 0, .p99_ms = judged->late_ms, .count = judged->late_count},
        .process_bytes = judged->process_bytes,
        .process_bytes_max = 100 << 20,
        .is_memory_spent = judged->is_memory_spent,
        .disk_full_in_ms = judged->disk_full_in_ms,
        .certificate_ends_s = judged->ends_s ? sample.wall_ms / 1000 + judged->ends_s : 0,
        .steps = {.count = judged->stepped_ms != 0,
                  .last_ms = -5000,
                  .last_at_ms = sample.inner_ms - judged->stepped_ms}};
    monitor_status_evaluate(&status, &input);
    buffer_clear(out);
    monitor_status_write(out, &status);
    buffer_append_byte(out, '\0');
}

CLAIM(each_way_of_not_being_well_has_its_code)
{
    struct buffer text;
    char code[64];

    buffer_init(&text, 1 << 16);
    for (size_t i = 0; i < COUNT_OF(judgements); i++) {
        const struct judged *judged = &judgements[i];
        judge(judged, &text);
        bool is_well = strstr(text.at, "{\"well\":true") != NULL;
        CASE_HOLDS(judged->sentence, is_well == !judged->is_critical);
        CASE_HOLDS(judged->sentence,
                   client_count_of(text.at, "\"code\"") == (judged->code != NULL));
        CASE_HOLDS(judged->sentence, judged->code || strstr(text.at, "all is well: 1 topic, "));
        (void)snprintf(code, sizeof code, "\"code\":\"%s\",\"severity\":\"%s\"",
                       judged->code ? judged->code : "",
                       judged->is_critical ? "critical" : "warning");
        CASE_HOLDS(judged->sentence, !judged->code || strstr(text.at, code));
        CASE_HOLDS(judged->sentence, !judged->reports || strstr(text.at, judged->reports));
    }
    buffer_fini(&text);
}

CLAIM(each_party_of_background_work_is_reported)
{
    struct monitor_status status;
    struct buffer text;

    buffer_init(&text, 1 << 16);
    judge(&judgements[0], &text); /* a topic in which nothing is wrong */
    struct monitor_status_input input = {
        .sample = &sample, .caller = access_anyone(), .wall_ms = sample.wall_ms};
    input.troubles_ms[TROUBLE_CHECKPOINT][0] = 11000;
    input.troubles_ms[TROUBLE_CHECKPOINT][2] = 11 * MINUTE;
    input.troubles_ms[TROUBLE_CHECKPOINT][5] = 9000; /* below the limit */
    input.troubles_ms[TROUBLE_INTAKE][0] = 11000;
    input.troubles_ms[TROUBLE_INTAKE][1] = 12000;
    input.troubles_ms[TROUBLE_DATABASE_UPKEEP][2] = 11000;
    buffer_clear(&text);
    monitor_status_evaluate(&status, &input);
    monitor_status_write(&text, &status);
    buffer_append_byte(&text, '\0');
    assert_int_equal(client_count_of(text.at, "\"code\""), 5);
    assert_non_null(strstr(text.at, "checkpoints of shard 02 have failed for 11 min"));
    assert_non_null(strstr(text.at, "checkpoints of shard 00 have failed for 11 s"));
    assert_non_null(strstr(text.at, "no connection to its broker for 11 s"));
    assert_non_null(strstr(text.at, "accepted no message of the intake for 12 s"));
    assert_non_null(strstr(text.at, "refused the server's ends of leases for 11 s"));
    buffer_fini(&text);
}

CLAIM(each_problem_has_a_code)
{
    for (int i = 0; i < MONITOR_PROBLEMS; i++)
        assert_non_null(monitor_problems[i].code);
}

CLAIMS_MAIN(NULL, NULL)
