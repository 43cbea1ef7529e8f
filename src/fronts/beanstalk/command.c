#include "beanstalk/command.h"

#include "base/text.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

/* The arguments of a verb. */
enum shape {
    SHAPE_NOTHING = 1,
    SHAPE_PUT,
    SHAPE_ID,
    SHAPE_RELEASE,
    SHAPE_BURY,
    SHAPE_NUMBER,
    SHAPE_TIMEOUT,
    SHAPE_TUBE,
    SHAPE_PAUSE
};

/* Verbs and their arguments. If one verb is a prefix of another, the longer one comes first. */
static const struct verb_row {
    const char *text;
    enum beanstalk_verb verb;
    enum shape shape;
} rows[] = {
    {"put ", BEANSTALK_PUT, SHAPE_PUT},
    {"peek-ready", BEANSTALK_PEEK_READY, SHAPE_NOTHING},
    {"peek-delayed", BEANSTALK_PEEK_DELAYED, SHAPE_NOTHING},
    {"peek-buried", BEANSTALK_PEEK_BURIED, SHAPE_NOTHING},
    {"peek ", BEANSTALK_PEEK, SHAPE_ID},
    {"reserve-with-timeout ", BEANSTALK_RESERVE_WITH_TIMEOUT, SHAPE_TIMEOUT},
    {"reserve-job ", BEANSTALK_RESERVE_JOB, SHAPE_ID},
    {"reserve", BEANSTALK_RESERVE, SHAPE_NOTHING},
    {"delete ", BEANSTALK_DELETE, SHAPE_ID},
    {"release ", BEANSTALK_RELEASE, SHAPE_RELEASE},
    {"bury ", BEANSTALK_BURY, SHAPE_BURY},
    {"kick-job ", BEANSTALK_KICK_JOB, SHAPE_ID},
    {"kick ", BEANSTALK_KICK, SHAPE_NUMBER},
    {"touch ", BEANSTALK_TOUCH, SHAPE_ID},
    {"stats-job ", BEANSTALK_STATS_JOB, SHAPE_ID},
    {"stats-tube ", BEANSTALK_STATS_TUBE, SHAPE_TUBE},
    {"stats", BEANSTALK_STATS, SHAPE_NOTHING},
    {"use ", BEANSTALK_USE, SHAPE_TUBE},
    {"watch ", BEANSTALK_WATCH, SHAPE_TUBE},
    {"ignore ", BEANSTALK_IGNORE, SHAPE_TUBE},
    {"list-tubes-watched", BEANSTALK_LIST_TUBES_WATCHED, SHAPE_NOTHING},
    {"list-tube-used", BEANSTALK_LIST_TUBE_USED, SHAPE_NOTHING},
    {"list-tubes", BEANSTALK_LIST_TUBES, SHAPE_NOTHING},
    {"quit", BEANSTALK_QUIT, SHAPE_NOTHING},
    {"pause-tube", BEANSTALK_PAUSE_TUBE, SHAPE_PAUSE},
};

static const struct verb_row *find_row(struct slice line)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t len = strlen(rows[i].text);
        if (line.len >= len && memcmp(line.at, rows[i].text, len) == 0)
            return &rows[i];
    }
    return NULL;
}

static void skip(struct slice *rest, size_t bytes)
{
    *rest = slice_make(rest->at + bytes, rest->len - bytes);
}

static void skip_blanks(struct slice *rest)
{
    while (rest->len && *rest->at == ' ')
        skip(rest, 1);
}

/* Parses a number up to `most`, after optional blanks. */
static bool read_number(struct slice *rest, uint64_t most, uint64_t *out)
{
    uint64_t number = 0;
    skip_blanks(rest);
    if (!rest->len || !text_is_digit(*rest->at))
        return false;
    for (; rest->len && text_is_digit(*rest->at); skip(rest, 1)) {
        unsigned digit = (unsigned)(*rest->at - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *out = number;
    return number <= most;
}

static bool read_u32(struct slice *rest, uint32_t *out)
{
    uint64_t number;
    if (!read_number(rest, UINT32_MAX, &number))
        return false;
    *out = (uint32_t)number;
    return true;
}

/* The signs that a tube's name may contain. */
#define NAME_SIGNS "-+/;.$_()"

bool beanstalk_tube_is_valid(struct slice name)
{
    return name.len && name.len <= 200 && *name.at != '-' && *name.at != '.' &&
           text_is_word(name, NAME_SIGNS);
}

static bool read_put(struct slice *rest, struct beanstalk_command *out)
{
    if (!read_u32(rest, &out->priority) || !read_u32(rest, &out->delay_s) ||
        !read_u32(rest, &out->ttr_s) || !read_u32(rest, &out->bytes))
        return false;
    out->has_rest = rest->len > 0;
    skip(rest, rest->len);
    return true;
}

static bool read_pause(struct slice *rest, struct beanstalk_command *out)
{
    size_t len = 0;
    skip_blanks(rest);
    while (len < rest->len && text_is_word(slice_make(rest->at + len, 1), NAME_SIGNS))
        len++;
    out->tube = slice_make(rest->at, len);
    skip(rest, len);
    return len && read_u32(rest, &out->number) && beanstalk_tube_is_valid(out->tube);
}

/* Parses the arguments of a verb. `rest` is then the unparsed remainder of the line. */
static bool read_words(enum shape shape, struct slice *rest, struct beanstalk_command *out)
{
    switch (shape) {
    case SHAPE_NOTHING:
        return true;
    case SHAPE_PUT:
        return read_put(rest, out);
    case SHAPE_ID:
        return read_number(rest, UINT64_MAX, &out->id);
    case SHAPE_RELEASE:
        return read_number(rest, UINT64_MAX, &out->id) && read_u32(rest, &out->priority) &&
               read_u32(rest, &out->delay_s);
    case SHAPE_BURY:
        return read_number(rest, UINT64_MAX, &out->id) && read_u32(rest, &out->priority);
    case SHAPE_NUMBER:
        return read_u32(rest, &out->number);
    case SHAPE_TIMEOUT:
        return read_u32(rest, &out->number) && out->number <= INT_MAX;
    case SHAPE_TUBE:
        out->tube = *rest;
        skip(rest, rest->len);
        return beanstalk_tube_is_valid(out->tube);
    case SHAPE_PAUSE:
        return read_pause(rest, out);
    }
    return false;
}

size_t beanstalk_line_bytes(struct slice input)
{
    size_t most = input.len < BEANSTALK_LINE_BYTES_MAX ? input.len : BEANSTALK_LINE_BYTES_MAX;
    const char *end = memmem(input.at, most, "\r\n", 2);
    return end ? (size_t)(end - input.at) + 2 : 0;
}

/* Tests for the version of an HTTP request. No command contains it: names contain no blank, and a
 * name is followed by a number. */
bool beanstalk_has_http_version(struct slice line)
{
    _Static_assert(sizeof " HTTP/" - 1 == BEANSTALK_VERSION_BYTES, "the bytes of a version");
    return line.len && memmem(line.at, line.len, " HTTP/", BEANSTALK_VERSION_BYTES);
}

/* Tests for a request line such as "PATCH /x", from HTTP/0.9 or truncated. Commands are in lower
 * case. */
static bool begins_with_method(struct slice line)
{
    size_t len = 0;
    while (len < line.len && line.at[len] >= 'A' && line.at[len] <= 'Z')
        len++;
    return len && line.len - len >= 2 && memcmp(line.at + len, " /", 2) == 0;
}

bool beanstalk_line_is_foreign(struct slice line)
{
    static const char host[] = "host:";
    enum { HOST_BYTES = sizeof host - 1, TLS_HANDSHAKE = 0x16 };
    return line.len && (line.at[0] == TLS_HANDSHAKE || begins_with_method(line) ||
                        (line.len >= HOST_BYTES && strncasecmp(line.at, host, HOST_BYTES) == 0) ||
                        beanstalk_has_http_version(line));
}

bool beanstalk_command_parse(struct slice line, struct beanstalk_command *out)
{
    const struct verb_row *row = find_row(line);
    *out = (struct beanstalk_command){0};
    if (line.len && memchr(line.at, 0, line.len))
        return false;
    if (!row)
        return true;
    out->verb = row->verb;
    skip(&line, strlen(row->text));
    return read_words(row->shape, &line, out) && !line.len;
}
