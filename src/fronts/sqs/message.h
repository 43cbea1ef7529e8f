/*
 * message: the parts of a message: its id, its receipt handle and its attributes. Pure.
 */
#ifndef TARRY_SQS_MESSAGE_H
#define TARRY_SQS_MESSAGE_H

#include "sqs/request.h"

#include "base/slice.h"
#include "job/job.h"

/* ---- the id ---- */

/*
 * The id of a job is shown as a UUID, which SDKs parse. A ULID is shown as the same 128 bits;
 * any other id as the UUID of version 5 of topic and id (RFC 4122, in a namespace of tarry). Pure.
 */

enum { SQS_MESSAGE_ID_BYTES = 36 };

void sqs_message_id(struct slice topic, struct slice id, char out[SQS_MESSAGE_ID_BYTES]);

enum { SQS_SEQUENCE_BYTES = 39 };

/* Writes the SequenceNumber of a message: the 128 bits of a ULID, in decimal with leading zeros. Numbers of one
 * server thread rise strictly, and those of all threads by the millisecond. Returns false for another id, which has no
 * number. */
bool sqs_sequence_number(struct slice id, char out[SQS_SEQUENCE_BYTES]);

/* ---- the receipt handle ---- */

/* The lease of a delivery, which proves that the caller received the message, and the id of its
 * job. */
struct sqs_handle { /* "LEASE~ID", or only LEASE, which cannot delete after the lease has ended */
    struct slice lease, id;
};

/* Writes the handle as a JSON string. */
void sqs_handle_write(const struct queue_job *taken, struct buffer *out);
/* Parses a handle; slices point into the text. Returns false if the text is not a handle. */
bool sqs_handle_read(struct slice text, struct sqs_handle *out);

/* ---- attributes ---- */

/*
 * They are validated, stored with the job as tarry's own metas, and selected by name for a reply.
 * SDKs compare their digests.
 */

enum { SQS_ATTRIBUTES_MAX = 10, SQS_ATTRIBUTES_BYTES_MAX = 3500, SQS_MD5_TEXT_BYTES = 32 };

/* Writes the MD5 as lower-case hex. */
void sqs_md5(struct slice bytes, char out[SQS_MD5_TEXT_BYTES]);

/* Validates message attributes. `attributes`: the object from the request, or JSON_NONE. Returns
 * false and sets the error if one is invalid. */
bool sqs_attributes_check(struct json_value attributes, struct sqs_error *error);
/* Does the same for the message system attributes, which SQS itself defines. */
bool sqs_system_attributes_check(struct json_value attributes, struct sqs_error *error);
/* Computes the digest of validated attributes. Returns false if the object is empty, or if memory
 * runs out. */
bool sqs_attributes_md5(struct json_value attributes, char out[SQS_MD5_TEXT_BYTES]);

/* Adds the attributes to a job's metas. Returns false if they are too large. */
bool sqs_attributes_keep(struct json_value attributes, struct buffer *meta);
/* Appends a job's attributes to `out`, as the text of an object; appends nothing if the job has no
 * attributes. */
void sqs_attributes_restore(struct slice meta, struct buffer *out);
/* Appends those of `attributes` that `names` selects (a JSON array; also "All", "*", ".*" and
 * "NAME.*"), as the text of an object; appends nothing if no name matches. */
void sqs_attributes_select(struct json_value attributes, struct json_value names,
                           struct buffer *out);
/* Returns whether `names` selects this name. */
bool sqs_names_have(struct json_value names, struct slice name);

#endif
