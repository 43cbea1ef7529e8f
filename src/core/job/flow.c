#include "job/flow.h"

static const char *const names[] = {
    [FLOW_NOT_HELD] = "",
    [FLOW_HELD_LIMIT] = "limit",
    [FLOW_HELD_RATE] = "rate",
    [FLOW_HELD_GROUP_LIMIT] = "group_limit",
    [FLOW_HELD_GROUP_RATE] = "group_rate",
    [FLOW_HELD_GROUP_PAUSED] = "group_paused",
    [FLOW_HELD_GROUP_ORDER] = "group_order",
    [FLOW_HELD_HOLD] = "hold",
};
_Static_assert(sizeof names / sizeof names[0] == FLOW_HELD_REASONS, "every reason has its name");

const char *flow_held_name(enum flow_held held)
{
    return names[held];
}

bool flow_group_is_valid(struct slice group)
{
    if (group.len == 0 || group.len > JOB_GROUP_BYTES_MAX)
        return false;
    for (size_t i = 0; i < group.len; i++)
        if (group.at[i] < 0x21 || group.at[i] > 0x7e)
            return false;
    return true;
}
