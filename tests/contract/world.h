/*
 * world: a queue and the model side by side. Every call is made to both and the answers are
 * compared; afterwards everything that can be looked up is looked up and compared: each id ever
 * used, each topic's counts, totals and settings.
 *
 * The first difference is kept in `fault`; from then on calls do nothing.
 */
#ifndef TARRY_TESTS_CONTRACT_WORLD_H
#define TARRY_TESTS_CONTRACT_WORLD_H

#include "client.h"
#include "model.h"

#include <stdio.h>

enum { WORLD_LEASES_MAX = 256, WORLD_NAMES_MAX = 256, WORLD_BODY_BYTES_MAX = 4096 };

struct world_name {
    char topic[JOB_TOPIC_BYTES_MAX + 1], id[JOB_ID_BYTES_MAX + 1];
};

struct world {
    struct client client;
    struct model model;
    int64_t start_ms;
    char fault[1024]; /* empty: no fault */
    FILE *trace;      /* prints the commands; NULL: silent */
    char leases[WORLD_LEASES_MAX][QUEUE_LEASE_TEXT_BYTES_MAX + 1]; /* the last ones given */
    size_t lease_count;
    uint64_t delivery_max;                    /* not promised to rise over shards; for the trace */
    struct world_name names[WORLD_NAMES_MAX]; /* ids ever used */
    size_t name_count;
    bool quick;        /* compare the answers only */
    uint64_t received; /* events that had to come, and did */
};

void world_open(struct world *world, const struct driver *driver, uint32_t topics_max, FILE *trace);
void world_close(struct world *world);

/* The replies live until the next call; all empty once there is a fault. */
const struct queue_reply *world_push(struct world *, const struct queue_push *, size_t count);
const struct queue_reply *world_take(struct world *, const struct queue_take *);
const struct queue_reply *world_answer(struct world *, const struct queue_answer *, size_t count);
const struct queue_reply *world_change(struct world *, const struct queue_change *, size_t count);
const struct queue_reply *world_find(struct world *, const struct queue_find *, size_t count);
const struct queue_reply *world_topic(struct world *, const struct queue_topic_call *);
/* Follows the cursor to the end. */
void world_list(struct world *, const struct queue_list *);
void world_advance(struct world *, int64_t ms);
void world_reopen(struct world *);

/* ---- between world.c and check.c ---- */

void world_fail(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Compares all there is to see. */
void check_everything(struct world *world);
/* Compares a job as shown with the model's, and pins what the model left open. */
void check_job(struct world *world, const char *where, struct model_job *job,
               const struct queue_job *shown, bool with_body);
void check_list(struct world *world, const struct queue_list *list);
/* Pins the choice that the result leaves open. */
void check_result(struct world *world, const char *what, size_t at,
                  const struct model_result *expected, const struct queue_result *result);

/* ---- trace.c: in words ---- */
void trace_push(struct world *, const struct queue_push *, const struct queue_result *);
void trace_take(struct world *, const struct queue_take *, const struct queue_reply *);
void trace_answer(struct world *, const struct queue_answer *, const struct queue_result *);
void trace_change(struct world *, const struct queue_change *, const struct queue_result *);
void trace_topic(struct world *, const struct queue_topic_call *, const struct queue_reply *);
void trace_line(struct world *, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
