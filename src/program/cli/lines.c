#include "cli/lines.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 256 * 1024 };

void lines_init(struct lines *lines, int fd)
{
    *lines = (struct lines){.fd = fd};
    buffer_init(&lines->bytes, LINES_BYTES_MAX);
}

void lines_fini(struct lines *lines)
{
    buffer_fini(&lines->bytes);
}

static bool is_readable(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};
    return poll(&look, 1, 0) != 0;
}

static struct slice hand_out(struct lines *lines, size_t len, size_t bytes)
{
    struct slice line = slice_make(lines->bytes.at + lines->at, len);
    lines->at += bytes;
    lines->scanned = lines->at;
    return line;
}

/* Moves the remaining bytes to the front of the buffer. */
static void compact(struct lines *lines)
{
    size_t left = lines->bytes.len - lines->at;
    if (lines->at == 0)
        return;
    if (left)
        memmove(lines->bytes.at, lines->bytes.at + lines->at, left);
    lines->bytes.len = left;
    lines->scanned -= lines->at;
    lines->at = 0;
}

/* Reads more without waiting. Returns LINES_ONE if there are more bytes or the end was reached. */
static enum lines_next read_some(struct lines *lines)
{
    if (!is_readable(lines->fd))
        return LINES_NONE_YET;
    compact(lines);
    char *room = buffer_reserve(&lines->bytes, READ_BYTES);
    if (!room) {
        lines->error = ENOMEM;
        return LINES_FAILED;
    }
    ssize_t got = read(lines->fd, room, READ_BYTES);
    if (got < 0 && errno != EINTR && errno != EAGAIN) {
        lines->error = errno;
        return LINES_FAILED;
    }
    if (got < 0)
        return LINES_NONE_YET;
    lines->bytes.len += (size_t)got;
    lines->is_over = got == 0;
    return LINES_ONE;
}

enum lines_next lines_next(struct lines *lines, struct slice *out, size_t *bytes)
{
    for (;;) {
        size_t len = lines->bytes.len;
        const char *from = lines->bytes.at + lines->scanned;
        const char *end = len > lines->scanned ? memchr(from, '\n', len - lines->scanned) : NULL;
        if (end) {
            *bytes = (size_t)(end - (lines->bytes.at + lines->at)) + 1;
            *out = hand_out(lines, *bytes - 1, *bytes);
            return LINES_ONE;
        }
        lines->scanned = len;
        if (lines->is_over && len == lines->at)
            return LINES_OVER;
        if (lines->is_over) { /* the last line has no line end */
            *bytes = len - lines->at;
            *out = hand_out(lines, *bytes, *bytes);
            return LINES_ONE;
        }
        enum lines_next next = read_some(lines);
        if (next != LINES_ONE)
            return next;
    }
}
