/*
 * answers: what became of jobs, told to the queue: gathered over a turn, sent together.
 *
 * One that the queue could not take (out of reach, out of memory) is told again as long as its
 * lease may last. After that the queue ends the lease itself, and the job comes again: the one way
 * in which delivery makes a duplicate of its own, and it is counted.
 */
#include "base/clock.h"
#include "base/log.h"
#include "deliver/private.h"

#include <assert.h>
#include <stdlib.h>

struct batch {
    struct deliver *deliver;
    size_t count;
    struct errand *errands[];
};

void answers_add(struct errand *errand)
{
    struct deliver *deliver = errand->lane->deliver;
    list_add_last(&deliver->answers, &errand->list);
    deliver_at_turn_end(deliver);
}

static void try_again(struct errand *errand)
{
    struct deliver *deliver = errand->lane->deliver;
    errand->is_again = true;
    list_add_last(&deliver->again, &errand->list);
    if (deliver->again_ms == INT64_MAX) {
        deliver->again_ms = clock_inner_ms() + LANE_RETRY_MS;
        deliver_wake_by(deliver, deliver->again_ms);
    }
}

static void end_errand(struct errand *errand, bool lease_ended)
{
    struct lane *lane = errand->lane;
    struct deliver *deliver = lane->deliver;
    if (lease_ended) {
        pthread_mutex_lock(&deliver->lock);
        lane->tally.lease_ended++;
        pthread_mutex_unlock(&deliver->lock);
    }
    free(errand);
    assert(lane->unanswered > 0);
    lane->unanswered--;
    deliver_kick(deliver, lane);
}

static void on_status(struct errand *errand, enum queue_status status)
{
    switch (status) {
    case QUEUE_OK:
        end_errand(errand, false);
        return;
    case QUEUE_NO_MEMORY:
    case QUEUE_NO_SPACE:
    case QUEUE_DIRECTORY_MOVED:
    case QUEUE_UNAVAILABLE:
        if (clock_inner_ms() < errand->lease_until_ms)
            try_again(errand);
        else
            end_errand(errand, true);
        return;
    case QUEUE_LEASE_ENDED: /* of one told again: maybe the first time was heard after all */
        end_errand(errand, !errand->is_again);
        return;
    case QUEUE_STOPPING: /* the lease ends by itself */
        end_errand(errand, true);
        return;
    default:
        log_event(LOG_ERROR, "answer refused", LOG_TEXT("topic", errand->lane->topic),
                  LOG_NUMBER("status", status));
        end_errand(errand, true);
    }
}

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct batch *batch = owner;
    struct deliver *deliver = batch->deliver;
    (void)tag;
    for (size_t i = 0; i < batch->count; i++)
        on_status(batch->errands[i],
                  reply->status != QUEUE_OK || i >= reply->result_count
                      ? (reply->status != QUEUE_OK ? reply->status : QUEUE_UNAVAILABLE)
                      : reply->results[i].status);
    free(batch);
    deliver->answering--;
    deliver_check_stopped(deliver);
}

static struct queue_answer answer_of(const struct errand *errand)
{
    return (struct queue_answer){.verb = errand->verb,
                                 .lease = slice_make(errand->lease, errand->lease_bytes),
                                 .delay_ms = errand->delay_ms,
                                 .final = errand->final,
                                 .error = errand->verb == QUEUE_NACK ? slice_of(errand->error)
                                                                     : slice_make(NULL, 0)};
}

/* False: out of memory. */
static bool flush_some(struct deliver *deliver, struct queue_answer *answers)
{
    struct batch *batch = malloc(sizeof(*batch) + QUEUE_BATCH_MAX * sizeof(batch->errands[0]));
    if (!batch)
        return false;
    batch->deliver = deliver;
    batch->count = 0;
    while (!list_is_empty(&deliver->answers) && batch->count < QUEUE_BATCH_MAX) {
        struct errand *errand = list_entry(deliver->answers.next, struct errand, list);
        list_remove(&errand->list);
        answers[batch->count] = answer_of(errand);
        batch->errands[batch->count++] = errand;
    }
    deliver->answering++;
    deliver->options.queue->ops->answer(
        deliver->options.queue, answers, batch->count,
        (struct queue_reply_to){.done = on_answered, .owner = batch});
    return true;
}

void answers_flush(struct deliver *deliver)
{
    if (list_is_empty(&deliver->answers))
        return;
    struct queue_answer *answers = malloc(QUEUE_BATCH_MAX * sizeof(*answers));
    while (answers && !list_is_empty(&deliver->answers))
        if (!flush_some(deliver, answers))
            break;
    free(answers);
    while (!list_is_empty(&deliver->answers)) { /* out of memory */
        struct errand *errand = list_entry(deliver->answers.next, struct errand, list);
        list_remove(&errand->list);
        try_again(errand);
    }
}

void answers_again(struct deliver *deliver)
{
    deliver->again_ms = INT64_MAX;
    while (!list_is_empty(&deliver->again)) {
        struct errand *errand = list_entry(deliver->again.next, struct errand, list);
        list_remove(&errand->list);
        answers_add(errand);
    }
}
