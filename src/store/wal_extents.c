#include "store/wal_private.h"

/* A batch that is being written has been promised to nobody: the log ends before it. */
static void end_of(const struct wal *wal, uint32_t *file, uint32_t *at)
{
    const struct wal_flight *flight = &wal->flight;

    *file = wal->current;
    *at = wal->tail_at;
    if (flight->is_under_way && flight->batch) {
        *file = flight->batch->file;
        *at = flight->batch->offset;
    }
}

uint32_t wal_extents(const struct wal *wal, struct wal_extent *out, uint32_t max)
{
    uint32_t last, end, count = 0;

    end_of(wal, &last, &end);
    for (uint32_t i = 0; i < wal->files.count && wal->files.at[i]->number <= last; i++, count++)
        if (count < max)
            out[count] = (struct wal_extent){
                .file = wal->files.at[i]->number,
                .bytes = wal->files.at[i]->number == last ? end : wal->files.at[i]->bytes,
                .file_bytes = wal->files.at[i]->bytes,
            };
    return count;
}
