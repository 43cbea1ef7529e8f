/*
 * json: a job as JSON. One table has a row for each member: the forms that have it, how it is
 * written, how it is read, and how it gets from a list into an export. So a new member of a job is
 * one row. Pure.
 */
#ifndef TARRY_JOB_JSON_H
#define TARRY_JOB_JSON_H

#include "base/json_read.h"
#include "job/batch.h"
#include "job/job.h"
#include "job/record.h"

enum job_form {
    JOB_FORM_TAKEN = 1,    /* the answer to a take: with lease */
    JOB_FORM_KEPT = 2,     /* get and list: with state, history and the job's own settings */
    JOB_FORM_SENT = 4,     /* the message to a target */
    JOB_FORM_EXPORTED = 8, /* a line of an export, which is also an item of a batch */
    JOB_FORM_FINISHED = 32 /* get and list: a finished job, without what only a live one has */
};

enum job_form_body {
    JOB_BODY_NONE = 1,
    JOB_BODY_SHOWN, /* JSON if type and body are JSON, text if it is UTF-8, else base64 */
    JOB_BODY_EXACT  /* base64 */
};

/* Appends a job as an object. `lease` is empty unless the form is JOB_FORM_TAKEN. */
void job_json_write(struct buffer *out, const struct job *job, struct slice lease,
                    enum job_form form, enum job_form_body body);

/* Appends `,"KEY":` and the bytes as JSON or a text, or `,"KEY_base64":` (enum job_form_body). */
void job_json_write_bytes(struct buffer *out, const char *key, struct slice type,
                          struct slice bytes, enum job_form_body form);

/* Appends `,"lease_for":…` and the other members of a policy that are set. */
void job_json_write_policy(struct buffer *out, const struct policy *policy);

/* Appends `,"limit":…` and the other members of the flow of a topic that are set. */
void job_json_write_flow(struct buffer *out, const struct topic_flow *flow);

/* Appends `,"weight":…` and the other settings of a group that are set. */
void job_json_write_group(struct buffer *out, const struct group_settings *settings);

/* Reads a member of the flow of a topic. Returns false if it is not one; sets *is_good if its value is valid. */
bool job_json_read_flow(struct slice key, struct json_value value, struct buffer *text,
                        struct topic_flow *out, bool *is_good);

/* Appends a job of JOB_FORM_KEPT, a checked object, as JOB_FORM_EXPORTED, without its body and
 * without the final brace. Members that it does not have are left out. Returns false if the topic,
 * the id or the due is missing. */
bool job_json_export(struct buffer *out, struct json_value kept);

/* Returns the number of ended attempts of such a job. */
int64_t job_json_attempts(struct json_value kept);

/* The content of a line of an export. */
struct job_json {
    struct job job;                   /* due_ms: of `at`; priority: JOB_PRIORITY if not given */
    enum record_conflict on_conflict; /* 0: not given */
    int64_t delay_ms;
    struct job_batch batch;
    struct batch_counts ended; /* of a waiting job: the members that have ended */
    bool has_at, has_delay, has_priority, has_ended;
};

/* Reads a line of an export, a checked object. Unescapes and decodes into `text`, and collects the
 * metas in `meta`, which is emptied first. `text` must have room for twice the length of the line,
 * because the slices of *out point into the line and into `text`. Returns false at an unknown
 * member and at an invalid value. */
bool job_json_read(struct json_value line, struct buffer *text, struct buffer *meta,
                   struct job_json *out);

/* Reads the outcomes of members that have ended: {"acked":3,"dead":0,"cancelled":0,"expired":0,"missing":1}. The last is
 * BATCH_UNFINISHED. Sets *is_whole if it has all five. Returns false at an unknown name and a bad number. */
bool job_json_read_outcomes(struct json_value value, struct batch_counts *out, bool *is_whole);

/* Appends `,"ended":` and the outcomes, of a waiting job those of its members that are not jobs any more, else all. */
void job_json_write_outcomes(struct buffer *out, const struct batch_counts *counts, bool waits);

/* Reads a member of a policy. Returns false if it is not one; sets *is_good if its value is
 * valid. */
bool job_json_read_policy(struct slice key, struct json_value value, struct buffer *text,
                          struct policy *out, bool *is_good);

/* Read a value of a line. A duration is a text or a number of milliseconds. */
bool job_json_read_text(struct json_value value, struct buffer *text, struct slice *out);
bool job_json_read_number(struct json_value value, int64_t most, int64_t *out);
bool job_json_read_duration(struct json_value value, struct buffer *text, int64_t *out);
bool job_json_read_conflict(struct json_value value, enum record_conflict *out);

/* Reads the body of a line or an item. A string is its text, unless the type is JSON; any other
 * value is kept as JSON. Sets the type if it is empty. */
bool job_json_read_body(struct json_value value, struct buffer *text, struct slice *type,
                        struct slice *out);

/* Returns whether the type is application/json or something+json, with or without parameters. */
bool job_type_is_json(struct slice type);
/* Returns the type without its parameters and the blanks before them. */
struct slice job_type_plain(struct slice type);

#endif
