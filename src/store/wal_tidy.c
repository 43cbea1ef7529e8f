#include "store/wal_private.h"

#include <fcntl.h>

static void note_old(void *ctx, const char *name)
{
    struct wal *wal = ctx;
    uint32_t number = wal_file_number(name);

    if (number && number < wal->chore.manifest.first && number > wal->chore.spare)
        wal->chore.spare = number;
}

/* Files older than the first: the newest is kept to be used again, if it has the right size. One at
 * a time: listing while removing is not for every file system. */
static int tidy_old(struct wal *wal)
{
    const struct fs *fs = wal->disk.fs;
    uint32_t keep = 0;
    int result;

    for (;;) {
        char name[32], path[PATH_MAX];
        int64_t size = 0;
        int fd;

        wal->chore.spare = 0;
        result = fs->ops->list(fs->ctx, wal->disk.dir, note_old, wal);
        if (result < 0 || wal->chore.spare == 0 || wal->chore.spare == keep)
            break;
        wal_file_name(wal->chore.spare, name);
        wal_path(&wal->disk, name, path);
        fd = fs->ops->open(fs->ctx, path, O_RDONLY, 0);
        if (fd >= 0) {
            size = fs->ops->size(fs->ctx, fd);
            fs->ops->close(fs->ctx, fd);
        }
        if (size == wal->options.file_bytes)
            return 0;
        result = fs->ops->unlink(fs->ctx, path);
        if (result < 0)
            break;
    }
    wal->chore.spare = 0;
    return result;
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
