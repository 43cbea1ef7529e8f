#include "local/mark_keeper.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "store/datadir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAUSE_MS = 5 * 1000 };

struct mark_keeper {
    struct letter letter; /* first: to the home reactor */
    struct work work;
    const struct datadir *datadir;
    struct reactor *home;
    struct deadline *deadline;
    int64_t pause_ms;
    struct worker *helper; /* NULL: not begun */
    struct marks marks;    /* as last written; the helper's while it writes */
    struct marks_file file;
    int error; /* of the last write */
    bool is_writing;
    atomic_bool is_awake; /* marks will be written after the current pause */
    atomic_uint_fast64_t synced[DATADIR_SHARDS_MAX];
};

/* Writes the noted batches if they differ from the written ones. Blocking. */
static int marks_renew(struct mark_keeper *keeper)
{
    struct marks next = keeper->marks;
    int result;

    for (uint32_t i = 0; i < next.shards; i++)
        next.shard[i].synced = atomic_load(&keeper->synced[i]);
    if (memcmp(&next, &keeper->marks, sizeof next) == 0)
        return 0;
    next.generation++;
    result = marks_put(datadir_fs(keeper->datadir), &keeper->file, &next);
    if (result == 0)
        keeper->marks = next;
    return result;
}

static void marks_perform(struct work *work)
{
    struct mark_keeper *keeper = list_entry(work, struct mark_keeper, work);

    keeper->error = marks_renew(keeper);
}

/* Finishes a write. If it failed, the next write includes its content: marks only help to find
 * damage. */
static void marks_done(struct work *work)
{
    struct mark_keeper *keeper = list_entry(work, struct mark_keeper, work);

    keeper->is_writing = false;
    if (keeper->error && keeper->error != -ESTALE) /* a restored backup has its own marks */
        log_event(LOG_WARN, "marks not written", LOG_TEXT("error", strerror(-keeper->error)));
}

static void keeper_sleep(struct mark_keeper *keeper)
{
    deadline_set(keeper->deadline, clock_inner_ms() + keeper->pause_ms);
}

static void keeper_wake(struct letter *letter)
{
    keeper_sleep((struct mark_keeper *)(void *)letter);
}

static void keeper_write(void *ctx)
{
    struct mark_keeper *keeper = ctx;

    if (keeper->is_writing) { /* a slow disk */
        keeper_sleep(keeper);
        return;
    }
    atomic_store(&keeper->is_awake, false); /* later notes wake it again */
    keeper->is_writing = true;
    worker_give(keeper->helper, &keeper->work);
}

void mark_keeper_note(struct mark_keeper *keeper, uint32_t shard, uint64_t synced)
{
    atomic_store(&keeper->synced[shard], synced);
    if (!atomic_load(&keeper->is_awake) && !atomic_exchange(&keeper->is_awake, true))
        reactor_post(keeper->home, &keeper->letter);
}

/* ---- creation ---- */

struct mark_keeper *mark_keeper_new(const struct datadir *datadir, const struct marks *before,
                                    int64_t pause_ms)
{
    struct mark_keeper *keeper = calloc(1, sizeof *keeper);

    if (!keeper)
        return NULL;
    keeper->datadir = datadir;
    keeper->marks = *before;
    keeper->file.fd = -1;
    keeper->pause_ms = pause_ms ? pause_ms : PAUSE_MS;
    keeper->letter.run = keeper_wake;
    keeper->work.perform = marks_perform;
    keeper->work.done = marks_done;
    atomic_store(&keeper->is_awake, true); /* until it has begun */
    return keeper;
}

int mark_keeper_live_on(struct mark_keeper *keeper, struct reactor *home)
{
    keeper->home = home;
    keeper->deadline = deadline_new(home, keeper_write, keeper);
    return keeper->deadline ? 0 : -ENOMEM;
}

void mark_keeper_open(struct mark_keeper *keeper, uint32_t shard, uint64_t epoch, uint64_t synced)
{
    keeper->marks.shard[shard].epoch = epoch;
    atomic_store(&keeper->synced[shard], synced);
}

int mark_keeper_make_file(struct mark_keeper *keeper)
{
    return marks_open(datadir_fs(keeper->datadir), datadir_path(keeper->datadir), &keeper->file);
}

int mark_keeper_begin(struct mark_keeper *keeper, struct worker *helper)
{
    const struct fs *fs = datadir_fs(keeper->datadir);
    int result = fs->ops->fsync_dir(fs->ctx, datadir_path(keeper->datadir));

    if (result < 0)
        return result;
    keeper->marks.shard[0].synced = UINT64_MAX; /* so that they are written in any case */
    result = marks_renew(keeper);
    if (result < 0)
        return result;
    keeper->helper = helper;
    atomic_store(&keeper->is_awake, false);
    return 0;
}

void mark_keeper_free(struct mark_keeper *keeper)
{
    if (!keeper)
        return;
    if (keeper->helper)
        (void)marks_renew(keeper);
    marks_close(datadir_fs(keeper->datadir), &keeper->file);
    deadline_free(keeper->deadline);
    free(keeper);
}
