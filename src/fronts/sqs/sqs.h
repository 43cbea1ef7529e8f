/*
 * sqs: the calls of Amazon SQS over AWS JSON 1.0, for its SDKs, on the HTTP port: a queue is a
 * topic, a message a job, a receipt handle its lease.
 *
 * All calls are POST, to any path of one or two parts, with X-Amz-Target. The query protocol, policies
 * and KMS keys are rejected with their own errors. Runs on the thread of the front's
 * reactor only.
 */
#ifndef TARRY_SQS_SQS_H
#define TARRY_SQS_SQS_H

struct http_shared;
struct sqs_topics;

enum { SQS_REGION_BYTES = 64, SQS_ACCOUNT_BYTES = 32 };

struct sqs_options {
    char region[SQS_REGION_BYTES], account[SQS_ACCOUNT_BYTES]; /* in ARNs and QueueUrls */
    struct sqs_topics *topics;                                 /* see topics.h */
};

/* Adds the SQS routes, before the reactors run; `options` must outlive the fronts. */
void sqs_add(struct http_shared *shared, const struct sqs_options *options);

#endif
