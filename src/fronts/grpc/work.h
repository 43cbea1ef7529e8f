/*
 * work: the call Work, a stream in both directions on which jobs flow as far as the client grants credit, and answers
 * return.
 *
 *   credit    the client grants a number of jobs. With credit left, the stream is a waiting take: streams and takes are
 *             served first come, first served
 *   leases    end by time, whether the stream is open or not. ExtendAll renews all of the stream
 *   answers   those that arrive together are one call of the queue, and Answered follows when it has replied
 *   end       a client that half-closes receives the outstanding results, then OK. When the stream breaks, jobs that were
 *             not written return without counting an attempt; what happens to the others is the client's on_close
 *
 * A stream outlives its call while calls of the queue are in progress. Runs on the reactor thread.
 */
#ifndef TARRY_GRPC_WORK_H
#define TARRY_GRPC_WORK_H

#include <stdbool.h>

struct http_call;
struct http_front;

/* Handles the call: http_route.handle, with takes_frames. */
void work_begin(struct http_call *call);

/* The streams of a front: http_part.open and close. */
bool work_open_front(struct http_front *front);
void work_close_front(struct http_front *front);

#endif
