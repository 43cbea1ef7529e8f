/* Groups of an engine: their settings survive checkpoints, eviction spares quiet groups, idle groups are freed, and every invariant
 * holds after random calls. (What groups do for callers: tests/contract/directed_flow.c.) */
#include "engine_owner.h"
#include "unit/claim.h"

#include "unit/repetitions.h"

static enum queue_status push_in(struct owner *owner, const char *group, const char *id,
                                 int64_t delay_ms)
{
    struct queue_result result = {0};
    struct queue_push push = {.topic = topic_name(0),
                              .id = slice_of(id),
                              .group = slice_of(group),
                              .body = slice_of("body"),
                              .priority = QUEUE_PRIORITY_UNSET,
                              .when = {QUEUE_DUE_DELAY, delay_ms}};
    engine_push(owner->rig->engine, &push, owner->now, &result);
    return result.status;
}

static void set_group(struct owner *owner, const char *group, uint32_t weight)
{
    assert_int_equal(engine_group_put(owner->rig->engine, topic_name(0), slice_of(group),
                                      &(struct group_settings){.weight = weight}),
                     QUEUE_OK);
}

/* Returns the weight of a group with settings; 0: it has no settings. */
static uint32_t weight_of(struct owner *owner, const char *group)
{
    struct queue_group shown;
    assert_true(
        engine_group_show(owner->rig->engine, topic_name(0), slice_of(group), owner->now, &shown));
    assert_int_equal(shown.has_settings, shown.settings.weight != 0);
    return shown.settings.weight;
}

static size_t count_groups(struct owner *owner)
{
    struct queue_group group;
    size_t count = 0;
    for (uint32_t at = 0;
         engine_group_next(owner->rig->engine, topic_name(0), &at, owner->now, &group);)
        count++;
    return count;
}

static void set_flow(struct owner *owner, struct topic_flow flow)
{
    assert_int_equal(
        engine_topic_put(owner->rig->engine, topic_name(0), &(struct topic_settings){.flow = flow}),
        QUEUE_OK);
}

/* ---- claims ---- */

/* One is deleted while the records of the others are written again. */
CLAIM(settings_of_groups_survive_checkpoints)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    for (size_t deleted = 0; deleted < 5; deleted++) {
        struct owner owner;
        struct random random = {1};
        open_owner(&owner);
        for (size_t i = 0; i < 5; i++)
            set_group(&owner, names[i], (uint32_t)i + 1);
        push_in(&owner, "b", "1", 0);
        uint32_t next_file = ++owner.rig->file;
        owner.rig->collect = (struct engine_collect){.before_file = next_file,
                                                     .is_victim = rig_is_victim,
                                                     .each = rig_each,
                                                     .ctx = owner.rig};
        owner.rig->stage = RIG_COLLECTING;
        while (owner.rig->stage != RIG_CARRYING)
            rig_checkpoint_step(owner.rig, &random, owner.now);
        for (size_t i = 0; i < 3; i++)
            rig_checkpoint_step(owner.rig, &random, owner.now);
        assert_int_equal(
            engine_group_delete(owner.rig->engine, topic_name(0), slice_of(names[deleted])),
            QUEUE_OK);
        while (owner.rig->stage != RIG_IDLE)
            rig_checkpoint_step(owner.rig, &random, owner.now);
        crash(&owner);
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(weight_of(&owner, names[i]), i == deleted ? 0 : i + 1);
        checkpoint(&owner, ++owner.rig->file);
        crash(&owner);
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(weight_of(&owner, names[i]), i == deleted ? 0 : i + 1);
        close_owner(&owner);
    }
}

CLAIM(eviction_spares_the_jobs_of_quiet_groups)
{
    enum { BACKLOG = 100, MAX = 20 };
    struct owner owner;
    struct engine_view view;
    uint32_t at = 0;
    open_owner(&owner);
    push_in(&owner, "quiet", "q", 0);
    for (int i = 0; i < BACKLOG; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        push_in(&owner, "noisy", id, 0);
    }
    checkpoint(&owner, ++owner.rig->file);
    while (!engine_evict_some(owner.rig->engine, &at, owner.now.inner_ms, MAX, owner.now, 7))
        ;
    assert_true(engine_entries(owner.rig->engine) <= MAX);
    assert_true(engine_find(owner.rig->engine, topic_name(0), slice_of("q"), owner.now, &view));
    engine_view_fini(&view);
    assert_int_equal(shown(&owner).counts.ready, BACKLOG + 1);
    close_owner(&owner);
}

CLAIM(idle_groups_are_freed)
{
    struct owner owner;
    open_owner(&owner);
    set_flow(&owner, (struct topic_flow){.group = {.rate = {1, FREQUENCY_SECOND}, .burst = 1}});
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        push_in(&owner, name, name, 0);
        answer(&owner, take(&owner), (struct queue_answer){.verb = QUEUE_ACK});
    }
    assert_int_equal(count_groups(&owner), 0);
    owner.now.inner_ms += 1000;
    owner.now.wall_ms += 1000;
    while (engine_next_ms(owner.rig->engine) <= owner.now.inner_ms)
        engine_advance(owner.rig->engine, owner.now, 10);
    engine_check(owner.rig->engine);
    assert_int_equal(engine_next_ms(owner.rig->engine), INT64_MAX);
    close_owner(&owner);
}

CLAIM(groups_at_their_limit_cause_no_wake_ups)
{
    struct owner owner;
    open_owner(&owner);
    set_flow(&owner, (struct topic_flow){.group.limit = 1});
    for (int i = 0; i < 100; i++) {
        char name[16], other[32];
        snprintf(name, sizeof name, "%d", i);
        snprintf(other, sizeof other, "%d-again", i);
        push_in(&owner, name, name, 0);
        push_in(&owner, name, other, 0);
        take(&owner);
    }
    assert_int_equal(shown(&owner).counts.held, 100);
    assert_true(engine_next_ms(owner.rig->engine) > owner.now.inner_ms + 1000); /* the leases */
    close_owner(&owner);
}

CLAIM(the_limit_of_the_topic_is_shown_with_groups_that_have_ready_jobs)
{
    struct owner owner;
    struct queue_group ready, leased;
    open_owner(&owner);
    set_flow(&owner, (struct topic_flow){.topic.limit = 1, .group.limit = 1});
    push_in(&owner, "a", "1", 0);
    push_in(&owner, "b", "2", 0);
    take(&owner);
    engine_group_show(owner.rig->engine, topic_name(0), slice_of("a"), owner.now, &leased);
    engine_group_show(owner.rig->engine, topic_name(0), slice_of("b"), owner.now, &ready);
    assert_int_equal(leased.held_by, FLOW_NOT_HELD);
    assert_int_equal(ready.held_by, FLOW_HELD_LIMIT);
    close_owner(&owner);
}

CLAIM(the_limit_of_the_topic_is_shown_with_jobs_without_a_group)
{
    struct owner owner;
    struct queue_group none;
    open_owner(&owner);
    set_flow(&owner, (struct topic_flow){.topic.limit = 1});
    push_in(&owner, "", "1", 0);
    push_in(&owner, "", "2", 0);
    take(&owner);
    assert_true(
        engine_group_show(owner.rig->engine, topic_name(0), slice_of(""), owner.now, &none));
    assert_int_equal(none.held_by, FLOW_HELD_LIMIT);
    close_owner(&owner);
}

/* ---- random calls ---- */

static struct topic_flow random_flow(struct random *random)
{
    struct topic_flow flow = {.topic.limit = (uint32_t)random_below(random, 8),
                              .group.limit = (uint32_t)random_below(random, 3)};
    if (!random_below(random, 3))
        flow.topic.rate =
            (struct frequency){1 + (uint32_t)random_below(random, 200), FREQUENCY_SECOND};
    if (!random_below(random, 3))
        flow.group.rate =
            (struct frequency){1 + (uint32_t)random_below(random, 50), FREQUENCY_SECOND};
    return flow;
}

static void random_settings(struct owner *owner, struct random *random, const char *group)
{
    const struct group_settings settings = {
        .weight = (uint32_t)random_below(random, 5),
        .limits.limit = (uint32_t)random_below(random, 4),
        .paused = !random_below(random, 4),
    };
    if (random_below(random, 2))
        engine_group_put(owner->rig->engine, topic_name(0), slice_of(group), &settings);
    else
        engine_group_delete(owner->rig->engine, topic_name(0), slice_of(group));
}

static void random_call(struct owner *owner, struct random *random, struct engine_lease *leases,
                        size_t *count)
{
    static const char *const groups[] = {"", "a", "b", "c", "d"};
    const char *group = groups[random_below(random, 5)];
    struct engine_view view;
    struct queue_result result = {0};
    char id[16];
    snprintf(id, sizeof id, "%u", (unsigned)random_below(random, 40));
    switch (random_below(random, 12)) {
    case 0:
        random_settings(owner, random, group);
        break;
    case 1:
        set_flow(owner, random_flow(random));
        break;
    case 2:
        owner->now.inner_ms += (int64_t)random_below(random, 200);
        owner->now.wall_ms = owner->now.inner_ms + owner->now.skew_ms;
        while (engine_next_ms(owner->rig->engine) <= owner->now.inner_ms)
            engine_advance(owner->rig->engine, owner->now, 10);
        break;
    case 3:
    case 4:
    case 5:
        if (*count == 64 || !engine_take(owner->rig->engine, topic_name(0), 1, SIZE_MAX, 1000,
                                         (struct slice){0}, owner->now, &view))
            break;
        leases[(*count)++] =
            (struct engine_lease){.key_low = view.key.low, .delivery = view.delivery};
        engine_view_fini(&view);
        break;
    case 6:
    case 7: {
        if (!*count)
            break;
        size_t at = random_below(random, *count);
        const struct queue_answer answer = {
            .verb = (enum queue_verb)(1 + random_below(random, 4)),
            .delay_ms = (int64_t)random_below(random, 300) - 1,
            .lease_ms = 500,
            .hold_ms = random_below(random, 4) ? 0 : (int64_t)random_below(random, 300)};
        engine_answer(owner->rig->engine, &leases[at], &answer, owner->now, &result);
        if (answer.verb != QUEUE_EXTEND)
            leases[at] = leases[--*count];
        break;
    }
    default:
        push_in(owner, group, id, (int64_t)random_below(random, 100));
    }
}

CLAIM(invariants_hold_after_random_calls)
{
    const uint64_t rounds = repetitions(200, 40);
    struct random random = {1};
    for (uint64_t round = 0; round < rounds; round++) {
        struct owner owner;
        struct engine_lease leases[64];
        size_t count = 0;
        open_owner(&owner);
        for (int step = 0; step < 200; step++) {
            random_call(&owner, &random, leases, &count);
            engine_check(owner.rig->engine);
            if (!random_below(&random, 60)) {
                checkpoint(&owner, ++owner.rig->file);
                evict_all(&owner);
                rig_load_due(owner.rig, 0, true, owner.now);
            }
            if (!random_below(&random, 60))
                crash(&owner);
        }
        close_owner(&owner);
    }
}

CLAIMS_MAIN(NULL, NULL)
