#include "sql/postgres/calls.h"

#include "base/hash.h"
#include "base/text.h"
#include "queue/cursor.h"
#include "queue/groups.h"
#include "queue/life.h"

#include <assert.h>
#include <stdio.h>

enum {
    EXPIRE_JOBS = 500,
    TAKE_JOBS_MAX = 2000 /* per group of takes that are sent as one */
};

void postgres_batches_init(struct postgres_link *link)
{
    postgres_batch_init(&link->pushes, "tiiILLILLLXIBXLTT itlXxTTL");
    postgres_batch_init(&link->changes, "ittiliblbB");
    postgres_batch_init(&link->answers, "iiilllllbxxliXXL");
    postgres_batch_init(&link->acks, "riillllXX");
    postgres_batch_init(&link->awaits, "tt");
    postgres_batch_init(&link->leaves, "tt");
    postgres_batch_init(&link->ended, "ttilxx");
    postgres_batch_init(&link->batches, "liiiiiB");
    postgres_batch_init(&link->agains, "riilllliliixx");
}

void postgres_batches_fini(struct postgres_link *link)
{
    postgres_batch_fini(&link->pushes);
    postgres_batch_fini(&link->changes);
    postgres_batch_fini(&link->answers);
    postgres_batch_fini(&link->acks);
    postgres_batch_fini(&link->awaits);
    postgres_batch_fini(&link->leaves);
    postgres_batch_fini(&link->ended);
    postgres_batch_fini(&link->batches);
    postgres_batch_fini(&link->agains);
    postgres_items_fini(&link->sent);
}

static bool send_step(struct postgres_link *link, struct postgres_step step,
                      const struct postgres_params *params)
{
    return postgres_steps_reserve(&link->steps, link->steps.count + 1) &&
           postgres_statement_send(link->connection, step.statement, params) &&
           postgres_steps_add(&link->steps, step);
}

static bool send(struct sql_call *call, struct postgres_link *link,
                 enum postgres_statement statement, const struct postgres_params *params)
{
    return send_step(link, (struct postgres_step){.call = call, .statement = statement}, params);
}

static bool send_items(struct postgres_link *link, struct postgres_batch *batch,
                       enum postgres_statement statement, const struct postgres_params *params)
{
    struct postgres_step step = {
        .statement = statement, .first = link->sent.count, .count = batch->items.count};
    bool sent = true;
    for (size_t i = 0; i < batch->items.count && sent; i++)
        sent = postgres_items_add(&link->sent, batch->items.at[i]);
    sent = sent && send_step(link, step, params);
    postgres_batch_clear(batch);
    return sent;
}

static bool send_batch(struct postgres_link *link, struct postgres_batch *batch,
                       enum postgres_statement statement, int64_t last)
{
    struct postgres_params params = {0};
    if (!batch->items.count)
        return true;
    if (!postgres_batch_params(batch, &params))
        return false;
    if (last)
        postgres_params_number(&params, last);
    return send_items(link, batch, statement, &params);
}

/* Adds the earliest and the latest time that the database's clock can show now. */
static void add_window(const struct postgres_link *link, struct postgres_params *params)
{
    int64_t earliest_ms, latest_ms;
    sql_clock_window(&link->context->clock, &earliest_ms, &latest_ms);
    postgres_params_number(params, earliest_ms);
    postgres_params_number(params, latest_ms);
}

/* Sends the open batch of pushes. `ticket`: as a transaction of its own; 0: as part of the current
 * transaction. */
static bool send_pushes(struct postgres_link *link, int64_t ticket)
{
    struct postgres_params params = {0};
    bool looks = link->old_ids > 0;
    if (!link->pushes.items.count)
        return true;
    if (!postgres_batch_params(&link->pushes, &params))
        return false;
    link->old_ids -= looks;
    postgres_params_number(&params, link->context->topics_max);
    postgres_params_flag(&params, looks);
    postgres_params_number(&params, link->context->server);
    if (ticket)
        postgres_params_number(&params, ticket);
    else
        postgres_params_null(&params);
    postgres_params_number(&params, link->number);
    add_window(link, &params);
    return send_items(link, &link->pushes, POSTGRES_PUSHES, &params);
}

/* Sends all open batches. Answers come first, since a job that they end may be pushed again. */
static bool send_batches(struct postgres_link *link)
{
    postgres_batch_keys_clear(&link->keys);
    return send_batch(link, &link->acks, POSTGRES_ACKS, link->context->server) &&
           send_batch(link, &link->answers, POSTGRES_ANSWERS, link->context->server) &&
           send_batch(link, &link->agains, POSTGRES_AGAINS, 0) &&
           send_batch(link, &link->changes, POSTGRES_CHANGES, 0) && send_pushes(link, 0);
}

static bool begin_item(struct postgres_link *link, uint64_t hash)
{
    return postgres_batch_keys_add(&link->keys, hash) ||
           (!link->plan.is_whole && send_batches(link) &&
            postgres_batch_keys_add(&link->keys, hash));
}

/* ---- batches of jobs ---- */

enum { WISH_BYTES = JOB_TOPIC_BYTES_MAX + JOB_ID_BYTES_MAX + 320 };

/* Writes the lease of the member that adds another one, as tarry._join reads it. A lease of another
 * store is that of no member. */
static void parent_write(struct slice parent, const struct mac_key *key, char *out,
                         size_t out_bytes)
{
    struct sql_lease lease;
    if (parent.len && sql_lease_parse(parent, key, &lease))
        (void)snprintf(out, out_bytes, "%u,%u,%lld,%llu,%llu,%lld", lease.topic, lease.level,
                       (long long)lease.due_ms, (unsigned long long)lease.sequence,
                       (unsigned long long)lease.delivery, (long long)lease.taken_ms);
}

/* Writes the batches of a push as tarry._push takes them. Returns an empty text for a push without batches. */
static struct slice wish_write(const struct queue_push *push, const struct mac_key *key,
                               char out[WISH_BYTES])
{
    const struct queue_batch *batch = push->batch;
    char parent[160] = "";
    if (!batch)
        return (struct slice){0};
    const struct job_batch own = life_batch_of(batch);
    parent_write(batch->parent, key, parent, sizeof parent);
    int len = snprintf(
        out, WISH_BYTES, "%.*s %.*s %s %d %d %u %lld %lld %u %u %u %u", (int)batch->topic.len,
        batch->topic.at ? batch->topic.at : "", (int)batch->id.len,
        batch->id.at ? batch->id.at : "", parent, batch->waits, (int)own.on_dead, own.members,
        (long long)own.wait_ms, (long long)own.close_ms, batch->past.of[BATCH_ACKED],
        batch->past.of[BATCH_DEAD], batch->past.of[BATCH_CANCELLED], batch->past.of[BATCH_EXPIRED]);
    assert(len > 0 && len < WISH_BYTES);
    return slice_make(out, (size_t)len);
}

/* Returns true if both pushes are ordinary jobs, or members of one batch that nothing else
 * distinguishes. */
static bool batches_are_alike(const struct queue_batch *a, const struct queue_batch *b)
{
    if (!a || !b)
        return a == b;
    return !a->waits && !b->waits && !a->parent.len && !b->parent.len &&
           slice_equals(a->topic, b->topic) && slice_equals(a->id, b->id);
}

static bool policies_are_equal(const struct policy *a, const struct policy *b)
{
    return a->lease_ms == b->lease_ms && a->ttl_ms == b->ttl_ms &&
           a->max_attempts == b->max_attempts && policy_backoff_equal(&a->backoff, &b->backoff);
}

/* Returns how long the job of a push is kept, plus one; 0: as its topic keeps its jobs. */
static int64_t keep_number(const struct queue_push *push)
{
    return push->has_keep_finished ? push->keep_finished_ms + 1 : 0;
}

/* Returns true if the pushes have all values of a group in common. */
static bool pushes_are_alike(const struct queue_push *a, const struct queue_push *b)
{
    return a->when.due == b->when.due && a->priority == b->priority &&
           a->on_conflict == b->on_conflict && a->past.attempt == b->past.attempt &&
           a->past.dead == b->past.dead && policies_are_equal(&a->policy, &b->policy) &&
           slice_equals(a->topic, b->topic) && slice_equals(a->content_type, b->content_type) &&
           slice_equals(a->past.error, b->past.error) && keep_number(a) == keep_number(b) &&
           batches_are_alike(a->batch, b->batch);
}

static size_t add_push_group(struct postgres_link *link, const struct queue_push *push)
{
    struct postgres_array *array = link->pushes.arrays;
    size_t group = postgres_batch_add_group(&link->pushes);
    link->groups[group % POSTGRES_GROUPS_COMPARED] = push;
    postgres_array_bytes(array++, push->topic);
    postgres_array_number(array++, push->when.due);
    postgres_array_number(array++, push->priority);
    postgres_array_number(array++, push->on_conflict);
    postgres_array_number(array++, push->policy.lease_ms);
    postgres_array_number(array++, push->policy.ttl_ms);
    postgres_array_number(array++, push->policy.backoff.kind);
    postgres_array_number(array++, push->policy.backoff.first_ms);
    postgres_array_number(array++, push->policy.backoff.max_ms);
    postgres_array_number(array++, push->policy.max_attempts);
    postgres_array_bytes(array++, push->content_type);
    postgres_array_number(array++, push->past.attempt);
    postgres_array_number(array++, push->past.dead);
    postgres_array_bytes(array++, push->past.error);
    postgres_array_number(array++, keep_number(push));
    char steps[BACKOFF_STEPS_BYTES_MAX], wish[WISH_BYTES];
    postgres_array_bytes(array++, policy_write_steps(&push->policy.backoff, steps));
    postgres_array_bytes(array, wish_write(push, &link->context->key, wish));
    return group;
}

/* Finds the push's group among the last ones, or adds one. Two groups may have the same values. */
static size_t push_group(struct postgres_link *link, const struct queue_push *push)
{
    size_t group = link->pushes.group_count;
    for (size_t i = 0; i < POSTGRES_GROUPS_COMPARED && group > 0; i++, group--)
        if (pushes_are_alike(link->groups[group % POSTGRES_GROUPS_COMPARED], push))
            return group;
    return add_push_group(link, push);
}

/* Sends the waiting job before its members. */
static bool send_before_member(struct postgres_link *link, const struct queue_batch *batch)
{
    return !batch->topic.len ||
           !postgres_batch_keys_have(&link->keys, hash_pair(batch->topic, batch->id, 0).low) ||
           send_batches(link);
}

/* Begins an item whose `once` no other item of the batch has. If the batches are sent for that, the id of the push is
 * added again; it may have the same hash. */
static bool begin_once(struct postgres_link *link, const struct queue_push *push)
{
    static const uint64_t ONCE_SEED = 0x9e3779b97f4a7c15; /* far from that of the ids */
    uint64_t once = hash_pair(push->topic, push->once, ONCE_SEED).low;
    if (postgres_batch_keys_add(&link->keys, once))
        return true;
    if (link->plan.is_whole || !send_batches(link) ||
        !postgres_batch_keys_add(&link->keys, hash_pair(push->topic, push->id, 0).low))
        return false;
    (void)postgres_batch_keys_add(&link->keys, once);
    return true;
}

static bool add_push(struct sql_call *call, struct postgres_link *link, size_t i)
{
    const struct queue_push *push = &call->command->pushes[i];
    struct postgres_batch *batch = &link->pushes;
    if (push->batch && !send_before_member(link, push->batch))
        return false;
    if (!begin_item(link, hash_pair(push->topic, push->id, 0).low) ||
        (push->once.len && !begin_once(link, push)) || !postgres_batch_add(batch, call, i))
        return false;
    size_t group = push_group(link, push);
    batch->items.at[batch->items.count - 1].group = group;
    struct postgres_array *array = batch->arrays + batch->group_array_count;
    postgres_array_number(array++, (int64_t)group);
    postgres_array_bytes(array++, push->id);
    postgres_array_number(array++, push->when.ms);
    postgres_array_bytes(array++, push->meta);
    postgres_array_bytes(array++, push->body);
    postgres_array_bytes(array++, push->group);
    postgres_array_bytes(array++, push->once);
    int64_t once_for_ms = push->once_for_ms ? push->once_for_ms : QUEUE_ONCE_MS;
    postgres_array_number(array++, push->once.len ? once_for_ms : 0);
    /* the lease of its parent may be answered next */
    return !push->batch || !push->batch->parent.len || send_batches(link);
}

static bool add_change(struct sql_call *call, struct postgres_link *link, size_t i)
{
    const struct queue_change *change = &call->command->changes[i];
    struct postgres_batch *batch = &link->changes;
    struct postgres_array *array = batch->arrays;
    if (change->verb == QUEUE_CLOSE && !send_batches(link)) /* after the members */
        return false;
    if (!begin_item(link, hash_pair(change->topic, change->id, 0).low) ||
        !postgres_batch_add(batch, call, i))
        return false;
    postgres_array_number(array++, change->verb);
    postgres_array_bytes(array++, change->topic);
    postgres_array_bytes(array++, change->id);
    postgres_array_number(array++, change->when.due);
    postgres_array_number(array++, change->when.ms);
    postgres_array_number(array++, change->priority);
    postgres_array_number(array++, change->only_dead);
    postgres_array_number(array++, (int64_t)sql_change_delivery(change, &link->context->key));
    postgres_array_number(array++, change->request);
    postgres_array_number(array++, change->members);
    return true;
}

/* Appends the key, delivery and time of a lease. Returns the next array. */
static struct postgres_array *add_lease(struct postgres_array *array, const struct sql_lease *lease)
{
    postgres_array_number(array++, lease->topic);
    postgres_array_number(array++, lease->level);
    postgres_array_number(array++, lease->due_ms);
    postgres_array_number(array++, (int64_t)lease->sequence);
    postgres_array_number(array++, (int64_t)lease->delivery);
    postgres_array_number(array++, lease->taken_ms);
    return array;
}

static bool add_answer(struct sql_call *call, struct postgres_link *link, size_t i, int verb,
                       const struct sql_lease *lease, const struct queue_answer *answer)
{
    struct postgres_batch *batch = &link->answers;
    struct postgres_array *array = batch->arrays;
    if (!begin_item(link, hash_64(&lease->sequence, sizeof lease->sequence)) ||
        !postgres_batch_add(batch, call, i))
        return false;
    postgres_array_number(array++, verb);
    array = add_lease(array, lease);
    postgres_array_number(array++, answer->delay_ms);
    postgres_array_number(array++, answer->final);
    postgres_array_bytes(array++, text_cut(answer->error, JOB_ERROR_BYTES_MAX));
    postgres_array_bytes(array++, text_cut(answer->error, JOB_HISTORY_ERROR_BYTES_MAX));
    postgres_array_number(array++, answer->lease_ms);
    postgres_array_number(array++, answer->has_priority ? answer->priority : QUEUE_PRIORITY_UNSET);
    postgres_array_bytes(array++, answer->result_type);
    postgres_array_bytes(array++, answer->verb == QUEUE_EXTEND ? answer->progress : answer->result);
    postgres_array_number(array++, answer->hold_ms);
    return true;
}

static bool add_again(struct sql_call *call, struct postgres_link *link, size_t i,
                      const struct sql_lease *lease)
{
    enum { HAS_BODY = 1, HAS_TYPE };
    const struct queue_again *again = call->command->answers[i].again;
    bool has_type = again->has_body && again->content_type.len;
    struct postgres_batch *batch = &link->agains;
    struct postgres_array *array = batch->arrays;
    if (!begin_item(link, hash_64(&lease->sequence, sizeof lease->sequence)) ||
        !postgres_batch_add(batch, call, i))
        return false;
    postgres_array_number(array++, (int64_t)lease->row);
    array = add_lease(array, lease);
    postgres_array_number(array++, again->when.due);
    postgres_array_number(array++, again->when.ms);
    postgres_array_number(array++, again->priority);
    postgres_array_number(array++, (again->has_body ? HAS_BODY : 0) | (has_type ? HAS_TYPE : 0));
    postgres_array_bytes(array++, again->content_type);
    postgres_array_bytes(array++, again->body);
    return true;
}

/* Adds an ack. The statement returns no row if the lease has ended. */
static bool add_ack(struct sql_call *call, struct postgres_link *link, size_t i,
                    const struct sql_lease *lease)
{
    struct postgres_batch *batch = &link->acks;
    struct postgres_array *array = batch->arrays;
    if (!begin_item(link, hash_64(&lease->sequence, sizeof lease->sequence)) ||
        !postgres_batch_add(batch, call, i))
        return false;
    postgres_array_number(array++, (int64_t)lease->row);
    array = add_lease(array, lease);
    postgres_array_bytes(array++, call->command->answers[i].result_type);
    postgres_array_bytes(array++, call->command->answers[i].result);
    call->items[i].status = QUEUE_LEASE_ENDED;
    return true;
}

static bool add_command_answer(struct sql_call *call, struct postgres_link *link, size_t i)
{
    const struct queue_answer *answer = &call->command->answers[i];
    struct sql_lease lease;
    if (!sql_lease_parse(answer->lease, &link->context->key, &lease)) {
        call->items[i].status = QUEUE_LEASE_ENDED;
        return true;
    }
    if (answer->verb == QUEUE_ACK && lease.row && !answer->hold_ms)
        return add_ack(call, link, i, &lease);
    if (answer->verb == QUEUE_AGAIN)
        return add_again(call, link, i, &lease);
    return add_answer(call, link, i, (int)answer->verb, &lease, answer);
}

/* Adds the items of a call. Sets the results of invalid items before anything is sent. */
static bool add_items(struct sql_call *call, struct postgres_link *link)
{
    const struct command *command = call->command;
    bool added = true;
    call->items = calloc(command->count ? command->count : 1, sizeof *call->items);
    if (!call->items)
        return false;
    for (size_t i = 0; i < command->count && added; i++) {
        if (!command_item_is_good(command, i, &call->items[i]))
            continue;
        call->items[i].status = QUEUE_UNAVAILABLE;
        if (command->kind == COMMAND_PUSH)
            added = add_push(call, link, i);
        else if (command->kind == COMMAND_CHANGE)
            added = add_change(call, link, i);
        else
            added = add_command_answer(call, link, i);
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
    struct postgres_params params = {0};
    postgres_params_text(&params, call->names.at);
    postgres_params_text(&params, call->bounds.at);
    return send(call, link, POSTGRES_LOOK, &params);
}

static bool send_take_one(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_take *take = &call->command->take;
    struct postgres_params params = {0};
    postgres_params_bytes(&params, take->topics[0]);
    postgres_params_bytes(&params, take->id);
    postgres_params_number(&params, take->lease_ms);
    postgres_params_number(&params, link->context->server);
    postgres_params_bytes(&params, take->consumer);
    return send(call, link, POSTGRES_TAKE_ONE, &params);
}

/* Adds the topics of a take and the maximum number of jobs, which takes that are sent together
 * share. */
static bool take_params(struct sql_call *call, struct postgres_link *link, int64_t max,
                        struct postgres_params *params)
{
    const struct queue_take *take = &call->command->take;
    for (size_t i = 0; i < take->topic_count; i++)
        add_topic(call, link, take->topics[i]);
    if (!close_arrays(call))
        return false;
    postgres_params_text(params, call->names.at);
    postgres_params_text(params, call->bounds.at);
    postgres_params_number(params, max);
    postgres_params_number(params, take->lease_ms);
    postgres_params_number(params, link->context->server);
    postgres_params_bytes(params, take->consumer);
    return true;
}

static bool send_take_best(struct sql_call *call, struct postgres_link *link)
{
    struct postgres_params params = {0};
    return take_params(call, link, call->command->take.max, &params) &&
           send(call, link, POSTGRES_TAKE_BEST, &params) && send_look(call, link);
}

/* Returns true for a take without a job id and without priority order. */
static bool is_plain_take(const struct sql_call *call)
{
    return call->kind == SQL_CALL_COMMAND && call->command->kind == COMMAND_TAKE &&
           !call->command->take.id.len && !call->command->take.by_priority;
}

/* Returns true if the takes differ only in the number of jobs. */
static bool takes_are_alike(const struct queue_take *a, const struct queue_take *b)
{
    bool are_alike = a->topic_count == b->topic_count && a->lease_ms == b->lease_ms &&
                     slice_equals(a->consumer, b->consumer);
    for (size_t i = 0; i < a->topic_count && are_alike; i++)
        are_alike = slice_equals(a->topics[i], b->topics[i]);
    return are_alike;
}

static bool send_finds(struct sql_call *call, struct postgres_link *link)
{
    const struct command *command = call->command;
    bool sent = true;
    call->items = calloc(command->count ? command->count : 1, sizeof *call->items);
    for (size_t i = 0; call->items && i < command->count && sent; i++) {
        struct postgres_step step = {.call = call, .statement = POSTGRES_FIND, .first = i};
        struct postgres_params params = {0};
        if (!command_item_is_good(command, i, &call->items[i]))
            continue;
        call->items[i].status = QUEUE_UNAVAILABLE;
        postgres_params_bytes(&params, command->finds[i].topic);
        postgres_params_bytes(&params, command->finds[i].id);
        sent = send_step(link, step, &params);
    }
    return call->items && sent;
}

static bool send_get(struct sql_call *call, struct postgres_link *link)
{
    struct postgres_params params = {0};
    postgres_params_bytes(&params, call->command->get.topic);
    postgres_params_bytes(&params, call->command->get.id);
    if (call->command->get.history) {
        postgres_params_number(&params, SQL_HISTORY_ENTRIES_MAX);
        return send(call, link, POSTGRES_HISTORY, &params);
    }
    postgres_params_flag(&params, call->command->get.finished);
    return send(call, link, POSTGRES_GET, &params);
}

/* Sends the query of a list. Reads one more job than requested, to see whether there are more. */
static bool send_list(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_list *list = &call->command->list;
    struct queue_cursor cursor = {0};
    struct postgres_params params = {0};
    if (list->cursor.len && !queue_cursor_parse(list->cursor, &cursor)) {
        call->status = QUEUE_BAD_CURSOR;
        return true;
    }
    postgres_params_bytes(&params, list->topic);
    postgres_params_number(&params, list->state);
    postgres_params_number(&params, (int64_t)list->limit + 1);
    postgres_params_number(&params, cursor.due_ms);
    postgres_params_number(&params, (int64_t)cursor.sequence);
    postgres_params_flag(&params, list->with_body);
    return send(call, link, POSTGRES_LIST, &params);
}

static bool send_figures(struct sql_call *call, struct postgres_link *link, struct slice name,
                         struct slice after, uint32_t limit)
{
    struct postgres_params params = {0};
    if (name.len)
        postgres_params_bytes(&params, name);
    else
        postgres_params_null(&params);
    if (after.len)
        postgres_params_bytes(&params, after);
    else
        postgres_params_null(&params);
    postgres_params_number(&params, limit);
    return send(call, link, POSTGRES_FIGURES, &params);
}

enum { FLOW_TEXT_BYTES = 200 };

/* Writes the limits of a topic as an array of tarry._put. */
static void flow_write(char out[FLOW_TEXT_BYTES], const struct topic_flow *flow)
{
    (void)snprintf(out, FLOW_TEXT_BYTES, "{%u,%u,%d,%u,%u,%u,%d,%u,%llu,%d,%d}", flow->topic.limit,
                   flow->topic.rate.count, (int)flow->topic.rate.unit, flow->topic.burst,
                   flow->group.limit, flow->group.rate.count, (int)flow->group.rate.unit,
                   flow->group.burst, (unsigned long long)flow->group_max_jobs,
                   (int)flow->group_order, flow->one_shard);
}

static bool send_put(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_topic_call *topic = &call->command->topic;
    const struct topic_settings *settings = &topic->settings;
    struct postgres_params params = {0};
    postgres_params_bytes(&params, topic->topic);
    postgres_params_number(&params, settings->policy.lease_ms);
    postgres_params_number(&params, settings->policy.ttl_ms);
    postgres_params_number(&params, settings->policy.backoff.kind);
    postgres_params_number(&params, settings->policy.backoff.first_ms);
    postgres_params_number(&params, settings->policy.backoff.max_ms);
    postgres_params_number(&params, settings->policy.max_attempts);
    postgres_params_number(&params, settings->on_conflict);
    if (settings->has_priority)
        postgres_params_number(&params, settings->priority);
    else
        postgres_params_null(&params);
    postgres_params_flag(&params, settings->dead_letter_expired);
    postgres_params_number(&params, settings->dedup_window_ms);
    postgres_params_number(&params, (int64_t)settings->max_jobs);
    postgres_params_number(&params, settings->push_rate.count);
    postgres_params_number(&params, settings->push_rate.unit);
    postgres_params_bytes(&params, settings->extension);
    postgres_params_number(&params, link->context->topics_max);
    postgres_params_number(&params, settings->history_ms);
    postgres_params_number(&params, settings->keep_finished_ms);
    postgres_params_number(&params, (int64_t)settings->keep_finished_max);
    postgres_params_number(&params, (int64_t)settings->keep_finished_bytes);
    postgres_params_flag(&params, settings->keep_body);
    char steps[BACKOFF_STEPS_BYTES_MAX];
    postgres_params_bytes(&params, policy_write_steps(&settings->policy.backoff, steps));
    char flow[FLOW_TEXT_BYTES];
    flow_write(flow, &settings->flow);
    postgres_params_text(&params, flow);
    return send(call, link, POSTGRES_PUT, &params);
}

static bool send_pause(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_topic_call *topic = &call->command->topic;
    struct postgres_params params = {0};
    postgres_params_bytes(&params, topic->topic);
    postgres_params_flag(&params, topic->verb == QUEUE_TOPIC_PAUSE);
    postgres_params_number(&params, topic->pause_ms);
    return send(call, link, POSTGRES_PAUSE, &params);
}

static bool send_topic_step(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_topic_call *topic = &call->command->topic;
    struct postgres_params params = {0};
    int64_t jobs = POSTGRES_STEP_JOBS;
    postgres_params_bytes(&params, topic->topic);
    if (topic->verb == QUEUE_TOPIC_DELETE)
        return send(call, link, POSTGRES_DELETE, &params);
    if (topic->verb == QUEUE_TOPIC_PURGE) {
        postgres_params_number(&params, topic->state);
        postgres_params_number(&params, jobs);
        return send(call, link, POSTGRES_PURGE, &params);
    }
    if (topic->id.len)
        postgres_params_bytes(&params, topic->id);
    else
        postgres_params_null(&params);
    if (topic->max && (int64_t)(topic->max - call->affected) < jobs)
        jobs = (int64_t)(topic->max - call->affected);
    postgres_params_number(&params, jobs);
    return send(call, link, POSTGRES_REDRIVE, &params);
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
    case QUEUE_TOPIC_MARK: /* applies only to parts of a queue */
        return true;
    }
    return sent && send_figures(call, link, topic->topic, (struct slice){0}, 0);
}

/* Writes the settings of a group as an array of tarry._group_put. `adjust_ms` is added to the time of the wall clock. */
static void group_write(char out[FLOW_TEXT_BYTES], const struct group_settings *settings,
                        int64_t adjust_ms)
{
    int64_t until_ms = settings->paused_until_ms ? settings->paused_until_ms + adjust_ms : 0;
    (void)snprintf(out, FLOW_TEXT_BYTES, "{%u,%u,%u,%d,%u,%llu,%d,%lld}", settings->weight,
                   settings->limits.limit, settings->limits.rate.count,
                   (int)settings->limits.rate.unit, settings->limits.burst,
                   (unsigned long long)settings->max_jobs, settings->paused, (long long)until_ms);
}

static bool send_group_put(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_group_call *group = &call->command->group;
    struct postgres_params params = {0};
    char settings[FLOW_TEXT_BYTES];
    postgres_params_bytes(&params, group->topic);
    postgres_params_bytes(&params, group->group);
    group_write(settings, &group->settings, link->context->adjust_ms);
    if (group->verb == QUEUE_GROUP_PUT)
        postgres_params_text(&params, settings);
    else
        postgres_params_null(&params);
    postgres_params_number(&params, link->context->topics_max);
    return send(call, link, POSTGRES_GROUP_PUT, &params);
}

static bool send_group(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_group_call *group = &call->command->group;
    struct postgres_params params = {0};
    if (group->verb != QUEUE_GROUP_GET && !send_group_put(call, link))
        return false;
    postgres_params_bytes(&params, group->topic);
    postgres_params_bytes(&params, group->group);
    postgres_params_number(&params, QUEUE_GROUPS_BY_NAME);
    postgres_params_number(&params, 1);
    postgres_params_number(&params, 0);
    postgres_params_null(&params);
    return send(call, link, POSTGRES_GROUPS, &params);
}

/* Sends the query of a list of groups. Reads one more than requested, to see whether there are more. */
static bool send_groups(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_groups_call *groups = &call->command->groups;
    struct groups_place place = {0};
    struct postgres_params params = {0};
    (void)groups_place_parse(groups, &place);
    postgres_params_bytes(&params, groups->topic);
    postgres_params_null(&params);
    postgres_params_number(&params, groups->order);
    postgres_params_number(&params, (int64_t)groups->limit + 1);
    postgres_params_number(&params, (int64_t)place.number);
    if (place.is_set)
        postgres_params_bytes(&params, place.name);
    else
        postgres_params_null(&params);
    return send(call, link, POSTGRES_GROUPS, &params);
}

static bool send_forecast(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_forecast_call *command = &call->command->forecast;
    struct postgres_params params = {0};
    call->forecast = calloc(1, sizeof *call->forecast);
    if (!call->forecast)
        return false;
    call->forecast->from_ms = command->from_ms;
    postgres_params_bytes(&params, command->topic);
    postgres_params_number(&params, command->from_ms);
    return send(call, link, command->soon && command->topic.len ? POSTGRES_SOON : POSTGRES_FORECAST,
                &params);
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
    case COMMAND_TAKE: /* plain takes: see send_takes */
        return command->take.id.len ? send_take_one(call, link) : send_take_best(call, link);
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
    case COMMAND_AWAIT: /* answered by SQL_CALL_AWAIT */
        return true;
    case COMMAND_GROUP:
        return send_group(call, link);
    case COMMAND_GROUPS:
        return send_groups(call, link);
    case COMMAND_BATCH: /* only between parts of a queue */
        break;
    }
    return false;
}

static bool add_ends(struct sql_call *call, struct postgres_link *link)
{
    const struct queue_answer answer = {.delay_ms = -1, .error = slice_of("lease ended")};
    enum { ENDS = 5 }; /* verb of tarry._answer */
    for (size_t i = 0; i < call->ends.count; i++)
        if (!add_answer(call, link, i, ENDS, &call->ends.at[i], &answer))
            return false;
    return true;
}

/* Begins another round of checks, after all topics have been checked from 0. */
static void begin_round(struct postgres_link *link)
{
    for (struct table_entry *entry = table_first(&link->context->topics.table); entry;
         entry = table_next(&link->context->topics.table, entry))
        sql_topics_of(entry)->in_round = false;
}

/* Sends a check. If there are too many names for one check, the others are part of the next one. */
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
                     enum postgres_statement statement, int64_t number)
{
    struct postgres_params params = {0};
    postgres_params_number(&params, number);
    return send(call, link, statement, &params);
}

static bool send_flagged(struct sql_call *call, struct postgres_link *link,
                         enum postgres_statement statement, int64_t number, bool flag)
{
    struct postgres_params params = {0};
    postgres_params_number(&params, number);
    postgres_params_flag(&params, flag);
    return send(call, link, statement, &params);
}

static bool send_upkeep(struct sql_call *call, struct postgres_link *link)
{
    struct postgres_params params = {0};
    postgres_params_number(&params, link->context->server);
    postgres_params_flag(&params, call->listens);
    add_window(link, &params);
    postgres_params_flag(&params, sql_health_is_due(&link->context->health));
    return send(call, link, POSTGRES_UPKEEP, &params);
}

static bool send_set_clock(struct sql_call *call, struct postgres_link *link)
{
    struct postgres_params params = {0};
    int64_t earliest_ms, latest_ms;
    sql_clock_window(&link->context->clock, &earliest_ms, &latest_ms);
    postgres_params_number(&params, link->context->clock.seen_ms);
    postgres_params_number(&params, latest_ms);
    return send(call, link, POSTGRES_SET_CLOCK, &params);
}

static bool add_awaited(struct postgres_batch *batch, struct slice topic, struct slice id)
{
    if (!postgres_batch_add(batch, NULL, 0))
        return false;
    postgres_array_bytes(&batch->arrays[0], topic);
    postgres_array_bytes(&batch->arrays[1], id);
    return true;
}

static bool add_awaited_jobs(struct postgres_batch *batch, struct list *jobs)
{
    struct list *at = jobs->next;
    bool added = true;
    postgres_batch_clear(batch);
    for (size_t left = sql_awaits_send(jobs); left > 0 && added; left--, at = at->next)
        added = add_awaited(batch, sql_awaited_topic(sql_awaited_at(at)),
                            sql_awaited_id(sql_awaited_at(at)));
    return added;
}

static bool send_awaits(struct sql_call *call, struct postgres_link *link)
{
    struct sql_awaits *awaits = &link->context->awaits;
    struct postgres_params params = {0};
    postgres_params_number(&params, link->context->server);
    return add_awaited_jobs(&link->awaits, &awaits->fresh) &&
           add_awaited_jobs(&link->leaves, &awaits->left) &&
           postgres_batch_params(&link->awaits, &params) &&
           postgres_batch_params(&link->leaves, &params) &&
           send(call, link, POSTGRES_AWAIT, &params);
}

bool postgres_registers_send(struct postgres_link *link, const struct list *calls)
{
    struct postgres_params params = {0};
    bool added = true;
    postgres_batch_clear(&link->awaits);
    for (const struct list *at = calls->next; at != calls; at = at->next) {
        const struct sql_call *call = list_entry(at, struct sql_call, list);
        bool has_pushes = call->kind == SQL_CALL_COMMAND && call->command->kind == COMMAND_PUSH;
        for (size_t i = 0; has_pushes && added && i < call->command->count; i++)
            if (call->command->pushes[i].ended)
                added = add_awaited(&link->awaits, call->command->pushes[i].topic,
                                    call->command->pushes[i].id);
    }
    if (!added || !link->awaits.items.count)
        return added;
    if (!postgres_batch_params(&link->awaits, &params))
        return false;
    postgres_params_number(&params, link->context->server);
    return send_step(link, (struct postgres_step){.statement = POSTGRES_REGISTER}, &params);
}

/* Returns how an item of a command ended its job, if the schema does not set that; 0: not. */
static enum job_end end_of(const struct command *command, size_t i,
                           const struct queue_result *result)
{
    if (command->kind == COMMAND_ANSWER && command->answers[i].verb == QUEUE_ACK &&
        result->status == QUEUE_OK && !result->state)
        return JOB_END_ACKED;
    if (command->kind == COMMAND_CHANGE && result->status == QUEUE_CANCELLED)
        return JOB_END_CANCELLED;
    return 0;
}

static bool add_ended(struct postgres_link *link, const struct command *command, size_t i,
                      const struct queue_result *result)
{
    const struct queue_answer *answer =
        command->kind == COMMAND_ANSWER ? &command->answers[i] : NULL;
    enum job_end end = end_of(command, i, result);
    struct postgres_array *array = link->ended.arrays;
    struct sql_lease lease = {0};
    if (!end)
        return true;
    if (answer)
        (void)sql_lease_parse(answer->lease, &link->context->key, &lease);
    if (!postgres_batch_add(&link->ended, NULL, i))
        return false;
    postgres_array_bytes(array++, result->topic);
    postgres_array_bytes(array++, result->id);
    postgres_array_number(array++, end);
    postgres_array_number(array++, lease.taken_ms);
    postgres_array_bytes(array++, answer ? answer->result_type : (struct slice){0});
    postgres_array_bytes(array++, answer ? answer->result : (struct slice){0});
    return true;
}

bool postgres_ended_send(struct postgres_link *link, const struct list *calls)
{
    struct postgres_params params = {0};
    bool added = true;
    postgres_batch_clear(&link->ended);
    for (const struct list *at = calls->next; at != calls; at = at->next) {
        const struct sql_call *call = list_entry(at, struct sql_call, list);
        for (size_t i = 0; sql_call_writes_items(call) && added && i < call->command->count; i++)
            added = add_ended(link, call->command, i, &call->items[i]);
    }
    if (!added || !link->ended.items.count)
        return added;
    return postgres_batch_params(&link->ended, &params) &&
           send_step(link, (struct postgres_step){.statement = POSTGRES_ENDED}, &params);
}

bool postgres_batches_send(struct postgres_link *link)
{
    struct sql_effects *effects = &link->context->effects;
    struct postgres_params params = {0};
    if (!effects->batches.count && !effects->has_batches)
        return true;
    sql_effects_sort_batches(effects);
    postgres_batch_clear(&link->batches);
    for (size_t i = 0; i < effects->batches.count; i++) {
        const struct sql_batch_change *change = &effects->batches.at[i];
        struct postgres_array *array = link->batches.arrays;
        if (!postgres_batch_add(&link->batches, NULL, i))
            return false;
        postgres_array_number(array++, change->batch);
        for (int k = 0; k < BATCH_OUTCOMES; k++)
            postgres_array_number(array++, change->counts[k]);
        postgres_array_number(array, change->looks);
    }
    if (!postgres_batch_params(&link->batches, &params))
        return false;
    postgres_params_flag(&params, effects->has_batches);
    return send_step(link, (struct postgres_step){.statement = POSTGRES_COUNT_BATCHES}, &params);
}

static bool send_call(struct sql_call *call, struct postgres_link *link)
{
    switch (call->kind) {
    case SQL_CALL_COMMAND:
        return send_command(call, link);
    case SQL_CALL_END_LEASES:
        return add_ends(call, link);
    case SQL_CALL_LOOK:
        return send_looks(call, link);
    case SQL_CALL_EXPIRE:
        return send_flagged(call, link, POSTGRES_EXPIRE, EXPIRE_JOBS,
                            link->context->effects.has_listener);
    case SQL_CALL_UPKEEP:
        return send_upkeep(call, link);
    case SQL_CALL_CLOCK:
        return send_set_clock(call, link);
    case SQL_CALL_AWAIT:
        return send_awaits(call, link);
    case SQL_CALL_ADOPT:
        return send_own(call, link, POSTGRES_ADOPT, link->context->server);
    case SQL_CALL_GOODBYE:
        return send_own(call, link, POSTGRES_GOODBYE, link->context->server);
    case SQL_CALL_PEEK:
    case SQL_CALL_POLL: /* not needed: PostgreSQL sends notifications */
        break;
    }
    return false;
}

/* Returns true if the call's items are sent in batches. */
static bool is_gathered(const struct sql_call *call)
{
    return call->kind == SQL_CALL_END_LEASES || sql_call_writes_items(call);
}

/* Returns true if the call only reads or takes. It is then sent after the batches of the calls
 * around it. */
static bool is_look(const struct sql_call *call)
{
    if (call->kind != SQL_CALL_COMMAND)
        return call->kind == SQL_CALL_LOOK || call->kind == SQL_CALL_AWAIT;
    return call->command->kind == COMMAND_TAKE || call->command->kind == COMMAND_GET ||
           call->command->kind == COMMAND_LIST || call->command->kind == COMMAND_FIND;
}

/* Sends consecutive plain takes with the same values, from `at` on, as one statement. They share
 * its jobs in their order. Returns the last one, or NULL if they cannot be sent. */
static struct list *send_takes(struct list *at, const struct list *end, struct postgres_link *link)
{
    struct sql_call *first = list_entry(at, struct sql_call, list);
    struct postgres_step step = {.statement = POSTGRES_TAKE, .first = link->sent.count};
    struct postgres_params params = {0};
    struct list *last = at;
    size_t max = 0;
    for (; at != end; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        if (!is_look(call))
            continue;
        if (!is_plain_take(call) || !takes_are_alike(&first->command->take, &call->command->take) ||
            (step.count && max + call->command->take.max > TAKE_JOBS_MAX))
            break;
        struct postgres_item item = {.call = call, .index = call->command->take.max};
        if (!postgres_items_add(&link->sent, item))
            return NULL;
        max += item.index;
        step.count++;
        last = at;
    }
    return take_params(first, link, (int64_t)max, &params) && send_step(link, step, &params) ? last
                                                                                             : NULL;
}

/* Sends the calls from `begin` up to `end`. */
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
        struct list *last = is_plain_take(call) ? send_takes(at, end, link) : at;
        sent = last && (is_plain_take(call) || !is_look(call) || send_call(call, link));
        at = last ? last : at;
    }
    return sent;
}

/* Clears the batches, which may contain items of a transaction that could not be sent. */
static void clear_batches(struct postgres_link *link)
{
    link->sent.count = 0;
    postgres_batch_clear(&link->pushes);
    postgres_batch_clear(&link->changes);
    postgres_batch_clear(&link->answers);
    postgres_batch_clear(&link->acks);
    postgres_batch_clear(&link->agains);
    postgres_batch_keys_clear(&link->keys);
}

static bool has_once(const struct list *calls)
{
    for (const struct list *at = calls->next; at != calls; at = at->next) {
        const struct command *command = list_entry(at, struct sql_call, list)->command;
        for (size_t i = 0; i < command->count; i++)
            if (command->pushes[i].once.len)
                return true;
    }
    return false;
}

bool postgres_pushes_send(struct list *calls, struct postgres_link *link, int64_t ticket)
{
    bool are_added = link->old_ids == 0 && !has_once(calls);
    clear_batches(link);
    for (struct list *at = calls->next; at != calls && are_added; at = at->next)
        are_added = add_items(list_entry(at, struct sql_call, list), link);
    return are_added && link->pushes.items.count && send_pushes(link, ticket);
}

bool postgres_calls_send(struct list *calls, struct postgres_link *link)
{
    struct list *begin = calls->next;
    clear_batches(link);
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
