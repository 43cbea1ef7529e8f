#include "job/job.h"

#include "base/json_read.h"

#include <assert.h>

enum { META_NAME_BYTES_MAX = 64, META_VALUE_BYTES_MAX = 1024 };

static const char *const state_names[] = {
    [JOB_DELAYED] = "delayed", [JOB_READY] = "ready",       [JOB_LEASED] = "leased",
    [JOB_DEAD] = "dead",       [JOB_FINISHED] = "finished",
};

const char *job_state_name(enum job_state state)
{
    assert(state >= JOB_DELAYED && state <= JOB_FINISHED);
    return state_names[state];
}

enum job_state job_state_parse(struct slice name)
{
    for (int state = JOB_DELAYED; state <= JOB_FINISHED; state++)
        if (slice_is(name, state_names[state]))
            return (enum job_state)state;
    return (enum job_state)0;
}

/* ---- classes of bytes ---- */

enum { IN_TOPIC = 1, IN_META_NAME = 2 };

static const unsigned char byte_uses[256] = {
    ['a' ... 'z'] = IN_TOPIC | IN_META_NAME,
    ['0' ... '9'] = IN_TOPIC | IN_META_NAME,
    ['-'] = IN_TOPIC | IN_META_NAME,
    ['A' ... 'Z'] = IN_TOPIC,
    ['.'] = IN_TOPIC,
    ['_'] = IN_TOPIC,
    ['+'] = IN_TOPIC,
    ['/'] = IN_TOPIC,
    [';'] = IN_TOPIC,
    ['$'] = IN_TOPIC,
    ['('] = IN_TOPIC,
    [')'] = IN_TOPIC,
};

static bool every_byte_is(struct slice text, unsigned use)
{
    for (size_t i = 0; i < text.len; i++)
        if (!(byte_uses[(unsigned char)text.at[i]] & use))
            return false;
    return true;
}

bool job_topic_is_valid(struct slice topic)
{
    return topic.len >= 1 && topic.len <= JOB_TOPIC_BYTES_MAX && topic.at[0] != '.' &&
           every_byte_is(topic, IN_TOPIC);
}

bool job_topic_is_own(struct slice topic)
{
    static const char prefix[] = "tarry.", numbers[] = "tarry-beanstalk-numbers";
    size_t len = sizeof prefix - 1;
    if (topic.len < len || topic.at[0] != 't')
        return false;
    return memcmp(topic.at, prefix, len) == 0 || slice_is(topic, numbers);
}

/* Returns whether each of eight bytes is from 0x21 to 0x7e. The high bit of each byte must be
 * clear, must stay clear when one is added, and must become set when 0x5f is added. */
static bool word_is_printable(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones * 0x80;
    return !(word & highs) && !((word + ones) & highs) && ((word + ones * 0x5f) & highs) == highs;
}

bool job_id_is_valid(struct slice id)
{
    if (id.len < 1 || id.len > JOB_ID_BYTES_MAX)
        return false;
    uint64_t word = 0;
    size_t i = 0;
    for (; i + sizeof word <= id.len; i += sizeof word) {
        memcpy(&word, id.at + i, sizeof word);
        if (!word_is_printable(word))
            return false;
    }
    for (; i < id.len; i++)
        if (id.at[i] < 0x21 || id.at[i] > 0x7e)
            return false;
    return true;
}

bool job_consumer_is_valid(struct slice consumer)
{
    if (consumer.len < 1 || consumer.len > JOB_CONSUMER_BYTES_MAX || consumer.at[0] == ' ' ||
        consumer.at[consumer.len - 1] == ' ')
        return false;
    for (size_t i = 0; i < consumer.len; i++)
        if (consumer.at[i] < 0x20 || consumer.at[i] > 0x7e)
            return false;
    return true;
}

bool job_id_is_dots(struct slice id)
{
    return slice_is(id, ".") || slice_is(id, "..");
}

/* ---- meta ---- */

static bool meta_name_is_valid(struct slice name)
{
    return name.len >= 1 && name.len <= META_NAME_BYTES_MAX && every_byte_is(name, IN_META_NAME);
}

/* Returns whether an ASCII control character begins at `at`, or the first byte of U+0080 to U+009F,
 * which terminals also interpret. */
static bool begins_control(struct slice text, size_t at)
{
    unsigned char byte = (unsigned char)text.at[at];
    return byte < 0x20 || byte == 0x7f ||
           (byte == 0xc2 && at + 1 < text.len && (unsigned char)text.at[at + 1] < 0xa0);
}

static bool meta_value_is_valid(struct slice value)
{
    if (value.len > META_VALUE_BYTES_MAX)
        return false;
    for (size_t i = 0; i < value.len; i++)
        if (begins_control(value, i))
            return false;
    return value.len == 0 || json_utf8_is_valid(value);
}

static enum job_meta_fault meta_evaluate(struct slice meta, struct slice name, struct slice value)
{
    struct slice other, other_value;
    size_t at = 0, pairs = 0;

    if (!meta_name_is_valid(name))
        return JOB_META_BAD_NAME;
    if (!meta_value_is_valid(value))
        return JOB_META_BAD_VALUE;
    while (job_meta_next(meta, &at, &other, &other_value)) {
        if (slice_equals(other, name))
            return JOB_META_TWICE;
        pairs++;
    }
    if (pairs >= JOB_META_PAIRS_MAX || meta.len + name.len + value.len + 2 > JOB_META_BYTES_MAX)
        return JOB_META_TOO_MUCH;
    return JOB_META_OK;
}

enum job_meta_fault job_meta_add(struct buffer *meta, struct slice name, struct slice value)
{
    enum job_meta_fault fault = meta_evaluate(buffer_slice(meta), name, value);

    if (fault)
        return fault;
    if (!buffer_reserve(meta, name.len + value.len + 2))
        return JOB_META_TOO_MUCH;
    buffer_append_slice(meta, name);
    buffer_append_byte(meta, '\0');
    buffer_append_slice(meta, value);
    buffer_append_byte(meta, '\0');
    return JOB_META_OK;
}

bool job_meta_is_hidden(struct slice name)
{
    return slice_is(name, JOB_META_PUSHED) || slice_is(name, JOB_META_MEMBERS);
}

/* Takes the bytes from *at up to the next NUL, and moves *at past it. */
static bool meta_take(struct slice meta, size_t *at, struct slice *out)
{
    const char *from, *nul;

    if (*at >= meta.len)
        return false;
    from = meta.at + *at;
    nul = memchr(from, '\0', meta.len - *at);
    if (!nul)
        return false;
    *out = slice_make(from, (size_t)(nul - from));
    *at += out->len + 1;
    return true;
}

bool job_meta_next(struct slice meta, size_t *at, struct slice *name, struct slice *value)
{
    size_t next = *at;

    if (!meta_take(meta, &next, name) || !meta_take(meta, &next, value))
        return false;
    *at = next;
    return true;
}

struct slice job_meta_find(struct slice meta, struct slice wanted)
{
    struct slice name, value;
    for (size_t at = 0; job_meta_next(meta, &at, &name, &value);)
        if (slice_equals(name, wanted))
            return value;
    return (struct slice){0};
}
