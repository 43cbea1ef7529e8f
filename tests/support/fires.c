/* fires: prints the fires of schedules, for tests that compare them with other programs.
 *
 *   fires DIRECTORY <<< "ZONE|EXPRESSION|AFTER|COUNT[|GAP|FOLD]"
 *
 * One line of output for each line of input: seconds since 1970 separated by blanks, or `error:` and
 * a text. An EXPRESSION of `offset` prints the offset of the zone at AFTER instead. */
#include "base/text.h"
#include "schedule/timetable.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PARTS = 6 };

static bool zone_load(const char *directory, struct slice name, struct zone *out)
{
    static char bytes[ZONE_FILE_BYTES_MAX];
    char path[512];
    if (!zone_name_is_valid(name))
        return false;
    (void)snprintf(path, sizeof path, "%s/%.*s", directory, (int)name.len, name.at);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t len = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    return zone_parse(slice_make(bytes, len), out);
}

static void print_fires(struct slice *parts, const struct zone *zone)
{
    struct timetable table = {.cron_count = 1, .gap = GAP_AFTER, .fold = FOLD_FIRST};
    struct timetable_fire fire;
    char error[300];
    uint64_t after = 0, count = 0;
    (void)text_parse_u64(parts[2], INT64_MAX / 1000, &after);
    (void)text_parse_u64(parts[3], 1000000, &count);
    if (slice_is(parts[1], "offset")) {
        struct zone_span span;
        zone_span_at(zone, (int64_t)after, &span);
        printf("%d\n", (int)span.offset_s);
        return;
    }
    if (!cron_parse(parts[1], slice_of("fires"), &table.crons[0], error, sizeof error)) {
        printf("error: %s\n", error);
        return;
    }
    if (slice_is(parts[4], "skip"))
        table.gap = GAP_SKIP;
    if (slice_is(parts[5], "last"))
        table.fold = FOLD_LAST;
    if (slice_is(parts[5], "both"))
        table.fold = FOLD_BOTH;
    int64_t after_ms = (int64_t)after * 1000;
    while (count-- && timetable_next(&table, zone, after_ms, &fire) == TIMETABLE_FIRE) {
        printf("%" PRId64 " ", fire.at_ms / 1000);
        after_ms = fire.at_ms;
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    char line[1024], name[256] = "";
    struct zone zone = {0};
    bool has_zone = false;
    while (argc > 1 && fgets(line, sizeof line, stdin)) {
        struct slice parts[PARTS] = {0};
        char *at = line;
        line[strcspn(line, "\n")] = 0;
        for (int i = 0; i < PARTS && at; i++) {
            char *bar = strchr(at, '|');
            parts[i] = slice_make(at, bar ? (size_t)(bar - at) : strlen(at));
            at = bar ? bar + 1 : NULL;
        }
        if (!slice_is(parts[0], name)) {
            zone_fini(&zone);
            has_zone = zone_load(argv[1], parts[0], &zone);
            (void)slice_copy(parts[0], name, sizeof name);
        }
        if (has_zone)
            print_fires(parts, &zone);
        else
            printf("error: no zone\n");
    }
    zone_fini(&zone);
    return 0;
}
