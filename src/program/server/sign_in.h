/*
 * sign_in: the log-in of the console at the issuer of JWTs, by OpenID Connect. The browser does
 * it; the server only announces the issuer and the client, which are public, and lets the page
 * connect to the issuer. Pure.
 */
#ifndef TARRY_SERVER_SIGN_IN_H
#define TARRY_SERVER_SIGN_IN_H

#include "server/config.h"

struct http_sign_in;

/* Fills in *out, which points to the texts of `config`. Returns false if the console only accepts
 * pasted tokens. The configuration was checked (config_sign_in_check). */
bool sign_in_read(const struct config *config, struct http_sign_in *out);

#endif
