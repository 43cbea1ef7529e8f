/*
 * request: one call of SQS from its head to its answer. What it asks for is kept in the exchange's note,
 * and read again by whoever the queue's reply comes to: nothing else outlives a handler. Answers and
 * errors in the forms that SDKs expect.
 */
#ifndef TARRY_SQS_REQUEST_H
#define TARRY_SQS_REQUEST_H

#include "base/json_read.h"
#include "http/connection.h"
#include "sqs/sqs.h"

enum { SQS_NAME_BYTES_MAX = 80, SQS_BATCH_MAX = 10 };

/* ---- errors ---- */

enum sqs_fault {
    SQS_OK = 0,
    SQS_NO_QUEUE,
    SQS_QUEUE_EXISTS,
    SQS_BAD_VALUE,
    SQS_MISSING,
    SQS_BAD_ATTRIBUTE_NAME,
    SQS_BAD_ATTRIBUTE_VALUE,
    SQS_BAD_CONTENTS,
    SQS_BAD_HANDLE,
    SQS_NOT_IN_FLIGHT,
    SQS_EMPTY_BATCH,
    SQS_LONG_BATCH,
    SQS_BATCH_IDS,
    SQS_BATCH_ID,
    SQS_BATCH_BYTES,
    SQS_UNSUPPORTED,
    SQS_UNKNOWN,
    SQS_DENIED,
    SQS_UNSIGNED,
    SQS_INCOMPLETE_SIGNATURE,
    SQS_BAD_SIGNATURE,
    SQS_UNKNOWN_KEY,
    SQS_THROTTLED,
    SQS_NO_RESOURCE,
    SQS_BUSY,
    SQS_BROKEN
};
/* The code that batches and the older protocol give it. */
const char *sqs_fault_code(enum sqs_fault fault);
/* Whose fault it is is said too: all but BUSY and BROKEN are the sender's. */
bool sqs_fault_is_senders(enum sqs_fault fault);

struct sqs_error {
    enum sqs_fault fault;
    char message[256];
};
/* False, for returns. */
bool sqs_error_set(struct sqs_error *error, enum sqs_fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What a status of the queue means; OK and all that are a success mean none. */
bool sqs_error_of(struct sqs_error *error, enum queue_status status);

/* ---- what is kept ---- */

struct sqs_operation;

struct sqs_request {
    struct http_exchange *exchange;
    const struct sqs_options *options;
    const struct sqs_operation *operation;
    struct slice queue;       /* its name; empty: the call names none */
    struct slice host;        /* by which the client called the server */
    struct json_value fields; /* the object that was sent */
    struct slice trace;       /* the header X-Amzn-Trace-Id; empty: it was not sent */
    struct slice learned;     /* by an operation of several steps; empty: nothing yet */
};

/* Keeps the call. `fields`: the JSON object of its body. False: out of memory. */
bool sqs_request_keep(struct http_call *call, const struct sqs_operation *operation,
                      struct slice queue, struct slice fields);
/* Keeps what the next step needs to know; once. False: out of memory. *request is another one then. */
bool sqs_request_learn(struct sqs_request *request, struct slice learned);
/* Of an exchange that was kept; slices point into its note. */
struct sqs_request sqs_request_of(struct http_exchange *exchange);
/* The same by the tag of a reply; false: there is nobody to answer. */
bool sqs_request_find(void *front, uint64_t tag, struct sqs_request *out);
/* By the clock of the jobs, which may be a test's. */
int64_t sqs_request_now_ms(const struct sqs_request *request);
struct queue_reply_to sqs_reply_to(const struct sqs_request *request, queue_done *done);
/* Of a step that is tarry's own: no rule of the caller applies to it. */
struct queue_reply_to sqs_own_reply_to(const struct sqs_request *request, queue_done *done);

/* Reads the topic of a call that was kept, and carries out its operation. */
void sqs_look_up(const struct sqs_request *request);

/* ---- members ---- */

/* JSON_NONE: there is none; null is none. */
struct json_value sqs_member(struct json_value object, const char *name);
/* A string of the front's arena or the text itself; empty where there is none. Nothing may have been
 * taken from the arena that is still needed. */
struct slice sqs_text(const struct sqs_request *request, struct json_value value);
/* A whole number, or one as a string; `standard` where there is none. False: out of its range, and the
 * error is set. */
bool sqs_number(struct json_value value, const char *name, int64_t least, int64_t most,
                int64_t standard, int64_t *out, struct sqs_error *error);

/* ---- answers ---- */

/* Ends with the body that was written since http_answer_start. */
void sqs_answer(const struct sqs_request *request);
void sqs_answer_empty(const struct sqs_request *request);
void sqs_answer_error(struct http_exchange *exchange, const struct sqs_error *error);
/* The form of the older protocol. */
void sqs_answer_query_error(struct http_exchange *exchange);

/* `{"QueueUrl":…`-like texts: the URL by the name of the Host header. */
void sqs_write_url(const struct http_exchange *exchange, struct slice host, struct slice queue,
                   struct buffer *out);

#endif
