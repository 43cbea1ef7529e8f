
#include "unit/claim.h"

#include "run_rig.h"
#include "unit/seed.h"

/* A run holds what was put into it, by every way of reading. */

enum { ALL_PARTS = (1 << SECTIONS) - 1 };

static void check_info(const struct rig *rig, const struct run *run, const struct run_info *wrote)
{
    const struct run_info *info = run_info(run);
    uint64_t bytes = 0;
    uint32_t slot = 0;

    assert_memory_equal(info, wrote, sizeof *info);
    assert_int_equal(info->slots, rig->count);
    for (int section = 0; section < SECTIONS; section++) {
        assert_int_equal(info->sections[section].first, slot);
        assert_int_equal(info->sections[section].first_when_ms,
                         info->sections[section].count ? rig->slots[slot].when_ms : 0);
        for (uint32_t i = 0; i < info->sections[section].count; i++, slot++) {
            assert_int_equal(rig->slots[slot].section, section);
            bytes += rig->slots[slot].bytes + 4;
        }
    }
    assert_int_equal(slot, rig->count);
    assert_int_equal(info->record_bytes, bytes);
}

static void check_each(const struct rig *rig, const struct run *run)
{
    struct buffer scratch;

    buffer_init(&scratch, 4 << 20);
    for (uint32_t i = 0; i < rig->count; i++)
        assert_int_equal(rig_check_slot(rig, run, i, &scratch), 0);
    buffer_fini(&scratch);
}

static void check_slots(const struct rig *rig, const struct run *run, struct random *random)
{
    struct run_slot *all = calloc((size_t)rig->count + 1, sizeof *all);

    assert_non_null(all);
    for (int round = 0; round < 10; round++) {
        uint32_t first = (uint32_t)random_below(random, (uint64_t)rig->count + 1);
        uint32_t count = (uint32_t)random_below(random, (uint64_t)rig->count - first + 1);

        assert_int_equal(run_slots(run, first, count, round % 2, all), 0);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(all[i].sequence, rig->slots[first + i].sequence);
    }
    free(all);
}

/* ---- scanning ---- */

struct scanned {
    const struct rig *rig;
    uint64_t chance; /* one of so many is wanted */
    struct random random;
    uint32_t asked, given, given_end, stop_at, stop_each_at;
    bool *wanted;
};

static int wants(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    struct scanned *scanned = ctx;

    assert_int_equal(entry->when_ms, scanned->rig->slots[slot].when_ms);
    if (slot == scanned->stop_at)
        return -1;
    scanned->asked++;
    return scanned->wanted[slot] = random_below(&scanned->random, scanned->chance) == 0;
}

static bool each(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice record)
{
    struct scanned *scanned = ctx;
    const struct rig_slot *is = &scanned->rig->slots[slot];

    assert_true(slot >= scanned->given_end && scanned->wanted[slot]);
    scanned->given_end = slot + 1;
    scanned->given++;
    assert_int_equal(entry->sequence, is->sequence);
    assert_true(slice_equals(record, slice_make(is->record, is->bytes)));
    return slot != scanned->stop_each_at;
}

static void check_scan(const struct rig *rig, const struct run *run, struct random *random,
                       uint64_t chance)
{
    struct scanned scanned = {.rig = rig,
                              .chance = chance,
                              .random = *random,
                              .stop_at = UINT32_MAX,
                              .stop_each_at = UINT32_MAX};
    uint32_t first = (uint32_t)random_below(random, (uint64_t)rig->count + 1);
    uint32_t end = first + (uint32_t)random_below(random, (uint64_t)rig->count - first + 1);
    struct run_scan scan = {
        .first = first, .end = end, .wants = wants, .each = each, .ctx = &scanned};
    uint32_t next = 0, wanted = 0;

    scanned.wanted = calloc((size_t)rig->count + 1, sizeof *scanned.wanted);
    if (random_below(random, 2))
        scanned.stop_at = first + (uint32_t)random_below(random, (uint64_t)(end - first) + 1);
    if (random_below(random, 2))
        scanned.stop_each_at = first + (uint32_t)random_below(random, (uint64_t)(end - first) + 1);
    assert_int_equal(run_scan(run, &scan, &next), 0);
    for (uint32_t i = first; i < next; i++)
        wanted += scanned.wanted[i];
    assert_int_equal(scanned.given,
                     wanted); /* all expected ones before `next`, and nothing behind */
    assert_true(scanned.given_end <= next);
    if (scanned.stop_each_at < end && scanned.given_end == scanned.stop_each_at + 1)
        assert_int_equal(next, scanned.stop_each_at + 1);
    else
        assert_int_equal(next, scanned.stop_at < end ? scanned.stop_at : end);
    free(scanned.wanted);
}

/* ---- seeking ---- */

static void check_seek(const struct rig *rig, const struct run *run, struct random *random)
{
    for (int section = 0; section < SECTIONS; section++) {
        const struct run_info_section *of = &run_info(run)->sections[section];
        uint32_t first = of->first + (uint32_t)random_below(random, (uint64_t)of->count + 1);
        uint32_t end =
            first + (uint32_t)random_below(random, (uint64_t)(of->first + of->count - first) + 1);
        int64_t when_ms = (int64_t)random_below(random, 1100) - 50;
        uint32_t found, should = first;

        while (should < end && rig->slots[should].when_ms < when_ms)
            should++;
        assert_int_equal(run_seek(run, first, end, when_ms, &found), 0);
        assert_int_equal(found, should);
    }
}

static void round_trip(struct random *random, uint32_t count, unsigned sections, size_t body_bytes)
{
    struct sim_fs sim;
    struct run_info info;
    struct rig rig;
    struct run *run;

    sim_fs_init(&sim, random_next(random));
    rig_init(&rig, random, count, sections, body_bytes);
    assert_int_equal(rig_write(&rig, &sim.fs, 7, &info), 0);
    run = rig_open(&sim.fs, 7);
    check_info(&rig, run, &info);
    check_each(&rig, run);
    for (int i = 0; i < 20; i++) {
        check_slots(&rig, run, random);
        check_scan(&rig, run, random, 1 + random_below(random, 60));
        check_seek(&rig, run, random);
    }
    assert_int_equal(run_find_topic(run, slice_of("nobody")), UINT32_MAX);
    run_close(run);
    rig_fini(&rig);
    sim_fs_fini(&sim);
}

CLAIM(holds_its_jobs)
{
    struct random random = seed_random(__func__);

    for (int i = 0; i < 20; i++)
        round_trip(&random, (uint32_t)random_below(&random, 2000),
                   1 + (unsigned)random_below(&random, ALL_PARTS), 0);
}

CLAIM(runs_of_any_section_and_size_are_read_back)
{
    static const uint32_t counts[] = {0, 1, 169, 170, 171, 340, 341};
    struct random random = seed_random(__func__);

    for (unsigned section = 0; section < SECTIONS; section++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            round_trip(&random, counts[i], 1u << section, 0);
}

CLAIM(records_of_a_mebibyte)
{
    struct random random = seed_random(__func__);

    round_trip(&random, 12, ALL_PARTS, 2 << 20);
}

CLAIM(directory_larger_than_a_window)
{
    struct random random = seed_random(__func__);

    round_trip(&random, 14000, ALL_PARTS, 0);
}

CLAIMS_MAIN(NULL, NULL)
