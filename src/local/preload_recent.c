/* The slices read last: a consumer that takes what was just loaded finds the bodies here. */
#include "local/preload_private.h"

#include <stdlib.h>

enum { RECENT_BYTES_MAX = 32 << 20 };

static struct preload_slice *recent_at(const struct preload *preload, uint32_t at)
{
    return preload->recent[(preload->recent_first + at) % PRELOAD_RECENT_SLICES];
}

void preload_recent_give_spare(struct preload *preload, struct preload_slice *slice)
{
    if (preload->spare)
        preload_slice_free(slice);
    else
        preload->spare = slice;
}

/* False: the oldest is not loaded yet. */
static bool let_oldest_go(struct preload *preload)
{
    struct preload_slice *oldest = recent_at(preload, 0);

    if (oldest->run)
        return false;
    preload->recent_bytes -= preload_slice_bytes(oldest);
    preload->recent_first = (preload->recent_first + 1) % PRELOAD_RECENT_SLICES;
    preload->recent_count--;
    preload_recent_give_spare(preload, oldest);
    return true;
}

/* It is not read again: what it needed for that goes, and memory it does not fill. */
static void trim(struct preload_slice *slice)
{
    free(slice->passes);
    slice->passes = NULL;
    slice->pass_count = slice->pass_cap = 0;
    if (slice->item_count < slice->item_cap / 2) {
        struct preload_item *items =
            realloc(slice->items, slice->item_count * sizeof *slice->items);
        if (items) {
            slice->items = items;
            slice->item_cap = slice->item_count;
        }
    }
    if (slice->bytes.len < slice->bytes.cap / 2) {
        char *at = realloc(slice->bytes.at, slice->bytes.len ? slice->bytes.len : 1);
        if (at) {
            slice->bytes.at = at;
            slice->bytes.cap = slice->bytes.len ? slice->bytes.len : 1;
        }
    }
}

void preload_recent_add(struct preload *preload, struct preload_slice *slice)
{
    trim(slice);
    while (preload->recent_count &&
           (preload->recent_count == PRELOAD_RECENT_SLICES ||
            preload->recent_bytes + preload_slice_bytes(slice) > RECENT_BYTES_MAX))
        if (!let_oldest_go(preload))
            break; /* at most two wait to be loaded */
    uint32_t at = (preload->recent_first + preload->recent_count) % PRELOAD_RECENT_SLICES;
    preload->recent[at] = slice;
    preload->recent_count++;
    preload->recent_bytes += preload_slice_bytes(slice);
}

struct preload_slice *preload_recent_take_spare(struct preload *preload)
{
    struct preload_slice *slice = preload->spare;

    preload->spare = NULL;
    return slice;
}

static const struct preload_item *find(const struct preload_slice *slice, uint32_t slot)
{
    uint32_t low = 0, high = slice->item_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (slice->items[middle].slot < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low < slice->item_count && slice->items[low].slot == slot ? &slice->items[low] : NULL;
}

bool preload_recent(const struct preload *preload, struct record_place place, struct slice *out)
{
    if (!record_place_is_run(place))
        return false;
    for (uint32_t left = preload->recent_count; left; left--) {
        const struct preload_slice *slice = recent_at(preload, left - 1);
        if (slice->number != record_place_run(place) || !slice->item_count)
            continue;
        const struct preload_item *item = find(slice, place.at);
        if (!item || !item->bytes || item->bytes != place.bytes)
            continue;
        *out = slice_make(slice->bytes.at + item->at, item->bytes);
        return true;
    }
    return false;
}

void preload_recent_fini(struct preload *preload)
{
    while (preload->recent_count) {
        preload_slice_free(recent_at(preload, 0));
        preload->recent_first = (preload->recent_first + 1) % PRELOAD_RECENT_SLICES;
        preload->recent_count--;
    }
    preload_slice_free(preload->spare);
    preload->spare = NULL;
}
