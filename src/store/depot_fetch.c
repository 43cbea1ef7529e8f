/*
 * Records are fetched block by block, as many as have room in BLOCK_BYTES; those of a block are
 * read in the order of their places, so that the log's files are read in large pieces, once a
 * block. One read for each record, in the order in which they are written, took several times the
 * processor time.
 */
#include "base/radix.h"
#include "store/depot_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { BLOCK_BYTES = 32 << 20, AHEAD = 4, PREFETCH_BYTES = 320 };

/* Where its record lies in the block's bytes. */
struct depot_piece {
    size_t at, bytes;
    int result;
};

void depot_fetch_init(struct depot_fetch *fetch, const struct depot_build *build)
{
    *fetch = (struct depot_fetch){.build = build};
    buffer_init(&fetch->scratch, SIZE_MAX / 2);
    buffer_init(&fetch->block, SIZE_MAX / 2);
}

void depot_fetch_fini(struct depot_fetch *fetch)
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

/* Pieces of the block that begins with item `first`, in the order of their places. */
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

/* The records of the items from `first` on, as many as have room. */
static int read_block(struct depot_fetch *fetch, size_t first)
{
    const struct depot_build *build = fetch->build;
    size_t end = first, bytes = 0, count;
    struct radix_item *order;
    int result;

    while (end < build->count && (end == first || bytes < BLOCK_BYTES)) {
        /* Whatever the disk holds: a directory has no empty records, and no record of the log names
         * an empty one. */
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

/* Items follow each other by due, their records lie anywhere in the block. */
static void prefetch(const struct depot_fetch *fetch, size_t item)
{
    if (item < fetch->end) {
        const char *at = fetch->block.at + fetch->pieces[item - fetch->first].at;

        for (size_t line = 0; line < PREFETCH_BYTES; line += 64)
            __builtin_prefetch(at + line);
    }
}

int depot_fetch_reach(struct depot_fetch *fetch, size_t item)
{
    assert(item >= fetch->first && item <= fetch->end);
    return item == fetch->end ? read_block(fetch, item) : 0;
}

int depot_fetch_get(const struct depot_fetch *fetch, size_t item, struct slice *out)
{
    const struct depot_piece *piece = &fetch->pieces[item - fetch->first];

    assert(item >= fetch->first && item < fetch->end);
    prefetch(fetch, item + AHEAD);
    if (piece->result < 0)
        return piece->result;
    *out = slice_make(fetch->block.at + piece->at, piece->bytes);
    return 0;
}
