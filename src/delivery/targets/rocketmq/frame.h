/*
 * rocketmq_frame: the remoting protocol of RocketMQ 4 and 5 in its JSON form: writes requests,
 * reads answers, and parses the route of a topic from a name server. Pure.
 *
 *   length (4 bytes, of everything after it), header length (3 bytes after a 0 for JSON), header,
 *   body
 */
#ifndef TARRY_TARGETS_ROCKETMQ_FRAME_H
#define TARRY_TARGETS_ROCKETMQ_FRAME_H

#include "base/buffer.h"

enum {
    ROCKETMQ_HEADER_BYTES_MAX = 64 * 1024, /* for an answer */
    ROCKETMQ_BODY_BYTES_MAX = 4 * 1024 * 1024,
    ROCKETMQ_ADDRESS_BYTES = 272, /* "host:port" including the NUL */
    ROCKETMQ_NAME_BYTES = 256,    /* of a broker, including the NUL */
    ROCKETMQ_BROKERS_MAX = 64     /* for one topic */
};

enum rocketmq_code { /* codes of requests, then of answers */
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

/* The keys for signing. Both empty: unsigned. */
struct rocketmq_login {
    const char *access_key, *secret_key;
};

/* Appends a request as a frame; the fields have to be sorted by name. The signature (HMAC-SHA1) is
 * valid for both generations of access control lists. Out of memory sets the failure flag of
 * `out`. */
void rocketmq_emit_request(struct buffer *out, enum rocketmq_code code, uint32_t opaque,
                           const struct rocketmq_field *fields, size_t count, struct slice body,
                           const struct rocketmq_login *login);

struct rocketmq_answer {
    bool is_answer; /* if false, it is a request of the peer, which is not expected */
    uint32_t opaque;
    int code;
    struct slice remark; /* a JSON string with its quotes, or empty */
    struct slice body;
};

enum rocketmq_read { ROCKETMQ_FRAME = 1, ROCKETMQ_MORE, ROCKETMQ_BROKEN };

/* Parses the frame at the beginning of the bytes into *answer, which contains slices of them; *used
 * is its length. BROKEN: *why is the reason. */
enum rocketmq_read rocketmq_frame_read(const char *at, size_t len, struct rocketmq_answer *answer,
                                       size_t *used, const char **why);

/* Writes the first line of a remark, printable and without the name of the Java exception. */
void rocketmq_emit_remark(struct slice remark, char *out, size_t bytes);

struct rocketmq_master { /* the master of a broker group, and its number of queues */
    char name[ROCKETMQ_NAME_BYTES], address[ROCKETMQ_ADDRESS_BYTES];
    uint32_t queues;
};

/* Parses a route into its masters with writable queues, at most ROCKETMQ_BROKERS_MAX. Returns false
 * if it is not a route; true without masters means that no broker accepts messages now. Name
 * servers before 4.9.4 omit the quotes of numeric keys; this form is also accepted. */
bool rocketmq_route_parse(struct slice json, struct rocketmq_master out[ROCKETMQ_BROKERS_MAX],
                          size_t *count);

#endif
