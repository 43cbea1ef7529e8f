/* Files of time zones: whatever is accepted has spans that follow each other. */
#include "schedule/zone.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct zone zone;
    struct zone_span span;
    int64_t at_s = 0;

    if (!zone_parse(slice_make(bytes, len), &zone))
        return 0;
    for (int i = 0; i < 100 && at_s < INT64_C(13569465600); i++) {
        zone_span_at(&zone, at_s, &span);
        CLAIM("a span contains its time", span.start_s <= at_s && at_s < span.end_s);
        at_s = span.end_s;
    }
    zone_fini(&zone);
    return 0;
}
