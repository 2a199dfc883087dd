/* (x - mean) / std * weight + bias in one walk, each step rounded as it is by itself. */
#ifndef TS_VM_KERNELS_BATCH_NORM_H
#define TS_VM_KERNELS_BATCH_NORM_H

#include <stdint.h>

/* of: mean, std, weight, bias; the last two may be NULL: then their step is left out. */
typedef struct TsBatchNormKernels {
  /* Rows of n elements one behind the other; a row has one number of each. f32, f64. */
  void (*rows[2])(int64_t rows, int64_t n, void *y, const void *x, const void *const *of);
  /* One row; an element has a number of its own of each. */
  void (*columns[2])(int64_t n, void *y, const void *x, const void *const *of);
} TsBatchNormKernels;

void ts_kernels_batch_norm_avx512(TsBatchNormKernels *k);
void ts_kernels_batch_norm_avx2(TsBatchNormKernels *k);
void ts_kernels_batch_norm_base(TsBatchNormKernels *k);

#define TS_BATCH_NORM_DECLARE(t, isa)                                                          \
  void ts_batch_norm_rows_##t##_##isa(int64_t rows, int64_t n, void *y, const void *x,         \
                                      const void *const *of);                                  \
  void ts_batch_norm_columns_##t##_##isa(int64_t n, void *y, const void *x,                    \
                                         const void *const *of);
TS_BATCH_NORM_DECLARE(f32, avx512)
TS_BATCH_NORM_DECLARE(f32, avx2)
TS_BATCH_NORM_DECLARE(f32, base)
TS_BATCH_NORM_DECLARE(f64, avx512)
TS_BATCH_NORM_DECLARE(f64, avx2)
TS_BATCH_NORM_DECLARE(f64, base)
#undef TS_BATCH_NORM_DECLARE

#endif
