#include "api/state.h"

#include <stdlib.h>

struct queue_push *api_room_for_pushes(struct http_front *front)
{
    struct api_front *api = api_front_of(front);
    if (!api->pushes)
        api->pushes = calloc(QUEUE_BATCH_MAX, sizeof *api->pushes);
    return api->pushes;
}

struct queue_answer *api_room_for_answers(struct http_front *front)
{
    struct api_front *api = api_front_of(front);
    if (!api->answers)
        api->answers = calloc(QUEUE_BATCH_MAX, sizeof *api->answers);
    return api->answers;
}
