/* The log's manifest: the files that count, and the newest epoch. */
#include "store/wal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * DIR/wal/MANIFEST holds two copies, each in its own sector; the valid copy with the higher
 * generation counts. A write replaces the other copy and is synced before anything relies on it. So
 * a crash leaves the old or the new copy, and a write needs no disk space: files can be dropped
 * even on a full disk.
 *
 * If the newer copy is damaged later, the older one counts again. It then refers to files that were
 * removed, or to an epoch older than that of the batches; both are rejected when the log is read.
 */
enum { FORMAT = 1, SLOT_BYTES = 512, SLOT_STRIDE = 4096, SLOTS = 2 };

static const char NO_STORE[] = "-";

static void emit(const struct wal_manifest *manifest, char slot[SLOT_BYTES + 1])
{
    int len = snprintf(
        slot, SLOT_BYTES,
        "format=%d\ngeneration=%" PRIu64 "\nstore=%s\nshard=%" PRIu32 "\nseed=%016" PRIx64
        "\nfirst=%" PRIu32 "\nfirst_sequence=%" PRIu64 "\nnewest=%" PRIu32 "\nepoch=%" PRIu64
        "\nepoch_sequence=%" PRIu64 "\nsynced=%" PRIu64 "\nclean=%d\nruns=%d\n",
        FORMAT, manifest->generation,
        *manifest->identity.store ? manifest->identity.store : NO_STORE, manifest->identity.shard,
        manifest->seed, manifest->first, manifest->first_sequence, manifest->newest,
        manifest->epoch, manifest->epoch_sequence, manifest->synced, manifest->is_clean,
        manifest->has_runs);
    const uint64_t sum = wal_sum(slot, (size_t)len, 0);

    len += snprintf(slot + len, SLOT_BYTES - (size_t)len, "check=%016" PRIx64 "\n", sum);
    memset(slot + len, ' ', SLOT_BYTES - (size_t)len);
    slot[SLOT_BYTES - 1] = '\n';
    slot[SLOT_BYTES] = '\0';
}

/* Parses a copy. It is valid if emitting it gives the same bytes. */
static bool parse(const char slot[SLOT_BYTES + 1], struct wal_manifest *out)
{
    struct wal_manifest manifest = {0};
    char again[SLOT_BYTES + 1];
    int format = 0, clean = 0, runs = 0;

    if (sscanf(slot,
               "format=%d generation=%" SCNu64 " store=%32s shard=%" SCNu32 " seed=%" SCNx64
               " first=%" SCNu32 " first_sequence=%" SCNu64 " newest=%" SCNu32 " epoch=%" SCNu64
               " epoch_sequence=%" SCNu64 " synced=%" SCNu64 " clean=%d runs=%d",
               &format, &manifest.generation, manifest.identity.store, &manifest.identity.shard,
               &manifest.seed, &manifest.first, &manifest.first_sequence, &manifest.newest,
               &manifest.epoch, &manifest.epoch_sequence, &manifest.synced, &clean, &runs) != 13)
        return false;
    if (strcmp(manifest.identity.store, NO_STORE) == 0)
        *manifest.identity.store = '\0';
    manifest.is_clean = clean == 1;
    manifest.has_runs = runs == 1;
    emit(&manifest, again);
    if (memcmp(slot, again, SLOT_BYTES) != 0 || manifest.first == 0)
        return false;
    *out = manifest;
    return true;
}

int wal_manifest_open(struct wal_disk *disk, int flags, int *fd, struct wal_manifest *out,
                      int *slots_bad)
{
    struct wal_manifest found[SLOTS];
    bool valid[SLOTS] = {0};
    char path[PATH_MAX], slot[SLOT_BYTES + 1];
    int opened;

    wal_path(disk, "MANIFEST", path);
    opened = disk->fs->ops->open(disk->fs->ctx, path, flags, 0);
    if (opened < 0)
        return opened;
    for (int i = 0; i < SLOTS; i++) {
        ssize_t got =
            fs_pread_some(disk->fs, opened, true, slot, SLOT_BYTES, (int64_t)i * SLOT_STRIDE);

        if (got < 0) {
            disk->fs->ops->close(disk->fs->ctx, opened);
            return (int)got;
        }
        slot[got] = '\0';
        valid[i] = got == SLOT_BYTES && parse(slot, &found[i]) &&
                   found[i].generation % SLOTS == (unsigned)i;
    }
    if (slots_bad)
        *slots_bad = !valid[0] + !valid[1];
    if (!valid[0] && !valid[1]) {
        disk->fs->ops->close(disk->fs->ctx, opened);
        return -EBADMSG;
    }
    *out =
        !valid[0] || (valid[1] && found[1].generation > found[0].generation) ? found[1] : found[0];
    disk->seed = out->seed;
    *fd = opened;
    return 0;
}

/*
 * Sets the start of the log. If it is not the log's own oldest file, a checkpoint ended there,
 * which requires a synced batch in it: if that batch is missing, the log is damaged and has not
 * just ended.
 */
int wal_manifest_begin_at(const struct wal_disk *disk, struct wal_manifest *manifest,
                          uint32_t first, uint64_t first_sequence, char *error, size_t error_bytes)
{
    if (first < manifest->first || (first > manifest->first && manifest->epoch == 0) ||
        (first == manifest->first) != (first_sequence == manifest->first_sequence) ||
        first_sequence < manifest->first_sequence)
        return wal_complain(
            error, error_bytes, -EBADMSG,
            "the runs continue in log file %" PRIu32 " with batch %" PRIu64
            ", but the log in '%s' begins with file %" PRIu32 " and batch %" PRIu64
            ": they are from different times; restore both from one backup (nothing "
            "was changed)",
            first, first_sequence, disk->dir, manifest->first, manifest->first_sequence);
    if (first > manifest->first && manifest->synced < first_sequence)
        manifest->synced = first_sequence;
    manifest->first = first;
    manifest->first_sequence = first_sequence;
    manifest->has_runs = true;
    return 0;
}

int wal_manifest_reaches(const struct wal_disk *disk, struct wal_manifest *manifest, uint64_t epoch,
                         uint64_t synced, char *error, size_t error_bytes)
{
    if (!store_identity_equals(&manifest->identity, &disk->identity))
        return wal_complain(
            error, error_bytes, -EBADMSG,
            "the log in '%s' belongs to shard %02" PRIu32
            " of %s store; put each shard back in its place, or restore a backup "
            "(nothing was changed)",
            disk->dir, manifest->identity.shard,
            strcmp(manifest->identity.store, disk->identity.store) == 0 ? "this" : "another");
    if (manifest->epoch < epoch)
        return wal_complain(error, error_bytes, -EBADMSG,
                            "the log in '%s' is older than the rest of the directory: it was "
                            "opened %" PRIu64 " times, and must have been %" PRIu64
                            " times; restore all of it from one backup (nothing was changed)",
                            disk->dir, manifest->epoch, epoch);
    if (manifest->synced < synced) {
        manifest->synced = synced;
        manifest->is_clean = false;
    }
    return 0;
}

static int write_slot(const struct wal_disk *disk, int fd, const struct wal_manifest *manifest)
{
    char slot[SLOT_BYTES + 1];

    emit(manifest, slot);
    return fs_pwrite_whole(disk->fs, fd, slot, SLOT_BYTES,
                           (int64_t)(manifest->generation % SLOTS) * SLOT_STRIDE);
}

int wal_manifest_settle(const struct wal_disk *disk, int fd, const struct wal_manifest *manifest)
{
    int result = write_slot(disk, fd, manifest);

    return result < 0 ? result : disk->fs->ops->fdatasync(disk->fs->ctx, fd);
}

int wal_manifest_write(const struct wal_disk *disk, int fd, struct wal_manifest *manifest)
{
    struct wal_manifest next = *manifest;
    int result;

    next.generation++;
    result = wal_manifest_settle(disk, fd, &next);
    if (result == 0)
        *manifest = next;
    return result;
}

int wal_copy_manifest(const struct fs *fs, const char *from, const char *into, uint32_t newest,
                      uint64_t sequence)
{
    struct wal_disk disk = {.fs = fs};
    struct wal_manifest manifest;
    int fd, result;

    if (strlen(from) >= sizeof disk.dir || strlen(into) >= sizeof disk.dir)
        return -ENAMETOOLONG;
    strcpy(disk.dir, from);
    result = wal_manifest_open(&disk, O_RDONLY, &fd, &manifest, NULL);
    if (result < 0)
        return result;
    fs->ops->close(fs->ctx, fd);
    strcpy(disk.dir, into);
    manifest.newest = newest;
    manifest.synced = sequence;
    manifest.is_clean = true;
    result = wal_manifest_make(&disk, &fd, &manifest);
    if (result == 0)
        fs->ops->close(fs->ctx, fd);
    return result;
}

int wal_manifest_make(struct wal_disk *disk, int *fd, struct wal_manifest *manifest)
{
    const struct fs *fs = disk->fs;
    char fresh[PATH_MAX], path[PATH_MAX];
    int result, opened;

    wal_path(disk, "MANIFEST.tmp", fresh);
    wal_path(disk, "MANIFEST", path);
    opened = fs->ops->open(fs->ctx, fresh, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (opened < 0)
        return opened;
    manifest->generation = 1;
    result = write_slot(disk, opened, manifest);
    manifest->generation = 2;
    if (result == 0)
        result = write_slot(disk, opened, manifest);
    if (result == 0)
        result = fs->ops->fdatasync(fs->ctx, opened);
    if (result == 0)
        result = fs_give_name(fs, disk->dir, fresh, path, NULL);
    if (result < 0) {
        fs->ops->close(fs->ctx, opened);
        return result;
    }
    disk->seed = manifest->seed;
    *fd = opened;
    return 0;
}
