#include "local/test_clock.h"

#include "local/handle.h"
#include "local/shard.h"

#include <assert.h>
#include <stdlib.h>

/* A request to a shard, and its answer. */
struct settle_letter {
    struct letter letter;
    struct test_clock *test_clock;
    uint32_t shard;
    int64_t next_ms;
    uint64_t happened;
};

struct test_clock {
    struct local *local;
    local_settled *settled; /* NULL: no call in progress */
    void *settled_ctx;
    bool keeps;
    uint32_t left; /* shards that have not answered */
    void (*active)(void *ctx);
    void *active_ctx;
    struct settle_letter letters[]; /* one per shard */
};

struct test_clock *test_clock_new(struct local *local)
{
    uint32_t shards = local->shard_count;
    struct test_clock *test_clock =
        calloc(1, sizeof *test_clock + shards * sizeof(struct settle_letter));
    if (!test_clock)
        return NULL;
    test_clock->local = local;
    for (uint32_t i = 0; i < shards; i++)
        test_clock->letters[i] = (struct settle_letter){.test_clock = test_clock, .shard = i};
    return test_clock;
}

void test_clock_free(struct test_clock *test_clock)
{
    free(test_clock);
}

struct clock *local_test_clock(struct local *local)
{
    return local->test_clock ? &local->own_clock : NULL;
}

int64_t local_test_clock_start_ms(const struct local *local)
{
    return local->manifest.test_start_ms;
}

/* Collects an answer on reactor 0. The last one ends the call. */
static void settle_letter_back(struct letter *letter)
{
    struct test_clock *test_clock = ((struct settle_letter *)(void *)letter)->test_clock;
    local_settled *settled = test_clock->settled;
    int64_t next_ms = INT64_MAX;
    uint64_t happened = 0;
    if (--test_clock->left)
        return;
    for (uint32_t i = 0; i < test_clock->local->shard_count; i++) {
        const struct settle_letter *one = &test_clock->letters[i];
        next_ms = one->next_ms < next_ms ? one->next_ms : next_ms;
        happened += one->happened;
    }
    test_clock->settled = NULL;
    settled(test_clock->settled_ctx, !atomic_load(&test_clock->local->failed), next_ms, happened);
}

static void shard_has_settled(void *ctx, int64_t next_ms, uint64_t happened)
{
    struct settle_letter *letter = ctx;
    letter->next_ms = next_ms;
    letter->happened = happened;
    letter->letter.run = settle_letter_back;
    reactor_post(letter->test_clock->local->handles[0]->reactor, &letter->letter);
}

static void settle_letter_there(struct letter *letter)
{
    struct settle_letter *settle = (struct settle_letter *)(void *)letter;
    shard_settle(settle->test_clock->local->shards[settle->shard], settle->test_clock->keeps,
                 shard_has_settled, settle);
}

void local_settle(struct local *local, bool keeps, local_settled *settled, void *ctx)
{
    struct test_clock *test_clock = local->test_clock;
    assert(test_clock && !test_clock->settled);
    test_clock->settled = settled;
    test_clock->settled_ctx = ctx;
    test_clock->keeps = keeps;
    test_clock->left = local->shard_count;
    for (uint32_t i = 0; i < local->shard_count; i++) {
        test_clock->letters[i].letter.run = settle_letter_there;
        reactor_post(local->handles[i]->reactor, &test_clock->letters[i].letter);
    }
}

void local_on_active(struct local *local, void (*active)(void *ctx), void *ctx)
{
    assert(local->test_clock);
    local->test_clock->active_ctx = ctx;
    local->test_clock->active = active;
}

void test_clock_active(struct test_clock *test_clock)
{
    if (test_clock->active)
        test_clock->active(test_clock->active_ctx);
}
