/* openapi: the description of the API, embedded by cmake/embed.cmake. */
#ifndef TARRY_API_OPENAPI_H
#define TARRY_API_OPENAPI_H

#include <stddef.h>

extern const char api_openapi_text[];
extern const size_t api_openapi_bytes;

#endif
