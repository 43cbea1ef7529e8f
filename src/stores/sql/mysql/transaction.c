/* The stages of a transaction, in a table: when each of them applies, and what it appends to the
 * pipeline. */
#include "base/clock.h"
#include "sql/mysql/calls.h"
#include "sql/mysql/link.h"

enum { BEAT_US_MAX = 5000000 }; /* a server that is silent for twice this time is considered dead */

static uint64_t stage_bit(enum mysql_stage stage)
{
    return UINT64_C(1) << stage;
}

/* ---- statements ---- */

static void note_time(struct mysql_link *link, int64_t now_ms)
{
    link->now_ms = link->context->now_ms = now_ms;
    link->context->adjust_ms = link->adjust_ms;
    link->context->has_time = true;
    link->context->now_seen_us = clock_inner_us();
}

static bool read_now(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row = result ? libmariadb.mysql_fetch_row(result) : NULL;
    (void)step;
    link->knows_adjust = row && row[1]; /* NULL: only tarry.now_ms() knows the time */
    link->adjust_ms = row ? mysql_number(row[1]) : 0;
    if (row)
        note_time(link, mysql_number(row[0]));
    return true;
}

/* Reads the time that the ticket was set at. If no row has changed, the transaction is repeated with
 * the adjustment and the topics read first. That shows what has changed. */
static bool read_quick_ticket(struct mysql_link *link, const struct mysql_step *step,
                              MYSQL_RES *result)
{
    (void)step;
    (void)result;
    link->knows_adjust = libmariadb.mysql_affected_rows(link->mysql) == 1;
    if (link->knows_adjust) {
        note_time(link, (int64_t)libmariadb.mysql_insert_id(link->mysql));
        mysql_note_ticket_topics(link);
    } else {
        mysql_forget_ticket_topics(link);
        mysql_note_fault(link, SQL_FAULT_OUTDATED, "TY003",
                         "the ticket of this server, the adjustment of the clock or a topic has "
                         "changed");
    }
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

/* Sets the ticket and remembers its time, which the result and later statements contain. */
static void append_quick_ticket(struct mysql_link *link)
{
    long long ticket = (long long)link->transaction.plan.ticket;
    struct buffer *out = mysql_statement_repeated(link, read_quick_ticket);
    buffer_append_format(
        out,
        "UPDATE tarry.ticket SET number=%lld,at=LAST_INSERT_ID(UNIX_TIMESTAMP()*1000+"
        "TIMESTAMPDIFF(MICROSECOND,NOW(),SYSDATE(3)) DIV 1000+%lld) WHERE server=%lld AND "
        "number=%lld AND (SELECT s.adjust_ms FROM tarry.store s",
        ticket, (long long)link->adjust_ms, (long long)link->context->server, ticket - 1);
    mysql_append_ticket_topics(link, out);
    buffer_append_format(out, " WHERE s.one=1)=%lld", (long long)link->adjust_ms);
}

/* Reads the time, and sets the ticket unless the transaction changes nothing. */
static void append_time(struct mysql_link *link)
{
    buffer_append_text(mysql_statement(link, NULL),
                       "SELECT tarry.now_ms(),adjust_ms INTO @tarry_now,@tarry_adjust FROM "
                       "tarry.store WHERE one=1");
    buffer_append_text(mysql_statement(link, read_now), "SELECT @tarry_now,@tarry_adjust");
    if (link->transaction.plan.ticket)
        buffer_append_format(
            mysql_statement(link, read_ticket),
            "UPDATE tarry.ticket SET number=%lld,at=@tarry_now WHERE server=%lld AND "
            "number=%lld",
            (long long)link->transaction.plan.ticket, (long long)link->context->server,
            (long long)link->transaction.plan.ticket - 1);
}

static void append_begin(struct mysql_link *link)
{
    if (!link->is_manual)
        buffer_append_text(mysql_statement(link, NULL), "SET autocommit=0");
    link->is_manual = true;
    link->transaction.is_quick = link->knows_adjust && link->transaction.plan.ticket;
    if (link->transaction.is_quick)
        append_quick_ticket(link);
    else
        append_time(link);
    /* If other servers may have considered this one dead, it must register again before it takes
     * jobs. */
    if (!link->transaction.plan.ticket || clock_boot_us() - link->beat_us <= BEAT_US_MAX)
        return;
    struct buffer *out = mysql_statement(link, NULL);
    buffer_append_format(out, "INSERT IGNORE INTO tarry.server (server,beat) VALUES (%lld,",
                         (long long)link->context->server);
    mysql_append_now(link, out);
    buffer_append_byte(out, ')');
}

static void append_commit(struct mysql_link *link)
{
    buffer_append_text(mysql_statement(link, NULL), "COMMIT");
}

static void append_rollback(struct mysql_link *link)
{
    buffer_append_text(mysql_statement(link, NULL), "ROLLBACK");
}

/* ---- results ---- */

/* Repeats what the first pipeline has done early if a remembered topic has changed. */
static void correct_begin(struct mysql_link *link)
{
    if (link->topics.have_moved) {
        mysql_rows_clear(link);
        link->takes.list.count = 0;
        link->flow.names.count = 0;
        link->transaction.stages &= ~(stage_bit(MYSQL_STAGE_LOCK) | stage_bit(MYSQL_STAGE_TAKE) |
                                      stage_bit(MYSQL_STAGE_GROUPS));
    }
    if (link->rows.early == MYSQL_EARLY_MISSED)
        link->transaction.stages &= ~stage_bit(MYSQL_STAGE_LOCK);
    if (link->transaction.has_pushes)
        mysql_mark_new_topics(link);
}

/* Creates the groups that are missing. The first group of a topic changes its jobs, which are then read again. */
static void append_new_groups(struct mysql_link *link)
{
    if (mysql_append_new_groups(link))
        return;
    mysql_rows_clear(link);
    link->transaction.stages &= ~stage_bit(MYSQL_STAGE_LOCK);
}

static void share_takes(struct mysql_link *link)
{
    if (!mysql_share_takes(link))
        mysql_note_no_memory(link);
}

/* ---- conditions ---- */

static bool is_done(const struct mysql_link *link, enum mysql_stage stage)
{
    return (link->transaction.stages & stage_bit(stage)) != 0;
}

static bool has_notifications(const struct mysql_link *link)
{
    EACH_CALL(link, call)
    if (call->kind == SQL_CALL_LOOK)
        return !link->transaction.plan.is_alone;
    return false;
}

static bool has_unread_topics(const struct mysql_link *link)
{
    bool is_checked = link->topics.are_in_ticket && link->transaction.part == MYSQL_PART_BEGIN;
    return !is_checked && !mysql_topics_are_read(link);
}

static bool has_uncounted_topics(const struct mysql_link *link)
{
    return link->context->topics_max && mysql_topics_are_missing(link);
}

/* The first pipeline may use the remembered topics, and is corrected if they have changed. */
static bool may_be_early(const struct mysql_link *link)
{
    return link->topics.wanted.count > 0 && mysql_topics_are_known(link);
}

static bool locks_now(const struct mysql_link *link)
{
    return link->transaction.part != MYSQL_PART_BEGIN ||
           (link->transaction.has_rows && may_be_early(link));
}

static bool names_groups(const struct mysql_link *link)
{
    return locks_now(link) && mysql_flow_has_names(link);
}

static bool names_batches(const struct mysql_link *link)
{
    return locks_now(link) && mysql_names_batches(link);
}

/* Rows that are read after the decision belong to batches that are locked and read already. */
static bool has_own_batches(const struct mysql_link *link)
{
    return link->batches.has_own && !is_done(link, MYSQL_STAGE_DECIDE);
}

static bool has_takes(const struct mysql_link *link)
{
    return link->transaction.has_takes;
}

static bool takes_now(const struct mysql_link *link)
{
    return link->transaction.has_takes &&
           (link->transaction.part != MYSQL_PART_BEGIN ||
            (!link->transaction.has_rows && may_be_early(link) && !mysql_flow_takes(link)));
}

static bool chooses(const struct mysql_link *link)
{
    return mysql_flow_takes(link) && !link->flow.is_chosen;
}

/* Waits for the results before it. */
static void wait_here(struct mysql_link *link)
{
    (void)link;
}

/* Takes see the rows that the transaction has changed. Otherwise, the commit writes them. */
static bool writes_now(const struct mysql_link *link)
{
    return link->transaction.part == MYSQL_PART_COMMIT ||
           (link->transaction.has_takes && !is_done(link, MYSQL_STAGE_TAKE));
}

static bool needs_delivery(const struct mysql_link *link)
{
    return link->transaction.has_takes && mysql_takes_need_number(link);
}

static bool has_others(const struct mysql_link *link)
{
    return !link->transaction.plan.is_alone;
}

static bool others_listen(const struct mysql_link *link)
{
    return link->transaction.plan.others_listen;
}

static bool is_awaited(const struct mysql_link *link)
{
    return link->is_awaited;
}

/* ---- the table ---- */

enum {
    BEGIN = MYSQL_PART_BEGIN,
    CALLS = MYSQL_PART_CALLS,
    COMMIT = MYSQL_PART_COMMIT,
    ROLLBACK = MYSQL_PART_ROLLBACK
};

/* Stages in their order. Each runs once in a transaction, but topics are read as often as needed. A
 * stage that has nothing to append adds no statement. */
static const struct stage {
    unsigned parts; /* in which it may run */
    unsigned waits; /* parts in which all results so far must have arrived */
    bool (*applies)(const struct mysql_link *link); /* NULL: always */
    void (*append)(struct mysql_link *link); /* appends statements, which name their readers */
    void (*read)(struct mysql_link *link);   /* evaluates the results so far */
} stages[] = {
    [MYSQL_STAGE_BEGIN] = {BEGIN, .append = append_begin},
    [MYSQL_STAGE_POLL] = {BEGIN, .applies = has_notifications, .append = mysql_append_poll},
    [MYSQL_STAGE_MESSAGES] = {BEGIN, .append = mysql_append_messages_since},
    [MYSQL_STAGE_BEGUN] = {CALLS, .read = correct_begin},
    [MYSQL_STAGE_TOPICS] = {BEGIN | CALLS, 0, .applies = has_unread_topics,
                            .append = mysql_append_topics},
    [MYSQL_STAGE_TOPIC_COUNT] = {CALLS, CALLS, .applies = has_uncounted_topics,
                                 .append = mysql_append_topic_count},
    [MYSQL_STAGE_NEW_TOPICS] = {CALLS, CALLS, .applies = mysql_topics_are_missing,
                                .append = mysql_append_new_topics},
    [MYSQL_STAGE_GROUPS] = {BEGIN | CALLS, CALLS, .applies = names_groups,
                            .append = mysql_append_group_names},
    [MYSQL_STAGE_NEW_GROUPS] = {CALLS, CALLS, .applies = mysql_groups_are_missing,
                                .append = append_new_groups},
    [MYSQL_STAGE_LOCK] = {BEGIN | CALLS, CALLS, .applies = locks_now, .append = mysql_append_locks},
    [MYSQL_STAGE_BATCH_NAMES] = {BEGIN | CALLS, 0, .applies = names_batches,
                                 .append = mysql_append_batch_names},
    [MYSQL_STAGE_CALLS] = {CALLS, .append = mysql_append_calls},
    [MYSQL_STAGE_BATCH_OWN] = {CALLS, CALLS, .applies = has_own_batches,
                               .append = mysql_append_own_batches},
    [MYSQL_STAGE_DECIDE] = {CALLS, CALLS, .read = mysql_decide},
    [MYSQL_STAGE_BATCH_LOCK] = {CALLS, 0, .applies = mysql_batches_are_counted,
                                .append = mysql_append_batch_locks},
    [MYSQL_STAGE_BATCH_NEEDS] = {CALLS, CALLS, .applies = mysql_batches_are_counted,
                                 .append = mysql_append_batch_needs},
    [MYSQL_STAGE_BATCH_DECIDE] = {CALLS, CALLS, .applies = mysql_batches_are_counted,
                                  .read = mysql_decide_batches},
    [MYSQL_STAGE_AWAITED] = {CALLS, 0, .applies = is_awaited, .append = mysql_append_awaited},
    [MYSQL_STAGE_KEEP] = {CALLS | COMMIT, 0, .applies = writes_now, .append = mysql_append_kept},
    [MYSQL_STAGE_WRITE] = {CALLS | COMMIT, 0, .applies = writes_now, .append = mysql_append_rows},
    [MYSQL_STAGE_BATCHES] = {CALLS | COMMIT, 0, .applies = writes_now,
                             .append = mysql_append_batches},
    [MYSQL_STAGE_FLOW] = {CALLS | COMMIT, 0, .applies = writes_now,
                          .append = mysql_append_flow_rows},
    [MYSQL_STAGE_HISTORY] = {CALLS | COMMIT, 0, .applies = writes_now,
                             .append = mysql_append_history},
    [MYSQL_STAGE_FLOW_READ] = {CALLS, 0, .applies = mysql_flow_takes,
                               .append = mysql_append_flow_read},
    [MYSQL_STAGE_FLOW_LOCK] = {CALLS, CALLS, .applies = mysql_flow_takes,
                               .append = mysql_append_flow_lock},
    [MYSQL_STAGE_FLOW_FIND] = {CALLS, CALLS, .applies = chooses, .append = mysql_append_flow_find},
    [MYSQL_STAGE_FLOW_CHOSEN] = {CALLS, CALLS, .applies = mysql_flow_takes, .read = wait_here},
    [MYSQL_STAGE_TAKE] = {BEGIN | CALLS, 0, .applies = takes_now, .append = mysql_append_takes},
    [MYSQL_STAGE_DELIVERY] = {CALLS, CALLS, .applies = needs_delivery,
                              .append = mysql_append_delivery},
    [MYSQL_STAGE_SHARE] = {CALLS, CALLS, has_takes, .read = share_takes},
    [MYSQL_STAGE_BODIES] = {CALLS, 0, .applies = has_takes, .append = mysql_append_bodies},
    [MYSQL_STAGE_LEASE] = {COMMIT, .append = mysql_append_taken},
    [MYSQL_STAGE_FLOW_WRITE] = {COMMIT, 0, .applies = mysql_flow_takes,
                                .append = mysql_append_flow_groups},
    [MYSQL_STAGE_LOOK] = {COMMIT, .append = mysql_append_looks},
    [MYSQL_STAGE_END] = {COMMIT, .append = mysql_append_call_ends},
    [MYSQL_STAGE_COUNTS] = {COMMIT, .append = mysql_append_tallies},
    [MYSQL_STAGE_NOTIFY] = {COMMIT, 0, .applies = has_others, .append = mysql_append_notifications},
    [MYSQL_STAGE_EVENTS] = {COMMIT, 0, .applies = others_listen, .append = mysql_append_messages},
    [MYSQL_STAGE_COMMIT] = {COMMIT, .append = append_commit},
    [MYSQL_STAGE_DAYS] = {COMMIT, .append = mysql_append_history_days},
    [MYSQL_STAGE_HEALTH] = {COMMIT, .append = mysql_append_health},
    [MYSQL_STAGE_ROLLBACK] = {ROLLBACK, .append = append_rollback},
};
_Static_assert(MYSQL_STAGES <= 64, "each stage has a bit");

/* Appends the next pipeline of the part. Returns false if the part needs no further one. */
static bool pipeline_append(struct mysql_link *link)
{
    mysql_pipeline_begin(link);
    for (enum mysql_stage i = MYSQL_STAGE_BEGIN; i < MYSQL_STAGES; i++) {
        const struct stage *stage = &stages[i];
        if (!(stage->parts & link->transaction.part) || is_done(link, i) ||
            (stage->applies && !stage->applies(link)))
            continue;
        if (stage->waits & link->transaction.part && link->wire.steps.count)
            return true;
        if (i != MYSQL_STAGE_TOPICS && i != MYSQL_STAGE_FLOW_FIND)
            link->transaction.stages |= stage_bit(i);
        if (stage->append)
            stage->append(link);
        else
            stage->read(link);
    }
    return link->wire.steps.count > 0;
}

/* ---- parts ---- */

static void transaction_clear(struct mysql_link *link)
{
    mysql_results_drop(link);
    mysql_rows_clear(link);
    mysql_topics_begin(link);
    link->takes.list.count = 0;
    mysql_flow_clear(link);
    mysql_batches_begin(link);
    link->flow.names.count = link->flow.notes.count = 0;
    link->transaction.has_rows = link->transaction.has_takes = link->transaction.has_pushes =
        link->topics.have_moved = false;
    link->transaction.stages = 0;
    link->rows.number = link->takes.delivery = link->rows.numbers_used = 0;
    link->rows.early = 0;
    link->topics.count = 0;
    link->is_awaited = false;
    link->history.wants_days = false;
    link->outbox.written = 0;
}

bool mysql_transaction_begin(struct mysql_link *link, const struct sql_plan *plan)
{
    link->transaction.plan = *plan;
    transaction_clear(link);
    link->transaction.part = MYSQL_PART_BEGIN;
    link->transaction.is_exact =
        sql_call_first(plan->calls)->is_separate; /* such a call is the only one */
    return mysql_want_topics(link) && pipeline_append(link);
}

bool mysql_transaction_next(struct mysql_link *link)
{
    if (link->transaction.part == MYSQL_PART_COMMIT ||
        link->transaction.part == MYSQL_PART_ROLLBACK)
        return false;
    link->transaction.part = MYSQL_PART_CALLS;
    return pipeline_append(link);
}

void mysql_transaction_commit(struct mysql_link *link)
{
    link->transaction.part = MYSQL_PART_COMMIT;
    (void)pipeline_append(link);
}

void mysql_transaction_rollback(struct mysql_link *link)
{
    link->transaction.part = MYSQL_PART_ROLLBACK;
    (void)pipeline_append(link);
}

static void note_beat(struct mysql_link *link)
{
    EACH_CALL(link, call)
    if (call->kind == SQL_CALL_UPKEEP)
        link->beat_us = clock_boot_us();
}

void mysql_transaction_part_over(struct mysql_link *link)
{
    if (link->transaction.part == MYSQL_PART_CALLS && !mysql_fill_takes(link))
        mysql_note_no_memory(link);
    if (link->transaction.part != MYSQL_PART_COMMIT)
        return;
    note_beat(link);
    mysql_takes_keep_numbers(link);
    link->outbox.number += link->outbox.written;
    (void)mysql_share_looks(link); /* on failure, a check is made later */
}
