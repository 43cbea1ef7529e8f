/*
 * Leases in answers that are not written yet. Whatever ends a connection, jobs whose answer did not
 * leave go back to the queue: nobody has seen them, so it costs no attempt.
 *
 * They are noted with the connection, or with the exchange while it is not its turn, behind the
 * offset in the stream at which the answer ends, and forgotten once so much is written.
 */
#include "http/private.h"

enum { RETURN_BATCH = 32, LEASE_BYTES_MAX = 1 + QUEUE_LEASE_TEXT_BYTES_MAX };

struct note_head {
    uint64_t end; /* of the answer, in the connection's stream */
    uint64_t bytes;
};

static void ignore_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    (void)reply;
}

bool http_lease_note(struct http_exchange *exchange, const struct queue_job *jobs, size_t count)
{
    struct http_connection *connection = exchange->connection;
    bool is_first = connection->first == exchange;
    struct buffer *note = is_first ? &connection->unsent : &exchange->note;
    if (!note->cap)
        http_front_lend(exchange->front, note);
    char *start = buffer_reserve(note, sizeof(struct note_head) + count * LEASE_BYTES_MAX);
    if (!start)
        return false;
    char *at = start + sizeof(struct note_head);
    for (size_t i = 0; i < count; i++) {
        struct slice lease = jobs[i].lease;
        *at++ = (char)lease.len;
        memcpy(at, lease.at, lease.len);
        at += lease.len;
    }
    struct note_head head = {.end = UINT64_MAX, .bytes = (size_t)(at - start) - sizeof head};
    memcpy(start, &head, sizeof head);
    exchange->lease_at = note->len;
    exchange->has_leases = true;
    note->len += (size_t)(at - start);
    return true;
}

void http_lease_hand_over(struct http_exchange *exchange, uint64_t end)
{
    struct buffer *unsent = &exchange->connection->unsent;
    if (exchange->note.len) { /* it was not its turn when it was answered */
        if (!unsent->cap)
            http_front_lend(exchange->front, unsent);
        exchange->lease_at = unsent->len;
        buffer_append_slice(unsent, buffer_slice(&exchange->note));
        if (unsent->failed) { /* without memory they stay leased until their time is over */
            unsent->failed = false;
            return;
        }
    }
    memcpy(unsent->at + exchange->lease_at, &end, sizeof end);
}

/* Leases one behind the other, each behind its length. */
static void return_leases(struct http_front *front, struct slice leases)
{
    struct queue_answer answers[RETURN_BATCH];
    const struct queue_reply_to to = {.done = ignore_reply, .owner = front};
    size_t count = 0, at = 0;
    _Static_assert(QUEUE_LEASE_TEXT_BYTES_MAX <= UINT8_MAX, "a length is one byte");
    while (at < leases.len && !front->is_ending) {
        uint8_t len = (uint8_t)leases.at[at];
        answers[count++] = (struct queue_answer){
            .verb = QUEUE_RETURN, .lease = slice_make(leases.at + at + 1, len), .delay_ms = -1};
        at += 1u + len;
        if (count == RETURN_BATCH || at == leases.len) {
            queue_answer(front->queue, answers, count, to);
            count = 0;
        }
    }
}

void http_lease_return_note(struct http_exchange *exchange)
{
    struct slice note = buffer_slice(&exchange->note);
    const size_t head = sizeof(struct note_head);
    return_leases(exchange->front, slice_make(note.at + head, note.len - head));
}

/* Calls for each answer that ends behind `written`; returns where the first of them begins. */
static size_t first_behind(const struct buffer *unsent, uint64_t written)
{
    size_t at = 0;
    while (at < unsent->len) {
        struct note_head head;
        memcpy(&head, unsent->at + at, sizeof head);
        if (head.end > written)
            break;
        at += sizeof head + head.bytes;
    }
    return at;
}

void http_lease_written(struct http_connection *connection, uint64_t written)
{
    struct buffer *unsent = &connection->unsent;
    size_t from = first_behind(unsent, written);
    unsent->len -= from;
    memmove(unsent->at, unsent->at + from, unsent->len);
    if (!unsent->len)
        http_front_give_back(connection->front, unsent);
}

void http_lease_return_unsent(struct http_connection *connection, uint64_t written)
{
    struct buffer *unsent = &connection->unsent;
    size_t at = first_behind(unsent, written);
    while (at < unsent->len) {
        struct note_head head;
        memcpy(&head, unsent->at + at, sizeof head);
        at += sizeof head;
        return_leases(connection->front, slice_make(unsent->at + at, head.bytes));
        at += head.bytes;
    }
    http_front_give_back(connection->front, unsent);
}
