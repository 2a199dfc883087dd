/* SHA-256 as FIPS 180-4 states it. */
#include "jit/code/sha256.h"

#include <stdatomic.h>
#include <stdbool.h>
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

/* The eight words go round by name: moving them costs more than the arithmetic. */
static void round_of(uint32_t v[8], int i, uint32_t kw) {
#define V(n) v[((n)-i) & 7]
  uint32_t a = V(0), e = V(4);
  uint32_t s1 = right(e, 6) ^ right(e, 11) ^ right(e, 25), pick = (e & V(5)) ^ (~e & V(6));
  uint32_t s0 = right(a, 2) ^ right(a, 13) ^ right(a, 22);
  uint32_t most = (a & V(1)) ^ (a & V(2)) ^ (V(1) & V(2));
  uint32_t t = V(7) + s1 + pick + kw;
  V(3) += t;
  V(7) = t + s0 + most;
#undef V
}

static void compress_plain(uint32_t h[8], const uint8_t *p) {
  uint32_t w[64], v[8];
  schedule(w, p);
  memcpy(v, h, sizeof v);
  for (int i = 0; i < 64; i += 8)
    for (int j = 0; j < 8; j++) round_of(v, j, K[i + j] + w[i + j]);
  for (int i = 0; i < 8; i++) h[i] += v[i];
}

/* ---- the processor's own instructions: ten times as fast, and keys are what loading a kernel
 * from the disk consists of */
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

__attribute__((target("sha,sse4.1"))) static void compress_x86(uint32_t h[8],
                                                               const uint8_t *p) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)h), 0xb1);
  __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(h + 4)), 0x1b);
  __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);
  __m128i w[16], abef0 = abef, cdgh0 = cdgh;
  for (int i = 0; i < 16; i++) {
    if (i < 4)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p + i), swap);
    else
      w[i] = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w[i - 4], w[i - 3]),
                                                _mm_alignr_epi8(w[i - 1], w[i - 2], 4)),
                                  w[i - 1]);
    __m128i kw = _mm_add_epi32(w[i], _mm_loadu_si128((const __m128i *)K + i));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, kw);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(kw, 0x0e));
  }
  abef = _mm_shuffle_epi32(_mm_add_epi32(abef, abef0), 0x1b);
  cdgh = _mm_shuffle_epi32(_mm_add_epi32(cdgh, cdgh0), 0xb1);
  _mm_storeu_si128((__m128i *)h, _mm_blend_epi16(abef, cdgh, 0xf0));
  _mm_storeu_si128((__m128i *)(h + 4), _mm_alignr_epi8(cdgh, abef, 8));
}

static bool has_instructions(void) {
  unsigned a, b, c, d, b7;
  return __get_cpuid_count(7, 0, &a, &b7, &c, &d) && b7 >> 29 & 1 &&
         __get_cpuid(1, &a, &b, &c, &d) && c >> 19 & 1;
}
#else
static bool has_instructions(void) { return false; }
static void compress_x86(uint32_t h[8], const uint8_t *p) { compress_plain(h, p); }
#endif

static void compress(const TsSha256 *s, uint32_t h[8], const uint8_t *p) {
  (s->plain ? compress_plain : compress_x86)(h, p);
}

void ts_sha256_begin(TsSha256 *s) {
  static atomic_int known; /* 1: has none, 2: has them */
  if (!atomic_load(&known)) atomic_store(&known, has_instructions() ? 2 : 1);
  *s = (TsSha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                        0x1f83d9ab, 0x5be0cd19},
                  .plain = atomic_load(&known) == 1};
}

void ts_sha256_add(TsSha256 *s, const void *data, size_t nbytes) {
  const uint8_t *p = data;
  while (nbytes) {
    size_t at = s->nbytes % 64, n = 64 - at < nbytes ? 64 - at : nbytes;
    if (n == 64)
      compress(s, s->h, p);
    else
      memcpy(s->block + at, p, n);
    s->nbytes += n;
    if (n < 64 && at + n == 64) compress(s, s->h, s->block);
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
