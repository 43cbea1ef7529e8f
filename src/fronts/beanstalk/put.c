/* put: sends all puts that have arrived together to the queue as one call. */
#include "beanstalk/put.h"

#include "beanstalk/commands.h"
#include "beanstalk/job_view.h"

#include "base/vector.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BEANSTALK_NUMBERS_TOPIC "tarry-beanstalk-numbers"

/* ---- numbers ---- */

enum { BLOCK = 1000, PROBES = 40, ID_BYTES = 24 };

struct want {
    void (*ready)(void *owner, enum queue_status status);
    void *owner;
};

VECTOR_DECLARE(wants, struct want)

struct beanstalk_numbers {
    struct queue *queue;
    uint64_t next, end; /* rest of the current block; equal if used up */
    uint64_t block;     /* next block to claim; 0: not yet found */
    uint64_t low, high; /* during the search: the last claimed block, the first unclaimed block */
    bool is_under_way;
    struct wants wants;
    /* The probes of the search in progress. */
    struct queue_find finds[PROBES];
    uint64_t probes[PROBES];
    char ids[PROBES][ID_BYTES];
    size_t probe_count;
};

struct beanstalk_numbers *beanstalk_numbers_new(struct queue *queue)
{
    struct beanstalk_numbers *numbers = calloc(1, sizeof *numbers);
    if (numbers)
        numbers->queue = queue;
    return numbers;
}

void beanstalk_numbers_free(struct beanstalk_numbers *numbers)
{
    if (!numbers)
        return;
    wants_fini(&numbers->wants);
    free(numbers);
}

/* Returns the next number, or 0 if the current block is used up. In that case,
 * beanstalk_numbers_want calls `ready` when numbers are available or when claiming them has failed
 * (`status`). */
static uint64_t beanstalk_numbers_next(struct beanstalk_numbers *numbers)
{
    return numbers->next < numbers->end ? numbers->next++ : 0;
}

static struct slice block_id(uint64_t block, char out[ID_BYTES])
{
    return slice_make(out, (size_t)snprintf(out, ID_BYTES, "%" PRIu64, block));
}

/* Notifies all waiting callers. They may ask again from the callback. */
static void notify_all(struct beanstalk_numbers *numbers, enum queue_status status)
{
    struct wants waiting = numbers->wants;
    numbers->wants = (struct wants){0};
    numbers->is_under_way = false;
    for (size_t i = 0; i < waiting.count; i++)
        waiting.at[i].ready(waiting.at[i].owner, status);
    wants_fini(&waiting);
}

static void claim(struct beanstalk_numbers *numbers);

/* Handles the reply to a claim. If another server owns the block, tries the next one. */
static void on_claimed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_numbers *numbers = owner;
    (void)tag;
    enum queue_status status = reply->result_count ? reply->results[0].status : reply->status;
    if (status == QUEUE_CONFLICT) {
        numbers->block++;
        claim(numbers);
        return;
    }
    if (status == QUEUE_CREATED) {
        numbers->next = (numbers->block - 1) * BLOCK + 1;
        numbers->end = numbers->next + BLOCK;
        numbers->block++;
        status = QUEUE_OK;
    }
    notify_all(numbers, status);
}

static void claim(struct beanstalk_numbers *numbers)
{
    char id[ID_BYTES];
    const struct queue_push push = {.topic = slice_of(BEANSTALK_NUMBERS_TOPIC),
                                    .id = block_id(numbers->block, id),
                                    .when = {.due = QUEUE_DUE_DELAY, .ms = POLICY_DELAY_MS_MAX},
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .on_conflict = CONFLICT_REJECT};
    queue_push(numbers->queue, &push, 1,
               (struct queue_reply_to){.done = on_claimed, .owner = numbers});
}

/* ---- search for the first unclaimed block: claimed blocks are dense, so it lies between the
 * highest known claimed block and the lowest known free block ---- */

static void look(struct beanstalk_numbers *numbers);

static void on_looked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_numbers *numbers = owner;
    (void)tag;
    for (size_t i = 0; i < numbers->probe_count; i++) {
        enum queue_status status =
            i < reply->result_count ? reply->results[i].status : reply->status;
        if (status == QUEUE_OK && numbers->probes[i] > numbers->low)
            numbers->low = numbers->probes[i];
        if (status == QUEUE_NOT_FOUND && numbers->probes[i] < numbers->high)
            numbers->high = numbers->probes[i];
        if (status != QUEUE_OK && status != QUEUE_NOT_FOUND) {
            notify_all(numbers, status);
            return;
        }
    }
    if (numbers->high - numbers->low > 1) {
        look(numbers);
        return;
    }
    numbers->block = numbers->high;
    claim(numbers);
}

static void look(struct beanstalk_numbers *numbers)
{
    bool is_first = numbers->high == UINT64_MAX;
    uint64_t gap = numbers->high - numbers->low;
    numbers->probe_count = 0;
    for (unsigned i = 0; i < PROBES; i++) {
        uint64_t block = is_first ? UINT64_C(1) << i : numbers->low + 1 + (gap - 1) * i / PROBES;
        size_t at = numbers->probe_count;
        if (block >= numbers->high || (at && numbers->probes[at - 1] == block))
            continue;
        numbers->probes[at] = block;
        numbers->finds[at] = (struct queue_find){.topic = slice_of(BEANSTALK_NUMBERS_TOPIC),
                                                 .id = block_id(block, numbers->ids[at])};
        numbers->probe_count++;
    }
    queue_find(numbers->queue, numbers->finds, numbers->probe_count,
               (struct queue_reply_to){.done = on_looked, .owner = numbers});
}

static void beanstalk_numbers_want(struct beanstalk_numbers *numbers,
                                   void (*ready)(void *owner, enum queue_status status),
                                   void *owner)
{
    if (!wants_reserve(&numbers->wants, numbers->wants.count + 1)) {
        ready(owner, QUEUE_NO_MEMORY);
        return;
    }
    wants_add(&numbers->wants, (struct want){.ready = ready, .owner = owner});
    if (numbers->is_under_way)
        return;
    numbers->is_under_way = true;
    if (numbers->block) {
        claim(numbers);
        return;
    }
    numbers->low = 0;
    numbers->high = UINT64_MAX;
    look(numbers);
}

/* ---- put ---- */

static void on_put(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    for (size_t i = 0; i < session->put_count; i++) {
        enum queue_status status =
            i < reply->result_count ? reply->results[i].status : reply->status;
        if (status == QUEUE_CREATED)
            buffer_append_format(&session->connection.out, "INSERTED %" PRIu64 "\r\n",
                                 session->put_numbers[i]);
        else
            beanstalk_answer(session,
                             beanstalk_answer_of(status == QUEUE_OK ? QUEUE_NO_MEMORY : status));
    }
    session->driver->go_on(session);
}

/* Resumes the put that had no number. It is still in the input, and is begun again, or rejected and
 * its body skipped. */
static void on_numbers(void *owner, enum queue_status status)
{
    struct beanstalk_session *session = owner;
    if (!beanstalk_session_called(session))
        return;
    if (status != QUEUE_OK) {
        session->skip.bytes = session->put_skip_bytes;
        session->skip.answer = beanstalk_answer_of(status);
    }
    session->driver->go_on(session);
}

/* Parses a complete put, `at` bytes from the front of the input. Returns its size, or 0 if the
 * input there is not a put, is incomplete, or is not well-formed. */
static size_t find_whole_put(struct beanstalk_session *session, size_t at,
                             struct beanstalk_command *out, struct slice *body)
{
    struct slice input = beanstalk_connection_input(&session->connection);
    input = slice_make(input.at + at, input.len - at);
    size_t line_bytes = beanstalk_line_bytes(input);
    if (!line_bytes || !beanstalk_command_parse(slice_make(input.at, line_bytes - 2), out) ||
        out->verb != BEANSTALK_PUT || out->has_rest ||
        out->bytes > session->front->options.job_bytes_max ||
        input.len - line_bytes < (size_t)out->bytes + 2 ||
        memcmp(input.at + line_bytes + out->bytes, "\r\n", 2) != 0)
        return 0;
    *body = slice_make(input.at + line_bytes, out->bytes);
    return line_bytes + out->bytes + 2;
}

static struct queue_push push_of(struct beanstalk_session *session,
                                 const struct beanstalk_command *put, struct slice body,
                                 struct slice id, struct buffer *meta)
{
    uint32_t ttr_s = put->ttr_s ? put->ttr_s : 1;
    beanstalk_put_meta(meta, put->priority, put->delay_s, ttr_s,
                       queue_wall_ms(beanstalk_session_queue(session)));
    return (struct queue_push){.topic = beanstalk_tube_name(session->used),
                               .id = id,
                               .meta = buffer_slice(meta),
                               .body = body,
                               .when = {.due = put->delay_s ? QUEUE_DUE_DELAY : QUEUE_DUE_NOW,
                                        .ms = (int64_t)put->delay_s * 1000},
                               .priority = beanstalk_priority_pack(put->priority),
                               .on_conflict = CONFLICT_REJECT,
                               .policy = {.lease_ms = beanstalk_lease_ms(ttr_s),
                                          .max_attempts = POLICY_ATTEMPTS_NONE,
                                          .backoff = {.kind = BACKOFF_NONE}}};
}

/* Sends all complete puts to the queue. The first one has been parsed, and is complete with its line
 * of `line_bytes`. */
static void put_all(struct beanstalk_session *session, const struct beanstalk_command *first,
                    size_t line_bytes)
{
    struct queue_push pushes[SESSION_PUTS_MAX];
    struct buffer metas[SESSION_PUTS_MAX];
    char ids[SESSION_PUTS_MAX][24];
    struct beanstalk_command put = *first;
    struct slice body =
        slice_make(beanstalk_connection_input(&session->connection).at + line_bytes, first->bytes);
    size_t at = 0, count = 0, bytes = line_bytes + first->bytes + 2;
    uint64_t number;
    while (bytes && (number = beanstalk_numbers_next(session->front->numbers))) {
        int len = snprintf(ids[count], sizeof ids[0], "%" PRIu64, number);
        buffer_init(&metas[count], JOB_META_BYTES_MAX);
        pushes[count] =
            push_of(session, &put, body, slice_make(ids[count], (size_t)len), &metas[count]);
        session->put_numbers[count++] = number;
        session->front->verbs[BEANSTALK_PUT]++;
        at += bytes;
        bytes = count < SESSION_PUTS_MAX ? find_whole_put(session, at, &put, &body) : 0;
    }
    if (!count) {
        session->put_skip_bytes = bytes;
        session->wait = SESSION_WAIT_CALL;
        beanstalk_connection_hold(&session->connection);
        beanstalk_numbers_want(session->front->numbers, on_numbers, session);
        return;
    }
    session->put_count = count;
    queue_push(beanstalk_session_queue(session), pushes, count,
               beanstalk_session_call(session, on_put));
    for (size_t i = 0; i < count; i++)
        buffer_fini(&metas[i]);
    beanstalk_connection_consume(&session->connection, at);
}

bool beanstalk_put(struct beanstalk_session *session, const struct beanstalk_command *put,
                   size_t line_bytes)
{
    struct beanstalk_connection *connection = &session->connection;
    struct slice input = beanstalk_connection_input(connection);
    size_t whole = line_bytes + put->bytes + 2;
    if (put->bytes > session->front->options.job_bytes_max) {
        session->front->verbs[BEANSTALK_PUT]++;
        beanstalk_connection_consume(connection, line_bytes);
        session->skip.bytes = (uint64_t)put->bytes + 2;
        session->skip.answer = "JOB_TOO_BIG\r\n";
        return true;
    }
    if (put->has_rest) {
        beanstalk_connection_consume(connection, line_bytes);
        beanstalk_answer(session, "BAD_FORMAT\r\n");
        return true;
    }
    if (!session->is_producer) {
        session->is_producer = true;
        session->front->producers++;
    }
    if (input.len < whole && !budget_has(connection->budget, whole - input.len)) {
        budget_note_refused(connection->budget);
        session->front->verbs[BEANSTALK_PUT]++;
        beanstalk_connection_consume(connection, line_bytes);
        session->skip.bytes = (uint64_t)put->bytes + 2;
        session->skip.answer = "OUT_OF_MEMORY\r\n";
        return true;
    }
    if (input.len < whole) {
        beanstalk_connection_want(connection, whole);
        return false;
    }
    if (memcmp(input.at + whole - 2, "\r\n", 2) != 0) {
        session->front->verbs[BEANSTALK_PUT]++;
        beanstalk_connection_consume(connection, whole);
        beanstalk_answer(session, "EXPECTED_CRLF\r\n");
        return true;
    }
    put_all(session, put, line_bytes);
    return true;
}
