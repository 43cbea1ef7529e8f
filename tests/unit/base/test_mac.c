/* SipHash-2-4 against vectors that OpenSSL also gives: openssl mac -macopt hexkey:… -macopt size:8 SIPHASH. */
#include "base/mac.h"

#include "unit/cases.h"
#include "unit/claim.h"

CLAIM(it_is_siphash_of_sixteen_bytes)
{
    static const struct {
        struct mac_key key;
        uint64_t first, second, mac;
    } rows[] = {
        {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)},
         UINT64_C(0x0706050403020100),
         UINT64_C(0x0f0e0d0c0b0a0908),
         UINT64_C(0x3f2acc7f57c29bdb)},
        {{UINT64_C(0x60a09a34d26f84f9), UINT64_C(0xbb4d78e9aba6284f)},
         UINT64_C(0xce68d0b9b42bd6a8),
         UINT64_C(0x94170be2c1b02fcf),
         UINT64_C(0xacf1dac965d74e20)},
        {{UINT64_C(0x90b01345fec7979d), UINT64_C(0x7c56b84c597ee9fc)},
         UINT64_C(0x820caf03369fc386),
         UINT64_C(0x1a00e681b37f2e6e),
         UINT64_C(0x158920f669add79d)},
        {{UINT64_C(0x58dd6e8bdd77689d), UINT64_C(0xea80da33aead7b4d)},
         UINT64_C(0x7aff5bf8f28a28ee),
         UINT64_C(0xaa191e57f3c955df),
         UINT64_C(0x0c2f8463c6aae4b3)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(mac_pair(&rows[i].key, rows[i].first, rows[i].second), rows[i].mac);
}

CLAIM(each_bit_of_key_and_words_counts)
{
    const struct mac_key key = {1, 2};
    uint64_t plain = mac_pair(&key, 3, 4);
    for (int bit = 0; bit < 64; bit++) {
        uint64_t mask = UINT64_C(1) << bit;
        assert_int_not_equal(mac_pair(&(struct mac_key){1 ^ mask, 2}, 3, 4), plain);
        assert_int_not_equal(mac_pair(&(struct mac_key){1, 2 ^ mask}, 3, 4), plain);
        assert_int_not_equal(mac_pair(&key, 3 ^ mask, 4), plain);
        assert_int_not_equal(mac_pair(&key, 3, 4 ^ mask), plain);
    }
}

CLAIMS_MAIN(NULL, NULL)
