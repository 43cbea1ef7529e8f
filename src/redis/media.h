/*
 * media: the content types nearly every job has, kept as one byte. Pure.
 *
 * In a record a content type is a byte and a text: up to 128 the byte is the text's length, above
 * it is the number of one of these and no text follows. A number once given stays: records hold it.
 */
#ifndef TARRY_REDIS_MEDIA_H
#define TARRY_REDIS_MEDIA_H

#include "job/job.h"

enum { REDIS_MEDIA_FIRST = 129 };

/* 0: not one of these. */
uint8_t redis_media_number(struct slice content_type);
/* Empty: no such number. Static. */
struct slice redis_media_type(uint8_t number);

#endif
