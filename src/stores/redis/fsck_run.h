/* fsck_run: the state of a running check (fsck.h), and its functions to query Redis and record
 * findings. */
#ifndef TARRY_REDIS_FSCK_RUN_H
#define TARRY_REDIS_FSCK_RUN_H

#include "redis/fsck.h"
#include "redis/fsck_names.h"
#include "redis/generation.h"
#include "redis/script.h"
#include "redis/survey.h"

enum { FSCK_WORDS_MAX = 128, FSCK_STRAYS_MAX = 64, FSCK_MORE_MAX = 100, FSCK_RUN_BYTES = 48 };

struct fsck {
    const struct redis_fsck_options *options;
    struct redis_fsck_report *report;
    struct redis_report error; /* writes to report->error */
    struct redis_url url;
    uint32_t generation; /* generation of the shards (generation.h) */

    /* fsck_ask.c */
    struct redis_survey *survey; /* NULL: has to be made (again) */
    struct fsck_master *masters; /* indexed as in the survey */
    bool was_reached;            /* a failure may now be temporary */
    int64_t took_us;             /* duration of the last reply, without the round trip */
    char run[FSCK_RUN_BYTES];    /* run id of the process that sent it */

    struct fsck_names topics[REDIS_SHARDS_MAX];
    char strays[FSCK_STRAYS_MAX][REDIS_TAG_BYTES]; /* tags without a shard, already reported */
    uint32_t stray_count;
    uint64_t jobs, jobs_total; /* jobs seen; approximate total */
};

/* ---- fsck_ask.c ---- */

/* Sends one command to the master of the slot and returns one reply that is not an error. Retries
 * over reconnects and failovers. Returns 0, or a negative errno after reporting it; -EBADMSG: a key
 * has the wrong type. */
int fsck_ask(struct fsck *fsck, uint16_t slot, const struct slice *words, size_t count,
             redisReply **out);
/* Runs all steps of one part of a shard's check. `more`: further arguments of that part. */
int fsck_part(struct fsck *fsck, uint32_t shard, enum redis_script script, const char *part,
              struct slice topic, const struct slice *more, size_t more_count);
/* Walks the names of all keys of the queue. */
int fsck_walk_keys(struct fsck *fsck);
void fsck_close(struct fsck *fsck);

/* ---- fsck_report.c ---- */

/* Records a finding; copies the texts. */
void fsck_found(struct fsck *fsck, int32_t shard, enum redis_fsck_how how, struct slice topic,
                struct slice id, struct slice what, struct slice repair);

#endif
