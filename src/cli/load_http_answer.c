/* The reading half of load_http: framing, counting refusals, finding leases and bodies. */
#include "cli/load_http_answer.h"

#include "cli/load_http.h"

#include <strings.h>

enum { HEAD_BYTES_MAX = 16384, BODY_BYTES_MAX = 1 << 30 };

static bool read_length(struct slice value, size_t *length)
{
    size_t i = 0, n = 0;
    while (i < value.len && value.at[i] == ' ')
        i++;
    size_t first = i;
    for (; i < value.len && value.at[i] >= '0' && value.at[i] <= '9' && n < BODY_BYTES_MAX; i++)
        n = n * 10 + (size_t)(value.at[i] - '0');
    *length = n;
    return i > first && i == value.len && n < BODY_BYTES_MAX;
}

/* The Content-Length among the header lines in `head`; false where it is missing or not a number.
 */
static bool find_length(struct slice head, size_t *length)
{
    static const char name[] = "content-length:";
    const size_t name_len = sizeof name - 1;
    const char *at = head.at, *end = head.at + head.len;
    while (at < end) {
        const char *eol = memchr(at, '\r', (size_t)(end - at));
        if (!eol)
            eol = end;
        if ((*at | 0x20) == 'c' && (size_t)(eol - at) > name_len &&
            strncasecmp(at, name, name_len) == 0)
            return read_length(slice_make(at + name_len, (size_t)(eol - at) - name_len), length);
        at = eol + 2;
    }
    return false;
}

enum load_outcome load_http_frame(struct slice bytes, struct load_http_frame *frame, size_t *need)
{
    static const char start[] = "HTTP/1.1 ";
    size_t start_len = sizeof start - 1;
    if (memcmp(bytes.at, start, bytes.len < start_len ? bytes.len : start_len) != 0)
        return LOAD_BROKEN;
    const char *blank = memmem(bytes.at, bytes.len, "\r\n\r\n", 4);
    if (!blank) {
        *need = bytes.len + 1;
        return bytes.len > HEAD_BYTES_MAX ? LOAD_BROKEN : LOAD_PARTIAL;
    }
    const char *line_end = memchr(bytes.at, '\r', bytes.len);
    const char *status = bytes.at + start_len;
    if (line_end - status < 3)
        return LOAD_BROKEN;
    int code = 0;
    for (int i = 0; i < 3; i++) {
        if (status[i] < '0' || status[i] > '9')
            return LOAD_BROKEN;
        code = code * 10 + status[i] - '0';
    }
    size_t length = 0;
    bool bodiless = code == 204 || code == 304;
    if (!bodiless &&
        (line_end == blank ||
         !find_length(slice_make(line_end + 2, (size_t)(blank - line_end - 2)), &length)))
        return LOAD_BROKEN;
    size_t head = (size_t)(blank - bytes.at) + 4;
    if (bytes.len < head + length) {
        *need = head + length;
        return LOAD_PARTIAL;
    }
    *frame = (struct load_http_frame){
        .status = code, .bytes = head + length, .body = slice_make(blank + 4, length)};
    return LOAD_ANSWER;
}

static bool is_good_result(struct slice rest)
{
    static const char *const good[] = {"created\"", "ok\"", "replaced\"", "existed\""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        size_t len = strlen(good[i]);
        if (rest.len >= len && memcmp(rest.at, good[i], len) == 0)
            return true;
    }
    return false;
}

/* How many of a batch's results say that it went well; *problem is the first that does not. */
static uint64_t count_good(struct slice body, struct slice *problem)
{
    static const char mark[] = "\"result\":\"";
    uint64_t count = 0;
    const char *at = body.at, *end = body.at + body.len;
    problem->len = 0;
    while ((at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1))) {
        at += sizeof mark - 1;
        struct slice rest = slice_make(at, (size_t)(end - at));
        if (is_good_result(rest))
            count++;
        else if (problem->len == 0)
            *problem = rest;
    }
    return count;
}

/* The string that follows `mark` in [at, end), without its quotes; NULL where there is none. */
static const char *find_string(const char *at, const char *end, const char *mark, size_t mark_len,
                               struct slice *out)
{
    const char *found = memmem(at, (size_t)(end - at), mark, mark_len);
    if (!found)
        return NULL;
    const char *from = found + mark_len;
    const char *quote = memchr(from, '"', (size_t)(end - from));
    if (!quote)
        return NULL;
    *out = slice_make(from, (size_t)(quote - from));
    return found;
}

static void find_jobs(struct slice body, struct load_answer *answer)
{
    static const char lease_mark[] = "\"lease\":\"", body_mark[] = "\"body\":\"";
    const char *end = body.at + body.len;
    struct slice lease, next_lease;
    const char *at = find_string(body.at, end, lease_mark, sizeof lease_mark - 1, &lease);
    while (at && answer->item_count < LOAD_TAKE_MAX) {
        const char *from = lease.at + lease.len;
        const char *next = find_string(from, end, lease_mark, sizeof lease_mark - 1, &next_lease);
        struct load_item *item = &answer->items[answer->item_count++];
        *item = (struct load_item){.lease = lease};
        find_string(from, next ? next : end, body_mark, sizeof body_mark - 1, &item->body);
        at = next;
        lease = next_lease;
    }
}

enum load_outcome load_http_parse(struct load_speech *speech, enum load_kind kind, uint32_t count,
                                  struct slice bytes, struct load_answer *answer)
{
    (void)speech;
    struct load_http_frame frame;
    enum load_outcome outcome = load_http_frame(bytes, &frame, &answer->need);
    if (outcome == LOAD_BROKEN)
        answer->problem = bytes;
    if (outcome != LOAD_ANSWER)
        return outcome;
    answer->bytes = frame.bytes;
    answer->failed = 0;
    answer->item_count = 0;
    if (frame.status < 200 || frame.status > 299) {
        answer->failed = count ? count : 1;
        answer->problem = bytes.len < frame.bytes ? bytes : slice_make(bytes.at, frame.bytes);
    } else if (kind == LOAD_TAKE) {
        find_jobs(frame.body, answer);
    } else if (count > 1 || kind == LOAD_ACK) {
        uint64_t good = count_good(frame.body, &answer->problem);
        answer->failed = good < count ? count - good : 0;
        if (answer->problem.len == 0)
            answer->problem = frame.body;
    }
    return LOAD_ANSWER;
}
