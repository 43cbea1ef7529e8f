/* The wheel against a model without any cleverness: every entry there is, in no order at all. */
#include "wheel_bench.h"

#include "unit/claim.h"
#include "unit/seed.h"

enum { MODEL_MAX = 400, MODEL_STEPS = 6000, MODEL_ROUNDS = 12 };

struct model {
    uint32_t ids[MODEL_MAX];
    size_t count;
};

static void model_forget(struct model *model, uint32_t id)
{
    for (size_t i = 0; i < model->count; i++)
        if (model->ids[i] == id) {
            model->ids[i] = model->ids[--model->count];
            return;
        }
    fail_msg("an entry fired that was not there");
}

static int64_t model_earliest_ms(const struct model *model, struct bench *bench)
{
    int64_t earliest_ms = INT64_MAX;

    for (size_t i = 0; i < model->count; i++)
        if (entry_at(bench, model->ids[i])->order_ms < earliest_ms)
            earliest_ms = entry_at(bench, model->ids[i])->order_ms;
    return earliest_ms;
}

/* Returns a span from 0 up to about 18 years, every size equally likely. */
static int64_t random_span_ms(struct random *random)
{
    return (int64_t)random_below(random, UINT64_C(1) << random_below(random, 40));
}

static void model_add(struct model *model, struct bench *bench, struct random *random,
                      int64_t now_ms)
{
    int64_t when_ms = now_ms + random_span_ms(random);
    size_t crowd = random_below(random, 20) ? 1 : 40;

    if (random_below(random, 10) == 0)
        when_ms = now_ms - (int64_t)random_below(random, (uint64_t)now_ms);
    while (crowd-- > 0 && model->count < MODEL_MAX)
        model->ids[model->count++] = bench_add(bench, when_ms);
}

static void model_cancel(struct model *model, struct bench *bench, struct random *random)
{
    uint32_t id;

    if (model->count == 0)
        return;
    id = model->ids[random_below(random, model->count)];
    model_forget(model, id);
    bench_cancel(bench, id);
}

static void model_take(struct model *model, struct bench *bench, struct random *random,
                       int64_t now_ms)
{
    uint32_t ids[64];
    size_t count = bench_take(bench, now_ms, ids, 1 + random_below(random, 64));

    for (size_t i = 0; i < count; i++) {
        model_forget(model, ids[i]);
        slab_remove(&bench->slab, ids[i]);
    }
    if (wheel_next_ms(&bench->wheel) > now_ms) /* nothing more to do: then nothing due is left */
        assert_true(model_earliest_ms(model, bench) > now_ms);
}

/* Returns the time that the wheel names, or a time some way beyond now. */
static int64_t later_ms(const struct bench *bench, struct random *random, int64_t now_ms)
{
    int64_t next_ms = wheel_next_ms(&bench->wheel);

    if (random_below(random, 3) == 0)
        return now_ms + (random_span_ms(random) >> random_below(random, 24));
    if (next_ms == INT64_MAX)
        return now_ms;
    if (random_below(random, 2) && next_ms > now_ms)
        return next_ms;
    return now_ms + (int64_t)random_below(random, 40);
}

static void model_judge(const struct model *model, struct bench *bench)
{
    wheel_check(&bench->wheel);
    assert_int_equal(bench->wheel.count, model->count);
    assert_true(wheel_next_ms(&bench->wheel) <= model_earliest_ms(model, bench));
    assert_true(wheel_next_ms(&bench->wheel) >= bench->wheel.now_ms);
}

static void model_step(struct model *model, struct bench *bench, struct random *random,
                       int64_t *now_ms)
{
    switch (random_below(random, 4)) {
    case 0:
        model_add(model, bench, random, *now_ms);
        break;
    case 1:
        model_cancel(model, bench, random);
        break;
    case 2:
        *now_ms = later_ms(bench, random, *now_ms);
        break;
    default:
        model_take(model, bench, random, *now_ms);
    }
}

static void model_round(struct random *random)
{
    struct model model = {0};
    struct bench bench;
    int64_t now_ms = START_MS + random_span_ms(random);

    bench_init(&bench, now_ms);
    for (int step = 0; step < MODEL_STEPS; step++) {
        model_step(&model, &bench, random, &now_ms);
        model_judge(&model, &bench);
    }
    bench_take_all(&bench, now_ms + 20 * YEAR_MS, 64);
    assert_int_equal(bench.wheel.count, 0);
    bench_fini(&bench);
}

CLAIM(fires_every_entry_once)
{
    struct random random = seed_random(__func__);

    for (int round = 0; round < MODEL_ROUNDS; round++)
        model_round(&random);
}

CLAIMS_MAIN(NULL, NULL)
