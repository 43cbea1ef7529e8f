/* Carrying what still counts out of an old log file. */
#include "engine/private.h"

size_t engine_room_carry(const struct record *record)
{
    return record_bytes_max(record) + ENGINE_STATE_BYTES_MAX + JOB_HISTORY_BYTES_MAX;
}

static void carry_job(struct engine *engine, uint32_t id, const struct record *old,
                      struct record_place place)
{
    struct entry *entry = entry_at(engine, id);
    const struct extra *extra = entry_extra(engine, entry);
    struct record record = *old;
    struct job *job = &record.job;
    record.origin = RECORD_CARRIED;
    job->state = entry->state == JOB_READY ? JOB_DELAYED : (enum job_state)entry->state;
    job->due_is_wall = entry->flags & ENTRY_DUE_IS_WALL;
    job->due_ms = (int64_t)entry->due_ms;
    job->first_due_ms = entry_first_due_ms(engine, entry);
    job->priority = (uint16_t)entry->priority;
    job->attempt = entry->attempt;
    job->delivery = extra ? extra->delivery : 0;
    job->lease_until_ms = job->state == JOB_LEASED ? extra->lease_until_ms : 0;
    job->taken_ms = job->state == JOB_LEASED ? extra->taken_ms : 0;
    job->history = entry_history(extra);
    job->error = entry_error(extra);
    entry->place = engine->sink.append(engine->sink.ctx, &record);
    if (job->state == JOB_DEAD)
        entry_topic(engine, entry)->counts.dead_bytes += entry->place.bytes - (uint64_t)place.bytes;
    entry_is_said(engine, entry);
    if (engine->sink.release)
        engine->sink.release(engine->sink.ctx, place);
}

void engine_carry(struct engine *engine, const struct record *old, struct record_place place)
{
    if (old->kind == RECORD_JOB) {
        uint32_t id =
            engine_index_find(engine, hash_pair(old->job.topic, old->job.id, engine->hash_seed));
        if (id && entry_is_at(entry_at(engine, id), place))
            carry_job(engine, id, old, place);
    } else if (old->kind == RECORD_DONE && old->done.remember_until_ms) {
        uint32_t id = engine_index_find(engine, old->done.key);
        if (!id || !entry_is_at(entry_at(engine, id), place))
            return;
        struct record record = *old;
        record.done.carried = true;
        struct record_place fresh = engine->sink.append(engine->sink.ctx, &record);
        if (engine->sink.release)
            engine->sink.release(engine->sink.ctx, place);
        if (engine->sink.retain)
            engine->sink.retain(engine->sink.ctx, fresh);
        entry_at(engine, id)->place = fresh;
    }
}
