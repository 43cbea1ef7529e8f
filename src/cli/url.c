#include "cli/url.h"

#include <stdio.h>

static void add_escaped(struct buffer *url, const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *text; text++)
        if (strchr(plain, *text))
            buffer_append_byte(url, *text);
        else
            buffer_append_format(url, "%%%02X", (unsigned)(unsigned char)*text);
}

void url_add_segment(struct buffer *url, const char *text)
{
    buffer_append_byte(url, '/');
    add_escaped(url, text);
}

void url_add_query(struct buffer *url, const char *key, const char *value)
{
    if (!value)
        return;
    bool is_first = url->len == 0 || !memchr(url->at, '?', url->len);
    buffer_append_byte(url, is_first ? '?' : '&');
    buffer_append_text(url, key);
    buffer_append_byte(url, '=');
    add_escaped(url, value);
}

void url_add_query_number(struct buffer *url, const char *key, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    url_add_query(url, key, text);
}
