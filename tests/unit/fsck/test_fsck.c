#include "fsck/fsck.h"

#include "store/wal.h"
#include "unit/claim.h"
#include "unit/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A data directory of two shards on real files; what is appended goes to shard 0. */
static struct {
    char root[64], dir[128], log[320];
    struct datadir *datadir;
    struct datadir_manifest manifest;
    struct wal *wal;
    struct fsck_report report;
    struct buffer text;
} scene;

static int64_t now_ms(struct clock *clock)
{
    (void)clock;
    return 5000;
}

static void open_log(void)
{
    char path[256], error[4096];
    struct wal_options options = {.fs = &fs_posix,
                                  .dir = path,
                                  .file_bytes = 65536,
                                  .batch_bytes_max = 20000,
                                  .sync = WAL_SYNC_ALWAYS,
                                  .inner_ms = now_ms,
                                  .wall_ms = now_ms};

    memcpy(options.identity.store, scene.manifest.name, sizeof options.identity.store);
    datadir_shard_path(scene.datadir, 0, path, sizeof path);
    assert_int_equal(wal_open(&options, NULL, NULL, &scene.wal, NULL, error, sizeof error), 0);
    snprintf(scene.log, sizeof scene.log, "%s/wal/00000001.log", path);
}

static int make_scene(void **state)
{
    char error[512];

    (void)state;
    memset(&scene, 0, sizeof scene);
    snprintf(scene.dir, sizeof scene.dir, "%s/data", scratch_make(scene.root) ? scene.root : "");
    if (datadir_open(scene.dir, 2, &scene.datadir, &scene.manifest, error, sizeof error) < 0)
        return -1;
    open_log();
    buffer_init(&scene.text, 1 << 20);
    return 0;
}

static int remove_scene(void **state)
{
    (void)state;
    wal_close(scene.wal);
    datadir_close(scene.datadir);
    buffer_fini(&scene.text);
    return scratch_remove(scene.root);
}

static void append(const struct record *record)
{
    assert_int_equal(wal_has_room(scene.wal, record_bytes_max(record), WAL_FOR_ANSWER), 0);
    wal_append(scene.wal, record);
}

/* The id, made longer until its job belongs to the first shard. */
static const char *at_home(const char *id)
{
    static char text[32];
    struct hash128 key;

    snprintf(text, sizeof text, "%s", id);
    while (key = hash_pair(slice_of("orders"), slice_of(text), scene.manifest.hash_seed),
           datadir_shard_of(key, scene.manifest.shards) != 0)
        strcat(text, "+");
    return text;
}

static void push(const char *id, enum record_job_origin origin)
{
    const struct record record = {
        .kind = RECORD_JOB,
        .origin = origin,
        .job = {.topic = slice_of("orders"),
                .id = slice_of(at_home(id)),
                .body = slice_of("some body that is long enough to be hit"),
                .state = JOB_DELAYED}};

    append(&record);
}

static struct hash128 key_of(const char *id)
{
    return hash_pair(slice_of("orders"), slice_of(at_home(id)), scene.manifest.hash_seed);
}

static void set_state(const char *id, enum job_state job_state)
{
    const struct record record = {.kind = RECORD_STATE,
                                  .state = {.key = key_of(id), .state = job_state}};

    append(&record);
}

static void finish(const char *id, enum record_reason reason)
{
    const struct record record = {
        .kind = RECORD_DONE,
        .done = {.key = key_of(id), .reason = reason, .topic = slice_of("orders")}};

    append(&record);
}

static void set_totals(uint64_t pushed, uint64_t acked)
{
    const struct record record = {.kind = RECORD_TOPIC,
                                  .topic = {.topic = slice_of("orders"),
                                            .exists = true,
                                            .totals = {.pushed = pushed, .acked = acked}}};

    append(&record);
}

static void commit(void)
{
    assert_true(wal_seal(scene.wal));
    assert_int_equal(wal_commit(scene.wal), 0);
    wal_committed(scene.wal);
}

/* Closes all and looks it over. */
static void examine(void)
{
    wal_close(scene.wal);
    scene.wal = NULL;
    datadir_close(scene.datadir);
    scene.datadir = NULL;
    assert_int_equal(fsck_run(scene.dir, &scene.report), 0);
}

static void flip(uint32_t at)
{
    int fd = open(scene.log, O_RDWR);
    unsigned char byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x20;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void some_life(void)
{
    push("a", RECORD_PUSHED);
    push("b", RECORD_PUSHED);
    push("c", RECORD_PUSHED);
    push("d", RECORD_PUSHED);
    commit();
    set_state("a", JOB_LEASED);
    set_state("b", JOB_DEAD);
    finish("c", RECORD_ACKED);
    push("d", RECORD_PUSHED_REPLACING);
    commit();
}

CLAIM_BETWEEN(counts_a_sound_directory, make_scene, remove_scene)
{
    some_life();
    set_totals(4, 1);
    examine();
    assert_int_equal(scene.report.finding_count, 0);
    assert_int_equal(scene.report.shards, 2);
    assert_int_equal(scene.report.shard[0].batches, 3);
    assert_int_equal(scene.report.shard[0].records, 9);
    assert_int_equal(scene.report.shard[0].delayed, 1);
    assert_int_equal(scene.report.shard[0].leased, 1);
    assert_int_equal(scene.report.shard[0].dead, 1);
    assert_int_equal(scene.report.shard[0].topics, 1);
    assert_int_equal(scene.report.shard[0].torn_bytes, 0);
    assert_int_equal(scene.report.shard[1].files, 0);
    fsck_emit_text(&scene.text, &scene.report);
    buffer_append_byte(&scene.text, '\0');
    assert_non_null(strstr(scene.text.at, "1 delayed or ready, 1 leased, 1 dead"));
    assert_non_null(strstr(scene.text.at, "\nclean\n"));
}

CLAIM_BETWEEN(names_the_place_of_damage, make_scene, remove_scene)
{
    some_life();
    examine();
    flip(4096 + 72 + 50);
    assert_int_equal(fsck_run(scene.dir, &scene.report), 0);
    assert_int_equal(scene.report.finding_count, 1);
    assert_string_equal(scene.report.finding[0].file, "wal/00000001.log");
    assert_int_equal(scene.report.finding[0].at, 4096);
    fsck_emit_json(&scene.text, &scene.report);
    buffer_append_byte(&scene.text, '\0');
    assert_non_null(strstr(scene.text.at, "{\"clean\":false,\"finding_count\":1,\"mended\":0,"));
    assert_non_null(strstr(scene.text.at, "\"file\":\"wal/00000001.log\",\"at\":4096,"));
}

CLAIM_BETWEEN(damaged_header_and_missing_manifest_are_findings, make_scene, remove_scene)
{
    char path[300];

    some_life();
    examine();
    flip(9);
    assert_int_equal(fsck_run(scene.dir, &scene.report), 0);
    assert_int_equal(scene.report.finding_count, 1);
    flip(9);
    snprintf(path, sizeof path, "%s/shard-00/wal/MANIFEST", scene.dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fsck_run(scene.dir, &scene.report), 0);
    assert_int_equal(scene.report.finding_count, 1);
    assert_non_null(strstr(scene.report.finding[0].text, "MANIFEST' is missing"));
}

/* Damage of the directory's manifest: the directory cannot be examined. */
CLAIM_BETWEEN(no_bit_of_the_directory_s_manifest_is_wrong_unseen, make_scene, remove_scene)
{
    char path[300], bytes[1024];
    ssize_t len;
    int fd;

    some_life();
    examine();
    snprintf(path, sizeof path, "%s/MANIFEST", scene.dir);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    len = pread(fd, bytes, sizeof bytes, 0);
    assert_true(len > 150);
    for (ssize_t bit = 0; bit < len * 8; bit++) {
        const char was = bytes[bit / 8], is = (char)(was ^ 1 << bit % 8);

        assert_int_equal(pwrite(fd, &is, 1, bit / 8), 1);
        if (fsck_run(scene.dir, &scene.report) == 0)
            fail_msg("bit %zd of byte %zd is not reported", bit % 8, bit / 8);
        assert_true(scene.report.error[0]);
        assert_int_equal(pwrite(fd, &was, 1, bit / 8), 1);
    }
    close(fd);
    examine();
}

CLAIM_BETWEEN(records_that_make_no_sense_are_findings, make_scene, remove_scene)
{
    push("a", RECORD_PUSHED);
    push("a", RECORD_PUSHED);           /* 1: as new, though there */
    push("b", RECORD_PUSHED_REPLACING); /* 2: replaces nothing */
    set_state("nobody", JOB_LEASED);    /* 3; and 4 at the end: nothing follows */
    finish("no one", RECORD_ACKED);     /* 5 */
    set_totals(99, 1);                  /* 6: do not add up */
    examine();
    assert_int_equal(scene.report.finding_count, 6);
    assert_non_null(strstr(scene.report.finding[5].text, "99 pushed, 1 acked"));
}

CLAIM_BETWEEN(a_changed_byte_is_never_written, make_scene, remove_scene)
{
    char before[65536], after[65536];
    int fd;

    some_life();
    examine();
    flip(4096 + 10);
    fd = open(scene.log, O_RDONLY);
    assert_int_equal(read(fd, before, sizeof before), sizeof before);
    assert_int_equal(fsck_run(scene.dir, &scene.report), 0);
    assert_int_equal(pread(fd, after, sizeof after, 0), sizeof after);
    assert_memory_equal(before, after, sizeof before);
    close(fd);
}

/* The second shard has the same log. */
CLAIM_BETWEEN(a_copy_of_a_shard_is_not_saved_twice, make_scene, remove_scene)
{
    char command[300], into[200];
    const struct fsck_options options = {.salvage = into};
    bool is_notified = false;

    some_life();
    set_totals(4, 1);
    examine();
    snprintf(command, sizeof command, "cp -a '%s/shard-00/.' '%s/shard-01'", scene.dir, scene.dir);
    assert_int_equal(system(command), 0);
    snprintf(into, sizeof into, "%s-saved", scene.dir);
    assert_int_equal(fsck_run_with(scene.dir, &options, &scene.report), 0);
    for (uint64_t i = 0; i < scene.report.finding_count; i++)
        is_notified |= scene.report.finding[i].shard == 1 &&
                       strstr(scene.report.finding[i].text,
                              "the files in 'shard-01' belong to shard 00 of this store");
    assert_true(is_notified);
    assert_int_equal(scene.report.kept_count, 1);
    assert_string_equal(scene.report.kept[0].topic, "orders");
    assert_int_equal(scene.report.kept[0].jobs, 3);
    fsck_report_fini(&scene.report);
    assert_int_equal(fsck_run(into, &scene.report), 0);
    assert_int_equal(scene.report.finding_count, 0);
    assert_int_equal(scene.report.shard[0].cold, 3);
    assert_int_equal(scene.report.shard[1].cold, 0);
    assert_int_equal(scratch_remove(into), 0);
}

CLAIM_BETWEEN(a_directory_in_use_is_not_examined, make_scene, remove_scene)
{
    assert_int_equal(fsck_run(scene.dir, &scene.report), -EBUSY);
    assert_non_null(strstr(scene.report.error, "in use by process"));
    fsck_emit_json(&scene.text, &scene.report);
    assert_non_null(memmem(scene.text.at, scene.text.len, "\"clean\":false,\"error\":\"", 23));
}

CLAIMS_MAIN(NULL, NULL)
