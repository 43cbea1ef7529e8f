/*
 * rocketmq_frame: the remoting protocol of RocketMQ 4 and 5 in its JSON form: requests to write,
 * answers to read, and the route of a topic, which a name server answers. Pure.
 *
 *   length (4 bytes, of all that follows), header's length (3 bytes behind a 0 for JSON), header, body
 */
#ifndef TARRY_TARGETS_ROCKETMQ_FRAME_H
#define TARRY_TARGETS_ROCKETMQ_FRAME_H

#include "base/buffer.h"

enum {
    ROCKETMQ_HEADER_BYTES_MAX = 64 * 1024, /* of an answer */
    ROCKETMQ_BODY_BYTES_MAX = 4 * 1024 * 1024,
    ROCKETMQ_ADDRESS_BYTES = 272, /* "host:port" with its NUL */
    ROCKETMQ_NAME_BYTES = 256,    /* of a broker, with its NUL */
    ROCKETMQ_BROKERS_MAX = 64     /* of one topic */
};

enum rocketmq_code { /* of requests, then of answers */
                     ROCKETMQ_ROUTE = 105,
                     ROCKETMQ_SEND = 310,

                     ROCKETMQ_SUCCESS = 0,
                     ROCKETMQ_SYSTEM_ERROR = 1,
                     ROCKETMQ_SYSTEM_BUSY = 2,
                     ROCKETMQ_DISK_TIMEOUT = 10,
                     ROCKETMQ_NO_REPLICA = 11,
                     ROCKETMQ_REPLICA_TIMEOUT = 12,
                     ROCKETMQ_ILLEGAL = 13,
                     ROCKETMQ_NOT_AVAILABLE = 14,
                     ROCKETMQ_NO_PERMISSION = 16,
                     ROCKETMQ_NO_TOPIC = 17
};

struct rocketmq_field {
    const char *name;
    struct slice value; /* UTF-8 */
};

/* Who signs: both empty: nobody does. */
struct rocketmq_login {
    const char *access_key, *secret_key;
};

/* One request as a frame; the fields come in the order of their names. The signature (HMAC-SHA1) is
 * that of both generations of access lists. Out of memory shows in `out`. */
void rocketmq_emit_request(struct buffer *out, enum rocketmq_code code, uint32_t opaque,
                           const struct rocketmq_field *fields, size_t count, struct slice body,
                           const struct rocketmq_login *login);

struct rocketmq_answer {
    bool is_answer; /* else a request of the peer's, which nobody here has asked for */
    uint32_t opaque;
    int code;
    struct slice remark; /* a JSON string with its quotes, or empty */
    struct slice body;
};

enum rocketmq_read { ROCKETMQ_FRAME = 1, ROCKETMQ_MORE, ROCKETMQ_BROKEN };

/* What the bytes begin with: *answer, which holds slices of them, and how many bytes it took. BROKEN:
 * *why says how. */
enum rocketmq_read rocketmq_frame_read(const char *at, size_t len, struct rocketmq_answer *answer,
                                       size_t *used, const char **why);

/* A remark, printable and without the Java exception's name before it and what follows its first
 * line. */
void rocketmq_emit_remark(struct slice remark, char *out, size_t bytes);

struct rocketmq_master { /* who takes messages, in how many queues */
    char name[ROCKETMQ_NAME_BYTES], address[ROCKETMQ_ADDRESS_BYTES];
    uint32_t queues;
};

/* The masters with queues that may be written, at most ROCKETMQ_BROKERS_MAX. False: it is no route;
 * true with none: nobody takes messages now. Name servers before 4.9.4 leave the quotes of numbers
 * that are keys out; they are read as well. */
bool rocketmq_route_parse(struct slice json, struct rocketmq_master out[ROCKETMQ_BROKERS_MAX],
                          size_t *count);

#endif
