/* Writes a table of keys with its filter (keys.h). */
#include "job/wire.h"
#include "store/keys_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

enum { SYNC_BYTES = 2 << 20 }; /* as of runs */

struct keys_writer {
    struct keys_writing writing;
    struct filter filter;
    uint64_t *fences; /* room for entries_max */
    uint64_t entries; /* so far */
    uint64_t blocks;  /* begun so far, of any kind */
    char *buffer;     /* KEYS_IO_BYTES, not written yet */
    size_t used;      /* of the buffer, in whole blocks */
    size_t in_block;  /* bytes used of the block under way */
    struct keys_entry last;
    uint64_t written, unsynced; /* bytes */
    int fd;
    bool is_named;
    char dir[PATH_MAX], made[PATH_MAX], name[PATH_MAX]; /* made: its name while it is written */
};

/* ---- blocks ---- */

static int sync_file(struct keys_writer *writer)
{
    const struct fs *fs = writer->writing.fs;

    writer->unsynced = 0;
    return fs->ops->fdatasync(fs->ctx, writer->fd);
}

static int flush(struct keys_writer *writer)
{
    const struct keys_writing *writing = &writer->writing;
    size_t bytes = writer->used;
    int result =
        fs_pwrite_whole(writing->fs, writer->fd, writer->buffer, bytes, (int64_t)writer->written);

    writer->written += bytes;
    writer->unsynced += bytes;
    writer->used = 0;
    if (result == 0 && writer->unsynced >= SYNC_BYTES)
        result = sync_file(writer);
    if (result == 0 && bytes && writing->pace)
        result = writing->pace(writing->ctx, bytes);
    return result < 0 ? result : 0;
}

/* The block under way; empty where one begins. */
static char *block_now(struct keys_writer *writer)
{
    char *block = writer->buffer + writer->used;

    if (writer->in_block == 0)
        memset(block, 0, KEYS_BLOCK_BYTES);
    return block;
}

static int end_block(struct keys_writer *writer)
{
    if (writer->in_block == 0)
        return 0;
    keys_sign(writer->buffer + writer->used, writer->writing.seed, writer->writing.number,
              writer->blocks++);
    writer->used += KEYS_BLOCK_BYTES;
    writer->in_block = 0;
    return writer->used == KEYS_IO_BYTES ? flush(writer) : 0;
}

static int put_words(struct keys_writer *writer, const uint32_t *words, uint64_t count)
{
    int result = 0;

    for (uint64_t i = 0; i < count && result == 0; i++) {
        wire_put_u32(block_now(writer) + writer->in_block, words[i]);
        writer->in_block += 4;
        if (writer->in_block == KEYS_SUM_AT)
            result = end_block(writer);
    }
    return result < 0 ? result : end_block(writer);
}

static int put_fences(struct keys_writer *writer, uint64_t count)
{
    int result = 0;

    for (uint64_t i = 0; i < count && result == 0; i++) {
        wire_put_u64(block_now(writer) + writer->in_block, writer->fences[i]);
        writer->in_block += 8;
        if (writer->in_block == KEYS_SUM_AT)
            result = end_block(writer);
    }
    return result < 0 ? result : end_block(writer);
}

static int put_footer(struct keys_writer *writer, const struct keys_shape *shape)
{
    assert(writer->blocks == shape->footer_at);
    keys_put_footer(block_now(writer), writer->writing.seed, writer->writing.number, shape);
    writer->in_block = KEYS_SUM_AT;
    return end_block(writer);
}

/* ---- life ---- */

static void free_writer(struct keys_writer *writer)
{
    filter_fini(&writer->filter);
    free(writer->fences);
    free(writer->buffer);
    free(writer);
}

static int take_memory(struct keys_writer *writer)
{
    uint64_t blocks_max = writer->writing.entries_max / KEYS_BLOCK_ENTRIES + 1;

    writer->fences = malloc(blocks_max * sizeof *writer->fences);
    writer->buffer = malloc(KEYS_IO_BYTES);
    return writer->fences && writer->buffer &&
                   filter_init(&writer->filter, writer->writing.entries_max)
               ? 0
               : -ENOMEM;
}

int keys_writer_new(const struct keys_writing *writing, struct keys_writer **out)
{
    struct keys_writer *writer = calloc(1, sizeof *writer);
    char name[32], made[40];
    int result;

    assert(writing->number > 0);
    if (!writer)
        return -ENOMEM;
    writer->writing = *writing;
    keys_file_name(writing->number, name);
    snprintf(made, sizeof made, "%s.new", name);
    snprintf(writer->dir, sizeof writer->dir, "%s", writing->dir);
    keys_path(writing->dir, name, writer->name);
    keys_path(writing->dir, made, writer->made);
    result = take_memory(writer);
    if (result == 0)
        result = writer->fd = writing->fs->ops->open(writing->fs->ctx, writer->made,
                                                     O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (result < 0) {
        free_writer(writer);
        return result;
    }
    *out = writer;
    return 0;
}

int keys_writer_add(struct keys_writer *writer, const struct keys_entry *entry)
{
    assert(writer->entries < writer->writing.entries_max);
    assert(writer->entries == 0 || keys_compare(&writer->last, entry) <= 0);
    if (writer->entries % KEYS_BLOCK_ENTRIES == 0)
        writer->fences[writer->entries / KEYS_BLOCK_ENTRIES] = entry->hash;
    keys_put_entry(block_now(writer), writer->in_block / KEYS_ENTRY_BYTES, entry);
    filter_put(&writer->filter, entry->hash);
    writer->last = *entry;
    writer->entries++;
    writer->in_block += KEYS_ENTRY_BYTES;
    return writer->in_block == (size_t)KEYS_BLOCK_ENTRIES * KEYS_ENTRY_BYTES ? end_block(writer)
                                                                             : 0;
}

int keys_writer_finish(struct keys_writer *writer)
{
    const struct fs *fs = writer->writing.fs;
    uint64_t filter_blocks = filter_fold(&writer->filter, writer->entries);
    struct keys_shape shape = keys_shape_of(writer->entries, filter_blocks);
    int result = end_block(writer);

    if (result == 0)
        result = put_words(writer, writer->filter.words, filter_blocks * FILTER_BLOCK_BYTES / 4);
    if (result == 0)
        result = put_fences(writer, shape.filter_at);
    if (result == 0)
        result = put_footer(writer, &shape);
    if (result == 0)
        result = flush(writer);
    if (result == 0)
        result = sync_file(writer);
    if (result == 0)
        result = fs_give_name(fs, writer->dir, writer->made, writer->name, &writer->is_named);
    if (result < 0) {
        keys_writer_abandon(writer);
        return result;
    }
    fs->ops->close(fs->ctx, writer->fd);
    free_writer(writer);
    return 0;
}

void keys_writer_abandon(struct keys_writer *writer)
{
    const struct fs *fs;

    if (!writer)
        return;
    fs = writer->writing.fs;
    fs->ops->close(fs->ctx, writer->fd);
    fs->ops->unlink(fs->ctx, writer->is_named ? writer->name : writer->made);
    free_writer(writer);
}
