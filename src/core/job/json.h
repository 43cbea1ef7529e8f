/* json: what is told of a job in JSON wherever that is done: over HTTP, and to targets. Pure. */
#ifndef TARRY_JOB_JSON_H
#define TARRY_JOB_JSON_H

#include "job/job.h"

/* application/json or something+json, with or without parameters. */
bool job_type_is_json(struct slice type);
/* The type without its parameters and the blanks before them. */
struct slice job_type_plain(struct slice type);

/* `,"body":…` or `,"body_base64":…`: JSON stays the value it is where the type says so; other text is a
 * string; bytes are in base64. */
void job_json_body(struct buffer *out, const struct job *job);
/* `,"content_type":…`. One that is not printable ASCII was kept by a version before; no push would take
 * it again. */
void job_json_content_type(struct buffer *out, struct slice type);

#endif
