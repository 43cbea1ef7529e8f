#include "peers/beanstalk.h"

#include <stdio.h>
#include <stdlib.h>

enum { LINE_BYTES_MAX = 512 };

struct load_speech {
    const struct load_plan *plan;
    struct load_body body;
};

static struct load_speech *beanstalk_open(const struct load_plan *plan, uint32_t run,
                                          char problem[LOAD_TEXT_BYTES_MAX])
{
    (void)run;
    struct load_speech *speech = calloc(1, sizeof *speech);
    if (!speech) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "out of memory");
        return NULL;
    }
    speech->plan = plan;
    load_body_init(&speech->body, plan->body_bytes);
    return speech;
}

static void beanstalk_close(struct load_speech *speech)
{
    if (speech)
        load_body_fini(&speech->body);
    free(speech);
}

static unsigned beanstalk_greet(struct load_speech *speech, struct buffer *out)
{
    const char *topic = speech->plan->topic;
    buffer_append_format(out, "use %s\r\nwatch %s\r\nignore default\r\n", topic, topic);
    return 3;
}

static void beanstalk_push(struct load_speech *speech, struct buffer *out,
                           const struct load_stamp *stamps, unsigned count)
{
    (void)count;
    static const char command[] = "put 100 ";
    buffer_append(out, command, sizeof command - 1);
    buffer_append_u64(out, (uint64_t)stamps->delay_ms / 1000);
    buffer_append(out, " 120 ", 5);
    buffer_append_u64(out, speech->plan->body_bytes);
    buffer_append(out, "\r\n", 2);
    load_body_append(&speech->body, stamps, out);
    buffer_append(out, "\r\n", 2);
}

static unsigned beanstalk_take(struct load_speech *speech, struct buffer *out,
                               unsigned got_last_time)
{
    static const char wait[] = "reserve-with-timeout 20\r\n", now[] = "reserve-with-timeout 0\r\n";
    unsigned most = speech->plan->take_max, count = 1 + 2 * got_last_time;
    if (count > most)
        count = most;
    buffer_append(out, wait, sizeof wait - 1);
    for (unsigned i = 1; i < count; i++)
        buffer_append(out, now, sizeof now - 1);
    return count;
}

static unsigned beanstalk_ack(struct load_speech *speech, struct buffer *out,
                              const struct load_item *items, unsigned count)
{
    (void)speech;
    for (unsigned i = 0; i < count; i++) {
        buffer_append(out, "delete ", 7);
        buffer_append_slice(out, items[i].lease);
        buffer_append(out, "\r\n", 2);
    }
    return count;
}

static bool starts_with(struct slice line, const char *word)
{
    size_t len = strlen(word);
    return line.len >= len && memcmp(line.at, word, len) == 0;
}

static bool read_number(const char **at, const char *end, size_t *number)
{
    const char *from = *at;
    size_t n = 0;
    for (; *at < end && **at >= '0' && **at <= '9' && n < (size_t)1 << 40; ++*at)
        n = n * 10 + (size_t)(**at - '0');
    *number = n;
    return *at > from;
}

/* "RESERVED id bytes", then the body and a line end. */
static enum load_outcome read_reserved(struct slice bytes, struct slice line,
                                       struct load_answer *answer)
{
    const char *at = line.at + sizeof "RESERVED " - 1, *end = line.at + line.len;
    struct load_item *item = &answer->items[0];
    size_t number;
    const char *id = at;
    if (!read_number(&at, end, &number) || at == end || *at != ' ')
        return LOAD_BROKEN;
    item->lease = slice_make(id, (size_t)(at - id));
    at++;
    if (!read_number(&at, end, &number) || at != end)
        return LOAD_BROKEN;
    answer->bytes = line.len + 2 + number + 2;
    answer->need = answer->bytes;
    if (bytes.len < answer->bytes)
        return LOAD_PARTIAL;
    item->body = slice_make(end + 2, number);
    answer->item_count = 1;
    return LOAD_ANSWER;
}

static bool is_good(enum load_kind kind, struct slice line)
{
    switch (kind) {
    case LOAD_GREET:
        return starts_with(line, "USING ") || starts_with(line, "WATCHING ");
    case LOAD_PUSH:
        return starts_with(line, "INSERTED ");
    case LOAD_TAKE:
        return starts_with(line, "TIMED_OUT") || starts_with(line, "DEADLINE_SOON");
    case LOAD_ACK:
        return starts_with(line, "DELETED");
    }
    return false;
}

static enum load_outcome beanstalk_parse(struct load_speech *speech, enum load_kind kind,
                                         uint32_t count, struct slice bytes,
                                         struct load_answer *answer)
{
    (void)speech;
    const char *eol = memchr(bytes.at, '\n', bytes.len);
    answer->failed = 0;
    answer->item_count = 0;
    answer->problem = bytes;
    if (!eol) {
        answer->need = bytes.len + 1;
        return bytes.len > LINE_BYTES_MAX ? LOAD_BROKEN : LOAD_PARTIAL;
    }
    struct slice line = slice_make(bytes.at, (size_t)(eol - bytes.at));
    if (line.len == 0 || line.at[line.len - 1] != '\r')
        return LOAD_BROKEN;
    line.len--;
    if (kind == LOAD_TAKE && starts_with(line, "RESERVED "))
        return read_reserved(bytes, line, answer);
    answer->bytes = line.len + 2;
    if (!is_good(kind, line)) {
        answer->failed = count ? count : 1;
        answer->problem = line;
    }
    return LOAD_ANSWER;
}

const struct load_protocol load_beanstalk = {
    .name = "beanstalk",
    .port = "11300",
    .delay_unit_ms = 1000,
    .batch_max = 1,
    .open = beanstalk_open,
    .close = beanstalk_close,
    .push = beanstalk_push,
    .greet = beanstalk_greet,
    .take = beanstalk_take,
    .ack = beanstalk_ack,
    .parse = beanstalk_parse,
};
