/* The slices read last: a consumer that takes what was just loaded finds the bodies here. */
#include "local/loading_private.h"

#include <stdlib.h>

enum { RECENT_BYTES_MAX = 32 << 20 };

static struct loading_slice *recent_at(const struct loading *loading, uint32_t at)
{
    return loading->recent[(loading->recent_first + at) % LOADING_RECENT_SLICES];
}

void loading_recent_give_spare(struct loading *loading, struct loading_slice *slice)
{
    if (loading->spare)
        loading_slice_free(slice);
    else
        loading->spare = slice;
}

/* False: the oldest is not loaded yet. */
static bool let_oldest_go(struct loading *loading)
{
    struct loading_slice *oldest = recent_at(loading, 0);

    if (oldest->run)
        return false;
    loading->recent_bytes -= loading_slice_bytes(oldest);
    loading->recent_first = (loading->recent_first + 1) % LOADING_RECENT_SLICES;
    loading->recent_count--;
    loading_recent_give_spare(loading, oldest);
    return true;
}

/* It is not read again: what it needed for that goes, and memory it does not fill. */
static void trim(struct loading_slice *slice)
{
    free(slice->passes);
    slice->passes = NULL;
    slice->pass_count = slice->pass_cap = 0;
    if (slice->item_count < slice->item_cap / 2) {
        struct loading_item *items =
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

void loading_recent_add(struct loading *loading, struct loading_slice *slice)
{
    trim(slice);
    while (loading->recent_count &&
           (loading->recent_count == LOADING_RECENT_SLICES ||
            loading->recent_bytes + loading_slice_bytes(slice) > RECENT_BYTES_MAX))
        if (!let_oldest_go(loading))
            break; /* at most two wait to be loaded */
    uint32_t at = (loading->recent_first + loading->recent_count) % LOADING_RECENT_SLICES;
    loading->recent[at] = slice;
    loading->recent_count++;
    loading->recent_bytes += loading_slice_bytes(slice);
}

struct loading_slice *loading_recent_take_spare(struct loading *loading)
{
    struct loading_slice *slice = loading->spare;

    loading->spare = NULL;
    return slice;
}

static const struct loading_item *find(const struct loading_slice *slice, uint32_t slot)
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

bool loading_recent(const struct loading *loading, struct record_place place, struct slice *out)
{
    if (!record_place_is_run(place))
        return false;
    for (uint32_t left = loading->recent_count; left; left--) {
        const struct loading_slice *slice = recent_at(loading, left - 1);
        if (slice->number != record_place_run(place) || !slice->item_count)
            continue;
        const struct loading_item *item = find(slice, place.at);
        if (!item || !item->bytes || item->bytes != place.bytes)
            continue;
        *out = slice_make(slice->bytes.at + item->at, item->bytes);
        return true;
    }
    return false;
}

void loading_recent_fini(struct loading *loading)
{
    while (loading->recent_count) {
        loading_slice_free(recent_at(loading, 0));
        loading->recent_first = (loading->recent_first + 1) % LOADING_RECENT_SLICES;
        loading->recent_count--;
    }
    loading_slice_free(loading->spare);
    loading->spare = NULL;
}
