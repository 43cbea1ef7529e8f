/* Reading jobs: one by its id, or several in the order of their due times. */
#include "lib/directory.h"
#include "queue/door.h"

/* ---- in a directory ---- */

/* Jobs and a cursor copied from a reply. */
struct look {
    struct directory_call call;
    struct memory_job **jobs;
    size_t count;
    char cursor[TARRY_CURSOR_BYTES_MAX];
};

static void look_replied(struct directory_call *call, const struct queue_reply *reply)
{
    struct look *look = list_entry(call, struct look, call);
    call->code = lib_code(reply->status);
    while (look->count < reply->job_count &&
           (look->jobs[look->count] = memory_job_copy(&reply->jobs[look->count])))
        look->count++;
    if (reply->cursor.len && reply->cursor.len < sizeof look->cursor)
        memcpy(look->cursor, reply->cursor.at, reply->cursor.len);
    if (look->count == reply->job_count)
        return;
    while (look->count)
        memory_job_free(look->jobs[--look->count]);
    call->code = TARRY_NO_MEMORY;
}

static int look_run(tarry *queue, struct look *look, const struct command *command)
{
    int code = lib_begin(queue);
    if (code)
        return code;
    look->call.replied = look_replied;
    look->call.command = *command;
    code = directory_run(queue->directory, &look->call);
    lib_end(queue);
    return code;
}

/* ---- the calls ---- */

int tarry_get(tarry *queue, const char *topic, const char *id, tarry_job **out)
{
    struct slice topic_text = lib_text(topic), id_text = lib_text(id);
    *out = NULL;
    if (!job_topic_is_valid(topic_text))
        return TARRY_BAD_TOPIC;
    if (!job_id_is_valid(id_text))
        return TARRY_BAD_ID;
    if (queue->directory) {
        struct look look = {.jobs = (struct memory_job **)(void *)out};
        struct command command = {.kind = COMMAND_GET,
                                  .get = {.topic = topic_text, .id = id_text, .finished = true}};
        return look_run(queue, &look, &command);
    }
    int code = lib_enter(queue);
    if (code)
        return code;
    struct memory_job *job = NULL;
    code = lib_code(memory_get(queue->memory, topic_text, id_text, true, queue->now, &job));
    lib_leave(queue);
    *out = (tarry_job *)(void *)job;
    return code;
}

/* Minimum size: without a complete cursor, a list could not show that more jobs follow. */
enum { LIST_BYTES_MIN = offsetof(struct tarry_list, cursor) + TARRY_CURSOR_BYTES_MAX };

int tarry_list(tarry *queue, struct tarry_list *list, tarry_job **out, size_t *n)
{
    struct tarry_list known;
    *n = 0;
    if (!lib_read(&known, sizeof known, list) || list->size < LIST_BYTES_MIN ||
        list->flags & ~(uint32_t)TARRY_WITH_BODY || list->state < 0)
        return TARRY_BAD_OPTION;
    if (!memchr(list->cursor, '\0', sizeof list->cursor))
        return TARRY_BAD_CURSOR;
    struct queue_list asked = {.topic = lib_text(list->topic),
                               .state = (enum job_state)list->state,
                               .limit = list->limit,
                               .cursor = slice_of(list->cursor),
                               .with_body = list->flags & TARRY_WITH_BODY};
    char text[QUEUE_CURSOR_BYTES_MAX];
    struct slice cursor;
    const char *detail;
    int code = lib_code(queue_check_list(&asked, &detail));
    if (!code && queue->directory) {
        struct look look = {.jobs = (struct memory_job **)(void *)out};
        struct command command = {.kind = COMMAND_LIST, .list = asked};
        code = look_run(queue, &look, &command);
        *n = look.count;
        if (!code)
            memcpy(list->cursor, look.cursor, sizeof list->cursor);
        return code;
    }
    if (!code)
        code = lib_enter(queue);
    if (code)
        return code;
    code = lib_code(memory_list(queue->memory, &asked, queue->now,
                                (struct memory_job **)(void *)out, n, text, &cursor));
    lib_leave(queue);
    if (code)
        return code;
    memset(list->cursor, 0, sizeof list->cursor);
    if (cursor.len && cursor.len < sizeof list->cursor)
        memcpy(list->cursor, cursor.at, cursor.len);
    return TARRY_OK;
}
