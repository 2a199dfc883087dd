/* Fills in the conversions of f32 to what is stored in blocks. */
#ifndef TS_VM_KERNELS_BLOCKS_WRITE_H
#define TS_VM_KERNELS_BLOCKS_WRITE_H

#include "vm/kernels/convert.h"

void ts_blocks_write_avx512(TsConvertKernels *k);
void ts_blocks_write_avx2(TsConvertKernels *k);
void ts_blocks_write_base(TsConvertKernels *k);

#endif
