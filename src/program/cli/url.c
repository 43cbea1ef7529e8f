#include "cli/url.h"

#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void cli_url_add_segment(struct buffer *url, const char *text)
{
    buffer_append_byte(url, '/');
    text_percent_encode(slice_of(text), "", url);
}

void cli_url_add_query(struct buffer *url, const char *key, const char *value)
{
    if (!value)
        return;
    bool is_first = url->len == 0 || !memchr(url->at, '?', url->len);
    buffer_append_byte(url, is_first ? '?' : '&');
    buffer_append_text(url, key);
    buffer_append_byte(url, '=');
    text_percent_encode(slice_of(value), "", url);
}

void cli_url_add_query_number(struct buffer *url, const char *key, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    cli_url_add_query(url, key, text);
}

void cli_url_add_query_ms(struct buffer *url, const char *key, int64_t ms)
{
    char text[32];
    snprintf(text, sizeof text, "%lldms", (long long)ms);
    cli_url_add_query(url, key, text);
}

/* ---- display without secrets ---- */

/* Returns the beginning of a URL's authority, or `text` if there is no scheme. */
static const char *find_authority(const char *text)
{
    const char *colon = strstr(text, "://");
    return colon ? colon + 3 : text;
}

/* Finds an invalid port, as in "http://user:secret" whose host is missing. Returns its
 * beginning, or NULL if the port is valid or absent. `end` is the end of the word. */
static const char *find_bad_port(const char *at, const char *end)
{
    const char *bracket = *at == '[' ? memchr(at, ']', (size_t)(end - at)) : NULL;
    at = bracket ? bracket : at;
    while (at < end && *at != ':' && *at != '/')
        at++;
    if (at == end || *at == '/')
        return NULL;
    const char *port = ++at;
    while (at < end && isdigit((unsigned char)*at))
        at++;
    return at == end || *at == '/' || (at > port && ispunct((unsigned char)*at)) ? NULL : port;
}

/* Replaces the text from `secret` to the last "@" with "…". */
static bool show_user(const char *text, const char *secret, struct buffer *out)
{
    const char *at = secret ? strrchr(secret, '@') : NULL;
    if (!at)
        return false;
    buffer_append(out, text, (size_t)(secret - text));
    buffer_append_text(out, "…");
    buffer_append_text(out, at);
    return true;
}

/* Replaces invalid ports with "…", word by word. */
static void show_ports(const char *text, bool is_url, struct buffer *out)
{
    while (*text) {
        const char *word = text + strspn(text, " "), *end = word + strcspn(word, " ");
        bool is_one = is_url || memmem(word, (size_t)(end - word), "://", 3);
        const char *authority = find_authority(word);
        const char *port = is_one && authority < end ? find_bad_port(authority, end) : NULL;
        buffer_append(out, text, (size_t)((port ? port : end) - text));
        if (port)
            buffer_append_text(out, "…");
        text = end;
    }
}

static void emit(struct buffer *shown, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%.*s", (int)shown->len, shown->len ? shown->at : "");
    buffer_fini(shown);
}

void cli_url_show(const char *url, char *out, size_t out_bytes)
{
    struct buffer shown;
    buffer_init(&shown, CLI_URL_BYTES_MAX);
    if (!show_user(url, find_authority(url), &shown))
        show_ports(url, true, &shown);
    emit(&shown, out, out_bytes);
}

/* Returns the beginning of the first word with a ":" before the last "@", such as
 * user:password@host. */
static const char *find_user(const char *sentence)
{
    const char *at = strrchr(sentence, '@'), *colon = strchr(sentence, ':');
    if (!at || !colon || colon > at)
        return NULL;
    while (colon > sentence && colon[-1] != ' ' && colon[-1] != '\'')
        colon--;
    return colon;
}

void cli_url_show_sentence(const char *sentence, bool is_careful, char *out, size_t out_bytes)
{
    struct buffer shown;
    const char *scheme = strstr(sentence, "://");
    buffer_init(&shown, CLI_URL_BYTES_MAX);
    if (!show_user(sentence, scheme ? scheme + 3 : NULL, &shown) &&
        !show_user(sentence, is_careful ? find_user(sentence) : NULL, &shown))
        show_ports(sentence, false, &shown);
    emit(&shown, out, out_bytes);
}
