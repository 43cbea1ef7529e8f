/*
 * blob: the text of a job in memory, which is everything except its entry, in one reference-counted
 * block. For this room only.
 *
 * The engine holds a blob through the place of the job's record, which is the blob's address. Every
 * caller that received the job also holds it, so its text stays valid after an ack or a
 * replacement. The count is atomic: jobs are freed on any thread.
 */
#ifndef TARRY_MEMORY_BLOB_H
#define TARRY_MEMORY_BLOB_H

#include "queue/queue.h"

struct blob;

/* Copies a push, with its encoded batches (job/batch.h). Returns NULL if out of memory. */
struct blob *blob_new(const struct queue_push *push, struct slice batches);
/* Makes the blob of a kept job from its record, in malloc'd room, which it takes over. The room that the engine
 * reports for an end (engine_room_*) suffices. */
struct blob *blob_kept_make(void *room, size_t room_bytes, const struct record_done *done,
                            enum job_end outcome);
/* Shows a kept job, like blob_show; all its texts are followed by a NUL byte. Returns false if it is not one. */
bool blob_show_kept(const struct blob *blob, struct job *job, struct queue_end *end);
/* Prefetches a blob that will be shown soon. */
static inline void blob_prefetch(const struct blob *blob)
{
    __builtin_prefetch(blob);
    __builtin_prefetch((const char *)blob + 64);
}
/* Returns the successor of the job, or NULL. */
struct blob *blob_next(const struct blob *blob);
/* Sets the successor, in place of an earlier one, and takes over a hold of it. A successor lives as long as the blob.
 * Called on the thread of the store. */
void blob_set_next(struct blob *blob, struct blob *next);
struct blob *blob_hold(struct blob *blob);
/* Releases a hold. NULL is allowed. */
void blob_release(struct blob *blob);

size_t blob_bytes(const struct blob *blob);
/* Fills in the job as it was pushed. Slices point into the blob; topic, id and content type are
 * followed by a NUL byte. */
void blob_show(const struct blob *blob, struct job *out);

struct record_place blob_place(const struct blob *blob);
/* Returns the blob, or NULL for a record without text (blob_place_none). */
struct blob *blob_at(struct record_place place);
struct record_place blob_place_none(void);

#endif
