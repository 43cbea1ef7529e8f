/*
 * A connection: what came is cut into commands, which are carried out one after the other; puts that came
 * together go to the queue as one call. A command that has to wait for the queue holds up those behind it
 * and nobody else.
 */
#include "beanstalk/priority.h"
#include "beanstalk/state.h"

#include "base/clock.h"
#include "queue/locate.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 * 1024,
    OUT_BYTES_MAX = 1 << 20, /* then no command is begun until the peer has taken some */
    PUTS_MAX = 64,           /* of one call */
    MARGIN_MS = 1000,        /* before the end of a ttr: DEADLINE_SOON */
    KICK_MAX = QUEUE_LIST_MAX,
    RENEW_MS =
        3600 * 1000 /* a lease that is shorter than its ttr is extended so long before its end */
};

/* A job that the client holds. */
struct reservation {
    uint64_t number;
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX], tube[JOB_TOPIC_BYTES_MAX];
    uint8_t lease_bytes, tube_bytes;
    uint32_t ttr_s;
    int64_t until_ms, lease_until_ms; /* inner clock */
};

VECTOR_DECLARE(reservations, struct reservation)

/* What the command that was begun waits for. */
enum errand {
    ERRAND_NONE = 0,
    ERRAND_RESERVE,      /* a job, for as long as it takes or until a time */
    ERRAND_RESERVE_NOW,  /* a job that is there, else TIMED_OUT */
    ERRAND_RESERVE_SOON, /* a job that is there, else DEADLINE_SOON */
    ERRAND_OTHER
};

/* Of a located job, what the command goes on with. */
struct located {
    bool is_there;
    enum job_state state;
    char topic[JOB_TOPIC_BYTES_MAX], id[JOB_ID_BYTES_MAX];
    uint8_t topic_bytes, id_bytes;
    struct beanstalk_job_view view;
};

struct beanstalk_session {
    struct list list; /* front->sessions */
    struct beanstalk_front *front;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    };
    uv_timer_t timer;
    uv_write_t write;
    struct buffer in, out, writing;
    uint32_t handles, calls; /* not closed yet; of the queue, without a reply */
    bool is_closing, is_reading, is_writing, has_ended, is_going_on;
    bool is_producer, is_worker;
    /* What of the input is thrown away. */
    uint64_t skip_bytes;
    const char *skip_answer; /* once that is done */
    bool skips_line;
    /* The command under way. */
    enum errand errand;
    struct beanstalk_command command; /* its tube is not kept */
    char room[JOB_ID_BYTES_MAX];
    struct located located;
    uint64_t put_numbers[PUTS_MAX];
    size_t put_count;
    uint64_t waiter;
    int64_t give_up_ms; /* of a reserve; INT64_MAX: never */
    /* The client's. */
    struct beanstalk_tube *used, *watched[TUBES_WATCHED_MAX];
    uint32_t watched_count;
    struct reservations reservations;
};

static void session_go_on(struct beanstalk_session *session);
static void session_set_timer(struct beanstalk_session *session);

static struct queue *queue_of(const struct beanstalk_session *session)
{
    return session->front->options.queue;
}

/* ---- answers ---- */

static void answer(struct beanstalk_session *session, const char *text)
{
    buffer_append_text(&session->out, text);
}

/* A job, or what is known of one: a head and its text. */
static void answer_job(struct beanstalk_session *session, const char *word, uint64_t number,
                       struct slice body)
{
    buffer_append_format(&session->out, "%s %" PRIu64 " %zu\r\n", word, number, body.len);
    buffer_append_slice(&session->out, body);
    answer(session, "\r\n");
}

static void answer_yaml(struct beanstalk_session *session, struct buffer *yaml)
{
    buffer_append_format(&session->out, "OK %zu\r\n", yaml->len);
    buffer_append_slice(&session->out, buffer_slice(yaml));
    answer(session, "\r\n");
    session->out.failed |= yaml->failed;
    buffer_fini(yaml);
}

/* What the queue refused, where no other answer says it. */
static const char *answer_of(enum queue_status status)
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
        return "BAD_FORMAT\r\n";
    case QUEUE_NO_MEMORY:
    case QUEUE_NO_SPACE:
    case QUEUE_TOPIC_FULL:
    case QUEUE_TOO_MANY_TOPICS:
        return "OUT_OF_MEMORY\r\n";
    default:
        return "INTERNAL_ERROR\r\n";
    }
}

/* ---- life ---- */

static void session_free(struct beanstalk_session *session)
{
    if (session->handles || session->calls)
        return;
    struct beanstalk_front *front = session->front;
    list_remove(&session->list);
    buffer_fini(&session->in);
    buffer_fini(&session->out);
    buffer_fini(&session->writing);
    reservations_fini(&session->reservations);
    free(session);
    front->closed(front);
}

static void on_closed(uv_handle_t *handle)
{
    struct beanstalk_session *session = handle->data;
    session->handles--;
    session_free(session);
}

static void nobody_minds(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    (void)reply;
}

static void give_back(struct beanstalk_front *front, struct slice lease)
{
    const struct queue_answer nack = {
        .verb = QUEUE_NACK, .lease = lease, .error = slice_of("connection closed")};
    queue_answer(front->options.queue, &nack, 1, (struct queue_reply_to){.done = nobody_minds});
}

/* Who closes gives up what he holds: a failed attempt each, so a job that kills its worker is counted. */
static void give_all_back(struct beanstalk_session *session)
{
    for (size_t i = 0; i < session->reservations.count; i++) {
        const struct reservation *held = &session->reservations.at[i];
        give_back(session->front, slice_make(held->lease, held->lease_bytes));
    }
    session->reservations.count = 0;
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

static void stop_waiting(struct beanstalk_session *session)
{
    if (session->errand != ERRAND_RESERVE)
        return;
    session->errand = ERRAND_NONE;
    session->front->waiting--;
    for (uint32_t i = 0; i < session->watched_count; i++)
        session->watched[i]->waiting--;
}

void beanstalk_session_end(struct beanstalk_session *session)
{
    struct beanstalk_front *front = session->front;
    if (session->is_closing)
        return;
    session->is_closing = true;
    if (session->waiter) {
        waiter_cancel(front->options.waiters, session->waiter);
        session->waiter = 0;
        session->calls--;
    }
    stop_waiting(session);
    give_all_back(session);
    leave_tubes(session);
    front->connection_count--;
    front->producers -= session->is_producer;
    front->workers -= session->is_worker;
    uv_close(&session->handle, on_closed);
    uv_close((uv_handle_t *)&session->timer, on_closed);
}

struct beanstalk_session *beanstalk_session_first(struct beanstalk_front *front)
{
    for (struct list *at = front->sessions.next; at != &front->sessions; at = at->next) {
        struct beanstalk_session *session = list_entry(at, struct beanstalk_session, list);
        if (!session->is_closing)
            return session;
    }
    return NULL;
}

/* ---- writing ---- */

static void session_write(struct beanstalk_session *session);

static void on_written(uv_write_t *write, int status)
{
    struct beanstalk_session *session = write->data;
    session->is_writing = false;
    session->calls--;
    buffer_clear(&session->writing);
    if (status < 0)
        beanstalk_session_end(session);
    if (session->is_closing) {
        session_free(session);
        return;
    }
    session_go_on(session);
}

/* All answers that are there, in one write. */
static void session_write(struct beanstalk_session *session)
{
    if (session->is_closing || session->is_writing || !session->out.len)
        return;
    if (session->out.failed) {
        beanstalk_session_end(session);
        return;
    }
    struct buffer full = session->out;
    session->out = session->writing;
    session->writing = full;
    buffer_clear(&session->out);
    uv_buf_t text = uv_buf_init(full.at, (unsigned)full.len);
    session->write.data = session;
    session->is_writing = true;
    session->calls++;
    if (uv_write(&session->write, &session->stream, &text, 1, on_written) != 0) {
        session->is_writing = false;
        session->calls--;
        beanstalk_session_end(session);
    }
}

/* ---- a call of the queue: one at a time ---- */

static struct queue_reply_to call(struct beanstalk_session *session, queue_done *done)
{
    session->errand = ERRAND_OTHER;
    session->calls++;
    return (struct queue_reply_to){.done = done, .owner = session};
}

/* False: the session has ended meanwhile, and may be gone now. */
static bool called(struct beanstalk_session *session)
{
    session->calls--;
    if (!session->is_closing) {
        session->errand = ERRAND_NONE;
        return true;
    }
    session_free(session);
    return false;
}

static void say(struct beanstalk_session *session, const char *text)
{
    answer(session, text);
    session_go_on(session);
}

/* ---- reservations ---- */

static size_t find_reservation(const struct beanstalk_session *session, uint64_t number)
{
    size_t i = 0;
    while (i < session->reservations.count && session->reservations.at[i].number != number)
        i++;
    return i;
}

/* NULL: the client does not hold it. */
static struct reservation *reservation_of(struct beanstalk_session *session, uint64_t number)
{
    size_t i = find_reservation(session, number);
    return i < session->reservations.count ? &session->reservations.at[i] : NULL;
}

static void drop_reservation(struct beanstalk_session *session, uint64_t number)
{
    size_t i = find_reservation(session, number);
    if (i < session->reservations.count)
        reservations_remove(&session->reservations, i);
}

/* Those whose time is over are the client's no more: the queue sees to them. */
static void drop_late(struct beanstalk_session *session, int64_t now_ms)
{
    for (size_t i = session->reservations.count; i-- > 0;)
        if (session->reservations.at[i].until_ms <= now_ms) {
            session->front->timeouts++;
            reservations_remove(&session->reservations, i);
        }
}

static int64_t first_end_ms(const struct beanstalk_session *session)
{
    int64_t first_ms = INT64_MAX;
    for (size_t i = 0; i < session->reservations.count; i++)
        if (session->reservations.at[i].until_ms < first_ms)
            first_ms = session->reservations.at[i].until_ms;
    return first_ms;
}

static bool deadline_is_soon(const struct beanstalk_session *session, int64_t now_ms)
{
    int64_t first_ms = first_end_ms(session);
    return first_ms != INT64_MAX && now_ms >= first_ms - MARGIN_MS;
}

/* What the job was put with, as its meta has it: "PRIORITY DELAY TTR WHEN". */
static bool read_meta(struct slice meta, struct beanstalk_job_view *out, int64_t *put_ms)
{
    struct slice name, value;
    size_t at = 0;
    char text[META_BYTES];
    while (job_meta_next(meta, &at, &name, &value))
        if (slice_is(name, META_NAME) && value.len < sizeof text) {
            memcpy(text, value.at, value.len);
            text[value.len] = '\0';
            return sscanf(text, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNd64, &out->priority,
                          &out->delay_s, &out->ttr_s, put_ms) == 4;
        }
    return false;
}

static uint32_t seconds_of(int64_t ms)
{
    return ms > 0 ? (uint32_t)(ms / 1000) : 0;
}

static struct beanstalk_job_view view_of(struct beanstalk_session *session, const struct job *job)
{
    static const char *const states[] = {[JOB_DELAYED] = "delayed",
                                         [JOB_READY] = "ready",
                                         [JOB_LEASED] = "reserved",
                                         [JOB_DEAD] = "buried",
                                         [JOB_FINISHED] = "ready"};
    int64_t now_ms = queue_wall_ms(queue_of(session)), put_ms = now_ms;
    struct beanstalk_job_view view = {
        .number = beanstalk_number_of(session->front, job->topic, job->id),
        .tube = job->topic,
        .state = states[job->state],
        .priority = beanstalk_priority_unpack(job->priority),
        .ttr_s = seconds_of(job->policy.lease_ms ? job->policy.lease_ms : POLICY_LEASE_MS),
        .reserves = job->attempt};
    struct beanstalk_job_view put = view;
    if (read_meta(job->meta, &put, &put_ms)) {
        /* A later priority is known by its 16 bits alone. */
        if (beanstalk_priority_pack(put.priority) == job->priority)
            view.priority = put.priority;
        view.delay_s = put.delay_s;
        view.ttr_s = put.ttr_s;
    }
    view.age_s = (now_ms - put_ms) / 1000;
    view.left_s = job->state == JOB_DELAYED  ? seconds_of(job->due_ms - now_ms)
                  : job->state == JOB_LEASED ? seconds_of(job->lease_until_ms - now_ms)
                                             : 0;
    return view;
}

/* The client has the job from now on. False: out of memory. */
static bool hold(struct beanstalk_session *session, const struct queue_job *taken)
{
    const struct job *job = &taken->job;
    struct beanstalk_job_view view = view_of(session, job);
    int64_t now_ms = clock_inner_ms();
    struct reservation held = {.number = view.number,
                               .lease_bytes = (uint8_t)taken->lease.len,
                               .tube_bytes = (uint8_t)job->topic.len,
                               .ttr_s = view.ttr_s,
                               .lease_until_ms =
                                   now_ms + job->lease_until_ms - queue_wall_ms(queue_of(session))};
    held.until_ms = now_ms + (int64_t)view.ttr_s * 1000;
    if (!job->policy.lease_ms) { /* its topic's, which the take has given it */
        held.until_ms = held.lease_until_ms;
        held.ttr_s = seconds_of(held.until_ms - now_ms + 999);
    }
    memcpy(held.lease, taken->lease.at, taken->lease.len);
    memcpy(held.tube, job->topic.at, job->topic.len);
    if (!reservations_add(&session->reservations, held))
        return false;
    answer_job(session, "RESERVED", view.number, job->body);
    return true;
}

/* Leases that end before the ttr that they stand for are extended in time. */
static void renew_leases(struct beanstalk_session *session, int64_t now_ms)
{
    for (size_t i = 0; i < session->reservations.count; i++) {
        struct reservation *held = &session->reservations.at[i];
        if (held->lease_until_ms >= held->until_ms || now_ms < held->lease_until_ms - RENEW_MS)
            continue;
        int64_t left_ms = held->until_ms - now_ms;
        int64_t lease_ms = left_ms < POLICY_LEASE_MS_MAX ? left_ms : POLICY_LEASE_MS_MAX;
        const struct queue_answer extend = {.verb = QUEUE_EXTEND,
                                            .lease = slice_make(held->lease, held->lease_bytes),
                                            .lease_ms = lease_ms};
        held->lease_until_ms = now_ms + lease_ms;
        queue_answer(queue_of(session), &extend, 1, (struct queue_reply_to){.done = nobody_minds});
    }
}

/* ---- reserve ---- */

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct beanstalk_session *session = owner;
    enum errand errand = session->errand;
    (void)tag;
    stop_waiting(session);
    session->waiter = 0;
    if (!called(session))
        return;
    if (reply->job_count && hold(session, &reply->jobs[0])) {
        session_set_timer(session);
        session_go_on(session);
    } else if (reply->status != QUEUE_OK || reply->job_count || refused) {
        say(session, answer_of(reply->status ? reply->status : QUEUE_NO_MEMORY));
    } else {
        say(session, errand == ERRAND_RESERVE_SOON ? "DEADLINE_SOON\r\n" : "TIMED_OUT\r\n");
    }
}

/* The wait is over before a job came. */
static void give_up(struct beanstalk_session *session, const char *text)
{
    waiter_cancel(session->front->options.waiters, session->waiter);
    session->waiter = 0;
    session->calls--;
    stop_waiting(session);
    say(session, text);
}

/* `wait_s`: INT64_MAX: for ever. */
static void reserve(struct beanstalk_session *session, int64_t wait_s)
{
    struct slice topics[TUBES_WATCHED_MAX];
    int64_t now_ms = clock_inner_ms();
    drop_late(session, now_ms);
    bool is_soon = deadline_is_soon(session, now_ms), waits = !is_soon && wait_s > 0;
    for (uint32_t i = 0; i < session->watched_count; i++)
        topics[i] = beanstalk_tube_name(session->watched[i]);
    const struct queue_take take = {.topics = topics,
                                    .topic_count = session->watched_count,
                                    .by_priority = true,
                                    .max = 1,
                                    .way = JOB_WAY_TAKE};
    session->errand = is_soon ? ERRAND_RESERVE_SOON : waits ? ERRAND_RESERVE : ERRAND_RESERVE_NOW;
    session->give_up_ms = wait_s == INT64_MAX ? INT64_MAX : now_ms + wait_s * 1000;
    if (waits) {
        session->front->waiting++;
        for (uint32_t i = 0; i < session->watched_count; i++)
            session->watched[i]->waiting++;
    }
    session->calls++;
    session->waiter = waiter_take(session->front->options.waiters, &take, waits ? INT64_MAX / 4 : 0,
                                  now_ms, on_taken, session, 0);
    if (session->waiter) {
        session_set_timer(session);
        return;
    }
    session->calls--;
    stop_waiting(session);
    session->errand = ERRAND_NONE;
    answer(session, "OUT_OF_MEMORY\r\n");
}

/* ---- time ---- */

static void on_time(uv_timer_t *timer)
{
    struct beanstalk_session *session = timer->data;
    int64_t now_ms = clock_inner_ms();
    if (session->is_closing)
        return;
    drop_late(session, now_ms);
    renew_leases(session, now_ms);
    if (session->errand == ERRAND_RESERVE && deadline_is_soon(session, now_ms))
        give_up(session, "DEADLINE_SOON\r\n");
    else if (session->errand == ERRAND_RESERVE && now_ms >= session->give_up_ms)
        give_up(session, "TIMED_OUT\r\n");
    if (!session->is_closing)
        session_set_timer(session);
}

/* The next moment at which something is to be done of itself. */
static void session_set_timer(struct beanstalk_session *session)
{
    int64_t now_ms = clock_inner_ms(), next_ms = first_end_ms(session);
    bool waits = session->errand == ERRAND_RESERVE;
    if (waits && next_ms != INT64_MAX)
        next_ms -= MARGIN_MS;
    if (waits && session->give_up_ms < next_ms)
        next_ms = session->give_up_ms;
    for (size_t i = 0; i < session->reservations.count; i++) {
        const struct reservation *held = &session->reservations.at[i];
        if (held->lease_until_ms < held->until_ms && held->lease_until_ms - RENEW_MS < next_ms)
            next_ms = held->lease_until_ms - RENEW_MS;
    }
    if (next_ms == INT64_MAX) {
        uv_timer_stop(&session->timer);
        return;
    }
    uv_update_time(session->timer.loop);
    uv_timer_start(&session->timer, on_time, next_ms > now_ms ? (uint64_t)(next_ms - now_ms) : 0,
                   0);
}

/* ---- put ---- */

static void on_put(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!called(session))
        return;
    for (size_t i = 0; i < session->put_count; i++) {
        enum queue_status status =
            i < reply->result_count ? reply->results[i].status : reply->status;
        if (status == QUEUE_CREATED)
            buffer_append_format(&session->out, "INSERTED %" PRIu64 "\r\n",
                                 session->put_numbers[i]);
        else
            answer(session, answer_of(status == QUEUE_OK ? QUEUE_NO_MEMORY : status));
    }
    session_go_on(session);
}

static void on_numbers(void *owner, enum queue_status status)
{
    struct beanstalk_session *session = owner;
    if (!called(session))
        return;
    if (status == QUEUE_OK) { /* the put is still in the input */
        session_go_on(session);
        return;
    }
    answer(session, answer_of(status));
    session->skip_bytes = session->command.bytes + 2;
    session->skip_answer = "";
    session_go_on(session);
}

/* The end of the line that begins at `at`; 0: it has not come. */
static size_t line_end(const struct beanstalk_session *session, size_t at)
{
    size_t left = session->in.len - at;
    const char *end =
        memmem(session->in.at + at,
               left < BEANSTALK_LINE_BYTES_MAX ? left : BEANSTALK_LINE_BYTES_MAX, "\r\n", 2);
    return end ? (size_t)(end - session->in.at) + 2 : 0;
}

static void consume(struct beanstalk_session *session, size_t bytes)
{
    struct buffer *in = &session->in;
    memmove(in->at, in->at + bytes, in->len - bytes);
    in->len -= bytes;
}

/* A put that is all there, from `at` on. 0: it is none, or not whole, or is refused by its form. */
static size_t whole_put(struct beanstalk_session *session, size_t at, struct beanstalk_command *out,
                        struct slice *body)
{
    size_t end = line_end(session, at);
    if (!end || !beanstalk_command_parse(slice_make(session->in.at + at, end - 2 - at), out) ||
        out->verb != BEANSTALK_PUT || out->has_rest ||
        out->bytes > session->front->options.job_bytes_max ||
        session->in.len - end < (size_t)out->bytes + 2 ||
        memcmp(session->in.at + end + out->bytes, "\r\n", 2) != 0)
        return 0;
    *body = slice_make(session->in.at + end, out->bytes);
    return end + out->bytes + 2;
}

static struct queue_push push_of(struct beanstalk_session *session,
                                 const struct beanstalk_command *put, struct slice body,
                                 struct slice id, struct buffer *meta)
{
    char text[META_BYTES];
    uint32_t ttr_s = put->ttr_s ? put->ttr_s : 1;
    int64_t ttr_ms = (int64_t)ttr_s * 1000;
    int len = snprintf(text, sizeof text, "%" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRId64,
                       put->priority, put->delay_s, ttr_s, queue_wall_ms(queue_of(session)));
    (void)job_meta_add(meta, slice_of(META_NAME), slice_make(text, (size_t)len));
    return (struct queue_push){
        .topic = beanstalk_tube_name(session->used),
        .id = id,
        .meta = buffer_slice(meta),
        .body = body,
        .when = {.due = put->delay_s ? QUEUE_DUE_DELAY : QUEUE_DUE_NOW,
                 .ms = (int64_t)put->delay_s * 1000},
        .priority = beanstalk_priority_pack(put->priority),
        .on_conflict = CONFLICT_REJECT,
        .policy = {.lease_ms = ttr_ms < POLICY_LEASE_MS_MAX ? ttr_ms : POLICY_LEASE_MS_MAX,
                   .max_attempts = POLICY_ATTEMPTS_NONE,
                   .backoff = {.kind = BACKOFF_NONE}}};
}

/* All puts that are there whole, from the front of the input, as one call. */
static void put_all(struct beanstalk_session *session)
{
    struct queue_push pushes[PUTS_MAX];
    struct buffer metas[PUTS_MAX];
    char ids[PUTS_MAX][24];
    struct beanstalk_command put;
    struct slice body;
    size_t at = 0, count = 0, next;
    bool lacks = false;
    while (count < PUTS_MAX && (next = whole_put(session, at, &put, &body))) {
        uint64_t number = beanstalk_numbers_next(session->front->numbers);
        if (!number) {
            lacks = true;
            break;
        }
        int len = snprintf(ids[count], sizeof ids[0], "%" PRIu64, number);
        buffer_init(&metas[count], JOB_META_BYTES_MAX);
        pushes[count] =
            push_of(session, &put, body, slice_make(ids[count], (size_t)len), &metas[count]);
        session->put_numbers[count++] = number;
        session->front->verbs[BEANSTALK_PUT]++;
        at = next;
    }
    session->put_count = count;
    if (count) {
        queue_push(queue_of(session), pushes, count, call(session, on_put));
        for (size_t i = 0; i < count; i++)
            buffer_fini(&metas[i]);
        consume(session, at);
    } else if (lacks) {
        session->command = put;
        session->errand = ERRAND_OTHER;
        session->calls++;
        beanstalk_numbers_want(session->front->numbers, on_numbers, session);
    }
}

/* The line of a put is there. False: more of it must come first. */
static bool begin_put(struct beanstalk_session *session, const struct beanstalk_command *put,
                      size_t line_bytes)
{
    size_t whole = line_bytes + put->bytes + 2;
    if (put->bytes > session->front->options.job_bytes_max) {
        session->front->verbs[BEANSTALK_PUT]++;
        consume(session, line_bytes);
        session->skip_bytes = (uint64_t)put->bytes + 2;
        session->skip_answer = "JOB_TOO_BIG\r\n";
        return true;
    }
    if (put->has_rest) {
        consume(session, line_bytes);
        answer(session, "BAD_FORMAT\r\n");
        return true;
    }
    if (!session->is_producer) {
        session->is_producer = true;
        session->front->producers++;
    }
    if (session->in.len < whole)
        return false;
    if (memcmp(session->in.at + whole - 2, "\r\n", 2) != 0) {
        session->front->verbs[BEANSTALK_PUT]++;
        consume(session, whole);
        answer(session, "EXPECTED_CRLF\r\n");
        return true;
    }
    put_all(session);
    return true;
}

/* ---- leases: delete, release, bury, touch of what the client holds ---- */

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!called(session))
        return;
    const struct beanstalk_command *command = &session->command;
    enum queue_status status = reply->result_count ? reply->results[0].status : reply->status;
    struct reservation *held = reservation_of(session, command->id);
    if (status != QUEUE_OK && status != QUEUE_CANCELLED) {
        if (status == QUEUE_LEASE_ENDED)
            drop_reservation(session, command->id);
        say(session, answer_of(status));
        return;
    }
    if (command->verb == BEANSTALK_TOUCH) {
        if (held)
            held->until_ms = clock_inner_ms() + (int64_t)held->ttr_s * 1000;
        session_set_timer(session);
        say(session, "TOUCHED\r\n");
        return;
    }
    drop_reservation(session, command->id);
    session_set_timer(session);
    say(session, command->verb == BEANSTALK_DELETE     ? "DELETED\r\n"
                 : command->verb == BEANSTALK_BURY     ? "BURIED\r\n"
                 : reply->results[0].state == JOB_DEAD ? "BURIED\r\n"
                                                       : "RELEASED\r\n");
}

/* False: the client does not hold the job. */
static bool answer_lease(struct beanstalk_session *session)
{
    const struct beanstalk_command *command = &session->command;
    drop_late(session, clock_inner_ms());
    struct reservation *held = reservation_of(session, command->id);
    if (!held)
        return false;
    int64_t ttr_ms = (int64_t)held->ttr_s * 1000;
    int64_t lease_ms = ttr_ms < POLICY_LEASE_MS_MAX ? ttr_ms : POLICY_LEASE_MS_MAX;
    struct queue_answer lease = {
        .verb = command->verb == BEANSTALK_DELETE  ? QUEUE_ACK
                : command->verb == BEANSTALK_TOUCH ? QUEUE_EXTEND
                                                   : QUEUE_NACK,
        .lease = slice_make(held->lease, held->lease_bytes),
        .delay_ms = (int64_t)command->delay_s * 1000,
        .final = command->verb == BEANSTALK_BURY,
        .has_priority = true,
        .priority = beanstalk_priority_pack(command->priority),
        .error = slice_of(command->verb == BEANSTALK_BURY ? "buried" : "released")};
    if (command->verb == BEANSTALK_TOUCH) {
        lease.lease_ms = lease_ms;
        held->lease_until_ms = clock_inner_ms() + lease_ms;
    }
    queue_answer(queue_of(session), &lease, 1, call(session, on_answered));
    return true;
}

/* ---- jobs that are named: they are located first ---- */

static bool is_wanted(void *owner, uint64_t tag)
{
    const struct beanstalk_session *session = owner;
    (void)tag;
    return !session->is_closing;
}

static bool looks_at(void *owner, uint64_t tag, struct slice topic)
{
    (void)owner;
    (void)tag;
    return !beanstalk_topic_is_own(topic);
}

static void note_located(struct beanstalk_session *session, const struct job *job)
{
    struct located *located = &session->located;
    located->is_there = true;
    located->state = job->state;
    located->topic_bytes = (uint8_t)job->topic.len;
    memcpy(located->topic, job->topic.at, job->topic.len);
    located->id_bytes = (uint8_t)job->id.len;
    memcpy(located->id, job->id.at, job->id.len);
    located->view = view_of(session, job);
    located->view.tube = slice_make(located->topic, located->topic_bytes);
    located->view.number = session->command.id ? session->command.id : located->view.number;
}

static void on_located(void *owner, uint64_t tag, const struct queue_job *job)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (session->is_closing)
        return;
    note_located(session, &job->job);
    if (session->command.verb == BEANSTALK_PEEK)
        answer_job(session, "FOUND", session->command.id, job->job.body);
}

static void on_cancelled(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!called(session))
        return;
    enum queue_status status = reply->result_count ? reply->results[0].status : reply->status;
    say(session, status == QUEUE_CANCELLED ? "DELETED\r\n" : answer_of(status));
}

static void on_kicked_one(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!called(session))
        return;
    enum queue_status status = reply->result_count ? reply->results[0].status : reply->status;
    say(session, status == QUEUE_OK ? "KICKED\r\n" : answer_of(status));
}

static void on_picked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (session->is_closing) /* nobody is there to have it */
        for (size_t i = 0; i < reply->job_count; i++)
            give_back(session->front, reply->jobs[i].lease);
    if (!called(session))
        return;
    if (reply->job_count && hold(session, &reply->jobs[0])) {
        session_set_timer(session);
        session_go_on(session);
        return;
    }
    say(session, answer_of(reply->job_count ? QUEUE_NO_MEMORY : reply->status));
}

static void change_located(struct beanstalk_session *session, enum queue_change_verb verb,
                           queue_done *done)
{
    const struct located *located = &session->located;
    const struct queue_change change = {.verb = verb,
                                        .topic = slice_make(located->topic, located->topic_bytes),
                                        .id = slice_make(located->id, located->id_bytes),
                                        .when = {.due = QUEUE_DUE_UNCHANGED},
                                        .priority = QUEUE_PRIORITY_UNSET};
    queue_change(queue_of(session), &change, 1, call(session, done));
}

static void redrive_located(struct beanstalk_session *session)
{
    const struct located *located = &session->located;
    const struct queue_topic_call redrive = {.verb = QUEUE_TOPIC_REDRIVE,
                                             .topic =
                                                 slice_make(located->topic, located->topic_bytes),
                                             .id = slice_make(located->id, located->id_bytes)};
    queue_topic(queue_of(session), &redrive, call(session, on_kicked_one));
}

static void take_located(struct beanstalk_session *session)
{
    const struct located *located = &session->located;
    const struct slice topic = slice_make(located->topic, located->topic_bytes);
    const struct queue_take take = {.topics = &topic,
                                    .topic_count = 1,
                                    .id = slice_make(located->id, located->id_bytes),
                                    .max = 1,
                                    .way = JOB_WAY_TAKE};
    queue_take(queue_of(session), &take, call(session, on_picked));
}

/* The job is found, and the command goes on with it. */
static void go_on_located(struct beanstalk_session *session)
{
    struct buffer yaml;
    const struct located *located = &session->located;
    switch (session->command.verb) {
    case BEANSTALK_PEEK:
        session_go_on(session);
        return;
    case BEANSTALK_STATS_JOB:
        buffer_init(&yaml, OUT_BYTES_MAX);
        beanstalk_stats_job(&yaml, &located->view);
        answer_yaml(session, &yaml);
        session_go_on(session);
        return;
    case BEANSTALK_DELETE:
        change_located(session, QUEUE_CANCEL, on_cancelled);
        return;
    case BEANSTALK_RESERVE_JOB:
        take_located(session);
        return;
    default:
        assert(session->command.verb == BEANSTALK_KICK_JOB);
        if (located->state == JOB_DEAD)
            redrive_located(session);
        else if (located->state == JOB_DELAYED)
            change_located(session, QUEUE_RUN, on_kicked_one);
        else
            say(session, "NOT_FOUND\r\n");
    }
}

static void on_locate_end(void *owner, uint64_t tag, const struct locate_result *result)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!called(session))
        return;
    if (session->located.is_there)
        go_on_located(session);
    else
        say(session, answer_of(result->status ? result->status : QUEUE_NOT_FOUND));
}

/* The one job of an alias, or of a tube that is looked into. */
static void on_got(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!called(session))
        return;
    if (!reply->job_count) {
        say(session, answer_of(reply->status ? reply->status : QUEUE_NOT_FOUND));
        return;
    }
    note_located(session, &reply->jobs[0].job);
    if (session->command.verb <= BEANSTALK_PEEK_BURIED) {
        answer_job(session, "FOUND", session->located.view.number, reply->jobs[0].job.body);
        session_go_on(session);
        return;
    }
    go_on_located(session);
}

static void locate(struct beanstalk_session *session)
{
    struct slice topic = {0};
    struct slice id = beanstalk_id_of(session->front, session->command.id, session->room, &topic);
    session->located.is_there = false;
    if (!id.len) { /* an alias that is nobody's */
        answer(session, "NOT_FOUND\r\n");
        return;
    }
    if (topic.len) {
        queue_get(queue_of(session), topic, id, call(session, on_got));
        return;
    }
    const struct locate_listener listener = {.looks_at = looks_at,
                                             .found = on_located,
                                             .wanted = is_wanted,
                                             .done = on_locate_end,
                                             .owner = session};
    (void)call(session, NULL);
    if (locate_start(queue_of(session), id, 1, &listener))
        return;
    session->calls--;
    session->errand = ERRAND_NONE;
    answer(session, "OUT_OF_MEMORY\r\n");
}

/* ---- peek-ready, peek-delayed, peek-buried ---- */

static void on_listed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    const struct job *best = NULL;
    (void)tag;
    if (!called(session))
        return;
    for (size_t i = 0; i < reply->job_count; i++) /* they come by due, then push order */
        if (!best || reply->jobs[i].job.priority < best->priority)
            best = &reply->jobs[i].job;
    if (!best) {
        say(session, answer_of(reply->status ? reply->status : QUEUE_NOT_FOUND));
        return;
    }
    queue_get(queue_of(session), best->topic, best->id, call(session, on_got));
}

/* Of the ready ones that of the best priority comes first, as far as a page shows. */
static void peek_tube(struct beanstalk_session *session, enum job_state state)
{
    const struct queue_list list = {.topic = beanstalk_tube_name(session->used),
                                    .state = state,
                                    .limit = state == JOB_READY ? QUEUE_LIST_MAX : 1};
    queue_list(queue_of(session), &list, call(session, on_listed));
}

/* ---- kick ---- */

static void say_kicked(struct beanstalk_session *session, uint64_t jobs)
{
    buffer_append_format(&session->out, "KICKED %" PRIu64 "\r\n", jobs);
    session_go_on(session);
}

static void on_run(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    uint64_t jobs = 0;
    (void)tag;
    if (!called(session))
        return;
    for (size_t i = 0; i < reply->result_count; i++)
        jobs += reply->results[i].status == QUEUE_OK;
    say_kicked(session, jobs);
}

static void on_delayed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!called(session))
        return;
    struct queue_change *runs = reply->job_count ? calloc(reply->job_count, sizeof *runs) : NULL;
    if (!runs) {
        say_kicked(session, 0);
        return;
    }
    for (size_t i = 0; i < reply->job_count; i++)
        runs[i] = (struct queue_change){.verb = QUEUE_RUN,
                                        .topic = reply->jobs[i].job.topic,
                                        .id = reply->jobs[i].job.id,
                                        .when = {.due = QUEUE_DUE_UNCHANGED},
                                        .priority = QUEUE_PRIORITY_UNSET};
    queue_change(queue_of(session), runs, reply->job_count, call(session, on_run));
    free(runs);
}

static void on_redriven(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!called(session))
        return;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        say(session, answer_of(reply->status));
        return;
    }
    if (reply->affected) {
        say_kicked(session, reply->affected);
        return;
    }
    uint32_t most = session->command.number;
    const struct queue_list list = {.topic = beanstalk_tube_name(session->used),
                                    .state = JOB_DELAYED,
                                    .limit = most < KICK_MAX ? most : KICK_MAX};
    queue_list(queue_of(session), &list, call(session, on_delayed));
}

static void kick(struct beanstalk_session *session)
{
    const struct queue_topic_call redrive = {.verb = QUEUE_TOPIC_REDRIVE,
                                             .topic = beanstalk_tube_name(session->used),
                                             .max = session->command.number};
    if (!redrive.max)
        answer(session, "KICKED 0\r\n");
    else
        queue_topic(queue_of(session), &redrive, call(session, on_redriven));
}

/* ---- tubes ---- */

static void use(struct beanstalk_session *session, struct slice name)
{
    struct beanstalk_tube *tube = beanstalk_tubes_need(&session->front->tubes, name);
    if (!tube) {
        answer(session, "OUT_OF_MEMORY\r\n");
        return;
    }
    tube->users++;
    session->used->users--;
    beanstalk_tubes_drop(&session->front->tubes, session->used);
    session->used = tube;
    buffer_append_format(&session->out, "USING %.*s\r\n", (int)name.len, name.at);
}

static uint32_t find_watched(const struct beanstalk_session *session, struct slice name)
{
    uint32_t i = 0;
    while (i < session->watched_count &&
           !slice_equals(beanstalk_tube_name(session->watched[i]), name))
        i++;
    return i;
}

static void say_watching(struct beanstalk_session *session)
{
    buffer_append_format(&session->out, "WATCHING %" PRIu32 "\r\n", session->watched_count);
}

static void watch(struct beanstalk_session *session, struct slice name)
{
    if (find_watched(session, name) == session->watched_count) {
        struct beanstalk_tube *tube = session->watched_count < TUBES_WATCHED_MAX
                                          ? beanstalk_tubes_need(&session->front->tubes, name)
                                          : NULL;
        if (!tube) {
            answer(session, "OUT_OF_MEMORY\r\n");
            return;
        }
        tube->watchers++;
        session->watched[session->watched_count++] = tube;
    }
    say_watching(session);
}

static void ignore(struct beanstalk_session *session, struct slice name)
{
    uint32_t at = find_watched(session, name);
    if (at < session->watched_count && session->watched_count == 1) {
        answer(session, "NOT_IGNORED\r\n");
        return;
    }
    if (at < session->watched_count) {
        struct beanstalk_tube *tube = session->watched[at];
        memmove(&session->watched[at], &session->watched[at + 1],
                (--session->watched_count - at) * sizeof session->watched[0]);
        tube->watchers--;
        beanstalk_tubes_drop(&session->front->tubes, tube);
    }
    say_watching(session);
}

static void list_watched(struct beanstalk_session *session)
{
    struct buffer yaml;
    buffer_init(&yaml, OUT_BYTES_MAX);
    buffer_append_text(&yaml, "---\n");
    for (uint32_t i = 0; i < session->watched_count; i++) {
        struct slice name = beanstalk_tube_name(session->watched[i]);
        buffer_append_format(&yaml, "- %.*s\n", (int)name.len, name.at);
    }
    answer_yaml(session, &yaml);
}

/* The tube that the command names, kept in `room` of `located`. */
static struct slice named_tube(struct beanstalk_session *session)
{
    return slice_make(session->located.topic, session->located.topic_bytes);
}

static void on_paused(void *owner, uint64_t tag, const struct queue_reply *reply);

static void pause_tube(struct beanstalk_session *session)
{
    int64_t pause_ms = (int64_t)session->command.number * 1000;
    /* Beyond what the queue knows as a time: until it is resumed. */
    const struct queue_topic_call pause = {
        .verb = session->command.number ? QUEUE_TOPIC_PAUSE : QUEUE_TOPIC_RESUME,
        .topic = named_tube(session),
        .pause_ms = pause_ms <= POLICY_DELAY_MS_MAX ? pause_ms : 0};
    queue_topic(queue_of(session), &pause, call(session, on_paused));
}

static void on_topic_made(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!called(session))
        return;
    if (reply->status == QUEUE_CREATED || reply->status == QUEUE_OK)
        pause_tube(session);
    else
        say(session, answer_of(reply->status));
}

/* A tube that somebody uses or watches is there, though the queue has no topic of it yet. */
static void on_paused(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!called(session))
        return;
    struct beanstalk_tube *tube = beanstalk_tubes_find(&session->front->tubes, named_tube(session));
    if (reply->status == QUEUE_NOT_FOUND && tube) {
        const struct queue_topic_call put = {.verb = QUEUE_TOPIC_PUT, .topic = named_tube(session)};
        queue_topic(queue_of(session), &put, call(session, on_topic_made));
        return;
    }
    if (tube && reply->status == QUEUE_OK) {
        tube->pauses++;
        tube->pause_s = session->command.number;
    }
    say(session, reply->status == QUEUE_OK ? "PAUSED\r\n" : answer_of(reply->status));
}

static void on_tube_shown(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    struct buffer yaml;
    (void)tag;
    if (!called(session))
        return;
    const struct beanstalk_tube *tube =
        beanstalk_tubes_find(&session->front->tubes, named_tube(session));
    if (!reply->topic_count && (!tube || reply->status != QUEUE_NOT_FOUND)) {
        say(session, answer_of(reply->status ? reply->status : QUEUE_NOT_FOUND));
        return;
    }
    buffer_init(&yaml, OUT_BYTES_MAX);
    beanstalk_stats_tube(&yaml, tube, named_tube(session),
                         reply->topic_count ? &reply->topics[0] : NULL,
                         queue_wall_ms(queue_of(session)));
    answer_yaml(session, &yaml);
    session_go_on(session);
}

static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    struct buffer yaml;
    (void)tag;
    if (!called(session))
        return;
    if (reply->status != QUEUE_OK) {
        say(session, answer_of(reply->status));
        return;
    }
    buffer_init(&yaml, 64 << 20);
    if (session->command.verb == BEANSTALK_STATS)
        beanstalk_stats(&yaml, session->front, reply);
    else
        beanstalk_list_tubes(&yaml, session->front, reply);
    answer_yaml(session, &yaml);
    session_go_on(session);
}

/* ---- commands ---- */

static void become_worker(struct beanstalk_session *session)
{
    if (session->is_worker)
        return;
    session->is_worker = true;
    session->front->workers++;
}

/* Begins a command whose line was right. `tube` is good during the call. */
static void carry_out(struct beanstalk_session *session, struct slice tube)
{
    const struct beanstalk_command *command = &session->command;
    const struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = named_tube(session)};
    session->front->verbs[command->verb]++;
    switch (command->verb) {
    case BEANSTALK_USE:
        use(session, tube);
        break;
    case BEANSTALK_WATCH:
        watch(session, tube);
        break;
    case BEANSTALK_IGNORE:
        ignore(session, tube);
        break;
    case BEANSTALK_LIST_TUBE_USED:
        tube = beanstalk_tube_name(session->used);
        buffer_append_format(&session->out, "USING %.*s\r\n", (int)tube.len, tube.at);
        break;
    case BEANSTALK_LIST_TUBES_WATCHED:
        list_watched(session);
        break;
    case BEANSTALK_LIST_TUBES:
    case BEANSTALK_STATS:
        queue_topics(queue_of(session), call(session, on_topics));
        break;
    case BEANSTALK_STATS_TUBE:
        queue_topic(queue_of(session), &get, call(session, on_tube_shown));
        break;
    case BEANSTALK_PAUSE_TUBE:
        pause_tube(session);
        break;
    case BEANSTALK_RESERVE:
    case BEANSTALK_RESERVE_WITH_TIMEOUT:
        become_worker(session);
        reserve(session, command->verb == BEANSTALK_RESERVE ? INT64_MAX : command->number);
        break;
    case BEANSTALK_RELEASE:
    case BEANSTALK_BURY:
    case BEANSTALK_TOUCH:
        if (!answer_lease(session))
            answer(session, "NOT_FOUND\r\n");
        break;
    case BEANSTALK_DELETE:
        if (!answer_lease(session))
            locate(session);
        break;
    case BEANSTALK_RESERVE_JOB:
        become_worker(session);
        locate(session);
        break;
    case BEANSTALK_PEEK:
    case BEANSTALK_STATS_JOB:
    case BEANSTALK_KICK_JOB:
        locate(session);
        break;
    case BEANSTALK_PEEK_READY:
        peek_tube(session, JOB_READY);
        break;
    case BEANSTALK_PEEK_DELAYED:
        peek_tube(session, JOB_DELAYED);
        break;
    case BEANSTALK_PEEK_BURIED:
        peek_tube(session, JOB_DEAD);
        break;
    case BEANSTALK_KICK:
        kick(session);
        break;
    case BEANSTALK_QUIT:
        session_write(session);
        beanstalk_session_end(session);
        break;
    case BEANSTALK_UNKNOWN:
    case BEANSTALK_PUT:
    case BEANSTALK_VERBS:
        assert(false); /* they do not come here */
    }
}

/* A web page, or a client of another port, is told nothing. */
static bool is_foreign(struct slice line)
{
    static const char *const words[] = {"GET ",     "POST ", "PUT ", "HEAD ",
                                        "OPTIONS ", "Host:", "\x16"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (line.len >= strlen(words[i]) && memcmp(line.at, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

/* A line that is no command. */
static void refuse_line(struct beanstalk_session *session, struct slice line, bool is_known)
{
    if (!is_known && is_foreign(line)) {
        beanstalk_session_end(session);
        return;
    }
    answer(session, is_known ? "BAD_FORMAT\r\n" : "UNKNOWN_COMMAND\r\n");
}

/* Carries out the command at the front of the input. False: it is not all there. */
static bool next_command(struct beanstalk_session *session)
{
    size_t line_bytes = line_end(session, 0);
    struct beanstalk_command command;
    if (!line_bytes) {
        session->skips_line = session->in.len >= BEANSTALK_LINE_BYTES_MAX;
        return session->skips_line;
    }
    struct slice line = slice_make(session->in.at, line_bytes - 2);
    bool is_good = beanstalk_command_parse(line, &command);
    if (is_good && command.verb == BEANSTALK_PUT)
        return begin_put(session, &command, line_bytes);
    session->command = command;
    session->command.tube = (struct slice){0};
    session->located.topic_bytes = (uint8_t)(is_good ? command.tube.len : 0);
    memcpy(session->located.topic, command.tube.len ? command.tube.at : "",
           session->located.topic_bytes);
    char tube[JOB_TOPIC_BYTES_MAX];
    memcpy(tube, session->located.topic, session->located.topic_bytes);
    if (!is_good || command.verb == BEANSTALK_UNKNOWN)
        refuse_line(session, line, !is_good);
    if (session->is_closing)
        return false;
    consume(session, line_bytes);
    if (is_good && command.verb != BEANSTALK_UNKNOWN)
        carry_out(session, slice_make(tube, command.tube.len));
    return true;
}

/* Throws away what nobody wants. False: more of it is to come. */
static bool skip_input(struct beanstalk_session *session)
{
    struct buffer *in = &session->in;
    if (session->skips_line) {
        const char *end = in->len ? memmem(in->at, in->len, "\r\n", 2) : NULL;
        if (!end) {
            bool keeps_cr = in->len && in->at[in->len - 1] == '\r';
            consume(session, in->len - keeps_cr);
            return false;
        }
        consume(session, (size_t)(end - in->at) + 2);
        session->skips_line = false;
        answer(session, "BAD_FORMAT\r\n");
        return true;
    }
    size_t bytes = session->skip_bytes < in->len ? (size_t)session->skip_bytes : in->len;
    consume(session, bytes);
    session->skip_bytes -= bytes;
    if (session->skip_bytes)
        return false;
    answer(session, session->skip_answer);
    return true;
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer);
static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *out);

/* Reads while there is room for what may come: a whole put. */
static void session_read(struct beanstalk_session *session)
{
    size_t most = (size_t)session->front->options.job_bytes_max + READ_BYTES;
    bool reads = !session->has_ended && session->in.len < most;
    if (reads == session->is_reading || session->is_closing)
        return;
    session->is_reading = reads;
    if (!reads)
        uv_read_stop(&session->stream);
    else if (uv_read_start(&session->stream, on_alloc, on_read) != 0)
        beanstalk_session_end(session);
}

/* As many commands as can be, then all their answers in one write. */
static void session_go_on(struct beanstalk_session *session)
{
    if (session->is_going_on || session->is_closing)
        return;
    session->is_going_on = true;
    session->calls++;
    bool goes_on = true;
    while (goes_on && !session->is_closing && !session->errand && session->out.len < OUT_BYTES_MAX)
        goes_on = session->skip_bytes || session->skips_line ? skip_input(session)
                                                             : next_command(session);
    session->is_going_on = false;
    session->calls--;
    if (session->is_closing) {
        session_free(session);
        return;
    }
    session_write(session);
    session_read(session);
    /* Who sends no more is answered what he has asked, and no waiting any longer. */
    if (session->has_ended && !session->is_closing && !session->is_writing && !session->errand)
        beanstalk_session_end(session);
}

/* ---- reading ---- */

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    struct beanstalk_session *session = handle->data;
    (void)wanted;
    char *at = buffer_reserve(&session->in, READ_BYTES);
    *out = uv_buf_init(at, at ? READ_BYTES : 0);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct beanstalk_session *session = stream->data;
    (void)buffer;
    if (count == 0)
        return;
    if (count < 0 && count != UV_EOF) {
        beanstalk_session_end(session);
        return;
    }
    if (count > 0) {
        session->in.len += (size_t)count;
    } else {
        session->has_ended = true;
        session_read(session);
        if (session->errand == ERRAND_RESERVE) {
            give_up(session, "TIMED_OUT\r\n");
            return;
        }
    }
    session_go_on(session);
}

static int init_stream(struct beanstalk_session *session, int fd, bool is_unix)
{
    uv_loop_t *loop = reactor_loop(session->front->options.reactor);
    int failed = is_unix ? uv_pipe_init(loop, &session->pipe, 0) : uv_tcp_init(loop, &session->tcp);
    if (failed)
        return failed;
    session->handle.data = session;
    session->handles = 1;
    if (uv_timer_init(loop, &session->timer) == 0)
        session->handles++;
    session->timer.data = session;
    failed = is_unix ? uv_pipe_open(&session->pipe, fd) : uv_tcp_open(&session->tcp, fd);
    if (!failed && !is_unix)
        failed = uv_tcp_nodelay(&session->tcp, 1);
    return failed;
}

void beanstalk_session_open(struct beanstalk_front *front, int fd, bool is_unix)
{
    struct beanstalk_session *session = calloc(1, sizeof *session);
    if (!session) {
        (void)close(fd);
        return;
    }
    session->front = front;
    buffer_init(&session->in, (size_t)front->options.job_bytes_max + 4 * READ_BYTES);
    buffer_init(&session->out, SIZE_MAX / 2);
    buffer_init(&session->writing, SIZE_MAX / 2);
    session->used = session->watched[0] =
        beanstalk_tubes_find(&front->tubes, slice_of(BEANSTALK_TUBE_DEFAULT));
    session->used->users++;
    session->used->watchers++;
    session->watched_count = 1;
    front->connection_count++;
    front->connections_total++;
    front->open_handles++;
    list_add_last(&front->sessions, &session->list);
    if (init_stream(session, fd, is_unix) != 0)
        beanstalk_session_end(session);
    else
        session_read(session);
}
