/* The helper's part of a checkpoint (depot.h): collects and sorts the contents of a new run,
 * fetches the records, and writes the run with its key table. */
#include "store/depot_private.h"

#include "base/radix.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Contents of a new run: the items from the engine and the alive slots of the victims, sorted. */

enum { CHUNK_SLOTS = 1024, ITEMS_FIRST = 1024 };
#define TAKEN UINT32_MAX /* in moved: a slot for which the engine supplied an item */

/* ---- alive slots of the victims ---- */

/* Returns the victim that contains the place, or NULL. */
static struct depot_victim *depot_victim_of(const struct depot_build *build,
                                            struct record_place place)
{
    if (!record_place_is_run(place))
        return NULL;
    for (size_t i = 0; i < build->victim_count; i++)
        if (build->victims[i].run->number == record_place_run(place))
            return place.at < build->victims[i].run->alive.slots ? &build->victims[i] : NULL;
    return NULL;
}

static bool push_item(struct depot_build *build, const struct depot_item *item)
{
    if (build->count == build->cap) {
        size_t cap = build->cap ? build->cap * 2 : ITEMS_FIRST;
        struct depot_item *grown = realloc(build->items, cap * sizeof *grown);

        if (!grown)
            return false;
        build->items = grown;
        build->cap = cap;
    }
    build->items[build->count++] = *item;
    return true;
}

static int ready_victims(struct depot_build *build)
{
    for (size_t i = 0; i < build->victim_count; i++) {
        struct depot_victim *victim = &build->victims[i];

        victim->moved = calloc(victim->run->alive.slots, sizeof *victim->moved);
        if (!victim->moved)
            return -ENOMEM;
    }
    for (size_t i = 0; i < build->count; i++) {
        struct depot_victim *victim = depot_victim_of(build, build->items[i].place);

        if (victim)
            victim->moved[build->items[i].place.at] = TAKEN;
    }
    return 0;
}

/* Adds items for alive slots. `chunk`: room for CHUNK_SLOTS. */
static int add_slots(struct depot_build *build, const struct depot_victim *victim, uint32_t first,
                     uint32_t count, struct run_slot *chunk)
{
    const struct depot_run *run = victim->run;
    int result = depot_slots(run, first, count, chunk);

    for (uint32_t i = 0; result == 0 && i < count; i++) {
        const struct run_slot *slot = &chunk[i];
        const struct depot_item item = {
            .when_ms = (uint64_t)slot->when_ms & ((UINT64_C(1) << 48) - 1),
            .section = (uint64_t)run_section_of(run->run, first + i) & 0xff,
            .sequence = slot->sequence,
            .place = {.file = run->number | RECORD_IN_RUN, .at = first + i, .bytes = slot->bytes}};

        if (!alive_test(&run->alive, first + i) || victim->moved[first + i] == TAKEN)
            continue;
        if (!push_item(build, &item))
            result = -ENOMEM;
    }
    return result;
}

/* Adds a victim's slots. If its directory cannot be read, the whole victim stays. */
static int add_victim(struct depot_build *build, struct depot_victim *victim,
                      struct run_slot *chunk)
{
    uint32_t slots = victim->run->alive.slots;
    size_t before = build->count;

    for (uint32_t first = alive_next(&victim->run->alive, 0, slots); first < slots;
         first = alive_next(&victim->run->alive, first + CHUNK_SLOTS, slots)) {
        uint32_t count = slots - first < CHUNK_SLOTS ? slots - first : CHUNK_SLOTS;
        int result = add_slots(build, victim, first, count, chunk);

        if (result == -ENOMEM)
            return result;
        if (result < 0) {
            build->count = before;
            victim->stays = true;
            return 0;
        }
        if (slots - first <= CHUNK_SLOTS)
            break;
    }
    return 0;
}

/* ---- sorting into the order of the run ---- */

static struct depot_item *in_order(const struct depot_item *items, const struct radix_item *ranks,
                                   size_t count)
{
    enum { AHEAD = 16 };
    struct depot_item *sorted = malloc(count * sizeof *sorted);

    for (size_t i = 0; sorted && i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(&items[ranks[i + AHEAD].at]);
        sorted[i] = items[ranks[i].at];
    }
    return sorted;
}

static int sort_items(struct depot_build *build)
{
    struct radix_item *ranks = malloc(build->count * sizeof *ranks);
    struct depot_item *sorted = NULL;

    for (size_t i = 0; ranks && i < build->count; i++)
        ranks[i] = (struct radix_item){.high = (uint64_t)build->items[i].section << 48 |
                                               build->items[i].when_ms,
                                       .low = build->items[i].sequence,
                                       .at = i};
    if (ranks && radix_sort(ranks, build->count))
        sorted = in_order(build->items, ranks, build->count);
    free(ranks);
    if (!sorted)
        return -ENOMEM;
    free(build->items);
    build->items = sorted;
    build->cap = build->count;
    return 0;
}

/* ---- gathering ---- */

/* Adds the alive slots of the victims to the items, and sorts them. Returns 0 or -ENOMEM. */
static int depot_gather(struct depot_build *build)
{
    struct run_slot *chunk = malloc(CHUNK_SLOTS * sizeof *chunk);
    int result = chunk ? ready_victims(build) : -ENOMEM;

    for (size_t i = 0; result == 0 && i < build->victim_count; i++)
        result = add_victim(build, &build->victims[i], chunk);
    free(chunk);
    return result == 0 && build->count > 0 ? sort_items(build) : result;
}

/*
 * Records are fetched in blocks of up to BLOCK_BYTES. The records of a block are read in the order
 * of their places, so that the log's files are read in large pieces, once per block. One read per
 * record, in the order of writing, took several times the processor time.
 */

enum { BLOCK_BYTES = 32 << 20, AHEAD = 4, PREFETCH_BYTES = 320 };

/* Position of an item's record in the block. */
struct depot_piece {
    size_t at, bytes;
    int result;
};

struct depot_fetch {
    const struct depot_build *build;
    struct buffer scratch;
    struct buffer block; /* records of the items from `first` to `end` */
    struct depot_piece *pieces;
    size_t first, end;
};

static void depot_fetch_init(struct depot_fetch *fetch, const struct depot_build *build)
{
    *fetch = (struct depot_fetch){.build = build};
    buffer_init(&fetch->scratch, SIZE_MAX / 2);
    buffer_init(&fetch->block, SIZE_MAX / 2);
}

static void depot_fetch_fini(struct depot_fetch *fetch)
{
    buffer_fini(&fetch->scratch);
    buffer_fini(&fetch->block);
    free(fetch->pieces);
}

static int read_record(struct depot_fetch *fetch, struct record_place place, struct slice *out)
{
    const struct depot_build *build = fetch->build;

    if (record_place_is_run(place))
        return depot_read(build->view, place, true, &fetch->scratch, out);
    return build->read_log(build->ctx, place, &fetch->scratch, out);
}

/* Reads the pieces of the block that begins with item `first`, in the order of their places. */
static int read_pieces(struct depot_fetch *fetch, size_t first, const struct radix_item *order,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct depot_piece *piece = &fetch->pieces[order[i].at];
        struct slice bytes;

        piece->result = read_record(fetch, fetch->build->items[first + order[i].at].place, &bytes);
        if (piece->result == -ENOMEM)
            return -ENOMEM;
        if (piece->result < 0)
            continue;
        piece->at = fetch->block.len;
        piece->bytes = bytes.len;
        buffer_append_slice(&fetch->block, bytes);
    }
    return fetch->block.failed ? -ENOMEM : 0;
}

/* Reads the records of the items from `first` on, as many as fit into a block. */
static int read_block(struct depot_fetch *fetch, size_t first)
{
    const struct depot_build *build = fetch->build;
    size_t end = first, bytes = 0, count;
    struct radix_item *order;
    int result;

    while (end < build->count && (end == first || bytes < BLOCK_BYTES)) {
        /* Holds for any file contents: a directory has no empty records, and no record of the log
         * names an empty one. */
        assert(build->items[end].place.bytes > 0);
        bytes += build->items[end++].place.bytes;
    }
    count = end - first;
    free(fetch->pieces);
    fetch->pieces = calloc(count, sizeof *fetch->pieces);
    order = calloc(count, sizeof *order);
    for (size_t i = 0; order && i < count; i++)
        order[i] = (struct radix_item){.high = build->items[first + i].place.file,
                                       .low = build->items[first + i].place.at,
                                       .at = i};
    buffer_clear(&fetch->block);
    result =
        fetch->pieces && order && buffer_reserve(&fetch->block, bytes) && radix_sort(order, count)
            ? read_pieces(fetch, first, order, count)
            : -ENOMEM;
    free(order);
    fetch->first = first;
    fetch->end = end;
    return result;
}

/* Prefetches an item's record. Items are ordered by due time, but their records are anywhere in the
 * block. */
static void prefetch(const struct depot_fetch *fetch, size_t item)
{
    if (item < fetch->end) {
        const char *at = fetch->block.at + fetch->pieces[item - fetch->first].at;

        for (size_t line = 0; line < PREFETCH_BYTES; line += 64)
            __builtin_prefetch(at + line);
    }
}

/* Makes the record of an item available. Must be called for each item in sequence. Returns 0 or
 * -ENOMEM. */
static int depot_fetch_reach(struct depot_fetch *fetch, size_t item)
{
    assert(item >= fetch->first && item <= fetch->end);
    return item == fetch->end ? read_block(fetch, item) : 0;
}

/* Returns an item's record, valid until the next item is reached, or a negative errno if it cannot
 * be read. */
static int depot_fetch_get(const struct depot_fetch *fetch, size_t item, struct slice *out)
{
    const struct depot_piece *piece = &fetch->pieces[item - fetch->first];

    assert(item >= fetch->first && item < fetch->end);
    prefetch(fetch, item + AHEAD);
    if (piece->result < 0)
        return piece->result;
    *out = slice_make(fetch->block.at + piece->at, piece->bytes);
    return 0;
}

/*
 * Runs concurrently with the owner. The only data read here that the owner changes are the bits of
 * victims. If a cleared bit is seen late, a dead slot is written, and the owner clears it when it
 * processes the items. Everything else belongs to the build or never changes.
 */

struct work {
    struct depot_build *build;
    struct run_writer *writer;
    uint64_t *hashes; /* hash of the key, by slot */
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

/* Updates a record for storage: encodes it again if the item has changes, or to remove the slot
 * that it once replaced. */
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

static uint32_t group_of(const struct depot_build *build, const struct record *record)
{
    return record->kind == RECORD_DONE ? 0
                                       : flow_group_mark(record->job.topic, record->job.group,
                                                         build->depot->options.hash_seed);
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

/* Writes item `i` of the build. Returns 0; 1 if it cannot be read; a negative errno ends the
 * build. */
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
    result =
        run_writer_add(work->writer, (enum job_section)item->section, (int64_t)item->when_ms,
                       item->sequence, topic_of(&record), group_of(work->build, &record), bytes);
    if (result == 0)
        note_written(work, item, (uint32_t)bytes.len);
    return result;
}

/* ---- all items ---- */

/* Handles an item that cannot be read. A job in memory whose record is damaged stays where it is. A
 * victim with a damaged slot that is still alive stays as a whole, and the slot is not an item. */
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

/* Returns whether the item is omitted: of victims that stay, only items from the engine are
 * written. */
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

/* Marks slots already written of a victim that stays after all: the new slots are dead. */
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

/* ---- keys ---- */

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

/* ---- the whole build ---- */

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
        keys_load_filter(build->made_keys); /* else the table is searched on disk */
    return result;
}

/* Removes the new files, which nothing refers to yet. */
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
