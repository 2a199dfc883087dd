/* What is stored in blocks to f32: ts_blocks_<format>_<instruction set>, each a TsConvertFn. */
#ifndef TS_VM_KERNELS_BLOCKS_READ_H
#define TS_VM_KERNELS_BLOCKS_READ_H

#include "vm/kernels/blocks.h"
#include "vm/kernels/convert.h"

#define TS_BLOCK_READER(name, size, bytes)                                                     \
  TsConvertFn ts_blocks_##name##_avx512, ts_blocks_##name##_avx2, ts_blocks_##name##_base;
TS_BLOCK_FORMATS(TS_BLOCK_READER)
#undef TS_BLOCK_READER
/* To f64. */
TsConvertFn ts_blocks_mxfp4_wide_avx512, ts_blocks_mxfp4_wide_avx2, ts_blocks_mxfp4_wide_base;

#endif
