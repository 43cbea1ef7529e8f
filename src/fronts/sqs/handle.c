#include "sqs/handle.h"

#include "base/json_write.h"
#include "base/text.h"

enum { BYTES_MIN = 30, BYTES_MAX = 1024 };

#define SIGN '~' /* between the parts: never escaped */

void sqs_handle_write(const struct queue_job *taken, struct buffer *out)
{
    struct buffer text;
    buffer_init(&text, QUEUE_LEASE_TEXT_BYTES_MAX + JOB_ID_BYTES_MAX + 1);
    buffer_append_slice(&text, taken->lease);
    buffer_append_byte(&text, SIGN);
    buffer_append_slice(&text, taken->job.id);
    json_write_string(out, buffer_slice(&text));
    buffer_fini(&text);
}

/* Leases of all stores consist of letters, digits and separators. */
static bool is_lease(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((!text_is_unreserved(text.at[i]) && text.at[i] != ':') || text.at[i] == SIGN)
            return false;
    return text.len >= BYTES_MIN && text.len <= QUEUE_LEASE_TEXT_BYTES_MAX;
}

bool sqs_handle_read(struct slice text, struct sqs_handle *out)
{
    const char *sign = memchr(text.at, SIGN, text.len);
    *out = (struct sqs_handle){.lease = text};
    if (text.len > BYTES_MAX)
        return false;
    if (!sign)
        return is_lease(text);
    out->lease.len = (size_t)(sign - text.at);
    out->id = slice_make(sign + 1, (size_t)(text.at + text.len - sign - 1));
    return is_lease(out->lease) && out->id.len;
}
