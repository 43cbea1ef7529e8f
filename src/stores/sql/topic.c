#include "sql/topic.h"

#include <stdlib.h>

enum { FORGET_ABOVE = 10000, WAIT_MS = 10, WAIT_MS_MAX = 100 };

struct sql_topic *sql_topics_need(struct sql_topics *topics, struct slice name)
{
    struct sql_topic *topic = sql_topics_find(topics, name);
    if (topic || name.len > JOB_TOPIC_BYTES_MAX)
        return topic;
    topic = calloc(1, sizeof *topic);
    if (!topic)
        return NULL;
    memcpy(topic->name, name.at, name.len);
    topic->entry.key = slice_make(topic->name, name.len);
    topic->next_ms = topic->resume_ms = topic->at_ms = INT64_MAX;
    list_init(&topic->looks);
    sql_topics_add(topics, topic);
    return topic;
}

static void drop_all(struct sql_topics *topics, bool watched_too)
{
    struct table_entry *entry = table_first(&topics->table);
    while (entry) {
        struct sql_topic *topic = sql_topics_of(entry);
        entry = table_next(&topics->table, entry);
        if (topic->watched && !watched_too)
            continue;
        list_remove(&topic->looks);
        table_remove(&topics->table, &topic->entry);
        free(topic);
    }
}

void sql_topics_free(struct sql_topics *topics)
{
    drop_all(topics, true);
    table_fini(&topics->table);
}

void sql_topics_forget(struct sql_topics *topics)
{
    if (topics->table.count > FORGET_ABOVE)
        drop_all(topics, false);
}

/* ---- the plan ---- */

void sql_topic_plan_init(struct sql_topic_plan *plan)
{
    list_init(&plan->looks);
}

void sql_topic_plan_fini(struct sql_topic_plan *plan)
{
    sql_topic_times_fini(&plan->times);
}

static int64_t topic_at(const struct sql_topic *topic)
{
    int64_t at = topic->paused ? topic->resume_ms : topic->next_ms;
    return at < topic->hold_ms ? topic->hold_ms : at;
}

bool sql_topic_plan_watch(struct sql_topic_plan *plan, struct sql_topic *topic, bool on)
{
    if (on == topic->watched)
        return true;
    topic->at_ms = topic_at(topic);
    if (on && !sql_topic_times_add(&plan->times, topic))
        return false;
    if (!on)
        sql_topic_times_remove(&plan->times, topic->index);
    topic->watched = on;
    topic->look = topic->look && on;
    return true;
}

void sql_topic_plan_changed(struct sql_topic_plan *plan, struct sql_topic *topic)
{
    topic->at_ms = topic_at(topic);
    if (topic->watched)
        sql_topic_times_changed(&plan->times, topic->index);
}

void sql_topic_plan_look(struct sql_topic_plan *plan, struct sql_topic *topic)
{
    topic->look = topic->watched;
    if (topic->look && list_is_empty(&topic->looks))
        list_add_last(&plan->looks, &topic->looks);
}

bool sql_topic_plan_wants_look(struct sql_topic_plan *plan)
{
    struct list *at = plan->looks.next;
    while (at != &plan->looks) {
        struct sql_topic *topic = list_entry(at, struct sql_topic, looks);
        at = at->next;
        if (topic->look && topic->watched)
            return true;
        if (!topic->asked)
            list_remove(&topic->looks);
    }
    return false;
}

void sql_topic_plan_looked(struct sql_topic_plan *plan, bool is_good)
{
    struct list *at = plan->looks.next;
    while (at != &plan->looks) {
        struct sql_topic *topic = list_entry(at, struct sql_topic, looks);
        at = at->next;
        topic->look = topic->look || (topic->asked && !is_good);
        topic->asked = false;
        if (!topic->look)
            list_remove(&topic->looks);
    }
}

int64_t sql_topic_plan_next_ms(const struct sql_topic_plan *plan)
{
    return plan->times.count ? plan->times.at[0]->at_ms : INT64_MAX;
}

void sql_topic_hear(struct sql_topic *topic, int64_t due_ms)
{
    if (due_ms < topic->bound_ms)
        topic->bound_ms = due_ms;
    if (due_ms < topic->next_ms)
        topic->next_ms = due_ms;
    topic->hold_ms = topic->wait_ms = 0;
}

void sql_topic_seen(struct sql_topic *topic, int64_t next_ms, int64_t now_ms, bool took,
                    bool brought)
{
    topic->next_ms = next_ms;
    topic->bound_ms = next_ms < now_ms ? next_ms : now_ms;
    if (brought || next_ms > now_ms) {
        topic->hold_ms = topic->wait_ms = 0;
    } else if (took) {
        topic->wait_ms = topic->wait_ms ? topic->wait_ms * 2 : WAIT_MS;
        topic->wait_ms = topic->wait_ms < WAIT_MS_MAX ? topic->wait_ms : WAIT_MS_MAX;
        topic->hold_ms = now_ms + topic->wait_ms;
    }
}
