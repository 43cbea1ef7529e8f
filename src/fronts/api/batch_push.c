#include "api/batch_push.h"

#include "api/consumers.h"
#include "api/job_json.h"
#include "api/media.h"
#include "api/routes.h"
#include "api/state.h"
#include "api/trace.h"
#include "base/hash.h"
#include "http/connection.h"
#include "http/input.h"
#include "net/reactor.h"
#include "queue/status.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 128 * 1024,
    SEEN_MAX = 4 * QUEUE_BATCH_MAX /* ids and `once` of a batch, at most half of it used */
};

/* A part of the batch that is one command of the queue. */
struct piece {
    uint32_t first, count; /* items */
    enum queue_status status;
    struct buffer faults;
    struct buffer text; /* its results */
};

struct batch_push {
    struct reactor_task task;
    struct list list; /* in api_front.batches */
    struct http_front *front;
    const struct api_batch_form *form;
    uint64_t tag;               /* of the exchange */
    struct http_kept_body kept; /* nothing while the handler runs */
    struct api_batch_reader reader;
    struct trace_carry carry;
    bool has_carry, has_span, is_restore;
    bool is_checked; /* the whole body; it is being read */
    bool is_read;    /* the queue has all pieces */
    bool is_failed;  /* there was no memory for the rest */
    bool is_busy;    /* within a piece, so replies do not free it */
    bool waits;      /* for the replies to earlier pieces */
    uint32_t item_count, carried, piece_count, piece_cap, unanswered;
    struct piece *pieces;
    uint64_t *seen; /* hashes of the ids of unanswered pieces, or NULL; 0: free */
};

static void batch_free(struct batch_push *push)
{
    list_remove(&push->list);
    reactor_remove_task(&push->task);
    http_kept_body_drop(push->front, &push->kept);
    for (uint32_t i = 0; i < push->piece_count; i++) {
        buffer_fini(&push->pieces[i].faults);
        buffer_fini(&push->pieces[i].text);
    }
    free(push->pieces);
    free(push->seen);
    free(push);
}

void api_batches_end(struct http_front *front)
{
    struct list *batches = &api_front_of(front)->batches;
    while (!list_is_empty(batches))
        batch_free(list_entry(batches->next, struct batch_push, list));
}

/* Returns the exchange, which lives until the batch is answered. */
static struct http_exchange *exchange_of(const struct batch_push *push)
{
    struct http_exchange *exchange = http_exchange_find(push->front, push->tag);
    assert(exchange);
    return exchange;
}

static bool refuse_memory(struct http_fault *fault)
{
    return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
}

/* ---- results ---- */

/* Writes the results of the queue and the faults found here, in the order of the items. A piece that was refused as a
 * whole has no results. */
static void write_piece(const struct batch_push *push, struct piece *piece,
                        const struct queue_result *results, size_t count)
{
    const struct api_batch_form *form = push->form;
    struct http_exchange *exchange = exchange_of(push);
    const struct api_item_fault *fault = (const void *)piece->faults.at;
    const struct api_item_fault *faults_end = (const void *)(piece->faults.at + piece->faults.len);
    const struct queue_result refused = {.status = piece->status};
    size_t next = 0;
    for (uint32_t i = piece->first; i < piece->first + piece->count; i++) {
        if (i)
            buffer_append_text(&piece->text, form->between);
        if (piece->faults.len && fault < faults_end && fault->index == i) {
            form->add_fault(&piece->text, &fault++->fault);
        } else {
            assert(piece->status != QUEUE_OK || next < count);
            form->add_result(exchange, &piece->text,
                             piece->status == QUEUE_OK ? &results[next++] : &refused);
        }
        buffer_append_text(&piece->text, form->behind);
    }
    buffer_fini(&piece->faults);
}

/* Returns the status with which the queue refused every piece, or QUEUE_OK. */
static enum queue_status refusal_of(const struct batch_push *push)
{
    for (uint32_t i = 0; i < push->piece_count; i++)
        if (push->pieces[i].status == QUEUE_OK)
            return QUEUE_OK;
    return push->piece_count ? push->pieces[0].status : QUEUE_OK;
}

static void answer_batch(struct batch_push *push)
{
    struct http_exchange *exchange = exchange_of(push);
    enum queue_status refusal = push->is_failed ? QUEUE_NO_MEMORY : refusal_of(push);
    if (refusal != QUEUE_OK) {
        http_answer_refusal(exchange, refusal, NULL, 0);
        batch_free(push);
        return;
    }
    struct buffer *out = push->form->begin(exchange);
    for (uint32_t i = 0; i < push->piece_count; i++) {
        out->failed |= push->pieces[i].text.failed;
        buffer_append_slice(out, buffer_slice(&push->pieces[i].text));
    }
    push->form->end(exchange);
    batch_free(push);
}

/* Answers if the queue has replied to everything. May free it. */
static void answer_if_done(struct batch_push *push)
{
    if (push->is_read && !push->unanswered && !push->is_busy)
        answer_batch(push);
}

/* Receives the reply to a piece. The tag is its index. */
static void on_piece_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct batch_push *push = owner;
    struct piece *piece = &push->pieces[tag];
    struct http_exchange *exchange = exchange_of(push);
    piece->status = reply->status;
    if (exchange->span && reply->status == QUEUE_OK)
        api_trace_pushed(exchange, reply->results, reply->result_count);
    for (size_t i = 0; reply->status == QUEUE_OK && i < reply->result_count; i++)
        if (!queue_status_is_success(reply->results[i].status))
            http_quota_note_refusal(push->front, reply->results[i].status);
    write_piece(push, piece, reply->results, reply->result_count);
    push->unanswered--;
    if (push->waits && !push->unanswered) {
        push->waits = false;
        memset(push->seen, 0, SEEN_MAX * sizeof *push->seen);
        reactor_add_task(push->front->reactor, &push->task);
    }
    answer_if_done(push);
}

/* ---- pushes in different pieces whose order counts: of one id, and of a member behind its waiting job ---- */

/* Finds a hash among those of unanswered pieces, or its free place. */
static uint64_t *seen_at(const struct batch_push *push, uint64_t hash)
{
    size_t at = hash % SEEN_MAX;
    while (push->seen[at] && push->seen[at] != hash)
        at = (at + 1) % SEEN_MAX;
    return &push->seen[at];
}

static uint64_t hash_of(struct slice topic, struct slice id, uint64_t kind)
{
    struct hash128 key = hash_pair(topic, id, kind);
    return key.low ? key.low : 1;
}

static bool has_seen_id(const struct batch_push *push, struct slice topic, struct slice id)
{
    return id.len && *seen_at(push, hash_of(topic, id, 0));
}

/* Returns whether an unanswered piece has an id, a `once` or the waiting job of one of these pushes. */
static bool has_seen(const struct batch_push *push, const struct queue_push *pushes, size_t count)
{
    for (size_t i = 0; i < count && push->seen; i++) {
        const struct queue_push *one = &pushes[i];
        if (has_seen_id(push, one->topic, one->id) ||
            (one->once.len && *seen_at(push, hash_of(one->topic, one->once, 1))) ||
            (one->batch && has_seen_id(push, one->batch->topic, one->batch->id)))
            return true;
    }
    return false;
}

/* Notes the ids of a piece for those behind it. Returns false if out of memory. */
static bool see(struct batch_push *push, const struct queue_push *pushes, size_t count)
{
    if (!push->seen && !(push->seen = calloc(SEEN_MAX, sizeof *push->seen)))
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct queue_push *one = &pushes[i];
        uint64_t id = hash_of(one->topic, one->id, 0), once = hash_of(one->topic, one->once, 1);
        if (one->id.len)
            *seen_at(push, id) = id;
        if (one->once.len)
            *seen_at(push, once) = once;
    }
    return true;
}

/* ---- pieces ---- */

/* Checks items while there is time. */
static enum api_batch_step check_some(struct batch_push *push, struct http_fault *fault)
{
    enum api_batch_step step;
    do
        step = push->form->check(&push->reader, fault);
    while (step == API_BATCH_MORE && !reactor_is_late(push->front->reactor));
    return step;
}

/* Adds a piece that has no items yet. Returns NULL if out of memory. */
static struct piece *piece_add(struct batch_push *push)
{
    if (push->piece_count == push->piece_cap) {
        uint32_t cap = push->piece_cap ? push->piece_cap * 2 : 2;
        struct piece *pieces = realloc(push->pieces, cap * sizeof *pieces);
        if (!pieces)
            return NULL;
        push->pieces = pieces;
        push->piece_cap = cap;
    }
    struct piece *piece = &push->pieces[push->piece_count];
    *piece = (struct piece){.first = push->item_count, .status = QUEUE_OK};
    buffer_init(&piece->faults, QUEUE_BATCH_MAX * sizeof(struct api_item_fault));
    buffer_init(&piece->text, SIZE_MAX / 2);
    return piece;
}

static bool batch_allows(void *ctx, struct slice topic, struct http_fault *fault)
{
    struct http_exchange *exchange = ctx;
    const struct access_caller *caller =
        exchange->caller ? exchange->caller : exchange->connection->gate.caller;
    return http_gate_allows(exchange->front, caller, exchange->route, topic, fault);
}

/* Reads the items of a piece: up to PIECE_BYTES, and while there is time. A traced batch is one piece, because its span
 * describes all of it. Returns false at the end of the body. */
static bool read_some(struct batch_push *push, struct api_batch *batch)
{
    size_t begin = push->reader.at;
    bool has_more;
    do
        has_more = push->form->read(&push->reader, batch);
    while (has_more && (push->has_span || (push->reader.at - begin < PIECE_BYTES &&
                                           !reactor_is_late(push->front->reactor))));
    return has_more;
}

/* Marks restored jobs of tarry's internal topics. The door of the queue checks whether the caller
 * may push them. */
static void restore_own(struct queue_push *pushes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pushes[i].is_own = job_topic_is_own(pushes[i].topic);
}

/* Gives the pushes of a piece to the queue, which copies them. */
static void piece_push(struct batch_push *push, struct http_exchange *exchange,
                       const struct api_batch *batch)
{
    struct piece *piece = &push->pieces[push->piece_count];
    piece->count = batch->item_count - piece->first;
    push->item_count = batch->item_count;
    push->carried = batch->carried;
    if (push->is_restore)
        restore_own(batch->pushes, batch->push_count);
    if (exchange->span)
        api_trace_batch_read(exchange, batch->pushes, batch->push_count, batch->carried);
    if (!batch->push_count) {
        push->piece_count++;
        write_piece(push, piece, NULL, 0);
        return;
    }
    struct queue_reply_to reply_to = http_exchange_reply_to(exchange, on_piece_pushed);
    reply_to.owner = push;
    reply_to.tag = push->piece_count++;
    push->unanswered++;
    api_pushers_note(exchange, batch->pushes, batch->push_count);
    queue_push(push->front->queue, batch->pushes, batch->push_count, reply_to);
}

/* Reads a piece and gives it to the queue. Returns false if out of memory. Sets `is_read` at the end, or `waits`. */
static bool push_some(struct batch_push *push)
{
    struct http_front *front = push->front;
    struct http_exchange *exchange = exchange_of(push);
    struct api_batch_reader before = push->reader;
    struct piece *piece = piece_add(push);
    if (!piece)
        return false;
    struct api_front *api = api_front_of(front);
    struct api_batch batch = {.pushes = api->pushes,
                              .rooms = api->push_batches,
                              .item_count = push->item_count,
                              .faults = &piece->faults,
                              .arena = &front->arena,
                              .meta = &front->meta,
                              .hooks = front->shared->hooks,
                              .carry = push->has_carry ? &push->carry : NULL,
                              .carried = push->carried,
                              .notes_pushed = front->shared->tracer,
                              .allows = batch_allows,
                              .ctx = exchange};
    size_t bytes = PIECE_BYTES + push->reader.item_bytes_most;
    if (push->has_span || bytes > push->reader.body.len)
        bytes = push->reader.body.len;
    bool is_good = push->form->make_room(&batch, bytes);
    bool has_more = is_good && read_some(push, &batch);
    is_good = is_good && !piece->faults.failed;
    push->waits = is_good && push->unanswered && has_seen(push, api->pushes, batch.push_count);
    if (push->waits)
        push->reader = before;
    else if (is_good && has_more)
        is_good = see(push, api->pushes, batch.push_count);
    if (is_good && !push->waits) {
        push->is_read = !has_more;
        piece_push(push, exchange, &batch);
    } else {
        buffer_fini(&piece->faults);
    }
    if (push->form->free_room)
        push->form->free_room(&batch);
    return is_good;
}

/* Checks or reads a part of the body. Returns false if the body is refused; *fault describes the problem. */
static bool do_some(struct batch_push *push, struct http_fault *fault)
{
    if (!push->is_checked) {
        enum api_batch_step step = check_some(push, fault);
        if (step != API_BATCH_END)
            return step == API_BATCH_MORE;
        push->is_checked = true;
        api_batch_rewind(&push->reader);
        if (push->kept.bytes && reactor_is_late(push->front->reactor))
            return true;
    }
    return push_some(push) || refuse_memory(fault);
}

/* Ends the task. The exchange is answered when the queue has replied to the pieces that it has. May free it. */
static void end_task(struct batch_push *push, const struct http_fault *refusal)
{
    struct buffer *arena = &push->front->arena;
    if (arena->cap > HTTP_READ_BYTES)
        buffer_clear_and_trim(arena, HTTP_READ_BYTES);
    push->is_read = true;
    push->is_failed = refusal;
    http_exchange_let_go(exchange_of(push));
    if (refusal && !push->piece_count) {
        http_answer_fault(exchange_of(push), refusal);
        batch_free(push);
        return;
    }
    answer_if_done(push);
}

/* Carries out a piece of the task. Returns whether more is left to do now. May free it. */
static bool batch_continue(struct batch_push *push)
{
    struct http_fault fault;
    push->is_busy = true;
    bool is_good = do_some(push, &fault);
    push->is_busy = false;
    if (is_good && !push->is_read)
        return !push->waits;
    end_task(push, is_good ? NULL : &fault);
    return false;
}

static bool batch_piece(struct reactor_task *task)
{
    return batch_continue(list_entry(task, struct batch_push, task));
}

/* ---- the call ---- */

/* Keeps what the task needs after the handler. Returns false if out of memory. */
static bool batch_keep(struct batch_push *push, struct http_call *call)
{
    struct api_batch_reader *reader = &push->reader;
    if (!http_input_take_body(call->exchange->connection, reader->body, &push->kept))
        return false;
    reader->body = push->kept.body;
    http_gate_keep(call->exchange, call->caller);
    http_exchange_hold_back(call->exchange);
    return true;
}

/* Allocates the room of the front for pushes with batches. */
static bool has_rooms(struct http_front *front)
{
    struct api_front *api = api_front_of(front);
    if (!api->push_batches)
        api->push_batches = calloc(QUEUE_BATCH_MAX, sizeof *api->push_batches);
    return api->push_batches && api_room_for_pushes(front);
}

/* A small batch ends here. */
void api_batch_push(struct http_call *call, const struct api_batch_form *form,
                    const struct api_batch_reader *reader)
{
    struct http_front *front = call->front;
    struct http_exchange *exchange = call->exchange;
    struct batch_push *push = calloc(1, sizeof *push);
    struct http_fault fault;
    if (!push || !has_rooms(front)) {
        free(push);
        (void)refuse_memory(&fault);
        http_answer_fault(exchange, &fault);
        return;
    }
    push->task.piece = batch_piece;
    push->front = front;
    push->form = form;
    push->tag = http_exchange_tag(exchange);
    push->reader = *reader;
    push->has_carry = api_trace_is_on(call) && api_trace_batch(call, &push->carry);
    push->has_span = exchange->span;
    push->is_restore = call->query->fields.restore;
    list_init(&push->task.list);
    list_add_last(&api_front_of(front)->batches, &push->list);
    if (!batch_continue(push))
        return;
    if (batch_keep(push, call)) {
        reactor_add_task(front->reactor, &push->task);
        return;
    }
    (void)refuse_memory(&fault);
    end_task(push, &fault);
}

/* ---- POST /v1/jobs: JSON ---- */

static void add_item_result(struct http_exchange *exchange, struct buffer *out,
                            const struct queue_result *result)
{
    buffer_append_byte(out, '{');
    api_result_members_write(out, result);
    if (!queue_status_is_success(result->status)) {
        uint64_t limit = result->status == QUEUE_BODY_TOO_BIG && !result->limit
                             ? exchange->front->options.body_bytes_max
                             : result->limit;
        http_refusal_members_write(out, result->status, result->detail, 0, limit);
    }
    buffer_append_byte(out, '}');
}

static struct buffer *object_begin(struct http_exchange *exchange)
{
    struct buffer *out = http_answer_start(exchange);
    buffer_append_text(out, "{\"results\":[");
    return out;
}

static void object_end(struct http_exchange *exchange)
{
    buffer_append_text(&exchange->front->body, "]}");
    http_answer_end_json(exchange, 200);
}

static void lines_end(struct http_exchange *exchange)
{
    http_answer_end(exchange, 200, "application/x-ndjson");
}

#define JSON_ITEMS                                                                                 \
    .check = api_batch_check, .make_room = api_batch_make_room, .read = api_batch_read,            \
    .add_result = add_item_result, .add_fault = http_fault_item_write

static void push_many(struct http_call *call)
{
    static const struct api_batch_form object = {JSON_ITEMS, .begin = object_begin, .between = ",",
                                                 .behind = "", .end = object_end};
    static const struct api_batch_form lines = {JSON_ITEMS, .begin = http_answer_start,
                                                .between = "", .behind = "\n", .end = lines_end};
    struct api_batch_reader reader;
    api_batch_begin(&reader, call->request->body, call->request->content_type);
    api_batch_push(call, api_media_is_lines(call->request->accept) ? &lines : &object, &reader);
}

const struct http_route api_batch_routes[] = {
    {.method = HTTP_METHOD_POST,
     .pattern = "/v1/jobs",
     .name = "batch",
     .scope = ACCESS_PUSH,
     .topics = HTTP_TOPICS_EACH,
     .handle = push_many,
     .options = OPTION_BIT(OPTION_RESTORE),
     .body = HTTP_BODY_BATCH},
    {0},
};
