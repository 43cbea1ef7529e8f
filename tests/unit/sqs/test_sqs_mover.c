/* The mover on a queue in memory: it dies after each of its calls, once before the call is carried out and once
 * before it gets the answer, and another one continues. */
#include "sqs/mover.h"

#include "base/clock.h"
#include "memory/handle.h"
#include "sqs/move.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOURCE "dead"
#define DESTINATION "a"

enum {
    MESSAGES = 3,
    CALLS_MAX = 40,    /* of one mover; more than a task has */
    ROUNDS_MAX = 30,   /* of a second each */
    LEASES_MS = 7000,  /* longer than those of task and messages */
    HIDDEN_DAYS = 365, /* a hidden copy is due later than in so many */
    JOBS_MAX = 20
};

/* ---- a queue whose caller dies ---- */

enum death { DEATH_BEFORE = 1, DEATH_AFTER };

struct mortal_queue {
    struct queue queue;
    struct queue *inner;
    int calls, last_call; /* 0: it lives on */
    enum death death;
    bool is_dead;
    int runs_refused; /* so many calls that release copies find the disk full */
};

struct forward {
    struct mortal_queue *mortal;
    struct queue_reply_to to;
    size_t refused; /* items of a call that was not carried out */
};

static void on_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct forward *forward = owner;
    struct queue_result results[JOBS_MAX] = {0};
    const struct queue_reply refusal = {.results = results, .result_count = forward->refused};
    (void)tag;
    for (size_t i = 0; i < forward->refused; i++)
        results[i].status = QUEUE_NO_SPACE;
    if (!forward->mortal->is_dead)
        forward->to.done(forward->to.owner, forward->to.tag, forward->refused ? &refusal : reply);
    free(forward);
}

/* Returns true for commands of the waiters, which outlive the mover. */
static bool is_of_waiters(const struct command *command)
{
    return command->kind == COMMAND_TAKE && slice_is(command->take.topics[0], SQS_MOVES_TOPIC);
}

static void mortal_submit(struct queue *queue, const struct command *command,
                          struct queue_reply_to to)
{
    struct mortal_queue *mortal = (struct mortal_queue *)queue;
    if (is_of_waiters(command)) {
        queue_submit(mortal->inner, command, to);
        return;
    }
    if (mortal->is_dead)
        return;
    bool is_last = ++mortal->calls == mortal->last_call;
    mortal->is_dead = is_last;
    if (is_last && mortal->death == DEATH_BEFORE)
        return;
    struct forward *forward = malloc(sizeof *forward);
    assert_non_null(forward);
    *forward = (struct forward){.mortal = mortal, .to = to};
    const struct queue_reply_to here = {.done = on_reply, .owner = forward};
    if (command->kind == COMMAND_CHANGE && mortal->runs_refused > 0) {
        mortal->runs_refused--;
        forward->refused = command->count;
        queue_topics(mortal->inner, here);
    } else {
        queue_submit(mortal->inner, command, here);
    }
}

static void mortal_watch(struct queue *queue, struct slice topic, bool on)
{
    queue_watch(((struct mortal_queue *)queue)->inner, topic, on);
}

static const struct queue_ops mortal_ops = {.submit = mortal_submit, .watch = mortal_watch};

/* ---- the store, and movers one after the other ---- */

struct rig {
    struct memory_handle *handle;
    struct reactor *reactor;
    struct waiters *waiters;
    struct sqs_mover *mover;
    struct mortal_queue mortal;
};

static struct memory *rig_memory(const struct rig *rig)
{
    return memory_handle_memory(rig->handle);
}

static void push(const struct rig *rig, const struct queue_push *push)
{
    struct queue_result result;
    struct queue_push whole = *push;
    whole.priority = QUEUE_PRIORITY_UNSET;
    whole.policy =
        (struct policy){.max_attempts = POLICY_ATTEMPTS_NONE, .backoff = {.kind = BACKOFF_NONE}};
    memory_push(rig_memory(rig), &whole, memory_now(rig_memory(rig)), &result);
    assert_int_equal(result.status, QUEUE_CREATED);
}

static void push_message(const struct rig *rig, const char *topic, const char *id, const char *body)
{
    push(rig, &(struct queue_push){.topic = slice_of(topic),
                                   .id = slice_of(id),
                                   .body = slice_of(body),
                                   .when = {.due = QUEUE_DUE_NOW}});
}

/* Three messages that wait to be moved, the last of which has a namesake where it goes. */
static void rig_open(struct rig *rig)
{
    struct buffer body;
    char id[JOB_ID_BYTES_MAX + 1];
    const struct sqs_move move = {.status = SQS_MOVE_RUNNING,
                                  .handle = "move/0123456789abcdef/" SOURCE,
                                  .source = SOURCE,
                                  .to = DESTINATION,
                                  .started_ms = 1,
                                  .total = MESSAGES};
    clock_fake_start(INT64_C(1900000000000), INT64_C(1900000000000));
    *rig = (struct rig){.handle = memory_handle_new(&(struct memory_options){
                            .body_bytes_max = 1000, .topics_max = 10, .clock = &clock_process}),
                        .reactor = reactor_new(0)};
    push_message(rig, SOURCE, "1", "first");
    push_message(rig, SOURCE, "2", "second");
    push_message(rig, SOURCE, "3", "third");
    push_message(rig, DESTINATION, "3", "namesake");
    buffer_init(&body, SQS_MOVE_TEXT_BYTES_MAX);
    sqs_move_write(&move, &body);
    buffer_append_text(&body, ",\"sources\":[\"" DESTINATION "\"]}");
    push(rig, &(struct queue_push){.topic = slice_of(SQS_MOVES_TOPIC),
                                   .id = sqs_move_id(SQS_MOVE_RUN, slice_of(SOURCE), id),
                                   .meta = sqs_move_meta,
                                   .body = buffer_slice(&body),
                                   .when = {.due = QUEUE_DUE_NOW}});
    buffer_fini(&body);
}

static void rig_iterate(struct rig *rig)
{
    memory_handle_step(rig->handle);
    (void)uv_run(reactor_loop(rig->reactor), UV_RUN_NOWAIT);
    if (rig->waiters)
        waiters_expire(rig->waiters, clock_inner_ms());
}

static void rig_close(struct rig *rig)
{
    for (int i = 0; i < 10; i++)
        rig_iterate(rig);
    memory_check(rig_memory(rig));
    memory_handle_free(rig->handle);
    reactor_free(rig->reactor);
    clock_fake_end();
}

static bool task_has_ended(const struct rig *rig)
{
    struct memory_job *job;
    char id[JOB_ID_BYTES_MAX + 1];
    enum queue_status status = memory_get(rig_memory(rig), slice_of(SQS_MOVES_TOPIC),
                                          sqs_move_id(SQS_MOVE_RUN, slice_of(SOURCE), id), false,
                                          memory_now(rig_memory(rig)), &job);
    if (status == QUEUE_OK)
        memory_job_free(job);
    return status == QUEUE_NOT_FOUND;
}

static void on_ready(void *owner, struct slice topic)
{
    struct queue *queue = owner;
    queue->on_ready(queue->on_ready_owner, topic);
}

/* A mover's whole life: until it dies, or the task has ended. True: it died. */
static bool mover_live(struct rig *rig, int last_call, enum death death, int runs_refused)
{
    struct queue *inner = memory_handle_queue(rig->handle);
    rig->mortal = (struct mortal_queue){.queue = {.ops = &mortal_ops, .clock = inner->clock},
                                        .inner = inner,
                                        .last_call = last_call,
                                        .death = death,
                                        .runs_refused = runs_refused};
    rig->waiters = waiters_new(&rig->mortal.queue, 10);
    inner->on_ready = on_ready;
    inner->on_ready_owner = &rig->mortal.queue;
    rig->mover = sqs_mover_new(rig->reactor, &rig->mortal.queue, rig->waiters);
    assert_non_null(rig->mover);
    sqs_mover_start(rig->mover);
    for (int round = 0; round < ROUNDS_MAX && !task_has_ended(rig) && !rig->mortal.is_dead;
         round++) {
        for (int calls = -1, quiet = 0; quiet < 3 && !rig->mortal.is_dead; quiet++) {
            quiet = calls == rig->mortal.calls ? quiet : 0;
            calls = rig->mortal.calls;
            rig_iterate(rig);
        }
        clock_fake_advance(1000);
    }
    bool is_dead = rig->mortal.is_dead;
    rig->mortal.is_dead = true;
    sqs_mover_stop(rig->mover, NULL, NULL);
    sqs_mover_free(rig->mover);
    rig_iterate(rig);
    waiters_free(rig->waiters);
    rig->waiters = NULL;
    inner->on_ready = NULL;
    return is_dead;
}

/* ---- what there is at the end ---- */

/* Returns how often a message with this body can be received, now or after the end of a lease. */
static int bodies(const struct rig *rig, const char *topic, const char *body)
{
    struct memory_job *jobs[JOBS_MAX];
    char cursor_text[QUEUE_CURSOR_BYTES_MAX];
    struct slice cursor;
    size_t count;
    int found = 0;
    const struct queue_list list = {.topic = slice_of(topic), .limit = JOBS_MAX, .with_body = true};
    assert_int_equal(memory_list(rig_memory(rig), &list, memory_now(rig_memory(rig)), jobs, &count,
                                 cursor_text, &cursor),
                     QUEUE_OK);
    for (size_t i = 0; i < count; i++) {
        const struct job *job = &jobs[i]->shown.job;
        if (job->due_ms > clock_wall_ms() + HIDDEN_DAYS * INT64_C(86400000))
            fail_msg("'%.*s' is still hidden", (int)job->body.len, job->body.at);
        found += slice_is(job->body, body);
        memory_job_free(jobs[i]);
    }
    return found;
}

static int everywhere(const struct rig *rig, const char *body)
{
    return bodies(rig, SOURCE, body) + bodies(rig, DESTINATION, body);
}

/* ---- what happens between two movers ---- */

/* Takes message 1 of the source and gives it back: it was delivered once more. */
static void redeliver(const struct rig *rig)
{
    const struct slice topic = slice_of(SOURCE);
    struct engine_now now = memory_now(rig_memory(rig));
    struct memory_job *job;
    struct queue_result result;
    size_t count;
    const struct queue_take take = {
        .topics = &topic, .topic_count = 1, .id = slice_of("1"), .max = 1, .lease_ms = 1000};
    const struct queue_answer nack = {.verb = QUEUE_NACK, .delay_ms = 0};
    memory_advance(rig_memory(rig), now);
    assert_int_equal(memory_take(rig_memory(rig), &take, now, &job, &count), QUEUE_OK);
    assert_int_equal(count, 1);
    memory_answer_lease(rig_memory(rig), &job->lease, &nack, now, &result);
    assert_int_equal(result.status, QUEUE_OK);
    memory_job_free(job);
}

static bool source_has_first(const struct rig *rig)
{
    struct memory_job *job;
    enum queue_status status = memory_get(rig_memory(rig), slice_of(SOURCE), slice_of("1"), false,
                                          memory_now(rig_memory(rig)), &job);
    if (status == QUEUE_OK)
        memory_job_free(job);
    return status == QUEUE_OK;
}

/* Message 1, where the source has it; else another one of its id, which is delivered and given back. */
static bool first_comes_again(const struct rig *rig, const char *body)
{
    bool is_new = !source_has_first(rig);
    if (is_new)
        push_message(rig, SOURCE, "1", body);
    redeliver(rig);
    return is_new;
}

/* ---- claims ---- */

static void die_and_go_on(int call, enum death death, const char *again, bool *did_die)
{
    struct rig rig;
    bool is_new = false;
    rig_open(&rig);
    *did_die = mover_live(&rig, call, death, 0);
    clock_fake_advance(LEASES_MS);
    memory_handle_step(rig.handle);
    if (*did_die && again)
        is_new = first_comes_again(&rig, again);
    (void)mover_live(&rig, 0, 0, 0);
    static const char *const originals[] = {"first", "second", "third", "namesake"};
    for (size_t i = 0; i < COUNT_OF(originals); i++) {
        bool is_alike = is_new && strcmp(originals[i], again) == 0;
        int found = everywhere(&rig, originals[i]);
        if (is_alike ? found < 1 : found != 1)
            fail_msg("dead %s call %d: '%s' is there %d times",
                     death == DEATH_BEFORE ? "before" : "after", call, originals[i], found);
    }
    if (is_new && everywhere(&rig, again) < 1)
        fail_msg("dead at call %d: the new message is gone", call);
    if (!task_has_ended(&rig))
        fail_msg("dead at call %d: the task does not end", call);
    rig_close(&rig);
}

static void die_everywhere(const char *again)
{
    int deaths = 0;
    for (int call = 1; call < CALLS_MAX; call++)
        for (enum death death = DEATH_BEFORE; death <= DEATH_AFTER; death++) {
            bool did_die;
            die_and_go_on(call, death, again, &did_die);
            deaths += did_die;
        }
    assert_true(deaths > 20); /* a task has more than ten calls */
    assert_true(deaths < 2 * CALLS_MAX - 10);
}

CLAIM(loses_and_doubles_nothing_wherever_it_dies)
{
    die_everywhere(NULL);
}

CLAIM(another_message_with_the_same_id_is_not_the_moved_one)
{
    die_everywhere("newer");
}

/* The same content under the same id is the same message: one of the two may go. */
CLAIM(a_message_of_the_same_id_and_content_is_there_at_least_once)
{
    die_everywhere("first");
}

/* Copies whose message was acked are the only ones there are: they stay until the disk has room. */
CLAIM(copies_that_find_no_space_to_be_released_are_released_later)
{
    struct rig rig;
    rig_open(&rig);
    assert_false(mover_live(&rig, 0, 0, 3));
    assert_true(task_has_ended(&rig));
    assert_int_equal(bodies(&rig, DESTINATION, "first"), 1);
    assert_int_equal(bodies(&rig, DESTINATION, "second"), 1);
    assert_int_equal(bodies(&rig, DESTINATION, "third"), 1);
    assert_int_equal(bodies(&rig, SOURCE, "first"), 0);
    rig_close(&rig);
}

CLAIMS_MAIN(NULL, NULL)
