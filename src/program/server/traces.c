#include "server/traces.h"

#include "base/error.h"
#include "server/config.h"
#include "server/secret.h"

#include <errno.h>
#include <stdlib.h>

/* ---- the file of headers ---- */

/* Checks that a line is NAME: VALUE with bytes allowed in a header. */
static bool is_header(const char *line)
{
    static const char signs[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t name = strspn(line, signs);
    if (name == 0 || line[name] != ':' || line[name + 1 + strspn(line + name + 1, " \t")] == '\0')
        return false;
    for (const char *at = line; *at; at++)
        if ((unsigned char)*at < ' ' && *at != '\t')
            return false;
    return true;
}

/* Adds the lines, except empty ones and those that begin with #. */
static bool add_lines(struct traces *traces, const char *path, char *error)
{
    uint32_t count = 0, number = 0;
    char *rest = traces->headers_text, *line;
    while ((line = strsep(&rest, "\n"))) {
        number++;
        line[strcspn(line, "\r")] = '\0';
        if (!*line || *line == '#')
            continue;
        if (!is_header(line))
            return error_text(error, TRACER_ERROR_BYTES,
                              "bad header in '%.200s', line %u, write: Name: value", path, number);
        if (count == TRACES_HEADERS_MAX)
            return error_text(error, TRACER_ERROR_BYTES, "too many headers in '%.200s', at most %d",
                              path, TRACES_HEADERS_MAX);
        traces->headers[count++] = line;
    }
    return true;
}

static bool read_headers(struct traces *traces, const char *path, char *error)
{
    if (!path[0])
        return true;
    FILE *file = fopen(path, "re");
    if (!file)
        return error_text(error, TRACER_ERROR_BYTES, "cannot read the headers in '%.200s', %s",
                          path, strerror(errno));
    if (secret_is_open_to_others(fileno(file))) {
        fclose(file);
        return error_text(error, TRACER_ERROR_BYTES,
                          "others may read the headers in '%.200s', run: chmod 600", path);
    }
    traces->headers_text = calloc(1, TRACES_FILE_BYTES_MAX + 1);
    size_t len = traces->headers_text
                     ? fread(traces->headers_text, 1, TRACES_FILE_BYTES_MAX + 1, file)
                     : TRACES_FILE_BYTES_MAX + 1;
    fclose(file);
    if (len > TRACES_FILE_BYTES_MAX) {
        free(traces->headers_text);
        traces->headers_text = NULL;
        return error_text(error, TRACER_ERROR_BYTES,
                          "the headers in '%.200s' are too long, at most %d bytes", path,
                          TRACES_FILE_BYTES_MAX);
    }
    return add_lines(traces, path, error);
}

/* ---- life ---- */

bool traces_check(const struct config *config, char *error)
{
    struct traces traces = {0};
    bool is_good = read_headers(&traces, config->otlp_headers_file, error);
    traces_close(&traces);
    return is_good;
}

bool traces_open(struct traces *traces, const struct config *config, char *error)
{
    if (!config->otlp[0])
        return true;
    if (!read_headers(traces, config->otlp_headers_file, error))
        return false;
    const struct tracer_options options = {.endpoint = config->otlp,
                                           .headers = traces->headers,
                                           .ca_file = config->otlp_ca,
                                           .service_name = config->service_name,
                                           .version = TARRY_VERSION,
                                           .share = config->trace_share,
                                           .store_is_shared =
                                               config_is_redis(config) || config_is_sql(config)};
    traces->tracer = tracer_open(&options, error);
    return traces->tracer;
}

void traces_stop(struct traces *traces, int64_t timeout_ms)
{
    if (traces->tracer)
        tracer_stop(traces->tracer, timeout_ms);
}

void traces_wait(struct traces *traces)
{
    if (traces->tracer)
        tracer_wait(traces->tracer);
}

void traces_close(struct traces *traces)
{
    tracer_close(traces->tracer);
    if (traces->headers_text)
        explicit_bzero(traces->headers_text, TRACES_FILE_BYTES_MAX);
    free(traces->headers_text);
    *traces = (struct traces){0};
}
