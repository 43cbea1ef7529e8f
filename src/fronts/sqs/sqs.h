/*
 * sqs: the calls of Amazon SQS by AWS JSON 1.0, for its SDKs, on the HTTP port: a queue is a topic, a
 * message a job, a receipt handle its lease.
 *
 * All of it is POST, to any path of one or two parts, with X-Amz-Target. The older query protocol, FIFO,
 * policies and keys of KMS are refused by their own errors. One thread: the front's reactor.
 */
#ifndef TARRY_SQS_SQS_H
#define TARRY_SQS_SQS_H

struct http_shared;

enum { SQS_REGION_BYTES = 64, SQS_ACCOUNT_BYTES = 32 };

struct sqs_options {
    char region[SQS_REGION_BYTES], account[SQS_ACCOUNT_BYTES]; /* in ARNs and QueueUrls */
};

/* Before the reactors run; `options` outlives the fronts. */
void sqs_add(struct http_shared *shared, const struct sqs_options *options);

#endif
