/* Takes and checks. The jobs for all takes of a transaction are found and locked topic by topic,
 * distributed among the takes in their order, and leased together. Checks find the next waiting
 * jobs. */
#include "sql/mysql/calls.h"
#include "sql/mysql/job_row.h"
#include "sql/mysql/link.h"

#include <stdlib.h>
#include <string.h>

enum {
    BODY_BYTES_INLINE = 16 * 1024, /* larger bodies are read separately */
    TAKE_BYTES_MAX = 16 << 20,     /* total size of the bodies in a take */
    LEASED_MAX = 100,    /* per statement, which searches a list for the number of each row */
    LOOK_BACK_MS = 2000, /* a transaction that lasts this long may commit jobs behind a bound */
    EMPTY_TAKES_MAX = 3, /* per call, if a job is due */
    MISSES_AFTER = 16,   /* takes that do not try numbers that are left */
};

static int64_t bound_of(const struct mysql_link *link, const struct mysql_topic *topic)
{
    const struct sql_topic *known = sql_topics_find(&link->context->topics, slice_of(topic->name));
    return known ? known->bound_ms : 0;
}

static bool is_take(const struct sql_call *call)
{
    return call->kind == SQL_CALL_COMMAND && call->command->kind == COMMAND_TAKE &&
           call->status == QUEUE_OK;
}

/* ---- search ---- */

static bool read_take(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    enum { BY_SQL, BODY, GROUP, OWN, COLUMNS };
    struct mysql_topic *topic = step->topic;
    struct mysql_result *kept = mysql_result_keep(link);
    MYSQL_ROW row;
    if (!kept)
        return false;
    if (mysql_topic_is_paused(link, topic) && !step->call)
        return true;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        const unsigned long *lengths = libmariadb.mysql_fetch_lengths(result);
        struct mysql_taken taken = {.topic = topic, .named = step->call, .result = kept};
        mysql_job_read(&taken.job.job, row + COLUMNS, lengths + COLUMNS, link->now_ms);
        taken.level = taken.job.job.priority;
        taken.has_body = row[BODY] != NULL;
        taken.job.job.topic = slice_of(topic->name);
        taken.job.job.body = slice_make(row[BODY] ? row[BODY] : "", lengths[BODY]);
        taken.body_bytes = mysql_body_bytes(row + COLUMNS);
        taken.group = mysql_number(row[GROUP]);
        taken.own = mysql_number(row[OWN]);
        if (topic->flow & MYSQL_FLOW_GROUPS && !step->call)
            taken.position = mysql_flow_position(link, topic, taken.job.job.sequence);
        if (mysql_number(row[BY_SQL]) != 0)
            link->context->by_sql = true;
        if (!mysql_taken_list_add(&link->takes.list, taken))
            return false;
    }
    return true;
}

static bool read_delivery(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    (void)step;
    (void)result;
    link->takes.delivery = libmariadb.mysql_insert_id(link->mysql) * MYSQL_NUMBERS;
    return true;
}

static void append_delivery(struct mysql_link *link)
{
    buffer_append_text(mysql_statement_repeated(link, read_delivery),
                       "INSERT INTO tarry.number () VALUES ()");
}

void mysql_append_delivery(struct mysql_link *link)
{
    link->takes.misses = MISSES_AFTER;
    append_delivery(link);
}

bool mysql_takes_need_number(const struct mysql_link *link)
{
    const struct mysql_takes *takes = &link->takes;
    if (takes->delivery)
        return false;
    for (size_t i = 0; i < takes->list.count; i++) {
        const struct job *job = &takes->list.at[i].job.job;
        if (job->delivery >= takes->left || job->sequence >= takes->left)
            return true;
    }
    return takes->list.count > takes->left_end - takes->left;
}

void mysql_takes_keep_numbers(struct mysql_link *link)
{
    struct mysql_takes *takes = &link->takes;
    const struct mysql_rows *rows = &link->rows;
    if (takes->delivery) {
        takes->left = takes->delivery + takes->given;
        takes->left_end = takes->delivery + MYSQL_NUMBERS;
    } else if (rows->number > takes->left) {
        takes->left = rows->number + rows->numbers_used;
        takes->left_end = rows->number + MYSQL_NUMBERS;
    }
}

/* Returns whether the find of a topic includes the job after those that its takes may get. The jobs
 * of several levels are not in the order of their due times. */
static bool finds_next(const struct mysql_link *link, const struct mysql_topic *topic)
{
    return link->takes.find_next && !topic->flow && topic->level_count == 1;
}

static struct buffer *append_found(struct mysql_link *link, struct mysql_topic *topic,
                                   struct sql_call *call, const char *index)
{
    struct buffer *out =
        mysql_statement_of(link, (struct mysql_step){.read = read_take,
                                                     .topic = topic,
                                                     .call = call,
                                                     .repeats = true,
                                                     .is_guess = !call && finds_next(link, topic)});
    buffer_append_text(out, "SELECT j.by_sql,IF(j.body_bytes<=");
    buffer_append_format(
        out,
        "%d,j.body,NULL),j.grp,j.own,%s FROM tarry.job j FORCE INDEX (%s) WHERE j.topic=%u AND ",
        BODY_BYTES_INLINE,
        topic->flow & MYSQL_FLOW_GROUPS ? mysql_taken_group_columns : mysql_taken_columns, index,
        topic->number);
    return out;
}

/* Appends a query for a named job. The transaction has already locked it and made it ready. */
static void append_named(struct mysql_link *link, struct sql_call *call)
{
    struct mysql_topic *topic =
        mysql_names_find(&link->topics.names, call->command->take.topics[0]);
    if (!topic || !topic->number)
        return;
    struct buffer *out = append_found(link, topic, call, "job_id");
    buffer_append_text(out, "j.id=");
    mysql_quote(out, call->command->take.id);
    buffer_append_text(out, " AND j.state=1 FOR UPDATE");
}

static void append_take(struct mysql_link *link, struct mysql_topic *topic)
{
    struct buffer *out = append_found(link, topic, NULL, "PRIMARY");
    buffer_append_text(out, "j.level IN (");
    bool has_level = false;
    for (size_t i = 0; i < topic->level_count; i++) {
        buffer_append_format(out, "%s%d", has_level ? "," : "", topic->levels[i]);
        has_level = true;
    }
    buffer_append_format(out, ") AND j.due>=LEAST(%lld,",
                         topic->flow ? 0LL : (long long)bound_of(link, topic));
    mysql_append_now(link, out);
    buffer_append_text(out, ") AND j.due<=");
    mysql_append_now(link, out);
    buffer_append_text(out, " AND j.state=1 AND (j.expire IS NULL OR j.expire>");
    mysql_append_now(link, out);
    buffer_append_format(out, ") ORDER BY j.level,j.due,j.seq LIMIT %u FOR UPDATE %s",
                         topic->take_max + finds_next(link, topic),
                         finds_next(link, topic) ? "NOWAIT" : "SKIP LOCKED");
}

static int choice_compare(const void *a, const void *b)
{
    const struct mysql_place *x = a, *y = b;
    return (x->level > y->level) - (x->level < y->level);
}

/* Appends queries that lock the jobs that were chosen, level by level. */
static void append_chosen(struct mysql_link *link, struct mysql_topic *topic)
{
    struct mysql_place *places = malloc((link->flow.choices.count + 1) * sizeof *places);
    struct buffer *out = NULL;
    size_t count = 0;
    for (size_t i = 0; places && i < link->flow.choices.count; i++)
        if (link->flow.choices.at[i].place.topic == topic->number)
            places[count++] = link->flow.choices.at[i].place;
    if (count)
        qsort(places, count, sizeof *places, choice_compare);
    for (size_t i = 0; i < count; i++) {
        bool is_first = i == 0 || places[i].level != places[i - 1].level;
        if (is_first)
            out = append_found(link, topic, NULL, "PRIMARY");
        if (is_first)
            buffer_append_format(out, "j.level=%u AND (j.due,j.seq) IN (", places[i].level);
        buffer_append_format(out, "%s(%lld,%llu)", is_first ? "" : ",", (long long)places[i].due_ms,
                             (unsigned long long)places[i].sequence);
        if (i + 1 == count || places[i + 1].level != places[i].level)
            buffer_append_format(out,
                                 ") AND j.state=1 AND (j.expire IS NULL OR j.expire>%lld) "
                                 "FOR UPDATE SKIP LOCKED",
                                 (long long)link->now_ms);
    }
    link->wire.text.failed = link->wire.text.failed || !places;
    free(places);
}

/* Returns whether the takes of the transaction may find the next waiting job as well. Other servers
 * would skip it meanwhile, and an earlier job whose take is rolled back must not be missed. */
static bool may_find_next(struct mysql_link *link)
{
    bool is_locked = link->takes.locks > 0;
    link->takes.locks -= is_locked;
    return !is_locked && link->transaction.plan.is_alone && !link->transaction.is_exact;
}

void mysql_append_takes(struct mysql_link *link)
{
    size_t before = link->wire.steps.count, most = 0;
    link->takes.find_next = may_find_next(link);
    link->takes.list.count = 0;
    link->takes.delivery = 0;
    if (!mysql_flow_takes(link))
        mysql_topics_count_takes(link);
    for (size_t i = 0; i < link->topics.wanted.count; i++) {
        struct mysql_topic *topic = link->topics.wanted.at[i];
        if (topic->take_max && topic->number && topic->level_count &&
            !(topic->is_read && mysql_topic_is_paused(link, topic))) {
            most += topic->take_max;
            if (topic->flow & MYSQL_FLOW_GROUPS)
                append_chosen(link, topic);
            else
                append_take(link, topic);
        }
    }
    EACH_CALL(link, call)
    {
        if (is_take(call) && call->command->take.id.len) {
            most++;
            append_named(link, call);
        }
    }
    /* After the rows are locked, so that the delivery numbers of a job increase. */
    if (link->wire.steps.count > before &&
        (link->takes.misses || most > link->takes.left_end - link->takes.left)) {
        link->takes.misses -= link->takes.misses > 0;
        append_delivery(link);
    }
}

/* ---- distribution ---- */

/* Returns the topic's name from the command. The reply must not refer to the link's own text. */
static struct slice name_in(const struct queue_take *take, struct slice name)
{
    for (size_t i = 0; i < take->topic_count; i++)
        if (slice_equals(take->topics[i], name))
            return take->topics[i];
    return (struct slice){0};
}

struct share { /* The remaining capacity of a take. */
    struct sql_call *call;
    size_t left;
    uint64_t bytes_left;
};

/* Assigns a job to a take. Returns false if the take has no capacity or the numbers are used up;
 * the job then stays for the next take. */
static bool give_one(struct mysql_link *link, struct mysql_taken *taken, struct share *share)
{
    const struct queue_take *take = &share->call->command->take;
    if (!share->left || !share->bytes_left || link->takes.given == MYSQL_NUMBERS)
        return false;
    link->takes.given++;
    struct policy policy = policy_resolve(&taken->job.job.policy, &taken->topic->settings.policy);
    taken->call = share->call;
    taken->order = share->call->job_count++;
    taken->lease_ms = take->lease_ms ? take->lease_ms : policy.lease_ms;
    share->left--;
    share->bytes_left -=
        taken->body_bytes < share->bytes_left ? taken->body_bytes : share->bytes_left;
    return true;
}

static void give(struct mysql_link *link, struct share *share, struct slice name)
{
    struct mysql_topic *topic = mysql_names_find(&link->topics.names, name);
    for (size_t i = 0; i < link->takes.list.count; i++) {
        struct mysql_taken *taken = &link->takes.list.at[i];
        if (taken->topic == topic && !taken->call && !taken->named && !give_one(link, taken, share))
            return;
    }
}

/* Compares jobs by priority across topics, in tarry's own order. */
static int rank_compare(const void *a, const void *b)
{
    const struct mysql_taken *taken = *(struct mysql_taken *const *)a;
    const struct mysql_taken *other = *(struct mysql_taken *const *)b;
    const struct job *x = &taken->job.job, *y = &other->job.job;
    if (x->priority == y->priority && (taken->position || other->position)) {
        if (!taken->position != !other->position) /* topics with groups come first */
            return taken->position ? -1 : 1;
        return taken->position < other->position ? -1 : 1;
    }
    const struct queue_rank ranks[] = {{x->priority, x->due_ms, x->sequence},
                                       {y->priority, y->due_ms, y->sequence}};
    return queue_rank_before(&ranks[0], &ranks[1]) ? -1 : 1;
}

static bool give_best(struct mysql_link *link, struct share *share)
{
    struct mysql_taken **best = malloc((link->takes.list.count + 1) * sizeof *best);
    size_t count = 0;
    if (!best)
        return false;
    for (size_t i = 0; i < link->takes.list.count; i++) {
        struct mysql_taken *taken = &link->takes.list.at[i];
        if (!taken->call && !taken->named &&
            name_in(&share->call->command->take, slice_of(taken->topic->name)).len)
            best[count++] = taken;
    }
    qsort(best, count, sizeof *best, rank_compare);
    for (size_t i = 0; i < count && give_one(link, best[i], share); i++)
        continue;
    free(best);
    return true;
}

/* Assigns a named job to its take, even if another take of the transaction found it as well. */
static void give_named(struct mysql_link *link, struct share *share)
{
    for (size_t i = 0; i < link->takes.list.count; i++)
        if (link->takes.list.at[i].named == share->call)
            (void)give_one(link, &link->takes.list.at[i], share);
    if (!share->call->job_count && link->takes.given < MYSQL_NUMBERS)
        share->call->status = QUEUE_NOT_FOUND; /* the same transaction has ended it */
}

static bool has_named(const struct mysql_link *link)
{
    for (size_t i = 0; i < link->takes.list.count; i++)
        if (link->takes.list.at[i].named)
            return true;
    return false;
}

/* Removes rows that were also found by name. */
static void drop_named_twice(struct mysql_link *link)
{
    size_t kept = 0;
    for (size_t i = 0; i < link->takes.list.count; i++) {
        bool is_twice = false;
        for (size_t k = 0; k < link->takes.list.count && !link->takes.list.at[i].named; k++)
            is_twice = is_twice || (link->takes.list.at[k].named &&
                                    link->takes.list.at[k].job.job.sequence ==
                                        link->takes.list.at[i].job.job.sequence);
        if (!is_twice)
            link->takes.list.at[kept++] = link->takes.list.at[i];
    }
    link->takes.list.count = kept;
}

static int text_compare(struct slice a, struct slice b)
{
    int order = memcmp(a.at ? a.at : "", b.at ? b.at : "", a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Returns 0 if one statement can lease both jobs. */
static int lease_compare(const struct mysql_taken *x, const struct mysql_taken *y)
{
    const struct queue_take *a = &x->call->command->take, *b = &y->call->command->take;
    if (a->lease_ms != b->lease_ms)
        return a->lease_ms < b->lease_ms ? -1 : 1;
    return text_compare(a->consumer, b->consumer);
}

/* Sorts jobs that one statement can lease next to each other, in table order, so that their numbers
 * increase row by row. Unassigned jobs come last. */
static int taken_compare(const void *a, const void *b)
{
    const struct mysql_taken *x = a, *y = b;
    int order = !x->call || !y->call ? !x->call - !y->call : lease_compare(x, y);
    if (order)
        return order;
    if (x->topic != y->topic)
        return x->topic->number < y->topic->number ? -1 : 1;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    if (x->job.job.due_ms != y->job.job.due_ms)
        return x->job.job.due_ms < y->job.job.due_ms ? -1 : 1;
    return (x->job.job.sequence > y->job.job.sequence) -
           (x->job.job.sequence < y->job.job.sequence);
}

static struct sql_lease lease_of(const struct mysql_taken *taken)
{
    const struct job *job = &taken->job.job;
    return (struct sql_lease){.topic = taken->topic->number,
                              .level = taken->level,
                              .due_ms = job->due_ms,
                              .taken_ms = job->taken_ms,
                              .sequence = job->sequence,
                              .delivery = job->delivery};
}

static void lease_one(struct mysql_link *link, struct mysql_taken *taken, uint64_t delivery)
{
    int64_t counts[SQL_COUNTS] = {[SQL_COUNT_LEASED] = 1, [SQL_COUNT_DELIVERED] = 1};
    struct job *job = &taken->job.job;
    counts[job->attempt ? SQL_COUNT_RETRY : SQL_COUNT_FRESH] = -1;
    job->attempt++;
    job->state = JOB_LEASED;
    job->taken_ms = link->now_ms;
    job->lease_until_ms = link->now_ms + taken->lease_ms + 1;
    job->delivery = delivery;
    job->consumer = taken->call->command->take.consumer;
    job->cancel_requested = false;
    if (taken->topic->flow)
        mysql_flow_lease(link, taken);
    struct sql_lease lease = lease_of(taken);
    sql_effects_count(&link->context->effects, taken->topic->number, counts);
    sql_effects_hold(&link->context->effects, &lease, job->lease_until_ms);
}

static bool keep_for(struct sql_call *call, struct mysql_result *result)
{
    if (call->results.count && call->results.at[call->results.count - 1] == result)
        return true; /* already kept */
    result->users++;
    return sql_call_keep(call, result, mysql_result_free);
}

static bool call_fill(struct mysql_link *link, struct sql_call *call)
{
    call->jobs = calloc(call->job_count + 1, sizeof *call->jobs);
    call->tokens = malloc(call->job_count * SQL_LEASE_TEXT_BYTES + 1);
    if (!call->jobs || !call->tokens)
        return false;
    for (size_t i = 0; i < link->takes.list.count; i++) {
        struct mysql_taken *taken = &link->takes.list.at[i];
        struct sql_lease lease;
        if (taken->call != call)
            continue;
        lease = lease_of(taken);
        char *token = call->tokens + taken->order * SQL_LEASE_TEXT_BYTES;
        sql_lease_emit(token, &link->context->key, &lease);
        taken->job.lease = slice_make(token, SQL_LEASE_TEXT_BYTES);
        taken->job.job.topic = name_in(&call->command->take, taken->job.job.topic);
        call->jobs[taken->order] = taken->job;
        int64_t figures[SQL_WAITING_FIGURES];
        if (mysql_waiting_read(taken->waiting, figures) &&
            !sql_waiting_show(call, &call->jobs[taken->order], figures, true))
            return false;
        sql_effects_publish_taken(&link->context->effects, &taken->job.job,
                                  call->command->take.way);
        if (!keep_for(call, taken->result) || (taken->body && !keep_for(call, taken->body)))
            return false;
    }
    return true;
}

/* Sorts the jobs of topics with groups by their position. The others keep their places. */
static int position_compare(const void *a, const void *b)
{
    const struct mysql_taken *x = a, *y = b;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Notes the next waiting job of each topic whose find includes it. */
static void note_next(struct mysql_link *link)
{
    if (has_named(link))
        return;
    for (size_t i = link->takes.list.count; i-- > 0;) {
        const struct mysql_taken *taken = &link->takes.list.at[i];
        if (!taken->call && finds_next(link, taken->topic))
            taken->topic->left_ms = taken->job.job.due_ms;
    }
}

bool mysql_share_takes(struct mysql_link *link)
{
    bool are_left = !link->takes.delivery;
    uint64_t delivery = are_left ? link->takes.left : link->takes.delivery;
    link->takes.given = 0;
    /* Includes rows that are dropped below, so that no run spans them. */
    for (size_t i = 0; i < link->takes.list.count; i++)
        link->takes.list.at[i].rank = i;
    if (mysql_flow_takes(link) && link->takes.list.count)
        qsort(link->takes.list.at, link->takes.list.count, sizeof *link->takes.list.at,
              position_compare);
    if (has_named(link))
        drop_named_twice(link);
    EACH_CALL(link, call)
    {
        if (!is_take(call))
            continue;
        const struct queue_take *take = &call->command->take;
        struct share share = {.call = call, .left = take->max, .bytes_left = TAKE_BYTES_MAX};
        if (take->id.len)
            give_named(link, &share);
        else if (take->by_priority && !give_best(link, &share))
            return false;
        for (size_t i = 0; i < take->topic_count && !take->id.len && !take->by_priority; i++)
            give(link, &share, take->topics[i]);
    }
    note_next(link);
    if (link->takes.list.count)
        qsort(link->takes.list.at, link->takes.list.count, sizeof *link->takes.list.at,
              taken_compare);
    for (size_t i = 0; i < link->takes.list.count; i++)
        if (link->takes.list.at[i].call)
            lease_one(link, &link->takes.list.at[i], delivery++);
    if (are_left) /* those of a transaction that fails are not used again */
        link->takes.left = delivery;
    return true;
}

/* Fills in the replies. All bodies must have been read. */
bool mysql_fill_takes(struct mysql_link *link)
{
    EACH_CALL(link, call)
    {
        if (is_take(call) && !call_fill(link, call))
            return false;
    }
    return true;
}

static struct mysql_place place_of(const struct mysql_taken *taken)
{
    return (struct mysql_place){.topic = taken->topic->number,
                                .level = taken->level,
                                .due_ms = taken->job.job.due_ms,
                                .sequence = taken->job.job.sequence};
}

static bool read_body(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct mysql_result *kept = mysql_result_keep(link);
    MYSQL_ROW row = kept ? libmariadb.mysql_fetch_row(result) : NULL;
    if (!row)
        return false;
    struct mysql_taken *taken = &link->takes.list.at[step->number];
    taken->job.job.body = slice_make(row[0], libmariadb.mysql_fetch_lengths(result)[0]);
    taken->body = kept;
    taken->has_body = true;
    return true;
}

/* The result is kept until the replies have been filled in. */
static bool read_waiting(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    struct mysql_result *kept = mysql_result_keep(link);
    MYSQL_ROW row = kept ? libmariadb.mysql_fetch_row(result) : NULL;
    if (row)
        link->takes.list.at[step->number].waiting = row[0];
    return row != NULL;
}

static void append_waiting(struct mysql_link *link, size_t number)
{
    struct buffer *out =
        mysql_statement_of(link, (struct mysql_step){.read = read_waiting, .number = number});
    buffer_append_format(out, "SELECT tarry.server_waiting(%lld)",
                         (long long)link->takes.list.at[number].own);
}

void mysql_append_bodies(struct mysql_link *link)
{
    for (size_t i = 0; i < link->takes.list.count; i++)
        if (link->takes.list.at[i].call && link->takes.list.at[i].own)
            append_waiting(link, i);
    for (size_t i = 0; i < link->takes.list.count; i++) {
        const struct mysql_taken *taken = &link->takes.list.at[i];
        if (!taken->call || taken->has_body)
            continue;
        struct buffer *out =
            mysql_statement_of(link, (struct mysql_step){.read = read_body, .number = i});
        struct mysql_place place = place_of(taken);
        buffer_append_text(out, "SELECT body FROM tarry.job FORCE INDEX (PRIMARY) WHERE ");
        mysql_append_place(out, &place, true);
        buffer_append_byte(out, ')');
    }
}

/* ---- leases ---- */

static bool goes_with(const struct mysql_taken *a, const struct mysql_taken *b)
{
    return b->call && a->topic == b->topic && a->level == b->level && lease_compare(a, b) == 0;
}

/* Returns how many jobs from index `from` are adjacent in the table, as seen by the take. */
static size_t count_run(const struct mysql_link *link, size_t from)
{
    const struct mysql_taken *first = &link->takes.list.at[from];
    size_t count = 1;
    while (from + count < link->takes.list.count && !first->named && !first->topic->flow &&
           !link->takes.list.at[from + count].named &&
           link->takes.list.at[from + count].rank == first->rank + count &&
           goes_with(first, &link->takes.list.at[from + count]))
        count++;
    return count;
}

/* Appends the delivery numbers by each row's position in a list, so that they do not depend on the
 * order of the update. */
static void append_numbers(struct buffer *out, const struct mysql_taken *first, size_t count)
{
    if (count == 1) {
        buffer_append_u64(out, first->job.job.delivery);
        return;
    }
    buffer_append_format(out, "%llu+FIELD(seq", (unsigned long long)first->job.job.delivery - 1);
    for (size_t i = 0; i < count; i++)
        buffer_append_format(out, ",%llu", (unsigned long long)first[i].job.job.sequence);
    buffer_append_byte(out, ')');
}

/* Appends the common values of all rows of a statement, without their numbers. A waiting job has no
 * consumer. */
static void append_leased(struct buffer *out, const struct mysql_link *link,
                          const struct mysql_taken *first)
{
    const struct queue_take *take = &first->call->command->take;
    int64_t usual_ms = first->topic->settings.policy.lease_ms;
    usual_ms = usual_ms ? usual_ms : POLICY_LEASE_MS;
    buffer_append_format(out, ",state=3,attempt=attempt+1,server=%lld,taken=%lld",
                         (long long)link->context->server, (long long)link->now_ms);
    if (first->topic->flow)
        buffer_append_format(out, ",slot=%d",
                             first->topic->flow & (MYSQL_FLOW_GROUPS | MYSQL_FLOW_LIMIT));
    if (take->lease_ms)
        buffer_append_format(out, ",lease_span=%lld,lease_until=%lld", (long long)take->lease_ms,
                             (long long)(link->now_ms + take->lease_ms + 1));
    else
        buffer_append_format(
            out, ",lease_span=COALESCE(lease,%lld),lease_until=%lld+COALESCE(lease,%lld)",
            (long long)usual_ms, (long long)(link->now_ms + 1), (long long)usual_ms);
    if (!take->consumer.len)
        return;
    buffer_append_text(out, ",consumer=");
    mysql_quote_bytes(out, take->consumer);
}

static void append_lease(struct mysql_link *link, const struct mysql_taken *first, size_t count)
{
    struct buffer *out = mysql_statement_changing(link, count);
    struct mysql_place place = place_of(first);
    buffer_append_text(out, "UPDATE tarry.job FORCE INDEX (PRIMARY) SET delivery=");
    append_numbers(out, first, count);
    append_leased(out, link, first);
    buffer_append_text(out, " WHERE ");
    if (count == 1) {
        mysql_append_single_place(out, &place);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        place = place_of(&first[i]);
        mysql_append_place(out, &place, i == 0);
    }
    buffer_append_byte(out, ')');
}

/* Leases a run, with numbers from a counter: MariaDB updates in table order. A waiting row within
 * the run that was locked by another transaction during the take is an extra row. The counter gives
 * it NULL as its number, which fails the statement and all that follow it. The commit is in the
 * same pipeline, so reading a count afterwards would be too late. */
static void append_lease_of_run(struct mysql_link *link, const struct mysql_taken *first,
                                size_t count)
{
    struct mysql_place from = place_of(first), to = place_of(first + count - 1);
    struct buffer *out = mysql_statement(link, NULL);
    unsigned long long before = (unsigned long long)first->job.job.delivery - 1;
    buffer_append_format(out, "SET @tarry_delivery=%llu", before);
    out = mysql_statement_changing(link, count);
    buffer_append_text(out, mysql_no_wait);
    buffer_append_format(out,
                         "UPDATE tarry.job FORCE INDEX (PRIMARY) SET delivery="
                         "IF(@tarry_delivery<%llu,@tarry_delivery:=@tarry_delivery+1,NULL)",
                         before + count);
    append_leased(out, link, first);
    buffer_append_text(out, " WHERE ");
    mysql_append_span(out, &from, &to);
    buffer_append_format(out, " AND state=1 AND (expire IS NULL OR expire>%lld)",
                         (long long)link->now_ms);
}

void mysql_append_taken(struct mysql_link *link)
{
    for (size_t i = 0; i < link->takes.list.count && link->takes.list.at[i].call;) {
        const struct mysql_taken *first = &link->takes.list.at[i];
        size_t count = mysql_has_runs(link) ? count_run(link, i) : 1;
        if (count >= MYSQL_RUN_MIN) {
            append_lease_of_run(link, first, count);
        } else {
            count = 1;
            while (i + count < link->takes.list.count && count < LEASED_MAX &&
                   goes_with(first, &link->takes.list.at[i + count]))
                count++;
            append_lease(link, first, count);
        }
        i += count;
    }
}

/* ---- checks ---- */

static bool read_look(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    int64_t *next_ms = &step->topic->next_ms[step->number];
    (void)link;
    if (row && mysql_number(row[0]) < *next_ms)
        *next_ms = mysql_number(row[0]);
    return true;
}

/* Appends a check of a topic. `from_start` 1: without a bound. */
static void append_look(struct mysql_link *link, struct mysql_topic *topic, unsigned from_start)
{
    struct buffer *out;
    if (topic->is_looked[from_start] || !topic->number)
        return;
    topic->is_looked[from_start] = true;
    topic->next_ms[from_start] = from_start || topic->looks_back ? INT64_MAX : topic->left_ms;
    if (topic->next_ms[from_start] < INT64_MAX)
        return;
    if (topic->flow)
        mysql_append_flow_look(link, topic);
    if (topic->flow & MYSQL_FLOW_GROUPS)
        return;
    for (size_t i = 0; i < topic->level_count; i++) {
        out = mysql_statement_of(
            link, (struct mysql_step){
                      .read = read_look, .topic = topic, .number = from_start, .repeats = true});
        buffer_append_format(out,
                             "SELECT due FROM tarry.job FORCE INDEX (PRIMARY) WHERE topic=%u AND "
                             "level=%d AND due>=LEAST(%lld,",
                             topic->number, topic->levels[i],
                             from_start || topic->flow ? 0LL : (long long)bound_of(link, topic));
        mysql_append_now(link, out);
        if (topic->looks_back)
            buffer_append_format(out, "-%d", LOOK_BACK_MS);
        buffer_append_text(out, ") AND state=1 AND (expire IS NULL OR expire>");
        mysql_append_now(link, out);
        buffer_append_text(out, ") ORDER BY due,seq LIMIT 1");
    }
}

/* Returns true if a check includes the topic. A check includes the topics that the session has
 * marked. */
static bool is_asked(const struct mysql_link *link, const struct sql_call *call,
                     const struct mysql_topic *topic)
{
    if (is_take(call))
        return name_in(&call->command->take, slice_of(topic->name)).len > 0;
    const struct sql_topic *known = sql_topics_find(&link->context->topics, slice_of(topic->name));
    return call->kind == SQL_CALL_LOOK && known && known->watched && known->asked;
}

/* Returns true if the call's check must begin before the bound. Jobs committed there are not
 * announced by a notification, but a take that found jobs can do without the check. */
static bool is_look_back(const struct sql_call *call)
{
    return call->kind == SQL_CALL_LOOK || (is_take(call) && !call->job_count);
}

static void mark_look_backs(struct mysql_link *link)
{
    EACH_CALL(link, call)
    {
        if (!is_look_back(call))
            continue;
        for (size_t i = 0; i < link->topics.wanted.count; i++)
            if (is_asked(link, call, link->topics.wanted.at[i]))
                link->topics.wanted.at[i]->looks_back = true;
    }
}

void mysql_append_looks(struct mysql_link *link)
{
    mark_look_backs(link);
    EACH_CALL(link, call)
    {
        if (!is_take(call) && call->kind != SQL_CALL_LOOK)
            continue;
        for (size_t i = 0; i < link->topics.wanted.count; i++)
            if (is_asked(link, call, link->topics.wanted.at[i]))
                append_look(link, link->topics.wanted.at[i], call->from_the_start);
    }
}

/* Repeats a take that missed a due job: others held its row for a moment, or it was committed
 * behind the bound, which the check has corrected. */
static void take_again(struct sql_call *call)
{
    call->has_more =
        is_take(call) && !call->job_count && !call->drained && call->empty_takes < EMPTY_TAKES_MAX;
    call->empty_takes += call->has_more;
}

bool mysql_share_looks(struct mysql_link *link)
{
    EACH_CALL(link, call)
    {
        if (!is_take(call) && call->kind != SQL_CALL_LOOK)
            continue;
        call->drained = true;
        for (size_t i = 0; i < link->topics.wanted.count; i++) {
            const struct mysql_topic *topic = link->topics.wanted.at[i];
            const struct sql_topic *known =
                sql_topics_find(&link->context->topics, slice_of(topic->name));
            if (!topic->number || !is_asked(link, call, topic))
                continue;
            struct sql_observation observation = {
                .topic = is_take(call) ? name_in(&call->command->take, slice_of(topic->name))
                                       : known->entry.key,
                .next_ms = topic->flow
                               ? mysql_flow_next_ms(topic, topic->next_ms[call->from_the_start])
                               : topic->next_ms[call->from_the_start],
                .has_no_bound = topic->flow != 0,
                .is_limited = topic->flow && mysql_flow_is_limited(topic),
                .is_paused = mysql_topic_is_paused(link, topic),
                .resume_ms = mysql_topic_is_paused(link, topic) ? topic->paused_until_ms : 0,
                .seen_ms = link->now_ms};
            if (!sql_observations_add(&call->observations, observation))
                return false;
            if (!observation.is_paused && observation.next_ms <= observation.seen_ms)
                call->drained = false;
        }
        take_again(call);
    }
    return true;
}
