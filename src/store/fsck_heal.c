#include "store/fsck_private.h"

#include "base/clock.h"
#include "base/random.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * Jobs that were given up are ended in the log, as if somebody had cancelled them: so it speaks of
 * nobody any more who is nowhere, and the topics' totals add up.
 */

/* No clock was started: the batches say what the last one said. */
static int64_t inner_ms;

static int64_t last_inner_ms(void)
{
    return inner_ms;
}

struct healing {
    struct wal *wal;
    uint64_t ended;
    int result;
};

static int commit(struct wal *wal)
{
    int result = 0;

    if (wal_seal_sync(wal)) {
        result = wal_commit(wal);
        wal_committed(wal);
    }
    return result;
}

/* The next file is made where this one is full. */
static int make_room(struct wal *wal, size_t bytes)
{
    int result = wal_has_room(wal, bytes, WAL_FOR_ANSWER);

    for (int i = 0; result == -EAGAIN && i < 3; i++) {
        result = commit(wal);
        if (result == 0 && wal_wants_upkeep(wal)) {
            result = wal_upkeep(wal);
            wal_upkept(wal);
        }
        if (result == 0)
            result = wal_has_room(wal, bytes, WAL_FOR_ANSWER);
    }
    return result;
}

static bool on_loss(void *ctx, const struct fsck_loss *loss)
{
    struct healing *healing = ctx;
    const struct record record = {
        .kind = RECORD_DONE,
        .done = {.key = loss->is_named
                            ? loss->key
                            : (struct hash128){.low = random_u64(), .high = random_u64()},
                 .reason = RECORD_CANCELLED,
                 .topic = loss->topic,
                 .carried = !loss->is_counted}};

    healing->result = make_room(healing->wal, record_bytes_max(&record));
    if (healing->result < 0)
        return false;
    wal_append(healing->wal, &record);
    healing->ended++;
    return true;
}

int fsck_heal(struct fsck_exam *exam)
{
    char dir[PATH_MAX];
    const struct wal_options options = {.fs = exam->reading.below,
                                        .dir = dir,
                                        .file_bytes = exam->log_file_bytes,
                                        .sync = WAL_SYNC_ALWAYS,
                                        .inner_ms = last_inner_ms,
                                        .wall_ms = clock_wall_ms,
                                        .first = exam->catalog.log_first,
                                        .first_sequence = exam->catalog.log_first_sequence};
    struct healing healing = {0};
    int result;

    inner_ms = exam->last_inner_ms;
    snprintf(dir, sizeof dir, "%.*s", (int)(strlen(exam->run_dir) - 4), exam->run_dir); /* "/run" */
    result = wal_open(&options, NULL, NULL, &healing.wal, NULL, exam->error, sizeof exam->error);
    if (result == 0 && !fsck_model_losses(exam->model, on_loss, &healing))
        result = healing.result;
    if (result == 0)
        result = commit(healing.wal);
    wal_close(healing.wal);
    return result;
}
