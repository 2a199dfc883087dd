/* SHA-256 (FIPS 180-4): names of compiled kernels. */
#ifndef TS_JIT_SHA256_H
#define TS_JIT_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TS_SHA256 = 32 };

typedef struct TsSha256 {
  uint32_t h[8];
  uint64_t nbytes;
  uint8_t block[64];
  bool plain; /* in C, whatever the processor has */
} TsSha256;

void ts_sha256_begin(TsSha256 *s);
void ts_sha256_add(TsSha256 *s, const void *data, size_t nbytes);
void ts_sha256_end(TsSha256 *s, uint8_t digest[TS_SHA256]);

#endif
