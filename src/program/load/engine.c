/* The engine of load.h: one thread that serves the connections until the plan is complete. */
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "load/protocol.h"
#include "load/socket.h"
#include "load/tally.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- connections ---- */

/*
 * One connection of the generator: bytes to send, bytes received but not yet parsed, and the
 * expected answers in order.
 *
 * Never blocks. An error ends the run, so it is reported as a sentence for the user.
 */

struct load_expected {
    int64_t sent_us;
    uint32_t count; /* number of jobs */
    uint32_t kind;  /* enum load_kind */
};

enum load_role { LOAD_PUSHER = 1, LOAD_CONSUMER, LOAD_ACKER };

struct load_conn {
    struct load_socket socket;
    enum load_role role;
    struct load_conn *acker; /* for a consumer: the connection for its acks, possibly itself */
    bool blocked;            /* the socket is full: waiting for EPOLLOUT */
    struct buffer out;
    size_t out_sent;
    struct buffer in;
    size_t in_need;                 /* do not parse before this many bytes are available */
    struct load_expected *expected; /* a ring */
    uint32_t expected_mask, expected_head, expected_tail;
    unsigned waiting[LOAD_ACK + 1]; /* expected answers, by kind */
    unsigned got;                   /* jobs taken in this round */
    int64_t take_at_us;             /* earliest time of the next take; 0: immediately */
};

enum { BUFFER_BYTES_MAX = 1 << 28, READ_BYTES = 1 << 18, READ_BYTES_MIN = 1 << 16 };

static uint32_t ring_size(const struct load_plan *plan)
{
    uint32_t most = plan->pipeline > 4 * LOAD_TAKE_MAX ? plan->pipeline : 4 * LOAD_TAKE_MAX;
    uint32_t size = 1;
    while (size < most + 16)
        size *= 2;
    return size;
}

/* Opens a connection, to the plan's second server if `to_second` is set. */
static bool load_conn_open(struct load_conn *conn, const struct load_plan *plan,
                           enum load_role role, bool to_second, char problem[LOAD_TEXT_BYTES_MAX])
{
    uint32_t size = ring_size(plan);
    *conn = (struct load_conn){.socket.fd = -1, .role = role, .expected_mask = size - 1};
    buffer_init(&conn->out, BUFFER_BYTES_MAX);
    buffer_init(&conn->in, BUFFER_BYTES_MAX);
    conn->expected = calloc(size, sizeof *conn->expected);
    if (!conn->expected) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "out of memory");
        return false;
    }
    return load_socket_open(&conn->socket, plan, to_second ? plan->second_port : plan->port, false,
                            problem);
}

static void load_conn_close(struct load_conn *conn)
{
    load_socket_close(&conn->socket);
    buffer_fini(&conn->out);
    buffer_fini(&conn->in);
    free(conn->expected);
    conn->expected = NULL;
}

/* Records that `answers` answers will come, which share `count` jobs evenly. */
static void load_conn_expect(struct load_conn *conn, enum load_kind kind, unsigned answers,
                             uint32_t count, int64_t sent_us)
{
    assert(answers > 0 && count % answers == 0);
    assert(conn->expected_tail - conn->expected_head + answers <= conn->expected_mask + 1);
    for (unsigned i = 0; i < answers; i++)
        conn->expected[conn->expected_tail++ & conn->expected_mask] =
            (struct load_expected){.sent_us = sent_us, .count = count / answers, .kind = kind};
    conn->waiting[kind] += answers;
}

/* Returns the next expected answer, or NULL. Call load_conn_settle when it has arrived. */
static const struct load_expected *load_conn_next(const struct load_conn *conn)
{
    if (conn->expected_head == conn->expected_tail)
        return NULL;
    return &conn->expected[conn->expected_head & conn->expected_mask];
}

static void load_conn_settle(struct load_conn *conn)
{
    const struct load_expected *next = load_conn_next(conn);
    assert(next && conn->waiting[next->kind] > 0);
    conn->waiting[next->kind]--;
    conn->expected_head++;
}

/* Returns whether nothing is left to send or receive. */
static bool load_conn_is_idle(const struct load_conn *conn)
{
    return !load_conn_next(conn) && conn->out.len == 0 && conn->in.len == 0;
}

/* Send and receive as much as possible without waiting. Return false and fill in `problem` if
 * the connection is lost. */
static bool load_conn_send(struct load_conn *conn, char problem[LOAD_TEXT_BYTES_MAX])
{
    if (conn->out.failed) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX,
                 "out of memory for requests: use fewer or smaller jobs per batch");
        return false;
    }
    while (conn->out_sent < conn->out.len) {
        ssize_t sent = load_socket_send(&conn->socket, conn->out.at + conn->out_sent,
                                        conn->out.len - conn->out_sent);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN) {
            conn->blocked = true;
            return true;
        }
        if (sent < 0) {
            snprintf(problem, LOAD_TEXT_BYTES_MAX, "connection lost while sending: %s",
                     strerror(errno));
            return false;
        }
        conn->out_sent += (size_t)sent;
    }
    conn->blocked = false;
    conn->out_sent = 0;
    buffer_clear(&conn->out);
    return true;
}

static bool load_conn_receive(struct load_conn *conn, char problem[LOAD_TEXT_BYTES_MAX])
{
    if (conn->in.cap - conn->in.len < READ_BYTES_MIN && !buffer_reserve(&conn->in, READ_BYTES)) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "an answer is too long");
        return false;
    }
    ssize_t got =
        load_socket_receive(&conn->socket, conn->in.at + conn->in.len, conn->in.cap - conn->in.len);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "the server closed a connection%s%s",
                 got < 0 ? ": " : "", got < 0 ? strerror(errno) : "");
        return false;
    }
    conn->in.len += (size_t)got;
    return true;
}

/* Removes the first received bytes. */
static void load_conn_consume(struct load_conn *conn, size_t bytes)
{
    assert(bytes <= conn->in.len);
    if (bytes < conn->in.len)
        memmove(conn->in.at, conn->in.at + bytes, conn->in.len - bytes);
    conn->in.len -= bytes;
}

/* ---- the engine ---- */

enum { EVENTS_MAX = 256, PROGRESS_US = 500000, SLEEP_US_MAX = 1000000 };

struct load_engine {
    const struct load_plan *plan;
    const struct load_protocol *protocol;
    struct load_result *result;
    struct load_speech *speech;
    struct load_tally tally;
    struct random random;
    int epoll;
    struct load_conn *conns; /* pushers first, then consumers, then ackers */
    unsigned conn_count;
    unsigned next_conn;   /* open loop: index of the next connection */
    uint64_t issued;      /* jobs sent or about to be sent */
    uint64_t answers_due; /* answers expected for pushes and acks */
    bool consuming;
    bool sweep; /* check every connection in the next iteration, not only those with events */
    int64_t start_us, progress_us;
    int64_t wall_after_boot_us; /* wall clock minus time since boot */
    int64_t event_us;           /* time of the last relevant answer */
    struct load_stamp stamps[LOAD_BATCH_MAX];
    struct load_answer answer;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static bool push_is_over(const struct load_engine *engine, int64_t now_us)
{
    const struct load_plan *plan = engine->plan;
    return (plan->jobs && engine->issued >= plan->jobs) ||
           (plan->duration_ms && now_us - engine->start_us >= plan->duration_ms * 1000);
}

/* Returns the time until all jobs are due, rounded up; 0 if that is past. */
static int64_t until_due_ms(const struct load_engine *engine, int64_t now_us)
{
    int64_t left_us = engine->start_us + engine->plan->due_in_ms * 1000 - now_us;
    return left_us > 0 ? (left_us + 999) / 1000 : 0;
}

static int64_t pick_delay_ms(struct load_engine *engine, int64_t now_us)
{
    const struct load_plan *plan = engine->plan;
    int64_t unit_ms = engine->protocol->delay_unit_ms;
    uint64_t range = (uint64_t)(plan->delay_max_ms - plan->delay_min_ms) + 1;
    int64_t delay_ms = plan->due_in_ms
                           ? until_due_ms(engine, now_us)
                           : plan->delay_min_ms + (int64_t)random_below(&engine->random, range);
    return (delay_ms + unit_ms - 1) / unit_ms * unit_ms;
}

/* Returns the time when the first job is due. */
static int64_t first_due_us(const struct load_engine *engine, int64_t now_us)
{
    const struct load_plan *plan = engine->plan;
    return plan->due_in_ms ? engine->start_us + plan->due_in_ms * 1000
                           : now_us + plan->delay_min_ms * 1000;
}

static void push_batch(struct load_engine *engine, struct load_conn *conn, int64_t now_us,
                       int64_t meant_us)
{
    const struct load_plan *plan = engine->plan;
    uint64_t count = plan->batch;
    if (plan->jobs && plan->jobs - engine->issued < count)
        count = plan->jobs - engine->issued;
    for (uint64_t i = 0; i < count; i++)
        engine->stamps[i] = (struct load_stamp){.run = engine->tally.run,
                                                .index = engine->issued + i,
                                                .sent_us = now_us,
                                                .delay_ms = pick_delay_ms(engine, now_us)};
    engine->protocol->push(engine->speech, &conn->out, engine->stamps, (unsigned)count);
    load_conn_expect(conn, LOAD_PUSH, 1, (uint32_t)count, meant_us);
    engine->issued += count;
    engine->answers_due++;
    if (!engine->tally.take_first_us && !plan->take_after)
        engine->tally.take_first_us = first_due_us(engine, now_us);
}

/* Sends pushes in a closed loop. Waits until half of the requests are answered, so that a server
 * which answers them one by one still gets many at a time. */
static void conn_feed(struct load_engine *engine, struct load_conn *conn, int64_t now_us)
{
    const struct load_plan *plan = engine->plan;
    if (plan->rate_per_s || conn->waiting[LOAD_PUSH] > plan->pipeline / 2)
        return;
    while (conn->waiting[LOAD_PUSH] < plan->pipeline && !push_is_over(engine, now_us))
        push_batch(engine, conn, now_us, now_us);
}

static int64_t meant_us(const struct load_engine *engine, uint64_t index)
{
    return engine->start_us + (int64_t)((double)index * 1e6 / (double)engine->plan->rate_per_s);
}

/* Sends the pushes of the open loop that are due by the clock, in rotation over the connections
 * that have room. Returns the time of the next push, or -1 if an answer must come first or
 * nothing is left. */
static int64_t feed_by_clock(struct load_engine *engine, int64_t now_us)
{
    const struct load_plan *plan = engine->plan;
    unsigned full = 0;
    while (!push_is_over(engine, now_us) && full < plan->connections) {
        int64_t at_us = meant_us(engine, engine->issued);
        if (at_us > now_us)
            return at_us;
        struct load_conn *conn = &engine->conns[engine->next_conn++ % plan->connections];
        if (conn->waiting[LOAD_PUSH] >= plan->pipeline) {
            full++;
            continue;
        }
        full = 0;
        push_batch(engine, conn, now_us, at_us);
    }
    return -1;
}

static void conn_take(struct load_engine *engine, struct load_conn *conn, int64_t now_us)
{
    if (!engine->consuming || conn->role != LOAD_CONSUMER || conn->waiting[LOAD_TAKE] ||
        conn->take_at_us > now_us)
        return;
    unsigned answers = engine->protocol->take(engine->speech, &conn->out, conn->got);
    load_conn_expect(conn, LOAD_TAKE, answers, 0, now_us);
    conn->got = 0;
}

/* Records the jobs that came, acks those of this run, and schedules the next take. */
static bool on_taken(struct load_engine *engine, struct load_conn *conn, int64_t now_us)
{
    struct load_answer *answer = &engine->answer;
    unsigned ours = 0;
    engine->result->takes++;
    engine->result->takes_empty += answer->item_count == 0;
    for (unsigned i = 0; i < answer->item_count; i++) {
        const struct load_item *item = &answer->items[i];
        if (!load_tally_delivered(&engine->tally, item->body, now_us))
            continue;
        if (item->due_ms)
            load_tally_late_by_due(&engine->tally, item->due_ms,
                                   now_us + engine->wall_after_boot_us);
        answer->items[ours++] = *item;
    }
    conn->got += answer->item_count;
    if (ours > 0) {
        unsigned answers =
            engine->protocol->ack(engine->speech, &conn->acker->out, answer->items, ours);
        load_conn_expect(conn->acker, LOAD_ACK, answers, ours, now_us);
        engine->answers_due += answers;
        engine->event_us = now_us;
    }
    if (engine->protocol->poll_us && conn->waiting[LOAD_TAKE] == 0)
        conn->take_at_us = conn->got ? 0 : now_us + engine->protocol->poll_us;
    return answer->failed == 0;
}

/* Processes an answer. Returns false to end the run. */
static bool on_answer(struct load_engine *engine, struct load_conn *conn,
                      struct load_expected expected, int64_t now_us)
{
    const struct load_answer *answer = &engine->answer;
    load_conn_settle(conn);
    if (answer->failed)
        load_tally_problem(&engine->tally, answer->problem);
    switch ((enum load_kind)expected.kind) {
    case LOAD_GREET:
        return answer->failed == 0;
    case LOAD_PUSH:
        engine->answers_due--;
        engine->event_us = now_us;
        load_tally_pushed(&engine->tally, expected.count, answer->failed, expected.sent_us, now_us);
        return true;
    case LOAD_TAKE:
        return on_taken(engine, conn, now_us);
    case LOAD_ACK:
        engine->answers_due--;
        load_tally_acked(&engine->tally, expected.count, answer->failed, now_us);
        return true;
    }
    return false;
}

/* Parses all complete answers. Returns false to end the run. */
static bool read_answers(struct load_engine *engine, struct load_conn *conn, int64_t now_us)
{
    struct load_answer *answer = &engine->answer;
    size_t used = 0;
    bool good = true;
    while (good && conn->in.len > used && conn->in.len - used >= conn->in_need) {
        struct slice bytes = slice_make(conn->in.at + used, conn->in.len - used);
        const struct load_expected *next = load_conn_next(conn);
        answer->problem = bytes;
        enum load_outcome outcome =
            next ? engine->protocol->parse(engine->speech, (enum load_kind)next->kind, next->count,
                                           bytes, answer)
                 : LOAD_BROKEN;
        if (outcome == LOAD_PARTIAL) {
            conn->in_need = answer->need;
            break;
        }
        if (outcome == LOAD_BROKEN) {
            load_tally_problem(&engine->tally, answer->problem);
            return false;
        }
        conn->in_need = 0;
        used += answer->bytes;
        good = on_answer(engine, conn, *next, now_us);
    }
    load_conn_consume(conn, used);
    return good;
}

/* Sends pending bytes and updates whether epoll watches for room in the socket. */
static bool conn_flush(struct load_engine *engine, struct load_conn *conn)
{
    bool blocked = conn->blocked;
    if (conn->out.len == 0 && !conn->out.failed)
        return true;
    if (!load_conn_send(conn, engine->result->problem))
        return false;
    if (conn->blocked != blocked) {
        struct epoll_event event = {.events = EPOLLIN | (conn->blocked ? EPOLLOUT : 0u),
                                    .data.ptr = conn};
        epoll_ctl(engine->epoll, EPOLL_CTL_MOD, conn->socket.fd, &event);
    }
    return true;
}

static bool open_conn(struct load_engine *engine, struct load_conn *conn, enum load_role role)
{
    bool to_second = *engine->plan->second_port && (conn - engine->conns) % 2 == 1;
    if (!load_conn_open(conn, engine->plan, role, to_second, engine->result->problem))
        return false;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    if (epoll_ctl(engine->epoll, EPOLL_CTL_ADD, conn->socket.fd, &event) != 0)
        return false;
    if (engine->protocol->greet)
        load_conn_expect(conn, LOAD_GREET, engine->protocol->greet(engine->speech, &conn->out), 0,
                         0);
    return true;
}

/* Reopens a connection. Servers close connections that are silent for long, as between the last
 * push and a distant due time. */
static bool conn_reopen(struct load_engine *engine, struct load_conn *conn)
{
    enum load_role role = conn->role;
    struct load_conn *acker = conn->acker;
    load_conn_close(conn);
    if (!open_conn(engine, conn, role))
        return false;
    conn->acker = acker;
    return conn_flush(engine, conn);
}

/* Handles received bytes or room to send on a connection. Returns false to end the run. */
static bool on_event(struct load_engine *engine, struct load_conn *conn, uint32_t events)
{
    char problem[LOAD_TEXT_BYTES_MAX];
    int64_t now_us = 0;
    if (events & ~(uint32_t)EPOLLOUT) {
        if (!load_conn_receive(conn, problem)) {
            if (load_conn_is_idle(conn))
                return conn_reopen(engine, conn);
            load_tally_problem(&engine->tally, slice_of(problem));
            return false;
        }
        now_us = clock_boot_us();
        if (!read_answers(engine, conn, now_us))
            return false;
        if (conn->role == LOAD_CONSUMER)
            conn_take(engine, conn, now_us);
        else if (conn->role == LOAD_PUSHER)
            conn_feed(engine, conn, now_us);
    }
    return conn_flush(engine, conn) && (!conn->acker || conn_flush(engine, conn->acker));
}

/* Returns whether the run has ended: all jobs pushed and delivered, interrupted, or nothing
 * received for too long. */
static bool engine_is_over(struct load_engine *engine, int64_t now_us)
{
    const struct load_plan *plan = engine->plan;
    const struct load_result *result = engine->result;
    bool pushed = push_is_over(engine, now_us);
    if (interrupted)
        return true;
    if (pushed && engine->answers_due == 0 &&
        (!plan->consumers || result->delivered >= result->pushed))
        return true;
    int64_t delay_ms = plan->consumers ? plan->delay_max_ms : 0;
    if (now_us - engine->event_us > (delay_ms + plan->timeout_ms) * 1000) {
        static const char text[] = "gave up waiting: no more answers arrived";
        load_tally_problem(&engine->tally, slice_of(text));
        return true;
    }
    if (!engine->consuming && plan->consumers && pushed && engine->answers_due == 0) {
        engine->consuming = engine->sweep = true;
        engine->tally.take_first_us = now_us;
    }
    return false;
}

/* Handles timed events: pushes of the open loop and postponed takes. Sets *wake_us to the next
 * time to check. */
static bool on_clock(struct load_engine *engine, int64_t now_us, int64_t *wake_us)
{
    *wake_us = now_us + SLEEP_US_MAX;
    if (engine->plan->rate_per_s) {
        int64_t next_us = feed_by_clock(engine, now_us);
        if (next_us >= 0 && next_us < *wake_us)
            *wake_us = next_us;
    }
    if (engine->plan->duration_ms) {
        int64_t end_us = engine->start_us + engine->plan->duration_ms * 1000;
        if (end_us > now_us && end_us < *wake_us)
            *wake_us = end_us;
    }
    bool sweep = engine->sweep || engine->plan->rate_per_s || engine->protocol->poll_us;
    for (unsigned i = 0; sweep && i < engine->conn_count; i++) {
        struct load_conn *conn = &engine->conns[i];
        conn_take(engine, conn, now_us);
        if (conn->take_at_us > now_us && conn->take_at_us < *wake_us)
            *wake_us = conn->take_at_us;
        if (!conn->blocked && !conn_flush(engine, conn))
            return false;
    }
    engine->sweep = false;
    if (engine->plan->progress && now_us - engine->progress_us >= PROGRESS_US) {
        load_progress_print(engine->plan, engine->result, now_us - engine->start_us);
        engine->progress_us = now_us;
    }
    return true;
}

static bool engine_run(struct load_engine *engine)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t now_us = clock_boot_us(), wake_us;
    engine->start_us = engine->event_us = engine->progress_us = now_us;
    engine->wall_after_boot_us = clock_inner_us() - clock_boot_us();
    engine->result->began_us = now_us;
    engine->consuming = !engine->plan->take_after;
    engine->sweep = true;
    for (unsigned i = 0; i < engine->plan->connections; i++)
        conn_feed(engine, &engine->conns[i], now_us);
    while (!engine_is_over(engine, now_us)) {
        if (!on_clock(engine, now_us, &wake_us))
            return false;
        now_us = clock_boot_us();
        int64_t sleep_us = wake_us > now_us ? wake_us - now_us : 0;
        struct timespec wait = {.tv_sec = sleep_us / 1000000, .tv_nsec = sleep_us % 1000000 * 1000};
        int count = epoll_pwait2(engine->epoll, events, EVENTS_MAX, &wait, NULL);
        if (count < 0 && errno != EINTR) {
            load_tally_problem(&engine->tally, slice_of(strerror(errno)));
            return false;
        }
        for (int i = 0; i < count; i++)
            if (!on_event(engine, events[i].data.ptr, events[i].events))
                return false;
        now_us = clock_boot_us();
    }
    return true;
}

/* Returns `done`. If it is false, the trace file could not be written, and the error in errno is
 * stored. */
static bool trace_result(struct load_engine *engine, bool done)
{
    return done || error_text(engine->result->problem, LOAD_TEXT_BYTES_MAX, "cannot write '%s': %s",
                              engine->plan->trace, strerror(errno));
}

static enum load_role role_of(const struct load_plan *plan, unsigned index)
{
    if (index < plan->connections)
        return LOAD_PUSHER;
    return index < plan->connections + plan->consumers ? LOAD_CONSUMER : LOAD_ACKER;
}

static bool open_conns(struct load_engine *engine)
{
    const struct load_plan *plan = engine->plan;
    unsigned ackers = engine->protocol->acks_apart ? plan->consumers : 0;
    unsigned count = plan->connections + plan->consumers + ackers;
    engine->conns = calloc(count, sizeof *engine->conns);
    if (!engine->conns)
        return false;
    while (engine->conn_count < count) {
        struct load_conn *conn = &engine->conns[engine->conn_count];
        if (!open_conn(engine, conn, role_of(plan, engine->conn_count++)))
            return false;
        if (conn->role == LOAD_CONSUMER)
            conn->acker = ackers ? conn + plan->consumers : conn;
    }
    return true;
}

bool load_run(const struct load_plan *plan, struct load_result *result)
{
    memset(result, 0, sizeof *result);
    struct load_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return false;
    engine->plan = plan;
    engine->protocol = plan->protocol;
    engine->result = result;
    engine->random.state = random_u64();
    result->run = (uint32_t)random_u64();
    bool done =
        trace_result(engine, load_tally_init(&engine->tally, result, result->run, plan->trace));
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    sigaction(SIGINT, &action, &before);
    interrupted = 0;

    engine->epoll = epoll_create1(EPOLL_CLOEXEC);
    engine->speech = engine->protocol->open(plan, engine->tally.run, result->problem);
    done = done && engine->epoll >= 0 && engine->speech && open_conns(engine) && engine_run(engine);
    if (!done && !*result->problem)
        load_tally_problem(&engine->tally,
                           slice_of("out of memory or file descriptors: use fewer connections"));
    if (plan->progress)
        load_progress_print(plan, NULL, 0);
    bool consumed = plan->consumers > 0 && !interrupted;
    done = trace_result(engine, load_tally_finish(&engine->tally, consumed)) && done;

    sigaction(SIGINT, &before, NULL);
    for (unsigned i = 0; i < engine->conn_count; i++)
        load_conn_close(&engine->conns[i]);
    free(engine->conns);
    engine->protocol->close(engine->speech);
    if (engine->epoll >= 0)
        close(engine->epoll);
    free(engine);
    return done;
}
