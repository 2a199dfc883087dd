/* A digest of 64 bits that tells damaged bytes: XXH64 (by its public description), which other
 * programs have, too. Nothing against who wants to deceive. */
#ifndef TS_LIB_DIGEST_H
#define TS_LIB_DIGEST_H

#include <stddef.h>
#include <stdint.h>

uint64_t ts_digest64(const void *at, size_t n);

#endif
