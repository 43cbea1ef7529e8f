/*
 * door: the single entry of all calls of a queue. All checks of a call are made here, and no layer behind repeats
 * them; pushes without an id get one. The rules of the caller (queue/caller.h) are applied here, for all protocols:
 * scopes, rates, numbers of jobs, memory, the audit. queue_submit (queue/queue.h) passes through the door.
 *
 * A door belongs to the handle that fronts use, and to its thread. The owner of the handle creates and frees the
 * door.
 */
#ifndef TARRY_QUEUE_DOOR_H
#define TARRY_QUEUE_DOOR_H

#include "queue/queue.h"

/* Creates a door with the only limit that depends on the queue. Ids are generated from the seed, which must come
 * from a good source, and from the wall clock. NULL: out of memory. */
struct queue_door *queue_door_new(uint64_t body_bytes_max, uint64_t seed, int64_t (*wall_ms)(void));
void queue_door_free(struct queue_door *door);

/* Returns whether a job may have this URL as its own callback (JOB_META_CALLBACK). Any thread. */
struct queue_callback_rule {
    bool (*allows)(void *ctx, struct slice url);
    void *ctx;
};
/* Sets the rule for callbacks of jobs that callers push, by whatever protocol and front. Without a rule such pushes are
 * rejected: BAD_OPTION, `callback`. Pushes by tarry itself are not checked: their callbacks were, and again when they
 * are called. On the thread of the handle; `rule` must outlive the queue. */
void queue_rule_callbacks(struct queue *queue, const struct queue_callback_rule *rule);

/* Starts or stops the rejection of new jobs as DRAINING. Pushes by tarry itself and all other calls continue. On
 * the thread of the handle. */
void queue_drain(struct queue *queue, bool on);

/* Check an item: return QUEUE_OK or the reason for a rejection. For QUEUE_BAD_OPTION *detail names the option. An
 * empty id is valid. Pure. */
enum queue_status queue_check_push(const struct queue_push *push, uint64_t body_bytes_max,
                                   const char **detail);
enum queue_status queue_check_change(const struct queue_change *change, const char **detail);
enum queue_status queue_check_answer(const struct queue_answer *answer, uint64_t body_bytes_max,
                                     const char **detail);
enum queue_status queue_check_take(const struct queue_take *take, const char **detail);
enum queue_status queue_check_list(const struct queue_list *list, const char **detail);
enum queue_status queue_check_topic(const struct queue_topic_call *call, const char **detail);
enum queue_status queue_check_group(const struct queue_group_call *call, const char **detail);
enum queue_status queue_check_groups(const struct queue_groups_call *call, const char **detail);

/* Check valid settings against the store: return UNSUPPORTED with the name of the setting, also if only the name of the
 * topic does not allow it (flow_name_is_one_shard), or with NULL if the store has no groups at all; or BAD_OPTION for a
 * limit or rate that is lower than the number of shards, each of which would need a share of it. Pure. */
enum queue_status queue_check_topic_flow(const struct queue_info *info, struct slice topic,
                                         const struct topic_flow *flow, const char **detail);
enum queue_status queue_check_group_flow(const struct queue_info *info, struct slice topic,
                                         const struct group_settings *settings,
                                         const char **detail);
/* Returns whether a topic may have a dedup_window. That of the schedules may not: a schedule that was deleted could
 * not be created again. */
bool queue_topic_may_remember(struct slice topic);

#endif
