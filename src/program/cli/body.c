#include "cli/body.h"

#include "base/json_levels.h"
#include "base/json_read.h"
#include "cli/cli.h"
#include "job/json.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

const char *body_guess_type(struct slice body)
{
    struct json_value value;
    if (json_check(body, &value, NULL) && (value.kind == JSON_OBJECT || value.kind == JSON_ARRAY))
        return "application/json";
    return json_utf8_is_valid(body) ? "text/plain; charset=utf-8" : "application/octet-stream";
}

int body_check(const char *type, struct slice body)
{
    struct json_value value;
    size_t error_at = 0;
    if (!job_type_is_json(slice_of(type)) ||
        json_check_levels(body, JSON_DEPTH_MAX, &value, &error_at) != JSON_MALFORMED)
        return CLI_OK;
    return cli_usage("malformed JSON at byte %zu of a body of type '%s', correct it, or add "
                     "--force to send it as it is",
                     error_at, type);
}

int body_read(const char *path, struct buffer *out)
{
    bool is_input = strcmp(path, "-") == 0;
    int fd = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return cli_error("cannot read '%s', %s", path, strerror(errno));
    if (is_input && isatty(fd))
        fputs("tarry: reading the body from the terminal, end it with Ctrl-D\n", stderr);
    ssize_t got = 0;
    do {
        char *room = buffer_reserve(out, 64 * 1024);
        if (!room) {
            got = -1;
            errno = EFBIG;
            break;
        }
        got = read(fd, room, 64 * 1024);
        if (got > 0)
            out->len += (size_t)got;
    } while (got > 0 || (got < 0 && errno == EINTR));
    int error = errno;
    if (!is_input)
        close(fd);
    return got < 0 ? cli_error("cannot read '%s', %s", path, strerror(error)) : CLI_OK;
}
