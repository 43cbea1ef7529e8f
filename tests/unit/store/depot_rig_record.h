/* depot_rig_record: the records of jobs, all made of the job's number and its version, so that each
 * can be judged by itself. */
#ifndef TARRY_TESTS_DEPOT_RIG_RECORD_H
#define TARRY_TESTS_DEPOT_RIG_RECORD_H

#include "store/depot.h"

#include <stdio.h>
#include <string.h>

enum { RIG_JOBS = 400, RIG_SEED = 7 };

static inline uint64_t rig_mix(uint32_t job, uint32_t version)
{
    struct random random = {.state = (uint64_t)job << 32 | version};

    return random_next(&random);
}

static inline void rig_record(uint32_t job, uint32_t version, uint32_t attempt,
                              struct record *record, char text[512])
{
    static const char *const topics[] = {"orders", "mail", "a.rather-long_topic"};
    uint64_t mix = rig_mix(job, version);
    int id = snprintf(text, 64, "job-%u", job);
    int body = snprintf(text + 64, 64, "%u:%u:", job, version);
    size_t more = mix >> 40 & 255;

    memset(text + 64 + body, 'x', more);
    *record = (struct record){.kind = RECORD_JOB,
                              .origin = RECORD_PUSHED,
                              .job = {.topic = slice_of(topics[job % 3]),
                                      .id = slice_make(text, (size_t)id),
                                      .body = slice_make(text + 64, (size_t)body + more),
                                      .state = mix % 20 == 0 ? JOB_DEAD : JOB_DELAYED,
                                      .due_is_wall = mix % 7 == 0,
                                      .priority = JOB_PRIORITY,
                                      .attempt = attempt,
                                      .due_ms = (int64_t)(mix >> 20 & 0xfffff),
                                      .first_due_ms = (int64_t)(mix >> 20 & 0xfffff),
                                      .sequence = (uint64_t)version}};
}

static inline size_t rig_encode(uint32_t job, uint32_t version, uint32_t attempt, char into[2048])
{
    struct record record;
    char text[512];

    rig_record(job, version, attempt, &record, text);
    assert_true(record_bytes_max(&record) <= 2048);
    return record_encode(&record, into);
}

static inline struct hash128 rig_key(uint32_t job)
{
    struct record record;
    char text[512];

    rig_record(job, 0, 0, &record, text);
    return hash_pair(record.job.topic, record.job.id, RIG_SEED);
}

/* Returns the job of a record, which must be whole. */
static inline uint32_t rig_judge(struct slice bytes, uint32_t *version, uint32_t *attempt)
{
    struct record record, wanted;
    char text[512], body[512];
    unsigned job;

    assert_true(record_decode(bytes, &record) && record.kind == RECORD_JOB);
    assert_true(record.job.body.len < sizeof body);
    memcpy(body, record.job.body.at, record.job.body.len);
    body[record.job.body.len] = '\0'; /* a record ends without one, maybe at a page's end */
    assert_int_equal(sscanf(body, "%u:%u:", &job, version), 2);
    assert_true(job < RIG_JOBS);
    rig_record(job, *version, record.job.attempt, &wanted, text);
    assert_true(slice_equals(record.job.body, wanted.job.body));
    assert_true(slice_equals(record.job.id, wanted.job.id));
    assert_true(slice_equals(record.job.topic, wanted.job.topic));
    assert_true(record.from.bytes == 0 && record.job.due_ms == wanted.job.due_ms);
    *attempt = record.job.attempt;
    return job;
}

#endif
