/* get, list, topic, topics and forecast: separate calls, as find is. Purge, delete and redrive run
 * in bounded steps until the script reports that it has finished; topics are read page by page and
 * returned together. */
#include "redis/command.h"
#include "redis/id.h"
#include "redis/shard_core.h"
#include "redis/shard_mail.h"
#include "redis/shard_notifications.h"

#include "queue/copy.h"
#include "queue/cursor.h"
#include "queue/groups.h"

#include <stdlib.h>

/* Find: checks whether jobs exist. A separate call. */

enum { FIND_ARGS = 2 };

struct find {
    struct redis_call call;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    struct command *command; /* a copy; topics and ids of the results point into it */
    struct queue_result results[];
};

static void find_free(struct find *find)
{
    buffer_fini(&find->call.args);
    free(find->command);
    free(find);
}

static void on_found(struct redis_call *call, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply)
{
    struct find *find = list_entry(call, struct find, call);
    enum queue_status status = redis_shard_status(end);
    struct slice rest = {0};
    (void)reply;
    if (end == REDIS_CALL_OK) {
        redis_shard_note_head(find->shard, head);
        rest = head->rest;
    }
    for (size_t i = 0; i < find->command->count; i++) {
        struct queue_result *result = &find->results[i];
        if (!command_item_is_good(find->command, i, result))
            continue;
        if (status == QUEUE_OK && !redis_unpack_result(&rest, head->adjust_ms, result)) {
            redis_shard_log_malformed(find->shard, REDIS_FIND);
            status = QUEUE_UNAVAILABLE;
        }
        if (status != QUEUE_OK)
            result->status = status;
        result->topic = find->command->finds[i].topic;
        result->id = find->command->finds[i].id;
    }
    redis_shard_reply(
        find->shard, find->reply_to,
        &(struct queue_reply){.results = find->results, .result_count = find->command->count});
    find_free(find);
}

bool redis_find_begin(struct redis_shard *shard, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct find *find = calloc(1, sizeof *find + command->count * sizeof find->results[0]);
    if (!find)
        return false;
    find->shard = shard;
    find->reply_to = reply_to;
    find->command = copy_command(command);
    redis_shard_call_init(&find->call, REDIS_FIND, false, on_found);
    size_t args = 0;
    for (size_t i = 0; find->command && i < command->count; i++) {
        char room[REDIS_ID_PACKED_BYTES];
        struct queue_result unused;
        if (!command_item_is_good(command, i, &unused))
            continue;
        redis_command_arg(&find->call.args, command->finds[i].topic);
        redis_command_arg(&find->call.args, redis_id_store(command->finds[i].id, room));
        args += FIND_ARGS;
    }
    if (find->command && redis_shard_send(shard, &find->call, args))
        return true;
    find_free(find);
    return false;
}

/* ---- shard ask ---- */

enum { LIST_ELEMENTS = 4, TOPIC_ELEMENTS = 2, TOPICS_PAGE = 500, STEP_JOBS = 500 };

/* A request in progress, from its call to its reply. */
struct inquiry {
    struct redis_call call;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    struct slice topic, id; /* point to the texts below, or empty */
    char topic_text[JOB_TOPIC_BYTES_MAX], id_text[JOB_ID_BYTES_MAX];
    /* for topic calls */
    struct queue_topic_call topic_call;
    enum queue_groups_order groups_order;
    uint64_t affected;
    struct redis_soon soon; /* the end of the steps, after their mail */
    enum queue_status end;
    bool has_mail;
    bool stepped;    /* at least one step was carried out */
    int64_t reached; /* purge: sequence number reached; redrive: number left to do */
};

/* Returns NULL if memory runs out. */
static struct inquiry *inquiry_new(struct redis_shard *shard, struct slice topic, struct slice id,
                                   struct queue_reply_to reply_to)
{
    struct inquiry *inquiry = calloc(1, sizeof *inquiry);
    if (!inquiry)
        return NULL;
    inquiry->shard = shard;
    inquiry->reply_to = reply_to;
    memcpy(inquiry->topic_text, topic.at, topic.len);
    inquiry->topic = slice_make(inquiry->topic_text, topic.len);
    if (id.len)
        memcpy(inquiry->id_text, id.at, id.len);
    inquiry->id = slice_make(inquiry->id_text, id.len);
    return inquiry;
}

static void inquiry_free(struct inquiry *inquiry)
{
    buffer_fini(&inquiry->call.args);
    free(inquiry);
}

/* Replies to the inquiry and frees it. */
static void inquiry_reply(struct inquiry *inquiry, const struct queue_reply *reply)
{
    redis_shard_reply(inquiry->shard, inquiry->reply_to, reply);
    inquiry_free(inquiry);
}

static void inquiry_reply_status(struct inquiry *inquiry, enum queue_status status)
{
    struct queue_reply reply = {.status = status, .affected = inquiry->affected};
    inquiry_reply(inquiry, &reply);
}

static void inquiry_end(struct redis_soon *soon)
{
    struct inquiry *inquiry = list_entry(soon, struct inquiry, soon);
    inquiry_reply_status(inquiry, inquiry->end);
}

/* Replies once the mail of the steps was carried. */
static void inquiry_end_steps(struct inquiry *inquiry, enum queue_status status)
{
    inquiry->end = status;
    inquiry->soon.run = inquiry_end;
    if (inquiry->has_mail)
        redis_mail_hold(inquiry->shard, &inquiry->soon);
    else
        inquiry_end(&inquiry->soon);
}

static void inquiry_reply_malformed(struct inquiry *inquiry)
{
    redis_shard_log_malformed(inquiry->shard, inquiry->call.script);
    inquiry_reply_status(inquiry, QUEUE_UNAVAILABLE);
}

/* Sends the prepared call. If memory ran out, frees the inquiry and returns false. */
static bool inquiry_begin(struct inquiry *inquiry, size_t argc)
{
    if (redis_shard_send(inquiry->shard, &inquiry->call, argc))
        return true;
    inquiry_free(inquiry);
    return false;
}

/* Reads the status and the byte after it. */
static enum queue_status read_status(const struct redis_head *head, uint8_t *more)
{
    struct slice rest = head->rest;
    uint8_t status;
    if (!redis_unpack_u8(&rest, &status) || !redis_unpack_u8(&rest, more) ||
        (status != QUEUE_OK && status != QUEUE_NOT_FOUND && status != QUEUE_MOVING))
        return QUEUE_UNAVAILABLE;
    return (enum queue_status)status;
}

/* What a job refers to. */
struct job_room {
    struct queue_end end;
    struct queue_waiting waiting;
};

/* Reads a job, or a kept one. */
static bool read_either(struct slice record, struct slice attempt, enum job_state state,
                        int64_t adjust_ms, struct queue_job *out, struct job_room *room)
{
    if (state != JOB_FINISHED)
        return redis_unpack_job(record, attempt, state, adjust_ms, &out->job) &&
               redis_unpack_waiting(record, false, out, &room->waiting);
    out->end = &room->end;
    return redis_unpack_kept(record, adjust_ms, &out->job, &room->end);
}

/* ---- get ---- */

static enum queue_status read_got(const struct inquiry *inquiry, const struct redis_head *head,
                                  const redisReply *reply, struct queue_job *out,
                                  struct job_room *room)
{
    struct slice record, attempt;
    uint8_t state;
    enum queue_status status = read_status(head, &state);
    if (status != QUEUE_OK)
        return status;
    if (!redis_element(reply, 1, &record) || !redis_element(reply, 2, &attempt) ||
        !read_either(record, attempt, (enum job_state)state, head->adjust_ms, out, room))
        return QUEUE_UNAVAILABLE;
    out->job.topic = inquiry->topic;
    out->job.id = inquiry->id;
    struct slice held =
        slice_make(head->rest.at + 2, head->rest.len - 2); /* read_status read two */
    return redis_unpack_held(held, head->adjust_ms, out) ? QUEUE_OK : QUEUE_UNAVAILABLE;
}

static void on_got(struct redis_call *call, enum redis_call_end end, const struct redis_head *head,
                   const redisReply *reply)
{
    struct inquiry *inquiry = list_entry(call, struct inquiry, call);
    struct queue_job job = {0};
    struct job_room room;
    struct queue_reply answer = {.status = redis_shard_status(end)};
    if (end == REDIS_CALL_OK) {
        redis_shard_note_head(inquiry->shard, head);
        answer.status = read_got(inquiry, head, reply, &job, &room);
        if (answer.status == QUEUE_OK) {
            answer.jobs = &job;
            answer.job_count = 1;
        } else if (answer.status == QUEUE_UNAVAILABLE) {
            redis_shard_log_malformed(inquiry->shard, REDIS_GET);
        }
    }
    inquiry_reply(inquiry, &answer);
}

static bool get_begin(struct redis_shard *shard, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct inquiry *inquiry = inquiry_new(shard, command->get.topic, command->get.id, reply_to);
    char room[REDIS_ID_PACKED_BYTES];
    if (!inquiry)
        return false;
    redis_shard_call_init(&inquiry->call, REDIS_GET, false, on_got);
    redis_command_arg(&inquiry->call.args, inquiry->topic);
    redis_command_arg(&inquiry->call.args, redis_id_store(inquiry->id, room));
    redis_command_number(&inquiry->call.args, command->get.finished);
    return inquiry_begin(inquiry, 3);
}

/* ---- list ---- */

/* Storage for a listed job. */
struct listed_room {
    char id[REDIS_ID_ROOM_BYTES];
    struct job_room job;
};

static bool read_listed(struct inquiry *inquiry, const struct redis_head *head,
                        const redisReply *reply, size_t at, struct queue_job *out,
                        struct listed_room *room)
{
    struct slice stored, state, record, attempt, id;
    uint8_t number;
    *out = (struct queue_job){0};
    if (!redis_element(reply, at, &stored) || !redis_element(reply, at + 1, &state) ||
        !redis_element(reply, at + 2, &record) || !redis_element(reply, at + 3, &attempt) ||
        !redis_unpack_u8(&state, &number) || !redis_id_show(stored, room->id, &id) ||
        !read_either(record, attempt, (enum job_state)number, head->adjust_ms, out, &room->job) ||
        !redis_unpack_held(state, head->adjust_ms, out))
        return false;
    out->job.topic = inquiry->topic;
    out->job.id = id;
    return true;
}

static void reply_listed(struct inquiry *inquiry, const struct redis_head *head,
                         const redisReply *reply, bool more)
{
    size_t count = (reply->elements - 1) / LIST_ELEMENTS;
    struct queue_job *jobs = malloc((count + 1) * sizeof *jobs);
    struct listed_room *rooms = malloc((count + 1) * sizeof *rooms);
    char cursor[QUEUE_CURSOR_BYTES_MAX];
    struct queue_reply answer = {.status = jobs && rooms ? QUEUE_OK : QUEUE_NO_MEMORY};
    for (size_t i = 0; jobs && rooms && i < count; i++) {
        if (read_listed(inquiry, head, reply, 1 + i * LIST_ELEMENTS, &jobs[answer.job_count],
                        &rooms[answer.job_count]))
            answer.job_count++;
        else
            redis_shard_log_malformed(inquiry->shard, REDIS_LIST);
    }
    if (answer.job_count) {
        const struct job *last = &jobs[answer.job_count - 1].job;
        struct queue_cursor at = {.due_ms = last->due_ms,
                                  .sequence = last->sequence,
                                  .shard = inquiry->shard->options.index,
                                  .has_skew = true,
                                  .skew_ms = -head->adjust_ms};
        answer.jobs = jobs;
        if (more)
            answer.cursor = slice_make(cursor, queue_cursor_write(cursor, &at));
    }
    inquiry_reply(inquiry, &answer);
    free(jobs);
    free(rooms);
}

static void on_listed(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct inquiry *inquiry = list_entry(call, struct inquiry, call);
    enum queue_status status = redis_shard_status(end);
    uint8_t more = 0;
    if (end == REDIS_CALL_OK) {
        redis_shard_note_head(inquiry->shard, head);
        status = read_status(head, &more);
    }
    if (status == QUEUE_OK)
        reply_listed(inquiry, head, reply, more);
    else
        inquiry_reply_status(inquiry, status);
}

/* Appends the cursor of a list of kept jobs, which runs from the newest: the end of the last job's
 * time, and its number. */
static void append_kept_cursor(struct redis_shard *shard, struct buffer *args,
                               const struct queue_cursor *after, bool has_cursor)
{
    bool ours_too = has_cursor && shard->options.index > after->shard;
    int64_t ends_ms = queue_finished_rank(after->due_ms) + shard->adjust_ms;
    uint64_t number = queue_finished_rank_sequence(after->sequence);
    redis_command_number(args, has_cursor && ends_ms >= 0 ? ends_ms : -1);
    redis_command_number(args, (int64_t)(number & INT64_MAX) + ours_too);
}

/* Appends the cursor. After a job of a part with a lower number, our jobs with the same due time
 * and sequence still follow. */
static void append_cursor(struct redis_shard *shard, struct buffer *args,
                          const struct queue_cursor *after, bool has_cursor)
{
    bool ours_too = has_cursor && shard->options.index > after->shard;
    int64_t due_ms = after->due_ms;
    if (due_ms <= INT64_MAX - (1LL << 48)) /* later than any job's due time */
        due_ms += shard->adjust_ms;
    redis_command_number(args, has_cursor ? due_ms : -1);
    redis_command_number(args, (int64_t)(after->sequence & INT64_MAX) - ours_too);
}

static bool list_begin(struct redis_shard *shard, const struct command *command,
                       const struct queue_cursor *after, struct queue_reply_to reply_to)
{
    const struct queue_list *list = &command->list;
    struct queue_cursor at = *after;
    struct inquiry *inquiry = inquiry_new(shard, list->topic, (struct slice){0}, reply_to);
    if (!inquiry)
        return false;
    queue_cursor_follow(&at, -shard->adjust_ms, list->state == JOB_FINISHED);
    redis_shard_call_init(&inquiry->call, REDIS_LIST, false, on_listed);
    struct buffer *args = &inquiry->call.args;
    redis_command_arg(args, list->topic);
    redis_command_number(args, (int64_t)list->state);
    redis_command_number(args, list->limit);
    if (list->state == JOB_FINISHED)
        append_kept_cursor(shard, args, &at, list->cursor.len > 0);
    else
        append_cursor(shard, args, &at, list->cursor.len > 0);
    redis_command_number(args, list->with_body);
    return inquiry_begin(inquiry, 6);
}

/* ---- a topic: get, put, pause, resume ---- */

/* Reads the status of a reply. Returns false if the call failed or was rejected; then the inquiry is answered. */
static bool inquiry_read_status(struct inquiry *inquiry, enum redis_call_end end,
                                const struct redis_head *head, uint8_t *status)
{
    if (end != REDIS_CALL_OK) {
        inquiry_reply_status(inquiry, redis_shard_status(end));
        return false;
    }
    redis_shard_note_head(inquiry->shard, head);
    struct slice rest = head->rest;
    if (!redis_unpack_u8(&rest, status) || *status >= QUEUE_STATUSES) {
        inquiry_reply_malformed(inquiry);
        return false;
    }
    if (*status != QUEUE_OK && *status != QUEUE_CREATED) {
        inquiry_reply_status(inquiry, (enum queue_status) * status);
        return false;
    }
    return true;
}

static void on_topic(struct redis_call *call, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply)
{
    struct inquiry *inquiry = list_entry(call, struct inquiry, call);
    struct queue_topic topic;
    struct slice text;
    uint8_t status;
    if (!inquiry_read_status(inquiry, end, head, &status))
        return;
    if (!redis_element(reply, 1, &text) || !redis_unpack_topic(text, head->adjust_ms, &topic)) {
        inquiry_reply_malformed(inquiry);
        return;
    }
    topic.name = inquiry->topic;
    if (inquiry->topic_call.verb == QUEUE_TOPIC_PUT)
        redis_notification_event(inquiry->shard, QUEUE_EVENT_TOPIC, topic.name);
    if (topic.counts.ready > topic.counts.held && !topic.paused)
        redis_notification_ready(inquiry->shard, topic.name);
    struct queue_reply answer = {
        .status = (enum queue_status)status, .topics = &topic, .topic_count = 1};
    inquiry_reply(inquiry, &answer);
}

static bool topic_ask(struct inquiry *inquiry)
{
    const struct queue_topic_call *call = &inquiry->topic_call;
    bool changes = call->verb != QUEUE_TOPIC_GET;
    struct buffer *args = &inquiry->call.args;
    redis_shard_call_init(&inquiry->call, REDIS_TOPIC, changes, on_topic);
    if (!changes)
        redis_command_text(args, ""); /* no ticket */
    redis_command_number(args, (int64_t)call->verb);
    redis_command_arg(args, inquiry->topic);
    redis_command_number(args, inquiry->shard->options.topics_max);
    redis_command_number(args, call->makes);
    if (call->verb == QUEUE_TOPIC_PUT)
        redis_pack_settings(args, &call->settings);
    else
        redis_command_text(args, "");
    redis_command_arg(args,
                      call->verb == QUEUE_TOPIC_PUT ? call->settings.extension : (struct slice){0});
    redis_command_number(args, call->pause_ms);
    redis_command_number(args, call->pause_until_ms);
    redis_command_number(args, QUEUE_NOT_EMPTY);
    return redis_shard_send(inquiry->shard, &inquiry->call, changes ? 9 : 10);
}

/* ---- a topic: purge, delete, redrive, step by step ---- */

static bool topic_ask_step(struct inquiry *inquiry);

static void step_done(struct inquiry *inquiry, const struct redis_head *head)
{
    const struct queue_topic_call *call = &inquiry->topic_call;
    struct slice rest = head->rest;
    uint8_t status, more;
    uint64_t affected, reached;
    if (!redis_unpack_u8(&rest, &status) || !redis_unpack_u8(&rest, &more) ||
        !redis_unpack_u48(&rest, &affected) || !redis_unpack_u48(&rest, &reached) ||
        (status != QUEUE_OK && status != QUEUE_NOT_FOUND)) {
        inquiry_reply_malformed(inquiry);
        return;
    }
    inquiry->affected += affected;
    inquiry->reached = (int64_t)reached;
    if (affected && call->verb == QUEUE_TOPIC_REDRIVE)
        redis_notification_ready(inquiry->shard, inquiry->topic);
    if (status == QUEUE_NOT_FOUND && inquiry->stepped)
        status = QUEUE_OK; /* the topic was deleted meanwhile */
    inquiry->stepped = true;
    bool enough = call->verb == QUEUE_TOPIC_REDRIVE && call->max && inquiry->affected >= call->max;
    if (status == QUEUE_OK && !more && call->verb == QUEUE_TOPIC_DELETE)
        redis_notification_event(inquiry->shard, QUEUE_EVENT_TOPIC, inquiry->topic);
    if (status != QUEUE_OK || !more || enough)
        inquiry_end_steps(inquiry, (enum queue_status)status);
    else if (!topic_ask_step(inquiry))
        inquiry_reply_status(inquiry, QUEUE_NO_MEMORY);
}

static void on_step(struct redis_call *call, enum redis_call_end end, const struct redis_head *head,
                    const redisReply *reply)
{
    struct inquiry *inquiry = list_entry(call, struct inquiry, call);
    (void)reply;
    if (end != REDIS_CALL_OK) {
        inquiry_reply_status(inquiry, redis_shard_status(end));
        return;
    }
    redis_shard_note_head(inquiry->shard, head);
    inquiry->has_mail |= head->has_mail;
    step_done(inquiry, head);
}

static int64_t redrive_step(const struct inquiry *inquiry)
{
    uint64_t left = inquiry->topic_call.max - inquiry->affected;
    return inquiry->topic_call.max && left < STEP_JOBS ? (int64_t)left : STEP_JOBS;
}

static bool topic_ask_step(struct inquiry *inquiry)
{
    const struct queue_topic_call *call = &inquiry->topic_call;
    bool is_redrive = call->verb == QUEUE_TOPIC_REDRIVE;
    struct buffer *args = &inquiry->call.args;
    char room[REDIS_ID_PACKED_BYTES];
    buffer_fini(args);
    redis_shard_call_init(&inquiry->call, is_redrive ? REDIS_REDRIVE : REDIS_PURGE, true, on_step);
    if (is_redrive) {
        redis_command_arg(args, inquiry->topic);
        redis_command_arg(args, redis_id_store(inquiry->id, room));
        redis_command_number(args, redrive_step(inquiry));
        redis_command_number(args, inquiry->reached);
        return redis_shard_send(inquiry->shard, &inquiry->call, 4);
    }
    redis_command_text(args, call->verb == QUEUE_TOPIC_DELETE ? "delete" : "purge");
    redis_command_arg(args, inquiry->topic);
    redis_command_number(args, call->verb == QUEUE_TOPIC_DELETE ? 0 : (int64_t)call->state);
    redis_command_number(args, inquiry->reached);
    redis_command_number(args, STEP_JOBS);
    return redis_shard_send(inquiry->shard, &inquiry->call, 5);
}

static bool topic_begin(struct redis_shard *shard, const struct queue_topic_call *call,
                        struct queue_reply_to reply_to)
{
    bool is_redrive = call->verb == QUEUE_TOPIC_REDRIVE, sent = false;
    struct inquiry *inquiry =
        inquiry_new(shard, call->topic, is_redrive ? call->id : (struct slice){0}, reply_to);
    if (!inquiry)
        return false;
    inquiry->topic_call = *call; /* its texts belong to the caller; those of the inquiry are used */
    inquiry->reached = is_redrive ? -1 : 0;
    switch (call->verb) {
    case QUEUE_TOPIC_GET:
    case QUEUE_TOPIC_PUT:
    case QUEUE_TOPIC_PAUSE:
    case QUEUE_TOPIC_RESUME:
        sent = topic_ask(inquiry);
        break;
    case QUEUE_TOPIC_DELETE:
    case QUEUE_TOPIC_PURGE:
    case QUEUE_TOPIC_REDRIVE:
        sent = topic_ask_step(inquiry);
        break;
    case QUEUE_TOPIC_MARK: /* not used: no shard leads those of its set */
        break;
    }
    if (!sent)
        inquiry_free(inquiry);
    return sent;
}

/* ---- topics ---- */

struct showing {
    struct redis_call call;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    struct queue_topic *topics; /* their texts are set at the end, because `texts` may move */
    size_t *text_at;
    size_t count, cap;
    struct buffer texts; /* for each topic its name, then the extension of its settings */
    size_t limit;        /* 0: all */
    char after[JOB_TOPIC_BYTES_MAX];
    size_t after_bytes;
};

static void showing_free(struct showing *showing)
{
    buffer_fini(&showing->call.args);
    buffer_fini(&showing->texts);
    free(showing->topics);
    free(showing->text_at);
    free(showing);
}

static void showing_put_texts(struct showing *showing, size_t i)
{
    struct queue_topic *topic = &showing->topics[i];
    topic->name.at = showing->texts.at + showing->text_at[i];
    if (topic->settings.extension.len)
        topic->settings.extension.at = topic->name.at + topic->name.len;
}

static void showing_end(struct showing *showing, enum queue_status status)
{
    struct queue_reply answer = {.status = status};
    if (status == QUEUE_OK) {
        for (size_t i = 0; i < showing->count; i++)
            showing_put_texts(showing, i);
        queue_topics_sort(showing->topics, showing->count);
        answer.topics = showing->topics;
        answer.topic_count = showing->count;
    }
    redis_shard_reply(showing->shard, showing->reply_to, &answer);
    showing_free(showing);
}

static bool showing_has_room(struct showing *showing)
{
    if (showing->count < showing->cap)
        return true;
    size_t cap = showing->cap ? showing->cap * 2 : 64;
    struct queue_topic *topics = realloc(showing->topics, cap * sizeof *topics);
    if (topics)
        showing->topics = topics;
    size_t *text_at = realloc(showing->text_at, cap * sizeof *text_at);
    if (text_at)
        showing->text_at = text_at;
    if (!topics || !text_at)
        return false;
    showing->cap = cap;
    return true;
}

static enum queue_status showing_add(struct showing *showing, const redisReply *reply, size_t at,
                                     int64_t adjust_ms)
{
    struct slice name, text;
    if (!showing_has_room(showing))
        return QUEUE_NO_MEMORY;
    struct queue_topic *topic = &showing->topics[showing->count];
    if (!redis_element(reply, at, &name) || !redis_element(reply, at + 1, &text) || !name.len ||
        !redis_unpack_topic(text, adjust_ms, topic))
        return QUEUE_UNAVAILABLE;
    showing->text_at[showing->count] = showing->texts.len;
    topic->name.len = name.len;
    buffer_append_slice(&showing->texts, name);
    buffer_append_slice(&showing->texts, topic->settings.extension);
    showing->count++;
    return showing->texts.failed ? QUEUE_NO_MEMORY : QUEUE_OK;
}

static void on_shown(struct redis_call *call, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply);

static bool showing_ask_page(struct showing *showing)
{
    struct slice after = slice_make(showing->after, showing->after_bytes);
    size_t left = showing->limit ? showing->limit - showing->count : TOPICS_PAGE;
    if (showing->count) {
        size_t last = showing->count - 1;
        after =
            slice_make(showing->texts.at + showing->text_at[last], showing->topics[last].name.len);
    }
    buffer_fini(&showing->call.args);
    redis_shard_call_init(&showing->call, REDIS_TOPICS, false, on_shown);
    redis_command_arg(&showing->call.args, after);
    redis_command_number(&showing->call.args, left < TOPICS_PAGE ? (int64_t)left : TOPICS_PAGE);
    return redis_shard_send(showing->shard, &showing->call, 2);
}

static void on_shown(struct redis_call *call, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply)
{
    struct showing *showing = list_entry(call, struct showing, call);
    enum queue_status status = redis_shard_status(end);
    size_t before = showing->count;
    uint8_t more = 0;
    if (end == REDIS_CALL_OK) {
        struct slice rest = head->rest;
        redis_shard_note_head(showing->shard, head);
        if (!redis_unpack_u8(&rest, &more))
            status = QUEUE_UNAVAILABLE;
        for (size_t at = 1; status == QUEUE_OK && at < reply->elements; at += TOPIC_ELEMENTS)
            status = showing_add(showing, reply, at, head->adjust_ms);
        if (status == QUEUE_UNAVAILABLE)
            redis_shard_log_malformed(showing->shard, REDIS_TOPICS);
    }
    bool is_enough = showing->limit && showing->count >= showing->limit;
    if (status == QUEUE_OK && more && !is_enough && showing->count > before) {
        if (showing_ask_page(showing))
            return;
        status = QUEUE_NO_MEMORY;
    }
    showing_end(showing, status);
}

static bool topics_begin(struct redis_shard *shard, const struct queue_topics_page *page,
                         struct queue_reply_to reply_to)
{
    struct showing *showing = calloc(1, sizeof *showing);
    if (!showing)
        return false;
    showing->shard = shard;
    showing->reply_to = reply_to;
    showing->limit = page->limit;
    showing->after_bytes =
        page->after.len < sizeof showing->after ? page->after.len : sizeof showing->after;
    memcpy(showing->after, page->after.len ? page->after.at : "", showing->after_bytes);
    buffer_init(&showing->texts, SIZE_MAX / 2);
    if (showing_ask_page(showing))
        return true;
    showing_free(showing);
    return false;
}

/* ---- forecast ---- */

/* Upper bounds of the intervals: each minute of the first hour, then each hour. */
enum { BOUNDS_MAX = FORECAST_MINUTES + FORECAST_HOURS };

struct forecast {
    struct redis_call call;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    char topic[JOB_TOPIC_BYTES_MAX];
    size_t topic_bytes;
    int64_t from_ms;
    int64_t bounds_ms[BOUNDS_MAX];
    size_t bound_count;
    uint64_t rank; /* for all topics: the topic to continue with */
    bool is_soon;
    struct queue_forecast sum;
};

static void forecast_end(struct forecast *forecast, enum queue_status status)
{
    struct queue_reply answer = {.status = status};
    if (status == QUEUE_OK)
        answer.forecast = &forecast->sum;
    redis_shard_reply(forecast->shard, forecast->reply_to, &answer);
    buffer_fini(&forecast->call.args);
    free(forecast);
}

static enum queue_status forecast_read(struct forecast *forecast, struct slice rest)
{
    uint8_t status, estimated;
    uint64_t overdue, jobs;
    if (!redis_unpack_u8(&rest, &status) || !redis_unpack_u8(&rest, &estimated))
        return QUEUE_UNAVAILABLE;
    if (status == QUEUE_NOT_FOUND)
        return QUEUE_NOT_FOUND;
    if (status != QUEUE_OK || !redis_unpack_u48(&rest, &forecast->rank) ||
        !redis_unpack_u48(&rest, &overdue))
        return QUEUE_UNAVAILABLE;
    forecast->sum.overdue += overdue;
    forecast->sum.estimated |= estimated;
    size_t counts = forecast->bound_count + !forecast->is_soon; /* the last one: all later jobs */
    for (size_t i = 0; i < counts; i++) {
        int64_t due_ms = i ? forecast->bounds_ms[i - 1] : forecast->from_ms;
        if (!redis_unpack_u48(&rest, &jobs))
            return QUEUE_UNAVAILABLE;
        queue_forecast_add(&forecast->sum, forecast->from_ms, due_ms, jobs);
    }
    return QUEUE_OK;
}

static void on_forecast(struct redis_call *call, enum redis_call_end end,
                        const struct redis_head *head, const redisReply *reply);

static bool forecast_ask(struct forecast *forecast)
{
    struct buffer *args = &forecast->call.args;
    char bounds[BOUNDS_MAX * 6];
    for (size_t i = 0; i < forecast->bound_count; i++)
        for (int byte = 0; byte < 6; byte++)
            bounds[i * 6 + (size_t)byte] = (char)(forecast->bounds_ms[i] >> (40 - 8 * byte));
    buffer_fini(args);
    redis_shard_call_init(&forecast->call, REDIS_FORECAST, false, on_forecast);
    redis_command_arg(args, slice_make(forecast->topic, forecast->topic_bytes));
    redis_command_number(args, (int64_t)forecast->rank);
    redis_command_arg(args, slice_make(bounds, forecast->bound_count * 6));
    return redis_shard_send(forecast->shard, &forecast->call, 3);
}

static void on_forecast(struct redis_call *call, enum redis_call_end end,
                        const struct redis_head *head, const redisReply *reply)
{
    struct forecast *forecast = list_entry(call, struct forecast, call);
    enum queue_status status = redis_shard_status(end);
    (void)reply;
    if (end == REDIS_CALL_OK) {
        redis_shard_note_head(forecast->shard, head);
        status = forecast_read(forecast, head->rest);
        if (status == QUEUE_UNAVAILABLE)
            redis_shard_log_malformed(forecast->shard, REDIS_FORECAST);
    }
    if (status == QUEUE_OK && forecast->rank) {
        if (forecast_ask(forecast))
            return;
        status = QUEUE_NO_MEMORY;
    }
    forecast_end(forecast, status);
}

static bool forecast_begin(struct redis_shard *shard, const struct queue_forecast_call *call,
                           struct queue_reply_to reply_to)
{
    const int64_t minute_ms = 60000, hour_ms = 60 * minute_ms;
    struct forecast *forecast = calloc(1, sizeof *forecast);
    if (!forecast)
        return false;
    forecast->shard = shard;
    forecast->reply_to = reply_to;
    forecast->from_ms = forecast->sum.from_ms = call->from_ms;
    forecast->topic_bytes = call->topic.len;
    if (call->topic.len)
        memcpy(forecast->topic, call->topic.at, call->topic.len);
    int64_t first_hour_ms = call->from_ms - call->from_ms % hour_ms, bound_ms = call->from_ms;
    int64_t minutes = call->soon ? FORECAST_SOON : FORECAST_MINUTES;
    forecast->is_soon = call->soon;
    while (bound_ms < call->from_ms + minutes * minute_ms)
        forecast->bounds_ms[forecast->bound_count++] = bound_ms += minute_ms;
    for (bound_ms += hour_ms - bound_ms % hour_ms;
         !call->soon && bound_ms <= first_hour_ms + FORECAST_HOURS * hour_ms; bound_ms += hour_ms)
        forecast->bounds_ms[forecast->bound_count++] = bound_ms;
    if (forecast_ask(forecast))
        return true;
    buffer_fini(&forecast->call.args);
    free(forecast);
    return false;
}

/* ---- groups ---- */

static void on_group(struct redis_call *call, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply)
{
    struct inquiry *inquiry = list_entry(call, struct inquiry, call);
    struct queue_group group;
    struct slice text;
    uint8_t status;
    if (!inquiry_read_status(inquiry, end, head, &status))
        return;
    if (!redis_element(reply, 1, &text) || !redis_unpack_group(text, head->adjust_ms, &group)) {
        inquiry_reply_malformed(inquiry);
        return;
    }
    group.name = inquiry->id;
    struct queue_reply answer = {.status = QUEUE_OK, .groups = &group, .group_count = 1};
    inquiry_reply(inquiry, &answer);
}

static bool group_begin(struct redis_shard *shard, const struct queue_group_call *group,
                        struct queue_reply_to reply_to)
{
    /* The name of a group is as short as an id, and is kept where one is. */
    struct inquiry *inquiry = inquiry_new(shard, group->topic, group->group, reply_to);
    if (!inquiry)
        return false;
    bool changes = group->verb != QUEUE_GROUP_GET;
    struct buffer *args = &inquiry->call.args;
    redis_shard_call_init(&inquiry->call, REDIS_GROUP, changes, on_group);
    if (!changes)
        redis_command_text(args, ""); /* no ticket */
    redis_command_number(args, (int64_t)group->verb);
    redis_command_arg(args, inquiry->topic);
    redis_command_arg(args, inquiry->id);
    redis_command_number(args, shard->options.topics_max);
    if (group->verb == QUEUE_GROUP_HOLD)
        redis_command_number(args, group->hold_ms);
    else
        redis_pack_group(args, &group->settings);
    redis_command_number(args, QUEUE_TOO_MANY_GROUPS);
    redis_command_number(args, QUEUE_NOT_EMPTY);
    return inquiry_begin(inquiry, changes ? 7 : 8);
}

enum { GROUP_ELEMENTS = 2 };

static enum queue_status read_groups(const struct redis_head *head, const redisReply *reply,
                                     struct queue_group *groups, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct slice name, text;
        if (!redis_element(reply, 1 + i * GROUP_ELEMENTS, &name) ||
            !redis_element(reply, 2 + i * GROUP_ELEMENTS, &text) ||
            name.len > JOB_GROUP_BYTES_MAX ||
            !redis_unpack_group(text, head->adjust_ms, &groups[i]))
            return QUEUE_UNAVAILABLE;
        groups[i].name = name;
    }
    return QUEUE_OK;
}

static void on_groups(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct inquiry *inquiry = list_entry(call, struct inquiry, call);
    struct queue_reply answer = {.status = redis_shard_status(end)};
    char cursor[GROUPS_CURSOR_BYTES_MAX];
    struct queue_group *groups = NULL;
    uint8_t more = 0;
    if (end == REDIS_CALL_OK) {
        redis_shard_note_head(inquiry->shard, head);
        answer.status = read_status(head, &more);
    }
    if (answer.status == QUEUE_OK) {
        size_t count = (reply->elements - 1) / GROUP_ELEMENTS;
        groups = calloc(count + 1, sizeof *groups);
        answer.status = groups ? read_groups(head, reply, groups, count) : QUEUE_NO_MEMORY;
        answer.groups = groups;
        answer.group_count = answer.status == QUEUE_OK ? count : 0;
        if (more && answer.group_count)
            answer.cursor = slice_make(
                cursor, groups_cursor_write(cursor, inquiry->groups_order, &groups[count - 1]));
    }
    if (answer.status == QUEUE_UNAVAILABLE && end == REDIS_CALL_OK)
        redis_shard_log_malformed(inquiry->shard, REDIS_GROUPS);
    inquiry_reply(inquiry, &answer);
    free(groups);
}

static bool groups_begin(struct redis_shard *shard, const struct queue_groups_call *groups,
                         struct queue_reply_to reply_to)
{
    struct inquiry *inquiry = inquiry_new(shard, groups->topic, (struct slice){0}, reply_to);
    struct groups_place place = {.is_set = false};
    if (!inquiry)
        return false;
    (void)groups_place_parse(groups, &place); /* the door has checked the cursor */
    inquiry->groups_order = groups->order;
    redis_shard_call_init(&inquiry->call, REDIS_GROUPS, false, on_groups);
    struct buffer *args = &inquiry->call.args;
    redis_command_arg(args, inquiry->topic);
    redis_command_number(args, (int64_t)groups->order);
    redis_command_number(args, groups->limit);
    redis_command_number(args, place.is_set);
    redis_command_number(args, (int64_t)(place.number & INT64_MAX));
    redis_command_arg(args, place.name.len ? place.name : (struct slice){.at = ""});
    return inquiry_begin(inquiry, 6);
}

/* ---- all calls ---- */

/* Returns false if memory runs out. */
static bool ask_begin(struct redis_shard *shard, const struct command *command,
                      const struct queue_cursor *after, struct queue_reply_to reply_to)
{
    switch (command->kind) {
    case COMMAND_GET:
        return get_begin(shard, command, reply_to);
    case COMMAND_LIST:
        return list_begin(shard, command, after, reply_to);
    case COMMAND_TOPIC:
        return topic_begin(shard, &command->topic, reply_to);
    case COMMAND_FORECAST:
        return forecast_begin(shard, &command->forecast, reply_to);
    case COMMAND_FIND:
        return redis_find_begin(shard, command, reply_to);
    case COMMAND_GROUP:
        return group_begin(shard, &command->group, reply_to);
    case COMMAND_GROUPS:
        return groups_begin(shard, &command->groups, reply_to);
    default:
        return topics_begin(shard, &command->topics, reply_to);
    }
}

void redis_submit_ask(struct redis_shard *shard, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct queue_cursor after = {0};
    enum queue_status status = shard->stopping ? QUEUE_STOPPING : command->status;
    if (status == QUEUE_OK && command->kind == COMMAND_LIST && command->list.cursor.len &&
        !queue_cursor_parse(command->list.cursor, &after))
        status = QUEUE_BAD_CURSOR;
    if (status == QUEUE_OK && !ask_begin(shard, command, &after, reply_to))
        status = QUEUE_NO_MEMORY;
    if (status == QUEUE_OK)
        shard->calls++;
    else
        redis_shard_refuse(shard, status, reply_to);
}
