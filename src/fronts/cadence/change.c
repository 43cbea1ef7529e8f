#include "cadence/change.h"

#include "api/json_shape.h"
#include "base/clock.h"
#include "queue/status.h"

#include <stdlib.h>

enum {
    ONCE_FOR_MS = 1000,
    RETRY_MS = 20, /* while a worker holds the schedule; then twice as long, */
    RETRY_MS_MAX = 200,
    TIMEOUT_MS = 30000 /* longer than a lease and the rounds of a busy server */
};

struct change {
    struct list list;
    struct http_front *front;
    struct change_order order;
    char name[SPEC_NAME_BYTES_MAX + 1], owner[SPEC_OWNER_BYTES_MAX + 1];
    struct buffer text;    /* what the user specified */
    struct buffer body;    /* of the job afterwards */
    struct stored *target; /* afterwards */
    struct stored *held;   /* as it is; its job is leased */
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX];
    size_t lease_bytes;
    int64_t held_due_ms, began_ms;
    int64_t skew_ms; /* by which the store's clock is at least ahead of this server's */
    int64_t
        ahead_ms[STATE_LAST]; /* nominal times of fires that are cancelled: jobs that are not due */
    size_t ahead_count;
    struct deadline *begin, *retry;
    int64_t retry_ms; /* the last wait */
    struct change_result result;
    bool is_calling, is_ended; /* a call of the queue is in progress; the front is gone */
    bool is_hidden;            /* the schedule belongs to a topic of others */
    bool is_same;              /* another call made the same schedule meanwhile */
};

static void change_look(struct change *change);

static void change_free(struct change *change)
{
    list_remove(&change->list);
    buffer_fini(&change->text);
    buffer_fini(&change->body);
    stored_free(change->target);
    stored_free(change->held);
    if (change->begin)
        deadline_free(change->begin);
    if (change->retry)
        deadline_free(change->retry);
    free(change);
}

static void change_finish(struct change *change, enum queue_status status)
{
    struct change_result result = change->result;
    struct change_order order = change->order;
    result.status = status;
    change_free(change);
    order.done(order.ctx, order.tag, &result);
}

/* Returns the change of a reply; frees it and returns NULL if its front is gone. */
static struct change *change_replied(void *owner)
{
    struct change *change = owner;
    change->is_calling = false;
    if (!change->is_ended)
        return change;
    change_free(change);
    return NULL;
}

static struct queue_reply_to change_reply_to(struct change *change, queue_done *done)
{
    change->is_calling = true;
    return (struct queue_reply_to){.done = done, .owner = change};
}

static void on_retry(void *ctx)
{
    change_look(ctx);
}

/* Tries again after a moment. */
static void change_retry(struct change *change)
{
    if (clock_inner_ms() - change->began_ms > TIMEOUT_MS) {
        change_finish(change, QUEUE_LEASED);
        return;
    }
    if (!change->retry)
        change->retry = deadline_new(change->front->reactor, on_retry, change);
    if (!change->retry) {
        change_finish(change, QUEUE_NO_MEMORY);
        return;
    }
    change->retry_ms = change->retry_ms ? 2 * change->retry_ms : RETRY_MS;
    if (change->retry_ms > RETRY_MS_MAX)
        change->retry_ms = RETRY_MS_MAX;
    deadline_set(change->retry, clock_inner_ms() + change->retry_ms);
}

/* ---- 3: the job is written ---- */

static void on_written(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct change *change = change_replied(owner);
    const struct queue_result *result = reply->results;
    (void)tag;
    if (!change)
        return;
    enum queue_status status = reply->status          ? reply->status
                               : !reply->result_count ? QUEUE_UNAVAILABLE
                                                      : result->status;
    bool was_new = !change->held;
    if (was_new && status == QUEUE_EXISTED) { /* another call was faster */
        change_retry(change);
        return;
    }
    if (status == QUEUE_LEASE_ENDED) {
        stored_free(change->held);
        change->held = NULL;
        change_retry(change);
        return;
    }
    if (change->is_hidden && status == QUEUE_CREATED)
        status = QUEUE_NOT_FOUND;
    else if (change->is_same && status == QUEUE_CREATED)
        status = QUEUE_EXISTED;
    else if (status == QUEUE_OK || status == QUEUE_CREATED)
        status = change->result.has_fault ? QUEUE_BAD_OPTION
                 : was_new                ? QUEUE_CREATED
                 : change->order.verb == CHANGE_PUT || change->order.verb == CHANGE_PATCH
                     ? QUEUE_REPLACED
                     : QUEUE_OK;
    change_finish(change, status);
}

/* Pushes the held job again with this body. An empty body keeps it as it is. */
static void change_push_again(struct change *change, struct slice body, int64_t wake_ms)
{
    const struct queue_again again = {.when = {.due = QUEUE_DUE_AT, .ms = wake_ms},
                                      .priority = QUEUE_PRIORITY_UNSET,
                                      .has_body = body.len > 0,
                                      .body = body};
    const struct queue_answer answer = {.verb = QUEUE_AGAIN,
                                        .lease = slice_make(change->lease, change->lease_bytes),
                                        .again = &again};
    queue_answer(change->front->queue, &answer, 1, change_reply_to(change, on_written));
}

/* Refuses the change; *fault of the result is set. */
static void change_refuse(struct change *change)
{
    change->result.has_fault = true;
    if (change->held)
        change_push_again(change, (struct slice){0}, change->held_due_ms);
    else
        change_finish(change, QUEUE_BAD_OPTION);
}

static void change_write(struct change *change, const struct stored *stored, struct state *state,
                         int64_t wake_ms)
{
    buffer_clear(&change->body);
    stored_write(&change->body, stored, state);
    if (change->body.failed) {
        (void)http_fault_set(&change->result.fault, PROBLEM_NO_MEMORY, 0,
                             "out of memory, nothing was changed");
        change_refuse(change);
        return;
    }
    change->result.next_ms = state->next_ms;
    change->result.is_paused = stored->spec.paused || state->paused;
    if (change->held) {
        change_push_again(change, buffer_slice(&change->body), wake_ms);
        return;
    }
    struct queue_push push =
        stored_push(slice_of(change->name), buffer_slice(&change->body), wake_ms);
    /* A store that cannot push once rejects the schedule, because it could not push its fires. */
    char once[STORED_ID_BYTES_MAX];
    push.once = stored_fire_id(push.id, queue_wall_ms(change->front->queue), once);
    push.once_for_ms = ONCE_FOR_MS;
    queue_push(change->front->queue, &push, 1, change_reply_to(change, on_written));
}

static void change_delete(struct change *change)
{
    const struct queue_answer answer = {
        .verb = QUEUE_ACK, .lease = slice_make(change->lease, change->lease_bytes), .delay_ms = -1};
    queue_answer(change->front->queue, &answer, 1, change_reply_to(change, on_written));
}

/* ---- 2: the change is decided ---- */

static bool change_is_allowed(struct change *change, const struct stored *stored)
{
    return !change->order.allows || change->order.allows(change->order.ctx, change->order.tag,
                                                         stored->push.topic, &change->result.fault);
}

/* Reads the object into `target`. The text must stay: slices of the target point into it. */
static bool change_accept(struct change *change, struct slice text)
{
    struct http_fault *fault = &change->result.fault;
    struct json_value object;
    size_t error_at;
    if (!change->target && !(change->target = stored_new()))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory, nothing was changed");
    if (!json_check(text, &object, &error_at))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", error_at);
    if (object.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                              "a schedule must be an object such as "
                              "{\"topic\":\"mail\",\"cron\":\"0 9 * * MON-FRI\",\"zone\":"
                              "\"Europe/Berlin\"}");
    return stored_accept(change->target, slice_of(change->name), object,
                         change->front->shared->hooks, fault);
}

/* Merges the patch into what was specified before. */
static bool change_merge(struct change *change)
{
    struct http_fault *fault = &change->result.fault;
    struct json_value target, patch;
    struct buffer before, merged;
    struct slice twice = {0};
    buffer_init(&before, 2 * STORED_BYTES_MAX);
    buffer_init(&merged, 4 * STORED_BYTES_MAX);
    stored_write_spec(&before, change->held);
    bool done = json_check(buffer_slice(&before), &target, NULL) &&
                json_check(buffer_slice(&change->text), &patch, NULL);
    if (!done || patch.kind != JSON_OBJECT)
        done = http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                              "a patch must be an object of the members to change, such as "
                              "{\"cron\":\"0 8 * * *\",\"jitter\":null}");
    else if (!json_shape_merge(target, patch, &merged, &twice))
        done = http_fault_set(fault, PROBLEM_OPTION_TWICE, 0, "%s is given more than once",
                              twice.len ? http_quotable(twice, 60) : "a member");
    if (done) {
        buffer_clear(&change->text);
        buffer_append_slice(&change->text, buffer_slice(&merged));
        done = !change->text.failed && change_accept(change, buffer_slice(&change->text));
    }
    buffer_fini(&before);
    buffer_fini(&merged);
    return done;
}

bool change_refuse_unreadable(struct slice name, struct http_fault *fault)
{
    return http_fault_set(fault, PROBLEM_BAD_SCHEDULE, 0,
                          "schedule '%s' was stored by another version of tarry, use a server of "
                          "that version",
                          http_quotable(name, SPEC_NAME_BYTES_MAX));
}

bool change_keeps_owner(struct slice name, const struct stored *before, const struct stored *after,
                        struct http_fault *fault)
{
    struct slice owner = before->spec.owner;
    if (!owner.len || slice_equals(owner, after->spec.owner))
        return true;
    return http_fault_set(fault, PROBLEM_OTHER_OWNER, 0,
                          "schedule '%s' belongs to the owner '%s', nothing was changed: choose "
                          "another name, give this owner, or take the schedule over with "
                          "'take_over=true' (--take-over)",
                          http_quotable(name, SPEC_NAME_BYTES_MAX),
                          http_quotable(owner, SPEC_OWNER_BYTES_MAX));
}

static bool change_may_own(struct change *change)
{
    return !change->held || change->order.take_over ||
           change_keeps_owner(slice_of(change->name), change->held, change->target,
                              &change->result.fault);
}

/* Returns the later one of the times of this server and of the store, which decides whether a fire is due. */
static int64_t change_now_ms(const struct change *change)
{
    return queue_wall_ms(change->front->queue) + change->skew_ms;
}

/* Plans the target from now on. The totals stay. */
static bool change_plan(struct change *change, struct state *state, int64_t *wake_ms)
{
    struct stored *target = change->target;
    struct http_fault *fault = &change->result.fault;
    char error[SPEC_ERROR_BYTES] = "";
    int64_t now_ms = change_now_ms(change);
    struct schedule schedule = {.name = slice_of(change->name), .spec = &target->spec};
    _Static_assert((int)ZONES_ERROR_BYTES <= (int)SPEC_ERROR_BYTES, "one place for both errors");
    if (!zones_find(cadence_front_of(change->front)->zones, target->spec.zone, &schedule.zone,
                    error) ||
        !spec_check(&target->spec, schedule.zone, now_ms, error))
        return http_fault_set(fault, PROBLEM_BAD_SCHEDULE, 0, "%s", error);
    if (!change->held)
        state->since_ms = clock_wall_ms(); /* the clock of the queue may stand still */
    state->counted = 0;
    state->retry_ms = 0;
    schedule_begin(&schedule, state, now_ms, wake_ms);
    zones_stamp(cadence_front_of(change->front)->zones, schedule.zone, state);
    return true;
}

/* Applies a pause, or ends one: fires until now are skipped. */
static bool change_pause(struct change *change, struct state *state, int64_t *wake_ms)
{
    struct stored *held = change->held;
    int64_t now_ms = change_now_ms(change);
    char error[ZONES_ERROR_BYTES] = "";
    struct schedule schedule = {.name = slice_of(change->name), .spec = &held->spec};
    if (!zones_find(cadence_front_of(change->front)->zones, held->spec.zone, &schedule.zone, error))
        return http_fault_set(&change->result.fault, PROBLEM_BAD_SCHEDULE, 0, "%s", error);
    *state = held->state;
    *wake_ms = change->held_due_ms;
    if (change->order.verb == CHANGE_PAUSE) {
        state->paused = true;
        state->paused_until_ms = change->order.pause_ms ? now_ms + change->order.pause_ms : 0;
        *wake_ms = now_ms; /* what was taken back is decided again */
        return true;
    }
    int64_t taken_ms[STATE_LAST];
    struct decision *decision = malloc(sizeof *decision);
    if (!decision)
        return http_fault_set(&change->result.fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    schedule_decide(&schedule, state, now_ms, 0, decision);
    *state = decision->state;
    *wake_ms = decision->wake_ms;
    (void)schedule_take_back(&schedule, state, now_ms, taken_ms); /* the pause ends before them */
    if (state->after_ms != decision->state.after_ms)
        *wake_ms = now_ms;
    zones_stamp(cadence_front_of(change->front)->zones, schedule.zone, state);
    free(decision);
    state->paused = false;
    state->paused_until_ms = 0;
    return true;
}

/* Returns the plan of a resumed schedule, which is not paused. */
static bool change_unpause_spec(struct change *change)
{
    struct stored *held = change->held;
    if (change->order.verb != CHANGE_RESUME || !held->spec.paused)
        return true;
    held->spec.paused = false;
    buffer_clear(&held->plan);
    buffer_append_byte(&held->plan, '{');
    spec_write(&held->plan, &held->spec);
    buffer_append_byte(&held->plan, '}');
    return !held->plan.failed;
}

/* Refuses a change of a schedule of a topic of others without revealing it. */
static void change_hide(struct change *change)
{
    if (change->order.verb == CHANGE_PUT) {
        (void)http_fault_set(&change->result.fault, PROBLEM_FORBIDDEN, 0,
                             "the name belongs to a schedule of a topic that this caller may not "
                             "use, choose another name");
        change_refuse(change);
        return;
    }
    change->is_hidden = true;
    change_push_again(change, (struct slice){0}, change->held_due_ms);
}

/* Returns whether the call deletes only schedules of another owner. */
static bool change_is_foreign(const struct change *change, const struct stored *stored)
{
    return change->order.verb == CHANGE_DELETE && change->order.owner &&
           !slice_is(stored->spec.owner, change->owner);
}

/* Returns whether the change sets the specification. */
static bool change_sets(const struct change *change)
{
    return change->order.verb == CHANGE_PUT || change->order.verb == CHANGE_PATCH;
}

/* Writes the change, which was checked. */
static void change_apply(struct change *change)
{
    struct stored *held = change->held;
    struct state state = held ? held->state : (struct state){0};
    int64_t wake_ms;
    if (change->order.verb == CHANGE_DELETE)
        change_delete(change);
    else if (change_sets(change)
                 ? !change_plan(change, &state, &wake_ms)
                 : !change_pause(change, &state, &wake_ms) || !change_unpause_spec(change))
        change_refuse(change);
    else
        change_write(change, change_sets(change) ? change->target : held, &state, wake_ms);
}

/* Returns whether a fire that was pushed ahead stays: the schedule has it afterwards too, in the same topic. */
static bool change_keeps_fire(struct change *change, int64_t at_ms)
{
    const struct stored *target = change->target;
    char error[ZONES_ERROR_BYTES];
    struct schedule schedule = {.name = slice_of(change->name)};
    if (!change_sets(change) || target->spec.paused ||
        !slice_equals(target->push.topic, change->held->push.topic) ||
        !zones_find(cadence_front_of(change->front)->zones, target->spec.zone, &schedule.zone,
                    error))
        return false;
    schedule.spec = &target->spec;
    return schedule_fires_at(&schedule, at_ms);
}

/* Takes back the fires that were pushed ahead, up to a job that was due before it could be cancelled. */
static void on_withdrawn(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct change *change = change_replied(owner);
    (void)tag;
    if (!change)
        return;
    if (reply->status || reply->result_count != change->ahead_count) {
        change_finish(change, reply->status ? reply->status : QUEUE_UNAVAILABLE);
        return;
    }
    const struct spec *spec = &change->held->spec;
    const struct schedule schedule = {.name = slice_of(change->name), .spec = spec};
    int64_t now_ms = change_now_ms(change), from_ms = now_ms;
    int64_t taken_ms[STATE_LAST];
    int64_t *since_ms = &change->held->state.since_ms;
    int64_t next_since_ms = clock_wall_ms() > *since_ms ? clock_wall_ms() : *since_ms + 1;
    for (size_t i = 0; i < change->ahead_count; i++) {
        int64_t at_ms = change->ahead_ms[i];
        int64_t due_ms = at_ms + spec_jitter(spec, schedule.name, at_ms);
        enum queue_status status = reply->results[i].status;
        bool is_gone =
            queue_status_is_success(status) || (status == QUEUE_NOT_FOUND && due_ms > now_ms);
        if (!is_gone && due_ms > from_ms)
            from_ms = due_ms;
        if (is_gone)
            *since_ms = next_since_ms;
    }
    (void)schedule_take_back(&schedule, &change->held->state, from_ms, taken_ms);
    change_apply(change);
}

/* Cancels the jobs that were pushed ahead of their time, if the changed schedule does not have them. Returns false if it
 * has them all. If the server is killed before the change is written, they do not come although the schedule still has
 * them; the caller got no answer then. */
static bool change_withdraw(struct change *change)
{
    struct queue_change cancels[STATE_LAST];
    char ids[STATE_LAST][STORED_ID_BYTES_MAX];
    int64_t ahead_ms[STATE_LAST];
    struct stored *held = change->held;
    if (!held || change->order.verb == CHANGE_RESUME)
        return false;
    const struct schedule schedule = {.name = slice_of(change->name), .spec = &held->spec};
    struct state state = held->state;
    size_t count = schedule_take_back(&schedule, &state, change_now_ms(change), ahead_ms);
    change->ahead_count = 0;
    for (size_t i = 0; i < count; i++)
        if (!change_keeps_fire(change, ahead_ms[i])) {
            size_t at = change->ahead_count++;
            change->ahead_ms[at] = ahead_ms[i];
            cancels[at] =
                (struct queue_change){.verb = QUEUE_CANCEL,
                                      .topic = held->push.topic,
                                      .id = stored_fire_id(schedule.name, ahead_ms[i], ids[at]),
                                      .priority = QUEUE_PRIORITY_UNSET};
        }
    if (!change->ahead_count) {
        held->state = state;
        return false;
    }
    queue_change(change->front->queue, cancels, change->ahead_count,
                 change_reply_to(change, on_withdrawn));
    return true;
}

static void change_decide(struct change *change)
{
    struct stored *held = change->held;
    struct state state = held ? held->state : (struct state){0};
    enum change_verb verb = change->order.verb;
    int64_t wake_ms;
    if (held && !change_is_allowed(change, held)) {
        change_hide(change);
        return;
    }
    if (held && verb == CHANGE_PUT && stored_equals(held, change->target)) {
        change->is_same = true;
        change->result.next_ms = held->state.next_ms;
        change->result.is_paused = held->spec.paused || held->state.paused;
        change_push_again(change, (struct slice){0}, change->held_due_ms);
        return;
    }
    if (verb == CHANGE_DELETE && change_is_foreign(change, held)) {
        change->is_hidden = true;
        change_push_again(change, (struct slice){0}, change->held_due_ms);
        return;
    }
    /* A change is rejected, if at all, before a fire is cancelled. */
    if ((verb == CHANGE_PAUSE && !change_pause(change, &state, &wake_ms)) ||
        (verb == CHANGE_PATCH && !change_merge(change)) ||
        (change_sets(change) &&
         (!change_is_allowed(change, change->target) || !change_may_own(change) ||
          !change_plan(change, &state, &wake_ms))))
        change_refuse(change);
    else if (!change_withdraw(change))
        change_apply(change);
}

/* ---- 1: the schedule is read and taken ---- */

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct change *change = change_replied(owner);
    enum change_verb verb;
    (void)tag;
    if (!change)
        return;
    verb = change->order.verb;
    if (reply->status == QUEUE_LEASED || reply->status == QUEUE_MOVING) {
        change_retry(change);
        return;
    }
    if (reply->status == QUEUE_NOT_FOUND || (reply->status == QUEUE_OK && !reply->job_count)) {
        if (verb == CHANGE_PUT)
            change_decide(change);
        else
            change_finish(change, QUEUE_NOT_FOUND);
        return;
    }
    if (reply->status != QUEUE_OK) {
        change_finish(change, reply->status);
        return;
    }
    const struct queue_job *job = &reply->jobs[0];
    memcpy(change->lease, job->lease.at, job->lease.len);
    change->lease_bytes = job->lease.len;
    change->held_due_ms = job->job.due_ms;
    int64_t skew_ms =
        job->job.lease_until_ms - STORED_LEASE_MS - queue_wall_ms(change->front->queue);
    change->skew_ms = skew_ms > 0 ? skew_ms : 0; /* the reply took some time */
    stored_free(change->held);
    change->held = stored_new();
    if (change->held && stored_read(change->held, slice_of(change->name), job->job.body,
                                    change->front->shared->hooks)) {
        change_decide(change);
        return;
    }
    (void)change_refuse_unreadable(slice_of(change->name), &change->result.fault);
    change_refuse(change);
}

static void change_take(struct change *change)
{
    struct slice topic = slice_of(SCHEDULES_TOPIC);
    const struct queue_take take = {.topics = &topic,
                                    .topic_count = 1,
                                    .id = slice_of(change->name),
                                    .max = 1,
                                    .lease_ms = STORED_LEASE_MS};
    queue_take(change->front->queue, &take, change_reply_to(change, on_taken));
}

/* Answers without a lease if nothing is to be changed. */
static void on_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct change *change = change_replied(owner);
    (void)tag;
    if (!change)
        return;
    if (reply->status == QUEUE_NOT_FOUND) {
        if (change->order.verb == CHANGE_PUT)
            change_decide(change);
        else
            change_finish(change, QUEUE_NOT_FOUND);
        return;
    }
    const struct queue_job *job = reply->jobs;
    bool is_same = false, is_foreign = false;
    struct stored *seen = reply->status == QUEUE_OK && reply->job_count ? stored_new() : NULL;
    if (seen &&
        stored_read(seen, slice_of(change->name), job->job.body, change->front->shared->hooks)) {
        is_same = change->order.verb == CHANGE_PUT && stored_equals(seen, change->target);
        is_foreign = change_is_foreign(change, seen);
        change->result.next_ms = seen->state.next_ms;
        change->result.is_paused = seen->spec.paused || seen->state.paused;
    }
    stored_free(seen);
    if (is_same && change_is_allowed(change, change->target))
        change_finish(change, QUEUE_EXISTED);
    else if (is_foreign)
        change_finish(change, QUEUE_NOT_FOUND);
    else
        change_take(change);
}

static void change_look(struct change *change)
{
    queue_get(change->front->queue, slice_of(SCHEDULES_TOPIC), slice_of(change->name),
              change_reply_to(change, on_seen));
}

/* ---- life ---- */

/* Begins a change that reads no schedule, after the call that ordered it. */
static void on_begun(void *ctx)
{
    struct change *change = ctx;
    if (change->result.has_fault)
        change_finish(change, QUEUE_BAD_OPTION);
    else
        change_decide(change);
}

bool change_begin(struct http_front *front, const struct change_order *order)
{
    struct change *change = calloc(1, sizeof *change);
    if (!change)
        return false;
    change->front = front;
    change->order = *order;
    change->began_ms = clock_inner_ms();
    (void)slice_copy(order->name, change->name, sizeof change->name);
    if (order->owner && slice_copy(slice_of(order->owner), change->owner, sizeof change->owner))
        change->order.owner = change->owner;
    buffer_init(&change->text, 4 * STORED_BYTES_MAX);
    buffer_init(&change->body, STORED_BYTES_MAX);
    list_add_last(&cadence_front_of(front)->changes, &change->list);
    buffer_append_slice(&change->text, order->text);
    if (order->verb == CHANGE_PUT &&
        (change->text.failed || !change_accept(change, buffer_slice(&change->text)))) {
        if (change->text.failed)
            (void)http_fault_set(&change->result.fault, PROBLEM_BODY_TOO_BIG, STORED_BYTES_MAX,
                                 "a schedule has at most %d bytes", STORED_BYTES_MAX);
        change->result.has_fault = true;
    }
    if (!change->result.has_fault && !order->is_new) {
        change_look(change);
        return true;
    }
    change->begin = deadline_new(front->reactor, on_begun, change);
    if (!change->begin) {
        change_free(change);
        return false;
    }
    deadline_set(change->begin, 0);
    return true;
}

void change_end_all(struct http_front *front)
{
    struct list *changes = &cadence_front_of(front)->changes;
    for (struct list *at = changes->next, *next; at != changes; at = next) {
        struct change *change = list_entry(at, struct change, list);
        next = at->next;
        if (change->is_calling) {
            change->is_ended = true;
            list_remove(&change->list);
        } else {
            change_free(change);
        }
    }
}
