/*
 * http_transcript: reads messages the way a connection does, from pieces of any size, and writes
 * down what it saw. Two ways of cutting the same bytes must give the same transcript.
 */
#ifndef TARRY_TESTS_HTTP_TRANSCRIPT_H
#define TARRY_TESTS_HTTP_TRANSCRIPT_H

#include "http/problem.h"
#include "http/request.h"

#include <stdlib.h>

struct transcript {
    struct buffer
        in; /* what is not a whole message yet, in memory of exactly its size while read */
    struct http_framing framing;
    struct http_request request;
    uint64_t body_bytes_max;
    struct buffer text;
    bool refused;
    size_t refused_at; /* length of text before the refusal */
    bool is_http_2;    /* the heads are read as those of HTTP/2 */
    bool knows;        /* the line of the last message's Authorization, as a connection does */
    char *line;
    size_t line_len;
};

static inline void transcript_init(struct transcript *transcript, uint64_t body_bytes_max)
{
    *transcript = (struct transcript){.body_bytes_max = body_bytes_max};
    buffer_init(&transcript->in, 1 << 22);
    buffer_init(&transcript->text, 1 << 24);
}

static inline void transcript_fini(struct transcript *transcript)
{
    buffer_fini(&transcript->in);
    buffer_fini(&transcript->text);
    free(transcript->line);
}

static inline void transcript_remember(struct transcript *transcript)
{
    struct slice line = http_request_authorization_line(&transcript->request);
    char *copy = malloc(line.len + 1);
    if (line.len)
        memcpy(copy, line.at, line.len);
    free(transcript->line);
    transcript->line = copy;
    transcript->line_len = line.len;
}

static inline void transcript_note(struct transcript *transcript)
{
    const struct http_request *request = &transcript->request;
    struct buffer *text = &transcript->text;
    buffer_append_format(text, "%d %.*s?%.*s%s%s%s\n", (int)request->method, (int)request->path.len,
                         request->path.at, (int)request->query.len,
                         request->query.len ? request->query.at : "",
                         request->is_http_1_0 ? " 1.0" : "", request->keeps_alive ? "" : " close",
                         request->expects_continue ? " expects" : "");
    if (request->has_authorization)
        buffer_append_format(text, "authorized by '%.*s'\n", (int)request->authorization.len,
                             request->authorization.at);
    for (uint32_t i = 0; i < request->header_count; i++) {
        if (request->headers[i].name.len == 13 &&
            http_is(request->headers[i].name, "authorization"))
            continue; /* one that is known is not among them */
        buffer_append_slice(text, request->headers[i].name);
        buffer_append_byte(text, '=');
        buffer_append_slice(text, request->headers[i].value);
        buffer_append_byte(text, '\n');
    }
    buffer_append_slice(text, request->body);
    buffer_append_byte(text, '\n');
}

/* Makes one step. False: more bytes are needed, or the transcript has ended. */
static inline bool transcript_step(struct transcript *transcript, char *bytes, size_t *len,
                                   size_t *at)
{
    struct http_fault fault;
    size_t left = *len - *at, used = 0;
    transcript->framing.is_http_2 = transcript->is_http_2;
    transcript->framing.known = slice_make(transcript->line, transcript->line_len);
    switch (http_message_read(&transcript->framing, bytes + *at, &left, &transcript->request, &used,
                              &fault)) {
    case HTTP_STEP_MORE:
        *len = *at + left;
        return false;
    case HTTP_STEP_HEAD:
        transcript->framing.body_bytes_max = transcript->body_bytes_max;
        return true;
    case HTTP_STEP_REFUSED:
        transcript->refused_at = transcript->text.len;
        buffer_append_format(&transcript->text, "refused %s\n", http_problem_code(fault.problem));
        transcript->refused = true;
        return false;
    case HTTP_STEP_WHOLE:
        transcript_note(transcript);
        if (transcript->knows)
            transcript_remember(transcript);
        break;
    case HTTP_STEP_SKIP:
        break;
    }
    *at += used;
    transcript->framing = (struct http_framing){0};
    return true;
}

static inline void transcript_feed(struct transcript *transcript, struct slice piece)
{
    if (transcript->refused)
        return;
    buffer_append_slice(&transcript->in, piece);
    /* A copy of exact size, so that a sanitizer sees every byte beyond it. */
    size_t len = transcript->in.len, at = 0;
    char *bytes = malloc(len ? len : 1);
    if (len)
        memcpy(bytes, transcript->in.at, len);
    while (at < len && transcript_step(transcript, bytes, &len, &at))
        ;
    buffer_clear(&transcript->in);
    buffer_append(&transcript->in, bytes + at, len - at);
    free(bytes);
}

#endif
