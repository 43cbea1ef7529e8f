/*
 * settings: the settings of a topic between JSON and the queue: read, written, patched and compared.
 * Pure except for the hooks.
 *
 * The members `deliver` and `dead_letter` are the topic's extension: one compact JSON object with
 * its members in this order, each only if given. The hooks (front.h) check their content; here they
 * are only extracted from JSON, stored and shown.
 */
#ifndef TARRY_API_SETTINGS_H
#define TARRY_API_SETTINGS_H

#include "http/front.h"
#include "http/query.h"

enum { API_PATCH_BYTES_MAX = 16 * 1024 }; /* of a patch, and of its result */

/* Size of the buffer for an extension. It is larger than TOPIC_EXTENSION_BYTES_MAX, so that a
 * refusal can report the excess. */
enum { API_EXTENSION_TEXT_MAX = JOB_BODY_BYTES_MAX + 64 };

/* Reads a JSON object of settings, in the format of GET, on top of the values in `fields`.
 * Unescapes into `scratch`, which has room for the text; appends `deliver` and `dead_letter` to
 * `extension`. */
bool api_settings_read(struct slice json, struct http_fields *fields, struct buffer *scratch,
                       struct buffer *extension, struct http_fault *fault);

/* Copies the settings given by options; without extension. */
void api_fields_settings(const struct http_fields *fields, struct topic_settings *settings);

/* Checks an extension with the hooks. An empty one is always valid. One with `deliver` is invalid
 * if delivery is disabled; dead letters can be configured without delivery. */
bool api_extension_check(const struct http_hooks *hooks, struct slice topic, struct slice extension,
                         struct http_fault *fault);
/* Writes the object of GET. */
void api_settings_write(struct buffer *out, const struct topic_settings *settings);

/* Applies a merge patch to `settings`: appends an object for api_settings_read to `out`. */
bool api_settings_patch(const struct topic_settings *settings, struct slice patch,
                        struct buffer *out, struct http_fault *fault);
/* Merges the patch into the settings that the topic has. The extension of `out` is in `extension`. */
bool api_settings_merge(const struct topic_settings *held, struct slice patch,
                        struct buffer *extension, struct topic_settings *out,
                        struct http_fault *fault);

/* Keeps what makes a topic a FIFO queue of SQS in settings that replace those that it has.
 * `has_order`: they have their own group_order. A new extension is in `out`. */
bool api_settings_keep_fifo(const struct topic_settings *held, struct topic_settings *settings,
                            bool has_order, struct buffer *out, struct http_fault *fault);

/* Writes which settings differ, for the audit: "ttl: 60s -> unset; …". */
void api_settings_write_differences(struct buffer *out, const struct topic_settings *held,
                                    const struct topic_settings *settings);

#endif
