#include "sql/mysql/kept.h"
#include "queue/life.h"
#include "sql/mysql/job_row.h"
#include "sql/mysql/link.h"

#include <stdlib.h>

enum {
    KEPT_ROW_BYTES = 64, /* counted for a kept job, besides its texts */
    GROUP_ROWS = 100,    /* kept jobs per statement */
    GROUP_BYTES = 64 * 1024
};

/* ---- ends ---- */

void mysql_row_ends(struct mysql_row *row, int outcome, const struct queue_answer *answer,
                    int64_t counts[SQL_COUNTS])
{
    const struct topic_settings *settings = &row->topic->settings;
    enum job_end finished = outcome < MYSQL_END_DEAD ? (enum job_end)outcome : 0;
    struct mysql_end *end = &row->end;
    *end = (struct mysql_end){
        .outcome = outcome,
        .keep_ms = life_keep_ms(finished, row->has_keep, row->keep_ms, settings),
        .taken_ms = row->taken_ms,
        .attempt = row->attempt,
        .is_fresh = row->fresh,
        .result = answer ? answer->result : (struct slice){0},
        .result_type = answer ? answer->result_type : (struct slice){0},
    };
    if (!end->keep_ms)
        return;
    end->bytes = KEPT_ROW_BYTES + row->id_bytes + row->meta_bytes + end->result.len +
                 (settings->keep_body ? row->body_bytes : 0);
    counts[SQL_COUNT_KEPT]++;
    counts[SQL_COUNT_KEPT_BYTES] += (int64_t)end->bytes;
}

void mysql_row_takes_id(struct mysql_row *row, int64_t counts[SQL_COUNTS])
{
    if (row->end.keep_ms) { /* it ended in this transaction, and is not kept after all */
        counts[SQL_COUNT_KEPT]--;
        counts[SQL_COUNT_KEPT_BYTES] -= (int64_t)row->end.bytes;
        row->end.keep_ms = 0;
    }
    if (!row->old_kept_bytes)
        return;
    counts[SQL_COUNT_KEPT]--;
    counts[SQL_COUNT_KEPT_BYTES] -= (int64_t)row->old_kept_bytes;
    row->old_kept_bytes = 0;
    row->drops_kept = true;
}

/* ---- writing ---- */

static const char kept_into[] =
    "REPLACE INTO tarry.kept (topic,id,until,at,seq,first_due,taken,bytes,priority,attempt,outcome,"
    "consumer,meta,error,history,progress,result_type,result,content_type,body,batches) ";

static bool is_kept(const struct mysql_row *row)
{
    return row->end.keep_ms && !row->exists;
}

/* Appends the kept form of a job that the same transaction has pushed. */
static void append_pushed(struct mysql_link *link, const struct mysql_row *row)
{
    const struct queue_push *push = row->push;
    bool keeps_body = row->topic->settings.keep_body;
    struct buffer *out = mysql_statement_apart(link);
    buffer_append_text(out, kept_into);
    buffer_append_format(out, "VALUES (%u,", row->topic->number);
    mysql_quote(out, mysql_row_id(row));
    buffer_append_format(out, ",%lld,%lld,%llu,%lld,0,%llu,%d,%u,%d,NULL,",
                         (long long)(link->now_ms + row->end.keep_ms + 1), (long long)link->now_ms,
                         (unsigned long long)row->sequence, (long long)row->first_due_ms,
                         (unsigned long long)row->end.bytes, row->priority, row->end.attempt,
                         row->end.outcome);
    mysql_quote_bytes(out, push->meta);
    buffer_append_text(out, ",NULL,NULL,NULL,NULL,NULL,");
    mysql_quote_bytes(out, keeps_body ? push->content_type : (struct slice){0});
    buffer_append_text(out, keeps_body ? ",_binary" : ",NULL");
    if (keeps_body)
        mysql_quote(out, push->body);
    buffer_append_byte(out, ',');
    mysql_quote_bytes(out, slice_make(row->form, row->form_bytes));
    buffer_append_byte(out, ')');
}

/* Returns whether a kept job can be stored with the statement of the first one. */
static bool fits_group(const struct mysql_row *first, const struct mysql_row *row)
{
    return row->topic == first->topic && row->stored_at.level == first->stored_at.level &&
           row->end.keep_ms == first->end.keep_ms && row->end.outcome == first->end.outcome &&
           !row->progress.len && !first->progress.len;
}

/* Appends a value that differs among the rows of a group. */
static void append_each(struct buffer *out, struct mysql_row *const *rows, size_t count,
                        void (*append)(struct buffer *out, const struct mysql_row *row))
{
    if (count == 1) {
        append(out, rows[0]);
        return;
    }
    buffer_append_text(out, "ELT(FIELD(seq");
    for (size_t i = 0; i < count; i++)
        buffer_append_format(out, ",%llu", (unsigned long long)rows[i]->stored_at.sequence);
    buffer_append_byte(out, ')');
    for (size_t i = 0; i < count; i++) {
        buffer_append_byte(out, ',');
        append(out, rows[i]);
    }
    buffer_append_byte(out, ')');
}

static void append_size(struct buffer *out, const struct mysql_row *row)
{
    buffer_append_u64(out, row->end.bytes);
}

static void append_type(struct buffer *out, const struct mysql_row *row)
{
    mysql_quote_bytes(out, row->end.result_type);
}

static void append_result(struct buffer *out, const struct mysql_row *row)
{
    mysql_quote_bytes(out, row->end.result);
}

/* Appends the statement for a group: it copies what the rows of the jobs have. */
static void append_group(struct mysql_link *link, struct mysql_row *const *rows, size_t count,
                         size_t bytes)
{
    const struct mysql_row *first = rows[0];
    struct buffer *out =
        bytes > GROUP_BYTES / 2 ? mysql_statement_apart(link) : mysql_statement(link, NULL);
    bool keeps_body = first->topic->settings.keep_body, have_results = bytes > 0;
    buffer_append_text(out, kept_into);
    buffer_append_format(out, "SELECT topic,id,%lld,%lld,seq,first_due,taken,",
                         (long long)(link->now_ms + first->end.keep_ms + 1),
                         (long long)link->now_ms);
    append_each(out, rows, count, append_size);
    buffer_append_format(out, ",priority,attempt,%d,consumer,meta,error,history,",
                         first->end.outcome);
    if (first->progress.len)
        mysql_quote_bytes(out, first->progress);
    else
        buffer_append_text(out, "progress");
    buffer_append_byte(out, ',');
    if (have_results)
        append_each(out, rows, count, append_type);
    else
        buffer_append_text(out, "NULL");
    buffer_append_byte(out, ',');
    if (have_results)
        append_each(out, rows, count, append_result);
    else
        buffer_append_text(out, "NULL");
    buffer_append_text(out, keeps_body ? ",content_type,body,batches" : ",NULL,NULL,batches");
    buffer_append_text(out, " FROM tarry.job FORCE INDEX (PRIMARY) WHERE ");
    if (count == 1) {
        mysql_append_single_place(out, &first->stored_at);
        return;
    }
    for (size_t i = 0; i < count; i++)
        mysql_append_place(out, &rows[i]->stored_at, i == 0);
    buffer_append_byte(out, ')');
}

static size_t result_bytes(const struct mysql_row *row)
{
    return row->end.result.len + row->end.result_type.len;
}

/* Appends kept jobs, in groups of neighbours. The rows are in the order of their places. */
static void append_stored(struct mysql_link *link)
{
    struct mysql_row *group[GROUP_ROWS];
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < link->rows.list.count; i++) {
        struct mysql_row *row = link->rows.list.at[i];
        if (!is_kept(row) || row->end.is_fresh || !row->stored)
            continue;
        if (count && (count == GROUP_ROWS || !fits_group(group[0], row) ||
                      bytes + result_bytes(row) > GROUP_BYTES)) {
            append_group(link, group, count, bytes);
            count = bytes = 0;
        }
        bytes += result_bytes(row);
        group[count++] = row;
    }
    if (count)
        append_group(link, group, count, bytes);
}

void mysql_append_kept(struct mysql_link *link)
{
    struct buffer *out;
    for (size_t i = 0; i < link->topics.wanted.count; i++) {
        struct mysql_topic *topic = link->topics.wanted.at[i];
        if (!topic->sets_kept)
            continue;
        buffer_append_format(mysql_statement(link, NULL),
                             "UPDATE tarry.topic SET has_kept=1 WHERE topic=%u", topic->number);
        topic->is_remembered = false;
    }
    append_stored(link);
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        if (is_kept(row) && row->end.is_fresh && row->push)
            append_pushed(link, row);
        if (!row->drops_kept || is_kept(row))
            continue;
        out = mysql_statement(link, NULL);
        buffer_append_format(out,
                             "DELETE FROM tarry.kept WHERE topic=%u AND id=", row->topic->number);
        mysql_quote(out, mysql_row_id(row));
    }
}

/* ---- waits of others ---- */

static bool read_awaited(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        const unsigned long *lengths = libmariadb.mysql_fetch_lengths(result);
        struct mysql_topic *topic =
            mysql_names_find(&link->topics.names, slice_make(row[0], lengths[0]));
        struct mysql_row *ended =
            topic ? mysql_row_need(link, topic, slice_make(row[1], lengths[1])) : NULL;
        if (ended)
            ended->end.is_awaited = true;
    }
    return true;
}

void mysql_append_awaited(struct mysql_link *link)
{
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        if (!row->end.outcome)
            continue;
        if (!out)
            buffer_append_text(
                out = mysql_statement(link, read_awaited),
                "SELECT topic,id FROM tarry.awaited WHERE outcome IS NULL AND id IN (");
        else
            buffer_append_byte(out, ',');
        mysql_quote(out, mysql_row_id(row));
    }
    if (out)
        buffer_append_byte(out, ')');
}

static void append_end(struct mysql_link *link, const struct mysql_row *row)
{
    bool is_large = row->end.result.len > link->packet_bytes_max / 16;
    struct buffer *out = is_large ? mysql_statement_apart(link) : mysql_statement(link, NULL);
    buffer_append_format(
        out, "UPDATE tarry.awaited SET outcome=%d,at=%lld,taken=%lld,attempt=%u,consumer=",
        row->end.outcome, (long long)link->now_ms, (long long)row->end.taken_ms, row->end.attempt);
    mysql_quote_bytes(out, slice_make(row->consumer, row->consumer_bytes));
    buffer_append_text(out, ",result_type=");
    mysql_quote_bytes(out, row->end.result_type);
    buffer_append_text(out, ",result=");
    mysql_quote_bytes(out, row->end.result);
    buffer_append_text(out, " WHERE topic=");
    mysql_quote(out, slice_of(row->topic->name));
    buffer_append_text(out, " AND id=");
    mysql_quote(out, mysql_row_id(row));
    buffer_append_text(out, " AND outcome IS NULL");
    link->context->awaits.is_notified = link->context->awaits.jobs.table.count > 0;
}

/* Appends pairs of a topic and an id. */
static void append_pair(struct buffer *out, struct slice topic, struct slice id, bool is_first)
{
    buffer_append_text(out, is_first ? "(" : ",(");
    mysql_quote(out, topic);
    buffer_append_byte(out, ',');
    mysql_quote(out, id);
    buffer_append_byte(out, ')');
}

static void append_registers(struct mysql_link *link, const struct sql_call *call)
{
    for (size_t i = 0; call->kind == SQL_CALL_COMMAND && call->command->kind == COMMAND_PUSH &&
                       i < call->command->count;
         i++) {
        const struct queue_push *push = &call->command->pushes[i];
        if (!push->ended)
            continue;
        struct buffer *out = mysql_statement(link, NULL);
        buffer_append_text(out, "INSERT IGNORE INTO tarry.awaited (topic,id,server) VALUES (");
        mysql_quote(out, push->topic);
        buffer_append_byte(out, ',');
        mysql_quote(out, push->id);
        buffer_append_format(out, ",%lld)", (long long)link->context->server);
    }
}

/* Removes the rows of jobs whose end the call has returned. */
static void append_returned(struct mysql_link *link, const struct sql_call *call)
{
    struct buffer *out = NULL;
    for (size_t i = 0; call->kind == SQL_CALL_AWAIT && i < call->job_count; i++) {
        if (!out)
            buffer_append_format(out = mysql_statement(link, NULL),
                                 "DELETE FROM tarry.awaited WHERE server=%lld AND (topic,id) IN (",
                                 (long long)link->context->server);
        append_pair(out, call->jobs[i].job.topic, call->jobs[i].job.id, i == 0);
    }
    if (out)
        buffer_append_byte(out, ')');
}

void mysql_append_ended(struct mysql_link *link)
{
    for (size_t i = 0; link->is_awaited && i < link->rows.list.count; i++)
        if (link->rows.list.at[i]->end.is_awaited)
            append_end(link, link->rows.list.at[i]);
    EACH_CALL(link, call)
    {
        append_registers(link, call);
        append_returned(link, call);
    }
}

/* ---- reading ---- */

enum {
    KEPT_ID,
    KEPT_AT,
    KEPT_TAKEN,
    KEPT_SEQUENCE,
    KEPT_FIRST_DUE,
    KEPT_PRIORITY,
    KEPT_ATTEMPT,
    KEPT_OUTCOME,
    KEPT_CONSUMER,
    KEPT_META,
    KEPT_ERROR,
    KEPT_HISTORY,
    KEPT_PROGRESS,
    KEPT_RESULT_TYPE,
    KEPT_RESULT,
    KEPT_CONTENT_TYPE,
    KEPT_HAS_BODY,
    KEPT_BATCHES,
    KEPT_BODY,
    KEPT_COLUMNS
};

static const char kept_columns[] =
    "k.id,k.at,k.taken,k.seq,k.first_due,k.priority,k.attempt,k.outcome,k.consumer,k.meta,k.error,"
    "k.history,k.progress,k.result_type,k.result,k.content_type,k.body IS NOT NULL,k.batches,";

static struct slice text_of(MYSQL_ROW row, const unsigned long *lengths, int column)
{
    return slice_make(row[column] ? row[column] : "", row[column] ? lengths[column] : 0);
}

static int64_t since(int64_t taken_ms, int64_t at_ms)
{
    return taken_ms && at_ms > taken_ms ? at_ms - taken_ms : 0;
}

static void read_kept(struct queue_job *out, struct queue_end *end, MYSQL_ROW row,
                      const unsigned long *lengths)
{
    struct job *job = &out->job;
    job->id = text_of(row, lengths, KEPT_ID);
    job->state = JOB_FINISHED;
    job->sequence = (uint64_t)mysql_number(row[KEPT_SEQUENCE]);
    job->taken_ms = mysql_number(row[KEPT_TAKEN]);
    job->due_ms = job->first_due_ms = mysql_number(row[KEPT_FIRST_DUE]);
    job->due_is_wall = true;
    job->priority = (uint16_t)mysql_number(row[KEPT_PRIORITY]);
    job->attempt = (uint32_t)mysql_number(row[KEPT_ATTEMPT]);
    job->consumer = text_of(row, lengths, KEPT_CONSUMER);
    job->meta = text_of(row, lengths, KEPT_META);
    job->error = text_of(row, lengths, KEPT_ERROR);
    job->history = text_of(row, lengths, KEPT_HISTORY);
    job->progress = text_of(row, lengths, KEPT_PROGRESS);
    job->content_type = text_of(row, lengths, KEPT_CONTENT_TYPE);
    job->body = text_of(row, lengths, KEPT_BODY);
    job->batch = text_of(row, lengths, KEPT_BATCHES);
    *end = (struct queue_end){.outcome = (enum job_end)mysql_number(row[KEPT_OUTCOME]),
                              .finished_ms = mysql_number(row[KEPT_AT]),
                              .result = text_of(row, lengths, KEPT_RESULT),
                              .result_type = text_of(row, lengths, KEPT_RESULT_TYPE),
                              .has_body = mysql_number(row[KEPT_HAS_BODY]) != 0};
    end->duration_ms = since(job->taken_ms, end->finished_ms);
    out->end = end;
}

/* Makes room for the jobs of a result, which stays until the reply. Returns false if out of memory. */
static bool make_room(struct mysql_link *link, struct sql_call *call, MYSQL_RES *result)
{
    size_t count = (size_t)libmariadb.mysql_num_rows(result);
    struct mysql_result *kept = mysql_result_keep(link);
    if (!kept)
        return false;
    kept->users++;
    if (!sql_call_keep(call, kept, mysql_result_free))
        return false;
    free(call->jobs);
    free(call->finished);
    call->jobs = calloc(count + 1, sizeof *call->jobs);
    call->finished = calloc(count + 1, sizeof *call->finished);
    call->job_count = 0;
    return call->jobs && call->finished;
}

static bool read_kept_jobs(struct mysql_link *link, struct sql_call *call, struct slice topic,
                           MYSQL_RES *result)
{
    MYSQL_ROW row;
    if (!make_room(link, call, result))
        return false;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct queue_job *job = &call->jobs[call->job_count];
        read_kept(job, &call->finished[call->job_count++], row,
                  libmariadb.mysql_fetch_lengths(result));
        job->job.topic = topic;
    }
    return true;
}

static bool read_kept_get(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct sql_call *call = step->call;
    if (call->status == QUEUE_OK || !libmariadb.mysql_num_rows(result))
        return true; /* the job itself exists */
    call->status = QUEUE_OK;
    return read_kept_jobs(link, call, call->command->get.topic, result);
}

void mysql_append_kept_get(struct mysql_link *link, struct sql_call *call)
{
    struct buffer *out =
        mysql_statement_of(link, (struct mysql_step){.read = read_kept_get, .call = call});
    buffer_append_format(out,
                         "SELECT %sk.body FROM tarry.topic t STRAIGHT_JOIN tarry.kept k ON "
                         "k.topic=t.topic WHERE t.name=",
                         kept_columns);
    mysql_quote(out, call->command->get.topic);
    buffer_append_text(out, " AND k.id=");
    mysql_quote(out, call->command->get.id);
    buffer_append_text(out, " AND k.until>");
    mysql_append_now(link, out);
}

static bool read_kept_list(struct mysql_link *link, const struct mysql_step *step,
                           MYSQL_RES *result)
{
    struct sql_call *call = step->call;
    size_t limit = call->command->list.limit;
    if (!read_kept_jobs(link, call, call->command->list.topic, result))
        return false;
    if (call->job_count > limit) {
        const struct queue_job *last = &call->jobs[limit - 1];
        struct queue_cursor cursor = {.due_ms = last->end->finished_ms,
                                      .sequence = last->job.sequence};
        call->cursor_bytes = queue_cursor_write(call->cursor, &cursor);
        call->job_count = limit;
    }
    return true;
}

void mysql_append_kept_list(struct mysql_link *link, struct sql_call *call,
                            const struct mysql_topic *topic, const struct queue_cursor *cursor)
{
    struct buffer *out =
        mysql_statement_of(link, (struct mysql_step){.read = read_kept_list, .call = call});
    buffer_append_format(
        out, "SELECT %s%s FROM tarry.kept k FORCE INDEX (kept_at) WHERE k.topic=%u AND k.until>",
        kept_columns, call->command->list.with_body ? "k.body" : "NULL", topic->number);
    mysql_append_now(link, out);
    if (call->command->list.cursor.len)
        buffer_append_format(out, " AND k.at<=%lld AND (k.at<%lld OR k.seq<%llu)",
                             (long long)cursor->due_ms, (long long)cursor->due_ms,
                             (unsigned long long)cursor->sequence);
    buffer_append_format(out, " ORDER BY k.at DESC,k.seq DESC LIMIT %u",
                         call->command->list.limit + 1);
}

/* ---- waits of this server ---- */

enum {
    AWAITED_TOPIC,
    AWAITED_ID,
    AWAITED_OUTCOME,
    AWAITED_AT,
    AWAITED_TAKEN,
    AWAITED_ATTEMPT,
    AWAITED_CONSUMER,
    AWAITED_TYPE,
    AWAITED_RESULT,
    AWAITED_KEPT,
    AWAITED_JOB = AWAITED_KEPT + KEPT_COLUMNS
};
static const int job_state_column = AWAITED_JOB + 1; /* of mysql_job_columns */

/* Reads the end that its transaction has set. */
static void read_end(struct queue_job *out, struct queue_end *end, MYSQL_ROW row,
                     const unsigned long *lengths)
{
    *end = (struct queue_end){
        .finished_ms = mysql_number(row[AWAITED_AT]),
        .duration_ms = since(mysql_number(row[AWAITED_TAKEN]), mysql_number(row[AWAITED_AT])),
        .result = text_of(row, lengths, AWAITED_RESULT),
        .result_type = text_of(row, lengths, AWAITED_TYPE)};
    out->end = end;
}

/* Fills in an awaited job that has ended. Returns false if it has not. */
static bool read_awaited_job(struct mysql_link *link, struct queue_job *out, struct queue_end *end,
                             MYSQL_ROW row, const unsigned long *lengths)
{
    int64_t outcome = mysql_number(row[AWAITED_OUTCOME]);
    int64_t state = mysql_number(row[job_state_column]);
    *out = (struct queue_job){0};
    if (!outcome && state && state != JOB_DEAD)
        return false;
    if (outcome < MYSQL_END_DEAD && !state && row[AWAITED_KEPT + KEPT_AT]) {
        read_kept(out, end, row + AWAITED_KEPT, lengths + AWAITED_KEPT);
    } else if (outcome == MYSQL_END_DEAD || state == JOB_DEAD) {
        if (state == JOB_DEAD)
            mysql_job_read(&out->job, row + AWAITED_JOB, lengths + AWAITED_JOB, link->now_ms);
        out->job.state = JOB_DEAD;
        if (row[AWAITED_RESULT])
            read_end(out, end, row, lengths);
    } else if (outcome && outcome < MYSQL_END_DEAD) { /* it is not kept */
        out->job.state = JOB_FINISHED;
        out->job.attempt = (uint32_t)mysql_number(row[AWAITED_ATTEMPT]);
        out->job.consumer = text_of(row, lengths, AWAITED_CONSUMER);
        read_end(out, end, row, lengths);
        end->outcome = (enum job_end)outcome;
    }
    out->job.topic = text_of(row, lengths, AWAITED_TOPIC);
    out->job.id = text_of(row, lengths, AWAITED_ID);
    return true;
}

static bool read_await(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct sql_call *call = step->call;
    MYSQL_ROW row;
    if (!make_room(link, call, result))
        return false;
    while ((row = libmariadb.mysql_fetch_row(result)))
        if (read_awaited_job(link, &call->jobs[call->job_count], &call->finished[call->job_count],
                             row, libmariadb.mysql_fetch_lengths(result)))
            call->job_count++;
    return true;
}

/* Appends the pairs of the sent jobs of a list. */
static void append_sent(struct buffer *out, struct list *jobs, size_t count)
{
    struct list *at = jobs->next;
    for (size_t i = 0; i < count; i++, at = at->next)
        append_pair(out, sql_awaited_topic(sql_awaited_at(at)), sql_awaited_id(sql_awaited_at(at)),
                    i == 0);
}

void mysql_append_await(struct mysql_link *link, struct sql_call *call)
{
    struct sql_awaits *awaits = &link->context->awaits;
    size_t left = sql_awaits_send(&awaits->left), fresh = sql_awaits_send(&awaits->fresh);
    long long server = (long long)link->context->server;
    struct buffer *out;
    if (left) {
        out = mysql_statement(link, NULL);
        buffer_append_format(out, "DELETE FROM tarry.awaited WHERE server=%lld AND (topic,id) IN (",
                             server);
        append_sent(out, &awaits->left, left);
        buffer_append_byte(out, ')');
    }
    if (fresh) {
        struct list *at = awaits->fresh.next;
        out = mysql_statement(link, NULL);
        buffer_append_text(out, "INSERT IGNORE INTO tarry.awaited (topic,id,server) VALUES ");
        for (size_t i = 0; i < fresh; i++, at = at->next) {
            buffer_append_text(out, i ? ",(" : "(");
            mysql_quote(out, sql_awaited_topic(sql_awaited_at(at)));
            buffer_append_byte(out, ',');
            mysql_quote(out, sql_awaited_id(sql_awaited_at(at)));
            buffer_append_format(out, ",%lld)", server);
        }
    }
    out = mysql_statement_of(link, (struct mysql_step){.read = read_await, .call = call});
    buffer_append_format(
        out,
        "SELECT w.topic,w.id,w.outcome,w.at,w.taken,w.attempt,w.consumer,w.result_type,w.result,"
        "%sk.body,%s FROM tarry.awaited w LEFT JOIN tarry.topic t ON t.name=w.topic "
        "LEFT JOIN tarry.kept k ON k.topic=t.topic AND k.id=w.id AND k.until>%lld "
        "LEFT JOIN tarry.job j FORCE INDEX (job_id) ON j.topic=t.topic AND j.id=w.id "
        "WHERE w.server=%lld AND (w.outcome IS NOT NULL",
        kept_columns, mysql_job_columns, (long long)link->now_ms, server);
    if (fresh) {
        buffer_append_text(out, " OR (w.topic,w.id) IN (");
        append_sent(out, &awaits->fresh, fresh);
        buffer_append_byte(out, ')');
    }
    buffer_append_byte(out, ')');
}

static bool read_peek(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    (void)step;
    link->context->awaits.is_notified =
        link->context->awaits.is_notified || libmariadb.mysql_num_rows(result) > 0;
    return true;
}

void mysql_append_peek(struct mysql_link *link, struct sql_call *call)
{
    buffer_append_format(
        mysql_statement_of(link, (struct mysql_step){.read = read_peek, .call = call}),
        "SELECT 1 FROM tarry.awaited WHERE server=%lld AND outcome IS NOT NULL LIMIT 1",
        (long long)link->context->server);
}
