/* fsck_rig_run: further runs of the shard, slot by slot, sound or not; and logs that take more than
 * one file. */
#ifndef TARRY_TESTS_FSCK_RIG_RUN_H
#define TARRY_TESTS_FSCK_RIG_RUN_H

#include "fsck_rig.h"

#include "store/run_private.h"

enum { MADE_SLOTS_MAX = 512 };

/* The run that was made last. */
static struct {
    struct run_writer *writer;
    struct run_info info;
    char name[32];
    uint32_t number;
    uint32_t slots;
    int64_t at[MADE_SLOTS_MAX + 1]; /* of each record in the file */
    uint32_t bytes[MADE_SLOTS_MAX];
} made;

/* ---- a run ---- */

static inline struct catalog_topic *catalog_topic_of(struct slice name)
{
    struct catalog *catalog = &scene.catalog;

    for (uint32_t i = 0; i < catalog->topic_count; i++)
        if (catalog->topics[i].name.len == name.len &&
            memcmp(catalog->topics[i].name.at, name.at, name.len) == 0)
            return &catalog->topics[i];
    catalog->topics =
        realloc(catalog->topics, (catalog->topic_count + 1) * sizeof *catalog->topics);
    catalog->topics[catalog->topic_count] =
        (struct catalog_topic){.name = slice_make(strndup(name.at, name.len), name.len)};
    return &catalog->topics[catalog->topic_count++];
}

static inline void begin_run(uint32_t number)
{
    const struct run_writing writing = {
        .fs = &fs_posix, .dir = scene.run_dir, .number = number, .seed = SEED};

    memset(&made, 0, sizeof made);
    made.number = number;
    made.at[0] = 4096;
    run_file_name(number, made.name);
    scene.entry_count = 0;
    assert_int_equal(run_writer_new(&writing, &made.writer), 0);
}

static inline struct hash128 key_of_record(const struct record *record)
{
    return record->kind == RECORD_DONE
               ? record->done.key
               : hash_pair(record->job.topic, record->job.id, scene.manifest.hash_seed);
}

/* Independent of the record. */
static inline void add_as(enum job_section section, int64_t when_ms, uint64_t sequence,
                          const char *topic, const struct record *record)
{
    struct catalog_topic *about = catalog_topic_of(slice_of(topic));
    char bytes[1024];
    uint32_t len;

    assert_true(record_bytes_max(record) <= sizeof bytes && made.slots < MADE_SLOTS_MAX);
    len = (uint32_t)record_encode(record, bytes);
    assert_int_equal(run_writer_add(made.writer, section, when_ms, sequence, slice_of(topic), 0,
                                    slice_make(bytes, len)),
                     0);
    scene.entries[scene.entry_count++] = (struct keys_entry){
        .hash = key_of_record(record).low, .run = made.number, .slot = made.slots};
    made.bytes[made.slots] = len;
    made.at[made.slots + 1] = made.at[made.slots] + len + RUN_CHECK_BYTES;
    made.slots++;
    about->stored[section]++;
    about->dead_bytes += section == SECTION_DEAD ? len : 0;
}

static inline void add_to_run(const char *topic, const struct record *record)
{
    int64_t when_ms;
    enum job_section section = job_section_of_record(record, 0, &when_ms);

    add_as(section, when_ms,
           record->kind == RECORD_DONE ? record->done.sequence : record->job.sequence, topic,
           record);
}

static inline void renew_catalog(void)
{
    scene.catalog.generation++;
    write_catalog();
}

/* Ends the run in a new catalog, which also names a table of keys for it. */
static inline void end_run_without_table(void)
{
    struct catalog *catalog = &scene.catalog;
    uint64_t bytes = 0;

    assert_int_equal(run_writer_finish(made.writer, &made.info), 0);
    for (uint32_t slot = 0; slot < made.slots && slot < MADE_SLOTS_MAX; slot++)
        bytes += made.bytes[slot];
    catalog->runs = realloc(catalog->runs, (catalog->run_count + 1) * sizeof *catalog->runs);
    catalog->keys = realloc(catalog->keys, (catalog->key_count + 1) * sizeof *catalog->keys);
    set_alive(&catalog->runs[catalog->run_count], made.number, made.slots, UINT32_MAX);
    catalog->runs[catalog->run_count++].record_bytes = bytes;
    catalog->keys[catalog->key_count++] = made.number;
    catalog->next_run = catalog->next_keys = made.number + 1;
    renew_catalog();
}

static inline void end_run(void)
{
    write_table(made.number, 0);
    end_run_without_table();
}

/* ---- its content ---- */

static inline void read_run(int64_t at, void *into, size_t bytes)
{
    char path[256];
    int fd;

    path_of(made.name, path);
    fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, into, bytes, at), bytes);
    close(fd);
}

static inline void write_to_run(int64_t at, const void *from, size_t bytes)
{
    char path[256];
    int fd;

    path_of(made.name, path);
    fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, from, bytes, at), bytes);
    close(fd);
}

/* Its bytes, with the right checksum. */
static inline void replace_record(uint32_t slot, const char *bytes)
{
    uint32_t check = run_record_check(SEED, made.number, slot, slice_make(bytes, made.bytes[slot]));

    write_to_run(made.at[slot], bytes, made.bytes[slot]);
    write_to_run(made.at[slot] + made.bytes[slot], &check, sizeof check);
}

static inline int64_t directory_at(uint32_t block)
{
    return (int64_t)run_round_up((uint64_t)made.at[made.slots]) + (int64_t)block * RUN_BLOCK_BYTES;
}

/* A word of a slot's entry in the directory: 0 when, 1 sequence, 2 offset. */
static inline void replace_word(uint32_t slot, size_t word, uint64_t value)
{
    int64_t at = directory_at(slot / RUN_BLOCK_SLOTS);
    char block[RUN_BLOCK_BYTES];

    read_run(at, block, sizeof block);
    memcpy(block + slot % RUN_BLOCK_SLOTS * RUN_ENTRY_BYTES + 8 * word, &value, sizeof value);
    run_block_seal(SEED, made.number, (uint64_t)at, block);
    write_to_run(at, block, sizeof block);
}

/* ---- the report ---- */

static inline const struct fsck_finding *finding(uint64_t index, const char *text)
{
    if (index >= scene.report.finding_count)
        fail_msg("'%s' was not found", text);
    if (!strstr(scene.report.finding[index].text, text))
        fail_msg("'%s' is not in '%s'", text, scene.report.finding[index].text);
    return &scene.report.finding[index];
}

static inline void expect_all_mended(void)
{
    assert_true(scene.report.finding_count > 0);
    assert_int_equal(scene.report.mended, scene.report.finding_count);
    expect_clean();
}

/* ---- the log ---- */

static inline void commit_log(void)
{
    if (wal_seal_sync(scene.wal)) {
        assert_int_equal(wal_commit(scene.wal), 0);
        wal_committed(scene.wal);
    }
}

/* However many files it takes. */
static inline void append_on(const struct record *record)
{
    while (wal_has_room(scene.wal, record_bytes_max(record), WAL_FOR_ANSWER) == -EAGAIN) {
        commit_log();
        if (wal_wants_upkeep(scene.wal)) {
            assert_int_equal(wal_upkeep(scene.wal), 0);
            wal_upkept(scene.wal);
        }
    }
    append(record);
}

static inline void push_to(const char *topic, const char *id, enum record_job_origin origin)
{
    struct record record = job_record(topic, id, JOB_DELAYED, 9, 3000);

    record.origin = origin;
    append_on(&record);
}

static inline void end_job(const char *topic, const char *id, enum record_reason reason)
{
    append_on(&(struct record){
        .kind = RECORD_DONE,
        .done = {.key = hash_pair(slice_of(topic), slice_of(id), scene.manifest.hash_seed),
                 .reason = reason,
                 .topic = slice_of(topic),
                 .sequence = 5}});
}

static inline void notify_topic(const char *topic, const struct topic_totals *totals)
{
    append_on(
        &(struct record){.kind = RECORD_TOPIC,
                         .topic = {.topic = slice_of(topic), .exists = true, .totals = *totals}});
}

static inline void remove_topic(const char *topic)
{
    append_on(&(struct record){.kind = RECORD_TOPIC, .topic = {.topic = slice_of(topic)}});
}

static inline void forget_log(void)
{
    char command[300];

    snprintf(command, sizeof command, "rm -rf '%s/shard-00/wal'", scene.dir);
    assert_int_equal(system(command), 0);
}

/* Resets the shard to its state before anything was stored. */
static inline void forget_shard(void)
{
    char command[300];

    forget_log();
    snprintf(command, sizeof command, "rm -rf '%s'/*", scene.run_dir);
    assert_int_equal(system(command), 0);
}

static inline int make_bare(void **state)
{
    int result = make_scene(state);

    forget_shard();
    return result;
}

#endif
