/* Merging of several key tables into one, step by step (keys.h). */
#include "store/keys_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { PORTION_ENTRIES = KEYS_IO_BLOCKS * KEYS_BLOCK_ENTRIES };

/* ---- iterating over a table ---- */

static int read_portion(struct keys_cursor *cursor)
{
    const struct keys *keys = cursor->keys;
    uint64_t block = cursor->next / PORTION_ENTRIES * KEYS_IO_BLOCKS;
    uint64_t left = keys->shape.filter_at - block;
    int result;

    if (!cursor->block)
        cursor->block = malloc(KEYS_IO_BYTES);
    if (!cursor->block)
        return -ENOMEM;
    result = keys_read_blocks(keys, block, left < KEYS_IO_BLOCKS ? (size_t)left : KEYS_IO_BLOCKS,
                              true, cursor->block);
    if (result < 0) {
        free(cursor->block);
        cursor->block = NULL;
    }
    return result;
}

int keys_cursor_next(struct keys_cursor *cursor, struct keys_entry *out)
{
    size_t in_portion = cursor->next % PORTION_ENTRIES;
    struct keys_entry entry;

    if (cursor->next >= cursor->keys->shape.entries)
        return 0;
    if (in_portion == 0 || !cursor->block) {
        int result = read_portion(cursor);
        if (result < 0)
            return result;
    }
    entry = keys_get_entry(cursor->block + in_portion / KEYS_BLOCK_ENTRIES * KEYS_BLOCK_BYTES,
                           in_portion % KEYS_BLOCK_ENTRIES);
    if (cursor->next > 0 && keys_compare(&cursor->last, &entry) > 0)
        return -EBADMSG;
    cursor->last = *out = entry;
    cursor->next++;
    return 1;
}

void keys_cursor_fini(struct keys_cursor *cursor)
{
    free(cursor->block);
    *cursor = (struct keys_cursor){0};
}

/* ---- merging ---- */

/* A table that is being merged, with its next entry. */
struct source {
    struct keys_cursor cursor;
    struct keys_entry head;
};

static int advance(struct source *sources, size_t *count, size_t index)
{
    int result = keys_cursor_next(&sources[index].cursor, &sources[index].head);

    if (result == 0) { /* at its end */
        keys_cursor_fini(&sources[index].cursor);
        sources[index] = sources[--*count];
    }
    return result < 0 ? result : 0;
}

/* Returns the source with the least entry. At most about a dozen tables are merged, so a linear
 * search is as good as a heap. */
static size_t least_of(const struct source *sources, size_t count)
{
    size_t least = 0;

    for (size_t i = 1; i < count; i++)
        if (keys_compare(&sources[i].head, &sources[least].head) < 0)
            least = i;
    return least;
}

static int open_sources(struct source *sources, struct keys *const *tables, size_t *count)
{
    int result = 0;

    for (size_t i = 0; i < *count; i++)
        sources[i].cursor.keys = tables[i];
    for (size_t i = *count; i-- > 0 && result == 0;)
        result = advance(sources, count, i);
    return result;
}

struct keys_merger {
    struct keys_writer *writer; /* NULL: the table is complete, or has failed */
    struct source *sources;
    size_t left; /* number of sources not at their end */
    bool (*keeps)(void *ctx, const struct keys_entry *entry);
    void *ctx;
    uint64_t kept;
};

int keys_merger_new(const struct keys_writing *writing, struct keys *const *tables, size_t count,
                    bool (*keeps)(void *ctx, const struct keys_entry *entry), void *ctx,
                    struct keys_merger **out)
{
    struct keys_merger *merger = calloc(1, sizeof *merger);
    int result = -ENOMEM;

    if (!merger)
        return -ENOMEM;
    merger->keeps = keeps;
    merger->ctx = ctx;
    merger->left = count;
    merger->sources = calloc(count + 1, sizeof *merger->sources);
    if (merger->sources)
        result = keys_writer_new(writing, &merger->writer);
    if (result == 0)
        result = open_sources(merger->sources, tables, &merger->left);
    if (result < 0) {
        keys_merger_free(merger);
        return result;
    }
    *out = merger;
    return 0;
}

static int add_some(struct keys_merger *merger, uint64_t entries)
{
    int result = 0;

    for (; merger->left && entries && result == 0; entries--) {
        size_t least = least_of(merger->sources, merger->left);
        const struct keys_entry *head = &merger->sources[least].head;

        if (merger->keeps(merger->ctx, head)) {
            result = keys_writer_add(merger->writer, head);
            merger->kept++;
        }
        if (result == 0)
            result = advance(merger->sources, &merger->left, least);
    }
    return result;
}

int keys_merger_step(struct keys_merger *merger, uint64_t entries)
{
    struct keys_writer *writer = merger->writer;
    int result = add_some(merger, entries);

    if (result < 0 || merger->left)
        return result < 0 ? result : 1;
    merger->writer = NULL;
    return keys_writer_finish(writer);
}

uint64_t keys_merger_kept(const struct keys_merger *merger)
{
    return merger->kept;
}

void keys_merger_free(struct keys_merger *merger)
{
    if (!merger)
        return;
    for (size_t i = 0; merger->sources && i < merger->left; i++)
        keys_cursor_fini(&merger->sources[i].cursor);
    free(merger->sources);
    keys_writer_abandon(merger->writer);
    free(merger);
}
