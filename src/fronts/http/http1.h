/* http1: HTTP/1.1 and 1.0 on a connection: requests one after the other, answers in their order. */
#ifndef TARRY_HTTP_HTTP1_H
#define TARRY_HTTP_HTTP1_H

#include "http/wire.h"

extern const struct http_wire http1_wire;

#endif
