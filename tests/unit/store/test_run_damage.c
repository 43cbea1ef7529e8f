
#include "unit/claim.h"

#include "run_rig.h"
#include "store/run_private.h"
#include "unit/seed.h"

#include <fcntl.h>

/* Damage is noticed, and does not affect the rest. */

#define PATH "s/run/00000007.run"
enum { BLOCK = 4096, BLOCK_SLOTS = 170, ALL_PARTS = (1 << SECTIONS) - 1 };

static struct run *try_open(const struct fs *fs, uint32_t number, uint64_t seed, int *result)
{
    char error[512] = "";
    struct run *run = NULL;

    *result = run_open(fs, "s/run", number, seed, &run, error, sizeof error);
    assert_true((*result < 0) == (run == NULL) && (*result < 0) == (*error != 0));
    return run;
}

static void make(struct sim_fs *sim, struct rig *rig, struct random *random, uint32_t count,
                 size_t body_bytes_max)
{
    struct run_info info;

    sim_fs_init(sim, random_next(random));
    rig_init(rig, random, count, ALL_PARTS, body_bytes_max);
    assert_int_equal(rig_write(rig, &sim->fs, 7, &info), 0);
}

/* ---- scanning for what is not whole ---- */

struct whole {
    const struct rig *rig;
    uint32_t bad, given, first_bad, last_bad;
};

static int wants_all(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    (void)ctx, (void)slot, (void)entry;
    return 1;
}

static bool note_whole(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice record)
{
    struct whole *whole = ctx;
    const struct rig_slot *is = &whole->rig->slots[slot];

    assert_int_equal(entry->sequence, is->sequence);
    whole->given++;
    if (record.len) {
        assert_true(slice_equals(record, slice_make(is->record, is->bytes)));
        return true;
    }
    if (whole->bad++ == 0)
        whole->first_bad = slot;
    whole->last_bad = slot;
    return true;
}

static int scan_all(const struct rig *rig, const struct run *run, uint32_t first,
                    struct whole *whole, uint32_t *next)
{
    struct run_scan scan = {
        .first = first, .end = rig->count, .wants = wants_all, .each = note_whole, .ctx = whole};

    *whole = (struct whole){.rig = rig};
    return run_scan(run, &scan, next);
}

/* Returns the number of unreadable slots; the others are unchanged. A scan returns the same. */
static uint32_t count_bad(const struct rig *rig, const struct run *run)
{
    struct buffer scratch;
    struct whole whole;
    uint32_t bad = 0, next;
    int result;

    buffer_init(&scratch, 4 << 20);
    for (uint32_t i = 0; i < rig->count; i++) {
        result = rig_check_slot(rig, run, i, &scratch);
        assert_true(result == 0 || result == -EBADMSG);
        bad += result < 0;
    }
    buffer_fini(&scratch);
    result = scan_all(rig, run, 0, &whole, &next);
    assert_true(result == -EBADMSG || (result == 0 && whole.bad == bad && next == rig->count));
    return bad;
}

/* ---- bytes ---- */

static void note_unread(void *ctx, uint64_t at)
{
    int64_t *found = ctx;

    assert_int_equal(*found, -1); /* one is wrong */
    *found = (int64_t)at;
}

/* Returns an unused byte, or -1. */
static int64_t unread_of(const struct run *run)
{
    int64_t found = -1;

    assert_int_equal(run_check_unread(run, note_unread, &found), 0);
    return found;
}

/* Returns true for bytes behind records, entries, topics and figures, which are zeros. */
static bool is_unread(const struct run *run, const struct rig *rig, int64_t at, int64_t size)
{
    const int64_t used = 8 + 4 * 5 + 8 + SECTIONS * 12, sum = BLOCK - 8;
    const int64_t ends[] = {(int64_t)run_info(run)->record_bytes % BLOCK, rig->count * 24, 0, used};
    const int64_t in = at % BLOCK, block = (size - at - 1) / BLOCK;

    assert_true(block >= 3 || rig->count <= BLOCK_SLOTS);
    switch (block) {
    case 0: /* the magic number adds nothing to its checksum */
        return (in < 16 || in >= used) && in < sum;
    case 1:
        return in >= run->footer.topic_bytes && in < sum;
    case 2:
        return in >= ends[1] && in < sum - 8;
    case 3:
        return in >= ends[0];
    }
    return at < BLOCK;
}

CLAIM(damage_in_unused_bytes_loses_no_job)
{
    struct random random = seed_random(__func__);
    struct sim_fs sim;
    struct rig rig;
    struct run *run;
    int64_t size;
    char *bytes;

    make(&sim, &rig, &random, 6, 100);
    bytes = sim_fs_bytes(&sim, PATH, &size);
    run = rig_open(&sim.fs, 7);
    assert_int_equal(unread_of(run), -1);
    for (int64_t at = 0; at < size; at++) {
        char was = bytes[at];
        struct run *flipped;

        if (!is_unread(run, &rig, at, size))
            continue;
        bytes[at] = (char)(was ^ (char)(1 << random_below(&random, 8)));
        flipped = rig_open(&sim.fs, 7);
        assert_int_equal(count_bad(&rig, flipped), 0);
        assert_int_equal(unread_of(flipped), at);
        run_close(flipped);
        bytes[at] = was;
    }
    run_close(run);
    rig_fini(&rig);
    sim_fs_fini(&sim);
}

CLAIM(every_flipped_byte_is_noticed)
{
    struct random random = seed_random(__func__);
    struct sim_fs sim;
    struct rig rig;
    int64_t size;
    char *bytes;

    make(&sim, &rig, &random, 6, 100);
    bytes = sim_fs_bytes(&sim, PATH, &size);
    for (int64_t at = 0; at < size; at++) {
        char was = bytes[at];
        struct run *run;
        int result;

        bytes[at] = (char)(was ^ (char)(1 << random_below(&random, 8)));
        run = try_open(&sim.fs, 7, RIG_SEED, &result);
        if (run) {
            uint32_t bad = count_bad(&rig, run);

            if ((unread_of(run) == at) != (bad == 0) ||
                (bad > 1 && at < size - 3 * BLOCK)) /* a record has no neighbours */
                fail_msg("byte %d: %u slots", (int)at, bad);
        } else {
            assert_int_equal(result, -EBADMSG);
        }
        run_close(run);
        bytes[at] = was;
    }
    rig_fini(&rig);
    sim_fs_fini(&sim);
}

CLAIM(bytes_behind_the_footer_are_ignored_and_the_header_has_its_copy)
{
    struct random random = seed_random(__func__);
    struct sim_fs sim;
    struct rig rig;
    struct run *run;
    int64_t size, end;
    int fd, result;

    make(&sim, &rig, &random, 6, 100);
    sim_fs_bytes(&sim, PATH, &size);
    fd = sim.fs.ops->open(&sim, PATH, O_RDWR, 0);
    for (int64_t more = 2 * BLOCK; more > 0; more -= more > BLOCK ? BLOCK - 1 : 1) {
        assert_int_equal(sim.fs.ops->truncate(&sim, fd, size + more), 0);
        run = rig_open(&sim.fs, 7);
        assert_int_equal(count_bad(&rig, run), 0);
        run_close(run);
    }
    for (end = size - BLOCK; size;) {
        assert_int_equal(sim.fs.ops->truncate(&sim, fd, --size), 0);
        run = try_open(&sim.fs, 7, RIG_SEED, &result);
        assert_int_equal(result, size >= end ? 0 : -EBADMSG);
        assert_true(!run || count_bad(&rig, run) == 0);
        run_close(run);
    }
    sim.fs.ops->close(&sim, fd);
    rig_fini(&rig);
    sim_fs_fini(&sim);
}

/* The header and the footer: each is a copy of the other. */
static bool is_end(int64_t at, int64_t size)
{
    return at < BLOCK || at >= size - BLOCK;
}

/* Blocks and records are good for one place of one file only. */
CLAIM(misplaced_records_are_rejected)
{
    struct random random = seed_random(__func__);
    struct sim_fs sim;
    struct rig rig;
    struct run_info info;
    char *bytes, *other, kept[BLOCK];
    int64_t size;
    int result;

    make(&sim, &rig, &random, 4 * BLOCK_SLOTS, 0);
    assert_null(try_open(&sim.fs, 7, RIG_SEED + 1, &result));
    assert_int_equal(rig_write(&rig, &sim.fs, 8, &info), 0);
    bytes = sim_fs_bytes(&sim, PATH, &size);
    other = sim_fs_bytes(&sim, "s/run/00000008.run", NULL);
    for (int64_t at = 0; at < size; at += BLOCK) { /* the same block of another run */
        struct run *run;

        memcpy(kept, bytes + at, BLOCK);
        memcpy(bytes + at, other + at, BLOCK);
        run = try_open(&sim.fs, 7, RIG_SEED, &result);
        assert_true(!run || count_bad(&rig, run) > 0 || (is_end(at, size) && unread_of(run) >= 0));
        run_close(run);
        memcpy(bytes + at, kept, BLOCK);
    }
    for (int64_t at = 0; at < size; at += BLOCK) { /* the block before, a second time */
        struct run *run;

        memcpy(kept, bytes + at, BLOCK);
        memcpy(bytes + at, bytes + (at ? at - BLOCK : size - BLOCK), BLOCK);
        run = try_open(&sim.fs, 7, RIG_SEED, &result);
        assert_true(!run || count_bad(&rig, run) > 0 || (is_end(at, size) && unread_of(run) >= 0));
        run_close(run);
        memcpy(bytes + at, kept, BLOCK);
    }
    assert_int_equal(sim.fs.ops->rename(&sim, "s/run/00000008.run", PATH), 0);
    assert_null(try_open(&sim.fs, 7, RIG_SEED, &result));
    assert_int_equal(result, -EBADMSG);
    assert_null(try_open(&sim.fs, 9, RIG_SEED, &result));
    assert_int_equal(result, -ENOENT);
    rig_fini(&rig);
    sim_fs_fini(&sim);
}

/* Another length than the record's, a missing slot: damage of the file that names it. */
CLAIM(wrong_hints_are_refused)
{
    struct random random = seed_random(__func__);
    struct buffer scratch;
    struct slice record;
    struct sim_fs sim;
    struct rig rig;
    struct run *run;

    make(&sim, &rig, &random, 10, 0);
    run = rig_open(&sim.fs, 7);
    buffer_init(&scratch, 1 << 20);
    assert_int_equal(run_read(run, 3, 0, true, &scratch, &record), 0);
    assert_int_equal(record.len, rig.slots[3].bytes);
    assert_int_equal(run_read(run, 3, rig.slots[3].bytes + 1, true, &scratch, &record), -EBADMSG);
    assert_int_equal(run_read(run, 10, 0, true, &scratch, &record), -EBADMSG);
    assert_int_equal(run_read(run, UINT32_MAX, 0, true, &scratch, &record), -EBADMSG);
    buffer_fini(&scratch);
    run_close(run);
    rig_fini(&rig);
    sim_fs_fini(&sim);
}

CLAIM(a_damaged_directory_is_skipped)
{
    struct random random = seed_random(__func__);
    struct sim_fs sim;
    struct rig rig;
    struct run *run;
    struct whole whole;
    uint32_t next;
    int64_t size;

    make(&sim, &rig, &random, 3 * BLOCK_SLOTS + 5, 0);
    sim_fs_bytes(&sim, PATH, &size);
    /* Behind the directory: topics, footer. */
    sim_fs_damage(&sim, PATH, size - 2 * BLOCK - 3 * BLOCK + 1, 1);
    run = rig_open(&sim.fs, 7);
    assert_int_equal(scan_all(&rig, run, 0, &whole, &next), -EBADMSG);
    assert_int_equal(next, BLOCK_SLOTS);
    assert_int_equal(whole.given, BLOCK_SLOTS);
    next = run_after_damage(run, next);
    assert_int_equal(next, 2 * BLOCK_SLOTS);
    assert_int_equal(scan_all(&rig, run, next, &whole, &next), 0);
    assert_int_equal(whole.given, BLOCK_SLOTS + 5);
    assert_int_equal(run_after_damage(run, rig.count - 1), rig.count);
    run_close(run);
    rig_fini(&rig);
    sim_fs_fini(&sim);
}

/* ---- reading fails ---- */

CLAIM(a_read_that_fails_once_takes_nothing_along)
{
    struct random random = seed_random(__func__);
    struct sim_fs sim;
    struct rig rig;
    bool met = true;

    make(&sim, &rig, &random, 2000, 0);
    for (uint64_t n = 1; met; n++)
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            struct whole whole;
            uint32_t next = 0;
            struct run *run;
            int result;

            sim.reads = 0;
            sim.fail_read_at = n;
            sim.fail_for_ever = for_ever;
            run = try_open(&sim.fs, 7, RIG_SEED, &result);
            met = sim.reads >= n;
            if (!run) {
                assert_int_equal(result, -EIO);
                continue;
            }
            result = scan_all(&rig, run, 0, &whole, &next);
            met = sim.reads >= n;
            if (!met || !for_ever) { /* merged reads are tried again one by one */
                assert_int_equal(result, 0);
                assert_int_equal(whole.bad, 0);
                assert_int_equal(whole.given, rig.count);
            } else {
                assert_true(whole.bad > 0 || result == -EIO);
            }
            run_close(run);
        }
    rig_fini(&rig);
    sim_fs_fini(&sim);
}

CLAIM(uncached_blocks_are_not_waited_for)
{
    struct random random = seed_random(__func__);
    struct buffer scratch;
    struct run_slot entry;
    struct slice record;
    struct sim_fs sim;
    struct rig rig;
    struct run *run;

    make(&sim, &rig, &random, 10, 0);
    run = rig_open(&sim.fs, 7);
    buffer_init(&scratch, 1 << 20);
    sim.is_cold = true;
    assert_int_equal(run_slots(run, 3, 1, false, &entry), -EAGAIN);
    assert_int_equal(run_read(run, 3, 0, false, &scratch, &record), -EAGAIN);
    assert_int_equal(run_slots(run, 3, 1, true, &entry), 0);
    assert_int_equal(run_read(run, 3, 0, true, &scratch, &record), 0);
    sim.is_cold = false;
    assert_int_equal(run_read(run, 3, entry.bytes, false, &scratch, &record), 0);
    buffer_fini(&scratch);
    run_close(run);
    rig_fini(&rig);
    sim_fs_fini(&sim);
}

/* ---- holes ---- */

static void check_punched(const struct rig *rig, const struct run *run, const bool *punched)
{
    struct buffer scratch;
    struct whole whole;
    uint32_t next, bad = 0;

    buffer_init(&scratch, 4 << 20);
    for (uint32_t i = 0; i < rig->count; i++) {
        int result = rig_check_slot(rig, run, i, &scratch);

        assert_true(result == 0 || (result == -EBADMSG && punched[i]));
        bad += result < 0;
    }
    assert_int_equal(scan_all(rig, run, 0, &whole, &next), 0);
    assert_int_equal(whole.bad, bad);
    assert_int_equal(next, rig->count);
    buffer_fini(&scratch);
}

static void punch_some(struct random *random, const struct rig *rig, const struct run *run,
                       bool *punched)
{
    uint32_t first = (uint32_t)random_below(random, (uint64_t)rig->count + 1);
    uint32_t end = first + (uint32_t)random_below(random, (uint64_t)rig->count - first + 1);
    int64_t before = run_disk_bytes(run);
    uint64_t freed;

    assert_int_equal(run_punch(run, first, end, &freed), 0);
    assert_int_equal(run_disk_bytes(run), before - (int64_t)freed);
    for (uint32_t i = first; i < end; i++)
        punched[i] = true;
}

CLAIM(holes_end_with_their_slots)
{
    struct random random = seed_random(__func__);

    for (int round = 0; round < 20; round++) {
        bool punched[400] = {0};
        struct sim_fs sim;
        struct rig rig;
        struct run *run;

        make(&sim, &rig, &random, 400, round % 2 ? 9000 : 0);
        run = rig_open(&sim.fs, 7);
        for (int i = 0; i < 4; i++) {
            punch_some(&random, &rig, run, punched);
            check_punched(&rig, run, punched);
        }
        run_close(run);
        sim_fs_crash(&sim, (enum sim_damage)(1 + random_below(&random, SIM_DAMAGES)));
        run = rig_open(&sim.fs, 7);
        check_punched(&rig, run, punched);
        run_close(run);
        rig_fini(&rig);
        sim_fs_fini(&sim);
    }
}

CLAIM(a_run_all_punched_keeps_its_directory_only)
{
    struct random random = seed_random(__func__);
    struct run_slot entries[500];
    struct sim_fs sim;
    struct rig rig;
    struct run *run;
    uint64_t freed, again;

    make(&sim, &rig, &random, 500, 5000);
    run = rig_open(&sim.fs, 7);
    sim.no_punch = true;
    assert_int_equal(run_punch(run, 0, 500, &freed), 0);
    assert_int_equal(freed, 0);
    sim.no_punch = false;
    assert_int_equal(run_punch(run, 0, 100, &freed), 0);
    assert_int_equal(run_punch(run, 0, 500, &again), 0); /* a wider range: the rest of it */
    assert_true(freed + again >= run_info(run)->record_bytes);
    /* Header, directory, topics, footer. */
    assert_int_equal(run_disk_bytes(run), (1 + 3 + 1 + 1) * BLOCK);
    assert_int_equal(run_slots(run, 0, 500, true, entries), 0);
    assert_int_equal(count_bad(&rig, run), 500);
    run_close(run);
    run_close(rig_open(&sim.fs, 7));
    rig_fini(&rig);
    sim_fs_fini(&sim);
}

/* ---- formats ---- */

CLAIM(a_newer_format_is_refused_by_name)
{
    struct random random = seed_random(__func__);
    char error[512], *bytes;
    struct sim_fs sim;
    struct run *run;
    struct rig rig;
    int64_t size;

    make(&sim, &rig, &random, 3, 0);
    bytes = sim_fs_bytes(&sim, PATH, &size);
    bytes[8] = bytes[size - BLOCK + 8] = RUN_FORMAT + 1;
    run_block_seal(RIG_SEED, 7, 0, bytes);
    run_block_seal(RIG_SEED, 7, (uint64_t)size - BLOCK, bytes + size - BLOCK);
    assert_int_equal(run_open(&sim.fs, "s/run", 7, RIG_SEED, &run, error, sizeof error),
                     -EPROTONOSUPPORT);
    assert_non_null(strstr(error, PATH));
    assert_non_null(strstr(error, "format 2"));
    rig_fini(&rig);
    sim_fs_fini(&sim);
}

CLAIM(names_of_files)
{
    char name[32];

    run_file_name(12, name);
    assert_string_equal(name, "00000012.run");
    assert_int_equal(run_file_number(name), 12);
    run_file_name(UINT32_MAX, name);
    assert_int_equal(run_file_number(name), UINT32_MAX);
    assert_int_equal(run_file_number("00000012.run.tmp"), 0);
    assert_int_equal(run_file_number("12.run"), 0);
    assert_int_equal(run_file_number("00000000.run"), 0);
    assert_int_equal(run_file_number("00000012.keys"), 0);
    assert_int_equal(run_file_number("99999999999999999999999.run"), 0);
    assert_int_equal(run_file_number(""), 0);
    assert_int_equal(run_file_number("CATALOG-00000001"), 0);
}

CLAIMS_MAIN(NULL, NULL)
