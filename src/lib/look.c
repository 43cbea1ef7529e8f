/* Looking at jobs: one by its id, many by their due. */
#include "lib/state.h"
#include "queue/door.h"

int tarry_get(tarry *queue, const char *topic, const char *id, tarry_job **out)
{
    struct slice topic_text = lib_text(topic), id_text = lib_text(id);
    *out = NULL;
    if (!job_topic_is_valid(topic_text))
        return TARRY_BAD_TOPIC;
    if (!job_id_is_valid(id_text))
        return TARRY_BAD_ID;
    int code = lib_enter(queue);
    if (code)
        return code;
    struct memory_job *job = NULL;
    code = lib_code(memory_get(queue->memory, topic_text, id_text, queue->now, &job));
    lib_leave(queue);
    *out = (tarry_job *)(void *)job;
    return code;
}

/* Without a whole cursor a list could not tell that there is more. */
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
