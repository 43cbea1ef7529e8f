/*
 * batch_push: a call that pushes many jobs, whatever the form of its body and its answer.
 *
 * A body may have 16 MiB, which would occupy the loop for tens of milliseconds. So the call is a task in pieces: the
 * body is checked, and then the queue gets PIECE_BYTES of it at a time. Later requests of an HTTP/1.1 connection wait
 * until the queue has all of it. Pieces are on their way at the same time, so two pushes of one id in different pieces
 * could overtake each other, and a member its waiting job: a piece with such an id waits until the pieces before it are
 * answered.
 */
#ifndef TARRY_API_BATCH_PUSH_H
#define TARRY_API_BATCH_PUSH_H

#include "api/batch.h"
#include "http/exchange.h"

/* A form of bodies and answers. */
struct api_batch_form {
    /* As api_batch_check, api_batch_make_room and api_batch_read. */
    enum api_batch_step (*check)(struct api_batch_reader *reader, struct http_fault *fault);
    bool (*make_room)(struct api_batch *batch, size_t bytes);
    bool (*read)(struct api_batch_reader *reader, struct api_batch *batch);
    void (*free_room)(struct api_batch *batch); /* NULL: nothing is to be freed */

    /* An answer: its begin, the item of each push with these texts around, its end. */
    struct buffer *(*begin)(struct http_exchange *exchange);
    void (*add_result)(struct http_exchange *exchange, struct buffer *out,
                       const struct queue_result *result);
    void (*add_fault)(struct buffer *out, const struct http_fault *fault);
    const char *between, *behind;
    void (*end)(struct http_exchange *exchange);
};

/* Carries out the call, whose body is in `reader`. Answers before or after it returns. */
void api_batch_push(struct http_call *call, const struct api_batch_form *form,
                    const struct api_batch_reader *reader);

#endif
