/* The stages of a transaction: the text of each flight in its first part, its commit and its
 * rollback. */
#include "base/clock.h"
#include "sql/mysql/turn.h"

enum { BEAT_US_MAX = 5000000 }; /* a server that is silent for twice this time is considered dead */

static void say_begin(struct maria_link *link)
{
    buffer_append_text(maria_say_plain(link, MARIA_NOTHING), "START TRANSACTION");
    buffer_append_text(maria_say_plain(link, MARIA_NOTHING), "SET @tarry_now=tarry.now_ms()");
    buffer_append_text(maria_say_plain(link, MARIA_NOW), "SELECT @tarry_now");
    if (!link->turn.ticket)
        return;
    buffer_append_format(maria_say_plain(link, MARIA_TICKET),
                         "UPDATE tarry.ticket SET number=%lld,at=@tarry_now WHERE server=%lld AND "
                         "number=%lld",
                         (long long)link->turn.ticket, (long long)link->context->server,
                         (long long)link->turn.ticket - 1);
    /* If other servers may have considered this one dead, it must register again before it takes
     * jobs. */
    if (clock_boot_us() - link->beat_us > BEAT_US_MAX)
        buffer_append_format(
            maria_say_plain(link, MARIA_NOTHING),
            "INSERT IGNORE INTO tarry.server (server,beat) VALUES (%lld,@tarry_now)",
            (long long)link->context->server);
}

static bool has_looks(const struct maria_link *link)
{
    EACH_CALL(link, call)
    if (call->kind == SQL_CALL_LOOK)
        return true;
    return false;
}

static void decide(struct maria_link *link)
{
    link->is_decided = true;
    EACH_CALL(link, call)
    {
        maria_decide(link, call);
        for (size_t i = 0; i < link->rows.count; i++)
            if (link->rows.at[i]->owner == call)
                maria_decide_own(link, call, link->rows.at[i]);
        if (maria_is_step(call))
            maria_call_steps_on(link, call);
    }
    if (link->numbers_used > MARIA_NUMBERS)
        maria_note_no_memory(link);
}

static void say_direct(struct maria_link *link)
{
    EACH_CALL(link, call) maria_say_call(link, call);
}

bool maria_turn_next(struct maria_link *link)
{
    link->is_now_known = true;
    if (link->is_early && link->has_moved) {
        maria_rows_clear(link);
        link->taken.count = 0;
        link->is_locked = link->is_taken = false;
    }
    link->is_early = false;
    maria_flight_begin(link);
    if (!maria_topics_are_read(link))
        maria_say_topics(link);
    if (link->steps.count)
        return true;
    if (maria_say_new_topics(link))
        return true;
    if (!link->is_locked)
        maria_say_locks(link);
    if (!link->is_direct) {
        link->is_direct = true;
        say_direct(link);
    }
    if (link->steps.count)
        return true;
    if (!link->is_decided)
        decide(link);
    if (link->has_takes && !link->is_taken) {
        if (!link->is_written)
            maria_say_rows(link);
        maria_say_takes(link);
        if (link->steps.count)
            return true;
    }
    if (link->has_takes && !link->is_shared) {
        link->is_shared = true;
        if (!maria_share_takes(link))
            maria_note_no_memory(link);
    }
    if (link->has_bodies)
        maria_say_bodies(link);
    return link->steps.count > 0;
}

static void turn_clear(struct maria_link *link)
{
    maria_results_drop(link);
    maria_rows_clear(link);
    maria_topics_begin(link);
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

bool maria_turn_begin(struct maria_link *link, const struct sql_turn *turn)
{
    link->turn = *turn;
    turn_clear(link);
    link->is_exact = sql_call_first(turn->calls)->alone; /* such a call is the only one */
    link->has_runs = link->is_mariadb && !link->is_exact;
    if (!maria_want_topics(link))
        return false;
    maria_flight_begin(link);
    link->part = MARIA_CALLS;
    say_begin(link);
    if (!turn->is_alone && has_looks(link))
        maria_say_hear(link);
    EACH_CALL(link, call)
    if (call->kind == SQL_CALL_HEAR)
        maria_say_messages_since(link, call);
    maria_say_topics(link);
    link->is_early = maria_topics_are_known(link) && link->wanted.count > 0;
    /* assumes that the known topics are current; a wrong assumption is corrected later */
    if (link->is_early) {
        if (link->has_rows)
            maria_say_locks(link);
        else if (link->has_takes)
            maria_say_takes(link);
        link->is_early = link->has_rows || link->has_takes;
    }
    return true;
}

void maria_turn_commit(struct maria_link *link)
{
    maria_flight_begin(link);
    link->part = MARIA_COMMIT;
    if (!link->is_written)
        maria_say_rows(link);
    maria_say_taken(link);
    maria_say_looks(link);
    EACH_CALL(link, call) maria_say_call_end(link, call);
    maria_say_tallies(link);
    if (!link->turn.is_alone)
        maria_say_news(link);
    if (link->turn.is_heard)
        maria_say_messages(link);
    buffer_append_text(maria_say_plain(link, MARIA_NOTHING), "COMMIT");
    maria_say_history_days(link);
}

void maria_turn_rollback(struct maria_link *link)
{
    maria_flight_begin(link);
    link->part = MARIA_ROLLBACK;
    buffer_append_text(maria_say_plain(link, MARIA_NOTHING), "ROLLBACK");
}
