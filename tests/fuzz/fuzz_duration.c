/* Durations: what can be read is written and read again as the same. */
#include "base/duration.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct slice text = slice_make(bytes, len);
    struct buffer written;
    int64_t ms = -1, again = -1;

    if (!duration_parse(text, INT64_MAX, &ms)) {
        CLAIM("refused: nothing is written", ms == -1);
        return 0;
    }
    CLAIM("no duration is negative", ms >= 0);
    CLAIM("exactly the limit is allowed", duration_parse(text, ms, &again) && again == ms);
    CLAIM("one less is not", !duration_parse(text, ms - 1, &again));

    buffer_init(&written, 64);
    duration_emit(&written, ms);
    CLAIM("a duration takes at most 64 bytes", !written.failed);
    CLAIM("what is written can be read", duration_parse(buffer_slice(&written), ms, &again));
    CLAIM("it is the same", again == ms);
    buffer_fini(&written);
    return 0;
}
