/* Sees that what the shard rarely does was done in a run. */
#include "sim.h"

#include "store/depot.h"

bool __wrap_depot_is_absent(const struct depot *depot, struct hash128 key);
bool __real_depot_is_absent(const struct depot *depot, struct hash128 key);
int __wrap_depot_find(const struct depot_view *view, uint64_t hash_seed, struct hash128 key,
                      struct buffer *records, struct depot_hit *out);
int __real_depot_find(const struct depot_view *view, uint64_t hash_seed, struct hash128 key,
                      struct buffer *records, struct depot_hit *out);
int __wrap_depot_keys_merge(struct depot *depot, struct depot_keys_merge *merge, uint64_t entries);
int __real_depot_keys_merge(struct depot *depot, struct depot_keys_merge *merge, uint64_t entries);
void __wrap_depot_keys_abandon(struct depot *depot, struct depot_keys_merge *merge);
void __real_depot_keys_abandon(struct depot *depot, struct depot_keys_merge *merge);

bool __wrap_depot_is_absent(const struct depot *depot, struct hash128 key)
{
    bool is_absent = __real_depot_is_absent(depot, key);

    sim_totals.refuted += is_absent;
    return is_absent;
}

int __wrap_depot_find(const struct depot_view *view, uint64_t hash_seed, struct hash128 key,
                      struct buffer *records, struct depot_hit *out)
{
    int found = __real_depot_find(view, hash_seed, key, records, out);

    sim_totals.found += found > 0;
    sim_totals.not_found += found == 0;
    return found;
}

int __wrap_depot_keys_merge(struct depot *depot, struct depot_keys_merge *merge, uint64_t entries)
{
    int result = __real_depot_keys_merge(depot, merge, entries);

    sim_totals.merges_cut += result > 0;
    return result;
}

void __wrap_depot_keys_abandon(struct depot *depot, struct depot_keys_merge *merge)
{
    sim_totals.merges_abandoned++;
    __real_depot_keys_abandon(depot, merge);
}
