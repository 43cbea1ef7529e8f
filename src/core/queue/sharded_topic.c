/* The topic calls of a sharded queue: figures are summed over the parts; changes that all parts must share are
 * first made in the first part. */
#include "queue/sharded_gather.h"

#include "base/log.h"
#include "queue/copy.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the same call to all parts, and the sum of their replies ---- */

static void add_topic(struct queue_topic *sum, const struct queue_topic *part)
{
    sum->counts.delayed += part->counts.delayed;
    sum->counts.retrying += part->counts.retrying;
    sum->counts.ready += part->counts.ready;
    sum->counts.leased += part->counts.leased;
    sum->counts.dead += part->counts.dead;
    sum->counts.dead_bytes += part->counts.dead_bytes;
    sum->counts.finished += part->counts.finished;
    sum->counts.held += part->counts.held;
    for (size_t i = 0; i < FLOW_HELD_REASONS; i++)
        sum->held_by[i] += part->held_by[i];
    if (sum->groups < part->groups) /* at least: a group may have jobs in several parts */
        sum->groups = part->groups;
    sum->totals.pushed += part->totals.pushed;
    sum->totals.acked += part->totals.acked;
    sum->totals.cancelled += part->totals.cancelled;
    sum->totals.expired += part->totals.expired;
    sum->totals.replaced += part->totals.replaced;
    sum->totals.delivered += part->totals.delivered;
    sum->totals.nacked += part->totals.nacked;
    sum->totals.lease_ended += part->totals.lease_ended;
    sum->totals.died += part->totals.died;
    sum->totals.redriven += part->totals.redriven;
    if (part->oldest_ready_due_ms &&
        (!sum->oldest_ready_due_ms || part->oldest_ready_due_ms < sum->oldest_ready_due_ms))
        sum->oldest_ready_due_ms = part->oldest_ready_due_ms;
}

/* Sorts by name and sums up equal names. Returns how many are left. */
static size_t add_up(struct queue_topic *topics, size_t total)
{
    size_t found = 0;
    queue_topics_sort(topics, total);
    for (size_t i = 0; i < total; i++) {
        if (found && slice_equals(topics[found - 1].name, topics[i].name))
            add_topic(&topics[found - 1], &topics[i]);
        else
            topics[found++] = topics[i];
    }
    return found;
}

void sharded_add_status(struct queue_reply *whole, const struct queue_reply *part)
{
    enum queue_status status = part ? part->status : QUEUE_NO_MEMORY;
    bool is_refusal = status != QUEUE_OK && status != QUEUE_CREATED && status != QUEUE_NOT_FOUND;
    bool was_refused = whole->status != QUEUE_OK && whole->status != QUEUE_CREATED &&
                       whole->status != QUEUE_NOT_FOUND;
    if (is_refusal || (!was_refused && status == QUEUE_OK) ||
        (whole->status == QUEUE_NOT_FOUND && status == QUEUE_CREATED))
        whole->status = status;
}

static void join_sums(struct sharded_gather *gather)
{
    size_t total = 0;
    struct queue_reply reply = {.status = QUEUE_NOT_FOUND};
    for (uint32_t i = 0; i < gather->sharded->part_count; i++) {
        const struct queue_reply *part = gather->replies[i];
        sharded_add_status(&reply, part);
        total += part ? part->topic_count : 0;
        reply.affected += part ? part->affected : 0;
    }
    struct queue_topic *topics = malloc((total + 1) * sizeof *topics);
    if (!topics || (reply.status != QUEUE_OK && reply.status != QUEUE_CREATED)) {
        if (!topics)
            reply.status = QUEUE_NO_MEMORY;
        sharded_gather_finish(gather, &reply); /* with the changes made by the other parts */
        free(topics);
        return;
    }
    size_t at = 0;
    for (uint32_t i = 0; i < gather->sharded->part_count; i++)
        for (size_t j = 0; j < gather->replies[i]->topic_count; j++)
            topics[at++] = gather->replies[i]->topics[j];
    reply.topics = topics;
    reply.topic_count = add_up(topics, total);
    sharded_gather_finish(gather, &reply);
    free(topics);
}

/* Topics of the same name are summed up, since each part has a share of their jobs. */
void sharded_topics(struct sharded *sharded, const struct command *command,
                    struct queue_reply_to reply_to)
{
    struct sharded_gather *gather = sharded_gather_new(sharded, join_sums, reply_to);
    if (gather)
        sharded_gather_ask_all(gather, command);
}

static void join_forecasts(struct sharded_gather *gather)
{
    struct queue_forecast sum = {0};
    struct queue_reply reply = {.status = QUEUE_NOT_FOUND, .forecast = &sum};
    for (uint32_t i = 0; i < gather->sharded->part_count; i++) {
        const struct queue_reply *part = gather->replies[i];
        sharded_add_status(&reply, part);
        if (part && part->forecast)
            queue_forecast_join(&sum, part->forecast);
    }
    if (reply.status == QUEUE_OK)
        sharded_gather_finish(gather, &reply);
    else
        sharded_gather_refuse(gather, reply.status);
}

void sharded_forecast(struct sharded *sharded, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct sharded_gather *gather = sharded_gather_new(sharded, join_forecasts, reply_to);
    if (gather)
        sharded_gather_ask_all(gather, command);
}

/* Sends the call to all parts but the first, whose reply is `first`, and sums the replies. */
static void sum_rest(struct sharded *sharded, const struct command *command,
                     const struct queue_reply *first, struct queue_reply_to reply_to)
{
    struct sharded_gather *gather = sharded_gather_new(sharded, join_sums, reply_to);
    if (!gather)
        return;
    gather->replies[0] = copy_reply(first);
    gather->left = sharded->part_count - 1;
    for (uint32_t part = 1; part < sharded->part_count; part++)
        sharded_gather_ask(gather, part, command);
}

/* ---- calls in steps ---- */

/* A call that is carried out in one part after the other. */
struct topic_call {
    struct sharded *sharded;
    struct queue_reply_to reply_to;
    struct command *command; /* a copy */
    uint32_t asked;          /* redrive: parts */
    uint64_t affected;
    enum queue_status status;          /* redrive: OK if a part had the topic */
    bool was_one;                      /* all jobs of the topic were in one part */
    struct queue_reply *before;        /* move: the topic as it was; a copy */
    uint32_t order[SHARDED_PARTS_MAX]; /* move: the parts, in the order in which they change */
};

static struct topic_call *topic_call_new(struct sharded *sharded, const struct command *command,
                                         struct queue_reply_to reply_to)
{
    struct topic_call *topic = calloc(1, sizeof *topic);
    struct command *copy = copy_command(command);
    if (!topic || !copy) {
        free(topic);
        free(copy);
        sharded_refuse(sharded, QUEUE_NO_MEMORY, reply_to);
        return NULL;
    }
    sharded->under_way++;
    *topic = (struct topic_call){
        .sharded = sharded, .reply_to = reply_to, .command = copy, .status = QUEUE_NOT_FOUND};
    return topic;
}

static void topic_call_free(struct topic_call *topic)
{
    topic->sharded->under_way--;
    free(topic->before);
    free(topic->command);
    free(topic);
}

static void topic_call_finish(struct topic_call *topic, const struct queue_reply *reply)
{
    topic->reply_to.done(topic->reply_to.owner, topic->reply_to.tag, reply);
    topic_call_free(topic);
}

/* ---- changes that all parts must share ---- */

static void lead_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_CREATED &&
        reply->status != QUEUE_NOT_FOUND) {
        topic_call_finish(topic, reply);
        return;
    }
    /* A pause ends in all parts at the time at which it ends in the first one. */
    if (topic->command->topic.verb == QUEUE_TOPIC_PAUSE && reply->topic_count)
        topic->command->topic.pause_until_ms = reply->topics[0].paused_until_ms;
    sum_rest(topic->sharded, topic->command, reply, topic->reply_to);
    topic_call_free(topic);
}

/* Makes a change in the first part before the others, if the first part leads. */
static void lead_topic(struct sharded *sharded, const struct command *command,
                       struct queue_reply_to reply_to)
{
    if (!sharded->options.leads) {
        sharded_topics(sharded, command, reply_to);
        return;
    }
    struct topic_call *topic = topic_call_new(sharded, command, reply_to);
    if (topic)
        sharded_send(sharded, 0, command,
                     (struct queue_reply_to){.done = lead_done, .owner = topic});
}

/* ---- pause ---- */

static void pause_shown(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    (void)tag;
    if (reply->status != QUEUE_OK) {
        topic_call_finish(topic, reply);
        return;
    }
    lead_topic(topic->sharded, topic->command, topic->reply_to);
    topic_call_free(topic);
}

/* Finds out whether any part has the topic; then calls `shown`. */
static void show_first(struct topic_call *topic, queue_done *shown)
{
    struct command show = {
        .kind = COMMAND_TOPIC,
        .topic = {.verb = QUEUE_TOPIC_GET, .topic = topic->command->topic.topic}};
    sharded_topics(topic->sharded, &show, (struct queue_reply_to){.done = shown, .owner = topic});
}

/* Pauses a topic. A part without jobs of the topic must also have the pause, before its first job comes. But a
 * topic that no part has is not created. */
static void pause_topic(struct sharded *sharded, const struct command *command,
                        struct queue_reply_to reply_to)
{
    struct topic_call *topic = topic_call_new(sharded, command, reply_to);
    if (!topic)
        return;
    topic->command->topic.makes = true;
    show_first(topic, pause_shown);
}

/* ---- settings, which may move a topic to one part or from it ---- */

/*
 * A move changes one part after the other, while the calls still find jobs as before. A part that has changed accepts only jobs that belong
 * to it both before and after the move, and rejects others with QUEUE_ELSEWHERE. So a crash, or a part that still has jobs, leaves no job in the wrong
 * part, and the first part, which leads, changes last if the topic moves to one part. If it is spread again, its only part with jobs, the home, changes first.
 */

static bool settings_are_one(const struct command *command)
{
    return flow_is_one_shard(&command->topic.settings.flow);
}

static bool is_one_part(const struct queue_reply *shown)
{
    return shown->topic_count && flow_is_one_shard(&shown->topics[0].settings.flow);
}

static void set_order(struct topic_call *topic)
{
    uint32_t count = topic->sharded->part_count, at = 0;
    uint32_t home = sharded_home_of(topic->sharded, topic->command->topic.topic);
    bool is_one = settings_are_one(topic->command);
    if (!is_one)
        topic->order[at++] = home;
    for (uint32_t part = is_one ? 1 : 0; part < count; part++)
        if (is_one || part != home)
            topic->order[at++] = part;
    if (is_one)
        topic->order[at++] = 0;
}

static void move_shown(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    struct queue_reply shown = *reply;
    (void)tag;
    if (shown.status == QUEUE_OK)
        shown.status = topic->status;
    topic_call_finish(topic, &shown);
}

static void move_end(struct topic_call *topic)
{
    const struct sharded_options *options = &topic->sharded->options;
    struct queue_reply reply = {.status = topic->status};
    bool is_done = topic->status == QUEUE_OK || topic->status == QUEUE_CREATED;
    if (is_done)
        (void)options->place(options->ctx, topic->command->topic.topic,
                             settings_are_one(topic->command));
    options->place_end(options->ctx, topic->command->topic.topic, false);
    if (is_done)
        show_first(topic, move_shown);
    else
        topic_call_finish(topic, &reply);
}

/* Restores the earlier settings in the parts that have changed. */
static void move_undo(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    (void)tag;
    (void)reply;
    if (!topic->asked) {
        move_end(topic);
        return;
    }
    struct command undo = {.kind = COMMAND_TOPIC,
                           .topic = {.verb = QUEUE_TOPIC_PUT,
                                     .topic = topic->command->topic.topic,
                                     .place = QUEUE_PLACE_UNDONE}};
    if (topic->before->topic_count)
        undo.topic.settings = topic->before->topics[0].settings;
    sharded_send(topic->sharded, topic->order[--topic->asked], &undo,
                 (struct queue_reply_to){.done = move_undo, .owner = topic});
}

static void move_next(struct topic_call *topic);

static void part_moved(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    if (reply->status == QUEUE_OK || reply->status == QUEUE_CREATED) {
        if (topic->asked == 0)
            topic->status = reply->status;
        topic->asked++;
        move_next(topic);
        return;
    }
    topic->status = reply->status;
    move_undo(topic, tag, reply);
}

static void move_next(struct topic_call *topic)
{
    if (topic->asked == topic->sharded->part_count)
        move_end(topic);
    else
        sharded_send(topic->sharded, topic->order[topic->asked], topic->command,
                     (struct queue_reply_to){.done = part_moved, .owner = topic});
}

/* Begins a move whose topic no other move or delete changes any more. */
static void move_begins(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    (void)tag;
    bool is_shown = reply->status == QUEUE_OK || reply->status == QUEUE_NOT_FOUND;
    topic->status = is_shown ? QUEUE_ELSEWHERE : reply->status;
    if (!is_shown || is_one_part(reply) == settings_are_one(topic->command)) {
        move_end(topic);
        return;
    }
    topic->status = QUEUE_NO_MEMORY;
    if (!(topic->before = copy_reply(reply))) {
        move_end(topic);
        return;
    }
    set_order(topic);
    move_next(topic);
}

/* Returns whether a change of settings that moves nothing changes the order of a topic in one part. */
static bool is_reordered(const struct queue_reply *shown, const struct command *command)
{
    return is_one_part(shown) &&
           shown->topics[0].settings.flow.group_order != command->topic.settings.flow.group_order;
}

/* Reports a topic as created if the home created it: the other parts may have had it. */
static void rest_reordered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    struct queue_reply whole = *reply;
    (void)tag;
    if (whole.status == QUEUE_OK)
        whole.status = topic->status;
    topic_call_finish(topic, &whole);
}

static void home_reordered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    (void)tag;
    topic->status = reply->status;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_CREATED)
        topic_call_finish(topic, reply);
    else
        lead_topic(topic->sharded, topic->command,
                   (struct queue_reply_to){.done = rest_reordered, .owner = topic});
}

/* Changes the order first in the home, which has all jobs: it rejects the change if it has any. */
static void reorder_home(struct topic_call *topic)
{
    sharded_send(topic->sharded, sharded_home_of(topic->sharded, topic->command->topic.topic),
                 topic->command, (struct queue_reply_to){.done = home_reordered, .owner = topic});
}

static void put_shown(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    const struct sharded_options *options = &topic->sharded->options;
    struct queue_topic_call *put = &topic->command->topic;
    bool is_one = is_one_part(reply);
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        topic_call_finish(topic, reply);
        return;
    }
    put->place = is_one == settings_are_one(topic->command) ? QUEUE_PLACE_KEPT : QUEUE_PLACE_MOVED;
    if (put->place == QUEUE_PLACE_KEPT && is_reordered(reply, topic->command)) {
        reorder_home(topic);
        return;
    }
    if (put->place == QUEUE_PLACE_KEPT) {
        lead_topic(topic->sharded, topic->command, topic->reply_to);
        topic_call_free(topic);
        return;
    }
    struct queue_reply refusal = {.status = QUEUE_ELSEWHERE};
    if (options->place_begin(options->ctx, put->topic, false))
        show_first(topic, move_begins); /* another move may have ended since the reply */
    else
        topic_call_finish(topic, &refusal);
}

static void put_topic(struct sharded *sharded, const struct command *command,
                      struct queue_reply_to reply_to)
{
    bool is_one = sharded_is_one_by_name(sharded, command->topic.topic);
    if (!sharded->options.place && !is_one) {
        lead_topic(sharded, command, reply_to);
        return;
    }
    struct topic_call *topic = topic_call_new(sharded, command, reply_to);
    if (topic && is_one)
        reorder_home(topic);
    else if (topic)
        show_first(topic, put_shown);
}

/* ---- delete: marked in the first part, carried out in the others, then in the first ---- */

static void send_mark(struct topic_call *topic, bool begins, queue_done *done)
{
    struct command mark = {
        .kind = COMMAND_TOPIC,
        .topic = {.verb = QUEUE_TOPIC_MARK, .topic = topic->command->topic.topic, .makes = begins}};
    sharded_send(topic->sharded, 0, &mark, (struct queue_reply_to){.done = done, .owner = topic});
}

static void finish_delete(struct topic_call *topic)
{
    const struct sharded_options *options = &topic->sharded->options;
    struct queue_reply reply = {.status = topic->status, .affected = topic->affected};
    if (options->place)
        options->place_end(options->ctx, topic->command->topic.topic, true);
    topic_call_finish(topic, &reply);
}

static bool is_done(enum queue_status status)
{
    return status == QUEUE_OK || status == QUEUE_NOT_FOUND;
}

static void delete_given_up(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    char name[JOB_TOPIC_BYTES_MAX + 1];
    (void)tag;
    if (!is_done(reply->status)) {
        (void)snprintf(name, sizeof name, "%.*s", (int)topic->command->topic.topic.len,
                       topic->command->topic.topic.at);
        log_event(LOG_ERROR, "a topic's delete is not complete", LOG_TEXT("topic", name),
                  LOG_TEXT("advice", "delete it again, or the next start completes it"));
    }
    finish_delete(topic);
}

static void give_up_delete(struct topic_call *topic)
{
    const struct sharded_options *options = &topic->sharded->options;
    if (topic->was_one)
        (void)options->place(options->ctx, topic->command->topic.topic, true);
    send_mark(topic, false, delete_given_up);
}

/* Ends a delete. If a part rejected it, the mark is removed, so that the next start does not continue a delete
 * that was reported as failed. */
static void delete_ended(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    (void)tag;
    topic->affected += reply->affected;
    if (reply->status != QUEUE_NOT_FOUND)
        topic->status = reply->status;
    if (is_done(reply->status))
        finish_delete(topic);
    else
        give_up_delete(topic);
}

static void others_deleted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    (void)tag;
    topic->affected = reply->affected;
    topic->status = reply->status;
    if (is_done(reply->status))
        sharded_send(topic->sharded, 0, topic->command,
                     (struct queue_reply_to){.done = delete_ended, .owner = topic});
    else
        give_up_delete(topic);
}

static void refuse_delete(struct topic_call *topic, enum queue_status status)
{
    topic->status = status;
    finish_delete(topic);
}

static void delete_marked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    struct queue_reply none = {.status = QUEUE_NOT_FOUND};
    (void)tag;
    /* A topic that is pushed to after its delete has the default settings, so its jobs are spread. */
    if (reply->status == QUEUE_OK && topic->sharded->options.place)
        topic->was_one = topic->sharded->options.place(topic->sharded->options.ctx,
                                                       topic->command->topic.topic, false);
    if (reply->status == QUEUE_OK)
        sum_rest(topic->sharded, topic->command, &none,
                 (struct queue_reply_to){.done = others_deleted, .owner = topic});
    else
        refuse_delete(topic, reply->status);
}

static void delete_shown(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    const struct sharded_options *options = &topic->sharded->options;
    struct queue_reply refusal = {.status = QUEUE_ELSEWHERE};
    (void)tag;
    if (reply->status != QUEUE_OK)
        topic_call_finish(topic, reply);
    else if (options->place &&
             !options->place_begin(options->ctx, topic->command->topic.topic, true))
        topic_call_finish(topic, &refusal);
    else
        send_mark(topic, true, delete_marked);
}

static void delete_topic(struct sharded *sharded, const struct command *command,
                         struct queue_reply_to reply_to)
{
    if (!sharded->options.leads) {
        sharded_topics(sharded, command, reply_to);
        return;
    }
    struct topic_call *topic = topic_call_new(sharded, command, reply_to);
    if (topic)
        show_first(topic, delete_shown);
}

/* ---- redrive with a maximum ---- */

static void redrive_next(struct topic_call *topic);

static void part_redriven(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_call *topic = owner;
    (void)tag;
    topic->affected += reply->affected;
    if (reply->status != QUEUE_NOT_FOUND)
        topic->status = reply->status;
    redrive_next(topic);
}

static void redrive_next(struct topic_call *topic)
{
    const struct queue_topic_call *call = &topic->command->topic;
    bool may_go_on = topic->status == QUEUE_OK || topic->status == QUEUE_NOT_FOUND;
    if (!may_go_on || topic->asked == topic->sharded->part_count || topic->affected >= call->max) {
        struct queue_reply reply = {.status = topic->status, .affected = topic->affected};
        topic_call_finish(topic, &reply);
        return;
    }
    struct command part = {.kind = COMMAND_TOPIC, .topic = *call};
    part.topic.max = call->max - topic->affected;
    sharded_send(topic->sharded, topic->asked++, &part,
                 (struct queue_reply_to){.done = part_redriven, .owner = topic});
}

/* Redrives in one part after the other, so that the maximum is not exceeded. */
static void redrive_topic(struct sharded *sharded, const struct command *command,
                          struct queue_reply_to reply_to)
{
    struct topic_call *topic = topic_call_new(sharded, command, reply_to);
    if (topic)
        redrive_next(topic);
}

void sharded_topic(struct sharded *sharded, const struct command *command,
                   struct queue_reply_to reply_to)
{
    const struct queue_topic_call *call = &command->topic;
    if (call->verb == QUEUE_TOPIC_REDRIVE && call->id.len)
        sharded_send(sharded, sharded_part_of_job(sharded, call->topic, call->id), command,
                     reply_to);
    else if (call->verb == QUEUE_TOPIC_PAUSE)
        pause_topic(sharded, command, reply_to);
    else if (call->verb == QUEUE_TOPIC_PUT)
        put_topic(sharded, command, reply_to);
    else if (call->verb == QUEUE_TOPIC_RESUME)
        lead_topic(sharded, command, reply_to);
    else if (call->verb == QUEUE_TOPIC_DELETE)
        delete_topic(sharded, command, reply_to);
    else if (call->verb == QUEUE_TOPIC_REDRIVE && call->max)
        redrive_topic(sharded, command, reply_to);
    else
        sharded_topics(sharded, command, reply_to);
}
