/*
 * attribute: message attributes: validates them, stores them with the job as tarry's own metas,
 * selects them by name for a reply, and computes the digests that SDKs compare. Pure.
 */
#ifndef TARRY_SQS_ATTRIBUTE_H
#define TARRY_SQS_ATTRIBUTE_H

#include "job/job.h"
#include "sqs/request.h"

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
