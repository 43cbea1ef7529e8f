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
    struct delivery *deliveries[];
};

void answers_add(struct delivery *delivery)
{
    struct deliver *deliver = delivery->dispatcher->deliver;
    list_add_last(&deliver->answers, &delivery->list);
    deliver_at_turn_end(deliver);
}

static void try_again(struct delivery *delivery)
{
    struct deliver *deliver = delivery->dispatcher->deliver;
    delivery->is_again = true;
    list_add_last(&deliver->again, &delivery->list);
    if (deliver->again_ms == INT64_MAX) {
        deliver->again_ms = clock_inner_ms() + DISPATCHER_RETRY_MS;
        deliver_wake_by(deliver, deliver->again_ms);
    }
}

static void end_delivery(struct delivery *delivery, bool lease_ended)
{
    struct dispatcher *dispatcher = delivery->dispatcher;
    struct deliver *deliver = dispatcher->deliver;
    if (lease_ended) {
        pthread_mutex_lock(&deliver->lock);
        dispatcher->tally.lease_ended++;
        pthread_mutex_unlock(&deliver->lock);
    }
    free(delivery);
    assert(dispatcher->unanswered > 0);
    dispatcher->unanswered--;
    deliver_kick(deliver, dispatcher);
}

static void on_status(struct delivery *delivery, enum queue_status status)
{
    switch (status) {
    case QUEUE_OK:
        end_delivery(delivery, false);
        return;
    case QUEUE_NO_MEMORY:
    case QUEUE_NO_SPACE:
    case QUEUE_DIRECTORY_MOVED:
    case QUEUE_UNAVAILABLE:
        if (clock_inner_ms() < delivery->lease_until_ms)
            try_again(delivery);
        else
            end_delivery(delivery, true);
        return;
    case QUEUE_LEASE_ENDED: /* of one told again: maybe the first time was heard after all */
        end_delivery(delivery, !delivery->is_again);
        return;
    case QUEUE_STOPPING: /* the lease ends by itself */
        end_delivery(delivery, true);
        return;
    default:
        log_event(LOG_ERROR, "answer refused", LOG_TEXT("topic", delivery->dispatcher->topic),
                  LOG_NUMBER("status", status));
        end_delivery(delivery, true);
    }
}

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct batch *batch = owner;
    struct deliver *deliver = batch->deliver;
    (void)tag;
    for (size_t i = 0; i < batch->count; i++)
        on_status(batch->deliveries[i],
                  reply->status != QUEUE_OK || i >= reply->result_count
                      ? (reply->status != QUEUE_OK ? reply->status : QUEUE_UNAVAILABLE)
                      : reply->results[i].status);
    free(batch);
    deliver->answering--;
    deliver_check_stopped(deliver);
}

static struct queue_answer answer_of(const struct delivery *delivery)
{
    return (struct queue_answer){.verb = delivery->verb,
                                 .lease = slice_make(delivery->lease, delivery->lease_bytes),
                                 .delay_ms = delivery->delay_ms,
                                 .final = delivery->final,
                                 .error = delivery->verb == QUEUE_NACK ? slice_of(delivery->error)
                                                                       : slice_make(NULL, 0)};
}

/* False: out of memory. */
static bool flush_some(struct deliver *deliver, struct queue_answer *answers)
{
    struct batch *batch = malloc(sizeof(*batch) + QUEUE_BATCH_MAX * sizeof(batch->deliveries[0]));
    if (!batch)
        return false;
    batch->deliver = deliver;
    batch->count = 0;
    while (!list_is_empty(&deliver->answers) && batch->count < QUEUE_BATCH_MAX) {
        struct delivery *delivery = list_entry(deliver->answers.next, struct delivery, list);
        list_remove(&delivery->list);
        answers[batch->count] = answer_of(delivery);
        batch->deliveries[batch->count++] = delivery;
    }
    deliver->answering++;
    queue_answer(deliver->options.queue, answers, batch->count,
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
        struct delivery *delivery = list_entry(deliver->answers.next, struct delivery, list);
        list_remove(&delivery->list);
        try_again(delivery);
    }
}

void answers_again(struct deliver *deliver)
{
    deliver->again_ms = INT64_MAX;
    while (!list_is_empty(&deliver->again)) {
        struct delivery *delivery = list_entry(deliver->again.next, struct delivery, list);
        list_remove(&delivery->list);
        answers_add(delivery);
    }
}
