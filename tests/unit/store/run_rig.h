/*
 * run_rig: what a run should hold, and a run written from it on a simulated disk. Include after
 * cmocka.h.
 */
#ifndef TARRY_TESTS_RUN_RIG_H
#define TARRY_TESTS_RUN_RIG_H

#include "store/run.h"
#include "support/sim_fs.h"
#include "unit/random_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { RIG_SEED = 4711, RIG_TOPICS = 20 };

struct rig_slot {
    enum job_section section;
    int64_t when_ms;
    uint64_t sequence;
    uint32_t group;
    char topic[JOB_TOPIC_BYTES_MAX + 1];
    char *record;
    uint32_t bytes;
};

struct rig {
    struct rig_slot *slots;
    uint32_t count;
};

static inline void rig_fini(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->count; i++)
        free(rig->slots[i].record);
    free(rig->slots);
    *rig = (struct rig){0};
}

static inline int rig_compare(const void *a, const void *b)
{
    const struct rig_slot *left = a, *right = b;

    if (left->section != right->section)
        return left->section < right->section ? -1 : 1;
    if (left->when_ms != right->when_ms)
        return left->when_ms < right->when_ms ? -1 : 1;
    return (left->sequence > right->sequence) - (left->sequence < right->sequence);
}

static inline void rig_encode(struct rig_slot *slot, const struct record *record)
{
    slot->record = malloc(record_bytes_max(record));
    assert_non_null(slot->record);
    slot->bytes = (uint32_t)record_encode(record, slot->record);
}

/* Fills a slot of one topic of few with a random JOB or DONE. */
static inline void rig_fill(struct rig_slot *slot, struct random *random, size_t body_bytes_max)
{
    static char body[2 << 20];
    struct record record = {.kind = RECORD_JOB, .origin = RECORD_CARRIED};

    snprintf(slot->topic, sizeof slot->topic, "topic-%d", (int)random_below(random, RIG_TOPICS));
    slot->sequence = random_next(random) >> (64 - RUN_SEQUENCE_BITS);
    slot->group = (uint32_t)random_below(random, 1 << 24);
    slot->when_ms = (int64_t)random_below(random, 1000);
    if (random_below(random, 4) == 0) {
        record.kind = RECORD_DONE;
        record.done = random_done(random);
        record.done.topic = slice_of(slot->topic);
    } else {
        record.job = random_job(random);
        record.job.topic = slice_of(slot->topic);
    }
    if (record.kind == RECORD_JOB && body_bytes_max) {
        assert_true(body_bytes_max <= sizeof body);
        for (size_t i = 0; i < body_bytes_max; i += 8)
            memcpy(body + i, &(uint64_t){random_next(random)}, 8);
        record.job.body = slice_make(body, random_below(random, body_bytes_max + 1));
    }
    rig_encode(slot, &record);
}

/* `parts`: bits of those that may have slots. */
static inline void rig_init(struct rig *rig, struct random *random, uint32_t count,
                            unsigned sections, size_t body_bytes_max)
{
    rig->count = count;
    rig->slots = calloc(count ? count : 1, sizeof *rig->slots);
    assert_non_null(rig->slots);
    for (uint32_t i = 0; i < count; i++) {
        do
            rig->slots[i].section = (enum job_section)random_below(random, SECTIONS);
        while (!(sections >> rig->slots[i].section & 1));
        rig_fill(&rig->slots[i], random, body_bytes_max);
    }
    if (count)
        qsort(rig->slots, count, sizeof *rig->slots, rig_compare);
}

static inline int rig_write_paced(const struct rig *rig, const struct run_writing *writing,
                                  struct run_info *info)
{
    struct run_writer *writer;
    int result = run_writer_new(writing, &writer), added = 0;

    if (result < 0)
        return result;
    for (uint32_t i = 0; i < rig->count; i++) {
        const struct rig_slot *slot = &rig->slots[i];

        result = run_writer_add(writer, slot->section, slot->when_ms, slot->sequence,
                                slice_of(slot->topic), slot->group,
                                slice_make(slot->record, slot->bytes));
        assert_true(added == 0 || result == added); /* the first error stays */
        added = result;
    }
    result = run_writer_finish(writer, info);
    assert_true(added == 0 || result == added);
    return result;
}

static inline int rig_write(const struct rig *rig, const struct fs *fs, uint32_t number,
                            struct run_info *info)
{
    return rig_write_paced(
        rig, &(struct run_writing){.fs = fs, .dir = "s/run", .number = number, .seed = RIG_SEED},
        info);
}

static inline struct run *rig_open(const struct fs *fs, uint32_t number)
{
    char error[512] = "";
    struct run *run = NULL;

    if (run_open(fs, "s/run", number, RIG_SEED, &run, error, sizeof error) < 0)
        fail_msg("%s", error);
    return run;
}

/* Checks one slot of the run, read by itself. Returns 0 or the error of reading. */
static inline int rig_check_slot(const struct rig *rig, const struct run *run, uint32_t i,
                                 struct buffer *scratch)
{
    const struct rig_slot *slot = &rig->slots[i];
    struct run_slot entry;
    struct slice record, topic;
    int result = run_slots(run, i, 1, true, &entry);

    if (result < 0)
        return result;
    topic = run_topic_name(run, entry.topic);
    assert_int_equal(run_section_of(run, i), slot->section);
    assert_int_equal(entry.when_ms, slot->when_ms);
    assert_int_equal(entry.sequence, slot->sequence);
    assert_int_equal(entry.group, slot->group);
    assert_int_equal(entry.bytes, slot->bytes);
    assert_true(slice_is(topic, slot->topic));
    assert_int_equal(run_find_topic(run, topic), entry.topic);
    result = run_read(run, i, slot->bytes, true, scratch, &record);
    if (result < 0)
        return result;
    assert_true(slice_equals(record, slice_make(slot->record, slot->bytes)));
    return 0;
}

#endif
