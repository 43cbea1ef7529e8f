/*
 * replay_model: what a shard's records amount to, and whether they make sense, by a table of keys and
 * nothing else: the judge of the replay through the engine.
 */
#ifndef TARRY_TESTS_REPLAY_MODEL_H
#define TARRY_TESTS_REPLAY_MODEL_H

#include "fsck/fsck.h"
#include "job/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job, or the part of it that the log contains. STRAY: a state changed of a job that is missing: a job carried
 * forward or an end must follow. */
enum { MODEL_STRAY = 100, MODEL_TOPICS_MAX = 16 };

struct model_job {
    struct hash128 key;
    uint32_t topic; /* index + 1; 0: not known, or gone */
    uint8_t state;  /* enum job_state; 0: gone; MODEL_STRAY */
    bool is_used, is_remembered;
};

struct model_topic {
    char name[JOB_TOPIC_BYTES_MAX + 1];
    bool exists;
    struct topic_totals totals;
    uint64_t jobs;
};

struct model {
    uint64_t hash_seed;
    struct model_job *table; /* open addressing */
    size_t mask, used;
    struct model_topic topics[MODEL_TOPICS_MAX];
    uint32_t topic_count;
    void (*complain)(void *ctx, const char *text);
    void *ctx;
};

static inline struct model_job *model_slot_of(const struct model *model, struct hash128 key)
{
    size_t at = key.low & model->mask;

    while (model->table[at].is_used && memcmp(&model->table[at].key, &key, sizeof key) != 0)
        at = (at + 1) & model->mask;
    return &model->table[at];
}

/* Room for as many keys as a test has. */
static inline void model_init(struct model *model, uint64_t hash_seed,
                              void (*complain)(void *ctx, const char *text), void *ctx)
{
    *model = (struct model){.hash_seed = hash_seed, .mask = 4095, .complain = complain, .ctx = ctx};
    model->table = calloc(model->mask + 1, sizeof *model->table);
}

static inline void model_fini(struct model *model)
{
    free(model->table);
}

static inline struct model_job *model_job_of(struct model *model, struct hash128 key)
{
    struct model_job *job = model_slot_of(model, key);

    if (!job->is_used)
        *job = (struct model_job){.key = key, .is_used = true};
    return job;
}

/* Index + 1. */
static inline uint32_t model_topic_of(struct model *model, struct slice name)
{
    for (uint32_t i = 0; i < model->topic_count; i++)
        if (slice_is(name, model->topics[i].name))
            return i + 1;
    model->topics[model->topic_count] = (struct model_topic){.exists = true};
    memcpy(model->topics[model->topic_count].name, name.at, name.len);
    return ++model->topic_count;
}

static inline bool model_is_there(const struct model_job *job)
{
    return job->state && job->state < MODEL_STRAY;
}

static inline void model_let_go(struct model *model, struct model_job *job)
{
    if (model_is_there(job))
        model->topics[job->topic - 1].jobs--;
    job->state = 0;
}

static inline void model_job_record(struct model *model, const struct record *record)
{
    const struct job *job = &record->job;
    struct model_job *known = model_job_of(model, hash_pair(job->topic, job->id, model->hash_seed));
    struct model_topic *topic = &model->topics[model_topic_of(model, job->topic) - 1];
    const bool was_there = model_is_there(known);

    model_let_go(model, known);
    if (job->state == JOB_READY || job->state == JOB_FINISHED)
        model->complain(model->ctx, "a job is stored in an invalid state");
    if (record->origin == RECORD_PUSHED && was_there)
        model->complain(model->ctx, "a job is pushed as new that exists already");
    if (record->origin != RECORD_PUSHED && !was_there)
        model->complain(model->ctx, "a job is replaced or carried forward that does not exist");
    topic->totals.pushed += record->origin == RECORD_PUSHED;
    topic->exists = true;
    topic->jobs++;
    known->topic = model_topic_of(model, job->topic);
    known->is_remembered = false;
    known->state =
        (uint8_t)(job->state == JOB_READY || job->state == JOB_FINISHED ? JOB_DELAYED : job->state);
}

static inline void model_state_record(struct model *model, const struct record_state *state)
{
    struct model_job *known = model_job_of(model, state->key);
    enum job_state is = state->state;

    if (is == JOB_READY || is == JOB_FINISHED) {
        model->complain(model->ctx, "a job is stored in an invalid state");
        is = JOB_DELAYED;
    }
    if (!model_is_there(known))
        model->complain(model->ctx, "the state of a job changes that does not exist");
    if (!known->is_remembered) /* otherwise it has ended, and is not a stray */
        known->state = (uint8_t)(model_is_there(known) ? (uint8_t)is : MODEL_STRAY);
}

static inline int64_t model_missing(const struct model_topic *topic)
{
    const struct topic_totals *totals = &topic->totals;

    return (int64_t)(totals->pushed - totals->acked - totals->cancelled - totals->expired -
                     topic->jobs);
}

static inline void model_done_record(struct model *model, const struct record_done *done)
{
    struct model_job *known = model_job_of(model, done->key);
    struct model_topic *topic = &model->topics[model_topic_of(model, done->topic) - 1];

    topic->exists = true;
    if (!model_is_there(known) && model_missing(topic) <= 0)
        model->complain(model->ctx, "a job ends that does not exist");
    topic->totals.acked += done->reason == RECORD_ACKED;
    topic->totals.expired += done->reason == RECORD_EXPIRED;
    topic->totals.cancelled += done->reason == RECORD_CANCELLED || done->reason == RECORD_PURGED;
    model_let_go(model, known);
    known->is_remembered = done->remember_until_ms != 0;
}

static inline void model_topic_record(struct model *model, const struct record_topic *record)
{
    struct model_topic *topic = &model->topics[model_topic_of(model, record->topic) - 1];
    const struct topic_totals *before = &topic->totals, *after = &record->totals;

    if (!record->exists && topic->jobs) {
        model->complain(model->ctx, "a topic is removed that has jobs");
        return;
    }
    if (record->exists && topic->exists &&
        (after->pushed < before->pushed || after->acked < before->acked ||
         after->cancelled < before->cancelled || after->expired < before->expired))
        model->complain(model->ctx, "a topic's totals fall");
    topic->totals = record->exists ? record->totals : (struct topic_totals){0};
    topic->exists = record->exists;
}

static inline void model_record(struct model *model, const struct record *record)
{
    if (record->kind == RECORD_JOB)
        model_job_record(model, record);
    else if (record->kind == RECORD_STATE)
        model_state_record(model, &record->state);
    else if (record->kind == RECORD_DONE)
        model_done_record(model, &record->done);
    else
        model_topic_record(model, &record->topic);
}

/* Ends the replay: findings that need the whole log, and the counts. */
static inline void model_end(struct model *model, struct fsck_shard *out)
{
    for (size_t i = 0; i <= model->mask; i++) {
        const uint8_t state = model->table[i].state;

        out->delayed += state == JOB_DELAYED;
        out->leased += state == JOB_LEASED;
        out->dead += state == JOB_DEAD;
        if (state == MODEL_STRAY)
            model->complain(model->ctx, "the state of a job changes that is stored nowhere");
    }
    for (uint32_t i = 0; i < model->topic_count; i++) {
        if (!model->topics[i].exists)
            continue;
        out->topics++;
        if (model_missing(&model->topics[i]))
            model->complain(model->ctx, "the totals of topic");
    }
}

#endif
