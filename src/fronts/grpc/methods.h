/* methods: the methods of the service, one row each. Each table ends with a row without a name. */
#ifndef TARRY_GRPC_METHODS_H
#define TARRY_GRPC_METHODS_H

#include "grpc/request.h"

extern const struct method grpc_methods[];
extern const struct method grpc_push_methods[];
extern const struct method grpc_batch_methods[];
extern const struct method grpc_schedule_methods[];

#endif
