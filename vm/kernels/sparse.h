/* Rows of a product with a sparse matrix. */
#ifndef TS_VM_KERNELS_SPARSE_H
#define TS_VM_KERNELS_SPARSE_H

#include <stdint.h>

/* y[c] = sum over e < count of values[e] * x[index[e] * n + c], c < n: from 0 on in the order of e,
 * each product rounded before it is added. */
typedef void TsSparseRowFn(int64_t count, const void *values, const int64_t *index,
                           const void *x, int64_t n, void *y);

typedef struct TsSparseKernels {
  TsSparseRowFn *row[2]; /* f32, f64 */
} TsSparseKernels;

void ts_kernels_sparse_avx512(TsSparseKernels *k);
void ts_kernels_sparse_avx2(TsSparseKernels *k);
void ts_kernels_sparse_base(TsSparseKernels *k);

#define TS_SPARSE_DECLARE(t, isa) TsSparseRowFn ts_sparse_row_##t##_##isa;
TS_SPARSE_DECLARE(f32, avx512)
TS_SPARSE_DECLARE(f32, avx2)
TS_SPARSE_DECLARE(f32, base)
TS_SPARSE_DECLARE(f64, avx512)
TS_SPARSE_DECLARE(f64, avx2)
TS_SPARSE_DECLARE(f64, base)
#undef TS_SPARSE_DECLARE

#endif
