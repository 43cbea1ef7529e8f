#include "sql/transaction.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/trouble.h"
#include "sql/call.h"

#include <stdio.h>

void sql_transaction_init(struct sql_transaction *turn, struct sql_connection *connection,
                          struct sql_housekeeping *housekeeping)
{
    *turn = (struct sql_transaction){.connection = connection,
                                     .flush = &connection->flush,
                                     .context = connection->context,
                                     .housekeeping = housekeeping,
                                     .queue = housekeeping->calls,
                                     .phase = SQL_PHASE_DOWN};
    list_init(&turn->calls);
}

static bool has_durable(const struct list *calls)
{
    for (const struct list *at = calls->next; at != calls; at = at->next)
        if (sql_call_is_durable(list_entry(at, struct sql_call, list)))
            return true;
    return false;
}

/* ---- transactions that are committed with their first part ---- */

/* Returns true if other servers must be notified of the job. For later jobs, their own checks are
 * early enough. */
static bool is_due_soon(const struct sql_transaction *turn, const struct queue_push *push)
{
    enum { SOON_MS = 5000 };
    int64_t now_ms = sql_clock_ms(&turn->context->clock);
    return sql_call_due_ms(now_ms, &push->when) - now_ms < SOON_MS;
}

static bool is_push_alone(const struct sql_transaction *turn, const struct sql_call *call)
{
    const struct command *command = call->command;
    bool is_alone = turn->housekeeping->hints->audience.is_alone;
    if (call->kind != SQL_CALL_COMMAND || command->kind != COMMAND_PUSH)
        return false;
    for (size_t i = 0; i < command->count; i++)
        if (!is_alone && is_due_soon(turn, &command->pushes[i]))
            return false;
    return true;
}

/* Returns true if the transaction may be committed with its first part. Transactions that overlap
 * with takes need a separate commit, which measures the disk. */
static bool may_be_whole(const struct sql_transaction *turn)
{
    const struct sql_audience *audience = &turn->housekeeping->hints->audience;
    bool is_free = !turn->is_flushed && !turn->is_retry && turn->flush->overlaps == 0;
    if (!turn->context->link->dialect->has_whole_turns || !is_free ||
        turn->context->effects.tells || sql_audience_is_by_database(audience))
        return false;
    for (const struct list *at = turn->calls.next; at != &turn->calls; at = at->next)
        if (!is_push_alone(turn, list_entry(at, struct sql_call, list)))
            return false;
    return true;
}

/* ---- parts ---- */

/* Returns the transaction in the form for the dialect. */
static struct sql_turn turn_of(struct sql_transaction *turn)
{
    const struct sql_audience *audience = &turn->housekeeping->hints->audience;
    return (struct sql_turn){.calls = &turn->calls,
                             .ticket = turn->has_ticket ? turn->ticket + 1 : 0,
                             .is_durable = turn->is_durable && !turn->is_flushed,
                             .is_brief = turn->is_retry,
                             .is_alone = audience->is_alone,
                             .is_heard = sql_audience_is_by_database(audience),
                             .is_single = turn->is_single,
                             .is_whole = turn->is_whole};
}

static void part_begin(struct sql_transaction *turn, enum sql_phase phase)
{
    struct sql_turn as_sent = turn_of(turn);
    struct sql_link *link = turn->context->link;
    bool sent = false;
    turn->phase = phase;
    turn->part_begun_ms = clock_boot_ms();
    if (phase == SQL_PHASE_CALLS)
        sent = link->dialect->send_calls(link, turn->context, &as_sent);
    else if (phase == SQL_PHASE_COMMIT)
        sent = link->dialect->send_commit(link, turn->context, &as_sent);
    else
        sent = link->dialect->send_rollback(link);
    turn->connection->is_lost = turn->connection->is_lost || !sent;
    sql_connection_poll(turn->connection);
}

void sql_transaction_begin(struct sql_transaction *turn)
{
    bool is_change = false;
    sql_call_queue_gather(turn->queue, !sql_flush_is_busy(turn->flush), &turn->calls);
    if (list_is_empty(&turn->calls))
        return;
    sql_effects_clear(&turn->context->effects);
    turn->context->effects.tells = sql_audience_is_there(&turn->housekeeping->hints->audience);
    turn->fault = (struct sql_fault){0};
    turn->commit_sent = false;
    turn->is_retry = sql_call_first(&turn->calls)->retry_ms > 0;
    turn->is_durable = has_durable(&turn->calls);
    turn->is_single = turn->context->link->dialect->has_single_turns;
    for (struct list *at = turn->calls.next; at != &turn->calls; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        is_change = is_change || sql_call_is_change(call);
        turn->is_single = turn->is_single && sql_call_is_single(call);
        sql_call_again(call);
    }
    turn->has_ticket = is_change && !turn->is_single;
    turn->is_flushed = sql_flush_choose(turn->flush, turn->is_durable);
    turn->begun_ms = clock_boot_ms();
    turn->figures.turns++;
    turn->figures.flushed += turn->is_flushed;
    turn->is_whole = turn->commit_sent = may_be_whole(turn);
    turn->is_apart = turn->context->has_time = false;
    turn->context->first_ms = turn->context->now_seen_us = 0;
    turn->sent_us = clock_inner_us();
    part_begin(turn, SQL_PHASE_CALLS);
}

void sql_transaction_note_take(struct sql_transaction *turn)
{
    bool in_turn = turn->phase == SQL_PHASE_CALLS || turn->phase == SQL_PHASE_COMMIT;
    if (turn->flush->is_under_way || (in_turn && turn->is_durable))
        sql_flush_note_take(turn->flush);
}

void sql_transaction_check_silence(struct sql_transaction *turn)
{
    const struct sql_link *link = turn->context->link;
    int64_t since_ms = clock_boot_ms();
    if (turn->phase == SQL_PHASE_DOWN)
        return;
    if (turn->phase != SQL_PHASE_IDLE)
        since_ms = turn->part_begun_ms;
    if (turn->flush->is_under_way && turn->flush->begun_us / 1000 < since_ms)
        since_ms = turn->flush->begun_us / 1000;
    if (clock_boot_ms() - since_ms < link->dialect->silence_ms)
        return;
    if (!turn->fault.message[0])
        (void)snprintf(turn->fault.message, sizeof turn->fault.message, "no answer for %lld s",
                       (long long)link->dialect->silence_ms / 1000);
    turn->connection->is_lost = true;
}

/* ---- commit ---- */

/* Handles a commit: applies hints and the results of the server's own calls, and answers commands
 * or passes them to a flush. */
static void committed(struct sql_transaction *turn)
{
    turn->ticket += turn->has_ticket;
    turn->commit_sent = false; /* the outcome is known */
    turn->phase = SQL_PHASE_IDLE;
    turn->figures.is_full = false;
    sql_housekeeping_committed(turn->housekeeping, &turn->calls, turn->begun_ms);
    while (!list_is_empty(&turn->calls)) {
        struct sql_call *call = sql_call_first(&turn->calls);
        list_remove(&call->list);
        call->affected += call->step_affected;
        call->ticket = turn->ticket;
        if (!call->has_more)
            sql_wall_write(call, turn->context->adjust_ms);
        if (turn->is_flushed && sql_call_is_durable(call))
            sql_flush_add(turn->flush, call);
        else
            sql_call_queue_step(turn->queue, call);
    }
    sql_flush_begin(turn->flush);
    reactor_turn_again(turn->connection->reactor);
}

void sql_transaction_flush_over(struct sql_transaction *turn)
{
    struct list done;
    if (!turn->flush->is_over)
        return;
    sql_flush_take(turn->flush, &done);
    while (!list_is_empty(&done)) {
        struct sql_call *call = sql_call_first(&done);
        list_remove(&call->list);
        sql_call_queue_step(turn->queue, call);
    }
}

/* ---- rollback ---- */

static void requeue(struct sql_transaction *turn, bool alone)
{
    turn->figures.repeated++;
    for (struct list *at = turn->calls.next; at != &turn->calls; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        call->alone = call->alone || alone;
    }
    sql_call_queue_return(turn->queue, &turn->calls);
}

/* Requeues the calls of a transaction whose connection ended. A call that ends one connection after another is first
 * sent alone, so that it stops no others, then refused. */
static void requeue_broken(struct sql_transaction *turn)
{
    enum { ALONE_AFTER = 2, REFUSED_AFTER = 5 };
    struct sql_call *call = list_is_empty(&turn->calls) ? NULL : sql_call_first(&turn->calls);
    bool is_single = call && call->list.next == &turn->calls;
    for (struct list *at = turn->calls.next; at != &turn->calls; at = at->next) {
        struct sql_call *broken = list_entry(at, struct sql_call, list);
        broken->broken++;
        broken->alone = broken->alone || broken->broken >= ALONE_AFTER;
    }
    if (!is_single || call->broken < REFUSED_AFTER) {
        requeue(turn, false);
        return;
    }
    log_event(LOG_ERROR, "a call ended every connection to the database and is refused",
              LOG_TEXT("store", turn->housekeeping->dialect->name),
              LOG_NUMBER("connections", call->broken), LOG_TEXT("message", turn->fault.message));
    turn->figures.refused++;
    sql_housekeeping_failed(turn->housekeeping, call);
    sql_call_queue_refuse(turn->queue, call, QUEUE_UNAVAILABLE);
}

static enum queue_status status_of_fault(enum sql_fault_kind kind)
{
    if (kind == SQL_FAULT_NO_SPACE)
        return QUEUE_NO_SPACE;
    return kind == SQL_FAULT_NO_MEMORY ? QUEUE_NO_MEMORY : QUEUE_UNAVAILABLE;
}

static void give_up(struct sql_transaction *turn, struct sql_call *call)
{
    enum queue_status status = status_of_fault(turn->fault.kind);
    struct sql_call_name name;
    sql_call_name(call, &name);
    if (status == QUEUE_NO_SPACE)
        turn->figures.is_full = true;
    log_event(LOG_WARN, "the database refused a call",
              LOG_TEXT("store", turn->context->link->dialect->name),
              LOG_TEXT("state", turn->fault.state), LOG_TEXT("message", turn->fault.message),
              LOG_TEXT("topic", name.topic), LOG_TEXT("id", name.id),
              LOG_NUMBER("jobs", name.jobs));
    turn->figures.refused++;
    if (call->kind == SQL_CALL_COMMAND && status == QUEUE_UNAVAILABLE)
        trouble_note_call(TROUBLE_DATABASE_CALLS, 0);
    sql_housekeeping_failed(turn->housekeeping, call);
    sql_call_queue_refuse(turn->queue, call, status);
}

static void rolled_back(struct sql_transaction *turn)
{
    struct sql_call *call = sql_call_first(&turn->calls);
    turn->phase = SQL_PHASE_IDLE;
    if (turn->is_retry)
        sql_call_queue_note_retry(turn->queue, clock_boot_ms() - turn->begun_ms);
    reactor_turn_again(turn->connection->reactor);
    if (turn->is_apart) {
        requeue(turn, false);
    } else if (turn->fault.kind == SQL_FAULT_GONE) {
        requeue(turn, false);
        turn->connection->is_lost = true;
    } else if (call->list.next != &turn->calls) {
        requeue(turn, true);
    } else if (turn->fault.kind == SQL_FAULT_PASSING && sql_call_queue_retry(turn->queue, call)) {
        requeue(turn, true);
    } else {
        give_up(turn, call);
    }
}

/* ---- end of a part ---- */

/* Checks the time of the transaction's statements. */
static bool is_in_time(struct sql_transaction *turn)
{
    struct sql_context *context = turn->context;
    struct sql_times times = {.first_ms = context->first_ms ? context->first_ms : context->now_ms,
                              .last_ms = context->now_ms,
                              .adjust_ms = context->adjust_ms,
                              .sent_us = turn->sent_us,
                              .came_us = context->now_seen_us};
    if (!times.came_us)
        times.came_us = clock_inner_us();
    return !context->has_time || sql_clock_hear(&context->clock, &times) ||
           sql_call_first(&turn->calls)->kind == SQL_CALL_CLOCK;
}

static void calls_over(struct sql_transaction *turn, bool is_good)
{
    struct sql_context *context = turn->context;
    turn->commit_sent = false; /* not sent, or the outcome is known */
    if (!is_good) {
        part_begin(turn, SQL_PHASE_ROLLBACK);
        return;
    }
    turn->is_whole = turn->is_whole && context->link->is_committed;
    if (!is_in_time(turn) && !turn->is_whole) {
        turn->is_apart = true;
        part_begin(turn, SQL_PHASE_ROLLBACK);
        return;
    }
    if (turn->is_single || turn->is_whole) {
        committed(turn);
        return;
    }
    turn->commit_sent = true;
    turn->commit_begun_us = clock_boot_us();
    part_begin(turn, SQL_PHASE_COMMIT);
}

static void commit_over(struct sql_transaction *turn, bool is_good)
{
    if (!is_good) {
        turn->commit_sent = false; /* known not to have happened */
        part_begin(turn, SQL_PHASE_ROLLBACK);
        return;
    }
    if (turn->is_durable && !turn->is_flushed)
        sql_flush_note_disk(turn->flush, turn->commit_begun_us);
    committed(turn);
}

void sql_transaction_part_over(struct sql_transaction *turn)
{
    struct sql_fault *fault = &turn->context->link->fault;
    bool is_good = fault->kind == SQL_FAULT_NONE;
    if (!is_good && turn->fault.kind == SQL_FAULT_NONE)
        turn->fault = *fault;
    *fault = (struct sql_fault){0};
    switch (turn->phase) {
    case SQL_PHASE_CALLS:
        calls_over(turn, is_good);
        break;
    case SQL_PHASE_COMMIT:
        commit_over(turn, is_good);
        break;
    case SQL_PHASE_ROLLBACK:
        rolled_back(turn);
        break;
    case SQL_PHASE_DOWN:
    case SQL_PHASE_IDLE:
        break;
    }
}

/* ---- commits with an unknown outcome ---- */

/* Returns true if only the ticket can show the outcome. */
static bool is_open(const struct sql_transaction *turn)
{
    return turn->commit_sent && turn->has_ticket;
}

void sql_transaction_down(struct sql_transaction *turn)
{
    turn->phase = SQL_PHASE_DOWN;
    if (!is_open(turn))
        requeue_broken(turn);
}

bool sql_transaction_needs_flush(const struct sql_transaction *turn)
{
    return !list_is_empty(&turn->flush->calls) ||
           (turn->commit_sent && turn->is_flushed && has_durable(&turn->calls));
}

/* Determines the outcome of the last commit. If it was committed, its leases must be watched, even
 * if all of its calls have been refused in the meantime. */
static void settle_commit(struct sql_transaction *turn, int64_t ticket, int64_t ticket_ms)
{
    bool is_committed = ticket == turn->ticket + 1;
    turn->figures.settled++;
    turn->commit_sent = false;
    if (is_committed) {
        for (struct list *at = turn->calls.next; at != &turn->calls && turn->is_whole;
             at = at->next)
            sql_call_all_created(list_entry(at, struct sql_call, list), ticket_ms);
        committed(turn);
        return;
    }
    turn->ticket = ticket;
    requeue_broken(turn);
}

/* Repeats commits that the database has lost. */
static void requeue_lost(struct sql_transaction *turn, int64_t ticket)
{
    struct list lost;
    sql_flush_take_lost(turn->flush, ticket, &lost);
    turn->figures.repeated += !list_is_empty(&lost);
    for (struct list *at = lost.next; at != &lost; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        call->affected -= call->step_affected;
    }
    sql_call_queue_return(turn->queue, &lost);
}

void sql_transaction_settle(struct sql_transaction *turn, int64_t ticket, int64_t ticket_ms)
{
    turn->phase = SQL_PHASE_IDLE;
    if (ticket < turn->ticket)
        log_event(
            LOG_WARN,
            "the database lost its last commits: takes, or more if it does not sync, are lost",
            LOG_NUMBER("ticket", turn->ticket), LOG_NUMBER("found", ticket));
    if (is_open(turn))
        settle_commit(turn, ticket, ticket_ms);
    else
        turn->ticket = ticket;
    turn->figures.settled += turn->flush->is_cut;
    turn->flush->is_cut = false;
    requeue_lost(turn, ticket);
    sql_flush_begin(turn->flush); /* flushes the remaining calls: being visible is not enough */
}
