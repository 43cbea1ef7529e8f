#include "queue/status.h"

#include <assert.h>

static const struct {
    const char *code, *sentence;
} rows[] = {
    [QUEUE_OK] = {"ok", "done"},
    [QUEUE_CREATED] = {"created", "the job is new and kept"},
    [QUEUE_REPLACED] = {"replaced", "the job replaced an earlier one with the same id"},
    [QUEUE_EXISTED] =
        {"existed", "the job exists already, or the `once` was used before, and nothing changed"},
    [QUEUE_CANCELLED] = {"cancelled", "the job will no longer be delivered"},
    [QUEUE_NOT_FOUND] = {"not_found",
                         "there is no such job or topic, or the job has finished; check "
                         "the topic and the id"},
    [QUEUE_CONFLICT] = {"conflict", "a job with this id exists; push with on_conflict=replace or "
                                    "on_conflict=keep, or choose another id"},
    [QUEUE_LEASED] =
        {"leased",
         "a consumer holds the job; try again once it has answered or its lease has ended, or "
         "cancel with request=true (tarry cancel --request)"},
    [QUEUE_DEAD_STATE] = {"dead", "the job has used up its attempts; redrive it, or push it again"},
    [QUEUE_LEASE_ENDED] =
        {"lease_ended", "the lease has ended, was already answered, or never existed; if it ended, "
                        "the job is delivered again"},
    [QUEUE_BAD_TOPIC] = {"bad_topic",
                         "the topic's name is not valid; use 1 to 200 of A-Z a-z 0-9 . "
                         "_ - + / ; $ ( ) and no leading dot"},
    [QUEUE_BAD_ID] = {"bad_id", "the id is not valid; use 1 to 128 printable ASCII characters "
                                "without blanks, but not '.' or '..', which a path cannot contain"},
    [QUEUE_BAD_OPTION] = {"bad_option",
                          "invalid option value; /openapi.yaml lists the allowed values"},
    [QUEUE_BODY_TOO_BIG] = {"body_too_big",
                            "the body is above the server's limit; keep it elsewhere "
                            "and push a reference, or raise the limit"},
    [QUEUE_TOO_MANY_TOPICS] =
        {"too_many_topics",
         "the server has reached its limit of topics; delete unused ones, or raise the limit"},
    [QUEUE_BAD_CURSOR] = {"bad_cursor",
                          "the cursor does not come from this server; list again from the start"},
    [QUEUE_NO_SPACE] = {"no_space",
                        "the store is full and nothing was changed; make room and try again"},
    [QUEUE_NO_MEMORY] = {"no_memory", "the server is out of memory and changed nothing; try again "
                                      "later"},
    [QUEUE_STOPPING] = {"stopping", "the server is stopping; try again once it is back"},
    [QUEUE_DIRECTORY_MOVED] =
        {"directory_moved",
         "the path of the server's data directory leads to another directory or does not exist, "
         "and whether anything was changed is not known; put the directory back, or restart the "
         "server on the one that is there now"},
    [QUEUE_UNAVAILABLE] =
        {"unavailable",
         "the store cannot be reached or has failed, and whether this was done is not known; call "
         "again with the same id or lease, and see the server's log"},
    [QUEUE_ELSEWHERE] =
        {"unavailable",
         "the shards of the topic are being changed and nothing was done; repeat the call"},
    [QUEUE_MOVING] = {"unavailable",
                      "the job is moving to another shard and nothing was done; repeat the call"},
    [QUEUE_TOPIC_FULL] = {"topic_full",
                          "the topic has as many jobs as its max_jobs allows and this one was not "
                          "stored; try again once some are done, or raise the topic's max_jobs"},
    [QUEUE_REQUESTED] = {"requested", "a consumer holds the job and is notified; the job is "
                                      "cancelled when its lease ends, unless the consumer acks it"},
    [QUEUE_RESULT_TOO_BIG] =
        {"result_too_big",
         "the result is above the server's limit and the job stays leased; keep it elsewhere and "
         "send a reference, or raise --max-result"},
    [QUEUE_GROUP_FULL] = {"group_full", "the group has as many jobs as group_max_jobs or its own "
                                        "max_jobs allows and this one was not "
                                        "stored; try again once some are done, or raise the limit"},
    [QUEUE_TOO_MANY_GROUPS] = {"too_many_groups", "the topic has 10,000 groups with settings of "
                                                  "their own; delete the settings of some groups"},
    [QUEUE_BATCH_CLOSED] = {"batch_closed",
                            "the batch is closed and gets no more members; push with parent=LEASE "
                            "while one of its members runs, or push before the close"},
    [QUEUE_NO_BATCH] = {"no_batch", "no job of this topic and id waits for members; push the "
                                    "waiting job first, with waits=true"},
    [QUEUE_WAITS] = {"waits",
                     "a job of this id waits for its members and cannot be replaced; cancel "
                     "it first, or choose another id"},
    [QUEUE_TOO_MANY_BATCHES] = {"too_many_batches",
                                "100,000 jobs of the store wait for members; push again once some "
                                "batches have ended"},
    [QUEUE_TOO_MANY_MEMBERS] = {"too_many_members",
                                "the batch has 1,000,000 members; begin another batch"},
    [QUEUE_NOT_EMPTY] = {"not_empty",
                         "group_order and one_shard can be changed only while the topic "
                         "has no waiting and no leased jobs, and on Redis a topic gets its first "
                         "group_max_jobs or max_jobs of a group only while at most 100000 of its "
                         "jobs are delayed; purge the topic, or use another one"},
    [QUEUE_DRAINING] = {"draining", "the server accepts no new jobs, because it is being drained; "
                                    "push to another server, or try again later"},
    [QUEUE_UNSUPPORTED] =
        {"unsupported",
         "the server's store cannot do this; docs/sql.md lists the differences between stores"},
    [QUEUE_TOO_FAST] = {"too_many_requests",
                        "this caller pushes faster than its rate allows; push again later"},
    [QUEUE_TOPIC_TOO_FAST] =
        {"too_many_requests",
         "jobs are pushed into the topic faster than its push_rate allows; push "
         "again later, or raise the push_rate"},
    [QUEUE_CALLER_FULL] =
        {"caller_full", "this caller has reached its limit of jobs; push again once some are done"},
    [QUEUE_MEMORY_SPENT] = {"memory", "the server uses nearly all of the memory that --max-memory "
                                      "allows; take and ack still work, push again later"},
    [QUEUE_FORBIDDEN] = {"forbidden", "the caller lacks the scope for this topic; use a token that "
                                      "has it"},
    [QUEUE_OWN_TOPIC] = {"reserved_topic",
                         "the topic belongs to tarry itself and takes no pushes; choose another "
                         "name"},
};

static const size_t row_count = sizeof rows / sizeof rows[0];
_Static_assert(sizeof rows / sizeof rows[0] == QUEUE_STATUSES, "every status has its row");

const char *queue_status_code(enum queue_status status)
{
    assert((size_t)status < row_count && rows[status].code);
    return rows[status].code;
}

const char *queue_status_sentence(enum queue_status status)
{
    assert((size_t)status < row_count && rows[status].sentence);
    return rows[status].sentence;
}

bool queue_status_is_for_later(enum queue_status status)
{
    switch (status) {
    case QUEUE_TOO_MANY_TOPICS:
    case QUEUE_NO_SPACE:
    case QUEUE_NO_MEMORY:
    case QUEUE_STOPPING:
    case QUEUE_DIRECTORY_MOVED:
    case QUEUE_UNAVAILABLE:
    case QUEUE_ELSEWHERE:
    case QUEUE_MOVING:
    case QUEUE_TOPIC_FULL:
    case QUEUE_GROUP_FULL:
    case QUEUE_DRAINING:
    case QUEUE_TOO_FAST:
    case QUEUE_TOPIC_TOO_FAST:
    case QUEUE_CALLER_FULL:
    case QUEUE_MEMORY_SPENT:
        return true;
    default:
        return false;
    }
}

const char *queue_status_limit(enum queue_status status)
{
    switch (status) {
    case QUEUE_TOPIC_FULL:
        return "max_jobs";
    case QUEUE_TOO_FAST:
        return "rate";
    case QUEUE_TOPIC_TOO_FAST:
        return "push_rate";
    case QUEUE_CALLER_FULL:
        return "max-jobs";
    case QUEUE_MEMORY_SPENT:
        return "max-memory";
    default:
        return NULL;
    }
}

bool queue_status_is_success(enum queue_status status)
{
    return status <= QUEUE_CANCELLED || status == QUEUE_REQUESTED;
}
