/* Dumps: what is read of a line lies within it; of any answer comes a whole number of lines, each
 * of them JSON, or a refusal. */
#include "claim.h"

#include "base/json_read.h"
#include "cli/dump.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static bool is_within(struct slice section, struct slice text)
{
    return section.len == 0 ||
           (section.at >= text.at && section.at + section.len <= text.at + text.len);
}

static void read_line(struct slice text)
{
    struct dump_line line;
    const char *at = NULL;
    char name[JOB_TOPIC_BYTES_MAX + 1];
    size_t names = 0;
    dump_read(text, &line);
    CLAIM("it is of some kind", line.kind >= DUMP_MALFORMED && line.kind <= DUMP_END);
    CLAIM("topics are in the text", is_within(line.topics, text));
    CLAIM("settings are in the text", is_within(line.settings, text));
    CLAIM("the topic has an end", memchr(line.topic, '\0', sizeof line.topic));
    CLAIM("the cursor has an end", memchr(line.cursor, '\0', sizeof line.cursor));
    while (dump_next_name(line.topics, &at, name))
        CLAIM("names come to an end", names++ < text.len && memchr(name, '\0', sizeof name));
}

static void check_lines(struct slice lines, uint64_t jobs)
{
    size_t count = 0;
    CLAIM("the last line is whole", lines.len == 0 || lines.at[lines.len - 1] == '\n');
    for (size_t at = 0; at < lines.len; count++) {
        const char *end = memchr(lines.at + at, '\n', lines.len - at);
        struct json_value value;
        size_t bytes = (size_t)(end - (lines.at + at));
        CLAIM("a line is JSON", json_check(slice_make(lines.at + at, bytes), &value, NULL));
        at += bytes + 1;
    }
    CLAIM("a line a job, and one for the cursor", count == jobs || count == jobs + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct slice text = slice_make(bytes, len);
    struct buffer lines, scratch;
    char cursor[DUMP_CURSOR_BYTES_MAX];
    uint64_t jobs = 0;
    buffer_init(&lines, 1 << 24);
    buffer_init(&scratch, 1 << 24);
    read_line(text);
    if (dump_write_page(&lines, text, false, &scratch, &jobs, cursor))
        check_lines(buffer_slice(&lines), jobs);
    buffer_clear(&lines);
    jobs = 0;
    if (dump_write_page(&lines, text, true, &scratch, &jobs, cursor))
        check_lines(buffer_slice(&lines), jobs);
    buffer_clear(&lines);
    if (dump_write_topic(&lines, text))
        check_lines(buffer_slice(&lines), 1);
    buffer_fini(&lines);
    buffer_fini(&scratch);
    return 0;
}
