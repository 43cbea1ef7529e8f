/* The dialect's table: the stages of a turn, and its flights over libmariadb. */
#include "base/clock.h"
#include "sql/mysql/fsck.h"
#include "sql/mysql/greeting.h"
#include "sql/mysql/mysql.h"
#include "sql/mysql/schema.h"
#include "sql/mysql/turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    TEXT_BYTES_MAX = 128 << 20,
    KEYS_MAX = 500,
    NEWS_MS = 5000, /* a transaction that told something is over after so long */
    HEARD_MAX = 1024,
    BEAT_US_MAX = 5000000 /* one that is silent for twice as long is taken for dead */
};

static struct maria_link *link_of(struct sql_link *link)
{
    return (struct maria_link *)(void *)link;
}

static void note_fault(struct maria_link *link, enum sql_fault_kind kind, const char *state,
                       const char *message)
{
    struct sql_fault *fault = &link->link.fault;
    if (fault->kind != SQL_FAULT_NONE)
        return;
    fault->kind = kind;
    (void)snprintf(fault->state, sizeof fault->state, "%s", state);
    (void)snprintf(fault->message, sizeof fault->message, "%s", message);
}

static void note_no_memory(struct maria_link *link)
{
    note_fault(link, SQL_FAULT_NO_MEMORY, "", "out of memory");
}

/* ---- what a turn says ---- */

static bool has_items(const struct sql_call *call)
{
    return call->kind == SQL_CALL_COMMAND &&
           (call->command->kind == COMMAND_PUSH || call->command->kind == COMMAND_CHANGE ||
            call->command->kind == COMMAND_ANSWER);
}

static bool is_step(const struct sql_call *call)
{
    return call->kind == SQL_CALL_COMMAND && call->command->kind == COMMAND_TOPIC &&
           (call->command->topic.verb == QUEUE_TOPIC_PURGE ||
            call->command->topic.verb == QUEUE_TOPIC_REDRIVE);
}

#define EACH_CALL(LINK, CALL)                                                                      \
    for (struct sql_call *CALL = list_entry((LINK)->turn.calls->next, struct sql_call, list);      \
         &CALL->list != (LINK)->turn.calls;                                                        \
         CALL = list_entry(CALL->list.next, struct sql_call, list))

static bool want_item_topics(struct maria_link *link, struct sql_call *call)
{
    const struct command *command = call->command;
    bool is_good = true;
    call->items = calloc(command->count ? command->count : 1, sizeof *call->items);
    link->has_rows = true;
    for (size_t i = 0; call->items && i < command->count && is_good; i++) {
        struct sql_lease lease;
        if (!command_item_is_good(command, i, &call->items[i]))
            continue;
        call->items[i].status = QUEUE_UNAVAILABLE;
        if (command->kind == COMMAND_PUSH) {
            struct maria_topic *topic = maria_topic_want(link, command->pushes[i].topic);
            link->has_pushes = true;
            is_good = topic != NULL;
            if (topic)
                topic->is_pushed_to = true;
        } else if (command->kind == COMMAND_CHANGE) {
            is_good = maria_topic_want(link, command->changes[i].topic) != NULL;
        } else if (sql_lease_parse(command->answers[i].lease, &link->context->key, &lease)) {
            is_good = maria_topic_want_number(link, lease.topic) != NULL;
        }
    }
    return call->items && is_good;
}

static bool want_looked(struct maria_link *link, struct sql_call *call)
{
    enum { LOOKED_MAX = 500 };
    struct table *table = &link->context->topics.table;
    size_t count = 0;
    bool is_full = false;
    for (struct table_entry *entry = table_first(table); entry; entry = table_next(table, entry)) {
        struct sql_topic *topic = sql_topics_of(entry);
        bool is_wanted = call->from_the_start ? !topic->in_round : topic->look;
        if (!topic->watched || !(is_wanted || topic->asked))
            continue;
        is_full = is_full || count >= LOOKED_MAX;
        if (is_full)
            continue;
        count++;
        topic->look = false;
        topic->asked = true;
        topic->in_round = topic->in_round || call->from_the_start;
        if (!maria_topic_want(link, topic->entry.key))
            return false;
    }
    /* Every topic had its look from 0: the next one is the first of another round. */
    for (struct table_entry *entry = table_first(table); call->from_the_start && !is_full && entry;
         entry = table_next(table, entry))
        sql_topics_of(entry)->in_round = false;
    return true;
}

static bool want_command_topics(struct maria_link *link, struct sql_call *call)
{
    const struct command *command = call->command;
    struct maria_topic *topic;
    switch (command->kind) {
    case COMMAND_PUSH:
    case COMMAND_CHANGE:
    case COMMAND_ANSWER:
        return want_item_topics(link, call);
    case COMMAND_TAKE:
        link->has_takes = true;
        link->has_rows = link->has_rows || command->take.id.len;
        for (size_t i = 0; i < command->take.topic_count; i++)
            if (!maria_topic_want(link, command->take.topics[i]))
                return false;
        return true;
    case COMMAND_LIST:
        return maria_topic_want(link, command->list.topic) != NULL;
    case COMMAND_TOPIC:
        topic = maria_topic_want(link, command->topic.topic);
        if (topic && command->topic.verb == QUEUE_TOPIC_PUT)
            topic->is_to_be_made = true;
        link->has_rows = link->has_rows || is_step(call);
        return topic != NULL;
    case COMMAND_FORECAST:
        return !command->forecast.topic.len ||
               maria_topic_want(link, command->forecast.topic) != NULL;
    case COMMAND_FIND:
    case COMMAND_GET:
    case COMMAND_TOPICS:
        return true;
    }
    return false;
}

static bool want_topics(struct maria_link *link)
{
    EACH_CALL(link, call)
    {
        bool is_good = true;
        if (call->kind == SQL_CALL_COMMAND)
            is_good = want_command_topics(link, call);
        else if (call->kind == SQL_CALL_LOOK)
            is_good = want_looked(link, call);
        else if (call->kind == SQL_CALL_END || call->kind == SQL_CALL_EXPIRE)
            link->has_rows = true;
        for (size_t i = 0; is_good && i < call->ends.count; i++)
            is_good = maria_topic_want_number(link, call->ends.at[i].topic) != NULL;
        if (!is_good)
            return false;
    }
    return true;
}

static struct buffer *say_plain(struct maria_link *link, enum maria_step_kind kind)
{
    return maria_say(link, (struct maria_step){.kind = kind});
}

static void say_begin(struct maria_link *link)
{
    buffer_append_text(say_plain(link, MARIA_NOTHING), "START TRANSACTION");
    buffer_append_text(say_plain(link, MARIA_NOTHING), "SET @tarry_now=tarry.now_ms()");
    buffer_append_text(say_plain(link, MARIA_NOW), "SELECT @tarry_now");
    if (!link->turn.ticket)
        return;
    buffer_append_format(say_plain(link, MARIA_TICKET),
                         "UPDATE tarry.ticket SET number=%lld,at=@tarry_now WHERE server=%lld AND "
                         "number=%lld",
                         (long long)link->turn.ticket, (long long)link->context->server,
                         (long long)link->turn.ticket - 1);
    /* Where it may have been taken for dead meanwhile, it must be known again before it takes. */
    if (clock_boot_us() - link->beat_us > BEAT_US_MAX)
        buffer_append_format(say_plain(link, MARIA_NOTHING),
                             "INSERT IGNORE INTO tarry.server VALUES (%lld,@tarry_now)",
                             (long long)link->context->server);
}

static bool has_looks(const struct maria_link *link)
{
    EACH_CALL(link, call)
    if (call->kind == SQL_CALL_LOOK)
        return true;
    return false;
}

/* What other servers told in the last seconds: what is heard twice is known. */
static void say_hear(struct maria_link *link)
{
    buffer_append_format(say_plain(link, MARIA_NEWS),
                         "SELECT n,what,name,due FROM tarry.news WHERE at>@tarry_now-%d AND "
                         "server<>%lld",
                         NEWS_MS, (long long)link->context->server);
}

/* ---- topics that are new ---- */

/* A push for a moment too far away makes none. */
static void mark_new(struct maria_link *link)
{
    EACH_CALL(link, call)
    for (size_t i = 0;
         has_items(call) && call->command->kind == COMMAND_PUSH && i < call->command->count; i++) {
        const struct queue_push *push = &call->command->pushes[i];
        struct queue_result unused;
        struct maria_topic *topic = maria_names_find(&link->names, push->topic);
        if (topic && command_item_is_good(call->command, i, &unused) &&
            !maria_is_far(link->now_ms, &push->when))
            topic->is_to_be_made = true;
    }
}

static bool must_make(struct maria_link *link)
{
    if (!link->made_tries && link->has_pushes)
        mark_new(link);
    for (size_t i = 0; i < link->wanted.count; i++)
        if (link->wanted.at[i]->is_to_be_made && !link->wanted.at[i]->number)
            return link->made_tries < 2;
    return false;
}

/* So that no two servers count at once. */
static void say_topic_count(struct maria_link *link)
{
    buffer_append_text(say_plain(link, MARIA_NOTHING),
                       "SELECT name FROM tarry.task WHERE name='topics' FOR UPDATE");
    buffer_append_text(say_plain(link, MARIA_TOPIC_COUNT),
                       "SELECT COUNT(*) FROM tarry.topic WHERE name IS NOT NULL");
}

static void say_make(struct maria_link *link)
{
    int64_t count = link->topic_count, most = link->context->topics_max;
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->wanted.count; i++) {
        struct maria_topic *topic = link->wanted.at[i];
        if (!topic->is_to_be_made || topic->number || (most && count >= most))
            continue;
        count++;
        topic->is_made = true;
        topic->is_read = false;
        if (!out)
            buffer_append_text(out = say_plain(link, MARIA_NOTHING),
                               "INSERT IGNORE INTO tarry.topic (name) VALUES ");
        else
            buffer_append_byte(out, ',');
        buffer_append_byte(out, '(');
        maria_quote(out, topic->by_name.key);
        buffer_append_byte(out, ')');
    }
    maria_say_topics(link);
}

/* ---- locks ---- */

/* A row that somebody else holds is not waited for, since the database waits for whole seconds: the
 * call goes again by itself, and the others need not wait with it. */
static const char for_update[] = ") FOR UPDATE NOWAIT";

/* Jobs and remembered ids of a topic, by the ids that rows are there for. */
static void say_ids(struct maria_link *link, const struct maria_topic *topic, const char *select,
                    enum maria_step_kind kind, const char *end)
{
    struct buffer *out = NULL;
    size_t count = 0;
    for (size_t i = 0; i < link->rows.count; i++) {
        const struct maria_row *row = link->rows.at[i];
        if (row->topic != topic || row->stored)
            continue;
        if (!out || count == KEYS_MAX) {
            if (out)
                buffer_append_text(out, end);
            out = say_plain(link, kind);
            buffer_append_format(out, "%s WHERE topic=%u AND id IN (", select, topic->number);
            count = 0;
        }
        if (count++)
            buffer_append_byte(out, ',');
        maria_quote(out, maria_row_id(row));
    }
    if (out)
        buffer_append_text(out, end);
}

/* Of a job that a take names. */
static bool need_named_row(struct maria_link *link, const struct sql_call *call)
{
    if (call->kind != SQL_CALL_COMMAND || call->command->kind != COMMAND_TAKE ||
        !call->command->take.id.len)
        return true;
    struct maria_topic *topic = maria_names_find(&link->names, call->command->take.topics[0]);
    return !topic || !topic->number || maria_row_need(link, topic, call->command->take.id);
}

static bool need_item_rows(struct maria_link *link)
{
    EACH_CALL(link, call)
    if (!need_named_row(link, call))
        return false;
    EACH_CALL(link, call)
    for (size_t i = 0; has_items(call) && i < call->command->count; i++) {
        const struct command *command = call->command;
        struct queue_result unused;
        if (command->kind == COMMAND_ANSWER || !command_item_is_good(command, i, &unused))
            continue;
        struct slice name =
            command->kind == COMMAND_PUSH ? command->pushes[i].topic : command->changes[i].topic;
        struct slice id =
            command->kind == COMMAND_PUSH ? command->pushes[i].id : command->changes[i].id;
        struct maria_topic *topic = maria_names_find(&link->names, name);
        if (topic && topic->number && !maria_row_need(link, topic, id))
            return false;
    }
    return true;
}

struct named_lease { /* by an answer, or one that ends by itself */
    struct maria_place place;
    bool is_ack;
};
VECTOR_DECLARE(named_leases, struct named_lease)

static int named_compare(const void *a, const void *b)
{
    const struct named_lease *x = a, *y = b;
    if (x->is_ack != y->is_ack)
        return x->is_ack ? 1 : -1;
    return maria_place_compare(&x->place, &y->place);
}

static bool name_lease(struct named_leases *leases, const struct sql_lease *lease, bool is_ack)
{
    struct named_lease named = {.place = {.topic = lease->topic,
                                          .lane = lease->lane,
                                          .due_ms = lease->due_ms,
                                          .sequence = lease->sequence},
                                .is_ack = is_ack};
    return named_leases_add(leases, named);
}

static bool gather_leases(struct maria_link *link, struct named_leases *leases)
{
    EACH_CALL(link, call)
    {
        for (size_t i = 0; i < call->ends.count; i++)
            if (!name_lease(leases, &call->ends.at[i], false))
                return false;
        if (!has_items(call) || call->command->kind != COMMAND_ANSWER)
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

/* Answers of other kinds first: what they name has to be read whole. */
static void say_leases(struct maria_link *link, const struct named_leases *leases)
{
    struct buffer *out = NULL;
    const struct named_lease *last = NULL;
    size_t count = 0;
    for (size_t i = 0; i < leases->count; i++) {
        const struct named_lease *lease = &leases->at[i];
        bool is_first = !last || last->is_ack != lease->is_ack ||
                        last->place.topic != lease->place.topic ||
                        last->place.lane != lease->place.lane || count == KEYS_MAX;
        if (is_first) {
            if (out)
                buffer_append_text(out, for_update);
            out = say_plain(link, lease->is_ack ? MARIA_ACKS : MARIA_ROWS);
            buffer_append_format(out, "SELECT %s FROM tarry.job FORCE INDEX (PRIMARY) WHERE ",
                                 lease->is_ack ? maria_ack_columns : maria_row_columns);
            count = 0;
        }
        maria_say_place(out, &lease->place, is_first);
        count++;
        last = lease;
    }
    if (out)
        buffer_append_text(out, for_update);
}

static void say_limit(struct maria_link *link, struct maria_topic *topic)
{
    buffer_append_format(say_plain(link, MARIA_NOTHING),
                         "SELECT topic FROM tarry.topic WHERE topic=%u FOR UPDATE", topic->number);
    buffer_append_format(
        maria_say(link, (struct maria_step){.kind = MARIA_JOB_COUNT, .topic = topic}),
        "SELECT (SELECT COALESCE(SUM(fresh+retry+leased+dead),0) FROM tarry.tally WHERE topic=%u)+"
        "(SELECT COALESCE(SUM(fresh+retry+leased+dead),0) FROM tarry.tally_add WHERE topic=%u)",
        topic->number, topic->number);
}

static void say_locks(struct maria_link *link)
{
    char select[512];
    struct named_leases leases = {0};
    link->is_locked = true;
    if (!gather_leases(link, &leases) || !need_item_rows(link)) {
        link->text.failed = true;
        named_leases_fini(&leases);
        return;
    }
    if (link->has_pushes)
        buffer_append_text(say_plain(link, MARIA_NUMBER), "INSERT INTO tarry.number () VALUES ()");
    (void)snprintf(select, sizeof select, "SELECT %s FROM tarry.job FORCE INDEX (job_id)",
                   maria_row_columns);
    say_leases(link, &leases);
    for (size_t i = 0; i < link->wanted.count; i++) {
        struct maria_topic *topic = link->wanted.at[i];
        if (!topic->number)
            continue;
        if (topic->is_pushed_to && topic->settings.max_jobs)
            say_limit(link, topic);
        say_ids(link, topic, select, MARIA_ROWS, for_update);
        if (topic->is_pushed_to)
            say_ids(link, topic, "SELECT topic,id,until FROM tarry.finished", MARIA_FINISHED, ")");
    }
    named_leases_fini(&leases);
}

/* ---- the stages ---- */

static void decide(struct maria_link *link)
{
    link->is_decided = true;
    EACH_CALL(link, call)
    {
        maria_decide(link, call);
        for (size_t i = 0; i < link->rows.count; i++)
            if (link->rows.at[i]->owner == call)
                maria_decide_own(link, call, link->rows.at[i]);
        if (is_step(call))
            maria_call_steps_on(call);
    }
    if (link->numbers_used > MARIA_NUMBERS)
        note_no_memory(link);
}

static void say_direct(struct maria_link *link)
{
    EACH_CALL(link, call) maria_say_call(link, call);
}

/* Begins the text of the next flight of the first part. False: there is none. */
static bool stage_begin(struct maria_link *link)
{
    maria_flight_begin(link);
    if (!maria_topics_are_read(link))
        maria_say_topics(link);
    if (link->steps.count)
        return true;
    if (must_make(link)) {
        if (link->made_tries++ == 0 && link->context->topics_max)
            say_topic_count(link);
        else
            say_make(link);
        if (link->steps.count)
            return true;
    }
    if (!link->is_locked)
        say_locks(link);
    if (!link->is_direct) {
        link->is_direct = true;
        say_direct(link);
    }
    if (link->steps.count)
        return true;
    if (!link->is_decided)
        decide(link);
    if (link->has_takes && !link->is_taken) {
        if (!link->is_written)
            maria_say_rows(link);
        maria_say_takes(link);
        if (link->steps.count)
            return true;
    }
    if (link->has_takes && !link->is_shared) {
        link->is_shared = true;
        if (!maria_share_takes(link))
            note_no_memory(link);
    }
    if (link->has_bodies)
        maria_say_bodies(link);
    return link->steps.count > 0;
}

static bool flight_send(struct maria_link *link);

static void results_drop(struct maria_link *link)
{
    for (size_t i = 0; i < link->results.count; i++)
        maria_result_free(link->results.at[i]);
    link->results.count = 0;
}

static void turn_clear(struct maria_link *link)
{
    results_drop(link);
    maria_rows_clear(link);
    maria_topics_begin(link);
    link->taken.count = 0;
    link->has_rows = link->has_takes = link->has_pushes = link->has_moved = false;
    link->is_now_known = link->is_locked = link->is_decided = link->is_written = false;
    link->is_taken = link->is_shared = link->is_direct = link->has_bodies = false;
    link->made_tries = 0;
    link->number = link->delivery = link->numbers_used = 0;
    link->topic_count = 0;
    link->wants_days = false;
}

static bool on_send_calls(struct sql_link *base, struct sql_context *context,
                          const struct sql_turn *turn)
{
    struct maria_link *link = link_of(base);
    link->context = context;
    link->turn = *turn;
    turn_clear(link);
    if (!want_topics(link))
        return false;
    maria_flight_begin(link);
    link->part = MARIA_CALLS;
    say_begin(link);
    if (!turn->is_alone && has_looks(link))
        say_hear(link);
    maria_say_topics(link);
    link->is_early = maria_topics_are_known(link) && link->wanted.count > 0;
    if (link->is_early) { /* as if they were read: what is wrong about that is done again */
        if (link->has_rows)
            say_locks(link);
        else if (link->has_takes)
            maria_say_takes(link);
        link->is_early = link->has_rows || link->has_takes;
    }
    return flight_send(link);
}

static void say_tallies(struct maria_link *link)
{
    static const char columns[] =
        "fresh,retry,leased,dead,dead_bytes,pushed,acked,cancelled,expired,replaced,delivered,"
        "nacked,lease_ended,died,redriven";
    static const char *const names[SQL_COUNTS] = {
        "fresh",     "retry",  "leased",      "dead",    "dead_bytes",
        "pushed",    "acked",  "cancelled",   "expired", "replaced",
        "delivered", "nacked", "lease_ended", "died",    "redriven"};
    const struct sql_tallies *tallies = &link->context->effects.tallies;
    struct buffer *out;
    if (!tallies->count)
        return;
    out = say_plain(link, MARIA_NOTHING);
    buffer_append_format(out, "INSERT INTO tarry.tally (topic,slot,%s) VALUES ", columns);
    for (size_t i = 0; i < tallies->count; i++) {
        buffer_append_format(out, "%s(%lld,%lld", i ? "," : "", (long long)tallies->at[i].topic,
                             (long long)link->context->server);
        for (int k = 0; k < SQL_COUNTS; k++)
            buffer_append_format(out, ",%lld", (long long)tallies->at[i].counts[k]);
        buffer_append_byte(out, ')');
    }
    for (int k = 0; k < SQL_COUNTS; k++)
        buffer_append_format(out, "%s%s=%s+VALUES(%s)", k ? "," : " ON DUPLICATE KEY UPDATE ",
                             names[k], names[k], names[k]);
}

static void say_one_news(struct maria_link *link, struct buffer **out, char what, const char *name,
                         int64_t due_ms)
{
    if (!*out) {
        *out = say_plain(link, MARIA_NOTHING);
        buffer_append_text(*out, "INSERT INTO tarry.news (at,server,what,name,due) VALUES ");
    } else {
        buffer_append_byte(*out, ',');
    }
    buffer_append_format(*out, "(%lld,%lld,'%c','%s',%lld)", (long long)link->now_ms,
                         (long long)link->context->server, what, name, (long long)due_ms);
}

/* Others find by their looks what is due from now on, and are told what waits behind their bounds. */
static void say_news(struct maria_link *link)
{
    const struct sql_news_list *list = &link->context->effects.news;
    struct buffer *out = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const struct sql_news *news = &list->at[i];
        if (news->due_ms < link->now_ms)
            say_one_news(link, &out, 'r', news->name, news->due_ms);
        if (news->changed)
            say_one_news(link, &out, 't', news->name, 0);
        if (news->look)
            say_one_news(link, &out, 'l', news->name, 0);
        if (news->died)
            say_one_news(link, &out, 'd', news->name, 0);
    }
}

static bool on_send_commit(struct sql_link *base, struct sql_context *context,
                           const struct sql_turn *turn)
{
    struct maria_link *link = link_of(base);
    link->context = context;
    maria_flight_begin(link);
    link->part = MARIA_COMMIT;
    if (!link->is_written)
        maria_say_rows(link);
    maria_say_taken(link);
    maria_say_looks(link);
    EACH_CALL(link, call) maria_say_call_end(link, call);
    say_tallies(link);
    if (!turn->is_alone)
        say_news(link);
    buffer_append_text(say_plain(link, MARIA_NOTHING), "COMMIT");
    maria_say_history_days(link);
    return flight_send(link);
}

static bool on_send_rollback(struct sql_link *base)
{
    struct maria_link *link = link_of(base);
    maria_flight_begin(link);
    link->part = MARIA_ROLLBACK;
    buffer_append_text(say_plain(link, MARIA_NOTHING), "ROLLBACK");
    return flight_send(link);
}

/* ---- what is answered ---- */

static bool read_rows(struct maria_link *link, MYSQL_RES *result, struct sql_call *owner)
{
    MYSQL_ROW row;
    bool is_good = true;
    while (is_good && (row = libmariadb.mysql_fetch_row(result))) {
        struct maria_row *read = maria_row_read(link, row, libmariadb.mysql_fetch_lengths(result));
        is_good = read != NULL;
        if (read && owner)
            read->owner = owner;
        if (read && owner && !read->topic)
            is_good = maria_topic_want_number(link, read->stored_at.topic) != NULL;
    }
    return is_good;
}

static bool read_acks(struct maria_link *link, MYSQL_RES *result)
{
    MYSQL_ROW row;
    while ((row = libmariadb.mysql_fetch_row(result)))
        if (!maria_ack_read(link, row, libmariadb.mysql_fetch_lengths(result)))
            return false;
    return true;
}

static bool read_finished(struct maria_link *link, MYSQL_RES *result)
{
    MYSQL_ROW row;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        uint32_t number = (uint32_t)maria_number(row[0]);
        struct maria_topic *topic =
            maria_numbers_find(&link->numbers, slice_make(&number, sizeof number));
        struct maria_row *known =
            topic ? maria_row_need(link, topic,
                                   slice_make(row[1], libmariadb.mysql_fetch_lengths(result)[1]))
                  : NULL;
        if (topic && !known)
            return false;
        if (known)
            known->finished_until_ms = maria_number(row[2]);
    }
    return true;
}

static bool was_heard(struct maria_link *link, uint64_t number)
{
    for (size_t i = 0; i < link->heard.count; i++)
        if (link->heard.at[i] == number)
            return true;
    if (link->heard.count < HEARD_MAX)
        return !maria_sequence_list_add(&link->heard, number);
    link->heard.at[link->heard_next++ % HEARD_MAX] = number;
    return false;
}

/* What was told before this one listened it finds by itself: each connection doubts all it knows. */
static bool read_news(struct maria_link *link, MYSQL_RES *result)
{
    MYSQL_ROW row;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct sql_news news = {.due_ms = INT64_MAX};
        if (was_heard(link, (uint64_t)maria_number(row[0])))
            continue;
        (void)snprintf(news.name, sizeof news.name, "%s", row[2]);
        if (row[1][0] == 'r')
            news.due_ms = maria_number(row[3]);
        news.changed = row[1][0] == 't';
        news.look = row[1][0] == 'l';
        news.died = row[1][0] == 'd';
        if (!sql_news_list_add(&link->news, news))
            return false;
    }
    return true;
}

/* `result`: NULL where the statement has no rows. It is freed, or kept. False: out of memory. */
static bool take_answer(struct maria_link *link, const struct maria_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    bool is_good = true;
    switch (step->kind) {
    case MARIA_NOTHING:
    case MARIA_AFTER:
        break;
    case MARIA_TICKET:
        if (libmariadb.mysql_affected_rows(link->mysql) != 1)
            note_fault(link, SQL_FAULT_GONE, "TY001",
                       "the ticket of this server is not the next one");
        break;
    case MARIA_NOW:
        row = result ? libmariadb.mysql_fetch_row(result) : NULL;
        link->now_ms = row ? maria_number(row[0]) : 0;
        link->context->now_ms = link->now_ms;
        link->context->now_seen_us = clock_inner_us();
        break;
    case MARIA_NUMBER:
        link->number = libmariadb.mysql_insert_id(link->mysql) * MARIA_NUMBERS;
        break;
    case MARIA_DELIVERY:
        link->delivery = libmariadb.mysql_insert_id(link->mysql) * MARIA_NUMBERS;
        break;
    case MARIA_TOPICS:
        is_good = maria_read_topics(link, result);
        break;
    case MARIA_TOPIC_COUNT:
        row = libmariadb.mysql_fetch_row(result);
        link->topic_count = row ? maria_number(row[0]) : 0;
        break;
    case MARIA_ROWS:
        is_good = read_rows(link, result, NULL);
        break;
    case MARIA_ACKS:
        is_good = read_acks(link, result);
        break;
    case MARIA_OWN_ROWS:
        is_good = read_rows(link, result, step->call);
        break;
    case MARIA_FINISHED:
        is_good = read_finished(link, result);
        break;
    case MARIA_JOB_COUNT:
        row = libmariadb.mysql_fetch_row(result);
        step->topic->jobs = row ? maria_number(row[0]) : 0;
        break;
    case MARIA_TAKE:
        return maria_read_take(link, step, result);
    case MARIA_BODIES:
        return maria_read_bodies(link, step->number, result);
    case MARIA_CHANGED:
        if (libmariadb.mysql_affected_rows(link->mysql) != step->number)
            note_fault(link, SQL_FAULT_PASSING, "TY002", "a row changed under its lock");
        break;
    case MARIA_LOOK:
        maria_read_look(link, step->topic, step->number, result);
        break;
    case MARIA_NEWS:
        is_good = read_news(link, result);
        break;
    case MARIA_CALL:
        return maria_read_call(link, step, result);
    }
    if (result)
        libmariadb.mysql_free_result(result);
    return is_good;
}

/* ---- faults ---- */

static const struct {
    unsigned number;
    enum sql_fault_kind kind;
} faults[] = {
    {1213, SQL_FAULT_PASSING}, /* deadlock */
    {1205, SQL_FAULT_PASSING}, /* a lock was waited for too long */
    {3572, SQL_FAULT_PASSING}, /* NOWAIT in MySQL */
    {1062, SQL_FAULT_PASSING}, /* somebody else was first */
    {1020, SQL_FAULT_PASSING}, /* a row has changed since it was read */
    {1412, SQL_FAULT_PASSING}, /* a table has, as by a new day of the history */
    {1969, SQL_FAULT_PASSING}, /* max_statement_time */
    {3024, SQL_FAULT_PASSING},   {1021, SQL_FAULT_NO_SPACE},
    {1114, SQL_FAULT_NO_SPACE}, /* the table is full */
    {1026, SQL_FAULT_NO_SPACE}, /* cannot write a file: the binary log */
    {1290, SQL_FAULT_GONE},     /* read only */
    {1792, SQL_FAULT_GONE},      {1836, SQL_FAULT_GONE},
    {1053, SQL_FAULT_GONE},      {1927, SQL_FAULT_GONE}, /* killed */
    {3169, SQL_FAULT_GONE},      {4031, SQL_FAULT_GONE},
    {1037, SQL_FAULT_NO_MEMORY}, {1038, SQL_FAULT_NO_MEMORY},
    {1041, SQL_FAULT_NO_MEMORY},
};

/* True: the connection is lost. */
static bool note_error(struct maria_link *link)
{
    unsigned number = libmariadb.mysql_errno(link->mysql);
    const bool is_of_the_client = number >= 2000 && number < 3000;
    enum sql_fault_kind kind = SQL_FAULT_OTHER;
    if (!is_of_the_client && link->step < link->steps.count &&
        link->steps.at[link->step].kind == MARIA_AFTER)
        return false; /* all that counts is committed */
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (faults[i].number == number)
            kind = faults[i].kind;
    note_fault(link, is_of_the_client ? SQL_FAULT_GONE : kind,
               libmariadb.mysql_sqlstate(link->mysql), libmariadb.mysql_error(link->mysql));
    return is_of_the_client;
}

/* ---- the library's calls ---- */

enum moved { MOVED_ON = 1, MOVED_WAITS, MOVED_LOST, MOVED_OVER };

static enum moved op_wait(struct maria_link *link, int waits)
{
    link->is_started = true;
    link->waits = waits;
    return MOVED_WAITS;
}

static enum moved op_next(struct maria_link *link, enum maria_op op)
{
    link->op = op;
    link->is_started = false;
    return op == MARIA_OP_NONE ? MOVED_OVER : MOVED_ON;
}

static enum moved op_query(struct maria_link *link, int ready)
{
    size_t from = link->packet ? link->ends.at[link->packet - 1] : 0;
    int failed = 0;
    int waits = link->is_started
                    ? libmariadb.mysql_real_query_cont(&failed, link->mysql, ready)
                    : libmariadb.mysql_real_query_start(&failed, link->mysql, link->text.at + from,
                                                        link->ends.at[link->packet] - from);
    if (waits)
        return op_wait(link, waits);
    if (failed)
        return note_error(link) ? MOVED_LOST : op_next(link, MARIA_OP_NONE);
    return op_next(link, MARIA_OP_STORE);
}

/* A procedure answers rows, and then that it is over: only the latter ends its step. */
static void note_answer(struct maria_link *link, MYSQL_RES *result)
{
    const struct maria_step *step =
        link->step < link->steps.count ? &link->steps.at[link->step] : NULL;
    bool is_end_of_call = step && step->kind == MARIA_CALL && !result;
    if (!step) {
        if (result)
            libmariadb.mysql_free_result(result);
        return;
    }
    if (is_end_of_call) {
        link->step++;
        return;
    }
    if (!take_answer(link, step, result))
        note_no_memory(link);
    if (step->kind != MARIA_CALL || !maria_step_is_procedure(step))
        link->step++;
}

static enum moved op_store(struct maria_link *link, int ready)
{
    MYSQL_RES *result = NULL;
    int waits = link->is_started ? libmariadb.mysql_store_result_cont(&result, link->mysql, ready)
                                 : libmariadb.mysql_store_result_start(&result, link->mysql);
    if (waits)
        return op_wait(link, waits);
    if (!result && libmariadb.mysql_errno(link->mysql) != 0)
        return note_error(link) ? MOVED_LOST : op_next(link, MARIA_OP_NONE);
    note_answer(link, result);
    if (libmariadb.mysql_more_results(link->mysql))
        return op_next(link, MARIA_OP_NEXT);
    if (link->link.fault.kind == SQL_FAULT_NONE && ++link->packet < link->ends.count)
        return op_next(link, MARIA_OP_QUERY);
    return op_next(link, MARIA_OP_NONE);
}

static enum moved op_more(struct maria_link *link, int ready)
{
    int failed = 0;
    int waits = link->is_started ? libmariadb.mysql_next_result_cont(&failed, link->mysql, ready)
                                 : libmariadb.mysql_next_result_start(&failed, link->mysql);
    if (waits)
        return op_wait(link, waits);
    if (failed > 0)
        return note_error(link) ? MOVED_LOST : op_next(link, MARIA_OP_NONE);
    return op_next(link, MARIA_OP_STORE);
}

/* The texts of the flight are ready: the first of them goes at once. */
static bool flight_send(struct maria_link *link)
{
    if (link->text.failed || !maria_ends_add(&link->ends, link->text.len) ||
        !maria_ends_add(&link->packet_steps, link->steps.count)) {
        note_no_memory(link);
        return false;
    }
    link->op = MARIA_OP_QUERY;
    link->is_started = false;
    link->is_in_flight = true;
    switch (op_query(link, 0)) {
    case MOVED_WAITS:
        return true;
    case MOVED_LOST:
        return false;
    case MOVED_ON:
    case MOVED_OVER:
        break;
    }
    link->waits = MYSQL_WAIT_READ | MYSQL_WAIT_WRITE; /* `advance` is to go on, soon */
    return true;
}

/* The flight is over: what comes next in this part. True: another flight. */
static bool flight_is_over(struct maria_link *link)
{
    link->is_in_flight = false;
    if (link->context->effects.failed)
        note_no_memory(link);
    if (link->part != MARIA_CALLS || link->link.fault.kind != SQL_FAULT_NONE)
        return false;
    link->is_now_known = true;
    if (link->is_early && link->has_moved) {
        maria_rows_clear(link);
        link->taken.count = 0;
        link->is_locked = link->is_taken = false;
    }
    link->is_early = false;
    bool has_more = stage_begin(link) && link->link.fault.kind == SQL_FAULT_NONE;
    return has_more && flight_send(link);
}

static enum sql_progress part_is_over(struct maria_link *link)
{
    if (link->link.fault.kind != SQL_FAULT_NONE)
        return SQL_PART_OVER;
    bool is_good = true;
    if (link->part == MARIA_COMMIT)
        EACH_CALL(link, call)
    if (call->kind == SQL_CALL_UPKEEP)
        link->beat_us = clock_boot_us();
    if (link->part == MARIA_CALLS && link->has_takes)
        is_good = maria_fill_takes(link);
    if (link->part == MARIA_COMMIT)
        is_good = maria_share_looks(link);
    if (!is_good && link->part == MARIA_CALLS)
        note_no_memory(link);
    return SQL_PART_OVER;
}

static enum sql_progress on_advance(struct sql_link *base, struct sql_context *context, int events)
{
    struct maria_link *link = link_of(base);
    int ready = (events & SQL_READABLE ? MYSQL_WAIT_READ : 0) |
                (events & SQL_WRITABLE ? MYSQL_WAIT_WRITE : 0);
    link->context = context;
    while (link->is_in_flight) {
        enum moved moved = link->op == MARIA_OP_NONE    ? MOVED_OVER
                           : link->op == MARIA_OP_QUERY ? op_query(link, ready)
                           : link->op == MARIA_OP_STORE ? op_store(link, ready)
                                                        : op_more(link, ready);
        if (moved == MOVED_WAITS)
            return SQL_UNDER_WAY;
        if (moved == MOVED_LOST)
            return SQL_LOST;
        if (moved == MOVED_OVER && !flight_is_over(link))
            return part_is_over(link);
    }
    /* Nobody asked: the database ends the connection. */
    char byte;
    ssize_t got = recv(libmariadb.mysql_get_socket(link->mysql), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got >= 0) {
        note_fault(link, SQL_FAULT_GONE, "08006", "the database has ended the connection");
        return SQL_LOST;
    }
    return SQL_UNDER_WAY;
}

static bool on_next_news(struct sql_link *base, struct sql_news *out)
{
    struct maria_link *link = link_of(base);
    if (link->news_at < link->news.count) {
        *out = link->news.at[link->news_at++];
        return true;
    }
    link->news_at = link->news.count = 0;
    return false;
}

/* ---- life ---- */

static bool on_greet(const struct sql_wish *wish, struct sql_greeting *out)
{
    struct maria_link *link = calloc(1, sizeof *link);
    if (!link || !maria_greet(wish, out, &link->mysql)) {
        free(link);
        return false;
    }
    buffer_init(&link->text, TEXT_BYTES_MAX);
    link->link.dialect = &sql_mysql;
    out->link = &link->link;
    return true;
}

static bool on_migrate(const char *url, char *error, size_t error_bytes)
{
    MYSQL *mysql = maria_connect(url, error, error_bytes);
    if (!mysql)
        return false;
    bool is_done = maria_schema_check(mysql, true, error, error_bytes);
    libmariadb.mysql_close(mysql);
    return is_done;
}

/* A call of the library's that still waits is let see the end of its connection first. */
static void op_abandon(struct maria_link *link)
{
    enum { TRIES = 100 };
    (void)shutdown(libmariadb.mysql_get_socket(link->mysql), SHUT_RDWR);
    for (int i = 0; i < TRIES && link->op != MARIA_OP_NONE && link->is_started; i++) {
        MYSQL_RES *result = NULL;
        int failed, ready = MYSQL_WAIT_READ | MYSQL_WAIT_WRITE, waits = 0;
        if (link->op == MARIA_OP_QUERY)
            waits = libmariadb.mysql_real_query_cont(&failed, link->mysql, ready);
        else if (link->op == MARIA_OP_STORE)
            waits = libmariadb.mysql_store_result_cont(&result, link->mysql, ready);
        else
            waits = libmariadb.mysql_next_result_cont(&failed, link->mysql, ready);
        if (result)
            libmariadb.mysql_free_result(result);
        link->is_started = waits != 0;
    }
}

static void on_close(struct sql_link *base)
{
    struct maria_link *link = link_of(base);
    if (link->is_in_flight)
        op_abandon(link);
    results_drop(link);
    maria_rows_clear(link);
    maria_topics_free(link);
    libmariadb.mysql_close(link->mysql);
    maria_results_fini(&link->results);
    maria_row_list_fini(&link->rows);
    maria_events_fini(&link->events);
    maria_taken_list_fini(&link->taken);
    maria_steps_fini(&link->steps);
    maria_ends_fini(&link->ends);
    maria_ends_fini(&link->packet_steps);
    sql_news_list_fini(&link->news);
    maria_sequence_list_fini(&link->heard);
    buffer_fini(&link->text);
    free(link);
}

static int on_socket(const struct sql_link *base)
{
    return (int)libmariadb.mysql_get_socket(((const struct maria_link *)(const void *)base)->mysql);
}

static int on_wants(const struct sql_link *base)
{
    const struct maria_link *link = (const struct maria_link *)(const void *)base;
    if (!link->is_in_flight)
        return SQL_READABLE;
    return (link->waits & MYSQL_WAIT_READ ? SQL_READABLE : 0) |
           (link->waits & MYSQL_WAIT_WRITE ? SQL_WRITABLE : 0);
}

static const char *const schemes[] = {"mysql", "mariadb", NULL};

const struct sql_dialect sql_mysql = {
    .name = "mysql",
    .title = "MariaDB and MySQL",
    .schemes = schemes,
    .durable = "an answered push survives a crash of the database and a power cut",
    .frail = "an answered push may be lost in a crash of the database: "
             "innodb_flush_log_at_trx_commit or sync_binlog is not 1, or innodb_doublewrite is off",
    .durable_settings = "set innodb_flush_log_at_trx_commit and sync_binlog to 1 and "
                        "innodb_doublewrite to on",
    .keeps_history = true,
    .tells_news = true,
    .look_ms = 100,
    .look_soon_ms = 10,
    .silence_ms = 15000,
    .tokens = &sql_mysql_tokens,
    .greet = on_greet,
    .migrate = on_migrate,
    .fsck = maria_fsck,
    .schema = maria_schema_text,
    .place = maria_url_emit,
    .close = on_close,
    .socket = on_socket,
    .wants = on_wants,
    .send_calls = on_send_calls,
    .send_commit = on_send_commit,
    .send_rollback = on_send_rollback,
    .advance = on_advance,
    .next_news = on_next_news,
};
