#include "local/cold_scan.h"

#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    SLICE_JOBS = 1024,
    SLICE_BYTES = 4 << 20,
    SLICE_SLOTS = 1 << 19 /* looked at before others have their turn with the scout */
};

struct cold_found {
    uint32_t slot, bytes;
    size_t at;
};

struct cold_scan {
    struct work work;
    struct shard *shard;
    char topic[JOB_TOPIC_BYTES_MAX];
    size_t topic_bytes;
    unsigned sections;
    /* Where it has come to: a run, a part of it, a slot. */
    uint32_t run, section, slot;
    bool is_reading, is_through; /* with this run */
    bool met_damage;
    int result;
    struct depot_view *view;
    struct cold_found found[SLICE_JOBS];
    size_t count, given;
    uint32_t looked_at, topic_number;
    struct buffer records;
};

struct cold_scan *cold_scan_new(struct shard *shard, struct slice topic, unsigned sections)
{
    struct cold_scan *walk = calloc(1, sizeof *walk);
    if (!walk)
        return NULL;
    walk->shard = shard;
    walk->topic_bytes = topic.len;
    memcpy(walk->topic, topic.at, topic.len);
    walk->sections = sections;
    walk->is_through = true;
    buffer_init(&walk->records, SIZE_MAX / 2);
    return walk;
}

void cold_scan_free(struct cold_scan *walk)
{
    if (!walk)
        return;
    assert(!walk->is_reading);
    buffer_fini(&walk->records);
    free(walk);
}

bool cold_scan_is_reading(const struct cold_scan *walk)
{
    return walk && walk->is_reading;
}

bool cold_scan_met_damage(const struct cold_scan *walk)
{
    return walk && walk->met_damage;
}

/* ---- on the scout ---- */

static int wants(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    struct cold_scan *walk = ctx;
    const struct depot_run *run = depot_view_run(walk->view, walk->run);
    if (walk->looked_at++ >= SLICE_SLOTS)
        return -EAGAIN;
    return entry->topic == walk->topic_number && alive_test(&run->alive, slot);
}

static bool each(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice record)
{
    struct cold_scan *walk = ctx;
    (void)entry;
    struct cold_found *found = &walk->found[walk->count++];
    *found =
        (struct cold_found){.slot = slot, .bytes = (uint32_t)record.len, .at = walk->records.len};
    buffer_append_slice(&walk->records, record);
    return walk->count < SLICE_JOBS && walk->records.len < SLICE_BYTES;
}

static bool is_full(const struct cold_scan *walk)
{
    return walk->count == SLICE_JOBS || walk->records.len >= SLICE_BYTES ||
           walk->looked_at >= SLICE_SLOTS;
}

static void on_scout(struct work *work)
{
    struct cold_scan *walk = (struct cold_scan *)(void *)work;
    const struct depot_run *depot_run = depot_view_run(walk->view, walk->run);
    const struct run *run = depot_run->run;
    const struct run_info *info = run_info(run);
    walk->topic_number = run_find_topic(run, slice_make(walk->topic, walk->topic_bytes));
    walk->result = 0;
    while (walk->topic_number != UINT32_MAX && walk->section < SECTIONS && !is_full(walk)) {
        uint32_t first = info->sections[walk->section].first,
                 end = first + info->sections[walk->section].count;
        if (walk->slot < first)
            walk->slot = first;
        if (walk->sections & 1u << walk->section && walk->slot < end) {
            struct run_scan scan = {
                .first = walk->slot, .end = end, .wants = wants, .each = each, .ctx = walk};
            walk->result = depot_scan(depot_run, &scan, &walk->slot);
            if (walk->result < 0)
                return;
            if (walk->slot < end)
                continue;
        }
        walk->section++;
    }
    walk->is_through = walk->topic_number == UINT32_MAX || walk->section == SECTIONS;
    if (walk->records.failed)
        walk->result = -ENOMEM;
}

/* ---- the shard's thread ---- */

static void on_back(struct work *work)
{
    struct cold_scan *walk = (struct cold_scan *)(void *)work;
    walk->is_reading = false;
    walk->shard->readings--;
    depot_let_go(walk->view);
    walk->view = NULL;
}

/* The next run after the one that is done with; false: there is none. */
static bool next_run(struct cold_scan *walk)
{
    const struct depot_view *view = depot_view(walk->shard->depot);
    for (uint32_t i = 0; i < view->run_count; i++)
        if (view->runs[i]->number > walk->run) {
            walk->run = view->runs[i]->number;
            walk->section = walk->slot = 0;
            return true;
        }
    return false;
}

/* A run that went meanwhile has handed its jobs to a newer one. */
static bool is_in_view(const struct cold_scan *walk)
{
    return depot_view_run(depot_view(walk->shard->depot), walk->run) != NULL;
}

static int read_slice(struct cold_scan *walk)
{
    if ((walk->is_through || !is_in_view(walk)) && !next_run(walk))
        return -ENOENT;
    buffer_clear(&walk->records);
    walk->count = walk->given = 0;
    walk->looked_at = 0;
    walk->view = depot_hold(walk->shard->depot);
    if (!walk->view)
        return -ENOMEM;
    walk->is_reading = true;
    walk->is_through = false;
    walk->shard->readings++;
    walk->work.perform = on_scout;
    walk->work.done = on_back;
    worker_give(walk->shard->scout, &walk->work);
    return 0;
}

int cold_scan_next(struct cold_scan *walk, struct slice *record, struct record_place *place)
{
    if (walk->is_reading)
        return 0;
    if (walk->result < 0)
        return walk->result;
    while (walk->given < walk->count) {
        const struct cold_found *found = &walk->found[walk->given++];
        if (!found->bytes) { /* damaged: it stays where it is */
            walk->met_damage = true;
            log_event(LOG_ERROR, "job cannot be read",
                      LOG_NUMBER("shard", walk->shard->options.index), LOG_NUMBER("run", walk->run),
                      LOG_NUMBER("slot", found->slot));
            continue;
        }
        *record = slice_make(walk->records.at + found->at, found->bytes);
        *place = (struct record_place){
            .file = walk->run | RECORD_IN_RUN, .at = found->slot, .bytes = found->bytes};
        return 1;
    }
    return read_slice(walk);
}
