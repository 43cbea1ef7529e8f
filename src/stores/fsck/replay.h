/*
 * replay: what a shard's log amounts to over its runs, as the engine itself replays it, and whether
 * that makes sense.
 *
 * Every record goes to a real engine, as at a server's start; what the engine takes without a word
 * but no server writes is found here beforehand, and what it would refuse is found and then told to
 * it in a form that it takes, so that one fault is told once. Slots of runs are released in the
 * examination's own bitmaps (`pending`): what is alive there at the end is what counts.
 */
#ifndef TARRY_FSCK_REPLAY_H
#define TARRY_FSCK_REPLAY_H

#include "engine/stored.h"
#include "fsck/exam.h"

struct fsck_replay;

/* After the runs and tables. `is_whole`: the log goes back to its first record, and there are no
 * runs; else what came before it is not known. NULL: out of memory. */
struct fsck_replay *fsck_replay_new(struct fsck_exam *exam, bool is_whole);
void fsck_replay_free(struct fsck_replay *replay);
/* One record of the log. False: out of memory. */
bool fsck_replay_record(struct fsck_replay *replay, const struct record *record,
                        struct record_place place);
/* Some of the log is missing here: what does not fit is no finding any more. */
void fsck_replay_gap(struct fsck_replay *replay);
/* What can be said at the end only; fills in the counts. False: out of memory. */
bool fsck_replay_end(struct fsck_replay *replay, struct fsck_shard *out);
/* The engine, full. */
struct engine *fsck_replay_engine(struct fsck_replay *replay);
struct engine_now fsck_replay_now(const struct fsck_replay *replay);
/* The topics that have a record in the log. `each` returning false ends it: false. */
bool fsck_replay_topics(const struct fsck_replay *replay,
                        bool (*each)(void *ctx, const struct queue_topic *topic), void *ctx);

#endif
