/* ---- kinds ---- */
#include "targets/target.h"

#include "targets/place.h"

#include "base/error.h"
#include "base/feature.h"
#include "job/json.h"

#include <ctype.h>

/* ---- job body ---- */

enum { ESCAPED_BYTES = 6 /* per byte, at most */, AROUND_BYTES = 16 * 1024 };

void target_job_body_write(struct buffer *out, const struct job *job)
{
    job_json_write(out, job, (struct slice){0}, JOB_FORM_SENT, JOB_BODY_SHOWN);
}

size_t target_job_body_bytes_max(const struct job *job)
{
    return ESCAPED_BYTES * (job->body.len + job->meta.len) + AROUND_BYTES;
}

/* ---- target ---- */

#define SCHEMES(NAME, PLAIN, PORT, TLS, TLS_PORT, OPS)                                             \
    const char *const target_##NAME##_schemes[] = {PLAIN, TLS, NULL};
TARGET_KIND_ROWS(SCHEMES)
static const char *const null_schemes[] = {"null", NULL};

#define KIND(NAME, PLAIN, PORT, TLS, TLS_PORT, OPS) {#NAME, target_##NAME##_schemes, OPS},
static const struct target_kind {
    const char *name; /* also of the feature */
    const char *const *schemes;
    const struct target_ops *ops; /* NULL: this build lacks it */
} kinds[] = {TARGET_KIND_ROWS(KIND){"null", null_schemes, &target_null}};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Returns the text before the first colon. */
static struct slice scheme_of(struct slice to)
{
    const char *colon = to.len ? memchr(to.at, ':', to.len) : NULL;
    return slice_make(to.at, colon ? (size_t)(colon - to.at) : 0);
}

static bool equals_folded(struct slice text, const char *lower)
{
    size_t i = 0;
    while (i < text.len && lower[i] && tolower((unsigned char)text.at[i]) == lower[i])
        i++;
    return i == text.len && !lower[i];
}

/* Finds the kind, even if this build lacks it. */
static const struct target_kind *find_kind(struct slice to)
{
    struct slice scheme = scheme_of(to);
    for (size_t i = 0; scheme.len > 0 && i < KINDS; i++)
        for (const char *const *name = kinds[i].schemes; *name; name++)
            if (equals_folded(scheme, *name))
                return &kinds[i];
    return NULL;
}

const struct target_ops *target_find(struct slice to)
{
    const struct target_kind *kind = find_kind(to);
    return kind ? kind->ops : NULL;
}

void target_emit_schemes(struct buffer *out)
{
    bool first = true;
    for (size_t i = 0; i < KINDS; i++)
        for (const char *const *name = kinds[i].schemes; *name && kinds[i].ops; name++) {
            buffer_append_text(out, first ? "" : ", ");
            buffer_append_text(out, *name);
            first = false;
        }
}

/* ---- endpoints ---- */

/* Appends "scheme://host:port,host:port/path", with the path only if it is a virtual host. */
static bool append_endpoint(const struct url *url, const struct target_ops *ops, struct buffer *out)
{
    char origin[GUARD_ORIGIN_BYTES];
    for (size_t i = 0; i < url->host_count; i++) {
        if (!guard_origin(url, i, origin))
            return false;
        if (i > 0)
            buffer_append_byte(out, ',');
        buffer_append_text(out, i > 0 ? origin + url->scheme.len + 3 : origin);
    }
    if (ops->has_virtual_hosts)
        buffer_append_slice(out, url->path);
    return !out->failed;
}

static bool refuse_scheme(char *error)
{
    struct buffer schemes;
    buffer_init(&schemes, 160);
    target_emit_schemes(&schemes);
    (void)error_text(error, TARGET_ERROR_BYTES, "no destination, it must begin with one of %.*s",
                     ERROR_SHOWN(buffer_slice(&schemes), 160));
    buffer_fini(&schemes);
    return false;
}

bool target_endpoint(struct slice to, struct buffer *out, char error[TARGET_ERROR_BYTES])
{
    struct url url;
    size_t before = out->len;
    const struct target_kind *kind = find_kind(to);
    if (!kind)
        return refuse_scheme(error);
    if (!kind->ops)
        return feature_missing(kind->name, error, TARGET_ERROR_BYTES);
    if (kind->ops == &target_null) {
        buffer_append_text(out, "null:");
        return !out->failed;
    }
    if (!target_place_read(to, &url, error))
        return false;
    if (append_endpoint(&url, kind->ops, out))
        return true;
    out->len = before;
    return error_text(error, TARGET_ERROR_BYTES, "destination too long, shorten its host");
}
