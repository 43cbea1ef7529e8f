/*
 * http_trust: which authorities a TLS connection trusts: the system's, and the policy file's.
 *
 * The system's are looked up one by one by their hash where it keeps them so; to read all of them
 * for each connection would cost more than all the rest of it.
 */
#ifndef TARRY_TARGETS_HTTP_TRUST_H
#define TARRY_TARGETS_HTTP_TRUST_H

#include "guard/guard.h"

#include <openssl/ossl_typ.h>

/* False: the policy's ca-file cannot be read, or there is no memory. */
bool target_trust_add(SSL_CTX *tls, struct guard *guard);

#endif
