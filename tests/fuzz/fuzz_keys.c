/*
 * Any bytes as a table of keys: it is opened and read in all ways, or refused, and a repeated read returns
 * the same. Unchanged, and with corrected checksums and footer, so that the code behind
 * them is also reached. Seeds: corpus/keys: how many entries (u16), filter blocks (u8), then entries
 * of 16 bytes, repeated until there are as many.
 */
#include "fuzz/claim.h"
#include "store/keys_private.h"
#include "support/merge_whole.h"
#include "support/sim_fs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEED = 5, HEAD_BYTES = 3, ENTRIES_MAX = 1200 };

static struct sim_fs sim;

static void write_file(const char *bytes, size_t len)
{
    int fd = sim.fs.ops->open(&sim, "run/00000001.keys", O_RDWR | O_CREAT | O_TRUNC, 0600);

    for (size_t done = 0; done < len;)
        done += (size_t)sim.fs.ops->pwrite(&sim, fd, bytes + done, len - done, (int64_t)done);
    sim.fs.ops->close(&sim, fd);
}

static void ask(const struct keys *keys, uint64_t hash)
{
    struct keys_entry found[8];
    int count = keys_find(keys, hash, true, found, 8);

    CLAIM("there is room, or it is damaged", count <= 8 && (count >= 0 || count == -EBADMSG));
    for (int i = 0; i < count; i++)
        CLAIM("what is found was asked for", found[i].hash == hash);
    keys_maybe(keys, hash);
}

/* Returns how many entries came, or that it is damaged. */
static int walk(const struct keys *keys)
{
    struct keys_cursor cursor = {.keys = keys};
    struct keys_entry entry, last = {0};
    int count = 0, result;

    while ((result = keys_cursor_next(&cursor, &entry)) == 1) {
        CLAIM("they rise", count++ == 0 || keys_compare(&last, &entry) <= 0);
        if (count % 16 == 1)
            ask(keys, entry.hash);
        last = entry;
    }
    keys_cursor_fini(&cursor);
    CLAIM("all of them came, or it is damaged",
          result == -EBADMSG || (result == 0 && (uint64_t)count == keys_count(keys)));
    return result < 0 ? result : count;
}

static bool keeps_all(void *ctx, const struct keys_entry *entry)
{
    (void)ctx, (void)entry;
    return true;
}

static void merge(struct keys *keys, int count)
{
    struct keys_writing writing = {.fs = &sim.fs,
                                   .dir = "run",
                                   .number = 2,
                                   .seed = SEED,
                                   .entries_max = 2 * keys_count(keys)};
    struct keys *both[2] = {keys, keys};
    uint64_t kept = 0;
    int result = merge_whole(&writing, both, 2, keeps_all, NULL, &kept);

    CLAIM("what can be read can be merged", result == (count < 0 ? -EBADMSG : 0));
    CLAIM("with all there is", count < 0 || kept == 2 * (uint64_t)count);
}

static void run(const char *bytes, size_t len)
{
    struct keys *keys;
    char error[300] = "";
    int result, count;

    sim_fs_init(&sim, 1);
    write_file(bytes, len);
    result = keys_open(&sim.fs, "run", 1, SEED, &keys, error, sizeof error);
    CLAIM("it opens or is refused", result == 0 || result == -EBADMSG || result == -ENOTSUP);
    CLAIM("a refusal has words", result == 0 || *error);
    if (result == 0) {
        count = walk(keys);
        ask(keys, 0);
        ask(keys, UINT64_MAX);
        result = keys_load_filter(keys);
        CLAIM("a filter is read or damaged", result == 0 || result == -EBADMSG);
        CLAIM("asked again it says the same", walk(keys) == count);
        merge(keys, count);
        keys_close(keys);
    }
    sim_fs_fini(&sim);
}

static void put_entries(char *file, const struct keys_shape *shape, const uint8_t *data,
                        size_t size)
{
    for (uint64_t i = 0; i < shape->entries; i++) {
        size_t at = HEAD_BYTES + i * KEYS_ENTRY_BYTES % (size - HEAD_BYTES);
        size_t len = size - at < KEYS_ENTRY_BYTES ? size - at : KEYS_ENTRY_BYTES;

        memcpy(file + i / KEYS_BLOCK_ENTRIES * KEYS_BLOCK_BYTES +
                   i % KEYS_BLOCK_ENTRIES * KEYS_ENTRY_BYTES,
               data + at, len);
    }
}

/* A file whose every checksum is right, with the input as entries, filter and fences. */
static void run_signed(const uint8_t *data, size_t size)
{
    uint64_t entries = (uint64_t)(data[0] | data[1] << 8) % ENTRIES_MAX;
    struct keys_shape shape = keys_shape_of(entries, data[2] + UINT64_C(1));
    size_t len = (size_t)(shape.footer_at + 1) * KEYS_BLOCK_BYTES;
    char *file = calloc(1, len);

    CLAIM("there is memory", file);
    put_entries(file, &shape, data, size);
    for (uint64_t block = shape.filter_at; block < shape.footer_at; block++)
        memcpy(file + block * KEYS_BLOCK_BYTES, data,
               size < KEYS_BLOCK_BYTES ? size : KEYS_BLOCK_BYTES);
    for (uint64_t block = 0; block < shape.footer_at; block++)
        keys_sign(file + block * KEYS_BLOCK_BYTES, SEED, 1, block);
    keys_put_footer(file + shape.footer_at * KEYS_BLOCK_BYTES, SEED, 1, &shape);
    run(file, len);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run((const char *)data, size);
    if (size > HEAD_BYTES)
        run_signed(data, size);
    return 0;
}
