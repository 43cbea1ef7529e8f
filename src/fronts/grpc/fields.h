/*
 * fields: values of a request as the options of the call (http/query.h), so that ranges and messages exist once. Pure.
 *
 * Each function sets an option that is given. It returns false with *fault if the value is invalid.
 */
#ifndef TARRY_GRPC_FIELDS_H
#define TARRY_GRPC_FIELDS_H

#include "http/query.h"

#include "tarry/v1/queue.pb-c.h"

struct fields {
    struct http_fields *out;
    struct http_fault *fault;
};

bool fields_text(struct fields *fields, enum http_option_id id, const char *text);
bool fields_number(struct fields *fields, enum http_option_id id, uint64_t number);
bool fields_flag(struct fields *fields, enum http_option_id id, bool flag);
bool fields_duration(struct fields *fields, enum http_option_id id,
                     const Google__Protobuf__Duration *duration);
bool fields_time(struct fields *fields, enum http_option_id id,
                 const Google__Protobuf__Timestamp *time);
/* Convert to milliseconds; a started one counts. */
bool fields_ms_of_duration(const Google__Protobuf__Duration *duration, int64_t *ms,
                           struct http_fault *fault);
bool fields_ms_of_time(const Google__Protobuf__Timestamp *time, int64_t *ms,
                       struct http_fault *fault);
bool fields_priority(struct fields *fields, const Tarry__V1__Priority *priority);
bool fields_attempts(struct fields *fields, const Tarry__V1__Attempts *attempts);
bool fields_conflict(struct fields *fields, Tarry__V1__OnConflict conflict);
bool fields_state(struct fields *fields, Tarry__V1__State state);

#endif
