#include "intake/kind.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/trouble.h"
#include "trace/carry.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINES_A_SECOND = 10 };

const char *intake_refusal_name(enum intake_refusal refusal)
{
    static const char *const names[] = {
        [INTAKE_TAKEN] = "taken",
        [INTAKE_BAD_DELAY] = "bad_delay",
        [INTAKE_BAD_DESTINATION] = "bad_destination",
        [INTAKE_PROPERTIES_TOO_BIG] = "properties_too_big",
        [INTAKE_UNDECODABLE] = "undecodable",
        [INTAKE_NO_MEMORY] = "no_memory",
        [INTAKE_BODY_TOO_BIG] = "body_too_big",
        [INTAKE_BAD_JOB] = "bad_job",
    };
    assert((size_t)refusal < sizeof names / sizeof names[0]);
    return names[refusal];
}

/* ---- jobs ---- */

static struct slice copy_to(char **at, struct slice text)
{
    struct slice copied = slice_make(*at, text.len);
    if (text.len)
        memcpy(*at, text.at, text.len);
    *at += text.len;
    return copied;
}

static bool content_type_is_good(struct slice type)
{
    bool is_good = type.len <= JOB_CONTENT_TYPE_BYTES_MAX;
    for (size_t i = 0; is_good && i < type.len; i++)
        is_good = type.at[i] >= ' ' && type.at[i] <= '~';
    return is_good;
}

struct intake_job *intake_job_new(struct slice id, struct slice content_type, struct slice meta,
                                  struct slice body)
{
    if (!content_type_is_good(content_type))
        content_type.len = 0;
    struct intake_job *job = malloc(sizeof *job + id.len + content_type.len + meta.len + body.len);
    if (!job)
        return NULL;
    *job = (struct intake_job){.tag = 0};
    list_init(&job->list);
    char *at = job->bytes;
    job->id = copy_to(&at, id);
    job->content_type = copy_to(&at, content_type);
    job->meta = copy_to(&at, meta);
    job->body = copy_to(&at, body);
    return job;
}

bool intake_number_read(struct slice text, int64_t *out)
{
    bool is_negative = text.len > 0 && text.at[0] == '-';
    uint64_t number;
    if (is_negative)
        text = slice_make(text.at + 1, text.len - 1);
    if (!text_parse_u64(text, INT64_MAX, &number))
        return false;
    *out = is_negative ? -(int64_t)number : (int64_t)number;
    return true;
}

bool intake_when_set(struct queue_when *out, bool is_at, int64_t ms, char *why)
{
    if (!is_at && ms > POLICY_DELAY_MS_MAX) {
        snprintf(why, INTAKE_ERROR_BYTES, "header '%s' is beyond 10 years", INTAKE_HEADER_DELAY);
        return false;
    }
    *out = (struct queue_when){.due = is_at    ? QUEUE_DUE_AT
                                      : ms > 0 ? QUEUE_DUE_DELAY
                                               : QUEUE_DUE_NOW,
                               .ms = is_at || ms > 0 ? ms : 0};
    return true;
}

void intake_trace_add(struct buffer *meta, struct slice parent, struct slice state)
{
    struct trace_carry carry;
    if (parent.len && trace_carry_set(&carry, parent, state))
        (void)trace_meta_add(meta, &carry);
}

/* ---- batches ---- */

void intake_batch_free(struct intake_batch *batch)
{
    for (size_t i = 0; batch && i < batch->count; i++)
        free(batch->jobs[i]);
    free(batch);
}

/* ---- what consumers log ---- */

void intake_reject(struct intake_rejections *rejections, const struct intake_lines *lines,
                   struct intake_counts *counts, enum intake_refusal refusal,
                   const char *place_name, const char *place, const char *why)
{
    int64_t second = clock_boot_ms() / 1000;
    atomic_fetch_add(&counts->rejected[refusal], 1);
    if (second != rejections->second) {
        rejections->second = second;
        rejections->lines = 0;
    }
    if (++rejections->lines > LINES_A_SECOND) {
        rejections->left_out++;
        return;
    }
    log_event(LOG_WARN, lines->rejected, LOG_TEXT(place_name, place),
              LOG_TEXT("reason", intake_refusal_name(refusal)), LOG_TEXT("error", why),
              LOG_NUMBER("not_logged", rejections->left_out));
    rejections->left_out = 0;
}

void intake_set_connected(struct intake_counts *counts, uint32_t party, bool is_connected)
{
    atomic_store(&counts->is_connected, is_connected);
    trouble_note(TROUBLE_INTAKE, party, !is_connected);
}

void intake_set_refused(struct intake_counts *counts, uint32_t party,
                        const struct intake_lines *lines, bool is_refused, const char *why)
{
    trouble_note(TROUBLE_INTAKE, party + 1, is_refused);
    if (atomic_exchange(&counts->is_refused, is_refused) == is_refused)
        return;
    if (is_refused)
        log_event(LOG_WARN, lines->paused, LOG_TEXT("error", why));
    else
        log_event(LOG_INFO, lines->resumes);
}
