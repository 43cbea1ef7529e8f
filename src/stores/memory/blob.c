#include "memory/blob.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Contents of `text`: the policy, if any; the job's own keep_finished, if any; the batches, if any, the group, if any, topic, id and content type, each followed
 * by a NUL byte; meta; body. */
enum { NULS = 3 };

struct blob {
    atomic_uint holders;
    uint32_t body_bytes;
    uint16_t meta_bytes;
    uint8_t topic_bytes, id_bytes, content_type_bytes;
    uint8_t group_bytes;
    uint8_t policy_bytes; /* 0, or those of a struct policy without or with the waits of a list */
    bool is_kept;         /* of a finished job: `text` begins with a struct kept_head, and
                           * body_bytes is the size of the whole blob */
    bool has_keep;        /* the job has its own keep_finished */
    uint16_t batch_bytes;
    struct blob *next; /* the successor, or NULL */
    char text[];
};

/* The texts of a kept job follow this head, each with a NUL byte. */
enum kept_text {
    KEPT_TOPIC,
    KEPT_ID,
    KEPT_CONTENT_TYPE,
    KEPT_RESULT_TYPE,
    KEPT_CONSUMER,
    KEPT_META,
    KEPT_HISTORY,
    KEPT_PROGRESS,
    KEPT_RESULT,
    KEPT_GROUP,
    KEPT_BATCH,
    KEPT_BODY,
    KEPT_TEXTS
};
struct kept_head {
    int64_t finished_ms, duration_ms;
    uint32_t attempt;
    uint32_t bytes[KEPT_TEXTS];
    uint8_t outcome; /* enum job_end */
    bool has_body;
};
_Static_assert(offsetof(struct blob, text) % _Alignof(struct kept_head) == 0,
               "the head is aligned");
_Static_assert(JOB_TOPIC_BYTES_MAX <= UINT8_MAX && JOB_ID_BYTES_MAX <= UINT8_MAX &&
                   JOB_CONTENT_TYPE_BYTES_MAX <= UINT8_MAX && JOB_META_BYTES_MAX <= UINT16_MAX,
               "the lengths fit into their fields");

static size_t keep_bytes(const struct blob *blob)
{
    return blob->has_keep ? sizeof(int64_t) : 0;
}

static size_t group_bytes(size_t len)
{
    return len ? len + 1 : 0;
}

size_t blob_bytes(const struct blob *blob)
{
    if (blob->is_kept)
        return blob->body_bytes;
    return offsetof(struct blob, text) + blob->policy_bytes + keep_bytes(blob) +
           group_bytes(blob->batch_bytes) + group_bytes(blob->group_bytes) + blob->topic_bytes +
           blob->id_bytes + blob->content_type_bytes + NULS + blob->meta_bytes + blob->body_bytes +
           (blob->next ? blob_bytes(blob->next) : 0);
}

static char *bytes_put(char *into, const void *bytes, size_t count)
{
    if (count)
        memcpy(into, bytes, count);
    return into + count;
}

static char *text_put(char *into, struct slice text)
{
    char *end = bytes_put(into, text.at, text.len);
    *end = '\0';
    return end + 1;
}

static size_t policy_bytes(const struct policy *policy)
{
    if (policy->backoff.kind == BACKOFF_LIST)
        return sizeof *policy;
    bool is_set =
        policy->lease_ms || policy->ttl_ms || policy->backoff.kind || policy->max_attempts;
    return is_set ? offsetof(struct policy, backoff.steps_ms) : 0;
}
_Static_assert(sizeof(struct policy) <= UINT8_MAX, "the bytes of a policy fit into their field");

struct blob *blob_new(const struct queue_push *push, struct slice batches)
{
    const struct policy *policy = &push->policy;
    size_t text_bytes = policy_bytes(policy) +
                        (push->has_keep_finished ? sizeof push->keep_finished_ms : 0) +
                        group_bytes(batches.len) + group_bytes(push->group.len) + push->topic.len +
                        push->id.len + push->content_type.len + NULS + push->meta.len;
    if (push->body.len > UINT32_MAX / 2)
        return NULL;
    struct blob *blob = malloc(offsetof(struct blob, text) + text_bytes + push->body.len);
    if (!blob)
        return NULL;
    atomic_init(&blob->holders, 1);
    blob->next = NULL;
    blob->is_kept = false;
    blob->has_keep = push->has_keep_finished;
    blob->body_bytes = (uint32_t)push->body.len;
    blob->group_bytes = (uint8_t)push->group.len;
    blob->batch_bytes = (uint16_t)batches.len;
    blob->policy_bytes = (uint8_t)policy_bytes(policy);
    blob->meta_bytes = (uint16_t)push->meta.len;
    blob->topic_bytes = (uint8_t)push->topic.len;
    blob->id_bytes = (uint8_t)push->id.len;
    blob->content_type_bytes = (uint8_t)push->content_type.len;
    char *at = bytes_put(blob->text, policy, blob->policy_bytes);
    at = bytes_put(at, &push->keep_finished_ms, keep_bytes(blob));
    if (batches.len)
        at = text_put(at, batches);
    if (push->group.len)
        at = text_put(at, push->group);
    at = text_put(at, push->topic);
    at = text_put(at, push->id);
    at = text_put(at, push->content_type);
    at = bytes_put(at, push->meta.at, push->meta.len);
    bytes_put(at, push->body.at, push->body.len);
    return blob;
}

struct blob *blob_kept_make(void *room, size_t room_bytes, const struct record_done *done,
                            enum job_end outcome)
{
    struct blob *blob = room;
    struct kept_head *head = (struct kept_head *)(void *)blob->text;
    struct record_kept kept;
    bool is_kept = record_kept_decode(done->kept, &kept);
    assert(is_kept);
    (void)is_kept;
    const struct slice texts[KEPT_TEXTS] = {[KEPT_TOPIC] = done->topic,
                                            [KEPT_ID] = kept.id,
                                            [KEPT_CONTENT_TYPE] = kept.content_type,
                                            [KEPT_RESULT_TYPE] = kept.result_type,
                                            [KEPT_CONSUMER] = kept.consumer,
                                            [KEPT_META] = kept.meta,
                                            [KEPT_HISTORY] = kept.history,
                                            [KEPT_PROGRESS] = kept.progress,
                                            [KEPT_RESULT] = kept.result,
                                            [KEPT_GROUP] = kept.group,
                                            [KEPT_BATCH] = kept.batch,
                                            [KEPT_BODY] = kept.body};
    size_t bytes = offsetof(struct blob, text) + sizeof *head + KEPT_TEXTS;
    for (size_t i = 0; i < KEPT_TEXTS; i++)
        bytes += texts[i].len;
    assert(bytes <= room_bytes && bytes <= UINT32_MAX / 2);
    (void)room_bytes;
    memset(blob, 0, offsetof(struct blob, text));
    atomic_init(&blob->holders, 1);
    blob->is_kept = true;
    blob->body_bytes = (uint32_t)bytes;
    *head = (struct kept_head){.finished_ms = kept.finished_ms,
                               .duration_ms = kept.duration_ms,
                               .attempt = kept.attempt,
                               .outcome = (uint8_t)outcome,
                               .has_body = kept.has_body};
    char *at = (char *)(head + 1);
    for (size_t i = 0; i < KEPT_TEXTS; i++) {
        head->bytes[i] = (uint32_t)texts[i].len;
        at = text_put(at, texts[i]);
    }
    struct blob *shrunk = realloc(blob, bytes);
    return shrunk ? shrunk : blob;
}

struct blob *blob_hold(struct blob *blob)
{
    atomic_fetch_add_explicit(&blob->holders, 1, memory_order_relaxed);
    return blob;
}

void blob_release(struct blob *blob)
{
    while (blob && atomic_fetch_sub_explicit(&blob->holders, 1, memory_order_acq_rel) == 1) {
        struct blob *next = blob->next;
        free(blob);
        blob = next;
    }
}

struct blob *blob_next(const struct blob *blob)
{
    return blob->next;
}

void blob_set_next(struct blob *blob, struct blob *next)
{
    blob_release(blob->next);
    blob->next = next;
}

static struct slice bytes_take(const char **at, size_t count)
{
    struct slice bytes = slice_make(*at, count);
    *at += count;
    return bytes;
}

static struct slice text_take(const char **at, size_t bytes)
{
    struct slice text = bytes_take(at, bytes);
    ++*at;
    return text;
}

void blob_show(const struct blob *blob, struct job *out)
{
    const char *at = blob->text + blob->policy_bytes;
    *out = (struct job){.has_keep = blob->has_keep};
    if (blob->policy_bytes)
        memcpy(&out->policy, blob->text, blob->policy_bytes);
    if (blob->has_keep)
        memcpy(&out->keep_ms, bytes_take(&at, sizeof out->keep_ms).at, sizeof out->keep_ms);
    if (blob->batch_bytes)
        out->batch = text_take(&at, blob->batch_bytes);
    if (blob->group_bytes)
        out->group = text_take(&at, blob->group_bytes);
    out->topic = text_take(&at, blob->topic_bytes);
    out->id = text_take(&at, blob->id_bytes);
    out->content_type = text_take(&at, blob->content_type_bytes);
    out->meta = bytes_take(&at, blob->meta_bytes);
    out->body = bytes_take(&at, blob->body_bytes);
}

bool blob_show_kept(const struct blob *blob, struct job *job, struct queue_end *end)
{
    const struct kept_head *head = (const struct kept_head *)(const void *)blob->text;
    struct slice texts[KEPT_TEXTS];
    if (!blob->is_kept)
        return false;
    const char *at = (const char *)(head + 1);
    for (size_t i = 0; i < KEPT_TEXTS; i++)
        texts[i] = text_take(&at, head->bytes[i]);
    *job = (struct job){.topic = texts[KEPT_TOPIC],
                        .id = texts[KEPT_ID],
                        .content_type = texts[KEPT_CONTENT_TYPE],
                        .group = texts[KEPT_GROUP],
                        .batch = texts[KEPT_BATCH],
                        .consumer = texts[KEPT_CONSUMER],
                        .meta = texts[KEPT_META],
                        .history = texts[KEPT_HISTORY],
                        .progress = texts[KEPT_PROGRESS],
                        .body = texts[KEPT_BODY],
                        .state = JOB_FINISHED,
                        .priority = JOB_PRIORITY,
                        .attempt = head->attempt};
    *end = (struct queue_end){.outcome = (enum job_end)head->outcome,
                              .finished_ms = head->finished_ms,
                              .duration_ms = head->duration_ms,
                              .has_body = head->has_body,
                              .result = texts[KEPT_RESULT],
                              .result_type = texts[KEPT_RESULT_TYPE]};
    return true;
}

/* Encodes the address as a place: an address has fewer bits than file and offset together, and the
 * bit that marks a run stays clear. */
struct record_place blob_place(const struct blob *blob)
{
    uint64_t address = (uintptr_t)blob;
    assert(!(address >> 32 & RECORD_IN_RUN));
    return (struct record_place){.file = (uint32_t)(address >> 32),
                                 .at = (uint32_t)address,
                                 .bytes = (uint32_t)blob_bytes(blob)};
}

/* Returns the place of a record without text. It is shorter than any blob. */
struct record_place blob_place_none(void)
{
    return (struct record_place){.file = 1, .bytes = 1};
}

struct blob *blob_at(struct record_place place)
{
    if (place.bytes == 1)
        return NULL;
    return (struct blob *)(uintptr_t)((uint64_t)place.file << 32 | place.at);
}
