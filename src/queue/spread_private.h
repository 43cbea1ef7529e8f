/* The spread's own structures, shared by spread*.c only. */
#ifndef TARRY_QUEUE_SPREAD_PRIVATE_H
#define TARRY_QUEUE_SPREAD_PRIVATE_H

#include "job/ulid.h"
#include "queue/command.h"
#include "queue/spread.h"
#include "queue/watch.h"

struct spread_part {
    struct spread *spread;
    struct queue *queue;
};

struct spread {
    struct queue queue; /* first: handed out as such */
    struct spread_options options;
    struct spread_part parts[SPREAD_PARTS_MAX];
    uint32_t part_count;
    uint32_t take_from; /* the part a take asks first; moves on, and to where jobs became ready */
    struct ulid ulid;
    struct watch_table *watched; /* how often each topic is */
    struct queue_push *pushes;   /* scratch for a batch whose ids are made here, QUEUE_BATCH_MAX */
    char (*ids)[ULID_BYTES];
};

/* Calls to several parts: their replies are kept, and the last one to come joins them. */
struct spread_gather {
    struct spread *spread;
    struct queue_reply_to reply_to;
    void (*join)(struct spread_gather *gather); /* ends in a spread_finish */
    uint32_t left;                              /* parts that have not replied */
    /* By part; copies. NULL: out of memory, or not asked. */
    struct queue_reply *replies[SPREAD_PARTS_MAX];
    uint32_t limit;   /* list */
    size_t count;     /* items */
    uint8_t *part_of; /* each item's */
};

/* ---- spread_gather.c ---- */
/* NULL: out of memory, and that was replied. */
struct spread_gather *spread_gather_new(struct spread *spread,
                                        void (*join)(struct spread_gather *gather),
                                        struct queue_reply_to reply_to);
void spread_gather_free(struct spread_gather *gather);
/* The part's reply goes to the gather. `left` must have been set before the first one. */
void spread_gather_ask(struct spread_gather *gather, uint32_t part, const struct command *command);
void spread_gather_ask_all(struct spread_gather *gather, const struct command *command);
/* Replies and frees the gather. */
void spread_gather_finish(struct spread_gather *gather, const struct queue_reply *reply);
void spread_gather_refuse(struct spread_gather *gather, enum queue_status status);

/* ---- one file each ---- */
void spread_send(struct spread *spread, uint32_t part, const struct command *command,
                 struct queue_reply_to reply_to);
void spread_refuse(struct spread *spread, enum queue_status status, struct queue_reply_to reply_to);
void spread_items(struct spread *spread, const struct command *command,
                  struct queue_reply_to reply_to);
void spread_list(struct spread *spread, const struct command *command,
                 struct queue_reply_to reply_to);
/* A topic call to all parts alike, or all topics. */
void spread_sum(struct spread *spread, const struct command *command,
                struct queue_reply_to reply_to);
/* The same, to all parts but the first, whose reply is `first`. */
void spread_sum_rest(struct spread *spread, const struct command *command,
                     const struct queue_reply *first, struct queue_reply_to reply_to);
void spread_take(struct spread *spread, const struct command *command,
                 struct queue_reply_to reply_to);
void spread_pause(struct spread *spread, const struct command *command,
                  struct queue_reply_to reply_to);
/* Where the first part leads: there first, then in the others. */
void spread_lead(struct spread *spread, const struct command *command,
                 struct queue_reply_to reply_to);
void spread_delete(struct spread *spread, const struct command *command,
                   struct queue_reply_to reply_to);
/* Of all the dead, at most `max`. */
void spread_redrive(struct spread *spread, const struct command *command,
                    struct queue_reply_to reply_to);

#endif
