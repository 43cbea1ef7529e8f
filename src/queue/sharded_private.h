/* The sharded queue's own structures, shared by sharded queue*.c only. */
#ifndef TARRY_QUEUE_SHARDED_PRIVATE_H
#define TARRY_QUEUE_SHARDED_PRIVATE_H

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
    uint32_t take_from; /* the part a take asks first; moves on, and to where jobs became ready */
};

/* Calls to several parts: their replies are kept, and the last one to come joins them. */
struct sharded_gather {
    struct sharded *sharded;
    struct queue_reply_to reply_to;
    void (*join)(struct sharded_gather *gather); /* ends in a sharded_finish */
    uint32_t left;                               /* parts that have not replied */
    /* By part; copies. NULL: out of memory, or not asked. */
    struct queue_reply *replies[SHARDED_PARTS_MAX];
    uint32_t limit;   /* list */
    size_t count;     /* items */
    uint8_t *part_of; /* each item's */
};

/* ---- sharded_gather.c ---- */
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

/* ---- one file each ---- */
void sharded_send(struct sharded *sharded, uint32_t part, const struct command *command,
                  struct queue_reply_to reply_to);
void sharded_refuse(struct sharded *sharded, enum queue_status status,
                    struct queue_reply_to reply_to);
uint32_t sharded_part_of_job(const struct sharded *sharded, struct slice topic, struct slice id);
void sharded_items(struct sharded *sharded, const struct command *command,
                   struct queue_reply_to reply_to);
void sharded_list(struct sharded *sharded, const struct command *command,
                  struct queue_reply_to reply_to);
/* A topic call to all parts alike, or all topics. */
void sharded_sum(struct sharded *sharded, const struct command *command,
                 struct queue_reply_to reply_to);
/* The same, to all parts but the first, whose reply is `first`. */
void sharded_sum_rest(struct sharded *sharded, const struct command *command,
                      const struct queue_reply *first, struct queue_reply_to reply_to);
void sharded_take(struct sharded *sharded, const struct command *command,
                  struct queue_reply_to reply_to);
void sharded_topic(struct sharded *sharded, const struct command *command,
                   struct queue_reply_to reply_to);

#endif
