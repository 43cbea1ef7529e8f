/* json_check: checks JSON in one pass without recursion: the open containers are a stack of
 * bits. So a check can pause between two values, in a string, and in a container that is skipped. */
#include "base/json_read.h"

#include "base/hex.h"
#include "base/json_levels.h"
#include "base/json_scan.h"
#include "base/text.h"

#include <assert.h>

struct scan {
    const char *at, *end;          /* after a fault: its position */
    const char *pause;             /* pauses here or behind; `end`: never */
    bool objects[JSON_LEVELS_MAX]; /* by level: whether the container is an object */
    int depth, levels;
    bool skips; /* skip containers that are too deep */
    bool is_too_deep;
    enum json_scan_place
        paused;   /* the place of the pause, which the functions return like a fault; 0: no pause */
    int64_t open; /* containers that are open in one that is skipped */
};

enum next { NEXT_VALUE = 1, NEXT_NOTHING, NEXT_FAULT };

static bool sees(const struct scan *scan, char byte)
{
    return scan->at < scan->end && *scan->at == byte;
}

static void skip_space(struct scan *scan)
{
    scan->at = json_space_end(scan->at, scan->end);
}

/* Reads four hex digits. Returns -1, with `at` on the first invalid byte, on failure. */
static int take_hex4(struct scan *scan)
{
    int value = 0;

    for (int i = 0; i < 4; i++, scan->at++) {
        int digit = scan->at < scan->end ? hex_value(*scan->at) : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Checks what follows "\u". A surrogate must be the first of a pair: half a pair is not a
 * character. */
static bool check_unicode_escape(struct scan *scan)
{
    const char *first = scan->at;
    int unit = take_hex4(scan);

    if (unit < 0)
        return false;
    if (unit < 0xd800 || unit > 0xdfff)
        return true;
    if (unit <= 0xdbff && scan->end - scan->at >= 2 && memcmp(scan->at, "\\u", 2) == 0) {
        scan->at += 2;
        unit = take_hex4(scan);
        if (unit < 0)
            return false;
        if (unit >= 0xdc00 && unit <= 0xdfff)
            return true;
    }
    scan->at = first;
    return false;
}

static bool check_escape(struct scan *scan)
{
    scan->at++;
    if (sees(scan, 'u')) {
        scan->at++;
        return check_unicode_escape(scan);
    }
    if (scan->at == scan->end || !memchr("\"\\/bfnrt", *scan->at, 8))
        return false;
    scan->at++;
    return true;
}

/* Checks a run of bytes outside ASCII, which mostly come in runs. */
static bool check_utf8_run(struct scan *scan)
{
    while (scan->at < scan->pause && (signed char)*scan->at < 0) {
        size_t len = json_utf8_len(scan->at, scan->end);
        if (len == 0)
            return false;
        scan->at += len;
    }
    return true;
}

/* Pauses. The result is the one of a fault. */
static bool pause_at(struct scan *scan, enum json_scan_place place)
{
    scan->paused = place;
    return false;
}

/* Checks the rest of a string, from a character in it or its last quote. `place` is that of the string. */
static bool check_string_rest(struct scan *scan, enum json_scan_place place)
{
    for (;;) {
        scan->at = json_plain_end(scan->at, scan->end);
        if (scan->at == scan->end)
            return false;
        if (*scan->at == '"')
            break;
        if (scan->at >= scan->pause)
            return pause_at(scan, place);
        if (*scan->at == '\\') {
            if (!check_escape(scan))
                return false;
        } else if ((signed char)*scan->at >= 0 || !check_utf8_run(scan)) {
            return false;
        }
    }
    scan->at++;
    return true;
}

static bool check_string(struct scan *scan, enum json_scan_place place)
{
    if (!sees(scan, '"'))
        return false;
    scan->at++;
    return check_string_rest(scan, place);
}

static bool check_digits(struct scan *scan)
{
    const char *first = scan->at;

    while (scan->at < scan->end && text_is_digit(*scan->at))
        scan->at++;
    return scan->at > first;
}

static bool check_number(struct scan *scan)
{
    if (sees(scan, '-'))
        scan->at++;
    if (sees(scan, '0'))
        scan->at++;
    else if (!check_digits(scan))
        return false;
    if (sees(scan, '.')) {
        scan->at++;
        if (!check_digits(scan))
            return false;
    }
    if (sees(scan, 'e') || sees(scan, 'E')) {
        scan->at++;
        if (sees(scan, '+') || sees(scan, '-'))
            scan->at++;
        return check_digits(scan);
    }
    return true;
}

static bool check_literal(struct scan *scan, const char *literal)
{
    for (; *literal; literal++, scan->at++)
        if (!sees(scan, *literal))
            return false;
    return true;
}

static bool check_scalar(struct scan *scan)
{
    if (scan->at == scan->end)
        return false;
    switch (*scan->at) {
    case '"':
        return check_string(scan, JSON_SCAN_STRING);
    case 't':
        return check_literal(scan, "true");
    case 'f':
        return check_literal(scan, "false");
    case 'n':
        return check_literal(scan, "null");
    default:
        return check_number(scan);
    }
}

/* Checks the colon behind a key, and the white space around it. */
static bool check_colon(struct scan *scan)
{
    skip_space(scan);
    if (!sees(scan, ':'))
        return false;
    scan->at++;
    skip_space(scan);
    return true;
}

/* Checks a key, its colon and the white space around them. */
static bool check_key(struct scan *scan)
{
    skip_space(scan);
    return check_string(scan, JSON_SCAN_KEY) && check_colon(scan);
}

/* Skips a container that is too deep, in which `open` containers are open: finds its end by counting brackets. Returns
 * false if it has no end. */
static bool skip_container(struct scan *scan, int64_t open)
{
    static const int8_t opened[256] = {['{'] = 1, ['['] = 1, ['}'] = -1, [']'] = -1};
    const char *at = scan->at, *end = scan->end; /* in registers: this is a loop over each byte */
    const char *pause = scan->pause;
    do {
        if (at == end)
            break;
        if (at >= pause) {
            scan->at = at;
            scan->open = open;
            return pause_at(scan, JSON_SCAN_SKIPPED);
        }
        char byte = *at++;
        if (byte == '"') {
            while (at < end && *at != '"')
                at += *at == '\\' && end - at > 1 ? 2 : 1;
            if (at == end)
                break;
            at++;
        }
        open += opened[(unsigned char)byte];
    } while (open > 0);
    scan->at = at;
    scan->is_too_deep = !open;
    return !open;
}

/* Checks the beginning of a container: either its end or its first content must follow. */
static bool check_opening(struct scan *scan, bool *is_empty)
{
    bool is_object = *scan->at == '{';

    scan->objects[scan->depth++] = is_object;
    scan->at++;
    skip_space(scan);
    *is_empty = sees(scan, is_object ? '}' : ']');
    return *is_empty || !is_object || check_key(scan);
}

/* Continues after a value: leaves the containers that end here, and moves to the next value if
 * there is one. */
static enum next check_after_value(struct scan *scan)
{
    while (scan->depth > 0) {
        bool in_object = scan->objects[scan->depth - 1];
        skip_space(scan);
        if (sees(scan, ',')) {
            scan->at++;
            if (in_object)
                return check_key(scan) ? NEXT_VALUE : NEXT_FAULT;
            skip_space(scan);
            return NEXT_VALUE;
        }
        if (!sees(scan, in_object ? '}' : ']'))
            return NEXT_FAULT;
        scan->at++;
        scan->depth--;
    }
    return NEXT_NOTHING;
}

/* Checks a value and everything in it without recursion: the depth is counted, and the open
 * containers are on a stack of bits. `next` is NEXT_VALUE at its beginning. */
static bool check_value(struct scan *scan, enum next next)
{
    while (next == NEXT_VALUE) {
        if (scan->at >= scan->pause && scan->at < scan->end)
            return pause_at(scan, JSON_SCAN_VALUE);
        bool is_container = sees(scan, '{') || sees(scan, '[');
        if (is_container && scan->depth == scan->levels) {
            if (!scan->skips || !skip_container(scan, 0))
                return false;
        } else if (is_container) {
            bool is_empty;
            if (!check_opening(scan, &is_empty))
                return false;
            if (!is_empty)
                continue;
        } else if (!check_scalar(scan)) {
            return false;
        }
        next = check_after_value(scan);
    }
    return next == NEXT_NOTHING;
}

/* Continues where the check has paused. */
static bool check_on(struct scan *scan, enum json_scan_place place)
{
    bool is_good = true;
    if (place == JSON_SCAN_VALUE)
        return check_value(scan, NEXT_VALUE);
    if (place == JSON_SCAN_KEY)
        return check_string_rest(scan, place) && check_colon(scan) && check_value(scan, NEXT_VALUE);
    if (place == JSON_SCAN_STRING)
        is_good = check_string_rest(scan, place);
    else
        is_good = skip_container(scan, scan->open);
    return is_good && check_value(scan, check_after_value(scan));
}

static inline void scan_init(struct scan *scan, struct slice text, int levels, bool skips)
{
    scan->at = text.len ? text.at : "";
    scan->end = scan->pause = scan->at + text.len;
    scan->depth = 0;
    scan->levels = levels;
    scan->skips = skips;
    scan->is_too_deep = false;
    scan->paused = 0;
}

static enum json_finding examine(struct slice text, int levels, bool skips,
                                 struct json_value *value, size_t *error_at)
{
    if (text.len == 0)
        text.at = "";
    struct scan scan;
    scan_init(&scan, text, levels, skips);
    skip_space(&scan);
    const char *first = scan.at;
    bool valid = check_value(&scan, NEXT_VALUE);
    const char *last = scan.at;
    if (valid)
        skip_space(&scan);
    if (!valid || scan.at != scan.end) {
        if (error_at)
            *error_at = (size_t)(scan.at - text.at);
        return JSON_MALFORMED;
    }
    value->kind = json_kind_of(*first);
    value->raw = slice_make(first, (size_t)(last - first));
    return scan.is_too_deep ? JSON_TOO_DEEP : JSON_SOUND;
}

enum json_finding json_check_levels(struct slice text, int levels, struct json_value *value,
                                    size_t *error_at)
{
    assert(levels > 0 && levels <= JSON_LEVELS_MAX);
    return examine(text, levels, true, value, error_at);
}

enum json_finding json_check_first(struct slice text, int levels, size_t *end)
{
    assert(levels > 0 && levels <= JSON_LEVELS_MAX);
    struct scan scan;
    scan_init(&scan, text, levels, true);
    const char *first = scan.at;
    bool is_valid = check_value(&scan, NEXT_VALUE);
    *end = (size_t)(scan.at - first);
    return !is_valid ? JSON_MALFORMED : scan.is_too_deep ? JSON_TOO_DEEP : JSON_SOUND;
}

enum json_finding json_scan_some(struct json_scan *state, struct slice text, int levels,
                                 size_t bytes, size_t *end)
{
    assert(levels > 0 && levels <= JSON_LEVELS_MAX);
    struct scan scan;
    scan_init(&scan, text, levels, true);
    const char *first = scan.at;
    if (state->place) {
        assert(state->at <= text.len);
        scan.at += state->at;
    }
    if ((size_t)(scan.end - scan.at) > bytes)
        scan.pause = scan.at + bytes;
    if (state->place) {
        memcpy(scan.objects, state->objects, sizeof scan.objects);
        scan.depth = state->depth;
        scan.open = state->open;
        scan.is_too_deep = state->is_too_deep;
    }
    bool is_valid = check_on(&scan, state->place ? state->place : JSON_SCAN_VALUE);
    *end = (size_t)(scan.at - first);
    state->place = scan.paused;
    if (!scan.paused)
        return !is_valid ? JSON_MALFORMED : scan.is_too_deep ? JSON_TOO_DEEP : JSON_SOUND;
    memcpy(state->objects, scan.objects, sizeof scan.objects);
    state->at = *end;
    state->depth = scan.depth;
    state->open = scan.open;
    state->is_too_deep = scan.is_too_deep;
    return JSON_UNFINISHED;
}

bool json_check(struct slice text, struct json_value *value, size_t *error_at)
{
    return examine(text, JSON_DEPTH_MAX, false, value, error_at) == JSON_SOUND;
}

bool json_utf8_is_valid(struct slice text)
{
    if (text.len == 0)
        return true;
    const char *end = text.at + text.len;
    struct scan scan = {.at = text.at, .end = end, .pause = end};

    while (scan.at < scan.end) {
        scan.at = json_ascii_end(scan.at, scan.end);
        if (!check_utf8_run(&scan))
            return false;
    }
    return true;
}
