#include "base/radix.h"
#include "store/depot_private.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Runs beside the owner. What it reads that the owner changes are the bits of victims: a bit seen
 * late means a slot is written that is dead already, and the owner clears it when it goes over the
 * items. Everything else here belongs to the build, or never changes.
 */

struct work {
    struct depot_build *build;
    struct run_writer *writer;
    uint64_t *hashes; /* by slot: of its key */
    struct depot_fetch fetch;
    struct buffer encoded;
};

static int fail(struct depot_build *build, int result, const char *what)
{
    snprintf(build->error, sizeof build->error, "%s run %" PRIu32 " in '%.150s': %s", what,
             build->run, build->depot->dir, strerror(-result));
    return result;
}

/* ---- one record ---- */

static bool decode(struct slice bytes, struct record *out)
{
    return record_decode(bytes, out) && (out->kind == RECORD_JOB || out->kind == RECORD_DONE);
}

/* As it is to be stored: with what changed, and without the slot it once replaced. */
static int bring_up_to_date(struct work *work, const struct depot_item *item, struct record *record,
                            struct slice *bytes)
{
    char *into;

    if (!item->changed && record->from.bytes == 0)
        return 0;
    if (item->changed)
        work->build->apply(work->build->ctx, item->changed, record);
    record->from = (struct record_place){0};
    buffer_clear(&work->encoded);
    into = buffer_reserve(&work->encoded, record_bytes_max(record));
    if (!into)
        return -ENOMEM;
    *bytes = slice_make(into, record_encode(record, into));
    return 0;
}

static struct slice topic_of(const struct record *record)
{
    return record->kind == RECORD_DONE ? record->done.topic : record->job.topic;
}

static uint64_t key_low_of(const struct depot_build *build, const struct record *record)
{
    if (record->kind == RECORD_DONE)
        return record->done.key.low;
    return hash_pair(record->job.topic, record->job.id, build->depot->options.hash_seed).low;
}

static void note_written(struct work *work, struct depot_item *item, uint32_t bytes)
{
    struct depot_build *build = work->build;
    struct depot_victim *victim = depot_victim_of(build, item->place);
    uint32_t slot = build->slots++;

    build->bytes[slot] = bytes;
    build->record_bytes += bytes;
    work->hashes[slot] = item->key_low;
    if (victim)
        victim->moved[item->place.at] = slot + 1;
}

/* Item `i` of the build. 0; 1: it cannot be read; negative: the build is over. */
static int write_item(struct work *work, size_t i, struct depot_item *item)
{
    struct record record;
    struct slice bytes;
    int result;

    if (depot_fetch_get(&work->fetch, i, &bytes) < 0 || !decode(bytes, &record))
        return 1;
    result = bring_up_to_date(work, item, &record, &bytes);
    if (result < 0)
        return result;
    item->key_low = key_low_of(work->build, &record);
    result = run_writer_add(work->writer, (enum job_section)item->section, (int64_t)item->when_ms,
                            item->sequence, topic_of(&record), bytes);
    if (result == 0)
        note_written(work, item, (uint32_t)bytes.len);
    return result;
}

/* ---- all of them ---- */

/* A job in memory whose record is damaged stays where it is; a victim with a damaged slot that is
 * still alive stays as a whole, and the slot is no item. */
static void note_failed(struct work *work, struct depot_item *item)
{
    struct depot_victim *victim = depot_victim_of(work->build, item->place);

    item->failed = 1;
    if (!victim)
        return;
    victim->moved[item->place.at] = 0;
    if (alive_test(&victim->run->alive, item->place.at))
        victim->stays = true;
}

static bool keep_failed(struct work *work, const struct depot_item *item,
                        struct depot_item **failed)
{
    struct depot_item *grown = realloc(*failed, ((size_t)work->build->failed + 1) * sizeof *grown);

    if (!grown)
        return false;
    *failed = grown;
    grown[work->build->failed++] = *item;
    return true;
}

/* Of victims that stay nothing more is written but what the engine asks for. */
static bool is_left_out(const struct depot_build *build, const struct depot_item *item)
{
    const struct depot_victim *victim = item->id ? NULL : depot_victim_of(build, item->place);

    return victim && victim->stays;
}

static int write_all(struct work *work, struct depot_item **failed)
{
    struct depot_build *build = work->build;
    size_t kept = 0;
    int result = 0;

    for (size_t i = 0; result == 0 && i < build->count; i++) {
        struct depot_item item = build->items[i];

        result = depot_fetch_reach(&work->fetch, i);
        if (result < 0)
            break;
        if (is_left_out(build, &item))
            continue;
        result = write_item(work, i, &item);
        if (result == 0)
            build->items[kept++] = item;
        if (result <= 0)
            continue;
        note_failed(work, &item);
        result = item.id == 0 || keep_failed(work, &item, failed) ? 0 : -ENOMEM;
    }
    if (result < 0)
        return result;
    if (build->failed > 0)
        memcpy(build->items + kept, *failed, build->failed * sizeof **failed);
    build->count = kept + build->failed;
    return 0;
}

/* What was already written of a victim that stays after all: its new slots are dead. */
static void give_back(struct depot_build *build)
{
    for (size_t i = 0; i < build->victim_count; i++)
        build->kept += build->victims[i].stays;
    for (size_t i = 0; build->kept && i < build->count; i++) {
        const struct depot_victim *victim = depot_victim_of(build, build->items[i].place);

        if (victim && victim->stays && build->items[i].id == 0 && !build->items[i].failed)
            build->items[i].place = (struct record_place){0};
    }
}

static int write_run(struct work *work)
{
    struct depot_build *build = work->build;
    const struct depot *depot = build->depot;
    const struct run_writing writing = {.fs = depot->options.fs,
                                        .dir = depot->dir,
                                        .number = build->run,
                                        .seed = depot->catalog.seed,
                                        .cold_ms = build->cold_ms,
                                        .pace = depot->options.pace,
                                        .ctx = depot->options.ctx};
    struct depot_item *failed = NULL;
    struct run_info info;
    int result;

    build->bytes = calloc(build->count + 1, sizeof *build->bytes);
    work->hashes = calloc(build->count + 1, sizeof *work->hashes);
    if (!build->bytes || !work->hashes)
        return -ENOMEM;
    result = run_writer_new(&writing, &work->writer);
    if (result < 0)
        return result;
    result = write_all(work, &failed);
    free(failed);
    if (result < 0 || build->slots == 0) {
        run_writer_abandon(work->writer);
        return result;
    }
    give_back(build);
    return run_writer_finish(work->writer, &info);
}

/* ---- its keys ---- */

static int add_keys(const struct depot_build *build, const uint64_t *hashes,
                    struct keys_writer *writer)
{
    struct radix_item *order = malloc((build->slots + (size_t)1) * sizeof *order);
    int result = order ? 0 : -ENOMEM;

    for (uint32_t i = 0; order && i < build->slots; i++)
        order[i] = (struct radix_item){.high = hashes[i], .at = i};
    if (result == 0 && !radix_sort(order, build->slots))
        result = -ENOMEM;
    for (uint32_t i = 0; result == 0 && i < build->slots; i++) {
        const struct keys_entry entry = {
            .hash = order[i].high, .run = build->run, .slot = (uint32_t)order[i].at};

        result = keys_writer_add(writer, &entry);
    }
    free(order);
    return result;
}

static int write_keys(struct work *work)
{
    struct depot_build *build = work->build;
    const struct depot *depot = build->depot;
    const struct keys_writing writing = {.fs = depot->options.fs,
                                         .dir = depot->dir,
                                         .number = build->keys_number,
                                         .seed = depot->catalog.seed,
                                         .entries_max = build->slots,
                                         .pace = depot->options.pace,
                                         .ctx = depot->options.ctx};
    struct keys_writer *writer;
    int result = keys_writer_new(&writing, &writer);

    if (result < 0)
        return result;
    result = add_keys(build, work->hashes, writer);
    if (result < 0) {
        keys_writer_abandon(writer);
        return result;
    }
    return keys_writer_finish(writer);
}

/* ---- all of it ---- */

static int open_made(struct depot_build *build)
{
    const struct depot *depot = build->depot;
    int result = run_open(depot->options.fs, depot->dir, build->run, depot->catalog.seed,
                          &build->made_run, build->error, sizeof build->error);

    if (result < 0)
        return result;
    result = keys_open(depot->options.fs, depot->dir, build->keys_number, depot->catalog.seed,
                       &build->made_keys, build->error, sizeof build->error);
    if (result == 0)
        keys_load_filter(build->made_keys); /* else its keys are looked for on the disk */
    return result;
}

/* Nobody has heard of it. */
static void unmake(struct depot_build *build)
{
    if (build->made_run)
        run_close(build->made_run);
    build->made_run = NULL;
    depot_unlink_run(build->depot, build->run);
    depot_unlink_keys(build->depot, build->keys_number);
}

static int make(struct work *work)
{
    struct depot_build *build = work->build;
    int result = depot_gather(build);

    if (result < 0)
        return fail(build, result, "failed to gather what goes to");
    if (build->count > 0) {
        result = write_run(work);
        if (result < 0)
            return fail(build, result, "failed to write");
    }
    if (build->slots == 0) {
        give_back(build);
        build->run = 0;
        return 0;
    }
    result = write_keys(work);
    if (result < 0)
        fail(build, result, "failed to write the keys of");
    else
        result = open_made(build);
    if (result < 0)
        unmake(build);
    return result;
}

int depot_build(struct depot_build *build)
{
    struct work *work = calloc(1, sizeof *work);
    int result;

    assert(build->depot && build->read_log && build->apply);
    if (!work)
        return fail(build, -ENOMEM, "failed to begin");
    work->build = build;
    depot_fetch_init(&work->fetch, build);
    buffer_init(&work->encoded, SIZE_MAX / 2);
    result = make(work);
    depot_fetch_fini(&work->fetch);
    buffer_fini(&work->encoded);
    free(work->hashes);
    free(work);
    return result;
}

struct record_place depot_build_place(const struct depot_build *build, size_t item)
{
    assert(item < build->slots);
    return (struct record_place){
        .file = build->run | RECORD_IN_RUN, .at = (uint32_t)item, .bytes = build->bytes[item]};
}
