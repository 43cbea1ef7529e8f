/* Messages with events: the changes made by the transactions of all servers, in a table that
 * servers with listeners read. A server's messages are committed one after the other, so the reader
 * stores one position per server. A server with listeners also reads its own messages. Only this
 * keeps the events of a job in order if several servers changed it. */
#include "base/clock.h"
#include "sql/mysql/turn.h"

enum {
    MESSAGE_BYTES_MAX = 60000,
    SECOND_BYTES_MAX = 2 << 20, /* limit per server; further events are only counted */
    READ_MAX = 200,             /* messages per query */
    UNREAD_MS = 20000,          /* the upkeep has deleted older messages */
    PEER_US_MAX = 60000000      /* a server that was silent for this time is forgotten */
};

/* ---- writing ---- */

static size_t bytes_left(struct mysql_link *link)
{
    int64_t now_us = clock_boot_us();
    if (now_us - link->second_us >= 1000000) {
        link->second_us = now_us;
        link->second_bytes = 0;
    }
    return link->second_bytes < SECOND_BYTES_MAX ? SECOND_BYTES_MAX - link->second_bytes : 0;
}

/* Returns true if this server will read the message, by the condition of its query. */
static bool will_be_read(const struct mysql_link *link)
{
    return link->listens_since_ms && link->now_ms >= link->listens_since_ms;
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
        link->second_bytes += part.len;
        if (!out) {
            out = mysql_statement(link, NULL);
            buffer_append_text(out,
                               "INSERT INTO tarry.message (at,server,number,lost,text) VALUES ");
        }
        buffer_append_format(out, "%s(%lld,%lld,%llu,%llu,", link->messages_said ? "," : "",
                             (long long)link->now_ms, (long long)link->context->server,
                             (unsigned long long)(link->message_number + link->messages_said + 1),
                             (unsigned long long)lost);
        mysql_quote(out, part);
        buffer_append_byte(out, ')');
        link->messages_said++;
        lost = 0;
    }
}

/* ---- reading ---- */

static void messages_drop(struct mysql_link *link)
{
    if (link->messages)
        libmariadb.mysql_free_result(link->messages);
    link->messages = NULL;
}

/* Starts or stops reading. This server has already reported its own events up to this millisecond
 * to the local feed. */
void mysql_messages_listen(struct mysql_link *link, bool listens)
{
    if (!listens)
        link->peers.count = 0;
    if (!listens || !link->listens_since_ms)
        link->listens_since_ms = listens ? link->now_ms + 1 : 0;
}

static void forget_peers(struct mysql_link *link)
{
    struct mysql_peers *peers = &link->peers;
    int64_t now_us = clock_boot_us();
    for (size_t i = peers->count; i > 0; i--)
        if (now_us - peers->at[i - 1].read_us > PEER_US_MAX)
            peers->at[i - 1] = peers->at[--peers->count];
}

static bool read_messages(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    size_t count = (size_t)libmariadb.mysql_num_rows(result);
    messages_drop(link);
    if (!mysql_peers_reserve(&link->peers, link->peers.count + count))
        return false;
    link->messages = mysql_result_take(link);
    step->call->has_more = count == READ_MAX;
    return true;
}

/* Appends a query that finds the new messages by index only, and then reads their texts. */
void mysql_append_messages_since(struct mysql_link *link, struct sql_call *call)
{
    const struct mysql_peers *peers = &link->peers;
    struct buffer *out;
    if (!link->listens_since_ms)
        return;
    forget_peers(link);
    out = mysql_statement_of(link, (struct mysql_step){.read = read_messages, .call = call});
    buffer_append_format(out,
                         "SELECT m.n,m.server,m.number,CONCAT(m.at,' ',m.lost,CHAR(10),m.text) "
                         "FROM (SELECT n FROM tarry.message FORCE INDEX (message_at) WHERE "
                         "at>=@tarry_now-%d AND (",
                         UNREAD_MS);
    for (size_t i = 0; i < peers->count; i++)
        buffer_append_format(out, "server=%lld AND n>%llu OR ", (long long)peers->at[i].server,
                             (unsigned long long)peers->at[i].n);
    buffer_append_format(out, "at>=%lld", (long long)link->listens_since_ms);
    for (size_t i = 0; i < peers->count; i++)
        buffer_append_format(out, "%s%lld", i ? "," : " AND server NOT IN (",
                             (long long)peers->at[i].server);
    buffer_append_format(out,
                         "%s) ORDER BY n LIMIT %d) x STRAIGHT_JOIN tarry.message m ON m.n=x.n "
                         "ORDER BY m.n",
                         peers->count ? ")" : "", READ_MAX);
}

/* Returns the peer of a server, and creates it if necessary. */
static struct mysql_peer *peer_of(struct mysql_link *link, int64_t server)
{
    struct mysql_peers *peers = &link->peers;
    for (size_t i = 0; i < peers->count; i++)
        if (peers->at[i].server == server)
            return &peers->at[i];
    (void)mysql_peers_add(peers, (struct mysql_peer){.server = server}); /* space is reserved */
    return &peers->at[peers->count - 1];
}

bool mysql_next_message(struct mysql_link *link, struct sql_news *out)
{
    enum { N, SERVER, NUMBER, TEXT };
    MYSQL_ROW row = link->messages ? libmariadb.mysql_fetch_row(link->messages) : NULL;
    if (!row) {
        messages_drop(link);
        return false;
    }
    struct mysql_peer *peer = peer_of(link, mysql_number(row[SERVER]));
    uint64_t number = (uint64_t)mysql_number(row[NUMBER]);
    *out = (struct sql_news){
        .due_ms = INT64_MAX,
        .misses_events = peer->number && number != 1 && number != peer->number + 1,
        .events = slice_make(row[TEXT], libmariadb.mysql_fetch_lengths(link->messages)[TEXT])};
    peer->n = (uint64_t)mysql_number(row[N]);
    peer->number = number;
    peer->read_us = clock_boot_us();
    return true;
}

void mysql_messages_free(struct mysql_link *link)
{
    messages_drop(link);
    mysql_peers_fini(&link->peers);
}
