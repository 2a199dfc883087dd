/* Operands of pointwise kernels that stand for all elements: repeated through a block
 * in L1, so that a row needs one loop. */
#ifndef TS_VM_KERNELS_SPREAD_H
#define TS_VM_KERNELS_SPREAD_H

#include <string.h>

#include "vm/kernels/pointwise/pointwise.h"

enum { SPREAD_BLOCK = 512, SPREAD_BYTES = 16, SPREAD_INPUTS = 3 };

static inline void spread_fill(char *buf, int64_t n, const void *value, int bytes) {
  int64_t size = n * bytes, done = bytes;
  memcpy(buf, value, (size_t)bytes);
  while (done < size) {
    int64_t more = done < size - done ? done : size - done;
    memcpy(buf + done, buf, (size_t)more);
    done += more;
  }
}

/* Calls loop, which takes no scalars, on blocks. size: the inputs' and then the
 * output's element bytes. */
static void spread(int64_t n, void *out, const void *const *in, const double *par,
                   unsigned scalars, int count, const int8_t *size, TsPointwiseFn *loop) {
  _Alignas(64) char buf[SPREAD_INPUTS][SPREAD_BLOCK * SPREAD_BYTES];
  const void *at[SPREAD_INPUTS];
  int64_t first = n < SPREAD_BLOCK ? n : SPREAD_BLOCK;
  char *o = out;
  for (int i = 0; i < count; i++)
    if (scalars >> i & 1) spread_fill(buf[i], first, in[i], size[i]);
  for (int64_t lo = 0; lo < n; lo += SPREAD_BLOCK) {
    for (int i = 0; i < count; i++)
      at[i] = scalars >> i & 1 ? buf[i] : (const char *)in[i] + lo * size[i];
    loop(n - lo < SPREAD_BLOCK ? n - lo : SPREAD_BLOCK, o + lo * size[count], at, par, 0);
  }
}

/* In place, an element is read before it is written: no dependence between rounds. */
#ifdef __clang__
#define IVDEP
#else
#define IVDEP _Pragma("GCC ivdep")
#endif

#endif
