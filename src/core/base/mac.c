#include "base/mac.h"

struct sip {
    uint64_t a, b, c, d;
};

static inline uint64_t rotate_left(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(struct sip *sip)
{
    sip->a += sip->b;
    sip->c += sip->d;
    sip->b = rotate_left(sip->b, 13) ^ sip->a;
    sip->d = rotate_left(sip->d, 16) ^ sip->c;
    sip->a = rotate_left(sip->a, 32) + sip->d;
    sip->c += sip->b;
    sip->d = rotate_left(sip->d, 21) ^ sip->a;
    sip->b = rotate_left(sip->b, 17) ^ sip->c;
    sip->c = rotate_left(sip->c, 32);
}

static inline void sip_absorb(struct sip *sip, uint64_t word)
{
    sip->d ^= word;
    sip_round(sip);
    sip_round(sip);
    sip->a ^= word;
}

uint64_t mac_pair(const struct mac_key *key, uint64_t first, uint64_t second)
{
    struct sip sip = {.a = key->low ^ UINT64_C(0x736f6d6570736575),
                      .b = key->high ^ UINT64_C(0x646f72616e646f6d),
                      .c = key->low ^ UINT64_C(0x6c7967656e657261),
                      .d = key->high ^ UINT64_C(0x7465646279746573)};
    sip_absorb(&sip, first);
    sip_absorb(&sip, second);
    sip_absorb(&sip, UINT64_C(16) << 56); /* the length, as the last word */
    sip.c ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(&sip);
    return sip.a ^ sip.b ^ sip.c ^ sip.d;
}
