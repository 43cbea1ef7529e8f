#include "sql/housekeeping.h"

#include "base/clock.h"
#include "base/trouble.h"

enum {
    ENDS_MAX = 500,
    UPKEEP_MS = 1000,
    UPKEEP_MORE_MS = 50, /* if the last one left kept jobs to remove: other calls come in between */
    LOOK_SHARE = 20,     /* checks without a bound may take one part in this many of the time */
    LOOK_MS_MAX = 60000, /* maximum pause between such checks */
    AWAIT_ALL_MS = 1000,
    AWAIT_MANY_MS = 10000,
    BY_SQL_MS = 1000, /* time after a push by SQL during which another one is expected */
};

void sql_housekeeping_init(struct sql_housekeeping *keeping, const struct sql_dialect *dialect,
                           struct sql_hints *hints, struct sql_call_queue *calls)
{
    *keeping = (struct sql_housekeeping){.dialect = dialect, .hints = hints, .calls = calls};
}

void sql_housekeeping_connected(struct sql_housekeeping *keeping)
{
    keeping->adopt_wanted = true;
    keeping->upkeep_ms = 0;
    keeping->look_all_ms = 0; /* the time of an outage is not that of a check */
    keeping->hints->expire_ms = 0;
}

static int64_t database_ms(const struct sql_housekeeping *keeping)
{
    return sql_clock_ms(&keeping->hints->context->clock);
}

static struct sql_topic_plan *plan_of(const struct sql_housekeeping *keeping)
{
    return &keeping->hints->context->plan;
}

/* ---- operations that are due ---- */

static void end_leases(struct sql_housekeeping *keeping, int64_t now_ms)
{
    struct sql_watched *leases = &keeping->hints->leases;
    struct sql_call *call;
    struct sql_lease lease;
    if (keeping->end_under_way || sql_watched_next(leases) > now_ms)
        return;
    call = sql_call_queue_add_own(keeping->calls, SQL_CALL_END_LEASES);
    if (!call)
        return;
    while (call->ends.count < ENDS_MAX && sql_leases_reserve(&call->ends, call->ends.count + 1) &&
           sql_watched_take(leases, now_ms, &lease))
        (void)sql_leases_add(&call->ends, lease);
    keeping->end_under_way = true;
}

static void look_around(struct sql_housekeeping *keeping, bool at_all)
{
    struct sql_call *call =
        keeping->look_under_way ? NULL : sql_call_queue_add_own(keeping->calls, SQL_CALL_LOOK);
    if (!call)
        return;
    call->from_the_start = at_all;
    keeping->look_all_wanted = keeping->look_all_wanted && !at_all;
    keeping->look_under_way = true;
}

/* Performs the upkeep once a second: sends the heartbeat and checks whether jobs wait that no
 * notification announced. */
static void keep_up(struct sql_housekeeping *keeping)
{
    if (clock_inner_ms() < keeping->upkeep_ms)
        return;
    keeping->upkeep_ms = clock_inner_ms() + UPKEEP_MS;
    if (!keeping->upkeep_under_way) {
        struct sql_call *call = sql_call_queue_add_own(keeping->calls, SQL_CALL_UPKEEP);
        keeping->upkeep_under_way = call != NULL;
        if (call) {
            call->is_separate =
                true; /* its view of other transactions is as of its own beginning */
            call->listens = keeping->hints->audience.kinds != 0;
        }
    }
    sql_topics_forget(&keeping->hints->context->topics);
}

/* Checks for pushes without a notification: often while a consumer waits, more often while such
 * pushes arrive. */
static void look_for_others(struct sql_housekeeping *keeping)
{
    const struct sql_dialect *dialect = keeping->dialect;
    bool is_expected = clock_boot_ms() < keeping->by_sql_ms;
    if (!dialect->look_ms || clock_boot_ms() < keeping->look_ms || keeping->look_under_way)
        return;
    keeping->look_ms = clock_boot_ms() + (is_expected ? dialect->look_soon_ms : dialect->look_ms);
    sql_hints_look(keeping->hints);
}

static bool is_to_poll(const struct sql_housekeeping *keeping)
{
    return sql_audience_is_looking(&keeping->hints->audience) && !keeping->poll_under_way;
}

/* Corrects the database's clock, before all other calls. */
static void set_clock(struct sql_housekeeping *keeping)
{
    struct sql_call *call = keeping->hints->context->clock.is_apart && !keeping->clock_under_way
                                ? sql_call_queue_add_own(keeping->calls, SQL_CALL_CLOCK)
                                : NULL;
    if (!call)
        return;
    call->is_separate = true;
    keeping->clock_under_way = true;
}

static int64_t await_ms(const struct sql_housekeeping *keeping)
{
    return keeping->await_under_way ? INT64_MAX
                                    : sql_awaits_next_ms(&keeping->hints->context->awaits);
}

/* Adds and removes rows of awaited jobs, and fetches the jobs that have ended. */
static void await_ends(struct sql_housekeeping *keeping)
{
    struct sql_awaits *awaits = &keeping->hints->context->awaits;
    struct sql_call *call = await_ms(keeping) <= clock_boot_ms()
                                ? sql_call_queue_add_own(keeping->calls, SQL_CALL_AWAIT)
                                : NULL;
    if (!call)
        return;
    call->reply_to = (struct queue_reply_to){.done = sql_awaits_receive, .owner = awaits};
    awaits->is_notified = false;
    keeping->await_under_way = true;
}

static bool is_to_peek(const struct sql_housekeeping *keeping)
{
    return keeping->dialect->look_ms && !keeping->peek_under_way &&
           keeping->hints->context->awaits.jobs.table.count > 0;
}

/* Checks for the ends of awaited jobs, for dialects without notifications. From time to time all of
 * them are looked up, since a transaction that began before the wait may have missed it. */
static void peek_at_ends(struct sql_housekeeping *keeping)
{
    struct sql_awaits *awaits = &keeping->hints->context->awaits;
    int64_t now_ms = clock_boot_ms();
    if (!is_to_peek(keeping) || now_ms < keeping->peek_ms)
        return;
    keeping->peek_ms = now_ms + keeping->dialect->look_soon_ms;
    if (now_ms >= keeping->await_all_ms) {
        bool are_many = awaits->jobs.table.count > SQL_AWAIT_ITEMS_MAX;
        keeping->await_all_ms = now_ms + (are_many ? AWAIT_MANY_MS : AWAIT_ALL_MS);
        sql_awaits_doubt(awaits);
        return;
    }
    keeping->peek_under_way = sql_call_queue_add_own(keeping->calls, SQL_CALL_PEEK) != NULL;
}

static void poll_others(struct sql_housekeeping *keeping)
{
    if (!is_to_poll(keeping) || clock_boot_ms() < keeping->poll_ms)
        return;
    keeping->poll_ms = clock_boot_ms() + keeping->dialect->look_ms;
    keeping->poll_under_way = sql_call_queue_add_own(keeping->calls, SQL_CALL_POLL) != NULL;
}

void sql_housekeeping_run(struct sql_housekeeping *keeping, bool is_notification)
{
    int64_t now_ms = database_ms(keeping);
    if (is_notification && !keeping->upkeep_under_way && !keeping->upkeep_failed)
        keeping->upkeep_ms = 0;
    set_clock(keeping);
    keep_up(keeping);
    end_leases(keeping, now_ms);
    if (!keeping->expire_under_way && keeping->hints->expire_ms <= now_ms)
        keeping->expire_under_way = sql_call_queue_add_own(keeping->calls, SQL_CALL_EXPIRE) != NULL;
    if (keeping->adopt_wanted && !keeping->adopt_under_way &&
        sql_call_queue_add_own(keeping->calls, SQL_CALL_ADOPT)) {
        keeping->adopt_wanted = false;
        keeping->adopt_under_way = true;
    }
    sql_hints_notify_ready(keeping->hints, now_ms);
    look_for_others(keeping);
    peek_at_ends(keeping);
    await_ends(keeping);
    poll_others(keeping);
    if (!keeping->look_under_way && sql_topic_plan_wants_look(plan_of(keeping)))
        look_around(keeping, false);
}

void sql_housekeeping_leave(struct sql_housekeeping *keeping)
{
    if (!keeping->goodbye_sent)
        keeping->goodbye_sent = sql_call_queue_add_own(keeping->calls, SQL_CALL_GOODBYE) != NULL;
}

/* ---- time of the next operation ---- */

/* Returns the first time, by the database's clock, at which an operation is due. */
static int64_t next_ms(const struct sql_housekeeping *keeping)
{
    const struct sql_hints *hints = keeping->hints;
    int64_t next = keeping->end_under_way ? INT64_MAX : sql_watched_next(&hints->leases);
    if (!keeping->expire_under_way && hints->expire_ms < next)
        next = hints->expire_ms;
    int64_t at = sql_topic_plan_next_ms(plan_of(keeping));
    return at < next ? at : next;
}

int64_t sql_housekeeping_next_us(const struct sql_housekeeping *keeping)
{
    int64_t next = sql_clock_inner_us(&keeping->hints->context->clock, next_ms(keeping));
    if (keeping->upkeep_ms * 1000 < next)
        next = keeping->upkeep_ms * 1000;
    int64_t look_us = clock_inner_us() + (keeping->look_ms - clock_boot_ms()) * 1000;
    if (keeping->dialect->look_ms && !keeping->look_under_way && look_us < next &&
        plan_of(keeping)->times.count)
        next = look_us;
    int64_t poll_us = clock_inner_us() + (keeping->poll_ms - clock_boot_ms()) * 1000;
    if (is_to_poll(keeping) && poll_us < next)
        next = poll_us;
    if (is_to_peek(keeping)) {
        int64_t peek_us = clock_inner_us() + (keeping->peek_ms - clock_boot_ms()) * 1000;
        next = peek_us < next ? peek_us : next;
    }
    if (await_ms(keeping) != INT64_MAX) {
        int64_t await_us = clock_inner_us() + (await_ms(keeping) - clock_boot_ms()) * 1000;
        next = await_us < next ? await_us : next;
    }
    return next;
}

bool sql_housekeeping_is_quiet(const struct sql_housekeeping *keeping)
{
    return (!keeping->adopt_wanted || keeping->adopt_under_way) &&
           !sql_topic_plan_wants_look(plan_of(keeping)) && await_ms(keeping) == INT64_MAX &&
           next_ms(keeping) > database_ms(keeping) && keeping->upkeep_ms > clock_inner_ms();
}

/* ---- results ---- */

static void upkeep_is_done(struct sql_housekeeping *keeping, const struct sql_call *call)
{
    struct sql_hints *hints = keeping->hints;
    sql_audience_known(&hints->audience, call->listens, call->other_servers, call->others_listen);
    keeping->adopt_wanted = call->silent_servers > 0 || keeping->adopt_failed;
    if (call->next_expire_ms < hints->expire_ms)
        hints->expire_ms = call->next_expire_ms;
    bool may_wait = !call->mark || call->mark != keeping->mark; /* jobs may have started to wait */
    keeping->look_all_wanted = keeping->look_all_wanted || may_wait;
    bool at_all = keeping->look_all_wanted && plan_of(keeping)->times.count &&
                  clock_boot_ms() >= keeping->look_all_ms;
    if (may_wait || at_all) {
        sql_hints_look(hints);
        if (sql_topic_plan_wants_look(plan_of(keeping)))
            look_around(keeping, at_all);
    }
    keeping->mark = call->mark;
    if (call->more_kept)
        keeping->upkeep_ms = clock_inner_ms() + UPKEEP_MORE_MS;
}

/* Notes the result of an operation of the server for the status. An operation that is no longer
 * attempted, such as reading events for a consumer that has left, counts for a minute. */
static void note_operation(const struct sql_call *call, bool is_good)
{
    if (call->kind == SQL_CALL_COMMAND)
        return;
    if (is_good)
        trouble_note(TROUBLE_DATABASE_UPKEEP, (uint32_t)call->kind, false);
    else
        trouble_note_call(TROUBLE_DATABASE_UPKEEP, (uint32_t)call->kind);
}

static void call_is_done(struct sql_housekeeping *keeping, const struct sql_call *call,
                         bool is_good)
{
    struct sql_hints *hints = keeping->hints;
    int64_t again_ms = database_ms(keeping) + SQL_RETRY_MS_MAX;
    note_operation(call, is_good && !call->part_failed);
    switch (call->kind) {
    case SQL_CALL_END_LEASES:
        keeping->end_under_way = false;
        for (size_t i = 0; !is_good && i < call->ends.count; i++) /* retry soon */
            (void)sql_watched_set(&hints->leases, &call->ends.at[i], again_ms);
        break;
    case SQL_CALL_LOOK:
        keeping->look_under_way = false;
        sql_topic_plan_looked(plan_of(keeping), is_good);
        break;
    case SQL_CALL_POLL:
        keeping->poll_under_way = is_good && call->has_more;
        break;
    case SQL_CALL_EXPIRE:
        keeping->expire_under_way = false;
        hints->expire_ms = is_good ? call->next_expire_ms : again_ms;
        break;
    case SQL_CALL_UPKEEP:
        keeping->upkeep_under_way = false;
        keeping->upkeep_failed = !is_good; /* the next upkeep keeps its schedule */
        if (is_good)
            upkeep_is_done(keeping, call);
        break;
    case SQL_CALL_CLOCK:
        keeping->clock_under_way = false;
        break;
    case SQL_CALL_PEEK:
        keeping->peek_under_way = false;
        break;
    case SQL_CALL_AWAIT:
        keeping->await_under_way = false;
        hints->context->awaits.is_notified |= !is_good;
        break;
    case SQL_CALL_GOODBYE:
        keeping->has_left = true;
        break;
    case SQL_CALL_ADOPT:
        keeping->adopt_under_way = false;
        keeping->adopt_failed = !is_good;
        break;
    case SQL_CALL_COMMAND:
        break;
    }
}

/* Sets when the next check without a bound may be made. One that took long, beside many deleted rows
 * that a snapshot keeps, holds up all calls of the server. */
static void note_look_at_all(struct sql_housekeeping *keeping, int64_t begun_ms)
{
    int64_t wait_ms = LOOK_SHARE * (clock_boot_ms() - begun_ms);
    keeping->look_all_ms = clock_boot_ms() + (wait_ms < LOOK_MS_MAX ? wait_ms : LOOK_MS_MAX);
}

void sql_housekeeping_failed(struct sql_housekeeping *keeping, const struct sql_call *call)
{
    if (call->from_the_start) {
        keeping->look_all_wanted = true;
        note_look_at_all(keeping, call->since_ms);
    }
    call_is_done(keeping, call, false);
}

void sql_housekeeping_committed(struct sql_housekeeping *keeping, const struct list *calls,
                                int64_t begun_ms)
{
    struct sql_context *context = keeping->hints->context;
    bool looked_at_all = false;
    for (struct list *at = calls->next; at != calls; at = at->next) {
        const struct sql_call *call = list_entry(at, struct sql_call, list);
        call_is_done(keeping, call, true);
        looked_at_all = looked_at_all || call->from_the_start;
        if (!call->from_the_start)
            sql_hints_apply_look(keeping->hints, call, calls);
    }
    for (struct list *at = calls->next; at != calls; at = at->next) {
        const struct sql_call *call = list_entry(at, struct sql_call, list);
        /* a check without a bound overrides the others, since it includes jobs below the bounds */
        if (call->from_the_start)
            sql_hints_apply_look(keeping->hints, call, calls);
    }
    sql_hints_apply_effects(keeping->hints);
    if (context->by_sql)
        keeping->by_sql_ms = clock_boot_ms() + BY_SQL_MS;
    context->by_sql = false;
    if (looked_at_all)
        note_look_at_all(keeping, begun_ms);
}
