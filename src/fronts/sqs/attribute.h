/*
 * attribute: message attributes: checked, kept with the job as metas of tarry's own, given out again by
 * name, with the digests that SDKs compare. Pure.
 */
#ifndef TARRY_SQS_ATTRIBUTE_H
#define TARRY_SQS_ATTRIBUTE_H

#include "job/job.h"
#include "sqs/request.h"

enum { SQS_ATTRIBUTES_MAX = 10, SQS_ATTRIBUTES_BYTES_MAX = 3500, SQS_MD5_TEXT_BYTES = 32 };

/* Lower-case hex of the MD5. */
void sqs_md5(struct slice bytes, char out[SQS_MD5_TEXT_BYTES]);

/* `attributes`: the object that was sent, or JSON_NONE. False: the error says why it cannot be. */
bool sqs_attributes_check(struct json_value attributes, struct sqs_error *error);
/* The same of those that SQS itself defines for messages that are sent. */
bool sqs_system_attributes_check(struct json_value attributes, struct sqs_error *error);
/* The digest of all of them, which were checked. False: there are none, or out of memory. */
bool sqs_attributes_md5(struct json_value attributes, char out[SQS_MD5_TEXT_BYTES]);

/* Adds them to a job's metas. False: too much. */
bool sqs_attributes_keep(struct json_value attributes, struct buffer *meta);
/* Those of a job, as the object's text, appended to `out`; nothing where there are none. */
void sqs_attributes_restore(struct slice meta, struct buffer *out);
/* Those of `attributes` that `names` (a JSON array; "All", "*", ".*" and "NAME.*" as well) asks for, as an
 * object's text; nothing where there are none. */
void sqs_attributes_select(struct json_value attributes, struct json_value names,
                           struct buffer *out);
/* Does `names` ask for this one? */
bool sqs_names_have(struct json_value names, struct slice name);

#endif
