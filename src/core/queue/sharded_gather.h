/*
 * sharded_gather: the base of a sharded queue: the handle with its parts, a call to one part, and a call to several
 * parts whose replies are joined. For sharded.c and sharded_topic.c only.
 */
#ifndef TARRY_QUEUE_SHARDED_GATHER_H
#define TARRY_QUEUE_SHARDED_GATHER_H

#include "queue/sharded.h"

struct sharded_part {
    struct sharded *sharded;
    struct queue *queue;
};

struct sharded {
    struct queue queue; /* first member: used as the handle */
    struct sharded_options options;
    struct sharded_part parts[SHARDED_PARTS_MAX];
    uint32_t part_count;
    size_t under_way;        /* calls in progress that need this object */
    struct leaving *leaving; /* leaves to be sent again */
    uint32_t take_from;      /* first part of the next take; moves on, and to new ready jobs */
};

/* ---- one part ---- */

void sharded_send(struct sharded *sharded, uint32_t part, const struct command *command,
                  struct queue_reply_to reply_to);
/* Sends a reply that comes from no part. */
void sharded_refuse(struct sharded *sharded, enum queue_status status,
                    struct queue_reply_to reply_to);
uint32_t sharded_part_of_job(const struct sharded *sharded, struct slice topic, struct slice id);
/* Returns the part for all jobs of a topic in one part. */
static inline uint32_t sharded_home_of(const struct sharded *sharded, struct slice topic)
{
    return sharded_part_of_job(sharded, topic, (struct slice){.at = ""});
}
/* Returns whether the name of the topic keeps its jobs in one part. */
static inline bool sharded_is_one_by_name(const struct sharded *sharded, struct slice topic)
{
    return sharded->options.one_by_name && flow_name_is_one_shard(topic);
}

/* ---- several ---- */

/* A call to several parts: the replies are kept, and the last one to arrive joins them. */
struct sharded_gather {
    struct sharded *sharded;
    struct queue_reply_to reply_to;
    void (*join)(struct sharded_gather *gather); /* ends with sharded_gather_finish */
    uint32_t left;                               /* parts that have not replied */
    struct command *in_turn; /* command sent to one part after the other; a copy, else NULL */
    /* By part; copies. NULL: out of memory, or not sent. */
    struct queue_reply *replies[SHARDED_PARTS_MAX];
    uint32_t limit;   /* list */
    size_t count;     /* items */
    uint8_t *part_of; /* part of each item */
};

/* Creates a gather. NULL: out of memory, and that was replied. */
struct sharded_gather *sharded_gather_new(struct sharded *sharded,
                                          void (*join)(struct sharded_gather *gather),
                                          struct queue_reply_to reply_to);
void sharded_gather_free(struct sharded_gather *gather);
/* Sends a command to a part, whose reply goes to the gather. `left` must be set before the first one. */
void sharded_gather_ask(struct sharded_gather *gather, uint32_t part,
                        const struct command *command);
void sharded_gather_ask_all(struct sharded_gather *gather, const struct command *command);
/* Replies and frees the gather. */
void sharded_gather_finish(struct sharded_gather *gather, const struct queue_reply *reply);
void sharded_gather_refuse(struct sharded_gather *gather, enum queue_status status);

/* ---- sharded_items.c ---- */

/* Returns the part of the i-th item of a command. */
uint32_t sharded_part_of_item(const struct sharded *sharded, const struct command *command,
                              size_t i);

/* Sends each item to its part and joins the results in the order of the items. */
void sharded_items(struct sharded *sharded, const struct command *command,
                   struct queue_reply_to reply_to);

/* ---- sharded_hold.c ---- */

/* Returns whether a call holds groups or topics. */
bool sharded_has_holds(const struct command *command);
/* Sends answers to their parts, then each hold that began to all other parts, and replies when these have it. */
void sharded_answers_with_holds(struct sharded *sharded, const struct command *command,
                                struct queue_reply_to reply_to);

/* ---- sharded_batch.c ---- */

/* Returns whether the call pushes members of batches. */
bool sharded_has_members(const struct command *command);
void sharded_push_members(struct sharded *sharded, const struct command *command,
                          struct queue_reply_to reply_to);
/* Forgets the leaves that were to be sent again. */
void sharded_forget_leaves(struct sharded *sharded);

/* ---- sharded_topic.c ---- */

/* Carries out a call about one topic, as its verb requires. */
void sharded_topic(struct sharded *sharded, const struct command *command,
                   struct queue_reply_to reply_to);
/* Sends the call to all parts and sums their replies: for one topic, or for all of them. */
void sharded_topics(struct sharded *sharded, const struct command *command,
                    struct queue_reply_to reply_to);
/* Sends the call to all parts and sums their forecasts. */
void sharded_forecast(struct sharded *sharded, const struct command *command,
                      struct queue_reply_to reply_to);

/* Combines statuses: a rejection by any part applies to the whole; else OK, then CREATED, then NOT_FOUND, with which `whole`
 * begins. `part` may be NULL: out of memory. */
void sharded_add_status(struct queue_reply *whole, const struct queue_reply *part);

/* ---- sharded_groups.c ---- */

/* Sends a call about one group to all parts and sums their replies. */
void sharded_group(struct sharded *sharded, const struct command *command,
                   struct queue_reply_to reply_to);
/* Lists the groups of all parts. */
void sharded_groups(struct sharded *sharded, const struct command *command,
                    struct queue_reply_to reply_to);

#endif
