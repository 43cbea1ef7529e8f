/*
 * request: one unary call, from its message to the handler of the same call of REST.
 *
 * A call decodes its message, fills in the options, the topic and the id of the call, and leaves the rest to the handler
 * in room `api`: access, quotas, audit, traces and the rules of the queue exist once. The answer is written by the
 * format of the route (answer.h). methods.h has the table.
 */
#ifndef TARRY_GRPC_REQUEST_H
#define TARRY_GRPC_REQUEST_H

#include "grpc/arena.h"
#include "grpc/fields.h"
#include "http/exchange.h"

/* A call while its handler runs. */
struct request {
    struct http_call *call;
    struct arena *arena;
    struct fields fields; /* of call->query */
    struct http_fault *fault;
    int64_t timeout_ms; /* or TIMEOUT_NONE */
    struct buffer text; /* a body of REST, made from the message */
};

/* A method of the service. */
struct method {
    const char *name;    /* in the service */
    const char *rest;    /* name of the route of REST with the same rules */
    const char *pattern; /* that route; NULL: the first one of this name */
    const ProtobufCMessageDescriptor *message;
    const ProtobufCMessageDescriptor *result; /* of a handler that answers in JSON; else NULL */
    enum http_body_kind body;
    bool names_topic; /* call->topic must be within the rights of the caller */
    /* Fills in the call. On false, *fault is set. */
    bool (*read)(struct request *request, const void *message);
    /* Carries out the call in place of the handler of REST. NULL: that handler. */
    void (*act)(struct request *request, const void *message);
    /* Carries out the call from its message as it is on the wire. NULL: the message is decoded. */
    void (*begin)(struct http_call *call, struct slice message);
};

/* A method with the row of REST that it copied: http_route.about. */
struct request_bound {
    const struct method *method;
    void (*handle)(struct http_call *call); /* of REST */
    char pattern[48];
};

/* Returns the method of a call. */
const struct method *request_method(const struct http_exchange *exchange);
/* Returns how long a call waits: for the option `wait`, if it is given, but not beyond its deadline. */
int64_t request_wait_ms(const struct request *request, bool has_wait);
/* Sets the body of the call for its handler. */
void request_body(const struct request *request, struct slice content_type, struct slice body);
/* Sets the text of the request as the body. Returns false with *fault if it could not be written. */
bool request_text_is_body(struct request *request);
/* Decodes a message into the arena. Returns NULL with *fault if it is malformed or too large. */
const void *request_decode(struct arena *arena, const ProtobufCMessageDescriptor *type,
                           struct slice message, struct http_fault *fault);
/* Sets the fault of a message that cannot be read. Returns false. */
bool request_refuse_malformed(const ProtobufCMessageDescriptor *type, struct http_fault *fault);
/* Carries out the call by the handler of REST. */
void request_rest(struct http_call *call);

#endif
