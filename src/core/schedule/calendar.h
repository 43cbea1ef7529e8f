/* calendar: days since 1970-01-01 and the dates of the Gregorian calendar. Pure. */
#ifndef TARRY_SCHEDULE_CALENDAR_H
#define TARRY_SCHEDULE_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>

enum { CALENDAR_DAY_S = 86400 };

struct calendar_date {
    int32_t year;
    int32_t month; /* 1..12 */
    int32_t day;   /* 1..31 */
};

static inline bool calendar_is_leap(int32_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static inline int32_t calendar_month_days(int32_t year, int32_t month)
{
    static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && calendar_is_leap(year));
}

/* Returns the days from 1970-01-01 to a date of the years 1600 to 9999. */
static inline int64_t calendar_days(int32_t year, int32_t month, int32_t day)
{
    static const int16_t before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int64_t y = year - 1; /* whole years before it */
    int64_t leaps = y / 4 - y / 100 + y / 400;
    bool leaped = month > 2 && calendar_is_leap(year);
    return y * 365 + leaps - 719162 + before[month - 1] + leaped + day - 1;
}

/* Returns the date of a day of the same years. */
static inline struct calendar_date calendar_date(int64_t days)
{
    struct calendar_date date;
    int32_t year = (int32_t)(1970 + days * 400 / 146097);
    while (calendar_days(year, 1, 1) > days)
        year--;
    while (calendar_days(year + 1, 1, 1) <= days)
        year++;
    int32_t left = (int32_t)(days - calendar_days(year, 1, 1));
    date.year = year;
    date.month = 1;
    while (left >= calendar_month_days(year, date.month))
        left -= calendar_month_days(year, date.month++);
    date.day = left + 1;
    return date;
}

/* Returns the weekday of a day, 0 for Sunday. */
static inline int32_t calendar_weekday(int64_t days)
{
    int64_t weekday = (days + 4) % 7;
    return (int32_t)(weekday < 0 ? weekday + 7 : weekday);
}

/* Returns the day of a time in seconds, rounded down. */
static inline int64_t calendar_day_of(int64_t seconds)
{
    return seconds >= 0 ? seconds / CALENDAR_DAY_S
                        : -((-seconds + CALENDAR_DAY_S - 1) / CALENDAR_DAY_S);
}

#endif
