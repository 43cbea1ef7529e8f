/*
 * feature: what this build has, and what it was made without. One table, made by cmake/wings.cmake.
 *
 * A build may be without a wing: then a file of src/ROOM/absent stands where the wing's files
 * would, and refuses by feature_refuse whatever only the wing could do.
 */
#ifndef TARRY_BASE_FEATURE_H
#define TARRY_BASE_FEATURE_H

#include <stdbool.h>
#include <stddef.h>

struct feature {
    const char *name;   /* "kafka" */
    const char *title;  /* for people: "Kafka" */
    const char *option; /* of CMake: "TARRY_WITH_KAFKA" */
    bool is_built;
};

/* All of them, in the order in which they are shown. */
const struct feature *feature_all(size_t *count);

/* Is false; `error` says that this build is without the feature `name`, and what to do. */
bool feature_refuse(const char *name, char *error, size_t error_bytes);

#endif
