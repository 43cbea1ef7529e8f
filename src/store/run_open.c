#include "store/run_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* What opening complains about goes here. */
struct complaint {
    char path[PATH_MAX];
    char *error;
    size_t bytes;
};

static int complain(const struct complaint *to, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int complain(const struct complaint *to, int result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(to->error, to->bytes, format, args);
    va_end(args);
    return result;
}

static int complain_damage(const struct complaint *to, uint64_t offset, const char *what)
{
    return complain(to, -EBADMSG,
                    "run file '%s' is damaged at byte %" PRIu64
                    ": %s; restore it from a backup (nothing was changed)",
                    to->path, offset, what);
}

static int read_block(const struct run *run, uint64_t offset, char *block,
                      const struct complaint *to)
{
    int result = fs_pread_whole(run->fs, run->fd, true, block, RUN_BLOCK_BYTES, (int64_t)offset);

    if (result < 0 && result != -EBADMSG)
        return complain(to, result, "cannot read run file '%s': %s", to->path, strerror(-result));
    return result < 0 ? complain_damage(to, offset, "it ends there") : 0;
}

static int read_footer(struct run *run, uint32_t number, const struct complaint *to)
{
    int64_t bytes = run->fs->ops->size(run->fs->ctx, run->fd);
    char block[RUN_BLOCK_BYTES];
    uint64_t at;
    int result;

    if (bytes < 0)
        return complain(to, (int)bytes, "cannot read run file '%s': %s", to->path,
                        strerror((int)-bytes));
    if (bytes < 2 * RUN_BLOCK_BYTES || bytes % RUN_BLOCK_BYTES)
        return complain_damage(to, (uint64_t)bytes, "its size is wrong");
    at = (uint64_t)bytes - RUN_BLOCK_BYTES;
    result = read_block(run, at, block, to);
    if (result == 0 && !run_footer_decode(run->seed, number, (uint64_t)bytes, block, &run->footer))
        return complain_damage(to, at, "its footer is wrong");
    return result;
}

/* Where the footer makes no sense: perhaps a newer version wrote it. `result` if not. */
static int explain(const struct run *run, uint32_t number, int result, const struct complaint *to)
{
    char block[RUN_BLOCK_BYTES];
    uint32_t format;
    int read = fs_pread_whole(run->fs, run->fd, true, block, RUN_BLOCK_BYTES, 0);

    if (read < 0 && read != -EBADMSG)
        return complain(to, read, "cannot read run file '%s': %s", to->path, strerror(-read));
    if (read < 0 || run_header_decode(run->seed, number, block, &format) != -EPROTONOSUPPORT)
        return result;
    return complain(to, -EPROTONOSUPPORT,
                    "run file '%s' is of format %" PRIu32
                    " and this version knows up to %d: it was written by a newer one, use that",
                    to->path, format, RUN_FORMAT);
}

static int read_topics(struct run *run, const struct complaint *to)
{
    const struct run_footer *footer = &run->footer;
    struct buffer names;
    int result = 0;

    buffer_init(&names, (size_t)footer->topic_bytes + 1);
    for (uint64_t at = footer->topics_at;
         result == 0 && at < footer->info.file_bytes - RUN_BLOCK_BYTES; at += RUN_BLOCK_BYTES) {
        size_t left = footer->topic_bytes - names.len;
        size_t some = left < RUN_BLOCK_ROOM ? left : RUN_BLOCK_ROOM;
        char block[RUN_BLOCK_BYTES];

        result = read_block(run, at, block, to);
        if (result == 0 &&
            !run_block_holds(run->seed, footer->info.number, at, block, some, RUN_BLOCK_ROOM))
            result = complain_damage(to, at, "its topics are wrong");
        if (result == 0)
            buffer_append(&names, block, some);
    }
    if (result == 0)
        result = names.failed
                     ? -ENOMEM
                     : run_topics_parse(&run->topics, buffer_slice(&names), footer->info.topics);
    if (result == -ENOMEM)
        complain(to, result, "out of memory");
    else if (result == -EBADMSG && !names.failed)
        result = complain_damage(to, footer->topics_at, "its topics are wrong");
    buffer_fini(&names);
    return result;
}

static int read_all(struct run *run, uint32_t number, const struct complaint *to)
{
    int result;

    run->fd = run->fs->ops->open(run->fs->ctx, to->path, O_RDONLY, 0);
    if (run->fd < 0)
        return complain(to, run->fd, "cannot open run file '%s': %s", to->path, strerror(-run->fd));
    result = read_footer(run, number, to);
    if (result == -EBADMSG)
        return explain(run, number, result, to);
    return result < 0 ? result : read_topics(run, to);
}

int run_open(const struct fs *fs, const char *dir, uint32_t number, uint64_t seed, struct run **out,
             char *error, size_t error_bytes)
{
    struct complaint to = {.error = error, .bytes = error_bytes};
    struct run *run = calloc(1, sizeof *run);
    char name[32];
    int result;

    if (!run)
        return complain(&to, -ENOMEM, "out of memory");
    *run = (struct run){.fs = fs, .seed = seed, .fd = -1, .dir = strdup(dir)};
    run_topics_init(&run->topics);
    run_file_name(number, name);
    run_path(dir, name, "", to.path);
    result = run->dir ? read_all(run, number, &to) : complain(&to, -ENOMEM, "out of memory");
    if (result < 0) {
        run_close(run);
        return result;
    }
    *out = run;
    return 0;
}

void run_close(struct run *run)
{
    if (!run)
        return;
    if (run->fd >= 0)
        run->fs->ops->close(run->fs->ctx, run->fd);
    run_topics_fini(&run->topics);
    free(run->dir);
    free(run);
}

/* ---- what it says about itself ---- */

const struct run_info *run_info(const struct run *run)
{
    return &run->footer.info;
}

enum job_section run_section_of(const struct run *run, uint32_t slot)
{
    int section = 0;

    assert(slot < run->footer.info.slots);
    while (slot - run->footer.info.sections[section].first >=
           run->footer.info.sections[section].count)
        section++;
    return (enum job_section)section;
}

uint32_t run_after_damage(const struct run *run, uint32_t slot)
{
    uint32_t slots = run->footer.info.slots, at = slot % RUN_BLOCK_SLOTS;

    return slots - slot < RUN_BLOCK_SLOTS - at ? slots : slot + (RUN_BLOCK_SLOTS - at);
}

uint32_t run_find_topic(const struct run *run, struct slice topic)
{
    return run_topics_find(&run->topics, topic);
}

struct slice run_topic_name(const struct run *run, uint32_t number)
{
    assert(number < run->topics.count);
    return run_topics_name(&run->topics, number);
}

int64_t run_disk_bytes(const struct run *run)
{
    return run->fs->ops->disk_bytes(run->fs->ctx, run->fd);
}
