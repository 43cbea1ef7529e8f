/* The rows that the calls of a transaction name: locked and read. */
#include "sql/mysql/turn.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEYS_MAX = 500 }; /* per statement */

/* Suffix of locking reads. They do not wait for a locked row, since the database can only wait for
 * whole seconds. The call is repeated separately, so other calls need not wait with it. */
static const char for_update[] = " FOR UPDATE NOWAIT";

/* ---- results ---- */

/* Reads rows. `step->call`: the call that has selected them itself, or NULL. */
bool mysql_read_rows(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    bool is_good = true;
    const struct sql_call *owner = step->call;
    while (is_good && (row = libmariadb.mysql_fetch_row(result))) {
        struct mysql_row *read = mysql_row_read(link, row, libmariadb.mysql_fetch_lengths(result));
        is_good = read != NULL;
        if (read && owner)
            read->owner = owner;
        if (read && owner) /* the remembered topic may be outdated or missing */
            is_good = mysql_topic_want_number(link, read->stored_at.topic) != NULL;
    }
    return is_good;
}

static bool read_acks(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result)))
        if (!mysql_ack_read(link, row, libmariadb.mysql_fetch_lengths(result)))
            return false;
    return true;
}

static bool read_finished(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        uint32_t number = (uint32_t)mysql_number(row[0]);
        struct mysql_topic *topic =
            mysql_numbers_find(&link->numbers, slice_make(&number, sizeof number));
        struct mysql_row *known =
            topic ? mysql_row_need(link, topic,
                                   slice_make(row[1], libmariadb.mysql_fetch_lengths(result)[1]))
                  : NULL;
        if (topic && !known)
            return false;
        if (known)
            known->finished_until_ms = mysql_number(row[2]);
    }
    return true;
}

static bool read_job_count(struct mysql_link *link, const struct mysql_step *step,
                           MYSQL_RES *result)
{
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    (void)link;
    step->topic->jobs = row ? mysql_number(row[0]) : 0;
    return true;
}

static bool read_number(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    (void)step;
    (void)result;
    link->number = libmariadb.mysql_insert_id(link->mysql) * MYSQL_NUMBERS;
    return true;
}

/* ---- statements ---- */

/* Appends queries for jobs and remembered ids of a topic, for the ids that have rows. */
static void append_ids(struct mysql_link *link, const struct mysql_topic *topic, const char *select,
                       mysql_reader *read, const char *end)
{
    struct buffer *out = NULL;
    size_t count = 0;
    for (size_t i = 0; i < link->rows.count; i++) {
        const struct mysql_row *row = link->rows.at[i];
        if (row->topic != topic || row->stored)
            continue;
        if (!out || count == KEYS_MAX) {
            if (out)
                buffer_append_format(out, ")%s", end);
            out = mysql_statement(link, read);
            buffer_append_format(out, "%s WHERE topic=%u AND id IN (", select, topic->number);
            count = 0;
        }
        if (count++)
            buffer_append_byte(out, ',');
        mysql_quote(out, mysql_row_id(row));
    }
    if (out)
        buffer_append_format(out, ")%s", end);
}

/* Creates the row of a job that a take names. Returns false if out of memory. */
static bool need_named_row(struct mysql_link *link, const struct sql_call *call)
{
    if (call->kind != SQL_CALL_COMMAND || call->command->kind != COMMAND_TAKE ||
        !call->command->take.id.len)
        return true;
    struct mysql_topic *topic = mysql_names_find(&link->names, call->command->take.topics[0]);
    return !topic || !topic->number || mysql_row_need(link, topic, call->command->take.id);
}

static bool need_item_rows(struct mysql_link *link)
{
    EACH_CALL(link, call)
    if (!need_named_row(link, call))
        return false;
    EACH_CALL(link, call)
    for (size_t i = 0; mysql_has_items(call) && i < call->command->count; i++) {
        const struct command *command = call->command;
        struct queue_result unused;
        if (command->kind == COMMAND_ANSWER || !command_item_is_good(command, i, &unused))
            continue;
        struct slice name =
            command->kind == COMMAND_PUSH ? command->pushes[i].topic : command->changes[i].topic;
        struct slice id =
            command->kind == COMMAND_PUSH ? command->pushes[i].id : command->changes[i].id;
        struct mysql_topic *topic = mysql_names_find(&link->names, name);
        if (topic && topic->number && !mysql_row_need(link, topic, id))
            return false;
    }
    return true;
}

struct named_lease { /* A lease that is named by an answer, or that has expired. */
    struct mysql_place place;
    uint64_t delivery;
    int64_t taken_ms;
    bool is_ack;
};
VECTOR_DECLARE(named_leases, struct named_lease)

static int named_compare(const void *a, const void *b)
{
    const struct named_lease *x = a, *y = b;
    if (x->is_ack != y->is_ack)
        return x->is_ack ? 1 : -1;
    return mysql_place_compare(&x->place, &y->place);
}

static bool name_lease(struct named_leases *leases, const struct sql_lease *lease, bool is_ack)
{
    struct named_lease named = {.place = {.topic = lease->topic,
                                          .lane = lease->lane,
                                          .due_ms = lease->due_ms,
                                          .sequence = lease->sequence},
                                .delivery = lease->delivery,
                                .taken_ms = lease->taken_ms,
                                .is_ack = is_ack};
    return named_leases_add(leases, named);
}

static bool gather_leases(struct mysql_link *link, struct named_leases *leases)
{
    EACH_CALL(link, call)
    {
        for (size_t i = 0; i < call->ends.count; i++)
            if (!name_lease(leases, &call->ends.at[i], false))
                return false;
        if (!mysql_has_items(call) || call->command->kind != COMMAND_ANSWER)
            continue;
        for (size_t i = 0; i < call->command->count; i++) {
            const struct queue_answer *answer = &call->command->answers[i];
            struct queue_result unused;
            struct sql_lease lease;
            if (command_item_is_good(call->command, i, &unused) &&
                sql_lease_parse(answer->lease, &link->context->key, &lease) &&
                !name_lease(leases, &lease, answer->verb == QUEUE_ACK))
                return false;
        }
    }
    if (leases->count)
        qsort(leases->at, leases->count, sizeof *leases->at, named_compare);
    return true;
}

static struct buffer *append_lease_rows(struct mysql_link *link, bool is_ack)
{
    struct buffer *out = mysql_statement(link, is_ack ? read_acks : mysql_read_rows);
    buffer_append_format(out, "SELECT %s FROM tarry.job FORCE INDEX (PRIMARY) WHERE ",
                         is_ack ? mysql_ack_columns : mysql_row_columns);
    return out;
}

/* Appends queries for leases. Acks are sorted last, since rows for other answers must be read
 * completely. */
static void append_lease_list(struct mysql_link *link, const struct named_lease *leases,
                              size_t count)
{
    while (count) {
        struct buffer *out = append_lease_rows(link, leases->is_ack);
        size_t part = 0;
        while (part < count && part < KEYS_MAX && leases[part].is_ack == leases->is_ack &&
               leases[part].place.topic == leases->place.topic &&
               leases[part].place.lane == leases->place.lane) {
            mysql_append_place(out, &leases[part].place, part == 0);
            part++;
        }
        buffer_append_byte(out, ')');
        buffer_append_text(out, for_update);
        leases += part;
        count -= part;
    }
}

/* Returns the acks from index `from` that one statement can read. */
static struct mysql_run run_of_acks(const struct named_leases *leases, size_t from)
{
    struct mysql_run run = {0};
    while (from + run.count < leases->count) {
        const struct named_lease *lease = &leases->at[from + run.count];
        if (!lease->is_ack || !mysql_run_add(&run, &lease->place, lease->delivery, lease->taken_ms))
            break;
    }
    return run;
}

static void append_leases(struct mysql_link *link, const struct named_leases *leases)
{
    size_t said = 0, i = 0;
    while (mysql_has_runs(link) && i < leases->count) {
        struct mysql_run run = run_of_acks(leases, i);
        if (run.count >= MYSQL_RUN_MIN) {
            append_lease_list(link, leases->at + said, i - said);
            struct buffer *out = append_lease_rows(link, true);
            mysql_append_run(out, &run);
            buffer_append_text(out, for_update);
            said = i + run.count;
        }
        i += run.count ? run.count : 1;
    }
    if (leases->count)
        append_lease_list(link, leases->at + said, leases->count - said);
}

static void append_limit(struct mysql_link *link, struct mysql_topic *topic)
{
    buffer_append_format(mysql_statement(link, NULL),
                         "SELECT topic FROM tarry.topic WHERE topic=%u FOR UPDATE", topic->number);
    buffer_append_format(
        mysql_statement_of(link, (struct mysql_step){.read = read_job_count, .topic = topic}),
        "SELECT (SELECT COALESCE(SUM(fresh+retry+leased+dead),0) FROM tarry.tally WHERE topic=%u)+"
        "(SELECT COALESCE(SUM(fresh+retry+leased+dead),0) FROM tarry.tally_add WHERE topic=%u)",
        topic->number, topic->number);
}

void mysql_append_locks(struct mysql_link *link)
{
    char select[512];
    struct named_leases leases = {0};
    if (!gather_leases(link, &leases) || !need_item_rows(link)) {
        link->text.failed = true;
        named_leases_fini(&leases);
        return;
    }
    if (link->has_pushes)
        buffer_append_text(mysql_statement(link, read_number),
                           "INSERT INTO tarry.number () VALUES ()");
    (void)snprintf(select, sizeof select, "SELECT %s FROM tarry.job FORCE INDEX (job_id)",
                   mysql_row_columns);
    append_leases(link, &leases);
    for (size_t i = 0; i < link->wanted.count; i++) {
        struct mysql_topic *topic = link->wanted.at[i];
        if (!topic->number)
            continue;
        if (topic->is_pushed_to && topic->settings.max_jobs)
            append_limit(link, topic);
        append_ids(link, topic, select, mysql_read_rows, for_update);
        if (topic->is_pushed_to)
            append_ids(link, topic, "SELECT topic,id,until FROM tarry.finished", read_finished, "");
    }
    named_leases_fini(&leases);
}
