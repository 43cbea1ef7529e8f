/*
 * replay: replays a shard's log on top of its runs with the engine, and checks that the result is
 * consistent.
 *
 * Every record is passed to a real engine, as at a server's start. Records that the engine accepts
 * but no server writes are detected before. Records that the engine would reject are detected and
 * then passed in an acceptable form, so that one fault is reported once. Slots of runs are released
 * in the examination's own bitmaps (`pending`): the slots alive at the end are those that count.
 */
#ifndef TARRY_FSCK_REPLAY_H
#define TARRY_FSCK_REPLAY_H

#include "engine/stored.h"
#include "fsck/exam.h"

struct fsck_replay;

/* Creates a replay, after the runs and tables were examined. `is_whole`: the log is complete from
 * its first record, and there are no runs; otherwise earlier records are unknown. Returns NULL if
 * out of memory. */
struct fsck_replay *fsck_replay_new(struct fsck_exam *exam, bool is_whole);
void fsck_replay_free(struct fsck_replay *replay);
/* Replays one record of the log. Returns false if out of memory. */
bool fsck_replay_record(struct fsck_replay *replay, const struct record *record,
                        struct record_place place);
/* Marks that part of the log is missing here: later inconsistencies are no longer findings. */
void fsck_replay_gap(struct fsck_replay *replay);
/* Performs the checks that need the complete log, and fills in the counts. Returns false if out of
 * memory. */
bool fsck_replay_end(struct fsck_replay *replay, struct fsck_shard *out);
/* Returns the engine with the replayed jobs. */
struct engine *fsck_replay_engine(struct fsck_replay *replay);
struct engine_now fsck_replay_now(const struct fsck_replay *replay);
/* Calls `each` for the topics that have a record in the log. If `each` returns false, stops and
 * returns false. */
bool fsck_replay_topics(const struct fsck_replay *replay,
                        bool (*each)(void *ctx, const struct queue_topic *topic), void *ctx);

#endif
