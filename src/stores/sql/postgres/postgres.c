/* The dialect's table: a session's transactions in libpq's pipeline. */
#include "sql/postgres/postgres.h"
#include "base/buffer.h"
#include "base/error.h"
#include "sql/postgres/answers.h"
#include "sql/postgres/calls.h"
#include "sql/postgres/client.h"
#include "sql/postgres/flusher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOTIFIED_AHEAD_MS = 1500 }; /* other servers check at least this far ahead by themselves */

static struct postgres_link *link_of(struct sql_link *link)
{
    return (struct postgres_link *)(void *)link;
}

/* ---- sending ---- */

static bool flush(struct postgres_link *link)
{
    int left = libpq.PQflush(link->connection);
    link->wants_write = left > 0;
    return left >= 0;
}

static void pipeline_begin(struct postgres_link *link, struct sql_context *context)
{
    link->context = context;
    link->steps.count = 0;
    link->step = 0;
    link->is_in_flight = true;
    link->plan.is_whole = false;
}

static bool pipeline_send(struct postgres_link *link)
{
    bool sent = libpq.PQpipelineSync(link->connection) == 1;
    (void)flush(link);
    return sent;
}

static bool send_plain(struct postgres_link *link, enum postgres_statement statement,
                       const struct postgres_params *params)
{
    struct postgres_step step = {.statement = statement};
    return postgres_steps_reserve(&link->steps, link->steps.count + 1) &&
           postgres_statement_send(link->connection, statement, params) &&
           postgres_steps_add(&link->steps, step);
}

static bool send_ticket(struct postgres_link *link, int64_t ticket)
{
    struct postgres_params params = {0};
    postgres_params_number(&params, link->context->server);
    postgres_params_number(&params, ticket);
    postgres_params_number(&params, link->number);
    return send_plain(link, POSTGRES_TICKET, &params);
}

/* Resets calls before they are sent in another form. */
static void calls_again(struct list *calls)
{
    for (struct list *at = calls->next; at != calls; at = at->next)
        sql_call_reset_results(list_entry(at, struct sql_call, list));
}

/* Returns true if the server remembers times that a call of the transaction finds. The upkeep reports
 * the time itself. */
static bool needs_time(const struct sql_plan *plan)
{
    for (const struct list *at = plan->calls->next; at != plan->calls; at = at->next)
        if (list_entry(at, struct sql_call, list)->kind == SQL_CALL_LOOK)
            return true;
    return false;
}

static bool on_send_calls(struct sql_link *base, struct sql_context *context,
                          const struct sql_plan *plan)
{
    struct postgres_link *link = link_of(base);
    bool sent;
    pipeline_begin(link, context);
    link->plan = *plan;
    base->is_committed = false;
    if (plan->is_whole && postgres_pushes_send(plan->calls, link, plan->ticket))
        return pipeline_send(link);
    if (plan->is_whole) {
        calls_again(plan->calls);
        pipeline_begin(link, context);
    }
    if (plan->is_single)
        return postgres_calls_send(plan->calls, link) &&
               (!needs_time(plan) || send_plain(link, POSTGRES_NOW, NULL)) && pipeline_send(link);
    sent = send_plain(link, POSTGRES_BEGIN, NULL) &&
           (plan->is_durable || send_plain(link, POSTGRES_LAZY, NULL)) &&
           (!plan->is_brief || send_plain(link, POSTGRES_BRIEF, NULL)) &&
           (!plan->ticket || send_ticket(link, plan->ticket));
    return sent && postgres_calls_send(plan->calls, link) && send_plain(link, POSTGRES_NOW, NULL) &&
           pipeline_send(link);
}

static void emit_counts(struct buffer *out, const int64_t counts[SQL_COUNTS])
{
    for (int i = 0; i < SQL_COUNTS; i++)
        buffer_append_format(out, "%c%lld", i ? ',' : '{', (long long)counts[i]);
    buffer_append(out, "}", 2); /* including the NUL */
}

static bool send_tallies(struct postgres_link *link)
{
    const struct sql_tallies *tallies = &link->context->effects.tallies;
    for (size_t i = 0; i < tallies->count; i++) {
        struct postgres_params params = {0};
        struct buffer counts;
        buffer_init(&counts, 1024);
        emit_counts(&counts, tallies->at[i].counts);
        postgres_params_number(&params, tallies->at[i].topic);
        postgres_params_number(&params, link->context->server);
        postgres_params_text(&params, counts.at);
        bool sent = !counts.failed && send_plain(link, POSTGRES_TALLY, &params);
        buffer_fini(&counts);
        if (!sent)
            return false;
    }
    return true;
}

static bool send_one_notification(struct postgres_link *link, char what, const char *topic,
                                  int64_t due_ms)
{
    char text[JOB_TOPIC_BYTES_MAX + 40];
    struct postgres_params params = {0};
    (void)snprintf(text, sizeof text, "%c %s %lld", what, topic, (long long)due_ms);
    postgres_params_text(&params, text);
    return send_plain(link, POSTGRES_NOTIFY, &params);
}

/* Sends notifications. Jobs with a later due time need no notification, since other servers check
 * once a second. */
static bool send_notifications(struct postgres_link *link)
{
    const struct sql_notification_list *list = &link->context->effects.notifications;
    int64_t until_ms = link->context->now_ms + NOTIFIED_AHEAD_MS;
    bool sent = true;
    for (size_t i = 0; i < list->count && sent; i++) {
        const struct sql_notification *notification = &list->at[i];
        if (notification->due_ms < until_ms)
            sent = send_one_notification(link, 'r', notification->name, notification->due_ms);
        if (sent && notification->changed)
            sent = send_one_notification(link, 't', notification->name, 0);
        if (sent && notification->look)
            sent = send_one_notification(link, 'l', notification->name, 0);
        if (sent && notification->died)
            sent = send_one_notification(link, 'd', notification->name, 0);
    }
    return sent;
}

/* Sends lines of events, in messages within PostgreSQL's size limit. Events beyond MESSAGES_MAX are
 * lost. */
static bool send_events(struct postgres_link *link)
{
    enum { MESSAGE_BYTES_MAX = 7900, MESSAGES_MAX = 64 };
    const struct sql_effects *effects = &link->context->effects;
    struct slice lines = buffer_slice(&effects->events);
    uint64_t lost = effects->events_lost;
    bool sent = true;
    for (int i = 0; i < MESSAGES_MAX && sent && (lines.len || lost); i++) {
        struct postgres_params params = {0};
        char text[MESSAGE_BYTES_MAX + 1];
        if (i == MESSAGES_MAX - 1)
            lost += sql_event_count(lines);
        int head = snprintf(text, sizeof text, "%lld %llu\n", (long long)link->context->now_ms,
                            (unsigned long long)lost);
        struct slice part = i == MESSAGES_MAX - 1
                                ? (struct slice){0}
                                : sql_event_take_lines(&lines, sizeof text - 1 - (size_t)head);
        memcpy(text + head, part.at ? part.at : "", part.len);
        text[(size_t)head + part.len] = '\0';
        lost = 0;
        postgres_params_text(&params, text);
        sent = send_plain(link, POSTGRES_SEND_EVENTS, &params);
    }
    return sent;
}

static bool on_send_commit(struct sql_link *base, struct sql_context *context,
                           const struct sql_plan *plan)
{
    struct postgres_link *link = link_of(base);
    pipeline_begin(link, context);
    return send_tallies(link) && (!context->is_awaited || postgres_ended_send(link, plan->calls)) &&
           postgres_registers_send(link, plan->calls) && postgres_batches_send(link) &&
           (plan->is_alone || send_notifications(link)) &&
           (!plan->others_listen || send_events(link)) && send_plain(link, POSTGRES_COMMIT, NULL) &&
           pipeline_send(link);
}

static bool on_send_rollback(struct sql_link *base)
{
    struct postgres_link *link = link_of(base);
    pipeline_begin(link, link->context);
    return send_plain(link, POSTGRES_ROLLBACK, NULL) && pipeline_send(link);
}

/* ---- reading ---- */

static const struct {
    const char *state; /* prefix of the SQLSTATE */
    enum sql_fault_kind kind;
} faults[] = {
    {"40001", SQL_FAULT_PASSING}, {"40P01", SQL_FAULT_PASSING},  {"55P03", SQL_FAULT_PASSING},
    {"57014", SQL_FAULT_PASSING}, {"25P03", SQL_FAULT_PASSING},  {"57P0", SQL_FAULT_GONE},
    {"25006", SQL_FAULT_GONE},    {"08", SQL_FAULT_GONE},        {"TY001", SQL_FAULT_GONE},
    {"26000", SQL_FAULT_GONE},    {"53100", SQL_FAULT_NO_SPACE}, {"53200", SQL_FAULT_NO_MEMORY},
};

static enum sql_fault_kind fault_of(const char *state)
{
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (strncmp(state, faults[i].state, strlen(faults[i].state)) == 0)
            return faults[i].kind;
    return SQL_FAULT_OTHER;
}

static void note_failure(struct sql_fault *fault, const PGresult *result)
{
    const char *state = libpq.PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = libpq.PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (fault->kind != SQL_FAULT_NONE)
        return;
    (void)snprintf(fault->state, sizeof fault->state, "%s", state ? state : "08006");
    (void)snprintf(fault->message, sizeof fault->message, "%s", message ? message : "");
    fault->kind = fault_of(fault->state);
}

static void note_no_memory(struct sql_fault *fault)
{
    if (fault->kind == SQL_FAULT_NONE)
        fault->kind = SQL_FAULT_NO_MEMORY;
}

static void take_answer(struct postgres_link *link, PGresult *result)
{
    const struct postgres_step *step =
        link->step < link->steps.count ? &link->steps.at[link->step] : NULL;
    if (step && (step->call || step->count)) {
        if (!postgres_step_read(step, link, result))
            note_no_memory(&link->link.fault);
        return;
    }
    if (step && step->statement == POSTGRES_TICKET)
        link->context->first_ms = postgres_row_number(result, 0, 0);
    if (step && step->statement == POSTGRES_COUNT_BATCHES)
        postgres_batches_read(link, result);
    if (step && step->statement == POSTGRES_NOW) {
        link->context->now_ms = postgres_row_number(result, 0, 0);
        link->context->adjust_ms = postgres_row_number(result, 0, 1);
        link->context->is_awaited = postgres_row_number(result, 0, 2) != 0;
        link->context->has_time = true;
    }
    libpq.PQclear(result);
}

static void take_result(struct postgres_link *link, PGresult *result)
{
    switch (libpq.PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
        take_answer(link, result);
        return;
    case PGRES_PIPELINE_ABORTED:
        break;
    default:
        note_failure(&link->link.fault, result);
        break;
    }
    libpq.PQclear(result);
}

static bool is_lost(struct postgres_link *link)
{
    if (libpq.PQstatus(link->connection) == CONNECTION_OK)
        return false;
    if (!link->link.fault.message[0])
        (void)snprintf(link->link.fault.message, sizeof link->link.fault.message, "%s",
                       libpq.PQerrorMessage(link->connection));
    return true;
}

/* Returns true if a transaction of one statement was rejected since not all of its jobs are new or
 * plain. It has changed nothing, and is sent again in two parts. */
static bool whole_is_refused(const struct postgres_link *link)
{
    const char *state = link->link.fault.state; /* unique_violation, or the code of tarry._pushes */
    return link->plan.is_whole && (strcmp(state, "23505") == 0 || strcmp(state, "TY003") == 0);
}

static enum sql_progress send_in_two(struct postgres_link *link)
{
    link->link.fault = (struct sql_fault){0};
    link->old_ids = POSTGRES_OLD_IDS;
    link->plan.is_whole = false;
    calls_again(link->plan.calls);
    return on_send_calls(&link->link, link->context, &link->plan) ? SQL_UNDER_WAY : SQL_LOST;
}

/* Returns true if a transaction was committed, but memory for its results ran out. The ticket then
 * determines the results. */
static bool has_lost_answers(const struct postgres_link *link)
{
    const struct sql_fault *fault = &link->link.fault;
    return link->plan.is_whole && (link->context->effects.failed ||
                                   (fault->kind == SQL_FAULT_NO_MEMORY && !fault->state[0]));
}

static enum sql_progress pipeline_over(struct postgres_link *link)
{
    link->is_in_flight = false;
    if (whole_is_refused(link))
        return send_in_two(link);
    if (has_lost_answers(link))
        return SQL_LOST;
    if (link->context->effects.failed)
        note_no_memory(&link->link.fault);
    link->link.is_committed = link->plan.is_whole && link->link.fault.kind == SQL_FAULT_NONE;
    return SQL_PART_OVER;
}

static enum sql_progress read_results(struct postgres_link *link)
{
    while (link->is_in_flight && !libpq.PQisBusy(link->connection)) {
        PGresult *result = libpq.PQgetResult(link->connection);
        if (!result) {
            link->step++;
            if (is_lost(link) || link->step > link->steps.count + 1)
                return SQL_LOST;
        } else if (libpq.PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            libpq.PQclear(result);
            return pipeline_over(link);
        } else {
            take_result(link, result);
        }
    }
    return is_lost(link) ? SQL_LOST : SQL_UNDER_WAY;
}

static enum sql_progress on_advance(struct sql_link *base, struct sql_context *context, int events)
{
    struct postgres_link *link = link_of(base);
    link->context = context;
    if (events & SQL_WRITABLE)
        (void)flush(link);
    if (libpq.PQconsumeInput(link->connection) != 1) {
        (void)is_lost(link);
        return SQL_LOST;
    }
    return read_results(link);
}

/* Parses "what topic due". r: a job with this due time waits; t: the settings changed; d: jobs
 * died; l: check the topic; h: another server has a listener; b: a user's transaction has changed
 * batches. */
static bool parse_notification(const char *text, struct sql_notification *out)
{
    long long due = 0;
    char what = 0;
    if (sscanf(text, "%c %200s %lld", &what, out->name, &due) != 3)
        return false;
    if (what == 'r')
        out->due_ms = due;
    out->changed = what == 't';
    out->died = what == 'd';
    out->look = what == 'l';
    out->listens = what == 'h';
    out->batched = what == 'b';
    if (out->listens || out->batched)
        out->name[0] = '\0';
    return true;
}

/* Returns true if a job has ended that a client of this server waits for. The transaction may be this
 * server's own. */
static bool is_ended(const struct postgres_link *link, const char *text)
{
    long long server;
    return sscanf(text, "f * %lld", &server) == 1 && server == link->context->server;
}

static void forget_message(struct postgres_link *link)
{
    if (link->message)
        libpq.PQfreemem(link->message);
    link->message = NULL;
}

static bool on_next_notification(struct sql_link *base, struct sql_notification *out)
{
    struct postgres_link *link = link_of(base);
    PGnotify *notify;
    bool is_notification = false;
    while (!is_notification && (notify = libpq.PQnotifies(link->connection))) {
        *out = (struct sql_notification){.due_ms = INT64_MAX};
        forget_message(link);
        link->message = notify;
        if (is_ended(link, notify->extra)) {
            out->ended = true;
            return true;
        }
        if (notify->be_pid == libpq.PQbackendPID(link->connection) || notify->extra[0] == 'f')
            continue;
        if (strcmp(notify->relname, "tarry_events") == 0)
            out->events = slice_of(notify->extra);
        is_notification = out->events.len || parse_notification(notify->extra, out);
    }
    if (!is_notification)
        forget_message(link);
    return is_notification;
}

/* ---- life ---- */

/* Prepares the connection for transactions: all statements, the flusher, and pipeline mode. */
static bool on_open(struct sql_client *client, const char *url, struct sql_greeting *out)
{
    struct postgres_link *link = calloc(1, sizeof *link);
    PGconn *connection = client->connection;
    if (!link)
        return error_text(out->error, sizeof out->error, "out of memory");
    if (!postgres_statements_prepare(connection, out->error, sizeof out->error)) {
        free(link);
        return false;
    }
    link->flusher = postgres_flusher_of(postgres_client.connect(url, NULL, 0), connection);
    if (libpq.PQsetnonblocking(connection, 1) != 0 || libpq.PQenterPipelineMode(connection) != 1) {
        libpq.PQfinish(link->flusher);
        free(link);
        return error_text(out->error, sizeof out->error, "lost PostgreSQL: %s",
                          libpq.PQerrorMessage(connection));
    }
    link->link.dialect = &sql_postgres;
    link->connection = connection;
    link->number = out->connection;
    client->connection = NULL;
    postgres_batches_init(link);
    out->link = &link->link;
    return true;
}

static void on_close(struct sql_link *base)
{
    struct postgres_link *link = link_of(base);
    libpq.PQfinish(link->connection);
    libpq.PQfinish(link->flusher);
    postgres_steps_fini(&link->steps);
    postgres_batches_fini(link);
    forget_message(link);
    free(link);
}

static int on_socket(const struct sql_link *base)
{
    return libpq.PQsocket(((const struct postgres_link *)(const void *)base)->connection);
}

static int on_wants(const struct sql_link *base)
{
    const struct postgres_link *link = (const struct postgres_link *)(const void *)base;
    return link->wants_write ? SQL_READABLE | SQL_WRITABLE : SQL_READABLE;
}

static int on_flush_socket(const struct sql_link *base)
{
    const struct postgres_link *link = (const struct postgres_link *)(const void *)base;
    return link->flusher ? libpq.PQsocket(link->flusher) : -1;
}

static bool on_send_flush(struct sql_link *base)
{
    return postgres_flusher_send(link_of(base)->flusher);
}

static enum sql_progress on_advance_flush(struct sql_link *base)
{
    struct postgres_link *link = link_of(base);
    return postgres_flusher_advance(link->flusher, &link->link.fault);
}

static const char *const schemes[] = {"postgres", "postgresql", NULL};

const struct sql_dialect sql_postgres = {
    .name = "postgres",
    .title = "PostgreSQL",
    .schemes = schemes,
    .durable = "an answered push survives a crash of PostgreSQL and a power cut",
    .frail = "an answered push may be lost in a crash of PostgreSQL: fsync, full_page_writes or "
             "synchronous_commit is off",
    .durable_settings = "set fsync, full_page_writes and synchronous_commit to on",
    .has_single_transactions = true,
    .keeps_finished = true,
    .groups = true,
    .strict_groups = true,
    .batches = true,
    .has_whole_transactions = true,
    .silence_ms = 35000, /* a statement is limited to 30 s, a COMMIT is not limited */
    .product = "PostgreSQL",
    .account = "role",
    .client = &postgres_client,
    .questions = &postgres_questions,
    .is_usable = postgres_is_usable,
    .set_up = postgres_set_up,
    .open = on_open,
    .place = postgres_place,
    .close = on_close,
    .socket = on_socket,
    .wants = on_wants,
    .send_calls = on_send_calls,
    .send_commit = on_send_commit,
    .send_rollback = on_send_rollback,
    .advance = on_advance,
    .flush_socket = on_flush_socket,
    .send_flush = on_send_flush,
    .advance_flush = on_advance_flush,
    .next_notification = on_next_notification,
};
