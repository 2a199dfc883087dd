/* SHA-256 as FIPS 180-4 states it. */
#include "jit/sha256.h"

#include <string.h>

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t right(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void schedule(uint32_t w[64], const uint8_t *p) {
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
           (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
  for (int i = 16; i < 64; i++) {
    uint32_t x = w[i - 15], y = w[i - 2];
    uint32_t s0 = right(x, 7) ^ right(x, 18) ^ x >> 3,
             s1 = right(y, 17) ^ right(y, 19) ^ y >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
}

static void compress(uint32_t h[8], const uint8_t *p) {
  uint32_t w[64], v[8];
  schedule(w, p);
  memcpy(v, h, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t a = v[0], e = v[4];
    uint32_t s1 = right(e, 6) ^ right(e, 11) ^ right(e, 25), pick = (e & v[5]) ^ (~e & v[6]);
    uint32_t s0 = right(a, 2) ^ right(a, 13) ^ right(a, 22);
    uint32_t most = (a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]);
    uint32_t t = v[7] + s1 + pick + K[i] + w[i];
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += t;
    v[0] = t + s0 + most;
  }
  for (int i = 0; i < 8; i++) h[i] += v[i];
}

void ts_sha256_begin(TsSha256 *s) {
  *s = (TsSha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                        0x1f83d9ab, 0x5be0cd19}};
}

void ts_sha256_add(TsSha256 *s, const void *data, size_t nbytes) {
  const uint8_t *p = data;
  while (nbytes) {
    size_t at = s->nbytes % 64, n = 64 - at < nbytes ? 64 - at : nbytes;
    if (n == 64)
      compress(s->h, p);
    else
      memcpy(s->block + at, p, n);
    s->nbytes += n;
    if (n < 64 && at + n == 64) compress(s->h, s->block);
    p += n, nbytes -= n;
  }
}

void ts_sha256_end(TsSha256 *s, uint8_t digest[TS_SHA256]) {
  uint64_t bits = s->nbytes * 8;
  uint8_t size[8];
  for (int i = 0; i < 8; i++) size[i] = (uint8_t)(bits >> (56 - 8 * i));
  ts_sha256_add(s, "\x80", 1);
  while (s->nbytes % 64 != 56) ts_sha256_add(s, "", 1);
  ts_sha256_add(s, size, 8);
  for (int i = 0; i < TS_SHA256; i++) digest[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}
