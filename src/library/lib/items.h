/*
 * items: a call about several items of a queue in a directory, from request to reply. Used only in
 * this room.
 *
 * Items that are visibly invalid are rejected first. The others form one command, whose results are
 * written to their places in `out` on the reactor's thread. The memory pointed at belongs to the
 * caller until then.
 */
#ifndef TARRY_LIB_ITEMS_H
#define TARRY_LIB_ITEMS_H

#include "lib/directory.h"

struct lib_items {
    struct directory_call call;
    struct tarry_result *out; /* NULL: results are not requested */
    size_t out_stride;
    uint64_t body_bytes_max;
    size_t sent; /* items in the command; 0: nothing to send */
    size_t first_at;
    int first;                   /* code of the first rejected item; 0 if all are valid */
    void *commands;              /* queue_push, queue_change or queue_answer */
    uint16_t *at;                /* index of each command's item */
    struct queue_again *again;   /* only for TARRY_CALL_AGAIN */
    struct queue_batch *batches; /* only for TARRY_CALL_PUSH */
    void *block;                 /* malloc'd */
    struct command *copy;
    uint16_t only_at;
    union {
        struct queue_push push;
        struct queue_change change;
        struct queue_answer answer;
    } only;
    struct queue_again only_again;
    struct queue_batch only_batch;
};

/* Prepares the command. Returns TARRY_OK if it is ready to send (unless `sent` is 0), else a
 * code, and then no item was examined. The caller frees `items` in either case. */
int lib_items_read(struct lib_items *items, const struct tarry *queue, enum tarry_call_kind kind,
                   const void *from, size_t n, struct tarry_result *out);
/* Copies everything that it points at, except `out`, so that it outlives the caller's memory.
 * Returns false if out of memory. */
bool lib_items_keep(struct lib_items *items);
void lib_items_free(struct lib_items *items);

#endif
