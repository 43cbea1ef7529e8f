#include "sql/postgres/answers.h"

#include "base/log.h"
#include "base/trouble.h"
#include "queue/cursor.h"
#include "queue/groups.h"
#include "queue/status.h"
#include "sql/topic.h"
#include "sql/waiting.h"

#include <stdio.h>

/* ---- values of rows, in PostgreSQL's binary format ---- */

/* Texts point into the result and are valid as long as it is. NULL is read as 0, false, or an empty
 * text. */

static uint64_t big_endian(const char *at, int bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++)
        number = number << 8 | (unsigned char)at[i];
    return number;
}

static bool row_is_null(const PGresult *result, int row, int column)
{
    return libpq.PQgetisnull(result, row, column);
}

int64_t postgres_row_number(const PGresult *result, int row, int column)
{
    const char *at = libpq.PQgetvalue(result, row, column);
    switch (libpq.PQgetlength(result, row, column)) {
    case 1:
        return *at != 0;
    case 2:
        return (int16_t)big_endian(at, 2);
    case 4:
        return (int32_t)big_endian(at, 4);
    case 6: /* location of a row */
        return (int64_t)big_endian(at, 6);
    case 8:
        return (int64_t)big_endian(at, 8);
    default:
        return 0;
    }
}

static bool row_flag(const PGresult *result, int row, int column)
{
    return libpq.PQgetlength(result, row, column) == 1 &&
           libpq.PQgetvalue(result, row, column)[0] != 0;
}

static struct slice row_text(const PGresult *result, int row, int column)
{
    return slice_make(libpq.PQgetvalue(result, row, column),
                      (size_t)libpq.PQgetlength(result, row, column));
}

/* Reads an array. Its header is: dimensions, has NULLs, type of the items, size, first index. Each
 * item is preceded by its length. */
static void row_numbers(const PGresult *result, int row, int column, int64_t *numbers, size_t count)
{
    struct slice text = row_text(result, row, column);
    const size_t header = 20, item = 12;
    memset(numbers, 0, count * sizeof *numbers);
    for (size_t i = 0; i < count && text.len >= header + (i + 1) * item; i++)
        numbers[i] = (int64_t)big_endian(text.at + header + i * item + 4, 8);
}

static void row_counts(const PGresult *result, int row, int column, int64_t counts[SQL_COUNTS])
{
    row_numbers(result, row, column, counts, SQL_COUNTS);
}

/* Columns of tarry._did. */
enum {
    DID_STATUS,
    DID_STATE,
    DID_DUE,
    DID_TOPIC,
    DID_EXPIRE,
    DID_DIED,
    DID_COUNTS,
    DID_ID,
    DID_NAME,
    DID_UNTIL,
    DID_CANCEL_REQUESTED,
    DID_ATTEMPT,
    DID_WAS_DUE,
    DID_ITEM,
    DID_BATCH,
    DID_MOVED,
    DID_OWN,
    DID_KEPT
};

/* Columns of tarry._shown. */
enum {
    SHOWN_NAME,
    SHOWN_ID,
    SHOWN_STATE,
    SHOWN_PRIORITY,
    SHOWN_ATTEMPT,
    SHOWN_DUE,
    SHOWN_FIRST_DUE,
    SHOWN_UNTIL,
    SHOWN_TAKEN,
    SHOWN_SEQUENCE,
    SHOWN_DELIVERY,
    SHOWN_LEASE,
    SHOWN_TTL,
    SHOWN_BACKOFF_KIND,
    SHOWN_BACKOFF_FIRST,
    SHOWN_BACKOFF_MAX,
    SHOWN_ATTEMPTS_MAX,
    SHOWN_TYPE,
    SHOWN_META,
    SHOWN_ERROR,
    SHOWN_HISTORY,
    SHOWN_BODY,
    SHOWN_TOPIC,
    SHOWN_LEVEL,
    SHOWN_CONSUMER,
    SHOWN_CANCEL_REQUESTED,
    SHOWN_ROW,
    SHOWN_NEXT_DUE,
    SHOWN_STEPS,
    SHOWN_GROUP,
    SHOWN_TURN,
    SHOWN_BATCHES,
    SHOWN_WAITING,
    /* Columns of tarry._seen only. */
    SEEN_PROGRESS,
    SEEN_KEEP,
    SEEN_OUTCOME,
    SEEN_FINISHED,
    SEEN_DURATION,
    SEEN_RESULT_TYPE,
    SEEN_RESULT,
    SEEN_HAS_BODY,
    SEEN_HELD_BY,
    SEEN_HELD_UNTIL
};

static const struct {
    const char *word;
    enum queue_status status;
    const char *detail;
} words[] = {
    {"ok", QUEUE_OK, NULL},
    {"created", QUEUE_CREATED, NULL},
    {"replaced", QUEUE_REPLACED, NULL},
    {"existed", QUEUE_EXISTED, NULL},
    {"cancelled", QUEUE_CANCELLED, NULL},
    {"requested", QUEUE_REQUESTED, NULL},
    {"not_found", QUEUE_NOT_FOUND, NULL},
    {"conflict", QUEUE_CONFLICT, NULL},
    {"leased", QUEUE_LEASED, NULL},
    {"dead", QUEUE_DEAD_STATE, NULL},
    {"lease_ended", QUEUE_LEASE_ENDED, NULL},
    {"too_many_topics", QUEUE_TOO_MANY_TOPICS, NULL},
    {"too_many_groups", QUEUE_TOO_MANY_GROUPS, NULL},
    {"group_full", QUEUE_GROUP_FULL, NULL},
    {"no_batch", QUEUE_NO_BATCH, NULL},
    {"batch_closed", QUEUE_BATCH_CLOSED, NULL},
    {"waits", QUEUE_WAITS, NULL},
    {"too_many_batches", QUEUE_TOO_MANY_BATCHES, NULL},
    {"too_many_members", QUEUE_TOO_MANY_MEMBERS, NULL},
    {"too_deep", QUEUE_BAD_OPTION, "batch"},
    {"not_empty", QUEUE_NOT_EMPTY, NULL},
    {"topic_full", QUEUE_TOPIC_FULL, NULL},
    {"bad_at", QUEUE_BAD_OPTION, "at"},
};

static enum queue_status status_of(struct slice word, const char **detail)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (slice_is(word, words[i].word)) {
            *detail = words[i].detail;
            return words[i].status;
        }
    *detail = NULL;
    return QUEUE_UNAVAILABLE; /* a status of a newer schema */
}

/* Notes what an item did to batches. */
static void note_batches(struct postgres_link *link, const PGresult *result, int row)
{
    enum { BEFORE = 8 }; /* see tarry._moved */
    struct sql_effects *effects = &link->context->effects;
    if (!row_is_null(result, row, DID_BATCH)) {
        int64_t moved = postgres_row_number(result, row, DID_MOVED);
        sql_effects_member(effects, postgres_row_number(result, row, DID_BATCH),
                           (enum batch_outcome)(moved / BEFORE),
                           (enum batch_outcome)(moved % BEFORE));
    }
    if (!row_is_null(result, row, DID_OWN))
        sql_effects_look_at_batch(effects, postgres_row_number(result, row, DID_OWN));
}

static void note_did(struct postgres_link *link, struct slice topic, const PGresult *result,
                     int row)
{
    int64_t counts[SQL_COUNTS];
    enum job_state state = (enum job_state)postgres_row_number(result, row, DID_STATE);
    enum queue_status status;
    const char *detail;
    row_counts(result, row, DID_COUNTS, counts);
    note_batches(link, result, row);
    sql_effects_count(&link->context->effects, postgres_row_number(result, row, DID_TOPIC), counts);
    sql_effects_expire(&link->context->effects, postgres_row_number(result, row, DID_EXPIRE));
    status = status_of(row_text(result, row, DID_STATUS), &detail);
    if ((status == QUEUE_OK || status == QUEUE_CREATED || status == QUEUE_REPLACED ||
         status == QUEUE_CANCELLED) &&
        (state == JOB_DELAYED || state == JOB_READY) && !row_is_null(result, row, DID_DUE))
        sql_effects_due(&link->context->effects, topic, postgres_row_number(result, row, DID_DUE));
    if (row_flag(result, row, DID_DIED)) {
        struct sql_notification *notification =
            sql_effects_notification(&link->context->effects, topic);
        if (notification)
            notification->died = true;
    }
}

/* Requests a check of a topic with limits, since the end of a lease may make a job ready for delivery. */
static void note_freed(struct postgres_link *link, struct slice name)
{
    const struct sql_topic *topic = sql_topics_find(&link->context->topics, name);
    struct sql_notification *notification;
    if (topic && topic->is_limited &&
        (notification = sql_effects_notification(&link->context->effects, name)))
        notification->look = true;
}

static void fill_result(struct queue_result *out, const PGresult *result, int row)
{
    out->status = status_of(row_text(result, row, DID_STATUS), &out->detail);
    out->state = (enum job_state)postgres_row_number(result, row, DID_STATE);
    out->due_ms = postgres_row_number(result, row, DID_DUE);
    if (out->state == JOB_LEASED)
        out->due_ms = 0;
}

/* Returns whether an answer started the successor of its job. */
static bool row_has_next(const PGresult *result, int row)
{
    return !row_is_null(result, row, DID_WAS_DUE);
}

/* Appends the event of an item. */
static void publish_item(const struct sql_call *call, struct postgres_link *link, size_t i,
                         const PGresult *result, int row)
{
    sql_effects_publish_item(&link->context->effects, call->command, i, &call->items[i],
                             (uint32_t)postgres_row_number(result, row, DID_ATTEMPT),
                             postgres_row_number(result, row, DID_WAS_DUE),
                             row_has_next(result, row));
}

static void read_push(struct sql_call *call, struct postgres_link *link, size_t i,
                      const PGresult *result, int row)
{
    const struct queue_push *push = &call->command->pushes[i];
    fill_result(&call->items[i], result, row);
    if (call->items[i].state == JOB_LEASED && queue_status_is_success(call->items[i].status))
        call->items[i].due_ms = postgres_row_number(result, row, DID_DUE); /* of the successor */
    call->items[i].topic = push->topic;
    call->items[i].id = push->id;
    if (call->items[i].status != QUEUE_CREATED)
        link->old_ids = POSTGRES_OLD_IDS;
    note_did(link, push->topic, result, row);
    publish_item(call, link, i, result, row);
}

static void read_change(struct sql_call *call, struct postgres_link *link, size_t i,
                        const PGresult *result, int row)
{
    const struct queue_change *change = &call->command->changes[i];
    fill_result(&call->items[i], result, row);
    call->items[i].topic = change->topic;
    call->items[i].id = change->id;
    note_did(link, change->topic, result, row);
    publish_item(call, link, i, result, row);
}

static void read_answer(struct sql_call *call, struct postgres_link *link, size_t i,
                        const PGresult *result, int row)
{
    struct queue_result *out = &call->items[i];
    struct slice topic = row_text(result, row, DID_NAME);
    struct sql_lease lease;
    fill_result(out, result, row);
    note_did(link, topic, result, row);
    if (!queue_status_is_success(out->status) ||
        !sql_lease_parse(call->command->answers[i].lease, &link->context->key, &lease))
        return;
    out->topic = topic;
    out->id = row_text(result, row, DID_ID);
    out->lease_until_ms = postgres_row_number(result, row, DID_UNTIL);
    out->cancel_requested = call->command->answers[i].verb == QUEUE_EXTEND &&
                            row_flag(result, row, DID_CANCEL_REQUESTED);
    sql_effects_hold(&link->context->effects, &lease, out->lease_until_ms);
    note_freed(link, topic);
    publish_item(call, link, i, result, row);
}

static void read_end(struct sql_call *call, struct postgres_link *link, size_t i,
                     const PGresult *result, int row)
{
    int64_t until_ms = postgres_row_number(result, row, DID_UNTIL);
    if (until_ms) /* it was extended in the meantime */
        sql_effects_hold(&link->context->effects, &call->ends.at[i], until_ms);
    struct queue_result out = {.topic = row_text(result, row, DID_NAME),
                               .id = row_text(result, row, DID_ID)};
    fill_result(&out, result, row);
    note_did(link, out.topic, result, row);
    note_freed(link, out.topic);
    sql_effects_publish_end(&link->context->effects, &out,
                            (uint32_t)postgres_row_number(result, row, DID_ATTEMPT),
                            row_has_next(result, row));
}

static void read_find(struct sql_call *call, size_t i, const PGresult *result)
{
    fill_result(&call->items[i], result, 0);
    call->items[i].topic = call->command->finds[i].topic;
    call->items[i].id = call->command->finds[i].id;
}

static void fill_job(struct job *job, const PGresult *result, int row)
{
    job->topic = row_text(result, row, SHOWN_NAME);
    job->id = row_text(result, row, SHOWN_ID);
    job->state = (enum job_state)postgres_row_number(result, row, SHOWN_STATE);
    job->priority = (uint16_t)postgres_row_number(result, row, SHOWN_PRIORITY);
    job->attempt = (uint32_t)postgres_row_number(result, row, SHOWN_ATTEMPT);
    job->due_ms = postgres_row_number(result, row, SHOWN_DUE);
    job->first_due_ms = postgres_row_number(result, row, SHOWN_FIRST_DUE);
    job->lease_until_ms = postgres_row_number(result, row, SHOWN_UNTIL);
    job->taken_ms = postgres_row_number(result, row, SHOWN_TAKEN);
    job->sequence = (uint64_t)postgres_row_number(result, row, SHOWN_SEQUENCE);
    job->delivery = (uint64_t)postgres_row_number(result, row, SHOWN_DELIVERY);
    job->due_is_wall = true; /* the database's clock is the only one */
    job->policy.lease_ms = postgres_row_number(result, row, SHOWN_LEASE);
    job->policy.ttl_ms = postgres_row_number(result, row, SHOWN_TTL);
    job->policy.backoff.kind =
        (enum backoff_kind)postgres_row_number(result, row, SHOWN_BACKOFF_KIND);
    job->policy.backoff.first_ms = postgres_row_number(result, row, SHOWN_BACKOFF_FIRST);
    job->policy.backoff.max_ms = postgres_row_number(result, row, SHOWN_BACKOFF_MAX);
    job->policy.max_attempts = (uint32_t)postgres_row_number(result, row, SHOWN_ATTEMPTS_MAX);
    job->content_type = row_text(result, row, SHOWN_TYPE);
    job->meta = row_text(result, row, SHOWN_META);
    job->error = row_text(result, row, SHOWN_ERROR);
    job->history = row_text(result, row, SHOWN_HISTORY);
    job->consumer = row_text(result, row, SHOWN_CONSUMER);
    job->cancel_requested = row_flag(result, row, SHOWN_CANCEL_REQUESTED);
    job->body = row_text(result, row, SHOWN_BODY);
    job->next_due_ms = postgres_row_number(result, row, SHOWN_NEXT_DUE);
    job->group = row_text(result, row, SHOWN_GROUP);
    job->batch = row_text(result, row, SHOWN_BATCHES);
    if (job->policy.backoff.kind == BACKOFF_LIST)
        sql_steps_read(row_text(result, row, SHOWN_STEPS), &job->policy.backoff);
}

/* Adds the batch of a waiting job. */
static bool fill_waiting(struct sql_call *call, struct queue_job *job, const PGresult *result,
                         int row, bool is_taken)
{
    int64_t figures[SQL_WAITING_FIGURES];
    if (row_is_null(result, row, SHOWN_WAITING))
        return true;
    row_numbers(result, row, SHOWN_WAITING, figures, SQL_WAITING_FIGURES);
    return sql_waiting_show(call, job, figures, is_taken);
}

struct taken_row {
    int row;
    /* number of the group of rows with the same topic and priority, in order of arrival */
    unsigned run;
    int64_t turn; /* place in a topic with groups; 0: by due time and sequence */
    int64_t due_ms;
    uint64_t sequence;
};

static int taken_row_compare(const void *left, const void *right)
{
    const struct taken_row *a = left, *b = right;
    if (a->run != b->run)
        return a->run < b->run ? -1 : 1;
    if (a->turn != b->turn)
        return a->turn < b->turn ? -1 : 1;
    if (a->due_ms != b->due_ms)
        return a->due_ms < b->due_ms ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* Returns the rows that are jobs, in delivery order: topics and priorities in order of arrival,
 * jobs of one priority by due time and sequence. */
static struct taken_row *taken_rows(const PGresult *result, size_t *count)
{
    int all = libpq.PQntuples(result);
    struct taken_row *rows = calloc((size_t)all + 1, sizeof *rows);
    int64_t topic = 0, level = 0;
    bool is_in_order = true;
    *count = 0;
    for (int i = 0; rows && i < all; i++) {
        if (row_is_null(result, i, SHOWN_ID))
            continue;
        struct taken_row *row = &rows[*count];
        bool is_same = *count && topic == postgres_row_number(result, i, SHOWN_TOPIC) &&
                       level == postgres_row_number(result, i, SHOWN_LEVEL);
        topic = postgres_row_number(result, i, SHOWN_TOPIC);
        level = postgres_row_number(result, i, SHOWN_LEVEL);
        *row = (struct taken_row){.row = i,
                                  .run = *count ? row[-1].run + !is_same : 0,
                                  .turn = postgres_row_number(result, i, SHOWN_TURN),
                                  .due_ms = postgres_row_number(result, i, SHOWN_DUE),
                                  .sequence =
                                      (uint64_t)postgres_row_number(result, i, SHOWN_SEQUENCE)};
        is_in_order = is_in_order && (!*count || taken_row_compare(row - 1, row) < 0);
        ++*count;
    }
    if (rows && !is_in_order)
        qsort(rows, *count, sizeof *rows, taken_row_compare);
    return rows;
}

/* Fills in what a row of tarry._seen has in addition. */
static void fill_seen(struct queue_job *job, struct queue_end *end, const PGresult *result, int row)
{
    job->job.progress = row_text(result, row, SEEN_PROGRESS);
    job->job.has_keep = !row_is_null(result, row, SEEN_KEEP);
    job->job.keep_ms = postgres_row_number(result, row, SEEN_KEEP);
    job->held_by = (enum flow_held)postgres_row_number(result, row, SEEN_HELD_BY);
    job->held_until_ms = postgres_row_number(result, row, SEEN_HELD_UNTIL);
    if (row_is_null(result, row, SEEN_FINISHED))
        return;
    *end =
        (struct queue_end){.outcome = (enum job_end)postgres_row_number(result, row, SEEN_OUTCOME),
                           .finished_ms = postgres_row_number(result, row, SEEN_FINISHED),
                           .duration_ms = postgres_row_number(result, row, SEEN_DURATION),
                           .result = row_text(result, row, SEEN_RESULT),
                           .result_type = row_text(result, row, SEEN_RESULT_TYPE),
                           .has_body = row_flag(result, row, SEEN_HAS_BODY)};
    job->end = end;
}

static bool read_jobs(struct sql_call *call, const PGresult *result, size_t count)
{
    call->jobs = calloc(count ? count : 1, sizeof *call->jobs);
    call->finished = calloc(count ? count : 1, sizeof *call->finished);
    if (!call->jobs || !call->finished)
        return false;
    for (size_t i = 0; i < count; i++) {
        fill_job(&call->jobs[i].job, result, (int)i);
        fill_seen(&call->jobs[i], &call->finished[i], result, (int)i);
        if (!fill_waiting(call, &call->jobs[i], result, (int)i, false))
            return false;
    }
    call->job_count = count;
    return true;
}

/* Fills in a take's jobs. Counts each job as leased instead of waiting. */
static bool fill_taken(struct sql_call *call, struct postgres_link *link, const PGresult *result,
                       const struct taken_row *rows, size_t count)
{
    call->jobs = calloc(count + 1, sizeof *call->jobs);
    call->tokens = malloc(count * SQL_LEASE_TEXT_BYTES + 1);
    if (!call->jobs || !call->tokens)
        return false;
    call->job_count = count;
    for (size_t i = 0; i < count; i++) {
        struct queue_job *job = &call->jobs[i];
        fill_job(&job->job, result, rows[i].row);
        if (!fill_waiting(call, job, result, rows[i].row, true))
            return false;
        int64_t counts[SQL_COUNTS] = {[SQL_COUNT_LEASED] = 1, [SQL_COUNT_DELIVERED] = 1};
        struct sql_lease lease = {
            .topic = (uint32_t)postgres_row_number(result, rows[i].row, SHOWN_TOPIC),
            .level = (uint32_t)postgres_row_number(result, rows[i].row, SHOWN_LEVEL),
            .due_ms = job->job.due_ms,
            .taken_ms = job->job.taken_ms,
            .sequence = job->job.sequence,
            .delivery = job->job.delivery,
            .row = (uint64_t)postgres_row_number(result, rows[i].row, SHOWN_ROW),
        };
        counts[job->job.attempt == 1 ? SQL_COUNT_FRESH : SQL_COUNT_RETRY] = -1;
        sql_effects_count(&link->context->effects, lease.topic, counts);
        sql_effects_hold(&link->context->effects, &lease, job->job.lease_until_ms);
        sql_lease_emit(call->tokens + i * SQL_LEASE_TEXT_BYTES, &link->context->key, &lease);
        job->lease = slice_make(call->tokens + i * SQL_LEASE_TEXT_BYTES, SQL_LEASE_TEXT_BYTES);
        sql_effects_publish_taken(&link->context->effects, &job->job, call->command->take.way);
    }
    return true;
}

static bool read_taken(struct sql_call *call, struct postgres_link *link, const PGresult *result)
{
    size_t count;
    struct taken_row *rows = taken_rows(result, &count);
    bool is_good = rows && fill_taken(call, link, result, rows, count);
    free(rows);
    return is_good;
}

static bool add_observation(struct sql_call *call, const struct sql_observation *observation)
{
    if (!observation->is_paused && observation->next_ms <= observation->seen_ms)
        call->drained = false;
    return sql_observations_add(&call->observations, *observation);
}

/* Reads the rows without an id, one per topic: the waiting jobs after a take. */
static bool read_observations(struct sql_call *call, const PGresult *result)
{
    call->drained = true;
    for (int i = 0; i < libpq.PQntuples(result); i++) {
        if (!row_is_null(result, i, SHOWN_ID))
            continue;
        struct sql_observation observation = {
            .topic = row_text(result, i, SHOWN_NAME),
            .next_ms = row_is_null(result, i, SHOWN_DUE)
                           ? INT64_MAX
                           : postgres_row_number(result, i, SHOWN_DUE),
            .is_paused = postgres_row_number(result, i, SHOWN_STATE) == 0,
            .resume_ms = postgres_row_number(result, i, SHOWN_UNTIL),
            .seen_ms = postgres_row_number(result, i, SHOWN_TAKEN),
            .has_no_bound = !row_is_null(result, i, SHOWN_FIRST_DUE),
            .is_limited = postgres_row_number(result, i, SHOWN_TURN) != 0,
        };
        if (!add_observation(call, &observation))
            return false;
    }
    return true;
}

/* Reads the result of a take by id. If the job is already leased, the result is a row of NULLs. */
static bool read_taken_one(struct sql_call *call, struct postgres_link *link,
                           const PGresult *result)
{
    bool is_leased = libpq.PQntuples(result) > 0 && row_is_null(result, 0, SHOWN_NAME);
    if (is_leased || !libpq.PQntuples(result)) {
        call->status = is_leased ? QUEUE_LEASED : QUEUE_NOT_FOUND;
        return true;
    }
    return read_taken(call, link, result);
}

static bool read_get(struct sql_call *call, const PGresult *result)
{
    size_t count = (size_t)libpq.PQntuples(result);
    call->status = count ? QUEUE_OK : QUEUE_NOT_FOUND;
    return read_jobs(call, result, count);
}

/* Reads the columns of tarry._history. */
static bool read_history(struct sql_call *call, const PGresult *result)
{
    enum { AT, EVENT, ATTEMPT, STARTED, CONSUMER, ERROR };
    size_t count = (size_t)libpq.PQntuples(result);
    call->jobs = calloc(count ? count : 1, sizeof *call->jobs);
    if (!call->jobs)
        return false;
    for (size_t i = 0; i < count; i++)
        call->jobs[i].job = (struct job){
            .topic = call->command->get.topic,
            .id = call->command->get.id,
            .state = JOB_FINISHED,
            .due_ms = postgres_row_number(result, (int)i, AT),
            .content_type = row_text(result, (int)i, EVENT),
            .attempt = (uint32_t)postgres_row_number(result, (int)i, ATTEMPT),
            .taken_ms = postgres_row_number(result, (int)i, STARTED),
            .consumer = row_text(result, (int)i, CONSUMER),
            .error = row_text(result, (int)i, ERROR),
        };
    call->job_count = count;
    call->status = count ? QUEUE_OK : QUEUE_NOT_FOUND;
    return true;
}

static bool read_list(struct sql_call *call, const PGresult *result)
{
    size_t count = (size_t)libpq.PQntuples(result), limit = call->command->list.limit;
    if (count && row_is_null(result, 0, SHOWN_NAME)) {
        call->status = QUEUE_NOT_FOUND;
        return true;
    }
    if (!read_jobs(call, result, count < limit ? count : limit))
        return false;
    if (count > limit) {
        const struct queue_job *last = &call->jobs[limit - 1];
        struct queue_cursor cursor = {
            .due_ms = last->end ? last->end->finished_ms
                                : postgres_row_number(result, (int)limit - 1, SHOWN_DUE),
            .sequence = last->job.sequence};
        call->cursor_bytes = queue_cursor_write(call->cursor, &cursor);
    }
    return true;
}

static struct sql_topic_figures figures_of(const PGresult *result, int row)
{
    struct sql_topic_figures figures = {.has_priority =
                                            !row_is_null(result, row, SQL_FIGURE_PRIORITY),
                                        .name = row_text(result, row, SQL_FIGURE_NAME),
                                        .extension = row_text(result, row, SQL_FIGURE_EXTENSION),
                                        .steps = row_text(result, row, SQL_FIGURE_STEPS)};
    for (enum sql_topic_figure i = 0; i < SQL_TOPIC_FIGURES; i++)
        if (sql_topic_figure_is_number(i))
            figures.numbers[i] = postgres_row_number(result, row, (int)i);
    row_counts(result, row, SQL_FIGURE_COUNTS, figures.counts);
    for (int i = 0; i < SQL_FLOW_FIGURES; i++)
        figures.flow[i] = postgres_row_number(result, row, SQL_TOPIC_FIGURES + i);
    return figures;
}

static bool read_figures(struct sql_call *call, const PGresult *result)
{
    size_t count = (size_t)libpq.PQntuples(result);
    call->topics = calloc(count ? count : 1, sizeof *call->topics);
    if (!call->topics)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct sql_topic_figures figures = figures_of(result, (int)i);
        sql_topic_figures_fill(&figures, &call->topics[i]);
    }
    call->topic_count = count;
    if (call->command->kind == COMMAND_TOPIC && !count && call->status == QUEUE_OK)
        call->status = QUEUE_NOT_FOUND;
    return true;
}

static struct queue_group group_of(const PGresult *result, int row)
{
    int64_t numbers[SQL_GROUP_FIGURES] = {0};
    for (int i = SQL_GROUP_NAME + 1; i < SQL_GROUP_FIGURES; i++)
        numbers[i] = postgres_row_number(result, row, i);
    return sql_group_of(row_text(result, row, SQL_GROUP_NAME), numbers);
}

static bool read_groups(struct sql_call *call, const PGresult *result)
{
    const struct command *command = call->command;
    size_t count = (size_t)libpq.PQntuples(result);
    size_t limit = command->kind == COMMAND_GROUPS ? command->groups.limit : 1;
    bool is_known = !count || !row_is_null(result, 0, SQL_GROUP_NAME);
    call->groups = calloc(count ? count : 1, sizeof *call->groups);
    if (!call->groups)
        return false;
    if (call->status == QUEUE_OK && !is_known)
        call->status = QUEUE_NOT_FOUND;
    if (call->status != QUEUE_OK)
        return true;
    if (command->kind == COMMAND_GROUP && !count) { /* any name may be that of a group */
        call->groups[0].name = command->group.group;
        call->group_count = 1;
        return true;
    }
    call->group_count = count < limit ? count : limit;
    for (size_t i = 0; i < call->group_count; i++)
        call->groups[i] = group_of(result, (int)i);
    if (count > limit)
        call->cursor_bytes =
            groups_cursor_write(call->cursor, command->groups.order, &call->groups[limit - 1]);
    return true;
}

static void read_group_put(struct sql_call *call, struct postgres_link *link,
                           const PGresult *result)
{
    const char *detail;
    struct sql_notification *notification;
    call->status = status_of(row_text(result, 0, 0), &detail);
    notification = sql_effects_notification(&link->context->effects, call->command->group.topic);
    if (notification)
        notification->look = true;
}

/* Notes whether a statement has stored changes of batches. */
static void note_stored(struct postgres_link *link, const PGresult *result, int column)
{
    struct sql_effects *effects = &link->context->effects;
    effects->has_batches = effects->has_batches || row_flag(result, 0, column);
}

/* Reads the result of a topic call, except the figures. */
static void read_topic(struct sql_call *call, struct postgres_link *link,
                       enum postgres_statement statement, const PGresult *result)
{
    const struct queue_topic_call *topic = &call->command->topic;
    const char *detail;
    struct sql_notification *notification;
    call->status = status_of(row_text(result, 0, 0), &detail);
    if (statement == POSTGRES_DELETE || statement == POSTGRES_PURGE ||
        statement == POSTGRES_REDRIVE) {
        uint64_t jobs = (uint64_t)postgres_row_number(result, 0, 1);
        call->step_affected = jobs;
        note_stored(link, result, 2);
        if (call->affected > 0 && call->status == QUEUE_NOT_FOUND)
            call->status = QUEUE_OK; /* it was deleted between two steps */
        call->has_more = statement != POSTGRES_DELETE && jobs >= POSTGRES_STEP_JOBS &&
                         !(topic->max && call->affected + jobs >= topic->max);
    }
    if (call->status != QUEUE_OK && call->status != QUEUE_CREATED)
        return;
    sql_effects_publish_topic(&link->context->effects, topic, call->step_affected);
    notification = sql_effects_notification(&link->context->effects, topic->topic);
    if (!notification)
        return;
    notification->look = true;
    notification->changed =
        notification->changed || statement == POSTGRES_PUT || statement == POSTGRES_DELETE;
    if (statement == POSTGRES_PUT) /* its ttl may have changed */
        sql_effects_expire(&link->context->effects, 1);
    if (statement == POSTGRES_REDRIVE)
        sql_effects_expire(&link->context->effects, 1);
}

/* Reads the columns of tarry._look. */
static bool read_look(struct sql_call *call, const PGresult *result)
{
    call->drained = true;
    for (int i = 0; i < libpq.PQntuples(result); i++) {
        struct sql_observation observation = {
            .topic = row_text(result, i, 0),
            .next_ms = row_is_null(result, i, 2) ? INT64_MAX : postgres_row_number(result, i, 2),
            .is_paused = row_flag(result, i, 3),
            .resume_ms = postgres_row_number(result, i, 4),
            .seen_ms = postgres_row_number(result, i, 5),
            .has_no_bound = !row_is_null(result, i, 6),
            .is_limited = postgres_row_number(result, i, 7) != 0,
        };
        if (!add_observation(call, &observation))
            return false;
    }
    return true;
}

static void read_forecast(struct sql_call *call, const PGresult *result)
{
    enum { READY, MINUTE, HOUR, LATER };
    struct queue_forecast *forecast = call->forecast;
    for (int i = 0; i < libpq.PQntuples(result); i++) {
        int64_t what = postgres_row_number(result, i, 0), index = postgres_row_number(result, i, 1);
        uint64_t jobs = (uint64_t)postgres_row_number(result, i, 2);
        if (what < READY)
            call->status = QUEUE_NOT_FOUND;
        else if (what == READY)
            forecast->overdue += jobs;
        else if (what == MINUTE && index < FORECAST_MINUTES)
            forecast->minutes[index] += jobs;
        else if (what == HOUR && index < FORECAST_HOURS)
            forecast->hours[index] += jobs;
        else if (what == LATER)
            forecast->later += jobs;
    }
}

/* Reads the result of an expiry. The topics with dead jobs are separated by commas. */
static void read_expire(struct sql_call *call, struct postgres_link *link, const PGresult *result)
{
    struct slice died = row_text(result, 0, 1);
    call->next_expire_ms =
        row_is_null(result, 0, 0) ? INT64_MAX : postgres_row_number(result, 0, 0);
    while (died.len) {
        const char *comma = memchr(died.at, ',', died.len);
        size_t len = comma ? (size_t)(comma - died.at) : died.len;
        struct sql_notification *notification =
            sql_effects_notification(&link->context->effects, slice_make(died.at, len));
        if (notification)
            notification->died = true;
        died = comma ? slice_make(comma + 1, died.len - len - 1) : (struct slice){0};
    }
    sql_effects_publish_lines(&link->context->effects, row_text(result, 0, 2));
    note_stored(link, result, 3);
}

void postgres_batches_read(struct postgres_link *link, const PGresult *result)
{
    enum { TOPIC, DUE };
    for (int i = 0; i < libpq.PQntuples(result); i++) {
        int64_t due_ms = postgres_row_number(result, i, DUE);
        if (row_is_null(result, i, TOPIC)) /* something is left to do */
            sql_effects_expire(&link->context->effects, due_ms);
        else
            sql_effects_due(&link->context->effects, row_text(result, i, TOPIC), due_ms);
    }
}

static void read_adopt(struct postgres_link *link, const PGresult *result)
{
    for (int i = 0; i < libpq.PQntuples(result); i++) {
        struct sql_lease lease = {
            .topic = (uint32_t)postgres_row_number(result, i, 0),
            .level = (uint32_t)postgres_row_number(result, i, 1),
            .due_ms = postgres_row_number(result, i, 2),
            .sequence = (uint64_t)postgres_row_number(result, i, 3),
            .delivery = (uint64_t)postgres_row_number(result, i, 4),
            .taken_ms = postgres_row_number(result, i, 5),
        };
        sql_effects_hold(&link->context->effects, &lease, postgres_row_number(result, i, 6));
    }
}

/* Counts a change for which the row has no counts: an ack, which removes one leased job, an ack
 * that pushes the job again, or no change. */
static void count_plain(struct postgres_link *link, const struct postgres_step *step,
                        const struct postgres_item *item, const PGresult *rows, int row)
{
    int64_t counts[SQL_COUNTS] = {0};
    const struct command *command = item->call->command;
    if (!row_is_null(rows, row, DID_COUNTS) || !command)
        return;
    if (step->statement == POSTGRES_ACKS ||
        (step->statement == POSTGRES_ANSWERS && command->answers[item->index].verb == QUEUE_ACK)) {
        counts[SQL_COUNT_LEASED] = -1;
        counts[SQL_COUNT_ACKED] = 1;
        counts[SQL_COUNT_KEPT] = !row_is_null(rows, row, DID_KEPT);
        counts[SQL_COUNT_KEPT_BYTES] = postgres_row_number(rows, row, DID_KEPT);
    } else if (step->statement == POSTGRES_AGAINS) {
        counts[SQL_COUNT_LEASED] = -1;
        counts[SQL_COUNT_ACKED] = counts[SQL_COUNT_PUSHED] = counts[SQL_COUNT_FRESH] = 1;
    }
    sql_effects_count(&link->context->effects, postgres_row_number(rows, row, DID_TOPIC), counts);
}

static void read_item(struct postgres_link *link, const struct postgres_step *step,
                      const struct postgres_item *item, const PGresult *rows, int row)
{
    struct sql_call *call = item->call;
    count_plain(link, step, item, rows, row);
    if (step->statement == POSTGRES_PUSHES)
        read_push(call, link, item->index, rows, row);
    else if (step->statement == POSTGRES_CHANGES)
        read_change(call, link, item->index, rows, row);
    else if (call->kind == SQL_CALL_END_LEASES)
        read_end(call, link, item->index, rows, row);
    else
        read_answer(call, link, item->index, rows, row);
}

static void result_release(void *held)
{
    struct postgres_result *result = held;
    if (--result->holders > 0)
        return;
    libpq.PQclear(result->rows);
    free(result);
}

/* Adds the call as a holder of the result, unless it already is. */
static bool result_hold(struct postgres_result *result, struct sql_call *call)
{
    const struct sql_results *results = &call->results;
    if (results->count && results->at[results->count - 1] == result)
        return true;
    result->holders++;
    return sql_call_keep(call, result, result_release);
}

/* Reads a push that has created its job, from the row of its group. */
static void read_created(struct postgres_link *link, const struct postgres_item *item,
                         const PGresult *rows, int row)
{
    const struct queue_push *push = &item->call->command->pushes[item->index];
    const struct queue_result *out = &item->call->items[item->index];
    struct sql_effects *effects = &link->context->effects;
    int64_t now_ms = postgres_row_number(rows, row, DID_DUE);
    int64_t topic_ttl_ms = postgres_row_number(rows, row, DID_EXPIRE);
    int64_t ttl_ms = push->policy.ttl_ms ? push->policy.ttl_ms : topic_ttl_ms;
    int64_t counts[SQL_COUNTS] = {[SQL_COUNT_PUSHED] = 1};
    counts[push->past.attempt ? SQL_COUNT_RETRY : SQL_COUNT_FRESH] = 1;
    sql_call_created(item->call, item->index, now_ms);
    note_batches(link, rows, row);
    sql_effects_count(effects, postgres_row_number(rows, row, DID_TOPIC), counts);
    sql_effects_expire(effects, ttl_ms > 0 ? out->due_ms + ttl_ms : 0);
    sql_effects_due(effects, push->topic, out->due_ms);
    sql_effects_publish_item(effects, item->call->command, item->index, out, push->past.attempt, 0,
                             false);
}

/* Reads the pushes without a row of their own, which were created as the row of their group
 * describes. */
static bool read_all_created(const struct postgres_step *step, struct postgres_link *link,
                             const PGresult *rows)
{
    for (size_t i = 0; i < step->count; i++) {
        const struct postgres_item *item = &link->sent.at[step->first + i];
        int row = (int)item->group - 1;
        if (item->is_answered)
            continue;
        if (row >= libpq.PQntuples(rows) ||
            postgres_row_number(rows, row, DID_ITEM) != -(int64_t)item->group)
            return false;
        read_created(link, item, rows, row);
    }
    return true;
}

static bool read_batch(const struct postgres_step *step, struct postgres_link *link,
                       struct postgres_result *result)
{
    bool are_pushes = step->statement == POSTGRES_PUSHES, is_good = true;
    for (int row = 0; row < libpq.PQntuples(result->rows) && is_good; row++) {
        int64_t n = postgres_row_number(result->rows, row, DID_ITEM);
        if (n < 0 && are_pushes) /* row of a group */
            continue;
        if (n < 1 || (size_t)n > step->count)
            return false;
        struct postgres_item *item = &link->sent.at[step->first + (size_t)n - 1];
        item->is_answered = true;
        is_good = result_hold(result, item->call);
        if (is_good)
            read_item(link, step, item, result->rows, row);
    }
    return is_good && (!are_pushes || read_all_created(step, link, result->rows));
}

/* Distributes jobs among takes that were sent as one, in their order. The first take, which has
 * jobs if any take has, also gets the result of the check. A take without jobs is repeated if more
 * jobs are due, since there was no room for all bodies. */
static bool read_takes(const struct postgres_step *step, struct postgres_link *link,
                       struct postgres_result *result)
{
    size_t count, done = 0;
    struct taken_row *rows = taken_rows(result->rows, &count);
    const struct sql_call *first = link->sent.at[step->first].call;
    bool is_good = rows && read_observations(link->sent.at[step->first].call, result->rows);
    for (size_t i = 0; i < step->count && is_good; i++) {
        const struct postgres_item *item = &link->sent.at[step->first + i];
        size_t left = count - done, wanted = item->index < left ? item->index : left;
        item->call->drained = first->drained;
        item->call->has_more = !wanted && count && !first->drained;
        is_good = result_hold(result, item->call) &&
                  fill_taken(item->call, link, result->rows, rows + done, wanted);
        done += wanted;
    }
    free(rows);
    return is_good;
}

static bool read_step(struct sql_call *call, struct postgres_link *link,
                      const struct postgres_step *step, const PGresult *result);

bool postgres_step_read(const struct postgres_step *step, struct postgres_link *link,
                        PGresult *rows)
{
    struct postgres_result *result = calloc(1, sizeof *result);
    bool is_good;
    if (!result) {
        libpq.PQclear(rows);
        return false;
    }
    result->rows = rows;
    result->holders = 1;
    is_good = !step->call && !step->count;
    if (step->count && step->statement == POSTGRES_TAKE)
        is_good = read_takes(step, link, result);
    else if (step->count)
        is_good = read_batch(step, link, result);
    else if (step->call)
        is_good = result_hold(result, step->call) && read_step(step->call, link, step, rows);
    result_release(result);
    return is_good;
}

/* Logs a failed part of the upkeep, the first time of several in a row. */
static void report_failed_part(struct slice message)
{
    char text[256];
    if (trouble_party_lasts_ms(TROUBLE_DATABASE_UPKEEP, SQL_CALL_UPKEEP))
        return;
    (void)snprintf(text, sizeof text, "%.*s", (int)message.len, message.at);
    log_event(LOG_WARN, "a part of the database's upkeep failed, it is repeated every second",
              LOG_TEXT("store", "postgres"), LOG_TEXT("message", text));
}

/* Notes the time that a statement reported in these columns. */
static void note_time(struct postgres_link *link, const PGresult *result, int now, int adjust)
{
    link->context->now_ms = postgres_row_number(result, 0, now);
    link->context->adjust_ms = postgres_row_number(result, 0, adjust);
    link->context->has_time = true;
}

static bool read_step(struct sql_call *call, struct postgres_link *link,
                      const struct postgres_step *step, const PGresult *result)
{
    switch (step->statement) {
    case POSTGRES_TAKE_BEST:
        return read_taken(call, link, result);
    case POSTGRES_TAKE_ONE:
        return read_taken_one(call, link, result);
    case POSTGRES_LOOK:
        return read_look(call, result);
    case POSTGRES_FIND:
        read_find(call, step->first, result);
        return true;
    case POSTGRES_GET:
        return read_get(call, result);
    case POSTGRES_AWAIT:
        return read_jobs(call, result, (size_t)libpq.PQntuples(result));
    case POSTGRES_HISTORY:
        return read_history(call, result);
    case POSTGRES_LIST:
        return read_list(call, result);
    case POSTGRES_FIGURES:
        return read_figures(call, result);
    case POSTGRES_PUT:
    case POSTGRES_PAUSE:
    case POSTGRES_DELETE:
    case POSTGRES_PURGE:
    case POSTGRES_REDRIVE:
        read_topic(call, link, step->statement, result);
        return true;
    case POSTGRES_GROUP_PUT:
        read_group_put(call, link, result);
        return true;
    case POSTGRES_GROUPS:
        return read_groups(call, result);
    case POSTGRES_FORECAST:
    case POSTGRES_SOON:
        read_forecast(call, result);
        return true;
    case POSTGRES_EXPIRE:
        read_expire(call, link, result);
        return true;
    case POSTGRES_UPKEEP:
        call->other_servers = postgres_row_number(result, 0, 0);
        call->silent_servers = postgres_row_number(result, 0, 1);
        call->next_expire_ms =
            row_is_null(result, 0, 2) ? INT64_MAX : postgres_row_number(result, 0, 2);
        call->mark = postgres_row_number(result, 0, 3);
        note_time(link, result, 4, 7);
        call->others_listen = row_flag(result, 0, 5);
        call->part_failed = !row_is_null(result, 0, 6);
        link->context->dropped[QUEUE_DROP_NUMBER] += (uint64_t)postgres_row_number(result, 0, 8);
        link->context->dropped[QUEUE_DROP_BYTES] += (uint64_t)postgres_row_number(result, 0, 9);
        call->more_kept = row_flag(result, 0, 10);
        if (!row_is_null(result, 0, 12)) {
            link->context->health.oldest_ms = postgres_row_number(result, 0, 11);
            link->context->health.dead_rows = postgres_row_number(result, 0, 12);
        }
        if (call->part_failed)
            report_failed_part(row_text(result, 0, 6));
        return true;
    case POSTGRES_SET_CLOCK:
        note_time(link, result, 0, 1);
        return true;
    case POSTGRES_ADOPT:
        read_adopt(link, result);
        return true;
    default:
        return true;
    }
}
