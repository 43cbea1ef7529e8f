/* Groups of a topic: their settings and their list. */
#include "lib/directory.h"
#include "lib/limits.h"
#include "queue/door.h"

/* Sizes of the first versions of these structs. */
enum {
    GROUP_BYTES_MIN = sizeof(struct tarry_group),
    GROUP_SETTINGS_BYTES_MIN = sizeof(struct tarry_group_settings)
};

/* Writes the group, cut to the size of the caller's struct. */
static void group_write(const struct queue_group *from, size_t stride, void *into)
{
    const struct group_settings *settings = &from->settings;
    struct tarry_group group = {.size = (uint32_t)stride,
                                .has_settings = from->has_settings,
                                .ready = from->ready,
                                .leased = from->leased,
                                .held_by = (int32_t)from->held_by,
                                .held_until_ms = from->held_until_ms,
                                .oldest_ready_due_ms = from->oldest_ready_due_ms,
                                .settings = {.size = GROUP_SETTINGS_BYTES_MIN,
                                             .weight = settings->weight,
                                             .limits = lib_limits_write(&settings->limits),
                                             .is_paused = settings->paused,
                                             .paused_until_ms = settings->paused_until_ms,
                                             .max_jobs = settings->max_jobs}};
    if (from->name.len)
        memcpy(group.name, from->name.at, from->name.len);
    memcpy(into, &group, stride < sizeof group ? stride : sizeof group);
}

/* A request for groups; the reply is converted directly into the caller's array. */
struct group_reply {
    struct directory_call call;
    size_t room, stride, count; /* room and count: number of groups */
    void *out;                  /* NULL: not wanted */
};

static void groups_take(struct group_reply *answer, const struct queue_group *groups, size_t count)
{
    answer->count = count < answer->room ? count : answer->room;
    for (size_t i = 0; answer->out && i < answer->count; i++)
        group_write(&groups[i], answer->stride, (char *)answer->out + i * answer->stride);
}

static void group_replied(struct directory_call *call, const struct queue_reply *reply)
{
    struct group_reply *answer = list_entry(call, struct group_reply, call);
    call->code = lib_code(reply->status);
    groups_take(answer, reply->groups, reply->group_count);
}

static int group_run(tarry *queue, struct group_reply *answer, const struct command *command)
{
    int code = lib_begin(queue);
    if (code)
        return code;
    answer->call.replied = group_replied;
    answer->call.command = *command;
    code = directory_run(queue->directory, &answer->call);
    lib_end(queue);
    return code;
}

/* Carries out a call about a group. `out` may be NULL. */
static int call_group(tarry *queue, const struct queue_group_call *call, size_t stride, void *out)
{
    struct group_reply answer = {.room = 1, .stride = stride, .out = out};
    struct queue_group group;
    const char *detail;
    int code = lib_code(queue_check_group(call, &detail));
    if (code)
        return code;
    if (queue->directory)
        return group_run(queue, &answer, &(struct command){.kind = COMMAND_GROUP, .group = *call});
    code = lib_enter(queue);
    if (code)
        return code;
    code = lib_code(memory_group(queue->memory, call, queue->now, &group));
    if (!code)
        groups_take(&answer, &group, 1);
    lib_leave(queue);
    return code;
}

int tarry_group_put(tarry *queue, const char *topic, const char *group,
                    const struct tarry_group_settings *from)
{
    struct tarry_group_settings settings;
    if (!group || !group[0] || !lib_read(&settings, sizeof settings, from) || settings.reserved ||
        !lib_limits_are_good(&settings.limits))
        return TARRY_BAD_OPTION;
    const struct queue_group_call call = {
        .verb = QUEUE_GROUP_PUT,
        .topic = lib_text(topic),
        .group = lib_text(group),
        .settings = {.weight = settings.weight,
                     .limits = lib_limits_read(&settings.limits),
                     .max_jobs = settings.max_jobs,
                     .paused = settings.is_paused,
                     .paused_until_ms = settings.paused_until_ms}};
    return call_group(queue, &call, 0, NULL);
}

int tarry_group_delete(tarry *queue, const char *topic, const char *group)
{
    if (!group || !group[0])
        return TARRY_BAD_OPTION;
    const struct queue_group_call call = {
        .verb = QUEUE_GROUP_DELETE, .topic = lib_text(topic), .group = lib_text(group)};
    return call_group(queue, &call, 0, NULL);
}

int tarry_group_get(tarry *queue, const char *topic, const char *group, struct tarry_group *out)
{
    size_t stride = lib_stride(out, GROUP_BYTES_MIN);
    if (!stride)
        return TARRY_BAD_OPTION;
    const struct queue_group_call call = {
        .verb = QUEUE_GROUP_GET, .topic = lib_text(topic), .group = lib_text(group)};
    return call_group(queue, &call, stride, out);
}

/* Lists the groups of a queue in memory. */
static int groups_in_memory(tarry *queue, const struct queue_groups_call *call,
                            struct group_reply *answer)
{
    struct groups_page page;
    struct queue_reply reply = {0};
    int code = lib_enter(queue);
    if (code)
        return code;
    if (!groups_page_init(&page, call)) {
        lib_leave(queue);
        return TARRY_NO_MEMORY;
    }
    if (memory_groups(queue->memory, call->topic, queue->now, &page)) {
        groups_page_end(&page, &reply);
        groups_take(answer, reply.groups, reply.group_count);
    } else {
        code = TARRY_NOT_FOUND;
    }
    lib_leave(queue);
    groups_page_fini(&page);
    return code;
}

int tarry_groups(tarry *queue, const char *topic, const char *after, struct tarry_group *out,
                 size_t *n)
{
    char cursor[GROUPS_CURSOR_BYTES_MAX];
    const char *detail;
    size_t room = *n, stride = room ? lib_stride(out, GROUP_BYTES_MIN) : 0;
    const struct queue_group last = {.name = lib_text(after)};
    *n = 0;
    if (!stride || room > QUEUE_LIST_MAX || last.name.len > JOB_GROUP_BYTES_MAX)
        return TARRY_BAD_OPTION;
    struct queue_groups_call call = {.topic = lib_text(topic), .limit = (uint32_t)room};
    if (after)
        call.cursor = slice_make(cursor, groups_cursor_write(cursor, QUEUE_GROUPS_BY_NAME, &last));
    struct group_reply answer = {.room = room, .stride = stride, .out = out};
    int code = lib_code(queue_check_groups(&call, &detail));
    if (!code)
        code = queue->directory
                   ? group_run(queue, &answer,
                               &(struct command){.kind = COMMAND_GROUPS, .groups = call})
                   : groups_in_memory(queue, &call, &answer);
    *n = answer.count;
    return code;
}
