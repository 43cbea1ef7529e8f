/*
 * mykit: the HTTP calls of mykit-delay (push, delete, finish, reStoreJob, reStore, clearAll and
 * get/topic) for its existing clients, on a separate listener. As in the original, each response is
 * 200 with an object that reports success or failure. The calls carry an id without a topic, so ids
 * are looked up in all topics.
 *
 * Runs on the reactor thread of the front.
 */
#ifndef TARRY_MYKIT_MYKIT_H
#define TARRY_MYKIT_MYKIT_H

#include <stdbool.h>
#include <stdint.h>

struct http_shared;

struct mykit_options {
    uint8_t protocol; /* protocol of the listeners that serve the calls (net/listener.h) */
    bool clears;      /* whether clearAll may delete all jobs */
};

/* Registers the calls. Call it before the reactors run; `options` must outlive the fronts. */
void mykit_add(struct http_shared *shared, const struct mykit_options *options);

#endif
