#include "http/http2.h"

#include "http/dispatch.h"
#include "http/exchange.h"
#include "http/http2_call.h"
#include "http/http2_stream.h"
#include "http/phase.h"
#include "http/stream.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>

enum {
    SESSION_BYTES = 10 * 1024,        /* approximate memory of a session */
    TABLE_BYTES = 1024,               /* of the HPACK table of answers, which have few fields */
    FRAME_BYTES = 9 + 1 + 16 * 1024,  /* as nghttp2 allocates a frame: head, padding, payload */
    WINDOW_BYTES = 1024 * 1024,       /* of a connection */
    BODY_WINDOW_BYTES = 256 * 1024,   /* of a stream whose head is checked */
    OUT_BYTES_MAX = 256 * 1024,       /* of frames for one write */
    ANSWER_BYTES_PAUSE = 1024 * 1024, /* above it no more requests of the connection begin */
    CHECK_MS = 1000
};

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
enum { PREFACE_BYTES = sizeof PREFACE - 1 };

/* ---- frames that are received ---- */

/* Ends the connection after this read, with an error code. */
static int end_hostile(struct http2 *http2, uint32_t code)
{
    if (!http2->hostile)
        http2->hostile = code;
    return NGHTTP2_ERR_PAUSE;
}

static void count_flood(struct http2 *http2, enum http2_flood_kind kind)
{
    if (!http2_flood_count(&http2->flood, kind, http_front_now_ms(http2->connection->front)))
        (void)end_hostile(http2, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* Ends the connection if the peer sends a frame on a stream that it has ended or passed over. Late
 * frames on a stream that was reset from here are ignored by nghttp2. */
static void check_stream_of(struct http2 *http2, const nghttp2_frame_hd *head)
{
    int32_t id = head->stream_id;
    if (id > http2->last_id || !(id & 1) || nghttp2_session_find_stream(http2->session, id))
        return;
    if (http2_closed_has(&http2->done, id))
        (void)end_hostile(http2, NGHTTP2_STREAM_CLOSED);
    else if (head->type == NGHTTP2_HEADERS && !http2_closed_has(&http2->reset, id))
        (void)end_hostile(http2, NGHTTP2_PROTOCOL_ERROR);
}

/* Counts the frames that a peer may send at no cost. */
static int on_frame_begins(nghttp2_session *session, const nghttp2_frame_hd *head, void *ctx)
{
    struct http2 *http2 = ctx;
    (void)session;
    switch (head->type) {
    case NGHTTP2_PRIORITY:
        if (!head->stream_id) /* nghttp2 ignores these frames, as priorities are not used */
            (void)end_hostile(http2, NGHTTP2_PROTOCOL_ERROR);
        /* fall through */
    case NGHTTP2_PING:
    case NGHTTP2_SETTINGS:
        count_flood(http2, HTTP2_FLOOD_CONTROL);
        break;
    case NGHTTP2_DATA:
    case NGHTTP2_CONTINUATION:
        if (!head->length && !(head->flags & NGHTTP2_FLAG_END_STREAM))
            count_flood(http2, HTTP2_FLOOD_EMPTY);
        check_stream_of(http2, head);
        break;
    case NGHTTP2_HEADERS:
        check_stream_of(http2, head);
        break;
    default: /* nghttp2 skips unknown frames */
        break;
    }
    return 0;
}

static int on_headers_begin(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    static const nghttp2_extpri in_turn = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
    struct http2 *http2 = ctx;
    (void)http2_block_end(http2, NULL); /* of a malformed request, whose end is not reported */
    http2->is_block_open = true;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct http2_stream *stream = http2_stream_new(http2, frame->hd.stream_id);
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    http2->last_id = frame->hd.stream_id;
    (void)nghttp2_session_change_extpri_stream_priority(session, frame->hd.stream_id, &in_turn, 1);
    return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
}

static int on_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                    size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                    void *ctx)
{
    struct http2 *http2 = ctx;
    (void)session;
    (void)frame;
    (void)flags;
    if (http2->hostile)
        return NGHTTP2_ERR_PAUSE;
    return http2_block_take(http2, slice_make(name, name_len), slice_make(value, value_len))
               ? 0
               : end_hostile(http2, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* Notes the end of the request. */
static void end_request(struct http2_stream *stream)
{
    stream->is_whole = true;
    http2_stream_end_input(stream);
    if (stream->call)
        http2_call_note_end(stream->call);
    else if (!stream->is_begun)
        http2_stream_make_ready(stream);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct http2 *http2 = ctx;
    struct http2_stream *stream =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK)) {
        http2->awaits_pong = false;
        return 0;
    }
    if (frame->hd.type == NGHTTP2_HEADERS) {
        http2->is_block_open = false;
        bool is_head = frame->headers.cat == NGHTTP2_HCAT_REQUEST;
        if (!http2_block_end(http2, is_head ? stream : NULL))
            return stream ? nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id,
                                                      NGHTTP2_INTERNAL_ERROR)
                          : 0;
        if (stream && is_head)
            http2_stream_make_ready(stream);
    }
    bool may_end = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (stream && may_end && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        end_request(stream);
    return 0;
}

static int on_body(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *ctx)
{
    struct http2 *http2 = ctx;
    struct http2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    (void)flags;
    http2->body_bytes += len;
    if (!stream)
        return 0;
    if (stream->call) {
        http2_call_note_data(stream->call, bytes, len);
        return 0;
    }
    http2_stream_take(stream, bytes, len);
    (void)nghttp2_session_consume_stream(session, id, len);
    bool is_too_much =
        stream->is_starved || stream->in_len - stream->head_bytes > stream->body_bytes_max;
    if (is_too_much && !stream->is_begun)
        http2_stream_make_ready(stream);
    return 0;
}

/* Frees the stream. An end before the answer is counted, whoever reset it. */
static int on_stream_closed(nghttp2_session *session, int32_t id, uint32_t code, void *ctx)
{
    struct http2 *http2 = ctx;
    struct http2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    (void)code;
    if (!http2_closed_has(&http2->reset, id))
        http2_closed_add(&http2->done, id);
    if (!stream || !stream->is_finished)
        count_flood(http2, HTTP2_FLOOD_RESET);
    if (!stream)
        return 0;
    (void)nghttp2_session_set_stream_user_data(session, id, NULL);
    if (stream->call)
        http2_call_close(stream->call, false);
    http2_stream_free(stream);
    http_connection_touch(http2->connection);
    return 0;
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *ctx)
{
    struct http2_stream *stream =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        struct http2 *http2 = ctx;
        http2_closed_add(&http2->reset, frame->hd.stream_id);
        http2->is_block_open = false; /* the end of a malformed block is not reported */
    }
    if (stream && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA))
        http2_stream_note_frame(stream, frame);
    return 0;
}

/* ---- memory ---- */

/*
 * Each session of nghttp2 allocates a buffer for the frame that it sends. A frame has content only until the next call of
 * nghttp2_session_mem_send, and append_frames copies it at once, so all sessions of a front share one
 * buffer. A version of nghttp2 that allocates another size has a buffer in each session.
 */
static void *memory_resize(void *at, size_t bytes, void *ctx)
{
    struct http2 *http2 = ctx;
    struct http_front *front = http2->connection->front;
    assert(!at || at != front->frame_at);
    if (http2->session || at || bytes != FRAME_BYTES || http2->shares_frame)
        return realloc(at, bytes);
    if (!front->frame_at)
        front->frame_at = malloc(bytes);
    http2->shares_frame = front->frame_at != NULL;
    return front->frame_at;
}

static void memory_release(void *at, void *ctx)
{
    const struct http2 *http2 = ctx;
    if (at != http2->connection->front->frame_at)
        free(at);
}

static void *memory_take(size_t bytes, void *ctx)
{
    (void)ctx;
    return malloc(bytes);
}

static void *memory_take_zeroed(size_t count, size_t bytes, void *ctx)
{
    (void)ctx;
    return calloc(count, bytes);
}

/* ---- begin ---- */

static nghttp2_session *new_session(struct http2 *http2)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_session *session = NULL;
    nghttp2_mem memory = {http2, memory_take, memory_release, memory_take_zeroed, memory_resize};
    if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0)
        goto done;
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_frame_begins);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_headers_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_field);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_body);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_closed);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1); /* http2_peer.h */
    nghttp2_option_set_max_deflate_dynamic_table_size(option, TABLE_BYTES);
    /* Resets are counted here (http2_peer.h), by those that no answer makes up for. */
    nghttp2_option_set_stream_reset_rate_limit(option, UINT32_MAX, UINT32_MAX);
    (void)nghttp2_session_server_new3(&session, callbacks, http2, option, &memory);

done:
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
}

static bool submit_settings(nghttp2_session *session)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, HTTP2_STREAMS_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_HEAD_BYTES_MAX},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    return nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof settings[0]) == 0 &&
           nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES) == 0;
}

bool http2_begins(struct slice bytes, bool *is_short)
{
    size_t len = bytes.len < PREFACE_BYTES ? bytes.len : PREFACE_BYTES;
    bool is_equal = memcmp(bytes.at, PREFACE, len) == 0;
    *is_short = is_equal && len < PREFACE_BYTES;
    return is_equal && len == PREFACE_BYTES;
}

static void http2_free(struct http_connection *connection)
{
    struct http2 *http2 = connection->http2;
    connection->http2 = NULL;
    nghttp2_session_del(http2->session);
    (void)http2_block_end(http2, NULL);
    http_budget_remove(connection->front, SESSION_BYTES);
    free(http2);
}

/* ---- requests ---- */

/* Answers the request of a stream with an error, and expects no more of it. */
static bool refuse_request(struct http2_stream *stream, const struct http_fault *fault)
{
    struct http_exchange *exchange = http_exchange_add(stream->http2->connection);
    if (!exchange)
        return false;
    exchange->route = stream->http2->connection->parser.refuser;
    http_answer_fault(exchange, fault);
    return true;
}

/* Gives the stream a larger window for the rest of its body. */
static void expect_body(struct http2_stream *stream)
{
    struct http_connection *connection = stream->http2->connection;
    nghttp2_session *session = stream->http2->session;
    if (stream->body_bytes_max != UINT64_MAX)
        return;
    stream->body_bytes_max = connection->parser.framing.body_bytes_max;
    if (stream->body_bytes_max > NGHTTP2_INITIAL_WINDOW_SIZE)
        (void)nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, stream->id,
                                                    BODY_WINDOW_BYTES);
    if (connection->front->request.expects_continue && stream->in_len == stream->head_bytes) {
        static const nghttp2_nv proceed = {.name = (uint8_t *)(uintptr_t) ":status",
                                           .value = (uint8_t *)(uintptr_t) "100",
                                           .namelen = 7,
                                           .valuelen = 3};
        (void)nghttp2_submit_headers(session, NGHTTP2_FLAG_NONE, stream->id, NULL, &proceed, 1,
                                     NULL);
    }
    http_connection_touch(connection);
}

/* Handles the request of a stream as far as it has arrived. The request's memory is the
 * connection's during the call, so that a handler may take it over. */
static enum http_dispatched handle_request(struct http2_stream *stream)
{
    struct http2 *http2 = stream->http2;
    struct http_connection *connection = http2->connection;
    struct http_parser *parser = &connection->parser;
    struct http_fault fault;
    enum http_dispatched done;
    http2->current = stream;
    parser->in = stream->in;
    parser->in_len = stream->in_len;
    parser->in_cap = stream->in_cap;
    stream->in = NULL;
    if (stream->is_starved) {
        http_budget_refuse(connection->front, &fault);
        parser->refuser = NULL;
        done = HTTP_DISPATCH_REFUSED;
    } else {
        done = http_dispatch_stream(connection, stream->head_bytes, stream->is_whole, &fault);
    }
    if (done == HTTP_DISPATCH_REFUSED)
        done = refuse_request(stream, &fault) ? HTTP_DISPATCH_DONE : HTTP_DISPATCH_FAILED;
    stream->in = parser->in;
    stream->in_len = parser->in_len;
    stream->in_cap = parser->in_cap;
    parser->in = NULL;
    parser->in_len = parser->in_cap = 0;
    http2->current = NULL;
    return done;
}

/* Gives a call the part of the body that arrived with its head. */
static void hand_over_body(struct http2_stream *stream)
{
    if (stream->in_len > stream->head_bytes)
        http2_call_note_data(stream->call, stream->in + stream->head_bytes,
                             stream->in_len - stream->head_bytes);
    if (stream->is_whole)
        http2_call_note_end(stream->call);
}

/* Returns whether no more requests may begin now. */
static bool is_full(const struct http2 *http2)
{
    const struct http_connection *connection = http2->connection;
    return connection->socket.out.len >= ANSWER_BYTES_PAUSE ||
           (http_budget_is_spent(connection->front) &&
            connection->exchange_count > connection->wait_count);
}

/* Handles the requests that have arrived, as far as there is room. Returns false if out of
 * memory. */
static bool handle_ready(struct http2 *http2)
{
    struct http_connection *connection = http2->connection;
    struct http_front *front = connection->front;
    uint32_t begun = 0;
    if (connection->parser.is_heavy && front->iteration_heavy && reactor_is_late(front->reactor)) {
        http_connection_touch(connection);
        return true;
    }
    connection->parser.is_heavy = false;
    while (!list_is_empty(&http2->ready) && !is_full(http2)) {
        struct http2_stream *stream = list_entry(http2->ready.next, struct http2_stream, ready);
        if (http_dispatch_has_had_share(front, begun)) {
            http_connection_touch(connection);
            break;
        }
        begun++;
        front->iteration_requests++;
        enum http_dispatched done = handle_request(stream);
        if (done == HTTP_DISPATCH_FAILED)
            return false;
        if (done == HTTP_DISPATCH_HELD)
            break;
        list_remove(&stream->ready);
        if (done == HTTP_DISPATCH_MORE) {
            expect_body(stream);
            continue;
        }
        stream->is_begun = true;
        http2_stream_end_input(stream);
        if (stream->call)
            hand_over_body(stream);
        http2_stream_drop_input(stream);
    }
    return true;
}

/* ---- end ---- */

/* Frees all streams. */
static void free_streams(struct http2 *http2)
{
    while (!list_is_empty(&http2->streams)) {
        struct http2_stream *stream = list_entry(http2->streams.next, struct http2_stream, node);
        (void)nghttp2_session_set_stream_user_data(http2->session, stream->id, NULL);
        if (stream->call)
            http2_call_close(stream->call, true);
        http2_stream_free(stream);
    }
}

/* Closes the connection after what is to be written. The peer may still read the reason. */
static void close_session(struct http2 *http2)
{
    struct http_connection *connection = http2->connection;
    free_streams(http2);
    connection->is_closing = connection->socket.lingers = true;
    if (!connection->socket.writing)
        http_phase_enter(connection, HTTP_PHASE_NONE);
    http_connection_touch(connection);
}

/* Ends the connection with a GOAWAY. */
static void end_session(struct http2 *http2, uint32_t code)
{
    if (http2->has_sent_goaway)
        return;
    http2->has_sent_goaway = true;
    (void)nghttp2_session_terminate_session(http2->session, code);
    close_session(http2);
}

static void http2_cut(struct http_connection *connection)
{
    free_streams(connection->http2);
    http2_free(connection);
}

static struct http_exchange *http2_next(const struct http_connection *connection,
                                        const struct http_exchange *exchange)
{
    const struct http2 *http2 = connection->http2;
    const struct list *node = exchange ? exchange->frames->node.next : http2->streams.next;
    for (; node != &http2->streams; node = node->next) {
        struct http2_stream *stream = list_entry(node, struct http2_stream, node);
        if (stream->exchange)
            return stream->exchange;
    }
    return NULL;
}

static void http2_revoke(struct http_exchange *exchange)
{
    if (exchange->frames->call)
        http2_call_revoke(exchange->frames->call);
}

static void http2_end_waits(struct http_connection *connection)
{
    struct http2 *http2 = connection->http2;
    end_session(http2, NGHTTP2_NO_ERROR); /* the peer of HTTP/2 has no use for answers then */
}

/* ---- input and output ---- */

static enum http_fed http2_feed(struct http_connection *connection, char *bytes, size_t len,
                                struct http_fault *fault)
{
    struct http2 *http2 = connection->http2;
    ssize_t used = nghttp2_session_mem_recv(http2->session, (const uint8_t *)bytes, len);
    (void)fault;
    http_connection_touch(connection);
    if (used == NGHTTP2_ERR_BAD_CLIENT_MAGIC || used == NGHTTP2_ERR_NOMEM)
        return HTTP_FED_FAILED;
    if (http2->hostile || used < 0) {
        end_session(http2, http2->hostile                ? http2->hostile
                           : used == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM
                                                         : NGHTTP2_PROTOCOL_ERROR);
        return HTTP_FED_CLOSING;
    }
    if (!handle_ready(http2))
        return HTTP_FED_FAILED;
    http2_calls_deliver(http2);
    return HTTP_FED;
}

/* Gives back the window of received bodies, as long as the budget has memory. */
static void give_window(struct http2 *http2)
{
    if (!http2->body_bytes || http_budget_is_spent(http2->connection->front))
        return;
    (void)nghttp2_session_consume_connection(http2->session, http2->body_bytes);
    http2->body_bytes = 0;
}

static void flush_open_answers(struct http2 *http2)
{
    for (struct list *node = http2->streams.next; node != &http2->streams; node = node->next) {
        struct http2_stream *stream = list_entry(node, struct http2_stream, node);
        if (stream->exchange && stream->exchange->stream && !stream->is_stalled)
            http_stream_flush(stream->exchange->stream);
    }
}

/* Sends the second GOAWAY when the round trip after the first one has ended. */
static void drain_on(struct http2 *http2)
{
    if (!http2->is_draining || http2->is_last_sent || http2->awaits_pong)
        return;
    http2->is_last_sent = true;
    (void)nghttp2_submit_goaway(http2->session, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(http2->session),
                                NGHTTP2_NO_ERROR, NULL, 0);
}

static void note_written(struct http2 *http2)
{
    for (struct list *node = http2->streams.next; node != &http2->streams; node = node->next) {
        struct http2_stream *stream = list_entry(node, struct http2_stream, node);
        if (stream->call)
            http2_call_note_written(stream->call);
    }
}

/* Appends frames to the output, as far as there is room. */
static void append_frames(struct http2 *http2)
{
    struct buffer *out = &http2->connection->socket.out;
    while (out->len < OUT_BYTES_MAX && !out->failed) {
        const uint8_t *bytes;
        ssize_t len = nghttp2_session_mem_send(http2->session, &bytes);
        if (len < 0)
            out->failed = true;
        if (len <= 0)
            return;
        http_front_lend(http2->connection->front, out);
        buffer_append(out, bytes, (size_t)len);
    }
    http_connection_touch(http2->connection);
}

static void http2_flush(struct http_connection *connection)
{
    struct http2 *http2 = connection->http2;
    if (connection->socket.writing)
        return;
    if (http2->open_answers)
        flush_open_answers(http2);
    if (http2->call_count && !connection->socket.out.len)
        note_written(http2);
    give_window(http2);
    drain_on(http2);
    append_frames(http2);
    if (http2->hostile && !http2->has_sent_goaway) { /* by streams that were reset just now */
        end_session(http2, http2->hostile);
        append_frames(http2);
    }
}

/* ---- timeouts ---- */

/* Ends streams that make no progress: requests that do not arrive, answers that are not read. Notes
 * which answers flow control holds back. */
static void check_streams(struct http2 *http2, bool may_end)
{
    struct http_front *front = http2->connection->front;
    int64_t now_ms = http_front_now_ms(front);
    for (struct list *node = http2->streams.next, *next; node != &http2->streams; node = next) {
        struct http2_stream *stream = list_entry(node, struct http2_stream, node);
        next = node->next;
        stream->is_stalled = stream->has_out;
        int64_t limit_ms = stream->is_stalled      ? front->options.idle_ms
                           : stream->is_incomplete ? front->options.body_ms
                                                   : INT64_MAX;
        if (!may_end || now_ms - stream->since_ms < limit_ms)
            continue;
        if (stream->is_incomplete && list_is_empty(&stream->ready)) {
            struct http_fault fault;
            (void)http_fault_set(&fault, PROBLEM_REQUEST_TIMEOUT, 0,
                                 "the body took longer than %lld ms to arrive",
                                 (long long)front->options.body_ms);
            http2->current = stream;
            http2->connection->parser.refuser = NULL;
            stream->is_begun = refuse_request(stream, &fault);
            http2_stream_end_input(stream);
            http2->current = NULL;
        } else if (stream->is_stalled) {
            (void)nghttp2_submit_rst_stream(http2->session, NGHTTP2_FLAG_NONE, stream->id,
                                            NGHTTP2_CANCEL);
        }
        http_connection_touch(http2->connection);
    }
}

/* Determines what the connection waits for. */
static void choose_phase(struct http2 *http2)
{
    struct http_connection *connection = http2->connection;
    if (connection->socket.writing || connection->is_closing)
        return;
    bool has_moved = http2->framed != http2->framed_seen;
    http2->framed_seen = http2->framed;
    int64_t now_ms = http_front_now_ms(connection->front);
    bool is_due = now_ms - http2->checked_ms >= CHECK_MS;
    if (is_due)
        http2->checked_ms = now_ms;
    if (is_due || http2->open_answers)
        check_streams(http2, is_due);
    enum http_phase phase = http2->is_block_open                        ? HTTP_PHASE_HEAD
                            : http2->incomplete_count                   ? HTTP_PHASE_BODY
                            : http2->out_count                          ? HTTP_PHASE_WRITE
                            : http2->stream_count || http2->is_draining ? HTTP_PHASE_QUIET
                                                                        : HTTP_PHASE_IDLE;
    if (has_moved && phase != HTTP_PHASE_HEAD && phase != HTTP_PHASE_BODY)
        http_phase_begin(connection, phase);
    else
        http_phase_enter(connection, phase);
}

static enum http_fed http2_resume(struct http_connection *connection, struct http_fault *fault)
{
    struct http2 *http2 = connection->http2;
    (void)fault;
    if (connection->is_closing)
        return HTTP_FED_NONE;
    if (!list_is_empty(&http2->ready) && !handle_ready(http2))
        return HTTP_FED_FAILED;
    http2_calls_deliver(http2);
    if ((http2->is_last_sent && !http2->stream_count) ||
        (!nghttp2_session_want_read(http2->session) &&
         !nghttp2_session_want_write(http2->session))) {
        close_session(http2); /* all is done, or nghttp2 has ended the connection */
        return HTTP_FED_NONE;
    }
    choose_phase(http2);
    return HTTP_FED_NONE;
}

static void ping(struct http2 *http2)
{
    http2->awaits_pong = true;
    (void)nghttp2_submit_ping(http2->session, NGHTTP2_FLAG_NONE, NULL);
    http_connection_touch(http2->connection);
}

static enum http_fed http2_expire(struct http_connection *connection, enum http_phase phase)
{
    struct http2 *http2 = connection->http2;
    if (connection->socket.writing || connection->is_closing)
        return HTTP_FED_NONE;
    check_streams(http2, true);
    if (phase == HTTP_PHASE_IDLE || phase == HTTP_PHASE_HEAD) {
        end_session(http2, NGHTTP2_NO_ERROR);
        return HTTP_FED_CLOSING;
    }
    if (phase == HTTP_PHASE_QUIET && http2->awaits_pong) {
        if (!http2->is_draining)
            return HTTP_FED_FAILED; /* the peer is gone */
        http2->awaits_pong = false; /* it does not answer: drain without it */
    } else if (phase == HTTP_PHASE_QUIET) {
        ping(http2);
    }
    http_phase_begin(connection, phase);
    http_connection_touch(connection);
    return HTTP_FED;
}

static enum http_fed http2_drain(struct http_connection *connection)
{
    struct http2 *http2 = connection->http2;
    if (http2->is_draining || connection->is_closing)
        return HTTP_FED;
    http2->is_draining = true;
    (void)nghttp2_submit_shutdown_notice(http2->session);
    ping(http2);
    for (struct list *node = http2->streams.next, *next; node != &http2->streams; node = next) {
        struct http2_stream *stream = list_entry(node, struct http2_stream, node);
        next = node->next;
        if (stream->exchange && stream->exchange->stream)
            http_stream_drain(stream->exchange->stream);
        else if (stream->call)
            http2_call_note_drain(stream->call);
    }
    http_connection_touch(connection);
    http_phase_begin(connection, HTTP_PHASE_QUIET);
    return HTTP_FED;
}

static const struct http_wire http2_wire = {
    .is_ordered = false,
    .feed = http2_feed,
    .resume = http2_resume,
    .expire = http2_expire,
    .end_waits = http2_end_waits,
    .drain = http2_drain,
    .cut = http2_cut,
    .flush = http2_flush,
    .next = http2_next,
    .revoke = http2_revoke,
    .add = http2_add,
    .answer = http2_answer,
    .proceed = http2_proceed,
    .open = http2_open_answer,
    .write = http2_write,
    .close = http2_close,
    .unsent = http2_unsent_of,
};

bool http2_start(struct http_connection *connection)
{
    struct http2 *http2 = calloc(1, sizeof *http2);
    if (!http2)
        return false;
    http2->connection = connection;
    list_init(&http2->streams);
    list_init(&http2->ready);
    http2->session = new_session(http2);
    if (!http2->session || !submit_settings(http2->session)) {
        nghttp2_session_del(http2->session);
        free(http2);
        return false;
    }
    http_budget_add(connection->front, SESSION_BYTES);
    connection->http2 = http2;
    connection->wire = &http2_wire;
    if (connection->front->is_draining)
        (void)http2_drain(connection);
    return true;
}

bool http2_is_offered(void)
{
    return true;
}
