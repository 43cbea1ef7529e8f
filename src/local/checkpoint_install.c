/* Installing: the jobs of the run that was written lie there from now on, and leave memory. */
#include "local/checkpoint_private.h"
#include "local/preload.h"

#include <errno.h>

enum {
    INSTALLS = 2048,
    INSTALLS_AHEAD = 16, /* whose memory is asked for */
    EVICTS = 8192,       /* entries looked at in a turn */
    KEPT_MAX = 512       /* jobs whose record is damaged */
};

/* Jobs whose record cannot be read. One in a run stays there; but the log must stay where a record
 * of it cannot be read. */
static int keep_failed(struct checkpoint *checkpoint)
{
    const struct shard *shard = checkpoint->shard;
    const struct depot_build *build = &checkpoint->build;
    for (size_t i = build->slots; i < build->count; i++)
        if (!record_place_is_run(build->items[i].place))
            return -EIO;
    if (build->failed > KEPT_MAX)
        return -EIO;
    if (wal_has_room(shard->wal, build->failed * (size_t)ENGINE_STATE_BYTES_MAX, WAL_FOR_ANSWER))
        return -EAGAIN;
    for (size_t i = build->slots; i < build->count; i++)
        engine_keep(shard->engine, build->items[i].id, build->items[i].place);
    return 0;
}

bool checkpoint_built(struct checkpoint *checkpoint)
{
    struct depot_build *build = &checkpoint->build;
    int failed = checkpoint->result;
    if (!failed && build->failed)
        failed = keep_failed(checkpoint);
    if (!failed && !depot_install(checkpoint->shard->depot, build))
        failed = -ENOMEM;
    if (failed) {
        checkpoint_give_up(checkpoint, failed, "building a run");
        return false;
    }
    checkpoint->at = 0;
    checkpoint->phase = CHECKPOINT_INSTALLING;
    return true;
}

static void install(struct checkpoint *checkpoint, uint32_t slot)
{
    struct shard *shard = checkpoint->shard;
    const struct depot_item *item = &checkpoint->build.items[slot];
    struct record_place place = depot_build_place(&checkpoint->build, slot);
    enum job_section section;
    if (item->id) {
        if (!engine_install(shard->engine, item->id, item->place, place,
                            (enum job_section)item->section, checkpoint->before_file))
            depot_release(shard->depot, place, &section);
    } else if (!depot_is_alive(shard->depot, item->place)) {
        depot_release(shard->depot, place, &section);
    } else {
        engine_relocate(shard->engine, item->key_low, item->place, place);
    }
}

bool checkpoint_step_installing(struct checkpoint *checkpoint)
{
    const struct depot_build *build = &checkpoint->build;
    for (int left = INSTALLS; left && checkpoint->at < build->slots; left--) {
        if (checkpoint->at + INSTALLS_AHEAD < build->slots)
            engine_install_soon(checkpoint->shard->engine,
                                build->items[checkpoint->at + INSTALLS_AHEAD].id);
        install(checkpoint, checkpoint->at++);
    }
    if (checkpoint->at < checkpoint->build.slots)
        return true;
    if (!depot_installed(checkpoint->shard->depot, &checkpoint->build))
        return false; /* no memory: the next turn tries again */
    preload_view_changed(checkpoint->shard->preload);
    checkpoint->at = 0;
    checkpoint->phase = CHECKPOINT_EVICTING;
    return true;
}

bool checkpoint_step_evicting(struct checkpoint *checkpoint, struct engine_now now)
{
    struct shard *shard = checkpoint->shard;
    if (shard->listings)
        return false;
    if (!engine_evict_some(shard->engine, &checkpoint->at,
                           preload_keep_until_ms(shard->preload, now),
                           preload_ready_max(shard->preload), now, EVICTS))
        return true;
    topics_begin(shard);
    checkpoint->phase = CHECKPOINT_TOPICS;
    return true;
}
