/* Dead jobs: purge and redrive of all, of one, or of those that match a filter; and their last errors, the most
 * frequent first. */
#include "api/bulk.h"
#include "api/routes.h"
#include "api/sweep.h"
#include "base/json_write.h"
#include "base/table.h"
#include "queue/search.h"

#include <stdlib.h>

static void call_all(struct http_call *call, struct queue_topic_call topic)
{
    topic.topic = call->topic;
    queue_topic(call->front->queue, &topic, http_reply_to(call, http_answer_affected));
}

/* ---- a purge that only counts ---- */

/* `state` 0: all that a purge without a state removes. */
static uint64_t jobs_in(const struct queue_counts *counts, enum job_state state)
{
    uint64_t delayed = counts->delayed + counts->retrying;
    switch (state) {
    case JOB_DELAYED:
        return delayed;
    case JOB_READY:
        return counts->ready;
    case JOB_DEAD:
        return counts->dead;
    case JOB_FINISHED:
        return counts->finished;
    default:
        return delayed + counts->ready + counts->dead;
    }
}

/* The count has the state. */
static void on_counted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK || !reply->topic_count) {
        http_answer_refusal(exchange, reply->status ? reply->status : QUEUE_NOT_FOUND, NULL, 0);
        return;
    }
    uint64_t jobs = jobs_in(&reply->topics[0].counts, (enum job_state)exchange->count);
    api_sweep_answer(exchange, jobs, jobs, true);
}

static void count_all(struct http_call *call, enum job_state state)
{
    struct http_exchange *exchange = call->exchange;
    exchange->is_dry_run = true;
    http_change_drop(exchange);
    exchange->count = (uint32_t)state;
    queue_topic(call->front->queue,
                &(struct queue_topic_call){.verb = QUEUE_TOPIC_GET, .topic = call->topic},
                http_reply_to(call, on_counted));
}

/* ---- calls ---- */

static void purge(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    http_options filter = fields->set & ~OPTION_BIT(OPTION_STATE);
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    if (fields->state == JOB_LEASED) {
        http_answer_problem(
            call->exchange, PROBLEM_BAD_OPTION, 0,
            "'state' is 'leased' but must be delayed, ready or dead: leased jobs are not purged");
    } else if (fields->dry_run && filter == OPTION_BIT(OPTION_DRY_RUN)) {
        count_all(call, fields->state);
    } else if (!(filter & ~OPTION_BIT(OPTION_DRY_RUN))) {
        call_all(call,
                 (struct queue_topic_call){.verb = QUEUE_TOPIC_PURGE, .state = fields->state});
    } else if (fields->state != JOB_DEAD) {
        http_answer_problem(
            call->exchange, PROBLEM_OPTION_CLASH, 0,
            "a filter purges only dead jobs: give state=dead with it, or give only 'state'");
    } else {
        api_sweep(call, (struct sweep_order){.verb = SWEEP_CANCEL, .scope = SWEEP_DEAD});
    }
}

static void redrive(struct http_call *call)
{
    static const http_options filter = OPTIONS_FILTER | OPTION_BIT(OPTION_DRY_RUN);
    const struct http_fields *fields = &call->query->fields;
    if (api_bulk_is_named(call->request->body)) {
        api_bulk_redrive(call);
        return;
    }
    if (!api_sweep_has_no_body(call))
        return;
    http_note_subject(call, fields->id.len ? HTTP_SUBJECT_DEAD_JOB : HTTP_SUBJECT_TOPIC,
                      fields->id);
    if (!(fields->set & filter)) {
        call_all(call, (struct queue_topic_call){.verb = QUEUE_TOPIC_REDRIVE,
                                                 .id = fields->id,
                                                 .max = (uint64_t)fields->max});
    } else if (fields->id.len) {
        http_answer_problem(call->exchange, PROBLEM_OPTION_CLASH, 0,
                            "'id' and a filter are both given: choose one");
    } else {
        api_sweep(call, (struct sweep_order){.verb = SWEEP_REDRIVE, .scope = SWEEP_DEAD});
    }
}

/* ---- errors ---- */

enum {
    ERRORS_SHOWN = 20,
    ERRORS_MAX = 2000 /* different ones; jobs of further errors are only counted */
};

struct dead_error {
    struct table_entry entry; /* by its text */
    uint64_t count;
    int64_t newest_ms; /* 0: not recorded in any history */
    char text[];
};
TABLE_DECLARE(dead_errors, struct dead_error, entry)

/* A call in progress. */
struct dead_census {
    struct http_front *front;
    uint32_t limit;
    bool is_without_memory;
    uint64_t others; /* jobs with another error */
    struct dead_errors errors;
};

static void census_free(struct dead_census *census)
{
    struct dead_error *next;
    for (struct dead_error *at = dead_errors_first(&census->errors); at; at = next) {
        next = dead_errors_next(&census->errors, at);
        free(at);
    }
    dead_errors_fini(&census->errors);
    free(census);
}

/* Adds an error. Returns NULL if out of memory. */
static struct dead_error *census_add(struct dead_census *census, struct slice text)
{
    struct dead_error *error = calloc(1, sizeof *error + text.len);
    if (!error)
        return NULL;
    if (text.len)
        memcpy(error->text, text.at, text.len);
    error->entry.key = slice_make(error->text, text.len);
    dead_errors_add(&census->errors, error);
    return error;
}

static void on_found(void *owner, uint64_t tag, const struct queue_job *found)
{
    struct dead_census *census = owner;
    (void)tag;
    struct dead_error *error = dead_errors_find(&census->errors, found->job.error);
    if (!error && census->errors.table.count >= ERRORS_MAX) {
        census->others++;
        return;
    }
    if (!error && !(error = census_add(census, found->job.error))) {
        census->is_without_memory = true;
        return;
    }
    int64_t died_ms = queue_last_attempt_end_ms(found->job.history);
    error->count++;
    if (died_ms > error->newest_ms)
        error->newest_ms = died_ms;
}

static bool is_wanted(void *owner, uint64_t tag)
{
    const struct dead_census *census = owner;
    return !census->is_without_memory && http_exchange_is_wanted(census->front, tag);
}

/* Compares by number of jobs, descending, then newest first, then by text. */
static int compare_errors(const void *left, const void *right)
{
    const struct dead_error *a = *(const struct dead_error *const *)left,
                            *b = *(const struct dead_error *const *)right;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    if (a->newest_ms != b->newest_ms)
        return a->newest_ms < b->newest_ms ? 1 : -1;
    return slice_compare(a->entry.key, b->entry.key);
}

static void write_error(struct buffer *out, const struct dead_error *error)
{
    buffer_append_text(out, "{\"error\":");
    json_write_string(out, error->entry.key);
    json_write_member_number(out, "count", error->count);
    json_write_member_time(out, "newest_at", error->newest_ms);
    buffer_append_byte(out, '}');
}

/* Writes the errors. Returns false if out of memory. */
static bool write_errors(struct buffer *out, const struct dead_census *census)
{
    uint64_t others = census->others;
    size_t count = 0, total = census->errors.table.count;
    const struct dead_error **sorted = calloc(total ? total : 1, sizeof *sorted);
    if (!sorted || census->is_without_memory) {
        free(sorted);
        return false;
    }
    for (struct dead_error *at = dead_errors_first(&census->errors); at;
         at = dead_errors_next(&census->errors, at))
        sorted[count++] = at;
    qsort(sorted, count, sizeof *sorted, compare_errors);
    buffer_append_text(out, "{\"errors\":[");
    for (size_t i = 0; i < count; i++) {
        if (i >= census->limit) {
            others += sorted[i]->count;
            continue;
        }
        if (i)
            buffer_append_byte(out, ',');
        write_error(out, sorted[i]);
    }
    buffer_append_byte(out, ']');
    json_write_member_number(out, "others", others);
    free(sorted);
    return true;
}

static void answer_errors(struct http_exchange *exchange, struct dead_census *census,
                          const struct search_result *result)
{
    if (result->status != QUEUE_OK) {
        http_answer_refusal(exchange, result->status, NULL, 0);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    if (!write_errors(body, census)) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    json_write_member_number(body, "seen", result->seen);
    buffer_append_text(body, result->cursor.len ? ",\"complete\":false}" : ",\"complete\":true}");
    http_answer_end_json(exchange, 200);
}

static void on_done(void *owner, uint64_t tag, const struct search_result *result)
{
    struct dead_census *census = owner;
    struct http_exchange *exchange = http_exchange_find(census->front, tag);
    if (exchange)
        answer_errors(exchange, census, result);
    census_free(census);
}

static void get_dead_errors(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    struct search_order order = {.topic = call->topic, .state = JOB_DEAD};
    struct dead_census *census = calloc(1, sizeof *census);
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    struct search_listener listener = {.found = on_found,
                                       .wanted = is_wanted,
                                       .done = on_done,
                                       .owner = census,
                                       .tag = http_exchange_tag(call->exchange)};
    if (census) {
        census->front = call->front;
        census->limit =
            http_fields_have(fields, OPTION_LIMIT) ? (uint32_t)fields->limit : ERRORS_SHOWN;
        if (search_start(call->front->queue, &order, &listener))
            return;
    }
    free(census);
    http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
}

#define SWEEP (OPTIONS_FILTER | OPTION_BIT(OPTION_MAX) | OPTION_BIT(OPTION_DRY_RUN))

const struct http_route api_dead_routes[] = {
    {.method = HTTP_METHOD_POST,
     .pattern = HTTP_TOPIC_PATH "/purge",
     .name = "purge",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_PATH,
     .audit = "topic purged",
     .handle = purge,
     .options = OPTION_BIT(OPTION_STATE) | SWEEP},
    {.method = HTTP_METHOD_POST,
     .pattern = HTTP_TOPIC_PATH "/redrive",
     .name = "redrive",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_PATH,
     .audit = "topic redriven",
     .handle = redrive,
     .options = OPTION_BIT(OPTION_ID) | SWEEP,
     .body = HTTP_BODY_SMALL},
    {.method = HTTP_METHOD_GET,
     .pattern = HTTP_TOPIC_PATH "/dead-errors",
     .name = "dead_errors",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_PATH,
     .handle = get_dead_errors,
     .options = OPTION_BIT(OPTION_LIMIT),
     .answer = HTTP_ANSWER_LONG},
    {0},
};
