#include "sql/mysql/settle.h"
#include "base/clock.h"
#include "sql/mysql/calls.h"
#include "sql/mysql/job_row.h"
#include "sql/mysql/link.h"

#include <stdlib.h>
#include <string.h>

enum {
    COUNT_US = 1000000, /* how long a count of all batches is used */
    STOP_ROWS = 1000,   /* members that a transaction cancels */
    ADDED_ROWS = 5000,  /* rows of tarry.batch_add that a transaction reads */
    AGAIN_MS = 100,     /* other transactions hold what is needed */
    KEYS_MAX = 500      /* per statement */
};

/* ---- reading ---- */

enum {
    READ_BATCH,
    READ_TOPIC,
    READ_ID,
    READ_DEPTH,
    READ_STOPPED,
    READ_WAIT,
    READ_CLOSE,
    READ_FIGURES,
    READ_HAS_JOB
};

static bool batch_read(struct mysql_link *link, MYSQL_ROW row, const unsigned long *lengths)
{
    struct mysql_batch *batch = mysql_batch_of(link, mysql_number(row[READ_BATCH]));
    int64_t figures[SQL_WAITING_FIGURES] = {0};
    if (!batch || lengths[READ_ID] > sizeof batch->id)
        return false;
    if (batch->is_new || !mysql_waiting_read(row[READ_FIGURES], figures))
        return true;
    batch->is_known = true;
    batch->topic = (uint32_t)mysql_number(row[READ_TOPIC]);
    batch->id_bytes = lengths[READ_ID];
    memcpy(batch->id, row[READ_ID], batch->id_bytes);
    batch->wait_until_ms = mysql_number(row[READ_WAIT]);
    batch->close_by_ms = mysql_number(row[READ_CLOSE]);
    batch->wait_ms = figures[SQL_WAITING_WAIT];
    batch->close_ms = figures[SQL_WAITING_CLOSE];
    batch->rules = (struct life_batch){.on_dead = (enum batch_on_dead)figures[SQL_WAITING_ON_DEAD],
                                       .members = (uint32_t)figures[SQL_WAITING_MEMBERS],
                                       .depth = (uint8_t)mysql_number(row[READ_DEPTH]),
                                       .is_closed = figures[SQL_WAITING_CLOSED] != 0,
                                       .has_ended = figures[SQL_WAITING_ENDED] != 0,
                                       .is_stopped = mysql_number(row[READ_STOPPED]) != 0};
    for (int i = 0; i < BATCH_OUTCOMES; i++)
        batch->rules.counts.of[i] = (uint32_t)figures[SQL_WAITING_COUNTS + i];
    return true;
}

static const char seen_columns[] =
    "SELECT b.batch,b.topic,b.id,b.depth,b.stopped,b.wait_until,b.close_by,"
    "tarry.server_waiting(b.batch)";

static bool read_named(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    if (!row)
        return true;
    link->batches.names.at[step->number].number = mysql_number(row[READ_BATCH]);
    return batch_read(link, row, libmariadb.mysql_fetch_lengths(result));
}

static bool read_count(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    (void)step;
    link->batches.count = row ? mysql_number(row[0]) : 0;
    link->batches.counted_us = clock_boot_us();
    link->batches.made = 0;
    return true;
}

/* Iterates over the pushes with a batch. */
#define EACH_BATCHED(LINK, CALL, PUSH)                                                             \
    EACH_CALL(LINK, CALL)                                                                          \
    for (const struct queue_push *PUSH = pushes_of(CALL), *end = pushes_end(CALL); PUSH < end;     \
         PUSH++)                                                                                   \
        if (PUSH->batch)

static const struct queue_push *pushes_of(const struct sql_call *call)
{
    bool has_pushes = sql_call_writes_items(call) && call->command->kind == COMMAND_PUSH;
    return has_pushes ? call->command->pushes : NULL;
}

static const struct queue_push *pushes_end(const struct sql_call *call)
{
    const struct queue_push *first = pushes_of(call);
    return first ? first + call->command->count : NULL;
}

bool mysql_names_batches(const struct mysql_link *link)
{
    if (link->transaction.has_pushes)
        EACH_BATCHED(link, call, push) return true;
    return false;
}

/* Appends the queries of a batch by the name of its waiting job. The shared lock keeps the batch open; the job is not locked. */
static void append_name(struct mysql_link *link, const struct queue_batch *batch)
{
    static const char waiting[] = " FROM tarry.topic t STRAIGHT_JOIN tarry.job j ON "
                                  "j.topic=t.topic";
    const struct mysql_batch_name name = {.topic = batch->topic, .id = batch->id};
    size_t number = link->batches.names.count;
    for (size_t i = 0; i < number; i++)
        if (slice_equals(link->batches.names.at[i].topic, batch->topic) &&
            slice_equals(link->batches.names.at[i].id, batch->id))
            return;
    if (!mysql_batch_names_add(&link->batches.names, name)) {
        link->wire.text.failed = true;
        return;
    }
    for (int is_read = 0; is_read <= 1; is_read++) {
        struct buffer *out = mysql_statement_of(
            link, (struct mysql_step){.read = is_read ? read_named : NULL, .number = number});
        if (is_read)
            buffer_append_format(out, "%s%s STRAIGHT_JOIN tarry.batch b ON b.batch=j.own",
                                 seen_columns, waiting);
        else
            buffer_append_format(
                out, "SELECT batch FROM tarry.batch_gate WHERE batch=(SELECT j.own%s", waiting);
        buffer_append_text(out, " WHERE t.name=");
        mysql_quote(out, batch->topic);
        buffer_append_text(out, " AND j.id=");
        mysql_quote(out, batch->id);
        if (!is_read)
            buffer_append_text(out, ") LOCK IN SHARE MODE");
    }
}

void mysql_append_batch_names(struct mysql_link *link)
{
    bool waits = false;
    EACH_BATCHED(link, call, push)
    {
        waits = waits || push->batch->waits;
        if (push->batch->topic.len)
            append_name(link, push->batch);
    }
    if (waits &&
        (!link->batches.counted_us || clock_boot_us() - link->batches.counted_us > COUNT_US))
        buffer_append_text(mysql_statement(link, read_count), "SELECT COUNT(*) FROM tarry.batch");
}

static bool read_seen(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result)))
        if (!batch_read(link, row, libmariadb.mysql_fetch_lengths(result)))
            return false;
    return true;
}

/* Appends a list of numbers: all of them at once, or a further one. */
static void append_number(struct buffer *out, bool *is_first, int64_t number)
{
    buffer_append_format(out, "%s%lld", *is_first ? "" : ",", (long long)number);
    *is_first = false;
}

void mysql_append_own_batches(struct mysql_link *link)
{
    struct buffer *out = NULL;
    bool is_first = true;
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        int64_t numbers[] = {row->own, row->state == JOB_DEAD ? row->batch : 0};
        for (size_t k = 0; row->stored && k < 2; k++) {
            if (!numbers[k])
                continue;
            if (!out)
                buffer_append_format(out = mysql_statement(link, read_seen),
                                     "%s FROM tarry.batch b WHERE b.batch IN (", seen_columns);
            append_number(out, &is_first, numbers[k]);
        }
    }
    if (out)
        buffer_append_byte(out, ')');
}

/* ---- locking ---- */

bool mysql_batches_are_counted(const struct mysql_link *link)
{
    for (size_t i = 0; i < link->batches.list.count; i++)
        if (link->batches.list.at[i]->is_counted)
            return true;
    return false;
}

static int batch_compare(const void *left, const void *right)
{
    const struct mysql_batch *const *a = left, *const *b = right;
    return ((*a)->number > (*b)->number) - ((*a)->number < (*b)->number);
}

static bool read_locked(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct mysql_batch *batch = mysql_batch_find(link, mysql_number(row[READ_BATCH]));
        if (!batch_read(link, row, libmariadb.mysql_fetch_lengths(result)))
            return false;
        batch->has_job = mysql_number(row[READ_HAS_JOB]) != 0;
    }
    return true;
}

/* Adds what others have added to the batches. */
static bool read_added(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    enum { N, BATCH, COUNTS, MARK = COUNTS + BATCH_OUTCOMES };
    enum { CLOSES = 1, ENDS, STOPS, RUNS };
    MYSQL_ROW row;
    bool is_cut = libmariadb.mysql_num_rows(result) == ADDED_ROWS;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct mysql_batch *batch = mysql_batch_find(link, mysql_number(row[BATCH]));
        int64_t mark = mysql_number(row[MARK]);
        if (!batch || !mysql_batch_adds_add(&link->batches.added, (uint64_t)mysql_number(row[N])))
            return false;
        for (int i = 0; i < BATCH_OUTCOMES; i++)
            batch->changes[i] += (int32_t)mysql_number(row[COUNTS + i]);
        batch->closes = batch->closes || mark == CLOSES;
        batch->ends = batch->ends || mark == ENDS;
        batch->stops = batch->stops || mark == STOPS;
        batch->runs = batch->runs || mark == RUNS;
        batch->has_added = true;
    }
    for (size_t i = 0; is_cut && i < link->batches.list.count; i++)
        link->batches.list.at[i]->is_left = link->batches.list.at[i]->is_counted;
    return true;
}

/* Appends the numbers of the batches of a kind. Returns the text, or NULL if the list is empty. */
static struct buffer *append_list(struct mysql_link *link, mysql_reader *read, const char *text,
                                  bool (*is_kind)(const struct mysql_batch *batch))
{
    struct buffer *out = NULL;
    bool is_first = true;
    for (size_t i = 0; i < link->batches.list.count; i++) {
        if (!is_kind(link->batches.list.at[i]))
            continue;
        if (!out)
            buffer_append_text(out = mysql_statement(link, read), text);
        append_number(out, &is_first, link->batches.list.at[i]->number);
    }
    if (out)
        buffer_append_byte(out, ')');
    return out;
}

static bool is_stored(const struct mysql_batch *batch)
{
    return batch->is_counted && !batch->is_new;
}

static void append_added(struct mysql_link *link, bool (*is_kind)(const struct mysql_batch *batch))
{
    struct buffer *out = append_list(link, read_added,
                                     "SELECT n,batch,unfinished,acked,dead,cancelled,expired,mark "
                                     "FROM tarry.batch_add FORCE INDEX (batch_add_batch) WHERE "
                                     "batch IN (",
                                     is_kind);
    if (out)
        buffer_append_format(out, " LIMIT %d", ADDED_ROWS);
}

void mysql_append_batch_locks(struct mysql_link *link)
{
    struct mysql_batch_list *list = &link->batches.list;
    qsort(list->at, list->count, sizeof *list->at, batch_compare);
    for (size_t i = 0; i < list->count; i++) {
        list->at[i]->is_locked = list->at[i]->is_counted;
        list->at[i]->is_known = list->at[i]->is_known && list->at[i]->is_new;
    }
    struct buffer *out = append_list(
        link, read_locked,
        "SELECT b.batch,b.topic,b.id,b.depth,b.stopped,b.wait_until,b.close_by,"
        "CONCAT_WS(' ',b.on_dead,b.closed,b.ended,b.unfinished,b.acked,b.dead,b.cancelled,"
        "b.expired,b.members,b.wait_span,b.close_span),EXISTS(SELECT 1 FROM tarry.topic t JOIN "
        "tarry.job j ON j.topic=t.topic WHERE t.topic=b.topic AND t.name IS NOT NULL AND "
        "j.id=b.id AND j.own=b.batch) FROM tarry.batch b FORCE INDEX (PRIMARY) WHERE b.batch IN (",
        is_stored);
    if (out)
        buffer_append_text(out, " ORDER BY b.batch FOR UPDATE");
    append_added(link, is_stored);
}

/* Returns the row of the waiting job, if this transaction has read or pushed it. */
static struct mysql_row *waiting_row(const struct mysql_link *link, const struct mysql_batch *batch)
{
    struct mysql_row *row =
        mysql_row_find(link, batch->topic, slice_make(batch->id, batch->id_bytes));
    return row && (row->stored || row->exists) ? row : NULL;
}

static bool is_gone(const struct mysql_link *link, const struct mysql_batch *batch)
{
    const struct mysql_row *row = waiting_row(link, batch);
    return row ? !row->exists || row->own != batch->number : !batch->has_job;
}

/* Removes the rows that were read, so that they are not read again. They are named by a join: a list could make the database read, and
 * wait for, rows of others. */
static void append_drop_added(struct mysql_link *link)
{
    struct mysql_batch_adds *added = &link->batches.added;
    struct buffer *out = NULL;
    for (size_t i = 0; i < added->count; i++) {
        if (i % KEYS_MAX == 0) {
            if (out)
                buffer_append_text(out, ") k STRAIGHT_JOIN tarry.batch_add a FORCE INDEX (PRIMARY) "
                                        "ON a.n=k.n");
            out = mysql_statement(link, NULL);
            buffer_append_format(out, "DELETE a FROM (SELECT %llu AS n",
                                 (unsigned long long)added->at[i]);
        } else {
            buffer_append_format(out, " UNION ALL SELECT %llu", (unsigned long long)added->at[i]);
        }
    }
    if (out)
        buffer_append_text(out,
                           ") k STRAIGHT_JOIN tarry.batch_add a FORCE INDEX (PRIMARY) ON a.n=k.n");
    added->count = 0;
}

static bool read_gates(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct mysql_batch *batch = mysql_batch_find(link, mysql_number(row[0]));
        if (batch)
            batch->has_gate = true;
    }
    return true;
}

static bool read_member_count(struct mysql_link *link, const struct mysql_step *step,
                              MYSQL_RES *result)
{
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    struct mysql_batch *batch = mysql_batch_find(link, (int64_t)step->number);
    if (row && batch)
        batch->members_left = mysql_number(row[0]);
    return true;
}

/* Reads members to cancel. The transaction may have changed them already. */
static bool read_members(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    struct mysql_batch *batch = mysql_batch_find(link, (int64_t)step->number);
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct mysql_row *member =
            mysql_row_take(link, row, libmariadb.mysql_fetch_lengths(result));
        if (!member || !mysql_batch_rows_add(&link->batches.stopped, member))
            return false;
        batch->members_left--;
    }
    return true;
}

static bool read_waiting(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result)))
        if (!mysql_row_take(link, row, libmariadb.mysql_fetch_lengths(result)))
            return false;
    return true;
}

/* Appends queries for the members of a batch that is stopped: how many there are, then those that no other transaction holds. */
static void append_members(struct mysql_link *link, const struct mysql_batch *batch)
{
    static const char members[] = " FROM (SELECT topic AS t,id AS i FROM tarry.member WHERE "
                                  "batch=%lld AND dead=0) m STRAIGHT_JOIN tarry.job FORCE INDEX "
                                  "(job_id) ON topic=m.t AND id=m.i WHERE (state=1 OR (state=3 AND "
                                  "cancel_requested=0))";
    struct buffer *out = mysql_statement_of(
        link, (struct mysql_step){.read = read_member_count, .number = (uint64_t)batch->number});
    buffer_append_text(out, "SELECT COUNT(*)");
    buffer_append_format(out, members, (long long)batch->number);
    out = mysql_statement_of(
        link, (struct mysql_step){.read = read_members, .number = (uint64_t)batch->number});
    buffer_append_format(out, "SELECT %s", mysql_row_columns);
    buffer_append_format(out, members, (long long)batch->number);
    buffer_append_format(out, " LIMIT %d FOR UPDATE SKIP LOCKED", STOP_ROWS);
}

static void append_waiting(struct mysql_link *link, const struct mysql_batch *batch)
{
    struct buffer *out = mysql_statement(link, read_waiting);
    buffer_append_format(out,
                         "SELECT %s FROM tarry.job FORCE INDEX (job_id) WHERE topic=%u AND id=",
                         mysql_row_columns, batch->topic);
    mysql_quote(out, slice_make(batch->id, batch->id_bytes));
    buffer_append_format(out, " AND own=%lld FOR UPDATE SKIP LOCKED", (long long)batch->number);
}

static bool wants_gate(const struct mysql_batch *batch)
{
    return batch->wants_gate && !batch->is_new;
}

/* Determines what a batch needs. */
static void need(struct mysql_link *link, struct mysql_batch *batch)
{
    struct life_batch now = mysql_batch_now(batch);
    bool was_stopped = batch->rules.is_stopped;
    batch->is_gone = is_gone(link, batch);
    batch->wants_gate = batch->is_gone || (now.is_closed && !batch->rules.is_closed);
    if (batch->stops || (now.on_dead == BATCH_STOP && now.counts.of[BATCH_DEAD] && !now.has_ended))
        batch->rules.is_stopped = batch->rules.is_closed = now.is_closed = true;
    batch->wants_members = batch->rules.is_stopped && !batch->is_new &&
                           (batch->stops || (!now.has_ended && (!was_stopped || batch->has_added)));
    if (batch->wants_members)
        append_members(link, batch);
    if (!batch->is_gone && !now.has_ended && !waiting_row(link, batch) &&
        (batch->ends || batch->runs || batch->wants_members ||
         (now.is_closed && !batch_waits_for(&now.counts, now.on_dead))))
        append_waiting(link, batch);
}

void mysql_append_batch_needs(struct mysql_link *link)
{
    append_drop_added(link);
    for (size_t i = 0; i < link->batches.list.count; i++)
        if (link->batches.list.at[i]->is_locked && link->batches.list.at[i]->is_known)
            need(link, link->batches.list.at[i]);
    struct buffer *out = append_list(
        link, read_gates, "SELECT batch FROM tarry.batch_gate WHERE batch IN (", wants_gate);
    if (!out)
        return;
    buffer_append_text(out, " FOR UPDATE SKIP LOCKED");
    append_added(link, wants_gate); /* of members that were pushed until now */
}

/* ---- decisions ---- */

/* Cancels the members of stopped batches. */
static void stop_members(struct mysql_link *link)
{
    for (size_t i = 0; i < link->batches.stopped.count; i++) {
        struct mysql_row *row = link->batches.stopped.at[i];
        if (!mysql_row_resolve(link, row) || !row->exists)
            continue;
        if (row->state == JOB_DELAYED)
            mysql_row_cancel(link, row);
        else if (row->state == JOB_LEASED)
            mysql_row_request_cancel(row);
    }
}

/* Ends the wait if nothing is left to wait for, or if a call ends it. */
static void end_wait(struct mysql_link *link, struct mysql_batch *batch, bool must_wait)
{
    struct life_batch now = mysql_batch_now(batch);
    bool is_ended = batch->ends || batch->runs;
    struct mysql_row *row = waiting_row(link, batch);
    now.is_closed = batch->rules.is_closed;
    if (now.has_ended || batch->is_gone || (!is_ended && (must_wait || !life_batch_is_over(&now))))
        return;
    if (!row || !mysql_row_resolve(link, row)) {
        batch->is_left = true; /* another transaction changes it */
        return;
    }
    if (mysql_row_waits(row))
        mysql_row_wait_ends(link, row, batch->runs);
    else if (!is_ended)
        return; /* it is dead */
    batch->rules.counts = now.counts;
    batch->rules.has_ended = true;
}

static void decide_batch(struct mysql_link *link, struct mysql_batch *batch)
{
    struct life_batch now = mysql_batch_now(batch);
    bool closes = now.is_closed && !batch->rules.is_closed, must_wait = batch->is_left;
    if (batch->wants_members && batch->members_left > 0)
        batch->is_left = batch->has_more_members = true;
    if (closes && batch->has_gate && !batch->is_left)
        batch->rules.is_closed = true;
    else if (closes)
        batch->is_left = batch->is_to_close = true;
    if (batch->is_gone) {
        batch->is_left = batch->is_left || !batch->has_gate;
        return;
    }
    end_wait(link, batch, must_wait);
}

void mysql_decide_batches(struct mysql_link *link)
{
    size_t count = link->batches.list.count;
    stop_members(link);
    for (size_t i = 0; i < count; i++)
        if (link->batches.list.at[i]->is_locked && link->batches.list.at[i]->is_known)
            decide_batch(link, link->batches.list.at[i]);
}

/* ---- writing ---- */

static void append_counts(struct buffer *out, const struct mysql_batch *batch)
{
    struct life_batch now = mysql_batch_now(batch);
    buffer_append_format(out,
                         "unfinished=%d,acked=%u,dead=%u,cancelled=%u,expired=%u,closed=%d,"
                         "ended=%d,stopped=%d",
                         (int)now.counts.of[BATCH_UNFINISHED], now.counts.of[BATCH_ACKED],
                         now.counts.of[BATCH_DEAD], now.counts.of[BATCH_CANCELLED],
                         now.counts.of[BATCH_EXPIRED], batch->rules.is_closed, now.has_ended,
                         now.is_stopped);
}

static void append_new(struct mysql_link *link, const struct mysql_batch *batch)
{
    buffer_append_format(mysql_statement(link, NULL),
                         "INSERT INTO tarry.batch_gate (batch,closed) VALUES (%lld,%d)",
                         (long long)batch->number, batch->rules.is_closed);
    struct buffer *out = mysql_statement(link, NULL);
    buffer_append_format(out, "INSERT INTO tarry.batch SET batch=%lld,topic=%u,id=",
                         (long long)batch->number, batch->topic);
    mysql_quote(out, slice_make(batch->id, batch->id_bytes));
    buffer_append_format(out,
                         ",on_dead=%d,members=%u,depth=%u,wait_span=%lld,close_span=%lld,"
                         "wait_until=%lld,close_by=%lld,",
                         (int)batch->rules.on_dead, batch->rules.members, batch->rules.depth,
                         (long long)batch->wait_ms, (long long)batch->close_ms,
                         (long long)batch->wait_until_ms, (long long)batch->close_by_ms);
    append_counts(out, batch);
}

/* Leaves a row for what the next transaction has to do, or for a batch that is not locked. */
static void append_left(struct mysql_link *link, const struct mysql_batch *batch)
{
    enum { NONE, CLOSES, ENDS, STOPS, RUNS };
    int marks[] = {batch->is_to_close ? CLOSES : NONE,
                   batch->has_more_members || (!batch->is_locked && batch->stops) ? STOPS : NONE,
                   batch->runs && !batch->rules.has_ended   ? RUNS
                   : batch->ends && !batch->rules.has_ended ? ENDS
                                                            : NONE};
    static const int32_t none[BATCH_OUTCOMES];
    const int32_t *changes = batch->is_locked ? none : batch->changes;
    struct buffer *out = mysql_statement(link, NULL);
    buffer_append_text(out, "INSERT INTO tarry.batch_add "
                            "(batch,unfinished,acked,dead,cancelled,expired,mark) VALUES ");
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (i > 0 && !marks[i])
            continue;
        buffer_append_format(out, "%s(%lld", i ? "," : "", (long long)batch->number);
        for (int k = 0; k < BATCH_OUTCOMES; k++)
            buffer_append_format(out, ",%d", i ? 0 : changes[k]);
        buffer_append_format(out, ",%d)", marks[i]);
    }
    link->batches.must_fold = true;
    sql_effects_expire(&link->context->effects, link->now_ms + (batch->is_locked ? AGAIN_MS : 0));
}

static void append_batch(struct mysql_link *link, const struct mysql_batch *batch)
{
    long long number = (long long)batch->number;
    if (!batch->is_locked || (batch->is_known && batch->is_left))
        append_left(link, batch);
    if (!batch->is_locked || !batch->is_known)
        return;
    if (batch->is_gone && !batch->is_left) {
        if (batch->is_new)
            return;
        buffer_append_format(mysql_statement(link, NULL),
                             "DELETE FROM tarry.batch WHERE batch=%lld", number);
        buffer_append_format(mysql_statement(link, NULL),
                             "DELETE FROM tarry.batch_gate WHERE batch=%lld", number);
        return;
    }
    if (batch->is_new) {
        append_new(link, batch);
        return;
    }
    struct buffer *out = mysql_statement(link, NULL);
    buffer_append_text(out, "UPDATE tarry.batch SET ");
    append_counts(out, batch);
    buffer_append_format(out, " WHERE batch=%lld", number);
    if (batch->has_gate && batch->wants_gate && batch->rules.is_closed)
        buffer_append_format(mysql_statement(link, NULL),
                             "UPDATE tarry.batch_gate SET closed=1 WHERE batch=%lld", number);
}

/* ---- members ---- */

static bool was_member(const struct mysql_row *row)
{
    return row->stored && row->stored_batch;
}

static bool is_member(const struct mysql_row *row)
{
    return row->exists && row->batch;
}

static bool leaves(const struct mysql_row *row)
{
    return was_member(row) && (!is_member(row) || row->batch != row->stored_batch);
}

static int member_compare(const void *left, const void *right)
{
    const struct mysql_row *const *x = left, *const *y = right;
    const struct mysql_row *a = *x, *b = *y;
    if (a->stored_batch != b->stored_batch)
        return a->stored_batch < b->stored_batch ? -1 : 1;
    return memcmp(&a->stored_at.topic, &b->stored_at.topic, sizeof a->stored_at.topic);
}

static void append_old_members(struct mysql_link *link)
{
    struct mysql_batch_rows rows = {0};
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->rows.list.count; i++)
        if (leaves(link->rows.list.at[i]) && !mysql_batch_rows_add(&rows, link->rows.list.at[i]))
            link->wire.text.failed = true;
    if (rows.count)
        qsort(rows.at, rows.count, sizeof *rows.at, member_compare);
    for (size_t i = 0; i < rows.count; i++) {
        bool is_first = i % KEYS_MAX == 0 || member_compare(&rows.at[i - 1], &rows.at[i]) != 0;
        if (is_first) {
            if (out)
                buffer_append_byte(out, ')');
            out = mysql_statement(link, NULL);
            buffer_append_format(
                out, "DELETE FROM tarry.server_member WHERE batch=%lld AND topic=%u AND id IN (",
                (long long)rows.at[i]->stored_batch, rows.at[i]->stored_at.topic);
        } else {
            buffer_append_byte(out, ',');
        }
        mysql_quote(out, mysql_row_id(rows.at[i]));
    }
    if (out)
        buffer_append_byte(out, ')');
    mysql_batch_rows_fini(&rows);
}

static void append_new_members(struct mysql_link *link)
{
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        if (!is_member(row) || (was_member(row) && !leaves(row)))
            continue;
        if (!out)
            buffer_append_text(out = mysql_statement(link, NULL),
                               "INSERT INTO tarry.member (batch,topic,id,dead) VALUES ");
        else
            buffer_append_byte(out, ',');
        buffer_append_format(out, "(%lld,%u,", (long long)row->batch, row->topic->number);
        mysql_quote(out, mysql_row_id(row));
        buffer_append_format(out, ",%d)", row->state == JOB_DEAD);
    }
}

/* Appends which members have died or are tried again. */
static void append_dead_members(struct mysql_link *link)
{
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        bool was_dead = row->stored_at.level == MYSQL_LEVEL_DEAD;
        if (!was_member(row) || leaves(row) || was_dead == (row->state == JOB_DEAD))
            continue;
        struct buffer *out = mysql_statement(link, NULL);
        buffer_append_format(
            out, "UPDATE tarry.server_member SET dead=%d WHERE batch=%lld AND topic=%u AND id=",
            row->state == JOB_DEAD, (long long)row->batch, row->stored_at.topic);
        mysql_quote(out, mysql_row_id(row));
    }
}

void mysql_append_batches(struct mysql_link *link)
{
    append_old_members(link);
    append_dead_members(link);
    append_new_members(link);
    append_drop_added(link);
    for (size_t i = 0; i < link->batches.list.count; i++)
        if (link->batches.list.at[i]->is_counted)
            append_batch(link, link->batches.list.at[i]);
}
