/* The topics of a transaction: their numbers, settings and lanes, read again in each transaction. */
#include "sql/mysql/turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOPICS_KEPT = 5000 };

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
    COLUMN_HAS_EXTENSION,
    COLUMN_LANES
};

static const char columns[] =
    "SELECT topic,name,paused,paused_until,lease,ttl,backoff_kind,backoff_first,backoff_max,"
    "max_attempts,on_conflict,priority,dead_letter_expired,dedup_window,max_jobs,history,"
    "COALESCE(LENGTH(extension),0),(SELECT GROUP_CONCAT(l.lane) FROM tarry.lane l WHERE "
    "l.topic=t.topic) FROM tarry.topic t WHERE ";

static void topic_free(struct mysql_link *link, struct mysql_topic *topic)
{
    table_remove(&link->names.table, &topic->by_name);
    if (topic->number)
        table_remove(&link->numbers.table, &topic->by_number);
    free(topic->lanes);
    free(topic);
}

void mysql_topics_free(struct mysql_link *link)
{
    struct table_entry *entry;
    while ((entry = table_first(&link->names.table)))
        topic_free(link, mysql_names_of(entry));
    table_fini(&link->names.table);
    table_fini(&link->numbers.table);
    mysql_topic_list_fini(&link->wanted);
    link->wanted = (struct mysql_topic_list){0};
}

static bool want(struct mysql_link *link, struct mysql_topic *topic)
{
    if (topic->is_wanted)
        return true;
    topic->is_wanted = mysql_topic_list_add(&link->wanted, topic);
    topic->is_read = topic->is_to_be_made = topic->is_made = topic->is_pushed_to = false;
    topic->take_max = 0;
    topic->is_looked[0] = topic->is_looked[1] = topic->looks_back = false;
    topic->next_ms[0] = topic->next_ms[1] = INT64_MAX;
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
    mysql_names_add(&link->names, topic);
    return topic;
}

/* Finds or creates a topic by its number. A number that is unknown or no longer valid gets a
 * placeholder name, which no real topic has, until it is read. */
static struct mysql_topic *topic_of_number(struct mysql_link *link, uint32_t number)
{
    char name[32];
    (void)snprintf(name, sizeof name, "?%u", number);
    struct mysql_topic *topic = mysql_names_find(&link->names, slice_of(name));
    if (!topic)
        topic = topic_new(link, slice_of(name));
    if (topic && topic->number != number) {
        topic->number = number;
        mysql_numbers_add(&link->numbers, topic);
    }
    return topic;
}

struct mysql_topic *mysql_topic_want(struct mysql_link *link, struct slice name)
{
    struct mysql_topic *topic = mysql_names_find(&link->names, name);
    if (!topic)
        topic = topic_new(link, name);
    return topic && want(link, topic) ? topic : NULL;
}

struct mysql_topic *mysql_topic_want_number(struct mysql_link *link, uint32_t number)
{
    struct mysql_topic *topic =
        mysql_numbers_find(&link->numbers, slice_make(&number, sizeof number));
    if (!topic)
        topic = topic_of_number(link, number);
    return topic && want(link, topic) ? topic : NULL;
}

bool mysql_topics_are_read(const struct mysql_link *link)
{
    for (size_t i = 0; i < link->wanted.count; i++)
        if (!link->wanted.at[i]->is_read)
            return false;
    return true;
}

bool mysql_topics_are_known(const struct mysql_link *link)
{
    for (size_t i = 0; i < link->wanted.count; i++)
        if (!link->wanted.at[i]->number)
            return false;
    return true;
}

static void detach(struct mysql_link *link, struct mysql_topic *topic)
{
    if (topic->number)
        table_remove(&link->numbers.table, &topic->by_number);
    topic->number = 0;
}

/* Assigns the number to the topic. */
static void attach(struct mysql_link *link, struct mysql_topic *topic, uint32_t number)
{
    struct mysql_topic *other =
        mysql_numbers_find(&link->numbers, slice_make(&number, sizeof number));
    if (other == topic)
        return;
    link->has_moved = true;
    detach(link, topic);
    if (other)
        detach(link, other);
    topic->number = number;
    mysql_numbers_add(&link->numbers, topic);
}

static void read_settings(struct mysql_topic *topic, MYSQL_ROW row)
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
    settings->policy.max_attempts = (uint32_t)mysql_number(row[COLUMN_ATTEMPTS_MAX]);
    settings->on_conflict = (enum record_conflict)mysql_number(row[COLUMN_CONFLICT]);
    settings->has_priority = row[COLUMN_PRIORITY] != NULL;
    settings->priority = (int32_t)mysql_number(row[COLUMN_PRIORITY]);
    settings->dead_letter_expired = mysql_number(row[COLUMN_DEAD_LETTER]) != 0;
    settings->dedup_window_ms = mysql_number(row[COLUMN_DEDUP]);
    settings->max_jobs = (uint64_t)mysql_number(row[COLUMN_JOBS_MAX]);
    settings->history_ms = mysql_number(row[COLUMN_HISTORY]);
    topic->has_extension = mysql_number(row[COLUMN_HAS_EXTENSION]) > 0;
}

bool mysql_topic_add_lane(struct mysql_topic *topic, int32_t lane)
{
    if (topic->lane_count == topic->lane_cap) {
        size_t cap = topic->lane_cap ? topic->lane_cap * 2 : 8;
        int32_t *lanes = realloc(topic->lanes, cap * sizeof *lanes);
        if (!lanes)
            return false;
        topic->lanes = lanes;
        topic->lane_cap = cap;
    }
    topic->lanes[topic->lane_count++] = lane;
    return true;
}

static int lane_compare(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Parses numbers separated by commas. Lanes are never removed. */
static bool read_lanes(struct mysql_link *link, struct mysql_topic *topic, const char *text)
{
    size_t before = topic->lane_count;
    topic->lane_count = 0;
    while (text && *text) {
        char *end;
        if (!mysql_topic_add_lane(topic, (int32_t)strtol(text, &end, 10)))
            return false;
        text = *end ? end + 1 : end;
    }
    if (topic->lane_count)
        qsort(topic->lanes, topic->lane_count, sizeof *topic->lanes, lane_compare);
    link->has_moved = link->has_moved || topic->lane_count > before;
    return true;
}

static bool read_topics(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    (void)step;
    MYSQL_ROW row;
    uint64_t most;
    size_t asked = link->wanted.count;
    for (size_t i = 0; i < asked; i++)
        link->wanted.at[i]->is_found = link->wanted.at[i]->is_read;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        const unsigned long *lengths = libmariadb.mysql_fetch_lengths(result);
        struct mysql_topic *topic;
        if (!row[COLUMN_NAME])
            continue; /* deleted: its number is unused */
        topic = mysql_topic_want(link, slice_make(row[COLUMN_NAME], lengths[COLUMN_NAME]));
        if (!topic)
            return false;
        attach(link, topic, (uint32_t)mysql_number(row[COLUMN_NUMBER]));
        most = topic->settings.max_jobs;
        read_settings(topic, row);
        link->has_moved = link->has_moved || topic->settings.max_jobs != most;
        if (!read_lanes(link, topic, row[COLUMN_LANES]))
            return false;
        topic->is_read = topic->is_found = true;
    }
    for (size_t i = 0; i < asked; i++) {
        struct mysql_topic *topic = link->wanted.at[i];
        if (!topic->is_found && topic->number) {
            detach(link, topic);
            link->has_moved = true;
        }
        topic->is_read = true;
    }
    return true;
}

/* Appends a condition for the topics that have not been read yet. */
static void append_wanted(struct mysql_link *link, struct buffer *out)
{
    bool has_names = false, has_numbers = false;
    for (size_t i = 0; i < link->wanted.count; i++) {
        struct mysql_topic *topic = link->wanted.at[i];
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
    for (size_t i = 0; i < link->wanted.count; i++) {
        struct mysql_topic *topic = link->wanted.at[i];
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

void mysql_append_topics(struct mysql_link *link)
{
    struct buffer *out;
    if (mysql_topics_are_read(link))
        return;
    out = mysql_statement(link, read_topics);
    buffer_append_text(out, columns);
    append_wanted(link, out);
}

bool mysql_topic_has_lane(const struct mysql_topic *topic, int32_t lane)
{
    for (size_t i = 0; i < topic->lane_count; i++)
        if (topic->lanes[i] == lane)
            return true;
    return false;
}

void mysql_topics_begin(struct mysql_link *link)
{
    for (size_t i = 0; i < link->wanted.count; i++)
        link->wanted.at[i]->is_wanted = false;
    link->wanted.count = 0;
    if (link->names.table.count > TOPICS_KEPT)
        mysql_topics_free(link);
}
