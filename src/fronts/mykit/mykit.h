/*
 * mykit: the calls of mykit-delay, for its clients: push, delete, finish, reStoreJob, reStore, clearAll
 * and get/topic, on a listener of their own. Each answer is 200 with an object that says whether it
 * went well, as theirs are. Ids are looked for over all topics, since their calls name none.
 *
 * One thread: the front's reactor.
 */
#ifndef TARRY_MYKIT_MYKIT_H
#define TARRY_MYKIT_MYKIT_H

#include <stdbool.h>
#include <stdint.h>

struct http_shared;

struct mykit_options {
    uint8_t protocol; /* of the listeners where the calls are made (net/listener.h) */
    bool clears;      /* clearAll may drop all jobs */
};

/* Before the reactors run; `options` outlives the fronts. */
void mykit_add(struct http_shared *shared, const struct mykit_options *options);

#endif
