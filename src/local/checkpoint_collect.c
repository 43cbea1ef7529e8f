/* Collecting: which jobs must be written to the new run, a bounded number of entries a turn. */
#include "local/checkpoint_private.h"

#include <stdlib.h>

enum {
    STEPS = 8192,            /* entries looked at in a turn */
    COLD_MS = 10 * 60 * 1000 /* who is due later is not read soon */
};

static bool reserve_changed(struct checkpoint *checkpoint)
{
    if (checkpoint->changed_count < checkpoint->changed_cap)
        return true;
    size_t cap = checkpoint->changed_cap ? checkpoint->changed_cap * 2 : 256;
    struct engine_changed **grown = realloc(checkpoint->changed, cap * sizeof(*grown));
    if (!grown)
        return false;
    checkpoint->changed = grown;
    checkpoint->changed_cap = cap;
    return true;
}

static bool reserve_item(struct depot_build *build)
{
    if (build->count < build->cap)
        return true;
    size_t cap = build->cap ? build->cap + build->cap / 2 : 4096;
    struct depot_item *items = realloc(build->items, cap * sizeof *items);
    if (!items)
        return false;
    build->items = items;
    build->cap = cap;
    return true;
}

static bool on_item(void *ctx, const struct engine_item *item)
{
    struct checkpoint *checkpoint = ctx;
    struct depot_build *build = &checkpoint->build;
    if (!reserve_item(build) || (item->changed && !reserve_changed(checkpoint)))
        return false; /* what changed stays the engine's */
    if (item->changed)
        checkpoint->changed[checkpoint->changed_count++] = item->changed;
    build->items[build->count++] =
        (struct depot_item){.when_ms = (uint64_t)item->when_ms & 0xffffffffffffu,
                            .section = (uint64_t)item->section & 0xff,
                            .sequence = item->sequence,
                            .place = item->place,
                            .id = item->id,
                            .changed = item->changed};
    return true;
}

static bool is_victim(void *ctx, uint32_t number)
{
    const struct checkpoint *checkpoint = ctx;
    const struct depot_run *run = depot_view_run(depot_view(checkpoint->shard->depot), number);
    return run && run->is_victim;
}

void checkpoint_begin(struct checkpoint *checkpoint, uint32_t before_file, struct engine_now now)
{
    checkpoint->before_file = before_file;
    checkpoint->began_ms = now.inner_ms;
    checkpoint->build = (struct depot_build){.no_victims = checkpoint->is_without_space,
                                             .cold_ms = now.inner_ms + COLD_MS,
                                             .read_log = checkpoint_read_log,
                                             .apply = checkpoint_apply,
                                             .ctx = checkpoint};
    int failed = depot_plan(checkpoint->shard->depot, &checkpoint->build);
    if (failed) {
        checkpoint_complain(checkpoint, failed, "planning", checkpoint->build.error);
        checkpoint_become_idle(checkpoint);
        return;
    }
    checkpoint->collect = (struct engine_collect){
        .before_file = before_file, .is_victim = is_victim, .each = on_item, .ctx = checkpoint};
    checkpoint->phase = CHECKPOINT_COLLECTING;
}

bool checkpoint_step_collecting(struct checkpoint *checkpoint, struct engine_now now)
{
    int result = engine_collect(checkpoint->shard->engine, &checkpoint->collect, now, STEPS);
    if (result == 1)
        return true;
    if (result < 0)
        checkpoint_give_up(checkpoint, result, "collecting");
    else
        checkpoint_give(checkpoint, CHECKPOINT_BUILDING);
    return false;
}

void checkpoint_forget_changed(struct checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->changed_count; i++)
        engine_changed_free(checkpoint->changed[i]);
    free(checkpoint->changed);
    checkpoint->changed = NULL;
    checkpoint->changed_count = checkpoint->changed_cap = 0;
}
