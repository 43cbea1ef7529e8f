/* The stages of a transaction: the text of each flight in its first part, its commit and its
 * rollback. */
#include "base/clock.h"
#include "sql/mysql/turn.h"

enum { BEAT_US_MAX = 5000000 }; /* a server that is silent for twice this time is considered dead */

static bool read_now(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row = result ? libmariadb.mysql_fetch_row(result) : NULL;
    (void)step;
    link->now_ms = row ? mysql_number(row[0]) : 0;
    link->context->now_ms = link->now_ms;
    link->context->now_seen_us = clock_inner_us();
    return true;
}

static bool read_ticket(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    (void)step;
    (void)result;
    if (libmariadb.mysql_affected_rows(link->mysql) != 1)
        mysql_note_fault(link, SQL_FAULT_GONE, "TY001",
                         "the ticket of this server is not the next one");
    return true;
}

static void append_begin(struct mysql_link *link)
{
    buffer_append_text(mysql_statement(link, NULL), "START TRANSACTION");
    buffer_append_text(mysql_statement(link, NULL), "SET @tarry_now=tarry.now_ms()");
    buffer_append_text(mysql_statement(link, read_now), "SELECT @tarry_now");
    if (!link->turn.ticket)
        return;
    buffer_append_format(mysql_statement(link, read_ticket),
                         "UPDATE tarry.ticket SET number=%lld,at=@tarry_now WHERE server=%lld AND "
                         "number=%lld",
                         (long long)link->turn.ticket, (long long)link->context->server,
                         (long long)link->turn.ticket - 1);
    /* If other servers may have considered this one dead, it must register again before it takes
     * jobs. */
    if (clock_boot_us() - link->beat_us > BEAT_US_MAX)
        buffer_append_format(
            mysql_statement(link, NULL),
            "INSERT IGNORE INTO tarry.server (server,beat) VALUES (%lld,@tarry_now)",
            (long long)link->context->server);
}

static bool has_looks(const struct mysql_link *link)
{
    EACH_CALL(link, call)
    if (call->kind == SQL_CALL_LOOK)
        return true;
    return false;
}

static void decide(struct mysql_link *link)
{
    link->is_decided = true;
    EACH_CALL(link, call)
    {
        mysql_decide(link, call);
        for (size_t i = 0; i < link->rows.count; i++)
            if (link->rows.at[i]->owner == call)
                mysql_decide_own(link, call, link->rows.at[i]);
        if (mysql_is_step(call))
            mysql_call_steps_on(link, call);
    }
    if (link->numbers_used > MYSQL_NUMBERS)
        mysql_note_no_memory(link);
}

static void append_direct(struct mysql_link *link)
{
    EACH_CALL(link, call) mysql_append_call(link, call);
}

bool mysql_turn_next(struct mysql_link *link)
{
    link->is_now_known = true;
    if (link->is_early && link->has_moved) {
        mysql_rows_clear(link);
        link->taken.count = 0;
        link->is_locked = link->is_taken = false;
    }
    link->is_early = false;
    mysql_flight_begin(link);
    if (!mysql_topics_are_read(link))
        mysql_append_topics(link);
    if (link->steps.count)
        return true;
    if (mysql_append_new_topics(link))
        return true;
    if (!link->is_locked)
        mysql_append_locks(link);
    if (!link->is_direct) {
        link->is_direct = true;
        append_direct(link);
    }
    if (link->steps.count)
        return true;
    if (!link->is_decided)
        decide(link);
    if (link->has_takes && !link->is_taken) {
        if (!link->is_written)
            mysql_append_rows(link);
        mysql_append_takes(link);
        if (link->steps.count)
            return true;
    }
    if (link->has_takes && !link->is_shared) {
        link->is_shared = true;
        if (!mysql_share_takes(link))
            mysql_note_no_memory(link);
    }
    if (link->has_bodies)
        mysql_append_bodies(link);
    return link->steps.count > 0;
}

static void turn_clear(struct mysql_link *link)
{
    mysql_results_drop(link);
    mysql_rows_clear(link);
    mysql_topics_begin(link);
    link->taken.count = 0;
    link->has_rows = link->has_takes = link->has_pushes = link->has_moved = false;
    link->is_now_known = link->is_locked = link->is_decided = link->is_written = false;
    link->is_taken = link->is_shared = link->is_direct = link->has_bodies = false;
    link->made_tries = 0;
    link->number = link->delivery = link->numbers_used = 0;
    link->topic_count = 0;
    link->wants_days = false;
    link->messages_said = 0;
}

bool mysql_turn_begin(struct mysql_link *link, const struct sql_turn *turn)
{
    link->turn = *turn;
    turn_clear(link);
    link->is_exact = sql_call_first(turn->calls)->alone; /* such a call is the only one */
    link->has_runs = link->is_mariadb && !link->is_exact;
    if (!mysql_want_topics(link))
        return false;
    mysql_flight_begin(link);
    link->part = MYSQL_CALLS;
    append_begin(link);
    if (!turn->is_alone && has_looks(link))
        mysql_append_hear(link);
    EACH_CALL(link, call)
    if (call->kind == SQL_CALL_HEAR)
        mysql_append_messages_since(link, call);
    mysql_append_topics(link);
    link->is_early = mysql_topics_are_known(link) && link->wanted.count > 0;
    /* assumes that the known topics are current; a wrong assumption is corrected later */
    if (link->is_early) {
        if (link->has_rows)
            mysql_append_locks(link);
        else if (link->has_takes)
            mysql_append_takes(link);
        link->is_early = link->has_rows || link->has_takes;
    }
    return true;
}

void mysql_turn_commit(struct mysql_link *link)
{
    mysql_flight_begin(link);
    link->part = MYSQL_COMMIT;
    if (!link->is_written)
        mysql_append_rows(link);
    mysql_append_taken(link);
    mysql_append_looks(link);
    EACH_CALL(link, call) mysql_append_call_end(link, call);
    mysql_append_tallies(link);
    if (!link->turn.is_alone)
        mysql_append_news(link);
    if (link->turn.is_heard)
        mysql_append_messages(link);
    buffer_append_text(mysql_statement(link, NULL), "COMMIT");
    mysql_append_history_days(link);
}

void mysql_turn_rollback(struct mysql_link *link)
{
    mysql_flight_begin(link);
    link->part = MYSQL_ROLLBACK;
    buffer_append_text(mysql_statement(link, NULL), "ROLLBACK");
}
