/* A line of beanstalkd's protocol: whatever bytes it has, its words lie within it. */
#include "beanstalk/command.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct beanstalk_command command;
    char *line = malloc(len ? len : 1);
    if (!line)
        return 0;
    if (len)
        memcpy(line, bytes, len);
    bool is_good = beanstalk_command_parse(slice_make(line, len), &command);
    CLAIM("a verb is one of those there are", command.verb < BEANSTALK_VERBS);
    if (is_good && command.tube.len) {
        CLAIM("a name lies in the line",
              command.tube.at >= line && command.tube.at + command.tube.len <= line + len);
        CLAIM("a name is one", beanstalk_tube_is_valid(command.tube));
    }
    free(line);
    return 0;
}
