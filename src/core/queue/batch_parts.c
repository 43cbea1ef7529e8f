#include "queue/batch_parts.h"

#include <assert.h>
#include <stdlib.h>

void batch_parts_fini(struct batch_parts *parts)
{
    free(parts->at);
    *parts = (struct batch_parts){0};
}

struct batch_part *batch_parts_of(struct batch_parts *parts, uint32_t shard)
{
    for (uint32_t i = 0; i < parts->count; i++)
        if (parts->at[i].shard == shard)
            return &parts->at[i];
    struct batch_part *more = realloc(parts->at, (parts->count + 1) * sizeof *more);
    if (!more)
        return NULL;
    parts->at = more;
    more[parts->count] = (struct batch_part){.shard = shard};
    return &more[parts->count++];
}

void batch_part_join(struct batch_part *part)
{
    part->under_way++;
}

void batch_part_leave(struct batch_part *part, uint64_t version)
{
    assert(part->under_way);
    part->under_way--;
    if (version > part->needs)
        part->needs = version;
}

void batch_part_hear(struct batch_part *part, const struct batch_report *report,
                     struct life_batch *whole)
{
    if (report->version <= part->seen.version || whole->has_ended)
        return;
    for (int i = 0; i < BATCH_OUTCOMES; i++)
        whole->counts.of[i] += report->counts.of[i] - part->seen.counts.of[i];
    part->seen = *report;
    life_batch_close_if_full(whole);
}

bool batch_parts_are_complete(const struct batch_parts *parts)
{
    for (uint32_t i = 0; i < parts->count; i++)
        if (parts->at[i].under_way || parts->at[i].seen.version < parts->at[i].needs)
            return false;
    return true;
}

struct batch_counts batch_parts_home(const struct batch_parts *parts,
                                     const struct life_batch *whole)
{
    struct batch_counts home = whole->counts;
    for (uint32_t i = 0; i < parts->count; i++)
        for (int of = 0; of < BATCH_OUTCOMES; of++)
            home.of[of] -= parts->at[i].seen.counts.of[of];
    return home;
}

uint8_t batch_parts_orders(const struct life_batch *whole, bool is_gone)
{
    return (uint8_t)((whole->is_stopped ? BATCH_ORDER_STOP : 0) |
                     (whole->has_ended || is_gone ? BATCH_ORDER_FORGET : 0));
}

bool batch_parts_are_done(const struct batch_parts *parts, uint32_t home, uint8_t orders)
{
    for (uint32_t i = 0; i < parts->count; i++)
        if (parts->at[i].under_way ||
            (parts->at[i].shard != home && (parts->at[i].followed & orders) != orders))
            return false;
    return true;
}
