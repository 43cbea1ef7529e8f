/* Cron expressions: whatever is accepted fires, in order, and matches each time that it fires. */
#include "schedule/timetable.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct timetable table = {.cron_count = 1, .gap = GAP_AFTER, .fold = FOLD_FIRST};
    struct timetable_fire fire;
    char error[300] = "";
    int64_t after_ms = -1;

    if (!cron_parse(slice_make(bytes, len), slice_of("fuzz"), &table.crons[0], error,
                    sizeof error)) {
        CLAIM("a refusal has a reason", error[0] != 0);
        return 0;
    }
    CLAIM("a long text is refused", len <= CRON_TEXT_BYTES_MAX + 64 || bytes[0] == ' ' ||
                                        bytes[0] == '\t' || bytes[len - 1] == ' ' ||
                                        bytes[len - 1] == '\t');
    for (int i = 0; i < 20; i++) {
        enum timetable_found found = timetable_next(&table, NULL, after_ms, &fire);
        CLAIM("it fires at least once", found == TIMETABLE_FIRE || i > 0);
        if (found != TIMETABLE_FIRE)
            break;
        CLAIM("fires are in order", fire.at_ms >= after_ms && (i == 0 || fire.at_ms > after_ms));
        CLAIM("a fire matches", cron_covers(&table.crons[0], fire.at_ms / 1000));
        after_ms = fire.at_ms;
    }
    return 0;
}
