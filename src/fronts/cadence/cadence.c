#include "cadence/cadence.h"

#include "cadence/change.h"
#include "cadence/front.h"

#include <stdio.h>
#include <stdlib.h>

static const char *zone_directory_of_all = ZONES_DIRECTORY;

void cadence_answer_no_schedule(struct http_exchange *exchange, struct slice name)
{
    char detail[SPEC_NAME_BYTES_MAX + 80];
    (void)snprintf(detail, sizeof detail,
                   "there is no schedule '%s': `tarry schedule list` shows all",
                   http_quotable(name, SPEC_NAME_BYTES_MAX));
    http_answer_refusal(exchange, QUEUE_NOT_FOUND, detail, 0);
}

struct stored *cadence_read_reply(struct http_exchange *exchange, const struct queue_reply *reply)
{
    struct slice name = buffer_slice(&exchange->note);
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        http_answer_refusal(exchange, reply->status, NULL, 0);
        return NULL;
    }
    if (reply->status == QUEUE_NOT_FOUND || !reply->job_count) {
        cadence_answer_no_schedule(exchange, name);
        return NULL;
    }
    struct stored *stored = stored_new();
    if (!stored ||
        !stored_read(stored, name, reply->jobs[0].job.body, exchange->front->shared->hooks)) {
        stored_free(stored);
        http_answer_problem(exchange, PROBLEM_BAD_SCHEDULE, 0,
                            "this server cannot read the schedule, use a server of the version "
                            "that stored it");
        return NULL;
    }
    if (access_may(exchange->caller, exchange->route->scope, stored->push.topic))
        return stored;
    stored_free(stored); /* a schedule of a topic of others is hidden */
    cadence_answer_no_schedule(exchange, name);
    return NULL;
}

static bool open_front(struct http_front *front)
{
    struct cadence_front *cadence = calloc(1, sizeof *cadence);
    if (!cadence)
        return false;
    list_init(&cadence->changes);
    front->cadence = cadence;
    cadence->zones = zones_new(zone_directory_of_all);
    return cadence->zones != NULL;
}

static void close_front(struct http_front *front)
{
    if (!front->cadence)
        return;
    change_end_all(front);
    zones_free(front->cadence->zones);
    free(front->cadence);
    front->cadence = NULL;
}

void cadence_open(struct http_shared *shared, const char *zone_directory)
{
    static const struct http_route *const tables[] = {
        cadence_call_routes,
        cadence_view_routes,
        cadence_set_routes,
        NULL,
    };
    static const struct http_part part = {
        .tables = tables, .open = open_front, .close = close_front};
    zone_directory_of_all = zone_directory;
    http_shared_add_part(shared, &part);
}
