/* The null target has no peer. */
#include "rig.h"

static void nothing(void)
{
}

static size_t count(void)
{
    return 0;
}

static const char *to(void)
{
    return "null:";
}

const struct target_rig rig_null = {.name = "null",
                                    .start = nothing,
                                    .stop = nothing,
                                    .count = count,
                                    .to = to,
                                    .setting = "",
                                    .reaches_nobody = true};
