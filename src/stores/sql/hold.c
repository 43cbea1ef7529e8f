#include "sql/hold.h"

static void drop(struct sql_watched *watched, struct sql_held *held)
{
    sql_ends_remove(&watched->ends, held->index);
    table_remove(&watched->by_delivery.table, &held->entry);
    free(held);
}

bool sql_watched_set(struct sql_watched *watched, const struct sql_lease *lease, int64_t until_ms)
{
    struct slice key = slice_make(&lease->delivery, sizeof lease->delivery);
    struct sql_held *held = sql_helds_find(&watched->by_delivery, key);
    if (!until_ms) {
        if (held)
            drop(watched, held);
        return true;
    }
    if (held) {
        held->until_ms = until_ms;
        sql_ends_changed(&watched->ends, held->index);
        return true;
    }
    held = calloc(1, sizeof *held);
    if (!held)
        return false;
    held->lease = *lease;
    held->until_ms = until_ms;
    held->entry.key = slice_make(&held->lease.delivery, sizeof held->lease.delivery);
    if (!sql_ends_add(&watched->ends, held)) {
        free(held);
        return false;
    }
    sql_helds_add(&watched->by_delivery, held);
    return true;
}

int64_t sql_watched_next(const struct sql_watched *watched)
{
    return watched->ends.count ? watched->ends.at[0]->until_ms : INT64_MAX;
}

bool sql_watched_take(struct sql_watched *watched, int64_t now_ms, struct sql_lease *out)
{
    if (sql_watched_next(watched) > now_ms)
        return false;
    *out = watched->ends.at[0]->lease;
    drop(watched, watched->ends.at[0]);
    return true;
}

void sql_watched_fini(struct sql_watched *watched)
{
    while (watched->ends.count)
        drop(watched, watched->ends.at[0]);
    sql_ends_fini(&watched->ends);
    table_fini(&watched->by_delivery.table);
}
