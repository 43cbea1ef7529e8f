/* Data that a transaction writes with its commit: counts, and notifications for other servers. Also
 * reads their notifications. */
#include "sql/mysql/turn.h"

#include <stdio.h>

enum {
    NEWS_MS = 5000, /* a transaction that wrote a notification has ended after this time */
    HEARD_MAX = 1024
};

static bool was_heard(struct mysql_link *link, uint64_t number)
{
    for (size_t i = 0; i < link->heard.count; i++)
        if (link->heard.at[i] == number)
            return true;
    if (link->heard.count < HEARD_MAX)
        return !mysql_sequence_list_add(&link->heard, number);
    link->heard.at[link->heard_next++ % HEARD_MAX] = number;
    return false;
}

/* Reads notifications. Earlier ones are not needed: each new connection discards all bounds. */
static bool read_news(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct sql_news news = {.due_ms = INT64_MAX};
        if (was_heard(link, (uint64_t)mysql_number(row[0])))
            continue;
        (void)snprintf(news.name, sizeof news.name, "%s", row[2]);
        if (row[1][0] == 'r')
            news.due_ms = mysql_number(row[3]);
        news.changed = row[1][0] == 't';
        news.look = row[1][0] == 'l';
        news.died = row[1][0] == 'd';
        if (!sql_news_list_add(&link->news, news))
            return false;
    }
    return true;
}

/* Appends a query for notifications of other servers from the last seconds. Repeated ones are
 * recognized later. */
void mysql_append_hear(struct mysql_link *link)
{
    buffer_append_format(mysql_statement(link, read_news),
                         "SELECT n,what,name,due FROM tarry.news WHERE at>@tarry_now-%d AND "
                         "server<>%lld",
                         NEWS_MS, (long long)link->context->server);
}

static bool is_counted(const struct sql_tallies *tallies, int count)
{
    for (size_t i = 0; i < tallies->count; i++)
        if (tallies->at[i].counts[count])
            return true;
    return false;
}

/* Appends the changed counts. Each column has a cost, so unchanged counts are left out. */
void mysql_append_tallies(struct mysql_link *link)
{
    static const char *const names[SQL_COUNTS] = {
        "fresh",     "retry",  "leased",      "dead",    "dead_bytes",
        "pushed",    "acked",  "cancelled",   "expired", "replaced",
        "delivered", "nacked", "lease_ended", "died",    "redriven"};
    const struct sql_tallies *tallies = &link->context->effects.tallies;
    struct buffer *out;
    int counted[SQL_COUNTS], columns = 0;
    for (int k = 0; k < SQL_COUNTS; k++)
        if (is_counted(tallies, k))
            counted[columns++] = k;
    if (!columns)
        return;
    out = mysql_statement(link, NULL);
    buffer_append_text(out, "INSERT INTO tarry.tally (topic,slot");
    for (int k = 0; k < columns; k++)
        buffer_append_format(out, ",%s", names[counted[k]]);
    buffer_append_text(out, ") VALUES ");
    for (size_t i = 0; i < tallies->count; i++) {
        buffer_append_format(out, "%s(%lld,%lld", i ? "," : "", (long long)tallies->at[i].topic,
                             (long long)link->context->server);
        for (int k = 0; k < columns; k++)
            buffer_append_format(out, ",%lld", (long long)tallies->at[i].counts[counted[k]]);
        buffer_append_byte(out, ')');
    }
    for (int k = 0; k < columns; k++) {
        const char *name = names[counted[k]];
        buffer_append_format(out, "%s%s=%s+VALUES(%s)", k ? "," : " ON DUPLICATE KEY UPDATE ", name,
                             name, name);
    }
}

static void append_one_news(struct mysql_link *link, struct buffer **out, char what,
                            const char *name, int64_t due_ms)
{
    if (!*out) {
        *out = mysql_statement(link, NULL);
        buffer_append_text(*out, "INSERT INTO tarry.news (at,server,what,name,due) VALUES ");
    } else {
        buffer_append_byte(*out, ',');
    }
    buffer_append_format(*out, "(%lld,%lld,'%c','%s',%lld)", (long long)link->now_ms,
                         (long long)link->context->server, what, name, (long long)due_ms);
}

/* Appends notifications. Jobs due from now on are found by other servers' own checks, so only jobs
 * behind their bounds need a notification. */
void mysql_append_news(struct mysql_link *link)
{
    const struct sql_news_list *list = &link->context->effects.news;
    struct buffer *out = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct sql_news *news = &list->at[i];
        if (news->due_ms < link->now_ms)
            append_one_news(link, &out, 'r', news->name, news->due_ms);
        if (news->changed)
            append_one_news(link, &out, 't', news->name, 0);
        if (news->look)
            append_one_news(link, &out, 'l', news->name, 0);
        if (news->died)
            append_one_news(link, &out, 'd', news->name, 0);
    }
}
