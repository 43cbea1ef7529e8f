#include "http/unsent.h"

#include "http/connection_state.h"
#include "trace/tracer.h"

#include <assert.h>
#include <string.h>

enum { RETURN_BATCH = 32, LEASE_BYTES_MAX = 1 + QUEUE_LEASE_TEXT_BYTES_MAX };

struct lease_note_head {
    uint64_t end; /* offset of the end of the answer in the connection's stream */
    uint64_t bytes;
};

/* Ignores the result: a lease that could not be returned expires. */
static void ignore_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    (void)reply;
}

bool http_lease_note_frames(struct http_front *front, struct buffer *leases,
                            const struct queue_job *jobs, size_t count, uint64_t end)
{
    if (!leases->cap)
        http_front_lend(front, leases);
    char *start = buffer_reserve(leases, sizeof(struct lease_note_head) + count * LEASE_BYTES_MAX);
    if (!start)
        return false;
    char *at = start + sizeof(struct lease_note_head);
    for (size_t i = 0; i < count; i++) {
        struct slice lease = jobs[i].lease;
        *at++ = (char)lease.len;
        memcpy(at, lease.at, lease.len);
        at += lease.len;
    }
    struct lease_note_head head = {.end = end, .bytes = (size_t)(at - start) - sizeof head};
    memcpy(start, &head, sizeof head);
    leases->len += (size_t)(at - start);
    return true;
}

bool http_lease_note(struct http_exchange *exchange, const struct queue_job *jobs, size_t count)
{
    struct http_connection *connection = exchange->connection;
    bool is_first = connection->first == exchange;
    struct buffer *note = is_first ? &connection->unsent.leases : &exchange->leases;
    size_t at = note->len;
    if (!http_lease_note_frames(exchange->front, note, jobs, count, UINT64_MAX))
        return false;
    exchange->lease_at = at;
    exchange->has_leases = true;
    return true;
}

void http_lease_hand_over(struct http_exchange *exchange, uint64_t end)
{
    struct buffer *unsent = &exchange->connection->unsent.leases;
    if (exchange->leases.len) { /* answered before its turn to be sent */
        if (!unsent->cap)
            http_front_lend(exchange->front, unsent);
        exchange->lease_at = unsent->len;
        buffer_append_slice(unsent, buffer_slice(&exchange->leases));
        if (unsent->failed) { /* without memory the jobs stay leased until they expire */
            unsent->failed = false;
            return;
        }
    }
    memcpy(unsent->at + exchange->lease_at, &end, sizeof end);
}

void http_lease_return(struct http_front *front, const struct slice *leases, size_t count)
{
    struct queue_answer answers[RETURN_BATCH];
    assert(count <= RETURN_BATCH);
    for (size_t i = 0; front->shared->tracer && i < count; i++)
        tracer_lease_ended(front->shared->tracer, leases[i], "returned", false);
    for (size_t i = 0; i < count; i++)
        answers[i] =
            (struct queue_answer){.verb = QUEUE_RETURN, .lease = leases[i], .delay_ms = -1};
    queue_answer(front->queue, answers, count,
                 (struct queue_reply_to){.done = ignore_reply, .owner = front});
}

/* Returns leases that are stored one after the other, each preceded by its length. */
static void return_noted(struct http_front *front, struct slice noted)
{
    struct slice leases[RETURN_BATCH];
    size_t count = 0, at = 0;
    _Static_assert(QUEUE_LEASE_TEXT_BYTES_MAX <= UINT8_MAX, "a length is one byte");
    while (at < noted.len && !front->is_ending) {
        uint8_t len = (uint8_t)noted.at[at];
        leases[count++] = slice_make(noted.at + at + 1, len);
        at += 1u + len;
        if (count == RETURN_BATCH || at == noted.len) {
            http_lease_return(front, leases, count);
            count = 0;
        }
    }
}

void http_lease_return_noted(struct http_exchange *exchange)
{
    struct slice note = buffer_slice(&exchange->leases);
    const size_t head = sizeof(struct lease_note_head);
    return_noted(exchange->front, slice_make(note.at + head, note.len - head));
}

/* Returns the offset of the first record whose answer ends after `written`. */
static size_t first_note_behind(const struct buffer *unsent, uint64_t written)
{
    size_t at = 0;
    while (at < unsent->len) {
        struct lease_note_head head;
        memcpy(&head, unsent->at + at, sizeof head);
        if (head.end > written)
            break;
        at += sizeof head + head.bytes;
    }
    return at;
}

/* Returns the jobs of the records from offset `at` on. */
static void return_records(struct http_front *front, const struct buffer *leases, size_t at)
{
    while (at < leases->len) {
        struct lease_note_head head;
        memcpy(&head, leases->at + at, sizeof head);
        at += sizeof head;
        return_noted(front, slice_make(leases->at + at, head.bytes));
        at += head.bytes;
    }
}

void http_lease_settle(struct http_connection *connection, uint64_t written, bool is_over)
{
    struct buffer *unsent = &connection->unsent.leases;
    size_t at = first_note_behind(unsent, written);
    if (!is_over) {
        unsent->len -= at;
        memmove(unsent->at, unsent->at + at, unsent->len);
    }
    if (is_over)
        return_records(connection->front, unsent, at);
    if (is_over || !unsent->len)
        http_front_give_back(connection->front, unsent);
}

/* ---- streams of HTTP/2 ---- */

void http_lease_set_end(struct buffer *leases, uint64_t end)
{
    memcpy(leases->at, &end, sizeof end);
}

void http_lease_frame(struct http_connection *connection, struct buffer *leases, uint64_t framed,
                      uint64_t end)
{
    struct buffer *unsent = &connection->unsent.leases;
    size_t at = 0, bytes = first_note_behind(leases, framed);
    if (!bytes)
        return;
    if (!unsent->cap)
        http_front_lend(connection->front, unsent);
    char *moved = buffer_reserve(unsent, bytes);
    if (!moved) /* without memory the jobs stay leased until they expire */
        unsent->failed = false;
    else
        memcpy(moved, leases->at, bytes);
    while (moved && at < bytes) {
        struct lease_note_head head;
        memcpy(&head, moved + at, sizeof head);
        head.end = end;
        memcpy(moved + at, &head, sizeof head);
        at += sizeof head + head.bytes;
    }
    unsent->len += moved ? bytes : 0;
    leases->len -= bytes;
    memmove(leases->at, leases->at + bytes, leases->len);
    if (!leases->len)
        http_front_give_back(connection->front, leases);
}

void http_lease_return_all(struct http_front *front, struct buffer *leases)
{
    return_records(front, leases, 0);
    http_front_give_back(front, leases);
}
