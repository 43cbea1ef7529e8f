/*
 * event: the message of a job as a CloudEvent 1.0. Pure.
 *
 * Source: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md
 *
 * In binary mode the body stays the job's, and the attributes are headers of the kind's own form.
 * In structured mode the body is a JSON object with the attributes and the data. The ID and the
 * time are the same for all attempts of a job.
 */
#ifndef TARRY_TARGETS_EVENT_H
#define TARRY_TARGETS_EVENT_H

#include "job/job.h"
#include "targets/setting.h"

#define TARGET_EVENT_SOURCE "/topics/{topic}"
#define TARGET_EVENT_TYPE "{topic}"
#define TARGET_EVENT_CONTENT_TYPE "application/cloudevents+json"
enum { TARGET_EVENT_TEXT_BYTES_MAX = 1024 }; /* of a source or type, filled in */

/* How a kind writes attributes in binary mode. All zero: it does not have this mode. */
struct target_event_form {
    const char *prefix;  /* of their names */
    bool escapes_values; /* percent-encoded as in the HTTP binding; else UTF-8 */
};

/* Appends the attributes, encoded as a meta. `id` identifies the message (message_id.h). Returns
 * NULL, or why the job is not a valid event. Out of memory sets the failure flag of `out`. */
const char *target_event_attributes(const struct target_event_setting *event,
                                    const struct target_event_form *form, const struct job *job,
                                    struct slice id, struct buffer *out);
/* The same for the JSON object of structured mode. */
const char *target_event_json(const struct target_event_setting *event, const struct job *job,
                              struct slice id, struct buffer *out);
/* Returns the maximum size of the JSON. */
size_t target_event_json_bytes_max(const struct job *job);

#endif
