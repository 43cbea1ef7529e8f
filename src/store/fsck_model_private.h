/* fsck_model_private: what the model is made of, for fsck_model.c (the records, one by one) and
 * fsck_model_end.c (what is to be said of all of them). */
#ifndef TARRY_STORE_FSCK_MODEL_PRIVATE_H
#define TARRY_STORE_FSCK_MODEL_PRIVATE_H

#include "store/fsck_model.h"

/* A job, or what is known of one whose record went with an older file. */
struct fsck_known {
    struct hash128 key;
    uint32_t topic; /* index + 1; 0: not known, or gone */
    uint8_t state;  /* enum job_state; 0: gone; FSCK_STRAY, FSCK_UNSEEN */
    bool is_used;
    /* Of the record that says so last; or the alive slot of a run in which the job lies, while the
     * log told only of its state: then it is counted there. */
    struct record_place place;
};

/* FSCK_STRAY: a state changed of a job that is not there: a job carried forward or an end must
 * follow. FSCK_UNSEEN: it may lie in a run whose table of keys is damaged. */
enum { FSCK_STRAY = 100, FSCK_UNSEEN };

struct fsck_model_topic {
    struct hash128 key;
    char name[JOB_TOPIC_BYTES_MAX + 1];
    bool exists, is_known; /* its totals are whole */
    struct topic_totals totals;
    uint64_t jobs;
    uint64_t settings; /* a hash of them; where it exists */
    bool paused, deleting;
};

struct fsck_model {
    uint64_t hash_seed;
    bool is_whole, is_unsure;  /* unsure: what is alive may be more than is known */
    struct fsck_base base;     /* zeroed: no runs */
    uint64_t loaded[SECTIONS]; /* alive slots whose jobs the log tells the state of */
    enum fsck_cure cure;
    void (*complain)(void *ctx, struct record_place place, const char *text);
    void *ctx;
    struct fsck_known *table; /* open addressing */
    size_t mask, used;
    struct fsck_model_topic *topics;
    uint32_t topic_count, topic_cap, last_topic;
    uint32_t *topic_table; /* index + 1, open addressing */
    uint32_t topic_mask;
};

/* Jobs of the topic, in the log and in runs. */
uint64_t fsck_model_jobs(const struct fsck_model *model, const struct fsck_model_topic *topic);
/* How many there should be beside these. */
int64_t fsck_model_missing(const struct fsck_model *model, const struct fsck_model_topic *topic);

#endif
