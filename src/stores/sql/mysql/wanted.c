/* The topics that the calls of a transaction name, and creation of the missing ones. */
#include "sql/mysql/turn.h"

#include <stdlib.h>

static bool want_item_topics(struct mysql_link *link, struct sql_call *call)
{
    const struct command *command = call->command;
    bool is_good = true;
    call->items = calloc(command->count ? command->count : 1, sizeof *call->items);
    link->has_rows = true;
    for (size_t i = 0; call->items && i < command->count && is_good; i++) {
        struct sql_lease lease;
        if (!command_item_is_good(command, i, &call->items[i]))
            continue;
        call->items[i].status = QUEUE_UNAVAILABLE;
        if (command->kind == COMMAND_PUSH) {
            struct mysql_topic *topic = mysql_topic_want(link, command->pushes[i].topic);
            link->has_pushes = true;
            is_good = topic != NULL;
            if (topic)
                topic->is_pushed_to = true;
        } else if (command->kind == COMMAND_CHANGE) {
            is_good = mysql_topic_want(link, command->changes[i].topic) != NULL;
        } else if (sql_lease_parse(command->answers[i].lease, &link->context->key, &lease)) {
            is_good = mysql_topic_want_number(link, lease.topic) != NULL;
        }
    }
    return call->items && is_good;
}

static bool want_looked(struct mysql_link *link, struct sql_call *call)
{
    enum { LOOKED_MAX = 500 };
    struct table *table = &link->context->topics.table;
    size_t count = 0;
    bool is_full = false;
    for (struct table_entry *entry = table_first(table); entry; entry = table_next(table, entry)) {
        struct sql_topic *topic = sql_topics_of(entry);
        bool is_wanted = call->from_the_start ? !topic->in_round : topic->look;
        if (!topic->watched || !(is_wanted || topic->asked))
            continue;
        is_full = is_full || count >= LOOKED_MAX;
        if (is_full)
            continue;
        count++;
        topic->look = false;
        topic->asked = true;
        topic->in_round = topic->in_round || call->from_the_start;
        if (!mysql_topic_want(link, topic->entry.key))
            return false;
    }
    /* All topics have been checked from 0. The next check begins another round. */
    for (struct table_entry *entry = table_first(table); call->from_the_start && !is_full && entry;
         entry = table_next(table, entry))
        sql_topics_of(entry)->in_round = false;
    return true;
}

static bool want_command_topics(struct mysql_link *link, struct sql_call *call)
{
    const struct command *command = call->command;
    struct mysql_topic *topic;
    switch (command->kind) {
    case COMMAND_PUSH:
    case COMMAND_CHANGE:
    case COMMAND_ANSWER:
        return want_item_topics(link, call);
    case COMMAND_TAKE:
        link->has_takes = true;
        link->has_rows = link->has_rows || command->take.id.len;
        for (size_t i = 0; i < command->take.topic_count; i++)
            if (!mysql_topic_want(link, command->take.topics[i]))
                return false;
        return true;
    case COMMAND_LIST:
        return mysql_topic_want(link, command->list.topic) != NULL;
    case COMMAND_TOPIC:
        topic = mysql_topic_want(link, command->topic.topic);
        if (topic && command->topic.verb == QUEUE_TOPIC_PUT)
            topic->is_to_be_made = true;
        link->has_rows = link->has_rows || mysql_is_step(call);
        return topic != NULL;
    case COMMAND_FORECAST:
        return !command->forecast.topic.len ||
               mysql_topic_want(link, command->forecast.topic) != NULL;
    case COMMAND_FIND:
    case COMMAND_GET:
    case COMMAND_TOPICS:
        return true;
    }
    return false;
}

bool mysql_want_topics(struct mysql_link *link)
{
    EACH_CALL(link, call)
    {
        bool is_good = true;
        if (call->kind == SQL_CALL_COMMAND)
            is_good = want_command_topics(link, call);
        else if (call->kind == SQL_CALL_LOOK)
            is_good = want_looked(link, call);
        else if (call->kind == SQL_CALL_END || call->kind == SQL_CALL_EXPIRE)
            link->has_rows = true;
        for (size_t i = 0; is_good && i < call->ends.count; i++)
            is_good = mysql_topic_want_number(link, call->ends.at[i].topic) != NULL;
        if (!is_good)
            return false;
    }
    return true;
}

/* ---- new topics ---- */

/* Marks topics that pushes must create. A push whose time is too far ahead does not create its
 * topic. */
void mysql_mark_new_topics(struct mysql_link *link)
{
    EACH_CALL(link, call)
    for (size_t i = 0;
         mysql_has_items(call) && call->command->kind == COMMAND_PUSH && i < call->command->count;
         i++) {
        const struct queue_push *push = &call->command->pushes[i];
        struct queue_result unused;
        struct mysql_topic *topic = mysql_names_find(&link->names, push->topic);
        if (topic && command_item_is_good(call->command, i, &unused) &&
            !mysql_is_far(link->now_ms, &push->when))
            topic->is_to_be_made = true;
    }
}

bool mysql_topics_are_missing(const struct mysql_link *link)
{
    for (size_t i = 0; i < link->wanted.count; i++)
        if (link->wanted.at[i]->is_to_be_made && !link->wanted.at[i]->number)
            return true;
    return false;
}

static bool read_topic_count(struct mysql_link *link, const struct mysql_step *step,
                             MYSQL_RES *result)
{
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    (void)step;
    link->topic_count = row ? mysql_number(row[0]) : 0;
    return true;
}

/* Appends a count of topics, locked so that two servers cannot count at the same time. */
void mysql_append_topic_count(struct mysql_link *link)
{
    buffer_append_text(mysql_statement(link, NULL),
                       "SELECT name FROM tarry.task WHERE name='topics' FOR UPDATE");
    buffer_append_text(mysql_statement(link, read_topic_count),
                       "SELECT COUNT(*) FROM tarry.topic WHERE name IS NOT NULL");
}

void mysql_append_new_topics(struct mysql_link *link)
{
    int64_t count = link->topic_count, most = link->context->topics_max;
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->wanted.count; i++) {
        struct mysql_topic *topic = link->wanted.at[i];
        if (!topic->is_to_be_made || topic->number || (most && count >= most))
            continue;
        count++;
        topic->is_made = true;
        topic->is_read = false;
        if (!out)
            buffer_append_text(out = mysql_statement(link, NULL),
                               "INSERT IGNORE INTO tarry.topic (name) VALUES ");
        else
            buffer_append_byte(out, ',');
        buffer_append_byte(out, '(');
        mysql_quote(out, topic->by_name.key);
        buffer_append_byte(out, ')');
    }
    mysql_append_topics(link);
}
