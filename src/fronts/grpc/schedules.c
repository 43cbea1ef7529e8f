/* The calls of schedules. Their handlers read and write JSON (transcode.h). */
#include "base/json_write.h"
#include "grpc/methods.h"
#include "grpc/transcode.h"

#define MESSAGE(NAME) &tarry__v1__##NAME##__descriptor

static void set_name(struct request *request, const char *name)
{
    request->call->id = slice_of(name);
}

/* Members that REST has in its path and its query; in a set, the names are members. */
static const char *const outside[] = {"take_over", "name", NULL};
static const char *const outside_set[] = {"take_over", NULL};

/* Appends a specification as an object. */
static bool write_spec(struct request *request, const Tarry__V1__ScheduleSpec *spec, bool with_name)
{
    buffer_append_byte(&request->text, '{');
    bool done = transcode_members(&request->text, &spec->base, with_name ? outside_set : outside,
                                  request->fault);
    buffer_append_byte(&request->text, '}');
    return done;
}

static bool read_put(struct request *request, const void *message)
{
    const Tarry__V1__ScheduleSpec *spec = message;
    set_name(request, spec->name);
    return fields_flag(&request->fields, OPTION_TAKE_OVER, spec->take_over) &&
           write_spec(request, spec, false) && request_text_is_body(request);
}

static void write_null(struct buffer *out, const char *name)
{
    json_write_member(out, name);
    buffer_append_text(out, "null");
}

/* Appends null for each member to clear. A body may be held in either form. */
static bool write_nulls(struct request *request, const Tarry__V1__PatchScheduleRequest *patch)
{
    struct buffer *out = &request->text;
    bool has_body = patch->spec->body.len > 0;
    for (size_t i = 0; i < patch->n_clear; i++) {
        const char *name = patch->clear[i];
        if (strcmp(name, "name") == 0 || strcmp(name, "take_over") == 0 ||
            !protobuf_c_message_descriptor_get_field_by_name(&tarry__v1__schedule_spec__descriptor,
                                                             name))
            return http_fault_set(request->fault, PROBLEM_BAD_SCHEDULE, 0,
                                  "'clear' names '%s', which is not a member that a schedule can "
                                  "do without",
                                  http_quotable(slice_of(name), 40));
        if (strcmp(name, "body") != 0)
            write_null(out, name);
        else if (!has_body)
            write_null(out, "body_base64");
        has_body |= strcmp(name, "body") == 0;
    }
    if (has_body)
        write_null(out, "body");
    return true;
}

static bool read_patch(struct request *request, const void *message)
{
    const Tarry__V1__PatchScheduleRequest *patch = message;
    const Tarry__V1__ScheduleSpec *spec = patch->spec;
    if (!spec)
        return http_fault_set(request->fault, PROBLEM_OPTION_MISSING, 0, "'spec' is missing");
    set_name(request, spec->name);
    buffer_append_byte(&request->text, '{');
    if (!fields_flag(&request->fields, OPTION_TAKE_OVER, spec->take_over) ||
        !transcode_members(&request->text, &spec->base, outside, request->fault) ||
        !write_nulls(request, patch))
        return false;
    buffer_append_byte(&request->text, '}');
    return request_text_is_body(request);
}

static bool read_apply(struct request *request, const void *message)
{
    const Tarry__V1__ApplySchedulesRequest *set = message;
    buffer_append_text(&request->text, "{\"schedules\":[");
    for (size_t i = 0; i < set->n_schedules; i++) {
        if (set->schedules[i]->take_over)
            return http_fault_set(request->fault, PROBLEM_BAD_OPTION, 0,
                                  "'take_over' belongs to the whole set, not to one schedule of "
                                  "it");
        if (i)
            buffer_append_byte(&request->text, ',');
        if (!write_spec(request, set->schedules[i], true))
            return false;
    }
    buffer_append_text(&request->text, "]}");
    return fields_text(&request->fields, OPTION_OWNER, set->owner) &&
           fields_flag(&request->fields, OPTION_PRUNE, set->prune) &&
           fields_flag(&request->fields, OPTION_TAKE_OVER, set->take_over) &&
           request_text_is_body(request);
}

static bool read_name(struct request *request, const void *message)
{
    const Tarry__V1__ScheduleRequest *named = message;
    set_name(request, named->name);
    return true;
}

static bool read_pause(struct request *request, const void *message)
{
    const Tarry__V1__PauseScheduleRequest *pause = message;
    set_name(request, pause->name);
    return fields_duration(&request->fields, OPTION_FOR, pause->duration);
}

static bool read_backfill(struct request *request, const void *message)
{
    const Tarry__V1__BackfillScheduleRequest *backfill = message;
    set_name(request, backfill->name);
    return fields_time(&request->fields, OPTION_FROM, backfill->from) &&
           fields_time(&request->fields, OPTION_TO, backfill->to) &&
           fields_duration(&request->fields, OPTION_PACE, backfill->pace);
}

static bool read_list(struct request *request, const void *message)
{
    const Tarry__V1__ListSchedulesRequest *list = message;
    struct http_query *query = request->call->query;
    if (*list->topic)
        query->topics[query->topic_count++] = slice_of(list->topic);
    return fields_text(&request->fields, OPTION_OWNER, list->owner) &&
           fields_text(&request->fields, OPTION_PREFIX, list->prefix) &&
           fields_number(&request->fields, OPTION_LIMIT, list->limit) &&
           fields_text(&request->fields, OPTION_CURSOR, list->cursor);
}

static bool read_next(struct request *request, const void *message)
{
    const Tarry__V1__NextFiresRequest *next = message;
    set_name(request, next->name);
    return fields_number(&request->fields, OPTION_N, next->n) &&
           fields_time(&request->fields, OPTION_FROM, next->from);
}

static bool read_preview(struct request *request, const void *message)
{
    const Tarry__V1__PreviewScheduleRequest *preview = message;
    if (!preview->spec)
        return http_fault_set(request->fault, PROBLEM_OPTION_MISSING, 0, "'spec' is missing");
    return fields_number(&request->fields, OPTION_N, preview->n) &&
           fields_time(&request->fields, OPTION_FROM, preview->from) &&
           write_spec(request, preview->spec, false) && request_text_is_body(request);
}

#define SCHEDULE(NAME, REST, MESSAGE_NAME, RESULT, READ)                                           \
    {                                                                                              \
        .name = (NAME), .rest = (REST), .message = MESSAGE(MESSAGE_NAME),                          \
        .result = MESSAGE(RESULT), .body = HTTP_BODY_MESSAGE, .read = (READ)                       \
    }

const struct method grpc_schedule_methods[] = {
    SCHEDULE("PutSchedule", "schedule_put", schedule_spec, schedule_result, read_put),
    SCHEDULE("PatchSchedule", "schedule_patch", patch_schedule_request, schedule_result,
             read_patch),
    SCHEDULE("ApplySchedules", "schedules_put", apply_schedules_request, apply_schedules_response,
             read_apply),
    SCHEDULE("DeleteSchedule", "schedule_delete", schedule_request, schedule_result, read_name),
    SCHEDULE("PauseSchedule", "schedule_pause", pause_schedule_request, schedule_result,
             read_pause),
    SCHEDULE("ResumeSchedule", "schedule_resume", schedule_request, schedule_result, read_name),
    SCHEDULE("RunSchedule", "schedule_run", schedule_request, schedule_run, read_name),
    SCHEDULE("BackfillSchedule", "schedule_backfill", backfill_schedule_request,
             backfill_schedule_response, read_backfill),
    SCHEDULE("GetSchedule", "schedule", schedule_request, schedule, read_name),
    SCHEDULE("ListSchedules", "schedules", list_schedules_request, list_schedules_response,
             read_list),
    SCHEDULE("NextFires", "schedule_next", next_fires_request, next_fires_response, read_next),
    SCHEDULE("PreviewSchedule", "schedule_preview", preview_schedule_request, next_fires_response,
             read_preview),
    {0},
};
