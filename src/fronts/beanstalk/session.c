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

void beanstalk_yaml_number(struct buffer *yaml, const char *name, uint64_t value)
{
    buffer_append_format(yaml, "%s: %" PRIu64 "\n", name, value);
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

/* ---- life ---- */

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
    session->driver->ended(session);
    list_remove(&session->timed);
    list_remove(&session->later);
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
    beanstalk_connection_open(&session->connection, front->options.reactor, fd,
                              peer->kind == PEER_UNIX,
                              (size_t)front->options.job_bytes_max + BEANSTALK_READ_BYTES,
                              front->read_at, front->options.budget, &connection_events);
    driver->go_on(session);
}
