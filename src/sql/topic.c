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
    topic->next_ms = topic->resume_ms = INT64_MAX;
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
