/*
 * config_rows: a set of rows of the table of options, of which there are at most CONFIG_OPTIONS_MAX. Pure.
 *
 * All zero: empty.
 */
#ifndef TARRY_SERVER_CONFIG_ROWS_H
#define TARRY_SERVER_CONFIG_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONFIG_OPTIONS_MAX = 128, CONFIG_ROWS_WORD_BITS = 64 };

struct config_rows {
    uint64_t words[(CONFIG_OPTIONS_MAX + CONFIG_ROWS_WORD_BITS - 1) / CONFIG_ROWS_WORD_BITS];
};

static inline void config_rows_add(struct config_rows *rows, size_t row)
{
    rows->words[row / CONFIG_ROWS_WORD_BITS] |= UINT64_C(1) << row % CONFIG_ROWS_WORD_BITS;
}

static inline bool config_rows_have(const struct config_rows *rows, size_t row)
{
    return rows->words[row / CONFIG_ROWS_WORD_BITS] >> row % CONFIG_ROWS_WORD_BITS & 1;
}

static inline bool config_rows_are_empty(const struct config_rows *rows)
{
    uint64_t all = 0;
    for (size_t i = 0; i < sizeof rows->words / sizeof rows->words[0]; i++)
        all |= rows->words[i];
    return !all;
}

#endif
