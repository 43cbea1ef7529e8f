#include "cli/local_time.h"

#include "cli/cli.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Returns whether the zone is known. The system uses UTC silently for a name without a file.
 * "EST5EDT" and "<+03>-3" need no file. */
static bool is_known_zone(const char *zone)
{
    const char *folder = getenv("TZDIR"), *name = zone + (*zone == ':');
    char path[512];
    size_t letters = 0;
    while (isalpha((unsigned char)name[letters]))
        letters++;
    bool is_rule = *name == '<' ||
                   (letters >= 3 && name[letters] && strchr("+-0123456789", name[letters]) != NULL);
    if (!*name || is_rule || strcmp(name, "UTC") == 0 || strcmp(name, "GMT") == 0)
        return true;
    snprintf(path, sizeof path, "%s%s%s",
             *name == '/' ? ""
             : folder     ? folder
                          : "/usr/share/zoneinfo",
             *name == '/' ? "" : "/", name);
    return access(path, R_OK) == 0;
}

void local_time_warn(void)
{
    static bool is_done;
    const char *zone = getenv("TZ");
    if (!is_done && zone && !is_known_zone(zone))
        cli_error("unknown time zone '%.100s' in TZ, local times are read as UTC; give a name such "
                  "as Europe/Berlin",
                  zone);
    is_done = true;
}

/* Reads ".123", without trailing zeros if so written, and advances *text past it. */
static int read_fraction(const char **text)
{
    int ms = 0, weight = 100;
    if (**text != '.')
        return 0;
    for (++*text; isdigit((unsigned char)**text) && weight > 0; ++*text, weight /= 10)
        ms += (**text - '0') * weight;
    return ms;
}

/* Reads "+01:00" or "+0100" as seconds and advances *text past it. */
static bool read_offset(const char **text, int *seconds)
{
    int hours, minutes, used = 0;
    if (**text != '+' && **text != '-')
        return false;
    if (sscanf(*text + 1, "%2d:%2d%n", &hours, &minutes, &used) != 2 || used == 0)
        if (sscanf(*text + 1, "%2d%2d%n", &hours, &minutes, &used) != 2 || used != 4)
            return false;
    *seconds = (**text == '-' ? -60 : 60) * (hours * 60 + minutes);
    *text += 1 + used;
    return true;
}

/* Returns whether local time shows `fields` at `at`. */
static bool is_shown_at(time_t at, const struct tm *fields)
{
    struct tm local;
    localtime_r(&at, &local);
    return local.tm_year == fields->tm_year && local.tm_mon == fields->tm_mon &&
           local.tm_mday == fields->tm_mday && local.tm_hour == fields->tm_hour &&
           local.tm_min == fields->tm_min && local.tm_sec == fields->tm_sec;
}

/* Finds the times at which local clocks show `fields`: zero if clocks are put forward over it,
 * two if they are put back. The offsets of the day before and the day after are the only
 * candidates. */
static int find_moments(const struct tm *fields, time_t moments[2])
{
    enum { DAY_S = 24 * 3600 };
    struct tm utc = *fields, local;
    int count = 0;
    time_t plain = timegm(&utc);
    for (int side = -1; side <= 1; side += 2) {
        time_t near = plain + side * DAY_S;
        localtime_r(&near, &local);
        time_t at = plain - local.tm_gmtoff;
        if (is_shown_at(at, fields) && (count == 0 || moments[0] != at))
            moments[count++] = at;
    }
    return count;
}

static void write_moment(time_t seconds, int ms, char out[TIMESTAMP_BYTES + 1])
{
    timestamp_write(out, (int64_t)seconds * 1000 + ms);
    out[TIMESTAMP_BYTES] = '\0';
}

bool local_time_read(const char *name, const char *value, char out[TIMESTAMP_BYTES + 1])
{
    char first[TIMESTAMP_BYTES + 1], second[TIMESTAMP_BYTES + 1];
    struct tm fields = {0};
    time_t moments[2] = {0};
    const char *rest = strptime(value, "%Y-%m-%d %H:%M", &fields);
    const char *seconds = rest ? strptime(rest, ":%S", &fields) : NULL;
    int count = 1, offset = 0, ms = 0;
    rest = seconds ? seconds : rest;
    if (rest)
        ms = read_fraction(&rest);
    bool has_offset = rest && read_offset(&rest, &offset);
    snprintf(out, TIMESTAMP_BYTES + 1, "%s", "");
    if (!rest || (*rest && strncmp(rest, " (", 2) != 0))
        return true; /* left to the server */
    if (has_offset)
        moments[0] = timegm(&fields) - offset;
    else
        count = find_moments(&fields, moments);
    write_moment(moments[0], ms, first);
    write_moment(moments[1], ms, second);
    if (count == 1 && moments[0] >= 0)
        memcpy(out, first, sizeof first);
    else if (count == 0)
        (void)cli_usage("bad value '%s' for '--%s', this local time does not exist: the clocks "
                        "skip it, or the month is shorter; give another one, or an offset as "
                        "in '2026-11-20 09:00+01:00'",
                        value, name);
    else if (count == 2)
        (void)cli_usage("bad value '%s' for '--%s', this local time occurs twice when the clocks "
                        "are set back: give %s or %s",
                        value, name, first, second);
    return count == 1;
}
