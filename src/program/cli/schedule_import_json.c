/* The kinds of `schedule import` that read lists of JSON objects: Quartz, Celery, BullMQ, River,
 * sidekiq-cron. docs/schedules.md shows how each list is made. */
#include "cli/schedule_import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 512 };

static const char *text_member(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static void set_text(json_t *schedule, const char *name, const char *value)
{
    if (value && *value)
        json_object_set_new(schedule, name, json_string(value));
}

static void set_seconds(json_t *schedule, const char *name, double seconds)
{
    char text[40];
    snprintf(text, sizeof text, "%.0fms", seconds * 1000);
    json_object_set_new(schedule, name, json_string(text));
}

/* Sets a time that is given in milliseconds since 1970 or as text. */
static void set_time(json_t *schedule, const char *name, const json_t *value)
{
    char text[TIMESTAMP_BYTES + 1] = "";
    double ms = json_number_value(value);
    if (ms > 0) /* a number; each processor converts one that is too big to another integer */
        timestamp_write(text, ms < (double)INT64_MAX ? (int64_t)ms : INT64_MAX);
    else if (json_is_string(value))
        snprintf(text, sizeof text, "%s", json_string_value(value));
    set_text(schedule, name, text);
}

/* Copies the name: blanks and '@', which names of schedules cannot have, become '-'. */
static void copy_name(const char *name, char out[TEXT_BYTES_MAX])
{
    snprintf(out, TEXT_BYTES_MAX, "%.100s", name);
    for (char *at = out; *at; at++)
        *at = *at <= ' ' || *at > '~' || *at == '@' ? '-' : *at;
}

static json_t *schedule_new(const char *name, const struct import_options *options)
{
    char safe[TEXT_BYTES_MAX];
    copy_name(name, safe);
    json_t *schedule = json_pack("{s:s, s:s}", "name", safe, "topic", options->topic);
    set_text(schedule, "zone", options->zone);
    return schedule;
}

/* ---- Quartz ---- */

/* Rewrites a field of weekdays: Quartz counts from 1 for Sunday, and L is Saturday. */
static void quartz_weekdays(const char *field, char out[TEXT_BYTES_MAX])
{
    size_t len = 0;
    bool is_plain = true; /* a number here is a weekday, not a step or an ordinal */
    for (const char *at = field; *at && len + 2 < TEXT_BYTES_MAX; at++) {
        if (*at == 'L' && (at == field || at[-1] == ','))
            out[len++] = '6';
        else if (is_plain && *at >= '1' && *at <= '7')
            out[len++] = (char)(*at - 1);
        else
            out[len++] = *at;
        is_plain = *at == ',' || *at == '-' ||
                   (is_plain && (*at < '0' || *at > '9') && *at != '/' && *at != '#');
    }
    out[len] = 0;
}

/* Rewrites an expression of 6 or 7 fields. */
static bool quartz_cron(const char *cron, char out[2 * TEXT_BYTES_MAX])
{
    char fields[7][TEXT_BYTES_MAX] = {{0}}, weekdays[TEXT_BYTES_MAX];
    size_t count = 0;
    for (const char *at = cron; *at; count++) {
        size_t len = strcspn(at, " \t");
        if (count == 7 || len >= 100)
            return false;
        memcpy(fields[count], at, len);
        at += len;
        at += strspn(at, " \t");
    }
    if (count < 6)
        return false;
    quartz_weekdays(fields[5], weekdays);
    snprintf(out, 2 * TEXT_BYTES_MAX, "%.100s %.100s %.100s %.100s %.100s %.100s%s%.100s",
             fields[0], fields[1], fields[2], fields[3], fields[4], weekdays, count == 7 ? " " : "",
             fields[6]);
    return true;
}

/* Returns the counterpart of a misfire instruction, whose numbers depend on the kind of trigger. 0 is
 * the smart policy, which depends on the number of repeats of a simple trigger. */
static const char *quartz_missed(json_int_t instruction, bool is_cron, json_int_t repeats)
{
    if (instruction == -1)
        return "all";
    if (is_cron)
        return instruction == 2 ? "none" : "last";
    bool is_next = instruction == 4 || instruction == 5 || (instruction == 0 && repeats < 0);
    return is_next ? "none" : "last";
}

static void quartz_note(const json_t *row, const char *name, const struct import_notes *notes)
{
    if (text_member(row, "calendar"))
        notes->note(notes->ctx, name, "its calendar is not imported: add its days to 'except'");
    if (text_member(row, "cron") && !text_member(row, "zone"))
        notes->note(notes->ctx, name, "no zone: UTC is used, or that of --zone");
}

/* Sets the body: the data, with the job and its class if the row has them. */
static void quartz_body(const json_t *row, json_t *schedule)
{
    static const char *const members[] = {"job", "class", "data"};
    json_t *body = json_object();
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (json_object_get(row, members[i]) && !json_is_null(json_object_get(row, members[i])))
            json_object_set(body, members[i], json_object_get(row, members[i]));
    bool is_data = json_object_size(body) == 1 && json_object_get(body, "data");
    if (json_object_size(body))
        json_object_set(schedule, "body", is_data ? json_object_get(body, "data") : body);
    json_decref(body);
}

static json_t *quartz_trigger(const json_t *row, const struct import_options *options,
                              const struct import_notes *notes)
{
    const char *name = text_member(row, "name"), *group = text_member(row, "group");
    const char *cron = text_member(row, "cron");
    const json_t *interval = json_object_get(row, "repeat_interval");
    json_int_t repeats = json_integer_value(json_object_get(row, "repeat_count"));
    char full[TEXT_BYTES_MAX], plan[2 * TEXT_BYTES_MAX];
    if (!name)
        return NULL;
    snprintf(full, sizeof full, "%.45s%s%.45s", group ? group : "", group ? "." : "", name);
    if (!cron && !json_is_integer(interval)) {
        notes->note(notes->ctx, full, "neither a cron trigger nor a simple one: left out");
        return json_null();
    }
    if (!cron && json_object_get(row, "repeat_count") && repeats == 0) {
        notes->note(notes->ctx, full, "fires once: import it as a job (docs/moving/quartz.md)");
        return json_null();
    }
    json_t *schedule = schedule_new(full, options);
    if (cron) { /* what Quartz does in the two hours of a change */
        set_text(schedule, "gap", "skip");
        set_text(schedule, "fold", "last");
    }
    if (cron && quartz_cron(cron, plan))
        set_text(schedule, "cron", plan);
    else if (cron)
        notes->note(notes->ctx, full, "the expression does not have 6 or 7 fields: correct it");
    else
        set_seconds(schedule, "every", json_number_value(interval) / 1000);
    set_text(schedule, "zone", text_member(row, "zone"));
    set_time(schedule, "start", json_object_get(row, "start"));
    set_time(schedule, "end", json_object_get(row, "end"));
    set_text(schedule, "missed",
             quartz_missed(json_integer_value(json_object_get(row, "misfire")), cron, repeats));
    if (!cron && json_is_integer(json_object_get(row, "repeat_count")) && repeats > 0)
        json_object_set_new(schedule, "count", json_integer(repeats + 1));
    if (json_is_true(json_object_get(row, "nonconcurrent")))
        json_object_set_new(schedule, "overlap", json_string("skip"));
    if (json_is_true(json_object_get(row, "paused")))
        json_object_set_new(schedule, "paused", json_true());
    quartz_body(row, schedule);
    quartz_note(row, full, notes);
    return schedule;
}

/* ---- Celery ---- */

static bool is_any(const char *field)
{
    return !field || strcmp(field, "*") == 0;
}

static json_t *celery_entry(const json_t *row, const struct import_options *options,
                            const struct import_notes *notes)
{
    const char *name = text_member(row, "name");
    const json_t *crontab = json_object_get(row, "crontab"),
                 *seconds = json_object_get(row, "seconds");
    char plan[2 * TEXT_BYTES_MAX];
    if (!name)
        return NULL;
    if (!json_is_object(crontab) && !json_is_number(seconds)) {
        notes->note(notes->ctx, name, "not a crontab or an interval (solar, …): left out");
        return json_null();
    }
    json_t *schedule = schedule_new(name, options);
    if (crontab) {
        const char *fields[] = {text_member(crontab, "minute"), text_member(crontab, "hour"),
                                text_member(crontab, "day_of_month"),
                                text_member(crontab, "month_of_year"),
                                text_member(crontab, "day_of_week")};
        bool is_both = !is_any(fields[2]) && !is_any(fields[4]); /* Celery requires both days */
        snprintf(plan, sizeof plan, "%.100s %.100s %.100s %.100s %s%.100s",
                 fields[0] ? fields[0] : "*", fields[1] ? fields[1] : "*",
                 fields[2] ? fields[2] : "*", fields[3] ? fields[3] : "*", is_both ? "+" : "",
                 fields[4] ? fields[4] : "*");
        set_text(schedule, "cron", plan);
    } else {
        set_seconds(schedule, "every", json_number_value(seconds));
    }
    set_text(schedule, "zone", text_member(row, "zone"));
    json_t *body = json_object();
    static const char *const members[] = {"task", "args", "kwargs"};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (json_object_get(row, members[i]))
            json_object_set(body, members[i], json_object_get(row, members[i]));
    json_object_set_new(schedule, "body", body);
    return schedule;
}

/* ---- BullMQ ---- */

/* Sets what the template has for each job, and notes the rest. */
static void bullmq_options(const json_t *opts, json_t *schedule, const char *name,
                           const struct import_notes *notes)
{
    const json_t *backoff = json_object_get(opts, "backoff"), *value;
    const char *type = text_member(backoff, "type"), *key;
    double delay =
        json_number_value(json_is_object(backoff) ? json_object_get(backoff, "delay") : backoff);
    char text[120];
    if (json_is_integer(json_object_get(opts, "attempts")))
        json_object_set(schedule, "max_attempts", json_object_get(opts, "attempts"));
    if (json_is_integer(json_object_get(opts, "priority")))
        json_object_set_new(
            schedule, "priority",
            json_integer(100 + json_integer_value(json_object_get(opts, "priority"))));
    bool is_exp = type && strcmp(type, "exponential") == 0;
    bool is_known = delay > 0 && (!type || is_exp || strcmp(type, "fixed") == 0);
    if (is_known) {
        snprintf(text, sizeof text, is_exp ? "exp:%.0fms..1d" : "fixed:%.0fms", delay);
        set_text(schedule, "backoff", text);
    }
    json_object_foreach((json_t *)(uintptr_t)opts, key, value)
    {
        bool is_set = strcmp(key, "attempts") == 0 || strcmp(key, "priority") == 0 ||
                      (is_known && strcmp(key, "backoff") == 0);
        if (!is_set) {
            snprintf(text, sizeof text, "option '%.40s' of its template is not imported", key);
            notes->note(notes->ctx, name, text);
        }
    }
}

static json_t *bullmq_scheduler(const json_t *row, const struct import_options *options,
                                const struct import_notes *notes)
{
    const char *name = text_member(row, "key"), *pattern = text_member(row, "pattern");
    const json_t *every = json_object_get(row, "every"),
                 *template = json_object_get(row, "template");
    double every_ms =
        json_is_string(every) ? strtod(json_string_value(every), NULL) : json_number_value(every);
    if (!name)
        name = text_member(row, "name");
    if (!name || (!pattern && every_ms <= 0))
        return NULL;
    json_t *schedule = schedule_new(name, options);
    set_text(schedule, "cron", pattern);
    if (!pattern)
        set_seconds(schedule, "every", every_ms / 1000);
    set_text(schedule, "zone", text_member(row, "tz"));
    set_time(schedule, "start", json_object_get(row, "startDate"));
    set_time(schedule, "end", json_object_get(row, "endDate"));
    json_int_t limit = json_integer_value(json_object_get(row, "limit"));
    json_int_t begun = json_integer_value(json_object_get(row, "iterationCount"));
    if (limit > 0) /* the fire that is scheduled next is counted already */
        json_object_set_new(schedule, "count", json_integer(begun > 1 ? limit - begun + 1 : limit));
    if (!pattern && !json_object_get(row, "startDate") &&
        json_number_value(json_object_get(row, "offset")) > 0)
        set_seconds(schedule, "phase", json_number_value(json_object_get(row, "offset")) / 1000);
    if (pattern && !text_member(row, "tz") && !options->zone)
        notes->note(notes->ctx, name, "no tz: UTC is used in place of the zone of its workers");
    json_t *body =
        json_pack("{s:s}", "name", text_member(row, "name") ? text_member(row, "name") : name);
    if (json_object_get(template, "data"))
        json_object_set(body, "data", json_object_get(template, "data"));
    json_object_set_new(schedule, "body", body);
    bullmq_options(json_object_get(template, "opts"), schedule, name, notes);
    return schedule;
}

/* ---- River ---- */

static json_t *river_job(const json_t *row, const struct import_options *options,
                         const struct import_notes *notes)
{
    const char *name = text_member(row, "name"), *cron = text_member(row, "cron");
    const json_t *every = json_object_get(row, "every_ms");
    json_int_t priority = json_integer_value(json_object_get(row, "priority"));
    if (!name)
        return NULL;
    if (!cron && !json_is_integer(every)) {
        notes->note(notes->ctx, name, "its schedule is a function of yours: left out");
        return json_null();
    }
    json_t *schedule = schedule_new(name, options);
    set_text(schedule, "cron", cron);
    if (!cron)
        set_seconds(schedule, "every", json_number_value(every) / 1000);
    set_text(schedule, "zone", text_member(row, "zone"));
    if (cron) { /* its cron package fires in both of two hours, and not in one that is left out */
        set_text(schedule, "gap", "skip");
        set_text(schedule, "fold", "both");
    }
    if (cron && !text_member(row, "zone") && !options->zone)
        notes->note(notes->ctx, name, "no zone: UTC is used in place of that of its process");
    json_object_set_new(schedule, "missed", json_string("none"));
    if (json_is_integer(json_object_get(row, "max_attempts")))
        json_object_set(schedule, "max_attempts", json_object_get(row, "max_attempts"));
    if (priority > 1) /* River has 1 to 4, 1 first */
        json_object_set_new(schedule, "priority", json_integer(99 + priority));
    json_object_set_new(schedule, "body",
                        json_pack("{s:O*, s:O*}", "kind", json_object_get(row, "kind"), "args",
                                  json_object_get(row, "args")));
    if (text_member(row, "queue"))
        notes->note(notes->ctx, name, "its queue is not imported: the topic is that of --topic");
    if (json_is_true(json_object_get(row, "run_on_start")))
        notes->note(notes->ctx, name, "RunOnStart: call 'tarry schedule run' at the start");
    return schedule;
}

/* ---- sidekiq-cron ---- */

/* Splits "* * * * * Europe/Berlin": a last word with a capital and more letters than a name of a day
 * is a zone. */
static void sidekiq_plan(const char *cron, json_t *schedule)
{
    const char *last = strrchr(cron, ' ');
    bool has_zone = last && (strchr(last, '/') || strcmp(last, " UTC") == 0) && last[1] >= 'A' &&
                    last[1] <= 'Z' && !strchr("0123456789*", last[1]);
    if (has_zone) {
        json_object_set_new(schedule, "cron", json_stringn(cron, (size_t)(last - cron)));
        set_text(schedule, "zone", last + 1);
    } else {
        set_text(schedule, "cron", cron);
    }
}

/* Returns whether the job has a queue other than the usual one. A list has it in the message. */
static bool sidekiq_has_queue(const json_t *row)
{
    const char *text = text_member(row, "message"), *queue = text_member(row, "queue");
    json_t *message = text ? json_loads(text, 0, NULL) : NULL;
    if (!queue)
        queue = text_member(message, "queue");
    bool has_queue = queue && strcmp(queue, "default") != 0;
    json_decref(message);
    return has_queue;
}

static json_t *sidekiq_job(const json_t *row, const struct import_options *options,
                           const struct import_notes *notes)
{
    const char *name = text_member(row, "name"), *cron = text_member(row, "cron");
    const char *class = text_member(row, "klass"), *status = text_member(row, "status");
    const json_t *args = json_object_get(row, "args");
    if (!name || !cron)
        return NULL;
    if (!class)
        class = text_member(row, "class");
    json_t *schedule = schedule_new(name, options);
    sidekiq_plan(cron, schedule);
    /* Fugit fires in both of two hours, and not in one that is left out. */
    set_text(schedule, "gap", "skip");
    set_text(schedule, "fold", "both");
    set_text(schedule, "note", text_member(row, "description"));
    if (status && strcmp(status, "disabled") == 0)
        json_object_set_new(schedule, "paused", json_true());
    json_object_set_new(schedule, "missed", json_string("none"));
    json_t *read = json_is_string(args) ? json_loads(json_string_value(args), 0, NULL)
                                        : json_incref((json_t *)(uintptr_t)args);
    json_object_set_new(
        schedule, "body",
        json_pack("{s:s, s:o}", "class", class ? class : "", "args", read ? read : json_array()));
    if (sidekiq_has_queue(row))
        notes->note(notes->ctx, name, "its queue is not imported: the topic is that of --topic");
    if (!json_object_get(schedule, "zone"))
        notes->note(notes->ctx, name, "no zone: UTC is used in place of that of its process");
    return schedule;
}

/* ---- lists ---- */

typedef json_t *read_row(const json_t *row, const struct import_options *options,
                         const struct import_notes *notes);

static void add_row(json_t *set, const json_t *row, const struct import_options *options,
                    const struct import_notes *notes, read_row *read)
{
    json_t *schedule = read(row, options, notes);
    if (!schedule)
        notes->note(notes->ctx, "an item", "lacks its name or its plan: left out");
    else if (json_is_object(schedule))
        json_array_append_new(set, schedule);
}

/* Reads a list, or one object on each line. */
static json_t *import_rows(struct slice text, const struct import_options *options,
                           const struct import_notes *notes, read_row *read)
{
    json_t *set = json_array();
    for (;;) {
        json_error_t error;
        while (text.len && strchr(" \t\r\n", text.at[0])) {
            text.at++;
            text.len--;
        }
        if (!text.len)
            break;
        json_t *value = json_loadb(text.at, text.len, JSON_DISABLE_EOF_CHECK, &error), *row;
        size_t i;
        if (!value) {
            json_decref(set);
            return NULL;
        }
        if (json_is_array(value)) {
            json_array_foreach(value, i, row) add_row(set, row, options, notes, read);
        } else {
            add_row(set, value, options, notes, read);
        }
        json_decref(value);
        text.at += error.position;
        text.len -= (size_t)error.position;
    }
    return set;
}

json_t *import_quartz(struct slice text, const struct import_options *options,
                      const struct import_notes *notes)
{
    return import_rows(text, options, notes, quartz_trigger);
}

json_t *import_celery(struct slice text, const struct import_options *options,
                      const struct import_notes *notes)
{
    return import_rows(text, options, notes, celery_entry);
}

json_t *import_bullmq(struct slice text, const struct import_options *options,
                      const struct import_notes *notes)
{
    return import_rows(text, options, notes, bullmq_scheduler);
}

json_t *import_river(struct slice text, const struct import_options *options,
                     const struct import_notes *notes)
{
    return import_rows(text, options, notes, river_job);
}

json_t *import_sidekiq_cron(struct slice text, const struct import_options *options,
                            const struct import_notes *notes)
{
    return import_rows(text, options, notes, sidekiq_job);
}
