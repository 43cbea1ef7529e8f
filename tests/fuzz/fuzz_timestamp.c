/* Timestamps: what can be read is what libc makes of it, and is written and read again as the same.
 */
#include "base/timestamp.h"

#include "claim.h"

#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char written[TIMESTAMP_BYTES], expected[64];
    int64_t ms = -1, again = -1;
    struct tm sections;

    if (!timestamp_parse(slice_make(bytes, len), &ms)) {
        CLAIM("refused: nothing is written", ms == -1);
        return 0;
    }
    CLAIM("years 1970 to 9999", ms >= 0 && ms <= INT64_C(253402300799999));
    timestamp_write(written, ms);
    CLAIM("what is written can be read",
          timestamp_parse(slice_make(written, sizeof written), &again));
    CLAIM("it is the same", again == ms);

    time_t seconds = (time_t)(ms / 1000);
    gmtime_r(&seconds, &sections);
    snprintf(expected, sizeof expected, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
             sections.tm_year + 1900, sections.tm_mon + 1, sections.tm_mday, sections.tm_hour,
             sections.tm_min, sections.tm_sec, (int)(ms % 1000));
    CLAIM("libc writes the same", memcmp(written, expected, sizeof written) == 0);
    return 0;
}
