#include "local/private.h"

#include <assert.h>
#include <stdlib.h>

enum { SMALL_BYTES = 768 }; /* one result with a topic and an id of ordinary length */

struct completion *completion_new(struct shard *shard, size_t count, size_t text_bytes,
                                  struct queue_reply_to reply_to)
{
    size_t bytes = sizeof(struct completion) + count * sizeof(struct queue_result) + text_bytes;
    struct completion *completion;
    if (bytes <= SMALL_BYTES && shard->spare) {
        completion = shard->spare;
        shard->spare = (struct completion *)(void *)completion->list.next;
        bytes = SMALL_BYTES;
    } else {
        if (bytes < SMALL_BYTES)
            bytes = SMALL_BYTES;
        completion = malloc(bytes);
        if (!completion)
            return NULL;
    }
    memset(completion, 0, sizeof *completion + count * sizeof(struct queue_result));
    completion->bytes = bytes;
    completion->reply_to = reply_to;
    completion->reply.result_count = count;
    completion->reply.results = completion_results(completion);
    return completion;
}

static void completion_free(struct shard *shard, struct completion *completion)
{
    if (completion->bytes == SMALL_BYTES) {
        completion->list.next = (struct list *)(void *)shard->spare;
        shard->spare = completion;
    } else {
        free(completion);
    }
}

struct queue_result *completion_results(struct completion *completion)
{
    return (struct queue_result *)(void *)(completion + 1);
}

struct slice completion_text(struct completion *completion, size_t *used, struct slice text)
{
    char *at = (char *)(completion_results(completion) + completion->reply.result_count) + *used;
    if (text.len)
        memcpy(at, text.at, text.len);
    *used += text.len;
    assert(at + text.len <= (char *)completion + completion->bytes);
    return slice_make(at, text.len);
}

struct completion *completion_topics(struct shard *shard, const struct queue_topic *topics,
                                     size_t count, struct queue_reply_to reply_to)
{
    size_t text = count * sizeof *topics, used = 0;
    for (size_t i = 0; i < count; i++)
        text += topics[i].name.len + topics[i].settings.extension.len;
    struct completion *completion = completion_new(shard, 0, text, reply_to);
    if (!completion)
        return NULL;
    struct slice copy =
        completion_text(completion, &used, slice_make(topics, count * sizeof *topics));
    struct queue_topic *copies = (struct queue_topic *)(uintptr_t)copy.at;
    for (size_t i = 0; i < count; i++) {
        copies[i].name = completion_text(completion, &used, topics[i].name);
        copies[i].settings.extension =
            completion_text(completion, &used, topics[i].settings.extension);
    }
    completion->reply.topics = copies;
    completion->reply.topic_count = count;
    return completion;
}

void completion_soon(struct shard *shard, struct completion *completion)
{
    list_add_last(&shard->soon, &completion->list);
}

void completion_when_durable(struct shard *shard, struct completion *completion)
{
    uint64_t open = wal_open_sequence(shard->wal);
    completion->needs = wal_open_is_empty(shard->wal) ? open - 1 : open;
    if (completion->needs <= shard->durable)
        completion_soon(shard, completion);
    else
        list_add_last(&shard->waiting, &completion->list);
}

void completion_status_soon(struct shard *shard, enum queue_status status,
                            struct queue_reply_to reply_to)
{
    struct completion *completion = completion_new(shard, 0, 0, reply_to);
    assert(completion); /* without memory even for a refusal there is no honest way on */
    completion->reply.status = status;
    completion_soon(shard, completion);
}

static void run(struct shard *shard, struct completion *completion)
{
    list_remove(&completion->list);
    completion->reply_to.done(completion->reply_to.owner, completion->reply_to.tag,
                              &completion->reply);
    completion_free(shard, completion);
}

bool completions_run(struct shard *shard)
{
    bool any = false;
    while (!list_is_empty(&shard->waiting)) {
        struct completion *first = list_entry(shard->waiting.next, struct completion, list);
        if (first->needs > shard->durable)
            break;
        run(shard, first);
        any = true;
    }
    /* Those added by the callbacks wait for the next round. */
    struct list round;
    list_init(&round);
    while (!list_is_empty(&shard->soon)) {
        struct list *first = shard->soon.next;
        list_remove(first);
        list_add_last(&round, first);
    }
    while (!list_is_empty(&round)) {
        run(shard, list_entry(round.next, struct completion, list));
        any = true;
    }
    return any;
}

void completions_fail(struct shard *shard, uint64_t until, enum queue_status status)
{
    while (!list_is_empty(&shard->waiting)) {
        struct completion *first = list_entry(shard->waiting.next, struct completion, list);
        if (first->needs > until)
            return;
        first->reply = (struct queue_reply){.status = status};
        run(shard, first);
    }
}

void completions_fini(struct shard *shard)
{
    struct list *const lists[] = {&shard->waiting, &shard->soon};
    for (int i = 0; i < 2; i++)
        while (!list_is_empty(lists[i])) {
            struct completion *first = list_entry(lists[i]->next, struct completion, list);
            list_remove(&first->list);
            free(first);
        }
    while (shard->spare) {
        struct completion *next = (struct completion *)(void *)shard->spare->list.next;
        free(shard->spare);
        shard->spare = next;
    }
}
