/* Pointwise kernels of f32 and f64 on contiguous arrays: one for every row of
 * lib/ops/pointwise.def whose TYPES contain F. The other types have sister headers:
 * vm/kernels/pointwise/int.h and vm/kernels/pointwise/complex.h. */
#ifndef TS_VM_KERNELS_POINTWISE_H
#define TS_VM_KERNELS_POINTWISE_H

#include <stdbool.h>
#include <stdint.h>

enum {
#define OP(name, ...) TS_PW_##name,
#include "lib/ops/pointwise.def"
#undef OP
  TS_PW_COUNT
};

enum { TS_PW_PAST = 1 << 8 }; /* a bit of scalars: see `past` below */

/* n >= 0 elements; in[i] points to n elements of the kernel's type, or, where bit i of
 * scalars is set, to one that stands for all of them. par holds the values of the row's f
 * attributes. out may be one of the inputs exactly, no other overlap; it has n elements
 * of the type, bytes 0 or 1 where the row's rule is bool or compare, and n pairs for the
 * rule complex. cond of where is such bytes. No alignment is asked for. */
typedef void TsPointwiseFn(int64_t n, void *out, const void *const *in, const double *par,
                           unsigned scalars);

/* NULL where the row is not for floats. */
typedef struct TsPointwiseKernels {
  TsPointwiseFn *f32[TS_PW_COUNT];
  TsPointwiseFn *f64[TS_PW_COUNT];
  /* Whether those that store their own type heed TS_PW_PAST: out, whole cache lines, goes
   * past the caches, and a fence is due after the last call. */
  bool past;
} TsPointwiseKernels;

void ts_kernels_pointwise_avx512(TsPointwiseKernels *k);
void ts_kernels_pointwise_avx2(TsPointwiseKernels *k);
void ts_kernels_pointwise_base(TsPointwiseKernels *k);

/* The two halves, each in a file of its own. */
void ts_pointwise_fill_f32_avx512(TsPointwiseFn **fn);
void ts_pointwise_fill_f32_avx2(TsPointwiseFn **fn);
void ts_pointwise_fill_f32_base(TsPointwiseFn **fn);
void ts_pointwise_fill_f64_avx512(TsPointwiseFn **fn);
void ts_pointwise_fill_f64_avx2(TsPointwiseFn **fn);
void ts_pointwise_fill_f64_base(TsPointwiseFn **fn);

#endif
