/* The commands of queue.h on one shard. */
#include "local/lease.h"
#include "local/private.h"
#include "queue/check.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    TAKE_BYTES_MAX = 16 << 20, /* of records in one reply, give or take a job */
    LIST_BYTES_MAX = 8 << 20,
    WALK_STEPS = 16384, /* jobs looked at in a turn, about a millisecond */
    WALK_CHANGES = 512
};

/* ---- push, answer, change: one result per item, when durable ---- */

static int out_of_memory(struct shard *shard, struct queue_reply_to reply_to)
{
    completion_status_soon(shard, QUEUE_NO_MEMORY, reply_to);
    return 0;
}

/* -EAGAIN, or 0 with *status OK or the refusal for the whole call. */
static int ask_room(struct shard *shard, size_t bytes, enum wal_need need,
                    enum queue_status *status)
{
    switch (wal_has_room(shard->wal, bytes, need)) {
    case 0:
        *status = QUEUE_OK;
        return 0;
    case -EAGAIN: /* the commit or the next file under way will make room */
        return -EAGAIN;
    case -EMSGSIZE:
        *status = QUEUE_BODY_TOO_BIG; /* even an empty batch cannot take it */
        return 0;
    case -ENOSPC:
        *status = QUEUE_NO_SPACE;
        return 0;
    default:
        *status = QUEUE_UNAVAILABLE;
        return 0;
    }
}

static int run_push(struct shard *shard, const struct command *command,
                    struct queue_reply_to reply_to)
{
    size_t bytes = 0, text = 0, used = 0;
    enum queue_status status;
    for (size_t i = 0; i < command->count; i++) {
        bytes += engine_room_push(&command->pushes[i]);
        text += command->pushes[i].topic.len + command->pushes[i].id.len;
    }
    if (ask_room(shard, bytes, WAL_FOR_PUSH, &status) == -EAGAIN)
        return -EAGAIN;
    struct completion *completion = completion_new(shard, command->count, text, reply_to);
    if (!completion)
        return out_of_memory(shard, reply_to);
    struct queue_result *results = completion_results(completion);
    struct engine_now now = shard_now(shard);
    for (size_t i = 0; i < command->count; i++) {
        const struct queue_push *push = &command->pushes[i];
        struct queue_result *result = &results[i];
        result->status = queue_check_push(push, shard->body_bytes_max, &result->detail);
        if (result->status == QUEUE_OK && status != QUEUE_OK)
            result->status = status;
        else if (result->status == QUEUE_OK)
            engine_push(shard->engine, push, now, result);
        result->topic = completion_text(completion, &used, push->topic);
        result->id = completion_text(completion, &used, push->id);
    }
    completion_when_durable(shard, completion);
    return 0;
}

static int run_answer(struct shard *shard, const struct command *command,
                      struct queue_reply_to reply_to)
{
    enum queue_status status;
    if (ask_room(shard, command->count * ENGINE_STATE_BYTES_MAX, WAL_FOR_ANSWER, &status) ==
        -EAGAIN)
        return -EAGAIN;
    struct completion *completion = completion_new(shard, command->count, 0, reply_to);
    if (!completion)
        return out_of_memory(shard, reply_to);
    struct queue_result *results = completion_results(completion);
    struct engine_now now = shard_now(shard);
    for (size_t i = 0; i < command->count; i++) {
        const struct queue_answer *answer = &command->answers[i];
        struct queue_result *result = &results[i];
        struct engine_lease lease;
        uint32_t number;
        result->status = queue_check_answer(answer, &result->detail);
        if (result->status != QUEUE_OK)
            continue;
        if (!lease_parse(answer->lease, &lease, &number) || number != shard->options.index)
            result->status = QUEUE_LEASE_ENDED;
        else if (status != QUEUE_OK)
            result->status = status;
        else
            engine_answer(shard->engine, &lease, answer, now, result);
    }
    completion_when_durable(shard, completion);
    return 0;
}

static int run_change(struct shard *shard, const struct command *command,
                      struct queue_reply_to reply_to)
{
    size_t text = 0, used = 0;
    enum queue_status status;
    for (size_t i = 0; i < command->count; i++)
        text += command->changes[i].topic.len + command->changes[i].id.len;
    if (ask_room(shard, command->count * ENGINE_STATE_BYTES_MAX, WAL_FOR_ANSWER, &status) ==
        -EAGAIN)
        return -EAGAIN;
    struct completion *completion = completion_new(shard, command->count, text, reply_to);
    if (!completion)
        return out_of_memory(shard, reply_to);
    struct queue_result *results = completion_results(completion);
    struct engine_now now = shard_now(shard);
    for (size_t i = 0; i < command->count; i++) {
        const struct queue_change *change = &command->changes[i];
        struct queue_result *result = &results[i];
        result->status = queue_check_change(change, &result->detail);
        if (result->status == QUEUE_OK && status != QUEUE_OK)
            result->status = status;
        else if (result->status == QUEUE_OK)
            engine_change(shard->engine, change, now, result);
        result->topic = completion_text(completion, &used, change->topic);
        result->id = completion_text(completion, &used, change->id);
    }
    completion_when_durable(shard, completion);
    return 0;
}

/* ---- take, get ---- */

static int run_take(struct shard *shard, const struct command *command,
                    struct queue_reply_to reply_to)
{
    const struct queue_take *take = &command->take;
    const char *detail;
    enum queue_status status = queue_check_take(take, &detail);
    if (status != QUEUE_OK) {
        completion_status_soon(shard, status, reply_to);
        return 0;
    }
    if (ask_room(shard, take->max * (size_t)ENGINE_STATE_BYTES_MAX, WAL_FOR_ANSWER, &status) ==
        -EAGAIN)
        return -EAGAIN;
    struct engine_view *views = status == QUEUE_OK ? malloc(take->max * sizeof *views) : NULL;
    if (!views) {
        completion_status_soon(shard, status == QUEUE_OK ? QUEUE_NO_MEMORY : status, reply_to);
        return 0;
    }
    struct engine_now now = shard_now(shard);
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < take->topic_count && count < take->max && bytes < TAKE_BYTES_MAX; i++) {
        size_t before = count;
        count += engine_take(shard->engine, take->topics[i], take->max - (uint32_t)count,
                             TAKE_BYTES_MAX - bytes, take->lease_ms, now, views + count);
        for (size_t at = before; at < count; at++)
            bytes += views[at].place.bytes;
    }
    reading_start(shard, views, count,
                  (struct reading_options){.with_lease = true, .with_body = true},
                  (struct slice){0}, reply_to);
    return 0;
}

static void run_get(struct shard *shard, const struct command *command,
                    struct queue_reply_to reply_to)
{
    struct engine_view *view = malloc(sizeof *view);
    if (!view) {
        out_of_memory(shard, reply_to);
    } else if (!job_topic_is_valid(command->get.topic) || !job_id_is_valid(command->get.id)) {
        free(view);
        completion_status_soon(
            shard, job_topic_is_valid(command->get.topic) ? QUEUE_BAD_ID : QUEUE_BAD_TOPIC,
            reply_to);
    } else if (!engine_find(shard->engine, command->get.topic, command->get.id, shard_now(shard),
                            view)) {
        free(view);
        completion_status_soon(shard, QUEUE_NOT_FOUND, reply_to);
    } else {
        reading_start(shard, view, 1, (struct reading_options){.with_body = true},
                      (struct slice){0}, reply_to);
    }
}

/* ---- walks: list, purge, redrive, delete ---- */

static void walk_start(struct shard *shard, const struct walk *walk, bool with_body,
                       struct queue_reply_to reply_to)
{
    struct walking *walking = calloc(1, sizeof *walking);
    if (!walking) {
        out_of_memory(shard, reply_to);
        return;
    }
    walking->walk = *walk;
    walking->with_body = with_body;
    walking->reply_to = reply_to;
    if (!walk_init(&walking->walk, shard->engine)) {
        free(walking);
        completion_status_soon(shard, QUEUE_NOT_FOUND, reply_to);
        return;
    }
    list_add_last(&shard->walkings, &walking->list);
    reactor_turn_again(shard->reactor); /* this one's walks may have had theirs */
}

static struct walk walk_of(enum walk_kind kind, struct slice topic, enum job_state state)
{
    struct walk walk = {.kind = kind, .state = state, .topic_bytes = topic.len};
    memcpy(walk.topic, topic.at, topic.len);
    return walk;
}

static void run_list(struct shard *shard, const struct command *command,
                     struct queue_reply_to reply_to)
{
    const struct queue_list *list = &command->list;
    const char *detail;
    enum queue_status status = queue_check_list(list, &detail);
    struct walk walk = {0};
    if (status == QUEUE_OK) {
        walk = walk_of(WALK_LIST, list->topic, list->state);
        walk.limit = list->limit;
        walk.shard = shard->options.index;
        walk.has_cursor = list->cursor.len > 0;
        if (walk.has_cursor && !queue_cursor_parse(list->cursor, &walk.after))
            status = QUEUE_BAD_CURSOR;
    }
    if (status != QUEUE_OK)
        completion_status_soon(shard, status, reply_to);
    else
        walk_start(shard, &walk, list->with_body, reply_to);
}

/* As many as fit into one reply; the cursor then says where to go on. */
static void finish_list(struct shard *shard, struct walking *walking)
{
    struct walk *walk = &walking->walk;
    char text[QUEUE_CURSOR_BYTES_MAX];
    struct slice cursor = {0};
    size_t count = 0, bytes = 0;
    while (count < walk->found_count &&
           (!count || bytes + walk->found[count].place.bytes <= LIST_BYTES_MAX))
        bytes += walk->found[count++].place.bytes;
    if (count && (walk->more || count < walk->found_count)) {
        const struct engine_view *last = &walk->found[count - 1];
        struct queue_cursor at = {
            .due_ms = last->due_ms, .sequence = last->sequence, .part = walk->shard};
        cursor = slice_make(text, queue_cursor_write(text, &at));
    }
    struct engine_view *views = walk->found;
    for (size_t i = count; i < walk->found_count; i++)
        engine_view_fini(&views[i]);
    walk->found = NULL;
    reading_start(shard, views, count, (struct reading_options){.with_body = walking->with_body},
                  cursor, walking->reply_to);
}

static bool finish_walk(struct shard *shard, struct walking *walking)
{
    struct walk *walk = &walking->walk;
    if (walk->kind == WALK_LIST) {
        finish_list(shard, walking);
        return true;
    }
    enum queue_status status = QUEUE_OK;
    if (walk->kind == WALK_DELETE) {
        status = engine_topic_remove(shard->engine, slice_make(walk->topic, walk->topic_bytes));
        if (status == QUEUE_CONFLICT) { /* pushed to meanwhile: once more over all */
            walk->at = 0;
            walk->until_sequence = UINT64_MAX;
            return false;
        }
        shard_tell(shard, QUEUE_EVENT_TOPIC, slice_make(walk->topic, walk->topic_bytes));
    }
    struct completion *completion = completion_new(shard, 0, 0, walking->reply_to);
    assert(completion);
    completion->reply.status = status;
    completion->reply.affected = walk->affected;
    completion_when_durable(shard, completion);
    return true;
}

static void walking_free(struct walking *walking)
{
    list_remove(&walking->list);
    walk_fini(&walking->walk);
    free(walking);
}

static void refuse_walk(struct shard *shard, struct walking *walking, enum queue_status status)
{
    completion_status_soon(shard, status, walking->reply_to);
    walking_free(walking);
}

/* What a walk leaves behind must be writable even on a full disk: purging is how space comes back.
 * -EAGAIN: not yet. Else 0, and *status as of ask_room. */
static int ask_room_to_walk(struct shard *shard, const struct walking *walking,
                            enum queue_status *status)
{
    *status = QUEUE_OK;
    if (walking->walk.kind == WALK_LIST)
        return 0;
    return ask_room(shard, (size_t)(WALK_CHANGES + 1) * ENGINE_STATE_BYTES_MAX, WAL_FOR_ANSWER,
                    status);
}

bool walkings_step(struct shard *shard)
{
    size_t steps = WALK_STEPS;
    bool more = false;
    for (struct list *at = shard->walkings.next, *next; at != &shard->walkings; at = next) {
        struct walking *walking = list_entry(at, struct walking, list);
        enum queue_status status = QUEUE_UNAVAILABLE;
        next = at->next;
        if (!shard->broken) {
            if (steps < 16)
                return true;
            if (ask_room_to_walk(shard, walking, &status) == -EAGAIN)
                continue;
        }
        if (status != QUEUE_OK) {
            refuse_walk(shard, walking, status);
            continue;
        }
        if (walk_step(&walking->walk, shard->engine, shard_now(shard), WALK_STEPS, WALK_CHANGES) &&
            finish_walk(shard, walking))
            walking_free(walking);
        else
            more = true;
        steps -= steps / 2; /* many walks share the turn */
    }
    return more;
}

/* ---- topics ---- */

static void reply_topic(struct shard *shard, struct slice name, enum queue_status status,
                        struct queue_reply_to reply_to)
{
    struct queue_topic topic;
    bool found = (status == QUEUE_OK || status == QUEUE_CREATED) &&
                 engine_topic_show(shard->engine, name, shard_now(shard), &topic);
    struct completion *completion = completion_topics(shard, &topic, found ? 1 : 0, reply_to);
    if (!completion) {
        out_of_memory(shard, reply_to);
        return;
    }
    completion->reply.status = status == QUEUE_OK && !found ? QUEUE_NOT_FOUND : status;
    completion_when_durable(shard, completion);
}

static bool knows_topic(struct shard *shard, struct slice name)
{
    struct queue_topic topic;
    return engine_topic_show(shard->engine, name, shard_now(shard), &topic);
}

static int run_topic(struct shard *shard, const struct command *command,
                     struct queue_reply_to reply_to)
{
    const struct queue_topic_call *call = &command->topic;
    const char *detail;
    enum queue_status status = queue_check_topic(call, &detail);
    if (status != QUEUE_OK) {
        completion_status_soon(shard, status, reply_to);
        return 0;
    }
    if (call->verb != QUEUE_TOPIC_GET &&
        ask_room(shard, ENGINE_TOPIC_BYTES_MAX + ENGINE_STATE_BYTES_MAX, WAL_FOR_ANSWER, &status) ==
            -EAGAIN)
        return -EAGAIN;
    if (status != QUEUE_OK) {
        completion_status_soon(shard, status, reply_to);
        return 0;
    }
    struct walk walk;
    switch (call->verb) {
    case QUEUE_TOPIC_GET:
        break;
    case QUEUE_TOPIC_PUT:
        status = engine_topic_put(shard->engine, call->topic, &call->settings);
        if (status == QUEUE_OK || status == QUEUE_CREATED)
            shard_tell(shard, QUEUE_EVENT_TOPIC, call->topic);
        break;
    case QUEUE_TOPIC_PAUSE:
    case QUEUE_TOPIC_RESUME:
        if (call->makes && !knows_topic(shard, call->topic))
            status = engine_topic_put(shard->engine, call->topic, &(struct topic_settings){0});
        if (status == QUEUE_CREATED)
            status = QUEUE_OK;
        if (status == QUEUE_OK)
            status =
                engine_topic_pause(shard->engine, call->topic, call->verb == QUEUE_TOPIC_PAUSE);
        break;
    case QUEUE_TOPIC_PURGE:
    case QUEUE_TOPIC_DELETE:
        walk = walk_of(call->verb == QUEUE_TOPIC_PURGE ? WALK_PURGE : WALK_DELETE, call->topic,
                       call->state);
        walk_start(shard, &walk, false, reply_to);
        return 0;
    case QUEUE_TOPIC_REDRIVE:
        if (call->id.len) {
            struct completion *completion = completion_new(shard, 0, 0, reply_to);
            if (!completion)
                return out_of_memory(shard, reply_to);
            completion->reply.status =
                engine_redrive(shard->engine, call->topic, call->id, shard_now(shard));
            completion->reply.affected = completion->reply.status == QUEUE_OK;
            completion_when_durable(shard, completion);
            return 0;
        }
        walk = walk_of(WALK_REDRIVE, call->topic, 0);
        walk.max = call->max;
        walk_start(shard, &walk, false, reply_to);
        return 0;
    }
    reply_topic(shard, call->topic, status, reply_to);
    return 0;
}

static void run_topics(struct shard *shard, struct queue_reply_to reply_to)
{
    size_t count = 0;
    uint32_t at = 0;
    struct queue_topic *topics = malloc((engine_topic_count(shard->engine) + 1) * sizeof *topics);
    struct engine_now now = shard_now(shard);
    if (!topics) {
        out_of_memory(shard, reply_to);
        return;
    }
    while (engine_topic_next(shard->engine, &at, now, &topics[count]))
        count++;
    struct completion *completion = completion_topics(shard, topics, count, reply_to);
    free(topics);
    if (completion)
        completion_soon(shard, completion);
    else
        out_of_memory(shard, reply_to);
}

int command_run(struct shard *shard, const struct command *command, struct queue_reply_to reply_to)
{
    switch (command->kind) {
    case COMMAND_PUSH:
        return run_push(shard, command, reply_to);
    case COMMAND_ANSWER:
        return run_answer(shard, command, reply_to);
    case COMMAND_CHANGE:
        return run_change(shard, command, reply_to);
    case COMMAND_TAKE:
        return run_take(shard, command, reply_to);
    case COMMAND_GET:
        run_get(shard, command, reply_to);
        return 0;
    case COMMAND_LIST:
        run_list(shard, command, reply_to);
        return 0;
    case COMMAND_TOPIC:
        return run_topic(shard, command, reply_to);
    case COMMAND_TOPICS:
        run_topics(shard, reply_to);
        return 0;
    }
    assert(false); /* not a command */
    return 0;
}
