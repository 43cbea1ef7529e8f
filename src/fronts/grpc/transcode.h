/*
 * transcode: messages as the JSON of REST, and the JSON of REST as messages. Pure.
 *
 * Calls of schedules and batches have many members whose rules belong to their handlers, which read and write JSON. The
 * descriptor of a message names the members, so a member costs one line of the .proto file. Fields that are not set are
 * left out; so are members without a field.
 *
 * | field | JSON |
 * |---|---|
 * | Duration, Timestamp | "1500ms", "2026-11-20T09:00:00.000Z" |
 * | Priority, Attempts | a number, "none" |
 * | enum ON_CONFLICT_KEEP | "keep" |
 * | bytes body | "body_base64"; answers may have the "body" of a job as JSON |
 * | map | an object |
 */
#ifndef TARRY_GRPC_TRANSCODE_H
#define TARRY_GRPC_TRANSCODE_H

#include "base/json_read.h"
#include "http/query.h"

#include <protobuf-c/protobuf-c.h>

/* Appends the members of a message that are set, without braces, except the fields in `without`, which ends with NULL or
 * is NULL. Returns false with *fault if a time or an enum is invalid. */
bool transcode_members(struct buffer *out, const ProtobufCMessage *message,
                       const char *const *without, struct http_fault *fault);

/* Appends the fields of a message in protobuf. `scratch` must have room for the length of the JSON text. Values of other kinds
 * than the field's are left out. */
void transcode_fields(struct buffer *out, struct json_value object,
                      const ProtobufCMessageDescriptor *descriptor, struct buffer *scratch);

#endif
