/* Writing of a run (run.h): records as they are added; directory, topics and footer at the end. */
#include "base/vector.h"
#include "job/wire.h"
#include "store/run_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

/*
 * Records are streamed through one buffer. Of the rest only the directory is kept in memory, 24
 * bytes per slot, in pieces that are written unchanged. The file gets its name only once it is
 * complete and synced.
 */

enum {
    PORTION_BYTES = 512 << 10,
    SYNC_BYTES = 2 << 20, /* keeps the last sync short, and with it the wait of other syncs */
    PIECE_BLOCKS = 64,    /* size of a piece of the directory */
    PIECE_BYTES = PIECE_BLOCKS * RUN_BLOCK_BYTES,
    PIECE_SLOTS = PIECE_BLOCKS * RUN_BLOCK_SLOTS
};

VECTOR_DECLARE(run_pieces, char *)

struct run_writer {
    struct run_writing writing;
    char *dir;
    int fd, failed;    /* failed: the first error, which is permanent */
    uint64_t at;       /* position of the buffer in the file */
    size_t filled;     /* bytes in the buffer */
    uint64_t unsynced; /* bytes written but not synced */
    bool is_warm;      /* some of the unsynced bytes are read soon */
    char *portion;
    struct run_pieces pieces;
    struct run_topics topics;
    struct run_footer footer;
    enum job_section last_section;
    int64_t last_when_ms;
    uint64_t last_sequence;
};

/* ---- the stream ---- */

static int sync_file(struct run_writer *writer)
{
    const struct fs *fs = writer->writing.fs;
    int result = fs->ops->fdatasync(fs->ctx, writer->fd);

    if (result == 0 && !writer->is_warm && writer->writing.cold_ms && fs->ops->forget)
        fs->ops->forget(fs->ctx, writer->fd, (int64_t)(writer->at - writer->unsynced),
                        (int64_t)writer->unsynced);
    writer->unsynced = 0;
    writer->is_warm = false;
    return result;
}

static int flush(struct run_writer *writer)
{
    const struct run_writing *writing = &writer->writing;
    size_t bytes = writer->filled;
    int result =
        fs_pwrite_whole(writing->fs, writer->fd, writer->portion, bytes, (int64_t)writer->at);

    if (result < 0)
        return result;
    writer->at += bytes;
    writer->filled = 0;
    writer->unsynced += bytes;
    if (writer->unsynced >= SYNC_BYTES)
        result = sync_file(writer);
    if (result == 0 && writing->pace && bytes)
        result = writing->pace(writing->ctx, bytes);
    return result < 0 ? result : 0;
}

/* Appends bytes. All writes except the last are full buffers, so they begin and end at block
 * boundaries. */
static int put(struct run_writer *writer, const char *bytes, size_t len)
{
    while (len) {
        size_t room = PORTION_BYTES - writer->filled, some = len < room ? len : room;
        int result;

        memcpy(writer->portion + writer->filled, bytes, some);
        writer->filled += some;
        bytes += some;
        len -= some;
        if (writer->filled == PORTION_BYTES && (result = flush(writer)) < 0)
            return result;
    }
    return 0;
}

static uint64_t position(const struct run_writer *writer)
{
    return writer->at + writer->filled;
}

static int put_block(struct run_writer *writer, char *block)
{
    run_block_seal(writer->writing.seed, writer->writing.number, position(writer), block);
    return put(writer, block, RUN_BLOCK_BYTES);
}

/* ---- creating and freeing ---- */

static void writer_free(struct run_writer *writer)
{
    for (size_t i = 0; i < writer->pieces.count; i++)
        free(writer->pieces.at[i]);
    run_pieces_fini(&writer->pieces);
    free(writer->portion);
    free(writer->dir);
    run_topics_fini(&writer->topics);
    free(writer);
}

static void path_of(const struct run_writer *writer, const char *suffix, char out[PATH_MAX])
{
    char name[32];

    run_file_name(writer->writing.number, name);
    run_path(writer->dir, name, suffix, out);
}

static int begin(struct run_writer *writer)
{
    const struct fs *fs = writer->writing.fs;
    char path[PATH_MAX], header[RUN_BLOCK_BYTES];

    path_of(writer, ".tmp", path);
    writer->fd = fs->ops->open(fs->ctx, path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (writer->fd < 0)
        return writer->fd;
    run_header_encode(writer->writing.seed, writer->writing.number, NULL, header);
    return put(writer, header, sizeof header);
}

int run_writer_new(const struct run_writing *writing, struct run_writer **out)
{
    struct run_writer *writer = calloc(1, sizeof *writer);
    int result;

    assert(writing->number > 0);
    if (!writer)
        return -ENOMEM;
    run_topics_init(&writer->topics);
    writer->writing = *writing;
    writer->fd = -1;
    writer->footer.info.number = writing->number;
    writer->portion = malloc(PORTION_BYTES);
    writer->dir = strdup(writing->dir);
    result = writer->portion && writer->dir ? begin(writer) : -ENOMEM;
    if (result < 0) {
        run_writer_abandon(writer);
        return result;
    }
    *out = writer;
    return 0;
}

void run_writer_abandon(struct run_writer *writer)
{
    const struct fs *fs;
    char path[PATH_MAX];

    if (!writer)
        return;
    fs = writer->writing.fs;
    if (writer->fd >= 0) {
        fs->ops->close(fs->ctx, writer->fd);
        path_of(writer, ".tmp", path);
        (void)fs->ops->unlink(fs->ctx, path);
    }
    writer_free(writer);
}

/* ---- adding ---- */

static bool add_piece(struct run_writer *writer)
{
    char *piece = calloc(1, PIECE_BYTES);

    if (piece && run_pieces_add(&writer->pieces, piece))
        return true;
    free(piece);
    return false;
}

static char *block_of(const struct run_writer *writer, uint32_t slot)
{
    uint32_t block = slot / RUN_BLOCK_SLOTS;

    return writer->pieces.at[block / PIECE_BLOCKS] +
           (size_t)(block % PIECE_BLOCKS) * RUN_BLOCK_BYTES;
}

static void put_entry(struct run_writer *writer, int64_t when_ms, uint64_t sequence, uint32_t topic,
                      uint32_t group, uint64_t end)
{
    uint32_t slot = writer->footer.info.slots;
    char *block = block_of(writer, slot);
    char *at = block + slot % RUN_BLOCK_SLOTS * (size_t)RUN_ENTRY_BYTES;

    at = wire_put_u64(at, (uint64_t)when_ms | (uint64_t)group << RUN_WHEN_BITS);
    at =
        wire_put_u64(at, sequence | (uint64_t)(group >> (64 - RUN_WHEN_BITS)) << RUN_SEQUENCE_BITS);
    wire_put_u64(at, position(writer) | (uint64_t)topic << RUN_OFFSET_BITS);
    wire_put_u64(block + RUN_ENTRIES_BYTES, end);
}

/* Asserts the order of section, when and sequence, in pairs. */
static void assert_order(struct run_writer *writer, enum job_section section, int64_t when_ms,
                         uint64_t sequence)
{
    assert(section < SECTIONS && section >= writer->last_section);
    assert((uint64_t)when_ms >> RUN_WHEN_BITS == 0 && sequence >> RUN_SEQUENCE_BITS == 0);
    if (writer->footer.info.sections[section].count) {
        assert(when_ms >= writer->last_when_ms);
        assert(when_ms > writer->last_when_ms || sequence >= writer->last_sequence);
    }
    writer->last_section = section;
    writer->last_when_ms = when_ms;
    writer->last_sequence = sequence;
}

static int add(struct run_writer *writer, enum job_section section, int64_t when_ms,
               uint64_t sequence, struct slice topic, uint32_t group, struct slice record)
{
    struct run_info *info = &writer->footer.info;
    uint64_t end = position(writer) + record.len + RUN_CHECK_BYTES;
    char check[RUN_CHECK_BYTES];
    uint32_t number;
    int result;

    if (end >= RUN_FILE_BYTES_MAX || info->slots == UINT32_MAX - 1)
        return -EFBIG;
    if (info->slots % PIECE_SLOTS == 0 && !add_piece(writer))
        return -ENOMEM;
    result = run_topics_add(&writer->topics, topic, &number);
    if (result < 0)
        return result;
    writer->is_warm |= when_ms < writer->writing.cold_ms;
    put_entry(writer, when_ms, sequence, number, group, end);
    wire_put_u32(
        check, run_record_check(writer->writing.seed, writer->writing.number, info->slots, record));
    if (info->sections[section].count++ == 0)
        info->sections[section].first_when_ms = when_ms;
    info->slots++;
    result = put(writer, record.at, record.len);
    return result < 0 ? result : put(writer, check, sizeof check);
}

int run_writer_add(struct run_writer *writer, enum job_section section, int64_t when_ms,
                   uint64_t sequence, struct slice topic, uint32_t group, struct slice record)
{
    assert(record_next(record) == record.len && record.len <= RUN_RECORD_BYTES_MAX);
    assert(record.at[4] == RECORD_JOB || record.at[4] == RECORD_DONE);
    assert_order(writer, section, when_ms, sequence);
    if (writer->failed == 0)
        writer->failed = add(writer, section, when_ms, sequence, topic, group, record);
    return writer->failed;
}

/* ---- finishing ---- */

static int put_padding(struct run_writer *writer)
{
    static const char zeros[RUN_BLOCK_BYTES];

    return put(writer, zeros, (size_t)(run_round_up(position(writer)) - position(writer)));
}

static int put_directory(struct run_writer *writer)
{
    int result = 0;

    for (uint32_t slot = 0; result == 0 && slot < writer->footer.info.slots;
         slot += RUN_BLOCK_SLOTS) {
        result = put_block(writer, block_of(writer, slot));
        if (writer->footer.info.slots - slot <= RUN_BLOCK_SLOTS)
            break;
    }
    return result;
}

static int put_topics(struct run_writer *writer)
{
    struct slice names = buffer_slice(&writer->topics.names);
    int result = 0;

    while (result == 0 && names.len) {
        char block[RUN_BLOCK_BYTES] = {0};
        size_t some = names.len < RUN_BLOCK_ROOM ? names.len : RUN_BLOCK_ROOM;

        memcpy(block, names.at, some);
        names = slice_make(names.at + some, names.len - some);
        result = put_block(writer, block);
    }
    return result;
}

static int put_end(struct run_writer *writer)
{
    struct run_footer *footer = &writer->footer;
    char block[RUN_BLOCK_BYTES];
    int result;

    writer->is_warm = true; /* the directory */
    footer->record_end = position(writer);
    footer->info.topics = writer->topics.count;
    footer->topic_bytes = (uint32_t)writer->topics.names.len;
    run_footer_lay_out(footer);
    if ((result = put_padding(writer)) < 0 || (result = put_directory(writer)) < 0 ||
        (result = put_topics(writer)) < 0)
        return result;
    assert(position(writer) == footer->info.file_bytes - RUN_BLOCK_BYTES);
    run_footer_encode(writer->writing.seed, footer, block);
    result = put(writer, block, sizeof block);
    if (result == 0)
        result = flush(writer);
    if (result < 0)
        return result;
    run_header_encode(writer->writing.seed, footer->info.number, footer, block);
    result = fs_pwrite_whole(writer->writing.fs, writer->fd, block, sizeof block, 0);
    return result < 0 ? result : sync_file(writer);
}

/* The file gets its name. */
static int name_it(struct run_writer *writer)
{
    const struct fs *fs = writer->writing.fs;
    char from[PATH_MAX], to[PATH_MAX];
    bool is_named;
    int result;

    path_of(writer, ".tmp", from);
    path_of(writer, "", to);
    result = fs_give_name(fs, writer->dir, from, to, &is_named);
    if (result < 0 && is_named)
        (void)fs->ops->unlink(fs->ctx, to);
    return result;
}

int run_writer_finish(struct run_writer *writer, struct run_info *out)
{
    const struct fs *fs = writer->writing.fs;
    int result = writer->failed ? writer->failed : put_end(writer);

    if (result == 0)
        result = name_it(writer);
    if (result < 0) {
        run_writer_abandon(writer);
        return result;
    }
    *out = writer->footer.info;
    fs->ops->close(fs->ctx, writer->fd);
    writer_free(writer);
    return 0;
}
