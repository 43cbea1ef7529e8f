/* A real nats-server with JetStream. A stream takes the subject "orders"; a few lines of the
 * protocol create it and count its messages. */
#include "program.h"
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SERVER "/usr/sbin/nats-server"
enum { READY_TRIES = 1000, READY_US = 10 * 1000, BYTES_MAX = 16 * 1024 };

static const char *missing(void)
{
    return access(SERVER, X_OK) == 0 ? NULL : "nats-server is not installed";
}

/* Returns true if the bytes have a whole message: its line, and its JSON with the line end. */
static bool has_message(const char *bytes)
{
    const char *line = strstr(bytes, "\r\nMSG ");
    const char *json = line ? strstr(line + 2, "\r\n") : NULL;
    return json && strstr(json + 2, "\r\n");
}

/* Sends a request to JetStream. Returns whether its answer came, in `out` with what was before. */
static bool request(const char *subject, const char *json, char out[BYTES_MAX])
{
    char text[1024];
    size_t len = 0;
    ssize_t count = 1;
    int fd = program_connect();
    int bytes = snprintf(text, sizeof text,
                         "CONNECT {\"verbose\":false}\r\nSUB _INBOX.rig 1\r\n"
                         "PUB %s _INBOX.rig %zu\r\n%s\r\n",
                         subject, strlen(json), json);
    out[0] = 0;
    if (fd < 0)
        return false;
    if (write(fd, text, (size_t)bytes) == bytes)
        while (!has_message(out) && len < BYTES_MAX - 1 &&
               (count = read(fd, out + len, BYTES_MAX - 1 - len)) > 0)
            out[len += (size_t)count] = 0;
    close(fd);
    return has_message(out);
}

static void make_stream(void)
{
    static const char stream[] =
        "{\"name\":\"RIG\",\"subjects\":[\"orders\"],\"storage\":\"file\"}";
    char answer[BYTES_MAX];
    for (int i = 0; i < READY_TRIES; i++) {
        if (request("$JS.API.STREAM.CREATE.RIG", stream, answer) && !strstr(answer, "\"error\""))
            return;
        usleep(READY_US);
    }
    fail_msg("nats-server did not create the stream: %s", answer);
}

static void start(void)
{
    char port[16];
    const char *const words[] = {SERVER, "-js", "-sd", program_directory(), "-a", "127.0.0.1",
                                 "-p",   port,  NULL};
    snprintf(port, sizeof port, "%d", program_port());
    program_start(words);
    make_stream();
}

static size_t count(void)
{
    char answer[BYTES_MAX];
    unsigned long messages = 0;
    assert_true(request("$JS.API.STREAM.INFO.RIG", "", answer));
    const char *at = strstr(answer, "\"messages\":");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"messages\":%lu", &messages), 1);
    return messages;
}

static const char *to(void)
{
    return program_url("nats");
}

const struct target_rig rig_nats = {.name = "nats",
                                    .missing = missing,
                                    .start = start,
                                    .stop = program_stop,
                                    .stall = program_stall,
                                    .count = count,
                                    .to = to,
                                    .setting = "",
                                    .back_ms = 5000};
