/*
 * http_transfer: a request and its answer, on a reusable libcurl handle.
 *
 * Used on the reactor's thread. The sent data is copied. A completed transfer keeps a small amount
 * of memory for the next one.
 */
#ifndef TARRY_TARGETS_HTTP_TRANSFER_H
#define TARRY_TARGETS_HTTP_TRANSFER_H

#include "base/list.h"
#include "targets/http/multi.h"
#include "targets/target.h"

#include <curl/curl.h>

enum { TARGET_HEADERS_MAX = JOB_META_PAIRS_MAX + TARGET_HEADER_LINES_MAX + 18 };

enum {
    TARGET_ANSWER_HEADER_BYTES_MAX = 64 * 1024,
    TARGET_ANSWER_BODY_BYTES_MAX = 64 * 1024,
    TARGET_RETRY_AFTER_MS_MAX = 24 * 60 * 60 * 1000
};

/* The received part of an answer. Only the status decides the result: once it is known, an answer
 * that never ends or breaks off is equivalent to a complete one. */
struct target_answer {      /* zeroed if nothing was received yet */
    uint32_t status;        /* final status; 0 if not received yet */
    int64_t retry_after_ms; /* if `has_retry_after` */
    bool has_retry_after;
    bool is_in_head; /* between the first line of the head and the blank line at its end */
    size_t header_bytes, body_bytes;
};

/* The answer as the result of the job. */
struct target_result {
    size_t bytes_max;
    struct buffer body;
    size_t type_bytes;
    char type[JOB_CONTENT_TYPE_BYTES_MAX];
    enum target_loss loss; /* 0: no loss so far */
};

struct webhook;

struct target_transfer {
    struct list list; /* for its owner */
    void *owner;
    struct guard *guard;
    CURL *easy;
    uint64_t tag;
    uint64_t pinned;         /* the generation of the addresses that `easy` received last */
    struct curl_slist *pins; /* those addresses */
    int64_t started_ms, until_ms, timeout_ms; /* boot time */
    int64_t began_ms;                         /* time at which libcurl received it */
    struct target_codes dead_on[TARGET_DEAD_ON_MAX];
    size_t dead_on_count;
    struct target_opening opening;
    struct target_answer answer;
    struct target_result *result; /* NULL if the body of the answer is not needed */
    struct target_mark mark;      /* has_begun: the connection of the last request */
    bool is_call;                 /* as in its message */
    bool offers_http2;            /* if TLS negotiates it */
    bool is_refused;              /* the peer did not process the request, and it was sent again */
    bool has_begun;               /* there was a connection: the peer may have received something */
    bool is_decided;              /* `report` is valid */
    struct target_report report;
    struct buffer *explained; /* or NULL */
    /* The request: NUL-terminated texts, then the body. */
    struct buffer text;
    size_t body_at, body_bytes, header_count;
    size_t secret; /* index of the header with a credential, plus one; 0: no such header */
    uint32_t header_at[TARGET_HEADERS_MAX];
    struct curl_slist headers[TARGET_HEADERS_MAX];
};

/* Returns NULL when out of memory. */
struct target_transfer *target_transfer_new(struct guard *guard, bool offers_http2,
                                            const char *version, void *owner);
void target_transfer_free(struct target_transfer *transfer);

/* Builds the request of a message; `origin` is "https://host:port". Returns false with `report` if
 * it cannot be sent. */
bool target_transfer_fill(struct target_transfer *transfer, const struct target_message *message,
                          struct webhook *webhook, struct slice origin, struct slice path,
                          int64_t now_ms);
/* Keeps the body of the answer, up to a size. Returns false with `report` when out of memory. */
bool target_transfer_keep_result(struct target_transfer *transfer, size_t bytes_max);
/* Sets the addresses of its host in libcurl's format; `generation` identifies the line. Returns
 * false when out of memory. */
bool target_transfer_pin(struct target_transfer *transfer, const char *line, uint64_t generation);
/* Sets `report` to the result after the transfer has ended. Keeps an answer that was already
 * there. */
void target_transfer_evaluate(struct target_transfer *transfer, CURLcode code);
/* Returns true if the peer rejected the request over HTTP/2 and requires HTTP/1.1. */
bool target_transfer_wants_http1(const struct target_transfer *transfer);
/* Appends an explanation of the report, if requested. */
void target_transfer_explain(const struct target_transfer *transfer, int64_t now_ms);
/* Aborts the transfer, before or after it has begun; `why` is a text for users. */
void target_transfer_give_up(struct target_transfer *transfer, enum target_outcome outcome,
                             bool is_ailing, const char *why);
/* Passes the result of a completed transfer to the caller; NULL if it has none. */
struct target_result *target_transfer_take_result(struct target_transfer *transfer);
void target_result_free(struct target_result *result); /* NULL is allowed */
/* Prepares for the next request; frees larger memory. */
void target_transfer_clear(struct target_transfer *transfer);

/* ---- interpretation of answers; pure ---- */

/* Processes one line of a head, with or without its line end; also the blank line after it and
 * lines of trailers. A status is only read from the first line of a head, and other fields only
 * from the head of the final answer. Returns false if enough was read. */
bool target_answer_add_line(struct target_answer *answer, struct slice line, int64_t wall_ms);
bool target_answer_add_body(struct target_answer *answer, size_t bytes);

/* Fills in the report for an answer with a status, except the tag. */
void target_answer_evaluate(const struct target_answer *answer, const struct target_codes *dead_on,
                            size_t dead_on_count, struct target_report *out);

#endif
