/* What the scout has read comes to memory, some hundreds a turn. */
#include "base/log.h"
#include "local/finding.h"
#include "local/loading_private.h"

#include <errno.h>

enum { LOAD_AT_ONCE = 512, RETRY_MS = 1000, LOGGED = 16 };

/* ---- what cannot be read ---- */

/* Logged once, though it may be met again. */
static bool is_logged(struct loading *loading, uint32_t run, uint32_t slot)
{
    for (unsigned i = 0; i < LOGGED; i++)
        if (loading->unreadable_last[i].file == run && loading->unreadable_last[i].at == slot)
            return true;
    loading->unreadable_last[loading->unreadable % LOGGED] =
        (struct record_place){.file = run, .at = slot};
    return false;
}

void loading_cannot_read(struct loading *loading, uint32_t run, uint32_t slot, const char *why)
{
    if (is_logged(loading, run, slot))
        return;
    loading->unreadable++;
    log_event(LOG_ERROR, "stored job cannot be read, passed by",
              LOG_NUMBER("shard", loading->shard->options.index), LOG_NUMBER("run", run),
              LOG_NUMBER("slot", slot), LOG_TEXT("error", why));
}

/* ---- loading ---- */

/* 0, also where it cannot be loaded ever; -ENOMEM. */
static int load_one(struct loading_slice *slice, const struct loading_item *item,
                    struct engine_now now)
{
    struct record_place place = {
        .file = slice->number | RECORD_IN_RUN, .at = item->slot, .bytes = item->bytes};
    int failed = -EBADMSG;

    if (item->bytes)
        failed = shard_load(slice->loading->shard,
                            slice_make(slice->bytes.at + item->at, item->bytes), place, now);
    if (failed == -ENOMEM)
        return failed;
    if (failed && failed != -ENOENT)
        loading_cannot_read(slice->loading, slice->number, item->slot, "the record is damaged");
    return 0;
}

static void shift(struct loading *loading)
{
    loading_slice_end(loading->queue[0]);
    loading->queue[0] = loading->queue[1];
    loading->queue[1] = NULL;
}

static struct loading_topic *topic_of(struct loading_slice *slice, const struct loading_item *item)
{
    return slice->run->topics[item->topic];
}

/* It was in memory already where the engine has no more entries than before. */
static void count_loaded(struct loading *loading, struct loading_slice *slice,
                         const struct loading_item *item, bool was_far)
{
    struct loading_topic *topic = topic_of(slice, item);

    topic->reading--;
    if (topic->told)
        loading_topic_changed(loading, topic); /* the engine has counted, too */
    if (!slice->refill || slice->run->is_gone || slice->epoch != slice->run->epoch)
        return;
    loading_place_unnote(loading, slice->refill, slice->part, item->when_ms);
    if (topic->mixed && !was_far)
        topic->mixed--;
}

bool loading_load_some(struct loading *loading, struct engine_now now)
{
    int left = LOAD_AT_ONCE;

    while (loading->queue[0]) {
        struct loading_slice *slice = loading->queue[0];
        for (; slice->loaded < slice->item_count; slice->loaded++) {
            const struct loading_item *item = &slice->items[slice->loaded];
            if (!left--)
                return true;
            uint64_t before = engine_entries(loading->shard->engine);
            if (load_one(slice, item, now) == -ENOMEM) {
                log_event(LOG_WARN, "no memory for jobs that come up soon, trying again",
                          LOG_NUMBER("shard", loading->shard->options.index));
                loading->retry_ms = now.inner_ms + RETRY_MS;
                return false;
            }
            count_loaded(loading, slice, item, engine_entries(loading->shard->engine) != before);
        }
        shift(loading);
    }
    return false;
}

void loading_load_none(struct loading *loading)
{
    while (loading->queue[0]) {
        struct loading_slice *slice = loading->queue[0];
        for (uint32_t i = slice->loaded; i < slice->item_count; i++)
            topic_of(slice, &slice->items[i])->reading--;
        shift(loading);
    }
}

static int load_all(struct loading_slice *slice, struct engine_now now)
{
    for (uint32_t i = 0; i < slice->item_count; i++) {
        int failed = load_one(slice, &slice->items[i], now);
        if (failed)
            return failed;
    }
    return 0;
}

int loading_load_part(struct loading *loading, struct loading_run *run, enum job_part part)
{
    struct loading_cursor *cursor = &run->cursors[part];
    int failed = 0;

    while (!failed && cursor->next < cursor->end) {
        struct loading_slice *slice = loading_slice_new(loading, run, part);
        if (!slice)
            return -ENOMEM;
        slice->first = cursor->next;
        slice->end = cursor->end;
        slice->limit_ms = INT64_MAX;
        loading_slice_read(slice);
        failed = slice->error ? slice->error : load_all(slice, shard_now(loading->shard));
        cursor->next = slice->next;
        loading->first.is_known = false;
        loading_slice_end(slice);
        loading_slice_free(slice);
    }
    return failed;
}
