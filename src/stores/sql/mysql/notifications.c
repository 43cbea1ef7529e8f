/* What servers report to each other with a transaction: counts, notifications about topics, and
 * messages with events. */
#include "base/clock.h"
#include "sql/mysql/link.h"

#include <stdio.h>

/* ---- counts and notifications ---- */

enum {
    NOTIFICATION_MS = 5000, /* a transaction that wrote a notification has ended after this time */
    RECEIVED_MAX = 1024
};

static bool was_received(struct mysql_link *link, uint64_t number)
{
    for (size_t i = 0; i < link->inbox.received.count; i++)
        if (link->inbox.received.at[i] == number)
            return true;
    if (link->inbox.received.count < RECEIVED_MAX)
        return !mysql_sequence_list_add(&link->inbox.received, number);
    link->inbox.received.at[link->inbox.received_next++ % RECEIVED_MAX] = number;
    return false;
}

/* Reads notifications. Earlier ones are not needed: each new connection discards all bounds. */
static bool read_notifications(struct mysql_link *link, const struct mysql_step *step,
                               MYSQL_RES *result)
{
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct sql_notification notification = {.due_ms = INT64_MAX};
        if (was_received(link, (uint64_t)mysql_number(row[0])))
            continue;
        (void)snprintf(notification.name, sizeof notification.name, "%s", row[2]);
        if (row[1][0] == 'r')
            notification.due_ms = mysql_number(row[3]);
        notification.changed = row[1][0] == 't';
        notification.look = row[1][0] == 'l';
        notification.died = row[1][0] == 'd';
        notification.batched = row[1][0] == 'b';
        link->batches.must_fold = link->batches.must_fold || notification.batched;
        if (!sql_notification_list_add(&link->inbox.notifications, notification))
            return false;
    }
    return true;
}

/* Appends a query for notifications of other servers from the last seconds. Repeated ones are
 * recognized later. */
void mysql_append_poll(struct mysql_link *link)
{
    struct buffer *out = mysql_statement(link, read_notifications);
    buffer_append_text(out, "SELECT n,what,name,due FROM tarry.notification WHERE at>");
    mysql_append_now(link, out);
    buffer_append_format(out, "-%d AND server<>%lld", NOTIFICATION_MS,
                         (long long)link->context->server);
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
        "fresh",       "retry",     "leased",   "dead",     "dead_bytes", "pushed",
        "acked",       "cancelled", "expired",  "replaced", "delivered",  "nacked",
        "lease_ended", "died",      "redriven", "kept",     "kept_bytes"};
    const struct sql_tallies *tallies = &link->context->effects.tallies;
    struct buffer *out;
    int counted[SQL_COUNTS], columns = 0;
    for (int k = 0; k < SQL_COUNTS; k++)
        if (is_counted(tallies, k))
            counted[columns++] = k;
    if (!columns)
        return;
    out = mysql_statement_repeated(link, NULL);
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

static void append_one_notification(struct mysql_link *link, struct buffer **out, char what,
                                    const char *name, int64_t due_ms)
{
    if (!*out) {
        *out = mysql_statement(link, NULL);
        buffer_append_text(*out,
                           "INSERT INTO tarry.notification (at,server,what,name,due) VALUES ");
    } else {
        buffer_append_byte(*out, ',');
    }
    buffer_append_format(*out, "(%lld,%lld,'%c','%s',%lld)", (long long)link->now_ms,
                         (long long)link->context->server, what, name, (long long)due_ms);
}

/* Appends notifications. Jobs due from now on are found by other servers' own checks, so only jobs
 * behind their bounds need a notification. */
void mysql_append_notifications(struct mysql_link *link)
{
    const struct sql_notification_list *list = &link->context->effects.notifications;
    struct buffer *out = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct sql_notification *notification = &list->at[i];
        if (notification->due_ms < link->now_ms)
            append_one_notification(link, &out, 'r', notification->name, notification->due_ms);
        if (notification->changed)
            append_one_notification(link, &out, 't', notification->name, 0);
        if (notification->look)
            append_one_notification(link, &out, 'l', notification->name, 0);
        if (notification->died)
            append_one_notification(link, &out, 'd', notification->name, 0);
    }
}

/* ---- messages ---- */

/* The changes made by the transactions of all servers, in a table that servers with listeners read.
 * A server's messages are committed one after the other, so the reader stores one position per
 * server. A server with listeners also reads its own messages. Only this keeps the events of a job
 * in order if several servers changed it. */

enum {
    MESSAGE_BYTES_MAX = 60000,
    SECOND_BYTES_MAX = 2 << 20, /* limit per server; further events are only counted */
    READ_MAX = 200,             /* messages per query */
    UNREAD_MS = 20000,          /* the upkeep has deleted older messages */
    PEER_US_MAX = 60000000      /* a server that was silent for this time is forgotten */
};

static size_t bytes_left(struct mysql_link *link)
{
    int64_t now_us = clock_boot_us();
    if (now_us - link->outbox.second_us >= 1000000) {
        link->outbox.second_us = now_us;
        link->outbox.second_bytes = 0;
    }
    return link->outbox.second_bytes < SECOND_BYTES_MAX
               ? SECOND_BYTES_MAX - link->outbox.second_bytes
               : 0;
}

/* Returns true if this server will read the message, by the condition of its query. */
static bool will_be_read(const struct mysql_link *link)
{
    return link->inbox.listens_since_ms && link->now_ms >= link->inbox.listens_since_ms;
}

void mysql_append_messages(struct mysql_link *link)
{
    const struct sql_effects *effects = &link->context->effects;
    struct slice lines = buffer_slice(&effects->events);
    uint64_t lost = effects->events_lost;
    struct buffer *out = NULL;
    link->context->effects.events_return = will_be_read(link);
    while (lines.len || lost) {
        size_t left = bytes_left(link);
        struct slice part =
            sql_event_take_lines(&lines, left < MESSAGE_BYTES_MAX ? left : MESSAGE_BYTES_MAX);
        if (!part.len) {
            lost += sql_event_count(lines);
            lines = (struct slice){0};
        }
        link->outbox.second_bytes += part.len;
        if (!out) {
            out = mysql_statement(link, NULL);
            buffer_append_text(out,
                               "INSERT INTO tarry.message (at,server,number,lost,text) VALUES ");
        }
        buffer_append_format(out, "%s(%lld,%lld,%llu,%llu,", link->outbox.written ? "," : "",
                             (long long)link->now_ms, (long long)link->context->server,
                             (unsigned long long)(link->outbox.number + link->outbox.written + 1),
                             (unsigned long long)lost);
        mysql_quote(out, part);
        buffer_append_byte(out, ')');
        link->outbox.written++;
        lost = 0;
    }
}

static void messages_drop(struct mysql_link *link)
{
    if (link->inbox.messages)
        libmariadb.mysql_free_result(link->inbox.messages);
    link->inbox.messages = NULL;
}

/* Starts or stops reading. This server has already reported its own events up to this millisecond
 * to the local feed. */
void mysql_messages_listen(struct mysql_link *link, bool listens)
{
    if (!listens)
        link->inbox.peers.count = 0;
    if (!listens || !link->inbox.listens_since_ms)
        link->inbox.listens_since_ms = listens ? link->now_ms + 1 : 0;
}

static void forget_peers(struct mysql_link *link)
{
    struct mysql_peers *peers = &link->inbox.peers;
    int64_t now_us = clock_boot_us();
    for (size_t i = peers->count; i > 0; i--)
        if (now_us - peers->at[i - 1].read_us > PEER_US_MAX)
            peers->at[i - 1] = peers->at[--peers->count];
}

static bool read_messages(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    size_t count = (size_t)libmariadb.mysql_num_rows(result);
    messages_drop(link);
    if (!mysql_peers_reserve(&link->inbox.peers, link->inbox.peers.count + count))
        return false;
    link->inbox.messages = mysql_result_take(link);
    step->call->has_more = count == READ_MAX;
    return true;
}

/* Appends a query that finds the new messages by index only, and then reads their texts. */
static void append_messages_since(struct mysql_link *link, struct sql_call *call)
{
    const struct mysql_peers *peers = &link->inbox.peers;
    struct buffer *out;
    if (!link->inbox.listens_since_ms)
        return;
    forget_peers(link);
    out = mysql_statement_of(link, (struct mysql_step){.read = read_messages, .call = call});
    buffer_append_text(out, "SELECT m.n,m.server,m.number,CONCAT(m.at,' ',m.lost,CHAR(10),m.text) "
                            "FROM (SELECT n FROM tarry.message FORCE INDEX (message_at) WHERE "
                            "at>=");
    mysql_append_now(link, out);
    buffer_append_format(out, "-%d AND (", UNREAD_MS);
    for (size_t i = 0; i < peers->count; i++)
        buffer_append_format(out, "server=%lld AND n>%llu OR ", (long long)peers->at[i].server,
                             (unsigned long long)peers->at[i].n);
    buffer_append_format(out, "at>=%lld", (long long)link->inbox.listens_since_ms);
    for (size_t i = 0; i < peers->count; i++)
        buffer_append_format(out, "%s%lld", i ? "," : " AND server NOT IN (",
                             (long long)peers->at[i].server);
    buffer_append_format(out,
                         "%s) ORDER BY n LIMIT %d) x STRAIGHT_JOIN tarry.message m ON m.n=x.n "
                         "ORDER BY m.n",
                         peers->count ? ")" : "", READ_MAX);
}

void mysql_append_messages_since(struct mysql_link *link)
{
    EACH_CALL(link, call)
    if (call->kind == SQL_CALL_POLL)
        append_messages_since(link, call);
}

/* Returns the peer of a server, and creates it if necessary. */
static struct mysql_peer *peer_of(struct mysql_link *link, int64_t server)
{
    struct mysql_peers *peers = &link->inbox.peers;
    for (size_t i = 0; i < peers->count; i++)
        if (peers->at[i].server == server)
            return &peers->at[i];
    (void)mysql_peers_add(peers, (struct mysql_peer){.server = server}); /* space is reserved */
    return &peers->at[peers->count - 1];
}

bool mysql_next_message(struct mysql_link *link, struct sql_notification *out)
{
    enum { N, SERVER, NUMBER, TEXT };
    MYSQL_ROW row = link->inbox.messages ? libmariadb.mysql_fetch_row(link->inbox.messages) : NULL;
    if (!row) {
        messages_drop(link);
        return false;
    }
    struct mysql_peer *peer = peer_of(link, mysql_number(row[SERVER]));
    uint64_t number = (uint64_t)mysql_number(row[NUMBER]);
    *out = (struct sql_notification){
        .due_ms = INT64_MAX,
        .misses_events = peer->number && number != 1 && number != peer->number + 1,
        .events =
            slice_make(row[TEXT], libmariadb.mysql_fetch_lengths(link->inbox.messages)[TEXT])};
    peer->n = (uint64_t)mysql_number(row[N]);
    peer->number = number;
    peer->read_us = clock_boot_us();
    return true;
}

void mysql_messages_free(struct mysql_link *link)
{
    messages_drop(link);
    mysql_peers_fini(&link->inbox.peers);
}
