/* Batches over several shards: joins, reports and orders between the home of a batch and its parts (queue/batch_parts.h). */
#include "engine/state.h"

#include <assert.h>

static uint32_t home_of(uint64_t number)
{
    return (uint32_t)(number >> QUEUE_BATCH_HOME_SHIFT) - 1;
}

uint32_t batch_part_new(struct engine *engine, const struct queue_batch *batch)
{
    uint32_t id = batch_is_part(engine, batch->number) ? batch_new(engine, batch->number) : 0;
    if (!id)
        return 0;
    struct batch *part = batch_at(engine, id);
    part->key = hash_pair(batch->topic, batch->id, engine->hash_seed);
    part->rules = (struct life_batch){.on_dead = batch->dead_member, .depth = batch->depth};
    part->is_known = true;
    return id;
}

/* ---- what is due to be sent ---- */

/* Returns whether other shards have not received the orders of a home. */
static bool orders_are_due(const struct engine *engine, const struct batch *batch)
{
    uint8_t orders = batch_parts_orders(&batch->rules, batch->is_gone);
    for (uint32_t i = 0; i < batch->parts.count; i++)
        if (batch->parts.at[i].shard != engine->shard && batch->parts.at[i].ordered != orders)
            return true;
    return false;
}

void batch_note(struct engine *engine, uint32_t id)
{
    struct batch *batch = batch_at(engine, id);
    bool is_part = batch_is_part(engine, batch->number);
    if (is_part)
        batch->version = ++engine->batches->version;
    if (batch->is_due || (is_part ? batch->is_gone : !orders_are_due(engine, batch)))
        return;
    batch->is_due = true;
    batch->next_due = engine->batches->due;
    engine->batches->due = id;
}

bool engine_batch_has_next(const struct engine *engine)
{
    return engine->batches && engine->batches->due;
}

static struct queue_batch_call report_of(const struct engine *engine, const struct batch *batch)
{
    return (struct queue_batch_call){.verb = QUEUE_BATCH_REPORT,
                                     .part = engine->shard,
                                     .number = batch->number,
                                     .version = batch->version,
                                     .counts = batch->rules.counts,
                                     .is_stopped = batch->rules.is_stopped};
}

/* Takes the next order of a home. Returns false after the last. */
static bool order_next(const struct engine *engine, struct batch *batch,
                       struct queue_batch_call *out, uint32_t *to)
{
    uint8_t orders = batch_parts_orders(&batch->rules, batch->is_gone);
    for (uint32_t i = 0; i < batch->parts.count; i++) {
        struct batch_part *part = &batch->parts.at[i];
        if (part->shard == engine->shard || part->ordered == orders)
            continue;
        part->ordered = orders;
        *to = part->shard;
        *out = (struct queue_batch_call){
            .verb = QUEUE_BATCH_ORDER, .number = batch->number, .orders = orders};
        return true;
    }
    return false;
}

bool engine_batch_next(struct engine *engine, struct queue_batch_call *out, uint32_t *to)
{
    while (engine_batch_has_next(engine)) {
        uint32_t id = engine->batches->due;
        struct batch *batch = batch_at(engine, id);
        bool is_part = batch_is_part(engine, batch->number);
        if (!is_part && order_next(engine, batch, out, to))
            return true;
        engine->batches->due = batch->next_due;
        batch->is_due = false;
        if (is_part && !batch->is_gone) {
            *to = home_of(batch->number);
            *out = report_of(engine, batch);
            return true;
        }
        batch_let_go(engine, id);
    }
    return false;
}

/* Ends a part: its members are ordinary jobs. A start before the next checkpoint finds it again, reports it, and receives the same
 * answer. */
static void part_forget(struct engine *engine, uint32_t id)
{
    batch_at(engine, id)->is_gone = true;
    batch_let_go(engine, id);
}

void engine_batch_answered(struct engine *engine, const struct queue_batch_call *call, uint32_t to,
                           enum queue_status status)
{
    uint32_t id = batch_find(engine, call->number);
    if (!id)
        return;
    if (call->verb == QUEUE_BATCH_REPORT) {
        if (status == QUEUE_NOT_FOUND)
            part_forget(engine, id);
        else if (status != QUEUE_OK)
            batch_note(engine, id);
        return;
    }
    struct batch_part *part = batch_parts_of(&batch_at(engine, id)->parts, to);
    assert(part); /* it was there when the order was sent */
    if (status == QUEUE_OK && part->ordered == call->orders)
        part->followed = call->orders;
    else if (status != QUEUE_OK)
        part->ordered = 0;
    batch_note(engine, id);
    batch_let_go(engine, id);
}

/* ---- calls ---- */

/* Ends the wait if nothing is left to wait for. */
static void home_look(struct engine *engine, uint32_t id, struct engine_now now)
{
    if (batch_is_over(engine, batch_at(engine, id)))
        batch_changed(engine, id, now);
    batch_let_go(engine, id);
}

/* Ends a wait later, if nothing is left to wait for: the wheel returns the waiting job when the log has room. */
static void home_fall_due(struct engine *engine, const struct batch *batch, struct engine_now now)
{
    uint32_t id = engine_index_find(engine, batch->key);
    entry_unhang(engine, id);
    entry_at(engine, id)->due_ms = (uint64_t)(now.inner_ms + 1) & 0xffffffffffffu;
    entry_hang(engine, id, JOB_DELAYED, now);
}

static void call_join(struct engine *engine, const struct queue_batch_call *call,
                      struct queue_result *result)
{
    uint32_t waiting =
        engine_index_find(engine, hash_pair(call->topic, call->id, engine->hash_seed));
    uint32_t id = waiting ? batch_of_waiting(engine, entry_at(engine, waiting)) : 0;
    struct batch *batch = id ? batch_at(engine, id) : NULL;
    result->status =
        life_batch_join(batch ? &batch->rules : NULL, batch && call->number == batch->number);
    if (!batch)
        return;
    result->batch = batch->number;
    result->depth = batch->rules.depth;
    result->on_dead = batch->rules.on_dead;
    struct batch_part *part =
        result->status == QUEUE_OK ? batch_parts_of(&batch->parts, call->part) : NULL;
    if (part)
        batch_part_join(part);
    else if (result->status == QUEUE_OK)
        result->status = QUEUE_NO_MEMORY;
}

static void call_leave(struct engine *engine, const struct queue_batch_call *call, bool has_room,
                       struct engine_now now)
{
    uint32_t id = batch_find(engine, call->number);
    if (!id)
        return;
    batch_part_leave(batch_parts_of(&batch_at(engine, id)->parts, call->part), call->version);
    if (!has_room && batch_is_over(engine, batch_at(engine, id)))
        home_fall_due(engine, batch_at(engine, id), now);
    else
        home_look(engine, id, now);
}

/* Returns the version of the counts of a part, with all pushes that were carried out. 0: it counts nothing. */
static uint64_t call_version(const struct engine *engine, const struct queue_batch_call *call)
{
    uint32_t id = batch_find(engine, call->number);
    return id ? batch_at(engine, id)->version : 0;
}

static void call_lease(const struct engine *engine, const struct engine_lease *lease,
                       struct engine_now now, struct queue_result *result)
{
    uint32_t id = lease ? engine_index_find_lease(engine, lease) : 0;
    const struct extra *extra = id ? entry_extra(engine, entry_at(engine, id)) : NULL;
    bool is_held = extra && extra->policy.batch && entry_lease_end_ms(engine, extra) > now.inner_ms;
    result->status = is_held ? QUEUE_OK : QUEUE_LEASE_ENDED;
    if (is_held)
        result->batch = batch_at(engine, extra->policy.batch)->number;
}

/* Takes a report into the counts of a home. Returns the batch; 0: it does not exist. */
static uint32_t home_hear(struct engine *engine, const struct queue_batch_call *call,
                          enum queue_status *status)
{
    uint32_t id = batch_find(engine, call->number);
    struct batch_part *part = id ? batch_parts_of(&batch_at(engine, id)->parts, call->part) : NULL;
    *status = !id ? QUEUE_NOT_FOUND : !part ? QUEUE_NO_MEMORY : QUEUE_OK;
    if (!part)
        return 0;
    batch_part_hear(part,
                    &(struct batch_report){.version = call->version,
                                           .counts = call->counts,
                                           .is_stopped = call->is_stopped},
                    &batch_at(engine, id)->rules);
    return id;
}

static void call_report(struct engine *engine, const struct queue_batch_call *call,
                        struct engine_now now, struct queue_result *result)
{
    uint32_t id = home_hear(engine, call, &result->status);
    if (!id)
        return;
    struct batch *batch = batch_at(engine, id);
    struct batch_part *part = batch_parts_of(&batch->parts, call->part);
    part->ordered = part->followed = 0; /* it may be a new part, which has no orders yet */
    bool stops =
        call->is_stopped && !batch->rules.is_stopped && !batch->rules.has_ended && !batch->is_gone;
    if (stops) {
        batch_stop(engine, id);
        batch_changed(engine, id, now);
    } else {
        batch_note(engine, id);
        home_look(engine, id, now);
    }
}

static void call_order(struct engine *engine, const struct queue_batch_call *call,
                       struct engine_now now)
{
    uint32_t id = batch_find(engine, call->number);
    if (!id)
        return;
    struct batch *batch = batch_at(engine, id);
    if (call->orders & BATCH_ORDER_STOP && !batch->rules.is_stopped) {
        batch_stop(engine, id);
        batch_changed(engine, id, now);
    }
    if (call->orders & BATCH_ORDER_FORGET)
        part_forget(engine, id);
}

void engine_batch_call(struct engine *engine, const struct queue_batch_call *call,
                       const struct engine_lease *lease, bool has_room, struct engine_now now,
                       struct queue_result *result)
{
    result->status = QUEUE_OK;
    switch (call->verb) {
    case QUEUE_BATCH_JOIN:
        call_join(engine, call, result);
        break;
    case QUEUE_BATCH_LEAVE:
        call_leave(engine, call, has_room, now);
        break;
    case QUEUE_BATCH_VERSION:
        result->version = call_version(engine, call);
        break;
    case QUEUE_BATCH_LEASE:
        call_lease(engine, lease, now, result);
        break;
    case QUEUE_BATCH_REPORT:
        call_report(engine, call, now, result);
        break;
    case QUEUE_BATCH_ORDER:
        call_order(engine, call, now);
        break;
    }
}

/* ---- the start ---- */

bool engine_batch_reports(const struct engine *engine, uint32_t *at, struct queue_batch_call *out)
{
    while (engine->batches && *at < engine->batches->slab.top) {
        const struct batch *batch = batch_at(engine, ++*at);
        if (!batch->number || batch->is_gone || !batch_is_part(engine, batch->number))
            continue;
        *out = report_of(engine, batch);
        return true;
    }
    return false;
}

bool engine_batch_heard(struct engine *engine, const struct queue_batch_call *report)
{
    enum queue_status status;
    (void)home_hear(engine, report, &status);
    return status != QUEUE_NO_MEMORY;
}

void engine_batches_begin(struct engine *engine)
{
    for (uint32_t id = 1; engine->batches && id <= engine->batches->slab.top; id++) {
        const struct batch *batch = batch_at(engine, id);
        if (!batch->number)
            continue;
        if (batch_is_over(engine, batch))
            home_fall_due(engine, batch, engine->recovery); /* its last push did not leave */
        batch_note(engine, id);
        batch_let_go(engine, id);
    }
}
