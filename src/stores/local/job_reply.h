/* job_reply: replies with jobs, whose records must be read first. Private to this room. */
#ifndef TARRY_LOCAL_JOB_REPLY_H
#define TARRY_LOCAL_JOB_REPLY_H

#include "job/event.h"
#include "local/shard_core.h"

struct job_reply_options {
    bool with_lease; /* give each job a lease token */
    bool with_body;
    enum job_way way; /* with_lease: the way of delivery */
    bool has_next;    /* copied to the reply */
    struct queue_rank next;
};

/* Starts a reply. Takes ownership of `views` (malloc'd), all `count` of them filled in. */
void job_reply_start(struct shard *shard, struct engine_view *views, size_t count,
                     struct job_reply_options options, struct slice cursor,
                     struct queue_reply_to reply_to);

#endif
