/* (x - mean) / std * weight + bias in one walk, each step rounded as it is by itself. */
#ifndef TS_VM_KERNELS_BATCH_NORM_H
#define TS_VM_KERNELS_BATCH_NORM_H

#include <stdint.h>

/* y[i] = (x[i] - mean) / std * weight + bias for i < n. weight and bias may be NULL: then the
 * step is left out. run: each is one number for all i; columns: one for each i. */
typedef void TsBatchNormFn(int64_t n, void *y, const void *x, const void *mean,
                           const void *std, const void *weight, const void *bias);

typedef struct TsBatchNormKernels {
  TsBatchNormFn *run[2], *columns[2]; /* f32, f64 */
} TsBatchNormKernels;

void ts_kernels_batch_norm_avx512(TsBatchNormKernels *k);
void ts_kernels_batch_norm_avx2(TsBatchNormKernels *k);
void ts_kernels_batch_norm_base(TsBatchNormKernels *k);

#endif
