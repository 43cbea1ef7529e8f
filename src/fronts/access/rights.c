#include "access/rights.h"

#include <assert.h>
#include <string.h>

enum { TOPIC_BYTES_MAX = 200 }; /* limit of a job's topic */

static const char *const scope_names[] = {"push", "consume", "read", "admin"};
enum { SCOPES = sizeof scope_names / sizeof scope_names[0] };
_Static_assert(ACCESS_SCOPES_ALL == (1 << SCOPES) - 1, "each scope has its name");

/* Cuts the part of `rest` up to the next comma. Returns false at the end. */
static bool next_part(struct slice *rest, struct slice *part)
{
    if (!rest->at)
        return false;
    const char *comma = rest->len ? memchr(rest->at, ',', rest->len) : NULL;
    *part = slice_make(rest->at, comma ? (size_t)(comma - rest->at) : rest->len);
    *rest = comma ? slice_make(comma + 1, rest->len - part->len - 1) : slice_make(NULL, 0);
    return true;
}

/* ---- scopes ---- */

const char *access_scope_name(unsigned scope)
{
    unsigned i = 0;
    while (i < SCOPES && scope != 1u << i)
        i++;
    assert(i < SCOPES);
    return scope_names[i];
}

unsigned access_scopes_parse(struct slice text)
{
    unsigned scopes = 0;
    struct slice part;
    while (next_part(&text, &part)) {
        unsigned scope = 0;
        for (unsigned i = 0; i < SCOPES; i++)
            if (slice_is(part, scope_names[i]))
                scope = 1u << i;
        if (!scope || scopes & scope)
            return 0;
        scopes |= scope;
    }
    return scopes;
}

void access_scopes_emit(unsigned scopes, char out[ACCESS_SCOPES_TEXT_BYTES])
{
    size_t len = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < SCOPES; i++)
        if (scopes & 1u << i) {
            if (len)
                out[len++] = ',';
            strcpy(out + len, scope_names[i]);
            len += strlen(scope_names[i]);
        }
    assert(len < ACCESS_SCOPES_TEXT_BYTES);
}

/* ---- topics ---- */

static bool pattern_is_valid(struct slice pattern)
{
    if (pattern.len && pattern.at[pattern.len - 1] == '*') {
        if (pattern.len == 1)
            return true;
        pattern.len--;
    }
    if (pattern.len < 1 || pattern.len > TOPIC_BYTES_MAX || pattern.at[0] == '.')
        return false;
    for (size_t i = 0; i < pattern.len; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+/;$()",
                    pattern.at[i]) ||
            !pattern.at[i])
            return false;
    return true;
}

bool access_topics_are_valid(struct slice patterns)
{
    struct slice part;
    if (patterns.len == 0 || patterns.len > ACCESS_TOPICS_TEXT_BYTES_MAX)
        return false;
    while (next_part(&patterns, &part))
        if (!pattern_is_valid(part))
            return false;
    return true;
}

static bool pattern_matches(struct slice pattern, struct slice topic)
{
    if (pattern.len && pattern.at[pattern.len - 1] == '*')
        return topic.len >= pattern.len - 1 && memcmp(topic.at, pattern.at, pattern.len - 1) == 0;
    return slice_equals(pattern, topic);
}

bool access_topics_match(struct slice patterns, struct slice topic)
{
    struct slice part;
    if (topic.len == 0)
        return access_topics_are_all(patterns);
    while (next_part(&patterns, &part))
        if (pattern_matches(part, topic))
            return true;
    return false;
}

bool access_topics_are_all(struct slice patterns)
{
    struct slice part;
    while (next_part(&patterns, &part))
        if (slice_is(part, "*"))
            return true;
    return false;
}
