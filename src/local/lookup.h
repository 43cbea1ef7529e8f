/*
 * lookup: commands that name a job which may be cold wait until the scout has looked. This room
 * only.
 *
 * Before a command is carried out each key it names is looked for: in memory, then in the filters.
 * Where a filter says maybe the command waits; the scout looks on the disk; what it finds is
 * loaded, and then the command is carried out as if it had been there all along.
 */
#ifndef TARRY_LOCAL_LOOKUP_H
#define TARRY_LOCAL_LOOKUP_H

#include "local/private.h"

/* Keys that no cold job has, as long as the view is of this generation: a job becomes cold only by a
 * checkpoint, which changes the view. */
struct absent {
    uint64_t generation;
    bool is_all; /* no job of the command was in memory, nor found: none of its keys is anybody's */
    size_t count;
    struct hash128 keys[];
};

/* True: the command (copied) waits and will be carried out later. False: carry it out now. `absent`
 * (may be NULL) is what an earlier look has shown; it stays the caller's. */
bool lookup_wants(struct shard *shard, const struct command *command,
                  struct queue_reply_to reply_to, const struct absent *absent);

/*
 * A cold job that a helper found comes to memory; `place` as the helper knows it. 0: it is there (or
 * was already); -ENOENT: it does not count any more; -EBADMSG: the record makes no sense; -ENOMEM.
 */
int shard_load(struct shard *shard, struct slice record, struct record_place place,
               struct engine_now now);

#endif
