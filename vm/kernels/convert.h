/* Conversions between element types, contiguous to contiguous, one function a
 * pair. What a conversion does to a value stands in vm/kernels/convert.c. */
#ifndef TS_VM_KERNELS_CONVERT_H
#define TS_VM_KERNELS_CONVERT_H

#include "lib/dtype.h"

/* Converts n elements; dst and src are aligned to their elements and do not
 * overlap. For what is stored in blocks on either side n is a multiple of a block. */
typedef void TsConvertFn(int64_t n, void *dst, const void *src);

typedef struct TsConvertKernels {
  /* [from][to]. NULL only for what is stored in blocks with a type other than f16, bf16, f32, f64 as
   * its target and f32 as its source. */
  TsConvertFn *convert[TS_DT_COUNT][TS_DT_COUNT];
} TsConvertKernels;

void ts_kernels_convert_avx512(TsConvertKernels *k);
void ts_kernels_convert_avx2(TsConvertKernels *k);
void ts_kernels_convert_base(TsConvertKernels *k);

#endif
