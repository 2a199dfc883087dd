/* The table of kernels of attention_grad.h. */
#include "vm/kernels/attention/grad.h"
#include "vm/kernels/simd/isa.h"

void TS_ISA(ts_kernels_attention_grad)(TsAttentionGradKernels *k) {
  TS_ISA(ts_attention_grad_fill_f32)(k);
  TS_ISA(ts_attention_grad_fill_f64)(k);
}
