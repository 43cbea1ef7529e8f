/* Calls about items: convert the structs of tarry.h to those of the queue, and the queue's
 * results back. */
#include "base/buffer.h"
#include "base/json_read.h"
#include "lib/items.h"
#include "queue/copy.h"
#include "queue/door.h"
#include "queue/status.h"

#include <assert.h>
#include <stdlib.h>

/* ---- structs that begin with their size ---- */

static uint32_t size_of(const void *from)
{
    uint32_t size;
    memcpy(&size, from, sizeof size);
    return size;
}

bool lib_read(void *into, size_t bytes, const void *from)
{
    if (!from)
        return false;
    size_t size = size_of(from), known = size < bytes ? size : bytes;
    if (size < sizeof(uint32_t) || size > 65536)
        return false;
    for (size_t i = bytes; i < size; i++)
        if (((const char *)from)[i])
            return false;
    memcpy(into, from, known);
    memset((char *)into + known, 0, bytes - known);
    return true;
}

size_t lib_stride(const void *items, size_t bytes_min)
{
    size_t size = items ? size_of(items) : 0;
    return size >= bytes_min && size <= 65536 ? size : 0;
}

static bool result_is_good(const struct tarry_result *out)
{
    return !out || lib_stride(out, offsetof(struct tarry_result, due_ms));
}

/* ---- results of an item ---- */

/* Returns the name of an option in tarry.h for the queue's name, which is that of the HTTP API. */
static const char *detail_of(const char *option)
{
    static const char *const names[][2] = {{"delay", "delay_ms"},
                                           {"at", "at_ms"},
                                           {"lease_for", "lease_ms"},
                                           {"ttl", "ttl_ms"},
                                           {"dedup_window", "dedup_window_ms"},
                                           {"once_for", "once_for_ms"},
                                           {"keep_finished", "keep_finished_ms"},
                                           {"wait_at_most", "wait_at_most_ms"},
                                           {"close_within", "close_within_ms"},
                                           {"hold", "hold_ms"}};
    for (size_t i = 0; option && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(option, names[i][0]) == 0)
            return names[i][1];
    return option;
}

/* Writes the result of item i. The shorter struct of an older program gets only the fields that
 * it has. */
static void result_write(struct tarry_result *out, size_t stride, size_t i, int code,
                         const struct queue_result *result, struct slice id)
{
    struct tarry_result copy = {.size = (uint32_t)stride,
                                .code = code,
                                .state = (int32_t)result->state,
                                .due_ms = result->due_ms,
                                .lease_until_ms = result->lease_until_ms,
                                .cancel_requested = result->cancel_requested,
                                .detail = detail_of(result->detail)};
    if (id.len && id.len <= TARRY_ID_BYTES_MAX)
        memcpy(copy.id, id.at, id.len);
    char *into = (char *)out + i * stride;
    memcpy(into, &copy, stride < sizeof copy ? stride : sizeof copy);
}

/* ---- push ---- */

enum {
    PUSH_FLAGS =
        TARRY_HAS_PRIORITY | TARRY_HAS_AT | TARRY_IS_DEAD | TARRY_HAS_KEEP_FINISHED | TARRY_WAITS
};

/* Returns whether all names are valid, unique, and not reserved for tarry. */
static bool meta_is_good(struct slice meta)
{
    struct buffer again;
    struct slice name, value;
    size_t at = 0;
    bool is_good = true;
    buffer_init(&again, JOB_META_BYTES_MAX + 1);
    while (is_good && job_meta_next(meta, &at, &name, &value))
        is_good = job_meta_add(&again, name, value) == JOB_META_OK &&
                  !(name.len >= strlen(JOB_META_OWN) &&
                    !memcmp(name.at, JOB_META_OWN, strlen(JOB_META_OWN)));
    is_good &= at == meta.len;
    buffer_fini(&again);
    return is_good;
}

bool lib_backoff_read(struct backoff *out, uint32_t kind, int64_t first_ms, int64_t max_ms,
                      const uint32_t *steps_ms, size_t steps)
{
    if (kind > TARRY_LIST || (!kind && (first_ms || max_ms)))
        return false;
    *out = (struct backoff){.kind = (enum backoff_kind)kind,
                            .first_ms = first_ms,
                            .max_ms = kind == TARRY_FIXED ? first_ms : max_ms};
    if (kind != TARRY_LIST)
        return steps == 0;
    if (!steps || steps > TARRY_BACKOFF_STEPS_MAX || !steps_ms)
        return false;
    out->step_count = (uint32_t)steps;
    memcpy(out->steps_ms, steps_ms, steps * sizeof *steps_ms);
    return true;
}

/* Returns the error: any bytes, or a text that ends with NUL if `bytes` is 0. */
static struct slice error_of(const char *error, size_t bytes)
{
    return bytes ? slice_make(error, bytes) : lib_text(error);
}

/* Reads the backoff. Returns the name of an option that is invalid in a way that the queue's validation does not
 * check, since the server's protocols cannot produce it. Returns NULL if all are valid. */
static const char *push_fault(const struct tarry_push *from, struct backoff *backoff)
{
    if (from->flags & ~(uint32_t)PUSH_FLAGS)
        return "flags";
    if (from->flags & TARRY_HAS_PRIORITY && from->priority < 0)
        return "priority";
    if (!lib_backoff_read(backoff, from->backoff, from->backoff_first_ms, from->backoff_max_ms,
                          from->backoff_steps_ms, from->backoff_step_count))
        return "backoff";
    if (from->on_conflict > TARRY_AFTER)
        return "on_conflict";
    if (from->flags & TARRY_HAS_AT && from->delay_ms)
        return "delay";
    if (from->keep_finished_ms && !(from->flags & TARRY_HAS_KEEP_FINISHED))
        return "keep_finished";
    if (from->group && !from->group[0])
        return "group";
    if (from->body_bytes && !from->body)
        return "body";
    if (from->error_bytes && !from->error)
        return "error";
    if (from->meta_bytes > JOB_META_BYTES_MAX || (from->meta_bytes && !from->meta) ||
        (from->meta_bytes && !meta_is_good(slice_make(from->meta, from->meta_bytes))))
        return "meta";
    return NULL;
}

/* Converts the batches of a push. Returns false if it has no batch. */
static bool push_batch_read(const struct tarry_push *from, struct queue_batch *out)
{
    *out = (struct queue_batch){.topic = lib_text(from->batch_topic),
                                .id = lib_text(from->batch_id),
                                .parent = lib_text(from->parent),
                                .waits = from->flags & TARRY_WAITS,
                                .on_dead = (enum batch_on_dead)from->on_dead,
                                .members = from->members,
                                .wait_at_most_ms = from->wait_at_most_ms,
                                .close_within_ms = from->close_within_ms};
    return from->batch_topic || from->batch_id || from->parent || out->waits || out->on_dead ||
           out->members || out->wait_at_most_ms || out->close_within_ms;
}

/* Converts a push, with its batches in `room`. Returns false if it is rejected; the result then has the reason. */
static bool push_read(const struct tarry_push *from, struct queue_push *out,
                      struct queue_batch *room, struct queue_result *result)
{
    bool has_at = from->flags & TARRY_HAS_AT;
    out->id = (struct slice){0};
    result->status = QUEUE_BAD_OPTION;
    struct backoff backoff;
    if ((result->detail = push_fault(from, &backoff)))
        return false;
    result->status = QUEUE_OK;
    *out = (struct queue_push){.topic = lib_text(from->topic),
                               .id = lib_text(from->id),
                               .content_type = lib_text(from->content_type),
                               .meta = slice_make(from->meta, from->meta_bytes),
                               .body = slice_make(from->body, from->body_bytes),
                               .when = {.due = has_at           ? QUEUE_DUE_AT
                                               : from->delay_ms ? QUEUE_DUE_DELAY
                                                                : QUEUE_DUE_NOW,
                                        .ms = has_at ? from->at_ms : from->delay_ms},
                               .priority = from->flags & TARRY_HAS_PRIORITY ? from->priority
                                                                            : QUEUE_PRIORITY_UNSET,
                               .on_conflict = (enum record_conflict)from->on_conflict,
                               .policy = {.lease_ms = from->lease_ms,
                                          .ttl_ms = from->ttl_ms,
                                          .max_attempts = from->max_attempts,
                                          .backoff = backoff},
                               .past = {.attempt = from->attempt,
                                        .dead = from->flags & TARRY_IS_DEAD,
                                        .error = error_of(from->error, from->error_bytes)},
                               .once = lib_text(from->once),
                               .once_for_ms = from->once_for_ms,
                               .has_keep_finished = from->flags & TARRY_HAS_KEEP_FINISHED,
                               .keep_finished_ms = from->keep_finished_ms,
                               .group = lib_text(from->group),
                               .batch = push_batch_read(from, room) ? room : NULL};
    return true;
}

static struct slice run_push(struct tarry *queue, const struct tarry_push *from,
                             struct queue_result *result, char id[ULID_BYTES])
{
    struct queue_push push;
    struct queue_batch batch;
    if (!push_read(from, &push, &batch, result))
        return push.id;
    result->status = queue_check_push(&push, queue->options.body_bytes_max, &result->detail);
    if (result->status != QUEUE_OK)
        return push.id;
    if (!push.id.len) {
        ulid_write(&queue->ulid, queue->now.wall_ms, id);
        push.id = slice_make(id, ULID_BYTES);
        push.id_is_made = true;
    }
    memory_push(queue->memory, &push, queue->now, result);
    return push.id;
}

int lib_await_push_read(struct tarry *queue, const struct waiter *waiter, struct queue_push *out,
                        struct queue_batch *room)
{
    struct tarry_push push;
    struct queue_result result = {.status = QUEUE_BAD_OPTION};
    if (lib_read(&push, sizeof push, waiter->push) && push_read(&push, out, room, &result))
        result.status = queue_check_push(out, queue->options.body_bytes_max, &result.detail);
    return lib_code(result.status);
}

int lib_await_push(struct tarry *queue, struct waiter *waiter)
{
    struct tarry_push push;
    struct queue_result result = {.status = QUEUE_BAD_OPTION};
    if (!lib_read(&push, sizeof push, waiter->push))
        return TARRY_BAD_OPTION;
    waiter->id = run_push(queue, &push, &result, waiter->push_id);
    waiter->topic = lib_text(push.topic);
    return queue_status_is_success(result.status) ? TARRY_OK : lib_code(result.status);
}

/* ---- change ---- */

/* Converts a change, like push_read. */
static bool change_read(const struct tarry_change *from, enum queue_change_verb verb,
                        struct queue_change *out, struct queue_result *result)
{
    const uint32_t flags = TARRY_HAS_PRIORITY | TARRY_HAS_AT | TARRY_HAS_DELAY | TARRY_ONLY_DEAD |
                           TARRY_REQUEST | TARRY_WITH_MEMBERS;
    bool has_at = from->flags & TARRY_HAS_AT, has_delay = from->flags & TARRY_HAS_DELAY;
    bool has_priority = from->flags & TARRY_HAS_PRIORITY;
    *out = (struct queue_change){.verb = verb,
                                 .topic = lib_text(from->topic),
                                 .id = lib_text(from->id),
                                 .when = {.due = has_at      ? QUEUE_DUE_AT
                                                 : has_delay ? QUEUE_DUE_DELAY
                                                             : QUEUE_DUE_UNCHANGED,
                                          .ms = has_at ? from->at_ms : from->delay_ms},
                                 .priority = has_priority ? from->priority : QUEUE_PRIORITY_UNSET,
                                 .only_dead = from->flags & TARRY_ONLY_DEAD,
                                 .request = from->flags & TARRY_REQUEST,
                                 .members = from->flags & TARRY_WITH_MEMBERS,
                                 .delivery = from->delivery};
    bool is_cancel = verb == QUEUE_CANCEL;
    result->detail = from->flags & ~flags || from->reserved || (out->members && !is_cancel)
                         ? "flags"
                     : has_at && has_delay                ? "delay"
                     : has_priority && from->priority < 0 ? "priority"
                                                          : NULL;
    result->status = result->detail ? QUEUE_BAD_OPTION : QUEUE_OK;
    return !result->detail;
}

static struct slice run_change(struct tarry *queue, const struct tarry_change *from,
                               enum queue_change_verb verb, struct queue_result *result)
{
    struct queue_change change;
    if (change_read(from, verb, &change, result))
        result->status = queue_check_change(&change, &result->detail);
    if (result->status == QUEUE_OK)
        memory_change(queue->memory, &change, queue->now, result);
    return change.id;
}

/* ---- answer ---- */

/* Returns the name of a field that this answer does not have, or that is too long. */
static const char *answer_fault(const struct queue_answer *answer)
{
    bool may_result = answer->verb == QUEUE_ACK || (answer->verb == QUEUE_NACK && answer->final);
    if (answer->result.len && !may_result)
        return "result";
    if (answer->result_type.len > JOB_CONTENT_TYPE_BYTES_MAX ||
        (answer->result_type.len && !may_result))
        return "result_type";
    if (answer->progress.len > JOB_PROGRESS_BYTES_MAX ||
        (answer->progress.len &&
         (answer->verb != QUEUE_EXTEND || !json_utf8_is_valid(answer->progress))))
        return "progress";
    return NULL;
}

/* Converts an answer, like push_read. If the caller gives a job, its lease is used. */
static bool answer_read(const struct tarry_answer *from, enum queue_verb verb,
                        struct queue_answer *out, struct queue_result *result)
{
    bool has_delay = from->flags & TARRY_HAS_DELAY;
    const struct memory_job *job = (const struct memory_job *)(const void *)from->job;
    *out = (struct queue_answer){.verb = verb,
                                 .lease = job ? job->shown.lease : lib_text(from->lease),
                                 .delay_ms = has_delay ? from->delay_ms : -1,
                                 .final = from->flags & TARRY_FINAL,
                                 .error = error_of(from->error, from->error_bytes),
                                 .lease_ms = from->lease_ms,
                                 .result = slice_make(from->result, from->result_bytes),
                                 .result_type = lib_text(from->result_type),
                                 .progress = lib_text(from->progress),
                                 .hold_ms = from->hold_ms};
    result->detail = from->flags & ~(uint32_t)(TARRY_HAS_DELAY | TARRY_FINAL) ? "flags"
                     : has_delay && from->delay_ms < 0                        ? "delay"
                     : !from->job == !from->lease                             ? "lease"
                     : from->error_bytes && !from->error                      ? "error"
                     : from->result_bytes && !from->result                    ? "result"
                                                                              : answer_fault(out);
    result->status = result->detail          ? QUEUE_BAD_OPTION
                     : job && !job->is_taken ? QUEUE_LEASE_ENDED
                                             : QUEUE_OK;
    return result->status == QUEUE_OK;
}

static void run_answer(struct tarry *queue, const struct tarry_answer *from, enum queue_verb verb,
                       struct queue_result *result)
{
    const struct memory_job *job = (const struct memory_job *)(const void *)from->job;
    struct queue_answer answer;
    if (answer_read(from, verb, &answer, result))
        result->status =
            queue_check_answer(&answer, queue->options.body_bytes_max, &result->detail);
    if (result->status != QUEUE_OK)
        return;
    if (job)
        memory_answer_lease(queue->memory, &job->lease, &answer, queue->now, result);
    else
        memory_answer(queue->memory, &answer, queue->now, result);
}

/* ---- again ---- */

/* Converts a call to push the job in hand again, like push_read. Sets `id` to the job's id. */
static bool again_read(const struct tarry_again *from, uint64_t body_bytes_max,
                       struct queue_again *out, struct slice *id, struct queue_result *result)
{
    const struct memory_job *mine = (const struct memory_job *)(const void *)from->job;
    bool has_at = from->flags & TARRY_HAS_AT;
    result->status = QUEUE_BAD_OPTION;
    result->detail = from->flags & ~(uint32_t)TARRY_HAS_AT ? "flags"
                     : has_at && from->delay_ms            ? "delay"
                     : !mine                               ? "job"
                                                           : NULL;
    if (result->detail)
        return false;
    *out = (struct queue_again){.when = {.due = has_at ? QUEUE_DUE_AT : QUEUE_DUE_DELAY,
                                         .ms = has_at ? from->at_ms : from->delay_ms},
                                .priority = QUEUE_PRIORITY_UNSET,
                                .has_body = from->body != NULL,
                                .body = slice_make(from->body, from->body ? from->body_bytes : 0)};
    *id = mine->shown.job.id;
    const struct queue_answer answer = {.verb = QUEUE_AGAIN, .again = out};
    result->status = queue_check_answer(&answer, body_bytes_max, &result->detail);
    if (result->status == QUEUE_OK && !mine->is_taken)
        result->status = QUEUE_LEASE_ENDED;
    return result->status == QUEUE_OK;
}

static struct slice run_again(struct tarry *queue, const struct tarry_again *from,
                              struct queue_result *result)
{
    const struct memory_job *mine = (const struct memory_job *)(const void *)from->job;
    struct queue_again again;
    struct slice id = {0};
    if (again_read(from, queue->options.body_bytes_max, &again, &id, result))
        memory_again(queue->memory, &mine->lease, &again, queue->now, result);
    return id;
}

/* ---- all kinds ---- */

static const struct {
    size_t bytes; /* of the public struct */
    enum command_kind command;
    size_t command_bytes; /* of the queue's struct */
    int verb;
} kinds[] = {
#define CHANGE sizeof(struct tarry_change), COMMAND_CHANGE, sizeof(struct queue_change)
#define ANSWER sizeof(struct tarry_answer), COMMAND_ANSWER, sizeof(struct queue_answer)
    [TARRY_CALL_PUSH] = {sizeof(struct tarry_push), COMMAND_PUSH, sizeof(struct queue_push), 0},
    [TARRY_CALL_CANCEL] = {CHANGE, QUEUE_CANCEL},
    [TARRY_CALL_RESCHEDULE] = {CHANGE, QUEUE_RESCHEDULE},
    [TARRY_CALL_RUN] = {CHANGE, QUEUE_RUN},
    [TARRY_CALL_CLOSE_BATCH] = {CHANGE, QUEUE_CLOSE},
    [TARRY_CALL_ACK] = {ANSWER, QUEUE_ACK},
    [TARRY_CALL_NACK] = {ANSWER, QUEUE_NACK},
    [TARRY_CALL_EXTEND] = {ANSWER, QUEUE_EXTEND},
    [TARRY_CALL_RETURN] = {ANSWER, QUEUE_RETURN},
    [TARRY_CALL_AGAIN] = {sizeof(struct tarry_again), COMMAND_ANSWER, sizeof(struct queue_answer),
                          QUEUE_AGAIN},
#undef CHANGE
#undef ANSWER
};

union item {
    struct tarry_push push;
    struct tarry_change change;
    struct tarry_answer answer;
    struct tarry_again again;
};

/* Returns an item in the size that this library uses: in place, or as a copy. Returns NULL if
 * its size is invalid. */
static const union item *item_read(const void *from, size_t stride, size_t bytes, union item *copy)
{
    if (size_of(from) != stride)
        return NULL;
    if (stride == bytes)
        return (const union item *)from;
    return lib_read(copy, bytes, from) ? copy : NULL;
}

static struct slice run_item(struct tarry *queue, enum tarry_call_kind kind, const union item *item,
                             struct queue_result *result, char id[ULID_BYTES])
{
    const int verb = kinds[kind].verb;
    if (kind == TARRY_CALL_PUSH)
        return run_push(queue, &item->push, result, id);
    if (kinds[kind].command == COMMAND_CHANGE)
        return run_change(queue, &item->change, (enum queue_change_verb)verb, result);
    if (kind == TARRY_CALL_AGAIN)
        return run_again(queue, &item->again, result);
    run_answer(queue, &item->answer, (enum queue_verb)verb, result);
    return (struct slice){0};
}

int lib_run_items(struct tarry *queue, enum tarry_call_kind kind, const void *items, size_t n,
                  struct tarry_result *out)
{
    size_t stride = lib_stride(n ? items : NULL, sizeof(uint32_t));
    size_t out_stride = out && n ? size_of(out) : 0;
    int first = TARRY_OK;
    if (n > TARRY_BATCH_MAX)
        return TARRY_BAD_OPTION;
    for (size_t i = 0; i < n; i++) {
        union item copy;
        char made[ULID_BYTES];
        struct queue_result result = {0};
        struct slice id = {0};
        const union item *item =
            stride ? item_read((const char *)items + i * stride, stride, kinds[kind].bytes, &copy)
                   : NULL;
        if (item) {
            id = run_item(queue, kind, item, &result, made);
        } else {
            result.status = QUEUE_BAD_OPTION;
            result.detail = items ? "size" : "items";
        }
        int code = lib_code(result.status);
        if (!queue_status_is_success(result.status) && !first)
            first = code;
        if (out)
            result_write(out, out_stride, i, code, &result, id);
    }
    return first;
}

/* ---- in a directory: valid items form one command, results go back to their items ---- */

/* Records the code of a rejected item if it precedes the first recorded one. */
static void items_note(struct lib_items *items, size_t i, enum queue_status status)
{
    if (queue_status_is_success(status) || i >= items->first_at)
        return;
    items->first_at = i;
    items->first = lib_code(status);
}

static void items_refuse(struct lib_items *items, size_t i, const struct queue_result *result,
                         struct slice id)
{
    items_note(items, i, result->status);
    if (items->out)
        result_write(items->out, items->out_stride, i, lib_code(result->status), result, id);
}

static void items_replied(struct directory_call *call, const struct queue_reply *reply)
{
    struct lib_items *items = list_entry(call, struct lib_items, call);
    const struct command *command = &call->command;
    for (size_t j = 0; j < items->sent; j++) {
        struct queue_result result = {.status = reply->status};
        if (j < reply->result_count)
            result = reply->results[j];
        bool has_id = command->kind != COMMAND_ANSWER || command->answers[j].again;
        struct slice id = has_id ? result.id : (struct slice){0};
        items_refuse(items, items->at[j], &result, id);
    }
    call->code = items->first;
}

/* Converts one item into its place in the command. Returns false if it is rejected. */
static bool item_send(struct lib_items *items, enum tarry_call_kind kind, const union item *from,
                      void *into, struct queue_result *result, struct slice *id)
{
    struct queue_again *again = kind == TARRY_CALL_AGAIN ? &items->again[items->sent] : NULL;
    const int verb = kinds[kind].verb;
    bool is_good = false;
    if (kind == TARRY_CALL_PUSH) {
        is_good = push_read(&from->push, into, &items->batches[items->sent], result);
        *id = ((const struct queue_push *)into)->id;
    } else if (kinds[kind].command == COMMAND_CHANGE) {
        is_good = change_read(&from->change, (enum queue_change_verb)verb, into, result);
        *id = ((const struct queue_change *)into)->id;
    } else if (kind != TARRY_CALL_AGAIN) {
        is_good = answer_read(&from->answer, (enum queue_verb)verb, into, result);
    } else {
        const struct memory_job *job = (const struct memory_job *)(const void *)from->again.job;
        is_good = again_read(&from->again, items->body_bytes_max, again, id, result);
        if (is_good)
            *(struct queue_answer *)into = (struct queue_answer){
                .verb = QUEUE_AGAIN, .lease = job->shown.lease, .again = again};
    }
    return is_good;
}

/* Allocates room for n items. A single item is stored in the call itself. */
static bool items_make(struct lib_items *items, enum tarry_call_kind kind, size_t n)
{
    size_t bytes = kinds[kind].command_bytes;
    size_t more_bytes = kind == TARRY_CALL_AGAIN  ? sizeof *items->again
                        : kind == TARRY_CALL_PUSH ? sizeof *items->batches
                                                  : 0;
    items->at = &items->only_at;
    items->commands = &items->only;
    items->again = &items->only_again;
    items->batches = &items->only_batch;
    if (n <= 1)
        return true;
    char *block = items->block = malloc(n * (bytes + more_bytes + sizeof *items->at));
    if (!block)
        return false;
    items->commands = block;
    if (kind == TARRY_CALL_AGAIN)
        items->again = (struct queue_again *)(void *)(block + n * bytes);
    else
        items->batches = (struct queue_batch *)(void *)(block + n * bytes);
    items->at = (uint16_t *)(void *)(block + n * (bytes + more_bytes));
    return true;
}

int lib_items_read(struct lib_items *items, const struct tarry *queue, enum tarry_call_kind kind,
                   const void *from, size_t n, struct tarry_result *out)
{
    size_t stride = lib_stride(n ? from : NULL, sizeof(uint32_t));
    size_t bytes = kinds[kind].command_bytes;
    *items = (struct lib_items){.call.replied = items_replied,
                                .out = out,
                                .out_stride = out && n ? size_of(out) : 0,
                                .body_bytes_max = queue->options.body_bytes_max,
                                .first_at = SIZE_MAX};
    if (n > TARRY_BATCH_MAX)
        return TARRY_BAD_OPTION;
    if (!items_make(items, kind, n))
        return TARRY_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        union item copy;
        struct queue_result result = {.status = QUEUE_BAD_OPTION,
                                      .detail = from ? "size" : "items"};
        struct slice id = {0};
        void *into = (char *)items->commands + items->sent * bytes;
        const union item *item =
            stride ? item_read((const char *)from + i * stride, stride, kinds[kind].bytes, &copy)
                   : NULL;
        if (item)
            result = (struct queue_result){0};
        if (item && item_send(items, kind, item, into, &result, &id))
            items->at[items->sent++] = (uint16_t)i;
        else
            items_refuse(items, i, &result, id);
    }
    items->call.command = (struct command){
        .kind = kinds[kind].command, .count = items->sent, .pushes = items->commands};
    items->call.code = items->first;
    return TARRY_OK;
}

bool lib_items_keep(struct lib_items *items)
{
    items->copy = copy_command(&items->call.command);
    if (items->copy)
        items->call.command = *items->copy;
    return items->copy != NULL;
}

void lib_items_free(struct lib_items *items)
{
    free(items->block);
    free(items->copy);
}

static int directory_call_items(tarry *queue, enum tarry_call_kind kind, const void *from, size_t n,
                                struct tarry_result *out)
{
    struct lib_items items;
    int code = lib_begin(queue);
    if (code)
        return code;
    code = lib_items_read(&items, queue, kind, from, n, out);
    if (!code)
        code = items.sent ? directory_run(queue->directory, &items.call) : items.first;
    lib_items_free(&items);
    lib_end(queue);
    return code;
}

/* ---- the calls ---- */

static int call_items(tarry *queue, enum tarry_call_kind kind, const void *items, size_t n,
                      struct tarry_result *out)
{
    if (n && !result_is_good(out))
        return TARRY_BAD_OPTION;
    if (queue->directory)
        return directory_call_items(queue, kind, items, n, out);
    int code = lib_enter(queue);
    if (code)
        return code;
    code = lib_run_items(queue, kind, items, n, out);
    lib_leave(queue);
    return code;
}

int tarry_push(tarry *queue, const struct tarry_push *items, size_t n, struct tarry_result *out)
{
    return call_items(queue, TARRY_CALL_PUSH, items, n, out);
}

int tarry_cancel(tarry *queue, const struct tarry_change *items, size_t n, struct tarry_result *out)
{
    return call_items(queue, TARRY_CALL_CANCEL, items, n, out);
}

int tarry_reschedule(tarry *queue, const struct tarry_change *items, size_t n,
                     struct tarry_result *out)
{
    return call_items(queue, TARRY_CALL_RESCHEDULE, items, n, out);
}

int tarry_run(tarry *queue, const struct tarry_change *items, size_t n, struct tarry_result *out)
{
    return call_items(queue, TARRY_CALL_RUN, items, n, out);
}

int tarry_close_batch(tarry *queue, const struct tarry_change *items, size_t n,
                      struct tarry_result *out)
{
    return call_items(queue, TARRY_CALL_CLOSE_BATCH, items, n, out);
}

int tarry_ack(tarry *queue, const struct tarry_answer *items, size_t n, struct tarry_result *out)
{
    return call_items(queue, TARRY_CALL_ACK, items, n, out);
}

int tarry_nack(tarry *queue, const struct tarry_answer *items, size_t n, struct tarry_result *out)
{
    return call_items(queue, TARRY_CALL_NACK, items, n, out);
}

int tarry_extend(tarry *queue, const struct tarry_answer *items, size_t n, struct tarry_result *out)
{
    return call_items(queue, TARRY_CALL_EXTEND, items, n, out);
}

int tarry_return(tarry *queue, const struct tarry_answer *items, size_t n, struct tarry_result *out)
{
    return call_items(queue, TARRY_CALL_RETURN, items, n, out);
}

int tarry_again(tarry *queue, const struct tarry_again *items, size_t n, struct tarry_result *out)
{
    return call_items(queue, TARRY_CALL_AGAIN, items, n, out);
}
