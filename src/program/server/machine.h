/* machine: how much memory there is for this process. */
#ifndef TARRY_SERVER_MACHINE_H
#define TARRY_SERVER_MACHINE_H

#include <stdint.h>

/*
 * The least of: the machine's memory, the limits of the control group the process is in and of
 * those above it (version 2 and 1), and its own limit of address space. `root` stands before the
 * paths of proc and sys: "" but in tests. 0: nothing could be learnt.
 */
uint64_t machine_memory_bytes(const char *root);

#endif
