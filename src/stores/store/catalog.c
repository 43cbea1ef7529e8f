#include "store/catalog.h"

#include "base/hash.h"
#include "store/alive.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    HEAD_BYTES = 20,
    HEAD_MAX = 160 /* with counts and clocks */,
    SUM_BYTES = 8,
    RUN_BYTES = 24
};

static const char MAGIC[8] = "tarryCAT";

void catalog_fini(struct catalog *catalog)
{
    for (uint32_t i = 0; i < catalog->run_count; i++)
        free(catalog->runs[i].alive);
    for (uint32_t i = 0; i < catalog->topic_count; i++)
        free((char *)catalog->topics[i].name.at);
    free(catalog->runs);
    free(catalog->keys);
    free(catalog->topics);
    *catalog = (struct catalog){0};
}

/* ---- writing ---- */

static void put(struct buffer *out, uint64_t value, size_t bytes)
{
    char raw[8];

    for (size_t i = 0; i < bytes; i++)
        raw[i] = (char)(value >> (8 * i));
    buffer_append(out, raw, bytes);
}

static void put_head(const struct catalog *catalog, struct buffer *out)
{
    char identity[STORE_IDENTITY_BYTES];

    buffer_append(out, MAGIC, sizeof MAGIC);
    put(out, CATALOG_FORMAT, 4);
    put(out, 0, 8); /* the length, filled in at the end */
    put(out, catalog->generation, 8);
    put(out, catalog->seed, 8);
    store_identity_encode(&catalog->identity, identity);
    buffer_append(out, identity, sizeof identity);
    put(out, catalog->next_run, 4);
    put(out, catalog->next_keys, 4);
    put(out, catalog->log_first, 4);
    put(out, catalog->log_first_sequence, 8);
    put(out, (uint64_t)catalog->inner_ms, 8);
    put(out, (uint64_t)catalog->wall_ms, 8);
    put(out, catalog->run_count, 4);
    put(out, catalog->key_count, 4);
    put(out, catalog->topic_count, 4);
}

static void put_run(const struct catalog_run *run, struct buffer *out)
{
    put(out, run->number, 4);
    put(out, run->slots, 4);
    put(out, run->keys, 4);
    put(out, run->alive_count, 4);
    put(out, run->record_bytes, 8);
    buffer_append(out, run->alive, alive_bytes(run->slots));
}

static void put_topic(const struct catalog_topic *topic, struct buffer *out)
{
    put(out, topic->name.len, 1);
    buffer_append_slice(out, topic->name);
    for (size_t i = 0; i < SECTIONS; i++)
        put(out, topic->stored[i], 8);
    put(out, topic->dead_bytes, 8);
    put(out, topic->kept_bytes, 8);
}

/* Returns an upper bound for the encoded size. */
static size_t bytes_max(const struct catalog *catalog)
{
    size_t bytes = HEAD_MAX + (size_t)catalog->key_count * 4 + SUM_BYTES;

    bytes += catalog->topic_count * (size_t)(1 + UINT8_MAX + 8 * (SECTIONS + 2));
    for (uint32_t i = 0; i < catalog->run_count; i++)
        bytes += RUN_BYTES + alive_bytes(catalog->runs[i].slots);
    return bytes;
}

bool catalog_encode(const struct catalog *catalog, struct buffer *out)
{
    size_t start = out->len;
    uint64_t bytes;

    if (!buffer_reserve(out, bytes_max(catalog))) /* growing would copy most of it */
        return false;
    put_head(catalog, out);
    for (uint32_t i = 0; i < catalog->run_count; i++)
        put_run(&catalog->runs[i], out);
    for (uint32_t i = 0; i < catalog->key_count; i++) {
        assert(i == 0 || catalog->keys[i - 1] < catalog->keys[i]); /* required by the decoder */
        put(out, catalog->keys[i], 4);
    }
    for (uint32_t i = 0; i < catalog->topic_count; i++)
        put_topic(&catalog->topics[i], out);
    if (out->failed)
        return false;
    bytes = out->len - start + SUM_BYTES;
    for (size_t i = 0; i < 8; i++)
        out->at[start + 12 + i] = (char)(bytes >> (8 * i));
    put(out, hash_64(out->at + start, out->len - start), 8);
    return !out->failed;
}

/* ---- reading ---- */

struct reader {
    const char *at;
    size_t left;
    bool bad;
    bool leaves_bits; /* does not copy the bitmaps */
};

static const char *take(struct reader *reader, size_t bytes)
{
    const char *at = reader->at;

    if (reader->bad || reader->left < bytes) {
        reader->bad = true;
        return NULL;
    }
    reader->at += bytes;
    reader->left -= bytes;
    return at;
}

static uint64_t get(struct reader *reader, size_t bytes)
{
    const unsigned char *raw = (const unsigned char *)take(reader, bytes);
    uint64_t value = 0;

    for (size_t i = 0; raw && i < bytes; i++)
        value |= (uint64_t)raw[i] << (8 * i);
    return value;
}

/* Allocates `count` elements of `bytes` bytes, each of which takes at least `least` bytes in the
 * file, so that an impossible count allocates no memory. */
static int make_room(struct reader *reader, uint32_t count, size_t least, size_t bytes, void **out)
{
    if (reader->bad || count > reader->left / least) {
        reader->bad = true;
        return -EBADMSG;
    }
    if (count == 0)
        return 0;
    *out = calloc(count, bytes);
    return *out ? 0 : -ENOMEM;
}

static uint32_t bits_set(const char *bytes, size_t len)
{
    uint32_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += (uint32_t)__builtin_popcount((unsigned char)bytes[i]);
    return count;
}

static bool bits_beyond(const char *bits, uint32_t slots)
{
    for (uint64_t slot = slots; slot < (uint64_t)alive_bytes(slots) * 8; slot++)
        if ((unsigned char)bits[slot / 8] >> (slot % 8) & 1)
            return true;
    return false;
}

static int get_run(struct reader *reader, struct catalog_run *run)
{
    const char *bits;

    run->number = (uint32_t)get(reader, 4);
    run->slots = (uint32_t)get(reader, 4);
    run->keys = (uint32_t)get(reader, 4);
    run->alive_count = (uint32_t)get(reader, 4);
    run->record_bytes = get(reader, 8);
    bits = take(reader, alive_bytes(run->slots));
    if (reader->bad || run->slots == 0)
        return -EBADMSG;
    if (bits_set(bits, alive_bytes(run->slots)) != run->alive_count ||
        bits_beyond(bits, run->slots))
        return -EBADMSG;
    if (reader->leaves_bits)
        return 0;
    run->alive = malloc(alive_bytes(run->slots));
    if (!run->alive)
        return -ENOMEM;
    memcpy(run->alive, bits, alive_bytes(run->slots));
    return 0;
}

static int get_topic(struct reader *reader, struct catalog_topic *topic)
{
    size_t len = (size_t)get(reader, 1);
    const char *name = take(reader, len);
    char *copy;

    if (!name || !job_topic_is_valid(slice_make(name, len)))
        return -EBADMSG;
    copy = malloc(len);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, name, len);
    topic->name = slice_make(copy, len);
    for (size_t i = 0; i < SECTIONS; i++)
        topic->stored[i] = get(reader, 8);
    topic->dead_bytes = get(reader, 8);
    topic->kept_bytes = get(reader, 8);
    return reader->bad ? -EBADMSG : 0;
}

static int get_runs(struct reader *reader, uint32_t count, struct catalog *out)
{
    uint32_t before = 0;
    int result = make_room(reader, count, RUN_BYTES, sizeof *out->runs, (void **)&out->runs);

    for (uint32_t i = 0; result == 0 && i < count; i++) {
        out->run_count++;
        result = get_run(reader, &out->runs[i]);
        if (result == 0 && (out->runs[i].number <= before || out->runs[i].number >= out->next_run))
            result = -EBADMSG;
        before = out->runs[i].number;
    }
    return result;
}

static int get_keys(struct reader *reader, uint32_t count, struct catalog *out)
{
    uint32_t before = 0;
    int result = make_room(reader, count, 4, sizeof *out->keys, (void **)&out->keys);

    for (uint32_t i = 0; result == 0 && i < count; i++) {
        uint32_t number = (uint32_t)get(reader, 4);

        if (number <= before || number >= out->next_keys)
            return -EBADMSG;
        out->keys[out->key_count++] = before = number;
    }
    return result;
}

static int get_topics(struct reader *reader, uint32_t count, struct catalog *out)
{
    int result = make_room(reader, count, 1 + 8 * (SECTIONS + 2), sizeof *out->topics,
                           (void **)&out->topics);

    for (uint32_t i = 0; result == 0 && i < count; i++)
        result = get_topic(reader, &out->topics[out->topic_count++]);
    return result;
}

static int get_all(struct reader *reader, struct catalog *out)
{
    uint32_t runs, keys, topics;
    const char *identity;
    int result;

    out->generation = get(reader, 8);
    out->seed = get(reader, 8);
    identity = take(reader, STORE_IDENTITY_BYTES);
    if (identity)
        out->identity = store_identity_decode(identity);
    out->next_run = (uint32_t)get(reader, 4);
    out->next_keys = (uint32_t)get(reader, 4);
    out->log_first = (uint32_t)get(reader, 4);
    out->log_first_sequence = get(reader, 8);
    out->inner_ms = (int64_t)get(reader, 8);
    out->wall_ms = (int64_t)get(reader, 8);
    runs = (uint32_t)get(reader, 4);
    keys = (uint32_t)get(reader, 4);
    topics = (uint32_t)get(reader, 4);
    if (reader->bad || out->generation == 0 || out->seed == 0 || !store_identity_is_sound(identity))
        return -EBADMSG;
    result = get_runs(reader, runs, out);
    if (result == 0)
        result = get_keys(reader, keys, out);
    if (result == 0)
        result = get_topics(reader, topics, out);
    return result == 0 && (reader->bad || reader->left > 0) ? -EBADMSG : result;
}

/* Checks the magic and the checksum, in any format. */
static int check_whole(struct slice bytes)
{
    struct reader head = {.at = bytes.at, .left = bytes.len}, sum;
    uint64_t format, length;
    const char *magic = take(&head, sizeof MAGIC);

    format = get(&head, 4);
    length = get(&head, 8);
    if (head.bad || memcmp(magic, MAGIC, sizeof MAGIC) != 0 || length != bytes.len ||
        bytes.len < HEAD_BYTES + SUM_BYTES)
        return -EBADMSG;
    sum = (struct reader){.at = bytes.at + bytes.len - SUM_BYTES, .left = SUM_BYTES};
    if (get(&sum, 8) != hash_64(bytes.at, bytes.len - SUM_BYTES))
        return -EBADMSG;
    if (format > CATALOG_FORMAT)
        return -EPROTONOSUPPORT;
    return format == CATALOG_FORMAT ? 0 : -EBADMSG;
}

static int decode(struct slice bytes, bool leaves_bits, struct catalog *out)
{
    struct catalog found = {0};
    struct reader reader;
    int result = check_whole(bytes);

    if (result < 0)
        return result;
    reader = (struct reader){.at = bytes.at + HEAD_BYTES,
                             .left = bytes.len - HEAD_BYTES - SUM_BYTES,
                             .leaves_bits = leaves_bits};
    result = get_all(&reader, &found);
    if (result < 0) {
        catalog_fini(&found);
        return result;
    }
    *out = found;
    return 0;
}

int catalog_decode(struct slice bytes, struct catalog *out)
{
    return decode(bytes, false, out);
}

int catalog_check(struct slice bytes)
{
    struct catalog found;
    int result = decode(bytes, true, &found);

    if (result == 0)
        catalog_fini(&found);
    return result;
}

/* Digits as in the names of runs, and more if needed, so that names of different generations always
 * differ. */
enum { DIGITS = 8, DIGITS_MAX = 20, FOUND_MAX = 64 };
#define CATALOG_BYTES_MAX ((size_t)1 << 33) /* a bit for each of 2^32 slots, 16 times */

static const char PREFIX[] = "CATALOG-", COPY_SUFFIX[] = ".2";
static const char FRESH[] = "CATALOG.tmp";

void catalog_file_name(uint64_t generation, char out[32])
{
    snprintf(out, 32, "%s%0*" PRIu64, PREFIX, DIGITS, generation);
}

void catalog_copy_name(uint64_t generation, char out[32])
{
    snprintf(out, 32, "%s%0*" PRIu64 "%s", PREFIX, DIGITS, generation, COPY_SUFFIX);
}

uint64_t catalog_file_generation(const char *name)
{
    uint64_t generation;
    char again[32], copy[32];

    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0 || strlen(name) >= sizeof again)
        return 0;
    generation = strtoull(name + sizeof PREFIX - 1, NULL, 10);
    catalog_file_name(generation, again);
    catalog_copy_name(generation, copy);
    return strcmp(name, again) == 0 || strcmp(name, copy) == 0 ? generation : 0;
}

static bool path_of(const char *dir, const char *name, char out[PATH_MAX])
{
    return snprintf(out, PATH_MAX, "%s/%s", dir, name) < PATH_MAX;
}

/* ---- what is there ---- */

/* The newest FOUND_MAX generations below `below`. */
struct found {
    uint64_t generations[FOUND_MAX];
    size_t count;
    uint64_t below;
};

static void note(void *ctx, const char *name)
{
    struct found *found = ctx;
    uint64_t generation = catalog_file_generation(name);
    size_t at = 0;

    if (generation == 0 || generation >= found->below)
        return;
    while (at < found->count && found->generations[at] > generation)
        at++;
    if (at == FOUND_MAX || (at < found->count && found->generations[at] == generation))
        return;
    if (found->count < FOUND_MAX)
        found->count++;
    memmove(&found->generations[at + 1], &found->generations[at],
            (found->count - at - 1) * sizeof found->generations[0]);
    found->generations[at] = generation;
}

static int look(const struct fs *fs, const char *dir, uint64_t below, struct found *out)
{
    *out = (struct found){.below = below};
    return fs->ops->list(fs->ctx, dir, note, out);
}

/* ---- reading ---- */

static int read_all(const struct fs *fs, int fd, struct buffer *into)
{
    int64_t size = fs->ops->size(fs->ctx, fd);
    char *room;
    int result;

    if (size < 0)
        return (int)size;
    if ((uint64_t)size > CATALOG_BYTES_MAX)
        return -EBADMSG;
    room = buffer_reserve(into, (size_t)size + 1);
    if (!room)
        return -ENOMEM;
    result = fs_pread_whole(fs, fd, true, room, (size_t)size, 0);
    if (result == 0)
        into->len += (size_t)size;
    return result;
}

/* Removes bytes after the catalog's length. */
static struct slice cut_excess(struct slice bytes)
{
    struct reader head = {.at = bytes.at, .left = bytes.len};
    uint64_t length;

    take(&head, sizeof MAGIC + 4);
    length = get(&head, 8);
    return head.bad || length > bytes.len ? bytes : slice_make(bytes.at, (size_t)length);
}

/* Reads one copy, whose generation must match its name. identity NULL: any. */
static int read_copy(const struct fs *fs, const char *dir, const char *name,
                     const struct store_identity *identity, struct catalog *out)
{
    struct buffer bytes;
    char path[PATH_MAX];
    int fd, result;

    if (!path_of(dir, name, path))
        return -ENAMETOOLONG;
    fd = fs->ops->open(fs->ctx, path, O_RDONLY, 0);
    if (fd < 0)
        return fd;
    buffer_init(&bytes, CATALOG_BYTES_MAX + 1);
    result = read_all(fs, fd, &bytes);
    fs->ops->close(fs->ctx, fd);
    if (result == 0)
        result = catalog_decode(cut_excess(buffer_slice(&bytes)), out);
    buffer_fini(&bytes);
    if (result == 0 && (out->generation != catalog_file_generation(name) || /* file was renamed */
                        (identity && !store_identity_equals(identity, &out->identity)))) {
        catalog_fini(out);
        return -EBADMSG;
    }
    return result;
}

int catalog_look(const struct fs *fs, const char *dir, const char *name,
                 struct store_identity *identity)
{
    struct catalog found = {0};
    int result = read_copy(fs, dir, name, NULL, &found);

    *identity = found.identity;
    if (result == 0)
        catalog_fini(&found);
    return result;
}

/* Reads one generation from either copy. */
static int read_one(const struct fs *fs, const char *dir, uint64_t generation,
                    const struct store_identity *identity, struct catalog *out)
{
    char name[32];
    int first, second;

    catalog_file_name(generation, name);
    first = read_copy(fs, dir, name, identity, out);
    if (first != -EBADMSG && first != -ENOENT)
        return first;
    catalog_copy_name(generation, name);
    second = read_copy(fs, dir, name, identity, out);
    return second == -ENOENT ? first : second;
}

static int refuse(int result, const char *dir, uint64_t generation, char *error, size_t error_bytes)
{
    char name[32];

    catalog_file_name(generation, name);
    if (result == -EPROTONOSUPPORT)
        snprintf(error, error_bytes,
                 "'%s/%s' has a format newer than %d, the newest this version knows: use the "
                 "version that wrote it, or a newer one",
                 dir, name, CATALOG_FORMAT);
    else if (result == -EBADMSG)
        snprintf(error, error_bytes,
                 "'%s/%s' is damaged, and there is no older one: restore the directory from a "
                 "backup",
                 dir, name);
    else
        snprintf(error, error_bytes, "'%s/%s' cannot be read: %s", dir, name, strerror(-result));
    return result;
}

int catalog_read(const struct fs *fs, const char *dir, struct catalog *out, uint32_t *damaged,
                 char *error, size_t error_bytes)
{
    return catalog_read_of(fs, dir, NULL, out, damaged, error, error_bytes);
}

int catalog_read_of(const struct fs *fs, const char *dir, const struct store_identity *identity,
                    struct catalog *out, uint32_t *damaged, char *error, size_t error_bytes)
{
    struct found found;
    uint32_t passed = 0;
    int result = look(fs, dir, UINT64_MAX, &found);

    if (result < 0) {
        snprintf(error, error_bytes, "'%s' cannot be read: %s", dir, strerror(-result));
        return result;
    }
    for (size_t i = 0; i < found.count; i++, passed++) {
        result = read_one(fs, dir, found.generations[i], identity, out);
        if (result == 0) {
            *damaged = passed;
            return 0;
        }
        if (result != -EBADMSG)
            return refuse(result, dir, found.generations[i], error, error_bytes);
    }
    if (passed > 0)
        return refuse(-EBADMSG, dir, found.generations[0], error, error_bytes);
    snprintf(error, error_bytes, "'%s' has no catalog", dir);
    return -ENOENT;
}

/* ---- writing ---- */

static int write_fresh(const struct fs *fs, const char *path, struct slice bytes)
{
    int fd = fs->ops->open(fs->ctx, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int result;

    if (fd < 0)
        return fd;
    result = fs_pwrite_whole(fs, fd, bytes.at, bytes.len, 0);
    if (result == 0)
        result = fs->ops->fdatasync(fs->ctx, fd);
    fs->ops->close(fs->ctx, fd);
    return result;
}

/* Removes older catalogs durably, so that an old one cannot reappear after files that only it names
 * were removed. A failure is harmless: the next write removes them. */
static void remove_older(const struct fs *fs, const char *dir, uint64_t generation)
{
    struct found found;
    char name[32], path[PATH_MAX];

    if (look(fs, dir, generation, &found) < 0 || found.count == 0)
        return;
    for (size_t i = 0; i < found.count; i++) {
        catalog_file_name(found.generations[i], name);
        path_of(dir, name, path); /* at most as long as the name of the newest */
        fs->ops->unlink(fs->ctx, path);
        catalog_copy_name(found.generations[i], name);
        if (path_of(dir, name, path))
            fs->ops->unlink(fs->ctx, path);
    }
    fs->ops->fsync_dir(fs->ctx, dir);
}

static int write_bytes(const struct fs *fs, const char *dir, const char *name, struct slice bytes,
                       bool *is_fatal)
{
    char fresh[PATH_MAX], path[PATH_MAX];
    bool is_named = false;
    int result;

    if (!path_of(dir, name, path)) /* FRESH is not longer */
        return -ENAMETOOLONG;
    path_of(dir, FRESH, fresh);
    result = write_fresh(fs, fresh, bytes);
    if (result == 0)
        result = fs_give_name(fs, dir, fresh, path, &is_named);
    if (result < 0 && !is_named)
        fs->ops->unlink(fs->ctx, fresh);
    *is_fatal = result < 0 && is_named;
    return result;
}

int catalog_write(const struct fs *fs, const char *dir, const struct catalog *catalog,
                  bool *is_fatal)
{
    struct buffer bytes;
    char name[32], copy[32];
    bool ignored;
    int result = -ENOMEM;

    assert(catalog->generation > 0 && catalog->seed != 0);
    *is_fatal = false;
    catalog_file_name(catalog->generation, name);
    catalog_copy_name(catalog->generation, copy);
    buffer_init(&bytes, CATALOG_BYTES_MAX);
    /* Verify before writing: a catalog that cannot be read must not replace one that can. */
    if (catalog_encode(catalog, &bytes))
        result = catalog_check(buffer_slice(&bytes));
    if (result == 0)
        result = write_bytes(fs, dir, name, buffer_slice(&bytes), is_fatal);
    if (result == 0) /* it is committed; if the copy fails, the next catalog has one */
        (void)write_bytes(fs, dir, copy, buffer_slice(&bytes), &ignored);
    buffer_fini(&bytes);
    if (result == 0)
        remove_older(fs, dir, catalog->generation);
    return result;
}
