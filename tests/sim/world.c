#include "world.h"

#include "local/shard_core.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS_MAX = 6000, WAITS_MAX = 4000 };
bool world_in_product;

/* ---- opening, and the ends ---- */

static void on_ready(void *ctx, struct slice topic, uint64_t reactors)
{
    (void)ctx;
    (void)topic;
    (void)reactors;
}

static void on_event(void *ctx, enum queue_event event, struct slice topic)
{
    (void)ctx;
    (void)event;
    (void)topic;
}

static void on_failed(void *ctx)
{
    ((struct world *)ctx)->has_failed = true;
}

static void on_stopped(void *ctx)
{
    ((struct world *)ctx)->has_stopped = true;
}

void world_init(struct world *world, const struct scenario *scenario, struct sim_fs *disk,
                struct oracle *oracle, uint64_t seed, int64_t inner_ms, int64_t wall_ms)
{
    *world = (struct world){.scenario = scenario, .disk = disk, .oracle = oracle};
    world->random.state = seed;
    world->local = (struct local_options){.sync = WAL_SYNC_ALWAYS,
                                          .wal_file_bytes = scenario->file_bytes,
                                          .body_bytes_max = ORACLE_BODY_MAX,
                                          .topics_max = 100};
    world->options = (struct shard_options){.local = &world->local,
                                            .dir = "s",
                                            .hash_seed = 1,
                                            .ready = on_ready,
                                            .event = on_event,
                                            .failed = on_failed,
                                            .fs = &disk->fs,
                                            .limits = scenario->limits,
                                            .ctx = world};
    machine_init(&world->machine, random_next(&world->random), inner_ms, wall_ms);
    oracle_tick(oracle, inner_ms, wall_ms);
}

/* Asserts that an empty batch has room for the changes of a step: a step waits for room, so with
 * less no timer would ever run. */
static void check_room(const struct world *world)
{
    const struct shard_limits *limits = &world->scenario->limits;
    uint32_t scan = limits->scan_changes + 1;
    uint32_t changes = scan > limits->timers ? scan : limits->timers;

    assert(limits->timers && limits->scan_changes);
    assert(changes * engine_room_change(world->shard->engine) <= wal_room_max(world->shard->wal));
}

int world_open(struct world *world)
{
    struct shard_recovered recovered;
    struct machine *before = machine_switch(&world->machine);
    int result;

    world_in_product = memory_fault.counts = true;
    result = shard_open(&world->options, world->machine.reactor, &world->shard, &recovered,
                        world->error, sizeof world->error);
    world_in_product = memory_fault.counts = false;
    oracle_tick(world->oracle, world->machine.inner_ms, world->machine.wall_ms);
    machine_switch(before);
    if (result)
        world->shard = NULL;
    else
        check_room(world);
    return result;
}

void world_drop(struct world *world)
{
    struct machine *before = machine_switch(&world->machine);

    if (world->shard) {
        world->disk->is_down = true;
        shard_free(world->shard);
    }
    world->shard = NULL;
    machine_fini(&world->machine);
    machine_switch(before);
}

bool world_stop(struct world *world)
{
    shard_stop(world->shard, on_stopped, world);
    reactor_iterate_again(world->machine.reactor); /* as after the letter that asks for it */
    for (int i = 0; i < WAITS_MAX && !world->has_stopped; i++) {
        world_settle(world);
        if (!world->has_stopped)
            world_wait(world, 10);
    }
    if (world->has_stopped) {
        struct machine *before = machine_switch(&world->machine);

        shard_free(world->shard);
        world->shard = NULL;
        reactor_free(world->machine.reactor);
        world->machine.reactor = reactor_new(0);
        machine_switch(before);
    }
    return world->has_stopped;
}

/* ---- things that happen ---- */

static void tick(struct world *world)
{
    oracle_tick(world->oracle, world->machine.inner_ms, world->machine.wall_ms);
}

static void iterate(struct world *world)
{
    struct machine *before = machine_switch(&world->machine);

    world_in_product = memory_fault.counts = true;
    machine_iterate(&world->machine);
    world_in_product = memory_fault.counts = false;
    if (world->unchecked)
        world->unchecked--;
    else if (world->shard)
        world->unchecked = shard_check(world->shard) / 1000;
    machine_switch(before);
    tick(world);
}

static void perform(struct world *world, uint32_t nth)
{
    struct machine *before = machine_switch(&world->machine);

    world_in_product = memory_fault.counts = true;
    machine_perform(&world->machine, nth);
    world_in_product = memory_fault.counts = false;
    machine_switch(before);
    tick(world);
}

static void pass(struct world *world, int64_t ms)
{
    machine_advance(&world->machine, ms);
    tick(world);
}

/* Does one of the possible things; false: there is nothing to do. */
static bool do_something(struct world *world)
{
    uint32_t busy = machine_busy_workers(&world->machine);
    uint32_t wants = machine_needs_iteration(&world->machine);

    if (!busy && !wants)
        return false;
    if (wants && random_below(&world->random, busy * 2 + 2) < 2)
        iterate(world);
    else if (busy)
        perform(world, (uint32_t)random_below(&world->random, busy));
    else
        iterate(world);
    return true;
}

static void time_passes(struct world *world)
{
    const struct scenario *scenario = world->scenario;
    int64_t left_ms = machine_deadline_ms(&world->machine) - world->machine.inner_ms;

    if (random_below(&world->random, 4) == 0 && left_ms > 0 && left_ms < scenario->step_most_ms)
        pass(world, left_ms);
    else
        pass(world,
             1 + (int64_t)random_below(&world->random, random_below(&world->random, 8)
                                                           ? 8
                                                           : (uint64_t)scenario->step_most_ms));
}

void world_step(struct world *world)
{
    uint64_t chance = random_below(&world->random, 100);

    if (chance < world->scenario->time_percent)
        time_passes(world);
    else if (chance < 60 && do_something(world))
        ;
    else if (random_below(&world->random, 3) || !world_command(world))
        do_something(world);
}

void world_happen(struct world *world)
{
    if (random_below(&world->random, 100) < world->scenario->time_percent || !do_something(world))
        time_passes(world);
}

bool world_settle(struct world *world)
{
    for (int i = 0; i < STEPS_MAX; i++)
        if (!do_something(world))
            return true;
    return false;
}

static bool is_waiting(const struct world *world)
{
    for (uint32_t i = 0; i < ORACLE_CALLS; i++)
        if (world->calls[i].is_used)
            return true;
    return world->asked != world->answered;
}

bool world_quiet(struct world *world)
{
    for (int i = 0; i < WAITS_MAX; i++) {
        if (!world_settle(world))
            return false;
        if (!is_waiting(world))
            return true;
        pass(world, 1 + i * 2);
    }
    return false;
}

void world_wait(struct world *world, int64_t ms)
{
    int64_t until_ms = world->machine.inner_ms + ms;

    world_settle(world);
    while (world->machine.inner_ms < until_ms) {
        int64_t left_ms = until_ms - world->machine.inner_ms;
        int64_t next_ms = machine_deadline_ms(&world->machine) - world->machine.inner_ms;

        pass(world, next_ms > 0 && next_ms < left_ms ? next_ms : left_ms);
        world_settle(world);
    }
}

/* ---- asking ---- */

struct asking {
    struct world *world;
    queue_done *done;
    void *owner;
};

static void on_answer(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct asking *asking = owner;
    bool counts = memory_fault.counts;

    memory_fault.counts = false;
    asking->world->answered++;
    asking->done(asking->owner, tag, reply);
    free(asking);
    memory_fault.counts = counts;
}

void world_submit(struct world *world, const struct command *command, queue_done *done, void *owner)
{
    struct machine *before = machine_switch(&world->machine);
    struct asking *asking = malloc(sizeof *asking);

    assert(asking);
    *asking = (struct asking){.world = world, .done = done, .owner = owner};
    world->asked++;
    world_in_product = memory_fault.counts = true;
    shard_submit(world->shard, command,
                 (struct queue_reply_to){.done = on_answer, .owner = asking});
    world_in_product = memory_fault.counts = false;
    reactor_iterate_again(world->machine.reactor);
    machine_switch(before);
}

/* ---- looking at everything ---- */

struct looking {
    struct world *world;
    struct look *look;
    char cursor[64];
    size_t cursor_bytes;
    enum queue_status status;
};

static void on_listed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct looking *looking = owner;

    (void)tag;
    looking->status = reply->status;
    looking->cursor_bytes = reply->cursor.len;
    if (reply->cursor.len)
        memcpy(looking->cursor, reply->cursor.at, reply->cursor.len);
    for (size_t i = 0; i < reply->job_count; i++)
        oracle_see(looking->world->oracle, looking->look, &reply->jobs[i]);
}

static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct looking *looking = owner;

    (void)tag;
    looking->status = reply->status;
    oracle_seen_all(looking->world->oracle, looking->look, reply->topics, reply->topic_count);
}

static void list_topic(struct world *world, struct looking *looking, uint32_t topic)
{
    uint32_t limit = random_below(&world->random, 3) ? 1000 : 7;

    looking->cursor_bytes = 0;
    do {
        struct command command = {
            .kind = COMMAND_LIST,
            .list = {.topic = slice_of(oracle_topic_name(topic)),
                     .limit = limit,
                     .with_body = true,
                     .cursor = slice_make(looking->cursor, looking->cursor_bytes)}};

        world_submit(world, &command, on_listed, looking);
        if (!world_quiet(world)) {
            oracle_violation(world->oracle, "every call is answered", topic, UINT32_MAX, "list");
            return;
        }
        if (looking->status != QUEUE_OK && looking->status != QUEUE_NOT_FOUND)
            oracle_violation(world->oracle, "what is there can be listed", topic, UINT32_MAX,
                             "status %d", (int)looking->status);
    } while (looking->cursor_bytes);
}

void world_look(struct world *world, bool recovered)
{
    struct look look = {.recovered = recovered};
    struct looking looking = {.world = world, .look = &look};
    struct command topics = {.kind = COMMAND_TOPICS};

    world_settle(world);
    for (uint32_t t = 0; t < ORACLE_TOPICS; t++)
        list_topic(world, &looking, t);
    world_submit(world, &topics, on_topics, &looking);
    if (!world_quiet(world))
        oracle_violation(world->oracle, "every call is answered", UINT32_MAX, UINT32_MAX, "topics");
    world->figures.quiets++;
}
