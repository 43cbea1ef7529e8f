#include "base/prometheus.h"

#include <assert.h>

static const char *const type_names[] = {
    [PROMETHEUS_COUNTER] = "counter",
    [PROMETHEUS_GAUGE] = "gauge",
    [PROMETHEUS_HISTOGRAM] = "histogram",
    [PROMETHEUS_INFO] = "info",
};

const char *prometheus_content_type(enum prometheus_format format)
{
    return format == PROMETHEUS_OPENMETRICS
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

const char *prometheus_type_name(enum prometheus_type type)
{
    assert(type >= PROMETHEUS_COUNTER && type <= PROMETHEUS_INFO);
    return type_names[type];
}

/* ---- names ---- */

static bool ends_with(struct slice name, const char *end)
{
    size_t len = strlen(end);
    return name.len > len && memcmp(name.at + name.len - len, end, len) == 0;
}

static struct slice name_without(struct slice name, const char *end)
{
    return ends_with(name, end) ? slice_make(name.at, name.len - strlen(end)) : name;
}

const char *prometheus_unit(const char *name)
{
    struct slice base = name_without(slice_of(name), "_total");
    return ends_with(base, "_seconds") ? "seconds" : ends_with(base, "_bytes") ? "bytes" : NULL;
}

static struct slice family_name(enum prometheus_format format, const char *name,
                                enum prometheus_type type)
{
    if (format == PROMETHEUS_OPENMETRICS && type == PROMETHEUS_COUNTER)
        return name_without(slice_of(name), "_total");
    if (format == PROMETHEUS_OPENMETRICS && type == PROMETHEUS_INFO)
        return name_without(slice_of(name), "_info");
    return slice_of(name);
}

/* ---- the head of a family ---- */

/* Escapes text. Quotes in help stay as they are in the first format, which does not support \": it
 * would be shown literally. */
static void append_escaped(struct buffer *out, struct slice text, bool quotes)
{
    size_t from = 0;
    for (size_t i = 0; i < text.len; i++) {
        char byte = text.at[i];
        if (byte != '\n' && byte != '\\' && (byte != '"' || !quotes))
            continue;
        buffer_append(out, text.at + from, i - from);
        buffer_append_byte(out, '\\');
        buffer_append_byte(out, byte == '\n' ? 'n' : byte);
        from = i + 1;
    }
    buffer_append(out, text.at + from, text.len - from);
}

static void append_about(struct buffer *out, const char *what, struct slice family)
{
    buffer_append_text(out, "# ");
    buffer_append_text(out, what);
    buffer_append_byte(out, ' ');
    buffer_append_slice(out, family);
    buffer_append_byte(out, ' ');
}

void prometheus_family(struct buffer *out, enum prometheus_format format, const char *name,
                       enum prometheus_type type, const char *help)
{
    bool is_open = format == PROMETHEUS_OPENMETRICS;
    struct slice family = family_name(format, name, type);
    const char *unit = prometheus_unit(name);
    append_about(out, "HELP", family);
    append_escaped(out, slice_of(help), is_open);
    buffer_append_byte(out, '\n');
    append_about(out, "TYPE", family);
    buffer_append_text(
        out, prometheus_type_name(type == PROMETHEUS_INFO && !is_open ? PROMETHEUS_GAUGE : type));
    buffer_append_byte(out, '\n');
    if (!is_open || !unit)
        return;
    append_about(out, "UNIT", family);
    buffer_append_text(out, unit);
    buffer_append_byte(out, '\n');
}

/* ---- samples ---- */

static void append_label(struct buffer *out, bool first, const char *key, struct slice value)
{
    buffer_append_byte(out, first ? '{' : ',');
    buffer_append_text(out, key);
    buffer_append_text(out, "=\"");
    append_escaped(out, value, true);
    buffer_append_byte(out, '"');
}

/* Appends the name with its suffix, its labels and the blank before the value. `bound`, if not
 * NULL, becomes the label "le". */
static void append_series(struct buffer *out, const char *name, const char *suffix,
                          const struct prometheus_label *labels, const struct slice *bound)
{
    bool first = true;

    buffer_append_text(out, name);
    buffer_append_text(out, suffix);
    for (; labels && labels->key; labels++, first = false)
        append_label(out, first, labels->key, labels->value);
    if (bound) {
        append_label(out, first, "le", *bound);
        first = false;
    }
    buffer_append_text(out, first ? " " : "} ");
}

/* Appends `value` / `units`, exactly. `units` is a power of ten. */
static void append_quotient(struct buffer *out, uint64_t value, uint64_t units)
{
    buffer_append_u64(out, value / units);
    uint64_t rest = value % units;
    if (rest == 0)
        return;
    buffer_append_byte(out, '.');
    for (; rest > 0; rest %= units) {
        units /= 10;
        buffer_append_byte(out, (char)('0' + rest / units));
    }
}

void prometheus_sample(struct buffer *out, const char *name, const struct prometheus_label *labels,
                       int64_t value, uint64_t units)
{
    append_series(out, name, "", labels, NULL);
    if (value < 0)
        buffer_append_byte(out, '-');
    append_quotient(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, units);
    buffer_append_byte(out, '\n');
}

static void append_bucket(struct buffer *out, const char *name,
                          const struct prometheus_label *labels, struct slice bound, uint64_t count)
{
    append_series(out, name, "_bucket", labels, &bound);
    buffer_append_u64(out, count);
    buffer_append_byte(out, '\n');
}

/* Writes a bound, such as "0.005" or "1.0": as a floating-point number in both formats, since it is
 * a label and must give the same series in both. */
static void write_bound(struct buffer *out, uint64_t bound, uint64_t units)
{
    buffer_clear(out);
    append_quotient(out, bound, units);
    if (bound % units == 0)
        buffer_append_text(out, ".0");
}

void prometheus_histogram(struct buffer *out, const char *name,
                          const struct prometheus_label *labels, const struct buckets *buckets,
                          const struct bucket_bounds *bounds)
{
    char digits[40];
    struct buffer bound = {.at = digits, .cap = sizeof digits, .bytes_max = sizeof digits};
    uint64_t seen = 0;

    assert(bounds->count <= BUCKETS_MAX);
    for (uint32_t i = 0; i < bounds->count; i++) {
        seen += counter_get(&buckets->counts[i]);
        write_bound(&bound, bounds->at[i], bounds->units);
        append_bucket(out, name, labels, buffer_slice(&bound), seen);
    }
    seen += counter_get(&buckets->counts[bounds->count]);
    append_bucket(out, name, labels, slice_of("+Inf"), seen);
    append_series(out, name, "_sum", labels, NULL);
    append_quotient(out, counter_get(&buckets->sum), bounds->units);
    buffer_append_byte(out, '\n');
    append_series(out, name, "_count", labels, NULL);
    buffer_append_u64(out, seen);
    buffer_append_byte(out, '\n');
}

void prometheus_end(struct buffer *out, enum prometheus_format format)
{
    if (format == PROMETHEUS_OPENMETRICS)
        buffer_append_text(out, "# EOF\n");
}
