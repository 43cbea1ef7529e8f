#include "redis/command.h"

#include <stdarg.h>

enum { DIGITS_MAX = 20, FRAME_BYTES_MAX = 1 + DIGITS_MAX + 2 };

/* Appends kind, number and line end. Numbers are short: digits are written from the right into
 * reserved space. */
static char *put_frame(char *at, char kind, uint64_t number)
{
    char digits[DIGITS_MAX];
    size_t from = sizeof digits;
    do
        digits[--from] = (char)('0' + number % 10);
    while (number /= 10);
    *at++ = kind;
    memcpy(at, digits + from, sizeof digits - from);
    at += sizeof digits - from;
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

void redis_command_begin(struct buffer *out, size_t argc)
{
    char *at = buffer_reserve(out, FRAME_BYTES_MAX);
    if (at)
        out->len = (size_t)(put_frame(at, '*', argc) - out->at);
}

/* Reserves space only once, because every job passes through here. */
void redis_command_arg(struct buffer *out, struct slice arg)
{
    char *at = buffer_reserve(out, FRAME_BYTES_MAX + arg.len + 2);
    if (!at)
        return;
    at = put_frame(at, '$', arg.len);
    if (arg.len)
        memcpy(at, arg.at, arg.len);
    memcpy(at + arg.len, "\r\n", 2);
    out->len = (size_t)(at + arg.len + 2 - out->at);
}

void redis_command_text(struct buffer *out, const char *arg)
{
    redis_command_arg(out, slice_of(arg));
}

void redis_command_number(struct buffer *out, int64_t arg)
{
    char text[1 + DIGITS_MAX];
    struct buffer number = {.at = text, .cap = sizeof text, .bytes_max = sizeof text};
    buffer_append_i64(&number, arg);
    redis_command_arg(out, buffer_slice(&number));
}

void redis_command_words(struct buffer *out, const char *word, ...)
{
    va_list words;
    size_t argc = 0;
    va_start(words, word);
    for (const char *next = word; next; next = va_arg(words, const char *))
        argc++;
    va_end(words);
    redis_command_begin(out, argc);
    va_start(words, word);
    for (const char *next = word; next; next = va_arg(words, const char *))
        redis_command_text(out, next);
    va_end(words);
}

bool redis_command_auth(struct buffer *out, const char *user, const char *password)
{
    if (*password && *user)
        redis_command_words(out, "AUTH", user, password, NULL);
    else if (*password)
        redis_command_words(out, "AUTH", password, NULL);
    return *password != 0;
}
