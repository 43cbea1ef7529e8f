#include "store/keys_private.h"

#include "base/error.h"
#include "job/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

static const char MAGIC[8] = {'t', 'a', 'r', 'r', 'y', 'k', 'e', 'y'};

enum { FOOTER_BYTES = 32, FORMAT_AT = 8 };

static uint64_t blocks_for(uint64_t count, uint64_t a_block)
{
    return count / a_block + (count % a_block != 0);
}

struct keys_shape keys_shape_of(uint64_t entries, uint64_t filter_blocks)
{
    struct keys_shape shape = {.entries = entries, .filter_blocks = filter_blocks};

    shape.filter_at = blocks_for(entries, KEYS_BLOCK_ENTRIES);
    shape.fences_at = shape.filter_at + blocks_for(filter_blocks * FILTER_BLOCK_BYTES, KEYS_SUM_AT);
    shape.footer_at = shape.fences_at + blocks_for(shape.filter_at * 8, KEYS_SUM_AT);
    return shape;
}

static uint64_t keys_sum(const char *block, uint64_t seed, uint32_t number, uint64_t index)
{
    uint64_t place[3] = {htole64(seed), htole64(number), htole64(index)};

    return XXH3_64bits_withSeed(block, KEYS_SUM_AT, XXH3_64bits(place, sizeof place));
}

void keys_sign(char *block, uint64_t seed, uint32_t number, uint64_t index)
{
    wire_put_u64(block + KEYS_SUM_AT, keys_sum(block, seed, number, index));
}

void keys_put_entry(char *block, size_t index, const struct keys_entry *entry)
{
    char *at = block + index * KEYS_ENTRY_BYTES;

    wire_put_u32(wire_put_u32(wire_put_u64(at, entry->hash), entry->run), entry->slot);
}

struct keys_entry keys_get_entry(const char *block, size_t index)
{
    struct wire_in in =
        wire_in_make(slice_make(block + index * KEYS_ENTRY_BYTES, KEYS_ENTRY_BYTES));
    struct keys_entry entry;

    entry.hash = wire_take_u64(&in);
    entry.run = wire_take_u32(&in);
    entry.slot = wire_take_u32(&in);
    return entry;
}

void keys_put_footer(char *block, uint64_t seed, uint32_t number, const struct keys_shape *shape)
{
    char *at;

    memset(block, 0, KEYS_BLOCK_BYTES);
    memcpy(block, MAGIC, sizeof MAGIC);
    at = wire_put_u32(block + FORMAT_AT, KEYS_FORMAT);
    at = wire_put_u32(at, number);
    at = wire_put_u64(at, shape->entries);
    at = wire_put_u64(at, shape->filter_blocks);
    assert(at == block + FOOTER_BYTES);
    keys_sign(block, seed, number, shape->footer_at);
}

int keys_get_footer(const char *block, uint64_t seed, uint32_t number, int64_t file_bytes,
                    struct keys_shape *out)
{
    struct wire_in in = wire_in_make(slice_make(block + FORMAT_AT, KEYS_BLOCK_BYTES - FORMAT_AT));
    struct wire_in sum = wire_in_make(slice_make(block + KEYS_SUM_AT, 8));
    uint64_t blocks = (uint64_t)file_bytes / KEYS_BLOCK_BYTES, entries, filter_blocks;
    char again[KEYS_BLOCK_BYTES];
    struct keys_shape shape;

    if (file_bytes < KEYS_BLOCK_BYTES || file_bytes % KEYS_BLOCK_BYTES ||
        memcmp(block, MAGIC, sizeof MAGIC) != 0 ||
        wire_take_u64(&sum) != keys_sum(block, seed, number, blocks - 1))
        return -EBADMSG;
    if (wire_take_u32(&in) > KEYS_FORMAT)
        return -ENOTSUP;
    wire_take_u32(&in);
    entries = wire_take_u64(&in);
    filter_blocks = wire_take_u64(&in);
    /* Prevents overflow below. */
    if (entries > (uint64_t)file_bytes || filter_blocks > (uint64_t)file_bytes || !filter_blocks)
        return -EBADMSG;
    shape = keys_shape_of(entries, filter_blocks);
    keys_put_footer(again, seed, number, &shape);
    if (memcmp(block, again, sizeof again) != 0) /* its checksum also depends on its position */
        return -EBADMSG;
    *out = shape;
    return 0;
}

void keys_file_name(uint32_t number, char out[32])
{
    snprintf(out, 32, "%08" PRIu32 ".keys", number);
}

uint32_t keys_file_number(const char *name)
{
    char again[32];
    char *end;
    unsigned long number = strtoul(name, &end, 10);

    if (*name < '0' || *name > '9' || number > UINT32_MAX)
        return 0;
    keys_file_name((uint32_t)number, again);
    return strcmp(name, again) == 0 ? (uint32_t)number : 0;
}

static void keys_path(const char *dir, const char *name, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s", dir, name);
}

/* ---- opening ---- */

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
        return error_result(result, error, error_bytes, "cannot open table of keys '%s': %s", path,
                            strerror(-result));
    result = read_footer(keys);
    if (result == 0)
        return 0;
    keys->fs->ops->close(keys->fs->ctx, keys->fd);
    if (result == -ENOTSUP)
        return error_result(
            result, error, error_bytes,
            "table of keys '%s' was written by a newer version; use that or a later one", path);
    if (result == -EBADMSG)
        return error_result(
            result, error, error_bytes,
            "table of keys '%s' is damaged: its footer or size is wrong; restore it "
            "from a backup (nothing was changed)",
            path);
    return error_result(result, error, error_bytes, "cannot read table of keys '%s': %s", path,
                        strerror(-result));
}

int keys_open(const struct fs *fs, const char *dir, uint32_t number, uint64_t seed,
              struct keys **out, char *error, size_t error_bytes)
{
    struct keys *keys = calloc(1, sizeof *keys);
    char name[32], path[PATH_MAX];
    int result;

    if (!keys)
        return error_result(-ENOMEM, error, error_bytes, "out of memory");
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

/* Returns the number of entries in a block of entries. */
static size_t keys_block_entries(const struct keys *keys, uint64_t block)
{
    uint64_t left = keys->shape.entries - block * KEYS_BLOCK_ENTRIES;

    return left < KEYS_BLOCK_ENTRIES ? (size_t)left : KEYS_BLOCK_ENTRIES;
}

/* ---- data kept in RAM ---- */

/* Reads `bytes` that are stored consecutively in the blocks from `first` on. */
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

/*
 * A lookup finds the first block that may contain the hash and reads the entries from there on.
 *
 * With the fences in RAM that block is known. Before they are read, it is searched for: since
 * hashes are evenly distributed, the first guesses interpolate between the known values; if they
 * fail, the range is bisected, so that a lookup takes only a few reads in any table.
 */

enum { GUESSES_BY_VALUE = 4 };

struct search {
    const struct keys *keys;
    uint64_t hash;
    bool may_block;
    uint64_t block; /* number of the block in `bytes`; UINT64_MAX: empty */
    char bytes[KEYS_BLOCK_BYTES];
};

static int load(struct search *search, uint64_t block)
{
    int result;

    if (search->block == block)
        return 0;
    search->block = UINT64_MAX;
    result = keys_read_blocks(search->keys, block, 1, search->may_block, search->bytes);
    if (result == 0)
        search->block = block;
    return result;
}

/* Returns the last block in 0..blocks - 1 whose first hash is below `hash`, or 0 if no block is.
 * The entries begin in that block or the next. */
static uint64_t first_by_fences(const uint64_t *fences, uint64_t blocks, uint64_t hash)
{
    uint64_t low = 0, high = blocks;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;

        if (fences[middle] < hash)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Range of candidate blocks: `low` begins below the hash or is the first block; `high` does not
 * begin below it or is the end. The values from and to are the first hashes of the two. */
struct range {
    uint64_t low, high, from, to;
};

/* Returns a block in the range, interpolated by hash. */
static uint64_t guess(const struct range *range, uint64_t hash)
{
    uint64_t width = range->to - range->from;
    unsigned __int128 share = hash < range->from ? 0 : hash - range->from;
    uint64_t at = width ? (uint64_t)(share * (range->high - range->low) / width) : 0;

    if (at >= range->high - range->low)
        at = range->high - range->low - 1;
    return range->low + at;
}

/* Narrows the range with the contents of the loaded block `at`. Returns true if the entries begin
 * in it. */
static bool narrow(struct search *search, struct range *range, uint64_t at)
{
    size_t count = keys_block_entries(search->keys, at);
    uint64_t first = keys_get_entry(search->bytes, 0).hash;
    uint64_t last = keys_get_entry(search->bytes, count - 1).hash;

    if (first >= search->hash && at > 0) {
        range->high = at;
        range->to = first;
        return false;
    }
    range->low = at;
    range->from = first;
    return last >= search->hash;
}

static int first_by_guessing(struct search *search, uint64_t blocks, uint64_t *out)
{
    struct range range = {.high = blocks, .to = UINT64_MAX};
    uint64_t at = guess(&range, search->hash);

    for (int reads = 1;; reads++) {
        int result = load(search, at);

        if (result < 0)
            return result;
        if (narrow(search, &range, at) || range.high - range.low <= 1)
            break;
        at = reads < GUESSES_BY_VALUE ? guess(&range, search->hash)
                                      : range.low + (range.high - range.low) / 2;
        if (at == range.low) /* already read */
            at++;
    }
    *out = range.low;
    return 0;
}

/* Collects entries from the loaded block. Returns true if the next block may contain more. */
static bool take_entries(struct search *search, struct keys_entry *out, size_t max, size_t *found)
{
    size_t low = 0, high = keys_block_entries(search->keys, search->block), count = high;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (keys_get_entry(search->bytes, middle).hash < search->hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < count && *found < max; low++) {
        struct keys_entry entry = keys_get_entry(search->bytes, low);

        if (entry.hash != search->hash)
            return false;
        out[(*found)++] = entry;
    }
    return *found < max;
}

int keys_find(const struct keys *keys, uint64_t hash, bool may_block, struct keys_entry *out,
              size_t max)
{
    const struct keys_ram *ram = atomic_load_explicit(&keys->ram, memory_order_acquire);
    struct search search = {
        .keys = keys, .hash = hash, .may_block = may_block, .block = UINT64_MAX};
    uint64_t blocks = keys->shape.filter_at, at = 0;
    size_t found = 0;
    int result = 0;

    if (blocks == 0 || max == 0)
        return 0;
    if (ram)
        at = first_by_fences(ram->fences, blocks, hash);
    else
        result = first_by_guessing(&search, blocks, &at);
    for (; result == 0 && at < blocks; at++) {
        if (ram && ram->fences[at] > hash)
            break;
        result = load(&search, at);
        if (result == 0 && !take_entries(&search, out, max, &found))
            break;
    }
    return result < 0 ? result : (int)found;
}

/* ---- writing a table and its filter ---- */

enum { SYNC_BYTES = 2 << 20 }; /* the same as for runs */

struct keys_writer {
    struct keys_writing writing;
    struct filter filter;
    uint64_t *fences; /* one per block of entries_max entries */
    uint64_t entries; /* number added so far */
    uint64_t blocks;  /* number begun so far, of any kind */
    char *buffer;     /* KEYS_IO_BYTES, not written yet */
    size_t used;      /* part of the buffer in use, in complete blocks */
    size_t in_block;  /* bytes in use in the current block */
    struct keys_entry last;
    uint64_t written, unsynced; /* bytes */
    int fd;
    bool is_named;
    char dir[PATH_MAX], made[PATH_MAX], name[PATH_MAX]; /* made: temporary name */
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

/* Returns the current block, zeroed if it is a new one. */
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

/* ---- creating, finishing ---- */

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
