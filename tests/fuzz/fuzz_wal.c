/*
 * Any bytes as the batches of a log file, behind a valid header: the log opens and continues, or
 * refuses, and a repeated opening returns the same. Wrong checksums of a batch are corrected
 * first, so that the code behind them is also reached. The last byte is the format of the
 * file. Seeds: corpus/wal, bodies of small log files.
 */
#include "fuzz/claim.h"
#include "store/wal_private.h"
#include "support/sim_fs.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILE_BYTES = 32768, SEED = 77 };

static int64_t now_ms(struct clock *clock)
{
    (void)clock;
    return 1;
}

static bool replay(void *ctx, const struct record *record, struct record_place place)
{
    CLAIM("a record has a place", place.bytes && place.file == 1 && record->kind);
    ++*(uint64_t *)ctx;
    return true;
}

/* Follows the lengths the input gives, and makes each head and body valid. */
static void set_right(const struct wal_disk *disk, char *file)
{
    struct wal_head head;

    for (uint32_t at = WAL_HEADER_BYTES; at + WAL_HEAD_BYTES < FILE_BYTES;
         at = wal_aligned(at + head.bytes)) {
        uint64_t magic = wal_head_magic();

        memcpy(&head.bytes, file + at + 8, 4);
        memcpy(&head.count, file + at + 12, 4);
        memcpy(&head.epoch, file + at + 16, 8);
        memcpy(&head.sequence, file + at + 24, 8);
        memcpy(&head.synced_sequence, file + at + 32, 8);
        memcpy(&head.inner_ms, file + at + 40, 8);
        memcpy(&head.wall_ms, file + at + 48, 8);
        if (memcmp(file + at, &magic, sizeof magic) != 0 || head.bytes <= WAL_HEAD_BYTES ||
            head.bytes > FILE_BYTES - at)
            return;
        wal_head_encode(disk, 1, at, &head, file + at);
    }
}

static int open_log(struct sim_fs *sim, uint64_t *records, uint64_t *next, bool write)
{
    const struct wal_options options = {.fs = &sim->fs,
                                        .dir = "s",
                                        .file_bytes = FILE_BYTES,
                                        .sync = WAL_SYNC_ALWAYS,
                                        .inner_ms = now_ms,
                                        .wall_ms = now_ms,
                                        .seed = SEED};
    struct wal *wal;
    char error[WAL_ERROR_BYTES] = "";
    int result;

    *records = 0;
    result = wal_open(&options, replay, records, &wal, NULL, error, sizeof error);
    CLAIM("a refusal has words", result == 0 || *error);
    if (result < 0)
        return result;
    *next = wal_open_sequence(wal);
    if (write) {
        const struct record record = {.kind = RECORD_DONE,
                                      .done = {.key = {1, 2}, .reason = RECORD_ACKED}};

        if (wal_has_room(wal, record_bytes_max(&record), WAL_FOR_ANSWER) == 0)
            wal_append(wal, &record);
    }
    wal_close(wal);
    return 0;
}

static void run(const uint8_t *data, size_t size, bool right)
{
    static struct sim_fs sim;
    const struct wal_disk disk = {.seed = SEED};
    uint64_t records, again, next, next_again;
    char *file;
    int result;

    sim_fs_init(&sim, 1);
    CLAIM("an empty log opens", open_log(&sim, &records, &next, true) == 0);
    /* As after a crash: nothing is known to have been synced. */
    struct wal_disk made = {.fs = &sim.fs, .dir = "s/wal"};
    struct wal_manifest manifest;
    int fd;
    CLAIM("it has a manifest", wal_manifest_open(&made, 2, &fd, &manifest, NULL) == 0);
    manifest.synced = 0;
    manifest.is_clean = false;
    manifest.epoch = UINT64_MAX / 2; /* any epoch counts */
    manifest.epoch_sequence = UINT64_MAX;
    CLAIM("it can be written", wal_manifest_write(&made, fd, &manifest) == 0);
    sim.fs.ops->close(&sim, fd);
    file = sim_fs_bytes(&sim, "s/wal/00000001.log", NULL);
    wal_file_header(&disk, WAL_FORMAT, 1, FILE_BYTES, 1, file);
    memcpy(file + WAL_HEADER_BYTES, data,
           size < FILE_BYTES - WAL_HEADER_BYTES ? size : FILE_BYTES - WAL_HEADER_BYTES);
    if (right)
        set_right(&disk, file);
    result = open_log(&sim, &records, &next, false);
    CLAIM("it is damaged or it is not", result == 0 || result == -EBADMSG);
    CLAIM("asked again it says the same", open_log(&sim, &again, &next_again, true) == result);
    if (result == 0) {
        CLAIM("with the same records", records == again && next == next_again);
        CLAIM("and goes on", open_log(&sim, &again, &next_again, false) == 0 && again >= records);
    }
    sim_fs_fini(&sim);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run(data, size, false);
    run(data, size, true);
    return 0;
}
