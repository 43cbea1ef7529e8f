/* The dialect's table: a link, its transactions and its life cycle. */
#include "sql/mysql/mysql.h"
#include "base/error.h"
#include "sql/mysql/client.h"
#include "sql/mysql/link.h"

#include <stdlib.h>
#include <sys/socket.h>

enum { TEXT_BYTES_MAX = 128 << 20 };

static struct mysql_link *link_of(struct sql_link *link)
{
    return (struct mysql_link *)(void *)link;
}

static bool on_send_calls(struct sql_link *base, struct sql_context *context,
                          const struct sql_plan *plan)
{
    struct mysql_link *link = link_of(base);
    link->context = context;
    return mysql_transaction_begin(link, plan) && mysql_pipeline_send(link);
}

static bool on_send_commit(struct sql_link *base, struct sql_context *context,
                           const struct sql_plan *plan)
{
    struct mysql_link *link = link_of(base);
    (void)plan; /* the transaction that the link has begun */
    link->context = context;
    mysql_transaction_commit(link);
    return mysql_pipeline_send(link);
}

static bool on_send_rollback(struct sql_link *base)
{
    struct mysql_link *link = link_of(base);
    mysql_transaction_rollback(link);
    return mysql_pipeline_send(link);
}

/* Continues after a pipeline. Returns true if another pipeline of this part was sent. */
static bool pipeline_is_over(struct mysql_link *link)
{
    if (link->context->effects.failed)
        mysql_note_no_memory(link);
    return link->link.fault.kind == SQL_FAULT_NONE && mysql_transaction_next(link) &&
           link->link.fault.kind == SQL_FAULT_NONE && mysql_pipeline_send(link);
}

static enum sql_progress part_is_over(struct mysql_link *link)
{
    if (link->link.fault.kind == SQL_FAULT_NONE)
        mysql_transaction_part_over(link);
    return SQL_PART_OVER;
}

static enum sql_progress on_advance(struct sql_link *base, struct sql_context *context, int events)
{
    struct mysql_link *link = link_of(base);
    int ready = (events & SQL_READABLE ? MYSQL_WAIT_READ : 0) |
                (events & SQL_WRITABLE ? MYSQL_WAIT_WRITE : 0);
    link->context = context;
    while (link->wire.is_in_flight) {
        enum mysql_pipeline_state state = mysql_pipeline_advance(link, ready);
        if (state == MYSQL_PIPELINE_WAITS)
            return SQL_UNDER_WAY;
        if (state == MYSQL_PIPELINE_LOST)
            return SQL_LOST;
        if (!pipeline_is_over(link))
            return part_is_over(link);
    }
    /* Unexpected input: the database has closed the connection. */
    char byte;
    ssize_t got = recv(libmariadb.mysql_get_socket(link->mysql), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got >= 0) {
        mysql_note_fault(link, SQL_FAULT_GONE, "08006", "the database has ended the connection");
        return SQL_LOST;
    }
    return SQL_UNDER_WAY;
}

static bool on_next_notification(struct sql_link *base, struct sql_notification *out)
{
    struct mysql_link *link = link_of(base);
    if (link->inbox.notified_at < link->inbox.notifications.count) {
        *out = link->inbox.notifications.at[link->inbox.notified_at++];
        return true;
    }
    link->inbox.notified_at = link->inbox.notifications.count = 0;
    return mysql_next_message(link, out);
}

/* ---- life ---- */

static bool on_open(struct sql_client *client, const char *url, struct sql_greeting *out)
{
    struct mysql_link *link = calloc(1, sizeof *link);
    (void)url;
    if (!link)
        return error_text(out->error, sizeof out->error, "out of memory");
    buffer_init(&link->wire.text, TEXT_BYTES_MAX);
    link->link.dialect = &sql_mysql;
    link->mysql = client->connection;
    link->packet_bytes_max = out->packet_bytes_max;
    link->is_mariadb = mysql_version_is_mariadb(libmariadb.mysql_get_server_info(link->mysql));
    mysql_prepared_init(&link->prepared, !link->is_mariadb);
    client->connection = NULL;
    out->link = &link->link;
    return true;
}

static void on_close(struct sql_link *base)
{
    struct mysql_link *link = link_of(base);
    if (link->wire.is_in_flight)
        mysql_pipeline_abandon(link);
    mysql_results_drop(link);
    mysql_rows_clear(link);
    mysql_topics_free(link);
    mysql_messages_free(link);
    libmariadb.mysql_close(link->mysql);
    mysql_results_fini(&link->wire.results);
    mysql_row_list_fini(&link->rows.list);
    mysql_events_fini(&link->history.events);
    mysql_taken_list_fini(&link->takes.list);
    mysql_flow_free(link);
    mysql_batches_free(link);
    mysql_steps_fini(&link->wire.steps);
    mysql_ends_fini(&link->wire.ends);
    mysql_ends_fini(&link->wire.packet_steps);
    sql_notification_list_fini(&link->inbox.notifications);
    mysql_sequence_list_fini(&link->inbox.received);
    buffer_fini(&link->wire.text);
    mysql_prepared_free(&link->prepared);
    free(link);
}

static int on_socket(const struct sql_link *base)
{
    return (int)libmariadb.mysql_get_socket(((const struct mysql_link *)(const void *)base)->mysql);
}

static int on_wants(const struct sql_link *base)
{
    const struct mysql_link *link = (const struct mysql_link *)(const void *)base;
    if (!link->wire.is_in_flight)
        return SQL_READABLE;
    return (link->wire.waits & MYSQL_WAIT_READ ? SQL_READABLE : 0) |
           (link->wire.waits & MYSQL_WAIT_WRITE ? SQL_WRITABLE : 0);
}

static const char *const schemes[] = {"mysql", "mariadb", NULL};

const struct sql_dialect sql_mysql = {
    .name = "mysql",
    .title = "MariaDB and MySQL",
    .schemes = schemes,
    .durable = "an answered push survives a crash of the database and a power cut",
    .frail = "an answered push may be lost in a crash of the database: "
             "innodb_flush_log_at_trx_commit or sync_binlog is not 1, or innodb_doublewrite is off",
    .durable_settings = "set innodb_flush_log_at_trx_commit and sync_binlog to 1 and "
                        "innodb_doublewrite to on",
    .keeps_finished = true,
    .groups = true,
    .strict_groups = true,
    .batches = true,
    .look_ms = 100,
    .look_soon_ms = 10,
    .silence_ms = 15000,
    .product = "MariaDB or MySQL",
    .account = "account",
    .client = &mysql_client,
    .questions = &mysql_questions,
    .is_usable = mysql_is_usable,
    .set_up = mysql_set_up,
    .open = on_open,
    .place = mysql_place,
    .close = on_close,
    .socket = on_socket,
    .wants = on_wants,
    .send_calls = on_send_calls,
    .send_commit = on_send_commit,
    .send_rollback = on_send_rollback,
    .advance = on_advance,
    .next_notification = on_next_notification,
};
