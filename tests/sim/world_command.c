/* Random commands, and what becomes of their answers. */
#include "world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH_MAX = 3 };

static uint64_t below(struct world *world, uint64_t bound)
{
    return random_below(&world->random, bound);
}

static struct call *free_call(struct world *world)
{
    for (uint32_t i = 0; i < ORACLE_CALLS; i++)
        if (!world->calls[i].is_used)
            return &world->calls[i];
    return NULL;
}

/* ---- answers ---- */

struct answer_to {
    struct world *world;
    uint32_t call;
};

static void take_answered(struct world *world, struct call *call, const struct queue_reply *reply)
{
    struct oracle *oracle = world->oracle;

    oracle->topics[call->topic].takes--;
    oracle->topics[call->topic].commands--;
    if (reply->status != QUEUE_OK) {
        if (!(reply->status == QUEUE_STOPPING ||
              (reply->status == QUEUE_NO_MEMORY && oracle->lenient) ||
              (reply->status == QUEUE_NO_SPACE && oracle->full) ||
              (reply->status == QUEUE_UNAVAILABLE &&
               (oracle->broken || oracle->fileless || oracle->lenient))))
            oracle_violation(oracle, "what a take may be answered", call->topic, UINT32_MAX, "%d",
                             (int)reply->status);
        if (reply->status == QUEUE_UNAVAILABLE || reply->status == QUEUE_NO_MEMORY)
            oracle_take_lost(oracle, call->topic, call->since_ms, call->lease_ms);
    }
    if (oracle->lenient && machine_log_has("job cannot be read")) /* it was left out */
        oracle_take_lost(oracle, call->topic, call->since_ms, call->lease_ms);
    for (size_t i = 0; i < reply->job_count; i++)
        oracle_taken(oracle, &reply->jobs[i], call->since, call->since_ms, call->lease_ms);
}

static void get_answered(struct world *world, struct call *call, const struct queue_reply *reply)
{
    struct oracle *oracle = world->oracle;

    oracle->topics[call->topic].commands--;
    if (reply->status == QUEUE_OK || reply->status == QUEUE_NOT_FOUND)
        oracle_got(oracle, call->topic, call->id, reply->job_count ? reply->jobs : NULL,
                   call->since);
    else if (reply->status != QUEUE_STOPPING &&
             !(reply->status == QUEUE_NO_MEMORY && oracle->lenient) &&
             !(reply->status == QUEUE_UNAVAILABLE &&
               (oracle->broken || oracle->fileless || oracle->lenient)))
        oracle_violation(oracle, "what a get may be answered", call->topic, call->id, "%d",
                         (int)reply->status);
}

/* Notes durable states: the result of a look in progress may be older. */
static void note_durable(struct world *world, uint32_t since)
{
    for (uint32_t i = 0; i < ORACLE_CALLS; i++)
        if (world->calls[i].is_used &&
            (world->calls[i].kind == COMMAND_GET || world->calls[i].kind == COMMAND_TAKE) &&
            world->calls[i].since < since)
            since = world->calls[i].since;
    oracle_durable(world->oracle, since);
}

static void items_answered(struct world *world, struct call *call, const struct queue_reply *reply)
{
    struct oracle *oracle = world->oracle;

    if (reply->status == QUEUE_OK) {
        note_durable(world, call->since);
        assert(reply->result_count == call->op_count);
    }
    for (uint32_t i = 0; i < call->op_count; i++) {
        if (reply->status != QUEUE_OK)
            oracle_refused(oracle, call->ops[i], reply->status);
        else
            oracle_end(oracle, call->ops[i], &reply->results[i]);
        if (reply->status == QUEUE_OK)
            world->figures.no_space += reply->results[i].status == QUEUE_NO_SPACE;
    }
}

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct answer_to *to = owner;
    struct world *world = to->world;
    struct call *call = &world->calls[to->call];

    (void)tag;
    free(to);
    assert(call->is_used);
    oracle_tick(world->oracle, world->machine.inner_ms, world->machine.wall_ms);
    world->oracle->broken |= world->has_failed || reply->status == QUEUE_UNAVAILABLE;
    world->figures.replies++;
    switch (call->kind) {
    case COMMAND_TAKE:
        take_answered(world, call, reply);
        break;
    case COMMAND_GET:
        get_answered(world, call, reply);
        break;
    case COMMAND_TOPIC:
        if (reply->status == QUEUE_OK || reply->status == QUEUE_CREATED)
            note_durable(world, call->since);
        if (call->op_count) { /* redrive of one */
            struct queue_result result = {.status = reply->status};

            oracle_end(world->oracle, call->ops[0], &result);
        } else {
            oracle_topic_end(world->oracle, call->topic, reply->status);
        }
        break;
    default:
        items_answered(world, call, reply);
    }
    call->is_used = false;
}

static void submit(struct world *world, struct call *call, const struct command *command)
{
    struct answer_to *to = malloc(sizeof *to);

    assert(to);
    *to = (struct answer_to){.world = world, .call = (uint32_t)(call - world->calls)};
    call->is_used = true;
    call->kind = command->kind;
    world->figures.commands++;
    world_submit(world, command, on_answered, to);
}

/* ---- choosing ---- */

static bool is_got(const struct world *world, uint32_t topic, uint32_t id)
{
    for (uint32_t i = 0; i < ORACLE_CALLS; i++) {
        const struct call *call = &world->calls[i];

        if (call->is_used && call->kind == COMMAND_GET && call->topic == topic && call->id == id)
            return true;
    }
    return false;
}

/* A job that no command is under way for. */
static bool choose_job(struct world *world, uint32_t *topic, uint32_t *id)
{
    for (int tries = 0; tries < 8; tries++) {
        *topic = (uint32_t)below(world, ORACLE_TOPICS);
        *id = (uint32_t)below(world, ORACLE_IDS);
        if (!world->oracle->jobs[*topic][*id].op && !world->oracle->topics[*topic].verb &&
            !is_got(world, *topic, *id))
            return true;
    }
    return false;
}

static bool is_leased(const struct oracle_job *job)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (job->guesses[i].until == UINT32_MAX && job->guesses[i].state == GUESS_LEASED &&
            job->guesses[i].delivery == job->lease_delivery)
            return true;
    return false;
}

/* Chooses a job of which we hold a lease; now and then one of which we held a lease. */
static bool choose_leased(struct world *world, uint32_t *topic, uint32_t *id)
{
    uint32_t all = ORACLE_TOPICS * ORACLE_IDS, from = (uint32_t)below(world, all);
    bool any_will_do = below(world, 20) == 0;

    for (uint32_t i = 0; i < all; i++) {
        const struct oracle_job *job;

        *topic = (from + i) % all / ORACLE_IDS;
        *id = (from + i) % ORACLE_IDS;
        job = &world->oracle->jobs[*topic][*id];
        if (!job->op && !world->oracle->topics[*topic].verb && !is_got(world, *topic, *id) &&
            job->lease_delivery && (any_will_do || is_leased(job)))
            return true;
    }
    return false;
}

static int64_t some_delay(struct world *world)
{
    if (below(world, 100) < world->scenario->far_percent)
        return (int64_t)(365 * 24 * 3600) * 1000 * (1 + (int64_t)below(world, 8)) +
               (int64_t)below(world, 1000);
    return (int64_t)below(world, below(world, 4) ? 50 : (uint64_t)world->scenario->delay_most_ms);
}

static struct queue_when some_when(struct world *world, bool may_be_wall)
{
    switch (below(world, may_be_wall ? 6 : 5)) {
    case 0:
        return (struct queue_when){.due = QUEUE_DUE_NOW};
    case 5:
        return (struct queue_when){.due = QUEUE_DUE_AT,
                                   .ms = world->machine.wall_ms + 60000 + some_delay(world)};
    default:
        return (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = some_delay(world)};
    }
}

static struct op some_op(struct world *world, enum op_kind kind, uint32_t topic, uint32_t id)
{
    static struct cargo cargo;
    struct op op = {.kind = kind,
                    .topic = (uint8_t)topic,
                    .id = (uint8_t)id,
                    .since_ms = world->machine.inner_ms,
                    .since_wall_ms = world->machine.wall_ms,
                    .priority = QUEUE_PRIORITY_UNSET};
    const struct oracle_job *job = &world->oracle->jobs[topic][id];
    uint32_t of = kind == OP_PUSH ? ++world->serial : job->guesses[0].serial;

    op.serial = of;
    oracle_cargo(of, &cargo);
    op.when = some_when(world, kind == OP_PUSH && !cargo.policy.ttl_ms);
    if (kind == OP_RESCHEDULE && below(world, 4) == 0)
        op.when = (struct queue_when){.due = QUEUE_DUE_UNCHANGED};
    if (below(world, 3) == 0)
        op.priority = (int32_t)below(world, 5) * 50;
    op.on_conflict = (enum record_conflict)below(world, 4);
    op.delivery = job->lease_delivery;
    op.delay_ms = below(world, 2) ? -1 : some_delay(world);
    op.lease_ms = 100 + (int64_t)below(world, 3000);
    op.final = below(world, 6) == 0;
    op.error = ERROR_OURS + (uint32_t)below(world, 100);
    return op;
}

/* ---- commands ---- */

static bool push_some(struct world *world, struct call *call)
{
    static struct cargo cargo[BATCH_MAX];
    static char ids[BATCH_MAX][16];
    struct queue_push pushes[BATCH_MAX];
    uint32_t want = below(world, 3) ? 1 : 1 + (uint32_t)below(world, BATCH_MAX), topic, id;

    for (uint32_t i = 0; i < want && choose_job(world, &topic, &id); i++) {
        struct op op = some_op(world, OP_PUSH, topic, id);
        struct cargo *with = &cargo[call->op_count];

        oracle_cargo(op.serial, with);
        oracle_id_name(id, ids[call->op_count]);
        pushes[call->op_count] =
            (struct queue_push){.topic = slice_of(oracle_topic_name(topic)),
                                .id = slice_of(ids[call->op_count]),
                                .content_type = slice_of(with->content_type),
                                .meta = slice_make(with->meta, with->meta_bytes),
                                .body = slice_make(with->body, with->body_bytes),
                                .when = op.when,
                                .priority = op.priority,
                                .on_conflict = op.on_conflict,
                                .policy = with->policy,
                                .past = {.attempt = with->past_attempt, .dead = with->past_dead}};
        call->ops[call->op_count++] = oracle_begin(world->oracle, &op);
    }
    if (!call->op_count)
        return false;
    submit(world, call,
           &(struct command){.kind = COMMAND_PUSH, .count = call->op_count, .pushes = pushes});
    return true;
}

static bool answer_some(struct world *world, struct call *call, enum op_kind kind)
{
    static const enum queue_verb verbs[] = {[OP_ACK] = QUEUE_ACK,
                                            [OP_NACK] = QUEUE_NACK,
                                            [OP_EXTEND] = QUEUE_EXTEND,
                                            [OP_RETURN] = QUEUE_RETURN};
    static char errors[BATCH_MAX][32];
    struct queue_answer answers[BATCH_MAX];
    uint32_t want = 1 + (uint32_t)below(world, BATCH_MAX), topic, id;

    for (uint32_t i = 0; i < want && choose_leased(world, &topic, &id); i++) {
        struct op op = some_op(world, kind, topic, id);

        oracle_error_text(op.error, errors[call->op_count]);
        answers[call->op_count] = (struct queue_answer){
            .verb = verbs[kind],
            .lease = slice_of(world->oracle->jobs[topic][id].lease),
            .delay_ms = kind == OP_NACK || kind == OP_RETURN ? op.delay_ms : 0,
            .final = kind == OP_NACK && op.final,
            .error = kind == OP_NACK ? slice_of(errors[call->op_count]) : (struct slice){0},
            .lease_ms = kind == OP_EXTEND ? op.lease_ms : 0};
        call->ops[call->op_count++] = oracle_begin(world->oracle, &op);
    }
    if (!call->op_count)
        return false;
    submit(world, call,
           &(struct command){.kind = COMMAND_ANSWER, .count = call->op_count, .answers = answers});
    return true;
}

static bool change_some(struct world *world, struct call *call, enum op_kind kind)
{
    static const enum queue_change_verb verbs[] = {
        [OP_CANCEL] = QUEUE_CANCEL, [OP_RESCHEDULE] = QUEUE_RESCHEDULE, [OP_RUN] = QUEUE_RUN};
    static char ids[BATCH_MAX][16];
    struct queue_change changes[BATCH_MAX];
    uint32_t want = 1 + (uint32_t)below(world, BATCH_MAX), topic, id;

    for (uint32_t i = 0; i < want && choose_job(world, &topic, &id); i++) {
        struct op op = some_op(world, kind, topic, id);

        oracle_id_name(id, ids[call->op_count]);
        changes[call->op_count] = (struct queue_change){.verb = verbs[kind],
                                                        .topic = slice_of(oracle_topic_name(topic)),
                                                        .id = slice_of(ids[call->op_count]),
                                                        .when = op.when,
                                                        .priority = op.priority};
        call->ops[call->op_count++] = oracle_begin(world->oracle, &op);
    }
    if (!call->op_count)
        return false;
    submit(world, call,
           &(struct command){.kind = COMMAND_CHANGE, .count = call->op_count, .changes = changes});
    return true;
}

static bool take_some(struct world *world, struct call *call)
{
    struct oracle *oracle = world->oracle;
    struct slice topic;

    call->topic = (uint32_t)below(world, ORACLE_TOPICS);
    if (oracle->topics[call->topic].verb)
        return false;
    topic = slice_of(oracle_topic_name(call->topic));
    call->lease_ms = below(world, 3) ? 100 + (int64_t)below(world, 2000) : 0;
    call->since = oracle->event++;
    call->since_ms = world->machine.inner_ms;
    oracle->topics[call->topic].takes++;
    oracle->topics[call->topic].commands++;
    submit(world, call,
           &(struct command){.kind = COMMAND_TAKE,
                             .take = {.topics = &topic,
                                      .topic_count = 1,
                                      .max = 1 + (uint32_t)below(world, 6),
                                      .lease_ms = call->lease_ms}});
    return true;
}

static bool get_one(struct world *world, struct call *call)
{
    char id[16];

    if (!choose_job(world, &call->topic, &call->id))
        return false;
    oracle_id_name(call->id, id);
    call->since = world->oracle->event++ - 1;
    world->oracle->topics[call->topic].commands++;
    submit(world, call,
           &(struct command){
               .kind = COMMAND_GET,
               .get = {.topic = slice_of(oracle_topic_name(call->topic)), .id = slice_of(id)}});
    return true;
}

static bool redrive_one(struct world *world, struct call *call)
{
    char id_text[16];
    uint32_t topic, id;
    struct op op;

    if (!choose_job(world, &topic, &id))
        return false;
    op = some_op(world, OP_REDRIVE, topic, id);
    oracle_id_name(id, id_text);
    call->since = world->oracle->event;
    call->ops[call->op_count++] = oracle_begin(world->oracle, &op);
    submit(world, call,
           &(struct command){.kind = COMMAND_TOPIC,
                             .topic = {.verb = QUEUE_TOPIC_REDRIVE,
                                       .topic = slice_of(oracle_topic_name(topic)),
                                       .id = slice_of(id_text)}});
    return true;
}

static bool whole_topic(struct world *world, struct call *call)
{
    static const enum queue_topic_verb verbs[] = {
        QUEUE_TOPIC_PUT,   QUEUE_TOPIC_PUT,    QUEUE_TOPIC_PAUSE,   QUEUE_TOPIC_RESUME,
        QUEUE_TOPIC_PURGE, QUEUE_TOPIC_RESUME, QUEUE_TOPIC_REDRIVE, QUEUE_TOPIC_DELETE};
    static const enum job_state states[] = {0, JOB_DELAYED, JOB_READY, JOB_DEAD};
    uint8_t row = (uint8_t)below(world, ORACLE_SETTINGS);
    struct queue_topic_call topic = {.verb = verbs[below(world, 8)],
                                     .settings = oracle_settings(row)};

    call->topic = (uint32_t)below(world, ORACLE_TOPICS);
    if (world->oracle->topics[call->topic].verb || world->oracle->topics[call->topic].commands)
        return false;
    topic.topic = slice_of(oracle_topic_name(call->topic));
    if (topic.verb == QUEUE_TOPIC_PURGE)
        topic.state = states[below(world, 4)];
    call->since = world->oracle->event;
    oracle_topic_begin(world->oracle, call->topic, topic.verb, topic.state, row);
    submit(world, call, &(struct command){.kind = COMMAND_TOPIC, .topic = topic});
    return true;
}

static uint32_t choose_kind(struct world *world)
{
    uint64_t sum = 0, drawn;
    uint32_t kind = 0;

    for (uint32_t i = 0; i < DO_COMMANDS; i++)
        sum += world->scenario->weights[i];
    drawn = below(world, sum);
    while (drawn >= world->scenario->weights[kind])
        drawn -= world->scenario->weights[kind++];
    return kind;
}

bool world_command(struct world *world)
{
    struct call *call = free_call(world);

    if (!call)
        return false;
    *call = (struct call){.since = world->oracle->event, .since_ms = world->machine.inner_ms};
    switch ((enum world_command)choose_kind(world)) {
    case DO_PUSH:
        return push_some(world, call);
    case DO_TAKE:
        return take_some(world, call);
    case DO_ACK:
        return answer_some(world, call, OP_ACK);
    case DO_NACK:
        return answer_some(world, call, OP_NACK);
    case DO_EXTEND:
        return answer_some(world, call, OP_EXTEND);
    case DO_RETURN:
        return answer_some(world, call, OP_RETURN);
    case DO_CANCEL:
        return change_some(world, call, OP_CANCEL);
    case DO_RESCHEDULE:
        return change_some(world, call, OP_RESCHEDULE);
    case DO_RUN:
        return change_some(world, call, OP_RUN);
    case DO_GET:
        return get_one(world, call);
    case DO_REDRIVE_ONE:
        return redrive_one(world, call);
    case DO_TOPIC:
        return whole_topic(world, call);
    case DO_LIST:
    case DO_COMMANDS:
        break;
    }
    return false;
}
