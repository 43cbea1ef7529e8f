#include "base/hash.h"
#include "store/alive.h"
#include "store/catalog.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    HEAD_BYTES = 20,
    HEAD_MAX = 128 /* with counts and clocks */,
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
    buffer_append(out, MAGIC, sizeof MAGIC);
    put(out, CATALOG_FORMAT, 4);
    put(out, 0, 8); /* the length, known at the end */
    put(out, catalog->generation, 8);
    put(out, catalog->seed, 8);
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
}

/* No less than it takes. */
static size_t bytes_max(const struct catalog *catalog)
{
    size_t bytes = HEAD_MAX + (size_t)catalog->key_count * 4 + SUM_BYTES;

    bytes += catalog->topic_count * (size_t)(1 + UINT8_MAX + 8 * (SECTIONS + 1));
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
        assert(i == 0 || catalog->keys[i - 1] < catalog->keys[i]); /* as it is read */
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
    bool leaves_bits; /* where they are: nobody wants a copy */
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

/* Room for `count` things of `bytes`, each of which has at least `least` bytes in the file: a count
 * that cannot be true asks for no memory. */
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
    int result = make_room(reader, count, 1 + 8 * (SECTIONS + 1), sizeof *out->topics,
                           (void **)&out->topics);

    for (uint32_t i = 0; result == 0 && i < count; i++)
        result = get_topic(reader, &out->topics[out->topic_count++]);
    return result;
}

static int get_all(struct reader *reader, struct catalog *out)
{
    uint32_t runs, keys, topics;
    int result;

    out->generation = get(reader, 8);
    out->seed = get(reader, 8);
    out->next_run = (uint32_t)get(reader, 4);
    out->next_keys = (uint32_t)get(reader, 4);
    out->log_first = (uint32_t)get(reader, 4);
    out->log_first_sequence = get(reader, 8);
    out->inner_ms = (int64_t)get(reader, 8);
    out->wall_ms = (int64_t)get(reader, 8);
    runs = (uint32_t)get(reader, 4);
    keys = (uint32_t)get(reader, 4);
    topics = (uint32_t)get(reader, 4);
    if (reader->bad || out->generation == 0 || out->seed == 0)
        return -EBADMSG;
    result = get_runs(reader, runs, out);
    if (result == 0)
        result = get_keys(reader, keys, out);
    if (result == 0)
        result = get_topics(reader, topics, out);
    return result == 0 && (reader->bad || reader->left > 0) ? -EBADMSG : result;
}

/* Whether the head is one of ours and the checksum is right, in whatever format. */
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
