/*
 * How pushes and the archivist keep step. While the log is hardly ahead of the checkpoint under
 * way the archivist writes a little at a time, so that the log's syncs find the disk free; the
 * further the log is ahead, the less it pauses. From FILES_SLOW on pushes have an allowance of
 * bytes that grows with time, the less the further the log is ahead: so all of them become a little
 * later, and hardly ever one of them must wait for the whole checkpoint.
 */
#include "base/clock.h"
#include "local/checkpoint_private.h"

enum {
    /* Files of the log ahead of the checkpoint: */
    FILES_CALM = 2,       /* at most so many are no reason to write fast; */
    FILES_HURRY = 4,      /* the archivist does not pause any more, */
    FILES_SLOW = 4,       /* pushes slow down, */
    FILES_BEHIND = 7,     /* and wait */
    PACE_CALM = 16 << 10, /* bytes a millisecond that are written beside everything else */
    PACE_BRISK = 64 << 10,
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
    uint32_t files = files_ahead(checkpoint);
    uint32_t pace = files <= FILES_CALM ? PACE_CALM : files < FILES_HURRY ? PACE_BRISK : 0;
    if (checkpoint->is_without_space)
        pace = 0;
    atomic_store_explicit(&checkpoint->pace_bytes_a_ms, pace, memory_order_relaxed);
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
