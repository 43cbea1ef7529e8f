/*
 * blob: what a job in memory is beside its entry: its text in one block, counted by who holds it. This room
 * only.
 *
 * The engine holds a blob through the place of the job's record, which is the blob's address; whoever
 * was handed the job holds it too, so an ack or a replacement takes the text from nobody's hands. The count is
 * atomic: jobs are freed on any thread.
 */
#ifndef TARRY_MEMORY_BLOB_H
#define TARRY_MEMORY_BLOB_H

#include "queue/queue.h"

struct blob;

/* A copy of what the push says. NULL: out of memory. */
struct blob *blob_new(const struct queue_push *push);
/* It will be shown soon. */
static inline void blob_prefetch(const struct blob *blob)
{
    __builtin_prefetch(blob);
    __builtin_prefetch((const char *)blob + 64);
}
struct blob *blob_hold(struct blob *blob);
void blob_release(struct blob *blob); /* NULL is fine */

size_t blob_bytes(const struct blob *blob);
/* The job as it was pushed; slices point into the blob, and behind topic, id and content type there is NUL. */
void blob_show(const struct blob *blob, struct job *out);

struct record_place blob_place(const struct blob *blob);
/* NULL: a record that has no text (blob_place_none). */
struct blob *blob_at(struct record_place place);
struct record_place blob_place_none(void);

#endif
