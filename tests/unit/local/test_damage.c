/*
 * Every kind of damage to every file of a data directory: the findings of fsck, the jobs that salvage saves, and
 * that no server starts silently on it.
 *
 * A server core with 1, 2 or 3 shards works for a while; its directory is kept in memory as it was
 * half-way and at the end, after a stop or a kill. Then one damage after the other is made to a copy
 * on the disk: all kinds for all files, and random ones until there are TARRY_TEST_DAMAGES. A short
 * run damages each file in a part of these ways, another part in each of the six directories.
 */
#include "fsck/fsck.h"
#include "local/local.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/alive.h"
#include "store/catalog.h"
#include "store/run.h"
#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/repetitions.h"
#include "unit/seed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SHARDS_MAX = 3,
    FILE_BYTES = 16 << 10,
    IDS = 240,
    VERSIONS_MAX = 250,
    FILES_MAX = 200,
    DAMAGES = 2000,
    DAMAGES_SHORT = 500,
    TIMEOUT_MS = 30000
};

/* Skips the sync: the disk need not survive a power cut here. */
int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

int fsync(int fd)
{
    (void)fd;
    return 0;
}

/* ---- a directory in memory ---- */

struct file {
    char name[64]; /* below the data directory */
    char *bytes;
    size_t len;
};

struct tree {
    struct file files[FILES_MAX];
    size_t count;
};

static void tree_free(struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        free(tree->files[i].bytes);
    tree->count = 0;
}

static void tree_read(struct tree *tree, const char *root, const char *below)
{
    char path[512];
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof path, "%s/%s", root, below);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        struct stat about;
        char name[300];

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(name, sizeof name, "%s%s%s", below, *below ? "/" : "", entry->d_name);
        snprintf(path, sizeof path, "%s/%s", root, name);
        assert_int_equal(stat(path, &about), 0);
        if (S_ISDIR(about.st_mode)) {
            tree_read(tree, root, name);
            continue;
        }
        struct file *file = &tree->files[tree->count++];
        assert_true(tree->count < FILES_MAX && strlen(name) < sizeof file->name);
        strcpy(file->name, name);
        file->len = (size_t)about.st_size;
        file->bytes = malloc(file->len + 1);
        int fd = open(path, O_RDONLY);
        assert_int_equal(read(fd, file->bytes, file->len), file->len);
        close(fd);
    }
    closedir(dir);
}

static struct file *tree_find(struct tree *tree, const char *name)
{
    for (size_t i = 0; i < tree->count; i++)
        if (strcmp(tree->files[i].name, name) == 0)
            return &tree->files[i];
    return NULL;
}

/* ---- a server core ---- */

struct world {
    char root[64], dir[80], saved[80];
    uint32_t shards;
    struct local *local;
    struct reactor *reactors[SHARDS_MAX];
    struct queue *queues[SHARDS_MAX];
    uint32_t answered, wanted;
    enum queue_status status;
    bool has_stopped;
    /* The expected state at the end. */
    bool lives[IDS];
    int version[IDS];
    struct tree old, end;
    struct random random;
    bool was_killed;
};

static bool try_open(struct world *world, char error[512])
{
    uint32_t shards;
    struct local_options options = {.data_dir = world->dir,
                                    .shards = world->shards,
                                    .sync = WAL_SYNC_ALWAYS,
                                    .wal_file_bytes = FILE_BYTES,
                                    .body_bytes_max = 2 << 10,
                                    .topics_max = 100,
                                    .mark_pause_ms = 1};
    bool ok;

    log_open(NULL, LOG_ERROR + 1, false);
    world->has_stopped = false;
    for (uint32_t i = 0; i < world->shards; i++)
        world->reactors[i] = reactor_new(i);
    ok = local_open(&options, &world->local, &shards, error, 512) == 0;
    for (uint32_t i = 0; ok && i < world->shards; i++)
        ok = local_attach(world->local, i, world->reactors[i], &world->queues[i], error, 512) == 0;
    return ok;
}

static void pump(struct world *world)
{
    for (uint32_t i = 0; i < world->shards; i++)
        uv_run(reactor_loop(world->reactors[i]), UV_RUN_NOWAIT);
    usleep(20);
}

static void on_stopped(void *ctx)
{
    ((struct world *)ctx)->has_stopped = true;
}

static void release(struct world *world)
{
    local_free(world->local);
    world->local = NULL;
    for (uint32_t i = 0; i < world->shards; i++)
        reactor_free(world->reactors[i]);
}

static void stop(struct world *world)
{
    local_stop(world->local, on_stopped, world);
    while (!world->has_stopped)
        pump(world);
    release(world);
}

static void on_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct world *world = owner;

    (void)tag;
    world->status = reply->result_count ? reply->results[0].status : reply->status;
    world->answered++;
}

static struct queue_reply_to to(struct world *world)
{
    world->wanted++;
    return (struct queue_reply_to){.done = on_done, .owner = world};
}

static void wait_for_answers(struct world *world)
{
    const int64_t until_us = clock_boot_us() + (int64_t)TIMEOUT_MS * 1000;

    while (world->answered < world->wanted && clock_boot_us() < until_us)
        pump(world);
    assert_int_equal(world->answered, world->wanted);
}

static const char *topic_of(int id)
{
    static const char *const topics[] = {"orders", "mails", "bills"};

    return topics[id % 3];
}

/* Describes it; some are long. */
static size_t body_of(int id, int version, char out[1200])
{
    size_t len = (size_t)sprintf(out, "job %d, version %d.", id, version);
    size_t more = (size_t)(id * 7 + version * 31) % 7 == 0 ? 900 : 60;

    for (size_t i = 0; i < more; i++)
        out[len++] = (char)('a' + (i * 31 + (size_t)id * 17 + (size_t)version) % 26);
    return len;
}

static void push_job(struct world *world, int id)
{
    char name[16] = "", body[1200];
    const int version = world->version[id] + 1;
    const size_t len = body_of(id, version, body);
    snprintf(name, sizeof name, "j%d", id);
    struct queue_push push = {.topic = slice_of(topic_of(id)),
                              .id = slice_of(name),
                              .body = slice_make(body, len),
                              .when = {.due = QUEUE_DUE_DELAY, .ms = 86400000},
                              .on_conflict = CONFLICT_REPLACE,
                              .priority = QUEUE_PRIORITY_UNSET};

    assert_true(version < VERSIONS_MAX);
    queue_push(world->queues[0], &push, 1, to(world));
    wait_for_answers(world);
    assert_true(world->status == QUEUE_CREATED || world->status == QUEUE_REPLACED);
    world->version[id] = version;
    world->lives[id] = true;
}

static void change_job(struct world *world, int id, enum queue_change_verb verb)
{
    char name[16] = "";
    snprintf(name, sizeof name, "j%d", id);
    struct queue_change change = {.verb = verb,
                                  .topic = slice_of(topic_of(id)),
                                  .id = slice_of(name),
                                  .when = {.due = QUEUE_DUE_DELAY, .ms = 99999999},
                                  .priority = QUEUE_PRIORITY_UNSET};

    queue_change(world->queues[0], &change, 1, to(world));
    wait_for_answers(world);
    if (verb == QUEUE_CANCEL)
        world->lives[id] = false;
}

static void live_on(struct world *world, int calls)
{
    for (int i = 0; i < calls; i++) {
        const int id = (int)random_below(&world->random, IDS);
        const uint64_t what = random_below(&world->random, 10);

        if (!world->lives[id] || what < 3)
            push_job(world, id);
        else
            change_job(world, id, what < 7 ? QUEUE_CANCEL : QUEUE_RESCHEDULE);
    }
    for (int i = 0; i < 300; i++) /* checkpoints end, and marks are written */
        pump(world);
}

static void make_world(struct world *world, uint32_t shards, bool was_killed, uint64_t seed)
{
    char error[512];

    *world = (struct world){.shards = shards, .was_killed = was_killed, .random = {.state = seed}};
    snprintf(world->root, sizeof world->root, "%s/tarry-damage-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(world->root));
    snprintf(world->dir, sizeof world->dir, "%s/data", world->root);
    snprintf(world->saved, sizeof world->saved, "%s/saved", world->root);
    if (!try_open(world, error))
        fail_msg("%s", error);
    live_on(world, 250 * (int)shards);
    stop(world);
    if (!try_open(world, error))
        fail_msg("%s", error);
    live_on(world, 200 * (int)shards);
    tree_read(&world->old, world->dir, "");
    live_on(world, 250 * (int)shards);
    for (int i = 0; i < 50; i++)
        pump(world);
    if (was_killed)
        tree_read(&world->end, world->dir, "");
    stop(world);
    if (!was_killed)
        tree_read(&world->end, world->dir, "");
}

/* ---- on the disk ---- */

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *at)
{
    (void)about, (void)type, (void)at;
    return remove(path);
}

static void remove_tree(const char *path)
{
    assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void write_file(const struct world *world, const char *name, const char *bytes, size_t len)
{
    char path[200];
    int fd;

    snprintf(path, sizeof path, "%s/%s", world->dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    close(fd);
}

static void remove_file(const struct world *world, const char *name)
{
    char path[200];

    int bytes = snprintf(path, sizeof path, "%s/%s", world->dir, name);
    assert_in_range(bytes, 1, sizeof path - 1);
    (void)unlink(path);
}

static void restore_all(struct world *world)
{
    char path[200];
    static const char *const folders[] = {"", "/wal", "/run"};

    if (access(world->dir, F_OK) == 0)
        remove_tree(world->dir);
    assert_int_equal(mkdir(world->dir, 0700), 0);
    for (uint32_t shard = 0; shard < world->shards; shard++)
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "%s/shard-%02u%s", world->dir, shard, folders[i]);
            assert_int_equal(mkdir(path, 0700), 0);
        }
    for (size_t i = 0; i < world->end.count; i++)
        write_file(world, world->end.files[i].name, world->end.files[i].bytes,
                   world->end.files[i].len);
}

static void remove_world(struct world *world)
{
    remove_tree(world->root);
    tree_free(&world->old);
    tree_free(&world->end);
}

/* ---- damages ---- */

enum kind {
    MISSING = 1,
    EMPTY,
    LONGER,
    SHORTER,
    OLDER,
    COPY_OF_SIBLING,
    COPY_OF_OTHER_SHARD,
    SWAPPED,
    SWAPPED_WITH_OTHER_SHARD,
    BIT,
    BYTE,
    SECTOR,
    HEADER_ZEROED,
    KINDS_OF_FILES,
    SHARD_EMPTIED = KINDS_OF_FILES,
    SHARD_MISSING,
    SHARD_OLDER,
    SHARD_COPIED,
    SHARDS_SWAPPED,
    LOG_EMPTIED,
    RUNS_EMPTIED,
    LOG_WITHOUT_FIRST,
    LOG_WITHOUT_MIDDLE,
    LOG_WITHOUT_LAST,
    LOG_WITHOUT_ENDS,
    CATALOGS_MISSING,
    KINDS
};

static const char *const kind_names[KINDS] = {
    [MISSING] = "missing",
    [EMPTY] = "empty",
    [LONGER] = "longer",
    [SHORTER] = "shorter",
    [OLDER] = "older copy",
    [COPY_OF_SIBLING] = "copy of a sibling",
    [COPY_OF_OTHER_SHARD] = "copy of another shard's",
    [SWAPPED] = "swapped",
    [SWAPPED_WITH_OTHER_SHARD] = "swapped with another shard's",
    [BIT] = "bit",
    [BYTE] = "byte",
    [SECTOR] = "sector",
    [HEADER_ZEROED] = "first page zeroed",
    [SHARD_EMPTIED] = "shard emptied",
    [SHARD_MISSING] = "shard missing",
    [SHARD_OLDER] = "shard from before",
    [SHARD_COPIED] = "shard is a copy of another",
    [SHARDS_SWAPPED] = "shards swapped",
    [LOG_EMPTIED] = "log emptied",
    [RUNS_EMPTIED] = "runs emptied",
    [LOG_WITHOUT_FIRST] = "log without its first files",
    [LOG_WITHOUT_MIDDLE] = "log without a middle file",
    [LOG_WITHOUT_LAST] = "log without its last files",
    [LOG_WITHOUT_ENDS] = "log without first and last",
    [CATALOGS_MISSING] = "catalogs missing",
};

/* The kinds of files. */
static const char *const class_names[] = {"MANIFEST",     "MARKS",     "LOCK",
                                          "wal/MANIFEST", "wal/*.log", "CATALOG",
                                          "*.run",        "*.keys",    "shard"};
enum { CLASSES = 9, OF_SHARDS = CLASSES - 1 };

static int class_of(const char *name)
{
    const char *last = strrchr(name, '/');

    if (!last)
        return strncmp(name, "MANIFEST", 8) == 0 ? 0 : strcmp(name, "MARKS") == 0 ? 1 : 2;
    if (strstr(name, "/wal/"))
        return strcmp(last, "/MANIFEST") == 0 ? 3 : 4;
    return strstr(name, "CATALOG") ? 5 : strstr(name, ".run") ? 6 : 7;
}

/* A damage to the directory: the changed files are restored later. */
struct damage {
    struct world *world;
    enum kind kind;
    int class;
    char what[200];
    bool is_wide; /* more than two files */
    const struct file *changed[2];
    size_t changed_count;
};

static void change_file(struct damage *damage, const struct file *file, const char *bytes,
                        size_t len)
{
    write_file(damage->world, file->name, bytes, len);
    damage->changed[damage->changed_count++] = file;
}

/* Returns another file of the same kind in the same folder, or NULL. */
static const struct file *sibling_of(struct world *world, const struct file *file)
{
    const size_t folder =
        (size_t)(strrchr(file->name, '/') ? strrchr(file->name, '/') - file->name : 0);
    const struct file *found = NULL;
    uint64_t seen = 0;

    for (size_t i = 0; i < world->end.count; i++) {
        const struct file *other = &world->end.files[i];

        if (other != file && folder && strncmp(other->name, file->name, folder + 1) == 0 &&
            class_of(other->name) == class_of(file->name) &&
            random_below(&world->random, ++seen) == 0)
            found = other;
    }
    return found;
}

/* The file of the same name in another shard, or any of its kind there. */
static const struct file *cousin_of(struct world *world, const struct file *file)
{
    const struct file *found = NULL;
    uint64_t seen = 0;

    if (strncmp(file->name, "shard-", 6) != 0)
        return NULL;
    for (size_t i = 0; i < world->end.count; i++) {
        const struct file *other = &world->end.files[i];

        if (strncmp(other->name, "shard-", 6) != 0 || strncmp(other->name, file->name, 8) == 0 ||
            class_of(other->name) != class_of(file->name))
            continue;
        if (strcmp(other->name + 8, file->name + 8) == 0)
            return other;
        if (random_below(&world->random, ++seen) == 0)
            found = other;
    }
    return found;
}

static bool damage_bytes(struct damage *damage, const struct file *file, size_t at, size_t bytes,
                         bool with_zeros)
{
    struct random *random = &damage->world->random;
    char *copy;
    bool differs;

    if (file->len == 0)
        return false;
    copy = malloc(file->len);
    memcpy(copy, file->bytes, file->len);
    for (size_t i = at; i < file->len && i < at + bytes; i++)
        copy[i] = with_zeros ? 0 : (char)random_next(random);
    differs = memcmp(copy, file->bytes, file->len) != 0;
    if (differs)
        change_file(damage, file, copy, file->len);
    free(copy);
    return differs;
}

/* Mostly where something is. */
static size_t some_place(struct world *world, const struct file *file)
{
    size_t at = 0;

    for (int i = 0; i < 50; i++) {
        at = (size_t)random_below(&world->random, file->len ? file->len : 1);
        if (at < file->len && file->bytes[at])
            break;
    }
    return at;
}

static bool damage_size(struct damage *damage, const struct file *file)
{
    static const size_t by[] = {1, 8, 512, 4096, 5000};
    const size_t some = by[random_below(&damage->world->random, COUNT_OF(by))];
    char *copy = calloc(1, file->len + some);
    size_t len = file->len;

    memcpy(copy, file->bytes, file->len);
    if (damage->kind == LONGER) {
        for (size_t i = 0; i < some; i++)
            copy[len + i] = (char)random_next(&damage->world->random);
        len += some;
    } else {
        len = some < len ? len - some : 0;
    }
    if (len != file->len)
        change_file(damage, file, copy, len);
    free(copy);
    return len != file->len;
}

/* False: there is no such damage to this file. */
static bool damage_file(struct damage *damage, const struct file *file)
{
    struct world *world = damage->world;
    const struct file *other = NULL;
    size_t at = some_place(world, file);

    damage->class = class_of(file->name);
    snprintf(damage->what, sizeof damage->what, "%s: %s", file->name, kind_names[damage->kind]);
    switch (damage->kind) {
    case MISSING:
        remove_file(world, file->name);
        damage->changed[damage->changed_count++] = file;
        return true;
    case EMPTY:
        change_file(damage, file, "", 0);
        return file->len > 0;
    case LONGER:
    case SHORTER:
        return damage_size(damage, file);
    case OLDER:
        other = tree_find(&world->old, file->name);
        if (!other ||
            (other->len == file->len && memcmp(other->bytes, file->bytes, file->len) == 0))
            return false;
        change_file(damage, file, other->bytes, other->len);
        return true;
    case COPY_OF_SIBLING:
    case SWAPPED:
        other = sibling_of(world, file);
        break;
    case COPY_OF_OTHER_SHARD:
    case SWAPPED_WITH_OTHER_SHARD:
        other = cousin_of(world, file);
        break;
    case BIT: {
        char *copy;

        if (!file->len)
            return false;
        copy = malloc(file->len);
        memcpy(copy, file->bytes, file->len);
        copy[at] = (char)(copy[at] ^ (char)(1 << random_below(&world->random, 8)));
        change_file(damage, file, copy, file->len);
        free(copy);
        return true;
    }
    case BYTE:
        return damage_bytes(damage, file, at, 1, false);
    case SECTOR:
        return damage_bytes(damage, file, at / 512 * 512, 512,
                            random_below(&world->random, 2) == 0);
    case HEADER_ZEROED:
        return damage_bytes(damage, file, 0, 4096, true);
    default:
        return false;
    }
    if (!other || (other->len == file->len && memcmp(other->bytes, file->bytes, file->len) == 0))
        return false;
    change_file(damage, file, other->bytes, other->len);
    if (damage->kind == SWAPPED || damage->kind == SWAPPED_WITH_OTHER_SHARD)
        change_file(damage, other, file->bytes, file->len);
    return true;
}

static void command(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void command(const char *format, ...)
{
    char text[600];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert_int_equal(system(text), 0);
}

/* Removes log files of the shard: those of the first `first`, or the last `last`, or the one in the
 * middle. */
static size_t cut_log(struct damage *damage, uint32_t shard, size_t first, size_t last, bool middle)
{
    const struct file *logs[FILES_MAX];
    struct world *world = damage->world;
    char prefix[32];
    size_t count = 0, removed = 0;

    snprintf(prefix, sizeof prefix, "shard-%02u/wal/0", shard);
    for (uint32_t number = 1; number < 1000; number++) {
        char name[64];
        const struct file *file;

        snprintf(name, sizeof name, "shard-%02u/wal/%08u.log", shard, number);
        file = tree_find(&world->end, name);
        if (file)
            logs[count++] = file;
    }
    for (size_t i = 0; i < count; i++)
        if (i < first || i + last >= count || (middle && i == count / 2)) {
            remove_file(world, logs[i]->name);
            removed++;
        }
    return removed;
}

static bool damage_shard(struct damage *damage)
{
    struct world *world = damage->world;
    const uint32_t shard = (uint32_t)random_below(&world->random, world->shards);
    const uint32_t other = (shard + 1) % world->shards;
    const size_t some = 1 + random_below(&world->random, 5);
    const char *dir = world->dir;

    damage->class = OF_SHARDS;
    damage->is_wide = true;
    snprintf(damage->what, sizeof damage->what, "shard %u: %s", shard, kind_names[damage->kind]);
    if ((damage->kind == SHARD_COPIED || damage->kind == SHARDS_SWAPPED) && world->shards < 2)
        return false;
    switch (damage->kind) {
    case SHARD_EMPTIED:
        command("rm -r %s/shard-%02u/*", dir, shard);
        return true;
    case SHARD_MISSING:
        command("rm -r %s/shard-%02u", dir, shard);
        return true;
    case SHARD_OLDER:
        command("rm -r %s/shard-%02u/*/*", dir, shard);
        for (size_t i = 0; i < world->old.count; i++) {
            const struct file *file = &world->old.files[i];

            if (strncmp(file->name, "shard-", 6) == 0 && (uint32_t)atoi(file->name + 6) == shard)
                write_file(world, file->name, file->bytes, file->len);
        }
        return true;
    case SHARD_COPIED:
        command("rm -r %s/shard-%02u && cp -a %s/shard-%02u %s/shard-%02u", dir, shard, dir, other,
                dir, shard);
        return true;
    case SHARDS_SWAPPED:
        command("cd %s && mv shard-%02u x && mv shard-%02u shard-%02u && mv x shard-%02u", dir,
                shard, other, shard, other);
        return true;
    case LOG_EMPTIED:
        command("rm %s/shard-%02u/wal/*", dir, shard);
        return true;
    case RUNS_EMPTIED:
        command("rm -f %s/shard-%02u/run/*", dir, shard);
        return true;
    case LOG_WITHOUT_FIRST:
        return cut_log(damage, shard, some, 0, false);
    case LOG_WITHOUT_MIDDLE:
        return cut_log(damage, shard, 0, 0, true);
    case LOG_WITHOUT_LAST:
        return cut_log(damage, shard, 0, some, false);
    case LOG_WITHOUT_ENDS:
        return cut_log(damage, shard, 1, some, random_below(&world->random, 2) == 0);
    case CATALOGS_MISSING:
        command("rm -f %s/shard-%02u/run/CATALOG*", dir, shard);
        return true;
    default:
        return false;
    }
}

/* ---- what is in a directory ---- */

struct state {
    int version[IDS]; /* 0: not there */
    int wrong;        /* bodies that were never pushed */
    int twice;
};

static bool on_job(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice bytes)
{
    struct state *state = ctx;
    struct record record;
    char text[1200], body[1200];
    int id = -1, version = -1;

    (void)slot, (void)entry;
    if (!bytes.len || !record_decode(bytes, &record)) {
        state->wrong++;
        return true;
    }
    if (record.kind != RECORD_JOB)
        return true;
    snprintf(text, sizeof text, "%.*s", (int)record.job.body.len, record.job.body.at);
    if (sscanf(text, "job %d, version %d.", &id, &version) != 2 || id < 0 || id >= IDS ||
        body_of(id, version, body) != record.job.body.len ||
        memcmp(body, record.job.body.at, record.job.body.len) != 0 ||
        !slice_equals(record.job.topic, slice_of(topic_of(id))) || version < 1) {
        state->wrong++;
        return true;
    }
    snprintf(text, sizeof text, "j%d", id);
    if (!slice_equals(record.job.id, slice_of(text)))
        state->wrong++;
    state->twice += state->version[id] != 0;
    state->version[id] = version;
    return true;
}

struct reading {
    struct alive alive;
    struct run_scan scan;
};

static int wants_alive(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    (void)entry;
    return alive_test(&((struct reading *)ctx)->alive, slot);
}

static bool give_job(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice bytes)
{
    struct reading *reading = ctx;

    return on_job(reading->scan.ctx, slot, entry, bytes);
}

/* Reads all jobs of a directory that salvage wrote: it puts them into runs. */
static void read_saved(const char *dir, uint32_t shards, struct state *state)
{
    char path[200], error[512];

    memset(state, 0, sizeof *state);
    for (uint32_t shard = 0; shard < shards; shard++) {
        struct catalog catalog;
        uint32_t damaged;
        int result;

        snprintf(path, sizeof path, "%s/shard-%02u/run", dir, shard);
        result = catalog_read(&fs_posix, path, &catalog, &damaged, error, sizeof error);
        if (result == -ENOENT)
            continue;
        assert_int_equal(result, 0);
        for (uint32_t i = 0; i < catalog.run_count; i++) {
            struct reading reading = {.scan = {.ctx = state}};
            struct run_scan scan = {.end = catalog.runs[i].slots,
                                    .wants = wants_alive,
                                    .each = give_job,
                                    .ctx = &reading};
            struct run *run;
            uint32_t next;

            assert_int_equal(run_open(&fs_posix, path, catalog.runs[i].number, catalog.seed, &run,
                                      error, sizeof error),
                             0);
            assert_true(alive_load(&reading.alive, catalog.runs[i].slots, catalog.runs[i].alive));
            assert_int_equal(run_scan(run, &scan, &next), 0);
            alive_fini(&reading.alive);
            run_close(run);
        }
        catalog_fini(&catalog);
    }
}

struct loss {
    int lost, back, older;
};

static struct loss compare(const struct world *world, const struct state *state)
{
    struct loss loss = {0};

    for (int id = 0; id < IDS; id++) {
        loss.lost += world->lives[id] && !state->version[id];
        loss.back += !world->lives[id] && state->version[id];
        loss.older +=
            world->lives[id] && state->version[id] && state->version[id] != world->version[id];
    }
    return loss;
}

static bool is_any(struct loss loss)
{
    return loss.lost || loss.back || loss.older;
}

/* ---- decisions ---- */

enum decision { CLEAN, REPAIR, RESTORE, REFUSED, VERDICTS };

static struct {
    uint64_t count[CLASSES][KINDS][VERDICTS];
    struct loss most[CLASSES][KINDS];
    uint64_t damages, starts, refused_starts;
    struct fsck_report report;
} seen;

static enum decision decision_of(int result)
{
    const struct fsck_report *report = &seen.report;
    enum decision decision = CLEAN;

    if (result < 0)
        return REFUSED;
    for (uint64_t i = 0; i < report->finding_count && i < FSCK_FINDINGS_MAX; i++)
        if (report->finding[i].cure != FSCK_REPAIR)
            decision = RESTORE;
        else if (decision == CLEAN)
            decision = REPAIR;
    return decision;
}

static void notify(const struct damage *damage, const char *text, struct loss loss)
{
    const struct fsck_report *report = &seen.report;

    print_message("%s (%u shards, %s): %s; lost %d, back %d, older %d\n", damage->what,
                  damage->world->shards, damage->world->was_killed ? "killed" : "stopped", text,
                  loss.lost, loss.back, loss.older);
    for (uint64_t i = 0; i < report->finding_count && i < 10; i++)
        print_message("  %u %s: %s\n", report->finding[i].shard, report->finding[i].file,
                      report->finding[i].text);
    for (uint64_t i = 0; i < report->note_count && i < 10; i++)
        print_message("  note: %s\n", report->note[i].text);
    if (*report->error)
        print_message("  error: %s\n", report->error);
}

/* Returns true for files that hold no jobs, or a second copy of them. */
static bool costs_nothing(const struct damage *damage)
{
    static const char *const files[] = {"MANIFEST",     "MARKS",   "LOCK",
                                        "wal/MANIFEST", "CATALOG", "*.keys"};
    const enum kind kind = damage->kind;

    if (damage->class == OF_SHARDS)
        return kind == SHARDS_SWAPPED;
    if (damage->class == 4)
        return kind == LONGER || kind == SWAPPED || kind == HEADER_ZEROED ||
               kind == SWAPPED_WITH_OTHER_SHARD;
    if (damage->class == 6)
        return kind == LONGER || kind == HEADER_ZEROED;
    for (size_t i = 0; i < COUNT_OF(files); i++)
        if (strcmp(files[i], class_names[damage->class]) == 0)
            return kind != SWAPPED_WITH_OTHER_SHARD && kind != SWAPPED;
    return false;
}

/* A server that starts has all of it. */
static void try_to_start(const struct damage *damage)
{
    struct world *world = damage->world;
    const struct fsck_options options = {.salvage = world->saved};
    struct state state;
    char error[512] = "";

    if (damage->class == 6 && damage->kind >= BIT && damage->kind <= HEADER_ZEROED)
        return; /* what is in runs is looked at when it is needed */
    seen.starts++;
    if (!try_open(world, error)) {
        seen.refused_starts++;
        assert_true(*error != '\0');
        release(world);
        return;
    }
    stop(world);
    fsck_report_fini(&seen.report);
    assert_int_equal(fsck_run_with(world->dir, &options, &seen.report), 0);
    read_saved(world->saved, world->shards, &state);
    remove_tree(world->saved);
    if (is_any(compare(world, &state))) {
        notify(damage, "the server started", compare(world, &state));
        fail_msg("a server started silently where jobs are missing");
    }
}

static void judge(const struct damage *damage)
{
    struct world *world = damage->world;
    const struct fsck_options options = {.salvage = world->saved, .lot_jobs = 50};
    struct state state = {0};
    struct loss loss = {0};
    enum decision decision;
    int result;

    fsck_report_fini(&seen.report);
    decision = decision_of(fsck_run(world->dir, &seen.report));
    seen.damages++;
    seen.count[damage->class][damage->kind][decision]++;
    fsck_report_fini(&seen.report);
    result = fsck_run_with(world->dir, &options, &seen.report);
    if (result == 0) {
        struct loss *most = &seen.most[damage->class][damage->kind];

        read_saved(world->saved, world->shards, &state);
        loss = compare(world, &state);
        most->lost = loss.lost > most->lost ? loss.lost : most->lost;
        most->back = loss.back > most->back ? loss.back : most->back;
        most->older = loss.older > most->older ? loss.older : most->older;
        if (state.wrong || state.twice || !seen.report.is_salvaged) {
            notify(damage, "saved", loss);
            fail_msg("wrong bodies: %d, jobs twice: %d", state.wrong, state.twice);
        }
        if (decision == CLEAN && is_any(loss)) {
            notify(damage, "clean", loss);
            fail_msg("clean with a loss");
        }
        if (is_any(loss) && costs_nothing(damage)) {
            notify(damage, "saved", loss);
            fail_msg("jobs are lost that are all there");
        }
        fsck_report_fini(&seen.report);
        result = fsck_run(world->saved, &seen.report);
        if (result < 0 || seen.report.finding_count) {
            notify(damage, "saved", loss);
            fail_msg("what was saved is not clean");
        }
    } else {
        notify(damage, "not saved", loss);
        fail_msg("not saved: %s", strerror(-result));
    }
    if (access(world->saved, F_OK) == 0)
        remove_tree(world->saved);
}

static void mend(struct damage *damage)
{
    if (damage->is_wide)
        restore_all(damage->world);
    for (size_t i = 0; i < damage->changed_count; i++)
        write_file(damage->world, damage->changed[i]->name, damage->changed[i]->bytes,
                   damage->changed[i]->len);
}

static void damage_once(struct world *world, enum kind kind, const struct file *file)
{
    struct damage damage = {.world = world, .kind = kind};

    if (kind < KINDS_OF_FILES ? damage_file(&damage, file) : damage_shard(&damage)) {
        judge(&damage);
        if (seen.damages % 8 == 0) {
            try_to_start(&damage);
            restore_all(world);
            return;
        }
    }
    mend(&damage);
}

static void random_damage(struct world *world)
{
    const struct file *file = &world->end.files[random_below(&world->random, world->end.count)];

    damage_once(world, (enum kind)(1 + random_below(&world->random, KINDS - 1)), file);
}

static void print_table(void)
{
    printf("%-13s %-29s %6s %6s %7s %7s | most lost, back, older\n", "file", "damage", "clean",
           "repair", "restore", "refused");
    for (int class = 0; class < CLASSES; class ++)
        for (int kind = 1; kind < KINDS; kind++) {
            const uint64_t *count = seen.count[class][kind];
            const struct loss *most = &seen.most[class][kind];

            if (count[CLEAN] + count[REPAIR] + count[RESTORE] + count[REFUSED])
                printf("%-13s %-29s %6" PRIu64 " %6" PRIu64 " %7" PRIu64 " %7" PRIu64
                       " | %d %d %d\n",
                       class_names[class], kind_names[kind], count[CLEAN], count[REPAIR],
                       count[RESTORE], count[REFUSED], most->lost, most->back, most->older);
        }
    printf("%" PRIu64 " damages; %" PRIu64 " starts, %" PRIu64 " of them refused\n", seen.damages,
           seen.starts, seen.refused_starts);
}

CLAIM(fsck_reports_every_loss_and_salvage_always_ends)
{
    const char *given = getenv("TARRY_TEST_DAMAGES");
    const uint64_t damages = given ? strtoull(given, NULL, 0) : repetitions(DAMAGES, DAMAGES_SHORT);
    const size_t stride = given ? 1 : repetitions(1, 2 * SHARDS_MAX);
    struct random random = seed_random(__func__);

    for (uint32_t i = 0; i < 2 * SHARDS_MAX; i++) {
        static struct world world;
        const uint64_t until = damages * (i + 1) / (2 * SHARDS_MAX);

        make_world(&world, i / 2 + 1, i % 2, random_next(&random));
        restore_all(&world);
        for (int kind = 1; kind < KINDS_OF_FILES && seen.damages < until; kind++)
            for (size_t file = (i + (size_t)kind) % stride;
                 file < world.end.count && seen.damages < until; file += stride)
                damage_once(&world, (enum kind)kind, &world.end.files[file]);
        for (int kind = KINDS_OF_FILES; kind < KINDS; kind++)
            damage_once(&world, (enum kind)kind, NULL);
        while (seen.damages < until)
            random_damage(&world);
        remove_world(&world);
    }
    fsck_report_fini(&seen.report);
    print_table();
}

CLAIMS_MAIN(NULL, NULL)
