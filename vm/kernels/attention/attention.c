/* The table of attention's row kernels; the kernels: attention.inc. */
#include "vm/kernels/attention/attention.h"
#include "vm/kernels/simd/isa.h"

void TS_ISA(ts_kernels_attention)(TsAttentionKernels *k) {
  k->block[0] = TS_ISA(ts_attention_block_f32);
  k->block[1] = TS_ISA(ts_attention_block_f64);
  k->finish[0] = TS_ISA(ts_attention_finish_f32);
  k->finish[1] = TS_ISA(ts_attention_finish_f64);
  k->finite[0] = TS_ISA(ts_attention_finite_f32);
  k->finite[1] = TS_ISA(ts_attention_finite_f64);
}
