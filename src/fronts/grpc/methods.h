/* methods: the methods of the service, one row each. */
#ifndef TARRY_GRPC_METHODS_H
#define TARRY_GRPC_METHODS_H

#include "grpc/request.h"

extern const struct method grpc_methods[]; /* ends with a row without a name */

#endif
