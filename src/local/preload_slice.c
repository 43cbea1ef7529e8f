/*
 * A slice: a stretch of a run, read by the scout. What is wanted of it is decided by the directory
 * alone; what is passed by is written down, for the owner to note.
 */
#include "local/preload_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    JOBS_MAX = 4096,
    LOOKED_MAX = 16384,  /* slots of the directory */
    BYTES_MAX = 1 << 20, /* of records; the last may go beyond */
    ITEMS_FIRST = 64,
    BYTES_KEPT = 2 << 20 /* what is kept for the next slice */
};

static bool item_room(struct preload_slice *slice)
{
    if (slice->item_count < slice->item_cap)
        return true;
    uint32_t cap = slice->item_cap ? slice->item_cap * 2 : ITEMS_FIRST;
    struct preload_item *items = realloc(slice->items, cap * sizeof *items);
    if (!items)
        return false;
    slice->items = items;
    slice->item_cap = cap;
    return true;
}

static bool pass_room(struct preload_slice *slice)
{
    if (slice->pass_count < slice->pass_cap)
        return true;
    uint32_t cap = slice->pass_cap ? slice->pass_cap * 2 : ITEMS_FIRST;
    struct preload_pass *passes = realloc(slice->passes, cap * sizeof *passes);
    if (!passes)
        return false;
    slice->passes = passes;
    slice->pass_cap = cap;
    return true;
}

static int pass_by(struct preload_slice *slice, uint32_t slot, const struct run_slot *entry)
{
    if (!pass_room(slice)) {
        slice->no_memory = true;
        return -ENOMEM;
    }
    slice->passes[slice->pass_count++] =
        (struct preload_pass){.when_ms = entry->when_ms, .slot = slot, .topic = entry->topic};
    return 0;
}

static bool is_held(const struct preload_slice *slice, uint32_t topic)
{
    return preload_part_waits(slice->section) && topic < slice->run->topic_count &&
           atomic_load_explicit(&slice->run->topics[topic]->held, memory_order_relaxed);
}

static int wants(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    struct preload_slice *slice = ctx;

    if (slice->looked == LOOKED_MAX)
        return -EAGAIN;
    if (entry->when_ms > slice->limit_ms) {
        slice->stop_slot = slot;
        slice->stop_ms = entry->when_ms;
        return -EAGAIN;
    }
    slice->looked++;
    if (!alive_test(&slice->depot_run->alive, slot) ||
        (slice->refill && entry->topic != slice->topic))
        return 0;
    if (!slice->refill && is_held(slice, entry->topic))
        return pass_by(slice, slot, entry);
    if (slice->wanted == slice->jobs_max)
        return -EAGAIN;
    slice->wanted++;
    return 1;
}

static bool each(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice record)
{
    struct preload_slice *slice = ctx;
    char *into = NULL;

    if (item_room(slice))
        into = buffer_reserve(&slice->bytes, record.len ? record.len : 1);
    if (!into) {
        slice->no_memory = true;
        slice->refused = slot;
        return false;
    }
    if (record.len)
        memcpy(into, record.at, record.len);
    slice->items[slice->item_count++] = (struct preload_item){.when_ms = entry->when_ms,
                                                              .at = slice->bytes.len,
                                                              .bytes = (uint32_t)record.len,
                                                              .slot = slot,
                                                              .topic = entry->topic};
    slice->bytes.len += record.len;
    return slice->bytes.len < BYTES_MAX;
}

/* What was passed by before a scan ended early is passed again by the next. */
static void trim_passes(struct preload_slice *slice)
{
    while (slice->pass_count && slice->passes[slice->pass_count - 1].slot >= slice->next)
        slice->pass_count--;
}

void preload_slice_read(struct preload_slice *slice)
{
    struct run_scan scan = {
        .first = slice->first, .end = slice->end, .wants = wants, .each = each, .ctx = slice};

    slice->next = slice->first;
    slice->refused = UINT32_MAX;
    slice->stop_slot = UINT32_MAX;
    slice->error = depot_scan(slice->depot_run, &scan, &slice->next);
    if (slice->refused < slice->next)
        slice->next = slice->refused;
    if (!slice->error && slice->no_memory)
        slice->error = -ENOMEM;
    trim_passes(slice);
}

static void on_scout(struct work *work)
{
    preload_slice_read((struct preload_slice *)(void *)work);
}

static void on_back(struct work *work)
{
    struct preload_slice *slice = (struct preload_slice *)(void *)work;
    struct preload *preload = slice->preload;

    assert(preload->reading == slice);
    preload->reading = NULL;
    preload_took_in(preload, slice, shard_now(preload->shard));
}

/* The run has just left the view, or there is no memory. */
static void give_up(struct preload_slice *slice)
{
    if (slice->view)
        depot_let_go(slice->view);
    slice->view = NULL;
    preload_recent_give_spare(slice->preload, slice);
}

struct preload_slice *preload_slice_new(struct preload *preload, struct preload_run *run,
                                        enum job_section section)
{
    struct preload_slice *slice = preload_recent_take_spare(preload);

    if (!slice) {
        slice = calloc(1, sizeof *slice);
        if (!slice)
            return NULL;
        buffer_init(&slice->bytes, SIZE_MAX / 2);
    }
    buffer_shrink(&slice->bytes, BYTES_KEPT);
    slice->work = (struct work){.perform = on_scout, .done = on_back};
    slice->preload = preload;
    slice->view = depot_hold(preload->shard->depot);
    slice->depot_run = slice->view ? depot_view_run(slice->view, run->number) : NULL;
    if (!slice->depot_run) {
        give_up(slice);
        return NULL;
    }
    slice->run = run;
    run->holds++;
    slice->refill = NULL;
    slice->section = section;
    slice->number = run->number;
    slice->epoch = run->epoch;
    slice->jobs_max = JOBS_MAX;
    slice->looked = slice->wanted = slice->loaded = 0;
    slice->item_count = slice->pass_count = 0;
    slice->no_memory = false;
    slice->error = 0;
    return slice;
}

void preload_slice_free(struct preload_slice *slice)
{
    if (!slice)
        return;
    buffer_fini(&slice->bytes);
    free(slice->items);
    free(slice->passes);
    free(slice);
}

void preload_slice_end(struct preload_slice *slice)
{
    struct preload_run *run = slice->run;
    struct preload_place *refilled = slice->refill;

    depot_let_go(slice->view);
    slice->view = NULL;
    slice->depot_run = NULL;
    slice->run = NULL;
    slice->refill = NULL;
    if (refilled && !run->is_gone)
        preload_place_settle(slice->preload, refilled, slice->section);
    run->holds--;
    preload_run_let_go(run, slice->preload);
}

size_t preload_slice_bytes(const struct preload_slice *slice)
{
    return sizeof *slice + slice->bytes.cap + slice->item_cap * sizeof *slice->items;
}
