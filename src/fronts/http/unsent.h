/*
 * unsent: leases in answers that are not written yet.
 *
 * Whatever ends a connection, jobs whose answer was not sent return to the queue without counting
 * an attempt, since no client has seen them. Their leases are recorded with the connection, or with
 * the exchange until its turn to be sent, together with the offset in the stream at which the
 * answer ends.
 */
#ifndef TARRY_HTTP_UNSENT_H
#define TARRY_HTTP_UNSENT_H

#include "http/exchange.h"

/* Records the leases right before the answer ends. Returns false if out of memory. */
bool http_lease_note(struct http_exchange *exchange, const struct queue_job *jobs, size_t count);
/* Records that the stream was written up to `written`: leases before that belong to the client. If
 * no more will be written (`is_over`), returns the jobs of the other leases. */
void http_lease_settle(struct http_connection *connection, uint64_t written, bool is_over);
/* Returns the jobs of these leases to the queue. */
void http_lease_return(struct http_front *front, const struct slice *leases, size_t count);
/* Moves the leases of an answer to the connection. The answer is in its `out` and ends at offset
 * `end` of its stream. */
void http_lease_hand_over(struct http_exchange *exchange, uint64_t end);
/* Sets the end of the only record of `leases`: a number of bytes of the body of its answer. */
void http_lease_set_end(struct buffer *leases, uint64_t end);
/* Records leases in `leases`, for bytes of an open answer that end at `end`. Returns false if out of
 * memory. */
bool http_lease_note_frames(struct http_front *front, struct buffer *leases,
                            const struct queue_job *jobs, size_t count, uint64_t end);
/* Moves to the connection the records of an HTTP/2 stream whose `framed` bytes of DATA are in its
 * output up to offset `end`. */
void http_lease_frame(struct http_connection *connection, struct buffer *leases, uint64_t framed,
                      uint64_t end);
/* Returns the jobs of all records, and frees them. */
void http_lease_return_all(struct http_front *front, struct buffer *leases);
/* Returns the jobs of an answer that waited to be sent. */
void http_lease_return_noted(struct http_exchange *exchange);

#endif
