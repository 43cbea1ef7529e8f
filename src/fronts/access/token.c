#include "access/token.h"

#include "base/random.h"

#include <openssl/sha.h>
#include <stdint.h>

enum { DIGITS = 62 };
static const char digits[DIGITS + 1] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

_Static_assert(sizeof TOKEN_PREFIX - 1 + TOKEN_RANDOM_BYTES + TOKEN_CHECK_BYTES == TOKEN_BYTES,
               "a token's parts");

/* Computes the CRC-32 of zip and PNG (polynomial 0xedb88320). */
static uint32_t crc_32(const char *bytes, size_t len)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

/* Writes the check digits of the random part: its CRC as a base 62 number, most significant digit
 * first. */
static void emit_check(const char drawn[TOKEN_RANDOM_BYTES], char out[TOKEN_CHECK_BYTES])
{
    uint32_t crc = crc_32(drawn, TOKEN_RANDOM_BYTES);
    for (size_t i = TOKEN_CHECK_BYTES; i-- > 0; crc /= DIGITS)
        out[i] = digits[crc % DIGITS];
}

/* Draws a random digit. Bytes up to 247 give each digit equal probability; others are drawn
 * again. */
static char draw_digit(void)
{
    unsigned char byte;
    do
        random_bytes(&byte, 1);
    while (byte >= 4 * DIGITS);
    return digits[byte % DIGITS];
}

void token_make(char out[TOKEN_BYTES + 1])
{
    char *drawn = out + sizeof TOKEN_PREFIX - 1;
    memcpy(out, TOKEN_PREFIX, sizeof TOKEN_PREFIX - 1);
    for (size_t i = 0; i < TOKEN_RANDOM_BYTES; i++)
        drawn[i] = draw_digit();
    emit_check(drawn, drawn + TOKEN_RANDOM_BYTES);
    out[TOKEN_BYTES] = '\0';
}

bool token_is_formed(struct slice text)
{
    const char *drawn = text.at + sizeof TOKEN_PREFIX - 1;
    char check[TOKEN_CHECK_BYTES];
    if (text.len != TOKEN_BYTES || memcmp(text.at, TOKEN_PREFIX, sizeof TOKEN_PREFIX - 1) != 0)
        return false;
    for (size_t i = 0; i < TOKEN_RANDOM_BYTES; i++)
        if (!memchr(digits, drawn[i], DIGITS))
            return false;
    emit_check(drawn, check);
    return memcmp(check, drawn + TOKEN_RANDOM_BYTES, sizeof check) == 0;
}

void token_hash(struct slice token, unsigned char out[TOKEN_HASH_BYTES])
{
    SHA256((const unsigned char *)token.at, token.len, out);
}
