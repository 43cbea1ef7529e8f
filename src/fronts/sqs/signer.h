/*
 * signer: who makes a call of SQS, and how he is told that he may not. SDKs sign their calls with an access key
 * (access/signature.h). Where the server has none, a signature says nothing, and nobody is asked for one but
 * by the listener. Tokens and certificates make callers here as everywhere.
 */
#ifndef TARRY_SQS_SIGNER_H
#define TARRY_SQS_SIGNER_H

#include "http/route.h"

http_route_admit sqs_admit;
http_route_refuse sqs_refuse;

#endif
