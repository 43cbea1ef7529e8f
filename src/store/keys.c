#include "store/keys.h"

#include "job/wire.h"
#include "store/keys_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- opening ---- */

__attribute__((format(printf, 4, 5))) static int complain(char *error, size_t error_bytes,
                                                          int result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, error_bytes, format, args);
    va_end(args);
    return result;
}

static int read_footer(struct keys *keys)
{
    char footer[KEYS_BLOCK_BYTES];
    int64_t bytes = keys->fs->ops->size(keys->fs->ctx, keys->fd);
    int result;

    if (bytes < 0)
        return (int)bytes;
    if (bytes < KEYS_BLOCK_BYTES)
        return -EBADMSG;
    result =
        fs_pread_whole(keys->fs, keys->fd, true, footer, sizeof footer, bytes - KEYS_BLOCK_BYTES);
    return result < 0 ? result
                      : keys_get_footer(footer, keys->seed, keys->number, bytes, &keys->shape);
}

static int open_file(struct keys *keys, const char *path, char *error, size_t error_bytes)
{
    int result = keys->fs->ops->open(keys->fs->ctx, path, O_RDONLY, 0);

    keys->fd = result;
    if (result < 0)
        return complain(error, error_bytes, result, "cannot open table of keys '%s': %s", path,
                        strerror(-result));
    result = read_footer(keys);
    if (result == 0)
        return 0;
    keys->fs->ops->close(keys->fs->ctx, keys->fd);
    if (result == -ENOTSUP)
        return complain(error, error_bytes, result,
                        "table of keys '%s' was made by a newer tarry; use that or a later one",
                        path);
    if (result == -EBADMSG)
        return complain(error, error_bytes, result,
                        "table of keys '%s' is damaged: its footer or size is wrong; restore it "
                        "from a backup (nothing was changed)",
                        path);
    return complain(error, error_bytes, result, "cannot read table of keys '%s': %s", path,
                    strerror(-result));
}

int keys_open(const struct fs *fs, const char *dir, uint32_t number, uint64_t seed,
              struct keys **out, char *error, size_t error_bytes)
{
    struct keys *keys = calloc(1, sizeof *keys);
    char name[32], path[PATH_MAX];
    int result;

    if (!keys)
        return complain(error, error_bytes, -ENOMEM, "out of memory");
    keys->fs = fs;
    keys->number = number;
    keys->seed = seed;
    keys_file_name(number, name);
    keys_path(dir, name, path);
    result = open_file(keys, path, error, error_bytes);
    if (result < 0) {
        free(keys);
        return result;
    }
    *out = keys;
    return 0;
}

static void free_ram(struct keys_ram *ram)
{
    if (!ram)
        return;
    filter_fini(&ram->filter);
    free(ram->fences);
    free(ram);
}

void keys_close(struct keys *keys)
{
    if (!keys)
        return;
    keys->fs->ops->close(keys->fs->ctx, keys->fd);
    free_ram(atomic_load_explicit(&keys->ram, memory_order_acquire));
    free(keys);
}

uint64_t keys_count(const struct keys *keys)
{
    return keys->shape.entries;
}

uint64_t keys_file_bytes(const struct keys *keys)
{
    return (keys->shape.footer_at + 1) * KEYS_BLOCK_BYTES;
}

uint32_t keys_number(const struct keys *keys)
{
    return keys->number;
}

/* ---- blocks ---- */

int keys_read_blocks(const struct keys *keys, uint64_t first, size_t count, bool may_block,
                     char *into)
{
    int result = fs_pread_whole(keys->fs, keys->fd, may_block, into, count * KEYS_BLOCK_BYTES,
                                (int64_t)(first * KEYS_BLOCK_BYTES));

    for (size_t i = 0; i < count && result == 0; i++, into += KEYS_BLOCK_BYTES) {
        struct wire_in sum = wire_in_make(slice_make(into + KEYS_SUM_AT, 8));

        if (wire_take_u64(&sum) != keys_sum(into, keys->seed, keys->number, first + i))
            result = -EBADMSG;
    }
    return result;
}

size_t keys_block_entries(const struct keys *keys, uint64_t block)
{
    uint64_t left = keys->shape.entries - block * KEYS_BLOCK_ENTRIES;

    return left < KEYS_BLOCK_ENTRIES ? (size_t)left : KEYS_BLOCK_ENTRIES;
}

/* ---- what is kept in RAM ---- */

/* `bytes` that lie one after the other in blocks from `first` on. */
static int read_stream(const struct keys *keys, uint64_t first, char *into, uint64_t bytes)
{
    char *buffer = malloc(KEYS_IO_BYTES);
    int result = buffer ? 0 : -ENOMEM;

    while (bytes && result == 0) {
        uint64_t blocks = (bytes + KEYS_SUM_AT - 1) / KEYS_SUM_AT;
        size_t count = blocks < KEYS_IO_BLOCKS ? (size_t)blocks : KEYS_IO_BLOCKS;

        result = keys_read_blocks(keys, first, count, true, buffer);
        for (size_t i = 0; i < count && result == 0; i++) {
            size_t section = bytes < KEYS_SUM_AT ? (size_t)bytes : KEYS_SUM_AT;

            memcpy(into, buffer + i * KEYS_BLOCK_BYTES, section);
            into += section;
            bytes -= section;
        }
        first += count;
    }
    free(buffer);
    return result;
}

static void to_host_order(struct keys_ram *ram, uint64_t fences)
{
    for (uint64_t i = 0; i < filter_bytes(&ram->filter) / 4; i++)
        ram->filter.words[i] = le32toh(ram->filter.words[i]);
    for (uint64_t i = 0; i < fences; i++)
        ram->fences[i] = le64toh(ram->fences[i]);
}

static int read_ram(const struct keys *keys, struct keys_ram *ram)
{
    const struct keys_shape *shape = &keys->shape;
    int result;

    ram->fences = malloc((shape->filter_at + 1) * sizeof *ram->fences);
    if (!ram->fences || !filter_init_blocks(&ram->filter, shape->filter_blocks))
        return -ENOMEM;
    result =
        read_stream(keys, shape->filter_at, (char *)ram->filter.words, filter_bytes(&ram->filter));
    if (result == 0)
        result = read_stream(keys, shape->fences_at, (char *)ram->fences, shape->filter_at * 8);
    if (result == 0)
        to_host_order(ram, shape->filter_at);
    return result;
}

int keys_load_filter(struct keys *keys)
{
    struct keys_ram *ram, *none = NULL;
    int result;

    if (keys_has_filter(keys))
        return 0;
    ram = calloc(1, sizeof *ram);
    result = ram ? read_ram(keys, ram) : -ENOMEM;
    if (result < 0 || !atomic_compare_exchange_strong_explicit(
                          &keys->ram, &none, ram, memory_order_release, memory_order_relaxed))
        free_ram(ram);
    return result;
}

bool keys_has_filter(const struct keys *keys)
{
    return atomic_load_explicit(&keys->ram, memory_order_acquire);
}

bool keys_maybe(const struct keys *keys, uint64_t hash)
{
    const struct keys_ram *ram = atomic_load_explicit(&keys->ram, memory_order_acquire);

    return ram ? filter_maybe(&ram->filter, hash) : keys->shape.entries > 0;
}

void keys_prefetch(const struct keys *keys, uint64_t hash)
{
    const struct keys_ram *ram = atomic_load_explicit(&keys->ram, memory_order_acquire);

    if (ram)
        filter_prefetch(&ram->filter, hash);
}
