#include "targets/http_answer.h"

#include "base/text.h"

#include <curl/curl.h>
#include <stdio.h>
#include <strings.h>

enum { DATE_BYTES_MAX = 64 };

static struct slice trim(struct slice text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.at[text.len - 1]))
        text.len--;
    while (text.len > 0 && (*text.at == ' ' || *text.at == '\t')) {
        text.at++;
        text.len--;
    }
    return text;
}

/* "HTTP/1.1 204 No Content", "HTTP/2 204" */
static void take_status(struct target_answer *answer, struct slice line)
{
    uint64_t status;
    if (line.len < 5 || memcmp(line.at, "HTTP/", 5) != 0)
        return;
    const char *blank = memchr(line.at, ' ', line.len);
    size_t at = blank ? (size_t)(blank - line.at) + 1 : line.len;
    if (line.len - at >= 3 && text_parse_u64(slice_make(line.at + at, 3), 999, &status) &&
        status >= 200)
        answer->status = (uint32_t)status;
}

static int64_t within_a_day(int64_t ms)
{
    return ms < 0 ? 0 : ms > TARGET_RETRY_AFTER_MS_MAX ? TARGET_RETRY_AFTER_MS_MAX : ms;
}

/* RFC 9110 section 10.2.3: seconds or a date. What is neither is as if it were not there. */
static void take_retry_after(struct target_answer *answer, struct slice value, int64_t wall_ms)
{
    char date[DATE_BYTES_MAX];
    if (value.len == 0 || value.len >= sizeof date)
        return;
    memcpy(date, value.at, value.len);
    date[value.len] = '\0';
    if (strspn(date, "0123456789") == value.len) {
        uint64_t seconds = TARGET_RETRY_AFTER_MS_MAX / 1000;
        (void)text_parse_u64(value, TARGET_RETRY_AFTER_MS_MAX / 1000, &seconds);
        answer->retry_after_ms = (int64_t)seconds * 1000;
    } else {
        time_t at_s = curl_getdate(date, NULL);
        if (at_s < 0)
            return;
        answer->retry_after_ms = within_a_day((int64_t)at_s * 1000 - wall_ms);
    }
    answer->has_retry_after = true;
}

static void take_field(struct target_answer *answer, struct slice line, int64_t wall_ms)
{
    static const char name[] = "retry-after:";
    if (line.len >= sizeof name - 1 && strncasecmp(line.at, name, sizeof name - 1) == 0)
        take_retry_after(answer,
                         trim(slice_make(line.at + sizeof name - 1, line.len - (sizeof name - 1))),
                         wall_ms);
}

bool target_answer_add_line(struct target_answer *answer, struct slice line, int64_t wall_ms)
{
    answer->header_bytes += line.len;
    if (answer->header_bytes > TARGET_ANSWER_HEADER_BYTES_MAX)
        return false;
    if (answer->is_in_head && trim(line).len == 0) {
        answer->is_in_head = false;
    } else if (answer->is_in_head) {
        if (answer->status)
            take_field(answer, line, wall_ms);
    } else if (!answer->status) { /* or it is a trailer's */
        take_status(answer, line);
        answer->is_in_head = true;
    }
    return true;
}

bool target_answer_add_body(struct target_answer *answer, size_t bytes)
{
    answer->body_bytes += bytes;
    return answer->body_bytes <= TARGET_ANSWER_BODY_BYTES_MAX;
}

static bool is_dead_code(uint32_t status, const struct target_codes *dead_on, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (status >= dead_on[i].from && status <= dead_on[i].to)
            return true;
    return status == 410;
}

void target_answer_judge(const struct target_answer *answer, const struct target_codes *dead_on,
                         size_t dead_on_count, struct target_report *out)
{
    uint32_t status = answer->status;
    bool is_busy = status == 429 || status == 503;
    *out = (struct target_report){.outcome = TARGET_FAILED, .retry_after_ms = -1, .code = status};
    if (status >= 200 && status < 300) {
        out->outcome = TARGET_DONE;
        return;
    }
    bool is_redirect = status >= 300 && status < 400;
    (void)snprintf(out->error, sizeof out->error, "http %u%s", (unsigned)status,
                   is_redirect ? ", redirects are not followed" : "");
    if (is_dead_code(status, dead_on, dead_on_count)) {
        out->outcome = TARGET_REFUSED;
        return;
    }
    out->is_ailing = status >= 500 || status == 429;
    if (is_busy && answer->has_retry_after)
        out->retry_after_ms = answer->retry_after_ms;
}
