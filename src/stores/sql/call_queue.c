#include "sql/call_queue.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

enum {
    TRANSACTION_ITEMS_MAX = 2000,
    TRANSACTION_BYTES_MAX = 16 << 20,
    /* Other calls get this many times the time that retries on locked rows take. */
    RETRY_SHARE = 4,
    /* Limits the rounds, since a reply that always adds a call must not keep the server from
     * stopping. */
    END_ROUNDS_MAX = 8
};

void sql_call_queue_init(struct sql_call_queue *queue, int64_t timeout_ms)
{
    *queue = (struct sql_call_queue){.timeout_ms = timeout_ms};
    list_init(&queue->waiting);
    list_init(&queue->answered);
}

/* ---- arrival ---- */

/* Creates a call. If there is no memory for a copy of the command, there may be enough for a
 * refusal. */
static struct sql_call *call_of(const struct command *command, struct queue_reply_to reply_to)
{
    struct sql_call *call = sql_call_new(SQL_CALL_COMMAND, command, reply_to);
    if (!call)
        call = sql_call_new(SQL_CALL_COMMAND, NULL, reply_to);
    if (!call) {
        log_event(LOG_ERROR, "out of memory");
        abort();
    }
    return call;
}

static void add_waiting(struct sql_call_queue *queue, struct sql_call *call)
{
    call->since_ms = clock_boot_ms();
    list_add_last(&queue->waiting, &call->list);
}

struct sql_call *sql_call_queue_add(struct sql_call_queue *queue, const struct command *command,
                                    struct queue_reply_to reply_to)
{
    struct sql_call *call = call_of(command, reply_to);
    queue->commands++;
    add_waiting(queue, call);
    return call;
}

struct sql_call *sql_call_queue_add_own(struct sql_call_queue *queue, enum sql_call_kind kind)
{
    struct sql_call *call = sql_call_new(kind, NULL, (struct queue_reply_to){0});
    if (call)
        add_waiting(queue, call);
    queue->has_clock = queue->has_clock || kind == SQL_CALL_CLOCK;
    return call;
}

/* ---- into a transaction ---- */

static bool fits(const struct list *transaction, const struct sql_call *call, size_t items,
                 size_t bytes, bool has_changes)
{
    if (list_is_empty(transaction))
        return true;
    if (call->is_separate || sql_call_first(transaction)->is_separate)
        return false;
    if (has_changes && sql_call_is_count(call)) /* their counts are written with the commit */
        return false;
    return items + sql_call_weight(call) <= TRANSACTION_ITEMS_MAX &&
           bytes + sql_call_bytes(call) <= TRANSACTION_BYTES_MAX;
}

/* Returns when a call may go, or 0 for now. */
static int64_t retry_at(const struct sql_call_queue *queue, const struct sql_call *call)
{
    if (call->retry_ms > 0 && call->retry_ms < queue->retry_at_ms)
        return queue->retry_at_ms;
    return call->retry_ms;
}

/* Moves the correction of the database's clock before the calls that it holds up. */
static void move_clock_first(struct sql_call_queue *queue)
{
    if (!queue->has_clock)
        return;
    queue->has_clock = false;
    for (struct list *at = queue->waiting.next; at != &queue->waiting; at = at->next)
        if (list_entry(at, struct sql_call, list)->kind == SQL_CALL_CLOCK) {
            queue->has_clock = true;
            list_remove(at);
            list_add_first(&queue->waiting, at);
            return;
        }
}

void sql_call_queue_gather(struct sql_call_queue *queue, bool has_disk, struct list *transaction)
{
    size_t items = 0, bytes = 0;
    bool has_changes = false;
    move_clock_first(queue);
    struct list *at = queue->waiting.next;
    while (at != &queue->waiting) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        at = at->next;
        if (retry_at(queue, call) > clock_boot_ms() || (!has_disk && sql_call_is_durable(call)))
            continue;
        if (!fits(transaction, call, items, bytes, has_changes))
            break;
        items += sql_call_weight(call);
        bytes += sql_call_bytes(call);
        has_changes = has_changes || (sql_call_is_change(call) && !sql_call_is_count(call));
        list_remove(&call->list);
        list_add_last(transaction, &call->list);
    }
}

int64_t sql_call_queue_next_ms(const struct sql_call_queue *queue)
{
    int64_t next = INT64_MAX;
    for (struct list *at = queue->waiting.next; at != &queue->waiting; at = at->next) {
        const struct sql_call *call = list_entry(at, struct sql_call, list);
        if (call->retry_ms > 0 && retry_at(queue, call) < next)
            next = retry_at(queue, call);
    }
    return next;
}

/* ---- out of a transaction ---- */

void sql_call_queue_return(struct sql_call_queue *queue, struct list *calls)
{
    struct list later;
    list_init(&later);
    list_take_all(&later, &queue->waiting);
    list_take_all(&queue->waiting, calls);
    while (!list_is_empty(&later)) {
        struct sql_call *call = sql_call_first(&later);
        list_remove(&call->list);
        list_add_last(&queue->waiting, &call->list);
    }
}

bool sql_call_queue_retry(const struct sql_call_queue *queue, struct sql_call *call)
{
    if (clock_boot_ms() - call->since_ms >= queue->timeout_ms)
        return false;
    call->retry_ms = clock_boot_ms() + (call->retry_ms ? SQL_RETRY_MS_MAX : SQL_RETRY_MS);
    return true;
}

void sql_call_queue_note_retry(struct sql_call_queue *queue, int64_t took_ms)
{
    queue->retry_at_ms = clock_boot_ms() + RETRY_SHARE * took_ms;
}

void sql_call_queue_step(struct sql_call_queue *queue, struct sql_call *call)
{
    call->since_ms = clock_boot_ms(); /* of its next step */
    call->retry_ms = call->has_more && call->empty_takes ? clock_boot_ms() + SQL_RETRY_MS : 0;
    list_add_last(call->has_more ? &queue->waiting : &queue->answered, &call->list);
}

/* ---- replies ---- */

void sql_call_queue_drop(struct sql_call_queue *queue, struct sql_call *call)
{
    list_remove(&call->list);
    queue->commands -= call->kind == SQL_CALL_COMMAND;
    sql_call_free(call);
}

void sql_call_queue_refuse(struct sql_call_queue *queue, struct sql_call *call,
                           enum queue_status status)
{
    sql_call_reset_results(call);
    call->status = status;
    call->retry_ms = -1; /* marks it as refused */
    list_remove(&call->list);
    list_add_last(&queue->answered, &call->list);
}

/* Logs a call whose retries have met rows that another transaction holds. */
static void log_late(const struct sql_call *call)
{
    struct sql_call_name name;
    if (!call->is_separate || call->retry_ms <= 0)
        return;
    sql_call_name(call, &name);
    log_event(LOG_WARN, "a call timed out because another transaction holds its rows",
              LOG_TEXT("topic", name.topic), LOG_TEXT("id", name.id),
              LOG_NUMBER("jobs", name.jobs));
}

void sql_call_queue_refuse_late(struct sql_call_queue *queue, struct list *calls)
{
    struct list *at = calls->next;
    while (at != calls) {
        struct sql_call *call = list_entry(at, struct sql_call, list);
        at = at->next;
        if (call->kind != SQL_CALL_COMMAND || clock_boot_ms() - call->since_ms < queue->timeout_ms)
            continue;
        log_late(call);
        sql_call_queue_refuse(queue, call, QUEUE_UNAVAILABLE);
    }
}

void sql_call_queue_refuse_all(struct sql_call_queue *queue, struct list *calls)
{
    while (!list_is_empty(calls)) {
        struct sql_call *call = sql_call_first(calls);
        if (call->kind == SQL_CALL_COMMAND) {
            sql_call_queue_refuse(queue, call, QUEUE_UNAVAILABLE);
        } else {
            list_remove(&call->list);
            sql_call_free(call);
        }
    }
}

void sql_call_queue_reply(struct sql_call_queue *queue)
{
    struct list now;
    list_init(&now);
    list_take_all(&now, &queue->answered);
    while (!list_is_empty(&now)) {
        struct sql_call *call = sql_call_first(&now);
        list_remove(&call->list);
        if (call->retry_ms < 0)
            sql_call_refuse(call, call->status);
        else
            sql_call_reply(call);
        if (queue->awaits && call->command)
            sql_awaits_pushed(queue->awaits, call->command, call->items);
        queue->commands -= call->kind == SQL_CALL_COMMAND;
        sql_call_free(call);
    }
}

void sql_call_queue_end(struct sql_call_queue *queue)
{
    for (int round = 0; round < END_ROUNDS_MAX; round++) {
        sql_call_queue_refuse_all(queue, &queue->waiting);
        sql_call_queue_reply(queue);
    }
}
