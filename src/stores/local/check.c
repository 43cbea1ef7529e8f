/* Validates a shard, for tests: the engine and the depot both count the slots of runs, and must
 * agree after each step. */
#include "local/checkpoint.h"

#include <assert.h>

uint64_t shard_check(const struct shard *shard)
{
    uint64_t slots = 0;
    uint64_t stored[SECTIONS], loaded[SECTIONS];
    struct depot_counted counted;
    enum checkpoint_phase phase = checkpoint_phase(shard->checkpoint);
    /* Until all items have been processed, the slot of a job in memory may be its old one or its
     * new one. */
    bool is_notified = phase != CHECKPOINT_INSTALLING && phase != CHECKPOINT_STOPPED;
    engine_stored_sum(shard->engine, stored, loaded);
    depot_count_slots(shard->depot, checkpoint_installed(shard->checkpoint), &counted);
    for (int section = 0; section < SECTIONS; section++) {
        assert(stored[section] == counted.slots[section]);
        slots += counted.slots[section];
        assert(!is_notified || loaded[section] == counted.in_memory[section]);
    }
    depot_check(shard->depot);
    return slots;
}
