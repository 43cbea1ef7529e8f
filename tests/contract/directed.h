/*
 * directed: one claim each, on a fresh world. The model also checks every step.
 *
 * The helpers name jobs by topic "t" unless another is given, and stop the claim at the first
 * difference.
 */
#ifndef TARRY_TESTS_CONTRACT_DIRECTED_H
#define TARRY_TESTS_CONTRACT_DIRECTED_H

#include "queue/status.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

extern struct world *w; /* the world of the running claim */

/* ---- pushes ---- */
/* The topic of the running claim: "t", unless the claim sets another one. */
extern const char *claim_topic;

struct queue_push a_push(const char *id); /* due immediately, body "body of <id>" */
struct queue_push a_push_in(const char *id, int64_t delay_ms);
enum queue_status push(struct queue_push push);

/* ---- taking ---- */
/* Takes one job and expects it to be `id` ("": no job is ready). Returns its lease, good until
 * the next 16 takes. */
struct slice take(const char *id);
struct slice take_for(const char *id, int64_t lease_ms);
struct slice take_as(const char *id, const char *consumer, int64_t lease_ms);
size_t take_many(const char *topic, uint32_t max);

/* ---- answers and changes ---- */
enum queue_status ack(struct slice lease);
enum queue_status nack(struct slice lease, int64_t delay_ms, const char *error);
enum queue_status extend(struct slice lease, int64_t lease_ms);
enum queue_status refuse(struct slice lease, const char *error); /* a final nack */
enum queue_status give_back(struct slice lease);
enum queue_status give_back_for(struct slice lease, int64_t delay_ms);
enum queue_status again(struct slice lease, struct queue_again again);
enum queue_status again_in(struct slice lease, int64_t delay_ms); /* as it is */
enum queue_status cancel(const char *id);
enum queue_status cancel_dead(const char *id,
                              uint64_t delivery); /* only if it died with that one */
enum queue_status cancel_by(const char *id,
                            struct slice lease); /* only if it waits since that one */
enum queue_status request_cancel(const char *id);
bool is_asked_to_cancel(void); /* as in the last answer */
enum queue_status run(const char *id);
enum queue_status reschedule_in(const char *id, int64_t delay_ms);

/* ---- topics ---- */
enum queue_status topic_call(enum queue_topic_verb verb);
enum queue_status put(struct topic_settings settings);
struct queue_topic figures(void);
uint64_t affected(void); /* of the last topic call */

/* ---- looking ---- */
enum job_state state_of(const char *id); /* 0: not found */
struct job job_of(const char *id);       /* zeroed: not found */
size_t history_of(const char *id, struct job_attempt out[JOB_HISTORY_MAX]);
uint64_t received(void); /* events so far that had to come, and did */
void pass(int64_t ms);
void restart(void);
int64_t now_ms(void);

/* The claims. */
extern const struct CMUnitTest directed_push[], directed_deliver[], directed_change[],
    directed_topic[], directed_failure[], directed_event[], directed_holder[], directed_choice[],
    directed_life[], directed_again[], directed_once[], directed_sweep[], directed_after[],
    directed_finished[], directed_flow[], directed_batches[], random_batches[];
extern const size_t directed_push_count, directed_deliver_count, directed_change_count,
    directed_topic_count, directed_failure_count, directed_event_count, directed_holder_count,
    directed_choice_count, directed_life_count, directed_again_count, directed_once_count,
    directed_sweep_count, directed_after_count, directed_finished_count, directed_flow_count,
    directed_batches_count;

int directed_begin(void **state);
int directed_end(void **state);
void directed_choose(const struct driver *driver);

#define CLAIM(NAME) cmocka_unit_test_setup_teardown(NAME, directed_begin, directed_end)

#endif
