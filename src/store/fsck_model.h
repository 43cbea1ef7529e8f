/* fsck_model: what a shard's records amount to, and whether they make sense. Private to fsck. */
#ifndef TARRY_STORE_FSCK_MODEL_H
#define TARRY_STORE_FSCK_MODEL_H

#include "job/section.h"
#include "store/fsck.h"

struct fsck_model;

/* What lies in runs, below the log. Zeroed: there are none. */
enum fsck_slot {
    FSCK_SLOT_ALIVE = 1,
    FSCK_SLOT_DEAD,   /* or its run is gone */
    FSCK_SLOT_UNKNOWN /* its run was never committed */
};
struct fsck_base {
    /* Of a slot that is alive or dead in a run that is there, its section and its topic's name. */
    enum fsck_slot (*look)(void *ctx, struct record_place place, enum job_section *section,
                           struct slice *topic);
    /* It is not alive any more. */
    void (*release)(void *ctx, struct record_place place);
    /* An alive slot with a job of this key. 1, 0, negative: cannot be said. */
    int (*find)(void *ctx, struct hash128 key, struct record_place *place);
    /* How many alive jobs there are of a topic, and of all in a part. */
    uint64_t (*jobs_of)(void *ctx, struct slice topic);
    uint64_t (*alive_in)(void *ctx, enum job_section section);
    void *ctx;
};

/* `is_whole`: the log goes back to its first record, and there are no runs; else what came before
 * it is not known. `complain` is told of what makes no sense. */
struct fsck_model *fsck_model_new(uint64_t hash_seed, bool is_whole, const struct fsck_base *base,
                                  void (*complain)(void *ctx, struct record_place place,
                                                   const char *text),
                                  void *ctx);
void fsck_model_free(struct fsck_model *model);
/* False: out of memory. */
bool fsck_model_apply(struct fsck_model *model, const struct record *record,
                      struct record_place place);
/* What helps against what was complained of last. */
enum fsck_cure fsck_model_cure(const struct fsck_model *model);
/* What can be said at the end only; fills in the counts. */
void fsck_model_end(struct fsck_model *model, struct fsck_shard *out);

/* What the log says of a topic that exists. */
struct fsck_said {
    struct slice topic;
    uint64_t settings; /* fsck_settings_hash */
    bool paused, deleting;
};
uint64_t fsck_settings_hash(const struct topic_settings *settings);
/* Those that have a record. `each` returning false ends it: false. */
bool fsck_model_topics(const struct fsck_model *model,
                       bool (*each)(void *ctx, const struct fsck_said *said), void *ctx);

/* After the end: jobs that must have been, and are nowhere. */
struct fsck_loss {
    struct hash128 key; /* where is_named */
    bool is_named;
    bool is_counted; /* the topic's totals say that it was */
    struct slice topic;
};
bool fsck_model_has_losses(const struct fsck_model *model);
/* Where there are some. `each` returning false ends it: false. */
bool fsck_model_losses(const struct fsck_model *model,
                       bool (*each)(void *ctx, const struct fsck_loss *loss), void *ctx);

#endif
