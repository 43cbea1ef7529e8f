#include "sql/waiting.h"

struct shown_batch { /* the memory that the reply points to */
    struct queue_waiting waiting;
    char batch[JOB_BATCH_BYTES_MAX];
    char meta[];
};

bool sql_waiting_show(struct sql_call *call, struct queue_job *job,
                      const int64_t figures[SQL_WAITING_FIGURES], bool is_taken)
{
    struct slice meta = job->job.meta;
    struct shown_batch *shown =
        calloc(1, sizeof *shown + (is_taken ? meta.len + BATCH_META_BYTES_MAX : 0));
    struct job_batch batch;
    if (!shown || !sql_results_add(&call->blocks, shown)) {
        free(shown);
        return false;
    }
    shown->waiting =
        (struct queue_waiting){.on_dead = (enum batch_on_dead)figures[SQL_WAITING_ON_DEAD],
                               .is_closed = figures[SQL_WAITING_CLOSED] != 0,
                               .has_ended = figures[SQL_WAITING_ENDED] != 0};
    for (int i = 0; i < BATCH_OUTCOMES; i++)
        shown->waiting.counts.of[i] = (uint32_t)figures[SQL_WAITING_COUNTS + i];
    if (!job_batch_decode(job->job.batch, &batch) || !figures[SQL_WAITING_ON_DEAD])
        return true; /* written by others: the job is shown without its batch */
    batch.waits = true;
    batch.on_dead = shown->waiting.on_dead;
    batch.members = (uint32_t)figures[SQL_WAITING_MEMBERS];
    batch.wait_ms = figures[SQL_WAITING_WAIT];
    batch.close_ms = figures[SQL_WAITING_CLOSE];
    job->job.batch = slice_make(shown->batch, job_batch_encode(&batch, shown->batch));
    job->waiting = &shown->waiting;
    if (!shown->waiting.has_ended) { /* its due is not known */
        int64_t later_ms = job->job.first_due_ms;
        if (later_ms)
            shown->waiting.when = later_ms < 0 ? (struct queue_when){QUEUE_DUE_DELAY, -later_ms}
                                               : (struct queue_when){QUEUE_DUE_AT, later_ms};
        job->job.first_due_ms = 0;
    }
    if (!shown->waiting.has_ended && job->job.state != JOB_DEAD)
        job->job.due_ms = 0;
    if (!is_taken)
        return true;
    if (meta.len)
        memcpy(shown->meta, meta.at, meta.len);
    job->job.meta = slice_make(
        shown->meta, meta.len + batch_meta_write(&shown->waiting.counts, shown->meta + meta.len));
    return true;
}
