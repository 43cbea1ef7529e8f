/*
 * topics: the topics of a transaction: their numbers, settings and levels. A transaction reads them
 * again, since another server may have changed them, and creates the missing ones.
 */
#ifndef TARRY_SQL_MYSQL_TOPICS_H
#define TARRY_SQL_MYSQL_TOPICS_H

#include "base/table.h"
#include "base/vector.h"
#include "job/job.h"

struct mysql_link;

struct mysql_topic { /* A topic, as of this transaction or an earlier one. */
    struct table_entry by_name, by_number;
    char name[JOB_TOPIC_BYTES_MAX + 1];
    uint32_t number;    /* 0: no topic of this name */
    bool is_read;       /* in this transaction */
    bool is_remembered; /* its settings and levels are those of the version: */
    uint64_t version, stored_levels;
    bool is_wanted, is_to_be_made, is_made, is_pushed_to;
    bool paused;
    int64_t paused_until_ms;
    struct topic_settings settings;
    bool has_extension;
    bool has_kept;  /* a push has set how long its job is kept */
    bool sets_kept; /* a push of this transaction is the first one */
    bool is_found;  /* used while topics are read */
    int32_t *levels;
    size_t level_count, level_cap;
    int flow;                 /* enum mysql_flow_flag; 0: no groups, limits, rates and holds */
    bool sets_hold;           /* a hold of this transaction is its first one */
    int64_t gate_ms, open_ms; /* found by checks of a topic with flow (flow.h) */
    int64_t jobs;             /* number of jobs, if max_jobs is set */
    uint32_t take_max;        /* sum over all takes of the transaction */
    int64_t next_ms[2];       /* found by checks: at or above the bound, and from 0 */
    bool is_looked[2];
    bool looks_back; /* its check begins some time before the bound */
    int64_t left_ms; /* due time of the first job that a take has found and left; INT64_MAX: none */
};
/* Returns whether finished jobs of the topic may be kept. */
static inline bool mysql_topic_keeps(const struct mysql_topic *topic)
{
    return topic->settings.keep_finished_ms > 0 || topic->has_kept;
}
TABLE_DECLARE(mysql_names, struct mysql_topic, by_name)
TABLE_DECLARE(mysql_numbers, struct mysql_topic, by_number)
VECTOR_DECLARE(mysql_topic_list, struct mysql_topic *)

struct mysql_topics {
    struct mysql_names names;
    struct mysql_numbers numbers;
    struct mysql_topic_list wanted; /* by the transaction */
    bool have_moved;    /* the number or the levels of a topic differ from the remembered ones */
    bool are_in_ticket; /* the ticket checks that they are as remembered */
    int64_t count;      /* of all topics of the queue, if there is a maximum */
};

/* Adds the topics that the calls of the transaction name. Returns false if out of memory. */
bool mysql_want_topics(struct mysql_link *link);
/* Returns true if a topic must be created. */
bool mysql_topics_are_missing(const struct mysql_link *link);
/* Appends a count of topics, locked so that two servers cannot count at the same time. */
void mysql_append_topic_count(struct mysql_link *link);
/* Appends statements that create missing topics, up to the maximum number. */
void mysql_append_new_topics(struct mysql_link *link);

struct mysql_topic *mysql_topic_want_number(struct mysql_link *link, uint32_t number);
bool mysql_topics_are_read(const struct mysql_link *link);
bool mysql_topics_are_known(const struct mysql_link *link); /* at least from earlier transactions */
void mysql_append_topics(struct mysql_link *link);
/* Appends joins that find a row if the topics of the transaction are as remembered. They then need no
 * statement of their own. Appends nothing for many topics and for those that are not remembered. */
void mysql_append_ticket_topics(struct mysql_link *link, struct buffer *out);
/* Records that these conditions held, or that one of them may not have held. */
void mysql_note_ticket_topics(struct mysql_link *link);
void mysql_forget_ticket_topics(struct mysql_link *link);
bool mysql_topic_add_level(struct mysql_topic *topic, int32_t level); /* false if out of memory */
bool mysql_topic_has_level(const struct mysql_topic *topic, int32_t level);
/* Clears the wanted topics for a new transaction. */
void mysql_topics_begin(struct mysql_link *link);
void mysql_topics_free(struct mysql_link *link);
/* Returns whether the topic is paused at the time of the transaction. */
bool mysql_topic_is_paused(const struct mysql_link *link, const struct mysql_topic *topic);
/* Computes how many jobs the takes of the transaction may get from each topic. */
void mysql_topics_count_takes(struct mysql_link *link);

#endif
