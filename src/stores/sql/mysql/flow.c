/* Groups, limits, rates and holds of a transaction. */
#include "sql/mysql/flow.h"
#include "sql/mysql/link.h"

#include <stdlib.h>
#include <string.h>

enum {
    NOTES_MAX = 4000,   /* per take */
    GROUPS_MAX = 1000,  /* candidates, if jobs have several priorities */
    ROOM_MAX = 1000000, /* without a limit */
    ENTRIES_MAX = 500   /* per statement */
};

/* ---- life ---- */

void mysql_flow_clear(struct mysql_link *link)
{
    struct mysql_flow *flow = &link->flow;
    for (size_t i = 0; i < flow->groups.count; i++) {
        mysql_found_list_fini(&flow->groups.at[i]->found);
        free(flow->groups.at[i]);
    }
    flow->groups.count = flow->choices.count = flow->added.count = 0;
    flow->read_notes.count = flow->read_numbers.count = 0;
    flow->is_chosen = flow->is_prepared = false;
}

void mysql_flow_free(struct mysql_link *link)
{
    mysql_flow_clear(link);
    mysql_name_list_fini(&link->flow.names);
    mysql_note_list_fini(&link->flow.notes);
    mysql_group_list_fini(&link->flow.groups);
    mysql_choice_list_fini(&link->flow.choices);
    mysql_note_numbers_fini(&link->flow.added);
    mysql_note_numbers_fini(&link->flow.read_numbers);
    mysql_note_list_fini(&link->flow.read_notes);
}

static void must(struct mysql_link *link, bool is_good)
{
    if (!is_good)
        link->wire.text.failed = true;
}

static bool has_groups(const struct mysql_topic *topic)
{
    return topic && topic->flow & MYSQL_FLOW_GROUPS;
}

static bool is_strict(const struct mysql_topic *topic)
{
    return topic && topic->flow & MYSQL_FLOW_STRICT;
}

/* ---- names ---- */

static bool needs_name(const struct mysql_topic *topic, struct slice group)
{
    return group.len > 0 || (topic && topic->flow & MYSQL_FLOW_JOBS);
}

static struct mysql_name *name_find(struct mysql_link *link, const struct mysql_topic *topic,
                                    struct slice group)
{
    for (size_t i = 0; i < link->flow.names.count; i++)
        if (link->flow.names.at[i].topic == topic &&
            slice_equals(link->flow.names.at[i].name, group))
            return &link->flow.names.at[i];
    return NULL;
}

struct mysql_name *mysql_flow_name(struct mysql_link *link, const struct mysql_topic *topic,
                                   struct slice group)
{
    return needs_name(topic, group) ? name_find(link, topic, group) : NULL;
}

/* Calls a function for each push of the transaction until it returns true. */
static bool each_push(const struct mysql_link *link,
                      bool (*visit)(struct mysql_link *, const struct queue_push *))
{
    EACH_CALL(link, call)
    for (size_t i = 0; call->kind == SQL_CALL_COMMAND && call->command->kind == COMMAND_PUSH &&
                       i < call->command->count;
         i++)
        if (visit((struct mysql_link *)link, &call->command->pushes[i]))
            return true;
    return false;
}

static bool names_group(struct mysql_link *link, const struct queue_push *push)
{
    return needs_name(mysql_names_find(&link->topics.names, push->topic), push->group);
}

bool mysql_flow_has_names(const struct mysql_link *link)
{
    return link->transaction.has_pushes && each_push(link, names_group);
}

static bool add_name(struct mysql_link *link, const struct queue_push *push)
{
    struct mysql_topic *topic = mysql_names_find(&link->topics.names, push->topic);
    if (!topic || !needs_name(topic, push->group) || name_find(link, topic, push->group))
        return false;
    struct mysql_name name = {.topic = topic, .name = push->group};
    must(link, mysql_name_list_add(&link->flow.names, name));
    return false;
}

static bool read_names(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    MYSQL_ROW row;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct slice text = slice_make(row[1], libmariadb.mysql_fetch_lengths(result)[1]);
        struct mysql_name *name = name_find(link, step->topic, text);
        if (!name)
            continue;
        name->number = mysql_number(row[0]);
        name->jobs_max = (uint64_t)mysql_number(row[2]);
        if (!name->jobs_max)
            name->jobs_max = step->topic->settings.flow.group_max_jobs;
        name->jobs = (uint64_t)mysql_number(row[3]);
    }
    return true;
}

static void append_names_of(struct mysql_link *link, struct mysql_topic *topic)
{
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->flow.names.count; i++) {
        const struct mysql_name *name = &link->flow.names.at[i];
        if (name->topic != topic || name->number)
            continue;
        if (!out) {
            if (topic->flow &
                MYSQL_FLOW_JOBS) /* so that no two transactions count at the same time */
                buffer_append_format(mysql_statement(link, NULL),
                                     "SELECT topic FROM tarry.topic WHERE topic=%u FOR UPDATE",
                                     topic->number);
            out = mysql_statement_of(link, (struct mysql_step){.read = read_names, .topic = topic});
            buffer_append_format(out,
                                 "SELECT k.grp,k.name,k.max_jobs,%s FROM tarry.grp k FORCE INDEX "
                                 "(grp_name) WHERE k.topic=%u AND k.name IN (",
                                 topic->flow & MYSQL_FLOW_JOBS
                                     ? "(SELECT COUNT(*) FROM tarry.job_grp g WHERE "
                                       "g.topic=k.topic AND g.grp=k.grp)"
                                     : "0",
                                 topic->number);
        } else {
            buffer_append_byte(out, ',');
        }
        mysql_quote(out, name->name);
    }
    if (out)
        buffer_append_byte(out, ')');
}

void mysql_append_group_names(struct mysql_link *link)
{
    link->flow.names.count = 0;
    (void)each_push(link, add_name);
    for (size_t i = 0; i < link->topics.wanted.count; i++)
        if (link->topics.wanted.at[i]->number)
            append_names_of(link, link->topics.wanted.at[i]);
}

bool mysql_groups_are_missing(const struct mysql_link *link)
{
    for (size_t i = 0; i < link->flow.names.count; i++)
        if (link->flow.names.at[i].topic->number && !link->flow.names.at[i].number)
            return true;
    return false;
}

bool mysql_append_new_groups(struct mysql_link *link)
{
    bool is_same = true;
    for (size_t i = 0; i < link->topics.wanted.count; i++) {
        struct mysql_topic *topic = link->topics.wanted.at[i];
        struct buffer *out = NULL;
        for (size_t k = 0; topic->number && k < link->flow.names.count; k++) {
            if (link->flow.names.at[k].topic != topic || link->flow.names.at[k].number)
                continue;
            if (!out && !has_groups(topic)) {
                buffer_append_format(mysql_statement(link, NULL),
                                     "CALL tarry.server_groups_begin(%u,1)", topic->number);
                topic->flow |= MYSQL_FLOW_GROUPS;
                topic->is_remembered = false; /* this may be rolled back */
                is_same = false;
            }
            if (!out)
                buffer_append_text(out = mysql_statement(link, NULL),
                                   "INSERT IGNORE INTO tarry.grp (topic,name) VALUES ");
            else
                buffer_append_byte(out, ',');
            buffer_append_format(out, "(%u,", topic->number);
            mysql_quote(out, link->flow.names.at[k].name);
            buffer_append_byte(out, ')');
        }
        if (out)
            append_names_of(link, topic);
    }
    return is_same;
}

/* ---- notes ---- */

static void note_add(struct mysql_link *link, const struct mysql_note *note)
{
    for (size_t i = link->flow.notes.count; i-- > 0 && link->flow.notes.count - i < 128;) {
        struct mysql_note *other = &link->flow.notes.at[i];
        if (other->topic != note->topic || other->group != note->group)
            continue;
        other->freed += note->freed;
        if (note->waits && (!other->waits || note->due_ms < other->due_ms ||
                            (note->due_ms == other->due_ms && note->sequence < other->sequence))) {
            other->due_ms = note->due_ms;
            other->sequence = note->sequence;
        }
        other->waits = other->waits || note->waits;
        other->held_ms = note->held_ms > other->held_ms ? note->held_ms : other->held_ms;
        return;
    }
    must(link, mysql_note_list_add(&link->flow.notes, *note));
}

static int64_t group_number(int64_t number)
{
    return number ? number : MYSQL_GROUP_EMPTY;
}

void mysql_flow_hold(struct mysql_link *link, const struct mysql_row *row, int64_t hold_ms)
{
    int64_t number = row->stored_group ? row->stored_group : MYSQL_GROUP_TOPIC;
    struct mysql_note note = {
        .topic = row->topic->number, .group = number, .held_ms = link->now_ms + hold_ms + 1};
    if (number == MYSQL_GROUP_TOPIC && !(row->topic->flow & MYSQL_FLOW_RATE))
        row->topic->sets_hold = true;
    note_add(link, &note);
}

/* Requests a check of a topic, since the end of a lease may make a job ready for delivery. */
static void notify_freed(struct mysql_link *link, const struct mysql_topic *topic)
{
    struct sql_notification *notification;
    if (topic->name[0] != '?' && mysql_flow_is_limited(topic) &&
        (notification = sql_effects_notification(&link->context->effects, slice_of(topic->name))))
        notification->look = true;
}

static void note_freed(struct mysql_link *link, const struct mysql_row *row)
{
    struct mysql_note note = {.topic = row->topic->number, .freed = 1};
    if (row->slot & MYSQL_FLOW_GROUPS) {
        note.group = group_number(row->stored_group);
        note_add(link, &note);
    }
    if (row->slot & MYSQL_FLOW_LIMIT) {
        note.group = MYSQL_GROUP_TOPIC;
        note_add(link, &note);
    }
    notify_freed(link, row->topic);
}

static void append_notes(struct mysql_link *link)
{
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->flow.notes.count; i++) {
        const struct mysql_note *note = &link->flow.notes.at[i];
        if (!out)
            buffer_append_text(out = mysql_statement(link, NULL),
                               "INSERT INTO tarry.grp_note (topic,grp,freed,seq,due,held) VALUES ");
        else
            buffer_append_byte(out, ',');
        buffer_append_format(out, "(%u,%lld,%lld,%llu,", note->topic, (long long)note->group,
                             (long long)note->freed, (unsigned long long)note->sequence);
        if (note->waits)
            buffer_append_i64(out, note->due_ms);
        else
            buffer_append_text(out, "NULL");
        if (note->held_ms)
            buffer_append_format(out, ",%lld)", (long long)note->held_ms);
        else
            buffer_append_text(out, ",NULL)");
    }
    link->flow.notes.count = 0;
}

/* ---- rows ---- */

static bool had_entry(const struct mysql_row *row)
{
    return row->stored && row->stored_at.level != MYSQL_LEVEL_DEAD;
}

static bool has_entry(const struct mysql_row *row)
{
    return row->exists && row->state != JOB_DEAD;
}

static bool entry_moves(const struct mysql_row *row)
{
    return group_number(row->stored_group) != group_number(row->group) ||
           row->stored_at.level != (uint32_t)row->level || row->stored_at.due_ms != row->due_ms ||
           row->stored_at.sequence != row->sequence;
}

static void append_entry(struct buffer *out, int64_t group, int64_t level, int64_t due_ms,
                         uint64_t sequence)
{
    buffer_append_format(out, "%lld,%lld,%lld,%llu)", (long long)group_number(group),
                         (long long)level, (long long)due_ms, (unsigned long long)sequence);
}

static bool entry_goes(const struct mysql_row *row, const struct mysql_topic *topic)
{
    return row->topic == topic && had_entry(row) && (!has_entry(row) || entry_moves(row));
}

/* Appends the deletion of entries of one topic, each by its key: for a list, MySQL may read all rows of a small table, which
 * others may hold. MariaDB does not use a list with one element as a key. */
static void append_old_entries(struct mysql_link *link, const struct mysql_topic *topic)
{
    struct buffer *out = NULL;
    size_t count = 0;
    for (size_t i = 0; i <= link->rows.list.count; i++) {
        const struct mysql_row *row = i < link->rows.list.count ? link->rows.list.at[i] : NULL;
        if (count == ENTRIES_MAX || (!row && count)) {
            buffer_append_text(out, link->is_mariadb
                                        ? ")"
                                        : ") f STRAIGHT_JOIN tarry.job_grp g FORCE INDEX (PRIMARY) "
                                          "ON g.topic=f.t AND g.grp=f.k AND g.level=f.l AND "
                                          "g.due=f.d AND g.seq=f.s");
            count = 0;
        }
        if (!row || !entry_goes(row, topic))
            continue;
        bool is_first = !count++;
        if (is_first)
            out = mysql_statement(link, NULL);
        if (link->is_mariadb) {
            if (is_first)
                buffer_append_format(
                    out,
                    "DELETE FROM tarry.server_job_grp WHERE topic=%u AND (grp,level,due,seq) IN (",
                    topic->number);
            for (int k = is_first ? 0 : 1; k < 2; k++) {
                buffer_append_text(out, is_first && k == 0 ? "(" : ",(");
                append_entry(out, row->stored_group, (int64_t)row->stored_at.level,
                             row->stored_at.due_ms, row->stored_at.sequence);
            }
            continue;
        }
        buffer_append_text(out, is_first ? "DELETE g FROM (SELECT " : " UNION ALL SELECT ");
        buffer_append_format(out, "%u%s,%lld%s,%u%s,%lld%s,%llu%s", topic->number,
                             is_first ? " AS t" : "", (long long)group_number(row->stored_group),
                             is_first ? " AS k" : "", row->stored_at.level, is_first ? " AS l" : "",
                             (long long)row->stored_at.due_ms, is_first ? " AS d" : "",
                             (unsigned long long)row->stored_at.sequence, is_first ? " AS s" : "");
    }
}

static void append_new_entries(struct mysql_link *link, const struct mysql_topic *topic)
{
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        if (row->topic != topic || !has_entry(row) || (had_entry(row) && !entry_moves(row)))
            continue;
        if (!out)
            buffer_append_text(out = mysql_statement(link, NULL),
                               "INSERT IGNORE INTO tarry.job_grp VALUES ");
        else
            buffer_append_byte(out, ',');
        buffer_append_format(out, "(%u,", topic->number);
        append_entry(out, row->group, row->level, row->due_ms, row->sequence);
    }
}

/* ---- tried jobs of strict groups ---- */

/* Returns whether the stored row has an entry in tarry.job_tried. */
static bool was_tried(const struct mysql_row *row)
{
    return is_strict(row->topic) && had_entry(row) &&
           row->stored_attempt >= (row->was_leased ? 2 : 1);
}

static bool is_tried(const struct mysql_row *row)
{
    return is_strict(row->topic) && has_entry(row) &&
           row->attempt >= (row->state == JOB_LEASED ? 2 : 1);
}

static void append_tried(struct mysql_link *link, const struct mysql_row *row)
{
    bool was = was_tried(row), is = is_tried(row), moves = was && is && entry_moves(row);
    if (was && (!is || moves))
        buffer_append_format(
            mysql_statement(link, NULL),
            "DELETE FROM tarry.job_tried WHERE topic=%u AND grp=%lld AND level=%u AND due=%lld AND "
            "seq=%llu",
            row->topic->number, (long long)group_number(row->stored_group), row->stored_at.level,
            (long long)row->stored_at.due_ms, (unsigned long long)row->stored_at.sequence);
    if (is && (!was || moves)) {
        struct buffer *out = mysql_statement(link, NULL);
        buffer_append_format(out, "INSERT IGNORE INTO tarry.job_tried VALUES (%u,",
                             row->topic->number);
        append_entry(out, row->group, row->level, row->due_ms, row->sequence);
    }
}

/* Notes that a tried job does not hold its strict group any longer: others may be due before it. */
static void note_let_go(struct mysql_link *link, const struct mysql_topic *topic, int64_t group)
{
    struct mysql_note note = {
        .topic = topic->number, .group = group_number(group), .waits = true, .due_ms = 0};
    note_add(link, &note);
    notify_freed(link, topic);
}

static void note_row(struct mysql_link *link, const struct mysql_row *row)
{
    if (was_tried(row) && !row->was_leased && !(is_tried(row) && row->state == JOB_DELAYED))
        note_let_go(link, row->topic, row->stored_group);
    bool is_leased = row->exists && !row->fresh && row->state == JOB_LEASED;
    if (row->stored && row->was_leased && row->slot && !is_leased)
        note_freed(link, row);
    if (has_groups(row->topic) && row->exists && row->state == JOB_DELAYED &&
        (row->fresh || (row->changed && !row->extended && !row->requested))) {
        struct mysql_note note = {.topic = row->topic->number,
                                  .group = group_number(row->group),
                                  .waits = true,
                                  .due_ms = row->due_ms,
                                  .sequence = row->sequence};
        note_add(link, &note);
    }
}

void mysql_append_flow_rows(struct mysql_link *link)
{
    for (size_t i = 0; i < link->rows.list.count; i++) {
        const struct mysql_row *row = link->rows.list.at[i];
        if (row->topic && row->topic->number) {
            note_row(link, row);
            append_tried(link, row);
        }
    }
    for (size_t i = 0; i < link->topics.wanted.count; i++) {
        struct mysql_topic *topic = link->topics.wanted.at[i];
        if (topic->number && topic->sets_hold) {
            buffer_append_format(
                mysql_statement(link, NULL),
                "INSERT IGNORE INTO tarry.grp (topic,grp,name) VALUES (%u,%d,'* ')", topic->number,
                MYSQL_GROUP_TOPIC);
            buffer_append_format(mysql_statement(link, NULL),
                                 "UPDATE tarry.topic SET flow=flow|4 WHERE topic=%u AND flow&4=0",
                                 topic->number);
            topic->sets_hold = topic->is_remembered = false;
        }
        if (topic->number && has_groups(topic)) {
            append_old_entries(link, topic);
            append_new_entries(link, topic);
        }
    }
    append_notes(link);
}

/* ---- takes: reading ---- */

static bool takes_from(const struct mysql_link *link, const struct mysql_topic *topic)
{
    return topic->flow && topic->number && topic->take_max && !mysql_topic_is_paused(link, topic);
}

bool mysql_flow_takes(const struct mysql_link *link)
{
    for (size_t i = 0; link->transaction.has_takes && i < link->topics.wanted.count; i++)
        if (link->topics.wanted.at[i]->flow && link->topics.wanted.at[i]->number)
            return true;
    return false;
}

static struct mysql_group *group_find(const struct mysql_link *link,
                                      const struct mysql_topic *topic, int64_t number)
{
    for (size_t i = 0; i < link->flow.groups.count; i++)
        if (link->flow.groups.at[i]->number == number && link->flow.groups.at[i]->topic == topic)
            return link->flow.groups.at[i];
    return NULL;
}

static struct mysql_group *group_need(struct mysql_link *link, struct mysql_topic *topic,
                                      int64_t number)
{
    struct mysql_group *group = group_find(link, topic, number);
    if (group)
        return group;
    group = calloc(1, sizeof *group);
    if (!group || !mysql_group_list_add(&link->flow.groups, group)) {
        free(group);
        return NULL;
    }
    group->topic = topic;
    group->number = number;
    group->note_due_ms = INT64_MAX;
    return group;
}

static bool read_notes(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    enum { NUMBER, GROUP, FREED, DUE, HELD, SEQUENCE };
    MYSQL_ROW row;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct mysql_note note = {.topic = step->topic->number,
                                  .group = mysql_number(row[GROUP]),
                                  .freed = mysql_number(row[FREED]),
                                  .waits = row[DUE] != NULL,
                                  .due_ms = mysql_number(row[DUE]),
                                  .held_ms = mysql_number(row[HELD]),
                                  .sequence = (uint64_t)mysql_number(row[SEQUENCE])};
        if (!mysql_note_list_add(&link->flow.read_notes, note) ||
            !mysql_note_numbers_add(&link->flow.read_numbers, (uint64_t)mysql_number(row[NUMBER])))
            return false;
        struct mysql_group *group = group_need(link, step->topic, note.group);
        if (!group)
            return false;
        group->has_notes = true;
        group->freed += note.freed;
        if (note.waits &&
            (note.due_ms < group->note_due_ms ||
             (note.due_ms == group->note_due_ms && note.sequence < group->note_sequence))) {
            group->note_due_ms = note.due_ms;
            group->note_sequence = note.sequence;
        }
        if (note.held_ms > group->note_held_ms)
            group->note_held_ms = note.held_ms;
    }
    return true;
}

static bool read_candidates(struct mysql_link *link, const struct mysql_step *step,
                            MYSQL_RES *result)
{
    MYSQL_ROW row;
    while ((row = libmariadb.mysql_fetch_row(result)))
        if (!group_need(link, step->topic, mysql_number(row[0])))
            return false;
    return true;
}

void mysql_append_flow_read(struct mysql_link *link)
{
    mysql_flow_clear(link);
    mysql_topics_count_takes(link);
    for (size_t i = 0; i < link->topics.wanted.count; i++) {
        struct mysql_topic *topic = link->topics.wanted.at[i];
        if (!takes_from(link, topic))
            continue;
        must(link, group_need(link, topic, MYSQL_GROUP_TOPIC) != NULL);
        buffer_append_format(
            mysql_statement_of(link, (struct mysql_step){.read = read_notes, .topic = topic}),
            "SELECT n,grp,freed,due,held,seq FROM tarry.grp_note FORCE INDEX (grp_note_topic) "
            "WHERE "
            "topic=%u LIMIT %d FOR UPDATE SKIP LOCKED",
            topic->number, NOTES_MAX);
        if (!has_groups(topic))
            continue;
        size_t most =
            topic->level_count > 1 && topic->take_max < GROUPS_MAX ? GROUPS_MAX : topic->take_max;
        buffer_append_format(
            mysql_statement_of(link, (struct mysql_step){.read = read_candidates, .topic = topic}),
            "SELECT k.grp FROM tarry.grp k FORCE INDEX (grp_open) WHERE k.topic=%u AND "
            "k.open_at<=%lld AND k.grp>1 ORDER BY k.in_flight*10000 DIV k.weight,IF(k.is_ready,"
            "k.pass,GREATEST(k.pass,(SELECT h.pass FROM tarry.grp h WHERE h.topic=%u AND "
            "h.grp=1))),k.next_due,k.next_seq LIMIT %zu",
            topic->number, (long long)link->now_ms, topic->number, most);
    }
}

/* ---- takes: locks ---- */

/* Returns the limits in force. */
static struct flow_limits limits_of(const struct mysql_group *group)
{
    if (group->number == MYSQL_GROUP_TOPIC)
        return group->topic->settings.flow.topic;
    return flow_group_limits(&group->topic->settings.flow, &group->settings);
}

static bool read_groups(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    enum {
        GROUP,
        WEIGHT,
        LIMIT,
        RATE_COUNT,
        RATE_UNIT,
        BURST,
        PAUSED,
        PAUSED_UNTIL,
        IN_FLIGHT,
        PASS,
        FULL,
        HELD,
        NEXT_DUE,
        IS_READY,
        NEXT_SEQUENCE
    };
    MYSQL_ROW row;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        struct mysql_group *group = group_find(link, step->topic, mysql_number(row[GROUP]));
        if (!group)
            continue;
        group->is_locked = true;
        group->settings = (struct group_settings){
            .weight = (uint32_t)mysql_number(row[WEIGHT]),
            .limits = {.limit = (uint32_t)mysql_number(row[LIMIT]),
                       .rate = {(uint32_t)mysql_number(row[RATE_COUNT]),
                                (enum frequency_unit)mysql_number(row[RATE_UNIT])},
                       .burst = (uint32_t)mysql_number(row[BURST])},
            .paused = mysql_number(row[PAUSED]) != 0,
            .paused_until_ms = mysql_number(row[PAUSED_UNTIL])};
        group->in_flight = mysql_number(row[IN_FLIGHT]);
        group->pass = mysql_number(row[PASS]);
        group->full_us = mysql_number(row[FULL]);
        group->held_ms = mysql_number(row[HELD]);
        group->next_due_ms = mysql_number(row[NEXT_DUE]);
        group->is_ready = mysql_number(row[IS_READY]) != 0;
        group->next_sequence = (uint64_t)mysql_number(row[NEXT_SEQUENCE]);
    }
    return true;
}

void mysql_append_flow_lock(struct mysql_link *link)
{
    for (size_t i = 0; i < link->topics.wanted.count; i++) {
        struct mysql_topic *topic = link->topics.wanted.at[i];
        struct buffer *out = NULL;
        for (size_t k = 0; k < link->flow.groups.count; k++) {
            if (link->flow.groups.at[k]->topic != topic)
                continue;
            if (!out)
                buffer_append_format(
                    out = mysql_statement_of(
                        link, (struct mysql_step){.read = read_groups, .topic = topic}),
                    "SELECT grp,weight,lim,rate_count,rate_unit,burst,paused,paused_until,"
                    "in_flight,pass,full_us,held_until,next_due,is_ready,next_seq FROM tarry.grp "
                    "FORCE "
                    "INDEX (PRIMARY) WHERE topic=%u AND grp IN (",
                    topic->number);
            else
                buffer_append_byte(out, ',');
            buffer_append_i64(out, link->flow.groups.at[k]->number);
        }
        if (out)
            buffer_append_text(out, ") FOR UPDATE SKIP LOCKED");
    }
}

/* ---- takes: rules ---- */

/* Returns how many tokens a bucket has. */
static int64_t tokens_of(const struct flow_limits *limits, int64_t full_us, int64_t now_us)
{
    int64_t interval_us = flow_interval_us(limits->rate);
    if (!interval_us)
        return ROOM_MAX;
    int64_t first_us = flow_token_us(full_us, interval_us, flow_burst(limits));
    if (first_us > now_us)
        return 0;
    int64_t from_us = full_us > now_us ? full_us : now_us;
    return (now_us + full_us - first_us - from_us) / interval_us + 1;
}

static bool is_group_paused(const struct mysql_link *link, const struct mysql_group *group)
{
    return group->settings.paused &&
           (!group->settings.paused_until_ms || group->settings.paused_until_ms > link->now_ms);
}

/* Returns how many jobs of a group, or of a topic, may be delivered now. */
static int64_t room_of(const struct mysql_link *link, const struct mysql_group *group)
{
    struct flow_limits limits = limits_of(group);
    bool is_ordered = is_strict(group->topic) && group->number != MYSQL_GROUP_TOPIC;
    if (group->held_ms > link->now_ms || is_group_paused(link, group) ||
        (is_ordered && group->in_flight > 0))
        return 0;
    int64_t tokens = tokens_of(&limits, group->full_us, link->now_ms * 1000);
    int64_t room = limits.limit ? (int64_t)limits.limit - group->in_flight : ROOM_MAX;
    room = room < tokens ? room : tokens;
    return room > 1 && is_ordered ? 1 : room > 0 ? room : 0;
}

/* Returns before what time a group cannot be served; INT64_MAX: not before something changes. */
static int64_t gate_of(const struct mysql_link *link, const struct mysql_group *group)
{
    struct flow_limits limits = limits_of(group);
    int64_t gate_ms = group->held_ms > link->now_ms ? group->held_ms : 0;
    if (limits.limit && group->in_flight >= (int64_t)limits.limit)
        return INT64_MAX;
    if (is_strict(group->topic) && group->number != MYSQL_GROUP_TOPIC && group->in_flight > 0)
        return INT64_MAX;
    if (is_group_paused(link, group)) {
        if (!group->settings.paused_until_ms)
            return INT64_MAX;
        gate_ms =
            group->settings.paused_until_ms > gate_ms ? group->settings.paused_until_ms : gate_ms;
    }
    int64_t interval_us = flow_interval_us(limits.rate);
    int64_t token_ms =
        interval_us ? (flow_token_us(group->full_us, interval_us, flow_burst(&limits)) + 999) / 1000
                    : 0;
    return token_ms > gate_ms ? token_ms : gate_ms;
}

static int64_t load_of(const struct mysql_group *group, size_t more)
{
    return (int64_t)flow_load((uint64_t)(group->in_flight > 0 ? group->in_flight : 0) + more,
                              flow_weight(&group->settings));
}

static int64_t step_of(const struct mysql_group *group)
{
    return (int64_t)flow_step(flow_weight(&group->settings));
}

/* Adds the notes of a group to it. */
static void add_notes(const struct mysql_link *link, struct mysql_group *group, int64_t base)
{
    group->in_flight -= group->freed;
    if (group->note_held_ms > group->held_ms)
        group->held_ms = group->note_held_ms;
    if (group->note_due_ms < group->next_due_ms ||
        (group->note_due_ms == group->next_due_ms && group->note_sequence < group->next_sequence)) {
        group->next_due_ms = group->note_due_ms;
        group->next_sequence = group->note_sequence;
    }
    if (!group->is_ready && group->next_due_ms <= link->now_ms) {
        group->is_ready = true;
        group->pass = group->pass > base ? group->pass : base;
    }
}

/* Returns how many jobs of a topic may be delivered now. */
static size_t places_of(const struct mysql_link *link, const struct mysql_topic *topic)
{
    const struct mysql_group *gate = group_find(link, topic, MYSQL_GROUP_TOPIC);
    int64_t room = topic->take_max;
    if (topic->flow & (MYSQL_FLOW_LIMIT | MYSQL_FLOW_RATE)) {
        if (!gate || !gate->is_locked) /* another server serves the topic now */
            return 0;
        int64_t own = room_of(link, gate);
        room = own < room ? own : room;
    }
    return (size_t)room;
}

/* ---- takes: jobs ---- */

static bool read_found(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    enum { GROUP, LEVEL, DUE, SEQUENCE, IS_TRIED };
    MYSQL_ROW row;
    struct mysql_group *group = NULL;
    while ((row = libmariadb.mysql_fetch_row(result))) {
        int64_t number = mysql_number(row[GROUP]);
        if (!group || group->number != number)
            group = group_find(link, step->topic, number);
        struct mysql_found found = {.place = {.topic = step->topic->number,
                                              .level = (uint32_t)mysql_number(row[LEVEL]),
                                              .due_ms = mysql_number(row[DUE]),
                                              .sequence = (uint64_t)mysql_number(row[SEQUENCE])}};
        if (group && mysql_number(row[IS_TRIED])) {
            group->has_tried = true;
            group->tried = found.place;
        } else if (group && !mysql_found_list_add(&group->found, found)) {
            return false;
        }
    }
    return true;
}

/* Lets a tried job take the place of all others of its group: it comes first, or holds them until it is due. */
static bool prefer_tried(const struct mysql_link *link, struct mysql_group *group)
{
    if (!group->has_tried)
        return true;
    group->found.count = 0;
    return group->tried.due_ms > link->now_ms ||
           mysql_found_list_add(&group->found, (struct mysql_found){group->tried});
}

static void append_levels(struct buffer *out, const struct mysql_topic *topic)
{
    for (size_t i = 0; i < topic->level_count; i++)
        buffer_append_format(out, "%s%d", i ? "," : "", topic->levels[i]);
}

static bool has_one_level(const struct mysql_topic *topic)
{
    return topic->level_count == 1;
}

/* Appends the time before which no job of a group waits. A take skips notes that others lock, so it may have read the
 * note of a job and not those of the jobs before it. A strict group therefore looks at all notes that are committed, by
 * the snapshot that also shows the jobs. */
static void append_bound(struct buffer *out, const struct mysql_group *group)
{
    long long due_ms = (long long)group->next_due_ms;
    if (is_strict(group->topic))
        buffer_append_format(out,
                             "LEAST(%lld,COALESCE((SELECT MIN(n.due) FROM tarry.grp_note n FORCE "
                             "INDEX (grp_note_topic) WHERE n.topic=%u AND n.grp=%lld),%lld))",
                             due_ms, group->topic->number, (long long)group->number, due_ms);
    else
        buffer_append_i64(out, due_ms);
}

/* Appends the search of the first jobs of a group, without locks. If all jobs have one priority, those that are not due
 * yet are included, so that the first job that waits after the take is known. */
static void append_search(struct mysql_link *link, struct buffer *out,
                          const struct mysql_group *group)
{
    buffer_append_format(out,
                         "(SELECT g.grp,g.level,g.due,g.seq,0 FROM tarry.job_grp g FORCE INDEX "
                         "(PRIMARY) STRAIGHT_JOIN tarry.job j FORCE INDEX (PRIMARY) ON "
                         "j.topic=g.topic AND j.level=g.level AND j.due=g.due AND j.seq=g.seq "
                         "WHERE g.topic=%u AND g.grp=%lld AND g.level IN (",
                         group->topic->number, (long long)group->number);
    append_levels(out, group->topic);
    buffer_append_text(out, ") AND g.due>=");
    append_bound(out, group);
    buffer_append_format(out,
                         " AND g.due<=%lld AND j.state=1 AND (j.expire IS NULL OR "
                         "j.expire>%lld) ORDER BY g.level,g.due,g.seq LIMIT %zu)",
                         has_one_level(group->topic) ? (long long)INT64_MAX
                                                     : (long long)link->now_ms,
                         (long long)link->now_ms, group->wanted);
    if (is_strict(group->topic))
        buffer_append_format(
            out,
            " UNION ALL (SELECT x.grp,x.level,x.due,x.seq,1 FROM tarry.job_tried x FORCE INDEX "
            "(PRIMARY) STRAIGHT_JOIN tarry.job j FORCE INDEX (PRIMARY) ON j.topic=x.topic AND "
            "j.level=x.level AND j.due=x.due AND j.seq=x.seq WHERE x.topic=%u AND x.grp=%lld AND "
            "j.state=1 AND (j.expire IS NULL OR j.expire>%lld) ORDER BY GREATEST(x.due,%lld),x.seq "
            "LIMIT 1)",
            group->topic->number, (long long)group->number, (long long)link->now_ms,
            (long long)link->now_ms);
}

/* Returns whether `a` is served before `b`; both have a job. */
static bool serves_before(const struct mysql_group *a, const struct mysql_group *b)
{
    const struct mysql_place *x = &a->found.at[a->chosen].place, *y = &b->found.at[b->chosen].place;
    if (x->level != y->level)
        return x->level < y->level;
    int64_t load_a = load_of(a, a->chosen), load_b = load_of(b, b->chosen);
    if (load_a != load_b)
        return load_a < load_b;
    int64_t pass_a = a->pass + (int64_t)a->chosen * step_of(a);
    int64_t pass_b = b->pass + (int64_t)b->chosen * step_of(b);
    if (pass_a != pass_b)
        return pass_a < pass_b;
    if (x->due_ms != y->due_ms)
        return x->due_ms < y->due_ms;
    return x->sequence < y->sequence;
}

static bool is_open(const struct mysql_link *link, const struct mysql_group *group)
{
    return group->is_locked && group->number != MYSQL_GROUP_TOPIC && group->room > 0 &&
           group->next_due_ms <= link->now_ms;
}

/* Returns whether the next job that was found is ready. */
static bool has_ready(const struct mysql_link *link, const struct mysql_group *group)
{
    return group->chosen < group->found.count &&
           group->found.at[group->chosen].place.due_ms <= link->now_ms;
}

/* Returns the number of jobs to search at most: one more than the group may deliver, which shows the next one. */
static size_t most_of(const struct mysql_group *group, size_t places)
{
    return ((size_t)group->room < places ? (size_t)group->room : places) + 1;
}

/* Returns whether the jobs that were found are all that a group may deliver. */
static bool is_exhausted(const struct mysql_group *group, size_t places)
{
    return group->wanted >= most_of(group, places) || group->found.count < group->wanted ||
           group->chosen < group->found.count;
}

/* Serves the groups of a topic one job after the other. Returns false if a group must be searched for more
 * jobs first, which is then marked. */
static bool choose(struct mysql_link *link, struct mysql_topic *topic, size_t places)
{
    size_t first = link->flow.choices.count;
    bool is_done = true;
    for (size_t i = 0; i < link->flow.groups.count; i++) {
        struct mysql_group *group = link->flow.groups.at[i];
        if (group->topic != topic)
            continue;
        group->chosen = 0;
        must(link, prefer_tried(link, group));
    }
    while (is_done && link->flow.choices.count - first < places) {
        struct mysql_group *best = NULL;
        for (size_t i = 0; i < link->flow.groups.count; i++) {
            struct mysql_group *group = link->flow.groups.at[i];
            if (group->topic != topic || !is_open(link, group) ||
                group->chosen >= (size_t)group->room)
                continue;
            if (!has_ready(link, group)) {
                is_done = is_done && is_exhausted(group, places);
                continue;
            }
            if (!best || serves_before(group, best))
                best = group;
        }
        if (!best || !is_done)
            break;
        struct mysql_choice choice = {.group = best,
                                      .place = best->found.at[best->chosen].place,
                                      .pass = best->pass + (int64_t)best->chosen * step_of(best)};
        must(link, mysql_choice_list_add(&link->flow.choices, choice));
        best->chosen++;
        if (link->wire.text.failed)
            break;
    }
    if (!is_done)
        link->flow.choices.count = first;
    return is_done;
}

/* Appends searches of the groups that have too few jobs. */
static void append_searches(struct mysql_link *link, struct mysql_topic *topic, size_t places)
{
    struct buffer *out = NULL;
    size_t open = 0;
    for (size_t i = 0; i < link->flow.groups.count; i++)
        open += link->flow.groups.at[i]->topic == topic && is_open(link, link->flow.groups.at[i]);
    for (size_t i = 0; i < link->flow.groups.count; i++) {
        struct mysql_group *group = link->flow.groups.at[i];
        if (group->topic != topic || !is_open(link, group) ||
            (group->wanted && is_exhausted(group, places)))
            continue;
        size_t most = most_of(group, places);
        size_t wanted = group->wanted ? group->wanted * 4 : places / open + 2;
        group->wanted = wanted < most ? wanted : most;
        group->found.count = 0;
        if (!out)
            out = mysql_statement_of(link, (struct mysql_step){.read = read_found, .topic = topic});
        else
            buffer_append_text(out, " UNION ALL ");
        append_search(link, out, group);
    }
}

static void prepare(struct mysql_link *link)
{
    for (size_t i = 0; i < link->flow.groups.count; i++) {
        struct mysql_group *group = link->flow.groups.at[i];
        const struct mysql_group *gate = group_find(link, group->topic, MYSQL_GROUP_TOPIC);
        if (!group->is_locked)
            continue;
        add_notes(link, group, gate && gate->is_locked && gate != group ? gate->pass : 0);
        group->room = room_of(link, group);
    }
    for (size_t i = 0; i < link->flow.read_notes.count; i++) {
        struct mysql_topic *topic =
            mysql_numbers_find(&link->topics.numbers,
                               slice_make(&link->flow.read_notes.at[i].topic, sizeof(uint32_t)));
        const struct mysql_group *group =
            topic ? group_find(link, topic, link->flow.read_notes.at[i].group) : NULL;
        if (group && group->is_locked)
            must(link, mysql_note_numbers_add(&link->flow.added, link->flow.read_numbers.at[i]));
    }
}

void mysql_append_flow_find(struct mysql_link *link)
{
    bool is_done = true;
    if (!link->flow.is_prepared)
        prepare(link);
    link->flow.is_prepared = true;
    link->flow.choices.count = 0;
    for (size_t i = 0; i < link->topics.wanted.count; i++) {
        struct mysql_topic *topic = link->topics.wanted.at[i];
        if (!takes_from(link, topic))
            continue;
        size_t places = places_of(link, topic);
        topic->take_max = (uint32_t)places;
        if (!has_groups(topic) || !places || choose(link, topic, places))
            continue;
        append_searches(link, topic, places);
        is_done = false;
    }
    link->flow.is_chosen = is_done;
}

size_t mysql_flow_position(const struct mysql_link *link, const struct mysql_topic *topic,
                           uint64_t sequence)
{
    for (size_t i = 0; i < link->flow.choices.count; i++)
        if (link->flow.choices.at[i].place.topic == topic->number &&
            link->flow.choices.at[i].place.sequence == sequence)
            return i + 1;
    return 0;
}

void mysql_flow_lease(struct mysql_link *link, const struct mysql_taken *taken)
{
    struct mysql_topic *topic = taken->topic;
    if (taken->named) { /* without regard to limits; notes add it to the groups */
        struct mysql_note note = {.topic = topic->number, .freed = -1};
        if (has_groups(topic)) {
            note.group = group_number(taken->group);
            note_add(link, &note);
        }
        if (is_strict(topic) && taken->job.job.attempt > 1)
            note_let_go(link, topic, taken->group);
        if (topic->flow & MYSQL_FLOW_LIMIT) {
            note.group = MYSQL_GROUP_TOPIC;
            note_add(link, &note);
        }
        return;
    }
    struct mysql_group *gate = group_find(link, topic, MYSQL_GROUP_TOPIC);
    size_t position = mysql_flow_position(link, topic, taken->job.job.sequence);
    if (gate)
        gate->given++;
    if (!position)
        return;
    const struct mysql_choice *choice = &link->flow.choices.at[position - 1];
    choice->group->given++;
    if (gate && choice->pass > gate->pass)
        gate->pass = choice->pass;
}

/* ---- takes: writing ---- */

/* Appends the due time or the sequence of the first job that waits, or `otherwise`. */
static void append_first(const struct mysql_link *link, struct buffer *out,
                         const struct mysql_group *group, const char *column, int64_t otherwise)
{
    const struct mysql_topic *topic = group->topic;
    buffer_append_text(out, topic->level_count > 1 ? "LEAST(" : "(");
    for (size_t i = 0; i < topic->level_count; i++)
        buffer_append_format(
            out,
            "%sCOALESCE((SELECT g.%s FROM tarry.job_grp g FORCE INDEX (PRIMARY) STRAIGHT_JOIN "
            "tarry.job j FORCE INDEX (PRIMARY) ON j.topic=g.topic AND j.level=g.level AND "
            "j.due=g.due AND j.seq=g.seq WHERE g.topic=%u AND g.grp=%lld AND g.level=%d AND "
            "g.due>=%lld AND j.state=1 AND (j.expire IS NULL OR j.expire>%lld) ORDER BY "
            "g.due,g.seq LIMIT 1),%lld)",
            i ? "," : "", column, topic->number, (long long)group->number, topic->levels[i],
            (long long)group->next_due_ms, (long long)link->now_ms, (long long)otherwise);
    buffer_append_byte(out, ')');
}

/* The first job of a group that waits after the take. */
struct next {
    bool is_known; /* else the database must search it */
    int64_t due_ms;
    uint64_t sequence;
};

static struct next next_of(const struct mysql_group *group)
{
    if (!group->wanted)
        return (struct next){true, group->next_due_ms, group->next_sequence};
    if (group->has_tried && group->given) /* the jobs behind it were not searched */
        return (struct next){true, 0, 0};
    if (group->has_tried)
        return (struct next){true, group->tried.due_ms, group->tried.sequence};
    if (!has_one_level(group->topic) || group->given != group->chosen)
        return (struct next){0};
    if (group->given < group->found.count) {
        const struct mysql_place *place = &group->found.at[group->given].place;
        return (struct next){true, place->due_ms, place->sequence};
    }
    return (struct next){group->found.count < group->wanted, INT64_MAX, 0};
}

/* Changes a group, or a topic, by what it has delivered. */
static void spend(const struct mysql_link *link, struct mysql_group *group)
{
    struct flow_limits limits = limits_of(group);
    int64_t interval_us = flow_interval_us(limits.rate);
    int64_t given = (int64_t)group->given, now_us = link->now_ms * 1000;
    bool is_topic = group->number == MYSQL_GROUP_TOPIC;
    if (!is_topic || group->topic->flow & MYSQL_FLOW_LIMIT)
        group->in_flight += given;
    if (!is_topic)
        group->pass += given * step_of(group);
    if (given && interval_us)
        group->full_us = (group->full_us > now_us ? group->full_us : now_us) + given * interval_us;
}

static void append_topic(struct mysql_link *link, const struct mysql_group *gate)
{
    buffer_append_format(mysql_statement(link, NULL),
                         "UPDATE tarry.grp FORCE INDEX (PRIMARY) SET in_flight=%lld,pass=%lld,"
                         "full_us=%lld,held_until=%lld WHERE topic=%u AND grp=%d",
                         (long long)gate->in_flight, (long long)gate->pass,
                         (long long)gate->full_us, (long long)gate->held_ms, gate->topic->number,
                         MYSQL_GROUP_TOPIC);
}

/* Appends the row of a group whose next job the database searches. Assignments are evaluated from left to right. */
static void append_searched(struct mysql_link *link, const struct mysql_group *group)
{
    struct buffer *out = mysql_statement(link, NULL);
    buffer_append_format(out,
                         "UPDATE tarry.grp FORCE INDEX (PRIMARY) SET in_flight=%lld,pass=%lld,"
                         "full_us=%lld,held_until=%lld,next_seq=",
                         (long long)group->in_flight, (long long)group->pass,
                         (long long)group->full_us, (long long)group->held_ms);
    if (has_one_level(group->topic))
        append_first(link, out, group, "seq", 0);
    else
        buffer_append_byte(out, '0');
    buffer_append_text(out, ",next_due=");
    append_first(link, out, group, "due", INT64_MAX);
    buffer_append_format(out,
                         ",is_ready=next_due<=%lld,idle_since=IF(next_due<%lld OR in_flight>0,NULL,"
                         "COALESCE(idle_since,%lld)),open_at=",
                         (long long)link->now_ms, (long long)INT64_MAX, (long long)link->now_ms);
    int64_t gate_ms = gate_of(link, group);
    if (gate_ms == INT64_MAX)
        buffer_append_i64(out, gate_ms);
    else
        buffer_append_format(out, "GREATEST(next_due,%lld)", (long long)gate_ms);
    buffer_append_format(out, " WHERE topic=%u AND grp=%lld", group->topic->number,
                         (long long)group->number);
}

/* Appends the values of a group to a statement for many. */
static void append_values(const struct mysql_link *link, struct buffer *out,
                          const struct mysql_group *group, struct next next, bool is_first)
{
    int64_t gate_ms = gate_of(link, group);
    int64_t open_ms = gate_ms > next.due_ms ? gate_ms : next.due_ms;
    bool is_idle = next.due_ms == INT64_MAX && group->in_flight <= 0;
    buffer_append_format(
        out,
        is_first ? "SELECT %u AS t,%lld AS g,%lld AS a,%lld AS b,%lld AS c,%lld AS d,%lld AS "
                   "e,%llu AS f,%d AS h,%lld AS i,%d AS j"
                 : " UNION ALL SELECT %u,%lld,%lld,%lld,%lld,%lld,%lld,%llu,%d,%lld,%d",
        group->topic->number, (long long)group->number, (long long)group->in_flight,
        (long long)group->pass, (long long)group->full_us, (long long)group->held_ms,
        (long long)next.due_ms, (unsigned long long)next.sequence, next.due_ms <= link->now_ms,
        (long long)open_ms, is_idle);
}

/* Appends the rows of groups, those with a known next job in one statement. */
static void append_groups(struct mysql_link *link)
{
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->flow.groups.count; i++) {
        struct mysql_group *group = link->flow.groups.at[i];
        bool is_topic = group->number == MYSQL_GROUP_TOPIC;
        if (!group->is_locked || (is_topic && !group->given && !group->has_notes))
            continue;
        spend(link, group);
        if (is_topic)
            append_topic(link, group);
        else if (!next_of(group).is_known)
            append_searched(link, group);
    }
    for (size_t i = 0; i < link->flow.groups.count; i++) {
        const struct mysql_group *group = link->flow.groups.at[i];
        struct next next = next_of(group);
        if (!group->is_locked || group->number == MYSQL_GROUP_TOPIC || !next.is_known)
            continue;
        bool is_first = !out;
        if (is_first)
            buffer_append_text(out = mysql_statement(link, NULL), "UPDATE (");
        append_values(link, out, group, next, is_first);
    }
    if (out)
        buffer_append_format(
            out,
            ") x STRAIGHT_JOIN tarry.grp k FORCE INDEX (PRIMARY) ON k.topic=x.t AND "
            "k.grp=x.g SET k.in_flight=x.a,k.pass=x.b,k.full_us=x.c,k.held_until="
            "x.d,k.next_due=x.e,k.next_seq=x.f,k.is_ready=x.h,k.open_at=x.i,"
            "k.idle_since=IF(x.j,COALESCE(k.idle_since,%lld),NULL)",
            (long long)link->now_ms);
}

/* Appends the deletion of the notes that were added to groups, each by its key (see append_old_entries). */
static void append_delete_notes(struct mysql_link *link)
{
    struct buffer *out = NULL;
    for (size_t i = 0; i < link->flow.added.count; i++) {
        bool is_first = i % ENTRIES_MAX == 0;
        if (is_first)
            out = mysql_statement(link, NULL);
        if (link->is_mariadb)
            buffer_append_text(out,
                               is_first ? "DELETE FROM tarry.server_grp_note WHERE n IN (" : ",");
        else
            buffer_append_text(out, is_first ? "DELETE x FROM (SELECT " : " UNION ALL SELECT ");
        buffer_append_u64(out, link->flow.added.at[i]);
        if (!link->is_mariadb && is_first)
            buffer_append_text(out, " AS n");
        if (i + 1 == link->flow.added.count || (i + 1) % ENTRIES_MAX == 0)
            buffer_append_text(out, link->is_mariadb ? ")"
                                                     : ") f STRAIGHT_JOIN tarry.grp_note x FORCE "
                                                       "INDEX (PRIMARY) ON x.n=f.n");
    }
}

void mysql_append_flow_groups(struct mysql_link *link)
{
    append_groups(link);
    append_delete_notes(link);
    append_notes(link);
}

/* ---- checks ---- */

static bool read_gate(struct mysql_link *link, const struct mysql_step *step, MYSQL_RES *result)
{
    enum { IN_FLIGHT, FULL, HELD, FREED, DUE, OPEN };
    struct mysql_topic *topic = step->topic;
    MYSQL_ROW row = libmariadb.mysql_fetch_row(result);
    if (!row)
        return true;
    struct mysql_group gate = {.topic = topic,
                               .number = MYSQL_GROUP_TOPIC,
                               .in_flight = mysql_number(row[IN_FLIGHT]),
                               .full_us = mysql_number(row[FULL]),
                               .held_ms = mysql_number(row[HELD])};
    topic->gate_ms = gate_of(link, &gate);
    if (has_groups(topic) && row[OPEN])
        topic->open_ms = mysql_number(row[OPEN]);
    if (has_groups(topic) && row[DUE] && mysql_number(row[DUE]) < topic->open_ms)
        topic->open_ms = mysql_number(row[DUE]);
    if (mysql_number(row[FREED])) /* a take must add these notes first */
        topic->gate_ms = topic->open_ms = 0;
    return true;
}

void mysql_append_flow_look(struct mysql_link *link, struct mysql_topic *topic)
{
    topic->gate_ms = topic->open_ms = INT64_MAX;
    buffer_append_format(
        mysql_statement_of(link, (struct mysql_step){.read = read_gate, .topic = topic}),
        "SELECT h.in_flight,h.full_us,h.held_until,EXISTS(SELECT 1 FROM tarry.grp_note n WHERE "
        "n.topic=%u AND n.freed<>0),(SELECT MIN(n.due) FROM tarry.grp_note n WHERE n.topic=%u),"
        "(SELECT k.open_at FROM tarry.grp k FORCE INDEX (grp_open) WHERE k.topic=%u AND k.grp>1 "
        "ORDER BY k.open_at LIMIT 1) FROM tarry.grp h WHERE h.topic=%u AND h.grp=1",
        topic->number, topic->number, topic->number, topic->number);
}

int64_t mysql_flow_next_ms(const struct mysql_topic *topic, int64_t first_ms)
{
    int64_t next_ms = has_groups(topic) ? topic->open_ms : first_ms;
    return next_ms > topic->gate_ms ? next_ms : topic->gate_ms;
}

bool mysql_flow_is_limited(const struct mysql_topic *topic)
{
    return topic->flow & (MYSQL_FLOW_LIMIT | MYSQL_FLOW_OWN | MYSQL_FLOW_STRICT) ||
           topic->settings.flow.group.limit > 0;
}
