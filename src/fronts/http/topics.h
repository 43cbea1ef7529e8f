/*
 * topics: all of them, one, pause, resume, and their end; a sample sent to their target; their
 * settings, replaced as a whole or changed by a merge patch. What is declared here are the settings
 * between JSON and the queue, pure but for the hooks.
 *
 * The members `deliver` and `dead_letter` are the topic's extension: one JSON object without blanks,
 * its members in this order, each only where it was given. What is right in them the hooks know
 * (front.h); here they are only cut out of JSON, kept, and shown.
 */
#ifndef TARRY_HTTP_TOPICS_H
#define TARRY_HTTP_TOPICS_H

#include "http/front.h"
#include "http/query.h"

enum { HTTP_PATCH_BYTES_MAX = 16 * 1024 }; /* of a patch, and of what it makes */

/* Beyond TOPIC_EXTENSION_BYTES_MAX it is refused; a buffer of so much can say by how much. */
enum { HTTP_EXTENSION_TEXT_MAX = JOB_BODY_BYTES_MAX + 64 };

/* Reads a JSON object of settings as GET shows them, on top of what `fields` hold. Unescapes into
 * `scratch`, which has room for the text; `deliver` and `dead_letter` go onto `extension`. */
bool http_settings_read(struct slice json, struct http_fields *fields, struct buffer *scratch,
                        struct buffer *extension, struct http_fault *fault);

/* The settings that options give; no extension. */
void http_fields_settings(const struct http_fields *fields, struct topic_settings *settings);

/* Asks the hooks. An empty extension is always right; one with `deliver` never where delivery is
 * off, while dead letters can be kept in order without it. */
bool http_extension_check(const struct http_hooks *hooks, struct slice topic,
                          struct slice extension, struct http_fault *fault);
/* The object that GET shows. */
void http_settings_write(struct buffer *out, const struct topic_settings *settings);

/* `settings` as the merge patch wants them: an object for http_settings_read, onto `out`. */
bool http_settings_patch(const struct topic_settings *settings, struct slice patch,
                         struct buffer *out, struct http_fault *fault);

#endif
