#include "grpc/work.h"

#include "grpc/answer.h"
#include "grpc/arena.h"
#include "grpc/encode.h"
#include "grpc/fields.h"
#include "grpc/frame.h"
#include "grpc/held.h"
#include "grpc/settle.h"
#include "grpc/stream.h"
#include "grpc/wire.h"

#include "api/answers.h"
#include "api/push.h"
#include "api/state.h"
#include "api/take.h"
#include "api/trace.h"
#include "http/connection.h"
#include "http/unsent.h"
#include "queue/status.h"

#include <stdlib.h>

enum {
    CREDIT_MAX = 10000,
    TAKE_MAX = 100,               /* jobs of one take */
    UNSENT_BYTES_MAX = 256 * 1024 /* above it the stream takes no more jobs */
};

/* The fields of WorkResponse. */
enum { JOB_FIELD = 1, ANSWERED_FIELD = 2, CANCEL_REQUESTED_FIELD = 3, DRAIN_FIELD = 4 };

struct work {
    struct reactor_task task; /* ends the leases of a broken stream */
    struct list node;         /* of its front, see works_of */
    struct http_front *front;
    struct http2_call *call;      /* NULL: closed */
    struct access_caller *caller; /* valid as long as the call */
    struct buffer in;             /* an incomplete message */
    struct buffer out;            /* scratch for a message to be sent */
    struct buffer text;           /* topics and consumer */
    struct slice topics[QUEUE_TAKE_TOPICS_MAX];
    size_t topic_count;
    struct slice consumer;
    int64_t lease_ms;
    Tarry__V1__OnClose on_close;
    bool is_greeted, confirms, by_priority;
    bool is_ending;      /* takes no more jobs: the client has half-closed */
    bool is_draining;    /* takes no more jobs: the server shuts down */
    bool is_refused;     /* the end of the call has been sent */
    bool ends_leases;    /* the task is added */
    uint32_t credit;     /* jobs that may be sent */
    size_t owed;         /* bytes that were read, by which the window has not grown again */
    uint32_t unanswered; /* calls of the queue in progress */
    uint64_t waiter;     /* handle of the take, or 0 */
    struct held held;
};

/* The answers of one call of the queue. */
struct work_answers {
    struct work *work;
    size_t count;
    struct work_answer {
        enum queue_verb verb;
        bool is_of_all; /* one of ExtendAll */
        uint8_t lease_bytes;
        char lease[QUEUE_LEASE_TEXT_BYTES_MAX];
        uint64_t tag;
    } at[];
};

/* The answers that arrive together. */
struct reading {
    struct work *work;
    struct arena arena;
    struct queue_answer *answers; /* room for QUEUE_BATCH_MAX */
    size_t count;
    uint64_t tags[QUEUE_BATCH_MAX];
    bool is_of_all[QUEUE_BATCH_MAX];
    struct http_fault fault;
};

/* ---- life ---- */

/* Frees a closed stream when no call of the queue is in progress any more. */
static void free_if_done(struct work *work)
{
    if (work->call || work->unanswered || work->ends_leases)
        return;
    list_remove(&work->node);
    held_fini(&work->held);
    buffer_fini(&work->in);
    buffer_fini(&work->out);
    buffer_fini(&work->text);
    free(work);
}

static void stop_taking(struct work *work)
{
    if (work->waiter)
        waiter_cancel(work->front->waiters, work->waiter);
    work->waiter = 0;
}

static void refuse(struct work *work, const struct http_refusal *refusal)
{
    stop_taking(work);
    work->is_refused = true;
    stream_refuse(work->call, refusal);
}

static void refuse_fault(struct work *work, const struct http_fault *fault)
{
    struct http_refusal refusal;
    http_refusal_of_fault(&refusal, fault);
    refuse(work, &refusal);
}

/* Ends the call when the client has half-closed and all its answers have their results. */
static void end_if_done(struct work *work)
{
    if (!work->call || work->is_refused || !work->is_ending || work->unanswered)
        return;
    work->is_refused = true;
    stream_end(work->call);
}

/* Returns whether messages may be sent. */
static bool is_open(const struct work *work)
{
    return work->call && !work->is_refused;
}

/* ---- sending ---- */

static size_t begin_message(struct work *work, uint32_t field, size_t bytes)
{
    buffer_clear(&work->out);
    (void)frame_begin(&work->out);
    return wire_begin(&work->out, field, bytes);
}

/* Completes the message in `out`. Returns false if out of memory. */
static bool end_message(struct work *work, size_t begin)
{
    wire_end(&work->out, begin);
    frame_end(&work->out, FRAME_HEAD_BYTES);
    return !work->out.failed;
}

static void send_message(struct work *work, size_t begin)
{
    if (end_message(work, begin))
        (void)http2_send(work->call, buffer_slice(&work->out));
}

/* Sends a job. Returns false if there is no memory for it. */
static bool send_job(struct work *work, const struct queue_job *job)
{
    size_t bytes = job->job.body.len + 200;
    if (!http_budget_has(work->front, bytes))
        return false;
    size_t begin = begin_message(work, JOB_FIELD, bytes);
    encode_job(&work->out, job, true);
    if (!end_message(work, begin) || !http2_note_leases(work->call, job, 1, work->out.len))
        return false;
    uint64_t end = http2_send(work->call, buffer_slice(&work->out));
    (void)held_add(&work->held, job->lease, end);
    return true;
}

static void send_answered(struct work *work, const struct work_answer *answer,
                          const struct queue_result *result)
{
    size_t begin = begin_message(work, ANSWERED_FIELD, 100);
    wire_text(&work->out, 1, slice_make(answer->lease, answer->lease_bytes));
    wire_u64(&work->out, 2, answer->tag);
    size_t inner = wire_begin(&work->out, 3, 60);
    encode_answer_result(&work->out, result);
    wire_end(&work->out, inner);
    send_message(work, begin);
}

static void send_cancel_requested(struct work *work, const struct work_answer *answer)
{
    size_t begin = begin_message(work, CANCEL_REQUESTED_FIELD, 60);
    wire_text(&work->out, 1, slice_make(answer->lease, answer->lease_bytes));
    send_message(work, begin);
}

/* ---- taking ---- */

static void take(struct work *work);

/* Ends the stream because a take did not give it what it may have. */
static void refuse_jobs(struct work *work, const struct queue_reply *reply, bool is_refused)
{
    struct http_refusal refusal;
    struct http_fault fault = {0};
    if (reply->status != QUEUE_OK) {
        http_refusal_of(&refusal, reply->status, NULL, 0);
    } else if (is_refused) {
        (void)http_fault_set(&fault, PROBLEM_TOO_MANY_WAITING, work->front->options.waiting_max,
                             "too many takes and streams wait: try again later");
        http_refusal_of_fault(&refusal, &fault);
    } else {
        http_refusal_of(&refusal, QUEUE_NO_MEMORY, "there is no memory for more jobs", 0);
    }
    refusal.retry_s = 1;
    refuse(work, &refusal);
}

static void on_jobs(void *owner, uint64_t tag, const struct queue_reply *reply, bool is_refused)
{
    struct work *work = owner;
    size_t sent = 0;
    (void)tag;
    work->waiter = 0;
    if (is_open(work) && reply->status == QUEUE_OK)
        while (sent < reply->job_count && send_job(work, &reply->jobs[sent]))
            sent++;
    for (size_t i = sent; i < reply->job_count; i++)
        http_lease_return(work->front, &reply->jobs[i].lease, 1);
    work->credit -= sent < work->credit ? (uint32_t)sent : work->credit;
    api_take_note(work->front, reply->jobs, sent);
    if (!is_open(work))
        return;
    if (reply->status != QUEUE_OK || (is_refused && !sent) || sent < reply->job_count)
        refuse_jobs(work, reply, is_refused);
    else
        take(work);
}

/* Takes jobs if there is credit. */
static void take(struct work *work)
{
    if (!is_open(work) || !work->is_greeted || work->waiter || !work->credit || work->is_ending ||
        work->is_draining || work->front->is_draining ||
        http2_unsent(work->call) > UNSENT_BYTES_MAX)
        return;
    struct queue_take order = {.topics = work->topics,
                               .topic_count = work->topic_count,
                               .by_priority = work->by_priority,
                               .max = work->credit < TAKE_MAX ? work->credit : TAKE_MAX,
                               .lease_ms = work->lease_ms,
                               .consumer = work->consumer,
                               .way = JOB_WAY_TAKE};
    int64_t now_ms = http_front_now_ms(work->front);
    work->waiter =
        waiter_take(work->front->waiters, &order, HTTP_WAIT_MS_MAX, now_ms, on_jobs, work, 0);
    if (work->waiter)
        http_front_wake_by(work->front, now_ms + HTTP_WAIT_MS_MAX);
}

/* ---- answers ---- */

static bool settles(enum queue_verb verb)
{
    return verb != QUEUE_EXTEND;
}

static void note_answer(struct work *work, const struct work_answer *answer,
                        const struct queue_result *result)
{
    struct slice lease = slice_make(answer->lease, answer->lease_bytes);
    bool is_good = queue_status_is_success(result->status);
    if (result->status == QUEUE_LEASE_ENDED)
        held_remove(&work->held, lease);
    else if (!is_good && settles(answer->verb) && work->call)
        (void)held_add(&work->held, lease, 0);
    if (work->front->shared->tracer)
        api_trace_answered(work->front, answer->verb, lease, result);
    if (!is_open(work))
        return;
    if (!is_good || (work->confirms && !answer->is_of_all))
        send_answered(work, answer, result);
    if (is_good && result->cancel_requested)
        send_cancel_requested(work, answer);
}

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct work_answers *sent = owner;
    struct work *work = sent->work;
    (void)tag;
    for (size_t i = 0; i < sent->count; i++) {
        struct queue_result refused = {.status = reply->status};
        note_answer(work, &sent->at[i],
                    reply->status == QUEUE_OK && i < reply->result_count ? &reply->results[i]
                                                                         : &refused);
    }
    free(sent);
    work->unanswered--;
    end_if_done(work);
    free_if_done(work);
}

static const struct queue_caller *caller_of(const struct work *work)
{
    struct http_exchange *exchange = work->call ? http2_exchange(work->call) : NULL;
    return exchange ? http_exchange_caller(exchange) : NULL;
}

/* Returns what is needed when the queue has answered, or NULL. */
static struct work_answers *keep_answers(const struct reading *reading)
{
    struct work_answers *sent = malloc(sizeof *sent + reading->count * sizeof sent->at[0]);
    if (!sent)
        return NULL;
    sent->work = reading->work;
    sent->count = reading->count;
    for (size_t i = 0; i < reading->count; i++) {
        struct slice lease = reading->answers[i].lease;
        struct work_answer *kept = &sent->at[i];
        kept->verb = reading->answers[i].verb;
        kept->is_of_all = reading->is_of_all[i];
        kept->tag = reading->tags[i];
        kept->lease_bytes =
            (uint8_t)(lease.len < sizeof kept->lease ? lease.len : sizeof kept->lease);
        memcpy(kept->lease, lease.at, kept->lease_bytes);
    }
    return sent;
}

/* Gives the answers to the queue. Returns false if out of memory. */
static bool flush(struct reading *reading)
{
    struct work *work = reading->work;
    if (!reading->count)
        return true;
    struct work_answers *sent = keep_answers(reading);
    size_t count = reading->count;
    reading->count = 0;
    if (!sent)
        return http_fault_set(&reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    work->unanswered++;
    if (work->front->shared->tracer)
        api_trace_answering(work->front, reading->answers, count);
    /* A settled lease is not renewed by an ExtendAll that follows. */
    for (size_t i = 0; i < count; i++)
        if (settles(reading->answers[i].verb) && !reading->is_of_all[i])
            held_remove(&work->held, reading->answers[i].lease);
    queue_answer(
        work->front->queue, reading->answers, count,
        (struct queue_reply_to){.done = on_answered, .owner = sent, .caller = caller_of(work)});
    return true;
}

static bool add(struct reading *reading, const struct queue_answer *answer, uint64_t tag,
                bool is_of_all)
{
    if (reading->count == QUEUE_BATCH_MAX && !flush(reading))
        return false;
    reading->tags[reading->count] = tag;
    reading->is_of_all[reading->count] = is_of_all;
    reading->answers[reading->count++] = *answer;
    return true;
}

/* Prepares for answers. Returns false if out of memory. */
static bool reading_init(struct reading *reading, struct work *work, size_t bytes)
{
    reading->work = work;
    reading->answers = api_room_for_answers(work->front);
    reading->count = 0;
    arena_init(&reading->arena, bytes);
    return reading->answers ||
           http_fault_set(&reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
}

/* ---- messages of the client ---- */

static bool keep_texts(struct work *work, const Tarry__V1__Hello *hello)
{
    size_t bytes = strlen(hello->consumer);
    for (size_t i = 0; i < hello->n_topics; i++)
        bytes += strlen(hello->topics[i]);
    buffer_init(&work->text, bytes + 1);
    if (!buffer_reserve(&work->text, bytes + 1))
        return false;
    for (size_t i = 0; i < hello->n_topics; i++)
        work->topics[work->topic_count++] =
            buffer_append_copy(&work->text, slice_of(hello->topics[i]));
    if (*hello->consumer)
        work->consumer = buffer_append_copy(&work->text, slice_of(hello->consumer));
    return true;
}

/* Checks the topics and the rights to them. */
static bool check_topics(struct work *work, const Tarry__V1__Hello *hello, struct http_fault *fault)
{
    struct http_exchange *exchange = http2_exchange(work->call);
    if (!hello->n_topics)
        return http_fault_set(fault, PROBLEM_OPTION_MISSING, 0,
                              "'topics' is missing: name at least one");
    if (hello->n_topics > QUEUE_TAKE_TOPICS_MAX)
        return http_fault_set(fault, PROBLEM_TOO_MANY_ITEMS, QUEUE_TAKE_TOPICS_MAX,
                              "too many topics, at most %d", QUEUE_TAKE_TOPICS_MAX);
    for (size_t i = 0; i < hello->n_topics; i++)
        if (!http_gate_allows(work->front, work->caller, exchange->route,
                              slice_of(hello->topics[i]), fault))
            return false;
    return true;
}

static bool add_credit(struct work *work, uint32_t credit, struct http_fault *fault)
{
    if (credit > CREDIT_MAX - work->credit)
        return http_fault_set(fault, PROBLEM_BAD_OPTION, CREDIT_MAX,
                              "the credit is above %d: grant more when jobs have arrived",
                              CREDIT_MAX);
    work->credit += credit;
    return true;
}

static bool read_hello(struct reading *reading, const Tarry__V1__Hello *hello)
{
    struct work *work = reading->work;
    struct http_fields options = {0};
    struct fields fields = {.out = &options, .fault = &reading->fault};
    if (work->is_greeted)
        return http_fault_set(&reading->fault, PROBLEM_OPTION_TWICE, 0,
                              "'hello' is given more than once");
    if (!check_topics(work, hello, &reading->fault) ||
        !fields_duration(&fields, OPTION_LEASE_FOR, hello->lease_for) ||
        !fields_text(&fields, OPTION_CONSUMER, hello->consumer) ||
        !http_quota_wait(http2_exchange(work->call), &reading->fault) ||
        !add_credit(work, hello->credit, &reading->fault))
        return false;
    if ((size_t)hello->on_close > TARRY__V1__ON_CLOSE__ON_CLOSE_RETURN)
        return http_fault_set(&reading->fault, PROBLEM_BAD_OPTION, 0,
                              "'on_close' has an unknown number");
    if (!keep_texts(work, hello))
        return http_fault_set(&reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    work->lease_ms = options.policy.lease_ms;
    work->on_close = hello->on_close;
    work->confirms = hello->confirm;
    work->by_priority = hello->by_priority;
    work->is_greeted = true;
    return true;
}

/* Reports an answer that is not given to the queue. */
static void refuse_answer(struct reading *reading, struct slice lease, uint64_t tag)
{
    struct work *work = reading->work;
    struct http_refusal refusal;
    http_refusal_of_fault(&refusal, &reading->fault);
    size_t begin = begin_message(work, ANSWERED_FIELD, 200);
    wire_text(&work->out, 1, lease);
    wire_u64(&work->out, 2, tag);
    size_t inner = wire_begin(&work->out, 3, 150);
    encode_problem(&work->out, 7, &refusal);
    wire_end(&work->out, inner);
    send_message(work, begin);
}

/* Reads what becomes of the job of AGAIN. Returns NULL with a fault. */
static const struct queue_again *read_again(struct reading *reading,
                                            const struct http_fields *options,
                                            const Tarry__V1__AnswerRequest *request)
{
    struct queue_again *again = arena_alloc(&reading->arena, sizeof *again);
    if (!again) {
        (void)http_fault_set(&reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
        return NULL;
    }
    *again = (struct queue_again){.when = http_fields_when(options, QUEUE_DUE_NOW),
                                  .priority = http_fields_have(options, OPTION_PRIORITY)
                                                  ? (int32_t)options->priority
                                                  : QUEUE_PRIORITY_UNSET};
    if (request->body && request->body->data.len) {
        again->has_body = true;
        again->body = slice_make(request->body->data.data, request->body->data.len);
        again->content_type = slice_of(request->body->content_type);
    }
    return api_body_check(again->content_type, again->body, &reading->fault) ? again : NULL;
}

/* Reads the result of a job, if there is one. */
static bool read_result(struct reading *reading, const Tarry__V1__Body *result,
                        struct queue_answer *out)
{
    if (!result)
        return true;
    out->result = slice_make(result->data.data, result->data.len);
    out->result_type = slice_of(result->content_type);
    return api_result_check(reading->work->front, out->result_type, out->result, &reading->fault);
}

/* Reads an answer. On false, the fault is that of the answer, not of the stream. */
static bool read_one(struct reading *reading, const Tarry__V1__Answer *message,
                     struct queue_answer *out)
{
    struct http_fields options = {0};
    struct fields fields = {.out = &options, .fault = &reading->fault};
    if (message->verb < TARRY__V1__VERB__VERB_ACK || message->verb > TARRY__V1__VERB__VERB_AGAIN)
        return http_fault_set(&reading->fault, PROBLEM_OPTION_MISSING, 0, "'verb' is missing");
    if (!message->answer || !*message->answer->lease || message->answer->n_leases)
        return http_fault_set(&reading->fault, PROBLEM_OPTION_MISSING, 0,
                              "'lease' is missing: give one in each answer");
    *out = (struct queue_answer){.verb = (enum queue_verb)message->verb,
                                 .lease = slice_of(message->answer->lease),
                                 .delay_ms = -1};
    if (!settle_read(message->answer, out->verb, &fields) ||
        !http_fields_check(&options, &reading->fault))
        return false;
    api_fields_answer(&options, out);
    if (out->verb != QUEUE_AGAIN)
        return read_result(reading, message->answer->result, out);
    out->again = read_again(reading, &options, message->answer);
    return out->again != NULL;
}

static bool read_answer(struct reading *reading, const Tarry__V1__Answer *message)
{
    struct queue_answer answer;
    if (read_one(reading, message, &answer))
        return add(reading, &answer, message->tag, false);
    refuse_answer(reading, slice_of(message->answer ? message->answer->lease : ""), message->tag);
    return true;
}

static bool read_extend_all(struct reading *reading, const Tarry__V1__ExtendAll *message)
{
    struct work *work = reading->work;
    struct http_fields options = {0};
    struct fields fields = {.out = &options, .fault = &reading->fault};
    if (!fields_duration(&fields, OPTION_LEASE_FOR, message->lease_for))
        return false;
    if (!flush(reading)) /* answers that came along remove their leases from `held` */
        return false;
    for (size_t i = 0; i < work->held.count; i++)
        if (!add(reading,
                 &(struct queue_answer){.verb = QUEUE_EXTEND,
                                        .lease = held_text(&work->held.leases[i]),
                                        .delay_ms = -1,
                                        .lease_ms = options.policy.lease_ms},
                 0, true))
            return false;
    return flush(reading); /* the texts of the leases are those of `held` */
}

static bool read_message(struct reading *reading, struct slice bytes)
{
    const Tarry__V1__WorkRequest *message = (const void *)protobuf_c_message_unpack(
        &tarry__v1__work_request__descriptor, &reading->arena.allocator, bytes.len,
        (const uint8_t *)(bytes.len ? bytes.at : ""));
    if (!message)
        return http_fault_set(&reading->fault, PROBLEM_BAD_REQUEST, 0,
                              "the message is malformed; it must be a tarry.v1.WorkRequest");
    if (!reading->work->is_greeted && message->kind_case != TARRY__V1__WORK_REQUEST__KIND_HELLO)
        return http_fault_set(&reading->fault, PROBLEM_OPTION_MISSING, 0,
                              "'hello' is missing: it is the first message");
    switch (message->kind_case) {
    case TARRY__V1__WORK_REQUEST__KIND_HELLO:
        return read_hello(reading, message->hello);
    case TARRY__V1__WORK_REQUEST__KIND_CREDIT:
        return add_credit(reading->work, message->credit, &reading->fault);
    case TARRY__V1__WORK_REQUEST__KIND_ANSWER:
        return read_answer(reading, message->answer);
    case TARRY__V1__WORK_REQUEST__KIND_EXTEND_ALL:
        return read_extend_all(reading, message->extend_all);
    default:
        return true; /* a kind that a later version has */
    }
}

/* ---- the call ---- */

static size_t message_bytes_max(const struct work *work)
{
    return work->front->options.body_bytes_max + 64 * 1024;
}

static bool read_messages(struct reading *reading)
{
    struct work *work = reading->work;
    struct slice message;
    size_t at = 0;
    bool is_good = true;
    while (is_good &&
           stream_next(&work->in, &at, message_bytes_max(work), &message, &reading->fault))
        is_good = read_message(reading, message);
    is_good = is_good && !reading->fault.problem;
    /* The texts of the answers are in the arena, so the bytes may go. */
    is_good = is_good && flush(reading);
    stream_drop(&work->in, at);
    return is_good;
}

/* Lets the client send more, unless it does not read what it has been sent. */
static void give_back_window(struct work *work)
{
    if (http2_unsent(work->call) > UNSENT_BYTES_MAX)
        return;
    http2_consumed(work->call, work->owed);
    work->owed = 0;
}

static void on_data(void *ctx, struct slice bytes)
{
    struct work *work = ctx;
    struct reading reading;
    work->owed += bytes.len;
    give_back_window(work);
    if (work->is_refused)
        return;
    reading.arena.blocks = NULL;
    bool is_good = stream_add(&work->in, bytes, message_bytes_max(work), &reading.fault) &&
                   reading_init(&reading, work, work->in.len) && read_messages(&reading);
    arena_fini(&reading.arena);
    if (is_good)
        take(work);
    else
        refuse_fault(work, &reading.fault);
}

static void on_end(void *ctx)
{
    struct work *work = ctx;
    work->is_ending = true;
    stop_taking(work);
    end_if_done(work);
}

static void on_writable(void *ctx)
{
    struct work *work = ctx;
    give_back_window(work);
    take(work);
}

static void on_drain(void *ctx)
{
    struct work *work = ctx;
    if (work->is_draining || !is_open(work))
        return;
    work->is_draining = true;
    stop_taking(work);
    send_message(work, begin_message(work, DRAIN_FIELD, 0));
}

static void on_revoked(void *ctx)
{
    struct work *work = ctx;
    struct http_fault fault = {0};
    (void)http_fault_set(&fault, PROBLEM_UNAUTHORIZED, 0,
                         "the caller of this stream is no longer valid");
    if (!work->is_refused)
        refuse_fault(work, &fault);
}

/* Adds what becomes of a lease of a closed stream. */
static void add_end(struct reading *reading, struct slice lease)
{
    bool is_failure = reading->work->on_close == TARRY__V1__ON_CLOSE__ON_CLOSE_FAIL;
    (void)add(reading,
              &(struct queue_answer){
                  .verb = is_failure ? QUEUE_NACK : QUEUE_RETURN,
                  .lease = lease,
                  .delay_ms = is_failure ? -1 : 0,
                  .error = slice_of(is_failure ? "the stream of the worker ended" : "")},
              0, true);
}

/* Fails or returns the jobs of a closed stream, some at a time. */
static bool end_leases(struct reactor_task *task)
{
    struct work *work = (struct work *)task;
    struct reading reading;
    reading.arena.blocks = NULL;
    if (reading_init(&reading, work, 0)) {
        while (work->held.count && reading.count < QUEUE_BATCH_MAX)
            add_end(&reading, held_text(&work->held.leases[--work->held.count]));
        (void)flush(&reading);
    } else {
        work->held.count = 0; /* they end by time */
    }
    if (work->held.count)
        return true;
    work->ends_leases = false;
    free_if_done(work);
    return false;
}

static void on_close(void *ctx, uint64_t written, bool is_whole)
{
    struct work *work = ctx;
    (void)is_whole;
    work->call = NULL;
    held_cut(&work->held, written);
    stop_taking(work);
    if (work->held.count && work->on_close >= TARRY__V1__ON_CLOSE__ON_CLOSE_FAIL) {
        work->ends_leases = true;
        work->task.piece = end_leases;
        reactor_add_task(work->front->reactor, &work->task);
    }
    free_if_done(work);
}

/* Returns the open or ending streams of a front. */
static struct list *works_of(struct http_front *front)
{
    return front->rooms[HTTP_ROOM_GRPC];
}

void work_begin(struct http_call *call)
{
    static const struct http2_receiver receiver = {.on_data = on_data,
                                                   .on_end = on_end,
                                                   .on_writable = on_writable,
                                                   .on_drain = on_drain,
                                                   .on_revoked = on_revoked,
                                                   .on_close = on_close};
    struct work *work = calloc(1, sizeof *work);
    if (!work) {
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    work->front = call->front;
    work->caller = call->caller;
    list_init(&work->task.list);
    buffer_init(&work->out, call->front->options.body_bytes_max + 256 * 1024);
    list_add_last(works_of(call->front), &work->node);
    (void)http_answer_start(call->exchange);
    work->call = http2_open(call->exchange, call->caller, GRPC_CONTENT_TYPE, &receiver, work);
    free_if_done(work);
}

/* ---- fronts ---- */

bool work_open_front(struct http_front *front)
{
    struct list *works = malloc(sizeof *works);
    if (works)
        list_init(works);
    front->rooms[HTTP_ROOM_GRPC] = works;
    return works != NULL;
}

void work_close_front(struct http_front *front)
{
    struct list *works = works_of(front);
    while (works && !list_is_empty(works)) {
        struct work *work = list_entry(works->next, struct work, node);
        reactor_remove_task(&work->task);
        work->ends_leases = false;
        work->unanswered = 0;
        work->call = NULL;
        free_if_done(work);
    }
    free(works);
}
