/*
 * Any bytes as the answer of a script: the first byte chooses the kind. Refused, or
 * a value within the limits of job.h that points into the bytes. Seeds: corpus/redis_codec.
 */
#include "redis/codec.h"
#include "redis/id.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool lies_within(struct slice section, struct slice whole)
{
    return !section.len ||
           (section.at >= whole.at && section.at + section.len <= whole.at + whole.len);
}

static void as_job(struct slice bytes)
{
    size_t split = bytes.len ? (unsigned char)bytes.at[0] : 0;
    struct job job;

    if (split + 1 > bytes.len)
        return;
    struct slice attempt = slice_make(bytes.at + 1, split);
    struct slice record = slice_make(bytes.at + 1 + split, bytes.len - 1 - split);
    if (!redis_unpack_job(record, attempt, 0, 0, &job))
        return;
    CLAIM("a job has a state", job.state >= JOB_DELAYED && job.state <= JOB_DEAD);
    CLAIM("texts are the record's", lies_within(job.body, record) && lies_within(job.meta, record));
    /* Frequent content types are numbers in the record, and their texts come from a table. */
    CLAIM("a content type is the record's or has a number",
          lies_within(job.content_type, record) ||
              memchr(job.content_type.at, '/', job.content_type.len));
    CLAIM("the error is the try's", lies_within(job.error, attempt));
    CLAIM("so is the history, and it can be read",
          lies_within(job.history, attempt) && job_history_check(job.history));
    CLAIM("texts keep their limits", job.meta.len <= JOB_META_BYTES_MAX &&
                                         job.content_type.len <= JOB_CONTENT_TYPE_BYTES_MAX &&
                                         job.error.len <= JOB_ERROR_BYTES_MAX);
}

static void as_results(struct slice bytes)
{
    struct queue_result result = {0};
    struct slice rest = bytes;
    size_t count = 0;

    while (redis_unpack_answered(&rest, 0, &result)) {
        CLAIM("statuses are known", result.status < QUEUE_STATUSES);
        CLAIM("states are known", result.state <= JOB_FINISHED);
        count++;
    }
    CLAIM("each takes its bytes", count * 14 <= bytes.len);
}

static void as_topic(struct slice bytes)
{
    struct queue_topic topic;

    if (!redis_unpack_topic(bytes, 0, &topic))
        return;
    CLAIM("conflicts are known", topic.settings.on_conflict <= CONFLICT_REJECT);
    CLAIM("the extension is the text's",
          lies_within(topic.settings.extension, bytes) &&
              topic.settings.extension.len <= TOPIC_EXTENSION_BYTES_MAX);
    CLAIM("priorities keep their limit", topic.settings.priority <= JOB_PRIORITY_MAX);
}

static void as_id(struct slice bytes)
{
    char room[REDIS_ID_ROOM_BYTES], again[REDIS_ID_PACKED_BYTES];
    struct slice id;

    if (!redis_id_show(bytes, room, &id))
        return;
    bool is_once = id.len && id.at[0] == ' '; /* an id of a `once` */
    CLAIM("an id is one", job_id_is_valid(is_once ? slice_make(id.at + 1, id.len - 1) : id));
    if (bytes.at[0] == 1)
        CLAIM("it has one stored form", slice_equals(redis_id_store(id, again), bytes));
}

static void as_lease(struct slice bytes)
{
    char again[REDIS_LEASE_BYTES];
    uint32_t shard;
    uint64_t delivery;
    const struct mac_key key = {1, 2};

    if (!redis_lease_parse(bytes, &key, &shard, &delivery))
        return;
    redis_lease_write(again, &key, shard, delivery);
    CLAIM("a token has one form", slice_equals(slice_make(again, sizeof again), bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(struct slice bytes) = {as_job, as_results, as_topic, as_id,
                                                          as_lease};
    if (size)
        readers[data[0] % 5](slice_make(data + 1, size - 1));
    return 0;
}
