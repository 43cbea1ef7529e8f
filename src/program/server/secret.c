#include "server/secret.h"

#include "base/buffer.h"
#include "base/error.h"
#include "base/file_mode.h"
#include "base/text.h"
#include "base/url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool secret_is_open_to_others(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
           file_mode_of_others(fd, info.st_mode) & (S_IRWXG | S_IRWXO);
}

int secret_read(const char *path, char *out, size_t out_bytes, char *error, size_t error_bytes)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        int code = -errno;
        snprintf(error, error_bytes, "cannot read the password in '%.200s', %s", path,
                 strerror(-code));
        return code;
    }
    if (secret_is_open_to_others(fileno(file))) {
        fclose(file);
        return error_result(-EPERM, error, error_bytes,
                            "others may read the password in '%.200s', run: chmod 600", path);
    }
    char *line = fgets(out, (int)out_bytes, file);
    bool too_long = line && strlen(line) == out_bytes - 1 && line[out_bytes - 2] != '\n';
    fclose(file);
    if (line)
        line[strcspn(line, "\r\n")] = '\0';
    if (line && line[0] && !too_long)
        return 0;
    return error_result(-EINVAL, error, error_bytes,
                        "no password in '%.200s', write one line of at most %zu bytes", path,
                        out_bytes - 2);
}

int secret_into_url(const char *url, const char *secret, char *out, size_t out_bytes, char *error,
                    size_t error_bytes)
{
    struct url parts;
    enum url_fault fault = url_parse(slice_of(url), &parts);
    if (fault != URL_OK)
        return error_result(-EINVAL, error, error_bytes, "bad '--store', %s",
                            url_fault_text(fault));
    if (parts.has_user && (!parts.has_password || parts.password.len))
        return error_result(
            -EINVAL, error, error_bytes,
            parts.has_password
                ? "a password in --store and another in --redis-password-file, remove one"
                : "a ':' is missing before the '@' of --store, write user:@host");
    const char *host = strstr(url, "://") + 3; /* host, or user */
    struct buffer text;
    buffer_init(&text, out_bytes - 1);
    buffer_append_slice(&text, slice_make(url, (size_t)(host - url)));
    buffer_append_slice(&text, parts.user);
    buffer_append_byte(&text, ':');
    text_percent_encode(slice_of(secret), "", &text);
    buffer_append_byte(&text, '@');
    buffer_append_text(&text, parts.has_user ? strchr(host, '@') + 1 : host);
    bool fits = !text.failed;
    if (fits)
        snprintf(out, out_bytes, "%.*s", (int)text.len, text.at);
    else
        snprintf(error, error_bytes, "'--store' and its password together are too long");
    buffer_fini(&text);
    return fits ? 0 : -EINVAL;
}
