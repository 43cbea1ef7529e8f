#include "store/wal_private.h"

#include <stdlib.h>

enum { BATCH_BYTES_FIRST = 4096, SPARE_BYTES_MAX = 1 << 20 };

bool wal_batch_reserve(struct wal_batch *batch, size_t bytes, size_t bytes_max)
{
    size_t need = batch->len + bytes, cap = batch->cap ? batch->cap : BATCH_BYTES_FIRST;
    char *at;

    if (need <= batch->cap)
        return true;
    while (cap < need)
        cap *= 2;
    if (cap > bytes_max && need <= bytes_max)
        cap = bytes_max;
    at = realloc(batch->at, cap);
    if (!at)
        return false;
    batch->at = at;
    batch->cap = cap;
    return true;
}

void wal_batch_free(struct wal_batch *batch)
{
    if (batch)
        free(batch->at);
    free(batch);
}

struct wal_batch *wal_recent_take(struct wal_recent *recent)
{
    struct wal_batch *batch = recent->spare;

    recent->spare = NULL;
    if (!batch)
        return calloc(1, sizeof *batch);
    batch->len = 0;
    batch->count = 0;
    batch->file = 0; /* nowhere yet */
    return batch;
}

static void give_up(struct wal_recent *recent, struct wal_batch *batch)
{
    if (recent->spare || batch->cap > SPARE_BYTES_MAX)
        wal_batch_free(batch);
    else
        recent->spare = batch;
}

static bool grow(struct wal_recent *recent)
{
    uint32_t cap = recent->cap ? recent->cap * 2 : 64;
    struct wal_batch **ring = malloc(cap * sizeof *ring);

    if (!ring)
        return false;
    for (uint32_t i = 0; i < recent->count; i++)
        ring[i] = recent->ring[(recent->head + i) & (recent->cap - 1)];
    free(recent->ring);
    recent->ring = ring;
    recent->cap = cap;
    recent->head = 0;
    return true;
}

static struct wal_batch *nth(const struct wal_recent *recent, uint32_t index)
{
    return recent->ring[(recent->head + index) & (recent->cap - 1)];
}

void wal_recent_add(struct wal_recent *recent, struct wal_batch *batch, size_t bytes_max)
{
    while (recent->count && recent->bytes + batch->cap > bytes_max) {
        struct wal_batch *oldest = nth(recent, 0);

        recent->head = (recent->head + 1) & (recent->cap - 1);
        recent->count--;
        recent->bytes -= oldest->cap;
        give_up(recent, oldest);
    }
    if (batch->cap > bytes_max || (recent->count == recent->cap && !grow(recent))) {
        give_up(recent, batch); /* it can be read from its file */
        return;
    }
    recent->ring[(recent->head + recent->count++) & (recent->cap - 1)] = batch;
    recent->bytes += batch->cap;
}

const struct wal_batch *wal_recent_find(const struct wal_recent *recent, struct record_place place)
{
    uint32_t low = 0, high = recent->count;

    /* The last batch that does not start behind the place. */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct wal_batch *batch = nth(recent, middle);

        if (batch->file < place.file || (batch->file == place.file && batch->offset <= place.at))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || !wal_batch_has(nth(recent, low - 1), place))
        return NULL;
    return nth(recent, low - 1);
}

void wal_recent_fini(struct wal_recent *recent)
{
    for (uint32_t i = 0; i < recent->count; i++)
        wal_batch_free(nth(recent, i));
    wal_batch_free(recent->spare);
    free(recent->ring);
    *recent = (struct wal_recent){0};
}
