/* model_private: shared parts of the model's files. No other file includes it. */
#ifndef TARRY_TESTS_CONTRACT_MODEL_PRIVATE_H
#define TARRY_TESTS_CONTRACT_MODEL_PRIVATE_H

#include "model.h"

/* ---- due: model_due.c ---- */

struct span model_exactly(int64_t ms);
/* Returns the span from now on. Now was rounded down, so the end is rounded up: never early, at most one millisecond
 * late. */
struct span model_after(const struct model *model, int64_t least_ms, int64_t most_ms);
struct span model_when_to_due(const struct model *model, const struct queue_when *when);
bool model_is_too_far(const struct model *model, const struct queue_when *when);
struct span model_backoff_to_due(const struct model *model, const struct policy *policy,
                                 uint32_t attempt);
/* Delayed until then, or ready. */
void model_set_due(struct model *model, struct model_job *job, struct span due);

/* ---- remembered ids: model_memory.c ---- */

void model_remember(struct model *model, const struct model_job *job, int64_t window_ms);
void model_remember_once(struct model *model, const struct queue_push *push);
/* Returns whether the id or the `once` of the push is remembered. `seems_known`: the answer if the window ends in this
 * millisecond. */
bool model_recall(struct model *model, const struct queue_push *push, bool seems_known);
void model_forget_old(struct model *model);

/* ---- pushes: model_push.c ---- */

/* Acks the leased job and pushes it again. */
void model_again(struct model *model, struct model_job *job, const struct queue_again *again);

/* ---- ends: model_end.c ---- */

void model_free(struct model_job *job); /* what it owns */
/* Starts the successor of a job whose lease ended. Returns false without a successor. */
bool model_start_next(struct model *model, struct model_job *job, enum record_next after);
/* Ends a failed attempt: a retry, or death. `delay_ms` < 0: the backoff's. */
void model_fail(struct model *model, struct model_job *job, enum job_outcome outcome,
                int64_t delay_ms, struct slice error);
void model_expire(struct model *model, struct model_job *job);
/* A topic without an extension has no listener. */
void model_report_death(struct model *model, const struct model_job *job);

/* ---- jobs: model.c ---- */

struct policy model_policy_of(struct model *model, const struct model_job *job);
void model_set_error(struct model_job *job, struct slice error);
void model_show(const struct model_job *job, enum queue_status status, struct model_result *out);

#endif
