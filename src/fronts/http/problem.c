#include "http/problem.h"

#include "base/json_write.h"
#include "http/query.h"
#include "queue/status.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

static const struct row {
    const char *code, *title;
    uint16_t status;
} problems[PROBLEM_COUNT] = {
    [PROBLEM_BAD_REQUEST] = {"bad_request", "The request is malformed", 400},
    [PROBLEM_BAD_FRAMING] = {"bad_framing", "The request's framing is malformed", 400},
    [PROBLEM_BAD_OPTION] = {"bad_option", "Invalid option value", 400},
    [PROBLEM_UNKNOWN_OPTION] = {"unknown_option", "Unknown option", 400},
    [PROBLEM_OPTION_TWICE] = {"option_twice", "Option given more than once", 400},
    [PROBLEM_OPTION_CLASH] = {"option_clash", "Options exclude each other", 400},
    [PROBLEM_OPTION_MISSING] = {"option_missing", "Missing option", 400},
    [PROBLEM_BAD_META] = {"bad_meta", "Invalid meta", 400},
    [PROBLEM_RESULT_TOO_BIG] = {"result_too_big", "The result is too big", 413},
    [PROBLEM_BAD_JSON] = {"bad_json", "Invalid JSON body", 400},
    [PROBLEM_BAD_ITEM] = {"bad_item", "Invalid item", 400},
    [PROBLEM_DELIVERY_IS_OFF] = {"delivery_is_off", "The server does not deliver", 400},
    [PROBLEM_BAD_DELIVERY] = {"bad_delivery", "Invalid delivery settings", 400},
    [PROBLEM_BAD_CALLBACK] = {"bad_callback", "Invalid callback", 400},
    [PROBLEM_BAD_SCHEDULE] = {"bad_schedule", "Invalid schedule", 400},
    [PROBLEM_UNAUTHORIZED] = {"unauthorized", "Missing or invalid credentials", 401},
    [PROBLEM_FORBIDDEN] = {"forbidden", "The caller may not do this", 403},
    [PROBLEM_CROSS_SITE] = {"cross_site", "Request from a page of another site", 403},
    [PROBLEM_NO_SUCH_PATH] = {"no_such_path", "Unknown path", 404},
    [PROBLEM_NO_TARGET] = {"no_target", "The topic has no target", 404},
    [PROBLEM_METHOD_NOT_ALLOWED] = {"method_not_allowed", "Method not allowed for this path", 405},
    [PROBLEM_REQUEST_TIMEOUT] = {"request_timeout", "The request took too long to arrive", 408},
    [PROBLEM_BODY_TOO_BIG] = {"body_too_big", "The body is too big", 413},
    [PROBLEM_TOO_MANY_ITEMS] = {"too_many_items", "There are too many items", 413},
    [PROBLEM_TARGET_TOO_LONG] = {"target_too_long", "The request line is too long", 414},
    [PROBLEM_CODING_UNKNOWN] = {"coding_unknown", "Unsupported content encoding", 415},
    [PROBLEM_HOST_UNKNOWN] = {"host_unknown", "Unknown host name", 421},
    [PROBLEM_EXPECTATION_UNKNOWN] = {"expectation_unknown", "Unknown expectation", 417},
    [PROBLEM_HEADER_TOO_BIG] = {"header_too_big", "The header is too big", 431},
    [PROBLEM_TRANSFER_CODING_UNKNOWN] = {"transfer_coding_unknown", "Unknown transfer coding", 501},
    [PROBLEM_NO_DELIVERY] = {"no_delivery", "The server does not deliver", 501},
    [PROBLEM_NO_TEST_CLOCK] = {"no_test_clock", "The server has no test clock", 501},
    [PROBLEM_FIFO_QUEUE] = {"fifo_queue", "The topic is a FIFO queue", 409},
    [PROBLEM_NOT_IDLE] = {"not_idle", "Delivered jobs are not settled", 409},
    [PROBLEM_OTHER_OWNER] = {"other_owner", "The schedule belongs to another owner", 409},
    [PROBLEM_NO_BACKUP] = {"no_backup", "The store has no backup through this server", 501},
    [PROBLEM_VERSION_UNKNOWN] = {"version_unknown", "Unsupported HTTP version", 505},
    [PROBLEM_TOO_MANY_REQUESTS] = {"too_many_requests", "Too many requests", 429},
    [PROBLEM_TOO_MANY_CONNECTIONS] = {"too_many_connections", "Too many connections", 503},
    [PROBLEM_TOO_MANY_WAITING] = {"too_many_waiting", "Too many waiting takes", 503},
    [PROBLEM_TOO_MANY_STREAMS] = {"too_many_streams", "Too many streams", 503},
    [PROBLEM_TOO_MANY_SWEEPS] = {"too_many_sweeps", "Too many changes by filter", 503},
    [PROBLEM_TOO_MANY_BACKUPS] = {"too_many_backups", "Too many backups", 503},
    [PROBLEM_TOO_MUCH_MEMORY] = {"too_much_memory", "Requests and answers use too much memory",
                                 503},
    [PROBLEM_CONNECTION_ENDED] = {"connection_ended",
                                  "The client closed before the request was read", 503},
    [PROBLEM_NOT_READY] = {"not_ready", "The server is not ready", 503},
    [PROBLEM_ACCESS_UNAVAILABLE] = {"access_unavailable", "Authentication is unavailable", 503},
    [PROBLEM_NO_MEMORY] = {"no_memory", "The server is out of memory", 503},
};

/* The refusals of the queue, with the codes and sentences of the queue. */
static const struct refusal {
    const char *title;
    uint16_t status;
    const char *with_limit; /* sentence that takes the limit if known, or NULL */
} refusals[] = {
    [QUEUE_NOT_FOUND] = {.title = "No such job or topic", .status = 404},
    [QUEUE_CONFLICT] = {.title = "The id exists", .status = 409},
    [QUEUE_LEASED] = {.title = "The job is leased", .status = 409},
    [QUEUE_DEAD_STATE] = {.title = "The job is dead", .status = 409},
    [QUEUE_LEASE_ENDED] = {.title = "The lease has ended", .status = 409},
    [QUEUE_BAD_TOPIC] = {.title = "Invalid topic name", .status = 400},
    [QUEUE_BAD_ID] = {.title = "Invalid id", .status = 400},
    [QUEUE_BAD_OPTION] = {.title = "Invalid option value", .status = 400},
    [QUEUE_BODY_TOO_BIG] = {.title = "The body is too big", .status = 413},
    [QUEUE_TOO_MANY_TOPICS] = {.title = "Too many topics", .status = 409},
    [QUEUE_BAD_CURSOR] = {.title = "Invalid cursor", .status = 400},
    [QUEUE_NO_SPACE] = {.title = "The store is full", .status = 507},
    [QUEUE_NO_MEMORY] = {.title = "The server is out of memory", .status = 503},
    [QUEUE_STOPPING] = {.title = "The server is stopping", .status = 503},
    [QUEUE_DIRECTORY_MOVED] = {.title = "The data directory was moved", .status = 503},
    [QUEUE_UNAVAILABLE] = {.title = "The store cannot be reached", .status = 503},
    [QUEUE_ELSEWHERE] = {.title = "The number of shards is being changed", .status = 503},
    [QUEUE_MOVING] = {.title = "The job is moving to another shard", .status = 503},
    [QUEUE_GROUP_FULL] = {.title = "The group is full", .status = 507},
    [QUEUE_BATCH_CLOSED] = {.title = "The batch is closed", .status = 409},
    [QUEUE_NO_BATCH] = {.title = "No such batch", .status = 404},
    [QUEUE_WAITS] = {.title = "The job waits for its members", .status = 409},
    [QUEUE_TOO_MANY_BATCHES] = {.title = "Too many batches", .status = 409},
    [QUEUE_TOO_MANY_MEMBERS] = {.title = "Too many members", .status = 409},
    [QUEUE_TOO_MANY_GROUPS] = {.title = "Too many groups", .status = 409},
    [QUEUE_NOT_EMPTY] = {.title = "The topic is not empty", .status = 409},
    [QUEUE_RESULT_TOO_BIG] = {.title = "The result is too big", .status = 413},
    [QUEUE_TOPIC_FULL] = {.title = "The topic is full", .status = 507},
    [QUEUE_DRAINING] = {.title = "The server accepts no new jobs", .status = 503},
    [QUEUE_UNSUPPORTED] = {.title = "The store cannot do this", .status = 501},
    [QUEUE_TOO_FAST] = {"A limit is reached", 429,
                        "this caller pushes faster than the %" PRIu64
                        " that its rate allows; push again later"},
    [QUEUE_TOPIC_TOO_FAST] = {.title = "A limit is reached", .status = 429},
    [QUEUE_CALLER_FULL] = {"The caller has reached its limit of jobs", 507,
                           "this caller has reached its limit of %" PRIu64
                           " jobs; push again once some are done"},
    [QUEUE_MEMORY_SPENT] =
        {"The server's memory is nearly used up", 507,
         "the server uses nearly all of the %" PRIu64
         " bytes that --max-memory allows; take and ack still work, push again later"},
    [QUEUE_FORBIDDEN] = {.title = "The caller may not do this", .status = 403},
    [QUEUE_OWN_TOPIC] = {.title = "The topic is reserved", .status = 403},
};
_Static_assert(sizeof refusals / sizeof refusals[0] == QUEUE_STATUSES, "each status has its row");

static const struct row *row_of(enum http_problem problem)
{
    assert(problem > PROBLEM_NONE && problem < PROBLEM_COUNT);
    return &problems[problem];
}

const char *http_problem_code(enum http_problem problem)
{
    return row_of(problem)->code;
}

static uint16_t refusal_status(enum queue_status status)
{
    assert(status < sizeof refusals / sizeof refusals[0]);
    return refusals[status].status ? refusals[status].status : 500;
}

static const char *refusal_title(enum queue_status status)
{
    assert(status < sizeof refusals / sizeof refusals[0]);
    return refusals[status].title ? refusals[status].title : "Internal error";
}

static void write_object(struct buffer *out, const char *code, const char *title, uint16_t status)
{
    buffer_append_text(out, "{\"type\":\"/problems/");
    buffer_append_text(out, code);
    buffer_append_text(out, "\",\"title\":\"");
    buffer_append_text(out, title);
    buffer_append_text(out, "\",\"status\":");
    buffer_append_u64(out, status);
    buffer_append_text(out, ",\"code\":\"");
    buffer_append_text(out, code);
    buffer_append_byte(out, '"');
}

static void write_members(struct buffer *out, const char *detail, enum job_state state,
                          uint64_t limit)
{
    buffer_append_text(out, ",\"detail\":");
    json_write_string(out, slice_of(detail));
    if (limit) {
        buffer_append_text(out, ",\"limit\":");
        buffer_append_u64(out, limit);
    }
    if (state) {
        buffer_append_text(out, ",\"state\":\"");
        buffer_append_text(out, job_state_name(state));
        buffer_append_byte(out, '"');
    }
}

static void write_fault_members(struct buffer *out, const struct http_fault *fault)
{
    write_members(out, fault->detail, 0, fault->limit_name ? 0 : fault->limit);
    if (!fault->limit_name)
        return;
    buffer_append_text(out, ",\"limit\":\"");
    buffer_append_text(out, fault->limit_name);
    buffer_append_byte(out, '"');
}

void http_refusal_of_fault(struct http_refusal *out, const struct http_fault *fault)
{
    const struct row *row = row_of(fault->problem);
    *out = (struct http_refusal){.code = row->code,
                                 .detail = fault->detail,
                                 .status = row->status,
                                 .limit = fault->limit,
                                 .limit_name = fault->limit_name,
                                 .retry_s = fault->retry_s};
}

void http_refusal_of(struct http_refusal *out, enum queue_status status, const char *detail,
                     uint64_t limit)
{
    const char *values = status == QUEUE_BAD_OPTION && detail ? http_option_values(detail) : NULL;
    *out = (struct http_refusal){.code = queue_status_code(status),
                                 .detail = detail ? detail : queue_status_sentence(status),
                                 .status = refusal_status(status),
                                 .limit = limit,
                                 .limit_name = queue_status_limit(status)};
    if (values) {
        (void)snprintf(out->text, sizeof out->text, "'%s' is out of range: it must be %s", detail,
                       values);
        out->detail = out->text;
    }
    if (limit && refusals[status].with_limit) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(out->text, sizeof out->text, refusals[status].with_limit, limit);
#pragma GCC diagnostic pop
        out->detail = out->text;
    }
}

void http_refusal_members_write(struct buffer *out, enum queue_status status, const char *detail,
                                enum job_state state, uint64_t limit)
{
    struct http_refusal refusal;
    http_refusal_of(&refusal, status, detail, limit);
    write_members(out, refusal.detail, state, refusal.limit_name ? 0 : limit);
    if (refusal.limit_name) {
        buffer_append_text(out, ",\"limit\":\"");
        buffer_append_text(out, refusal.limit_name);
        buffer_append_byte(out, '"');
    }
}

uint16_t http_problem_write(struct buffer *out, const struct http_fault *fault)
{
    const struct row *row = row_of(fault->problem);
    write_object(out, row->code, row->title, row->status);
    write_fault_members(out, fault);
    buffer_append_text(out, "}\n");
    return row->status;
}

void http_fault_item_write(struct buffer *out, const struct http_fault *fault)
{
    buffer_append_text(out, "{\"result\":\"");
    buffer_append_text(out, http_problem_code(fault->problem));
    buffer_append_byte(out, '"');
    write_fault_members(out, fault);
    buffer_append_byte(out, '}');
}

uint16_t http_refusal_write(struct buffer *out, enum queue_status status, const char *detail,
                            enum job_state state, uint64_t limit)
{
    write_object(out, queue_status_code(status), refusal_title(status), refusal_status(status));
    http_refusal_members_write(out, status, detail, state, limit);
    buffer_append_text(out, "}\n");
    return refusal_status(status);
}

uint16_t http_refusal_stopped_write(struct buffer *out, enum queue_status status,
                                    const char *detail, uint64_t jobs)
{
    write_object(out, queue_status_code(status), refusal_title(status), refusal_status(status));
    http_refusal_members_write(out, status, detail, 0, 0);
    buffer_append_text(out, ",\"jobs\":");
    buffer_append_u64(out, jobs);
    buffer_append_text(out, "}\n");
    return refusal_status(status);
}

static void describe_code(struct buffer *out, const char *code, const char *title, uint16_t status,
                          const char *detail)
{
    buffer_append_text(out, "{\"code\":");
    json_write_string(out, slice_of(code));
    buffer_append_text(out, ",\"title\":");
    json_write_string(out, slice_of(title));
    buffer_append_text(out, ",\"status\":");
    buffer_append_u64(out, status);
    if (detail) {
        buffer_append_text(out, ",\"detail\":");
        json_write_string(out, slice_of(detail));
    }
    buffer_append_byte(out, '}');
}

/* The codes have numbers here: first the refusals of the queue, then the problems. Several may have the same code. */
enum { CODES = QUEUE_STATUSES + PROBLEM_COUNT };

/* Returns the code of a number, or NULL for a number without a code. */
static const char *code_of(int number)
{
    if (number >= QUEUE_STATUSES)
        return number - QUEUE_STATUSES > PROBLEM_NONE ? problems[number - QUEUE_STATUSES].code
                                                      : NULL;
    return number < QUEUE_NOT_FOUND || queue_status_is_success((enum queue_status)number)
               ? NULL
               : queue_status_code((enum queue_status)number);
}

/* Returns the first number with this code, or CODES. */
static int find_code(struct slice code)
{
    int number = 0;
    while (number < CODES && !(code_of(number) && slice_is(code, code_of(number))))
        number++;
    return number;
}

static void describe_number(struct buffer *out, int number)
{
    enum queue_status status = (enum queue_status)number;
    if (number < QUEUE_STATUSES) {
        describe_code(out, code_of(number), refusal_title(status), refusal_status(status),
                      queue_status_sentence(status));
        return;
    }
    number -= QUEUE_STATUSES;
    describe_code(out, problems[number].code, problems[number].title, problems[number].status,
                  NULL);
}

bool http_problem_describe(struct buffer *out, struct slice code)
{
    int number = find_code(code);
    if (number == CODES)
        return false;
    describe_number(out, number);
    return true;
}

void http_problems_list(struct buffer *out)
{
    bool has_some = false;
    buffer_append_text(out, "{\"problems\":[");
    for (int number = 0; number < CODES; number++) {
        if (!code_of(number) || find_code(slice_of(code_of(number))) != number)
            continue;
        if (has_some)
            buffer_append_byte(out, ',');
        has_some = true;
        describe_number(out, number);
    }
    buffer_append_text(out, "]}");
}
