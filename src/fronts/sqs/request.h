/*
 * request: one SQS call, from its headers to its reply. The call's parameters are stored in the
 * exchange's note, and each callback of a queue reply reads them again: no other state outlives a
 * handler. Replies and errors have the form that SDKs expect.
 */
#ifndef TARRY_SQS_REQUEST_H
#define TARRY_SQS_REQUEST_H

#include "sqs/sqs.h"

#include "base/json_read.h"
#include "http/connection.h"

#include <string.h>

struct queue_topic;
struct sqs_numbers;
struct sqs_request;

/* operation: the tables of SQS operations and their handlers. */

enum sqs_names {
    SQS_NAMES_NOTHING = 1,
    SQS_NAMES_URL,  /* QueueUrl */
    SQS_NAMES_NAME, /* QueueName */
    SQS_NAMES_NEW   /* QueueName of a queue that need not exist */
};

struct sqs_operation {
    const char *name;
    enum sqs_names names;
    uint8_t scopes; /* bits of enum access_scope; one of them is required for the queue */
    /* Handles the call and replies, immediately or later. `topic`: its current state; NULL: the
     * call names no queue, or a new one. If both are NULL the operation is unsupported, and `why`
     * is the reason. */
    void (*act)(struct sqs_request *request, const struct queue_topic *topic);
    /* In place of `act`, for an operation on messages, which only needs these settings. */
    void (*message)(struct sqs_request *request, const struct sqs_numbers *queue);
    const char *why; /* of a batch of messages: the name of its entries */
    const char
        *audit; /* its name in the audit log; NULL: not recorded. All of scope admin have one */
};

/* Tables that end with a row without a name. */
extern const struct sqs_operation sqs_queue_operations[];
extern const struct sqs_operation sqs_move_operations[];

/* messages: the operations on messages, and the metas in which the front stores SQS properties of a
 * message. */

#define SQS_META_SENT JOB_META_OWN "sqs-sent"
#define SQS_META_TRACE JOB_META_OWN "sqs-trace"
#define SQS_META_GROUP JOB_META_OWN "sqs-group"
#define SQS_META_ONCE JOB_META_OWN "sqs-once" /* MessageDeduplicationId, or the hash of the body */

void sqs_send(struct sqs_request *request, const struct sqs_numbers *queue);
void sqs_receive(struct sqs_request *request, const struct sqs_numbers *queue);
/* Deletes messages or changes their visibility, according to the operation's name. */
void sqs_release(struct sqs_request *request, const struct sqs_numbers *queue);

enum { SQS_NAME_BYTES_MAX = 80, SQS_BATCH_MAX = 10 };

/* Returns whether the name is that of a FIFO queue, which ends in ".fifo". */
static inline bool sqs_name_is_fifo(struct slice name)
{
    static const char end[] = ".fifo";
    size_t len = sizeof end - 1;
    return name.len > len && memcmp(name.at + name.len - len, end, len) == 0;
}

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

struct sqs_error {
    enum sqs_fault fault;
    char message[256];
};
/* Sets the error and returns false. */
bool sqs_error_set(struct sqs_error *error, enum sqs_fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets the error for a status of the queue. Returns true if the status is OK or another success. */
bool sqs_error_of(struct sqs_error *error, enum queue_status status);

/* ---- stored parameters ---- */

struct sqs_operation;

struct sqs_request {
    struct http_exchange *exchange;
    const struct sqs_options *options;
    const struct sqs_operation *operation;
    struct slice queue;       /* the queue's name; empty: the call names no queue */
    struct slice host;        /* the host name that the client used for the server */
    struct json_value fields; /* the object in the request body */
    struct slice trace;       /* the header X-Amzn-Trace-Id; empty: absent */
    struct slice learned;     /* stored by an operation of several steps; empty: not stored yet */
};

/* Stores the call. `fields`: the JSON object of its body. Returns false if memory runs out. */
bool sqs_request_keep(struct http_call *call, const struct sqs_operation *operation,
                      struct slice queue, struct slice fields);
/* Stores what the next step requires; once per call. Returns false if memory runs out. *request is
 * reread afterwards. */
bool sqs_request_learn(struct sqs_request *request, struct slice learned);
/* Returns the request of an exchange that was stored; slices point into its note. */
struct sqs_request sqs_request_of(struct http_exchange *exchange);
/* Does the same by the tag of a reply; returns false if the client is gone. */
bool sqs_request_find(void *front, uint64_t tag, struct sqs_request *out);
/* Returns the time by the clock of the jobs, which may be a test clock. */
int64_t sqs_request_now_ms(const struct sqs_request *request);
struct queue_reply_to sqs_reply_to(const struct sqs_request *request, queue_done *done);

/* ---- members ---- */

/* Returns JSON_NONE if the member is absent or null. */
struct json_value sqs_member(struct json_value object, const char *name);
/* Returns the string's text, unescaped in the front's arena if necessary; empty if it is not a
 * string. Invalidates earlier texts in the arena. */
struct slice sqs_text(const struct sqs_request *request, struct json_value value);
/* Reads an integer, or a string that contains one; `standard` if absent. Returns false and sets the
 * error if it is out of range. */
bool sqs_number(struct json_value value, const char *name, int64_t least, int64_t most,
                int64_t standard, int64_t *out, struct sqs_error *error);

/* ---- replies ---- */

/* Sends the body written since http_answer_start. */
void sqs_answer(const struct sqs_request *request);
void sqs_answer_error(struct http_exchange *exchange, const struct sqs_error *error);
/* Replies with an error in the form of the query protocol. */
void sqs_answer_query_error(struct http_exchange *exchange);

/* ---- entries ---- */

/* The entries of a batch, or the single entry of a call that is not a batch. */

struct sqs_entries {
    bool is_batch;
    size_t count;
    struct json_value at[SQS_BATCH_MAX]; /* the object of each entry */
    struct slice ids[SQS_BATCH_MAX];     /* raw, with quotes */
    struct sqs_error errors[SQS_BATCH_MAX];
};

/* Returns false and sets the error if the batch itself is invalid. */
bool sqs_entries_read(const struct sqs_request *request, struct sqs_entries *out,
                      struct sqs_error *error);
/* Writes the reply. `write` appends the members of the successful entry `i`, each preceded by a
 * comma, without braces; NULL: no members. */
void sqs_entries_answer(const struct sqs_request *request, struct sqs_entries *entries,
                        void (*write)(struct buffer *out, size_t i, void *ctx), void *ctx);

#endif
