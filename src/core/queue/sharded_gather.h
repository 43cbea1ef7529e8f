/*
 * sharded_gather: the bottom of a sharded queue: the handle with its parts, a call to one part, and
 * a call to several of them whose replies are joined. For sharded.c and sharded_topic.c only.
 */
#ifndef TARRY_QUEUE_SHARDED_GATHER_H
#define TARRY_QUEUE_SHARDED_GATHER_H

#include "queue/sharded.h"

struct sharded_part {
    struct sharded *sharded;
    struct queue *queue;
};

struct sharded {
    struct queue queue; /* first: handed out as such */
    struct sharded_options options;
    struct sharded_part parts[SHARDED_PARTS_MAX];
    uint32_t part_count;
    size_t under_way;   /* calls that need it until they are replied to */
    uint32_t take_from; /* the part a take asks first; moves on, and to where jobs became ready */
};

/* ---- one part ---- */

void sharded_send(struct sharded *sharded, uint32_t part, const struct command *command,
                  struct queue_reply_to reply_to);
/* A reply that no part gives. */
void sharded_refuse(struct sharded *sharded, enum queue_status status,
                    struct queue_reply_to reply_to);
uint32_t sharded_part_of_job(const struct sharded *sharded, struct slice topic, struct slice id);

/* ---- several ---- */

/* Calls to several parts: their replies are kept, and the last one to come joins them. */
struct sharded_gather {
    struct sharded *sharded;
    struct queue_reply_to reply_to;
    void (*join)(struct sharded_gather *gather); /* ends in a sharded_gather_finish */
    uint32_t left;                               /* parts that have not replied */
    struct command *in_turn; /* asked of one part after the other; a copy, else NULL */
    /* By part; copies. NULL: out of memory, or not asked. */
    struct queue_reply *replies[SHARDED_PARTS_MAX];
    uint32_t limit;   /* list */
    size_t count;     /* items */
    uint8_t *part_of; /* each item's */
};

/* NULL: out of memory, and that was replied. */
struct sharded_gather *sharded_gather_new(struct sharded *sharded,
                                          void (*join)(struct sharded_gather *gather),
                                          struct queue_reply_to reply_to);
void sharded_gather_free(struct sharded_gather *gather);
/* The part's reply goes to the gather. `left` must have been set before the first one. */
void sharded_gather_ask(struct sharded_gather *gather, uint32_t part,
                        const struct command *command);
void sharded_gather_ask_all(struct sharded_gather *gather, const struct command *command);
/* Replies and frees the gather. */
void sharded_gather_finish(struct sharded_gather *gather, const struct queue_reply *reply);
void sharded_gather_refuse(struct sharded_gather *gather, enum queue_status status);

/* ---- sharded_topic.c ---- */

/* A call about one topic, as its verb wants it. */
void sharded_topic(struct sharded *sharded, const struct command *command,
                   struct queue_reply_to reply_to);
/* The same call to all parts, and the sum of what they say: of one topic, or of all of them. */
void sharded_topics(struct sharded *sharded, const struct command *command,
                    struct queue_reply_to reply_to);
/* The same call to all parts, and the sum of what they expect. */
void sharded_forecast(struct sharded *sharded, const struct command *command,
                      struct queue_reply_to reply_to);

#endif
