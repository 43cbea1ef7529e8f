/*
 * signer: authenticates the caller of an SQS call, and formats refusals. SDKs sign their calls with
 * an access key (access/signature.h). If the server has no access keys, it ignores signatures, and
 * only the listener's settings may require a caller. Tokens and certificates identify callers here
 * as elsewhere.
 */
#ifndef TARRY_SQS_SIGNER_H
#define TARRY_SQS_SIGNER_H

#include "http/route.h"

http_route_admit sqs_admit;
http_route_refuse sqs_refuse;

#endif
