/*
 * The request of a message: URL, header lines, body, one after the other in a transfer's text.
 *
 * No line can be split by what a job carries: bytes below a blank do not get in.
 */
#include "base/clock.h"
#include "base/timestamp.h"
#include "targets/http_transfer.h"
#include "targets/template.h"
#include "targets/webhook.h"

#include <openssl/evp.h>
#include <stdio.h>

/* From EXPECT_BYTES on libcurl would ask first: well below where it does. */
enum { PATH_BYTES_MAX = 8192, HEADERS_BYTES_MAX = 32 * 1024, EXPECT_BYTES = 64 * 1024 };

/* A meta so named is for tarry itself. */
static const char reserved[] = "tarry-";

static bool fail(struct target_transfer *transfer, enum target_outcome outcome, const char *why)
{
    target_transfer_give_up(transfer, outcome, false, why);
    return false;
}

/* ---- lines ---- */

static struct buffer *begin_line(struct target_transfer *transfer, const char *name)
{
    struct buffer *text = &transfer->text;
    if (transfer->header_count == TARGET_HEADERS_MAX) {
        text->failed = true;
        return text;
    }
    transfer->header_at[transfer->header_count++] = (uint32_t)text->len;
    buffer_append_text(text, name);
    return text;
}

static void end_line(struct target_transfer *transfer)
{
    buffer_append_byte(&transfer->text, '\0');
}

static bool is_blank(struct slice value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.at[i] != ' ' && value.at[i] != '\t')
            return false;
    return true;
}

/* libcurl takes "Name:" for the wish to leave a header out, and "Name;" for an empty one. */
static void append_value(struct buffer *text, struct slice value)
{
    if (is_blank(value)) {
        buffer_append_byte(text, ';');
        return;
    }
    buffer_append_text(text, ": ");
    for (size_t i = 0; i < value.len; i++) {
        unsigned char byte = (unsigned char)value.at[i];
        buffer_append_byte(text, byte < ' ' || byte == 0x7f ? '?' : (char)byte);
    }
}

static void add_line(struct target_transfer *transfer, const char *name, struct slice value)
{
    append_value(begin_line(transfer, name), value);
    end_line(transfer);
}

static void add_meta(struct target_transfer *transfer, struct slice meta)
{
    struct slice name, value;
    for (size_t at = 0; job_meta_next(meta, &at, &name, &value);) {
        if (name.len >= sizeof reserved - 1 && memcmp(name.at, reserved, sizeof reserved - 1) == 0)
            continue;
        struct buffer *text = begin_line(transfer, "Tarry-Meta-");
        buffer_append_slice(text, name);
        append_value(text, value);
        end_line(transfer);
    }
}

static void add_lines(struct target_transfer *transfer, const struct job *job)
{
    static const char plain[] = "application/octet-stream";
    add_line(transfer, "Content-Type", job->content_type.len ? job->content_type : slice_of(plain));
    add_line(transfer, "Tarry-Topic", job->topic);
    add_line(transfer, "Tarry-Id", job->id);
    buffer_append_u64(begin_line(transfer, "Tarry-Attempt: "), job->attempt);
    end_line(transfer);
    timestamp_emit(begin_line(transfer, "Tarry-Due-At: "), job->due_ms);
    end_line(transfer);
    if (job->body.len >= EXPECT_BYTES) { /* it would wait for the peer's leave */
        buffer_append_byte(begin_line(transfer, "Expect"), ':');
        end_line(transfer);
    }
    add_meta(transfer, job->meta);
}

/* ---- a credential ---- */

static void append_base64(struct buffer *out, const char *text, size_t len)
{
    char *at = buffer_reserve(out, 4 * ((len + 2) / 3) + 1);
    if (at)
        out->len +=
            (size_t)EVP_EncodeBlock((unsigned char *)at, (const unsigned char *)text, (int)len);
}

/* The policy file's, for this very origin. */
static void add_authorization(struct target_transfer *transfer, struct slice origin)
{
    struct guard_credential credential;
    char pair[2 * GUARD_SECRET_BYTES_MAX], name[TARGET_HOST_BYTES_MAX + 32];
    (void)snprintf(name, sizeof name, "%.*s", (int)origin.len, origin.at);
    if (!guard_find_credential(transfer->guard, name, &credential))
        return;
    if (credential.is_token) {
        buffer_append_text(begin_line(transfer, "Authorization: Bearer "), credential.password);
    } else {
        int len = snprintf(pair, sizeof pair, "%s:%s", credential.user, credential.password);
        append_base64(begin_line(transfer, "Authorization: Basic "), pair, (size_t)len);
        explicit_bzero(pair, sizeof pair);
    }
    end_line(transfer);
    transfer->secret = transfer->header_count;
    explicit_bzero(&credential, sizeof credential);
}

/* ---- the whole ---- */

static bool write_url(struct target_transfer *transfer, const struct target_message *message,
                      struct slice origin, struct slice path)
{
    struct buffer *text = &transfer->text;
    buffer_append_slice(text, origin);
    if (path.len == 0 || path.at[0] != '/')
        buffer_append_byte(text, '/');
    if (!template_fill(path, message->job, TEMPLATE_URL, PATH_BYTES_MAX, text))
        return fail(transfer, TARGET_REFUSED,
                    "the URL is too long or leads up a path once its template is filled");
    buffer_append_byte(text, '\0');
    return true;
}

static bool add_signature(struct target_transfer *transfer, const struct target_message *message,
                          struct webhook *webhook)
{
    struct webhook_headers headers;
    enum webhook_result result =
        webhook_sign(webhook, message->setting, message->job, clock_wall_ms() / 1000, &headers);
    if (result == WEBHOOK_NO_KEY)
        return fail(transfer, TARGET_FAILED,
                    "the topic's 'sign' names no key of the policy file, add it there");
    if (result == WEBHOOK_FAILED)
        return fail(transfer, TARGET_UNSENT, "out of memory");
    add_line(transfer, "webhook-id", slice_of(headers.id));
    buffer_append_i64(begin_line(transfer, "webhook-timestamp: "), headers.timestamp_s);
    end_line(transfer);
    if (result == WEBHOOK_SIGNED)
        add_line(transfer, "webhook-signature", slice_of(headers.signature));
    return true;
}

bool target_transfer_write(struct target_transfer *transfer, const struct target_message *message,
                           struct webhook *webhook, struct slice origin, struct slice path)
{
    const struct job *job = message->job;
    struct buffer *text = &transfer->text;
    buffer_clear(text);
    text->bytes_max = origin.len + PATH_BYTES_MAX + HEADERS_BYTES_MAX + job->body.len;
    transfer->header_count = transfer->secret = 0;
    if (!write_url(transfer, message, origin, path))
        return false;
    add_authorization(transfer, origin);
    add_lines(transfer, job);
    if (!add_signature(transfer, message, webhook))
        return false;
    transfer->body_at = text->len;
    transfer->body_bytes = job->body.len;
    buffer_append_slice(text, job->body);
    buffer_append_byte(text, '\0');
    if (text->failed)
        return fail(transfer, TARGET_UNSENT, "out of memory");
    return true;
}
