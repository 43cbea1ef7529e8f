#include "store/alive.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

static size_t word_count(uint32_t slots)
{
    return alive_bytes(slots) / 8;
}

/* Returns the bits of the last word that represent slots. */
static uint64_t last_mask(uint32_t slots)
{
    return slots % 64 ? (UINT64_C(1) << slots % 64) - 1 : UINT64_MAX;
}

static uint64_t word_at(const struct alive *alive, size_t index)
{
    return atomic_load_explicit(&alive->words[index], memory_order_relaxed);
}

static void set_word(struct alive *alive, size_t index, uint64_t word)
{
    atomic_store_explicit(&alive->words[index], word, memory_order_relaxed);
}

/* Allocates the words: at least one, so that the result is NULL only if out of memory. */
static bool take_words(struct alive *alive, uint32_t slots)
{
    size_t count = word_count(slots);

    *alive = (struct alive){.words = calloc(count ? count : 1, sizeof *alive->words)};
    if (!alive->words)
        return false;
    alive->slots = slots;
    return true;
}

bool alive_init(struct alive *alive, uint32_t slots)
{
    size_t count = word_count(slots);

    if (!take_words(alive, slots))
        return false;
    for (size_t i = 0; i < count; i++)
        set_word(alive, i, i + 1 < count ? UINT64_MAX : last_mask(slots));
    alive->count = slots;
    return true;
}

void alive_fini(struct alive *alive)
{
    free((void *)alive->words);
    *alive = (struct alive){0};
}

bool alive_test(const struct alive *alive, uint32_t slot)
{
    assert(slot < alive->slots);
    return word_at(alive, slot / 64) >> slot % 64 & 1;
}

bool alive_clear(struct alive *alive, uint32_t slot)
{
    uint64_t bit = UINT64_C(1) << slot % 64, word;

    assert(slot < alive->slots);
    word = word_at(alive, slot / 64);
    if (!(word & bit))
        return false;
    set_word(alive, slot / 64, word & ~bit); /* only the owner writes */
    assert(alive->count > 0);
    alive->count--;
    return true;
}

uint32_t alive_next(const struct alive *alive, uint32_t slot, uint32_t end)
{
    uint64_t word;

    assert(end <= alive->slots);
    if (slot >= end)
        return end;
    word = word_at(alive, slot / 64) & (UINT64_MAX << slot % 64);
    for (size_t i = slot / 64;;) {
        if (word) {
            uint32_t found = (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(word);
            return found < end ? found : end;
        }
        if (++i * 64 >= end)
            return end;
        word = word_at(alive, i);
    }
}

void alive_save(const struct alive *alive, char *into)
{
    for (size_t i = 0; i < word_count(alive->slots); i++) {
        uint64_t word = htole64(word_at(alive, i));

        memcpy(into + i * sizeof word, &word, sizeof word);
    }
}

bool alive_load(struct alive *alive, uint32_t slots, const char *bytes)
{
    size_t count = word_count(slots);
    uint64_t word = 0;

    if (!take_words(alive, slots))
        return false;
    for (size_t i = 0; i < count; i++) {
        memcpy(&word, bytes + i * sizeof word, sizeof word);
        word = le64toh(word);
        set_word(alive, i, word);
        alive->count += (uint32_t)__builtin_popcountll(word);
    }
    if (!(word & ~last_mask(slots)))
        return true;
    alive_fini(alive);
    return false;
}
