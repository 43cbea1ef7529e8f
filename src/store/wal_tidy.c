#include "store/wal_private.h"

#include <fcntl.h>

struct old {
    uint32_t below, newest; /* older than `below`; 0: none */
};

static void note_old(void *ctx, const char *name)
{
    struct old *old = ctx;
    uint32_t number = wal_file_number(name);

    if (number && number < old->below && number > old->newest)
        old->newest = number;
}

static bool is_of_size(const struct wal *wal, uint32_t number)
{
    const struct fs *fs = wal->disk.fs;
    char name[32], path[PATH_MAX];
    int64_t size;
    int fd;

    wal_file_name(number, name);
    wal_path(&wal->disk, name, path);
    fd = fs->ops->open(fs->ctx, path, O_RDONLY, 0);
    if (fd < 0)
        return false;
    size = fs->ops->size(fs->ctx, fd);
    fs->ops->close(fs->ctx, fd);
    return size == wal->options.file_bytes;
}

/* Files older than the first: the newest of the right size are kept to be used again. One at a
 * time: listing while removing is not for every file system. */
static int tidy_old(struct wal *wal)
{
    const struct fs *fs = wal->disk.fs;
    struct old old = {.below = wal->chore.manifest.first};
    int result;

    wal->chore.spare_count = 0;
    for (;;) {
        old.newest = 0;
        result = fs->ops->list(fs->ctx, wal->disk.dir, note_old, &old);
        if (result < 0 || old.newest == 0)
            return result;
        old.below = old.newest;
        if (wal->chore.spare_count < WAL_SPARES_MAX && is_of_size(wal, old.newest))
            wal->chore.spares[wal->chore.spare_count++] = old.newest;
        else if ((result = wal_file_unlink(&wal->disk, old.newest)) < 0)
            return result;
    }
}

/* Files behind the tail were made ahead. Those of another size than the options now say go, newest
 * first. */
static int tidy_ahead(struct wal *wal)
{
    int result = 0;

    while (result == 0 && wal_next_is_ready(wal) &&
           wal->files.at[wal->files.count - 1]->bytes != wal->options.file_bytes) {
        result = wal_file_unlink(&wal->disk, wal->files.at[wal->files.count - 1]->number);
        if (result == 0)
            result = wal->disk.fs->ops->fsync_dir(wal->disk.fs->ctx, wal->disk.dir);
        if (result == 0)
            wal_files_drop_last(&wal->disk, &wal->files);
    }
    return result;
}

int wal_tidy(struct wal *wal)
{
    int result = tidy_ahead(wal);

    return result < 0 ? result : tidy_old(wal);
}
