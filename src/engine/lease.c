/* Jobs go out under a lease, and what comes back of them. */
#include "engine/private.h"

size_t engine_take(struct engine *engine, struct slice name, uint32_t max, size_t bytes_max,
                   int64_t lease_ms, struct engine_now now, struct engine_view *out)
{
    struct topic *topic = engine_topic_find(engine, name);
    size_t taken = 0, bytes = 0;
    if (!topic || topic->paused)
        return 0;
    while (taken < max && topic->ready_count) {
        uint32_t id = topic->ready[0].id;
        struct entry *entry = entry_at(engine, id);
        bytes += entry->place.bytes;
        if (taken && bytes > bytes_max)
            break;
        struct extra *extra = entry_need_extra(engine, entry);
        if (!extra)
            break;
        entry_unhang(engine, id);
        entry->attempt++;
        extra->delivery = ++engine->sequence;
        extra->lease_ms = (uint32_t)(lease_ms ? lease_ms : entry_policy(engine, entry).lease_ms);
        extra->taken_ms = now.inner_ms;
        extra->lease_until_ms = now.inner_ms + 1 + extra->lease_ms;
        entry_hang(engine, id, JOB_LEASED, now);
        entry_record(engine, id);
        topic->totals.delivered++;
        entry_view(engine, id, now, &out[taken++]);
    }
    return taken;
}

static void give_back(struct engine *engine, uint32_t id, int64_t delay_ms, struct engine_now now)
{
    struct entry *entry = entry_at(engine, id);
    entry_unhang(engine, id);
    entry->attempt--;
    if (delay_ms > 0)
        entry_set_delay(engine, entry, delay_ms, now);
    entry_hang(engine, id, JOB_READY, now);
    entry_record(engine, id);
}

static void extend(struct engine *engine, uint32_t id, int64_t lease_ms, struct engine_now now,
                   struct queue_result *result)
{
    struct extra *extra = entry_extra(engine, entry_at(engine, id));
    if (!lease_ms)
        lease_ms = extra->lease_ms;
    if (!lease_ms) /* taken before a restart */
        lease_ms = entry_policy(engine, entry_at(engine, id)).lease_ms;
    entry_unhang(engine, id);
    extra->lease_until_ms = now.inner_ms + 1 + lease_ms;
    entry_hang(engine, id, JOB_LEASED, now);
    entry_record(engine, id);
    result->lease_until_ms = extra->lease_until_ms + now.skew_ms;
}

void engine_answer(struct engine *engine, const struct engine_lease *lease,
                   const struct queue_answer *answer, struct engine_now now,
                   struct queue_result *result)
{
    uint32_t id = engine_index_find_lease(engine, lease);
    /* The wheel may not have come round yet: the lease's end counts, not when it was noticed. */
    if (!id || entry_extra(engine, entry_at(engine, id))->lease_until_ms <= now.inner_ms) {
        result->status = QUEUE_LEASE_ENDED;
        return;
    }
    struct entry *entry = entry_at(engine, id);
    result->status = QUEUE_OK;
    switch (answer->verb) {
    case QUEUE_ACK:
        entry_unhang(engine, id);
        entry_finish(engine, id, RECORD_ACKED, now);
        result->state = JOB_FINISHED;
        return;
    case QUEUE_NACK:
        entry_topic(engine, entry)->totals.nacked++;
        entry_unhang(engine, id);
        entry_fail(engine, id, answer->final ? JOB_OUTCOME_REFUSED : JOB_OUTCOME_FAILED,
                   answer->delay_ms, answer->error, now);
        break;
    case QUEUE_EXTEND:
        extend(engine, id, answer->lease_ms, now, result);
        break;
    case QUEUE_RETURN:
        give_back(engine, id, answer->delay_ms, now);
        break;
    }
    result->state = (enum job_state)entry->state;
    result->due_ms = entry_due_wall_ms(entry, now.skew_ms);
}
