/*
 * message_id: identifies the message of a job: "msg_" and 32 hexadecimal digits.
 *
 * It is the same for all attempts of a job, so that a receiver can detect a repetition; a new push
 * of the same job ID has another one. It is a digest of the store's name, topic, ID and push
 * number. The store's name is included because another store counts its pushes from the beginning
 * again, for the same topics. Besides, an ID may be reused when its job is gone, and a receiver
 * that drops repetitions would drop the new job.
 *
 * Used on its owner's thread; the owner embeds it and keeps it for many messages.
 */
#ifndef TARRY_TARGETS_MESSAGE_ID_H
#define TARRY_TARGETS_MESSAGE_ID_H

#include "job/job.h"

enum { MESSAGE_ID_BYTES = 4 + 32 + 1 };

struct message_id {
    const char *(*store_name)(void *store); /* or NULL; may return NULL */
    void *store;
    struct evp_md_st *sha256;
    struct evp_md_ctx_st *digest;
};

/* Returns false when out of memory; message_id_fini is allowed then. */
bool message_id_init(struct message_id *ids, const char *(*store_name)(void *store), void *store);
/* Frees what it holds. Accepts zeroed memory. */
void message_id_fini(struct message_id *ids);
/* Writes the NUL-terminated text. Returns false when out of memory. */
bool message_id_write(struct message_id *ids, const struct job *job, char out[MESSAGE_ID_BYTES]);

#endif
