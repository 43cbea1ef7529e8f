#include "sqs/message_id.h"

#include <openssl/evp.h>
#include <string.h>

enum { UUID_BYTES = 16, ULID_TEXT_BYTES = 26, VERSION = 5 };

/* Reads a ULID: 26 digits of base 32 are 130 bits, of which the first two are 0. */
static bool ulid_read(struct slice id, unsigned char out[UUID_BYTES])
{
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    unsigned __int128 value = 0;
    if (id.len != ULID_TEXT_BYTES || id.at[0] > '7')
        return false;
    for (size_t i = 0; i < id.len; i++) {
        const char *digit = id.at[i] ? strchr(digits, id.at[i]) : NULL;
        if (!digit)
            return false;
        value = value << 5 | (unsigned)(digit - digits);
    }
    for (size_t i = UUID_BYTES; i-- > 0; value >>= 8)
        out[i] = (unsigned char)value;
    return true;
}

/* Computes the UUID of version 5. The namespace is 16 bytes unique to tarry. */
static void hash_names(struct slice topic, struct slice id, unsigned char out[UUID_BYTES])
{
    static const unsigned char space[UUID_BYTES] = {0x5b, 0x1e, 0xd7, 0x3a, 0x90, 0x44, 0x4c, 0x21,
                                                    0x8f, 0x0d, 0x74, 0x61, 0x72, 0x72, 0x79, 0x01};
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context && EVP_DigestInit_ex(context, EVP_sha1(), NULL) &&
        EVP_DigestUpdate(context, space, sizeof space) &&
        EVP_DigestUpdate(context, topic.at, topic.len) && EVP_DigestUpdate(context, "", 1) &&
        EVP_DigestUpdate(context, id.at, id.len))
        (void)EVP_DigestFinal_ex(context, digest, NULL);
    EVP_MD_CTX_free(context);
    memcpy(out, digest, UUID_BYTES);
    out[6] = (unsigned char)((out[6] & 0x0f) | VERSION << 4);
    out[8] = (unsigned char)((out[8] & 0x3f) | 0x80);
}

void sqs_message_id(struct slice topic, struct slice id, char out[SQS_MESSAGE_ID_BYTES])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char bytes[UUID_BYTES];
    size_t at = 0;
    if (!ulid_read(id, bytes))
        hash_names(topic, id, bytes);
    for (size_t i = 0; i < UUID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            out[at++] = '-';
        out[at++] = hex[bytes[i] >> 4];
        out[at++] = hex[bytes[i] & 15];
    }
}
