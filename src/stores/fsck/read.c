/* Reading: failed reads are retried, and distinguished from damage. */
#include "fsck/exam.h"

#include <errno.h>
#include <time.h>

/*
 * fsck reads all files through this module. A failed read is retried, the first time immediately: a
 * cable, a path or a file server may be unavailable for a moment while the data is intact. A final
 * failure is distinguished from damage (exam->reading.error), since the data may be readable later.
 */

/* per shard: limits the load on a failing disk */
enum { TRIES = 4, PAUSE_MS = 20, PAUSES_MAX = 10 };

static void pause_before(struct fsck_reading *reading, int attempt)
{
    const struct timespec pause = {.tv_nsec = (long)attempt * PAUSE_MS * 1000000};

    if (attempt > 1 && reading->pauses < PAUSES_MAX) {
        reading->pauses++;
        (void)nanosleep(&pause, NULL);
    }
}

/* Records a failure. A missing file is a result, not a failure. */
static int64_t note(struct fsck_reading *reading, int64_t result)
{
    reading->error = result < 0 && result != -ENOENT && result != -ENOMEM ? (int)result : 0;
    return result;
}

#define TRY(READING, RESULT, CALL)                                                                 \
    do {                                                                                           \
        for (int attempt_ = 0; attempt_ < TRIES; attempt_++) {                                     \
            pause_before(READING, attempt_);                                                       \
            RESULT = CALL;                                                                         \
            if (note(READING, RESULT) >= 0 || !(READING)->error)                                   \
                break;                                                                             \
        }                                                                                          \
    } while (0)

static const struct fs *below(void *ctx)
{
    return ((struct fsck_reading *)ctx)->below;
}

static int on_open(void *ctx, const char *path, int flags, int mode)
{
    int result = -EIO;

    TRY((struct fsck_reading *)ctx, result,
        below(ctx)->ops->open(below(ctx)->ctx, path, flags, mode));
    return result;
}

static int on_close(void *ctx, int fd)
{
    return below(ctx)->ops->close(below(ctx)->ctx, fd);
}

static ssize_t on_pread(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    ssize_t result = -EIO;

    TRY((struct fsck_reading *)ctx, result,
        below(ctx)->ops->pread(below(ctx)->ctx, fd, into, len, offset));
    return result;
}

static int64_t on_size(void *ctx, int fd)
{
    int64_t result = -EIO;

    TRY((struct fsck_reading *)ctx, result, below(ctx)->ops->size(below(ctx)->ctx, fd));
    return result;
}

struct listing {
    void (*each)(void *each_ctx, const char *name);
    void *each_ctx;
    bool has_given; /* names: then it is not restarted */
};

static void give_name(void *ctx, const char *name)
{
    struct listing *listing = ctx;

    listing->has_given = true;
    listing->each(listing->each_ctx, name);
}

static int on_list(void *ctx, const char *path, void (*each)(void *each_ctx, const char *name),
                   void *each_ctx)
{
    struct listing listing = {.each = each, .each_ctx = each_ctx};
    int result = -EIO;

    TRY((struct fsck_reading *)ctx, result,
        listing.has_given ? result
                          : below(ctx)->ops->list(below(ctx)->ctx, path, give_name, &listing));
    return result;
}

/* Operations of the reader, which never write. */
static const struct fs_ops reading_ops = {
    .open = on_open,
    .close = on_close,
    .pread = on_pread,
    .pread_cached = on_pread,
    .size = on_size,
    .list = on_list,
};

void fsck_reading_init(struct fsck_reading *reading, const struct fs *below)
{
    *reading = (struct fsck_reading){.fs = {.ops = &reading_ops, .ctx = reading}, .below = below};
}

void fsck_unread(struct fsck_exam *exam, const char *what)
{
    if (!exam->reading.error || exam->has_unread)
        return;
    fsck_find(exam, (struct fsck_where){.slot = FSCK_NO_SLOT}, FSCK_RESTORE, "cannot read %s: %s",
              what, strerror(-exam->reading.error));
}
