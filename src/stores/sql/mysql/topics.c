/* The topics of a transaction: those that its calls name, their numbers, settings and levels, read
 * again in each transaction, and the creation of the missing ones. */
#include "sql/mysql/calls.h"
#include "sql/mysql/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOPICS_KEPT = 5000, TICKET_TOPICS_MAX = 4 };

enum {
    COLUMN_NUMBER,
    COLUMN_NAME,
    COLUMN_PAUSED,
    COLUMN_PAUSED_UNTIL,
    COLUMN_LEASE,
    COLUMN_TTL,
    COLUMN_BACKOFF_KIND,
    COLUMN_BACKOFF_FIRST,
    COLUMN_BACKOFF_MAX,
    COLUMN_ATTEMPTS_MAX,
    COLUMN_CONFLICT,
    COLUMN_PRIORITY,
    COLUMN_DEAD_LETTER,
    COLUMN_DEDUP,
    COLUMN_JOBS_MAX,
    COLUMN_HISTORY,
    COLUMN_KEEP,
    COLUMN_KEEP_MAX,
    COLUMN_KEEP_BYTES,
    COLUMN_KEEP_BODY,
    COLUMN_HAS_KEPT,
    COLUMN_HAS_EXTENSION,
    COLUMN_VERSION,
    COLUMN_LEVELS,
    COLUMN_STEPS,
    COLUMN_FLOW,
    COLUMN_LIMIT,
    COLUMN_GROUP_LIMIT = COLUMN_LIMIT + 4,
    COLUMN_GROUP_JOBS = COLUMN_GROUP_LIMIT + 4,
    COLUMN_GROUP_ORDER,
    COLUMN_ONE_SHARD
};

static const char columns[] =
    "SELECT topic,name,paused,paused_until,lease,ttl,backoff_kind,backoff_first,backoff_max,"
    "max_attempts,on_conflict,priority,dead_letter_expired,dedup_window,max_jobs,history,"
    "keep_finished,keep_finished_max,keep_finished_bytes,keep_body,has_kept,"
    "COALESCE(LENGTH(extension),0),version,(SELECT GROUP_CONCAT(l.level) FROM tarry.level l WHERE "
    "l.topic=t.topic),backoff_steps,flow,lim,rate_count,rate_unit,burst,group_lim,"
    "group_rate_count,group_rate_unit,group_burst,group_max_jobs,group_order,one_shard FROM "
    "tarry.topic t "
    "WHERE ";

static void topic_free(struct mysql_link *link, struct mysql_topic *topic)
{
    table_remove(&link->topics.names.table, &topic->by_name);
    if (topic->number)
        table_remove(&link->topics.numbers.table, &topic->by_number);
    free(topic->levels);
    free(topic);
}

void mysql_topics_free(struct mysql_link *link)
{
    struct table_entry *entry;
    while ((entry = table_first(&link->topics.names.table)))
        topic_free(link, mysql_names_of(entry));
    table_fini(&link->topics.names.table);
    table_fini(&link->topics.numbers.table);
    mysql_topic_list_fini(&link->topics.wanted);
    link->topics.wanted = (struct mysql_topic_list){0};
}

static bool want(struct mysql_link *link, struct mysql_topic *topic)
{
    if (topic->is_wanted)
        return true;
    topic->is_wanted = mysql_topic_list_add(&link->topics.wanted, topic);
    topic->is_read = topic->is_to_be_made = topic->is_made = topic->is_pushed_to = false;
    topic->sets_kept = topic->sets_hold = false;
    topic->take_max = 0;
    topic->is_looked[0] = topic->is_looked[1] = topic->looks_back = false;
    topic->next_ms[0] = topic->next_ms[1] = topic->left_ms = INT64_MAX;
    return topic->is_wanted;
}

static struct mysql_topic *topic_new(struct mysql_link *link, struct slice name)
{
    struct mysql_topic *topic = calloc(1, sizeof *topic);
    if (!topic || name.len >= sizeof topic->name) {
        free(topic);
        return NULL;
    }
    memcpy(topic->name, name.at, name.len);
    topic->by_name.key = slice_make(topic->name, name.len);
    topic->by_number.key = slice_make(&topic->number, sizeof topic->number);
    mysql_names_add(&link->topics.names, topic);
    return topic;
}

/* Finds or creates a topic by its number. A number that is unknown or no longer valid gets a
 * placeholder name, which no real topic has, until it is read. */
static struct mysql_topic *topic_of_number(struct mysql_link *link, uint32_t number)
{
    char name[32];
    (void)snprintf(name, sizeof name, "?%u", number);
    struct mysql_topic *topic = mysql_names_find(&link->topics.names, slice_of(name));
    if (!topic)
        topic = topic_new(link, slice_of(name));
    if (topic && topic->number != number) {
        topic->number = number;
        mysql_numbers_add(&link->topics.numbers, topic);
    }
    return topic;
}

static struct mysql_topic *topic_want(struct mysql_link *link, struct slice name)
{
    struct mysql_topic *topic = mysql_names_find(&link->topics.names, name);
    if (!topic)
        topic = topic_new(link, name);
    return topic && want(link, topic) ? topic : NULL;
}

struct mysql_topic *mysql_topic_want_number(struct mysql_link *link, uint32_t number)
{
    struct mysql_topic *topic =
        mysql_numbers_find(&link->topics.numbers, slice_make(&number, sizeof number));
    if (!topic)
        topic = topic_of_number(link, number);
    return topic && want(link, topic) ? topic : NULL;
}

bool mysql_topics_are_read(const struct mysql_link *link)
{
    for (size_t i = 0; i < link->topics.wanted.count; i++)
        if (!link->topics.wanted.at[i]->is_read)
            return false;
    return true;
}

bool mysql_topics_are_known(const struct mysql_link *link)
{
    for (size_t i = 0; i < link->topics.wanted.count; i++)
        if (!link->topics.wanted.at[i]->number)
            return false;
    return true;
}

static void detach(struct mysql_link *link, struct mysql_topic *topic)
{
    if (topic->number)
        table_remove(&link->topics.numbers.table, &topic->by_number);
    topic->number = 0;
    topic->is_remembered = false;
}

/* Assigns the number to the topic. */
static void attach(struct mysql_link *link, struct mysql_topic *topic, uint32_t number)
{
    struct mysql_topic *other =
        mysql_numbers_find(&link->topics.numbers, slice_make(&number, sizeof number));
    if (other == topic)
        return;
    link->topics.have_moved = true;
    detach(link, topic);
    if (other)
        detach(link, other);
    topic->number = number;
    mysql_numbers_add(&link->topics.numbers, topic);
}

/* Reads limit, rate and burst from four columns. */
static struct flow_limits limits_of(MYSQL_ROW row, int column)
{
    return (struct flow_limits){.limit = (uint32_t)mysql_number(row[column]),
                                .rate = {(uint32_t)mysql_number(row[column + 1]),
                                         (enum frequency_unit)mysql_number(row[column + 2])},
                                .burst = (uint32_t)mysql_number(row[column + 3])};
}

static void read_settings(struct mysql_topic *topic, MYSQL_ROW row, const unsigned long *lengths)
{
    struct topic_settings *settings = &topic->settings;
    topic->paused = mysql_number(row[COLUMN_PAUSED]) != 0;
    topic->paused_until_ms = mysql_number(row[COLUMN_PAUSED_UNTIL]);
    *settings = (struct topic_settings){0};
    settings->policy.lease_ms = mysql_number(row[COLUMN_LEASE]);
    settings->policy.ttl_ms = mysql_number(row[COLUMN_TTL]);
    settings->policy.backoff.kind = (enum backoff_kind)mysql_number(row[COLUMN_BACKOFF_KIND]);
    settings->policy.backoff.first_ms = mysql_number(row[COLUMN_BACKOFF_FIRST]);
    settings->policy.backoff.max_ms = mysql_number(row[COLUMN_BACKOFF_MAX]);
    if (settings->policy.backoff.kind == BACKOFF_LIST)
        sql_steps_read(slice_make(row[COLUMN_STEPS], lengths[COLUMN_STEPS]),
                       &settings->policy.backoff);
    settings->policy.max_attempts = (uint32_t)mysql_number(row[COLUMN_ATTEMPTS_MAX]);
    settings->on_conflict = (enum record_conflict)mysql_number(row[COLUMN_CONFLICT]);
    settings->has_priority = row[COLUMN_PRIORITY] != NULL;
    settings->priority = (int32_t)mysql_number(row[COLUMN_PRIORITY]);
    settings->dead_letter_expired = mysql_number(row[COLUMN_DEAD_LETTER]) != 0;
    settings->dedup_window_ms = mysql_number(row[COLUMN_DEDUP]);
    settings->max_jobs = (uint64_t)mysql_number(row[COLUMN_JOBS_MAX]);
    settings->history_ms = mysql_number(row[COLUMN_HISTORY]);
    settings->keep_finished_ms = mysql_number(row[COLUMN_KEEP]);
    settings->keep_finished_max = (uint64_t)mysql_number(row[COLUMN_KEEP_MAX]);
    settings->keep_finished_bytes = (uint64_t)mysql_number(row[COLUMN_KEEP_BYTES]);
    settings->keep_body = mysql_number(row[COLUMN_KEEP_BODY]) != 0;
    topic->has_kept = mysql_number(row[COLUMN_HAS_KEPT]) != 0;
    topic->has_extension = mysql_number(row[COLUMN_HAS_EXTENSION]) > 0;
    topic->version = (uint64_t)mysql_number(row[COLUMN_VERSION]);
    topic->flow = (int)mysql_number(row[COLUMN_FLOW]);
    settings->flow =
        (struct topic_flow){.topic = limits_of(row, COLUMN_LIMIT),
                            .group = limits_of(row, COLUMN_GROUP_LIMIT),
                            .group_max_jobs = (uint64_t)mysql_number(row[COLUMN_GROUP_JOBS]),
                            .group_order = (enum flow_order)mysql_number(row[COLUMN_GROUP_ORDER]),
                            .one_shard = mysql_number(row[COLUMN_ONE_SHARD]) != 0};
}

bool mysql_topic_add_level(struct mysql_topic *topic, int32_t level)
{
    if (topic->level_count == topic->level_cap) {
        size_t cap = topic->level_cap ? topic->level_cap * 2 : 8;
        int32_t *levels = realloc(topic->levels, cap * sizeof *levels);
        if (!levels)
            return false;
        topic->levels = levels;
        topic->level_cap = cap;
    }
    topic->levels[topic->level_count++] = level;
    return true;
}

static int level_compare(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Parses numbers separated by commas. Levels are never removed. */
static bool read_levels(struct mysql_link *link, struct mysql_topic *topic, const char *text)
{
    size_t before = topic->level_count;
    topic->level_count = 0;
    while (text && *text) {
        char *end;
        if (!mysql_topic_add_level(topic, (int32_t)strtol(text, &end, 10)))
            return false;
        text = *end ? end + 1 : end;
    }
    if (topic->level_count)
        qsort(topic->levels, topic->level_count, sizeof *topic->levels, level_compare);
    link->topics.have_moved = link->topics.have_moved || topic->level_count > before;
    return true;
}

static bool read_topics(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    (void)step;
    MYSQL_ROW row;
    uint64_t most;
    size_t asked = link->topics.wanted.count;
    for (size_t i = 0; i < asked; i++)
        link->topics.wanted.at[i]->is_found = link->topics.wanted.at[i]->is_read;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        const unsigned long *lengths = libmariadb.mysql_fetch_lengths(result);
        struct mysql_topic *topic;
        if (!row[COLUMN_NAME])
            continue; /* deleted: its number is unused */
        topic = topic_want(link, slice_make(row[COLUMN_NAME], lengths[COLUMN_NAME]));
        if (!topic)
            return false;
        attach(link, topic, (uint32_t)mysql_number(row[COLUMN_NUMBER]));
        most = topic->settings.max_jobs;
        bool kept = mysql_topic_keeps(topic);
        int flow = topic->flow;
        read_settings(topic, row, lengths);
        link->topics.have_moved = link->topics.have_moved || topic->settings.max_jobs != most ||
                                  mysql_topic_keeps(topic) != kept || topic->flow != flow;
        if (!read_levels(link, topic, row[COLUMN_LEVELS]))
            return false;
        topic->stored_levels = topic->level_count;
        topic->is_read = topic->is_found = topic->is_remembered = true;
    }
    for (size_t i = 0; i < asked; i++) {
        struct mysql_topic *topic = link->topics.wanted.at[i];
        if (!topic->is_found && topic->number) {
            detach(link, topic);
            link->topics.have_moved = true;
        }
        topic->is_read = true;
    }
    return true;
}

/* Appends a condition for the topics that have not been read yet. */
static void append_wanted(struct mysql_link *link, struct buffer *out)
{
    bool has_names = false, has_numbers = false;
    for (size_t i = 0; i < link->topics.wanted.count; i++) {
        struct mysql_topic *topic = link->topics.wanted.at[i];
        if (topic->is_read || topic->name[0] == '?')
            continue;
        if (has_names)
            buffer_append_byte(out, ',');
        else
            buffer_append_text(out, "name IN (");
        mysql_quote(out, topic->by_name.key);
        has_names = true;
    }
    if (has_names)
        buffer_append_byte(out, ')');
    for (size_t i = 0; i < link->topics.wanted.count; i++) {
        struct mysql_topic *topic = link->topics.wanted.at[i];
        if (topic->is_read || topic->name[0] != '?')
            continue;
        if (has_numbers)
            buffer_append_byte(out, ',');
        else
            buffer_append_text(out, has_names ? " OR topic IN (" : "topic IN (");
        buffer_append_u64(out, topic->number);
        has_numbers = true;
    }
    if (has_numbers)
        buffer_append_byte(out, ')');
}

/* Reads which remembered topics are as they were. All others are read in the next flight. */
static bool read_versions(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    enum { NUMBER, VERSION, LEVELS };
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        uint32_t number = (uint32_t)mysql_number(row[NUMBER]);
        struct mysql_topic *topic =
            mysql_numbers_find(&link->topics.numbers, slice_make(&number, sizeof number));
        if (topic && topic->is_remembered)
            topic->is_read = topic->version == (uint64_t)mysql_number(row[VERSION]) &&
                             topic->stored_levels == (uint64_t)mysql_number(row[LEVELS]);
    }
    link->topics.have_moved = link->topics.have_moved || !mysql_topics_are_read(link);
    return true;
}

static bool topics_are_remembered(const struct mysql_link *link)
{
    for (size_t i = 0; i < link->topics.wanted.count; i++)
        if (!link->topics.wanted.at[i]->is_remembered)
            return false;
    return true;
}

/* Appends a query of versions. The levels of a topic are never removed, so their number shows
 * whether there are new ones. */
static void append_versions(struct mysql_link *link)
{
    struct buffer *out = mysql_statement(link, read_versions);
    buffer_append_text(out, "SELECT topic,version,(SELECT COUNT(*) FROM tarry.level l WHERE "
                            "l.topic=t.topic) FROM tarry.topic t WHERE topic IN (");
    for (size_t i = 0; i < link->topics.wanted.count; i++)
        buffer_append_format(out, "%s%u", i ? "," : "", link->topics.wanted.at[i]->number);
    buffer_append_byte(out, ')');
}

/* Returns whether the transaction searches levels. New jobs and answers need no list of them. */
static bool levels_are_read(const struct mysql_link *link)
{
    EACH_CALL(link, call)
    if (call->kind != SQL_CALL_COMMAND || !sql_call_writes_items(call))
        return true;
    return false;
}

void mysql_append_ticket_topics(struct mysql_link *link, struct buffer *out)
{
    const struct mysql_topic_list *wanted = &link->topics.wanted;
    bool has_levels = levels_are_read(link);
    link->topics.are_in_ticket =
        wanted->count && wanted->count <= TICKET_TOPICS_MAX && topics_are_remembered(link);
    for (size_t i = 0; link->topics.are_in_ticket && i < wanted->count; i++) {
        const struct mysql_topic *topic = wanted->at[i];
        buffer_append_format(out, " JOIN tarry.topic t%zu ON t%zu.topic=%u AND t%zu.version=%llu",
                             i, i, topic->number, i, (unsigned long long)topic->version);
        if (has_levels)
            buffer_append_format(
                out, " AND (SELECT COUNT(*) FROM tarry.level WHERE topic=t%zu.topic)=%llu", i,
                (unsigned long long)topic->stored_levels);
    }
}

void mysql_note_ticket_topics(struct mysql_link *link)
{
    for (size_t i = 0; link->topics.are_in_ticket && i < link->topics.wanted.count; i++)
        link->topics.wanted.at[i]->is_read = true;
}

void mysql_forget_ticket_topics(struct mysql_link *link)
{
    for (size_t i = 0; link->topics.are_in_ticket && i < link->topics.wanted.count; i++)
        link->topics.wanted.at[i]->is_remembered = false;
}

void mysql_append_topics(struct mysql_link *link)
{
    struct buffer *out;
    if (mysql_topics_are_read(link))
        return;
    if (link->transaction.part == MYSQL_PART_BEGIN && topics_are_remembered(link)) {
        append_versions(link);
        return;
    }
    out = mysql_statement(link, read_topics);
    buffer_append_text(out, columns);
    append_wanted(link, out);
}

bool mysql_topic_has_level(const struct mysql_topic *topic, int32_t level)
{
    for (size_t i = 0; i < topic->level_count; i++)
        if (topic->levels[i] == level)
            return true;
    return false;
}

void mysql_topics_begin(struct mysql_link *link)
{
    for (size_t i = 0; i < link->topics.wanted.count; i++)
        link->topics.wanted.at[i]->is_wanted = false;
    link->topics.wanted.count = 0;
    link->topics.are_in_ticket = false;
    if (link->topics.names.table.count > TOPICS_KEPT)
        mysql_topics_free(link);
}

/* ---- topics that calls name ---- */

static bool want_item_topics(struct mysql_link *link, struct sql_call *call)
{
    const struct command *command = call->command;
    bool is_good = true;
    call->items = calloc(command->count ? command->count : 1, sizeof *call->items);
    link->transaction.has_rows = true;
    for (size_t i = 0; call->items && i < command->count && is_good; i++) {
        struct sql_lease lease;
        if (!command_item_is_good(command, i, &call->items[i]))
            continue;
        call->items[i].status = QUEUE_UNAVAILABLE;
        if (command->kind == COMMAND_PUSH) {
            struct mysql_topic *topic = topic_want(link, command->pushes[i].topic);
            link->transaction.has_pushes = true;
            is_good = topic != NULL;
            if (topic)
                topic->is_pushed_to = true;
        } else if (command->kind == COMMAND_CHANGE) {
            is_good = topic_want(link, command->changes[i].topic) != NULL;
        } else if (sql_lease_parse(command->answers[i].lease, &link->context->key, &lease)) {
            is_good = mysql_topic_want_number(link, lease.topic) != NULL;
            link->transaction.has_pushes |= command->answers[i].verb == QUEUE_AGAIN;
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
        if (!topic_want(link, topic->entry.key))
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
        link->transaction.has_takes = true;
        link->transaction.has_rows = link->transaction.has_rows || command->take.id.len;
        for (size_t i = 0; i < command->take.topic_count; i++)
            if (!topic_want(link, command->take.topics[i]))
                return false;
        return true;
    case COMMAND_LIST:
        return topic_want(link, command->list.topic) != NULL;
    case COMMAND_TOPIC:
        topic = topic_want(link, command->topic.topic);
        if (topic && command->topic.verb == QUEUE_TOPIC_PUT)
            topic->is_to_be_made = true;
        link->transaction.has_rows = link->transaction.has_rows || mysql_is_step(call);
        return topic != NULL;
    case COMMAND_FORECAST:
        return !command->forecast.topic.len || topic_want(link, command->forecast.topic) != NULL;
    case COMMAND_GROUPS:
        return topic_want(link, command->groups.topic) != NULL;
    case COMMAND_GROUP:
        topic = topic_want(link, command->group.topic);
        if (topic && command->group.verb == QUEUE_GROUP_PUT)
            topic->is_to_be_made = true;
        return topic != NULL;
    case COMMAND_FIND:
    case COMMAND_GET:
    case COMMAND_TOPICS:
    case COMMAND_BATCH:
    case COMMAND_AWAIT:
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
        else if (call->kind == SQL_CALL_END_LEASES || call->kind == SQL_CALL_EXPIRE)
            link->transaction.has_rows = true;
        for (size_t i = 0; is_good && i < call->ends.count; i++)
            is_good = mysql_topic_want_number(link, call->ends.at[i].topic) != NULL;
        if (!is_good)
            return false;
    }
    return true;
}

/* ---- takes ---- */

bool mysql_topic_is_paused(const struct mysql_link *link, const struct mysql_topic *topic)
{
    return topic->paused && (!topic->paused_until_ms || topic->paused_until_ms > link->now_ms);
}

void mysql_topics_count_takes(struct mysql_link *link)
{
    for (size_t i = 0; i < link->topics.wanted.count; i++)
        link->topics.wanted.at[i]->take_max = 0;
    EACH_CALL(link, call)
    {
        if (call->kind != SQL_CALL_COMMAND || call->command->kind != COMMAND_TAKE ||
            call->status != QUEUE_OK || call->command->take.id.len)
            continue;
        const struct queue_take *take = &call->command->take;
        for (size_t i = 0; i < take->topic_count; i++) {
            struct mysql_topic *topic = mysql_names_find(&link->topics.names, take->topics[i]);
            if (topic && topic->is_wanted)
                topic->take_max = topic->take_max + take->max < MYSQL_NUMBERS
                                      ? topic->take_max + take->max
                                      : MYSQL_NUMBERS;
        }
    }
}

/* ---- new topics ---- */

bool mysql_topics_are_missing(const struct mysql_link *link)
{
    for (size_t i = 0; i < link->topics.wanted.count; i++)
        if (link->topics.wanted.at[i]->is_to_be_made && !link->topics.wanted.at[i]->number)
            return true;
    return false;
}

static bool read_topic_count(struct mysql_link *link, const struct mysql_step *step,
                             MYSQL_RES *result)
{
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    (void)step;
    link->topics.count = row ? mysql_number(row[0]) : 0;
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
    int64_t count = link->topics.count, most = link->context->topics_max;
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->topics.wanted.count; i++) {
        struct mysql_topic *topic = link->topics.wanted.at[i];
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
