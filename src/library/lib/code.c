/* Result codes: their names and descriptions. */
#include "base/slice.h"
#include "queue/status.h"

#include <stdio.h>
#include <tarry.h>

/* Codes that the queue also has use its numbers. */
_Static_assert((int)TARRY_OK == (int)QUEUE_OK && (int)TARRY_CANCELLED == (int)QUEUE_CANCELLED &&
                   (int)TARRY_LEASE_ENDED == (int)QUEUE_LEASE_ENDED &&
                   (int)TARRY_BAD_CURSOR == (int)QUEUE_BAD_CURSOR &&
                   (int)TARRY_STOPPING == (int)QUEUE_STOPPING &&
                   (int)TARRY_DIRECTORY_MOVED == (int)QUEUE_DIRECTORY_MOVED &&
                   (int)TARRY_UNAVAILABLE == (int)QUEUE_UNAVAILABLE &&
                   (int)TARRY_TOPIC_FULL == (int)QUEUE_TOPIC_FULL &&
                   (int)TARRY_REQUESTED == (int)QUEUE_REQUESTED &&
                   (int)TARRY_UNSUPPORTED == (int)QUEUE_UNSUPPORTED &&
                   (int)TARRY_RESULT_TOO_BIG == (int)QUEUE_RESULT_TOO_BIG &&
                   (int)TARRY_GROUP_FULL == (int)QUEUE_GROUP_FULL &&
                   (int)TARRY_TOO_MANY_GROUPS == (int)QUEUE_TOO_MANY_GROUPS &&
                   (int)TARRY_BATCH_CLOSED == (int)QUEUE_BATCH_CLOSED &&
                   (int)TARRY_NO_BATCH == (int)QUEUE_NO_BATCH &&
                   (int)TARRY_WAITING == (int)QUEUE_WAITS &&
                   (int)TARRY_TOO_MANY_BATCHES == (int)QUEUE_TOO_MANY_BATCHES &&
                   (int)TARRY_TOO_MANY_MEMBERS == (int)QUEUE_TOO_MANY_MEMBERS &&
                   (int)TARRY_NOT_EMPTY == (int)QUEUE_NOT_EMPTY,
               "a code is the queue's status");

static const struct {
    int code;
    const char *sentence;
} rows[] = {
    {TARRY_OK, "done"},
    {TARRY_CREATED, "the job is new and kept"},
    {TARRY_REPLACED, "the job replaced an earlier one with the same id"},
    {TARRY_EXISTED, "the id exists already and nothing changed"},
    {TARRY_CANCELLED, "the job will no longer be delivered"},
    {TARRY_NOT_FOUND, "there is no such job or topic, or the job has finished; check the topic and "
                      "the id"},
    {TARRY_CONFLICT, "a job with this id exists; push with TARRY_REPLACE or TARRY_KEEP, or choose "
                     "another id"},
    {TARRY_LEASED,
     "a consumer holds the job; try again once it has answered or its lease has ended"},
    {TARRY_DEAD, "the job has used up its attempts; redrive it, or push it again"},
    {TARRY_LEASE_ENDED, "the lease has ended, was already answered, or never existed; if it ended, "
                        "the job is delivered again"},
    {TARRY_BAD_TOPIC,
     "the topic's name is not valid; use 1 to 200 of A-Z a-z 0-9 . _ - + / ; $ ( ) and no "
     "leading dot"},
    {TARRY_BAD_ID, "the id is not valid; use 1 to 128 printable ASCII characters without blanks, "
                   "but not '.' or '..'"},
    {TARRY_BAD_OPTION,
     "invalid option value; the result's detail names it, tarry.h lists the allowed values"},
    {TARRY_BODY_TOO_BIG,
     "the body is above the queue's limit; push a reference, or raise body_max"},
    {TARRY_TOO_MANY_TOPICS,
     "the queue has reached its limit of topics; delete unused ones, or raise topics_max"},
    {TARRY_BAD_CURSOR, "the cursor does not come from this queue; list again from the start"},
    {TARRY_NO_SPACE, "the queue has as many bytes of jobs as memory_max allows and this one was "
                     "not stored; try again once some are done"},
    {TARRY_NO_MEMORY, "the process is out of memory and nothing was changed; try again later"},
    {TARRY_STOPPING, "the queue is being closed and nothing was done"},
    {TARRY_DIRECTORY_MOVED, "the path of the data directory leads to another directory, so nothing "
                            "can be changed; put the directory back"},
    {TARRY_UNAVAILABLE,
     "the data directory cannot be opened or has failed, and whether calls in progress were done "
     "is not known; read the log, close the queue and open it again"},
    {TARRY_TOPIC_FULL, "the topic has as many jobs as its max_jobs allows and this one was not "
                       "stored; try again once some are done, or raise max_jobs"},
    {TARRY_REQUESTED, "a consumer holds the job; the job is cancelled when its lease ends, unless "
                      "the consumer acks it"},
    {TARRY_RESULT_TOO_BIG, "the result is above 1 MiB and the job stays leased; store the result "
                           "elsewhere and give a reference"},
    {TARRY_UNSUPPORTED,
     "a directory with several shards does not have this setting and nothing was "
     "changed; use one with one shard"},
    {TARRY_GROUP_FULL,
     "the group has as many jobs as group_max_jobs or its max_jobs allows and this one "
     "was not stored; try again once some are done, or raise the limit"},
    {TARRY_TOO_MANY_GROUPS,
     "the topic has settings for as many groups as it may have; delete those of "
     "unused ones"},
    {TARRY_BATCH_CLOSED,
     "the batch is closed; add a member from a member that runs, with its lease "
     "as parent"},
    {TARRY_NO_BATCH, "no job of this topic and id waits for members; push the waiting job first"},
    {TARRY_WAITING, "the job waits for its members and cannot be replaced; cancel it first"},
    {TARRY_TOO_MANY_BATCHES,
     "as many jobs wait for members as may; try again once some batches have ended"},
    {TARRY_TOO_MANY_MEMBERS,
     "the batch has as many members as it may have; use batches as members"},
    {TARRY_NOT_EMPTY,
     "the topic has waiting or leased jobs, so the order of its groups and its shard "
     "cannot be changed; wait until they have ended, or purge them"},
    {TARRY_FORKED, "the queue belongs to the process that opened it; open another one after fork"},
    {TARRY_INTERRUPTED, "the wait was interrupted and no job was taken"},
    {TARRY_IN_USE, "the data directory is open in this process or another; close it there, or use "
                   "another directory"},
    {TARRY_IO_FAILED,
     "the export cannot be written, or the import cannot be read; errno has the reason"},
    {TARRY_IN_CALLBACK, "the queue cannot be closed from its own callback; close it after "
                        "tarry_dispatch has returned"},
};

const char *tarry_strerror(int code)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == code)
            return rows[i].sentence;
    return "the number is not a code of tarry";
}

const char *tarry_code_name(int code)
{
    if (code == TARRY_FORKED)
        return "forked";
    if (code == TARRY_INTERRUPTED)
        return "interrupted";
    if (code == TARRY_IN_CALLBACK)
        return "in_callback";
    if (code == TARRY_IN_USE)
        return "in_use";
    if (code == TARRY_IO_FAILED)
        return "io_failed";
    if ((code >= TARRY_OK && code <= TARRY_UNAVAILABLE) || code == TARRY_TOPIC_FULL ||
        code == TARRY_REQUESTED || code == TARRY_UNSUPPORTED || code == TARRY_RESULT_TOO_BIG ||
        (code >= TARRY_GROUP_FULL && code <= TARRY_NOT_EMPTY))
        return queue_status_code((enum queue_status)code);
    return "unknown";
}

unsigned tarry_version(void)
{
    unsigned major = 0, minor = 0, patch = 0;
    (void)sscanf(TARRY_VERSION, "%u.%u.%u", &major, &minor, &patch);
    return major << 16 | minor << 8 | patch;
}
