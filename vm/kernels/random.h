/* Random bits and what is made from them, on contiguous blocks.
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as
 * 1, 2, 3, SC11) turns a counter of 128 bits and a key of 64 bits into four words
 * of 32 bits. The key is the seed, the counter's upper half the stream, its lower
 * half a block number; word w of block c is bits(seed, stream, c, w). Element i of a
 * tensor, i its row-major index in the whole (unsharded) tensor, has
 *
 *   32 bits:  block 16 (i / 64) + i % 16, word (i / 16) % 4
 *   64 bits:  block 16 (i / 32) + i % 16, words 0 and 1 (low, high) if (i / 16) % 2
 *             is 0, else words 2 and 3
 *
 * Sixteen blocks side by side are one group: each of their words is sixteen
 * neighbours, so that no vector width and no GPU warp has to transpose. Shape,
 * threads and vector width do not enter. f64 and integers use 64 bits, all
 * other types 32.
 *
 *   uniform   u = (bits >> 8) 2^-24, or (bits >> 11) 2^-53, in [0, 1)
 *   normal    of elements i and i + 16 by Box and Muller: sqrt(-2 log a) cos b and
 *             sqrt(-2 log a) sin b, where a, in (0, 1], is (bits >> 1) 2^-31 + 2^-32, for
 *             f64 1 - u, from the bits of i; and b, in [-pi, pi), is 2 pi 2^-24 (bits >> 8),
 *             for f64 2 pi 2^-52 (bits >> 12), signed, from the bits of i + 16
 *   integer   high half of bits x range, 128 bits: each of `range` values has a
 *             probability that differs from 1/range by less than 2^-64 */
#ifndef TS_VM_KERNELS_RANDOM_H
#define TS_VM_KERNELS_RANDOM_H

#include <stdint.h>

enum { TS_RANDOM_GROUP32 = 64, TS_RANDOM_GROUP64 = 32 }; /* elements of a group */

/* n is a number of elements, a multiple of the group but where said; y may stand where
 * the bits stand if its elements are not wider. */
typedef struct TsRandomKernels {
  /* The bits of groups [group, group + count). */
  void (*bits32)(uint64_t seed, uint64_t stream, uint64_t group, int64_t count, uint32_t *out);
  void (*bits64)(uint64_t seed, uint64_t stream, uint64_t group, int64_t count, uint64_t *out);
  /* min(low + width u, top): index 0 for f32, 1 for f64, here and below. */
  void (*uniform[2])(int64_t n, void *y, const void *bits, double low, double width,
                     double top);
  /* mean + std z */
  void (*normal[2])(int64_t n, void *y, const void *bits, double mean, double std);
  /* y = x scale where u >= p, else 0. Any n. */
  void (*dropout[2])(int64_t n, void *y, const void *bits, const void *x, double p,
                     double scale);
  /* y = 1 where u < p (32 bits), else 0. Any n. */
  void (*below)(int64_t n, uint8_t *y, const uint32_t *bits, double p);
  /* The inverse of the normal distribution function at from + width v, limited to [min,
   * max]. v = (bits + 1/2) 2^-32 for 32 bits; for 64 bits (s + 1/2) 2^-52 + 1/2 with s =
   * bits >> 12, signed. */
  void (*quantile[2])(int64_t n, double *y, const void *bits, double from, double width,
                      double min, double max);
  /* The normal distribution function. */
  double (*phi)(double x);
} TsRandomKernels;

void ts_kernels_random_avx512(TsRandomKernels *k);
void ts_kernels_random_avx2(TsRandomKernels *k);
void ts_kernels_random_base(TsRandomKernels *k);

/* The members of one type, each in a file of its own. */
void ts_random_fill_f32_avx512(TsRandomKernels *k);
void ts_random_fill_f32_avx2(TsRandomKernels *k);
void ts_random_fill_f32_base(TsRandomKernels *k);
void ts_random_fill_f64_avx512(TsRandomKernels *k);
void ts_random_fill_f64_avx2(TsRandomKernels *k);
void ts_random_fill_f64_base(TsRandomKernels *k);

#endif
