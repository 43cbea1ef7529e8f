#include "local/recovery_lookup.h"

#include <errno.h>
#include <stdlib.h>

enum {
    LOT_FIRST = 1 << 10,
    LOT_MAX = 1 << 18,
    FILTERS_FROM = 256 /* where many are looked for by key: with filters one table is asked each */
};

/* Some of them, to be found at once. */
struct lot {
    struct depot_want *wants; /* own memory */
    size_t count, cap;
};

/* One that cannot be read says maybe. */
static void load_filters(struct shard *shard)
{
    struct depot_view *view = depot_hold(shard->depot);
    if (!view)
        return;
    (void)depot_load_filters(view);
    depot_let_go(view);
}

static bool is_known(const struct shard *shard, struct record_place place)
{
    return place.bytes && depot_is_alive(shard->depot, place);
}

/* ---- many at once ---- */

static void find_lot(struct shard *shard, struct lot *lot, depot_met *met)
{
    (void)depot_find_many(depot_view(shard->depot), shard->options.hash_seed, lot->wants,
                          lot->count, met, shard);
    lot->count = 0;
}

static bool has_room(struct lot *lot)
{
    if (lot->count < lot->cap)
        return true;
    size_t cap = lot->cap ? lot->cap * 2 : LOT_FIRST;
    struct depot_want *grown = realloc(lot->wants, cap * sizeof *grown);
    if (!grown)
        return false;
    lot->wants = grown;
    lot->cap = cap;
    return true;
}

/* Without memory it is left out. */
static void want(struct shard *shard, struct lot *lot, struct depot_want one, depot_met *met)
{
    if (!is_known(shard, one.place) && ++shard->looked_up == FILTERS_FROM)
        load_filters(shard);
    if (has_room(lot))
        lot->wants[lot->count++] = one;
    if (lot->count == LOT_MAX)
        find_lot(shard, lot, met);
}

static void fill_stub(void *ctx, const struct depot_want *want, const struct record *record)
{
    struct shard *shard = ctx;
    (void)engine_stub_fill(shard->engine, want->id, record, want->place);
}

static void fill_many(struct shard *shard, struct lot *lot)
{
    struct depot_want one = {0};
    for (uint32_t at = 0; engine_stub_next(shard->engine, &at, &one.key, &one.place);) {
        one.id = at;
        want(shard, lot, one, fill_stub);
    }
    find_lot(shard, lot, fill_stub);
}

/* It may have been met already: a key comes as often as its job ended. */
static void release(struct shard *shard, const struct record *record, struct record_place place)
{
    if (depot_is_alive(shard->depot, place))
        engine_release_stored(shard->engine,
                              record->kind == RECORD_JOB ? record->job.topic : record->done.topic,
                              place);
}

static void release_met(void *ctx, const struct depot_want *want, const struct record *record)
{
    release(ctx, record, want->place);
}

static void release_many(struct shard *shard, struct lot *lot)
{
    struct depot_want one = {0};
    for (uint32_t at = 0; engine_unresolved_next(shard->engine, &at, &one.key);)
        want(shard, lot, one, release_met);
    find_lot(shard, lot, release_met);
}

/* ---- one by one: what is left ---- */

/* 1 found, 0 not. */
static int find_stored(struct shard *shard, struct hash128 key, struct record_place *place,
                       struct buffer *bytes, struct record *record)
{
    struct slice at;
    buffer_clear(bytes);
    if (is_known(shard, *place)) {
        int failed = depot_read(depot_view(shard->depot), *place, true, bytes, &at);
        if (failed)
            return failed;
    } else {
        struct depot_hit hit;
        int found =
            depot_find(depot_view(shard->depot), shard->options.hash_seed, key, bytes, &hit);
        if (found != 1)
            return found;
        *place = hit.place;
        at = slice_make(bytes->at + hit.at, hit.place.bytes);
    }
    return record_decode(at, record) ? 1 : -EBADMSG;
}

/* There must be one, and what is left says why it could not be read. */
static int fill_rest(struct shard *shard, struct buffer *bytes)
{
    struct hash128 key;
    struct record_place place;
    struct record record;
    for (uint32_t at = 0; engine_stub_next(shard->engine, &at, &key, &place);) {
        int found = find_stored(shard, key, &place, bytes, &record);
        if (found != 1)
            return found < 0 ? found : -ENOENT;
        if (!engine_stub_fill(shard->engine, at, &record, place))
            return -EBADMSG;
    }
    return 0;
}

/* Of most there is none, which filters know. */
static int release_rest(struct shard *shard, struct buffer *bytes)
{
    struct hash128 key;
    struct record record;
    for (uint32_t at = 0; engine_unresolved_next(shard->engine, &at, &key);) {
        struct record_place place = {0};
        int found = find_stored(shard, key, &place, bytes, &record);
        if (found < 0)
            return found;
        if (found)
            release(shard, &record, place);
    }
    return 0;
}

int recovery_lookup_find(struct shard *shard)
{
    struct buffer bytes;
    struct lot lot = {0};
    buffer_init(&bytes, SIZE_MAX / 2);
    release_many(shard, &lot);
    int failed = release_rest(shard, &bytes);
    if (!failed) {
        fill_many(shard, &lot);
        failed = fill_rest(shard, &bytes);
    }
    buffer_fini(&bytes);
    free(lot.wants);
    return failed;
}
