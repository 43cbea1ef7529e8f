/* json: the JSON form of a job's parts, shared by HTTP and targets. Pure. */
#ifndef TARRY_JOB_JSON_H
#define TARRY_JOB_JSON_H

#include "job/job.h"

/* Returns whether the type is application/json or something+json, with or without parameters. */
bool job_type_is_json(struct slice type);
/* Returns the type without its parameters and the blanks before them. */
struct slice job_type_plain(struct slice type);

/* Appends `,"body":…` or `,"body_base64":…`: JSON stays a JSON value if the type is JSON; other
 * text becomes a string; other bytes are in base64. */
void job_json_body(struct buffer *out, const struct job *job);
/* Appends `,"content_type":…`. A type that is not printable ASCII was stored by an earlier version;
 * pushes now refuse it. */
void job_json_content_type(struct buffer *out, struct slice type);

#endif
