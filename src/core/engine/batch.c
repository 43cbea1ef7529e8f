#include "engine/state.h"

#include <assert.h>
#include <stdlib.h>

enum { TABLE_FIRST = 64, SWEEP_STEPS = 4096 };

/* ---- the table ---- */

struct batch *batch_at(const struct engine *engine, uint32_t id)
{
    return slab_at(&engine->batches->slab, id);
}

static uint32_t *table_at(const struct batches *batches, uint64_t number)
{
    return &batches
                ->table[(number * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (batches->table_size - 1)];
}

uint32_t batch_find(const struct engine *engine, uint64_t number)
{
    if (!engine->batches)
        return 0;
    uint32_t id = *table_at(engine->batches, number);
    while (id && batch_at(engine, id)->number != number)
        id = batch_at(engine, id)->next;
    return id;
}

/* Doubles the table if it is full. Returns false if out of memory. */
static bool table_grow(struct engine *engine)
{
    struct batches *batches = engine->batches;
    if (batches->live < batches->table_size)
        return true;
    uint32_t size = batches->table_size ? batches->table_size * 2 : TABLE_FIRST;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table)
        return false;
    free(batches->table);
    batches->table = table;
    batches->table_size = size;
    for (uint32_t id = 1; id <= batches->slab.top; id++) {
        struct batch *batch = batch_at(engine, id);
        if (!batch->number)
            continue;
        uint32_t *at = table_at(batches, batch->number);
        batch->next = *at;
        *at = id;
    }
    return true;
}

uint64_t batch_number(const struct engine *engine, uint64_t sequence)
{
    return engine->batch_home | sequence;
}

bool batch_is_part(const struct engine *engine, uint64_t number)
{
    return engine->batch_home &&
           number >> QUEUE_BATCH_HOME_SHIFT != engine->batch_home >> QUEUE_BATCH_HOME_SHIFT;
}

uint32_t batch_new(struct engine *engine, uint64_t number)
{
    if (!engine->batches) {
        if (!(engine->batches = calloc(1, sizeof *engine->batches)))
            return 0;
        slab_init(&engine->batches->slab, sizeof(struct batch));
    }
    uint32_t id = table_grow(engine) ? slab_add(&engine->batches->slab) : 0;
    if (!id)
        return 0;
    uint32_t *at = table_at(engine->batches, number);
    *batch_at(engine, id) = (struct batch){.number = number, .next = *at};
    *at = id;
    engine->batches->live++;
    return id;
}

static void batch_free(struct engine *engine, uint32_t id)
{
    uint32_t *at = table_at(engine->batches, batch_at(engine, id)->number);
    while (*at != id)
        at = &batch_at(engine, *at)->next;
    *at = batch_at(engine, id)->next;
    batch_parts_fini(&batch_at(engine, id)->parts);
    slab_remove(&engine->batches->slab, id);
    engine->batches->live--;
}

/* Returns whether a home still has to wait for other shards, or a report or order is due. */
static bool batch_is_needed(const struct engine *engine, const struct batch *batch)
{
    return batch->is_due ||
           (batch->parts.count &&
            !batch_parts_are_done(&batch->parts, engine->shard,
                                  batch_parts_orders(&batch->rules, batch->is_gone)));
}

void batch_let_go(struct engine *engine, uint32_t id)
{
    const struct batch *batch = batch_at(engine, id);
    if (batch->is_gone && !batch->linked && !batch->leftovers && !batch_is_needed(engine, batch))
        batch_free(engine, id);
}

void batches_free(struct engine *engine)
{
    if (!engine->batches)
        return;
    for (uint32_t id = 1; id <= engine->batches->slab.top; id++)
        if (batch_at(engine, id)->number)
            batch_parts_fini(&batch_at(engine, id)->parts);
    slab_fini(&engine->batches->slab);
    free(engine->batches->table);
    free(engine->batches);
    engine->batches = NULL;
}

/* ---- records ---- */

static void batch_append(struct engine *engine, const struct batch *batch, bool carried)
{
    /* Each shard stores the counts of its members; the home all of them, once they are final. */
    struct batch_counts counts = batch->rules.counts;
    if (batch->parts.count && !batch->rules.has_ended)
        counts = batch_parts_home(&batch->parts, &batch->rules);
    struct record record = {.kind = RECORD_BATCH,
                            .batch = {.key = batch->key,
                                      .number = batch->number,
                                      .counts = counts,
                                      .on_dead = batch->rules.on_dead,
                                      .members = batch->rules.members,
                                      .depth = batch->rules.depth,
                                      .is_closed = batch->rules.is_closed,
                                      .has_ended = batch->rules.has_ended,
                                      .is_stopped = batch->rules.is_stopped,
                                      .is_gone = batch->is_gone,
                                      .carried = carried,
                                      .due_is_at = batch->due_is_at,
                                      .wait_until_ms = batch->wait_until_ms,
                                      .close_by_ms = batch->close_by_ms,
                                      .due_ms = batch->due_ms,
                                      .stop_sequence = batch->stop_sequence,
                                      .leftovers = batch->leftovers}};
    engine->sink.append(engine->sink.ctx, &record);
    if (engine->batch_home && !carried)
        batch_note(engine, batch_find(engine, batch->number));
}

bool batch_replay(struct engine *engine, const struct record_batch *record)
{
    uint32_t id = batch_find(engine, record->number);
    if (!id && !(id = batch_new(engine, record->number)))
        return false;
    struct batch *batch = batch_at(engine, id);
    batch->is_known = true;
    batch->key = record->key;
    batch->rules = (struct life_batch){.counts = record->counts,
                                       .on_dead = record->on_dead,
                                       .members = record->members,
                                       .depth = record->depth,
                                       .is_closed = record->is_closed,
                                       .has_ended = record->has_ended,
                                       .is_stopped = record->is_stopped};
    batch->is_gone = record->is_gone;
    batch->due_is_at = record->due_is_at;
    batch->wait_until_ms = record->wait_until_ms;
    batch->close_by_ms = record->close_by_ms;
    batch->due_ms = record->due_ms;
    batch->stop_sequence = record->stop_sequence;
    batch->leftovers = record->leftovers;
    uint32_t entry = record->has_ended ? engine_index_find(engine, record->key) : 0;
    if (entry && batch_number(engine, entry_at(engine, entry)->sequence) == record->number &&
        entry_at(engine, entry)->extra)
        entry_extra(engine, entry_at(engine, entry))->marks &= (uint8_t)~EXTRA_WAITS;
    return true;
}

void batch_replayed(struct engine *engine)
{
    if (!engine->batches)
        return;
    for (uint32_t id = 1; id <= engine->batches->slab.top; id++) {
        struct batch *batch = batch_at(engine, id);
        if (!batch->number)
            continue;
        if (!batch->is_known)
            batch->is_gone = true;
        engine->batches->open += !batch->is_gone && !batch_is_part(engine, batch->number);
        if (batch->leftovers) {
            engine->batches->stopped++;
            engine->batches->sweep_at = 1;
        }
        if (engine->batch_home && !batch->is_gone)
            batch_note(engine, id); /* also keeps a stopped one until engine_batches_begin */
        else if (!engine->batch_home || !batch->rules.is_stopped)
            batch_let_go(engine, id);
    }
}

bool batch_carry(struct engine *engine)
{
    struct batches *batches = engine->batches;
    while (batches && batches->carry_at < batches->slab.top) {
        const struct batch *batch = batch_at(engine, ++batches->carry_at);
        bool is_needed = batch->is_gone && batch->parts.count && batch_is_needed(engine, batch);
        if (!batch->number || (batch->is_gone && !batch->leftovers && !batch->leased && !is_needed))
            continue;
        batch_append(engine, batch, true);
        return true;
    }
    if (batches)
        batches->carry_at = 0;
    return false;
}

/* ---- links ---- */

uint32_t batch_of_waiting(const struct engine *engine, const struct entry *entry)
{
    const struct extra *extra = entry_extra(engine, entry);
    return extra && extra->marks & EXTRA_OWNS
               ? batch_find(engine, batch_number(engine, entry->sequence))
               : 0;
}

bool batch_link(struct engine *engine, struct slice encoded, uint32_t *out)
{
    struct job_batch batch;
    *out = 0;
    if (!encoded.len || !job_batch_decode(encoded, &batch) || !batch.topic.len || !batch.number)
        return true;
    uint32_t id = batch_find(engine, batch.number);
    if (!id && engine->recovering && !(id = batch_new(engine, batch.number)))
        return false;
    if (id)
        batch_at(engine, id)->linked++;
    *out = id;
    return true;
}

void batch_unlink(struct engine *engine, uint32_t id)
{
    struct batch *batch = batch_at(engine, id);
    assert(batch->linked);
    batch->linked--;
    if (!engine->recovering)
        batch_let_go(engine, id);
}

bool batch_entry_set(struct engine *engine, struct entry *entry, const struct job *job)
{
    struct extra *extra = entry_extra(engine, entry);
    struct job_batch batch = {0};
    uint32_t member_of;
    extra->marks &= (uint8_t) ~(EXTRA_OWNS | EXTRA_WAITS);
    if (extra->policy.batch)
        batch_unlink(engine, extra->policy.batch);
    extra->policy.batch = 0;
    if (!job->batch.len)
        return true;
    if (!batch_link(engine, job->batch, &member_of))
        return false;
    extra->policy.batch = member_of & 0xfffffffu;
    (void)job_batch_decode(job->batch, &batch);
    if (!batch.waits)
        return true;
    uint64_t number = batch_number(engine, job->sequence);
    uint32_t id = batch_find(engine, number);
    if (!id && engine->recovering && !(id = batch_new(engine, number)))
        return false;
    if (!id)
        return true;
    extra->marks |= EXTRA_OWNS;
    if (!batch_at(engine, id)->rules.has_ended)
        extra->marks |= EXTRA_WAITS;
    return true;
}

/* ---- the end of the wait ---- */

/* Makes the waiting job due, with its record. The end of the wait was recorded. */
static void waiting_release(struct engine *engine, const struct batch *batch, uint32_t id,
                            struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    int64_t due_ms = now.inner_ms;
    bool is_wall = batch->due_is_at && batch->due_ms > now.wall_ms;
    if (is_wall)
        due_ms = batch->due_ms;
    else if (!batch->due_is_at && batch->due_ms)
        due_ms = now.inner_ms + 1 + batch->due_ms;
    entry_unhang(engine, id);
    entry_extra(engine, entry)->marks &= (uint8_t)~EXTRA_WAITS;
    entry->due_ms = (uint64_t)due_ms & 0xffffffffffffu;
    entry->flags = is_wall ? ENTRY_DUE_IS_WALL : 0;
    entry_set_first_due(engine, entry, due_ms);
    entry_hang(engine, id, JOB_DELAYED, now);
    entry_record(engine, id);
    if (entry->state == JOB_READY)
        entry_notify(engine, id, JOB_EVENT_DUE, (struct slice){0}, (struct slice){0}, now);
}

bool batch_is_over(const struct engine *engine, const struct batch *batch)
{
    uint32_t waiting = engine_index_find(engine, batch->key);
    return waiting && !batch->is_gone && !batch_is_part(engine, batch->number) &&
           life_batch_is_over(&batch->rules) && batch_parts_are_complete(&batch->parts) &&
           entry_at(engine, waiting)->state != JOB_DEAD;
}

void batch_changed(struct engine *engine, uint32_t id, struct engine_now now)
{
    struct batch *batch = batch_at(engine, id);
    bool is_over = batch_is_over(engine, batch);
    if (is_over)
        batch->rules.has_ended = true;
    batch_append(engine, batch, false);
    if (is_over)
        waiting_release(engine, batch, engine_index_find(engine, batch->key), now);
}

/* Returns when the wheel returns a waiting job: at the end of the wait, or of the time for a close. */
static int64_t batch_deadline_ms(const struct batch *batch)
{
    return !batch->rules.is_closed && batch->close_by_ms < batch->wait_until_ms
               ? batch->close_by_ms
               : batch->wait_until_ms;
}

/* Links a waiting job at its next deadline, with its record. */
static void waiting_hang(struct engine *engine, const struct batch *batch, uint32_t id,
                         struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    int64_t due_ms = batch_deadline_ms(batch);
    entry_unhang(engine, id);
    entry->due_ms = (uint64_t)due_ms & 0xffffffffffffu;
    entry->flags = 0;
    entry_set_first_due(engine, entry, due_ms);
    entry_hang(engine, id, JOB_DELAYED, now);
    entry_record(engine, id);
}

/* ---- pushes ---- */

/* Returns the batch that a push names, and whether the push has the lease of one of its members. */
static uint32_t named_batch(const struct engine *engine, const struct queue_batch *batch,
                            struct engine_now now, bool *has_parent)
{
    uint32_t waiting =
        engine_index_find(engine, hash_pair(batch->topic, batch->id, engine->hash_seed));
    uint32_t id = waiting ? batch_of_waiting(engine, entry_at(engine, waiting)) : 0;
    const struct engine_lease lease = {.key_low = batch->parent_key,
                                       .delivery = batch->parent_delivery};
    uint32_t parent = batch->parent_delivery ? engine_index_find_lease(engine, &lease) : 0;
    const struct extra *extra = parent ? entry_extra(engine, entry_at(engine, parent)) : NULL;
    *has_parent = id && extra && extra->policy.batch == id &&
                  entry_lease_end_ms(engine, extra) > now.inner_ms;
    return id;
}

bool batch_is_other(const struct engine *engine, const struct queue_batch *batch,
                    const struct entry *entry, struct engine_now now)
{
    const struct extra *extra = entry_extra(engine, entry);
    uint32_t kept = extra ? extra->policy.batch : 0;
    bool has_parent;
    if (engine->batch_home && batch->topic.len)
        return batch->number && (!kept || batch_at(engine, kept)->number != batch->number);
    uint32_t named = batch->topic.len ? named_batch(engine, batch, now, &has_parent) : kept;
    return named != kept && (named || !kept);
}

/* Encodes the batches of a pushed job. */
static void push_encode(const struct engine *engine, const struct queue_batch *batch,
                        struct batch_push *out)
{
    struct job_batch encoded = life_batch_of(batch);
    if (out->member_of) {
        encoded.number = batch_at(engine, out->member_of)->number;
        encoded.depth = (uint8_t)(batch_at(engine, out->member_of)->rules.depth + 1);
    } else {
        encoded.topic = encoded.id = (struct slice){0};
    }
    out->encoded = slice_make(out->room, job_batch_encode(&encoded, out->room));
}

/* Keeps the membership of the job that is replaced, whose record names its batch. Returns false if it cannot be read. */
static bool push_keeps(struct engine *engine, uint32_t old, const struct queue_batch *batch,
                       struct batch_push *out)
{
    const struct entry *entry = entry_at(engine, old);
    struct job_batch kept, own = {0};
    struct job job;
    if (!engine->sink.read ||
        !engine->sink.read(engine->sink.ctx, entry->place,
                           entry_extra(engine, entry)->next == NEXT_STARTED, &job) ||
        !job_batch_decode(job.batch, &kept))
        return false;
    if (batch && batch->waits) {
        struct batch_push waiting = {0};
        push_encode(engine, batch, &waiting);
        (void)job_batch_decode(waiting.encoded, &own);
    }
    own.topic = kept.topic;
    own.id = kept.id;
    own.number = kept.number;
    own.depth = kept.depth;
    out->encoded = slice_make(out->room, job_batch_encode(&own, out->room));
    return true;
}

/* Creates the batch of a waiting job. */
static enum queue_status own_batch_new(struct engine *engine, const struct queue_push *push,
                                       struct hash128 key, uint64_t sequence, struct engine_now now,
                                       struct batch_push *out)
{
    const struct queue_batch *own = push->batch;
    if (engine->batches && engine->batches->open >= BATCHES_MAX)
        return QUEUE_TOO_MANY_BATCHES;
    if (!(out->own = batch_new(engine, batch_number(engine, sequence))))
        return QUEUE_NO_MEMORY;
    engine->batches->open++;
    struct batch *batch = batch_at(engine, out->own);
    struct job_batch encoded;
    (void)job_batch_decode(out->encoded, &encoded);
    batch->key = key;
    batch->is_known = true;
    batch->rules = (struct life_batch){
        .counts = own->past, .on_dead = encoded.on_dead, .members = own->members};
    batch->rules.depth = out->member_of ? encoded.depth : 0;
    batch->wait_until_ms = now.inner_ms + 1 + encoded.wait_ms;
    batch->close_by_ms = now.inner_ms + 1 + encoded.close_ms;
    batch->due_is_at = push->when.due == QUEUE_DUE_AT;
    batch->due_ms = push->when.due == QUEUE_DUE_NOW ? 0 : push->when.ms;
    return QUEUE_OK;
}

enum queue_status batch_push_begin(struct engine *engine, const struct queue_push *push,
                                   struct hash128 key, uint32_t old, uint64_t sequence,
                                   struct engine_now now, struct batch_push *out,
                                   const char **detail)
{
    const struct queue_batch *batch = push->batch;
    const struct extra *extra = old ? entry_extra(engine, entry_at(engine, old)) : NULL;
    uint32_t kept = extra ? extra->policy.batch : 0;
    bool names = batch && batch->topic.len, has_parent = false;
    bool is_spread = engine->batch_home != 0;
    uint32_t named = !names      ? 0
                     : is_spread ? batch_find(engine, batch->number)
                                 : named_batch(engine, batch, now, &has_parent);
    bool names_other =
        names &&
        (is_spread ? batch->number != (kept ? batch_at(engine, kept)->number : 0) : named != kept);
    *out = (struct batch_push){0};
    if (is_spread && names && batch->was_asked && batch->part != engine->shard)
        return QUEUE_ELSEWHERE; /* its topic was moved after the join */
    enum queue_status status =
        old ? life_batch_replace(extra && extra->marks & EXTRA_WAITS, names_other) : QUEUE_OK;
    if (!status && names && !old) {
        status = is_spread
                     ? batch->joined
                     : life_batch_join(named ? &batch_at(engine, named)->rules : NULL, has_parent);
        if (status == QUEUE_BAD_OPTION)
            *detail = "batch"; /* too deep */
        if (!status && is_spread && !named && !(named = batch_part_new(engine, batch)))
            status = QUEUE_NO_MEMORY;
        if (!status && is_spread && batch_is_stopped(engine, named)) /* after the join */
            status = QUEUE_BATCH_CLOSED;
    }
    if (status)
        return status;
    out->member_of = old ? kept : named;
    out->joins = names && !old;
    out->before = old ? life_outcome((enum job_state)entry_at(engine, old)->state) : 0;
    if (old && kept) {
        if (!push_keeps(engine, old, batch, out))
            return QUEUE_UNAVAILABLE;
    } else if (batch) {
        push_encode(engine, batch, out);
    }
    if (batch && batch->waits &&
        (status = own_batch_new(engine, push, key, sequence, now, out)) != QUEUE_OK)
        return status;
    if (out->member_of)
        batch_at(engine, out->member_of)->linked++;
    return QUEUE_OK;
}

void batch_push_undo(struct engine *engine, const struct batch_push *push)
{
    if (push->own) {
        batch_free(engine, push->own);
        engine->batches->open--;
    }
    if (push->member_of)
        batch_unlink(engine, push->member_of);
}

uint64_t batch_push_done(struct engine *engine, const struct batch_push *push, enum job_state state,
                         struct engine_now now)
{
    enum batch_outcome after = life_outcome(state);
    if (push->own) {
        struct batch *own = batch_at(engine, push->own);
        if (own->rules.members && batch_members(&own->rules.counts) >= own->rules.members)
            own->rules.is_closed = true;
        batch_append(engine, own, false);
    }
    if (!push->member_of || (!push->joins && push->before == after))
        return 0;
    struct batch *batch = batch_at(engine, push->member_of);
    if (batch->is_gone || batch->rules.has_ended || (batch->rules.is_stopped && !push->joins))
        return 0; /* a dead member that is replaced after a stop is an ordinary job */
    life_batch_count(&batch->rules, push->joins, push->before, after);
    batch_changed(engine, push->member_of, now);
    return batch->version;
}

/* ---- members ---- */

/* Counts the waiting members as cancelled: they are leftovers from now on. */
void batch_stop(struct engine *engine, uint32_t id)
{
    struct batch *batch = batch_at(engine, id);
    struct batch_counts *counts = &batch->rules.counts;
    if (batch->rules.is_stopped)
        return;
    uint32_t here = batch_parts_home(&batch->parts, &batch->rules).of[BATCH_UNFINISHED];
    uint32_t waiting = here > batch->leased ? here - batch->leased : 0;
    batch->rules.is_stopped = batch->rules.is_closed = true;
    batch->stop_sequence = engine->sequence;
    batch->leftovers = waiting;
    counts->of[BATCH_UNFINISHED] -= waiting;
    counts->of[BATCH_CANCELLED] += waiting;
    if (waiting) {
        engine->batches->stopped++;
        engine->batches->sweep_at = 1;
    }
}

void batch_member_changed(struct engine *engine, uint32_t id, enum batch_outcome before,
                          enum batch_outcome after, struct engine_now now)
{
    struct batch *batch = batch_at(engine, id);
    /* After a stop only the ends of members count, which batch_entry_ended counts. */
    if (before == after || batch->is_gone || batch->rules.has_ended || batch->rules.is_stopped)
        return;
    life_batch_count(&batch->rules, false, before, after);
    if (life_batch_stops(&batch->rules, after))
        batch_stop(engine, id);
    batch_changed(engine, id, now);
}

/* Counts the end of a member that was leased or dead when its batch was stopped. Every other member is a leftover, or an ordinary
 * job since its redrive. */
static void stopped_member_ended(struct engine *engine, uint32_t id, const struct entry *entry,
                                 enum record_reason reason, struct engine_now now)
{
    struct batch *batch = batch_at(engine, id);
    if ((entry->state != JOB_LEASED && entry->state != JOB_DEAD) ||
        !batch_stop_concerns(engine, entry_extra(engine, entry)) || batch->is_gone ||
        batch->rules.has_ended)
        return;
    life_batch_count(&batch->rules, false, life_outcome((enum job_state)entry->state),
                     life_outcome_of(life_end(reason)));
    batch_changed(engine, id, now);
}

bool batch_is_leftover(const struct engine *engine, const struct entry *entry)
{
    const struct extra *extra = entry_extra(engine, entry);
    if (!extra || !extra->policy.batch)
        return false;
    const struct batch *batch = batch_at(engine, extra->policy.batch);
    return batch->rules.is_stopped && batch->leftovers &&
           (entry->state == JOB_DELAYED || entry->state == JOB_READY) &&
           extra->delivery <= batch->stop_sequence;
}

void batch_remove_leftover(struct engine *engine, uint32_t id, struct engine_now now)
{
    entry_unhang(engine, id);
    entry_notify(engine, id, JOB_EVENT_CANCELLED, (struct slice){0}, (struct slice){0}, now);
    entry_finish(engine, id, RECORD_CANCELLED, now);
}

void batch_kept_back_due(struct engine *engine, uint32_t id, struct engine_now now)
{
    if (entry_waits_for_members(engine, entry_at(engine, id)))
        batch_fall_due(engine, id, now);
    else if (!kept_waits_for_room(engine, id, now))
        batch_remove_leftover(engine, id, now);
}

void batch_sweep(struct engine *engine, struct engine_now now, size_t max)
{
    struct batches *batches = engine->batches;
    for (int steps = SWEEP_STEPS; batches->sweep_at && steps && max; steps--) {
        uint32_t id = batches->sweep_at++;
        if (id > engine->entries.top || !batches->stopped) {
            batches->sweep_at = 0;
            return;
        }
        const struct entry *entry = entry_at(engine, id);
        if (!entry->state || !batch_is_leftover(engine, entry))
            continue;
        batch_remove_leftover(engine, id, now);
        max--;
    }
}

void batch_entry_ended(struct engine *engine, uint32_t id, enum record_reason reason,
                       struct engine_now now)
{
    const struct entry *entry = entry_at(engine, id);
    const struct extra *extra = entry_extra(engine, entry);
    uint32_t number = extra->policy.batch;
    if (extra->marks & EXTRA_OWNS)
        batch_drop(engine, entry->sequence);
    if (!number)
        return;
    if (!batch_is_leftover(engine, entry)) {
        if (batch_is_stopped(engine, number))
            stopped_member_ended(engine, number, entry, reason, now);
        else
            batch_member_changed(engine, number, life_outcome((enum job_state)entry->state),
                                 life_outcome_of(life_end(reason)), now);
        return;
    }
    struct batch *batch = batch_at(engine, number);
    if (--batch->leftovers == 0)
        engine->batches->stopped--;
    batch_append(engine, batch, false);
}

bool batch_is_stopped(const struct engine *engine, uint32_t id)
{
    return id && batch_at(engine, id)->rules.is_stopped;
}

int64_t batch_first_due_ms(const struct engine *engine, uint32_t id)
{
    return batch_deadline_ms(batch_at(engine, id));
}

bool batch_again(struct engine *engine, uint32_t id, struct batch_push *out)
{
    out->member_of = entry_extra(engine, entry_at(engine, id))->policy.batch;
    return push_keeps(engine, id, NULL, out);
}

void batch_view(const struct engine *engine, const struct entry *entry, struct engine_view *out)
{
    uint32_t id = batch_of_waiting(engine, entry);
    out->has_batch = id;
    out->waits = entry_extra(engine, entry)->marks & EXTRA_WAITS;
    if (id)
        batch_show(engine, id, &out->waiting);
}

/* ---- the waiting job ---- */

void batch_drop(struct engine *engine, uint64_t sequence)
{
    uint32_t id = batch_find(engine, batch_number(engine, sequence));
    if (!id)
        return;
    struct batch *batch = batch_at(engine, id);
    engine->batches->open -= !engine->recovering;
    batch->is_gone = true;
    bool is_kept =
        batch->leftovers || (batch->rules.is_stopped && (batch->leased || batch->parts.count));
    if (!engine->recovering && is_kept)
        batch_append(engine, batch, false);
    else if (!engine->recovering && engine->batch_home)
        batch_note(engine, id);
    if (!engine->recovering)
        batch_let_go(engine, id);
}

enum queue_status batch_close(struct engine *engine, uint32_t entry, struct engine_now now)
{
    uint32_t id = batch_of_waiting(engine, entry_at(engine, entry));
    if (!id)
        return QUEUE_NOT_FOUND;
    struct batch *batch = batch_at(engine, id);
    if (batch->rules.is_closed)
        return QUEUE_OK;
    batch->rules.is_closed = true;
    batch_changed(engine, id, now);
    if (!batch->rules.has_ended && entry_at(engine, entry)->state != JOB_DEAD)
        waiting_hang(engine, batch, entry, now);
    return QUEUE_OK;
}

void batch_run(struct engine *engine, uint32_t entry, struct engine_now now)
{
    uint32_t id = batch_of_waiting(engine, entry_at(engine, entry));
    struct batch *batch = batch_at(engine, id);
    batch->rules.has_ended = true;
    batch->due_is_at = false;
    batch->due_ms = 0;
    batch_append(engine, batch, false);
    waiting_release(engine, batch, entry, now);
}

void batch_reschedule(struct engine *engine, uint32_t entry, const struct queue_when *when,
                      struct engine_now now)
{
    uint32_t id = batch_of_waiting(engine, entry_at(engine, entry));
    struct batch *batch = batch_at(engine, id);
    (void)now;
    if (when->due == QUEUE_DUE_UNCHANGED)
        return;
    batch->due_is_at = when->due == QUEUE_DUE_AT;
    batch->due_ms = when->due == QUEUE_DUE_NOW ? 0 : when->ms;
    batch_append(engine, batch, false);
}

/* The waiting job dies, because its batch was not closed. */
static void waiting_dies(struct engine *engine, uint32_t id, struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    const struct slice none = {0}, error = slice_of(BATCH_NOT_CLOSED);
    const struct extra *extra = entry_extra(engine, entry);
    entry_unhang(engine, id);
    entry_set_texts(engine, entry, entry_history(extra), error);
    entry_hang(engine, id, JOB_DEAD, now);
    entry_died(engine, entry);
    entry_record(engine, id);
    entry_notify(engine, id, JOB_EVENT_DEAD, none, error, now);
    if (entry_topic(engine, entry)->awaited)
        kept_died(engine, id, now);
    if (extra->policy.batch)
        batch_member_changed(engine, extra->policy.batch, BATCH_UNFINISHED, BATCH_DEAD, now);
}

void batch_fall_due(struct engine *engine, uint32_t entry, struct engine_now now)
{
    uint32_t id = batch_of_waiting(engine, entry_at(engine, entry));
    if (!id) { /* its record was lost */
        entry_extra(engine, entry_at(engine, entry))->marks &=
            (uint8_t) ~(EXTRA_OWNS | EXTRA_WAITS);
        entry_unhang(engine, entry);
        entry_hang(engine, entry, JOB_READY, now);
        return;
    }
    struct batch *batch = batch_at(engine, id);
    int64_t deadline_ms = batch_deadline_ms(batch);
    if (batch_is_over(engine, batch)) { /* after a crash: engine_batches_begin */
        batch_changed(engine, id, now);
        return;
    }
    if (deadline_ms > now.inner_ms) { /* linked with an earlier deadline */
        entry_unhang(engine, entry);
        entry_at(engine, entry)->due_ms = (uint64_t)deadline_ms & 0xffffffffffffu;
        entry_hang(engine, entry, JOB_DELAYED, now);
        return;
    }
    if (deadline_ms == batch->wait_until_ms) {
        batch->rules.has_ended = true;
        batch_append(engine, batch, false);
        waiting_release(engine, batch, entry, now);
        return;
    }
    waiting_dies(engine, entry, now);
}

void batch_redriven(struct engine *engine, uint32_t entry, struct engine_now now)
{
    uint32_t id = batch_of_waiting(engine, entry_at(engine, entry));
    struct batch *batch = batch_at(engine, id);
    batch->rules.is_closed = true;
    if (batch->wait_until_ms <= now.inner_ms)
        batch->rules.has_ended = true;
    if (batch->rules.has_ended) {
        batch_append(engine, batch, false);
        waiting_release(engine, batch, entry, now);
        return;
    }
    waiting_hang(engine, batch, entry, now);
    batch_changed(engine, id, now);
}

void batch_show(const struct engine *engine, uint32_t id, struct queue_waiting *out)
{
    const struct batch *batch = batch_at(engine, id);
    *out = (struct queue_waiting){.counts = batch->rules.counts,
                                  .on_dead = batch->rules.on_dead,
                                  .is_closed = batch->rules.is_closed,
                                  .has_ended = batch->rules.has_ended};
    if (batch->due_ms)
        out->when =
            (struct queue_when){batch->due_is_at ? QUEUE_DUE_AT : QUEUE_DUE_DELAY, batch->due_ms};
}

/* ---- invariants ---- */

void batch_check(const struct engine *engine)
{
    if (!engine->batches)
        return;
    uint32_t live = 0, stopped = 0;
    for (uint32_t id = 1; id <= engine->batches->slab.top; id++) {
        const struct batch *batch = batch_at(engine, id);
        uint32_t linked = 0, leased = 0;
        if (!batch->number)
            continue;
        live++;
        stopped += batch->leftovers != 0;
        for (uint32_t i = 1; i <= engine->entries.top; i++) {
            const struct entry *entry = entry_at(engine, i);
            const struct extra *extra = entry->state ? entry_extra(engine, entry) : NULL;
            if (extra && extra->policy.batch == id) {
                linked++;
                leased += entry->state == JOB_LEASED;
            }
            if (extra && extra->successor) {
                const struct successor *next = slab_at(&engine->successors, extra->successor);
                linked += next->policy.batch == id;
            }
        }
        assert(linked == batch->linked && leased == batch->leased);
        assert(batch_find(engine, batch->number) == id);
        uint32_t waiting = engine_index_find(engine, batch->key);
        if (batch->is_gone || !waiting) /* a dead waiting job may be cold */
            continue;
        assert(batch_of_waiting(engine, entry_at(engine, waiting)) == id);
        assert(!(entry_extra(engine, entry_at(engine, waiting))->marks & EXTRA_WAITS) ==
               batch->rules.has_ended);
    }
    assert(live == engine->batches->live && stopped == engine->batches->stopped);
}
