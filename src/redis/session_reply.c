#include "redis/session_private.h"

#include <stdlib.h>

static bool copy_elements(const redisReply *from, redisReply *to)
{
    to->element = calloc(from->elements ? from->elements : 1, sizeof(redisReply *));
    if (!to->element)
        return false;
    to->elements = from->elements;
    for (size_t i = 0; i < from->elements; i++)
        if (!(to->element[i] = session_reply_copy(from->element[i])))
            return false;
    return true;
}

redisReply *session_reply_copy(const redisReply *reply)
{
    redisReply *copy = calloc(1, sizeof *copy);
    if (!copy)
        return NULL;
    copy->type = reply->type;
    copy->integer = reply->integer;
    if (reply->str) {
        copy->len = reply->len;
        copy->str = malloc((size_t)reply->len + 1);
        if (copy->str)
            memcpy(copy->str, reply->str, (size_t)reply->len + 1);
    }
    if ((reply->str && !copy->str) ||
        (reply->type == REDIS_REPLY_ARRAY && !copy_elements(reply, copy))) {
        session_reply_free(copy);
        return NULL;
    }
    return copy;
}

void session_reply_free(redisReply *reply)
{
    if (!reply)
        return;
    for (size_t i = 0; i < reply->elements; i++)
        session_reply_free(reply->element[i]);
    free(reply->element);
    free(reply->str);
    free(reply);
}
