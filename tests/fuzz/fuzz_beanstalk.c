/* Requests of beanstalkd's clients: for any bytes, a line ends at its CR and LF, and its words are within it. */
#include "beanstalk/command.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_line(const char *line, size_t len)
{
    struct beanstalk_command command;
    bool is_good = beanstalk_command_parse(slice_make(line, len), &command);
    CLAIM("a verb is one of those there are", command.verb < BEANSTALK_VERBS);
    if (is_good && command.tube.len) {
        CLAIM("a name lies in the line",
              command.tube.at >= line && command.tube.at + command.tube.len <= line + len);
        CLAIM("a name is one", beanstalk_tube_is_valid(command.tube));
    }
    CLAIM("a zero byte is in no command", !is_good || !len || !memchr(line, 0, len));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char *input = malloc(len ? len : 1);
    size_t at = 0, line_bytes;
    if (!input)
        return 0;
    if (len)
        memcpy(input, bytes, len);
    check_line(input, len);
    while ((line_bytes = beanstalk_line_bytes(slice_make(input + at, len - at)))) {
        CLAIM("a line is no longer than one may be",
              line_bytes >= 2 && line_bytes <= BEANSTALK_LINE_BYTES_MAX && at + line_bytes <= len);
        CLAIM("a line ends with CR and LF", memcmp(input + at + line_bytes - 2, "\r\n", 2) == 0);
        check_line(input + at, line_bytes - 2);
        at += line_bytes;
    }
    free(input);
    return 0;
}
