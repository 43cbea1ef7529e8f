#include "base/prometheus.h"

#include <assert.h>

static const char *const type_names[] = {
    [PROMETHEUS_COUNTER] = "counter",
    [PROMETHEUS_GAUGE] = "gauge",
    [PROMETHEUS_HISTOGRAM] = "histogram",
};

/* Quotes are escaped in label values only: in help, "\"" would be shown as it stands. */
static void append_escaped(struct buffer *out, struct slice text, bool quotes)
{
    for (size_t i = 0; i < text.len; i++) {
        char byte = text.at[i];
        if (byte == '\n') {
            buffer_append_text(out, "\\n");
            continue;
        }
        if (byte == '\\' || (byte == '"' && quotes))
            buffer_append_byte(out, '\\');
        buffer_append_byte(out, byte);
    }
}

void prometheus_family(struct buffer *out, const char *name, enum prometheus_type type,
                       const char *help)
{
    assert(type >= PROMETHEUS_COUNTER && type <= PROMETHEUS_HISTOGRAM);
    buffer_append_format(out, "# HELP %s ", name);
    append_escaped(out, slice_of(help), false);
    buffer_append_format(out, "\n# TYPE %s %s\n", name, type_names[type]);
}

static void append_label(struct buffer *out, bool first, const char *key, struct slice value)
{
    buffer_append_byte(out, first ? '{' : ',');
    buffer_append_text(out, key);
    buffer_append_text(out, "=\"");
    append_escaped(out, value, true);
    buffer_append_byte(out, '"');
}

/* The name with its suffix, its labels and the blank before the value; `bound`, if not NULL,
 * becomes the label "le". */
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

/* `value` / `units_per_second`, exactly; the latter is a power of ten. */
static void append_seconds(struct buffer *out, uint64_t value, uint64_t units_per_second)
{
    buffer_append_u64(out, value / units_per_second);
    uint64_t rest = value % units_per_second;
    if (rest == 0)
        return;
    buffer_append_byte(out, '.');
    for (; rest > 0; rest %= units_per_second) {
        units_per_second /= 10;
        buffer_append_byte(out, (char)('0' + rest / units_per_second));
    }
}

void prometheus_sample(struct buffer *out, const char *name, const struct prometheus_label *labels,
                       int64_t value)
{
    append_series(out, name, "", labels, NULL);
    buffer_append_i64(out, value);
    buffer_append_byte(out, '\n');
}

void prometheus_sample_seconds(struct buffer *out, const char *name,
                               const struct prometheus_label *labels, int64_t value_ms)
{
    append_series(out, name, "", labels, NULL);
    if (value_ms < 0)
        buffer_append_byte(out, '-');
    append_seconds(out, value_ms < 0 ? 0 - (uint64_t)value_ms : (uint64_t)value_ms, 1000);
    buffer_append_byte(out, '\n');
}

static void append_bucket(struct buffer *out, const char *name,
                          const struct prometheus_label *labels, struct slice bound, uint64_t count)
{
    append_series(out, name, "_bucket", labels, &bound);
    buffer_append_u64(out, count);
    buffer_append_byte(out, '\n');
}

void prometheus_histogram(struct buffer *out, const char *name,
                          const struct prometheus_label *labels, const struct histogram *histogram,
                          uint64_t units_per_ms, const uint32_t *bounds_ms, size_t bound_count)
{
    char digits[32];
    struct buffer bound = {.at = digits, .cap = sizeof digits, .bytes_max = sizeof digits};

    assert(units_per_ms == 1 || units_per_ms == 1000);
    for (size_t i = 0; i < bound_count; i++) {
        assert(i == 0 || bounds_ms[i] > bounds_ms[i - 1]);
        buffer_clear(&bound);
        append_seconds(&bound, bounds_ms[i], 1000);
        append_bucket(out, name, labels, buffer_slice(&bound),
                      histogram_count_to(histogram, bounds_ms[i] * units_per_ms));
    }
    append_bucket(out, name, labels, slice_of("+Inf"), histogram->count);

    append_series(out, name, "_sum", labels, NULL);
    append_seconds(out, histogram->sum, units_per_ms * 1000);
    buffer_append_byte(out, '\n');
    append_series(out, name, "_count", labels, NULL);
    buffer_append_u64(out, histogram->count);
    buffer_append_byte(out, '\n');
}
