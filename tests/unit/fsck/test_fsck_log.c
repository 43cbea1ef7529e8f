/* Findings in a log that is whole but contradictory, and in one that is damaged. */
#include "fsck_rig_run.h"

#include "store/wal_private.h"
#include "unit/claim.h"
#include "unit/repetitions.h"

#include <sys/stat.h>

/* ---- records ---- */

static void nonsense(void)
{
    struct record record = job_record("orders", "a", JOB_READY, 9, 1);

    append(&record); /* 0 */
    record.job.state = JOB_FINISHED;
    record.origin = RECORD_PUSHED_REPLACING;
    append(&record);                                        /* 1 */
    set_state("a", JOB_READY, (struct record_place){0});    /* 2 */
    set_state("a", JOB_FINISHED, (struct record_place){0}); /* 3 */
    set_state("a", JOB_DELAYED, (struct record_place){0});
    append(&(struct record){.kind = RECORD_DONE,
                            .done = {.key = key_of("a"), .reason = RECORD_ACKED}}); /* 4 */
    push_to("orders", "b", RECORD_PUSHED);
    remove_topic("orders"); /* 5 */
}

CLAIM_BETWEEN(records_that_no_server_takes_are_found, make_bare, remove_scene)
{
    static const char *const found[] = {
        "a job is stored in an invalid state",
        "a job is stored in an invalid state",
        "a job is stored in an invalid state",
        "a job is stored in an invalid state",
        "a job ends, and the record does not name its topic",
        "a topic is removed that has jobs",
    };

    write_log(nonsense);
    examine();
    for (uint64_t i = 0; i < sizeof found / sizeof *found; i++) {
        assert_string_equal(finding(i, found[i])->file, "wal/00000001.log");
        assert_int_equal(scene.report.finding[i].cure, FSCK_RESTORE);
        assert_true(i == 0 || scene.report.finding[i].at > scene.report.finding[i - 1].at);
    }
}

static void all_ends(void)
{
    static const enum record_reason reasons[] = {RECORD_ACKED, RECORD_CANCELLED, RECORD_PURGED,
                                                 RECORD_EXPIRED, RECORD_REPLACED};
    char id[2] = "a";

    for (size_t i = 0; i < 5; i++, id[0]++) {
        push_to("orders", id, RECORD_PUSHED);
        if (i < 4)
            end_job("orders", id, reasons[i]);
    }
    append(&(struct record){.kind = RECORD_DONE,
                            .done = {.key = key_of("a"),
                                     .reason = RECORD_ACKED,
                                     .carried = true,
                                     .topic = slice_of("orders")}});
    notify_topic("orders",
                 &(struct topic_totals){.pushed = 5, .acked = 1, .cancelled = 2, .expired = 1});
}

CLAIM_BETWEEN(every_end_counts_once, make_bare, remove_scene)
{
    write_log(all_ends);
    expect_clean();
    assert_int_equal(scene.report.shard[0].delayed, 1);
}

static void falling_totals(void)
{
    const struct topic_totals totals[] = {{.pushed = 4, .acked = 1, .cancelled = 2, .expired = 1},
                                          {.pushed = 5, .cancelled = 2, .expired = 1},
                                          {.pushed = 5, .acked = 1, .cancelled = 1, .expired = 1},
                                          {.pushed = 5, .acked = 1, .cancelled = 2}};

    all_ends();
    for (size_t i = 0; i < 4; i++) {
        notify_topic("orders", &totals[i]);
        notify_topic("orders",
                     &(struct topic_totals){.pushed = 5, .acked = 1, .cancelled = 2, .expired = 1});
    }
}

CLAIM_BETWEEN(each_total_that_falls_is_found, make_bare, remove_scene)
{
    write_log(falling_totals);
    examine();
    assert_int_equal(scene.report.finding_count, 4);
    for (uint64_t i = 0; i < 4; i++)
        finding(i, "a topic's totals fall");
}

/* More jobs, topics and files than fsck has room for at first. */
enum { TOPICS = 150, JOBS_OF_EACH = 12 };

static void a_crowd(void)
{
    char topic[16], id[16];

    for (int job = 0; job < JOBS_OF_EACH; job++)
        for (int i = 0; i < TOPICS; i++) {
            snprintf(topic, sizeof topic, "t%d", i);
            snprintf(id, sizeof id, "j%d", job);
            push_to(topic, id, RECORD_PUSHED);
            if (job % 3 == 0)
                end_job(topic, id, RECORD_ACKED);
        }
    for (int i = 0; i < TOPICS; i++) {
        snprintf(topic, sizeof topic, "t%d", i);
        notify_topic(topic,
                     &(struct topic_totals){.pushed = JOBS_OF_EACH, .acked = JOBS_OF_EACH / 3});
    }
    remove_topic("nobody");
}

CLAIM_BETWEEN(many_jobs_of_many_topics_are_counted, make_bare, remove_scene)
{
    const struct fsck_shard *shard = &scene.report.shard[0];

    write_log(a_crowd);
    expect_clean();
    assert_true(shard->files > 1);
    assert_int_equal(shard->topics, TOPICS);
    assert_int_equal(shard->delayed, TOPICS * JOBS_OF_EACH * 2 / 3);
}

/* ---- a log that began before ---- */

static uint64_t second_sequence;

static void two_files(void)
{
    char id[16];

    for (int i = 0; wal_current_file(scene.wal) < 2; i++) {
        snprintf(id, sizeof id, "early%d", i);
        push_to("orders", id, RECORD_PUSHED);
    }
    commit_log();
    push_to("orders", "again", RECORD_PUSHED_REPLACING);
    end_job("orders", "early0", RECORD_ACKED);
    push_to("others", "first", RECORD_PUSHED);
    commit_log();
    second_sequence = wal_first_sequence(scene.wal, 2);
}

/* Begins a second file, as an older version left it, which had no runs. */
static void begin_with_second_file(void)
{
    struct wal_disk disk = {.fs = &fs_posix};
    struct wal_manifest manifest;
    char path[256];
    int fd;

    snprintf(disk.dir, sizeof disk.dir, "%s/shard-00/wal", scene.dir);
    assert_int_equal(wal_manifest_open(&disk, O_RDWR, &fd, &manifest, NULL), 0);
    manifest.first = 2;
    manifest.first_sequence = second_sequence;
    assert_int_equal(wal_manifest_write(&disk, fd, &manifest), 0);
    close(fd);
    snprintf(path, sizeof path, "%s/shard-00/wal/00000001.log", scene.dir);
    assert_int_equal(unlink(path), 0);
}

CLAIM_BETWEEN(files_before_the_first_are_not_required, make_bare, remove_scene)
{
    write_log(two_files);
    examine();
    finding(0, "a job is replaced or carried forward that does not exist");
    begin_with_second_file();
    expect_clean();
    assert_int_equal(scene.report.shard[0].first_file, 2);
    assert_int_equal(scene.report.shard[0].topics, 2);
}

/* ---- damage ---- */

/* The batch at the log's start, changed, with its own checksums right. */
static void change_batch(void (*change)(const struct wal_disk *disk, struct wal_head *head,
                                        char *batch))
{
    struct wal_disk disk = {.fs = &fs_posix};
    struct wal_manifest manifest;
    struct wal_head head;
    static char batch[65536];
    char path[256];
    int fd;

    snprintf(disk.dir, sizeof disk.dir, "%s/shard-00/wal", scene.dir);
    assert_int_equal(wal_manifest_open(&disk, O_RDONLY, &fd, &manifest, NULL), 0);
    close(fd);
    snprintf(path, sizeof path, "%s/shard-00/wal/00000001.log", scene.dir);
    fd = open(path, O_RDWR);
    assert_true(pread(fd, batch, sizeof batch, WAL_HEADER_BYTES) > WAL_HEAD_BYTES);
    assert_true(wal_head_decode(&disk, 1, WAL_HEADER_BYTES, batch, &head));
    change(&disk, &head, batch);
    wal_head_encode(&disk, 1, WAL_HEADER_BYTES, &head, batch);
    assert_int_equal(pwrite(fd, batch, head.bytes, WAL_HEADER_BYTES), head.bytes);
    close(fd);
}

/* The last one of the batch: 'new', which was pushed. */
static struct slice last_job(const struct wal_head *head, char *batch)
{
    struct slice records = slice_make(batch + WAL_HEAD_BYTES, head->bytes - WAL_HEAD_BYTES);
    struct slice record, last = {0};
    size_t at = 0;

    while (wal_record_next(records, &at, &record) == 1)
        if (record.at[4] == RECORD_JOB)
            last = record;
    return last;
}

static void spoil_check(const struct wal_disk *disk, struct wal_head *head, char *batch)
{
    struct slice record = last_job(head, batch);

    (void)disk;
    batch[record.at + record.len - batch] ^= 1;
}

static void spoil_record(const struct wal_disk *disk, struct wal_head *head, char *batch)
{
    struct slice record = last_job(head, batch);
    size_t at = (size_t)(record.at - batch);

    batch[at + 6] = (char)0xff;
    wal_check_put(disk, 1, WAL_HEADER_BYTES + (uint32_t)at, batch + at, record.len);
}

static void spoil_count(const struct wal_disk *disk, struct wal_head *head, char *batch)
{
    (void)disk;
    (void)batch;
    head->count++;
}

static void spoil_length(const struct wal_disk *disk, struct wal_head *head, char *batch)
{
    struct slice record = last_job(head, batch);

    (void)disk;
    batch[record.at - batch + 2] = 1;
}

/* A whole batch is what was written: then it was written wrong, and only a backup helps. */
CLAIM_BETWEEN(a_whole_batch_with_a_bad_record_is_found, make_scene, remove_scene)
{
    static const struct {
        void (*change)(const struct wal_disk *disk, struct wal_head *head, char *batch);
        const char *found;
    } cases[] = {
        {spoil_check, "the record's checksum is wrong"},
        {spoil_record, "the record cannot be decoded"},
        {spoil_count, "the batch does not contain its 8 records"},
        {spoil_length, "the batch does not contain its 7 records"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (i > 0)
            assert_int_equal(remove_scene(state) || make_scene(state), 0);
        change_batch(cases[i].change);
        examine();
        assert_string_equal(finding(0, cases[i].found)->file, "wal/00000001.log");
        assert_int_equal(scene.report.finding[0].cure, FSCK_RESTORE);
    }
}

CLAIM_BETWEEN(a_manifest_damaged_twice_is_found, make_scene, remove_scene)
{
    char path[256], zeros[8192] = {0};
    int fd;

    snprintf(path, sizeof path, "%s/shard-00/wal/MANIFEST", scene.dir);
    fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, zeros, sizeof zeros, 0), sizeof zeros);
    close(fd);
    save();
    the_finding("", "MANIFEST' is damaged");
    assert_int_equal(scene.report.mended, 0);
}

/* Calls `check` with each bit of a file's range wrong, one after the other; in a short run one bit
 * of each byte. */
static void with_each_bit(const char *name, int64_t from, int64_t bytes, void (*check)(int64_t bit))
{
    const int64_t stride = (int64_t)repetitions(1, 9); /* 9: another bit of each byte */
    char path[256];
    int fd;

    snprintf(path, sizeof path, "%s/shard-00/%s", scene.dir, name);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    for (int64_t bit = from * 8; bit < (from + bytes) * 8; bit += stride) {
        char is, was;

        assert_int_equal(pread(fd, &was, 1, bit / 8), 1);
        is = (char)(was ^ 1 << bit % 8);
        assert_int_equal(pwrite(fd, &is, 1, bit / 8), 1);
        assert_int_equal(fsck_run(scene.dir, &scene.report), 0);
        check(bit);
        assert_int_equal(pwrite(fd, &was, 1, bit / 8), 1);
    }
    close(fd);
}

static void is_found(int64_t bit)
{
    if (scene.report.finding_count == 0)
        fail_msg("bit %d of byte %d is wrong unseen", (int)(bit % 8), (int)(bit / 8));
}

/* The other copy has the same content. The report counts the damaged copy. */
static void is_reported_and_does_no_harm(int64_t bit)
{
    const struct fsck_shard *shard = &scene.report.shard[0];

    if (shard->manifest_copies_bad != 1)
        fail_msg("bit %d of byte %d is wrong unseen", (int)(bit % 8), (int)(bit / 8));
    assert_int_equal(scene.report.finding_count, 0);
    assert_int_equal(shard->cold, 18);
    assert_int_equal(shard->batches, 1);
}

CLAIM_BETWEEN(every_flipped_bit_of_the_log_manifest_is_found, make_scene, remove_scene)
{
    char path[256];
    struct stat about;

    expect_clean();
    assert_int_equal(scene.report.shard[0].batches, 1);
    with_each_bit("wal/MANIFEST", 0, 512, is_reported_and_does_no_harm);
    with_each_bit("wal/MANIFEST", 4096, 512, is_reported_and_does_no_harm);
    snprintf(path, sizeof path, "%s/CATALOG-00000005", scene.run_dir);
    assert_int_equal(stat(path, &about), 0);
    with_each_bit("run/CATALOG-00000005", 0, about.st_size, is_found);
    expect_clean();
}

static void flip_log(uint32_t at)
{
    char path[256], byte;
    int fd;

    snprintf(path, sizeof path, "%s/shard-00/wal/00000001.log", scene.dir);
    fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* The following records are unreadable, so nothing is ended. */
CLAIM_BETWEEN(in_a_damaged_log_no_job_is_ended, make_scene, remove_scene)
{
    flip_log(WAL_HEADER_BYTES + 100);
    repair();
    assert_int_equal(the_finding("wal/00000001.log", "damaged at byte 4096")->cure, FSCK_RESTORE);
    assert_int_equal(scene.report.mended, 0);
    flip_log(WAL_HEADER_BYTES + 100);
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 18);
    flip_log(WAL_HEADER_BYTES + 100);
    save();
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 20); /* a0, which ended there, came back */
}

/* ---- logs that were never opened ---- */

CLAIM_BETWEEN(a_log_that_was_never_opened_is_empty, make_bare, remove_scene)
{
    struct wal_disk disk = {.fs = &fs_posix};
    struct wal_manifest manifest = {
        .seed = 5, .identity = scene.catalog.identity, .first = 1, .first_sequence = 1};
    char path[5000];
    int fd;

    snprintf(disk.dir, sizeof disk.dir, "%s/shard-00/wal", scene.dir);
    assert_int_equal(mkdir(disk.dir, 0700), 0);
    snprintf(path, sizeof path, "%s/MANIFEST.tmp", disk.dir);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    expect_clean();
    assert_int_equal(wal_manifest_make(&disk, &fd, &manifest), 0);
    close(fd);
    expect_clean();
    assert_int_equal(scene.report.shard[0].files, 0);
    snprintf(path, sizeof path, "%s/00000001.log", disk.dir);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    examine();
    assert_int_equal(scene.report.finding_count, 1);
}

CLAIM_BETWEEN(a_path_without_room_for_the_shards_is_refused_in_words, make_bare, remove_scene)
{
    char path[5000], section[] = "/012345678901234567890123456789012345678901234567890123456789";
    struct datadir *datadir;
    struct datadir_manifest manifest;
    char error[600];
    size_t len = (size_t)snprintf(path, sizeof path, "%s", scene.root);

    while (len + sizeof section < PATH_MAX - 64 - 12) {
        len += (size_t)snprintf(path + len, sizeof path - len, "%s", section);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    path[len++] = '/';
    while (len < PATH_MAX - 64 - 12)
        path[len++] = 'z';
    path[len] = '\0';
    assert_int_equal(datadir_open(path, 1, &datadir, &manifest, error, sizeof error), 0);
    datadir_close(datadir);
    assert_int_equal(fsck_run(path, &scene.report), -ENAMETOOLONG);
    assert_non_null(strstr(scene.report.error, "cannot examine"));
}

CLAIMS_MAIN(NULL, NULL)
