#include "sql/transaction.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/trouble.h"
#include "sql/call.h"

#include <stdio.h>

void sql_transaction_init(struct sql_transaction *transaction, struct sql_connection *connection,
                          struct sql_housekeeping *housekeeping)
{
    *transaction = (struct sql_transaction){.connection = connection,
                                            .flush = &connection->flush,
                                            .context = connection->context,
                                            .housekeeping = housekeeping,
                                            .queue = housekeeping->calls,
                                            .phase = SQL_PHASE_DOWN};
    list_init(&transaction->calls);
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
static bool is_due_soon(const struct sql_transaction *transaction, const struct queue_push *push)
{
    enum { SOON_MS = 5000 };
    int64_t now_ms = sql_clock_ms(&transaction->context->clock);
    return sql_call_due_ms(now_ms, &push->when) - now_ms < SOON_MS;
}

static bool is_push_alone(const struct sql_transaction *transaction, const struct sql_call *call)
{
    const struct command *command = call->command;
    bool is_alone = transaction->housekeeping->hints->audience.is_alone;
    if (call->kind != SQL_CALL_COMMAND || command->kind != COMMAND_PUSH)
        return false;
    for (size_t i = 0; i < command->count; i++)
        if (command->pushes[i].ended || command->pushes[i].batch ||
            (!is_alone && is_due_soon(transaction, &command->pushes[i])))
            return false;
    return true;
}

/* Returns true if the transaction may be committed with its first part. Transactions that overlap
 * with takes need a separate commit, which measures the disk. */
static bool may_be_whole(const struct sql_transaction *transaction)
{
    const struct sql_audience *audience = &transaction->housekeeping->hints->audience;
    bool is_free =
        !transaction->is_flushed && !transaction->is_retry && transaction->flush->overlaps == 0;
    if (!transaction->context->link->dialect->has_whole_transactions || !is_free ||
        transaction->context->effects.has_listener || sql_audience_is_by_database(audience))
        return false;
    for (const struct list *at = transaction->calls.next; at != &transaction->calls; at = at->next)
        if (!is_push_alone(transaction, list_entry(at, struct sql_call, list)))
            return false;
    return true;
}

/* ---- parts ---- */

/* Returns the transaction in the form for the dialect. */
static struct sql_plan plan_of(struct sql_transaction *transaction)
{
    const struct sql_audience *audience = &transaction->housekeeping->hints->audience;
    return (struct sql_plan){.calls = &transaction->calls,
                             .ticket = transaction->has_ticket ? transaction->ticket + 1 : 0,
                             .is_durable = transaction->is_durable && !transaction->is_flushed,
                             .is_brief = transaction->is_retry,
                             .is_alone = audience->is_alone,
                             .others_listen = sql_audience_is_by_database(audience),
                             .is_single = transaction->is_single,
                             .is_whole = transaction->is_whole};
}

static void part_begin(struct sql_transaction *transaction, enum sql_phase phase)
{
    struct sql_plan as_sent = plan_of(transaction);
    struct sql_link *link = transaction->context->link;
    bool sent = false;
    transaction->phase = phase;
    transaction->part_begun_ms = clock_boot_ms();
    if (phase == SQL_PHASE_CALLS)
        sent = link->dialect->send_calls(link, transaction->context, &as_sent);
    else if (phase == SQL_PHASE_COMMIT)
        sent = link->dialect->send_commit(link, transaction->context, &as_sent);
    else
        sent = link->dialect->send_rollback(link);
    transaction->connection->is_lost = transaction->connection->is_lost || !sent;
    sql_connection_poll(transaction->connection);
}

void sql_transaction_begin(struct sql_transaction *transaction)
{
    sql_call_queue_gather(transaction->queue, !sql_flush_is_busy(transaction->flush),
                          &transaction->calls);
    if (list_is_empty(&transaction->calls))
        return;
    sql_effects_clear(&transaction->context->effects);
    transaction->context->effects.has_listener =
        sql_audience_is_there(&transaction->housekeeping->hints->audience);
    transaction->fault = (struct sql_fault){0};
    transaction->commit_sent = false;
    transaction->is_retry = sql_call_first(&transaction->calls)->retry_ms > 0;
    transaction->is_durable = has_durable(&transaction->calls);
    transaction->is_change = false;
    bool is_of_schedules = false;
    transaction->is_single = transaction->context->link->dialect->has_single_transactions;
    for (struct list *at = transaction->calls.next; at != &transaction->calls; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        transaction->is_change = transaction->is_change || sql_call_is_change(call);
        is_of_schedules = is_of_schedules || sql_call_is_of_schedules(call);
        transaction->is_single = transaction->is_single && sql_call_is_single(call);
        sql_call_reset_results(call);
    }
    transaction->has_ticket = transaction->is_change && !transaction->is_single;
    transaction->is_flushed =
        sql_flush_choose(transaction->flush, transaction->is_durable, is_of_schedules);
    transaction->begun_ms = clock_boot_ms();
    transaction->figures.transactions++;
    transaction->figures.flushed += transaction->is_flushed;
    transaction->is_whole = transaction->commit_sent = may_be_whole(transaction);
    transaction->is_apart = transaction->context->has_time = false;
    transaction->context->first_ms = transaction->context->now_seen_us = 0;
    transaction->sent_us = clock_inner_us();
    transaction->commit_begun_us = clock_boot_us(); /* a later part begins it again */
    part_begin(transaction, SQL_PHASE_CALLS);
}

void sql_transaction_note_take(struct sql_transaction *transaction)
{
    bool runs_calls =
        transaction->phase == SQL_PHASE_CALLS || transaction->phase == SQL_PHASE_COMMIT;
    if (transaction->flush->is_under_way || (runs_calls && transaction->is_durable))
        sql_flush_note_take(transaction->flush);
}

void sql_transaction_check_silence(struct sql_transaction *transaction)
{
    const struct sql_link *link = transaction->context->link;
    int64_t since_ms = clock_boot_ms();
    if (transaction->phase == SQL_PHASE_DOWN)
        return;
    if (transaction->phase != SQL_PHASE_IDLE)
        since_ms = transaction->part_begun_ms;
    if (transaction->flush->is_under_way && transaction->flush->begun_us / 1000 < since_ms)
        since_ms = transaction->flush->begun_us / 1000;
    if (clock_boot_ms() - since_ms < link->dialect->silence_ms)
        return;
    if (!transaction->fault.message[0])
        (void)snprintf(transaction->fault.message, sizeof transaction->fault.message,
                       "no answer for %lld s", (long long)link->dialect->silence_ms / 1000);
    transaction->connection->is_lost = true;
}

/* ---- commit ---- */

const struct bucket_bounds sql_commit_bounds = {.units = 1000000,
                                                .count = 15,
                                                .at = {200, 500, 1000, 2000, 5000, 10000, 20000,
                                                       50000, 100000, 200000, 500000, 1000000,
                                                       2000000, 5000000, 10000000}};

/* Counts how long a commit took that the database has answered. */
static void note_commit(struct sql_transaction *transaction)
{
    int64_t took_us = clock_boot_us() - transaction->commit_begun_us;
    if (transaction->is_change)
        buckets_add(&transaction->figures.commit_us, &sql_commit_bounds, (uint64_t)took_us);
}

/* Handles a commit: applies hints and the results of the server's own calls, and answers commands
 * or passes them to a flush. */
static void committed(struct sql_transaction *transaction)
{
    transaction->ticket += transaction->has_ticket;
    transaction->commit_sent = false; /* the outcome is known */
    transaction->phase = SQL_PHASE_IDLE;
    transaction->figures.is_full = false;
    sql_housekeeping_committed(transaction->housekeeping, &transaction->calls,
                               transaction->begun_ms);
    while (!list_is_empty(&transaction->calls)) {
        struct sql_call *call = sql_call_first(&transaction->calls);
        list_remove(&call->list);
        call->affected += call->step_affected;
        call->ticket = transaction->ticket;
        if (!call->has_more)
            sql_wall_write(call, transaction->context->adjust_ms);
        if (transaction->is_flushed && sql_call_is_durable(call))
            sql_flush_add(transaction->flush, call);
        else
            sql_call_queue_step(transaction->queue, call);
    }
    sql_flush_begin(transaction->flush);
    reactor_iterate_again(transaction->connection->reactor);
}

void sql_transaction_flush_over(struct sql_transaction *transaction)
{
    struct list done;
    if (!transaction->flush->is_over)
        return;
    sql_flush_take(transaction->flush, &done);
    while (!list_is_empty(&done)) {
        struct sql_call *call = sql_call_first(&done);
        list_remove(&call->list);
        sql_call_queue_step(transaction->queue, call);
    }
}

/* ---- rollback ---- */

static void requeue(struct sql_transaction *transaction, bool is_separate)
{
    transaction->figures.repeated++;
    for (struct list *at = transaction->calls.next; at != &transaction->calls; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        call->is_separate = call->is_separate || is_separate;
    }
    sql_call_queue_return(transaction->queue, &transaction->calls);
}

/* Requeues the calls of a transaction whose connection ended. A call that ends one connection after another is first
 * sent separately, so that it stops no others, then refused. */
static void requeue_broken(struct sql_transaction *transaction)
{
    enum { ALONE_AFTER = 2, REFUSED_AFTER = 5 };
    struct sql_call *call =
        list_is_empty(&transaction->calls) ? NULL : sql_call_first(&transaction->calls);
    bool is_single = call && call->list.next == &transaction->calls;
    for (struct list *at = transaction->calls.next; at != &transaction->calls; at = at->next) {
        struct sql_call *lost = list_entry(at, struct sql_call, list);
        lost->connections_lost++;
        lost->is_separate = lost->is_separate || lost->connections_lost >= ALONE_AFTER;
    }
    if (!is_single || call->connections_lost < REFUSED_AFTER) {
        requeue(transaction, false);
        return;
    }
    log_event(LOG_ERROR, "a call ended every connection to the database and is refused",
              LOG_TEXT("store", transaction->housekeeping->dialect->name),
              LOG_NUMBER("connections", call->connections_lost),
              LOG_TEXT("message", transaction->fault.message));
    transaction->figures.refused++;
    sql_housekeeping_failed(transaction->housekeeping, call);
    sql_call_queue_refuse(transaction->queue, call, QUEUE_UNAVAILABLE);
}

static enum queue_status status_of_fault(enum sql_fault_kind kind)
{
    if (kind == SQL_FAULT_NO_SPACE)
        return QUEUE_NO_SPACE;
    return kind == SQL_FAULT_NO_MEMORY ? QUEUE_NO_MEMORY : QUEUE_UNAVAILABLE;
}

static void give_up(struct sql_transaction *transaction, struct sql_call *call)
{
    enum queue_status status = status_of_fault(transaction->fault.kind);
    struct sql_call_name name;
    sql_call_name(call, &name);
    if (status == QUEUE_NO_SPACE)
        transaction->figures.is_full = true;
    log_event(LOG_WARN, "the database refused a call",
              LOG_TEXT("store", transaction->context->link->dialect->name),
              LOG_TEXT("state", transaction->fault.state),
              LOG_TEXT("message", transaction->fault.message), LOG_TEXT("topic", name.topic),
              LOG_TEXT("id", name.id), LOG_NUMBER("jobs", name.jobs));
    transaction->figures.refused++;
    if (call->kind == SQL_CALL_COMMAND && status == QUEUE_UNAVAILABLE)
        trouble_note_call(TROUBLE_DATABASE_CALLS, 0);
    sql_housekeeping_failed(transaction->housekeeping, call);
    sql_call_queue_refuse(transaction->queue, call, status);
}

static void rolled_back(struct sql_transaction *transaction)
{
    struct sql_call *call = sql_call_first(&transaction->calls);
    transaction->phase = SQL_PHASE_IDLE;
    if (transaction->is_retry)
        sql_call_queue_note_retry(transaction->queue, clock_boot_ms() - transaction->begun_ms);
    reactor_iterate_again(transaction->connection->reactor);
    if (transaction->is_apart) {
        requeue(transaction, false);
    } else if (transaction->fault.kind == SQL_FAULT_GONE) {
        requeue(transaction, false);
        transaction->connection->is_lost = true;
    } else if (transaction->fault.kind == SQL_FAULT_OUTDATED) {
        requeue(transaction, false);
    } else if (call->list.next != &transaction->calls) {
        requeue(transaction, true);
    } else if (transaction->fault.kind == SQL_FAULT_PASSING &&
               sql_call_queue_retry(transaction->queue, call)) {
        requeue(transaction, true);
    } else {
        give_up(transaction, call);
    }
}

/* ---- end of a part ---- */

/* Checks the time of the transaction's statements. */
static bool is_in_time(struct sql_transaction *transaction)
{
    struct sql_context *context = transaction->context;
    struct sql_times times = {.first_ms = context->first_ms ? context->first_ms : context->now_ms,
                              .last_ms = context->now_ms,
                              .adjust_ms = context->adjust_ms,
                              .sent_us = transaction->sent_us,
                              .came_us = context->now_seen_us};
    if (!times.came_us)
        times.came_us = clock_inner_us();
    return !context->has_time || sql_clock_observe(&context->clock, &times) ||
           sql_call_first(&transaction->calls)->kind == SQL_CALL_CLOCK;
}

static void calls_over(struct sql_transaction *transaction, bool is_good)
{
    struct sql_context *context = transaction->context;
    transaction->commit_sent = false; /* not sent, or the outcome is known */
    if (!is_good) {
        part_begin(transaction, SQL_PHASE_ROLLBACK);
        return;
    }
    transaction->is_whole = transaction->is_whole && context->link->is_committed;
    if (!is_in_time(transaction) && !transaction->is_whole) {
        transaction->is_apart = true;
        part_begin(transaction, SQL_PHASE_ROLLBACK);
        return;
    }
    if (transaction->is_single || transaction->is_whole) {
        note_commit(transaction);
        committed(transaction);
        return;
    }
    transaction->commit_sent = true;
    transaction->commit_begun_us = clock_boot_us();
    part_begin(transaction, SQL_PHASE_COMMIT);
}

static void commit_over(struct sql_transaction *transaction, bool is_good)
{
    if (!is_good) {
        transaction->commit_sent = false; /* known not to have happened */
        part_begin(transaction, SQL_PHASE_ROLLBACK);
        return;
    }
    if (transaction->is_durable && !transaction->is_flushed)
        sql_flush_note_disk(transaction->flush, transaction->commit_begun_us);
    note_commit(transaction);
    committed(transaction);
}

void sql_transaction_part_over(struct sql_transaction *transaction)
{
    struct sql_fault *fault = &transaction->context->link->fault;
    bool is_good = fault->kind == SQL_FAULT_NONE;
    if (!is_good && transaction->fault.kind == SQL_FAULT_NONE)
        transaction->fault = *fault;
    *fault = (struct sql_fault){0};
    switch (transaction->phase) {
    case SQL_PHASE_CALLS:
        calls_over(transaction, is_good);
        break;
    case SQL_PHASE_COMMIT:
        commit_over(transaction, is_good);
        break;
    case SQL_PHASE_ROLLBACK:
        rolled_back(transaction);
        break;
    case SQL_PHASE_DOWN:
    case SQL_PHASE_IDLE:
        break;
    }
}

/* ---- commits with an unknown outcome ---- */

/* Returns true if only the ticket can show the outcome. */
static bool is_open(const struct sql_transaction *transaction)
{
    return transaction->commit_sent && transaction->has_ticket;
}

void sql_transaction_down(struct sql_transaction *transaction)
{
    transaction->phase = SQL_PHASE_DOWN;
    if (!is_open(transaction))
        requeue_broken(transaction);
}

bool sql_transaction_needs_flush(const struct sql_transaction *transaction)
{
    return !list_is_empty(&transaction->flush->calls) ||
           (transaction->commit_sent && transaction->is_flushed &&
            has_durable(&transaction->calls));
}

/* Determines the outcome of the last commit. If it was committed, its leases must be watched, even
 * if all of its calls have been refused in the meantime. */
static void settle_commit(struct sql_transaction *transaction, int64_t ticket, int64_t ticket_ms)
{
    bool is_committed = ticket == transaction->ticket + 1;
    transaction->figures.settled++;
    transaction->commit_sent = false;
    if (is_committed) {
        for (struct list *at = transaction->calls.next;
             at != &transaction->calls && transaction->is_whole; at = at->next)
            sql_call_all_created(list_entry(at, struct sql_call, list), ticket_ms);
        committed(transaction);
        return;
    }
    transaction->ticket = ticket;
    requeue_broken(transaction);
}

/* Repeats commits that the database has lost. */
static void requeue_lost(struct sql_transaction *transaction, int64_t ticket)
{
    struct list lost;
    sql_flush_take_lost(transaction->flush, ticket, &lost);
    transaction->figures.repeated += !list_is_empty(&lost);
    for (struct list *at = lost.next; at != &lost; at = at->next) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        call->affected -= call->step_affected;
    }
    sql_call_queue_return(transaction->queue, &lost);
}

void sql_transaction_settle(struct sql_transaction *transaction, int64_t ticket, int64_t ticket_ms)
{
    transaction->phase = SQL_PHASE_IDLE;
    if (ticket < transaction->ticket)
        log_event(
            LOG_WARN,
            "the database lost its last commits: takes, or more if it does not sync, are lost",
            LOG_NUMBER("ticket", transaction->ticket), LOG_NUMBER("found", ticket));
    if (is_open(transaction))
        settle_commit(transaction, ticket, ticket_ms);
    else
        transaction->ticket = ticket;
    transaction->figures.settled += transaction->flush->is_cut;
    transaction->flush->is_cut = false;
    requeue_lost(transaction, ticket);
    /* The remaining calls are flushed: being visible is not enough. */
    sql_flush_begin(transaction->flush);
}
