/* The chain of batches in a log's files, and its end: a torn tail or corruption. */
#include "store/wal_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The next batch of the chain is the one that is located where the last one ended, or at the start
 * of the next file, is intact, and has the next sequence, an epoch not older than the last one's
 * and, from the manifest's epoch_sequence on, the newest epoch.
 *
 * Why no stale batch is accepted. A batch is identified by (epoch, sequence): an epoch is made
 * durable in the manifest before its first batch is written and is never reused, and within an
 * epoch each sequence is written once, at one place. Batches that a file held under an earlier
 * number fail the checksums, which depend on the number. Batches that a crash left after the tail,
 * and that the following opening did not accept, have a sequence not below that opening's
 * epoch_sequence and an epoch older than its own. As long as that epoch is the newest, the rule on
 * epoch_sequence rejects them. Once there is a newer one, either the epoch in between wrote a batch
 * that counts, and stale batches are older than that batch's epoch; or it wrote none, and the newer
 * epoch_sequence is the same.
 *
 * Does the chain end at sequence N because of a crash or of damage? It is damage if N is recorded
 * as synced by the manifest, or by any batch of this log that is not itself stale and has an epoch
 * not older than the last one's: a batch is only replaced by an opening that found it incomplete,
 * which would have been damage then. No stale batch can record this falsely: one of the same epoch
 * would refer to the very N that is missing, and correctly. And a batch of a torn tail cannot have
 * been synced, or it would not be torn.
 */

enum { WINDOW_BYTES = 512 << 10 };

int wal_reader_init(struct wal_reader *reader, const struct wal_disk *disk,
                    const struct wal_manifest *manifest, struct wal_files *files, char *error,
                    size_t error_bytes)
{
    *reader = (struct wal_reader){.disk = disk,
                                  .manifest = manifest,
                                  .files = files,
                                  .at = WAL_HEADER_BYTES,
                                  .expected = manifest->first_sequence,
                                  .window_index = UINT32_MAX,
                                  .window_cap = WINDOW_BYTES,
                                  .synced = manifest->synced,
                                  .error = error,
                                  .error_bytes = error_bytes};
    for (uint32_t i = 0, most = 0; i < files->count; i++) { /* not larger than the largest file */
        most = files->at[i]->bytes > most ? files->at[i]->bytes : most;
        reader->window_cap = most < WINDOW_BYTES ? most : WINDOW_BYTES;
    }
    reader->window = malloc(reader->window_cap);
    return reader->window ? 0 : wal_complain(error, error_bytes, -ENOMEM, "out of memory");
}

void wal_reader_fini(struct wal_reader *reader)
{
    free(reader->window);
    reader->window = NULL;
}

static void path_at(const struct wal_reader *reader, uint32_t index, char path[PATH_MAX])
{
    char name[32];

    wal_file_name(reader->files->at[index]->number, name);
    wal_path(reader->disk, name, path);
}

static int refuse(struct wal_reader *reader, uint32_t index, uint32_t at, const char *why)
{
    char path[PATH_MAX];

    path_at(reader, index, path);
    reader->bad_file = reader->files->at[index]->number;
    reader->bad_at = at;
    return wal_complain(reader->error, reader->error_bytes, -EBADMSG,
                        "log file '%s' is damaged at byte %" PRIu32
                        ": %s; restore it from a backup (nothing was "
                        "changed)",
                        path, at, why);
}

/* Makes `bytes` of a file from `at` on available in the window, or fewer at the end of the file.
 * Returns the number of bytes or a negative errno. */
static int fetch(struct wal_reader *reader, uint32_t index, uint32_t at, uint32_t bytes,
                 const char **out)
{
    const struct wal_file *file = reader->files->at[index];
    uint32_t there = at < file->bytes ? file->bytes - at : 0, want;
    ssize_t got;

    if (bytes > there)
        bytes = there;
    if (reader->window_index != index || at < reader->window_at ||
        at - reader->window_at + bytes > reader->window_len) {
        if (bytes > reader->window_cap) {
            char *bigger = realloc(reader->window, bytes);

            if (!bigger)
                return wal_complain(reader->error, reader->error_bytes, -ENOMEM, "out of memory");
            reader->window = bigger;
            reader->window_cap = bytes;
        }
        want = there < reader->window_cap ? there : (uint32_t)reader->window_cap;
        reader->window_index = UINT32_MAX;
        got = fs_pread_some(reader->disk->fs, file->fd, true, reader->window, want, at);
        if (got >= 0 && got < want)
            got = -EIO; /* its size was right at opening */
        if (got < 0) {
            char path[PATH_MAX];

            path_at(reader, index, path);
            reader->bad_file = file->number;
            reader->bad_at = at;
            return wal_complain(reader->error, reader->error_bytes, (int)got,
                                "cannot read log file '%s' at byte %" PRIu32 ": %s", path, at,
                                strerror((int)-got));
        }
        reader->window_index = index;
        reader->window_at = at;
        reader->window_len = want;
    }
    *out = reader->window + (at - reader->window_at);
    return (int)bytes;
}

static int look_head(struct wal_reader *reader, uint32_t index, uint32_t at, struct wal_head *head)
{
    const struct wal_file *file = reader->files->at[index];
    const char *bytes;
    int got = fetch(reader, index, at, WAL_HEAD_BYTES, &bytes);

    if (got < WAL_HEAD_BYTES)
        return got < 0 ? got : 0;
    return wal_head_decode(reader->disk, file->number, at, bytes, head) &&
           head->bytes <= file->bytes - at;
}

int wal_reader_look(struct wal_reader *reader, uint32_t index, uint32_t at, struct wal_view *view)
{
    struct wal_head head;
    const char *bytes;
    int result = look_head(reader, index, at, &head);

    if (result <= 0)
        return result;
    result = fetch(reader, index, at, head.bytes, &bytes);
    if (result < 0)
        return result;
    if (!wal_body_is_whole(reader->disk, &head, bytes))
        return 0;
    *view = (struct wal_view){
        .head = head,
        .file = reader->files->at[index]->number,
        .at = at,
        .records = slice_make(bytes + WAL_HEAD_BYTES, head.bytes - WAL_HEAD_BYTES),
    };
    return 1;
}

/* Returns whether a head may belong to the chain: it is neither older than the chain's last batch
 * nor stale, that is, left by a crash before an opening that continued without it. */
static bool counts(const struct wal_reader *reader, const struct wal_head *head)
{
    return head->epoch >= reader->epoch && (head->sequence < reader->manifest->epoch_sequence ||
                                            head->epoch >= reader->manifest->epoch);
}

static int try(struct wal_reader *reader, uint32_t index, uint32_t at, struct wal_view *view)
{
    int result = wal_reader_look(reader, index, at, view);

    if (result <= 0)
        return result;
    if (view->head.sequence != reader->expected || !counts(reader, &view->head))
        return 0;
    if (view->head.epoch > reader->manifest->epoch)
        return refuse(reader, index, at, "its batch is newer than the MANIFEST in its directory");
    return 1;
}

/* Evaluates a head of this log after the end of the chain: it is stale, or proves damage. */
static int weigh(struct wal_reader *reader, uint32_t index, uint32_t at,
                 const struct wal_head *head)
{
    char why[160];

    if (head->sequence < reader->expected || !counts(reader, head))
        return 0;
    if (head->sequence > reader->expected && head->synced_sequence >= reader->expected) {
        snprintf(why, sizeof why,
                 "batch %" PRIu64 " should be there, because batch %" PRIu64 " in file %" PRIu32
                 " records that it was stored safely",
                 reader->expected, head->sequence, reader->files->at[index]->number);
        return refuse(reader, reader->index, reader->at, why);
    }
    if (index == reader->index && at + head->bytes - reader->at > reader->torn_bytes)
        reader->torn_bytes = at + head->bytes - reader->at;
    else if (index != reader->index)
        reader->torn_bytes += head->bytes;
    return 0;
}

/* Searches for heads at any position after the end. Batches start at multiples of WAL_ALIGN. */
static int search(struct wal_reader *reader, uint32_t index, uint32_t from)
{
    const uint64_t magic = wal_head_magic();
    const uint32_t end = reader->files->at[index]->bytes;
    struct wal_head head;
    int result = 0;

    for (uint32_t at = from; result == 0 && end - at >= WAL_HEAD_BYTES;) {
        const char *bytes;
        uint32_t span = end - at < reader->window_cap ? end - at : (uint32_t)reader->window_cap, i;
        int got = fetch(reader, index, at, span, &bytes);

        if (got < 0)
            return got;
        for (i = 0; i + WAL_HEAD_BYTES <= span; i += WAL_ALIGN) {
            uint64_t word;

            memcpy(&word, bytes + i, sizeof word);
            if (word == magic &&
                wal_head_decode(reader->disk, reader->files->at[index]->number, at + i, bytes + i,
                                &head) &&
                head.bytes <= end - at - i && (result = weigh(reader, index, at + i, &head)) < 0)
                return result;
        }
        at += i;
    }
    return result;
}

static int find_end(struct wal_reader *reader)
{
    const struct wal_manifest *manifest = reader->manifest;
    int result = 0;

    if (manifest->synced >= reader->expected)
        return refuse(reader, reader->index, reader->at,
                      reader->expected == manifest->first_sequence
                          ? "the log should begin there with a batch that was stored safely"
                          : "a batch that was stored safely should be there");
    if (manifest->is_clean && manifest->synced + 1 == reader->expected)
        return 0;
    for (uint32_t index = reader->index; result == 0 && index < reader->files->count; index++)
        result = search(reader, index, index == reader->index ? reader->at : WAL_HEADER_BYTES);
    return result;
}

/* Continues the chain after a batch. */
static void go_on_behind(struct wal_reader *reader, const struct wal_view *view)
{
    struct wal_file *file = reader->files->at[reader->index];

    reader->at = wal_aligned(view->at + view->head.bytes);
    file->end = reader->at;
    file->last_sequence = view->head.sequence;
    reader->expected = view->head.sequence + 1;
    reader->epoch = view->head.epoch;
    if (view->head.synced_sequence > reader->synced)
        reader->synced = view->head.synced_sequence;
    reader->last = view->head;
}

int wal_reader_resume(struct wal_reader *reader, struct wal_view *view)
{
    enum { PAGE_BYTES = 4096 }; /* unreadable parts are skipped page by page */

    for (; reader->index < reader->files->count; reader->index++, reader->at = WAL_HEADER_BYTES) {
        const uint32_t end = reader->files->at[reader->index]->bytes;

        while (reader->at <= end && end - reader->at >= WAL_HEAD_BYTES) {
            int result = wal_reader_look(reader, reader->index, reader->at, view);

            if (result == -ENOMEM)
                return result;
            if (result == 1 && view->head.sequence >= reader->expected &&
                counts(reader, &view->head)) {
                go_on_behind(reader, view);
                return 1;
            }
            reader->at = result < 0 ? (reader->at | (PAGE_BYTES - 1)) + 1 : reader->at + WAL_ALIGN;
        }
    }
    reader->index = reader->files->count - 1;
    return 0;
}

int wal_reader_next(struct wal_reader *reader, struct wal_view *view)
{
    struct wal_file *file;
    int result = try(reader, reader->index, reader->at, view);

    if (result == 0 && reader->index + 1 < reader->files->count) {
        result = try(reader, reader->index + 1, WAL_HEADER_BYTES, view);
        if (result == 1) {
            reader->index++;
            reader->files->at[reader->index]->first_sequence = view->head.sequence;
        }
    }
    if (result == 0)
        return find_end(reader);
    if (result < 0)
        return result;
    file = reader->files->at[reader->index];
    if (reader->last.bytes == 0)
        file->first_sequence = view->head.sequence;
    go_on_behind(reader, view);
    return 1;
}
