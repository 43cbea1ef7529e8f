/* The bound, attacked: servers whose takes begin at bounds of their own, and users whose transactions push, stay open and give back, in
 * milliseconds that are counted and not waited for. The database, its messages and its transactions are a model; what a server remembers of
 * the topic is the real thing. */
#include "sql/topic.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

enum {
    SERVERS = 3,
    JOBS = 300,
    RUNS = 30,
    NOTIFIED_MS = 1500,     /* a commit sends a notification if it is due until then */
    LOOK_MS = 1000,         /* a server looks from the beginning so often */
    TRANSACTION_MS_MAX = 9, /* what a transaction takes */
    OPEN_MS_MAX = 1500,     /* how long a user's transaction stays open */
    MESSAGE_MS_MAX = 20,    /* a message's way */
    END_MS = 30000,
    /* A take begins when a message is there or the job is due, and a transaction may be under way; one that came in vain waits up to 100 ms. */
    LATE_MS_MAX = MESSAGE_MS_MAX + 4 * TRANSACTION_MS_MAX + 100,
};

enum job_phase { ABSENT, OPEN, WAITS, TAKEN, DONE };

struct model_job {
    enum job_phase phase;
    int64_t due_ms;
    int64_t commit_ms; /* OPEN: when it will be seen; else since when it waits */
    int64_t end_ms;    /* TAKEN: when it is acked, or given back */
    bool is_locked;    /* WAITS: a user's transaction holds the row until commit_ms */
    bool returns;      /* TAKEN: it is given back */
};

struct message {
    int64_t at_ms, due_ms;
};

struct model_server {
    struct sql_topic topic;
    struct message messages[JOBS * 3];
    size_t message_count;
    int64_t look_all_ms;
    /* of the transaction in progress */
    bool is_busy, is_take, from_the_start, brought;
    int64_t begun_ms, seen_ms, end_ms, next_ms;
};

struct world {
    struct random random;
    int64_t now_ms;
    struct model_job jobs[JOBS];
    size_t made;
    struct model_server servers[SERVERS];
    unsigned lost_of_100;
    int64_t latest_ms; /* of all jobs: taken after it was due and seen */
    size_t taken;
};

static int64_t below(struct world *world, int64_t bound)
{
    return (int64_t)random_below(&world->random, (uint64_t)bound);
}

/* Notifies like the trigger at a commit: all servers, each by its own way, or none at all. */
static void report(struct world *world, const struct model_job *job)
{
    if (job->due_ms >= world->now_ms + NOTIFIED_MS)
        return;
    for (size_t i = 0; i < SERVERS; i++) {
        struct model_server *server = &world->servers[i];
        if (below(world, 100) < world->lost_of_100)
            continue;
        assert_true(server->message_count < COUNT_OF(server->messages));
        server->messages[server->message_count++] =
            (struct message){.at_ms = world->now_ms + below(world, MESSAGE_MS_MAX),
                             .due_ms = job->due_ms / 1000 * 1000};
    }
}

/* ---- users ---- */

static void push(struct world *world)
{
    struct model_job *job = &world->jobs[world->made++];
    const int64_t delays_ms[] = {0, below(world, 50), below(world, 1000), below(world, 8000)};
    *job = (struct model_job){.phase = OPEN,
                              .due_ms = world->now_ms + delays_ms[below(world, 4)],
                              .commit_ms = world->now_ms +
                                           (below(world, 2) ? 0 : below(world, OPEN_MS_MAX))};
}

/* A cancel that is not committed, and rolled back in the end. */
static void lock_one(struct world *world)
{
    struct model_job *job = &world->jobs[below(world, JOBS)];
    if (job->phase != WAITS || job->is_locked)
        return;
    job->is_locked = true;
    job->commit_ms = world->now_ms + 1 + below(world, OPEN_MS_MAX / 5);
}

static void commit_what_is_over(struct world *world)
{
    for (size_t i = 0; i < world->made; i++) {
        struct model_job *job = &world->jobs[i];
        if (job->phase == OPEN && job->commit_ms <= world->now_ms) {
            job->phase = WAITS;
            report(world, job);
        }
        if (job->phase == WAITS && job->is_locked && job->commit_ms <= world->now_ms)
            job->is_locked = false;
        if (job->phase == TAKEN && job->end_ms <= world->now_ms) {
            job->phase = job->returns ? WAITS : DONE;
            job->commit_ms = world->now_ms;
            if (job->returns) /* keeps its due: it waits behind all bounds */
                report(world, job);
        }
    }
}

/* ---- servers ---- */

static struct model_job *first_that_waits(struct world *world, int64_t from_ms, bool locked_too)
{
    struct model_job *first = NULL;
    for (size_t i = 0; i < world->made; i++) {
        struct model_job *job = &world->jobs[i];
        if (job->phase == WAITS && job->due_ms >= from_ms && (locked_too || !job->is_locked) &&
            (!first || job->due_ms < first->due_ms))
            first = job;
    }
    return first;
}

static void begin_transaction(struct world *world, struct model_server *server)
{
    bool is_due = server->topic.next_ms <= world->now_ms && server->topic.hold_ms <= world->now_ms;
    if (!is_due && server->look_all_ms > world->now_ms)
        return;
    server->is_busy = true;
    server->is_take = is_due;
    server->from_the_start = server->look_all_ms <= world->now_ms;
    server->brought = false;
    server->begun_ms =
        world->now_ms; /* what the database takes for now in all of the transaction */
    server->seen_ms = world->now_ms + below(world, TRANSACTION_MS_MAX);
    server->end_ms = server->seen_ms + below(world, TRANSACTION_MS_MAX);
    if (server->from_the_start)
        server->look_all_ms = world->now_ms + LOOK_MS;
}

static void take_one(struct world *world, struct model_server *server)
{
    struct model_job *job = first_that_waits(world, server->topic.bound_ms, false);
    if (!job || job->due_ms > server->begun_ms)
        return;
    int64_t since_ms = job->due_ms > job->commit_ms ? job->due_ms : job->commit_ms;
    assert_true(job->due_ms <= world->now_ms); /* never early */
    if (world->now_ms - since_ms > world->latest_ms)
        world->latest_ms = world->now_ms - since_ms;
    job->phase = TAKEN;
    job->end_ms = world->now_ms + 1 + below(world, 100);
    job->returns = below(world, 20) == 0;
    server->brought = true;
    world->taken++;
}

static void be_in_the_database(struct world *world, struct model_server *server)
{
    if (server->seen_ms != world->now_ms)
        return;
    if (server->is_take)
        take_one(world, server);
    const struct model_job *next =
        first_that_waits(world, server->from_the_start ? 0 : server->topic.bound_ms, true);
    server->next_ms = next ? next->due_ms : INT64_MAX;
}

static void end_transaction(struct world *world, struct model_server *server)
{
    if (server->end_ms != world->now_ms)
        return;
    sql_topic_seen(&server->topic, server->next_ms, server->begun_ms, server->is_take,
                   server->brought);
    server->is_busy = false;
}

/* PostgreSQL hands over messages between transactions. */
static void receive(struct world *world, struct model_server *server)
{
    size_t left = 0;
    for (size_t i = 0; i < server->message_count; i++) {
        if (server->messages[i].at_ms <= world->now_ms)
            sql_topic_receive(&server->topic, server->messages[i].due_ms);
        else
            server->messages[left++] = server->messages[i];
    }
    server->message_count = left;
}

static void step_server(struct world *world, struct model_server *server)
{
    if (!server->is_busy) {
        receive(world, server);
        begin_transaction(world, server);
    }
    if (server->is_busy) {
        be_in_the_database(world, server);
        end_transaction(world, server);
    }
    assert_true(server->topic.bound_ms <=
                world->now_ms); /* later pushes are not missed behind it */
}

/* ---- runs ---- */

static void live(struct world *world)
{
    for (size_t i = 0; i < SERVERS; i++)
        world->servers[i].topic.next_ms = INT64_MAX;
    for (world->now_ms = 1000000; world->now_ms < 1000000 + END_MS; world->now_ms++) {
        bool is_over = world->now_ms > 1000000 + END_MS - 12000;
        if (world->made < JOBS && !is_over && below(world, 40) == 0)
            push(world);
        if (!is_over && below(world, 60) == 0)
            lock_one(world);
        commit_what_is_over(world);
        for (size_t i = 0; i < SERVERS; i++)
            step_server(world, &world->servers[(i + (size_t)world->now_ms) % SERVERS]);
    }
    for (size_t i = 0; i < world->made; i++)
        CASE_HOLDS("what was committed is taken, and acked", world->jobs[i].phase == DONE);
}

static int64_t latest_of_runs(struct random *random, unsigned lost_of_100)
{
    static struct world world;
    int64_t latest_ms = 0;
    size_t taken = 0;
    for (int run = 0; run < RUNS; run++) {
        world =
            (struct world){.random = {.state = random_next(random)}, .lost_of_100 = lost_of_100};
        live(&world);
        latest_ms = latest_ms > world.latest_ms ? latest_ms : world.latest_ms;
        taken += world.taken;
    }
    assert_true(taken > (size_t)RUNS * JOBS / 2);
    printf("%zu takes, at most %lld ms late\n", taken, (long long)latest_ms);
    return latest_ms;
}

CLAIM(with_all_messages_no_job_waits_longer_than_its_message)
{
    struct random random = seed_random(__func__);
    assert_in_range(latest_of_runs(&random, 0), 0, LATE_MS_MAX);
}

CLAIM(a_lost_message_costs_at_most_a_second)
{
    struct random random = seed_random(__func__);
    assert_in_range(latest_of_runs(&random, 50), 0, LOOK_MS + LATE_MS_MAX);
    assert_in_range(latest_of_runs(&random, 100), 0, LOOK_MS + LATE_MS_MAX);
}

CLAIMS_MAIN(NULL, NULL)
