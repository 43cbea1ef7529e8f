/*
 * Calls that cross each other and every step of background work: few ids are pushed, taken, answered,
 * cancelled, purged and deleted with their topics while checkpoints, merges, loading and scans are in progress, all of
 * them a few jobs at a time. The test does not know the answer of each call. Invariants: the two parties that
 * count slots agree after every step (shard_check), each call is answered, each shown job can be listed, and
 * a stop or a power cut changes none of this.
 */
#include "sim.h"

#include "local/shard_core.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOPICS = 3,
    IDS = 12,
    FILLERS = 400,
    LEASES = 16,
    CALLS = 24,
    STEPS = 6000,
    BODY_BYTES = 300
};

static const struct scenario churned = {.name = "churn",
                                        .file_bytes = 16384,
                                        .limits = {.checkpoint_files_min = 1,
                                                   .checkpoint_files_max = 2,
                                                   .horizon_ms = 300,
                                                   .topic_quota = 12,
                                                   .slack_bytes = 30000,
                                                   .victim_bytes_max = 32768,
                                                   .keys_entries_max = 200,
                                                   .keys_fan = 2,
                                                   .merge_entries = 4,
                                                   .checkpoint_jobs = 3,
                                                   .scan_changes = 2,
                                                   .timers = WORLD_SMALL_STEP},
                                        .step_most_ms = 1500,
                                        .time_percent = 8};

struct churn {
    struct world world;
    struct sim_fs disk;
    struct oracle oracle; /* only keeps the time */
    char leases[LEASES][QUEUE_LEASE_TEXT_BYTES_MAX + 1];
    uint32_t lease_count;
    /* The last look. */
    uint64_t counted[TOPICS + 1], listed;
    char cursor[QUEUE_CURSOR_BYTES_MAX];
    size_t cursor_bytes;
    enum queue_status status;
};

static const char *const topic_names[TOPICS + 1] = {"a", "b", "c", "filler"};

static uint64_t below(struct churn *churn, uint64_t bound)
{
    return random_below(&churn->world.random, bound);
}

/* ---- calls ---- */

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct churn *churn = owner;

    (void)tag;
    for (size_t i = 0; i < reply->job_count; i++) {
        struct slice lease = reply->jobs[i].lease;
        char *into = churn->leases[churn->lease_count++ % LEASES];

        memcpy(into, lease.at, lease.len);
        into[lease.len] = '\0';
    }
}

static void on_looked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    (void)reply;
}

static void push_one(struct churn *churn, uint32_t topic, uint32_t ids, int64_t delay_ms)
{
    static const char body[BODY_BYTES];
    char id[16];
    int bytes = snprintf(id, sizeof id, "%u", (unsigned)below(churn, ids));
    const struct queue_push push = {.topic = slice_of(topic_names[topic]),
                                    .id = slice_make(id, (size_t)bytes),
                                    .body = slice_make(body, below(churn, BODY_BYTES)),
                                    .when = {.due = QUEUE_DUE_DELAY, .ms = delay_ms},
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .on_conflict = (enum record_conflict)below(churn, 5),
                                    .once = slice_of(below(churn, 4) ? "" : id)};

    world_submit(&churn->world,
                 &(struct command){.kind = COMMAND_PUSH, .count = 1, .pushes = &push}, on_answered,
                 churn);
}

static void change_one(struct churn *churn, struct slice topic)
{
    static const enum queue_change_verb verbs[] = {QUEUE_CANCEL, QUEUE_CANCEL, QUEUE_RESCHEDULE,
                                                   QUEUE_RUN};
    char id[16];
    int bytes = snprintf(id, sizeof id, "%u", (unsigned)below(churn, IDS));
    const struct queue_change change = {.verb = verbs[below(churn, 4)],
                                        .topic = topic,
                                        .id = slice_make(id, (size_t)bytes),
                                        .when = {.due = QUEUE_DUE_DELAY, .ms = 5000},
                                        .priority = QUEUE_PRIORITY_UNSET};

    world_submit(&churn->world,
                 &(struct command){.kind = COMMAND_CHANGE, .count = 1, .changes = &change},
                 on_answered, churn);
}

static void take_some(struct churn *churn, struct slice topic)
{
    world_submit(&churn->world,
                 &(struct command){.kind = COMMAND_TAKE,
                                   .take = {.topics = &topic,
                                            .topic_count = 1,
                                            .max = 3,
                                            .lease_ms = below(churn, 2) ? 300 : 60000}},
                 on_answered, churn);
}

static void answer_one(struct churn *churn)
{
    static const enum queue_verb verbs[] = {QUEUE_ACK, QUEUE_ACK, QUEUE_NACK, QUEUE_RETURN,
                                            QUEUE_AGAIN};
    static const char body[BODY_BYTES];
    enum queue_verb verb = verbs[below(churn, 5)];
    const struct queue_again again = {
        .when = {.due = QUEUE_DUE_DELAY, .ms = below(churn, 2) ? 3600000 : 0},
        .priority = QUEUE_PRIORITY_UNSET,
        .has_body = below(churn, 2),
        .body = slice_make(body, below(churn, BODY_BYTES))};
    const struct queue_answer answer = {.verb = verb,
                                        .lease = slice_of(churn->leases[below(churn, LEASES)]),
                                        .delay_ms =
                                            verb == QUEUE_NACK && below(churn, 2) ? 3600000 : 0,
                                        .final = verb == QUEUE_NACK && below(churn, 3) == 0,
                                        .again = verb == QUEUE_AGAIN ? &again : NULL};

    world_submit(&churn->world,
                 &(struct command){.kind = COMMAND_ANSWER, .count = 1, .answers = &answer},
                 on_answered, churn);
}

static void change_topic(struct churn *churn, struct slice topic)
{
    static const enum queue_topic_verb verbs[] = {QUEUE_TOPIC_PUT,    QUEUE_TOPIC_PURGE,
                                                  QUEUE_TOPIC_PURGE,  QUEUE_TOPIC_DELETE,
                                                  QUEUE_TOPIC_DELETE, QUEUE_TOPIC_REDRIVE};
    static const enum job_state states[] = {0, 0, JOB_DELAYED, JOB_READY, JOB_DEAD};
    static const int64_t windows_ms[] = {0, 50, 400, 3600000};
    struct queue_topic_call call = {
        .verb = verbs[below(churn, 6)],
        .topic = topic,
        .settings = {.dedup_window_ms = windows_ms[below(churn, 4)]},
    };

    if (call.verb == QUEUE_TOPIC_PURGE)
        call.state = states[below(churn, 5)];
    world_submit(&churn->world, &(struct command){.kind = COMMAND_TOPIC, .topic = call},
                 on_answered, churn);
}

static void list_some(struct churn *churn, struct slice topic)
{
    world_submit(&churn->world,
                 &(struct command){.kind = COMMAND_LIST, .list = {.topic = topic, .limit = 5}},
                 on_looked, churn);
}

static void call_something(struct churn *churn)
{
    static const int64_t delays_ms[] = {0, 0, 50, 1500, 3600000, 3600000};
    uint32_t number = (uint32_t)below(churn, TOPICS);
    struct slice topic = slice_of(topic_names[number]);
    uint64_t chance = below(churn, 100);

    sim_totals.figures.commands++;
    if (chance < 25)
        push_one(churn, TOPICS, FILLERS, 1000 * (1 + (int64_t)below(churn, 9999)));
    else if (chance < 55)
        push_one(churn, number, IDS, delays_ms[below(churn, 6)]);
    else if (chance < 63)
        take_some(churn, topic);
    else if (chance < 74)
        answer_one(churn);
    else if (chance < 84)
        change_one(churn, topic);
    else if (chance < 96)
        change_topic(churn, topic);
    else
        list_some(churn, topic);
}

/* ---- looking ---- */

static void fail(const char *what)
{
    printf("VIOLATION: %s\n", what);
    sim_report();
}

static void must(bool holds, const char *what)
{
    if (!holds)
        fail(what);
}

static void on_listed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct churn *churn = owner;

    (void)tag;
    churn->status = reply->status;
    churn->listed += reply->job_count;
    churn->cursor_bytes = reply->cursor.len;
    if (reply->cursor.len)
        memcpy(churn->cursor, reply->cursor.at, reply->cursor.len);
}

static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct churn *churn = owner;

    (void)tag;
    memset(churn->counted, 0, sizeof churn->counted);
    for (size_t i = 0; i < reply->topic_count; i++)
        for (uint32_t t = 0; t <= TOPICS; t++)
            if (slice_is(reply->topics[i].name, topic_names[t])) {
                const struct queue_counts *counts = &reply->topics[i].counts;

                churn->counted[t] = counts->delayed + counts->retrying + counts->ready +
                                    counts->leased + counts->dead;
            }
}

static uint64_t list_all(struct churn *churn, uint32_t topic)
{
    churn->listed = churn->cursor_bytes = 0;
    do {
        const struct command command = {
            .kind = COMMAND_LIST,
            .list = {.topic = slice_of(topic_names[topic]),
                     .limit = 7,
                     .cursor = slice_make(churn->cursor, churn->cursor_bytes)}};

        world_submit(&churn->world, &command, on_listed, churn);
        must(world_quiet(&churn->world), "each call is answered (list)");
    } while (churn->cursor_bytes);
    return churn->listed;
}

static void look(struct churn *churn)
{
    const struct command topics = {.kind = COMMAND_TOPICS};

    must(world_quiet(&churn->world), "each call is answered");
    world_submit(&churn->world, &topics, on_topics, churn);
    must(world_quiet(&churn->world), "each call is answered (topics)");
    for (uint32_t t = 0; t <= TOPICS; t++)
        must(list_all(churn, t) == churn->counted[t], "each job that is counted can be listed");
    sim_totals.figures.quiets++;
}

/* ---- a life ---- */

static void churn_open(struct churn *churn)
{
    if (world_open(&churn->world)) {
        fail(churn->world.error);
        exit(1);
    }
}

/* Reopens, in order or after a power cut: all was answered before. */
static void churn_reopen(struct churn *churn, bool in_order, uint64_t seed)
{
    uint64_t before[TOPICS + 1];
    int64_t inner_ms = churn->world.machine.inner_ms, wall_ms = churn->world.machine.wall_ms;

    look(churn);
    memcpy(before, churn->counted, sizeof before);
    sim_totals.figures.checkpoints += atomic_load(&churn->world.shard->checkpoints);
    if (in_order)
        must(world_stop(&churn->world), "a stop comes to an end");
    world_drop(&churn->world);
    sim_fs_crash(&churn->disk, SIM_DROP_UNSYNCED);
    world_init(&churn->world, &churned, &churn->disk, &churn->oracle, seed, inner_ms, wall_ms);
    churn_open(churn);
    sim_totals.recoveries++;
    look(churn);
    must(memcmp(before, churn->counted, sizeof before) == 0, "a restart changes no count");
}

void sim_churn(uint64_t seed, uint32_t lives)
{
    for (uint64_t life = seed; life < seed + lives; life++) {
        struct churn *churn = calloc(1, sizeof *churn);

        assert(churn);
        sim_trying("sim churn 1 with TARRY_TEST_SEED=%llu", (unsigned long long)life);
        sim_fs_init(&churn->disk, life);
        oracle_init(&churn->oracle);
        machine_log_clear();
        world_init(&churn->world, &churned, &churn->disk, &churn->oracle, life, 1700000000000,
                   1700000000000);
        churn_open(churn);
        for (uint32_t step = 1; step <= STEPS; step++) {
            if (churn->world.asked - churn->world.answered < CALLS && below(churn, 3) == 0)
                call_something(churn);
            world_happen(&churn->world);
            if (step % (STEPS / 3) == 0)
                churn_reopen(churn, step % 2, life + step);
        }
        world_drop(&churn->world);
        sim_fs_fini(&churn->disk);
        sim_totals.runs++;
        free(churn);
    }
}
