#include "monitor/silences.h"

#include "base/json_read.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/vector.h"
#include "job/job.h"
#include "monitor/kept.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define KEPT_NAME "silences"
enum { CODE_BYTES = 32, BY_BYTES = 128, KEPT_BYTES_MAX = 2 << 20 };

/* A text of limited length. */
#define TEXT_OF(FIELD, LEN) slice_make((FIELD), (LEN))

struct silence {
    int64_t since_ms, until_ms;
    uint8_t code_len, topic_len, note_len, by_len;
    char code[CODE_BYTES], topic[JOB_TOPIC_BYTES_MAX], note[MONITOR_SILENCE_NOTE_BYTES_MAX],
        by[BY_BYTES];
};
VECTOR_DECLARE(silence_list, struct silence *)

struct monitor_silences {
    pthread_mutex_t lock;
    struct silence_list list;
    char *directory; /* NULL: nothing is kept */
};

/* ---- the list ---- */

static uint8_t copy_text(char *out, size_t most, struct slice text)
{
    size_t len = text.len < most ? text.len : most;
    if (len)
        memcpy(out, text.at, len);
    return (uint8_t)len;
}

/* Makes a silence that lasts from `since_ms` on. Returns NULL if out of memory. */
static struct silence *silence_new(struct slice code, struct slice topic, struct slice note,
                                   struct slice by)
{
    struct silence *silence = calloc(1, sizeof *silence);
    if (!silence)
        return NULL;
    silence->code_len = copy_text(silence->code, sizeof silence->code, code);
    silence->topic_len = copy_text(silence->topic, sizeof silence->topic, topic);
    silence->note_len = copy_text(silence->note, sizeof silence->note, note);
    silence->by_len = copy_text(silence->by, sizeof silence->by, by);
    return silence;
}

static bool is_of(const struct silence *silence, struct slice code, struct slice topic)
{
    return slice_equals(TEXT_OF(silence->code, silence->code_len), code) &&
           slice_equals(TEXT_OF(silence->topic, silence->topic_len), topic);
}

/* Removes the silence of a problem, and all that have ended. Returns whether it existed. */
static bool remove_of(struct monitor_silences *silences, struct slice code, struct slice topic,
                      int64_t wall_ms)
{
    bool was_there = false;
    for (size_t i = silences->list.count; i-- > 0;) {
        struct silence *one = silences->list.at[i];
        bool is_wanted = is_of(one, code, topic) && one->until_ms > wall_ms;
        if (!is_wanted && one->until_ms > wall_ms)
            continue;
        was_there |= is_wanted;
        silence_list_remove(&silences->list, i);
        free(one);
    }
    return was_there;
}

static void write_members(struct buffer *out, const struct silence *silence)
{
    json_write_member_time(out, "since", silence->since_ms);
    json_write_member_time(out, "until", silence->until_ms);
    json_write_member_text(out, "note", TEXT_OF(silence->note, silence->note_len));
    json_write_member_text(out, "by", TEXT_OF(silence->by, silence->by_len));
}

static void write_silence(struct buffer *out, const struct silence *silence)
{
    buffer_append_text(out, "{\"code\":");
    json_write_string(out, TEXT_OF(silence->code, silence->code_len));
    json_write_member(out, "topic");
    if (silence->topic_len)
        json_write_string(out, TEXT_OF(silence->topic, silence->topic_len));
    else
        buffer_append_text(out, "null");
    write_members(out, silence);
    buffer_append_byte(out, '}');
}

void monitor_silences_write_of(struct buffer *out, struct monitor_silences *silences,
                               struct slice code, struct slice topic, int64_t wall_ms)
{
    const struct silence *found = NULL;
    if (silences)
        pthread_mutex_lock(&silences->lock);
    for (size_t i = 0; silences && i < silences->list.count && !found; i++)
        if (is_of(silences->list.at[i], code, topic) && silences->list.at[i]->until_ms > wall_ms)
            found = silences->list.at[i];
    if (found) {
        buffer_append_text(out, "{\"code\":");
        json_write_string(out, code);
        write_members(out, found);
        buffer_append_byte(out, '}');
    } else {
        buffer_append_text(out, "null");
    }
    if (silences)
        pthread_mutex_unlock(&silences->lock);
}

/* ---- what is kept ---- */

/* Writes all silences, one JSON object per line with times in milliseconds. */
static void keep_silences(struct monitor_silences *silences)
{
    struct buffer text;
    if (!silences->directory)
        return;
    buffer_init(&text, KEPT_BYTES_MAX);
    for (size_t i = 0; i < silences->list.count; i++) {
        const struct silence *one = silences->list.at[i];
        buffer_append_format(&text, "{\"since_ms\":%lld,\"until_ms\":%lld",
                             (long long)one->since_ms, (long long)one->until_ms);
        json_write_member_text(&text, "code", TEXT_OF(one->code, one->code_len));
        json_write_member_text(&text, "topic", TEXT_OF(one->topic, one->topic_len));
        json_write_member_text(&text, "note", TEXT_OF(one->note, one->note_len));
        json_write_member_text(&text, "by", TEXT_OF(one->by, one->by_len));
        buffer_append_text(&text, "}\n");
    }
    int error = text.failed ? -ENOMEM
                            : monitor_kept_write(silences->directory, KEPT_NAME,
                                                 slice_make(text.at ? text.at : "", text.len));
    if (error)
        log_event(LOG_WARN, "silences are not kept", LOG_TEXT("error", strerror(-error)));
    buffer_fini(&text);
}

/* Adds the silence of a line; a line that cannot be read is skipped. */
static void read_line(struct monitor_silences *silences, struct slice line)
{
    static const char *const names[] = {"code", "topic", "note", "by"};
    struct json_value object;
    struct slice texts[4];
    struct buffer scratch;
    int64_t since_ms, until_ms;
    if (!json_check(line, &object, NULL) ||
        !json_number_i64(json_member(object, "since_ms").raw, &since_ms) ||
        !json_number_i64(json_member(object, "until_ms").raw, &until_ms) ||
        silences->list.count >= MONITOR_SILENCES_MAX)
        return;
    buffer_init(&scratch, KEPT_BYTES_MAX);
    bool is_good = buffer_reserve(&scratch, line.len + 1) != NULL;
    for (size_t i = 0; is_good && i < 4; i++) {
        struct json_value value = json_member(object, names[i]);
        is_good = value.kind == JSON_STRING && json_string_bytes(value.raw, &scratch, &texts[i]);
    }
    struct silence *silence = is_good ? silence_new(texts[0], texts[1], texts[2], texts[3]) : NULL;
    if (silence) {
        silence->since_ms = since_ms;
        silence->until_ms = until_ms;
        if (!silence_list_add(&silences->list, silence))
            free(silence);
    }
    buffer_fini(&scratch);
}

static void read_kept(struct monitor_silences *silences)
{
    struct buffer text;
    buffer_init(&text, KEPT_BYTES_MAX);
    if (monitor_kept_read(silences->directory, KEPT_NAME, &text) == 0) {
        const char *at = text.at, *end = text.at + text.len;
        while (at < end) {
            const char *stop = memchr(at, '\n', (size_t)(end - at));
            stop = stop ? stop : end;
            read_line(silences, slice_make(at, (size_t)(stop - at)));
            at = stop + 1;
        }
    }
    buffer_fini(&text);
}

struct monitor_silences *monitor_silences_new(const char *directory)
{
    struct monitor_silences *silences = calloc(1, sizeof *silences);
    if (!silences)
        return NULL;
    if (directory && !(silences->directory = strdup(directory))) {
        free(silences);
        return NULL;
    }
    pthread_mutex_init(&silences->lock, NULL);
    if (directory)
        read_kept(silences);
    return silences;
}

void monitor_silences_free(struct monitor_silences *silences)
{
    if (!silences)
        return;
    for (size_t i = 0; i < silences->list.count; i++)
        free(silences->list.at[i]);
    silence_list_fini(&silences->list);
    pthread_mutex_destroy(&silences->lock);
    free(silences->directory);
    free(silences);
}

/* ---- changes ---- */

bool monitor_silences_add(struct monitor_silences *silences, const struct monitor_silence *about,
                          struct buffer *out)
{
    struct silence *silence = silence_new(about->code, about->topic, about->note, about->by);
    if (!silence)
        return false;
    silence->since_ms = about->since_ms;
    silence->until_ms = about->until_ms;
    pthread_mutex_lock(&silences->lock);
    (void)remove_of(silences, about->code, about->topic, about->since_ms);
    bool is_added =
        silences->list.count < MONITOR_SILENCES_MAX && silence_list_add(&silences->list, silence);
    if (is_added) {
        keep_silences(silences);
        write_silence(out, silence);
    }
    pthread_mutex_unlock(&silences->lock);
    if (!is_added)
        free(silence);
    return is_added;
}

bool monitor_silences_remove(struct monitor_silences *silences, struct slice code,
                             struct slice topic, int64_t wall_ms)
{
    pthread_mutex_lock(&silences->lock);
    bool was_there = remove_of(silences, code, topic, wall_ms);
    if (was_there)
        keep_silences(silences);
    pthread_mutex_unlock(&silences->lock);
    return was_there;
}

void monitor_silences_write(struct buffer *out, struct monitor_silences *silences, int64_t wall_ms,
                            bool (*shows)(const void *ctx, struct slice topic), const void *ctx)
{
    bool follows = false;
    pthread_mutex_lock(&silences->lock);
    for (size_t i = 0; i < silences->list.count; i++) {
        const struct silence *one = silences->list.at[i];
        if (one->until_ms <= wall_ms || !shows(ctx, TEXT_OF(one->topic, one->topic_len)))
            continue;
        if (follows)
            buffer_append_byte(out, ',');
        follows = true;
        write_silence(out, one);
    }
    pthread_mutex_unlock(&silences->lock);
}
