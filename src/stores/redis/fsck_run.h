/* fsck_run: the state of a running check (fsck.h), and its functions to query Redis and record
 * findings. */
#ifndef TARRY_REDIS_FSCK_RUN_H
#define TARRY_REDIS_FSCK_RUN_H

#include "redis/fsck.h"
#include "redis/generation.h"
#include "redis/script.h"
#include "redis/survey.h"

#include "base/slice.h"
#include "base/vector.h"

/* fsck_names: a sorted set of byte strings, each on the heap. A zeroed set is valid and empty. */

VECTOR_DECLARE(fsck_names, struct slice)

/* Returns the index of `name`, or the index at which to insert it. */
static inline size_t fsck_names_place(const struct fsck_names *names, struct slice name,
                                      bool *found)
{
    size_t low = 0, high = names->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        struct slice other = names->at[middle];
        size_t both = other.len < name.len ? other.len : name.len;
        int order = both ? memcmp(other.at, name.at, both) : 0;
        if (order < 0 || (order == 0 && other.len < name.len))
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < names->count && slice_equals(names->at[low], name);
    return low;
}

static inline bool fsck_names_have(const struct fsck_names *names, struct slice name)
{
    bool found;
    (void)fsck_names_place(names, name, &found);
    return found;
}

/* Adds a copy of the name. Returns false if memory runs out. */
static inline bool fsck_names_put(struct fsck_names *names, struct slice name)
{
    bool found;
    size_t place = fsck_names_place(names, name, &found);
    char *copy = found ? NULL : malloc(name.len + 1);
    if (found || !copy)
        return found;
    if (name.len)
        memcpy(copy, name.at, name.len);
    if (fsck_names_insert(names, place, slice_make(copy, name.len)))
        return true;
    free(copy);
    return false;
}

static inline void fsck_names_free(struct fsck_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free((char *)names->at[i].at);
    fsck_names_fini(names);
}

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
