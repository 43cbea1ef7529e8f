/* frames: a text of frames is read whole and cut anywhere, up to the same place and with the same end. A frame reader returns how it
 * read the frame at the begin of a text: as a frame, more bytes are needed, or broken. */
#ifndef TARRY_TESTS_FRAMES_H
#define TARRY_TESTS_FRAMES_H

#include "base/slice.h"
#include "claim.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct frames {
    int more, broken; /* results of `read` */
    /* Reads and checks a frame. `why`: the reason if it is broken. */
    int (*read)(char *text, size_t len, size_t *used, const char **why);
};

static inline bool lies_in(struct slice section, const char *at, size_t len)
{
    return section.len == 0 || (section.at >= at && section.at + section.len <= at + len);
}

/* Reads all frames of a copy of the text, which a reader may change, with `step` bytes coming at a time. Returns how far it was understood. */
static inline size_t frames_read(const struct frames *frames, const uint8_t *bytes, size_t len,
                                 size_t step, int *last)
{
    char *text = malloc(len + 1);
    size_t at = 0, here = step < len ? step : len;
    if (!text)
        abort();
    if (len)
        memcpy(text, bytes, len);
    for (;;) {
        const char *why = NULL;
        size_t used = 0;
        *last = frames->read(text + at, here - at, &used, &why);
        if (*last == frames->broken) {
            CLAIM("what cannot be read is explained", why && *why);
            break;
        }
        if (*last == frames->more && here == len)
            break;
        if (*last == frames->more) {
            here = here + step < len ? here + step : len;
            continue;
        }
        CLAIM("something was used, no more than there is", used > 0 && used <= here - at);
        at += used;
    }
    free(text);
    return at;
}

static inline void frames_check(const struct frames *frames, const uint8_t *bytes, size_t len)
{
    int whole, cut;
    size_t once = frames_read(frames, bytes, len, len ? len : 1, &whole);
    size_t again = frames_read(frames, bytes, len, len > 4096 ? 4001 : 1, &cut);
    CLAIM("cut anywhere it is understood as far", once == again);
    CLAIM("and ends the same", whole == cut);
}

#endif
