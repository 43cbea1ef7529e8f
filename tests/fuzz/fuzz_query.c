/* Options from a query: the same options as headers read the same; all values keep to their ranges.
 */
#include "claim.h"

#include "api/push.h"
#include "api/settings.h"
#include "http/query.h"
#include "queue/door.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_fields(const struct http_fields *fields)
{
    struct queue_push push = {.topic = slice_of("t")};
    struct queue_topic_call put = {.verb = QUEUE_TOPIC_PUT, .topic = slice_of("t")};
    const char *detail = NULL;
    api_fields_push(fields, &push);
    api_fields_settings(fields, &put.settings);
    CLAIM("no option passes that the queue would refuse",
          queue_check_push(&push, 0, &detail) == QUEUE_OK);
    CLAIM("nor a setting", queue_check_topic(&put, &detail) == QUEUE_OK);
    CLAIM("a wait has a limit", fields->wait_ms >= 0 && fields->wait_ms <= HTTP_WAIT_MS_MAX);
    CLAIM("so has max", fields->max >= 0 && fields->max <= QUEUE_TAKE_MAX);
    CLAIM("so has limit", fields->limit >= 0 && fields->limit <= QUEUE_LIST_MAX);
    CLAIM("a state is one", fields->state <= JOB_DEAD);
    CLAIM("a callback fits into a meta", fields->callback.len <= HTTP_CALLBACK_BYTES_MAX);
    struct slice name, value;
    CLAIM("a meta to look for has a name",
          !http_fields_have(fields, OPTION_META) ||
              (http_meta_split(fields->meta, &name, &value) && name.len));
    CLAIM("a final failure has no delay",
          !fields->final || !http_fields_have(fields, OPTION_DELAY));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const http_options allowed[] = {OPTIONS_PUSH, OPTIONS_TOPIC,
                                           OPTION_BIT(OPTION_COUNT) - 1, 0};
    static struct http_query query;
    struct http_request request = {0};
    struct http_fault fault = {0};
    struct buffer scratch, meta;
    if (len == 0 || len > HTTP_LINE_BYTES_MAX)
        return 0;
    http_options mask = allowed[bytes[0] & 3];
    request.query = slice_make(bytes + 1, len - 1);
    buffer_init(&scratch, len);
    buffer_init(&meta, JOB_META_BYTES_MAX);
    CLAIM("room for all that is unescaped", buffer_reserve(&scratch, len));
    query.meta = &meta;
    if (http_query_parse(&request, mask, &query, &scratch, &fault)) {
        CLAIM("only what is allowed is set", (query.fields.set & ~mask) == 0);
        check_fields(&query.fields);
    } else {
        CLAIM("a refusal has its problem", fault.problem > PROBLEM_NONE);
        CLAIM("and says what to do", fault.detail[0]);
    }
    CLAIM("topics have a limit", query.topic_count <= QUEUE_TAKE_TOPICS_MAX);
    CLAIM("leases have a limit", query.lease_count <= QUEUE_BATCH_MAX);
    buffer_fini(&scratch);
    buffer_fini(&meta);
    return 0;
}
