/*
 * topic_figures: the columns of the schema's statement for a topic's figures and settings, in the
 * same order for every dialect, and the conversion to a topic. Pure.
 */
#ifndef TARRY_SQL_TOPIC_FIGURES_H
#define TARRY_SQL_TOPIC_FIGURES_H

#include "queue/queue.h"
#include "sql/effect.h"

enum sql_topic_figure {
    SQL_FIGURE_NAME, /* text */
    SQL_FIGURE_PAUSED,
    SQL_FIGURE_PAUSED_UNTIL,
    SQL_FIGURE_LEASE,
    SQL_FIGURE_TTL,
    SQL_FIGURE_BACKOFF_KIND,
    SQL_FIGURE_BACKOFF_FIRST,
    SQL_FIGURE_BACKOFF_MAX,
    SQL_FIGURE_ATTEMPTS_MAX,
    SQL_FIGURE_CONFLICT,
    SQL_FIGURE_PRIORITY, /* NULL: not set */
    SQL_FIGURE_DEAD_LETTER,
    SQL_FIGURE_DEDUP,
    SQL_FIGURE_JOBS_MAX,
    SQL_FIGURE_RATE_COUNT,
    SQL_FIGURE_RATE_UNIT,
    SQL_FIGURE_EXTENSION, /* bytes */
    SQL_FIGURE_COUNTS,    /* an array, or one column per count: SQL_COUNT_… */
    SQL_FIGURE_READY_FRESH,
    SQL_FIGURE_READY_RETRY,
    SQL_FIGURE_OLDEST,
    SQL_FIGURE_HISTORY,
    SQL_TOPIC_FIGURES
};

struct sql_topic_figures {
    int64_t numbers[SQL_TOPIC_FIGURES]; /* NULL is read as 0 */
    bool has_priority;
    struct slice name, extension;
    int64_t counts[SQL_COUNTS];
};

static inline bool sql_topic_figure_is_number(enum sql_topic_figure figure)
{
    return figure != SQL_FIGURE_NAME && figure != SQL_FIGURE_EXTENSION &&
           figure != SQL_FIGURE_COUNTS;
}

/* Converts the figures. Texts still point into the row. */
void sql_topic_figures_fill(const struct sql_topic_figures *figures, struct queue_topic *out);

#endif
