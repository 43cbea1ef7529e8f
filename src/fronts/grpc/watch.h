/* watch: events of jobs and topics as a stream of the server (feed/feed.h). */
#ifndef TARRY_GRPC_WATCH_H
#define TARRY_GRPC_WATCH_H

#include "http/exchange.h"

/* Handles tarry.v1.Queue/Watch. */
void watch_begin(struct http_call *call);

#endif
