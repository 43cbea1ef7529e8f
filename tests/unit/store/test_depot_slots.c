/* Slots one by one, and the tables of keys that lead to them: a table is only a hint, and each
 * entry is verified by the record. */

#include "unit/claim.h"

#include "depot_crowd.h"
#include "store/keys_private.h"

enum { JOBS = 100, SAME_HASH = 150, NOBODYS_RUN = 77 };

static struct crowd crowd;

/* ---- places ---- */

CLAIM(an_invalid_slot_is_dead_and_keeps_its_place)
{
    const struct record_place none[] = {
        {.file = 1, .at = 3, .bytes = 40}, /* in the log */
        crowd_place(NOBODYS_RUN, 3),
        crowd_place(1, JOBS),
        {0},
    };
    struct depot_build build = {0};

    crowd_start(&crowd);
    crowd_write(&crowd, 0, JOBS);
    for (int installed = 0; installed < 2; installed++) {
        for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
            struct record_place moved = depot_moved(crowd.depot, none[i]);

            assert_false(depot_is_alive(crowd.depot, none[i]));
            assert_memory_equal(&moved, &none[i], sizeof moved);
        }
        if (installed)
            break;
        crowd_plan(&crowd, &build, JOBS, 5);
        assert_int_equal(depot_build(&build), 0);
        assert_true(depot_install(crowd.depot, &build));
    }
    depot_abandon(crowd.depot, &build);
    depot_build_fini(&build);
    crowd_end(&crowd);
}

CLAIM(invalid_slots_are_neither_released_nor_read)
{
    const struct depot_view *view;
    struct buffer scratch;
    struct slice bytes;
    enum job_section section = SECTIONS;

    crowd_start(&crowd);
    crowd_write(&crowd, 0, JOBS);
    view = depot_view(crowd.depot);
    assert_int_equal(depot_release(crowd.depot, crowd_place(1, JOBS), &section), DEPOT_WAS_DEAD);
    assert_int_equal(depot_release(crowd.depot, crowd_place(NOBODYS_RUN, 0), &section),
                     DEPOT_NEVER_COMMITTED);
    assert_int_equal(section, SECTIONS);
    buffer_init(&scratch, 1 << 16);
    assert_int_equal(depot_read(view, crowd_place(NOBODYS_RUN, 0), true, &scratch, &bytes),
                     -ENOENT);
    assert_int_equal(depot_read(view, crowd_place(1, JOBS), true, &scratch, &bytes), -EBADMSG);
    assert_int_equal(depot_read(view, crowd_place(1, JOBS - 1), true, &scratch, &bytes), 0);
    buffer_fini(&scratch);
    crowd_end(&crowd);
}

/* The log does not always know how long the record in a slot is. */
CLAIM(released_without_a_length_slots_take_their_share_of_bytes)
{
    struct depot_stats stats;
    uint64_t all;
    enum job_section section;

    crowd_start(&crowd);
    crowd_write(&crowd, 10, 80); /* all of one length */
    depot_stats(crowd.depot, &stats);
    all = stats.alive_bytes;
    crowd_release(&crowd, 1, 0, 20, 1);
    depot_stats(crowd.depot, &stats);
    assert_int_equal(stats.alive_bytes, all - all / 4);
    /* Never more than there are, whatever the caller passes. */
    assert_int_equal(depot_release(crowd.depot,
                                   (struct record_place){
                                       .file = 1 | RECORD_IN_RUN, .at = 20, .bytes = UINT32_MAX},
                                   &section),
                     DEPOT_RELEASED);
    depot_stats(crowd.depot, &stats);
    assert_int_equal(stats.alive_bytes, 0);
    crowd_release(&crowd, 1, 21, 59, 1);
    depot_stats(crowd.depot, &stats);
    assert_int_equal(stats.alive_bytes + stats.slots_alive, 0);
    crowd_end(&crowd);
}

CLAIM(rewriting_a_run_moves_only_live_jobs)
{
    struct depot_build build = {0};

    crowd_start(&crowd);
    crowd.options.slack_bytes = 1;
    crowd_reopen(&crowd);
    crowd_write(&crowd, 0, 2 * JOBS);
    crowd_release(&crowd, 1, 1, JOBS, 2);
    crowd_plan(&crowd, &build, 2 * JOBS, 5);
    assert_int_equal(build.victim_count, 1);
    assert_int_equal(depot_build(&build), 0);
    assert_true(depot_install(crowd.depot, &build));
    for (uint32_t slot = 0; slot <= 2 * JOBS; slot++) { /* also one that it does not have */
        struct record_place place = crowd_place(1, slot), to = depot_moved(crowd.depot, place);
        bool stays = slot % 2 || slot == 2 * JOBS;

        assert_int_equal(record_place_run(to), stays ? 1 : 2);
        assert_int_equal(to.at, stays ? slot : slot / 2);
    }
    depot_abandon(crowd.depot, &build);
    depot_build_fini(&build);
    assert_int_equal(record_place_run(depot_moved(crowd.depot, crowd_place(1, 0))), 1);
    crowd_end(&crowd);
}

/* ---- wrong hints ---- */

static int by_order(const void *a, const void *b)
{
    return keys_compare(a, b);
}

/* Replaces the table of run 1. */
static void write_table(struct keys_entry *entries, uint32_t count)
{
    const struct keys_writing writing = {.fs = &crowd.fs,
                                         .dir = "shard/run",
                                         .number = 1,
                                         .seed = depot_catalog(crowd.depot)->seed,
                                         .entries_max = count};
    struct keys_writer *writer;

    depot_close(crowd.depot);
    assert_int_equal(crowd.fs.ops->unlink(crowd.fs.ctx, "shard/run/00000001.keys"), 0);
    qsort(entries, count, sizeof *entries, by_order);
    assert_int_equal(keys_writer_new(&writing, &writer), 0);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(keys_writer_add(writer, &entries[i]), 0);
    assert_int_equal(keys_writer_finish(writer), 0);
    assert_int_equal(crowd_open(&crowd), 0);
}

/* Its hash leads to more slots than one look-up reads: to dead ones, to ones that never were,
 * to other jobs, and at last to its own. */
CLAIM(a_job_is_found_among_many_of_the_same_hash)
{
    struct keys_entry entries[SAME_HASH];
    struct record_place place;

    crowd_start(&crowd);
    crowd_write(&crowd, 0, JOBS);
    crowd_release(&crowd, 1, 0, 10, 1);
    crowd_commit(&crowd);
    for (uint32_t i = 0; i < SAME_HASH; i++)
        entries[i] = (struct keys_entry){
            .hash = crowd_key(42).low, .run = i < 140 ? 1 : NOBODYS_RUN, .slot = i};
    write_table(entries, SAME_HASH);
    assert_int_equal(crowd_find(&crowd, 42, &place), 1);
    assert_int_equal(record_place_run(place), 1);
    assert_int_equal(place.at, 42);
    crowd_release(&crowd, 1, 42, 1, 1);
    assert_int_equal(crowd_find(&crowd, 42, &place), 0);
    assert_int_equal(crowd_find(&crowd, 41, &place), 0); /* the table does not lead to it */
    crowd_end(&crowd);
}

/* It is another's, and that one may be anything. */
CLAIM(a_slot_that_cannot_be_read_hides_no_other_of_the_same_hash)
{
    struct keys_entry entries[2];
    struct record_place place;
    struct run_slot slot;

    crowd_start(&crowd);
    crowd_write(&crowd, 0, JOBS);
    for (uint32_t i = 0; i < 2; i++)
        entries[i] = (struct keys_entry){.hash = crowd_key(42).low, .run = 1, .slot = 41 + i};
    assert_int_equal(run_slots(depot_view(crowd.depot)->runs[0]->run, 41, 1, true, &slot), 0);
    write_table(entries, 2);
    sim_fs_damage(&crowd.sim, "shard/run/00000001.run", (int64_t)slot.offset + 8, 4);
    assert_int_equal(crowd_find(&crowd, 42, &place), 1);
    assert_int_equal(place.at, 42);
    crowd_release(&crowd, 1, 42, 1, 1);
    assert_int_equal(crowd_find(&crowd, 42, &place), -EBADMSG); /* it might have been the one */
    crowd_end(&crowd);
}

static void count_met(void *ctx, const struct depot_want *want, const struct record *record)
{
    (void)want;
    assert_int_equal(record->kind, RECORD_JOB);
    ++*(uint32_t *)ctx;
}

/* An invalid place counts as no place; a wrong hint is skipped. */
CLAIM(each_slot_of_a_batch_is_found)
{
    struct keys_entry entries[] = {
        {crowd_key(42).low, 1, 3},           /* dead */
        {crowd_key(42).low, 1, 41},          /* another's */
        {crowd_key(42).low, 1, 42},          /* its own */
        {crowd_key(42).low, 1, JOBS},        /* no slot */
        {crowd_key(42).low, NOBODYS_RUN, 1}, /* gone */
        {crowd_key(43).low, 1, 44},
    };
    struct depot_want wants[] = {
        {.key = crowd_key(42)},
        {.key = crowd_key(42), .place = {.file = 1 | RECORD_IN_RUN, .at = JOBS, .bytes = 1}},
        {.key = crowd_key(41), .place = {.file = 1 | RECORD_IN_RUN, .at = 41, .bytes = 1}},
        {.key = crowd_key(40), .place = {.file = 1 | RECORD_IN_RUN, .at = 39, .bytes = 1}},
        {.key = crowd_key(43)},
        {.key = crowd_key(3), .place = {.file = 1 | RECORD_IN_RUN, .at = 3, .bytes = 1}},
    };
    const bool is_met[] = {true, true, true, false, false, false};
    const uint32_t count = sizeof wants / sizeof *wants;
    uint32_t met = 0;

    crowd_start(&crowd);
    crowd_write(&crowd, 0, JOBS);
    crowd_release(&crowd, 1, 3, 1, 1);
    crowd_commit(&crowd);
    write_table(entries, sizeof entries / sizeof *entries);
    assert_int_equal(
        depot_find_many(depot_view(crowd.depot), CROWD_SEED, wants, count, count_met, &met), 0);
    assert_int_equal(met, 3);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(wants[i].is_met, is_met[i]);
        assert_true(!is_met[i] || wants[i].place.at == (i < 2 ? 42 : 41));
    }
    crowd_end(&crowd);
}

/* Until it counts, nothing is loaded from it, and the job is still in its old place. */
CLAIM(the_run_of_an_unfinished_checkpoint_is_skipped)
{
    struct depot_build build = {0};
    struct keys_entry entries[2];
    struct record_place place;

    crowd_start(&crowd);
    crowd_write(&crowd, 0, JOBS);
    for (uint32_t i = 0; i < 2; i++)
        entries[i] =
            (struct keys_entry){.hash = crowd_key(42).low, .run = 1 + i, .slot = i ? 0 : 42};
    write_table(entries, 2);
    crowd_plan(&crowd, &build, 42, 1); /* pushed again: the old slot is not released yet */
    assert_int_equal(build.run, 2);
    assert_int_equal(depot_build(&build), 0);
    assert_true(depot_install(crowd.depot, &build));
    assert_int_equal(crowd_find(&crowd, 42, &place), 1);
    assert_int_equal(record_place_run(place), 1);
    assert_true(depot_installed(crowd.depot, &build));
    assert_int_equal(crowd_find(&crowd, 42, &place), 1);
    assert_int_equal(record_place_run(place), 2);
    depot_build_fini(&build);
    crowd_end(&crowd);
}

/* ---- runs that hold something else ---- */

enum { GARBAGE = 41, END = 42, HEAD = 5 /* length and kind */ };

/* Replaces run 1 with right checksums: jobs, except two slots, which are an invalid record and an id
 * that is remembered. */
static void write_odd_run(uint32_t slots)
{
    const struct run_writing writing = {
        .fs = &crowd.fs, .dir = "shard/run", .number = 1, .seed = depot_catalog(crowd.depot)->seed};
    struct run_writer *writer;
    struct run_info info;
    char id[32], bytes[CROWD_RECORD_BYTES_MAX];

    depot_close(crowd.depot);
    crowd.depot = NULL;
    assert_int_equal(crowd.fs.ops->unlink(crowd.fs.ctx, "shard/run/00000001.run"), 0);
    assert_int_equal(run_writer_new(&writing, &writer), 0);
    for (uint32_t slot = 0; slot < slots; slot++) {
        struct record record;
        size_t len;

        crowd_record(slot, &record, id);
        if (slot == END)
            record = (struct record){.kind = RECORD_DONE,
                                     .done = {.key = crowd_key(END),
                                              .reason = RECORD_ACKED,
                                              .remember_until_ms = END,
                                              .sequence = END,
                                              .topic = slice_of("orders")}};
        len = record_encode(&record, bytes);
        if (slot == GARBAGE)
            memset(bytes + HEAD, 0xff, len - HEAD);
        assert_int_equal(run_writer_add(writer, SECTION_DELAYED, slot, slot, slice_of("orders"), 0,
                                        slice_make(bytes, len)),
                         0);
    }
    assert_int_equal(run_writer_finish(writer, &info), 0);
}

/* Finds a slot without a job, like crowd_find. */
static int find_end(uint32_t job)
{
    struct depot_view *view = depot_hold(crowd.depot);
    struct buffer records;
    struct depot_hit hit;
    int result;

    buffer_init(&records, 1 << 16);
    result = depot_find(view, CROWD_SEED, crowd_key(job), &records, &hit);
    buffer_fini(&records);
    depot_let_go(view);
    return result;
}

CLAIM(a_slot_without_a_job_is_damage_but_a_remembered_id_is_not)
{
    struct depot_build build = {0};
    struct record_place place;

    crowd_start(&crowd);
    crowd.options.slack_bytes = 1;
    crowd_reopen(&crowd);
    crowd_write(&crowd, 0, JOBS);
    write_odd_run(JOBS);
    assert_int_equal(crowd_open(&crowd), 0);
    assert_int_equal(crowd_find(&crowd, GARBAGE, &place), -EBADMSG);
    assert_int_equal(find_end(END), 1);
    crowd_release(&crowd, 1, GARBAGE + 3, JOBS - GARBAGE - 3, 1);
    crowd_plan(&crowd, &build, JOBS, 5);
    assert_int_equal(build.victim_count, 1);
    assert_int_equal(depot_build(&build), 0);
    assert_int_equal(build.kept, 1); /* it is not rewritten without it */
    crowd_settle(&crowd, &build);
    depot_build_fini(&build);
    assert_true(depot_is_alive(crowd.depot, crowd_place(1, GARBAGE)));
    assert_int_equal(crowd_find(&crowd, 0, &place), 1);
    assert_int_equal(record_place_run(place), 1);
    crowd_end(&crowd);
}

CLAIM(a_run_with_a_wrong_length_is_rejected)
{
    crowd_start(&crowd);
    crowd_write(&crowd, 0, JOBS);
    write_odd_run(JOBS - 1);
    assert_int_equal(crowd_open(&crowd), -EBADMSG);
    assert_string_equal(crowd.error,
                        "run 1 in 'shard/run' has 99 slots, and the catalog has 100: restore the "
                        "directory from a backup");
    crowd_end(&crowd);
}

/* ---- what dies while it is looked at ---- */

static struct record_place dies_meanwhile;
static int reads_before_that;

static ssize_t read_and_die(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    enum job_section section;

    if (dies_meanwhile.bytes == 0 || reads_before_that-- > 0)
        return crowd.sim.fs.ops->pread(ctx, fd, into, len, offset);
    depot_release(crowd.depot, dies_meanwhile, &section);
    dies_meanwhile.bytes = 0;
    return -EIO; /* as if its space had also gone */
}

/* After a read of the table: while the directory is read, or the record. */
CLAIM(a_slot_that_ends_during_a_read_is_not_damage)
{
    struct fs_ops ops;
    struct record_place place;
    struct depot_view *view;

    crowd_start(&crowd);
    ops = *crowd.sim.fs.ops;
    ops.pread = read_and_die;
    crowd.fs.ops = &ops;
    crowd_write(&crowd, 0, JOBS);
    view = depot_hold(crowd.depot);
    assert_int_equal(depot_load_filters(view), 0);
    depot_let_go(view);
    for (int reads = 1; reads <= 2; reads++) {
        uint32_t job = 40 + (uint32_t)reads;

        assert_int_equal(crowd_find(&crowd, job, &place), 1);
        dies_meanwhile = place;
        reads_before_that = reads;
        assert_int_equal(crowd_find(&crowd, job, &place), 0);
        assert_int_equal(dies_meanwhile.bytes, 0);
    }
    crowd_end(&crowd);
}

CLAIMS_MAIN(NULL, NULL)
