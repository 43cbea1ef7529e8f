/*
 * flow: the groups, limits, rates and holds of the topics of an engine (job/flow.h).
 *
 * A topic has a struct flow once it has limits, a grouped job or a group with settings. Until it has groups, its ready jobs stay in
 * the heap of the topic, and only its own limit, rate and hold are checked. With groups, each group has a heap of its ready jobs, and
 * the topic has a heap of the groups that may deliver. A group that is held by its limit leaves that heap until a lease ends; a group
 * without a token, or with a hold or a timed pause, waits in a wheel. So nothing is searched and nothing polls.
 *
 * In a strict topic, a group with a leased job, or with a tried one that waits for its retry, leaves the heap in the same way. All waiting jobs
 * of a strict topic are in memory (engine_keeps_waiting), so none of them is overtaken by one that was loaded earlier. The same holds in a topic
 * whose groups have a maximum number of jobs, because jobs that are only on the disk are not counted in their group.
 *
 * A group exists while a job in memory names it, while it has settings, or until its bucket is full again and its hold has ended.
 */
#ifndef TARRY_ENGINE_FLOW_H
#define TARRY_ENGINE_FLOW_H

#include "engine/ready.h"
#include "wheel/wheel.h"

struct topic;

/* A group, or the bucket of a topic itself, which has no jobs. */
struct group {
    struct wheel_node timer; /* first member, as the wheel requires */
    struct ready_heap ready;
    char *name; /* owned; NULL: the jobs without a group, or the topic */
    struct group_settings
        *settings;         /* owned; NULL: no settings. paused_until_ms by the inner clock */
    int64_t full_us;       /* the bucket (job/flow.h), by the inner clock */
    int64_t hold_until_ms; /* inner clock; 0: no hold */
    uint64_t pass;
    uint32_t topic;
    uint32_t leased;
    uint32_t waiting;     /* its part of topic.waiting */
    uint32_t tried;       /* jobs that wait, ready or not, after an attempt */
    uint32_t unfinished;  /* jobs in memory that wait or are leased */
    uint32_t jobs;        /* references: jobs in memory and successors that name it */
    uint32_t next;        /* chain of the table */
    uint32_t list_at;     /* position in flow.groups */
    uint32_t runnable_at; /* position in flow.runnable + 1; 0: it may not deliver */
    uint8_t name_bytes;
    bool is_topic;  /* the bucket of a topic */
    bool is_active; /* counted in flow.active */
    uint8_t held;   /* enum flow_held of its ready jobs, as of the last change */
};

struct flow {
    uint32_t own;  /* the bucket of the topic */
    uint32_t none; /* the group of the jobs without a group */
    bool is_grouped;
    uint8_t held; /* enum flow_held, as of the last change: its own limit, rate or hold */
    bool is_open; /* likewise: a job can be taken */
    uint64_t pass;
    uint32_t *groups;                /* all groups, first those with settings */
    uint32_t *runnable;              /* a binary heap of groups */
    uint32_t group_count, group_cap; /* both arrays have this room */
    uint32_t runnable_count;
    uint32_t settings_count;              /* groups with settings */
    uint32_t own_max_jobs;                /* groups with max_jobs of their own */
    uint32_t active;                      /* groups with ready or leased jobs */
    uint64_t ready;                       /* jobs in the heaps of groups */
    uint64_t ready_by[FLOW_HELD_REASONS]; /* the same by what holds their group */
};

/* The groups of an engine; NULL until a topic needs them. */
struct flows {
    struct slab groups;
    struct wheel wheel;
    uint32_t *table; /* group_count of the slab, by name and topic; chained */
    uint32_t table_size, named;
};

/* All functions are called by the engine at each change, only for topics with a flow unless documented otherwise. */

struct group *flow_group_at(const struct engine *engine, uint32_t number);
/* Returns its name, which lasts as long as the group. */
struct slice flow_group_name(const struct engine *engine, uint32_t number);
/* Returns the number of shards that share the limits of the topic. Also without a flow. */
uint32_t flow_topic_shares(const struct engine *engine, const struct topic *topic);
/* Finds or makes the group of a topic, and adds a reference to it. The topic need not have a flow. 0: out of memory. */
uint32_t flow_group_hold(struct engine *engine, struct topic *topic, struct slice name);
/* Drops a reference. */
void flow_group_drop(struct engine *engine, uint32_t number);
/* Reserves what these settings need. The topic need not have a flow. False: out of memory. */
bool flow_prepare(struct engine *engine, struct topic *topic, const struct topic_flow *settings);
/* Follows changed settings of a topic. */
void flow_set(struct engine *engine, struct topic *topic, enum flow_order order_before);
/* Forgets the settings and holds of all groups. The topic need not have a flow, as below. */
void flow_forget(struct engine *engine, struct topic *topic);
/* Frees the flow of a topic without jobs. */
void flow_free(struct engine *engine, struct topic *topic);
void flows_free(struct engine *engine);

/* Returns the heap in which a ready job of this group belongs. */
struct ready_heap *flow_heap(struct engine *engine, struct topic *topic, uint32_t number);
void flow_ready_added(struct engine *engine, struct topic *topic, uint32_t number);
void flow_ready_removed(struct engine *engine, struct topic *topic, uint32_t number);
void flow_leased(struct engine *engine, struct topic *topic, uint32_t number, bool begins);
/* Counts a job of topic.waiting, or no longer. */
void flow_waits(struct engine *engine, struct topic *topic, uint32_t number, bool begins);
/* Counts a job that waits after an attempt. */
void flow_tried(struct engine *engine, struct topic *topic, uint32_t number, bool begins);
/* Counts a job that waits or is leased. */
void flow_unfinished(struct engine *engine, struct topic *topic, uint32_t number, bool begins);
/* Returns whether a group has as many jobs as its max_jobs allows, so a new one is rejected. Also of an unknown group. */
bool flow_group_is_full(const struct engine *engine, const struct topic *topic, struct slice name);
/* Counts a delivery that was chosen by the order: its pass and its tokens. */
void flow_delivered(struct engine *engine, struct topic *topic, uint32_t number,
                    struct engine_now now);
/* Follows changes of a group that were made while engine->flow_is_busy was set, and of the pause of the topic. */
void flow_settle(struct engine *engine, struct topic *topic, uint32_t number);
/* Returns the ready job that is delivered next, also of a topic without a flow; NULL: no job can be taken now. */
const struct ready_item *flow_first(struct engine *engine, struct topic *topic,
                                    struct engine_now now);
/* Returns a ready job, also if all are held; NULL: no job is ready in memory. */
const struct ready_item *flow_any(const struct engine *engine, const struct topic *topic);
/* Holds the group of a job, or its topic if the job has no group. False: out of memory. */
bool flow_hold(struct engine *engine, struct topic *topic, uint32_t number, int64_t hold_ms,
               struct engine_now now);
/* Ends a hold of the topic. */
void flow_end_hold(struct engine *engine, struct topic *topic);
/* Sets the figures of flow control: counts.held, held_by and groups. `out` has all other counts. */
void flow_show(const struct topic *topic, struct queue_topic *out);
/* Returns the ready jobs in memory. */
uint64_t flow_ready_count(const struct topic *topic);
/* Returns whether the topic has more than `max` ready jobs in memory, and the group more than its even share of them: jobs of a quiet
 * group stay in memory beside the backlog of another. Also without a flow. */
bool flow_has_over(const struct engine *engine, const struct topic *topic, uint32_t number,
                   uint64_t max);

/* Lets groups whose time has come deliver again: at most `max`. Returns how many. Also without flows. */
size_t flow_advance(struct engine *engine, struct engine_now now, size_t max);
int64_t flow_next_ms(const struct engine *engine);

/* Iterates over the groups with jobs in topic.waiting; start with *at = 0. A topic without a flow has one, the jobs without a
 * group. Returns false after the last. */
bool flow_waiting_next(const struct engine *engine, const struct topic *topic, uint32_t *at,
                       struct slice *group, uint64_t *waiting);

bool flow_replay(struct engine *engine, struct topic *topic, const struct record_group *record);
/* Appends the settings of the next group again, at engine->carry_group. Returns false after the last. */
bool flow_carry(struct engine *engine, const struct topic *topic);
/* Asserts the invariants of a topic. */
void flow_check(const struct engine *engine, const struct topic *topic);

#endif
