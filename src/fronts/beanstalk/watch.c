/* Commands for the used tube and the watched tubes. They do not call the queue. */
#include "beanstalk/commands.h"

#include <inttypes.h>

static void answer_used(struct beanstalk_session *session)
{
    struct slice name = beanstalk_tube_name(session->used);
    buffer_append_format(&session->connection.out, "USING %.*s\r\n", (int)name.len, name.at);
}

void beanstalk_use(struct beanstalk_session *session)
{
    struct beanstalk_tube *tube =
        beanstalk_tubes_need(&session->front->tubes, session->command.tube);
    if (!tube) {
        beanstalk_answer(session, "OUT_OF_MEMORY\r\n");
        return;
    }
    tube->users++;
    session->used->users--;
    beanstalk_tubes_drop(&session->front->tubes, session->used);
    session->used = tube;
    answer_used(session);
}

void beanstalk_list_used(struct beanstalk_session *session)
{
    answer_used(session);
}

/* Returns the index of a watched tube, or `watched_count` if the tube is not watched. */
static uint32_t find_watched(const struct beanstalk_session *session, struct slice name)
{
    uint32_t i = 0;
    while (i < session->watched_count &&
           !slice_equals(beanstalk_tube_name(session->watched[i]), name))
        i++;
    return i;
}

static void answer_watching(struct beanstalk_session *session)
{
    buffer_append_format(&session->connection.out, "WATCHING %" PRIu32 "\r\n",
                         session->watched_count);
}

void beanstalk_watch(struct beanstalk_session *session)
{
    struct slice name = session->command.tube;
    if (find_watched(session, name) == session->watched_count) {
        struct beanstalk_tube *tube = session->watched_count < SESSION_WATCHED_MAX
                                          ? beanstalk_tubes_need(&session->front->tubes, name)
                                          : NULL;
        if (!tube) {
            beanstalk_answer(session, "OUT_OF_MEMORY\r\n");
            return;
        }
        tube->watchers++;
        session->watched[session->watched_count++] = tube;
    }
    answer_watching(session);
}

void beanstalk_ignore(struct beanstalk_session *session)
{
    uint32_t at = find_watched(session, session->command.tube);
    if (at < session->watched_count && session->watched_count == 1) {
        beanstalk_answer(session, "NOT_IGNORED\r\n");
        return;
    }
    if (at < session->watched_count) {
        struct beanstalk_tube *tube = session->watched[at];
        memmove(&session->watched[at], &session->watched[at + 1],
                (--session->watched_count - at) * sizeof session->watched[0]);
        tube->watchers--;
        beanstalk_tubes_drop(&session->front->tubes, tube);
    }
    answer_watching(session);
}

void beanstalk_list_watched(struct beanstalk_session *session)
{
    struct buffer yaml;
    buffer_init(&yaml, SESSION_YAML_BYTES_MAX);
    buffer_append_text(&yaml, "---\n");
    for (uint32_t i = 0; i < session->watched_count; i++) {
        struct slice name = beanstalk_tube_name(session->watched[i]);
        buffer_append_format(&yaml, "- %.*s\n", (int)name.len, name.at);
    }
    beanstalk_answer_yaml(session, &yaml);
}
