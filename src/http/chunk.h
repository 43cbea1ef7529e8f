/* chunk: takes a chunked body (RFC 9112, 7.1) out of its wrapping, in place, a piece at a time.
 * Pure. */
#ifndef TARRY_HTTP_CHUNK_H
#define TARRY_HTTP_CHUNK_H

#include "http/request.h"

/*
 * Decodes bytes[*at..len): data is moved down to bytes + head_bytes + decoded. Advances *at. MORE:
 * all bytes were used. WHOLE: the body has ended at *at. REFUSED: *fault says why.
 */
enum http_step http_chunks_read(struct http_framing *framing, char *bytes, size_t len, size_t *at,
                                struct http_fault *fault);

#endif
