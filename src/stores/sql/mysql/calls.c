/* Calls with statements of their own: queries, topic calls, and operations of the server itself. */
#include "sql/mysql/calls.h"
#include "queue/cursor.h"
#include "queue/groups.h"
#include "sql/mysql/job_row.h"
#include "sql/mysql/link.h"
#include "sql/topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_JOBS = 1000, EXPIRE_JOBS = 500, MINUTE_MS = 60 * 1000, HOUR_MS = 3600 * 1000 };

/* Values of a forecast's first column: ready; a minute from 0; an hour from FORECAST_HOUR. */
enum { FORECAST_READY = -1, FORECAST_HOUR = 1000 };

static struct slice text_of(MYSQL_ROW row, const unsigned long *lengths, int column)
{
    return slice_make(row[column] ? row[column] : "", lengths[column]);
}

/* ---- results ---- */

/* Keeps the result until the reply, which points into it. */
static bool keep(struct mysql_link *link, struct sql_call *call)
{
    struct mysql_result *kept = mysql_result_keep(link);
    if (!kept)
        return false;
    kept->users++;
    return sql_call_keep(call, kept, mysql_result_free);
}

/* Reads why a ready job is held: the number of the reason, a blank, and until when. */
static void read_held(struct queue_job *job, const char *text)
{
    char *end;
    if (!text || job->job.state != JOB_READY)
        return;
    job->held_by = (enum flow_held)strtol(text, &end, 10);
    job->held_until_ms = *end ? mysql_number(end + 1) : 0;
}

static bool read_jobs(struct mysql_link *link, struct sql_call *call, MYSQL_RES *result,
                      bool has_name)
{
    size_t count = (size_t)libmariadb.mysql_num_rows(result);
    MYSQL_ROW row;
    if (!keep(link, call))
        return false;
    call->jobs = calloc(count ? count : 1, sizeof *call->jobs);
    call->job_count = 0;
    while (call->jobs && (row = libmariadb.mysql_fetch_row(result))) {
        const unsigned long *lengths = libmariadb.mysql_fetch_lengths(result);
        struct job *job = &call->jobs[call->job_count++].job;
        mysql_job_read(job, row + 2 + has_name, lengths + 2 + has_name, link->now_ms);
        read_held(&call->jobs[call->job_count - 1], row[1 + has_name]);
        int64_t figures[SQL_WAITING_FIGURES];
        if (mysql_waiting_read(mysql_waiting_text(row + 2 + has_name), figures) &&
            !sql_waiting_show(call, &call->jobs[call->job_count - 1], figures, false))
            return false;
        job->topic = has_name ? text_of(row, lengths, 0) : call->command->list.topic;
        job->body = text_of(row, lengths, has_name);
    }
    return call->jobs != NULL;
}

static bool read_history(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct sql_call *call = step->call;
    enum { AT, EVENT, ATTEMPT, STARTED, CONSUMER, ERROR };
    size_t count = (size_t)libmariadb.mysql_num_rows(result);
    MYSQL_ROW row;
    if (!keep(link, call))
        return false;
    call->jobs = calloc(count ? count : 1, sizeof *call->jobs);
    call->job_count = 0;
    while (call->jobs && (row = libmariadb.mysql_fetch_row(result))) {
        const unsigned long *lengths = libmariadb.mysql_fetch_lengths(result);
        call->jobs[call->job_count++].job =
            (struct job){.topic = call->command->get.topic,
                         .id = call->command->get.id,
                         .state = JOB_FINISHED,
                         .due_ms = mysql_number(row[AT]),
                         .content_type = text_of(row, lengths, EVENT),
                         .attempt = (uint32_t)mysql_number(row[ATTEMPT]),
                         .taken_ms = mysql_number(row[STARTED]),
                         .consumer = text_of(row, lengths, CONSUMER),
                         .error = text_of(row, lengths, ERROR)};
    }
    call->status = count ? QUEUE_OK : QUEUE_NOT_FOUND;
    return call->jobs != NULL;
}

static bool read_get(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    step->call->status = libmariadb.mysql_num_rows(result) ? QUEUE_OK : QUEUE_NOT_FOUND;
    return read_jobs(link, step->call, result, true);
}

static bool read_list(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct sql_call *call = step->call;
    size_t limit = call->command->list.limit;
    if (!read_jobs(link, call, result, false))
        return false;
    if (call->job_count > limit) {
        const struct queue_job *last = &call->jobs[limit - 1];
        bool waits = last->waiting && !last->job.due_ms; /* which is not shown */
        struct queue_cursor cursor = {.due_ms = waits ? MYSQL_WAIT_DUE : last->job.due_ms,
                                      .sequence = last->job.sequence};
        call->cursor_bytes = queue_cursor_write(call->cursor, &cursor);
        call->job_count = limit;
    }
    return true;
}

/* Reads the figures of a topic. In this dialect, each count has its own column. */
static struct sql_topic_figures figures_of(MYSQL_ROW row, const unsigned long *lengths)
{
    struct sql_topic_figures figures = {
        .has_priority = row[SQL_FIGURE_PRIORITY] != NULL,
        .name = text_of(row, lengths, SQL_FIGURE_NAME),
        .extension = text_of(row, lengths, SQL_FIGURE_EXTENSION),
        .steps = text_of(row, lengths, SQL_FIGURE_STEPS + SQL_COUNTS - 1)};
    for (enum sql_topic_figure i = 0; i < SQL_TOPIC_FIGURES; i++)
        if (sql_topic_figure_is_number(i))
            figures.numbers[i] = mysql_number(row[i < SQL_FIGURE_COUNTS ? i : i + SQL_COUNTS - 1]);
    for (int i = 0; i < SQL_COUNTS; i++)
        figures.counts[i] = mysql_number(row[SQL_FIGURE_COUNTS + i]);
    const MYSQL_ROW flow = row + SQL_TOPIC_FIGURES + SQL_COUNTS - 1;
    for (int i = 0; i < SQL_FLOW_HELD_BY; i++)
        figures.flow[i] = mysql_number(flow[i]);
    char *held = flow[SQL_FLOW_HELD_BY]; /* all of them in one text; NULL: nothing is held */
    for (int i = SQL_FLOW_HELD_BY; held && i < SQL_FLOW_FIGURES; i++)
        figures.flow[i] = strtoll(held, &held, 10);
    return figures;
}

static bool read_figures(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct sql_call *call = step->call;
    size_t count = (size_t)libmariadb.mysql_num_rows(result);
    MYSQL_ROW row;
    if (!keep(link, call))
        return false;
    call->topics = calloc(count ? count : 1, sizeof *call->topics);
    call->topic_count = 0;
    while (call->topics && (row = libmariadb.mysql_fetch_row(result))) {
        struct sql_topic_figures figures = figures_of(row, libmariadb.mysql_fetch_lengths(result));
        sql_topic_figures_fill(&figures, &call->topics[call->topic_count++]);
    }
    if (call->command->kind == COMMAND_TOPIC && !count && call->status == QUEUE_OK)
        call->status = QUEUE_NOT_FOUND;
    return call->topics != NULL;
}

static bool read_deleted(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct sql_call *call = step->call;
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    call->status = row && mysql_number(row[0]) ? QUEUE_OK : QUEUE_NOT_FOUND;
    call->step_affected = row ? (uint64_t)mysql_number(row[1]) : 0;
    if (call->status == QUEUE_OK)
        sql_effects_publish_topic(&link->context->effects, &call->command->topic,
                                  call->step_affected);
    return true;
}

/* Reads a forecast. A minute of the first hour also counts for its hour. */
static bool read_forecast(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct queue_forecast *forecast = step->call->forecast;
    int64_t first_ms = forecast->from_ms / HOUR_MS * HOUR_MS;
    MYSQL_ROW row;
    (void)link;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        int64_t what = mysql_number(row[0]);
        uint64_t jobs = (uint64_t)mysql_number(row[1]);
        if (what == FORECAST_READY)
            forecast->overdue += jobs;
        else if (what < FORECAST_MINUTES) {
            forecast->minutes[what] += jobs;
            forecast->hours[(forecast->from_ms + what * MINUTE_MS - first_ms) / HOUR_MS] += jobs;
        } else if (what < FORECAST_HOUR + FORECAST_HOURS)
            forecast->hours[what - FORECAST_HOUR] += jobs;
        else
            forecast->later += jobs;
    }
    return true;
}

static bool read_upkeep(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct sql_call *call = step->call;
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    call->other_servers = row ? mysql_number(row[0]) : 0;
    call->silent_servers = row ? mysql_number(row[1]) : 0;
    call->next_expire_ms = row && row[2] ? mysql_number(row[2]) : INT64_MAX;
    call->others_listen = row && mysql_number(row[3]) != 0;
    link->context->dropped[QUEUE_DROP_NUMBER] += row ? (uint64_t)mysql_number(row[4]) : 0;
    link->context->dropped[QUEUE_DROP_BYTES] += row ? (uint64_t)mysql_number(row[5]) : 0;
    call->more_kept = row && mysql_number(row[6]) != 0;
    if (row && mysql_number(row[7])) {
        link->batches.must_fold = true;
        call->next_expire_ms = link->now_ms;
    }
    mysql_messages_listen(link, call->listens);
    return true;
}

static bool read_adopt(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct sql_lease lease = {
            .topic = (uint32_t)mysql_number(row[0]),
            .level = (uint32_t)mysql_number(row[1]),
            .due_ms = mysql_number(row[2]),
            .sequence = (uint64_t)mysql_number(row[3]),
            .delivery = (uint64_t)mysql_number(row[4]),
            .taken_ms = mysql_number(row[5]),
        };
        sql_effects_hold(&link->context->effects, &lease, mysql_number(row[6]));
    }
    return true;
}

static bool read_expire_next(struct mysql_link *link, const struct mysql_step *step,
                             MYSQL_RES *result)
{
    struct sql_call *call = step->call;
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    enum { AGAIN_MS = 100 };
    call->next_expire_ms = row && row[0] ? mysql_number(row[0]) : INT64_MAX;
    if (call->step_affected >= EXPIRE_JOBS)
        call->next_expire_ms = link->now_ms;
    else if (row && mysql_number(row[1]) && link->now_ms + AGAIN_MS < call->next_expire_ms)
        call->next_expire_ms = link->now_ms + AGAIN_MS; /* others hold these rows */
    return true;
}

static bool read_find(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct queue_result *out = &step->call->items[step->number];
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    if (!row)
        return true;
    out->status = QUEUE_OK;
    out->state = (enum job_state)mysql_number(row[0]);
    out->due_ms = mysql_number(row[1]);
    if (out->due_ms == MYSQL_WAIT_DUE)
        out->due_ms = 0;
    else if (out->state == JOB_DELAYED && out->due_ms <= link->now_ms)
        out->state = JOB_READY;
    if (out->state == JOB_LEASED)
        out->due_ms = 0;
    return true;
}

static bool read_kept_purge(struct mysql_link *link, const struct mysql_step *step,
                            MYSQL_RES *result)
{
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    (void)link;
    step->call->step_affected = row ? (uint64_t)mysql_number(row[0]) : 0;
    return true;
}

/* ---- statements ---- */

static struct buffer *statement_of(struct mysql_link *link, struct sql_call *call,
                                   mysql_reader *read)
{
    return mysql_statement_of(link, (struct mysql_step){.read = read, .call = call});
}

static struct buffer *procedure_of(struct mysql_link *link, struct sql_call *call,
                                   mysql_reader *read)
{
    return mysql_statement_of(
        link, (struct mysql_step){.read = read, .call = call, .is_procedure = true});
}

static struct mysql_topic *topic_of(const struct mysql_link *link, const struct sql_call *call)
{
    struct slice name = call->command->kind == COMMAND_LIST ? call->command->list.topic
                                                            : call->command->topic.topic;
    return mysql_names_find(&link->topics.names, name);
}

static void append_history_of(struct mysql_link *link, struct sql_call *call)
{
    struct buffer *out = statement_of(link, call, read_history);
    buffer_append_text(out, "SELECT at,event,attempt,started,consumer,error FROM (SELECT h.* FROM "
                            "tarry.topic t STRAIGHT_JOIN tarry.history h ON h.topic=t.topic AND "
                            "h.at>=");
    mysql_append_now(link, out);
    buffer_append_text(out, "-t.history WHERE t.name=");
    mysql_quote(out, call->command->get.topic);
    buffer_append_text(out, " AND h.id=");
    mysql_quote(out, call->command->get.id);
    buffer_append_format(out, " ORDER BY h.at DESC,h.n DESC LIMIT %d) x ORDER BY at,n",
                         SQL_HISTORY_ENTRIES_MAX);
}

static void append_get(struct mysql_link *link, struct sql_call *call)
{
    if (call->command->get.history) {
        append_history_of(link, call);
        return;
    }
    struct buffer *out = statement_of(link, call, read_get);
    buffer_append_format(out,
                         "SELECT t.name,j.body,IF(t.flow>0 AND j.state=1 AND j.due<=%lld,"
                         "tarry.server_held(j.topic,COALESCE(j.grp,2),%lld),NULL),%s FROM "
                         "tarry.topic t STRAIGHT_JOIN tarry.job j ON "
                         "j.topic=t.topic WHERE t.name=",
                         (long long)link->now_ms, (long long)link->now_ms, mysql_job_columns);
    mysql_quote(out, call->command->get.topic);
    buffer_append_text(out, " AND j.id=");
    mysql_quote(out, call->command->get.id);
    if (call->command->get.finished)
        mysql_append_kept_get(link, call);
}

static void append_state(struct buffer *out, enum job_state state, int64_t now_ms)
{
    if (state == JOB_DELAYED || state == JOB_READY)
        buffer_append_format(out, " AND j.state=1 AND j.due%s%lld",
                             state == JOB_DELAYED ? ">" : "<=", (long long)now_ms);
    else if (state)
        buffer_append_format(out, " AND j.state=%d", (int)state);
}

static void append_list_level(struct mysql_link *link, struct buffer *out, struct sql_call *call,
                              const struct queue_cursor *cursor, int32_t level)
{
    const struct queue_list *list = &call->command->list;
    char held[128] = "NULL";
    if (topic_of(link, call)->flow)
        (void)snprintf(held, sizeof held,
                       "IF(j.state=1 AND j.due<=%lld,tarry.server_held(j.topic,COALESCE(j.grp,2),"
                       "%lld),NULL)",
                       (long long)link->now_ms, (long long)link->now_ms);
    buffer_append_format(out,
                         "(SELECT %s AS body,%s,%s FROM tarry.job j FORCE INDEX (PRIMARY) WHERE "
                         "j.topic=%u AND j.level=%d AND j.due>=%lld AND (j.due>%lld OR j.seq>%llu)",
                         list->with_body ? "j.body" : "''", held, mysql_job_columns,
                         topic_of(link, call)->number, level, (long long)cursor->due_ms,
                         (long long)cursor->due_ms, (unsigned long long)cursor->sequence);
    append_state(out, list->state, link->now_ms);
    buffer_append_format(out, " ORDER BY j.due,j.seq LIMIT %u)", list->limit + 1);
}

/* Appends the query of a list. Reads one more job than requested, to see whether there are more. */
static void append_list(struct mysql_link *link, struct sql_call *call)
{
    const struct queue_list *list = &call->command->list;
    const struct mysql_topic *topic = topic_of(link, call);
    struct queue_cursor cursor = {0};
    if (list->cursor.len && !queue_cursor_parse(list->cursor, &cursor)) {
        call->status = QUEUE_BAD_CURSOR;
        return;
    }
    if (!topic || !topic->number) {
        call->status = QUEUE_NOT_FOUND;
        return;
    }
    if (list->state == JOB_FINISHED) {
        mysql_append_kept_list(link, call, topic, &cursor);
        return;
    }
    struct buffer *out = statement_of(link, call, read_list);
    for (size_t i = 0; i < topic->level_count; i++) {
        append_list_level(link, out, call, &cursor, topic->levels[i]);
        buffer_append_text(out, " UNION ALL ");
    }
    append_list_level(link, out, call, &cursor, MYSQL_LEVEL_DEAD);
    buffer_append_format(out, " ORDER BY due,seq LIMIT %u", list->limit + 1);
}

static void quote_or_null(struct buffer *out, struct slice text)
{
    if (text.len)
        mysql_quote(out, text);
    else
        buffer_append_text(out, "NULL");
}

static void append_figures(struct mysql_link *link, struct sql_call *call, struct slice name,
                           struct slice after, uint32_t limit)
{
    struct buffer *out = procedure_of(link, call, read_figures);
    buffer_append_text(out, "CALL tarry.server_figures(");
    quote_or_null(out, name);
    buffer_append_byte(out, ',');
    quote_or_null(out, after);
    buffer_append_format(out, ",%u)", limit);
}

/* Sets the waits of a list, or removes those of the settings before. */
static void append_steps_set(struct buffer *out, const struct backoff *backoff,
                             const struct backoff *before)
{
    char steps[BACKOFF_STEPS_BYTES_MAX];
    if (backoff->kind != BACKOFF_LIST && before->kind != BACKOFF_LIST)
        return;
    buffer_append_text(out, ",backoff_steps=");
    mysql_quote_bytes(out, policy_write_steps(backoff, steps));
}

static void append_flow(struct buffer *out, const struct topic_flow *flow)
{
    buffer_append_format(
        out,
        ",lim=%u,rate_count=%u,rate_unit=%d,burst=%u,group_lim=%u,group_rate_count=%u,"
        "group_rate_unit=%d,group_burst=%u,group_max_jobs=%llu,group_order=%d,one_shard=%d",
        flow->topic.limit, flow->topic.rate.count, (int)flow->topic.rate.unit, flow->topic.burst,
        flow->group.limit, flow->group.rate.count, (int)flow->group.rate.unit, flow->group.burst,
        (unsigned long long)flow->group_max_jobs, (int)flow->group_order, flow->one_shard);
}

static bool read_order(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    (void)link;
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    if (row && mysql_number(row[0]))
        step->call->status = QUEUE_NOT_EMPTY;
    return true;
}

static void append_put(struct mysql_link *link, struct sql_call *call, struct mysql_topic *topic)
{
    const struct topic_settings *settings = &call->command->topic.settings;
    struct buffer *out = mysql_statement(link, NULL);
    buffer_append_format(
        out,
        "UPDATE tarry.topic SET lease=%lld,ttl=%lld,backoff_kind=%d,backoff_first=%lld,"
        "backoff_max=%lld,max_attempts=%u,on_conflict=%d,priority=",
        (long long)settings->policy.lease_ms, (long long)settings->policy.ttl_ms,
        (int)settings->policy.backoff.kind, (long long)settings->policy.backoff.first_ms,
        (long long)settings->policy.backoff.max_ms, settings->policy.max_attempts,
        (int)settings->on_conflict);
    if (settings->has_priority)
        buffer_append_i64(out, settings->priority);
    else
        buffer_append_text(out, "NULL");
    buffer_append_format(out,
                         ",dead_letter_expired=%d,dedup_window=%lld,max_jobs=%llu,"
                         "push_rate_count=%u,push_rate_unit=%d,history=%lld,keep_finished=%lld,"
                         "keep_finished_max=%llu,keep_finished_bytes=%llu,keep_body=%d,extension=",
                         settings->dead_letter_expired, (long long)settings->dedup_window_ms,
                         (unsigned long long)settings->max_jobs, settings->push_rate.count,
                         (int)settings->push_rate.unit, (long long)settings->history_ms,
                         (long long)settings->keep_finished_ms,
                         (unsigned long long)settings->keep_finished_max,
                         (unsigned long long)settings->keep_finished_bytes, settings->keep_body);
    mysql_quote_bytes(out, settings->extension);
    append_steps_set(out, &settings->policy.backoff, &topic->settings.policy.backoff);
    bool has_flow = !topic_flow_equal(&settings->flow, &topic->settings.flow);
    if (has_flow)
        append_flow(out, &settings->flow);
    buffer_append_format(out, " WHERE topic=%u", topic->number);
    bool has_order = settings->flow.group_order != topic->settings.flow.group_order;
    if (has_order) { /* changes nothing while a job waits or is leased */
        buffer_append_format(
            out, " AND NOT EXISTS(SELECT 1 FROM tarry.job j WHERE j.topic=%u AND j.level<%d)",
            topic->number, MYSQL_LEVEL_DEAD);
        buffer_append_format(statement_of(link, call, read_order),
                             "SELECT group_order<>%d FROM tarry.topic WHERE topic=%u",
                             (int)settings->flow.group_order, topic->number);
    }
    if (has_flow)
        buffer_append_format(mysql_statement(link, NULL), "CALL tarry.server_flow_set(%u)",
                             topic->number);
    link->history.wants_days =
        link->history.wants_days || settings->history_ms > topic->settings.history_ms;
    if (settings->policy.ttl_ms == topic->settings.policy.ttl_ms || has_order)
        return;
    out = mysql_statement(link, NULL);
    if (settings->policy.ttl_ms)
        buffer_append_format(out, "UPDATE tarry.job SET expire=GREATEST(due,first_due+%lld)",
                             (long long)settings->policy.ttl_ms);
    else
        buffer_append_text(out, "UPDATE tarry.job SET expire=NULL");
    buffer_append_format(out, " WHERE topic=%u AND ttl IS NULL AND state<>4", topic->number);
}

static void append_pause(struct mysql_link *link, struct sql_call *call,
                         const struct mysql_topic *topic)
{
    const struct queue_topic_call *command = &call->command->topic;
    bool is_pause = command->verb == QUEUE_TOPIC_PAUSE;
    int64_t until_ms = is_pause && command->pause_ms > 0 ? link->now_ms + command->pause_ms + 1 : 0;
    buffer_append_format(mysql_statement(link, NULL),
                         "UPDATE tarry.topic SET paused=%d,paused_until=%lld WHERE topic=%u",
                         is_pause, (long long)until_ms, topic->number);
    if (is_pause || !topic->flow)
        return;
    /* a resume ends a hold of the topic */
    buffer_append_format(
        mysql_statement(link, NULL),
        "UPDATE tarry.grp_note SET held=NULL WHERE topic=%u AND grp=1 AND held IS NOT "
        "NULL",
        topic->number);
    buffer_append_format(mysql_statement(link, NULL),
                         "UPDATE tarry.grp SET held_until=0 WHERE topic=%u AND grp=1",
                         topic->number);
}

/* Appends one step of a purge or redrive, which selects rows for the rules. */
static void append_step(struct mysql_link *link, struct sql_call *call,
                        const struct mysql_topic *topic)
{
    const struct queue_topic_call *command = &call->command->topic;
    if (command->verb == QUEUE_TOPIC_PURGE && command->state == JOB_FINISHED) {
        buffer_append_format(procedure_of(link, call, read_kept_purge),
                             "CALL tarry.server_purge_kept(%u,%d)", topic->number, STEP_JOBS);
        return;
    }
    struct buffer *out = statement_of(link, call, mysql_read_rows);
    uint64_t jobs = STEP_JOBS;
    buffer_append_format(out, "SELECT %s FROM tarry.job j WHERE j.topic=%u", mysql_row_columns,
                         topic->number);
    if (command->verb == QUEUE_TOPIC_PURGE) {
        buffer_append_text(out, " AND j.state<>3");
        append_state(out, command->state, link->now_ms);
    } else {
        if (command->max && command->max - call->affected < jobs)
            jobs = command->max - call->affected;
        buffer_append_format(out, " AND j.level=%d", MYSQL_LEVEL_DEAD);
        if (command->id.len) {
            buffer_append_text(out, " AND j.id=");
            mysql_quote(out, command->id);
        }
        buffer_append_text(out, " ORDER BY j.due,j.seq");
    }
    buffer_append_format(out, " LIMIT %llu FOR UPDATE", (unsigned long long)jobs);
}

static void notify_topic(struct mysql_link *link, const struct sql_call *call)
{
    enum queue_topic_verb verb = call->command->topic.verb;
    struct sql_notification *notification =
        sql_effects_notification(&link->context->effects, call->command->topic.topic);
    if (!notification)
        return;
    notification->look = true;
    notification->changed =
        notification->changed || verb == QUEUE_TOPIC_PUT || verb == QUEUE_TOPIC_DELETE;
    if (verb == QUEUE_TOPIC_PUT || verb == QUEUE_TOPIC_REDRIVE) /* the ttls may have changed */
        sql_effects_expire(&link->context->effects, 1);
}

static void append_topic(struct mysql_link *link, struct sql_call *call)
{
    const struct queue_topic_call *command = &call->command->topic;
    struct mysql_topic *topic = topic_of(link, call);
    if (command->verb == QUEUE_TOPIC_MARK) /* applies only to parts of a queue */
        return;
    if (!topic || !topic->number) {
        call->status = command->verb == QUEUE_TOPIC_PUT ? QUEUE_TOO_MANY_TOPICS
                       : call->affected                 ? QUEUE_OK
                                                        : QUEUE_NOT_FOUND;
        return;
    }
    if (command->verb == QUEUE_TOPIC_DELETE) {
        struct buffer *out = procedure_of(link, call, read_deleted);
        buffer_append_text(out, "CALL tarry.server_delete(");
        mysql_quote(out, command->topic);
        buffer_append_byte(out, ')');
        mysql_append_batches_added(link);
        notify_topic(link, call);
        return;
    }
    if (command->verb == QUEUE_TOPIC_PURGE || command->verb == QUEUE_TOPIC_REDRIVE) {
        append_step(link, call, topic);
        notify_topic(link, call);
        return;
    }
    if (command->verb == QUEUE_TOPIC_PUT) {
        call->status = topic->is_made ? QUEUE_CREATED : QUEUE_OK;
        topic->is_made = false;
        append_put(link, call, topic);
    } else if (command->verb != QUEUE_TOPIC_GET) {
        append_pause(link, call, topic);
    }
    if (command->verb != QUEUE_TOPIC_GET) {
        topic->is_remembered = false;
        notify_topic(link, call);
        sql_effects_publish_topic(&link->context->effects, command, 0);
    }
    append_figures(link, call, command->topic, (struct slice){0}, 0);
}

/* Appends the query for a forecast of the first minutes. Reads no job that is due later. */
static void append_soon(struct mysql_link *link, struct sql_call *call, uint32_t topic)
{
    struct buffer *out = statement_of(link, call, read_forecast);
    long long now = (long long)link->now_ms;
    long long end = (long long)(call->forecast->from_ms + link->context->adjust_ms);
    for (int minute = 0; minute < FORECAST_SOON; minute++) {
        long long after = minute > 0 && end - 1 > now ? end - 1 : now;
        end += MINUTE_MS;
        buffer_append_format(
            out,
            "%sSELECT %d,COALESCE(SUM(tarry.server_between(topic,level,%lld,%lld)),0) "
            "FROM tarry.level WHERE topic=%u",
            minute > 0 ? " UNION ALL " : "", minute, after, end, topic);
    }
}

static void append_forecast(struct mysql_link *link, struct sql_call *call)
{
    call->forecast = calloc(1, sizeof *call->forecast);
    if (!call->forecast) {
        link->wire.text.failed = true;
        return;
    }
    call->forecast->from_ms = call->command->forecast.from_ms;
    struct slice name = call->command->forecast.topic;
    long long now = (long long)link->now_ms, adjust = (long long)link->context->adjust_ms;
    long long wall = (long long)call->forecast->from_ms, from = wall + adjust;
    if (name.len) {
        const struct mysql_topic *topic = mysql_names_find(&link->topics.names, name);
        if (!topic || !topic->number) {
            call->status = QUEUE_NOT_FOUND;
            return;
        }
        if (call->command->forecast.soon) {
            append_soon(link, call, topic->number);
            return;
        }
    }
    struct buffer *out = statement_of(link, call, read_forecast);
    buffer_append_format(out,
                         "SELECT IF(j.due<=%lld,%d,IF(j.due<%lld,GREATEST(0,j.due-%lld) DIV %lld,"
                         "%d+LEAST(%d,(j.due-%lld) DIV %lld))),COUNT(*) FROM tarry.topic t "
                         "STRAIGHT_JOIN tarry.job j ON j.topic=t.topic AND j.state=1 WHERE ",
                         now, FORECAST_READY, from + HOUR_MS, from, (long long)MINUTE_MS,
                         FORECAST_HOUR, FORECAST_HOURS, wall / HOUR_MS * HOUR_MS + adjust,
                         (long long)HOUR_MS);
    if (name.len) {
        buffer_append_text(out, "t.name=");
        mysql_quote(out, name);
    } else {
        buffer_append_text(out, "t.name IS NOT NULL");
    }
    buffer_append_text(out, " GROUP BY 1");
}

/* Appends queries for a find. Reads without locks, so rows locked by others are included. */
static void append_finds(struct mysql_link *link, struct sql_call *call)
{
    const struct command *command = call->command;
    call->items = calloc(command->count ? command->count : 1, sizeof *call->items);
    for (size_t i = 0; call->items && i < command->count; i++) {
        struct queue_result *out = &call->items[i];
        if (!command_item_is_good(command, i, out))
            continue;
        *out = (struct queue_result){.topic = command->finds[i].topic,
                                     .id = command->finds[i].id,
                                     .status = QUEUE_NOT_FOUND};
        struct buffer *text = mysql_statement_of(
            link, (struct mysql_step){.read = read_find, .call = call, .number = i});
        buffer_append_text(text,
                           "SELECT j.state,j.due FROM tarry.topic t STRAIGHT_JOIN tarry.job j "
                           "ON j.topic=t.topic WHERE t.name=");
        mysql_quote(text, out->topic);
        buffer_append_text(text, " AND j.id=");
        mysql_quote(text, out->id);
    }
    link->wire.text.failed = link->wire.text.failed || !call->items;
}

/* ---- groups ---- */

static struct queue_group group_of(MYSQL_ROW row, const unsigned long *lengths)
{
    int64_t numbers[SQL_GROUP_FIGURES] = {0};
    for (int i = SQL_GROUP_NAME + 1; i < SQL_GROUP_FIGURES; i++)
        numbers[i] = mysql_number(row[i]);
    return sql_group_of(text_of(row, lengths, SQL_GROUP_NAME), numbers);
}

static bool read_groups(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct sql_call *call = step->call;
    const struct command *command = call->command;
    size_t count = (size_t)libmariadb.mysql_num_rows(result);
    size_t limit = command->kind == COMMAND_GROUPS ? command->groups.limit : 1;
    MYSQL_ROW row;
    if (!keep(link, call))
        return false;
    call->groups = calloc(count ? count : 1, sizeof *call->groups);
    if (!call->groups)
        return false;
    if (call->status != QUEUE_OK)
        return true;
    if (command->kind == COMMAND_GROUP && !count) { /* any name may be that of a group */
        call->groups[0].name = command->group.group;
        call->group_count = 1;
        return true;
    }
    while (call->group_count < limit && (row = libmariadb.mysql_fetch_row(result)))
        call->groups[call->group_count++] = group_of(row, libmariadb.mysql_fetch_lengths(result));
    if (count > limit)
        call->cursor_bytes =
            groups_cursor_write(call->cursor, command->groups.order, &call->groups[limit - 1]);
    return true;
}

static bool read_group_put(struct mysql_link *link, const struct mysql_step *step,
                           MYSQL_RES *result)
{
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    struct sql_notification *notification =
        sql_effects_notification(&link->context->effects, step->call->command->group.topic);
    if (row && mysql_number(row[0]))
        step->call->status = QUEUE_TOO_MANY_GROUPS;
    if (notification)
        notification->look = true;
    return true;
}

static void append_group_put(struct mysql_link *link, struct sql_call *call, uint32_t topic)
{
    const struct queue_group_call *group = &call->command->group;
    const struct group_settings *settings = &group->settings;
    int64_t until_ms =
        settings->paused_until_ms ? settings->paused_until_ms + link->context->adjust_ms : 0;
    struct buffer *out = procedure_of(link, call, read_group_put);
    buffer_append_format(out, "CALL tarry.server_group_put(%u,", topic);
    mysql_quote(out, group->group);
    if (group->verb == QUEUE_GROUP_PUT)
        buffer_append_format(
            out, ",1,%u,%u,%u,%d,%u,%llu,%d,%lld)", settings->weight, settings->limits.limit,
            settings->limits.rate.count, (int)settings->limits.rate.unit, settings->limits.burst,
            (unsigned long long)settings->max_jobs, settings->paused, (long long)until_ms);
    else
        buffer_append_text(out, ",0,0,0,0,0,0,0,0,0)");
}

static void append_group(struct mysql_link *link, struct sql_call *call)
{
    const struct queue_group_call *group = &call->command->group;
    const struct mysql_topic *topic = mysql_names_find(&link->topics.names, group->topic);
    if (!topic || !topic->number) {
        call->status = group->verb == QUEUE_GROUP_PUT ? QUEUE_TOO_MANY_TOPICS : QUEUE_NOT_FOUND;
        return;
    }
    if (group->verb != QUEUE_GROUP_GET)
        append_group_put(link, call, topic->number);
    struct buffer *out = procedure_of(link, call, read_groups);
    buffer_append_format(out, "CALL tarry.server_groups(%u,", topic->number);
    mysql_quote(out, group->group);
    buffer_append_text(out, ",0,1,0,NULL)");
}

/* Appends the query of a list of groups. Reads one more than requested, to see whether there are more. */
static void append_groups(struct mysql_link *link, struct sql_call *call)
{
    const struct queue_groups_call *groups = &call->command->groups;
    const struct mysql_topic *topic = mysql_names_find(&link->topics.names, groups->topic);
    struct groups_place place = {0};
    if (!topic || !topic->number) {
        call->status = QUEUE_NOT_FOUND;
        return;
    }
    (void)groups_place_parse(groups, &place);
    struct buffer *out = procedure_of(link, call, read_groups);
    buffer_append_format(out, "CALL tarry.server_groups(%u,NULL,%d,%u,%llu,", topic->number,
                         (int)groups->order, groups->limit + 1, (unsigned long long)place.number);
    if (place.is_set)
        mysql_quote(out, place.name);
    else
        buffer_append_text(out, "NULL");
    buffer_append_byte(out, ')');
}

static void append_command(struct mysql_link *link, struct sql_call *call)
{
    const struct command *command = call->command;
    switch (command->kind) {
    case COMMAND_GET:
        append_get(link, call);
        break;
    case COMMAND_LIST:
        append_list(link, call);
        break;
    case COMMAND_TOPIC:
        append_topic(link, call);
        break;
    case COMMAND_TOPICS:
        append_figures(link, call, (struct slice){0}, command->topics.after, command->topics.limit);
        break;
    case COMMAND_FORECAST:
        append_forecast(link, call);
        break;
    case COMMAND_FIND:
        append_finds(link, call);
        break;
    case COMMAND_PUSH:
    case COMMAND_ANSWER:
    case COMMAND_CHANGE:
    case COMMAND_TAKE:
    case COMMAND_AWAIT:
        break;
    case COMMAND_GROUP:
        append_group(link, call);
        break;
    case COMMAND_GROUPS:
        append_groups(link, call);
        break;
    case COMMAND_BATCH: /* only between parts of a queue */
        break;
    }
}

/* Sets the queue's time to what it would be if the database's clock had kept its rate. */
static void append_set_clock(struct mysql_link *link)
{
    const struct sql_clock *clock = &link->context->clock;
    int64_t earliest_ms, latest_ms;
    sql_clock_window(clock, &earliest_ms, &latest_ms);
    buffer_append_format(mysql_statement(link, NULL),
                         "UPDATE tarry.store SET adjust_ms=%lld-(tarry.now_ms()-adjust_ms) WHERE "
                         "one=1 AND adjust_ms=%lld",
                         (long long)latest_ms, (long long)clock->seen_ms);
}

static void append_call(struct mysql_link *link, struct sql_call *call)
{
    long long server = (long long)link->context->server;
    switch (call->kind) {
    case SQL_CALL_COMMAND:
        append_command(link, call);
        break;
    case SQL_CALL_EXPIRE:
        buffer_append_format(
            statement_of(link, call, mysql_read_rows),
            "SELECT %s FROM tarry.job FORCE INDEX (job_expire) WHERE expire<=%lld AND state=1 "
            "ORDER BY expire LIMIT %d FOR UPDATE SKIP LOCKED",
            mysql_row_columns, (long long)link->now_ms, EXPIRE_JOBS);
        if (link->batches.must_fold)
            mysql_append_batches_added(link);
        break;
    case SQL_CALL_UPKEEP:
        buffer_append_format(procedure_of(link, call, read_upkeep),
                             "CALL tarry.server_upkeep(%lld,%d)", server, call->listens);
        break;
    case SQL_CALL_CLOCK:
        append_set_clock(link);
        break;
    case SQL_CALL_ADOPT:
        buffer_append_format(procedure_of(link, call, read_adopt), "CALL tarry.server_adopt(%lld)",
                             server);
        break;
    case SQL_CALL_GOODBYE:
        buffer_append_format(mysql_statement(link, NULL),
                             "UPDATE tarry.server SET beat=0,listen_until=0 WHERE server=%lld",
                             server);
        break;
    case SQL_CALL_AWAIT:
        mysql_append_await(link, call);
        break;
    case SQL_CALL_PEEK:
        mysql_append_peek(link, call);
        break;
    case SQL_CALL_END_LEASES:
    case SQL_CALL_LOOK:
    case SQL_CALL_POLL:
        break;
    }
}

/* Appends statements that run after the transaction's rows have been written. */
static void append_call_end(struct mysql_link *link, struct sql_call *call)
{
    if (call->kind == SQL_CALL_EXPIRE)
        buffer_append_format(
            statement_of(link, call, read_expire_next),
            "SELECT (SELECT expire FROM tarry.job FORCE INDEX (job_expire) WHERE expire>%lld AND "
            "state=1 ORDER BY expire LIMIT 1),EXISTS(SELECT 1 FROM tarry.job FORCE INDEX "
            "(job_expire) WHERE expire<=%lld AND state=1)",
            (long long)link->now_ms, (long long)link->now_ms);
}

static bool read_dead_rows(struct mysql_link *link, const struct mysql_step *step,
                           MYSQL_RES *result)
{
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    (void)step;
    if (row && row[0])
        link->context->health.dead_rows = mysql_number(row[0]);
    return true;
}

static bool read_oldest(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    (void)step;
    link->sees_transactions = true;
    if (row)
        link->context->health.oldest_ms = mysql_number(row[0]) * 1000;
    return true;
}

static void append_optional(struct mysql_link *link, mysql_reader *read, const char *text)
{
    buffer_append_text(
        mysql_statement_of(link, (struct mysql_step){.read = read, .is_optional = true}), text);
}

void mysql_append_health(struct mysql_link *link)
{
    bool is_due = false;
    EACH_CALL(link, call)
    if (call->kind == SQL_CALL_UPKEEP)
        is_due = sql_health_is_due(&link->context->health);
    if (!is_due)
        return;
    append_optional(link, read_dead_rows,
                    link->is_mariadb
                        ? "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE "
                          "VARIABLE_NAME='INNODB_HISTORY_LIST_LENGTH'"
                        : "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE "
                          "NAME='trx_rseg_history_len'");
    append_optional(link, NULL, "COMMIT");
    if (link->has_asked_transactions && !link->sees_transactions)
        return;
    link->has_asked_transactions = true;
    append_optional(link, read_oldest,
                    "SELECT COALESCE(MAX(TIMESTAMPDIFF(SECOND,trx_started,NOW())),0) FROM "
                    "information_schema.INNODB_TRX WHERE trx_mysql_thread_id<>CONNECTION_ID()");
    append_optional(link, NULL, "COMMIT");
}

void mysql_append_calls(struct mysql_link *link)
{
    EACH_CALL(link, call) append_call(link, call);
}

void mysql_append_call_ends(struct mysql_link *link)
{
    mysql_append_ended(link);
    EACH_CALL(link, call) append_call_end(link, call);
}

/* Ends a step of a purge or redrive, and determines whether another one must follow. */
void mysql_call_steps_on(struct mysql_link *link, struct sql_call *call)
{
    const struct queue_topic_call *command = &call->command->topic;
    call->has_more = call->step_affected >= STEP_JOBS &&
                     !(command->max && call->affected + call->step_affected >= command->max);
    if (command->verb == QUEUE_TOPIC_REDRIVE && command->id.len && !call->step_affected &&
        !call->affected)
        call->status = QUEUE_NOT_FOUND;
    sql_effects_publish_topic(&link->context->effects, command, call->step_affected);
}
