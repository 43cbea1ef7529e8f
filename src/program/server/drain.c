#include "server/drain.h"

#include "queue/door.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A change on its way to all reactors and back. */
struct drain_round {
    struct letter notified; /* to the requester */
    bool on;
    atomic_uint left; /* reactors that have not changed yet */
    struct reactor *reactor;
    void (*done)(void *owner, uint64_t tag);
    void *owner;
    uint64_t tag;
    struct drain_letter {
        struct letter letter;
        struct drain_round *round;
        struct queue *queue;
    } letters[];
};

void drain_add(struct drain *drain, struct reactor *reactor, struct queue *queue)
{
    assert(drain->count < DRAIN_REACTORS_MAX);
    drain->at[drain->count++] = (struct drain_at){.reactor = reactor, .queue = queue};
}

static void run_notified(struct letter *letter)
{
    struct drain_round *round = (struct drain_round *)(void *)letter;
    if (round->done)
        round->done(round->owner, round->tag);
    free(round);
}

/* Changes the queue on its reactor's thread; the last one notifies the requester. */
static void run_change(struct letter *letter)
{
    const struct drain_letter *drain = (const struct drain_letter *)(const void *)letter;
    struct drain_round *round = drain->round;
    queue_drain(drain->queue, round->on);
    if (atomic_fetch_sub(&round->left, 1) == 1)
        reactor_post(round->reactor, &round->notified);
}

bool drain_set(const struct drain *drain, bool on, struct reactor *reactor,
               void (*done)(void *owner, uint64_t tag), void *owner, uint64_t tag)
{
    struct drain_round *round = malloc(sizeof *round + drain->count * sizeof round->letters[0]);
    if (!round)
        return false;
    *round = (struct drain_round){.notified.run = run_notified,
                                  .on = on,
                                  .left = drain->count,
                                  .reactor = reactor,
                                  .done = done,
                                  .owner = owner,
                                  .tag = tag};
    uint32_t count = drain->count; /* the round may be freed before the loop ends */
    for (uint32_t i = 0; i < count; i++)
        round->letters[i] = (struct drain_letter){
            .letter.run = run_change, .round = round, .queue = drain->at[i].queue};
    for (uint32_t i = 0; i < count; i++)
        reactor_post(drain->at[i].reactor, &round->letters[i].letter);
    return true;
}
