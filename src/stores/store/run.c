#include "store/run_private.h"

#include "base/error.h"
#include "base/hash.h"
#include "job/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

/*
 * The names are stored consecutively. An open-addressing hash table, at most half full, refers to
 * them.
 */

enum { TOPICS_FIRST = 16 };

void run_topics_init(struct run_topics *topics)
{
    *topics = (struct run_topics){0};
    buffer_init(&topics->names, UINT32_MAX);
}

void run_topics_fini(struct run_topics *topics)
{
    buffer_fini(&topics->names);
    free(topics->at);
    free(topics->table);
    run_topics_init(topics);
}

struct slice run_topics_name(const struct run_topics *topics, uint32_t number)
{
    const char *at = topics->names.at + topics->at[number];

    return slice_make(at + 1, (unsigned char)*at);
}

/* Returns the position of the name in the table, or the free position for it. */
static uint32_t place_of(const struct run_topics *topics, struct slice name)
{
    uint32_t mask = topics->table_cap - 1, at = (uint32_t)hash_64(name.at, name.len) & mask;

    while (topics->table[at] && !slice_equals(run_topics_name(topics, topics->table[at] - 1), name))
        at = (at + 1) & mask;
    return at;
}

uint32_t run_topics_find(const struct run_topics *topics, struct slice name)
{
    return topics->count ? topics->table[place_of(topics, name)] - 1 : UINT32_MAX;
}

static bool run_topics_grow(struct run_topics *topics)
{
    uint32_t cap = topics->cap ? topics->cap * 2 : TOPICS_FIRST;
    uint32_t *at = realloc(topics->at, cap * sizeof *at), *table;

    if (!at)
        return false;
    topics->at = at;
    table = calloc((size_t)cap * 2, sizeof *table);
    if (!table)
        return false;
    free(topics->table);
    topics->table = table;
    topics->table_cap = cap * 2;
    topics->cap = cap;
    for (uint32_t number = 0; number < topics->count; number++)
        table[place_of(topics, run_topics_name(topics, number))] = number + 1;
    return true;
}

int run_topics_add(struct run_topics *topics, struct slice name, uint32_t *number)
{
    size_t at = topics->names.len;

    assert(name.len <= RUN_TOPIC_BYTES_MAX);
    *number = run_topics_find(topics, name);
    if (*number != UINT32_MAX)
        return 0;
    if (topics->count == RUN_TOPICS_MAX)
        return -EFBIG;
    if (topics->count == topics->cap && !run_topics_grow(topics))
        return -ENOMEM;
    if (!buffer_reserve(&topics->names, name.len + 1))
        return -ENOMEM;
    buffer_append_byte(&topics->names, (char)(unsigned char)name.len);
    buffer_append_slice(&topics->names, name);
    topics->table[place_of(topics, name)] = topics->count + 1;
    topics->at[topics->count] = (uint32_t)at;
    *number = topics->count++;
    return 0;
}

int run_topics_parse(struct run_topics *topics, struct slice bytes, uint32_t count)
{
    size_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        size_t len = at < bytes.len ? (unsigned char)bytes.at[at] : 0;
        uint32_t number;
        int result;

        if (at >= bytes.len || bytes.len - at - 1 < len)
            return -EBADMSG;
        result = run_topics_add(topics, slice_make(bytes.at + at + 1, len), &number);
        if (result < 0)
            return result;
        if (number != i) /* duplicate */
            return -EBADMSG;
        at += len + 1;
    }
    return at == bytes.len ? 0 : -EBADMSG;
}

#define XXH_INLINE_ALL

/*
 * Every checksum depends on the secret seed and on its position: the run, and the block or the
 * slot. So it detects a block of another run (including an older file of the same number), a block
 * written to the wrong place, and bytes that a client put into a body.
 */

static const char HEADER_MAGIC[8] = {'t', 'a', 'r', 'r', 'y', 'r', 'u', 'n'};
static const char FOOTER_MAGIC[8] = {'t', 'a', 'r', 'r', 'y', 'e', 'n', 'd'};
static const char SUFFIX[] = ".run";

enum { MAGIC_BYTES = 8, FOOTER_USED_BYTES = MAGIC_BYTES + 5 * 4 + 8 + SECTIONS * 12 };

/* Returns the seed for a position. `what` distinguishes blocks from records. */
static uint64_t place_seed(uint64_t seed, uint32_t number, uint32_t at, uint64_t what)
{
    return (seed ^ what) + ((uint64_t)number << 32 | at) * 0x9e3779b97f4a7c15u;
}

static uint64_t block_sum(uint64_t seed, uint32_t number, uint64_t offset, const char *block)
{
    uint32_t at = (uint32_t)(offset / RUN_BLOCK_BYTES);

    return XXH3_64bits_withSeed(block, RUN_BLOCK_ROOM,
                                place_seed(seed, number, at, 0x72756e20626c6f63u));
}

void run_block_seal(uint64_t seed, uint32_t number, uint64_t offset, char *block)
{
    wire_put_u64(block + RUN_BLOCK_ROOM, block_sum(seed, number, offset, block));
}

static bool run_block_is_whole(uint64_t seed, uint32_t number, uint64_t offset, const char *block)
{
    struct wire_in in = wire_in_make(slice_make(block + RUN_BLOCK_ROOM, 8));

    return wire_take_u64(&in) == block_sum(seed, number, offset, block);
}

uint32_t run_record_check(uint64_t seed, uint32_t number, uint32_t slot, struct slice record)
{
    return (uint32_t)XXH3_64bits_withSeed(record.at, record.len,
                                          place_seed(seed, number, slot, 0x72756e207265636fu));
}

/* ---- header ---- */

/* Encodes the header. The first bytes of this block, and its checksum, have the same form in every
 * format, so that older versions can identify newer ones. */
void run_header_encode(uint64_t seed, uint32_t number, const struct run_footer *footer, char *block)
{
    char end[RUN_BLOCK_BYTES], *at = block + MAGIC_BYTES;

    memset(block, 0, RUN_BLOCK_BYTES);
    memcpy(block, HEADER_MAGIC, MAGIC_BYTES);
    at = wire_put_u32(at, RUN_FORMAT);
    at = wire_put_u32(at, number);
    if (footer) {
        run_footer_encode(seed, footer, end);
        at = wire_put_u64(at, footer->info.file_bytes);
        memcpy(at, end, FOOTER_USED_BYTES);
    }
    run_block_seal(seed, number, 0, block);
}

/* Decodes the header. Returns 0 and the copy of the footer; -EBADMSG; or -EPROTONOSUPPORT with
 * *format if a newer version wrote it. */
static int run_header_decode(uint64_t seed, uint32_t number, const char *block, uint32_t *format,
                             struct run_footer *footer)
{
    const char *copy = block + MAGIC_BYTES + 16;
    struct wire_in in = wire_in_make(slice_make(block + MAGIC_BYTES, 16));
    char end[RUN_BLOCK_BYTES] = {0};
    uint64_t file_bytes;

    *format = wire_take_u32(&in);
    if (memcmp(block, HEADER_MAGIC, MAGIC_BYTES) != 0 || wire_take_u32(&in) != number ||
        *format == 0 || !run_block_is_whole(seed, number, 0, block))
        return -EBADMSG;
    if (*format > RUN_FORMAT)
        return -EPROTONOSUPPORT;
    file_bytes = wire_take_u64(&in);
    if (file_bytes < 2 * RUN_BLOCK_BYTES || file_bytes % RUN_BLOCK_BYTES)
        return -EBADMSG;
    memcpy(end, copy, FOOTER_USED_BYTES);
    run_block_seal(seed, number, file_bytes - RUN_BLOCK_BYTES, end);
    return run_footer_decode(seed, number, file_bytes, end, footer) ? 0 : -EBADMSG;
}

/* ---- footer ---- */

void run_footer_lay_out(struct run_footer *footer)
{
    struct run_info *info = &footer->info;
    uint32_t first = 0;

    for (int section = 0; section < SECTIONS; section++) {
        info->sections[section].first = first;
        first += info->sections[section].count;
    }
    info->record_bytes = footer->record_end - RUN_BLOCK_BYTES;
    footer->directory_at = run_round_up(footer->record_end);
    footer->topics_at =
        footer->directory_at + (uint64_t)run_directory_blocks(info->slots) * RUN_BLOCK_BYTES;
    info->file_bytes = footer->topics_at + run_topic_blocks(footer->topic_bytes) * RUN_BLOCK_BYTES +
                       RUN_BLOCK_BYTES;
}

void run_footer_encode(uint64_t seed, const struct run_footer *footer, char *block)
{
    const struct run_info *info = &footer->info;
    char *at = block + MAGIC_BYTES;

    memset(block, 0, RUN_BLOCK_BYTES);
    memcpy(block, FOOTER_MAGIC, MAGIC_BYTES);
    at = wire_put_u32(at, RUN_FORMAT);
    at = wire_put_u32(at, info->number);
    at = wire_put_u32(at, info->slots);
    at = wire_put_u32(at, info->topics);
    at = wire_put_u32(at, footer->topic_bytes);
    at = wire_put_u64(at, footer->record_end);
    for (int section = 0; section < SECTIONS; section++) {
        at = wire_put_u32(at, info->sections[section].count);
        at = wire_put_u64(at, (uint64_t)info->sections[section].first_when_ms);
    }
    assert(at == block + FOOTER_USED_BYTES);
    run_block_seal(seed, info->number, info->file_bytes - RUN_BLOCK_BYTES, block);
}

/* Checks that the values match a file of that size, before anything is computed from them. */
static bool footer_is_sound(struct run_footer *footer, uint64_t file_bytes)
{
    const struct run_info *info = &footer->info;
    uint64_t slots = 0;

    for (int section = 0; section < SECTIONS; section++)
        slots += info->sections[section].count;
    if (slots != info->slots || info->topics > info->slots || info->topics > RUN_TOPICS_MAX ||
        footer->topic_bytes < info->topics || footer->record_end < RUN_BLOCK_BYTES ||
        footer->record_end > file_bytes)
        return false;
    run_footer_lay_out(footer);
    return info->file_bytes == file_bytes;
}

/* Decodes a footer. It is valid if encoding the values again gives the stored checksum. */
bool run_footer_decode(uint64_t seed, uint32_t number, uint64_t file_bytes, const char *block,
                       struct run_footer *out)
{
    struct wire_in in =
        wire_in_make(slice_make(block + MAGIC_BYTES, FOOTER_USED_BYTES - MAGIC_BYTES));
    struct run_footer footer = {.info = {.number = number}};
    char again[RUN_BLOCK_BYTES];

    wire_take_u64(&in);
    footer.info.slots = wire_take_u32(&in);
    footer.info.topics = wire_take_u32(&in);
    footer.topic_bytes = wire_take_u32(&in);
    footer.record_end = wire_take_u64(&in);
    for (int section = 0; section < SECTIONS; section++) {
        footer.info.sections[section].count = wire_take_u32(&in);
        footer.info.sections[section].first_when_ms = (int64_t)wire_take_u64(&in);
    }
    if (!footer_is_sound(&footer, file_bytes))
        return false;
    run_footer_encode(seed, &footer, again);
    if (memcmp(block + RUN_BLOCK_ROOM, again + RUN_BLOCK_ROOM, RUN_BLOCK_BYTES - RUN_BLOCK_ROOM))
        return false;
    *out = footer;
    return true;
}

/* ---- files ---- */

void run_path(const char *dir, const char *name, const char *suffix, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s%s", dir, name, suffix);
}

void run_file_name(uint32_t number, char out[32])
{
    snprintf(out, 32, "%08" PRIu32 "%s", number, SUFFIX);
}

uint32_t run_file_number(const char *name)
{
    char again[32];
    unsigned long number;

    if (*name < '0' || *name > '9')
        return 0;
    number = strtoul(name, NULL, 10);
    if (number > UINT32_MAX)
        return 0;
    run_file_name((uint32_t)number, again);
    return strcmp(name, again) == 0 ? (uint32_t)number : 0;
}

/* Parts of a run that are never read. Checksums are computed over their original contents, and are
 * checked as if these were intact: a changed bit there loses no job, and fsck reports it. */

static const char unread_zeros[RUN_BLOCK_BYTES];

struct looking {
    const struct run *run;
    void (*each)(void *ctx, uint64_t at);
    void *ctx;
    int result; /* result of the first failed read */
};

/* Compares the block's bytes [from, to) with those of `is`. */
static void check_unread(struct looking *looking, uint64_t offset, const char *is, size_t from,
                         size_t to)
{
    const struct run *run = looking->run;
    char block[RUN_BLOCK_BYTES];
    int result = from == to ? 0
                            : fs_pread_whole(run->fs, run->fd, true, block, RUN_BLOCK_BYTES,
                                             (int64_t)offset);

    if (result < 0) {
        looking->result = looking->result < 0 ? looking->result : result;
        return;
    }
    for (; from < to; from++)
        if (block[from] != is[from]) {
            looking->each(looking->ctx, offset + from);
            return;
        }
}

static void look_at_ends(struct looking *looking)
{
    const struct run_footer *footer = &looking->run->footer;
    char header[RUN_BLOCK_BYTES], end[RUN_BLOCK_BYTES];

    run_header_encode(looking->run->seed, footer->info.number, footer, header);
    check_unread(looking, 0, header, 0, RUN_BLOCK_BYTES);
    run_footer_encode(looking->run->seed, footer, end);
    check_unread(looking, footer->info.file_bytes - RUN_BLOCK_BYTES, end, 0, RUN_BLOCK_BYTES);
}

static void look_at_padding(struct looking *looking)
{
    const struct run_footer *footer = &looking->run->footer;
    const uint32_t slots = footer->info.slots % RUN_BLOCK_SLOTS;
    const uint32_t topics = footer->topic_bytes % RUN_BLOCK_ROOM;

    if (footer->record_end < footer->directory_at)
        check_unread(looking, footer->directory_at - RUN_BLOCK_BYTES, unread_zeros,
                     (size_t)(footer->record_end % RUN_BLOCK_BYTES), RUN_BLOCK_BYTES);
    if (slots)
        check_unread(looking, footer->topics_at - RUN_BLOCK_BYTES, unread_zeros,
                     slots * (size_t)RUN_ENTRY_BYTES, RUN_ENTRIES_BYTES);
    if (topics)
        check_unread(looking, footer->info.file_bytes - 2 * RUN_BLOCK_BYTES, unread_zeros, topics,
                     RUN_BLOCK_ROOM);
}

int run_check_unread(const struct run *run, void (*each)(void *ctx, uint64_t at), void *ctx)
{
    struct looking looking = {.run = run, .each = each, .ctx = ctx};

    look_at_ends(&looking);
    look_at_padding(&looking);
    return looking.result;
}

bool run_block_holds(uint64_t seed, uint32_t number, uint64_t offset, const char *block,
                     size_t from, size_t to)
{
    char written[RUN_BLOCK_BYTES];

    if (run_block_is_whole(seed, number, offset, block))
        return true;
    if (from == to)
        return false;
    memcpy(written, block, sizeof written);
    memset(written + from, 0, to - from);
    return run_block_is_whole(seed, number, offset, written);
}

/* Destination of the error messages of an opening. */
struct run_complaint {
    char path[PATH_MAX];
    char *error;
    size_t bytes;
};

static int run_complain_damage(const struct run_complaint *to, uint64_t offset, const char *what)
{
    return error_result(-EBADMSG, to->error, to->bytes,
                        "run file '%s' is damaged at byte %" PRIu64
                        ": %s; restore it from a backup (nothing was changed)",
                        to->path, offset, what);
}

static int read_block(const struct run *run, uint64_t offset, char *block,
                      const struct run_complaint *to)
{
    int result = fs_pread_whole(run->fs, run->fd, true, block, RUN_BLOCK_BYTES, (int64_t)offset);

    if (result < 0 && result != -EBADMSG)
        return error_result(result, to->error, to->bytes, "cannot read run file '%s': %s", to->path,
                            strerror(-result));
    return result < 0 ? run_complain_damage(to, offset, "it ends there") : 0;
}

static int read_footer(struct run *run, uint32_t number, const struct run_complaint *to)
{
    int64_t bytes = run->fs->ops->size(run->fs->ctx, run->fd);
    char block[RUN_BLOCK_BYTES];
    uint64_t at;
    int result;

    if (bytes < 0)
        return error_result((int)bytes, to->error, to->bytes, "cannot read run file '%s': %s",
                            to->path, strerror((int)-bytes));
    if (bytes < 2 * RUN_BLOCK_BYTES || bytes % RUN_BLOCK_BYTES)
        return run_complain_damage(to, (uint64_t)bytes, "its size is wrong");
    at = (uint64_t)bytes - RUN_BLOCK_BYTES;
    result = read_block(run, at, block, to);
    if (result == 0 && !run_footer_decode(run->seed, number, (uint64_t)bytes, block, &run->footer))
        return run_complain_damage(to, at, "its footer is wrong");
    return result;
}

/* Reads the header after the footer was found invalid: uses its copy of the footer, or detects a
 * newer version. Returns `result` otherwise. */
static int read_header(struct run *run, uint32_t number, int result, const struct run_complaint *to)
{
    char block[RUN_BLOCK_BYTES];
    uint32_t format = 0;
    int read = fs_pread_whole(run->fs, run->fd, true, block, RUN_BLOCK_BYTES, 0);

    if (read < 0 && read != -EBADMSG)
        return error_result(read, to->error, to->bytes, "cannot read run file '%s': %s", to->path,
                            strerror(-read));
    if (read == 0)
        read = run_header_decode(run->seed, number, block, &format, &run->footer);
    if (read == 0)
        *to->error = '\0';
    if (read != -EPROTONOSUPPORT)
        return read == 0 ? 0 : result;
    return error_result(
        -EPROTONOSUPPORT, to->error, to->bytes,
        "run file '%s' has format %" PRIu32
        " and this version reads up to %d: it was written by a newer version, use that",
        to->path, format, RUN_FORMAT);
}

static int read_topics(struct run *run, const struct run_complaint *to)
{
    const struct run_footer *footer = &run->footer;
    struct buffer names;
    int result = 0;

    buffer_init(&names, (size_t)footer->topic_bytes + 1);
    for (uint64_t at = footer->topics_at;
         result == 0 && at < footer->info.file_bytes - RUN_BLOCK_BYTES; at += RUN_BLOCK_BYTES) {
        size_t left = footer->topic_bytes - names.len;
        size_t some = left < RUN_BLOCK_ROOM ? left : RUN_BLOCK_ROOM;
        char block[RUN_BLOCK_BYTES];

        result = read_block(run, at, block, to);
        if (result == 0 &&
            !run_block_holds(run->seed, footer->info.number, at, block, some, RUN_BLOCK_ROOM))
            result = run_complain_damage(to, at, "its topics are wrong");
        if (result == 0)
            buffer_append(&names, block, some);
    }
    if (result == 0)
        result = names.failed
                     ? -ENOMEM
                     : run_topics_parse(&run->topics, buffer_slice(&names), footer->info.topics);
    if (result == -ENOMEM)
        error_result(result, to->error, to->bytes, "out of memory");
    else if (result == -EBADMSG && !names.failed)
        result = run_complain_damage(to, footer->topics_at, "its topics are wrong");
    buffer_fini(&names);
    return result;
}

static int read_all(struct run *run, uint32_t number, const struct run_complaint *to)
{
    int result;

    run->fd = run->fs->ops->open(run->fs->ctx, to->path, O_RDONLY, 0);
    if (run->fd < 0)
        return error_result(run->fd, to->error, to->bytes, "cannot open run file '%s': %s",
                            to->path, strerror(-run->fd));
    result = read_footer(run, number, to);
    if (result == -EBADMSG)
        result = read_header(run, number, result, to);
    return result < 0 ? result : read_topics(run, to);
}

int run_open(const struct fs *fs, const char *dir, uint32_t number, uint64_t seed, struct run **out,
             char *error, size_t error_bytes)
{
    struct run_complaint to = {.error = error, .bytes = error_bytes};
    struct run *run = calloc(1, sizeof *run);
    char name[32];
    int result;

    if (!run)
        return error_result(-ENOMEM, to.error, to.bytes, "out of memory");
    *run = (struct run){.fs = fs, .seed = seed, .fd = -1, .dir = strdup(dir)};
    run_topics_init(&run->topics);
    run_file_name(number, name);
    run_path(dir, name, "", to.path);
    result = run->dir ? read_all(run, number, &to)
                      : error_result(-ENOMEM, to.error, to.bytes, "out of memory");
    if (result < 0) {
        run_close(run);
        return result;
    }
    *out = run;
    return 0;
}

void run_close(struct run *run)
{
    if (!run)
        return;
    if (run->fd >= 0)
        run->fs->ops->close(run->fs->ctx, run->fd);
    run_topics_fini(&run->topics);
    free(run->dir);
    free(run);
}

/* ---- information about a run ---- */

const struct run_info *run_info(const struct run *run)
{
    return &run->footer.info;
}

enum job_section run_section_of(const struct run *run, uint32_t slot)
{
    int section = 0;

    assert(slot < run->footer.info.slots);
    while (slot - run->footer.info.sections[section].first >=
           run->footer.info.sections[section].count)
        section++;
    return (enum job_section)section;
}

uint32_t run_after_damage(const struct run *run, uint32_t slot)
{
    uint32_t slots = run->footer.info.slots, at = slot % RUN_BLOCK_SLOTS;

    return slots - slot < RUN_BLOCK_SLOTS - at ? slots : slot + (RUN_BLOCK_SLOTS - at);
}

uint32_t run_find_topic(const struct run *run, struct slice topic)
{
    return run_topics_find(&run->topics, topic);
}

struct slice run_topic_name(const struct run *run, uint32_t number)
{
    assert(number < run->topics.count);
    return run_topics_name(&run->topics, number);
}

int64_t run_disk_bytes(const struct run *run)
{
    return run->fs->ops->disk_bytes(run->fs->ctx, run->fd);
}
