/* machine: the memory available to this process. */
#ifndef TARRY_SERVER_MACHINE_H
#define TARRY_SERVER_MACHINE_H

#include <stdint.h>

/*
 * Returns the minimum of the machine's memory, the limits of the process's control group and its
 * ancestors (versions 2 and 1), and the process's own address space limit. `root` is prepended to
 * the paths of proc and sys; it is "" except in tests. Returns 0 if the size is unknown.
 */
uint64_t machine_memory_bytes(const char *root);

#endif
