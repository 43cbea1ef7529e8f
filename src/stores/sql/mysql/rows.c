/* The rows of a transaction: locked and read by id or location, written together. */
#include "sql/mysql/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEYS_MAX = 500,   /* per statement */
    AGAINS_MAX = 100, /* per statement: each row searches lists of this length */
    MISSES_AFTER = 16 /* acks that do not try to be early after one that failed */
};

enum {
    ROW_TOPIC,
    ROW_LEVEL,
    ROW_DUE,
    ROW_SEQUENCE,
    ROW_ID,
    ROW_STATE,
    ROW_ATTEMPT,
    ROW_PRIORITY,
    ROW_FIRST_DUE,
    ROW_UNTIL,
    ROW_TAKEN,
    ROW_SPAN,
    ROW_DELIVERY,
    ROW_SERVER,
    ROW_EXPIRE,
    ROW_LEASE,
    ROW_TTL,
    ROW_BACKOFF_KIND,
    ROW_BACKOFF_FIRST,
    ROW_BACKOFF_MAX,
    ROW_ATTEMPTS_MAX,
    ROW_BODY_BYTES,
    ROW_META_BYTES,
    ROW_CANCEL_REQUESTED,
    ROW_CONSUMER,
    ROW_HISTORY,
    ROW_NEXT,
    ROW_KEEP = ROW_NEXT + 5,
    ROW_AWAITED,
    ROW_STEPS,
    ROW_GROUP,
    ROW_SLOT,
    ROW_NEXT_GROUP,
    ROW_BATCH,
    ROW_OWN,
    ROW_BATCHES
};

const char mysql_row_columns[] =
    "topic,level,due,seq,id,state,attempt,priority,first_due,lease_until,taken,lease_span,delivery,"
    "server,expire,lease,ttl,backoff_kind,backoff_first,backoff_max,max_attempts,body_bytes,"
    "COALESCE(LENGTH(meta),0),cancel_requested,consumer,history,"
    "next_due,next_ttl,next_seq,next_priority,next_keep,keep,EXISTS(SELECT 1 FROM tarry.awaited),"
    "backoff_steps,grp,slot,next_grp,batch,own,batches";

/* Columns for jobs that are only acked. */
static const char ack_columns[] =
    "topic,level,due,seq,id,state,attempt,lease_until,taken,delivery,cancel_requested,consumer,"
    "next_due,next_ttl,next_seq,next_priority,next_keep,grp,slot,next_grp,"
    "EXISTS(SELECT 1 FROM tarry.awaited),batch,own";

/* ---- places ---- */

static int place_compare(const struct mysql_place *a, const struct mysql_place *b)
{
    if (a->topic != b->topic)
        return a->topic < b->topic ? -1 : 1;
    if (a->level != b->level)
        return a->level < b->level ? -1 : 1;
    if (a->due_ms != b->due_ms)
        return a->due_ms < b->due_ms ? -1 : 1;
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

void mysql_append_place(struct buffer *out, const struct mysql_place *place, bool is_first)
{
    if (is_first)
        buffer_append_format(out, "topic=%u AND level=%u AND (due,seq) IN (", place->topic,
                             place->level);
    buffer_append_format(out, "%s(%lld,%llu)", is_first ? "" : ",", (long long)place->due_ms,
                         (unsigned long long)place->sequence);
}

void mysql_append_single_place(struct buffer *out, const struct mysql_place *place)
{
    buffer_append_format(out, "topic=%u AND level=%u AND due=%lld AND seq=%llu", place->topic,
                         place->level, (long long)place->due_ms,
                         (unsigned long long)place->sequence);
}

/* ---- runs ---- */

const char mysql_no_wait[] = "SET STATEMENT innodb_lock_wait_timeout=0 FOR ";

/* Adds the next row in table order. Returns false if it does not belong to the run, which is then
 * unchanged. */
static bool run_add(struct mysql_run *run, const struct mysql_place *place, uint64_t delivery,
                    int64_t taken_ms)
{
    if (!run->count)
        *run = (struct mysql_run){.first = *place, .delivery = delivery, .taken_ms = taken_ms};
    else if (place->topic != run->last.topic || place->level != run->last.level ||
             taken_ms != run->taken_ms || delivery != run->delivery + run->count)
        return false;
    run->last = *place;
    run->count++;
    return true;
}

void mysql_append_span(struct buffer *out, const struct mysql_place *first,
                       const struct mysql_place *last)
{
    long long from = (long long)first->due_ms, to = (long long)last->due_ms;
    unsigned long long from_seq = first->sequence, to_seq = last->sequence;
    buffer_append_format(out, "topic=%u AND level=%u AND ", first->topic, first->level);
    if (from == to)
        buffer_append_format(out, "due=%lld AND seq BETWEEN %llu AND %llu", from, from_seq, to_seq);
    else
        buffer_append_format(out,
                             "(due=%lld AND seq>=%llu OR due>%lld AND due<%lld OR due=%lld AND "
                             "seq<=%llu)",
                             from, from_seq, from, to, to, to_seq);
}

/* Appends the whole condition for a run. */
static void append_run(struct buffer *out, const struct mysql_run *run)
{
    mysql_append_span(out, &run->first, &run->last);
    buffer_append_format(out, " AND state=3 AND taken=%lld AND delivery BETWEEN %llu AND %llu",
                         (long long)run->taken_ms, (unsigned long long)run->delivery,
                         (unsigned long long)(run->delivery + run->count - 1));
}

/* ---- reading ---- */

static void row_free(struct mysql_row *row)
{
    free(row->form);
    free(row);
}

void mysql_rows_clear(struct mysql_link *link)
{
    table_fini(&link->rows.ids.table);
    table_fini(&link->rows.places.table);
    link->rows.ids = (struct mysql_ids){0};
    link->rows.places = (struct mysql_places){0};
    for (size_t i = 0; i < link->rows.list.count; i++)
        row_free(link->rows.list.at[i]);
    link->rows.list.count = 0;
    link->history.events.count = 0; /* they refer to the rows */
}

static size_t key_write(char key[sizeof(uint32_t) + QUEUE_ONCE_ID_BYTES_MAX], uint32_t topic,
                        struct slice id)
{
    memcpy(key, &topic, sizeof topic);
    memcpy(key + sizeof topic, id.at, id.len);
    return sizeof topic + id.len;
}

struct mysql_row *mysql_row_find(const struct mysql_link *link, uint32_t topic, struct slice id)
{
    char key[sizeof(uint32_t) + QUEUE_ONCE_ID_BYTES_MAX];
    if (id.len > QUEUE_ONCE_ID_BYTES_MAX)
        return NULL;
    return mysql_ids_find(&link->rows.ids, slice_make(key, key_write(key, topic, id)));
}

static struct mysql_row *row_need(struct mysql_link *link, uint32_t topic, struct slice id)
{
    char key[sizeof(uint32_t) + QUEUE_ONCE_ID_BYTES_MAX];
    if (id.len > QUEUE_ONCE_ID_BYTES_MAX)
        return NULL;
    size_t len = key_write(key, topic, id);
    struct mysql_row *row = mysql_ids_find(&link->rows.ids, slice_make(key, len));
    if (row)
        return row;
    row = calloc(1, sizeof *row);
    if (!row || !mysql_row_list_add(&link->rows.list, row)) {
        free(row);
        return NULL;
    }
    memcpy(row->key, key, len);
    row->id_bytes = id.len;
    row->topic = mysql_numbers_find(&link->topics.numbers, slice_make(&topic, sizeof topic));
    row->by_id.key = slice_make(row->key, len);
    mysql_ids_add(&link->rows.ids, row);
    return row;
}

struct mysql_row *mysql_row_need(struct mysql_link *link, struct mysql_topic *topic,
                                 struct slice id)
{
    return row_need(link, topic->number, id);
}

struct mysql_row *mysql_row_of_once(struct mysql_link *link, struct mysql_topic *topic,
                                    struct slice once)
{
    char room[QUEUE_ONCE_ID_BYTES_MAX];
    return row_need(link, topic->number, queue_once_id(once, room));
}

/* A place is used as a key, so it must not contain padding. */
_Static_assert(sizeof(struct mysql_place) == 24, "a place has no holes");

struct mysql_row *mysql_row_at(struct mysql_link *link, const struct mysql_place *place)
{
    return mysql_places_find(&link->rows.places, slice_make(place, sizeof *place));
}

/* Notes where a job is stored and its state. Returns NULL if out of memory. */
static struct mysql_row *note_place(struct mysql_link *link, const struct mysql_place *place,
                                    struct slice id, enum job_state state)
{
    struct mysql_row *out = row_need(link, place->topic, id);
    if (!out || out->stored)
        return out;
    out->stored = out->exists = true;
    out->stored_at = *place;
    out->by_place.key = slice_make(&out->stored_at, sizeof out->stored_at);
    mysql_places_add(&link->rows.places, out);
    out->level = (int32_t)out->stored_at.level;
    out->due_ms = out->stored_at.due_ms;
    out->sequence = out->stored_at.sequence;
    out->state = state;
    out->was_leased = out->state == JOB_LEASED;
    return out;
}

/* Reads the columns that both kinds of rows begin with. Returns NULL if out of memory. */
static struct mysql_row *read_place(struct mysql_link *link, MYSQL_ROW row,
                                    const unsigned long *lengths)
{
    struct mysql_place place = {.topic = (uint32_t)mysql_number(row[ROW_TOPIC]),
                                .level = (uint32_t)mysql_number(row[ROW_LEVEL]),
                                .due_ms = mysql_number(row[ROW_DUE]),
                                .sequence = (uint64_t)mysql_number(row[ROW_SEQUENCE])};
    return note_place(link, &place, slice_make(row[ROW_ID], lengths[ROW_ID]),
                      (enum job_state)mysql_number(row[ROW_STATE]));
}

static void read_consumer(struct mysql_row *out, MYSQL_ROW row, const unsigned long *lengths,
                          int column)
{
    if (!row[column] || lengths[column] > sizeof out->consumer)
        return;
    out->consumer_bytes = lengths[column];
    memcpy(out->consumer, row[column], out->consumer_bytes);
}

/* Reads the columns of a successor, which follow each other. */
static void read_next(struct mysql_row *out, MYSQL_ROW row, int column)
{
    if (!row[column])
        return;
    out->next = (struct mysql_next){.waits = true,
                                    .due_ms = mysql_number(row[column]),
                                    .ttl_ms = mysql_number(row[column + 1]),
                                    .sequence = (uint64_t)mysql_number(row[column + 2]),
                                    .priority = (int32_t)mysql_number(row[column + 3]),
                                    .has_keep = row[column + 4] != NULL,
                                    .keep_ms = mysql_number(row[column + 4])};
}

/* Reads the batches of a row. What its calls mean for them may depend on their states. */
static void read_batches(struct mysql_link *link, struct mysql_row *out, MYSQL_ROW row, int column)
{
    out->batch = out->stored_batch = mysql_number(row[column]);
    out->own = out->stored_own = mysql_number(row[column + 1]);
    if (out->own || (out->batch && out->state == JOB_DEAD))
        link->batches.has_own = true;
}

/* Reads the columns of a group, which follow each other. */
static void read_group(struct mysql_row *out, MYSQL_ROW row, int column)
{
    out->group = out->stored_group = mysql_number(row[column]);
    out->slot = (int)mysql_number(row[column + 1]);
    out->next.group = mysql_number(row[column + 2]);
}

static bool ack_read(struct mysql_link *link, MYSQL_ROW row, const unsigned long *lengths)
{
    enum { ATTEMPT = ROW_STATE + 1, UNTIL, TAKEN, DELIVERY, CANCEL_REQUESTED, CONSUMER, NEXT };
    enum { GROUP = NEXT + 5, AWAITED = GROUP + 3, BATCH };
    struct mysql_row *out = read_place(link, row, lengths);
    link->is_awaited = link->is_awaited || mysql_number(row[AWAITED]) != 0;
    if (!out || out->is_whole)
        return out != NULL;
    out->stored_attempt = out->attempt = (uint32_t)mysql_number(row[ATTEMPT]);
    out->lease_until_ms = mysql_number(row[UNTIL]);
    out->taken_ms = mysql_number(row[TAKEN]);
    out->delivery = (uint64_t)mysql_number(row[DELIVERY]);
    out->cancel_requested = mysql_number(row[CANCEL_REQUESTED]) != 0;
    read_consumer(out, row, lengths, CONSUMER);
    read_next(out, row, NEXT);
    read_group(out, row, GROUP);
    read_batches(link, out, row, BATCH);
    return true;
}

/* Fills in a row from the result of a statement with all columns. Returns NULL if out of memory. */
static struct mysql_row *row_read(struct mysql_link *link, MYSQL_ROW row,
                                  const unsigned long *lengths)
{
    struct mysql_row *out = read_place(link, row, lengths);
    link->is_awaited = link->is_awaited || mysql_number(row[ROW_AWAITED]) != 0;
    if (!out || out->is_whole)
        return out;
    out->is_whole = true;
    out->has_keep = row[ROW_KEEP] != NULL;
    out->keep_ms = mysql_number(row[ROW_KEEP]);
    out->stored_attempt = out->attempt = (uint32_t)mysql_number(row[ROW_ATTEMPT]);
    out->priority = (int32_t)mysql_number(row[ROW_PRIORITY]);
    out->first_due_ms = mysql_number(row[ROW_FIRST_DUE]);
    out->lease_until_ms = mysql_number(row[ROW_UNTIL]);
    out->taken_ms = mysql_number(row[ROW_TAKEN]);
    out->lease_span_ms = mysql_number(row[ROW_SPAN]);
    out->delivery = (uint64_t)mysql_number(row[ROW_DELIVERY]);
    out->server = mysql_number(row[ROW_SERVER]);
    out->expire_ms = mysql_number(row[ROW_EXPIRE]);
    out->policy.lease_ms = mysql_number(row[ROW_LEASE]);
    out->policy.ttl_ms = mysql_number(row[ROW_TTL]);
    out->policy.backoff.kind = (enum backoff_kind)mysql_number(row[ROW_BACKOFF_KIND]);
    out->policy.backoff.first_ms = mysql_number(row[ROW_BACKOFF_FIRST]);
    out->policy.backoff.max_ms = mysql_number(row[ROW_BACKOFF_MAX]);
    if (out->policy.backoff.kind == BACKOFF_LIST)
        sql_steps_read(slice_make(row[ROW_STEPS], lengths[ROW_STEPS]), &out->policy.backoff);
    out->policy.max_attempts = (uint32_t)mysql_number(row[ROW_ATTEMPTS_MAX]);
    out->body_bytes = (uint64_t)mysql_number(row[ROW_BODY_BYTES]);
    out->meta_bytes = (uint64_t)mysql_number(row[ROW_META_BYTES]);
    out->cancel_requested = mysql_number(row[ROW_CANCEL_REQUESTED]) != 0;
    read_consumer(out, row, lengths, ROW_CONSUMER);
    read_next(out, row, ROW_NEXT);
    read_group(out, row, ROW_GROUP);
    read_batches(link, out, row, ROW_BATCH);
    if (row[ROW_BATCHES] && lengths[ROW_BATCHES]) {
        out->form = malloc(lengths[ROW_BATCHES]);
        if (!out->form)
            return NULL;
        out->form_bytes = lengths[ROW_BATCHES];
        memcpy(out->form, row[ROW_BATCHES], out->form_bytes);
    }
    if (lengths[ROW_HISTORY] <= sizeof out->history && row[ROW_HISTORY]) {
        out->history_bytes = lengths[ROW_HISTORY];
        memcpy(out->history, row[ROW_HISTORY], out->history_bytes);
    }
    return out;
}

/* ---- rows that calls name ---- */

/* Suffix of locking reads. They do not wait for a locked row, since the database can only wait for
 * whole seconds. The call is repeated separately, so other calls need not wait with it. */
static const char for_update[] = " FOR UPDATE NOWAIT";

struct mysql_row *mysql_row_take(struct mysql_link *link, MYSQL_ROW row,
                                 const unsigned long *lengths)
{
    struct mysql_row *read = row_read(link, row, lengths);
    return read && mysql_topic_want_number(link, read->stored_at.topic) ? read : NULL;
}

bool mysql_row_resolve(struct mysql_link *link, struct mysql_row *row)
{
    row->topic = mysql_numbers_find(&link->topics.numbers, slice_make(row->key, sizeof(uint32_t)));
    return row->topic && row->topic->number && row->topic->name[0] != '?';
}

/* Reads rows. `step->call`: the call that has selected them itself, or NULL. */
bool mysql_read_rows(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    bool is_good = true;
    const struct sql_call *owner = step->call;
    while (is_good && (row = libmariadb.mysql_fetch_row(result))) {
        struct mysql_row *read = row_read(link, row, libmariadb.mysql_fetch_lengths(result));
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
        if (!ack_read(link, row, libmariadb.mysql_fetch_lengths(result)))
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
            mysql_numbers_find(&link->topics.numbers, slice_make(&number, sizeof number));
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

/* Reads which ids kept jobs have, with their sizes. */
static bool read_kept(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        uint32_t number = (uint32_t)mysql_number(row[0]);
        struct mysql_topic *topic =
            mysql_numbers_find(&link->topics.numbers, slice_make(&number, sizeof number));
        struct slice id = slice_make(row[1], libmariadb.mysql_fetch_lengths(result)[1]);
        struct mysql_row *known = topic ? mysql_row_need(link, topic, id) : NULL;
        if (topic && !known)
            return false;
        if (known)
            known->old_kept_bytes = (uint64_t)mysql_number(row[2]);
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
    link->rows.number = libmariadb.mysql_insert_id(link->mysql) * MYSQL_NUMBERS;
    return true;
}

/* Appends queries for jobs and remembered ids of a topic, for the ids that have rows. */
static void append_ids(struct mysql_link *link, const struct mysql_topic *topic, const char *select,
                       mysql_reader *read, const char *end)
{
    struct buffer *out = NULL;
    size_t count = 0;
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        if (row->topic != topic || row->stored)
            continue;
        if (!out || count == KEYS_MAX) {
            if (out)
                buffer_append_format(out, ")%s", end);
            out = mysql_statement_repeated(link, read);
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
    struct mysql_topic *topic =
        mysql_names_find(&link->topics.names, call->command->take.topics[0]);
    return !topic || !topic->number || mysql_row_need(link, topic, call->command->take.id);
}

static bool need_item_rows(struct mysql_link *link)
{
    EACH_CALL(link, call)
    if (!need_named_row(link, call))
        return false;
    EACH_CALL(link, call)
    for (size_t i = 0; sql_call_writes_items(call) && i < call->command->count; i++) {
        const struct command *command = call->command;
        struct queue_result unused;
        if (command->kind == COMMAND_ANSWER || !command_item_is_good(command, i, &unused))
            continue;
        struct queue_find name = command_item_name(command, i);
        struct mysql_topic *topic = mysql_names_find(&link->topics.names, name.topic);
        bool has_once = command->kind == COMMAND_PUSH && command->pushes[i].once.len;
        if (topic && topic->number &&
            (!mysql_row_need(link, topic, name.id) ||
             (has_once && !mysql_row_of_once(link, topic, command->pushes[i].once))))
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
    return place_compare(&x->place, &y->place);
}

static struct mysql_place place_of(const struct sql_lease *lease)
{
    return (struct mysql_place){.topic = lease->topic,
                                .level = lease->level,
                                .due_ms = lease->due_ms,
                                .sequence = lease->sequence};
}

static bool name_lease(struct named_leases *leases, const struct sql_lease *lease, bool is_ack)
{
    struct named_lease named = {.place = place_of(lease),
                                .delivery = lease->delivery,
                                .taken_ms = lease->taken_ms,
                                .is_ack = is_ack};
    return named_leases_add(leases, named);
}

/* Returns whether the job of a lease may be kept: its row must then be read completely. */
static bool keeps(const struct mysql_link *link, const struct sql_lease *lease)
{
    const struct mysql_topic *topic =
        mysql_numbers_find(&link->topics.numbers, slice_make(&lease->topic, sizeof lease->topic));
    return topic && mysql_topic_keeps(topic);
}

/* Adds the leases of members that add others: their rows stay locked, so that they end afterwards. */
static bool gather_parents(struct mysql_link *link, struct named_leases *leases,
                           const struct sql_call *call)
{
    for (size_t i = 0; i < call->command->count; i++) {
        const struct queue_batch *batch = call->command->pushes[i].batch;
        struct sql_lease lease;
        if (batch && batch->parent.len &&
            sql_lease_parse(batch->parent, &link->context->key, &lease) &&
            !name_lease(leases, &lease, false))
            return false;
    }
    return true;
}

static bool gather_leases(struct mysql_link *link, struct named_leases *leases)
{
    EACH_CALL(link, call)
    {
        for (size_t i = 0; i < call->ends.count; i++)
            if (!name_lease(leases, &call->ends.at[i], false))
                return false;
        if (!sql_call_writes_items(call) || call->command->kind == COMMAND_CHANGE)
            continue;
        if (call->command->kind == COMMAND_PUSH) {
            if (!gather_parents(link, leases, call))
                return false;
            continue;
        }
        for (size_t i = 0; i < call->command->count; i++) {
            const struct queue_answer *answer = &call->command->answers[i];
            struct queue_result unused;
            struct sql_lease lease;
            if (command_item_is_good(call->command, i, &unused) &&
                sql_lease_parse(answer->lease, &link->context->key, &lease) &&
                !name_lease(leases, &lease, answer->verb == QUEUE_ACK && !keeps(link, &lease)))
                return false;
        }
    }
    if (leases->count)
        qsort(leases->at, leases->count, sizeof *leases->at, named_compare);
    return true;
}

static const char early_columns[] =
    "due,seq,delivery,id,attempt,lease_until,cancel_requested,consumer,EXISTS(SELECT 1 FROM "
    "tarry.awaited)";

/* Reads a job that an early ack has deleted. The lease of any of them contains the other columns. */
static bool early_read(struct mysql_link *link, MYSQL_ROW row, const unsigned long *lengths,
                       const struct sql_lease *lease)
{
    enum { DUE, SEQUENCE, DELIVERY, ID, ATTEMPT, UNTIL, CANCEL_REQUESTED, CONSUMER, AWAITED };
    struct mysql_place place = {.topic = lease->topic,
                                .level = lease->level,
                                .due_ms = mysql_number(row[DUE]),
                                .sequence = (uint64_t)mysql_number(row[SEQUENCE])};
    struct mysql_row *out = note_place(link, &place, slice_make(row[ID], lengths[ID]), JOB_LEASED);
    if (!out)
        return false;
    link->is_awaited = mysql_number(row[AWAITED]) != 0;
    out->stored_attempt = out->attempt = (uint32_t)mysql_number(row[ATTEMPT]);
    out->lease_until_ms = mysql_number(row[UNTIL]);
    out->taken_ms = lease->taken_ms;
    out->delivery = (uint64_t)mysql_number(row[DELIVERY]);
    out->cancel_requested = mysql_number(row[CANCEL_REQUESTED]) != 0;
    read_consumer(out, row, lengths, CONSUMER);
    out->is_deleted = true;
    return true;
}

/* Reads what an early ack has deleted. If that is a part of its jobs, the transaction is repeated. */
static bool read_early(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct sql_lease lease;
    MYSQL_ROW row;
    uint64_t count = 0;
    bool is_good =
        sql_lease_parse(step->call->command->answers[0].lease, &link->context->key, &lease);
    for (; is_good && (row = libmariadb.mysql_fetch_row(result)); count++)
        is_good = early_read(link, row, libmariadb.mysql_fetch_lengths(result), &lease);
    link->rows.early = count ? MYSQL_EARLY_DONE : MYSQL_EARLY_MISSED;
    if (count < step->number)
        link->rows.early_misses = MISSES_AFTER;
    if (count && count < step->number)
        mysql_note_fault(link, SQL_FAULT_OUTDATED, "TY004", "some of the leases have ended");
    return is_good;
}

/* Returns whether the only call of the transaction is the ack of a job, or of a run of jobs, without special rules. The
 * rows between a few jobs that are no run can be many. MySQL cannot return what it deletes. */
static bool may_be_early(struct mysql_link *link, size_t leases, const struct mysql_run *run)
{
    const struct mysql_topic *topic = link->topics.wanted.count ? link->topics.wanted.at[0] : NULL;
    const struct sql_call *call = sql_call_first(link->transaction.plan.calls);
    bool is_run = leases == 1 || leases >= MYSQL_RUN_MIN;
    bool is_single = is_run && run->count == leases && topic && !topic->flow &&
                     call->list.next == link->transaction.plan.calls &&
                     call->kind == SQL_CALL_COMMAND && call->command->kind == COMMAND_ANSWER &&
                     call->command->count == leases;
    if (!is_single || link->transaction.part != MYSQL_PART_BEGIN || !link->topics.are_in_ticket ||
        !mysql_has_runs(link))
        return false;
    if (link->rows.early_misses)
        link->rows.early_misses--;
    return !link->rows.early_misses;
}

/* Deletes the jobs of leases and reads what they were. Finds no job whose lease has ended, or on which more than the ack
 * depends: a successor or batches. These are then looked at first. */
static void append_early(struct mysql_link *link, const struct mysql_run *run)
{
    struct buffer *out = mysql_statement_of(
        link, (struct mysql_step){.read = read_early,
                                  .call = sql_call_first(link->transaction.plan.calls),
                                  .number = run->count,
                                  .repeats = true});
    link->rows.early = MYSQL_EARLY_SENT;
    buffer_append_text(out, mysql_no_wait);
    buffer_append_format(out, "DELETE FROM tarry.%s WHERE ", run->count > 1 ? "server_job" : "job");
    if (run->count > 1) {
        append_run(out, run);
    } else {
        mysql_append_single_place(out, &run->first);
        buffer_append_format(out, " AND state=3 AND taken=%lld AND delivery=%llu",
                             (long long)run->taken_ms, (unsigned long long)run->delivery);
    }
    buffer_append_text(out, " AND lease_until>");
    mysql_append_now(link, out);
    buffer_append_format(
        out, " AND next_due IS NULL AND batch IS NULL AND own IS NULL RETURNING %s", early_columns);
}

static struct buffer *append_lease_rows(struct mysql_link *link, bool is_ack)
{
    struct buffer *out = mysql_statement_repeated(link, is_ack ? read_acks : mysql_read_rows);
    buffer_append_format(out, "SELECT %s FROM tarry.job FORCE INDEX (PRIMARY) WHERE ",
                         is_ack ? ack_columns : mysql_row_columns);
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
               leases[part].place.level == leases->place.level) {
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
        if (!lease->is_ack || !run_add(&run, &lease->place, lease->delivery, lease->taken_ms))
            break;
    }
    return run;
}

static void append_leases(struct mysql_link *link, const struct named_leases *leases)
{
    size_t written = 0, i = 0;
    struct mysql_run all = run_of_acks(leases, 0);
    if (may_be_early(link, leases->count, &all)) {
        append_early(link, &all);
        return;
    }
    while (mysql_has_runs(link) && i < leases->count) {
        struct mysql_run run = run_of_acks(leases, i);
        if (run.count >= MYSQL_RUN_MIN) {
            append_lease_list(link, leases->at + written, i - written);
            struct buffer *out = append_lease_rows(link, true);
            append_run(out, &run);
            buffer_append_text(out, for_update);
            written = i + run.count;
        }
        i += run.count ? run.count : 1;
    }
    if (leases->count)
        append_lease_list(link, leases->at + written, leases->count - written);
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
        link->wire.text.failed = true;
        named_leases_fini(&leases);
        return;
    }
    if (link->transaction.has_pushes)
        buffer_append_text(mysql_statement_repeated(link, read_number),
                           "INSERT INTO tarry.number () VALUES ()");
    (void)snprintf(select, sizeof select, "SELECT %s FROM tarry.job FORCE INDEX (job_id)",
                   mysql_row_columns);
    append_leases(link, &leases);
    for (size_t i = 0; i < link->topics.wanted.count; i++) {
        struct mysql_topic *topic = link->topics.wanted.at[i];
        if (!topic->number)
            continue;
        if (topic->is_pushed_to && topic->settings.max_jobs)
            append_limit(link, topic);
        append_ids(link, topic, select, mysql_read_rows, for_update);
        if (topic->is_pushed_to)
            append_ids(link, topic, "SELECT topic,id,until FROM tarry.finished", read_finished, "");
        if (topic->is_pushed_to && mysql_topic_keeps(topic))
            append_ids(link, topic, "SELECT topic,id,bytes FROM tarry.kept", read_kept, "");
    }
    named_leases_fini(&leases);
}

/* ---- writing ---- */

static uint32_t topic_number_of(const struct mysql_row *row)
{
    uint32_t number;
    memcpy(&number, row->key, sizeof number);
    return number;
}

static int row_compare(const void *a, const void *b)
{
    const struct mysql_row *const *x = a, *const *y = b;
    return place_compare(&(*x)->stored_at, &(*y)->stored_at);
}

static bool is_to_go(const struct mysql_row *row)
{
    return row->stored && !row->is_deleted && (!row->exists || row->fresh);
}

/* Adds a row whose lease is still the one stored in the database. */
static bool run_add_row(struct mysql_run *run, const struct mysql_row *row)
{
    return row->state == JOB_LEASED && row->taken_ms &&
           run_add(run, &row->stored_at, row->delivery, row->taken_ms);
}

static size_t count_run(const struct mysql_row_list *rows, size_t from)
{
    struct mysql_run run = {0};
    while (from + run.count < rows->count && run_add_row(&run, rows->at[from + run.count]))
        continue;
    return run.count;
}

static void append_delete_of_run(struct mysql_link *link, struct mysql_row *const *rows,
                                 size_t count)
{
    struct mysql_run run = {0};
    struct buffer *out = mysql_statement_changing(link, count);
    for (size_t i = 0; i < count; i++)
        (void)run_add_row(&run, rows[i]);
    buffer_append_text(out, mysql_no_wait);
    buffer_append_text(out, "DELETE FROM tarry.server_job WHERE ");
    append_run(out, &run);
}

/* Deletes rows of one topic and level. MariaDB uses the index only if the statement names a single
 * table; MySQL requires an explicit hint. */
static void append_delete(struct mysql_link *link, struct mysql_row *const *rows, size_t count)
{
    struct buffer *out = mysql_statement_changing(link, count);
    buffer_append_text(out, !link->is_mariadb
                                ? "DELETE j FROM tarry.job j FORCE INDEX (PRIMARY) WHERE "
                            : count == 1 ? "DELETE FROM tarry.job WHERE "
                                         : "DELETE FROM tarry.server_job WHERE ");
    if (count == 1) {
        mysql_append_single_place(out, &rows[0]->stored_at);
        return;
    }
    for (size_t i = 0; i < count; i++)
        mysql_append_place(out, &rows[i]->stored_at, i == 0);
    buffer_append_byte(out, ')');
}

static void append_delete_list(struct mysql_link *link, struct mysql_row *const *rows, size_t count)
{
    while (count) {
        const struct mysql_place *first = &rows[0]->stored_at;
        size_t part = 1;
        while (part < count && part < (link->transaction.is_exact ? 1 : KEYS_MAX) &&
               rows[part]->stored_at.topic == first->topic &&
               rows[part]->stored_at.level == first->level)
            part++;
        append_delete(link, rows, part);
        rows += part;
        count -= part;
    }
}

static void append_deletes(struct mysql_link *link)
{
    struct mysql_row_list rows = {0};
    size_t written = 0, i = 0;
    for (size_t k = 0; k < link->rows.list.count; k++)
        if (is_to_go(link->rows.list.at[k]) && !mysql_row_list_add(&rows, link->rows.list.at[k]))
            link->wire.text.failed = true;
    while (i < rows.count) {
        size_t count = mysql_has_runs(link) ? count_run(&rows, i) : 1;
        if (count >= MYSQL_RUN_MIN) {
            append_delete_list(link, rows.at + written, i - written);
            append_delete_of_run(link, rows.at + i, count);
            written = i + count;
        }
        i += count ? count : 1;
    }
    if (rows.count)
        append_delete_list(link, rows.at + written, rows.count - written);
    mysql_row_list_fini(&rows);
}

static bool is_old_key(const struct mysql_row *row)
{
    return row->stored && !row->exists;
}

/* Appends the deletion of the only id whose job no longer exists. */
static void append_old_key(struct mysql_link *link, const struct mysql_row *row)
{
    struct buffer *out = mysql_statement_repeated(link, NULL);
    buffer_append_format(out,
                         "DELETE FROM tarry.job_key WHERE topic=%u AND id=", topic_number_of(row));
    mysql_quote(out, mysql_row_id(row));
}

/* Appends the deletion of the ids of jobs that no longer exist, by the index: a scan of the table
 * would meet rows that others hold. */
static void append_old_keys(struct mysql_link *link)
{
    struct buffer *out = NULL;
    uint32_t topic = 0;
    size_t count = 0;
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        if (!is_old_key(row))
            continue;
        if (!out || count == KEYS_MAX || topic_number_of(row) != topic) {
            if (out)
                buffer_append_byte(out, ')');
            topic = topic_number_of(row);
            count = 0;
            out = mysql_statement_repeated(link, NULL);
            buffer_append_format(out, "DELETE FROM tarry.server_job_key WHERE topic=%u AND id IN (",
                                 topic);
        }
        if (count++)
            buffer_append_byte(out, ',');
        mysql_quote(out, mysql_row_id(row));
    }
    if (out)
        buffer_append_byte(out, ')');
}

static void append_number_or_null(struct buffer *out, int64_t number)
{
    if (number)
        buffer_append_format(out, ",%lld", (long long)number);
    else
        buffer_append_text(out, ",NULL");
}

static void append_bytes(struct buffer *out, struct slice bytes)
{
    buffer_append_byte(out, ',');
    mysql_quote_bytes(out, bytes);
}

static bool row_has_steps(const struct mysql_row *row)
{
    return row->policy.backoff.kind == BACKOFF_LIST;
}

/* Returns whether the columns of a fresh row include the group. */
static bool row_has_group(const struct mysql_row *row)
{
    return row->topic && row->topic->flow & MYSQL_FLOW_GROUPS;
}

static bool row_has_batches(const struct mysql_row *row)
{
    return row->batch || row->own;
}

static void append_fresh(struct buffer *out, const struct mysql_row *row)
{
    const struct queue_push *push = row->push;
    char steps[BACKOFF_STEPS_BYTES_MAX];
    buffer_append_format(out, "(%u,%d,%lld,%llu,", topic_number_of(row), row->level,
                         (long long)row->due_ms, (unsigned long long)row->sequence);
    mysql_quote(out, mysql_row_id(row));
    buffer_append_format(out, ",%d,%u,%d,%lld", (int)row->state, row->attempt, row->priority,
                         (long long)row->first_due_ms);
    append_number_or_null(out, row->expire_ms);
    append_number_or_null(out, row->policy.lease_ms);
    append_number_or_null(out, row->policy.ttl_ms);
    append_number_or_null(out, row->policy.backoff.kind);
    append_number_or_null(out, row->policy.backoff.first_ms);
    append_number_or_null(out, row->policy.backoff.max_ms);
    append_number_or_null(out, row->policy.max_attempts);
    append_bytes(out, push->content_type);
    append_bytes(out, push->meta);
    append_bytes(out, row->error);
    buffer_append_format(out, ",%zu,_binary", push->body.len);
    mysql_quote(out, push->body);
    if (row->has_keep)
        buffer_append_format(out, ",%lld", (long long)row->keep_ms);
    else
        buffer_append_text(out, ",NULL");
    if (row_has_steps(row))
        append_bytes(out, policy_write_steps(&row->policy.backoff, steps));
    if (row_has_group(row))
        append_number_or_null(out, row->group);
    if (row_has_batches(row)) {
        append_number_or_null(out, row->batch);
        append_number_or_null(out, row->own);
        append_bytes(out, slice_make(row->form, row->batch ? row->form_bytes : 0));
    }
    buffer_append_byte(out, ')');
}

/* Appends the ids of new jobs. An id that another transaction has inserted first fails the
 * statement. */
static void append_new_keys(struct mysql_link *link)
{
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        if (!row->exists || !row->fresh || row->stored)
            continue;
        if (!out)
            buffer_append_text(out = mysql_statement_repeated(link, NULL),
                               "INSERT INTO tarry.job_key VALUES ");
        else
            buffer_append_byte(out, ',');
        buffer_append_format(out, "(%u,", topic_number_of(row));
        mysql_quote(out, mysql_row_id(row));
        buffer_append_byte(out, ')');
    }
}

/* Appends rows, many in a statement. A row with a large body has a statement and a packet of its own. */
static void append_inserts(struct mysql_link *link)
{
    enum { STATEMENT_BYTES = 256 * 1024, STATEMENT_SHARE = 8 };
    struct buffer *out = NULL;
    size_t begun = 0, full = link->packet_bytes_max / STATEMENT_SHARE;
    bool had_steps = false, had_group = false, had_batches = false;
    if (full > STATEMENT_BYTES)
        full = STATEMENT_BYTES;
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        if (!row->exists || !row->fresh)
            continue;
        bool is_large = row->push->body.len > full / 2;
        bool has_steps = row_has_steps(row), has_group = row_has_group(row);
        bool has_batches = row_has_batches(row);
        if (!out || is_large || out->len - begun > full || has_steps != had_steps ||
            has_group != had_group || has_batches != had_batches) {
            out = is_large ? mysql_statement_apart(link) : mysql_statement_repeated(link, NULL);
            if (out->failed)
                return;
            begun = out->len;
            had_steps = has_steps;
            had_group = has_group;
            had_batches = has_batches;
            buffer_append_format(
                out,
                "INSERT INTO tarry.job (topic,level,due,seq,id,state,attempt,priority,first_due,"
                "expire,lease,ttl,backoff_kind,backoff_first,backoff_max,max_attempts,"
                "content_type,meta,error,body_bytes,body,keep%s%s%s) VALUES ",
                has_steps ? ",backoff_steps" : "", has_group ? ",grp" : "",
                has_batches ? ",batch,own,batches" : "");
        } else {
            buffer_append_byte(out, ',');
        }
        append_fresh(out, row);
    }
}

/* Appends the columns of a job that is pushed again. */
static void append_again(struct buffer *out, const struct mysql_row *row)
{
    const struct queue_again *again = row->again;
    buffer_append_format(out, ",seq=%llu,delivery=0,lease_span=0",
                         (unsigned long long)row->sequence);
    if (!again->has_body)
        return;
    if (again->content_type.len) {
        buffer_append_text(out, ",content_type=");
        mysql_quote_bytes(out, again->content_type);
    }
    buffer_append_format(out, ",body_bytes=%zu,body=_binary", again->body.len);
    mysql_quote(out, again->body);
}

static void append_number_of(struct buffer *out, const char *column, int64_t number)
{
    buffer_append_format(out, ",%s=", column);
    if (number)
        buffer_append_i64(out, number);
    else
        buffer_append_text(out, "NULL");
}

/* Appends the columns of a new successor. */
static void append_next_set(struct buffer *out, const struct mysql_row *row)
{
    const struct queue_push *push = row->next_push;
    const struct policy *policy = &push->policy;
    char steps[BACKOFF_STEPS_BYTES_MAX];
    buffer_append_format(out, ",next_due=%lld,next_seq=%llu,next_priority=%d",
                         (long long)row->next.due_ms, (unsigned long long)row->next.sequence,
                         row->next.priority);
    append_number_of(out, "next_lease", policy->lease_ms);
    append_number_of(out, "next_ttl", policy->ttl_ms);
    append_number_of(out, "next_backoff_kind", policy->backoff.kind);
    append_number_of(out, "next_backoff_first", policy->backoff.first_ms);
    append_number_of(out, "next_backoff_max", policy->backoff.max_ms);
    buffer_append_text(out, ",next_backoff_steps=");
    mysql_quote_bytes(out, policy_write_steps(&policy->backoff, steps));
    append_number_of(out, "next_max_attempts", policy->max_attempts);
    buffer_append_text(out, ",next_content_type=");
    mysql_quote_bytes(out, push->content_type);
    buffer_append_text(out, ",next_meta=");
    mysql_quote_bytes(out, push->meta);
    buffer_append_text(out, ",next_body=_binary");
    mysql_quote(out, push->body);
    if (push->has_keep_finished)
        buffer_append_format(out, ",next_keep=%lld", (long long)push->keep_finished_ms);
    else
        buffer_append_text(out, ",next_keep=NULL");
    append_number_of(out, "next_grp", row->next.group);
}

/* Appends the change of the successor. Assignments are evaluated from left to right, so the job
 * receives the columns of its successor before they are cleared. */
static void append_next(struct buffer *out, const struct mysql_row *row)
{
    if (row->next_change == MYSQL_NEXT_SET)
        append_next_set(out, row);
    if (row->next_change == MYSQL_NEXT_STARTED)
        buffer_append_format(
            out,
            ",seq=%llu,delivery=0,lease_span=0,lease=next_lease,ttl=next_ttl,"
            "backoff_kind=next_backoff_kind,backoff_first=next_backoff_first,"
            "backoff_max=next_backoff_max,backoff_steps=next_backoff_steps,max_attempts=next_max_"
            "attempts,"
            "content_type=next_content_type,meta=next_meta,body_bytes=LENGTH(next_body),"
            "body=next_body,keep=next_keep,grp=next_grp",
            (unsigned long long)row->sequence);
    if (row->next_change == MYSQL_NEXT_STARTED || row->next_change == MYSQL_NEXT_DROPPED)
        buffer_append_text(out, ",next_due=NULL,next_meta=NULL,next_body=NULL");
}

static void append_update(struct mysql_link *link, const struct mysql_row *row)
{
    size_t body_bytes = row->again ? row->again->body.len : 0;
    if (row->next_change == MYSQL_NEXT_SET)
        body_bytes = row->next_push->body.len;
    bool is_large = body_bytes > link->packet_bytes_max / 16;
    struct buffer *out =
        is_large ? mysql_statement_changing_apart(link, 1) : mysql_statement_changing(link, 1);
    buffer_append_text(out, "UPDATE tarry.job FORCE INDEX (PRIMARY) SET ");
    if (row->extended || row->requested) {
        buffer_append_format(out, "lease_until=%lld,server=%lld,cancel_requested=%d",
                             (long long)row->lease_until_ms, (long long)row->server,
                             row->cancel_requested);
        if (row->progress.len) {
            buffer_append_text(out, ",progress=");
            mysql_quote_bytes(out, row->progress);
        }
    } else {
        buffer_append_format(out,
                             "state=%d,attempt=%u,due=%lld,level=%d,priority=%d,first_due=%lld,"
                             "lease_until=0,taken=0,server=0,by_sql=0,consumer=NULL,"
                             "cancel_requested=0,progress=NULL,expire=",
                             (int)row->state, row->attempt, (long long)row->due_ms, row->level,
                             row->priority, (long long)row->first_due_ms);
        if (row->expire_ms)
            buffer_append_i64(out, row->expire_ms);
        else
            buffer_append_text(out, "NULL");
        if (row->has_error) {
            buffer_append_text(out, ",error=");
            mysql_quote_bytes(out, row->error);
            buffer_append_text(out, ",history=");
            mysql_quote_bytes(out, slice_make(row->history, row->history_bytes));
        }
        if (row->slot)
            buffer_append_text(out, ",slot=0");
        if (row->again)
            append_again(out, row);
    }
    if (row->next_change)
        append_next(out, row);
    if (row->stored_batch && !row->batch) /* an update makes no job a member */
        buffer_append_text(out, ",batch=NULL,batches=NULL");
    if (row->stored_own && !row->own)
        buffer_append_text(out, ",own=NULL");
    buffer_append_text(out, " WHERE ");
    mysql_append_single_place(out, &row->stored_at);
}

/* Returns whether the time, the number and the body are all that distinguishes the update of a job from those of others. */
static bool is_plain_again(const struct mysql_row *row)
{
    return row->again && row->again->has_body && !row->again->content_type.len && row->exists &&
           row->stored && row->changed && !row->fresh && !row->extended && !row->requested &&
           !row->next_change && !row->slot && !row->stored_batch && !row->stored_own &&
           !row->expire_ms && row->state == JOB_DELAYED && !row->attempt &&
           row->due_ms == row->first_due_ms;
}

/* Returns how many rows from index `from` one statement can push again. */
static size_t count_agains(const struct mysql_link *link, size_t from)
{
    struct mysql_row *const *rows = link->rows.list.at + from;
    size_t count = 0, bytes = 0, full = link->packet_bytes_max / 16;
    while (!link->transaction.is_exact && count < AGAINS_MAX &&
           from + count < link->rows.list.count && is_plain_again(rows[count]) &&
           rows[count]->stored_at.topic == rows[0]->stored_at.topic &&
           rows[count]->stored_at.level == rows[0]->stored_at.level &&
           rows[count]->level == rows[0]->level && rows[count]->priority == rows[0]->priority &&
           (bytes += rows[count]->again->body.len) <= full)
        count++;
    return count;
}

static void append_due(struct buffer *out, const struct mysql_row *row)
{
    buffer_append_i64(out, row->due_ms);
}

static void append_sequence(struct buffer *out, const struct mysql_row *row)
{
    buffer_append_u64(out, row->sequence);
}

static void append_body(struct buffer *out, const struct mysql_row *row)
{
    buffer_append_text(out, "_binary");
    mysql_quote(out, row->again->body);
}

/* Appends the value of each row for a column. A row is found by its stored number. */
static void append_values(struct buffer *out, const char *column, struct mysql_row *const *rows,
                          size_t count,
                          void (*append)(struct buffer *out, const struct mysql_row *row))
{
    buffer_append_format(out, "%s=ELT(FIELD(seq", column);
    for (size_t i = 0; i < count; i++)
        buffer_append_format(out, ",%llu", (unsigned long long)rows[i]->stored_at.sequence);
    buffer_append_byte(out, ')');
    for (size_t i = 0; i < count; i++) {
        buffer_append_byte(out, ',');
        append(out, rows[i]);
    }
    buffer_append_text(out, "),");
}

/* Pushes many jobs again by one statement. Assignments are evaluated from left to right, so the number comes last. */
static void append_agains(struct mysql_link *link, struct mysql_row *const *rows, size_t count)
{
    struct buffer *out = mysql_statement_changing(link, count);
    buffer_append_text(out, "UPDATE tarry.job FORCE INDEX (PRIMARY) SET ");
    append_values(out, "body", rows, count, append_body);
    append_values(out, "due", rows, count, append_due);
    append_values(out, "seq", rows, count, append_sequence);
    buffer_append_format(out,
                         "body_bytes=LENGTH(body),first_due=due,state=%d,attempt=0,level=%d,"
                         "priority=%d,lease_until=0,lease_span=0,delivery=0,taken=0,server=0,"
                         "by_sql=0,consumer=NULL,cancel_requested=0,progress=NULL,expire=NULL,"
                         "error=NULL,history=NULL WHERE ",
                         (int)JOB_DELAYED, rows[0]->level, rows[0]->priority);
    for (size_t i = 0; i < count; i++)
        mysql_append_place(out, &rows[i]->stored_at, i == 0);
    buffer_append_byte(out, ')');
}

/* Appends the updates of jobs that stay. */
static void append_updates(struct mysql_link *link)
{
    for (size_t i = 0; i < link->rows.list.count;) {
        const struct mysql_row *row = link->rows.list.at[i];
        size_t agains = count_agains(link, i);
        if (agains > 1)
            append_agains(link, link->rows.list.at + i, agains);
        else if (row->exists && row->stored && !row->fresh && row->changed)
            append_update(link, row);
        i += agains > 1 ? agains : 1;
    }
}

/* Appends ids that are remembered: those of ended jobs, or the `once` of pushes. If another transaction remembers such
 * a `once` at the same time, NULL fails the statement, and the transaction is repeated. */
static void append_finished(struct mysql_link *link, bool are_onces)
{
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        if (!row->finishes_again || row->is_once != are_onces)
            continue;
        if (out)
            buffer_append_byte(out, ',');
        else {
            out = mysql_statement(link, NULL);
            buffer_append_text(out, "INSERT INTO tarry.finished VALUES ");
        }
        buffer_append_format(out, "(%u,", topic_number_of(row));
        mysql_quote(out, mysql_row_id(row));
        buffer_append_format(out, ",%lld)", (long long)row->finished_until_ms);
    }
    if (out && are_onces)
        buffer_append_format(
            out, " ON DUPLICATE KEY UPDATE until=IF(finished.until<=%lld,VALUES(until),NULL)",
            (long long)link->now_ms);
    else if (out)
        buffer_append_text(out, " ON DUPLICATE KEY UPDATE until=VALUES(until)");
}

/* Appends new levels, so that the next take finds them. */
static void append_levels(struct mysql_link *link)
{
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        if (!row->exists || !(row->fresh || row->changed) || !row->topic ||
            mysql_topic_has_level(row->topic, row->priority))
            continue;
        if (out)
            buffer_append_byte(out, ',');
        else {
            out = mysql_statement(link, NULL);
            buffer_append_text(out, "INSERT IGNORE INTO tarry.level VALUES ");
        }
        buffer_append_format(out, "(%u,%d)", topic_number_of(row), row->priority);
        (void)mysql_topic_add_level(row->topic,
                                    row->priority); /* on failure, it is inserted again */
        row->topic->is_remembered = false;
    }
}

void mysql_append_rows(struct mysql_link *link)
{
    const struct mysql_row *old = NULL;
    size_t old_count = 0;
    if (link->rows.list.count)
        qsort(link->rows.list.at, link->rows.list.count, sizeof(struct mysql_row *), row_compare);
    append_levels(link);
    append_deletes(link);
    for (size_t i = 0; i < link->rows.list.count; i++) {
        old_count += is_old_key(link->rows.list.at[i]);
        old = is_old_key(link->rows.list.at[i]) ? link->rows.list.at[i] : old;
    }
    if (old_count == 1)
        append_old_key(link, old);
    else
        append_old_keys(link);
    append_updates(link);
    append_new_keys(link);
    append_inserts(link);
    append_finished(link, false);
    append_finished(link, true);
}
