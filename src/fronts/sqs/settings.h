/*
 * settings: the attributes and tags of a queue, converted to and from the settings of its topic.
 *
 * VisibilityTimeout is `lease_for`, MessageRetentionPeriod `ttl`, RedrivePolicy `max_attempts` and
 * `dead_letter.to`; without a RedrivePolicy a message is retried forever. Attributes without a
 * topic setting are stored in the member "sqs" of the topic's extension. A FIFO queue is a topic with
 * strict order within its groups, and the mark "fifo" in that member. Pure.
 */
#ifndef TARRY_SQS_SETTINGS_H
#define TARRY_SQS_SETTINGS_H

#include "sqs/request.h"
#include "sqs/topics.h"

enum {
    SQS_VISIBILITY_S = 30,
    SQS_VISIBILITY_S_MAX = 12 * 3600,
    SQS_RETENTION_S = 4 * 24 * 3600,
    SQS_WAIT_S_MAX = 20,
    SQS_MESSAGE_BYTES = 1024 * 1024
};

/* The attributes of a queue. Slices point into the source that they were read from. */
struct sqs_queue {
    int64_t visibility_s, retention_s, delay_s, wait_s, message_bytes; /* retention 0: forever */
    int64_t created_s, modified_s;
    int64_t receives_max; /* 0: no RedrivePolicy */
    bool is_fifo;
    /* Of a FIFO queue: ContentBasedDeduplication; DeduplicationScope is messageGroup; FifoThroughputLimit
     * is perMessageGroupId, which is only stored. */
    bool hashes_bodies, once_by_group, is_limited_by_group;
    struct slice dead_letter;     /* the topic's name; empty: no dead-letter queue */
    struct json_value allow;      /* RedriveAllowPolicy, a JSON string; or JSON_NONE */
    struct json_value tags;       /* an object, or JSON_NONE */
    struct json_value deliver;    /* preserved as it is */
    struct json_value dead_rules; /* the topic's dead_letter, preserved as it is */
};

/* Reads the settings of a topic, which may have been created without SQS. */
void sqs_queue_read(const struct topic_settings *settings, struct sqs_queue *out);
/* Reads only what operations on messages need. */
void sqs_numbers_read(const struct topic_settings *settings, struct sqs_numbers *out);
/* Changes *queue according to attributes (an object of strings, or JSON_NONE). Texts are unescaped
 * into `scratch`, which must outlive *queue and have room for all of them. Returns false and sets
 * the error if an attribute is invalid. */
bool sqs_queue_change(struct sqs_queue *queue, struct json_value attributes, struct buffer *scratch,
                      struct sqs_error *error);
/* Writes to a topic's settings, changing only those that differ: other clients may have set them
 * more finely than SQS shows. `is_new`: there is no topic yet, and all settings are those of SQS.
 * The extension goes to `text`. Returns false if it does not fit. */
bool sqs_queue_write(const struct sqs_queue *queue, bool is_new, struct topic_settings *out,
                     struct buffer *text, struct sqs_error *error);
bool sqs_queue_equals(const struct sqs_queue *a, const struct sqs_queue *b);
/* Writes "arn:aws:sqs:REGION:ACCOUNT:NAME". */
void sqs_write_arn(const struct sqs_options *options, struct slice name, struct buffer *out);
/* Writes the attributes that `names` selects, as the text of an object. */
void sqs_queue_show(const struct sqs_request *request, const struct queue_topic *topic,
                    struct json_value names, struct buffer *out);
/* Returns whether the attributes request a FIFO queue. */
bool sqs_wants_fifo(struct json_value attributes);
/* Returns whether the name is "All" or an attribute of SQS. */
bool sqs_attribute_name_is_known(struct slice name);

#endif
