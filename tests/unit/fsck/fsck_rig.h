/* fsck_rig: a shard with runs, tables of keys, a catalog and a log over them; damage to it, and
 * the findings of fsck. */
#ifndef TARRY_TESTS_FSCK_RIG_H
#define TARRY_TESTS_FSCK_RIG_H

#include "fsck/fsck.h"

#include "store/alive.h"
#include "store/catalog.h"
#include "store/keys_private.h"
#include "store/run.h"
#include "store/wal.h"
#include "unit/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/*
 * A shard with two runs, a table of keys each, a catalog and a log over it, as checkpoints leave
 * them. In run 1 lie a0 to a9 of topic 'orders' and a dead one of 'mails', in run 2 b0 to b9; a3 is
 * dead space.
 */
enum { SEED = 77, JOBS = 10, SLOTS_1 = JOBS + 1 };

static struct {
    char root[64], dir[96], run_dir[128];
    struct datadir_manifest manifest;
    struct catalog catalog;
    struct fsck_report report;
    struct wal *wal;
    struct keys_entry entries[1024];
    size_t entry_count;
    uint64_t dead_bytes;
    int64_t second_at; /* the second record in a run */
    char output[4096];
} scene;

static inline int64_t now_ms(struct clock *clock)
{
    (void)clock;
    return 5000;
}

/* ---- making it ---- */

static inline struct record job_record(const char *topic, const char *id, enum job_state state,
                                       int64_t due, uint64_t sequence)
{
    return (struct record){
        .kind = RECORD_JOB,
        .origin = RECORD_PUSHED,
        .job = {.topic = slice_of(topic),
                .id = slice_of(id),
                .body = slice_of("a body that is long enough to be hit by a flip"),
                .state = state,
                .due_ms = due,
                .first_due_ms = due,
                .sequence = sequence}};
}

static inline void add_slot(struct run_writer *writer, uint32_t run, uint32_t slot,
                            const struct record *record)
{
    char bytes[512];
    int64_t when_ms;
    enum job_section section = job_section_of_record(record, 0, &when_ms);
    size_t len;

    assert_true(record_bytes_max(record) <= sizeof bytes);
    len = record_encode(record, bytes);
    assert_int_equal(run_writer_add(writer, section, when_ms, record->job.sequence,
                                    record->job.topic, 0, slice_make(bytes, len)),
                     0);
    if (slot == 0)
        scene.second_at = 4096 + (int64_t)len + 4;
    if (section == SECTION_DEAD)
        scene.dead_bytes += len;
    scene.entries[scene.entry_count++] = (struct keys_entry){
        .hash = hash_pair(record->job.topic, record->job.id, scene.manifest.hash_seed).low,
        .run = run,
        .slot = slot};
}

static inline int compare(const void *left, const void *right)
{
    return keys_compare(left, right);
}

static inline void write_table(uint32_t number, size_t leave_out)
{
    struct keys_writer *writer;
    const struct keys_writing writing = {.fs = &fs_posix,
                                         .dir = scene.run_dir,
                                         .number = number,
                                         .seed = SEED,
                                         .entries_max = scene.entry_count};

    qsort(scene.entries, scene.entry_count, sizeof scene.entries[0], compare);
    assert_int_equal(keys_writer_new(&writing, &writer), 0);
    for (size_t i = leave_out; i < scene.entry_count; i++)
        assert_int_equal(keys_writer_add(writer, &scene.entries[i]), 0);
    assert_int_equal(keys_writer_finish(writer), 0);
}

static inline void write_run(uint32_t number, char letter, bool with_dead)
{
    const struct run_writing writing = {
        .fs = &fs_posix, .dir = scene.run_dir, .number = number, .seed = SEED};
    struct run_writer *writer;
    struct run_info info;
    struct record record;
    char id[] = "a0";

    scene.entry_count = 0;
    assert_int_equal(run_writer_new(&writing, &writer), 0);
    for (uint32_t i = 0; i < JOBS; i++) {
        id[0] = letter;
        id[1] = (char)('0' + i);
        record = job_record("orders", id, JOB_DELAYED, 100000 + i, number * 100 + i);
        add_slot(writer, number, i, &record);
    }
    if (with_dead) {
        record = job_record("mails", "dead", JOB_DEAD, 100, 999);
        add_slot(writer, number, JOBS, &record);
    }
    assert_int_equal(run_writer_finish(writer, &info), 0);
    write_table(number, 0);
}

static inline void set_alive(struct catalog_run *run, uint32_t number, uint32_t slots,
                             uint32_t dead)
{
    struct alive alive;

    assert_true(alive_init(&alive, slots));
    if (dead < slots)
        alive_clear(&alive, dead);
    *run = (struct catalog_run){.number = number,
                                .slots = slots,
                                .keys = number,
                                .alive_count = alive.count,
                                .alive = malloc(alive_bytes(slots))};
    alive_save(&alive, run->alive);
    alive_fini(&alive);
}

static inline void write_catalog(void)
{
    bool is_fatal;

    assert_int_equal(catalog_write(&fs_posix, scene.run_dir, &scene.catalog, &is_fatal), 0);
}

static inline void make_catalog(void)
{
    static const uint32_t tables[] = {1, 2};
    struct catalog *catalog = &scene.catalog;

    *catalog = (struct catalog){.generation = 5,
                                .seed = SEED,
                                .next_run = 3,
                                .next_keys = 3,
                                .log_first = 1,
                                .log_first_sequence = 1,
                                .inner_ms = 5000,
                                .wall_ms = 5000,
                                .run_count = 2,
                                .key_count = 2,
                                .topic_count = 2};
    memcpy(catalog->identity.store, scene.manifest.name, sizeof catalog->identity.store);
    catalog->runs = calloc(2, sizeof *catalog->runs);
    catalog->keys = malloc(sizeof tables);
    memcpy(catalog->keys, tables, sizeof tables);
    catalog->topics = calloc(2, sizeof *catalog->topics);
    set_alive(&catalog->runs[0], 1, SLOTS_1, 3);
    set_alive(&catalog->runs[1], 2, JOBS, UINT32_MAX);
    catalog->topics[0].name = slice_of(strdup("mails"));
    catalog->topics[0].stored[SECTION_DEAD] = 1;
    catalog->topics[0].dead_bytes = scene.dead_bytes;
    catalog->topics[1].name = slice_of(strdup("orders"));
    catalog->topics[1].stored[SECTION_DELAYED] = 2 * JOBS - 1;
    write_catalog();
}

/* ---- the log over it ---- */

static inline void open_log(const char *shard_dir)
{
    char error[4096];
    const struct wal_options options = {.fs = &fs_posix,
                                        .dir = shard_dir,
                                        .file_bytes = 65536,
                                        .batch_bytes_max = 20000,
                                        .sync = WAL_SYNC_ALWAYS,
                                        .identity = scene.catalog.identity,
                                        .inner_ms = now_ms,
                                        .wall_ms = now_ms};

    assert_int_equal(wal_open(&options, NULL, NULL, &scene.wal, NULL, error, sizeof error), 0);
}

static inline void append(const struct record *record)
{
    assert_int_equal(wal_has_room(scene.wal, record_bytes_max(record), WAL_FOR_ANSWER), 0);
    wal_append(scene.wal, record);
}

static inline struct hash128 key_of(const char *id)
{
    return hash_pair(slice_of("orders"), slice_of(id), scene.manifest.hash_seed);
}

static inline struct record_place slot(uint32_t run, uint32_t number)
{
    return (struct record_place){.file = run | RECORD_IN_RUN, .at = number, .bytes = 1};
}

static inline void finish(const char *id, struct record_place from)
{
    append(&(struct record){.kind = RECORD_DONE,
                            .from = from,
                            .done = {.key = key_of(id),
                                     .reason = RECORD_ACKED,
                                     .topic = slice_of("orders"),
                                     .sequence = 5}});
}

static inline void set_state(const char *id, enum job_state state, struct record_place from)
{
    append(&(struct record){
        .kind = RECORD_STATE,
        .from = from,
        .state = {.key = key_of(id), .state = state, .due_ms = 7, .first_due_ms = 7}});
}

static inline void set_totals(uint64_t pushed, uint64_t acked)
{
    append(&(struct record){.kind = RECORD_TOPIC,
                            .topic = {.topic = slice_of("orders"),
                                      .exists = true,
                                      .totals = {.pushed = pushed, .acked = acked}}});
}

static inline void write_log(void (*fill)(void))
{
    char path[256];

    snprintf(path, sizeof path, "%s/shard-00", scene.dir);
    open_log(path);
    fill();
    wal_close(scene.wal);
    scene.wal = NULL;
}

/* Replays some life: 20 were pushed and a3 acked before; a0 is acked, b0 is leased, a1 is pushed again, new is new. */
static inline void some_life(void)
{
    struct record again = job_record("orders", "a1", JOB_DELAYED, 9, 2000);
    struct record fresh = job_record("orders", "new", JOB_DELAYED, 9, 2001);

    finish("a3", (struct record_place){0}); /* the catalog knows already */
    set_totals(2 * JOBS, 1);
    finish("a0", slot(1, 0));
    set_state("b0", JOB_LEASED, slot(2, 0));
    again.origin = RECORD_PUSHED_REPLACING;
    again.from = slot(1, 1);
    append(&again);
    append(&fresh);
    set_totals(2 * JOBS + 1, 2);
}

static inline int make_scene(void **state)
{
    char error[512], path[256];
    struct datadir *datadir;

    (void)state;
    memset(&scene, 0, sizeof scene);
    snprintf(scene.dir, sizeof scene.dir, "%s/data", scratch_make(scene.root) ? scene.root : "");
    if (datadir_open(scene.dir, 1, &datadir, &scene.manifest, error, sizeof error) < 0)
        return -1;
    datadir_close(datadir);
    snprintf(path, sizeof path, "%s/shard-00", scene.dir);
    fs_posix.ops->mkdir(NULL, path, 0700);
    snprintf(scene.run_dir, sizeof scene.run_dir, "%s/shard-00/run", scene.dir);
    fs_posix.ops->mkdir(NULL, scene.run_dir, 0700);
    write_run(1, 'a', true);
    write_run(2, 'b', false);
    make_catalog();
    write_log(some_life);
    return 0;
}

static inline int remove_entry(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
    (void)stat;
    (void)kind;
    (void)at;
    return remove(path);
}

static inline int remove_scene(void **state)
{
    (void)state;
    wal_close(scene.wal);
    catalog_fini(&scene.catalog);
    fsck_report_fini(&scene.report);
    return nftw(scene.root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- damage, and looking ---- */

static inline void examine(void)
{
    fsck_report_fini(&scene.report);
    assert_int_equal(fsck_run(scene.dir, &scene.report), 0);
}

static inline void on_text(void *ctx, const char *text)
{
    (void)ctx;
    strncat(scene.output, text, sizeof scene.output - strlen(scene.output) - 1);
}

static inline void repair(void)
{
    const struct fsck_options options = {.repair = true, .report_step = on_text};

    fsck_report_fini(&scene.report);
    assert_int_equal(fsck_run_with(scene.dir, &options, &scene.report), 0);
}

static inline int run_command(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline int run_command(const char *format, ...)
{
    char command[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command);
}

/* Saves the readable rest to a new directory, which is examined from then on; the old one is unchanged
 * to the byte. */
static inline void save(void)
{
    static unsigned saves;
    char into[96];
    const struct fsck_options options = {.salvage = into, .lot_jobs = 7};

    snprintf(into, sizeof into, "%s/saved%u", scene.root, saves++);
    assert_int_equal(run_command("cp -a '%s' '%s/before'", scene.dir, scene.root), 0);
    fsck_report_fini(&scene.report);
    assert_int_equal(fsck_run_with(scene.dir, &options, &scene.report), 0);
    assert_true(scene.report.is_salvaged);
    assert_int_equal(run_command("cd '%s' && diff -r --no-dereference '%s' before && rm -rf before",
                                 scene.root, scene.dir),
                     0);
    snprintf(scene.dir, sizeof scene.dir, "%s", into);
    snprintf(scene.run_dir, sizeof scene.run_dir, "%s/shard-00/run", into);
}

static inline void path_of(const char *name, char out[256])
{
    snprintf(out, 256, "%s/%s", scene.run_dir, name);
}

/* Returns the second copy of a catalog; false for other files, which have no copy. */
static inline bool copy_of_catalog(const char *name, char copy[32])
{
    const uint64_t generation = catalog_file_generation(name);

    catalog_copy_name(generation, copy);
    return generation && strcmp(name, copy) != 0;
}

/* Flips a bit, of a catalog in both copies. */
static inline void flip(const char *name, int64_t at)
{
    char path[256], copy[32];
    unsigned char byte;
    int fd;

    if (copy_of_catalog(name, copy) && (path_of(copy, path), access(path, F_OK) == 0))
        flip(copy, at);
    path_of(name, path);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    if (at < 0)
        at += lseek(fd, 0, SEEK_END);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x20;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static inline void remove_file(const char *name)
{
    char path[256], copy[32];

    if (copy_of_catalog(name, copy)) {
        path_of(copy, path);
        (void)unlink(path);
    }
    path_of(name, path);
    assert_int_equal(unlink(path), 0);
}

static inline bool is_there(const char *name)
{
    char path[256];

    path_of(name, path);
    return access(path, F_OK) == 0;
}

static inline const struct fsck_finding *the_finding(const char *file, const char *text)
{
    if (scene.report.finding_count != 1)
        for (uint64_t i = 0; i < scene.report.finding_count && i < FSCK_FINDINGS_MAX; i++)
            print_message("%s: %s\n", scene.report.finding[i].file, scene.report.finding[i].text);
    assert_int_equal(scene.report.finding_count, 1);
    assert_string_equal(scene.report.finding[0].file, file);
    if (!strstr(scene.report.finding[0].text, text))
        fail_msg("'%s' is not in '%s'", text, scene.report.finding[0].text);
    return &scene.report.finding[0];
}

static inline void expect_clean(void)
{
    examine();
    if (scene.report.finding_count)
        fail_msg("%s: %s", scene.report.finding[0].file, scene.report.finding[0].text);
}

#endif
