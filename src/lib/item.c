/* Calls of items: what callers pass and what they are told, the structs of tarry.h to those of the queue and
 * back. */
#include "base/buffer.h"
#include "lib/state.h"
#include "queue/door.h"
#include "queue/status.h"

#include <assert.h>

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

/* ---- what is told of an item ---- */

/* What the queue calls by the names of the HTTP API has its own in tarry.h. */
static const char *detail_of(const char *option)
{
    static const char *const names[][2] = {{"delay", "delay_ms"},
                                           {"at", "at_ms"},
                                           {"lease_for", "lease_ms"},
                                           {"ttl", "ttl_ms"},
                                           {"dedup_window", "dedup_window_ms"}};
    for (size_t i = 0; option && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(option, names[i][0]) == 0)
            return names[i][1];
    return option;
}

/* A shorter struct of an older program gets what it has room for. */
static void result_write(struct tarry_result *out, size_t stride, size_t i, int code,
                         const struct queue_result *result, struct slice id)
{
    struct tarry_result told = {.size = (uint32_t)stride,
                                .code = code,
                                .state = (int32_t)result->state,
                                .due_ms = result->due_ms,
                                .lease_until_ms = result->lease_until_ms,
                                .cancel_requested = result->cancel_requested,
                                .detail = detail_of(result->detail)};
    if (id.len && id.len <= TARRY_ID_BYTES_MAX)
        memcpy(told.id, id.at, id.len);
    char *into = (char *)out + i * stride;
    memcpy(into, &told, stride < sizeof told ? stride : sizeof told);
}

/* ---- push ---- */

enum { PUSH_FLAGS = TARRY_HAS_PRIORITY | TARRY_HAS_AT | TARRY_IS_DEAD };

/* Names in their form, each once, and none of tarry's own. */
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

static struct policy policy_of(int64_t lease_ms, int64_t ttl_ms, uint32_t max_attempts,
                               uint32_t backoff, int64_t first_ms, int64_t max_ms)
{
    struct policy policy = {.lease_ms = lease_ms,
                            .ttl_ms = ttl_ms,
                            .max_attempts = max_attempts,
                            .backoff = {.kind = (enum backoff_kind)backoff,
                                        .first_ms = first_ms,
                                        .max_ms = backoff == TARRY_FIXED ? first_ms : max_ms}};
    return policy;
}

bool lib_backoff_lacks_kind(uint32_t backoff, int64_t first_ms, int64_t max_ms)
{
    return !backoff && (first_ms || max_ms);
}

/* Any bytes, or text that ends with NUL. */
static struct slice error_of(const char *error, size_t bytes)
{
    return bytes ? slice_make(error, bytes) : lib_text(error);
}

/* What the door does not look at, since no front gives it such. NULL: nothing is wrong. */
static const char *push_fault(const struct tarry_push *from)
{
    if (from->flags & ~(uint32_t)PUSH_FLAGS)
        return "flags";
    if (from->flags & TARRY_HAS_PRIORITY && from->priority < 0)
        return "priority";
    if (from->backoff > TARRY_NO_BACKOFF ||
        lib_backoff_lacks_kind(from->backoff, from->backoff_first_ms, from->backoff_max_ms))
        return "backoff";
    if (from->on_conflict > TARRY_REJECT)
        return "on_conflict";
    if (from->flags & TARRY_HAS_AT && from->delay_ms)
        return "delay";
    if (from->body_bytes && !from->body)
        return "body";
    if (from->error_bytes && !from->error)
        return "error";
    if (from->meta_bytes > JOB_META_BYTES_MAX || (from->meta_bytes && !from->meta) ||
        (from->meta_bytes && !meta_is_good(slice_make(from->meta, from->meta_bytes))))
        return "meta";
    return NULL;
}

static void push_read(const struct tarry_push *from, struct queue_push *out)
{
    bool has_at = from->flags & TARRY_HAS_AT;
    *out = (struct queue_push){
        .topic = lib_text(from->topic),
        .id = lib_text(from->id),
        .content_type = lib_text(from->content_type),
        .meta = slice_make(from->meta, from->meta_bytes),
        .body = slice_make(from->body, from->body_bytes),
        .when = {.due = has_at           ? QUEUE_DUE_AT
                        : from->delay_ms ? QUEUE_DUE_DELAY
                                         : QUEUE_DUE_NOW,
                 .ms = has_at ? from->at_ms : from->delay_ms},
        .priority = from->flags & TARRY_HAS_PRIORITY ? from->priority : QUEUE_PRIORITY_UNSET,
        .on_conflict = (enum record_conflict)from->on_conflict,
        .policy = policy_of(from->lease_ms, from->ttl_ms, from->max_attempts, from->backoff,
                            from->backoff_first_ms, from->backoff_max_ms),
        .past = {.attempt = from->attempt,
                 .dead = from->flags & TARRY_IS_DEAD,
                 .error = error_of(from->error, from->error_bytes)}};
}

static struct slice run_push(struct tarry *queue, const struct tarry_push *from,
                             struct queue_result *result, char id[ULID_BYTES])
{
    struct queue_push push;
    if ((result->detail = push_fault(from))) {
        result->status = QUEUE_BAD_OPTION;
        return (struct slice){0};
    }
    push_read(from, &push);
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

/* ---- change ---- */

static struct slice run_change(struct tarry *queue, const struct tarry_change *from,
                               enum queue_change_verb verb, struct queue_result *result)
{
    const uint32_t flags =
        TARRY_HAS_PRIORITY | TARRY_HAS_AT | TARRY_HAS_DELAY | TARRY_ONLY_DEAD | TARRY_REQUEST;
    bool has_at = from->flags & TARRY_HAS_AT, has_delay = from->flags & TARRY_HAS_DELAY;
    bool has_priority = from->flags & TARRY_HAS_PRIORITY;
    struct queue_change change = {.verb = verb,
                                  .topic = lib_text(from->topic),
                                  .id = lib_text(from->id),
                                  .when = {.due = has_at      ? QUEUE_DUE_AT
                                                  : has_delay ? QUEUE_DUE_DELAY
                                                              : QUEUE_DUE_UNCHANGED,
                                           .ms = has_at ? from->at_ms : from->delay_ms},
                                  .priority = has_priority ? from->priority : QUEUE_PRIORITY_UNSET,
                                  .only_dead = from->flags & TARRY_ONLY_DEAD,
                                  .request = from->flags & TARRY_REQUEST,
                                  .delivery = from->delivery};
    result->status = QUEUE_BAD_OPTION;
    result->detail = from->flags & ~flags || from->reserved ? "flags"
                     : has_at && has_delay                  ? "delay"
                     : has_priority && from->priority < 0   ? "priority"
                                                            : NULL;
    if (!result->detail)
        result->status = queue_check_change(&change, &result->detail);
    if (result->status == QUEUE_OK)
        memory_change(queue->memory, &change, queue->now, result);
    return change.id;
}

/* ---- answer ---- */

static void run_answer(struct tarry *queue, const struct tarry_answer *from, enum queue_verb verb,
                       struct queue_result *result)
{
    bool has_delay = from->flags & TARRY_HAS_DELAY;
    const struct memory_job *job = (const struct memory_job *)(const void *)from->job;
    struct queue_answer answer = {.verb = verb,
                                  .lease = lib_text(from->lease),
                                  .delay_ms = has_delay ? from->delay_ms : -1,
                                  .final = from->flags & TARRY_FINAL,
                                  .error = error_of(from->error, from->error_bytes),
                                  .lease_ms = from->lease_ms};
    result->status = QUEUE_BAD_OPTION;
    result->detail = from->flags & ~(uint32_t)(TARRY_HAS_DELAY | TARRY_FINAL) ? "flags"
                     : has_delay && from->delay_ms < 0                        ? "delay"
                     : !from->job == !from->lease                             ? "lease"
                     : from->error_bytes && !from->error                      ? "error"
                                                                              : NULL;
    if (!result->detail)
        result->status = queue_check_answer(&answer, &result->detail);
    if (result->status != QUEUE_OK)
        return;
    if (job && !job->is_taken)
        result->status = QUEUE_LEASE_ENDED;
    else if (job)
        memory_answer_lease(queue->memory, &job->lease, &answer, queue->now, result);
    else
        memory_answer(queue->memory, &answer, queue->now, result);
}

/* ---- again ---- */

static struct slice run_again(struct tarry *queue, const struct tarry_again *from,
                              struct queue_result *result)
{
    const struct memory_job *mine = (const struct memory_job *)(const void *)from->job;
    bool has_at = from->flags & TARRY_HAS_AT;
    result->status = QUEUE_BAD_OPTION;
    result->detail = from->flags & ~(uint32_t)TARRY_HAS_AT ? "flags"
                     : has_at && from->delay_ms            ? "delay"
                     : !mine                               ? "job"
                                                           : NULL;
    if (result->detail)
        return (struct slice){0};
    const struct job *job = &mine->shown.job;
    struct queue_push push = {.topic = job->topic,
                              .id = job->id,
                              .content_type = job->content_type,
                              .meta = job->meta,
                              .body =
                                  from->body ? slice_make(from->body, from->body_bytes) : job->body,
                              .when = {.due = has_at ? QUEUE_DUE_AT : QUEUE_DUE_DELAY,
                                       .ms = has_at ? from->at_ms : from->delay_ms},
                              .priority = job->priority,
                              .policy = job->policy};
    result->status = queue_check_push(&push, queue->options.body_bytes_max, &result->detail);
    if (result->status == QUEUE_OK && !mine->is_taken)
        result->status = QUEUE_LEASE_ENDED;
    else if (result->status == QUEUE_OK)
        memory_again(queue->memory, mine, &push, queue->now, result);
    return job->id;
}

/* ---- any of them ---- */

static const struct {
    size_t bytes; /* of the kind's struct */
    int verb;
} kinds[] = {
    [TARRY_CALL_PUSH] = {sizeof(struct tarry_push), 0},
    [TARRY_CALL_CANCEL] = {sizeof(struct tarry_change), QUEUE_CANCEL},
    [TARRY_CALL_RESCHEDULE] = {sizeof(struct tarry_change), QUEUE_RESCHEDULE},
    [TARRY_CALL_RUN] = {sizeof(struct tarry_change), QUEUE_RUN},
    [TARRY_CALL_ACK] = {sizeof(struct tarry_answer), QUEUE_ACK},
    [TARRY_CALL_NACK] = {sizeof(struct tarry_answer), QUEUE_NACK},
    [TARRY_CALL_EXTEND] = {sizeof(struct tarry_answer), QUEUE_EXTEND},
    [TARRY_CALL_RETURN] = {sizeof(struct tarry_answer), QUEUE_RETURN},
    [TARRY_CALL_AGAIN] = {sizeof(struct tarry_again), 0},
};

union item {
    struct tarry_push push;
    struct tarry_change change;
    struct tarry_answer answer;
    struct tarry_again again;
};

/* One item as this library knows it: where it lies, or a copy. NULL: it is none. */
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
    if (kind <= TARRY_CALL_RUN)
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
        struct queue_result result = {.status = QUEUE_BAD_OPTION,
                                      .detail = items ? "size" : "items"};
        struct slice id = {0};
        const union item *item =
            stride ? item_read((const char *)items + i * stride, stride, kinds[kind].bytes, &copy)
                   : NULL;
        if (item)
            result = (struct queue_result){0}, id = run_item(queue, kind, item, &result, made);
        int code = lib_code(result.status);
        if (!queue_status_is_success(result.status) && !first)
            first = code;
        if (out)
            result_write(out, out_stride, i, code, &result, id);
    }
    return first;
}

/* ---- the calls ---- */

static int call_items(tarry *queue, enum tarry_call_kind kind, const void *items, size_t n,
                      struct tarry_result *out)
{
    if (n && !result_is_good(out))
        return TARRY_BAD_OPTION;
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
