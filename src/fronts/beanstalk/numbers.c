#include "beanstalk/numbers.h"

#include "base/vector.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 1000, PROBES = 40, ID_BYTES = 24 };

struct want {
    void (*ready)(void *owner, enum queue_status status);
    void *owner;
};

VECTOR_DECLARE(wants, struct want)

struct beanstalk_numbers {
    struct queue *queue;
    uint64_t next, end; /* rest of the current block; equal if used up */
    uint64_t block;     /* next block to claim; 0: not yet found */
    uint64_t low, high; /* during the search: the last claimed block, the first unclaimed block */
    bool is_under_way;
    struct wants wants;
    /* The probes of the search in progress. */
    struct queue_find finds[PROBES];
    uint64_t probes[PROBES];
    char ids[PROBES][ID_BYTES];
    size_t probe_count;
};

struct beanstalk_numbers *beanstalk_numbers_new(struct queue *queue)
{
    struct beanstalk_numbers *numbers = calloc(1, sizeof *numbers);
    if (numbers)
        numbers->queue = queue;
    return numbers;
}

void beanstalk_numbers_free(struct beanstalk_numbers *numbers)
{
    if (!numbers)
        return;
    wants_fini(&numbers->wants);
    free(numbers);
}

uint64_t beanstalk_numbers_next(struct beanstalk_numbers *numbers)
{
    return numbers->next < numbers->end ? numbers->next++ : 0;
}

bool beanstalk_numbers_is_quiet(const struct beanstalk_numbers *numbers)
{
    return !numbers->is_under_way;
}

static struct slice block_id(uint64_t block, char out[ID_BYTES])
{
    return slice_make(out, (size_t)snprintf(out, ID_BYTES, "%" PRIu64, block));
}

/* Notifies all waiting callers. They may ask again from the callback. */
static void notify_all(struct beanstalk_numbers *numbers, enum queue_status status)
{
    struct wants told = numbers->wants;
    numbers->wants = (struct wants){0};
    numbers->is_under_way = false;
    for (size_t i = 0; i < told.count; i++)
        told.at[i].ready(told.at[i].owner, status);
    wants_fini(&told);
}

static void claim(struct beanstalk_numbers *numbers);

/* Handles the reply to a claim. If another server owns the block, tries the next one. */
static void on_claimed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_numbers *numbers = owner;
    (void)tag;
    enum queue_status status = reply->result_count ? reply->results[0].status : reply->status;
    if (status == QUEUE_CONFLICT) {
        numbers->block++;
        claim(numbers);
        return;
    }
    if (status == QUEUE_CREATED) {
        numbers->next = (numbers->block - 1) * BLOCK + 1;
        numbers->end = numbers->next + BLOCK;
        numbers->block++;
        status = QUEUE_OK;
    }
    notify_all(numbers, status);
}

static void claim(struct beanstalk_numbers *numbers)
{
    char id[ID_BYTES];
    const struct queue_push push = {.topic = slice_of(BEANSTALK_NUMBERS_TOPIC),
                                    .id = block_id(numbers->block, id),
                                    .when = {.due = QUEUE_DUE_DELAY, .ms = POLICY_DELAY_MS_MAX},
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .on_conflict = CONFLICT_REJECT};
    queue_push(numbers->queue, &push, 1,
               (struct queue_reply_to){.done = on_claimed, .owner = numbers});
}

/* ---- search for the first unclaimed block: claimed blocks are dense, so it lies between the
 * highest known claimed block and the lowest known free block ---- */

static void look(struct beanstalk_numbers *numbers);

static void on_looked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_numbers *numbers = owner;
    (void)tag;
    for (size_t i = 0; i < numbers->probe_count; i++) {
        enum queue_status status =
            i < reply->result_count ? reply->results[i].status : reply->status;
        if (status == QUEUE_OK && numbers->probes[i] > numbers->low)
            numbers->low = numbers->probes[i];
        if (status == QUEUE_NOT_FOUND && numbers->probes[i] < numbers->high)
            numbers->high = numbers->probes[i];
        if (status != QUEUE_OK && status != QUEUE_NOT_FOUND) {
            notify_all(numbers, status);
            return;
        }
    }
    if (numbers->high - numbers->low > 1) {
        look(numbers);
        return;
    }
    numbers->block = numbers->high;
    claim(numbers);
}

static void look(struct beanstalk_numbers *numbers)
{
    bool is_first = numbers->high == UINT64_MAX;
    uint64_t gap = numbers->high - numbers->low;
    numbers->probe_count = 0;
    for (unsigned i = 0; i < PROBES; i++) {
        uint64_t block = is_first ? UINT64_C(1) << i : numbers->low + 1 + (gap - 1) * i / PROBES;
        size_t at = numbers->probe_count;
        if (block >= numbers->high || (at && numbers->probes[at - 1] == block))
            continue;
        numbers->probes[at] = block;
        numbers->finds[at] = (struct queue_find){.topic = slice_of(BEANSTALK_NUMBERS_TOPIC),
                                                 .id = block_id(block, numbers->ids[at])};
        numbers->probe_count++;
    }
    queue_find(numbers->queue, numbers->finds, numbers->probe_count,
               (struct queue_reply_to){.done = on_looked, .owner = numbers});
}

void beanstalk_numbers_want(struct beanstalk_numbers *numbers,
                            void (*ready)(void *owner, enum queue_status status), void *owner)
{
    if (!wants_reserve(&numbers->wants, numbers->wants.count + 1)) {
        ready(owner, QUEUE_NO_MEMORY);
        return;
    }
    wants_add(&numbers->wants, (struct want){.ready = ready, .owner = owner});
    if (numbers->is_under_way)
        return;
    numbers->is_under_way = true;
    if (numbers->block) {
        claim(numbers);
        return;
    }
    numbers->low = 0;
    numbers->high = UINT64_MAX;
    look(numbers);
}
