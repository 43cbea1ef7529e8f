/*
 * flow: groups, limits, rates and holds of a transaction (job/flow.h).
 *
 * A take locks the rows of the groups that it serves, and of the topic. Everything else adds notes: leases
 * that ended, jobs that wait, holds. A take, or the upkeep, adds them to the rows that it has locked. So no
 * transaction waits for the row of a group. Topics without groups and limits (`flow` is 0) add no statement.
 */
#ifndef TARRY_SQL_MYSQL_FLOW_H
#define TARRY_SQL_MYSQL_FLOW_H

#include "base/vector.h"
#include "queue/queue.h"
#include "sql/mysql/rows.h"

struct mysql_link;
struct mysql_taken;
struct mysql_topic;

enum mysql_flow_flag { /* Bits of topic.flow. The first two are those of job.slot. */
                       MYSQL_FLOW_GROUPS = 1, /* it has groups */
                       MYSQL_FLOW_LIMIT = 2,  /* its leases are counted, because it has a limit */
                       MYSQL_FLOW_RATE = 4,   /* it has a rate or a hold */
                       MYSQL_FLOW_OWN = 8,    /* groups have limits of their own */
                       MYSQL_FLOW_JOBS = 16,  /* groups have a limit of jobs */
                       MYSQL_FLOW_STRICT = 32 /* its order is strict */
};

enum { MYSQL_GROUP_TOPIC = 1, MYSQL_GROUP_EMPTY = 2 }; /* numbers that each topic has */

/* A group that pushes name. */
struct mysql_name {
    struct mysql_topic *topic;
    struct slice name; /* of the push */
    int64_t number;    /* 0: it does not exist yet */
    uint64_t jobs, jobs_max;
};
VECTOR_DECLARE(mysql_name_list, struct mysql_name)

struct mysql_note {
    uint32_t topic;
    int64_t group;
    int64_t freed;
    bool waits;
    int64_t due_ms, held_ms;
    uint64_t sequence; /* of the job that waits */
};
VECTOR_DECLARE(mysql_note_list, struct mysql_note)

struct mysql_found { /* A waiting job of a group, in the order of its group. */
    struct mysql_place place;
};
VECTOR_DECLARE(mysql_found_list, struct mysql_found)

struct mysql_group { /* A group, or a topic, of a take. */
    struct mysql_topic *topic;
    int64_t number;
    bool is_locked; /* its row was read and locked */
    struct group_settings settings;
    int64_t in_flight, pass, full_us, held_ms, next_due_ms;
    uint64_t next_sequence, note_sequence;
    bool is_ready;
    bool has_notes; /* to be added to it: */
    int64_t freed, note_held_ms, note_due_ms;
    int64_t room;
    size_t wanted; /* jobs to search; 0: not searched */
    struct mysql_found_list found;
    bool has_tried; /* a job of the strict group waits after an attempt: */
    struct mysql_place tried;
    size_t chosen, given;
};
VECTOR_DECLARE(mysql_group_list, struct mysql_group *)

struct mysql_choice {          /* A job that a take of a topic with flow is to lease. */
    struct mysql_group *group; /* NULL: the topic has no groups */
    struct mysql_place place;
    int64_t pass;
};
VECTOR_DECLARE(mysql_choice_list, struct mysql_choice)

VECTOR_DECLARE(mysql_note_numbers, uint64_t)

struct mysql_flow {
    struct mysql_name_list names;
    struct mysql_note_list notes; /* to be written */
    struct mysql_group_list groups;
    struct mysql_choice_list choices;       /* in their order within each topic */
    struct mysql_note_numbers added;        /* notes that were added to groups, to be deleted */
    struct mysql_note_numbers read_numbers; /* notes that are locked, with their groups: */
    struct mysql_note_list read_notes;
    bool is_prepared, is_chosen; /* the notes are added to the groups; all choices are made */
};

void mysql_flow_clear(struct mysql_link *link);
void mysql_flow_free(struct mysql_link *link);

/* ---- pushes ---- */

/* Returns whether pushes of the transaction name groups, or go to topics whose groups have a limit of jobs. */
bool mysql_flow_has_names(const struct mysql_link *link);
/* Appends queries for the numbers of the groups that pushes name. */
void mysql_append_group_names(struct mysql_link *link);
bool mysql_groups_are_missing(const struct mysql_link *link);
/* Appends statements that create missing groups, and read their numbers. Returns false if jobs that were read have
 * changed, because their topic had no groups before. */
bool mysql_append_new_groups(struct mysql_link *link);
/* Returns the group of a push, or NULL if its topic has no groups with names or limits of jobs. */
struct mysql_name *mysql_flow_name(struct mysql_link *link, const struct mysql_topic *topic,
                                   struct slice group);

/* ---- changes ---- */

/* Holds the group of a job whose lease was valid, or its topic if it has no group. */
void mysql_flow_hold(struct mysql_link *link, const struct mysql_row *row, int64_t hold_ms);
/* Appends what the changes of rows mean for groups: entries of their jobs, and notes. */
void mysql_append_flow_rows(struct mysql_link *link);

/* ---- takes ---- */

/* Returns whether a take of the transaction names a topic with groups, limits, rates or holds. */
bool mysql_flow_takes(const struct mysql_link *link);
/* Append queries: notes and groups that may be served; then locks; then, as often as needed, jobs. */
void mysql_append_flow_read(struct mysql_link *link);
void mysql_append_flow_lock(struct mysql_link *link);
void mysql_append_flow_find(struct mysql_link *link);
/* Returns the place in the order of its topic of a job that was found; 0: it was not chosen. */
size_t mysql_flow_position(const struct mysql_link *link, const struct mysql_topic *topic,
                           uint64_t sequence);
/* Counts a job that a take leases. `is_named`: by its id, without regard to limits. */
void mysql_flow_lease(struct mysql_link *link, const struct mysql_taken *taken);
/* Appends the new rows of groups and topics. */
void mysql_append_flow_groups(struct mysql_link *link);

/* ---- checks ---- */

/* Appends the check of a topic with flow. */
void mysql_append_flow_look(struct mysql_link *link, struct mysql_topic *topic);
/* Returns when a job of a topic with flow can be taken next; INT64_MAX: not before something changes. */
int64_t mysql_flow_next_ms(const struct mysql_topic *topic, int64_t first_ms);
/* Returns whether the end of a lease may make a job of the topic ready for delivery. */
bool mysql_flow_is_limited(const struct mysql_topic *topic);

#endif
