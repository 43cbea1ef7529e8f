/*
 * batch: jobs that wait for other jobs. The waiting job of a batch becomes due when the batch is closed and all of its
 * members have ended. Any job may be a member, also one that waits for members of its own. Pure.
 *
 * queue/life.h has the rules: which change of a member counts, and when the wait ends.
 */
#ifndef TARRY_JOB_BATCH_H
#define TARRY_JOB_BATCH_H

#include "base/slice.h"
#include "job/limits.h"

#include <stddef.h>

/* The effect of a dead member. */
enum batch_on_dead {
    BATCH_GO = 1, /* it has ended */
    BATCH_HOLD,   /* it has not ended until it is redriven and ends otherwise, or is cancelled */
    BATCH_STOP    /* the other members are cancelled, then the wait ends */
};
#define BATCH_ON_DEAD_VALUES "go, hold or stop"
const char *batch_on_dead_name(enum batch_on_dead on_dead); /* "go", … */
bool batch_on_dead_parse(struct slice name, enum batch_on_dead *out);

/* The outcome of a member. Purged members and those of a deleted topic count as cancelled. */
enum batch_outcome {
    BATCH_UNFINISHED = 0,
    BATCH_ACKED,
    BATCH_DEAD,
    BATCH_CANCELLED,
    BATCH_EXPIRED,
    BATCH_OUTCOMES
};
const char *batch_outcome_name(enum batch_outcome outcome); /* "unfinished", "acked", … */
bool batch_outcome_parse(struct slice name, enum batch_outcome *out);

/* The number of members by their outcome. Their sum is the number of members. */
struct batch_counts {
    uint32_t of[BATCH_OUTCOMES];
};

static inline uint64_t batch_members(const struct batch_counts *counts)
{
    uint64_t sum = 0;
    for (int i = 0; i < BATCH_OUTCOMES; i++)
        sum += counts->of[i];
    return sum;
}

/* Returns the number of members that the batch still waits for. `on_dead` 0: BATCH_GO. */
static inline uint64_t batch_waits_for(const struct batch_counts *counts,
                                       enum batch_on_dead on_dead)
{
    return (uint64_t)counts->of[BATCH_UNFINISHED] +
           (on_dead == BATCH_HOLD ? counts->of[BATCH_DEAD] : 0);
}

/* Appends the pair `tarry-batch` to an encoded meta: `acked=3 dead=0 cancelled=0 expired=0 missing=1`. `missing` are
 * the members that had not ended when the wait ended. The taken waiting job has this pair. */
#define JOB_META_BATCH "tarry-batch"
enum { BATCH_META_BYTES_MAX = 128 };
size_t batch_meta_write(const struct batch_counts *counts, char into[BATCH_META_BYTES_MAX]);

/* Copies a meta with that pair at its end to `into`, which has room for both. */
struct slice batch_meta_join(struct slice meta, const struct batch_counts *counts, char *into);

/* The batches of a job, as a struct job has them encoded (job_batch_encode). */
struct job_batch {
    struct slice topic,
        id; /* of the waiting job of the batch whose member the job is; empty: not a member */
    uint64_t number; /* of that batch; 0: not known, or not a member */
    uint8_t depth;   /* of a member: 1, or one more than the waiting job that is a member */
    bool waits;      /* the job waits for members; the next four describe its own batch */
    enum batch_on_dead on_dead; /* never 0 if it waits */
    uint32_t members;           /* expected; 0: not given */
    int64_t wait_ms, close_ms;  /* wait_at_most, close_within */
};

enum {
    JOB_BATCH_BYTES_MAX =
        1 + 2 + JOB_TOPIC_BYTES_MAX + 2 + JOB_ID_BYTES_MAX + 10 + 1 + 1 + 5 + 10 + 10
};
/* Encodes the batches of a job. Returns the length. */
size_t job_batch_encode(const struct job_batch *batch, char into[JOB_BATCH_BYTES_MAX]);
/* Decodes them; the slices of *out point into `bytes`. Returns false if malformed. Empty bytes: neither a member nor
 * waiting. */
bool job_batch_decode(struct slice bytes, struct job_batch *out);

#endif
