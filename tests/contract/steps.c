#include "steps.h"

#include <stdlib.h>

enum { TOPICS = 3, IDS = 6, ITEMS_MAX = 5 };

static const char *const topics[TOPICS] = {"a", "b", "c"};
static const char *const ids[IDS] = {"0", "1", "2", "3", "4", "order-5!"};

/* Picks one of the arguments. */
#define ONE_OF(RANDOM, ...)                                                                        \
    ((const int64_t[]){__VA_ARGS__}[random_below(                                                  \
        (RANDOM), sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))])

static bool chance(struct random *random, uint64_t percent)
{
    return random_below(random, 100) < percent;
}

static struct slice any_topic(struct random *random)
{
    return slice_of(topics[random_below(random, TOPICS)]);
}

static struct slice any_id(struct random *random)
{
    return slice_of(ids[random_below(random, IDS)]);
}

/* ---- drawing ---- */

/* A kind of step; the weights of all rows add up to 100. */
struct weight {
    enum step_kind kind;
    uint64_t weight;
};

static void draw(struct random *random, const struct weight *weights, struct step *steps,
                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t pick = random_below(random, 100);
        size_t row = 0;

        while (pick >= weights[row].weight)
            pick -= weights[row++].weight;
        steps[i] = (struct step){weights[row].kind, random_next(random)};
    }
}

void steps_draw(struct random *random, struct step *steps, size_t count)
{
    static const struct weight weights[] = {
        {STEP_PUSH, 28}, {STEP_TAKE, 20}, {STEP_ANSWER, 18},  {STEP_CHANGE, 10},
        {STEP_TOPIC, 7}, {STEP_LIST, 3},  {STEP_ADVANCE, 12}, {STEP_REOPEN, 2},
    };

    draw(random, weights, steps, count);
}

void steps_draw_churn(struct random *random, struct step *steps, size_t count)
{
    static const struct weight weights[] = {
        {STEP_PUSH, 24},  {STEP_TAKE, 12}, {STEP_ANSWER, 10},  {STEP_CHANGE, 6},
        {STEP_CHURN, 30}, {STEP_TOPIC, 4}, {STEP_ADVANCE, 10}, {STEP_REOPEN, 4},
    };

    draw(random, weights, steps, count);
}

/* ---- push ---- */

static struct queue_when any_when(struct world *world, struct random *random)
{
    int64_t now_ms = world->model.now_ms;

    switch (random_below(random, 8)) {
    case 0:
    case 1:
    case 2:
        return (struct queue_when){.due = QUEUE_DUE_NOW};
    case 3:
        return (struct queue_when){.due = QUEUE_DUE_AT,
                                   .ms = now_ms + ONE_OF(random, -5000, 0, 1, 999, 10000,
                                                         POLICY_DELAY_MS_MAX,
                                                         POLICY_DELAY_MS_MAX + 1)};
    default:
        return (struct queue_when){
            .due = QUEUE_DUE_DELAY,
            .ms = ONE_OF(random, 0, 1, 10, 999, 1000, 5000, 5000, 60000, POLICY_DELAY_MS_MAX)};
    }
}

static struct policy any_policy(struct random *random)
{
    struct policy policy = {0};

    if (chance(random, 25))
        policy.lease_ms = ONE_OF(random, 1000, 5000, POLICY_LEASE_MS_MAX);
    if (chance(random, 25))
        policy.ttl_ms = ONE_OF(random, 1, 1000, 10000);
    if (chance(random, 50))
        policy.max_attempts = (uint32_t)ONE_OF(random, 1, 2, 3, POLICY_ATTEMPTS_NONE);
    if (chance(random, 20))
        policy.backoff = (struct backoff){.kind = BACKOFF_FIXED, .first_ms = 5000, .max_ms = 5000};
    else if (chance(random, 20))
        policy.backoff =
            (struct backoff){.kind = BACKOFF_EXPONENTIAL, .first_ms = 100, .max_ms = 700};
    else if (chance(random, 10))
        policy.backoff = (struct backoff){.kind = BACKOFF_FIXED, .first_ms = 1, .max_ms = 1};
    else if (chance(random, 15))
        policy.backoff = (struct backoff){.kind = BACKOFF_NONE};
    else if (chance(random, 20))
        policy.backoff =
            (struct backoff){.kind = BACKOFF_LIST, .step_count = 3, .steps_ms = {10, 5000, 100}};
    return policy;
}

static void make_bad(struct random *random, struct queue_push *push)
{
    switch (random_below(random, 7)) {
    case 0:
        push->topic = slice_of(".hidden");
        break;
    case 1:
        push->id = slice_of("with blank");
        break;
    case 2:
        push->body = slice_make(push->body.at, WORLD_BODY_BYTES_MAX + 1);
        break;
    case 3:
        push->priority = JOB_PRIORITY_MAX + 1;
        break;
    case 4:
        push->past.attempt = JOB_PAST_ATTEMPTS_MAX + 1;
        break;
    case 5:
        push->past.error = slice_make(push->body.at, JOB_ERROR_BYTES_MAX + 1);
        break;
    default:
        push->when = (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = POLICY_DELAY_MS_MAX + 1};
        break;
    }
}

/* Draws the past of a job that comes from elsewhere. */
static struct queue_past any_past(struct random *random)
{
    static char error[JOB_ERROR_BYTES_MAX];

    memset(error, 'p', sizeof error);
    return (struct queue_past){
        .attempt = (uint32_t)ONE_OF(random, 0, 1, 1, 2, 3, JOB_PAST_ATTEMPTS_MAX),
        .dead = chance(random, 40),
        .error = slice_make(error, (size_t)ONE_OF(random, 0, 0, 7, sizeof error))};
}

/* Over several shards a `once` is found only by pushes that go to the same one: of the same id, or without one. */
static void draw_once(const struct world *world, struct random *random, struct queue_push *push)
{
    static const char *const onces[IDS + 1] = {"0", "1", "2", "3", "4", "order-5!", "made"};
    bool is_split = world->client.driver->shards > 1;

    push->once = push->id.len && is_split ? push->id
                 : is_split               ? slice_of(onces[IDS])
                                          : slice_of(onces[random_below(random, IDS + 1)]);
    push->once_for_ms = ONE_OF(random, 0, 1, 1000, 10000, POLICY_DELAY_MS_MAX);
    if (chance(random, 3))
        push->once_for_ms = POLICY_DELAY_MS_MAX + 1;
    if (chance(random, 3))
        push->once.len = 0;
}

static struct queue_push any_push(struct world *world, struct random *random, struct buffer *meta,
                                  const char *bytes)
{
    struct queue_push push = {.topic = any_topic(random),
                              .id = any_id(random),
                              .when = any_when(world, random),
                              .priority = (int32_t)ONE_OF(random, -1, -1, -1, 0, 99, 100, 65535),
                              .on_conflict = (enum record_conflict)random_below(random, 6),
                              .policy = any_policy(random)};

    if (chance(random, 12))
        push.past = any_past(random);
    if (chance(random, 5))
        push.id = slice_of("");
    if (chance(random, 30))
        push.content_type = slice_of("text/plain; charset=utf-8");
    if (chance(random, 30)) {
        job_meta_add(meta, slice_of("trace-id"), slice_of("0123"));
        push.meta = buffer_slice(meta);
    }
    push.body = slice_make(bytes + random_below(random, 50),
                           (size_t)ONE_OF(random, 0, 1, 20, 200, 2000, WORLD_BODY_BYTES_MAX));
    if (chance(random, 15) && !(world->client.driver->lacks & DRIVER_LACKS_ONCE))
        draw_once(world, random, &push);
    if (push.on_conflict > CONFLICT_AFTER)
        push.on_conflict = CONFLICT_AFTER;
    if (chance(random, 3))
        make_bad(random, &push);
    return push;
}

static void perform_push(struct world *world, struct random *random)
{
    static char bytes[WORLD_BODY_BYTES_MAX + 64];
    struct queue_push pushes[ITEMS_MAX];
    struct buffer metas[ITEMS_MAX];
    size_t count = chance(random, 25) ? 1 + random_below(random, ITEMS_MAX) : 1;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)random_next(random);
    for (size_t i = 0; i < count; i++) {
        buffer_init(&metas[i], JOB_META_BYTES_MAX);
        pushes[i] = any_push(world, random, &metas[i], bytes);
    }
    world_push(world, pushes, count);
    for (size_t i = 0; i < count; i++)
        buffer_fini(&metas[i]);
}

/* ---- take, answer, change ---- */

static struct slice any_consumer(struct random *random)
{
    static char longest[JOB_CONSUMER_BYTES_MAX + 1];

    memset(longest, 'w', sizeof longest);
    switch (random_below(random, 40)) {
    case 0:
        return slice_make(longest, JOB_CONSUMER_BYTES_MAX);
    case 1:
        return slice_make(longest, sizeof longest); /* one too long */
    case 2:
        return slice_of("blank ");
    default:
        return slice_of(chance(random, 50) ? "host 1:77" : "");
    }
}

static void perform_take(struct world *world, struct random *random)
{
    struct slice names[TOPICS];
    struct queue_take take = {.topics = names,
                              .topic_count = 1 + random_below(random, TOPICS),
                              .max = (uint32_t)ONE_OF(random, 1, 1, 2, 3, 10, QUEUE_TAKE_MAX),
                              .lease_ms = ONE_OF(random, 0, 0, 1000, 5000, 30000),
                              .consumer = any_consumer(random)};
    uint64_t first = random_below(random, TOPICS);

    for (size_t i = 0; i < take.topic_count; i++)
        names[i] = slice_of(topics[(first + i) % TOPICS]);
    if (chance(random, 2))
        take.max = 0;
    if (!(world->client.driver->lacks & DRIVER_LACKS_CHOICE)) {
        take.by_priority = chance(random, 25);
        if (chance(random, 10)) {
            take.id = any_id(random);
            take.topic_count = 1;
        }
    }
    world_take(world, &take);
}

static struct slice any_lease(struct world *world, struct random *random)
{
    size_t known = world->lease_count < WORLD_LEASES_MAX ? world->lease_count : WORLD_LEASES_MAX;
    size_t from = random_below(random, world->model.job_count + 1);

    if (known == 0 || chance(random, 3))
        return slice_of("no-such-lease");
    if (chance(random, 20))
        return slice_of(world->leases[random_below(random, known)]);
    for (size_t i = 0; i < world->model.job_count; i++) {
        struct model_job *job = &world->model.jobs[(from + i) % world->model.job_count];

        if (job->state == JOB_LEASED)
            return slice_of(job->lease);
    }
    return slice_of(world->leases[known - 1]);
}

static struct queue_again any_again(struct world *world, struct random *random)
{
    static char bytes[WORLD_BODY_BYTES_MAX + 1];
    struct queue_again again = {.when = any_when(world, random),
                                .priority = (int32_t)ONE_OF(random, -1, -1, 0, 100, 65535),
                                .has_body = chance(random, 50)};

    memset(bytes, (int)('a' + random_below(random, 26)), sizeof bytes);
    again.body = slice_make(bytes, (size_t)ONE_OF(random, 0, 1, 200, WORLD_BODY_BYTES_MAX));
    if (chance(random, 3))
        again.body.len = sizeof bytes;
    if (chance(random, 30))
        again.content_type = slice_of("application/json");
    return again;
}

static void perform_answer(struct world *world, struct random *random)
{
    static char error[JOB_ERROR_BYTES_MAX + 50];
    struct queue_again agains[ITEMS_MAX];
    char leases[ITEMS_MAX][QUEUE_LEASE_TEXT_BYTES_MAX + 1];
    struct queue_answer answers[ITEMS_MAX];
    size_t count = chance(random, 25) ? 1 + random_below(random, ITEMS_MAX) : 1;

    memset(error, 'e', sizeof error);
    for (size_t i = 0; i < count; i++) {
        struct slice lease = any_lease(world, random);

        memcpy(leases[i], lease.at, lease.len);
        answers[i] = (struct queue_answer){
            .verb = (enum queue_verb)ONE_OF(random, QUEUE_ACK, QUEUE_ACK, QUEUE_NACK, QUEUE_NACK,
                                            QUEUE_NACK, QUEUE_EXTEND, QUEUE_RETURN),
            .lease = slice_make(leases[i], lease.len),
            .delay_ms = ONE_OF(random, -1, -1, 0, 1, 1000, 10000),
            .final = chance(random, 15),
            .error = slice_make(error, (size_t)ONE_OF(random, 0, 4, 4, sizeof error)),
            .lease_ms = ONE_OF(random, 0, 0, 1000, 60000)};
        if (!(world->client.driver->lacks & DRIVER_LACKS_NACK_PRIORITY)) {
            answers[i].has_priority = chance(random, 25);
            answers[i].priority = (uint16_t)ONE_OF(random, 0, 99, 100, 65535);
        }
        if (chance(random, 20) && !(world->client.driver->lacks & DRIVER_LACKS_AGAIN)) {
            agains[i] = any_again(world, random);
            answers[i].verb = QUEUE_AGAIN;
            answers[i].again = &agains[i];
        }
        if (chance(random, 2))
            answers[i].delay_ms = answers[i].lease_ms = POLICY_DELAY_MS_MAX + 1;
    }
    world_answer(world, answers, count);
}

static void perform_change(struct world *world, struct random *random)
{
    struct queue_change changes[ITEMS_MAX];
    size_t count = chance(random, 25) ? 1 + random_below(random, ITEMS_MAX) : 1;

    for (size_t i = 0; i < count; i++) {
        changes[i] = (struct queue_change){
            .verb = (enum queue_change_verb)ONE_OF(random, QUEUE_CANCEL, QUEUE_RESCHEDULE,
                                                   QUEUE_RESCHEDULE, QUEUE_RUN),
            .topic = any_topic(random),
            .id = any_id(random),
            .when = any_when(world, random),
            .priority = (int32_t)ONE_OF(random, -1, -1, 0, 100, 65535),
            .request = chance(random, 60)};
        if (chance(random, 15))
            changes[i].when.due = QUEUE_DUE_UNCHANGED;
    }
    world_change(world, changes, count);
}

/* ---- topics, lists, time ---- */

/* A change of a topic's ttl is promised for later jobs, not for existing ones: so it
 * only changes while the topic is empty. */
static struct topic_settings any_settings(struct world *world, struct random *random,
                                          struct slice name)
{
    const struct model_topic *topic = model_find_topic(&world->model, name);
    static char extension[TOPIC_EXTENSION_BYTES_MAX + 1];
    struct topic_settings settings = {.policy = any_policy(random),
                                      .on_conflict = (enum record_conflict)random_below(random, 4),
                                      .has_priority = chance(random, 30),
                                      .priority = 50,
                                      .dead_letter_expired = chance(random, 40),
                                      .dedup_window_ms = ONE_OF(random, 0, 0, 1000, 10000)};

    settings.max_jobs = (uint64_t)ONE_OF(random, 0, 0, 0, 1, 3, TOPIC_JOBS_MAX, TOPIC_JOBS_MAX + 1);
    if (chance(random, 20))
        settings.push_rate = (struct frequency){(uint32_t)ONE_OF(random, 0, 1, FREQUENCY_COUNT_MAX),
                                                FREQUENCY_MINUTE};
    memset(extension, (int)('a' + random_below(random, 26)), sizeof extension);
    settings.extension = slice_make(
        extension, (size_t)ONE_OF(random, 0, 0, 0, 2, 60, 300, TOPIC_EXTENSION_BYTES_MAX));
    if (chance(random, 2))
        settings.extension.len = TOPIC_EXTENSION_BYTES_MAX + 1;
    for (size_t i = 0; i < world->model.job_count && topic; i++)
        if (slice_is(name, world->model.jobs[i].topic))
            settings.policy.ttl_ms = topic->settings.policy.ttl_ms;
    return settings;
}

static void perform_topic(struct world *world, struct random *random)
{
    struct queue_topic_call call = {.verb = (enum queue_topic_verb)ONE_OF(
                                        random, QUEUE_TOPIC_GET, QUEUE_TOPIC_PUT, QUEUE_TOPIC_PUT,
                                        QUEUE_TOPIC_PUT, QUEUE_TOPIC_DELETE, QUEUE_TOPIC_PAUSE,
                                        QUEUE_TOPIC_RESUME, QUEUE_TOPIC_RESUME, QUEUE_TOPIC_PURGE,
                                        QUEUE_TOPIC_REDRIVE, QUEUE_TOPIC_REDRIVE),
                                    .topic = any_topic(random)};

    if (call.verb == QUEUE_TOPIC_PUT)
        call.settings = any_settings(world, random, call.topic);
    if (call.verb == QUEUE_TOPIC_PAUSE && chance(random, 60))
        call.pause_ms =
            ONE_OF(random, 1, 10, 1000, 60000, POLICY_DELAY_MS_MAX, POLICY_DELAY_MS_MAX + 1);
    if (call.verb == QUEUE_TOPIC_PURGE)
        call.state = (enum job_state)random_below(random, JOB_DEAD + 1);
    if (call.verb == QUEUE_TOPIC_REDRIVE && chance(random, 30))
        call.max = 1;
    world_topic(world, &call);
}

/* Deletes or purges a topic, then pushes its ids again. */
static void perform_churn(struct world *world, struct random *random)
{
    struct queue_topic_call call = {.verb =
                                        chance(random, 45) ? QUEUE_TOPIC_DELETE : QUEUE_TOPIC_PURGE,
                                    .topic = any_topic(random)};
    struct queue_push pushes[IDS];

    if (call.verb == QUEUE_TOPIC_PURGE && chance(random, 40))
        call.state = (enum job_state)ONE_OF(random, JOB_DELAYED, JOB_READY, JOB_DEAD);
    if (chance(random, 20))
        world_topic(world, &(struct queue_topic_call){.verb = QUEUE_TOPIC_PUT,
                                                      .topic = call.topic,
                                                      .settings = {.dedup_window_ms = 10000}});
    world_topic(world, &call);
    if (chance(random, 30))
        return;
    for (size_t i = 0; i < IDS; i++)
        pushes[i] = (struct queue_push){
            .topic = call.topic,
            .id = slice_of(ids[i]),
            .when = {.due = QUEUE_DUE_DELAY,
                     .ms = ONE_OF(random, 0, 1000, 60000, 3600000, POLICY_DELAY_MS_MAX)},
            .priority = -1,
            .body = slice_of("pushed again")};
    world_push(world, pushes, 1 + random_below(random, IDS));
}

static void perform_list(struct world *world, struct random *random)
{
    struct queue_list list = {.topic = any_topic(random),
                              .state = (enum job_state)random_below(random, JOB_DEAD + 1),
                              .limit = (uint32_t)ONE_OF(random, 1, 2, 3, 100),
                              .with_body = chance(random, 50)};

    world_list(world, &list);
}

static void perform_find(struct world *world, struct random *random)
{
    struct queue_find finds[2 * ITEMS_MAX];
    size_t count = 1 + random_below(random, 2 * ITEMS_MAX);

    for (size_t i = 0; i < count; i++)
        finds[i] = (struct queue_find){.topic = any_topic(random), .id = any_id(random)};
    world_find(world, finds, count);
}

/* Returns the time of the next event. */
static int64_t next_event_ms(struct world *world)
{
    int64_t next_ms = INT64_MAX;

    for (size_t i = 0; i < world->model.job_count; i++) {
        const struct model_job *job = &world->model.jobs[i];
        int64_t at_ms = job->state == JOB_DELAYED  ? job->due.most_ms
                        : job->state == JOB_LEASED ? job->lease_until.most_ms
                                                   : INT64_MAX;

        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    return next_ms;
}

static void perform_advance(struct world *world, struct random *random)
{
    int64_t ms = ONE_OF(random, 1, 10, 999, 1000, 1001, 5000, 60000, 3600000);
    int64_t next_ms = next_event_ms(world);

    if (chance(random, 50) && next_ms != INT64_MAX && next_ms > world->model.now_ms + 1)
        ms = next_ms - world->model.now_ms - (int64_t)random_below(random, 2);
    world_advance(world, ms);
}

void step_perform(struct world *world, const struct step *step)
{
    struct random random = {step->seed};

    switch (step->kind) {
    case STEP_PUSH:
        perform_push(world, &random);
        break;
    case STEP_TAKE:
        perform_take(world, &random);
        break;
    case STEP_ANSWER:
        perform_answer(world, &random);
        break;
    case STEP_CHANGE:
        perform_change(world, &random);
        break;
    case STEP_TOPIC:
        perform_topic(world, &random);
        break;
    case STEP_LIST:
        if (chance(&random, 40) && !(world->client.driver->lacks & DRIVER_LACKS_FIND))
            perform_find(world, &random);
        else
            perform_list(world, &random);
        break;
    case STEP_ADVANCE:
        perform_advance(world, &random);
        break;
    case STEP_REOPEN:
        world_reopen(world);
        break;
    case STEP_CHURN:
        perform_churn(world, &random);
        break;
    }
}
