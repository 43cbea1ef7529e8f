/* put: sends all puts that have arrived together to the queue as one call. */
#include "beanstalk/commands.h"

#include "beanstalk/job_view.h"

#include <inttypes.h>
#include <stdio.h>

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
