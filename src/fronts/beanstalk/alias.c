#include "beanstalk/alias.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALIASES_MAX = 4096 };
#define ALIAS_FIRST (UINT64_C(1) << 52)

struct beanstalk_alias {
    uint64_t number; /* 0: unused */
    char topic[JOB_TOPIC_BYTES_MAX], id[JOB_ID_BYTES_MAX];
    uint8_t topic_bytes, id_bytes;
};

bool beanstalk_aliases_init(struct beanstalk_front *front)
{
    front->aliases = calloc(ALIASES_MAX, sizeof *front->aliases);
    return front->aliases != NULL;
}

void beanstalk_aliases_fini(struct beanstalk_front *front)
{
    free(front->aliases);
}

/* Returns true for a canonical decimal number below the first alias. */
static bool is_number(struct slice id, uint64_t *number)
{
    return id.len && *id.at != '0' && text_parse_u64(id, ALIAS_FIRST - 1, number);
}

uint64_t beanstalk_number_of(struct beanstalk_front *front, struct slice topic, struct slice id)
{
    uint64_t number;
    if (is_number(id, &number))
        return number;
    for (size_t i = 0; i < ALIASES_MAX; i++) {
        const struct beanstalk_alias *known = &front->aliases[i];
        if (known->number && slice_equals(slice_make(known->id, known->id_bytes), id) &&
            slice_equals(slice_make(known->topic, known->topic_bytes), topic))
            return known->number;
    }
    struct beanstalk_alias *alias = &front->aliases[front->alias_count % ALIASES_MAX];
    alias->number = ALIAS_FIRST + front->alias_count++;
    alias->topic_bytes = (uint8_t)topic.len;
    memcpy(alias->topic, topic.at, topic.len);
    alias->id_bytes = (uint8_t)id.len;
    memcpy(alias->id, id.at, id.len);
    return alias->number;
}

struct slice beanstalk_id_of(const struct beanstalk_front *front, uint64_t number,
                             char room[JOB_ID_BYTES_MAX], struct slice *topic)
{
    *topic = (struct slice){0};
    if (number < ALIAS_FIRST)
        return slice_make(room, (size_t)snprintf(room, JOB_ID_BYTES_MAX, "%" PRIu64, number));
    const struct beanstalk_alias *alias = &front->aliases[(number - ALIAS_FIRST) % ALIASES_MAX];
    if (alias->number != number)
        return (struct slice){0};
    *topic = slice_make(alias->topic, alias->topic_bytes);
    return slice_make(alias->id, alias->id_bytes);
}
