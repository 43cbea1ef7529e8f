#include "queue/handover.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/table.h"
#include "queue/copy.h"
#include "queue/sharded.h"
#include "queue/traits.h"

#include <assert.h>
#include <stdlib.h>

enum { REPEAT_MS = 5 };

struct watched {
    struct table_entry entry;
    char topic[];
};

TABLE_DECLARE(watched_topics, struct watched, entry)

struct handover {
    struct queue queue; /* first member: used as the handle */
    struct handover_options options;
    struct queue *from;   /* NULL: there is only one queue */
    struct queue *into;   /* or the only one */
    struct sharded *both; /* both as one queue, for calls that name no job */
    bool has_ended;       /* `from` remains only for calls that began before */
    size_t under_way;     /* own calls in progress */
    struct list waiting;  /* those of them whose jobs are being moved, soonest first */
    struct watched_topics watched;
};

/* ---- calls that name jobs: sent to the part that has the job, or else to `into` ---- */

enum part { FROM, INTO, NOWHERE, PARTS = 2 };

/* A call that names jobs, with any number of items; a get and a redrive have no items. */
struct seeking {
    struct list list; /* handover->waiting */
    struct handover *handover;
    struct queue_reply_to reply_to;
    struct command *command; /* a copy */
    enum part *next;         /* of each item: the part to try next */
    struct queue_result *results;
    char *items;                /* buffer for the items sent to a part */
    struct queue_check *checks; /* buffer for their checks */
    size_t *asked[PARTS];       /* indexes of these items, in order */
    size_t asked_count[PARTS];
    uint32_t left;            /* parts that have not replied */
    enum queue_status status; /* purge, …: status from `from`, */
    uint64_t affected;        /* and its number of jobs */
    void (*repeat)(struct seeking *seeking);
    int64_t repeat_ms, give_up_ms;
};

static void seeking_end(struct seeking *seeking)
{
    seeking->handover->under_way--;
    free(seeking->command);
    free(seeking->next);
    free(seeking->results);
    free(seeking->items);
    free(seeking->checks);
    free(seeking->asked[FROM]);
    free(seeking->asked[INTO]);
    free(seeking);
}

/* Converts statuses that only parts use. Such a status remains only if the timeout was reached. */
static enum queue_status to_callers(enum queue_status status)
{
    return status == QUEUE_ELSEWHERE || status == QUEUE_MOVING ? QUEUE_UNAVAILABLE : status;
}

static void seeking_finish(struct seeking *seeking, const struct queue_reply *reply)
{
    struct queue_reply answer = *reply;
    answer.status = to_callers(reply->status);
    seeking->reply_to.done(seeking->reply_to.owner, seeking->reply_to.tag, &answer);
    seeking_end(seeking);
}

static bool seeking_has_memory(const struct seeking *seeking)
{
    return seeking->command && seeking->next && seeking->results && seeking->items &&
           seeking->checks && seeking->asked[FROM] && seeking->asked[INTO];
}

/* Creates a call. NULL: out of memory, and that was replied. */
static struct seeking *seeking_new(struct handover *handover, const struct command *command,
                                   size_t count, struct queue_reply_to reply_to)
{
    struct seeking *seeking = calloc(1, sizeof *seeking);
    if (seeking) {
        handover->under_way++;
        seeking->handover = handover;
        seeking->reply_to = reply_to;
        seeking->give_up_ms = clock_inner_ms() + handover->options.timeout_ms;
        seeking->command = copy_command(command);
        seeking->next = calloc(count + 1, sizeof *seeking->next);
        seeking->results = calloc(count + 1, sizeof *seeking->results);
        seeking->items = calloc(count + 1, sizeof(struct queue_push));
        seeking->checks = calloc(count + 1, sizeof *seeking->checks);
        seeking->asked[FROM] = calloc(count + 1, sizeof(size_t));
        seeking->asked[INTO] = calloc(count + 1, sizeof(size_t));
        if (seeking_has_memory(seeking))
            return seeking;
        seeking_end(seeking);
    }
    handover->options.refuse(handover->options.ctx, QUEUE_NO_MEMORY, reply_to);
    return NULL;
}

/* Schedules a repetition of the call. False: its timeout has been reached. */
static bool seeking_waits(struct seeking *seeking, void (*repeat)(struct seeking *seeking))
{
    int64_t now_ms = clock_inner_ms();
    if (now_ms >= seeking->give_up_ms)
        return false;
    seeking->repeat_ms = now_ms + REPEAT_MS;
    seeking->repeat = repeat;
    list_add_last(&seeking->handover->waiting, &seeking->list);
    return true;
}

static struct queue *part_of(const struct seeking *seeking, enum part part)
{
    return part == FROM ? seeking->handover->from : seeking->handover->into;
}

static void ask(struct seeking *seeking, enum part part, const struct command *command,
                queue_done *done)
{
    struct queue *queue = part_of(seeking, part);
    queue->ops->submit(
        queue, command,
        (struct queue_reply_to){.done = done, .owner = seeking, .tag = (uint64_t)part});
}

/* ---- push, change, find ---- */

static void items_go_on(struct seeking *seeking);

/* Stores a result, with the names from the caller, since those of a reply do not outlive it. */
static void keep_result(struct seeking *seeking, size_t item, const struct queue_result *result)
{
    struct queue_find name = command_item_name(seeking->command, item);
    seeking->results[item] = *result;
    seeking->results[item].topic = name.topic;
    seeking->results[item].id = name.id;
}

static void item_answered(struct seeking *seeking, enum part part, size_t item,
                          const struct queue_result *result)
{
    enum queue_status unknown =
        seeking->command->kind == COMMAND_PUSH ? QUEUE_ELSEWHERE : QUEUE_NOT_FOUND;
    keep_result(seeking, item, result);
    if (part == FROM && result->status == unknown)
        seeking->next[item] = INTO;
    else if (result->status != QUEUE_MOVING)
        seeking->next[item] = NOWHERE;
}

static void items_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct seeking *seeking = owner;
    enum part part = (enum part)tag;
    const struct queue_result refused = {.status = reply->status == QUEUE_OK ? QUEUE_NO_MEMORY
                                                                             : reply->status};
    for (size_t i = 0; i < seeking->asked_count[part]; i++)
        item_answered(seeking, part, seeking->asked[part][i],
                      i < reply->result_count ? &reply->results[i] : &refused);
    if (--seeking->left == 0)
        items_go_on(seeking);
}

/* Selects the items to send to the part; returns how many. */
static size_t items_choose(struct seeking *seeking, enum part part)
{
    size_t count = 0;
    for (size_t i = 0; i < seeking->command->count; i++)
        if (seeking->next[i] == part)
            seeking->asked[part][count++] = i;
    return seeking->asked_count[part] = count;
}

static void items_ask(struct seeking *seeking, enum part part)
{
    const struct command *whole = seeking->command;
    struct command command = {.kind = whole->kind,
                              .count = seeking->asked_count[part],
                              .checks = whole->checks ? seeking->checks : NULL,
                              .pushes = (const struct queue_push *)(void *)seeking->items};
    size_t bytes = command_traits[whole->kind].item_bytes;
    for (size_t i = 0; i < command.count; i++) {
        size_t item = seeking->asked[part][i];
        if (whole->checks)
            seeking->checks[i] = whole->checks[item];
        memcpy(seeking->items + i * bytes, (const char *)whole->pushes + item * bytes, bytes);
    }
    ask(seeking, part, &command, items_answered);
}

/* Sends the items to their parts. Both selections are made first, since a part may reply immediately. */
static void items_ask_parts(struct seeking *seeking)
{
    size_t from = items_choose(seeking, FROM), into = items_choose(seeking, INTO);
    seeking->left = (uint32_t)(from > 0) + (uint32_t)(into > 0);
    if (from)
        items_ask(seeking, FROM);
    if (into)
        items_ask(seeking, INTO);
}

static void items_go_on(struct seeking *seeking)
{
    bool waits = false;
    for (size_t i = 0; i < seeking->command->count; i++)
        waits |= seeking->next[i] == FROM;
    if (items_choose(seeking, INTO)) {
        seeking->left = 1;
        items_ask(seeking, INTO);
    } else if (!waits || !seeking_waits(seeking, items_ask_parts)) {
        for (size_t i = 0; i < seeking->command->count; i++)
            seeking->results[i].status = to_callers(seeking->results[i].status);
        struct queue_reply reply = {.results = seeking->results,
                                    .result_count = seeking->command->count};
        seeking_finish(seeking, &reply);
    }
}

/* Returns whether the job of the item certainly exists in no part yet and belongs into the new one. */
static bool is_new(const struct handover *handover, const struct command *command, size_t item)
{
    return command->kind == COMMAND_PUSH && command->pushes[item].id_is_made &&
           handover->options.is_sealed(handover->options.ctx);
}

static void seek_items(struct handover *handover, const struct command *command,
                       struct queue_reply_to reply_to)
{
    size_t made = 0;
    for (size_t i = 0; i < command->count; i++)
        made += is_new(handover, command, i);
    if (made == command->count) {
        handover->into->ops->submit(handover->into, command, reply_to);
        return;
    }
    struct seeking *seeking = seeking_new(handover, command, command->count, reply_to);
    if (!seeking)
        return;
    for (size_t i = 0; i < command->count; i++)
        seeking->next[i] = is_new(handover, command, i) ? INTO : FROM;
    items_ask_parts(seeking);
}

/* ---- get, take and redrive of one ---- */

static void job_ask(struct seeking *seeking);

static void job_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct seeking *seeking = owner;
    if (tag == FROM && reply->status == QUEUE_NOT_FOUND)
        ask(seeking, INTO, seeking->command, job_answered);
    else if (reply->status != QUEUE_MOVING || !seeking_waits(seeking, job_ask))
        seeking_finish(seeking, reply);
}

static void job_ask(struct seeking *seeking)
{
    ask(seeking, FROM, seeking->command, job_answered);
}

static void seek_job(struct handover *handover, const struct command *command,
                     struct queue_reply_to reply_to)
{
    struct seeking *seeking = seeking_new(handover, command, 0, reply_to);
    if (seeking)
        job_ask(seeking);
}

/* ---- purge, delete, redrive: jobs move in one direction, so the same order misses no job ---- */

static bool is_done(enum queue_status status)
{
    return status == QUEUE_OK || status == QUEUE_NOT_FOUND;
}

static void topic_into_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct seeking *seeking = owner;
    struct queue_reply sum = *reply;
    (void)tag;
    sum.affected += seeking->affected;
    if (sum.status == QUEUE_NOT_FOUND)
        sum.status = seeking->status;
    seeking_finish(seeking, &sum);
}

static void topic_from_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct seeking *seeking = owner;
    const struct queue_topic_call *call = &seeking->command->topic;
    bool is_limited = call->verb == QUEUE_TOPIC_REDRIVE && call->max;
    (void)tag;
    if (!is_done(reply->status) || (is_limited && reply->affected >= call->max)) {
        seeking_finish(seeking, reply);
        return;
    }
    seeking->status = reply->status;
    seeking->affected = reply->affected;
    struct command rest = *seeking->command;
    if (is_limited)
        rest.topic.max -= reply->affected;
    ask(seeking, INTO, &rest, topic_into_answered);
}

static void follow_topic(struct handover *handover, const struct command *command,
                         struct queue_reply_to reply_to)
{
    struct seeking *seeking = seeking_new(handover, command, 0, reply_to);
    if (seeking)
        ask(seeking, FROM, seeking->command, topic_from_answered);
}

/* ---- any call ---- */

static struct handover *handover_of(struct queue *queue)
{
    return (struct handover *)(void *)queue;
}

static bool are_two(const struct handover *handover)
{
    return handover->from && !handover->has_ended;
}

static void submit_to(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    queue->ops->submit(queue, command, reply_to);
}

/* Returns whether a call changes all jobs of a topic, one part after the other. */
static bool walks_topic(const struct command *command)
{
    enum queue_topic_verb verb = command->topic.verb;
    return command->kind == COMMAND_TOPIC &&
           (verb == QUEUE_TOPIC_REDRIVE || verb == QUEUE_TOPIC_DELETE || verb == QUEUE_TOPIC_PURGE);
}

static void submit_to_two(struct handover *handover, const struct command *command,
                          struct queue_reply_to reply_to)
{
    if (command_traits[command->kind].has_names)
        seek_items(handover, command, reply_to);
    else if (command_name_count(command))
        seek_job(handover, command, reply_to);
    else if (walks_topic(command))
        follow_topic(handover, command, reply_to);
    else
        submit_to(sharded_queue(handover->both), command, reply_to);
}

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct handover *handover = handover_of(queue);
    if (are_two(handover) && command->status == QUEUE_OK)
        submit_to_two(handover, command, reply_to);
    else
        submit_to(handover->into, command, reply_to);
}

static struct queue *whole_of(struct handover *handover)
{
    return are_two(handover) ? sharded_queue(handover->both) : handover->into;
}

static void on_watch(struct queue *queue, struct slice topic, bool on)
{
    struct handover *handover = handover_of(queue);
    struct watched *watched = watched_topics_find(&handover->watched, topic);
    queue_watch(whole_of(handover), topic, on);
    if (on && !watched) {
        watched = malloc(sizeof *watched + topic.len);
        if (!watched)
            return; /* only a later handover will not watch it */
        memcpy(watched->topic, topic.at, topic.len);
        watched->entry.key = slice_make(watched->topic, topic.len);
        watched_topics_add(&handover->watched, watched);
    } else if (!on && watched) {
        watched_topics_remove(&handover->watched, watched);
        free(watched);
    }
}

static void on_info(struct queue *queue, struct queue_info *out)
{
    queue_info(whole_of(handover_of(queue)), out);
}

/* While there are two queues, a push with a `once` is tried in both. */
static bool same_part(const struct queue *queue, struct slice topic, struct slice id,
                      struct slice once)
{
    const struct handover *handover = (const struct handover *)(const void *)queue;
    return queue_is_same_part(handover->into, topic, id, once) &&
           (!handover->from || queue_is_same_part(handover->from, topic, id, once));
}

static const struct queue_ops ops = {
    .submit = on_submit, .watch = on_watch, .info = on_info, .same_part = same_part};

static void watch_all(struct handover *handover, struct queue *queue, bool on)
{
    for (struct watched *watched = watched_topics_first(&handover->watched); watched;
         watched = watched_topics_next(&handover->watched, watched))
        queue_watch(queue, watched->entry.key, on);
}

/* ---- begin and end of a move ---- */

/* Unused, because calls that name a job do not come here. */
static uint32_t part_of_job(void *ctx, struct slice topic, struct slice id)
{
    (void)ctx;
    (void)topic;
    (void)id;
    return INTO;
}

bool handover_begin(struct handover *handover, struct queue *into)
{
    struct queue *queues[PARTS] = {[FROM] = handover->into, [INTO] = into};
    assert(!handover->from);
    handover->both = sharded_new(&(struct sharded_options){
        .parts = queues,
        .part_count = PARTS,
        .home = INTO,
        .leads = true, /* settings that the old part rejects, because it has jobs, reach no part */
        .in_turn = true,
        .part_of_job = part_of_job,
        .number_of_job = handover->options.number_of_job,
        .part_of_lease = handover->options.part_of_lease,
        .refuse = handover->options.refuse,
        .ctx = handover->options.ctx,
    });
    if (!handover->both)
        return false;
    handover->from = handover->into;
    handover->into = into;
    handover->has_ended = false;
    queue_report_as(sharded_queue(handover->both), &handover->queue);
    watch_all(handover, into, true);
    return true;
}

void handover_end(struct handover *handover)
{
    assert(are_two(handover));
    handover->has_ended = true;
    watch_all(handover, handover->from, false);
    queue_report_as(handover->into, &handover->queue);
}

bool handover_is_over(struct handover *handover)
{
    if (!handover->from)
        return true;
    if (!handover->has_ended || handover->under_way || !sharded_is_idle(handover->both))
        return false;
    handover->from->on_ready = NULL;
    handover->from->on_event = NULL;
    sharded_free(handover->both);
    handover->both = NULL;
    handover->from = NULL;
    return true;
}

bool handover_is_quiet(const struct handover *handover)
{
    return handover->under_way == 0;
}

int64_t handover_step(struct handover *handover, int64_t now_ms)
{
    while (!list_is_empty(&handover->waiting)) {
        struct seeking *first = list_entry(handover->waiting.next, struct seeking, list);
        if (first->repeat_ms > now_ms)
            return first->repeat_ms;
        list_remove(&first->list);
        first->repeat(first);
    }
    return INT64_MAX;
}

/* ---- lifetime ---- */

struct handover *handover_new(const struct handover_options *options)
{
    struct handover *handover = calloc(1, sizeof *handover);
    if (!handover)
        return NULL;
    handover->queue.ops = &ops;
    handover->options = *options;
    handover->into = options->queue;
    list_init(&handover->waiting);
    queue_report_as(handover->into, &handover->queue);
    return handover;
}

void handover_free(struct handover *handover)
{
    if (!handover)
        return;
    while (!list_is_empty(&handover->waiting)) {
        struct seeking *seeking = list_entry(handover->waiting.next, struct seeking, list);
        list_remove(&seeking->list);
        seeking_end(seeking);
    }
    struct watched *watched;
    while ((watched = watched_topics_first(&handover->watched))) {
        watched_topics_remove(&handover->watched, watched);
        free(watched);
    }
    watched_topics_fini(&handover->watched);
    sharded_free(handover->both);
    free(handover);
}

struct queue *handover_queue(struct handover *handover)
{
    return &handover->queue;
}
