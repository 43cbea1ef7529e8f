#include "sql/greeting.h"

#include "base/clock.h"
#include "base/error.h"
#include "sql/schema.h"

#include <stdio.h>
#include <string.h>

/* Asks for one row. Returns false with the reason in the greeting's error. */
static bool ask(struct sql_client *client, struct sql_greeting *out, const char *text,
                const struct sql_args *args, struct sql_rows *row)
{
    if (sql_ask_row(client, text, args, row))
        return true;
    if (client->refusal == SQL_REFUSAL_LOCKED)
        return error_text(out->error, sizeof out->error,
                          "the last transaction of this server is still running, waiting for its "
                          "end");
    return error_text(out->error, sizeof out->error, "cannot use %s: %s", client->dialect->product,
                      client->message);
}

/* Columns of the first answer. A machine that cannot be known is empty or 0. */
enum { SERVER, NOW, NAME, KEY, MACHINE, KNOWN, ADJUST };

static bool is_unknown(struct slice machine)
{
    return machine.len == 0 || slice_is(machine, "0");
}

/* Notes the database's time, which was requested at times.sent_us. */
static void note_times(struct sql_greeting *out, int64_t now_ms, int64_t adjust_ms)
{
    out->times.came_us = clock_inner_us();
    out->times.first_ms = out->times.last_ms = now_ms;
    out->times.adjust_ms = adjust_ms;
}

/* Adjusts the database's clock to this server's record of its progress. The record was taken before
 * the new clock was read, so the result is late rather than early, and no job is delivered early. */
static bool keep_time(struct sql_client *client, const struct sql_rows *hello, int64_t expected_ms,
                      struct sql_greeting *out)
{
    struct slice machine = sql_rows_text(hello, 0, MACHINE), known = sql_rows_text(hello, 0, KNOWN);
    struct sql_rows row;
    /* no clock to keep if this is the first of all servers */
    int64_t moved_ms = expected_ms && !is_unknown(known) ? expected_ms - out->times.last_ms : 0;
    if (slice_equals(machine, known) || is_unknown(machine))
        return true;
    const struct sql_args args = {3,
                                  {sql_arg_text(machine.at), sql_arg_text(known.at),
                                   sql_arg_number(sql_rows_number(hello, 0, ADJUST) + moved_ms)}};
    out->times.sent_us = clock_inner_us();
    if (!ask(client, out, client->dialect->questions->keep_time, &args, &row))
        return false;
    note_times(out, sql_rows_number(&row, 0, 0), sql_rows_number(&row, 0, 2));
    out->moved_ms = sql_rows_number(&row, 0, 1) ? moved_ms : 0;
    sql_rows_fini(&row);
    return true;
}

/* Skips delivery numbers if the database is not durable. A crash may have lost the last ones, and
 * they must not be reused. */
static bool leap(struct sql_client *client, struct sql_greeting *out)
{
    const char *text = client->dialect->questions->leap;
    return !text || out->is_durable || sql_ask(client, text, NULL, NULL) ||
           error_text(out->error, sizeof out->error, "cannot use %s: %s", client->dialect->product,
                      client->message);
}

static bool introduce(struct sql_client *client, const struct sql_wish *wish,
                      struct sql_greeting *out)
{
    const struct sql_args args = {1, {sql_arg_number(wish->server)}};
    int64_t expected_ms = wish->knows_time ? (clock_inner_us() + wish->offset_us) / 1000 : 0;
    struct sql_rows row;
    out->times.sent_us = clock_inner_us();
    if (!ask(client, out, client->dialect->questions->hello, &args, &row))
        return false;
    struct slice key = sql_rows_text(&row, 0, KEY), name = sql_rows_text(&row, 0, NAME);
    out->server = sql_rows_number(&row, 0, SERVER);
    note_times(out, sql_rows_number(&row, 0, NOW), sql_rows_number(&row, 0, ADJUST));
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)name.len, name.at ? name.at : "");
    if (key.len == sizeof out->key)
        memcpy(&out->key, key.at, sizeof out->key);
    bool is_kept = leap(client, out) && keep_time(client, &row, expected_ms, out);
    sql_rows_fini(&row);
    return is_kept;
}

/* Reads the ticket under a lock. If the database still runs this server's last transaction, that
 * transaction holds the row. The call then fails, and is retried until the transaction has ended. */
static bool read_ticket(struct sql_client *client, struct sql_greeting *out)
{
    enum { NUMBER, AT, CONNECTION };
    const struct sql_args args = {1, {sql_arg_number(out->server)}};
    struct sql_rows row;
    if (!ask(client, out, client->dialect->questions->ticket, &args, &row))
        return false;
    out->ticket = sql_rows_number(&row, 0, NUMBER);
    out->ticket_ms = sql_rows_number(&row, 0, AT);
    out->connection = sql_rows_number(&row, 0, CONNECTION);
    sql_rows_fini(&row);
    return true;
}

bool sql_greet(const struct sql_dialect *dialect, const struct sql_wish *wish,
               struct sql_greeting *out)
{
    struct sql_client client;
    *out = (struct sql_greeting){0};
    if (!sql_client_open(&client, dialect, wish->url, out->error, sizeof out->error))
        return false;
    bool is_ready = dialect->is_usable(&client, out->error, sizeof out->error) &&
                    sql_schema_check(&client, wish->migrate, out->error, sizeof out->error) &&
                    dialect->set_up(&client, out) && introduce(&client, wish, out) &&
                    read_ticket(&client, out) && dialect->open(&client, wish->url, out);
    sql_client_close(&client); /* unless the link has taken its connection */
    return is_ready;
}
