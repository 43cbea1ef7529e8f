#include "sql/mysql/job_row.h"
#include "sql/mysql/wire.h"
#include "sql/topic.h"

#include <stdlib.h>

enum {
    JOB_COLUMN_ID,
    JOB_COLUMN_STATE,
    JOB_COLUMN_PRIORITY,
    JOB_COLUMN_ATTEMPT,
    JOB_COLUMN_DUE,
    JOB_COLUMN_FIRST_DUE,
    JOB_COLUMN_UNTIL,
    JOB_COLUMN_TAKEN,
    JOB_COLUMN_SEQUENCE,
    JOB_COLUMN_DELIVERY,
    JOB_COLUMN_LEASE,
    JOB_COLUMN_TTL,
    JOB_COLUMN_BACKOFF_KIND,
    JOB_COLUMN_BACKOFF_FIRST,
    JOB_COLUMN_BACKOFF_MAX,
    JOB_COLUMN_ATTEMPTS_MAX,
    JOB_COLUMN_TYPE,
    JOB_COLUMN_META,
    JOB_COLUMN_ERROR,
    JOB_COLUMN_HISTORY,
    JOB_COLUMN_CONSUMER,
    JOB_COLUMN_CANCEL_REQUESTED,
    JOB_COLUMN_BODY_BYTES,
    JOB_COLUMN_NEXT_DUE,
    JOB_COLUMN_KEEP,
    JOB_COLUMN_PROGRESS,
    JOB_COLUMN_STEPS,
    JOB_COLUMN_GROUP,
    JOB_COLUMN_BATCHES,
    JOB_COLUMN_WAITING
};

#define PLAIN_COLUMNS                                                                              \
    "j.id,j.state,j.priority,j.attempt,j.due,j.first_due,j.lease_until,j.taken,j.seq,j.delivery,"  \
    "j.lease,j.ttl,j.backoff_kind,j.backoff_first,j.backoff_max,j.max_attempts,j.content_type,"    \
    "j.meta,j.error,j.history,j.consumer,j.cancel_requested,j.body_bytes,j.next_due,j.keep,"       \
    "j.progress,j.backoff_steps,"
#define GROUP_COLUMN                                                                               \
    "IF(j.grp IS NULL,NULL,(SELECT k.name FROM tarry.grp k WHERE k.topic=j.topic AND "             \
    "k.grp=j.grp))"

const char mysql_job_columns[] =
    PLAIN_COLUMNS GROUP_COLUMN ",j.batches,IF(j.own IS NULL,NULL,tarry.server_waiting(j.own))";
const char mysql_taken_columns[] = PLAIN_COLUMNS "NULL,j.batches,NULL";
const char mysql_taken_group_columns[] = PLAIN_COLUMNS GROUP_COLUMN ",j.batches,NULL";

static struct slice text_of(MYSQL_ROW row, const unsigned long *lengths, int column)
{
    return slice_make(row[column] ? row[column] : "", lengths[column]);
}

const char *mysql_waiting_text(MYSQL_ROW row)
{
    return row[JOB_COLUMN_WAITING];
}

bool mysql_waiting_read(const char *text, int64_t figures[SQL_WAITING_FIGURES])
{
    char *at = (char *)(uintptr_t)text;
    for (int i = 0; text && i < SQL_WAITING_FIGURES; i++)
        figures[i] = strtoll(at, &at, 10);
    return text != NULL;
}

uint64_t mysql_body_bytes(MYSQL_ROW row)
{
    return (uint64_t)mysql_number(row[JOB_COLUMN_BODY_BYTES]);
}

void mysql_job_read(struct job *job, MYSQL_ROW row, const unsigned long *lengths, int64_t now_ms)
{
    job->id = text_of(row, lengths, JOB_COLUMN_ID);
    job->state = (enum job_state)mysql_number(row[JOB_COLUMN_STATE]);
    job->priority = (uint16_t)mysql_number(row[JOB_COLUMN_PRIORITY]);
    job->attempt = (uint32_t)mysql_number(row[JOB_COLUMN_ATTEMPT]);
    job->due_ms = mysql_number(row[JOB_COLUMN_DUE]);
    if (job->state == JOB_DELAYED && job->due_ms <= now_ms)
        job->state = JOB_READY;
    job->first_due_ms = mysql_number(row[JOB_COLUMN_FIRST_DUE]);
    job->lease_until_ms = mysql_number(row[JOB_COLUMN_UNTIL]);
    job->taken_ms = mysql_number(row[JOB_COLUMN_TAKEN]);
    job->sequence = (uint64_t)mysql_number(row[JOB_COLUMN_SEQUENCE]);
    job->delivery = (uint64_t)mysql_number(row[JOB_COLUMN_DELIVERY]);
    job->due_is_wall = true; /* the database's clock is the only one */
    job->policy.lease_ms = mysql_number(row[JOB_COLUMN_LEASE]);
    job->policy.ttl_ms = mysql_number(row[JOB_COLUMN_TTL]);
    job->policy.backoff.kind = (enum backoff_kind)mysql_number(row[JOB_COLUMN_BACKOFF_KIND]);
    job->policy.backoff.first_ms = mysql_number(row[JOB_COLUMN_BACKOFF_FIRST]);
    job->policy.backoff.max_ms = mysql_number(row[JOB_COLUMN_BACKOFF_MAX]);
    job->policy.max_attempts = (uint32_t)mysql_number(row[JOB_COLUMN_ATTEMPTS_MAX]);
    job->content_type = text_of(row, lengths, JOB_COLUMN_TYPE);
    job->meta = text_of(row, lengths, JOB_COLUMN_META);
    job->error = text_of(row, lengths, JOB_COLUMN_ERROR);
    job->history = text_of(row, lengths, JOB_COLUMN_HISTORY);
    job->consumer = text_of(row, lengths, JOB_COLUMN_CONSUMER);
    job->cancel_requested = mysql_number(row[JOB_COLUMN_CANCEL_REQUESTED]) != 0;
    job->next_due_ms = mysql_number(row[JOB_COLUMN_NEXT_DUE]);
    job->has_keep = row[JOB_COLUMN_KEEP] != NULL;
    job->keep_ms = mysql_number(row[JOB_COLUMN_KEEP]);
    job->progress = text_of(row, lengths, JOB_COLUMN_PROGRESS);
    job->group = text_of(row, lengths, JOB_COLUMN_GROUP);
    job->batch = text_of(row, lengths, JOB_COLUMN_BATCHES);
    if (job->policy.backoff.kind == BACKOFF_LIST)
        sql_steps_read(text_of(row, lengths, JOB_COLUMN_STEPS), &job->policy.backoff);
}
