/* What all implementations of queue.h share. */
#include "queue/queue.h"

#include <stdlib.h>

static int compare_names(const void *a, const void *b)
{
    return slice_compare(((const struct queue_topic *)a)->name,
                         ((const struct queue_topic *)b)->name);
}

void queue_topics_sort(struct queue_topic *topics, size_t count)
{
    if (count)
        qsort(topics, count, sizeof *topics, compare_names);
}
