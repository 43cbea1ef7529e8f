/*
 * items: a call of items of a queue in a directory, on its way there and back. This room only.
 *
 * Items that can be seen to be wrong are refused before; the others are one command, whose results are written to
 * their places in `out` on the reactor's thread. What is pointed at stays the caller's until then.
 */
#ifndef TARRY_LIB_ITEMS_H
#define TARRY_LIB_ITEMS_H

#include "lib/directory.h"

struct lib_items {
    struct directory_call call;
    struct tarry_result *out; /* NULL: nobody wants to know */
    size_t out_stride;
    uint64_t body_bytes_max;
    size_t sent; /* of the command; 0: there is nothing to send */
    size_t first_at;
    int first;                /* code of the first item that was refused; 0: none */
    void *commands;           /* queue_push, queue_change or queue_answer */
    uint16_t *at;             /* the item of each */
    struct queue_push *again; /* of the answers, where that is what they are */
    void *block;              /* malloc'd */
    struct command *copy;
    uint16_t only_at;
    union {
        struct queue_push push;
        struct queue_change change;
        struct queue_answer answer;
    } only;
    struct queue_push only_again;
};

/* TARRY_OK: to be sent, where `sent` is not 0. Else nothing was looked at. To be freed in either case. */
int lib_items_read(struct lib_items *items, const struct tarry *queue, enum tarry_call_kind kind,
                   const void *from, size_t n, struct tarry_result *out);
/* Makes it outlive what it points at, but for `out`. False: out of memory. */
bool lib_items_keep(struct lib_items *items);
void lib_items_free(struct lib_items *items);

#endif
