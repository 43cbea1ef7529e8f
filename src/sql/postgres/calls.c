#include "sql/postgres/calls.h"

#include "base/hash.h"
#include "queue/cursor.h"
#include "sql/postgres/row.h"

#include <assert.h>
#include <stdio.h>

enum { STEP_JOBS = 1000, EXPIRE_JOBS = 500 };

/* The columns of tarry._did. */
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
    DID_ITEM
};

/* Those of tarry._shown. */
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
    SHOWN_LANE,
    SHOWN_CONSUMER,
    SHOWN_CANCEL_REQUESTED
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
    return QUEUE_UNAVAILABLE; /* a newer schema's word */
}

/* ---- sending ---- */

void postgres_batches_init(struct postgres_link *link)
{
    sql_batch_init(&link->pushes, "ttiliillilllxxxibx");
    sql_batch_init(&link->changes, "ittiliblb");
    sql_batch_init(&link->answers, "iiilllllbxxli");
}

void postgres_batches_fini(struct postgres_link *link)
{
    sql_batch_fini(&link->pushes);
    sql_batch_fini(&link->changes);
    sql_batch_fini(&link->answers);
    sql_items_fini(&link->sent);
}

static bool send_step(struct postgres_link *link, struct postgres_step step,
                      const struct sql_params *params)
{
    return postgres_steps_reserve(&link->steps, link->steps.count + 1) &&
           sql_statement_send(link->connection, step.statement, params) &&
           postgres_steps_add(&link->steps, step);
}

static bool send(struct sql_call *call, struct postgres_link *link, enum sql_statement statement,
                 const struct sql_params *params)
{
    return send_step(link, (struct postgres_step){.call = call, .statement = statement}, params);
}

static bool send_batch(struct postgres_link *link, struct sql_batch *batch,
                       enum sql_statement statement, int64_t last)
{
    struct postgres_step step = {
        .statement = statement, .first = link->sent.count, .count = batch->items.count};
    struct sql_params params = {0};
    bool sent = true;
    if (!batch->items.count)
        return true;
    for (size_t i = 0; i < batch->items.count && sent; i++)
        sent = sql_items_add(&link->sent, batch->items.at[i]);
    sent = sent && sql_batch_params(batch, &params);
    if (last)
        sql_params_number(&params, last);
    sent = sent && send_step(link, step, &params);
    sql_batch_clear(batch);
    return sent;
}

/* Answers come first: what they end may be pushed anew. */
static bool send_batches(struct postgres_link *link)
{
    sql_batch_keys_clear(&link->keys);
    return send_batch(link, &link->answers, SQL_ANSWERS, link->context->server) &&
           send_batch(link, &link->changes, SQL_CHANGES, 0) &&
           send_batch(link, &link->pushes, SQL_PUSHES, link->context->topics_max);
}

static bool begin_item(struct postgres_link *link, uint64_t hash)
{
    return sql_batch_keys_add(&link->keys, hash) ||
           (send_batches(link) && sql_batch_keys_add(&link->keys, hash));
}

static bool add_push(struct sql_call *call, struct postgres_link *link, size_t i)
{
    const struct queue_push *push = &call->command->pushes[i];
    struct sql_batch *batch = &link->pushes;
    struct sql_array *array = batch->arrays;
    if (!begin_item(link, hash_pair(push->topic, push->id, 0).low) ||
        !sql_batch_add(batch, call, i))
        return false;
    sql_array_bytes(array++, push->topic);
    sql_array_bytes(array++, push->id);
    sql_array_number(array++, push->when.due);
    sql_array_number(array++, push->when.ms);
    sql_array_number(array++, push->priority);
    sql_array_number(array++, push->on_conflict);
    sql_array_number(array++, push->policy.lease_ms);
    sql_array_number(array++, push->policy.ttl_ms);
    sql_array_number(array++, push->policy.backoff.kind);
    sql_array_number(array++, push->policy.backoff.first_ms);
    sql_array_number(array++, push->policy.backoff.max_ms);
    sql_array_number(array++, push->policy.max_attempts);
    sql_array_bytes(array++, push->content_type);
    sql_array_bytes(array++, push->meta);
    sql_array_bytes(array++, push->body);
    sql_array_number(array++, push->past.attempt);
    sql_array_number(array++, push->past.dead);
    sql_array_bytes(array++, push->past.error);
    return true;
}

static bool add_change(struct sql_call *call, struct postgres_link *link, size_t i)
{
    const struct queue_change *change = &call->command->changes[i];
    struct sql_batch *batch = &link->changes;
    struct sql_array *array = batch->arrays;
    if (!begin_item(link, hash_pair(change->topic, change->id, 0).low) ||
        !sql_batch_add(batch, call, i))
        return false;
    sql_array_number(array++, change->verb);
    sql_array_bytes(array++, change->topic);
    sql_array_bytes(array++, change->id);
    sql_array_number(array++, change->when.due);
    sql_array_number(array++, change->when.ms);
    sql_array_number(array++, change->priority);
    sql_array_number(array++, change->only_dead);
    sql_array_number(array++, (int64_t)change->delivery);
    sql_array_number(array++, change->request);
    return true;
}

/* A character cut in two would be none. */
static struct slice cut(struct slice text, size_t bytes_max)
{
    if (text.len <= bytes_max)
        return text;
    size_t len = bytes_max;
    while (len > bytes_max - 3 && (text.at[len] & 0xc0) == 0x80)
        len--;
    return slice_make(text.at, len);
}

static bool add_answer(struct sql_call *call, struct postgres_link *link, size_t i, int verb,
                       const struct sql_lease *lease, const struct queue_answer *answer)
{
    struct sql_batch *batch = &link->answers;
    struct sql_array *array = batch->arrays;
    if (!begin_item(link, hash_64(&lease->sequence, sizeof lease->sequence)) ||
        !sql_batch_add(batch, call, i))
        return false;
    sql_array_number(array++, verb);
    sql_array_number(array++, lease->topic);
    sql_array_number(array++, lease->lane);
    sql_array_number(array++, lease->due_ms);
    sql_array_number(array++, (int64_t)lease->sequence);
    sql_array_number(array++, (int64_t)lease->delivery);
    sql_array_number(array++, lease->taken_ms);
    sql_array_number(array++, answer->delay_ms);
    sql_array_number(array++, answer->final);
    sql_array_bytes(array++, cut(answer->error, JOB_ERROR_BYTES_MAX));
    sql_array_bytes(array++, cut(answer->error, JOB_HISTORY_ERROR_BYTES_MAX));
    sql_array_number(array++, answer->lease_ms);
    sql_array_number(array++, answer->has_priority ? answer->priority : QUEUE_PRIORITY_UNSET);
    return true;
}

/* The results of what cannot be carried out are there before anything is sent. */
static bool add_items(struct sql_call *call, struct postgres_link *link)
{
    const struct command *command = call->command;
    bool added = true;
    call->items = calloc(command->count ? command->count : 1, sizeof *call->items);
    if (!call->items)
        return false;
    for (size_t i = 0; i < command->count && added; i++) {
        struct sql_lease lease;
        if (!command_item_is_good(command, i, &call->items[i]))
            continue;
        call->items[i].status = QUEUE_UNAVAILABLE;
        if (command->kind == COMMAND_PUSH)
            added = add_push(call, link, i);
        else if (command->kind == COMMAND_CHANGE)
            added = add_change(call, link, i);
        else if (sql_lease_parse(command->answers[i].lease, &link->context->key, &lease))
            added = add_answer(call, link, i, (int)command->answers[i].verb, &lease,
                               &command->answers[i]);
        else
            call->items[i].status = QUEUE_LEASE_ENDED;
    }
    return added;
}

static void add_topic(struct sql_call *call, struct postgres_link *link, struct slice name)
{
    const struct sql_topic *topic = sql_topics_find(&link->context->topics, name);
    char before = call->names.len ? ',' : '{';
    buffer_append_format(&call->names, "%c\"%.*s\"", before, (int)name.len, name.at);
    buffer_append_format(&call->bounds, "%c%lld", before,
                         topic && !call->from_the_start ? (long long)topic->bound_ms : 0LL);
}

static bool close_arrays(struct sql_call *call)
{
    buffer_append_text(&call->names, call->names.len ? "}" : "{}");
    buffer_append_text(&call->bounds, call->bounds.len ? "}" : "{}");
    buffer_append(&call->names, "", 1);
    buffer_append(&call->bounds, "", 1);
    return !call->names.failed && !call->bounds.failed;
}

static bool send_look(struct sql_call *call, struct postgres_link *link)
{
    struct sql_params params = {0};
    sql_params_text(&params, call->names.at);
    sql_params_text(&params, call->bounds.at);
    return send(call, link, SQL_LOOK, &params);
}

static bool send_take_one(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_take *take = &call->command->take;
    struct sql_params params = {0};
    sql_params_bytes(&params, take->topics[0]);
    sql_params_bytes(&params, take->id);
    sql_params_number(&params, take->lease_ms);
    sql_params_number(&params, link->context->server);
    sql_params_bytes(&params, take->consumer);
    return send(call, link, SQL_TAKE_ONE, &params);
}

static bool send_take(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_take *take = &call->command->take;
    struct sql_params params = {0};
    if (take->id.len)
        return send_take_one(call, link);
    for (size_t i = 0; i < take->topic_count; i++)
        add_topic(call, link, take->topics[i]);
    if (!close_arrays(call))
        return false;
    sql_params_text(&params, call->names.at);
    sql_params_text(&params, call->bounds.at);
    sql_params_number(&params, take->max);
    sql_params_number(&params, take->lease_ms);
    sql_params_number(&params, link->context->server);
    sql_params_bytes(&params, take->consumer);
    return send(call, link, take->by_priority ? SQL_TAKE_BEST : SQL_TAKE, &params) &&
           send_look(call, link);
}

static bool send_finds(struct sql_call *call, struct postgres_link *link)
{
    const struct command *command = call->command;
    bool sent = true;
    call->items = calloc(command->count ? command->count : 1, sizeof *call->items);
    for (size_t i = 0; call->items && i < command->count && sent; i++) {
        struct postgres_step step = {.call = call, .statement = SQL_FIND, .first = i};
        struct sql_params params = {0};
        if (!command_item_is_good(command, i, &call->items[i]))
            continue;
        call->items[i].status = QUEUE_UNAVAILABLE;
        sql_params_bytes(&params, command->finds[i].topic);
        sql_params_bytes(&params, command->finds[i].id);
        sent = send_step(link, step, &params);
    }
    return call->items && sent;
}

static bool send_get(struct sql_call *call, struct postgres_link *link)
{
    struct sql_params params = {0};
    sql_params_bytes(&params, call->command->get.topic);
    sql_params_bytes(&params, call->command->get.id);
    if (call->command->get.history) {
        sql_params_number(&params, SQL_HISTORY_ENTRIES_MAX);
        return send(call, link, SQL_HISTORY, &params);
    }
    return send(call, link, SQL_GET, &params);
}

/* One more than asked for: so it is known whether there are more. */
static bool send_list(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_list *list = &call->command->list;
    struct queue_cursor cursor = {0};
    struct sql_params params = {0};
    if (list->cursor.len && !queue_cursor_parse(list->cursor, &cursor)) {
        call->status = QUEUE_BAD_CURSOR;
        return true;
    }
    sql_params_bytes(&params, list->topic);
    sql_params_number(&params, list->state);
    sql_params_number(&params, (int64_t)list->limit + 1);
    sql_params_number(&params, cursor.due_ms);
    sql_params_number(&params, (int64_t)cursor.sequence);
    sql_params_flag(&params, list->with_body);
    return send(call, link, SQL_LIST, &params);
}

static bool send_figures(struct sql_call *call, struct postgres_link *link, struct slice name,
                         struct slice after, uint32_t limit)
{
    struct sql_params params = {0};
    if (name.len)
        sql_params_bytes(&params, name);
    else
        sql_params_null(&params);
    if (after.len)
        sql_params_bytes(&params, after);
    else
        sql_params_null(&params);
    sql_params_number(&params, limit);
    return send(call, link, SQL_FIGURES, &params);
}

static bool send_put(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_topic_call *topic = &call->command->topic;
    const struct topic_settings *settings = &topic->settings;
    struct sql_params params = {0};
    sql_params_bytes(&params, topic->topic);
    sql_params_number(&params, settings->policy.lease_ms);
    sql_params_number(&params, settings->policy.ttl_ms);
    sql_params_number(&params, settings->policy.backoff.kind);
    sql_params_number(&params, settings->policy.backoff.first_ms);
    sql_params_number(&params, settings->policy.backoff.max_ms);
    sql_params_number(&params, settings->policy.max_attempts);
    sql_params_number(&params, settings->on_conflict);
    if (settings->has_priority)
        sql_params_number(&params, settings->priority);
    else
        sql_params_null(&params);
    sql_params_flag(&params, settings->dead_letter_expired);
    sql_params_number(&params, settings->dedup_window_ms);
    sql_params_number(&params, (int64_t)settings->max_jobs);
    sql_params_number(&params, settings->push_rate.count);
    sql_params_number(&params, settings->push_rate.unit);
    sql_params_bytes(&params, settings->extension);
    sql_params_number(&params, link->context->topics_max);
    sql_params_number(&params, settings->history_ms);
    return send(call, link, SQL_PUT, &params);
}

static bool send_pause(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_topic_call *topic = &call->command->topic;
    struct sql_params params = {0};
    sql_params_bytes(&params, topic->topic);
    sql_params_flag(&params, topic->verb == QUEUE_TOPIC_PAUSE);
    sql_params_number(&params, topic->pause_ms);
    return send(call, link, SQL_PAUSE, &params);
}

static bool send_topic_step(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_topic_call *topic = &call->command->topic;
    struct sql_params params = {0};
    int64_t jobs = STEP_JOBS;
    sql_params_bytes(&params, topic->topic);
    if (topic->verb == QUEUE_TOPIC_DELETE)
        return send(call, link, SQL_DELETE, &params);
    if (topic->verb == QUEUE_TOPIC_PURGE) {
        sql_params_number(&params, topic->state);
        sql_params_number(&params, jobs);
        return send(call, link, SQL_PURGE, &params);
    }
    if (topic->id.len)
        sql_params_bytes(&params, topic->id);
    else
        sql_params_null(&params);
    if (topic->max && (int64_t)(topic->max - call->affected) < jobs)
        jobs = (int64_t)(topic->max - call->affected);
    sql_params_number(&params, jobs);
    return send(call, link, SQL_REDRIVE, &params);
}

static bool send_topic(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_topic_call *topic = &call->command->topic;
    bool sent = true;
    switch (topic->verb) {
    case QUEUE_TOPIC_GET:
        break;
    case QUEUE_TOPIC_PUT:
        sent = send_put(call, link);
        break;
    case QUEUE_TOPIC_PAUSE:
    case QUEUE_TOPIC_RESUME:
        sent = send_pause(call, link);
        break;
    case QUEUE_TOPIC_DELETE:
    case QUEUE_TOPIC_PURGE:
    case QUEUE_TOPIC_REDRIVE:
        return send_topic_step(call, link);
    case QUEUE_TOPIC_MARK: /* of parts of a queue only, and this is a whole one */
        return true;
    }
    return sent && send_figures(call, link, topic->topic, (struct slice){0}, 0);
}

static bool send_forecast(struct sql_call *call, struct postgres_link *link)
{
    struct sql_params params = {0};
    call->forecast = calloc(1, sizeof *call->forecast);
    if (!call->forecast)
        return false;
    call->forecast->from_ms = call->command->forecast.from_ms;
    sql_params_bytes(&params, call->command->forecast.topic);
    sql_params_number(&params, call->command->forecast.from_ms);
    return send(call, link, SQL_FORECAST, &params);
}

static bool send_command(struct sql_call *call, struct postgres_link *link)
{
    const struct command *command = call->command;
    switch (command->kind) {
    case COMMAND_PUSH:
    case COMMAND_ANSWER:
    case COMMAND_CHANGE:
        return add_items(call, link);
    case COMMAND_FIND:
        return send_finds(call, link);
    case COMMAND_TAKE:
        return send_take(call, link);
    case COMMAND_GET:
        return send_get(call, link);
    case COMMAND_LIST:
        return send_list(call, link);
    case COMMAND_TOPIC:
        return send_topic(call, link);
    case COMMAND_TOPICS:
        return send_figures(call, link, (struct slice){0}, command->topics.after,
                            command->topics.limit);
    case COMMAND_FORECAST:
        return send_forecast(call, link);
    }
    return false;
}

static bool add_ends(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_answer answer = {.delay_ms = -1, .error = slice_of("lease ended")};
    enum { ENDS = 5 }; /* the verb of tarry._answer */
    for (size_t i = 0; i < call->ends.count; i++)
        if (!add_answer(call, link, i, ENDS, &call->ends.at[i], &answer))
            return false;
    return true;
}

/* Every topic had its look from 0: the next one is the first of another round. */
static void begin_round(struct postgres_link *link)
{
    for (struct table_entry *entry = table_first(&link->context->topics.table); entry;
         entry = table_next(&link->context->topics.table, entry))
        sql_topics_of(entry)->in_round = false;
}

/* Where there are too many names for one look, the others come with the next one. */
static bool send_looks(struct sql_call *call, struct postgres_link *link)
{
    bool is_full = false;
    struct list *looks = &link->context->plan.looks;
    for (struct list *at = looks->next; at != looks && !is_full; at = at->next) {
        struct sql_topic *topic = list_entry(at, struct sql_topic, looks);
        bool is_wanted = call->from_the_start ? !topic->in_round : topic->look;
        if (!topic->watched || !(is_wanted || topic->asked))
            continue;
        is_full = call->names.len >= SQL_CALL_ARRAY_BYTES_MAX / 2;
        if (is_full)
            break;
        add_topic(call, link, topic->entry.key);
        topic->look = false;
        topic->asked = true;
        topic->in_round = topic->in_round || call->from_the_start;
    }
    if (call->from_the_start && !is_full)
        begin_round(link);
    return close_arrays(call) && send_look(call, link);
}

static bool send_own(struct sql_call *call, struct postgres_link *link,
                     enum sql_statement statement, int64_t number)
{
    struct sql_params params = {0};
    sql_params_number(&params, number);
    return send(call, link, statement, &params);
}

static bool send_flagged(struct sql_call *call, struct postgres_link *link,
                         enum sql_statement statement, int64_t number, bool flag)
{
    struct sql_params params = {0};
    sql_params_number(&params, number);
    sql_params_flag(&params, flag);
    return send(call, link, statement, &params);
}

static bool send_call(struct sql_call *call, struct postgres_link *link)
{
    switch (call->kind) {
    case SQL_CALL_COMMAND:
        return send_command(call, link);
    case SQL_CALL_END:
        return add_ends(call, link);
    case SQL_CALL_LOOK:
        return send_looks(call, link);
    case SQL_CALL_EXPIRE:
        return send_flagged(call, link, SQL_EXPIRE, EXPIRE_JOBS, link->context->effects.tells);
    case SQL_CALL_UPKEEP:
        return send_flagged(call, link, SQL_UPKEEP, link->context->server, call->listens);
    case SQL_CALL_ADOPT:
        return send_own(call, link, SQL_ADOPT, link->context->server);
    case SQL_CALL_GOODBYE:
        return send_own(call, link, SQL_GOODBYE, link->context->server);
    }
    return false;
}

static bool has_items(const struct sql_call *call)
{
    return call->command &&
           (call->command->kind == COMMAND_PUSH || call->command->kind == COMMAND_ANSWER ||
            call->command->kind == COMMAND_CHANGE);
}

/* Do its items go in batches? */
static bool is_gathered(const struct sql_call *call)
{
    return call->kind == SQL_CALL_END || (has_items(call));
}

/* Does it only look, or take? Then it goes after the batches of the calls around it. */
static bool is_look(const struct sql_call *call)
{
    if (call->kind != SQL_CALL_COMMAND)
        return call->kind == SQL_CALL_LOOK;
    return call->command->kind == COMMAND_TAKE || call->command->kind == COMMAND_GET ||
           call->command->kind == COMMAND_LIST || call->command->kind == COMMAND_FIND;
}

/* What came before `end`, from `*begin` on. */
static bool send_segment(struct list *begin, const struct list *end, struct postgres_link *link)
{
    bool sent = true;
    for (struct list *at = begin; at != end && sent; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        sent = !is_gathered(call) || send_call(call, link);
    }
    sent = sent && send_batches(link);
    for (struct list *at = begin; at != end && sent; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        sent = !is_look(call) || send_call(call, link);
    }
    return sent;
}

bool postgres_calls_send(struct list *calls, struct postgres_link *link)
{
    struct list *begin = calls->next;
    link->sent.count = 0;
    sql_batch_clear(&link->pushes); /* of a turn that could not be sent */
    sql_batch_clear(&link->changes);
    sql_batch_clear(&link->answers);
    sql_batch_keys_clear(&link->keys);
    for (struct list *at = begin; at != calls; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        if (is_gathered(call) || is_look(call))
            continue;
        if (!send_segment(begin, at, link) || !send_call(call, link))
            return false;
        begin = at->next;
    }
    return send_segment(begin, calls, link);
}

/* ---- reading ---- */

static void note_did(struct postgres_link *link, struct slice topic, const PGresult *result,
                     int row)
{
    int64_t counts[SQL_COUNTS];
    enum job_state state = (enum job_state)sql_row_number(result, row, DID_STATE);
    enum queue_status status;
    const char *detail;
    sql_row_counts(result, row, DID_COUNTS, counts);
    sql_effects_count(&link->context->effects, sql_row_number(result, row, DID_TOPIC), counts);
    sql_effects_expire(&link->context->effects, sql_row_number(result, row, DID_EXPIRE));
    status = status_of(sql_row_text(result, row, DID_STATUS), &detail);
    if ((status == QUEUE_OK || status == QUEUE_CREATED || status == QUEUE_REPLACED) &&
        (state == JOB_DELAYED || state == JOB_READY))
        sql_effects_due(&link->context->effects, topic, sql_row_number(result, row, DID_DUE));
    if (sql_row_flag(result, row, DID_DIED)) {
        struct sql_news *news = sql_effects_news(&link->context->effects, topic);
        if (news)
            news->died = true;
    }
}

static void fill_result(struct queue_result *out, const PGresult *result, int row)
{
    out->status = status_of(sql_row_text(result, row, DID_STATUS), &out->detail);
    out->state = (enum job_state)sql_row_number(result, row, DID_STATE);
    out->due_ms = sql_row_number(result, row, DID_DUE);
    if (out->state == JOB_LEASED)
        out->due_ms = 0;
}

/* What happened to the job of an item. */
static void tell_item(const struct sql_call *call, struct postgres_link *link, size_t i,
                      const PGresult *result, int row)
{
    sql_effects_tell_item(&link->context->effects, call->command, i, &call->items[i],
                          (uint32_t)sql_row_number(result, row, DID_ATTEMPT),
                          sql_row_number(result, row, DID_WAS_DUE));
}

static void read_push(struct sql_call *call, struct postgres_link *link, size_t i,
                      const PGresult *result, int row)
{
    const struct queue_push *push = &call->command->pushes[i];
    fill_result(&call->items[i], result, row);
    call->items[i].topic = push->topic;
    call->items[i].id = push->id;
    note_did(link, push->topic, result, row);
    tell_item(call, link, i, result, row);
}

static void read_change(struct sql_call *call, struct postgres_link *link, size_t i,
                        const PGresult *result, int row)
{
    const struct queue_change *change = &call->command->changes[i];
    fill_result(&call->items[i], result, row);
    call->items[i].topic = change->topic;
    call->items[i].id = change->id;
    note_did(link, change->topic, result, row);
    tell_item(call, link, i, result, row);
}

static void read_answer(struct sql_call *call, struct postgres_link *link, size_t i,
                        const PGresult *result, int row)
{
    struct queue_result *out = &call->items[i];
    struct slice topic = sql_row_text(result, row, DID_NAME);
    struct sql_lease lease;
    fill_result(out, result, row);
    note_did(link, topic, result, row);
    if ((out->status != QUEUE_OK && out->status != QUEUE_CANCELLED) ||
        !sql_lease_parse(call->command->answers[i].lease, &link->context->key, &lease))
        return;
    out->topic = topic;
    out->id = sql_row_text(result, row, DID_ID);
    out->lease_until_ms = sql_row_number(result, row, DID_UNTIL);
    out->cancel_requested = call->command->answers[i].verb == QUEUE_EXTEND &&
                            sql_row_flag(result, row, DID_CANCEL_REQUESTED);
    sql_effects_hold(&link->context->effects, &lease, out->lease_until_ms);
    tell_item(call, link, i, result, row);
}

static void read_end(struct sql_call *call, struct postgres_link *link, size_t i,
                     const PGresult *result, int row)
{
    int64_t until_ms = sql_row_number(result, row, DID_UNTIL);
    if (until_ms) /* it was extended meanwhile */
        sql_effects_hold(&link->context->effects, &call->ends.at[i], until_ms);
    struct queue_result out = {.topic = sql_row_text(result, row, DID_NAME),
                               .id = sql_row_text(result, row, DID_ID)};
    fill_result(&out, result, row);
    note_did(link, out.topic, result, row);
    sql_effects_tell_end(&link->context->effects, &out,
                         (uint32_t)sql_row_number(result, row, DID_ATTEMPT));
}

static void read_find(struct sql_call *call, size_t i, const PGresult *result)
{
    fill_result(&call->items[i], result, 0);
    call->items[i].topic = call->command->finds[i].topic;
    call->items[i].id = call->command->finds[i].id;
}

static void fill_job(struct job *job, const PGresult *result, int row)
{
    job->topic = sql_row_text(result, row, SHOWN_NAME);
    job->id = sql_row_text(result, row, SHOWN_ID);
    job->state = (enum job_state)sql_row_number(result, row, SHOWN_STATE);
    job->priority = (uint16_t)sql_row_number(result, row, SHOWN_PRIORITY);
    job->attempt = (uint32_t)sql_row_number(result, row, SHOWN_ATTEMPT);
    job->due_ms = sql_row_number(result, row, SHOWN_DUE);
    job->first_due_ms = sql_row_number(result, row, SHOWN_FIRST_DUE);
    job->lease_until_ms = sql_row_number(result, row, SHOWN_UNTIL);
    job->taken_ms = sql_row_number(result, row, SHOWN_TAKEN);
    job->sequence = (uint64_t)sql_row_number(result, row, SHOWN_SEQUENCE);
    job->delivery = (uint64_t)sql_row_number(result, row, SHOWN_DELIVERY);
    job->due_is_wall = true; /* there is no other clock */
    job->policy.lease_ms = sql_row_number(result, row, SHOWN_LEASE);
    job->policy.ttl_ms = sql_row_number(result, row, SHOWN_TTL);
    job->policy.backoff.kind = (enum backoff_kind)sql_row_number(result, row, SHOWN_BACKOFF_KIND);
    job->policy.backoff.first_ms = sql_row_number(result, row, SHOWN_BACKOFF_FIRST);
    job->policy.backoff.max_ms = sql_row_number(result, row, SHOWN_BACKOFF_MAX);
    job->policy.max_attempts = (uint32_t)sql_row_number(result, row, SHOWN_ATTEMPTS_MAX);
    job->content_type = sql_row_text(result, row, SHOWN_TYPE);
    job->meta = sql_row_text(result, row, SHOWN_META);
    job->error = sql_row_text(result, row, SHOWN_ERROR);
    job->history = sql_row_text(result, row, SHOWN_HISTORY);
    job->consumer = sql_row_text(result, row, SHOWN_CONSUMER);
    job->cancel_requested = sql_row_flag(result, row, SHOWN_CANCEL_REQUESTED);
    job->body = sql_row_text(result, row, SHOWN_BODY);
}

static bool read_jobs(struct sql_call *call, const PGresult *result, size_t count)
{
    call->jobs = calloc(count ? count : 1, sizeof *call->jobs);
    if (!call->jobs)
        return false;
    for (size_t i = 0; i < count; i++)
        fill_job(&call->jobs[i].job, result, (int)i);
    call->job_count = count;
    return true;
}

/* Each was waiting, is leased now, and is counted so. */
static bool read_taken(struct sql_call *call, struct postgres_link *link, const PGresult *result)
{
    size_t count = (size_t)libpq.PQntuples(result);
    if (!read_jobs(call, result, count))
        return false;
    call->tokens = malloc(count * SQL_LEASE_TEXT_BYTES + 1);
    if (!call->tokens)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct queue_job *job = &call->jobs[i];
        int64_t counts[SQL_COUNTS] = {[SQL_COUNT_LEASED] = 1, [SQL_COUNT_DELIVERED] = 1};
        struct sql_lease lease = {
            .topic = (uint32_t)sql_row_number(result, (int)i, SHOWN_TOPIC),
            .lane = (uint32_t)sql_row_number(result, (int)i, SHOWN_LANE),
            .due_ms = job->job.due_ms,
            .taken_ms = job->job.taken_ms,
            .sequence = job->job.sequence,
            .delivery = job->job.delivery,
        };
        counts[job->job.attempt == 1 ? SQL_COUNT_FRESH : SQL_COUNT_RETRY] = -1;
        sql_effects_count(&link->context->effects, lease.topic, counts);
        sql_effects_hold(&link->context->effects, &lease, job->job.lease_until_ms);
        sql_lease_emit(call->tokens + i * SQL_LEASE_TEXT_BYTES, &link->context->key, &lease);
        job->lease = slice_make(call->tokens + i * SQL_LEASE_TEXT_BYTES, SQL_LEASE_TEXT_BYTES);
        sql_effects_tell_taken(&link->context->effects, &job->job, call->command->take.way);
    }
    return true;
}

/* Of a job that somebody has there is a row of NULLs. */
static bool read_taken_one(struct sql_call *call, struct postgres_link *link,
                           const PGresult *result)
{
    bool is_leased = libpq.PQntuples(result) > 0 && sql_row_is_null(result, 0, SHOWN_NAME);
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

/* The columns of tarry._history. */
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
            .due_ms = sql_row_number(result, (int)i, AT),
            .content_type = sql_row_text(result, (int)i, EVENT),
            .attempt = (uint32_t)sql_row_number(result, (int)i, ATTEMPT),
            .taken_ms = sql_row_number(result, (int)i, STARTED),
            .consumer = sql_row_text(result, (int)i, CONSUMER),
            .error = sql_row_text(result, (int)i, ERROR),
        };
    call->job_count = count;
    call->status = count ? QUEUE_OK : QUEUE_NOT_FOUND;
    return true;
}

static bool read_list(struct sql_call *call, const PGresult *result)
{
    size_t count = (size_t)libpq.PQntuples(result), limit = call->command->list.limit;
    if (count && sql_row_is_null(result, 0, SHOWN_NAME)) {
        call->status = QUEUE_NOT_FOUND;
        return true;
    }
    if (!read_jobs(call, result, count < limit ? count : limit))
        return false;
    if (count > limit) {
        const struct job *last = &call->jobs[limit - 1].job;
        struct queue_cursor cursor = {.due_ms = last->due_ms, .sequence = last->sequence};
        call->cursor_bytes = queue_cursor_write(call->cursor, &cursor);
    }
    return true;
}

enum {
    FIGURE_NAME,
    FIGURE_PAUSED,
    FIGURE_PAUSED_UNTIL,
    FIGURE_LEASE,
    FIGURE_TTL,
    FIGURE_BACKOFF_KIND,
    FIGURE_BACKOFF_FIRST,
    FIGURE_BACKOFF_MAX,
    FIGURE_ATTEMPTS_MAX,
    FIGURE_CONFLICT,
    FIGURE_PRIORITY,
    FIGURE_DEAD_LETTER,
    FIGURE_DEDUP,
    FIGURE_JOBS_MAX,
    FIGURE_RATE_COUNT,
    FIGURE_RATE_UNIT,
    FIGURE_EXTENSION,
    FIGURE_COUNTS,
    FIGURE_READY_FRESH,
    FIGURE_READY_RETRY,
    FIGURE_OLDEST,
    FIGURE_HISTORY
};

static void fill_settings(struct topic_settings *settings, const PGresult *result, int row)
{
    settings->policy.lease_ms = sql_row_number(result, row, FIGURE_LEASE);
    settings->policy.ttl_ms = sql_row_number(result, row, FIGURE_TTL);
    settings->policy.backoff.kind =
        (enum backoff_kind)sql_row_number(result, row, FIGURE_BACKOFF_KIND);
    settings->policy.backoff.first_ms = sql_row_number(result, row, FIGURE_BACKOFF_FIRST);
    settings->policy.backoff.max_ms = sql_row_number(result, row, FIGURE_BACKOFF_MAX);
    settings->policy.max_attempts = (uint32_t)sql_row_number(result, row, FIGURE_ATTEMPTS_MAX);
    settings->on_conflict = (enum record_conflict)sql_row_number(result, row, FIGURE_CONFLICT);
    settings->has_priority = !sql_row_is_null(result, row, FIGURE_PRIORITY);
    settings->priority = (int32_t)sql_row_number(result, row, FIGURE_PRIORITY);
    settings->dead_letter_expired = sql_row_flag(result, row, FIGURE_DEAD_LETTER);
    settings->dedup_window_ms = sql_row_number(result, row, FIGURE_DEDUP);
    settings->history_ms = sql_row_number(result, row, FIGURE_HISTORY);
    settings->max_jobs = (uint64_t)sql_row_number(result, row, FIGURE_JOBS_MAX);
    settings->push_rate.count = (uint32_t)sql_row_number(result, row, FIGURE_RATE_COUNT);
    settings->push_rate.unit = (enum frequency_unit)sql_row_number(result, row, FIGURE_RATE_UNIT);
    settings->extension = sql_row_text(result, row, FIGURE_EXTENSION);
}

static uint64_t difference(int64_t all, int64_t part)
{
    return all > part ? (uint64_t)(all - part) : 0;
}

static void fill_figures(struct queue_topic *topic, const PGresult *result, int row)
{
    int64_t counts[SQL_COUNTS];
    int64_t fresh = sql_row_number(result, row, FIGURE_READY_FRESH);
    int64_t retry = sql_row_number(result, row, FIGURE_READY_RETRY);
    sql_row_counts(result, row, FIGURE_COUNTS, counts);
    topic->counts = (struct queue_counts){
        .delayed = difference(counts[SQL_COUNT_FRESH], fresh),
        .retrying = difference(counts[SQL_COUNT_RETRY], retry),
        .ready = (uint64_t)(fresh + retry),
        .leased = difference(counts[SQL_COUNT_LEASED], 0),
        .dead = difference(counts[SQL_COUNT_DEAD], 0),
        .dead_bytes = difference(counts[SQL_COUNT_DEAD_BYTES], 0),
    };
    topic->totals = (struct topic_totals){
        .pushed = (uint64_t)counts[SQL_COUNT_PUSHED],
        .acked = (uint64_t)counts[SQL_COUNT_ACKED],
        .cancelled = (uint64_t)counts[SQL_COUNT_CANCELLED],
        .expired = (uint64_t)counts[SQL_COUNT_EXPIRED],
        .replaced = (uint64_t)counts[SQL_COUNT_REPLACED],
        .delivered = (uint64_t)counts[SQL_COUNT_DELIVERED],
        .nacked = (uint64_t)counts[SQL_COUNT_NACKED],
        .lease_ended = (uint64_t)counts[SQL_COUNT_LEASE_ENDED],
        .died = (uint64_t)counts[SQL_COUNT_DIED],
        .redriven = (uint64_t)counts[SQL_COUNT_REDRIVEN],
    };
}

static bool read_figures(struct sql_call *call, const PGresult *result)
{
    size_t count = (size_t)libpq.PQntuples(result);
    call->topics = calloc(count ? count : 1, sizeof *call->topics);
    if (!call->topics)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct queue_topic *topic = &call->topics[i];
        topic->name = sql_row_text(result, (int)i, FIGURE_NAME);
        topic->paused = sql_row_flag(result, (int)i, FIGURE_PAUSED);
        topic->paused_until_ms = sql_row_number(result, (int)i, FIGURE_PAUSED_UNTIL);
        topic->oldest_ready_due_ms = sql_row_number(result, (int)i, FIGURE_OLDEST);
        fill_settings(&topic->settings, result, (int)i);
        fill_figures(topic, result, (int)i);
    }
    call->topic_count = count;
    if (call->command->kind == COMMAND_TOPIC && !count && call->status == QUEUE_OK)
        call->status = QUEUE_NOT_FOUND;
    return true;
}

/* What a call about a topic did, beside what its figures say. */
static void read_topic(struct sql_call *call, struct postgres_link *link,
                       enum sql_statement statement, const PGresult *result)
{
    const struct queue_topic_call *topic = &call->command->topic;
    const char *detail;
    struct sql_news *news;
    call->status = status_of(sql_row_text(result, 0, 0), &detail);
    if (statement == SQL_DELETE || statement == SQL_PURGE || statement == SQL_REDRIVE) {
        uint64_t jobs = (uint64_t)sql_row_number(result, 0, 1);
        call->step_affected = jobs;
        if (call->affected > 0 && call->status == QUEUE_NOT_FOUND)
            call->status = QUEUE_OK; /* it was deleted between two steps */
        call->has_more = statement != SQL_DELETE && jobs >= STEP_JOBS &&
                         !(topic->max && call->affected + jobs >= topic->max);
    }
    if (call->status != QUEUE_OK && call->status != QUEUE_CREATED)
        return;
    sql_effects_tell_topic(&link->context->effects, topic, call->step_affected);
    news = sql_effects_news(&link->context->effects, topic->topic);
    if (!news)
        return;
    news->look = true;
    news->changed = news->changed || statement == SQL_PUT || statement == SQL_DELETE;
    if (statement == SQL_PUT) /* its ttl may be another one */
        sql_effects_expire(&link->context->effects, 1);
    if (statement == SQL_REDRIVE)
        sql_effects_expire(&link->context->effects, 1);
}

/* The columns of tarry._look. */
static bool read_look(struct sql_call *call, const PGresult *result)
{
    call->drained = true;
    for (int i = 0; i < libpq.PQntuples(result); i++) {
        struct sql_sight sight = {
            .topic = sql_row_text(result, i, 0),
            .next_ms = sql_row_is_null(result, i, 2) ? INT64_MAX : sql_row_number(result, i, 2),
            .is_paused = sql_row_flag(result, i, 3),
            .resume_ms = sql_row_number(result, i, 4),
            .seen_ms = sql_row_number(result, i, 5),
        };
        if (!sql_sights_add(&call->sights, sight))
            return false;
        if (!sight.is_paused && sight.next_ms <= sight.seen_ms)
            call->drained = false;
    }
    return true;
}

static void read_forecast(struct sql_call *call, const PGresult *result)
{
    enum { READY, MINUTE, HOUR, LATER };
    struct queue_forecast *forecast = call->forecast;
    for (int i = 0; i < libpq.PQntuples(result); i++) {
        int64_t what = sql_row_number(result, i, 0), index = sql_row_number(result, i, 1);
        uint64_t jobs = (uint64_t)sql_row_number(result, i, 2);
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

/* Names with commas between. */
static void read_expire(struct sql_call *call, struct postgres_link *link, const PGresult *result)
{
    struct slice died = sql_row_text(result, 0, 1);
    call->next_expire_ms = sql_row_is_null(result, 0, 0) ? INT64_MAX : sql_row_number(result, 0, 0);
    while (died.len) {
        const char *comma = memchr(died.at, ',', died.len);
        size_t len = comma ? (size_t)(comma - died.at) : died.len;
        struct sql_news *news = sql_effects_news(&link->context->effects, slice_make(died.at, len));
        if (news)
            news->died = true;
        died = comma ? slice_make(comma + 1, died.len - len - 1) : (struct slice){0};
    }
    sql_effects_tell_lines(&link->context->effects, sql_row_text(result, 0, 2));
}

static void read_adopt(struct postgres_link *link, const PGresult *result)
{
    for (int i = 0; i < libpq.PQntuples(result); i++) {
        struct sql_lease lease = {
            .topic = (uint32_t)sql_row_number(result, i, 0),
            .lane = (uint32_t)sql_row_number(result, i, 1),
            .due_ms = sql_row_number(result, i, 2),
            .sequence = (uint64_t)sql_row_number(result, i, 3),
            .delivery = (uint64_t)sql_row_number(result, i, 4),
            .taken_ms = sql_row_number(result, i, 5),
        };
        sql_effects_hold(&link->context->effects, &lease, sql_row_number(result, i, 6));
    }
}

/* The plain case: one job more, or one less, or none. */
static void count_plain(struct postgres_link *link, const struct postgres_step *step,
                        const struct sql_item *item, const PGresult *rows, int row)
{
    int64_t counts[SQL_COUNTS] = {0};
    const struct command *command = item->call->command;
    if (!sql_row_is_null(rows, row, DID_COUNTS) || !command)
        return;
    if (step->statement == SQL_PUSHES) {
        counts[command->pushes[item->index].past.attempt ? SQL_COUNT_RETRY : SQL_COUNT_FRESH] = 1;
        counts[SQL_COUNT_PUSHED] = 1;
    } else if (step->statement == SQL_ANSWERS && command->answers[item->index].verb == QUEUE_ACK) {
        counts[SQL_COUNT_LEASED] = -1;
        counts[SQL_COUNT_ACKED] = 1;
    }
    sql_effects_count(&link->context->effects, sql_row_number(rows, row, DID_TOPIC), counts);
}

static void read_item(struct postgres_link *link, const struct postgres_step *step,
                      const struct sql_item *item, const PGresult *rows, int row)
{
    struct sql_call *call = item->call;
    count_plain(link, step, item, rows, row);
    if (step->statement == SQL_PUSHES)
        read_push(call, link, item->index, rows, row);
    else if (step->statement == SQL_CHANGES)
        read_change(call, link, item->index, rows, row);
    else if (call->kind == SQL_CALL_END)
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

/* The rows are the call's too, once. */
static bool result_hold(struct postgres_result *result, struct sql_call *call)
{
    const struct sql_results *results = &call->results;
    if (results->count && results->at[results->count - 1] == result)
        return true;
    result->holders++;
    return sql_call_keep(call, result, result_release);
}

static bool read_batch(const struct postgres_step *step, struct postgres_link *link,
                       struct postgres_result *result)
{
    bool is_good = true;
    for (int row = 0; row < libpq.PQntuples(result->rows) && is_good; row++) {
        int64_t n = sql_row_number(result->rows, row, DID_ITEM);
        if (n < 1 || (size_t)n > step->count)
            return false;
        const struct sql_item *item = &link->sent.at[step->first + (size_t)n - 1];
        is_good = result_hold(result, item->call);
        if (is_good)
            read_item(link, step, item, result->rows, row);
    }
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
    if (step->count)
        is_good = read_batch(step, link, result);
    else if (step->call)
        is_good = result_hold(result, step->call) && read_step(step->call, link, step, rows);
    result_release(result);
    return is_good;
}

static bool read_step(struct sql_call *call, struct postgres_link *link,
                      const struct postgres_step *step, const PGresult *result)
{
    switch (step->statement) {
    case SQL_TAKE:
    case SQL_TAKE_BEST:
        return read_taken(call, link, result);
    case SQL_TAKE_ONE:
        return read_taken_one(call, link, result);
    case SQL_LOOK:
        return read_look(call, result);
    case SQL_FIND:
        read_find(call, step->first, result);
        return true;
    case SQL_GET:
        return read_get(call, result);
    case SQL_HISTORY:
        return read_history(call, result);
    case SQL_LIST:
        return read_list(call, result);
    case SQL_FIGURES:
        return read_figures(call, result);
    case SQL_PUT:
    case SQL_PAUSE:
    case SQL_DELETE:
    case SQL_PURGE:
    case SQL_REDRIVE:
        read_topic(call, link, step->statement, result);
        return true;
    case SQL_FORECAST:
        read_forecast(call, result);
        return true;
    case SQL_EXPIRE:
        read_expire(call, link, result);
        return true;
    case SQL_UPKEEP:
        call->others = sql_row_number(result, 0, 0);
        call->silent = sql_row_number(result, 0, 1);
        call->next_expire_ms =
            sql_row_is_null(result, 0, 2) ? INT64_MAX : sql_row_number(result, 0, 2);
        call->mark = sql_row_number(result, 0, 3);
        link->context->now_ms = sql_row_number(result, 0, 4);
        call->is_heard = sql_row_flag(result, 0, 5);
        return true;
    case SQL_ADOPT:
        read_adopt(link, result);
        return true;
    default:
        return true;
    }
}
