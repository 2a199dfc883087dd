/* See lib/digest.h. */
#include "lib/digest.h"

#include <string.h>

static const uint64_t P1 = 0x9e3779b185ebca87, P2 = 0xc2b2ae3d27d4eb4f, P3 = 0x165667b19e3779f9,
                      P4 = 0x85ebca77c2b2ae63, P5 = 0x27d4eb2f165667c5;

static uint64_t turn(uint64_t v, int by) { return v << by | v >> (64 - by); }

/* Words are little-endian, as all hosts are. */
static uint64_t word64(const unsigned char *at) {
  uint64_t v;
  memcpy(&v, at, sizeof v);
  return v;
}

static uint64_t word32(const unsigned char *at) {
  uint32_t v;
  memcpy(&v, at, sizeof v);
  return v;
}

static uint64_t mix(uint64_t sum, uint64_t v) { return turn(sum + v * P2, 31) * P1; }

static uint64_t merge(uint64_t h, uint64_t sum) { return (h ^ mix(0, sum)) * P1 + P4; }

/* Four sums side by side, over stripes of 32 bytes. */
static const unsigned char *stripes(const unsigned char *at, const unsigned char *end,
                                    uint64_t *h) {
  uint64_t a = P1 + P2, b = P2, c = 0, d = 0 - P1;
  for (; end - at >= 32; at += 32) {
    a = mix(a, word64(at)), b = mix(b, word64(at + 8));
    c = mix(c, word64(at + 16)), d = mix(d, word64(at + 24));
  }
  *h = turn(a, 1) + turn(b, 7) + turn(c, 12) + turn(d, 18);
  *h = merge(merge(merge(merge(*h, a), b), c), d);
  return at;
}

uint64_t ts_digest64(const void *from, size_t n) {
  const unsigned char *at = from, *end = at + n;
  uint64_t h = P5;
  if (n >= 32) at = stripes(at, end, &h);
  h += n;
  for (; end - at >= 8; at += 8) h = turn(h ^ mix(0, word64(at)), 27) * P1 + P4;
  if (end - at >= 4) h = turn(h ^ word32(at) * P1, 23) * P2 + P3, at += 4;
  for (; at < end; at++) h = turn(h ^ *at * P5, 11) * P1;
  h = (h ^ h >> 33) * P2;
  h = (h ^ h >> 29) * P3;
  return h ^ h >> 32;
}
