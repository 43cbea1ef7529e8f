#include "store/keys_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { PORTION_ENTRIES = KEYS_IO_BLOCKS * KEYS_BLOCK_ENTRIES };

/* ---- going over a table ---- */

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

/* A table's next entry. */
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

/* Tables are merged by the dozen at most, so looking at each is as good as a heap. */
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

static int add_all(struct keys_writer *writer, struct source *sources, size_t *count,
                   bool (*keeps)(void *ctx, const struct keys_entry *entry), void *ctx,
                   uint64_t *kept)
{
    int result = 0;

    while (*count && result == 0) {
        size_t least = least_of(sources, *count);

        if (keeps(ctx, &sources[least].head)) {
            result = keys_writer_add(writer, &sources[least].head);
            ++*kept;
        }
        if (result == 0)
            result = advance(sources, count, least);
    }
    return result;
}

int keys_merge(const struct keys_writing *writing, struct keys *const *tables, size_t count,
               bool (*keeps)(void *ctx, const struct keys_entry *entry), void *ctx, uint64_t *kept)
{
    struct source *sources = calloc(count + 1, sizeof *sources);
    struct keys_writer *writer = NULL;
    uint64_t added = 0;
    size_t left = count;
    int result = sources ? keys_writer_new(writing, &writer) : -ENOMEM;

    if (result == 0)
        result = open_sources(sources, tables, &left);
    if (result == 0)
        result = add_all(writer, sources, &left, keeps, ctx, &added);
    for (size_t i = 0; sources && i < left; i++)
        keys_cursor_fini(&sources[i].cursor);
    free(sources);
    if (result < 0) {
        keys_writer_abandon(writer);
        return result;
    }
    result = keys_writer_finish(writer);
    if (result == 0)
        *kept = added;
    return result;
}
