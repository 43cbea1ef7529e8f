#include "beanstalk/session.h"

#include "base/clock.h"
#include "queue/status.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define BEANSTALK_TUBE_DEFAULT "default"

/* ---- tube ---- */

struct beanstalk_tube *beanstalk_tubes_find(const struct beanstalk_tubes *tubes, struct slice name)
{
    return beanstalk_tube_table_find(&tubes->table, name);
}

struct beanstalk_tube *beanstalk_tubes_need(struct beanstalk_tubes *tubes, struct slice name)
{
    struct beanstalk_tube *tube = beanstalk_tubes_find(tubes, name);
    if (tube || !(tube = calloc(1, sizeof *tube + name.len)))
        return tube;
    memcpy(tube->name, name.at, name.len);
    tube->entry.key = slice_make(tube->name, name.len);
    beanstalk_tube_table_add(&tubes->table, tube);
    list_add_last(&tubes->order, &tube->order);
    return tube;
}

void beanstalk_tubes_drop(struct beanstalk_tubes *tubes, struct beanstalk_tube *tube)
{
    if (tube->users || tube->watchers || slice_is(tube->entry.key, BEANSTALK_TUBE_DEFAULT))
        return;
    beanstalk_tube_table_remove(&tubes->table, tube);
    list_remove(&tube->order);
    free(tube);
}

bool beanstalk_tubes_init(struct beanstalk_tubes *tubes)
{
    *tubes = (struct beanstalk_tubes){0};
    list_init(&tubes->order);
    return beanstalk_tubes_need(tubes, slice_of(BEANSTALK_TUBE_DEFAULT)) != NULL;
}

void beanstalk_tubes_fini(struct beanstalk_tubes *tubes)
{
    struct beanstalk_tube *tube;
    while ((tube = beanstalk_tube_table_first(&tubes->table))) {
        beanstalk_tube_table_remove(&tubes->table, tube);
        free(tube);
    }
    beanstalk_tube_table_fini(&tubes->table);
}

/* ---- reservations ---- */

enum {
    RENEW_MS = 3600 * 1000, /* time before the end of a lease when it is renewed */
    EQUAL_MS = 500 /* ends at most this far apart count as equal, since two clocks measured them */
};

static struct slice key_of(const uint64_t *number)
{
    return slice_make(number, sizeof *number);
}

struct beanstalk_reservation *beanstalk_reservations_find(const struct beanstalk_reservations *held,
                                                          uint64_t number)
{
    return beanstalk_reservation_table_find(&held->table, key_of(&number));
}

/* Adds the reservation to the renewals or removes it, depending on its two ends. Needs reserved
 * space. */
static void renewal_place(struct beanstalk_reservations *held, struct beanstalk_reservation *at)
{
    bool is_in = at->renewal_index != SIZE_MAX,
         needs = at->lease_until_ms + EQUAL_MS < at->until_ms;
    if (is_in && needs) {
        beanstalk_reservation_renewals_changed(&held->renewals, at->renewal_index);
    } else if (is_in) {
        (void)beanstalk_reservation_renewals_remove(&held->renewals, at->renewal_index);
        at->renewal_index = SIZE_MAX;
    } else if (needs) {
        (void)beanstalk_reservation_renewals_add(&held->renewals, at);
    }
}

void beanstalk_reservations_remove(struct beanstalk_reservations *held,
                                   struct beanstalk_reservation *reservation)
{
    beanstalk_reservation_table_remove(&held->table, reservation);
    (void)beanstalk_reservation_ends_remove(&held->ends, reservation->end_index);
    if (reservation->renewal_index != SIZE_MAX)
        (void)beanstalk_reservation_renewals_remove(&held->renewals, reservation->renewal_index);
    free(reservation);
}

void beanstalk_reservations_fini(struct beanstalk_reservations *held)
{
    while (held->ends.count)
        beanstalk_reservations_remove(held, held->ends.at[0]);
    beanstalk_reservation_table_fini(&held->table);
    beanstalk_reservation_ends_fini(&held->ends);
    beanstalk_reservation_renewals_fini(&held->renewals);
}

bool beanstalk_reservations_add(struct beanstalk_reservations *held, uint64_t number,
                                struct slice lease, struct slice topic, uint32_t ttr_s,
                                int64_t until_ms, int64_t lease_until_ms)
{
    size_t count = held->ends.count + 1;
    struct beanstalk_reservation *before = beanstalk_reservations_find(held, number);
    struct beanstalk_reservation *added = calloc(1, sizeof *added + lease.len + topic.len);
    if (!added || !beanstalk_reservation_ends_reserve(&held->ends, count) ||
        !beanstalk_reservation_renewals_reserve(&held->renewals, count)) {
        free(added);
        return false;
    }
    if (before)
        beanstalk_reservations_remove(held, before);
    added->number = number;
    added->entry.key = key_of(&added->number);
    added->renewal_index = SIZE_MAX;
    added->ttr_s = ttr_s;
    added->until_ms = until_ms;
    added->lease_until_ms = lease_until_ms;
    added->lease_bytes = (uint8_t)lease.len;
    added->topic_bytes = (uint8_t)topic.len;
    memcpy(added->text, lease.at, lease.len);
    memcpy(added->text + lease.len, topic.at, topic.len);
    beanstalk_reservation_table_add(&held->table, added);
    (void)beanstalk_reservation_ends_add(&held->ends, added);
    renewal_place(held, added);
    return true;
}

uint64_t beanstalk_reservations_expire(struct beanstalk_reservations *held, int64_t now_ms)
{
    uint64_t count = 0;
    for (; held->ends.count && held->ends.at[0]->until_ms <= now_ms; count++)
        beanstalk_reservations_remove(held, held->ends.at[0]);
    return count;
}

int64_t beanstalk_reservations_end_ms(const struct beanstalk_reservations *held)
{
    return held->ends.count ? held->ends.at[0]->until_ms : INT64_MAX;
}

void beanstalk_reservations_renewed(struct beanstalk_reservations *held,
                                    struct beanstalk_reservation *reservation,
                                    int64_t lease_until_ms)
{
    reservation->lease_until_ms = lease_until_ms;
    renewal_place(held, reservation);
}

void beanstalk_reservations_touch(struct beanstalk_reservations *held,
                                  struct beanstalk_reservation *reservation, int64_t now_ms,
                                  int64_t lease_until_ms)
{
    reservation->until_ms = now_ms + (int64_t)reservation->ttr_s * 1000;
    beanstalk_reservation_ends_changed(&held->ends, reservation->end_index);
    beanstalk_reservations_renewed(held, reservation, lease_until_ms);
}

int64_t beanstalk_reservations_renewal_ms(const struct beanstalk_reservations *held)
{
    return held->renewals.count ? held->renewals.at[0]->lease_until_ms - RENEW_MS : INT64_MAX;
}

struct beanstalk_reservation *beanstalk_reservations_renewal(
    const struct beanstalk_reservations *held)
{
    return held->renewals.count ? held->renewals.at[0] : NULL;
}

/* ---- session ---- */

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

/* ---- waiting for a job ---- */

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
