#include "sql/mysql/batch.h"
#include "sql/mysql/link.h"

#include <stdlib.h>
#include <string.h>

enum {
    ADDED_MAX = 1000
}; /* batches that a transaction looks at because others have changed them */

/* ---- the batches of a transaction ---- */

struct mysql_batch *mysql_batch_find(const struct mysql_link *link, int64_t number)
{
    for (size_t i = link->batches.list.count; i > 0; i--)
        if (link->batches.list.at[i - 1]->number == number)
            return link->batches.list.at[i - 1];
    return NULL;
}

struct mysql_batch *mysql_batch_of(struct mysql_link *link, int64_t number)
{
    struct mysql_batch *batch = mysql_batch_find(link, number);
    if (batch)
        return batch;
    batch = calloc(1, sizeof *batch);
    if (!batch || !mysql_batch_list_add(&link->batches.list, batch)) {
        free(batch);
        link->context->effects.failed = true;
        return NULL;
    }
    batch->number = number;
    return batch;
}

void mysql_batches_begin(struct mysql_link *link)
{
    for (size_t i = 0; i < link->batches.list.count; i++)
        free(link->batches.list.at[i]);
    link->batches.list.count = link->batches.names.count = 0;
    link->batches.stopped.count = link->batches.added.count = 0;
    link->batches.has_own = false;
}

void mysql_batches_free(struct mysql_link *link)
{
    mysql_batches_begin(link);
    mysql_batch_list_fini(&link->batches.list);
    mysql_batch_names_fini(&link->batches.names);
    mysql_batch_rows_fini(&link->batches.stopped);
    mysql_batch_adds_fini(&link->batches.added);
}

struct life_batch mysql_batch_now(const struct mysql_batch *batch)
{
    struct life_batch now = batch->rules;
    for (int i = 0; i < BATCH_OUTCOMES && !now.has_ended; i++)
        now.counts.of[i] = (uint32_t)((int64_t)now.counts.of[i] + batch->changes[i]);
    if (batch->closes || (now.members && batch_members(&now.counts) >= now.members))
        now.is_closed = true;
    return now;
}

/* ---- rules ---- */

bool mysql_row_waits(const struct mysql_row *row)
{
    return row->own && row->exists && row->state == JOB_DELAYED && row->due_ms == MYSQL_WAIT_DUE;
}

int64_t mysql_row_shown_due(const struct mysql_row *row)
{
    return row->due_ms == MYSQL_WAIT_DUE ? 0 : row->due_ms;
}

int64_t mysql_batch_named(const struct mysql_link *link, const struct queue_batch *batch)
{
    const struct mysql_topic *topic = mysql_names_find(&link->topics.names, batch->topic);
    const struct mysql_row *row =
        topic && topic->number ? mysql_row_find(link, topic->number, batch->id) : NULL;
    if (row && (row->stored || row->exists))
        return row->exists ? row->own : 0;
    for (size_t i = 0; i < link->batches.names.count; i++) {
        const struct mysql_batch_name *name = &link->batches.names.at[i];
        if (slice_equals(name->topic, batch->topic) && slice_equals(name->id, batch->id))
            return name->number;
    }
    return 0;
}

bool mysql_batch_is_other(const struct mysql_link *link, const struct queue_batch *batch,
                          const struct mysql_row *row)
{
    int64_t named = batch->topic.len ? mysql_batch_named(link, batch) : row->batch;
    return named != row->batch && (named || !row->batch);
}

/* Returns whether a new member may join the batch that the push names. */
static enum queue_status join(struct mysql_link *link, const struct queue_batch *wish,
                              int64_t parent, struct mysql_batch_push *out,
                              struct queue_result *result)
{
    int64_t number = mysql_batch_named(link, wish);
    struct mysql_batch *batch = number ? mysql_batch_of(link, number) : NULL;
    struct life_batch now = {0};
    bool is_there = batch && batch->is_known;
    if (is_there)
        now = mysql_batch_now(batch);
    enum queue_status status = life_batch_join(is_there ? &now : NULL, number && parent == number);
    if (status == QUEUE_BAD_OPTION)
        result->detail = "batch"; /* too deep */
    out->joins = batch;
    return status;
}

enum queue_status mysql_batch_admit(struct mysql_link *link, const struct queue_push *push,
                                    const struct mysql_row *row, bool is_next, int64_t parent,
                                    struct mysql_batch_push *out, struct queue_result *result)
{
    const struct queue_batch *wish = push->batch;
    bool waits = mysql_row_waits(row), names = wish && wish->topic.len;
    *out = (struct mysql_batch_push){.waits = wish && wish->waits};
    if (is_next && out->waits)
        return QUEUE_LEASED;
    enum queue_status status = QUEUE_OK;
    if (row->exists)
        status = life_batch_replace(waits, names && mysql_batch_named(link, wish) != row->batch);
    else if (names)
        status = join(link, wish, parent, out, result);
    if (!status && out->waits && link->batches.count + link->batches.made >= BATCHES_MAX)
        return QUEUE_TOO_MANY_BATCHES;
    return status;
}

/* Stores the batch of a member in its row, as the database stores it. */
static void row_set_form(struct mysql_link *link, struct mysql_row *row,
                         const struct job_batch *member)
{
    free(row->form);
    row->form_bytes = 0;
    row->form = malloc(JOB_BATCH_BYTES_MAX);
    if (row->form)
        row->form_bytes = job_batch_encode(member, row->form);
    else
        link->context->effects.failed = true;
}

static uint8_t depth_of(const struct mysql_row *row)
{
    struct job_batch member;
    if (!row->batch || !job_batch_decode(slice_make(row->form, row->form_bytes), &member))
        return 0;
    return member.depth;
}

/* Creates the batch of a waiting job. */
static void own_new(struct mysql_link *link, struct mysql_row *row, const struct queue_push *push)
{
    const struct job_batch own = life_batch_of(push->batch);
    struct mysql_batch *batch = mysql_batch_of(link, (int64_t)row->sequence);
    if (!batch)
        return;
    *batch = (struct mysql_batch){.number = batch->number,
                                  .topic = row->topic->number,
                                  .id_bytes = row->id_bytes,
                                  .rules = {.counts = push->batch->past,
                                            .on_dead = own.on_dead,
                                            .members = own.members,
                                            .depth = depth_of(row)},
                                  .wait_ms = own.wait_ms,
                                  .close_ms = own.close_ms,
                                  .wait_until_ms = link->now_ms + own.wait_ms + 1,
                                  .close_by_ms = link->now_ms + own.close_ms + 1,
                                  .is_known = true,
                                  .is_new = true,
                                  .is_counted = true,
                                  .is_locked = true,
                                  .has_gate = true,
                                  .has_job = true};
    memcpy(batch->id, mysql_row_id(row).at, row->id_bytes);
    link->batches.made++;
    row->own = batch->number;
    row->first_due_ms = push->when.due == QUEUE_DUE_AT      ? push->when.ms
                        : push->when.due == QUEUE_DUE_DELAY ? -push->when.ms
                                                            : 0;
    if (row->state == JOB_DEAD)
        return;
    row->due_ms = MYSQL_WAIT_DUE;
    row->expire_ms = own.wait_ms < own.close_ms ? batch->wait_until_ms : batch->close_by_ms;
}

void mysql_batch_pushed(struct mysql_link *link, struct mysql_row *row,
                        const struct queue_push *push, const struct mysql_batch_push *batches,
                        enum job_state was)
{
    struct mysql_batch *joins = batches->joins;
    mysql_batch_drop_own(link, row);
    if (joins) {
        const struct job_batch member = {.topic = push->batch->topic,
                                         .id = push->batch->id,
                                         .number = (uint64_t)joins->number,
                                         .depth = (uint8_t)(joins->rules.depth + 1)};
        row->batch = joins->number;
        row_set_form(link, row, &member);
        joins->changes[life_outcome(row->state)]++;
        joins->is_counted = true;
    } else if (was == JOB_DEAD && row->state != JOB_DEAD) {
        mysql_member_revives(link, row);
    } else if (was) {
        mysql_member_moves(link, row, life_outcome(was), life_outcome(row->state));
    }
    if (batches->waits)
        own_new(link, row, push);
}

void mysql_member_moves(struct mysql_link *link, const struct mysql_row *row,
                        enum batch_outcome before, enum batch_outcome after)
{
    struct mysql_batch *batch =
        row->batch && before != after ? mysql_batch_of(link, row->batch) : NULL;
    if (!batch)
        return;
    batch->changes[before]--;
    batch->changes[after]++;
    batch->is_counted = true;
}

void mysql_batch_drop_own(struct mysql_link *link, struct mysql_row *row)
{
    struct mysql_batch *batch = row->own ? mysql_batch_of(link, row->own) : NULL;
    if (batch)
        batch->is_counted = true;
    row->own = 0;
}

void mysql_batch_job_ends(struct mysql_link *link, struct mysql_row *row, enum batch_outcome after)
{
    mysql_member_moves(link, row, life_outcome(row->state), after);
    mysql_batch_drop_own(link, row);
    row->batch = 0;
}

void mysql_member_revives(struct mysql_link *link, struct mysql_row *row)
{
    const struct mysql_batch *batch = row->batch ? mysql_batch_find(link, row->batch) : NULL;
    if (batch && batch->rules.is_stopped)
        row->batch = 0;
    else
        mysql_member_moves(link, row, BATCH_DEAD, BATCH_UNFINISHED);
}

struct mysql_batch *mysql_batch_own(struct mysql_link *link, const struct mysql_row *row)
{
    struct mysql_batch *batch = mysql_batch_of(link, row->own);
    if (batch)
        batch->is_counted = true;
    return batch;
}

bool mysql_batch_is_closed(const struct mysql_batch *batch)
{
    return mysql_batch_now(batch).is_closed;
}

/* ---- changes by others ---- */

static bool read_added_numbers(struct mysql_link *link, const struct mysql_step *step,
                               MYSQL_RES *result)
{
    MYSQL_ROW row;
    (void)step;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct mysql_batch *batch = mysql_batch_of(link, mysql_number(row[0]));
        if (batch)
            batch->is_counted = true;
    }
    return true;
}

void mysql_append_batches_added(struct mysql_link *link)
{
    link->batches.must_fold = false;
    buffer_append_format(mysql_statement(link, read_added_numbers),
                         "SELECT DISTINCT batch FROM tarry.batch_add LIMIT %d", ADDED_MAX);
}
