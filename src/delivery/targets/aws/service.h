/*
 * aws_service: how SQS and SNS write a call and its answer, and the parts that both share. Pure.
 *
 * aws/target.c sends the calls.
 */
#ifndef TARRY_TARGETS_AWS_SERVICE_H
#define TARRY_TARGETS_AWS_SERVICE_H

#include "targets/target.h"

enum {
    AWS_CALL_MESSAGES_MAX = 10,
    AWS_CALL_BYTES_MAX = 256 * 1024, /* of a call with several messages */
    AWS_ATTRIBUTES_MAX = 10
};

struct aws_service;

struct aws_attribute {
    struct slice name, value;
};

/* A message as it is written into a call. */
struct aws_entry {
    const struct aws_service *service;
    size_t index;        /* in its call */
    struct slice queue;  /* of SQS: its URL. Of SNS: the ARN */
    struct slice body;   /* text */
    struct slice group;  /* of a FIFO queue; or empty */
    struct slice repeat; /* the ID that identifies repetitions in a FIFO queue; or empty */
    struct aws_attribute attributes[AWS_ATTRIBUTES_MAX];
    size_t attribute_count;
};

/* What became of a message, as the service reports it. */
struct aws_answer {
    bool is_done;
    bool is_our_fault; /* the service blames the message or the sender */
    char code[64];
    char text[128];
};

struct aws_service {
    const char *name; /* in signatures: "sqs" */
    const char *content_type;
    const char *action;  /* value of X-Amz-Target, or NULL */
    size_t messages_max; /* per call */
    /* Returns the name of the queue for the service, in `scratch`, from the filled-in URL. */
    struct slice (*queue)(struct slice origin, struct slice path, struct buffer *scratch);
    void (*begin)(struct buffer *out, struct slice queue);
    void (*append)(struct buffer *out, const struct aws_entry *entry);
    void (*end)(struct buffer *out);
    /* Reads the answer of a call with status 200 for the message at `index`. Returns false if it
     * does not name the message. */
    bool (*read)(struct slice body, size_t index, struct aws_answer *out);
    /* Reads an error of the whole call. */
    void (*read_error)(struct slice body, struct aws_answer *out);
};

extern const struct aws_service aws_sqs, aws_sns;

/* Sets the report for a message that was not accepted. */
void aws_evaluate(const struct aws_answer *answer, uint32_t status, struct target_report *out);
/* Returns the region that a host names, such as "sqs.eu-west-1.amazonaws.com", or an empty
 * slice. */
struct slice aws_region_of_host(struct slice host);
/* The same for an ARN, such as "arn:aws:sns:eu-west-1:123456789012:orders". */
struct slice aws_region_of_arn(struct slice arn);

#endif
