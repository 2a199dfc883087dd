/* Copies, conversions and fills of n-dimensional strided arrays. Strides are in
 * bytes and of any sign; zero in a source repeats it. Elements of a destination
 * are distinct and do not overlap the source. Large work spreads over the CPU
 * pool. A dimension of zero elements makes the call do nothing. */
#ifndef TS_VM_COPY_H
#define TS_VM_COPY_H

#include "lib/dtype.h"
#include "vm/kernels/convert.h"
#include "vm/kernels/copy.h"

enum { TS_COPY_MAX_DIM = 16 };

/* The kernels that the functions below call, once, before any of them. */
void ts_copy_use(const TsCopyKernels *copy, const TsConvertKernels *convert);
const TsCopyKernels *ts_copy_used(void);

/* elem_bytes is 1, 2, 4, 8 or 16. */
void ts_copy_nd(int ndim, const int64_t *dim, void *dst, const int64_t *dst_stride,
                const void *src, const int64_t *src_stride, int elem_bytes);

/* The pair must stand in the table of convert.h. What is stored in blocks lies in whole ones along
 * the last dimension: that stride is ignored on its side. */
void ts_convert_nd(int ndim, const int64_t *dim, void *dst, TsDtype dst_dtype,
                   const int64_t *dst_stride, const void *src, TsDtype src_dtype,
                   const int64_t *src_stride);

/* Every element of dst becomes the elem_bytes at value. */
void ts_fill_nd(int ndim, const int64_t *dim, void *dst, const int64_t *dst_stride,
                int elem_bytes, const void *value);

#endif
