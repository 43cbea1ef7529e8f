#include "net/activity.h"

_Thread_local struct activity activity_of_thread;

const char *activity_end_iteration(void)
{
    struct activity *activity = &activity_of_thread;
    const char *longest = "unknown";
    if (activity->name) {
        activity_begin(activity->name);
        longest = 2 * activity->longest_ticks < activity->since - activity->began
                      ? ACTIVITY_SEVERAL
                      : activity->longest;
    }
    *activity = (struct activity){0};
    return longest;
}
