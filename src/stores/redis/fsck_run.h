/* fsck_run: a check (fsck.h) that is under way, and how it asks Redis and notes what it finds. */
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
    struct redis_report error; /* into report->error */
    struct redis_url url;
    uint32_t generation; /* of the shards (generation.h) */

    /* fsck_ask.c */
    struct redis_survey *survey; /* NULL: to be made (again) */
    struct fsck_master *masters; /* as in the survey */
    bool was_reached;            /* what fails now may be over soon */
    int64_t took_us;             /* the last answer, but for the way there and back */
    char run[FSCK_RUN_BYTES];    /* the process that gave it, by its run id */

    struct fsck_names topics[REDIS_SHARDS_MAX];
    char strays[FSCK_STRAYS_MAX][REDIS_TAG_BYTES]; /* tags of no shard, already told of */
    uint32_t stray_count;
    uint64_t jobs, jobs_total; /* seen; about how many there are */
};

/* ---- fsck_ask.c ---- */

/* One command, one answer, whatever happens in between: that of the slot's master, which is no error.
 * 0, or negative errno, reported; -EBADMSG: a key is of another type. */
int fsck_ask(struct fsck *fsck, uint16_t slot, const struct slice *words, size_t count,
             redisReply **out);
/* All steps of a part of a shard's check; `more`: what the part wants to know besides. */
int fsck_part(struct fsck *fsck, uint32_t shard, enum redis_script script, const char *part,
              struct slice topic, const struct slice *more, size_t more_count);
/* Goes through the names of all keys of the queue. */
int fsck_walk_keys(struct fsck *fsck);
void fsck_close(struct fsck *fsck);

/* ---- fsck_report.c ---- */

/* Copies the texts. */
void fsck_found(struct fsck *fsck, int32_t shard, enum redis_fsck_how how, struct slice topic,
                struct slice id, struct slice what, struct slice repair);

#endif
