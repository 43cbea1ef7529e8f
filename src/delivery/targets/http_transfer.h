/*
 * http_transfer: one request and its answer, on a libcurl handle that is used again and again.
 *
 * The reactor's thread. What is sent is copied in; a transfer that has ended keeps a little memory
 * for the next.
 */
#ifndef TARRY_TARGETS_HTTP_TRANSFER_H
#define TARRY_TARGETS_HTTP_TRANSFER_H

#include "base/list.h"
#include "targets/http_multi.h"
#include "targets/target.h"

#include <curl/curl.h>

enum { TARGET_HEADERS_MAX = JOB_META_PAIRS_MAX + 18 };

enum {
    TARGET_ANSWER_HEADER_BYTES_MAX = 64 * 1024,
    TARGET_ANSWER_BODY_BYTES_MAX = 64 * 1024,
    TARGET_RETRY_AFTER_MS_MAX = 24 * 60 * 60 * 1000
};

/* What has come of an answer. The status decides, and nothing that comes after it: once it is known,
 * an answer that never ends or breaks off is the same as a whole one. */
struct target_answer {      /* zeroed: nothing has come yet */
    uint32_t status;        /* the final one; 0: none yet */
    int64_t retry_after_ms; /* where `has_retry_after` */
    bool has_retry_after;
    bool is_in_head; /* between its first line and the blank one that ends it */
    size_t header_bytes, body_bytes;
};

struct webhook;

struct target_transfer {
    struct list list; /* its owner's */
    void *owner;
    struct guard *guard;
    CURL *easy;
    uint64_t tag;
    uint64_t pinned;         /* the generation of addresses that `easy` was given last */
    struct curl_slist *pins; /* those */
    int64_t started_ms, until_ms, timeout_ms; /* on boot time */
    int64_t began_ms;                         /* libcurl has it since then */
    struct target_codes dead_on[TARGET_DEAD_ON_MAX];
    size_t dead_on_count;
    struct target_opening opening;
    struct target_answer answer;
    struct target_mark mark; /* has_begun: the connection it went by last */
    bool offers_http2;       /* where TLS agrees on it */
    bool is_refused;         /* the peer did not look at it, and was sent it again */
    bool has_begun;          /* there was a connection: the peer may have got something */
    bool is_decided;         /* `report` holds */
    struct target_report report;
    struct buffer *explained; /* or NULL */
    /* The request: texts with a NUL behind each, then the body. */
    struct buffer text;
    size_t body_at, body_bytes, header_count;
    size_t secret; /* the header that holds a credential, plus one; 0: none */
    uint32_t header_at[TARGET_HEADERS_MAX];
    struct curl_slist headers[TARGET_HEADERS_MAX];
};

/* NULL: out of memory. */
struct target_transfer *target_transfer_new(struct guard *guard, bool offers_http2,
                                            const char *version, void *owner);
void target_transfer_free(struct target_transfer *transfer);

/* Makes the request of a message: `origin` is "https://host:port". False: `report` says why it
 * cannot be sent. */
bool target_transfer_fill(struct target_transfer *transfer, const struct target_message *message,
                          struct webhook *webhook, struct slice origin, struct slice path,
                          int64_t now_ms);
/* Where its host is, in libcurl's form; `generation` names the line. False: out of memory. */
bool target_transfer_pin(struct target_transfer *transfer, const char *line, uint64_t generation);
/* After its end: what became of it, in `report`. Keeps an answer that was there already. */
void target_transfer_judge(struct target_transfer *transfer, CURLcode code);
/* Did the peer refuse it by HTTP/2 and answer by HTTP/1.1? */
bool target_transfer_wants_http1(const struct target_transfer *transfer);
/* Lines for people about the report, where they are wanted. */
void target_transfer_explain(const struct target_transfer *transfer, int64_t now_ms);
/* It is taken back, from the peer or before it began; `why` for people. */
void target_transfer_give_up(struct target_transfer *transfer, enum target_outcome outcome,
                             bool is_ailing, const char *why);
/* Ready for the next; memory beyond a little is given back. */
void target_transfer_clear(struct target_transfer *transfer);

/* ---- what an answer means; pure ---- */

/* One line of a head, the blank one behind it and lines of trailers too, with or without its end.
 * Only the first line of a head is looked at for a status, and only the head of the final answer
 * for more. False: enough, read no more. */
bool target_answer_add_line(struct target_answer *answer, struct slice line, int64_t wall_ms);
bool target_answer_add_body(struct target_answer *answer, size_t bytes);

/* Of an answer with a status: everything but the tag's. */
void target_answer_judge(const struct target_answer *answer, const struct target_codes *dead_on,
                         size_t dead_on_count, struct target_report *out);

#endif
