/* What the scout has read comes to memory, some hundreds a turn. */
#include "base/log.h"
#include "local/lookup.h"
#include "local/preload_private.h"

#include <errno.h>

enum { LOAD_AT_ONCE = 512, RETRY_MS = 1000, LOGGED = 16 };

/* ---- what cannot be read ---- */

/* Logged once, though it may be met again. */
static bool is_logged(struct preload *preload, uint32_t run, uint32_t slot)
{
    for (unsigned i = 0; i < LOGGED; i++)
        if (preload->unreadable_last[i].file == run && preload->unreadable_last[i].at == slot)
            return true;
    preload->unreadable_last[preload->unreadable % LOGGED] =
        (struct record_place){.file = run, .at = slot};
    return false;
}

void preload_cannot_read(struct preload *preload, uint32_t run, uint32_t slot, const char *why)
{
    if (is_logged(preload, run, slot))
        return;
    preload->unreadable++;
    log_event(LOG_ERROR, "stored job cannot be read, passed by",
              LOG_NUMBER("shard", preload->shard->options.index), LOG_NUMBER("run", run),
              LOG_NUMBER("slot", slot), LOG_TEXT("error", why));
}

/* ---- loading ---- */

/* 0, also where it cannot be loaded ever; -ENOMEM. */
static int load_one(struct preload_slice *slice, const struct preload_item *item,
                    struct engine_now now)
{
    struct record_place place = {
        .file = slice->number | RECORD_IN_RUN, .at = item->slot, .bytes = item->bytes};
    int failed = -EBADMSG;

    if (item->bytes)
        failed = shard_load(slice->preload->shard,
                            slice_make(slice->bytes.at + item->at, item->bytes), place, now);
    if (failed == -ENOMEM)
        return failed;
    if (failed && failed != -ENOENT)
        preload_cannot_read(slice->preload, slice->number, item->slot, "the record is damaged");
    return 0;
}

static void shift(struct preload *preload)
{
    preload_slice_end(preload->queue[0]);
    preload->queue[0] = preload->queue[1];
    preload->queue[1] = NULL;
}

static struct preload_topic *topic_of(struct preload_slice *slice, const struct preload_item *item)
{
    return slice->run->topics[item->topic];
}

/* It was in memory already where the engine has no more entries than before. */
static void count_loaded(struct preload *preload, struct preload_slice *slice,
                         const struct preload_item *item, bool was_cold)
{
    struct preload_topic *topic = topic_of(slice, item);

    topic->reading--;
    if (topic->told)
        preload_topic_changed(preload, topic); /* the engine has counted, too */
    if (!slice->refill || slice->run->is_gone || slice->epoch != slice->run->epoch)
        return;
    preload_place_unnote(preload, slice->refill, slice->section, item->when_ms);
    if (topic->mixed && !was_cold)
        topic->mixed--;
}

bool preload_load_some(struct preload *preload, struct engine_now now)
{
    int left = LOAD_AT_ONCE;

    while (preload->queue[0]) {
        struct preload_slice *slice = preload->queue[0];
        for (; slice->loaded < slice->item_count; slice->loaded++) {
            const struct preload_item *item = &slice->items[slice->loaded];
            if (!left--)
                return true;
            uint64_t before = engine_entries(preload->shard->engine);
            if (load_one(slice, item, now) == -ENOMEM) {
                log_event(LOG_WARN, "no memory for jobs that come up soon, trying again",
                          LOG_NUMBER("shard", preload->shard->options.index));
                preload->retry_ms = now.inner_ms + RETRY_MS;
                return false;
            }
            count_loaded(preload, slice, item, engine_entries(preload->shard->engine) != before);
        }
        shift(preload);
    }
    return false;
}

void preload_load_none(struct preload *preload)
{
    while (preload->queue[0]) {
        struct preload_slice *slice = preload->queue[0];
        for (uint32_t i = slice->loaded; i < slice->item_count; i++)
            topic_of(slice, &slice->items[i])->reading--;
        shift(preload);
    }
}

static int load_all(struct preload_slice *slice, struct engine_now now)
{
    for (uint32_t i = 0; i < slice->item_count; i++) {
        int failed = load_one(slice, &slice->items[i], now);
        if (failed)
            return failed;
    }
    return 0;
}

int preload_load_section(struct preload *preload, struct preload_run *run, enum job_section section)
{
    struct preload_cursor *cursor = &run->cursors[section];
    int failed = 0;

    while (!failed && cursor->next < cursor->end) {
        struct preload_slice *slice = preload_slice_new(preload, run, section);
        if (!slice)
            return -ENOMEM;
        slice->first = cursor->next;
        slice->end = cursor->end;
        slice->limit_ms = INT64_MAX;
        preload_slice_read(slice);
        failed = slice->error ? slice->error : load_all(slice, shard_now(preload->shard));
        cursor->next = slice->next;
        preload->first.is_known = false;
        preload_slice_end(slice);
        preload_slice_free(slice);
    }
    return failed;
}
