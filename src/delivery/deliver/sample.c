/*
 * sample: one test message that is not a job, sent to a topic's target to show the result.
 *
 * It takes the same path as all messages, through the endpoint with its target. But breakers do not
 * block it, and no queue is involved.
 */
#include "base/clock.h"
#include "base/json_write.h"
#include "base/random.h"
#include "deliver/check.h"
#include "deliver/state.h"
#include "targets/template.h"

#include <stdio.h>
#include <stdlib.h>

enum { EXPLAINED_BYTES_MAX = 16 * 1024, JSON_BYTES_MAX = 64 * 1024 };

struct sample {
    struct endpoint_request request;
    struct deliver *deliver;
    deliver_tested *done;
    void *owner;
    uint64_t tag;
    char topic[JOB_TOPIC_BYTES_MAX];
    size_t topic_bytes;
    char id[32];
    int64_t now_ms;
    struct target_setting setting;
    struct buffer body, endpoint, explained;
    struct target_report report; /* its result is not valid any more */
    size_t result_bytes;
    int64_t took_ms;
    bool is_allowed, was_sent;
    char error[DELIVER_ERROR_BYTES];
};

/* ---- the result ---- */

/* Returns the name of the signing keys; empty if unsigned. */
static const char *sample_signer(struct sample *sample)
{
    struct guard_key keys[GUARD_KEYS_MAX];
    const struct target_setting *setting = &sample->setting;
    const char *name = setting->sign && setting->sign[0] ? setting->sign : "default";
    if (setting->never_signs)
        return "";
    size_t count = guard_find_keys(sample->deliver->options.guard, slice_of(name), keys);
    explicit_bzero(keys, sizeof keys);
    return count > 0 ? name : "";
}

static bool is_http(const struct sample *sample)
{
    return sample->endpoint.len > 4 && memcmp(sample->endpoint.at, "http", 4) == 0;
}

static const char *sample_hint(const struct sample *sample)
{
    uint32_t code = sample->report.code;
    if (!sample->was_sent)
        return "correct the fault in 'error', then try again";
    if (sample->report.outcome == TARGET_DONE)
        return "jobs of this topic are delivered like this sample";
    if (is_http(sample) && (code == 401 || code == 403))
        return "the endpoint rejects the sample: compare its key with the one in the policy file";
    if (is_http(sample) && (code == 404 || code == 405 || code == 410))
        return "the endpoint has no such path: check 'to'";
    if (is_http(sample) && code >= 300 && code < 400)
        return "redirects are not followed: give the final address as 'to'";
    if (code == 429 || code == 503)
        return "the endpoint is busy: lower max_in_flight or rate";
    if (sample->report.outcome == TARGET_REFUSED)
        return "jobs with this outcome are dead immediately";
    if (sample->report.outcome == TARGET_UNSENT)
        return "nothing was sent: check that the name of the endpoint resolves, that it runs, and "
               "that its host is allowed";
    return "jobs with this outcome are retried by the topic's retry policy";
}

static void write_lines(struct buffer *out, struct slice lines)
{
    bool first = true;
    buffer_append_text(out, ",\"explained\":[");
    while (lines.len > 0) {
        const char *end = memchr(lines.at, '\n', lines.len);
        size_t len = end ? (size_t)(end - lines.at) : lines.len;
        if (len > 0) {
            buffer_append_text(out, first ? "" : ",");
            json_write_string(out, slice_make(lines.at, len));
            first = false;
        }
        lines = slice_make(lines.at + len + (end != NULL), lines.len - len - (end != NULL));
    }
    buffer_append_byte(out, ']');
}

static void sample_write_outcome(struct sample *sample, struct buffer *out)
{
    const struct target_report *report = &sample->report;
    json_write_member_text(out, "outcome", slice_of(target_outcome_name(report->outcome)));
    json_write_member_number(out, "duration_ms", (uint64_t)sample->took_ms);
    if (report->code > 0)
        json_write_member_number(out, "code", (uint64_t)report->code);
    if (report->retry_after_ms >= 0)
        json_write_member_number(out, "retry_after_ms", (uint64_t)report->retry_after_ms);
    if (report->loss)
        json_write_member_text(out, "result_dropped", slice_of(target_loss_name(report->loss)));
    else if (sample->setting.takes_result && report->outcome == TARGET_DONE)
        json_write_member_number(out, "result_bytes", sample->result_bytes);
}

static void sample_emit(struct sample *sample, struct buffer *out)
{
    const char *to = sample->setting.to ? sample->setting.to : "";
    buffer_append_text(out, "{\"topic\":");
    json_write_string(out, slice_make(sample->topic, sample->topic_bytes));
    json_write_member_text(out, "id", slice_of(sample->id));
    json_write_member_text(out, "to", slice_of(to));
    json_write_member_text(out, "endpoint", buffer_slice(&sample->endpoint));
    buffer_append_text(out, sample->is_allowed ? ",\"allowed\":true" : ",\"allowed\":false");
    if (is_http(sample))
        json_write_member_text(out, "signed_with", slice_of(sample_signer(sample)));
    if (sample->was_sent)
        sample_write_outcome(sample, out);
    else
        json_write_member_text(out, "outcome", slice_of("unsent"));
    const char *error = sample->was_sent ? sample->report.error : sample->error;
    if (error[0])
        json_write_member_text(out, "error", slice_of(error));
    json_write_member_text(out, "hint", slice_of(sample_hint(sample)));
    write_lines(out, buffer_slice(&sample->explained));
    buffer_append_byte(out, '}');
}

/* ---- the end ---- */

static void sample_finish(struct sample *sample, enum queue_status status)
{
    struct deliver *deliver = sample->deliver;
    struct buffer json;
    buffer_init(&json, JSON_BYTES_MAX);
    if (status == QUEUE_OK)
        sample_emit(sample, &json);
    if (json.failed)
        status = QUEUE_NO_MEMORY;
    sample->done(sample->owner, sample->tag, status,
                 status == QUEUE_OK ? buffer_slice(&json) : slice_make(NULL, 0));
    buffer_fini(&json);
    buffer_fini(&sample->body);
    buffer_fini(&sample->endpoint);
    buffer_fini(&sample->explained);
    target_setting_fini(&sample->setting);
    free(sample);
    deliver->samples--;
    deliver_check_stopped(deliver);
}

static void on_reported(struct endpoint_request *request, const struct target_report *report,
                        int64_t took_ms)
{
    struct sample *sample = list_entry(request, struct sample, request);
    sample->report = *report;
    sample->result_bytes = report->result.len;
    sample->took_ms = took_ms;
    sample_finish(sample, QUEUE_OK);
}

/* ---- sending ---- */

static bool sample_give(struct sample *sample)
{
    int64_t wait_ms;
    const struct job job = {.topic = slice_make(sample->topic, sample->topic_bytes),
                            .id = slice_of(sample->id),
                            .content_type = slice_of("application/json"),
                            .body = buffer_slice(&sample->body),
                            .state = JOB_LEASED,
                            .attempt = 1,
                            .due_ms = sample->now_ms,
                            .first_due_ms = sample->now_ms};
    const struct target_message message = {.job = &job,
                                           .setting = &sample->setting,
                                           .to = slice_of(sample->setting.to),
                                           .is_test = true,
                                           .explained = &sample->explained};
    enum endpoint_decision decision =
        endpoints_give(&sample->deliver->endpoints, &sample->request,
                       buffer_slice(&sample->endpoint), &message, &wait_ms);
    endpoints_flush(&sample->deliver->endpoints);
    if (decision != ENDPOINT_SENT)
        snprintf(sample->error, sizeof sample->error, "%s",
                 decision == ENDPOINT_INVALID   ? sample->deliver->endpoints.invalid
                 : decision == ENDPOINT_UNKNOWN ? "this build has no such target"
                                                : "too many endpoints in use, try again later");
    return decision == ENDPOINT_SENT;
}

static bool sample_send(struct sample *sample)
{
    char why[TARGET_ERROR_BYTES] = "";
    struct guard *guard = sample->deliver->options.guard;
    if (!target_endpoint(slice_of(sample->setting.to), &sample->endpoint, why)) {
        snprintf(sample->error, sizeof sample->error, "%s", why);
        return false;
    }
    sample->is_allowed = check_hosts(guard, buffer_slice(&sample->endpoint), sample->error);
    if (!sample->is_allowed)
        return false;
    if (sample->body.len == 0)
        buffer_append_format(&sample->body, "{\"test\":true,\"topic\":\"%.*s\",\"id\":\"%s\"}",
                             (int)sample->topic_bytes, sample->topic, sample->id);
    sample->was_sent = true; /* a report may set further fields */
    if (sample_give(sample))
        return true;
    sample->was_sent = false;
    return false;
}

static void on_topic(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sample *sample = owner;
    struct extension extension;
    char why[TARGET_ERROR_BYTES] = "";
    (void)tag;
    if (reply->status != QUEUE_OK || reply->topic_count != 1) {
        sample_finish(sample, reply->status != QUEUE_OK ? reply->status : QUEUE_NOT_FOUND);
        return;
    }
    bool ok = extension_parse(reply->topics[0].settings.extension, &extension, sample->error);
    if (!ok || extension.deliver.len == 0 || sample->deliver->endpoints.is_closing) {
        sample_finish(sample,
                      sample->deliver->endpoints.is_closing ? QUEUE_STOPPING : QUEUE_NOT_FOUND);
        return;
    }
    if (!target_setting_parse(extension.deliver, &sample->setting, why) || !sample->setting.to) {
        snprintf(sample->error, sizeof sample->error, "%s",
                 why[0] ? why : "the topic has no 'to': its jobs name their own callbacks");
        sample_finish(sample, QUEUE_OK);
        return;
    }
    if (!sample_send(sample))
        sample_finish(sample, QUEUE_OK);
}

void deliver_test(struct deliver *deliver, struct slice topic, struct slice body,
                  deliver_tested *done, void *owner, uint64_t tag)
{
    struct queue *queue = deliver->options.queue;
    struct sample *sample = calloc(1, sizeof *sample);
    if (!sample)
        abort(); /* only a few hundred bytes: everything else would fail too */
    *sample = (struct sample){.request = {.reported = on_reported, .insists = true},
                              .deliver = deliver,
                              .done = done,
                              .owner = owner,
                              .tag = tag,
                              .now_ms = clock_wall_ms(),
                              .report.retry_after_ms = -1};
    snprintf(sample->id, sizeof sample->id, "test-%016llx", (unsigned long long)random_u64());
    sample->topic_bytes = topic.len < sizeof sample->topic ? topic.len : sizeof sample->topic;
    memcpy(sample->topic, topic.at, sample->topic_bytes);
    buffer_init(&sample->body, JOB_BODY_BYTES_MAX * 16);
    buffer_init(&sample->endpoint, ENDPOINT_BYTES_MAX - 1);
    buffer_init(&sample->explained, EXPLAINED_BYTES_MAX);
    buffer_append_slice(&sample->body, body);
    deliver->samples++;
    const struct queue_topic_call call = {.verb = QUEUE_TOPIC_GET, .topic = topic};
    queue_topic(queue, &call, (struct queue_reply_to){.done = on_topic, .owner = sample});
}
