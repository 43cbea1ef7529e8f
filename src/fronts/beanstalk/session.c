#include "beanstalk/session.h"

#include "base/clock.h"
#include "queue/status.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

static struct beanstalk_session *session_of(struct beanstalk_connection *connection)
{
    return list_entry(connection, struct beanstalk_session, connection);
}

/* ---- answers ---- */

void beanstalk_answer(struct beanstalk_session *session, const char *text)
{
    buffer_append_text(&session->connection.out, text);
}

bool beanstalk_session_has_memory(struct beanstalk_session *session, size_t bytes)
{
    bool has = budget_has(session->connection.budget, bytes);
    if (!has)
        budget_note_refused(session->connection.budget);
    return has;
}

void beanstalk_answer_job(struct beanstalk_session *session, const char *word, uint64_t number,
                          struct slice body)
{
    struct buffer *out = &session->connection.out;
    if (!beanstalk_session_has_memory(session, body.len)) {
        beanstalk_answer(session, beanstalk_answer_of(QUEUE_NO_MEMORY));
        return;
    }
    buffer_append_format(out, "%s %" PRIu64 " %zu\r\n", word, number, body.len);
    buffer_append_slice(out, body);
    buffer_append_text(out, "\r\n");
}

void beanstalk_answer_yaml(struct beanstalk_session *session, struct buffer *yaml)
{
    struct buffer *out = &session->connection.out;
    if (beanstalk_session_has_memory(session, yaml->len)) {
        buffer_append_format(out, "OK %zu\r\n", yaml->len);
        buffer_append_slice(out, buffer_slice(yaml));
        buffer_append_text(out, "\r\n");
        out->failed |= yaml->failed;
    } else {
        beanstalk_answer(session, beanstalk_answer_of(QUEUE_NO_MEMORY));
    }
    buffer_fini(yaml);
}

const char *beanstalk_answer_of(enum queue_status status)
{
    switch (status) {
    case QUEUE_NOT_FOUND:
    case QUEUE_LEASED:
    case QUEUE_LEASE_ENDED:
    case QUEUE_DEAD_STATE:
        return "NOT_FOUND\r\n";
    case QUEUE_DRAINING:
        return "DRAINING\r\n";
    case QUEUE_BODY_TOO_BIG:
        return "JOB_TOO_BIG\r\n";
    case QUEUE_BAD_OPTION:
    case QUEUE_BAD_TOPIC:
    case QUEUE_FORBIDDEN:
    case QUEUE_OWN_TOPIC:
        return "BAD_FORMAT\r\n";
    case QUEUE_NO_MEMORY:
    case QUEUE_NO_SPACE:
    case QUEUE_TOPIC_FULL:
    case QUEUE_TOO_MANY_TOPICS:
    case QUEUE_TOO_FAST:
    case QUEUE_TOPIC_TOO_FAST:
    case QUEUE_CALLER_FULL:
    case QUEUE_MEMORY_SPENT:
        return "OUT_OF_MEMORY\r\n";
    default:
        return "INTERNAL_ERROR\r\n";
    }
}

void beanstalk_finish(struct beanstalk_session *session, const char *text)
{
    beanstalk_answer(session, text);
    session->driver->go_on(session);
}

void beanstalk_finish_not_found(struct beanstalk_session *session, enum queue_status status)
{
    status = status ? status : QUEUE_NOT_FOUND;
    audit_change_note(session->call.change, queue_status_code(status));
    beanstalk_finish(session, beanstalk_answer_of(status));
}

/* ---- calls to the queue ---- */

struct queue_reply_to beanstalk_session_call(struct beanstalk_session *session, queue_done *done)
{
    session->wait = SESSION_WAIT_CALL;
    beanstalk_connection_hold(&session->connection);
    return (struct queue_reply_to){.done = done, .owner = session, .caller = &session->call.queue};
}

void beanstalk_change_begin(struct beanstalk_session *session, const char *action)
{
    char peer[PEER_TEXT_BYTES];
    const struct access_caller *caller = session->call.caller;
    peer_emit(&session->peer, peer);
    session->call.change = audit_change_begin(
        action, &(struct audit_who){
                    .name = caller->name, .kind = access_kind_name(caller->kind), .peer = peer});
}

void beanstalk_change_end(struct beanstalk_session *session)
{
    audit_change_end(session->call.change, NULL);
    session->call.change = NULL;
}

bool beanstalk_session_called(struct beanstalk_session *session)
{
    bool is_there = !beanstalk_session_has_ended(session);
    if (is_there)
        session->wait = SESSION_WAIT_NONE;
    beanstalk_connection_release(&session->connection);
    return is_there;
}

const struct job *beanstalk_session_got_job(struct beanstalk_session *session,
                                            const struct queue_reply *reply)
{
    if (!beanstalk_session_called(session))
        return NULL;
    if (reply->job_count)
        return &reply->jobs[0].job;
    beanstalk_finish_not_found(session, reply->status);
    return NULL;
}

static void on_given_back(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner; /* no client is waiting for this reply */
    (void)tag;
    (void)reply;
}

void beanstalk_give_back(struct beanstalk_front *front, struct slice lease)
{
    const struct queue_answer nack = {
        .verb = QUEUE_NACK, .lease = lease, .error = slice_of("connection closed")};
    queue_answer(front->options.queue, &nack, 1, (struct queue_reply_to){.done = on_given_back});
}

void beanstalk_return(struct beanstalk_front *front, struct slice lease)
{
    const struct queue_answer back = {.verb = QUEUE_RETURN, .lease = lease, .delay_ms = -1};
    queue_answer(front->options.queue, &back, 1, (struct queue_reply_to){.done = on_given_back});
}

void beanstalk_session_expire(struct beanstalk_session *session, int64_t now_ms)
{
    session->front->timeouts += beanstalk_reservations_expire(&session->reservations, now_ms);
}

/* ---- waiting for a job ---- */

void beanstalk_session_wait(struct beanstalk_session *session)
{
    session->wait = SESSION_WAIT_JOB;
    session->front->waiting++;
    for (uint32_t i = 0; i < session->watched_count; i++)
        session->watched[i]->waiting++;
}

void beanstalk_session_stop_waiting(struct beanstalk_session *session)
{
    if (session->wait != SESSION_WAIT_JOB)
        return;
    session->wait = SESSION_WAIT_NONE;
    session->front->waiting--;
    for (uint32_t i = 0; i < session->watched_count; i++)
        session->watched[i]->waiting--;
}

/* ---- life ---- */

/* Returns all jobs of a client that disconnects. Each counts as a failed attempt, so a job that
 * crashes its worker is counted. */
static void give_all_back(struct beanstalk_session *session)
{
    for (size_t i = 0; i < session->reservations.ends.count; i++)
        beanstalk_give_back(session->front,
                            beanstalk_reservation_lease(session->reservations.ends.at[i]));
    beanstalk_reservations_fini(&session->reservations);
}

static void leave_tubes(struct beanstalk_session *session)
{
    struct beanstalk_tubes *tubes = &session->front->tubes;
    session->used->users--;
    beanstalk_tubes_drop(tubes, session->used);
    for (uint32_t i = 0; i < session->watched_count; i++) {
        session->watched[i]->watchers--;
        beanstalk_tubes_drop(tubes, session->watched[i]);
    }
    session->watched_count = 0;
}

static void on_ended(struct beanstalk_connection *connection)
{
    struct beanstalk_session *session = session_of(connection);
    struct beanstalk_front *front = session->front;
    if (session->waiter) {
        waiter_cancel(front->options.waiters, session->waiter);
        session->waiter = 0;
        beanstalk_connection_release(connection);
    }
    beanstalk_session_stop_waiting(session);
    list_remove(&session->timed);
    list_remove(&session->later);
    give_all_back(session);
    leave_tubes(session);
    front->connection_count--;
    front->producers -= session->is_producer;
    front->workers -= session->is_worker;
}

static void on_gone(struct beanstalk_connection *connection)
{
    struct beanstalk_session *session = session_of(connection);
    struct beanstalk_front *front = session->front;
    list_remove(&session->list);
    beanstalk_change_end(session);
    budget_remove(front->options.budget, sizeof *session);
    free(session);
    front->closed(front);
}

static void on_ready(struct beanstalk_connection *connection)
{
    struct beanstalk_session *session = session_of(connection);
    session->driver->go_on(session);
}

static void on_woken(struct beanstalk_connection *connection)
{
    struct beanstalk_session *session = session_of(connection);
    session->driver->woken(session);
}

static const struct beanstalk_connection_events connection_events = {
    .ready = on_ready, .woken = on_woken, .ended = on_ended, .gone = on_gone};

void beanstalk_session_end(struct beanstalk_session *session)
{
    beanstalk_connection_end(&session->connection);
}

struct beanstalk_session *beanstalk_session_first(struct beanstalk_front *front)
{
    for (struct list *at = front->sessions.next; at != &front->sessions; at = at->next) {
        struct beanstalk_session *session = list_entry(at, struct beanstalk_session, list);
        if (!beanstalk_session_has_ended(session))
            return session;
    }
    return NULL;
}

void beanstalk_session_open(struct beanstalk_front *front, int fd, const struct peer *peer,
                            const struct beanstalk_session_driver *driver)
{
    struct beanstalk_session *session = calloc(1, sizeof *session);
    if (!session) {
        (void)close(fd);
        return;
    }
    session->front = front;
    session->driver = driver;
    session->peer = *peer;
    session->call = (struct access_call){
        .queue.rules = &access_rules, .quota = front->options.quota, .caller = access_anyone()};
    list_init(&session->timed);
    list_init(&session->later);
    budget_add(front->options.budget, sizeof *session);
    session->used = session->watched[0] =
        beanstalk_tubes_find(&front->tubes, slice_of(BEANSTALK_TUBE_DEFAULT));
    session->used->users++;
    session->used->watchers++;
    session->watched_count = 1;
    front->connection_count++;
    front->connections_total++;
    front->open_handles++;
    list_add_last(&front->sessions, &session->list);
    beanstalk_connection_open(&session->connection, reactor_loop(front->options.reactor), fd,
                              peer->kind == PEER_UNIX,
                              (size_t)front->options.job_bytes_max + BEANSTALK_READ_BYTES,
                              front->read_at, front->options.budget, &connection_events);
    driver->go_on(session);
}

/* ---- phases ---- */

static int64_t timeout_ms(const struct beanstalk_front *front, enum beanstalk_phase phase)
{
    const struct beanstalk_options *options = &front->options;
    switch (phase) {
    case BEANSTALK_PHASE_IDLE:
        return options->idle_ms;
    case BEANSTALK_PHASE_LINE:
        return options->line_ms;
    case BEANSTALK_PHASE_BODY:
        return options->body_ms;
    default:
        return options->write_ms;
    }
}

/* ---- alarm of the front ---- */

static void phases_set_alarm(struct beanstalk_front *front)
{
    int64_t next_ms = INT64_MAX;
    for (int phase = BEANSTALK_PHASE_IDLE; phase < BEANSTALK_PHASES; phase++) {
        const struct list *timed = &front->timed[phase];
        if (list_is_empty(timed))
            continue;
        int64_t until_ms = list_entry(timed->next, struct beanstalk_session, timed)->until_ms;
        next_ms = until_ms < next_ms ? until_ms : next_ms;
    }
    front->alarm_ms = next_ms;
    deadline_set(front->alarm, next_ms);
}

static void phase_begin(struct beanstalk_session *session, enum beanstalk_phase phase)
{
    struct beanstalk_front *front = session->front;
    list_remove(&session->timed);
    session->phase = phase;
    if (phase == BEANSTALK_PHASE_NONE)
        return;
    session->until_ms = clock_inner_ms() + timeout_ms(front, phase);
    session->unsent = uv_stream_get_write_queue_size(&session->connection.stream);
    list_add_last(&front->timed[phase], &session->timed);
    if (session->until_ms < front->alarm_ms) {
        front->alarm_ms = session->until_ms;
        deadline_set(front->alarm, front->alarm_ms);
    }
}

/* Handles the end of a phase's time limit. A client that has read some output gets another period. */
static void phase_expire(struct beanstalk_session *session)
{
    size_t unsent = uv_stream_get_write_queue_size(&session->connection.stream);
    if (session->phase == BEANSTALK_PHASE_WRITE && unsent < session->unsent)
        phase_begin(session, BEANSTALK_PHASE_WRITE);
    else
        beanstalk_session_end(session);
}

static void on_alarm(void *ctx)
{
    struct beanstalk_front *front = ctx;
    int64_t now_ms = clock_inner_ms();
    for (int phase = BEANSTALK_PHASE_IDLE; phase < BEANSTALK_PHASES; phase++)
        while (!list_is_empty(&front->timed[phase])) {
            struct beanstalk_session *first =
                list_entry(front->timed[phase].next, struct beanstalk_session, timed);
            if (first->until_ms > now_ms)
                break;
            phase_expire(first);
        }
    phases_set_alarm(front);
}

/* ---- phase of a session ---- */

static enum beanstalk_phase phase_of(const struct beanstalk_session *session)
{
    const struct beanstalk_connection *connection = &session->connection;
    if (connection->is_writing)
        return BEANSTALK_PHASE_WRITE;
    /* The session waits for a job and has sent more input than is buffered. Reading has stopped, so
     * not even the client's end of input is noticed. */
    if (session->wait == SESSION_WAIT_JOB && !connection->is_reading && !connection->has_ended)
        return BEANSTALK_PHASE_LINE;
    if (session->wait || !list_is_empty(&session->later))
        return BEANSTALK_PHASE_NONE;
    if (session->skip.bytes || session->connection.wanted_bytes)
        return BEANSTALK_PHASE_BODY;
    if (session->skip.line || beanstalk_connection_input(connection).len)
        return BEANSTALK_PHASE_LINE;
    return session->reservations.ends.count ? BEANSTALK_PHASE_NONE : BEANSTALK_PHASE_IDLE;
}

void beanstalk_phase_settle(struct beanstalk_session *session, bool has_moved)
{
    enum beanstalk_phase phase = phase_of(session);
    if (phase != session->phase || (has_moved && phase != BEANSTALK_PHASE_WRITE))
        phase_begin(session, phase);
}

bool beanstalk_phases_init(struct beanstalk_front *front)
{
    for (int phase = 0; phase < BEANSTALK_PHASES; phase++)
        list_init(&front->timed[phase]);
    front->alarm_ms = INT64_MAX;
    front->alarm = deadline_new(front->options.reactor, on_alarm, front);
    return front->alarm;
}

void beanstalk_phases_fini(struct beanstalk_front *front)
{
    deadline_free(front->alarm);
}

/* ---- share ---- */

enum { COMMANDS_MAX = 64 /* per session and loop iteration */ };

/* Resumes the sessions that were waiting when this iteration ended, while there is time, but at
 * least the first one. */
static void on_turn_end(struct turn_end_call *call)
{
    struct beanstalk_front *front = list_entry(call, struct beanstalk_front, turn_end);
    struct list now;
    list_take_all(&now, &front->later);
    front->turn_commands = 0;
    while (!list_is_empty(&now)) {
        struct beanstalk_session *session = list_entry(now.next, struct beanstalk_session, later);
        list_remove(&session->later);
        session->driver->go_on(session);
        if (reactor_is_late(front->options.reactor))
            break;
    }
    if (list_is_empty(&now))
        return;
    /* Puts the remaining sessions before those that have just used their share. */
    now.prev->next = front->later.next;
    front->later.next->prev = now.prev;
    front->later.next = now.next;
    now.next->prev = &front->later;
    reactor_once_at_turn_end(front->options.reactor, &front->turn_end);
}

bool beanstalk_share_take(struct beanstalk_session *session, uint32_t begun)
{
    struct beanstalk_front *front = session->front;
    bool is_over =
        begun >= COMMANDS_MAX || (front->turn_commands && reactor_is_late(front->options.reactor));
    if (!is_over) {
        front->turn_commands++;
        reactor_once_at_turn_end(front->options.reactor, &front->turn_end);
        return true;
    }
    if (list_is_empty(&session->later))
        list_add_last(&front->later, &session->later);
    reactor_once_at_turn_end(front->options.reactor, &front->turn_end);
    return false;
}

void beanstalk_share_init(struct beanstalk_front *front)
{
    list_init(&front->later);
    list_init(&front->turn_end.list);
    front->turn_end.run = on_turn_end;
}

void beanstalk_share_fini(struct beanstalk_front *front)
{
    reactor_cancel_at_turn_end(&front->turn_end);
}
