#include "targets/message_id.h"

#include "base/hex.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>

enum { ID_DIGEST_BYTES = 16 };

bool message_id_init(struct message_id *ids, const char *(*store_name)(void *store), void *store)
{
    *ids = (struct message_id){.store_name = store_name, .store = store};
    ids->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    ids->digest = EVP_MD_CTX_new();
    return ids->sha256 && ids->digest;
}

void message_id_fini(struct message_id *ids)
{
    EVP_MD_CTX_free(ids->digest);
    EVP_MD_free(ids->sha256);
    *ids = (struct message_id){0};
}

bool message_id_write(struct message_id *ids, const struct job *job, char out[MESSAGE_ID_BYTES])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    char number[32];
    const char *store = ids->store_name ? ids->store_name(ids->store) : NULL;
    int len = snprintf(number, sizeof number, "%" PRIu64, job->sequence);
    store = store ? store : "";
    /* A NUL terminates topic and ID, which do not contain it; names have equal length. */
    if (EVP_DigestInit_ex2(ids->digest, ids->sha256, NULL) != 1 ||
        EVP_DigestUpdate(ids->digest, store, strlen(store)) != 1 ||
        EVP_DigestUpdate(ids->digest, job->topic.at, job->topic.len) != 1 ||
        EVP_DigestUpdate(ids->digest, "", 1) != 1 ||
        EVP_DigestUpdate(ids->digest, job->id.at, job->id.len) != 1 ||
        EVP_DigestUpdate(ids->digest, "", 1) != 1 ||
        EVP_DigestUpdate(ids->digest, number, (size_t)len) != 1 ||
        EVP_DigestFinal_ex(ids->digest, digest, NULL) != 1)
        return false;
    memcpy(out, "msg_", 4);
    hex_emit_bytes(out + 4, digest, ID_DIGEST_BYTES);
    out[MESSAGE_ID_BYTES - 1] = 0;
    return true;
}
