/* What the files that write and read records share; this room only. */
#ifndef TARRY_JOB_RECORD_PRIVATE_H
#define TARRY_JOB_RECORD_PRIVATE_H

#include "job/record.h"
#include "job/wire.h"

/* Of a policy's fields: in bits POLICY_SHIFT and up of a job's, in the lowest of a topic's. */
enum { POLICY_FIELDS = (1 << 4) - 1 };

static inline uint16_t record_take_priority(struct wire_in *in)
{
    return (uint16_t)wire_take_varint(in, 0, JOB_PRIORITY_MAX);
}

/* ---- record_topic.c ---- */
unsigned record_policy_fields(const struct policy *policy);
char *record_put_policy(char *at, const struct policy *policy, unsigned fields);
void record_take_policy(struct wire_in *in, unsigned fields, struct policy *out);
char *record_put_topic(char *at, const struct record_topic *topic);
void record_take_topic(struct wire_in *in, struct record_topic *topic);

#endif
