/*
 * How pushes and the archivist keep step. While the log is not far ahead of the checkpoint under
 * way the archivist pauses, so that the log's syncs find the disk free. From FILES_SLOW on pushes
 * have an allowance of bytes that grows with time, the less the further the log is ahead: so all of
 * them become a little later, and hardly ever one of them must wait for the whole checkpoint.
 */
#include "base/clock.h"
#include "local/checkpoint_private.h"

enum {
    /* Files of the log ahead of the checkpoint: */
    FILES_SLOW = 4,                /* the archivist does not pause any more, pushes slow down, */
    FILES_BEHIND = 7,              /* and wait */
    ALLOWED_BYTES_A_MS = 24 << 10, /* of pushes, for each file less than that */
    ALLOWED_MS = 5
};

/* The log's files that no checkpoint has made unnecessary; 0 where none is under way. */
static uint32_t files_ahead(const struct checkpoint *checkpoint)
{
    uint32_t first = depot_catalog(checkpoint->shard->depot)->log_first;
    bool goes_on = checkpoint->phase != CHECKPOINT_IDLE && checkpoint->phase != CHECKPOINT_STOPPED;
    return goes_on ? wal_current_file(checkpoint->shard->wal) - (first ? first : 1) : 0;
}

void checkpoint_set_pace(struct checkpoint *checkpoint)
{
    bool hurries = files_ahead(checkpoint) >= FILES_SLOW || checkpoint->is_without_space;
    atomic_store_explicit(&checkpoint->is_hurried, hurries, memory_order_relaxed);
}

bool checkpoint_takes(struct checkpoint *checkpoint, size_t bytes)
{
    uint32_t files = files_ahead(checkpoint);
    if (files < FILES_SLOW)
        return true;
    int64_t now_ms = clock_inner_ms(), passed_ms = now_ms - checkpoint->allowed_ms;
    if (checkpoint->retry_ms > now_ms)
        return true;
    if (files >= FILES_BEHIND)
        return false;
    int64_t rate = (int64_t)(FILES_BEHIND - files) * ALLOWED_BYTES_A_MS;
    checkpoint->allowed_ms = now_ms;
    checkpoint->allowance += (passed_ms < ALLOWED_MS ? passed_ms : ALLOWED_MS) * rate;
    if (checkpoint->allowance > ALLOWED_MS * rate)
        checkpoint->allowance = ALLOWED_MS * rate;
    if (checkpoint->allowance <= 0)
        return false;
    checkpoint->allowance -= (int64_t)bytes;
    return true;
}
