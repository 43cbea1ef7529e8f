/* traits: what holds for a kind of call, one row each, in place of a switch in each store. */
#ifndef TARRY_QUEUE_TRAITS_H
#define TARRY_QUEUE_TRAITS_H

#include "queue/queue.h"

struct command_traits {
    bool has_items; /* each item has its own check and its own result */
    bool has_names; /* each item names a job by topic and id */
    bool writes;    /* changes jobs or settings; the answer waits until the change is durable */
    bool takes;     /* changes leases only */
    bool is_ruled;  /* the rules of the caller apply (queue/caller.h). The lease allows an answer,
                       * and the fronts decide who may read what */
    uint16_t item_bytes, topic_at, id_at; /* size of an item, offsets of its name */
};

/* Indexed by the kind. Row 0 is a call that only reads: GET of a topic or a group, whose kinds also change them. */
extern const struct command_traits command_traits[COMMAND_BATCH + 1];

static inline const struct command_traits *command_traits_of(const struct command *command)
{
    bool is_look = (command->kind == COMMAND_TOPIC && command->topic.verb == QUEUE_TOPIC_GET) ||
                   (command->kind == COMMAND_GROUP && command->group.verb == QUEUE_GROUP_GET);
    return &command_traits[is_look ? 0 : command->kind];
}

static inline bool command_has_items(const struct command *command)
{
    return command_traits[command->kind].has_items;
}

/* Returns the number of items, or 1 if the call has no items. */
static inline size_t command_item_count(const struct command *command)
{
    return command_has_items(command) ? command->count : 1;
}

static inline bool command_writes(const struct command *command)
{
    return command_traits_of(command)->writes;
}

/* Returns whether the call may change something: it writes or takes. */
static inline bool command_acts(const struct command *command)
{
    const struct command_traits *traits = command_traits_of(command);
    return traits->writes || traits->takes;
}

/* Returns whether the call has items that change jobs: a push, an answer, a change. */
static inline bool command_writes_items(const struct command *command)
{
    return command_has_items(command) && command_traits[command->kind].writes;
}

/* Returns the job that an item of a push, change or find names. */
static inline struct queue_find command_item_name(const struct command *command, size_t i)
{
    const struct command_traits *traits = &command_traits[command->kind];
    const char *item = (const char *)command->pushes + i * traits->item_bytes;
    return (struct queue_find){*(const struct slice *)(const void *)(item + traits->topic_at),
                               *(const struct slice *)(const void *)(item + traits->id_at)};
}

/* Returns the number of jobs that a call names: its items, or the job of a get, a take or a redrive. */
size_t command_name_count(const struct command *command);
/* Returns the i-th of these jobs. */
struct queue_find command_name(const struct command *command, size_t i);

#endif
