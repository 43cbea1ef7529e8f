#include "lib/transfer.h"

#include <errno.h>
#include <unistd.h>

/* Minimum size: the reported fields are at the end of the struct and exist in every version. */
enum { TRANSFER_BYTES_MIN = offsetof(struct tarry_transfer, line) + sizeof(uint64_t) };

int transfer_begin(struct transfer *transfer, const struct tarry_transfer *from, bool reads)
{
    *transfer = (struct transfer){0};
    struct tarry_transfer *asked = &transfer->asked;
    if (!lib_read(asked, sizeof *asked, from) || from->size < TRANSFER_BYTES_MIN ||
        asked->reserved || asked->on_conflict > TARRY_KEEP)
        return TARRY_BAD_OPTION;
    bool has_function = reads ? asked->read != NULL : asked->write != NULL;
    return (asked->fd >= 0) == has_function ? TARRY_BAD_OPTION : TARRY_OK;
}

int transfer_end(const struct transfer *transfer, struct tarry_transfer *into, int code)
{
    into->topics = transfer->report.topics;
    into->jobs = transfer->report.jobs;
    into->line = transfer->report.line;
    return code;
}

int transfer_write(const struct transfer *transfer, const struct buffer *lines)
{
    const struct tarry_transfer *asked = &transfer->asked;
    size_t at = 0;
    while (at < lines->len && asked->fd >= 0) {
        ssize_t written = write(asked->fd, lines->at + at, lines->len - at);
        if (written < 0 && errno != EINTR)
            return TARRY_IO_FAILED;
        at += written > 0 ? (size_t)written : 0;
    }
    if (asked->fd < 0 && lines->len && asked->write(asked->owner, lines->at, lines->len) < 0)
        return TARRY_IO_FAILED;
    return TARRY_OK;
}

int transfer_read(const struct transfer *transfer, struct buffer *into, size_t bytes, bool *is_end)
{
    const struct tarry_transfer *asked = &transfer->asked;
    char *at = buffer_reserve(into, bytes);
    int64_t got;
    if (!at)
        return TARRY_NO_MEMORY;
    do
        got = asked->fd >= 0 ? read(asked->fd, at, bytes) : asked->read(asked->owner, at, bytes);
    while (got < 0 && asked->fd >= 0 && errno == EINTR);
    if (got < 0 || (size_t)got > bytes)
        return TARRY_IO_FAILED;
    into->len += (size_t)got;
    *is_end = got == 0;
    return TARRY_OK;
}
