/*
 * status: the status of a call in gRPC, from a refusal in the words of REST. Pure.
 *
 * The code of a problem stays the stable identifier. `grpc-status` follows from one table of HTTP statuses,
 * `grpc-message` is the detail, and `grpc-status-details-bin` is a google.rpc.Status with an ErrorInfo, whose reason is
 * the code, and a RetryInfo if REST sends Retry-After.
 */
#ifndef TARRY_GRPC_STATUS_H
#define TARRY_GRPC_STATUS_H

#include "http/problem.h"

enum grpc_status {
    GRPC_OK = 0,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16
};

/* Passes the three fields of a refusal to `add`, which adds a field of the head or a trailer. */
void grpc_status_fields(const struct http_refusal *refusal,
                        void (*add)(void *ctx, const char *name, struct slice value), void *ctx);

/* The parts: */

/* Returns the status for a problem code and its HTTP status. */
enum grpc_status grpc_status_of(const char *code, uint16_t status);

/* Appends a detail for grpc-message: bytes other than printable ASCII, and '%', as %XX. */
void grpc_message_write(struct buffer *out, struct slice detail);

/* Appends the google.rpc.Status of a refusal. */
void grpc_details_write(struct buffer *out, const struct http_refusal *refusal);

#endif
