/*
 * settings: the attributes and tags of a queue, and the settings of the topic that they are.
 *
 * VisibilityTimeout is `lease_for`, MessageRetentionPeriod `ttl`, RedrivePolicy `max_attempts` and
 * `dead_letter.to`; without one a message is tried for ever. What a topic has no setting for stands in the
 * member "sqs" of its extension. Pure.
 */
#ifndef TARRY_SQS_SETTINGS_H
#define TARRY_SQS_SETTINGS_H

#include "sqs/request.h"

enum {
    SQS_VISIBILITY_S = 30,
    SQS_VISIBILITY_S_MAX = 12 * 3600,
    SQS_RETENTION_S = 4 * 24 * 3600,
    SQS_WAIT_S_MAX = 20,
    SQS_MESSAGE_BYTES = 1024 * 1024
};

/* Of a queue as it is. Slices point into what it was read from. */
struct sqs_queue {
    int64_t visibility_s, retention_s, delay_s, wait_s, message_bytes; /* retention 0: for ever */
    int64_t created_s, modified_s;
    int64_t receives_max;         /* 0: no RedrivePolicy */
    struct slice dead_letter;     /* the topic's name; empty: none */
    struct json_value allow;      /* RedriveAllowPolicy, a JSON string; or none */
    struct json_value tags;       /* an object, or none */
    struct json_value deliver;    /* kept as it is */
    struct json_value dead_rules; /* the topic's dead_letter as it is */
};

/* The settings of a topic, which may have been made without SQS. */
void sqs_queue_read(const struct topic_settings *settings, struct sqs_queue *out);
/* Changes *queue by attributes (an object of strings, or none). Texts are unescaped into `scratch`, which
 * outlives *queue and has room for all of them. False: the error says which cannot be. */
bool sqs_queue_change(struct sqs_queue *queue, struct json_value attributes, struct buffer *scratch,
                      struct sqs_error *error);
/* Into a topic's settings, of which only what differs is changed: others may have set them finer than
 * SQS shows. `is_new`: there is no topic yet, and all of them are those of SQS. The extension goes to
 * `text`. False: it does not fit. */
bool sqs_queue_write(const struct sqs_queue *queue, bool is_new, struct topic_settings *out,
                     struct buffer *text, struct sqs_error *error);
bool sqs_queue_equals(const struct sqs_queue *a, const struct sqs_queue *b);
/* "arn:aws:sqs:REGION:ACCOUNT:NAME". */
void sqs_write_arn(const struct sqs_options *options, struct slice name, struct buffer *out);
/* The members that `names` asks for, as an object's text. */
void sqs_queue_show(const struct sqs_request *request, const struct queue_topic *topic,
                    struct json_value names, struct buffer *out);
/* Do they ask for a FIFO queue? */
bool sqs_wants_fifo(struct json_value attributes);
/* Is there such an attribute, or "All"? */
bool sqs_attribute_name_is_known(struct slice name);

#endif
