/* Very many topics: what is asked of some costs what some cost. */
#include "base/clock.h"
#include "engine_rig.h"
#include "unit/claim.h"

#include <stdio.h>

enum { FEW = 300, MANY = 60000, PAGE = 256, PAGES = 200 };

static const struct engine_now now = {.inner_ms = 1000, .wall_ms = 1000};

static struct record_place append_nothing(void *ctx, const struct record *record)
{
    (void)ctx;
    return (struct record_place){
        .file = 1, .at = 4096, .bytes = (uint32_t)record_bytes_max(record)};
}

static struct engine *engine_with(uint32_t topics)
{
    struct engine_options options = {.sink.append = append_nothing,
                                     .body_bytes_max = 1000,
                                     .topics_max = topics,
                                     .random_seed = 1,
                                     .now = now};
    struct engine *engine = engine_new(&options);
    engine_start(engine, 1);
    for (uint32_t i = 0; i < topics; i++) {
        char name[16];
        uint32_t mixed = (uint32_t)(i * UINT64_C(2654435761) % topics); /* in no order */
        snprintf(name, sizeof name, "t%06u", mixed);
        assert_true(engine_topic_put(engine, slice_of(name), &(struct topic_settings){0}) <=
                    QUEUE_CREATED);
    }
    return engine;
}

static int64_t pages_us(struct engine *engine)
{
    int64_t began_us = clock_boot_us();
    for (int i = 0; i < PAGES; i++) {
        struct queue_topic *page;
        size_t count;
        assert_true(engine_topics_page(engine, slice_of("t000010"), PAGE, now, &page, &count));
        assert_int_equal(count, PAGE);
        free(page);
    }
    return clock_boot_us() - began_us;
}

/* The best of some: others use the machine as well. */
static int64_t least_us(struct engine *engine)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 10; i++) {
        int64_t us = pages_us(engine);
        least = us < least ? us : least;
    }
    return least;
}

CLAIM(a_page_costs_the_same_however_many_topics_there_are)
{
    struct engine *few = engine_with(FEW), *many = engine_with(MANY);
    engine_check(many);
    int64_t few_us = least_us(few), many_us = least_us(many);
    print_message("%d pages: %lld us of %d topics, %lld us of %d\n", PAGES, (long long)few_us, FEW,
                  (long long)many_us, MANY);
    assert_true(many_us < 10 * few_us);
    engine_free(few);
    engine_free(many);
}

CLAIMS_MAIN(NULL, NULL)
