/* What stands before and behind the gradients of attention (ir/tile_gpu_attention_grad.h), in
 * block form: the rows' sums of gradient times result with the logarithms in the kernel's own
 * units, and dq in the inputs' type. */
#ifndef TS_IR_TILE_GPU_ATTENTION_ENDS_H
#define TS_IR_TILE_GPU_ATTENTION_ENDS_H

#include "ir/tile_gpu_attention_grad.h"

/* How a tensor [B,H,S,D] lies; stride NULL: row-major. Sizes of one that does not are known. */
typedef struct TsGpuHeads {
  int64_t dim[4];
  const int64_t *stride;
} TsGpuHeads;

/* Parameters: g y (as said), lse f32[N,S] (natural); lse2 delta f32[L,rows]. NULL with the
 * error. */
TsTile *ts_tile_gpu_attention_begin(const TsGpuAttentionGrad *x, const TsGpuHeads *g,
                                    const TsGpuHeads *y, TsError *err);
/* Parameters: sums f32[M]; dq [M], scaled. */
TsTile *ts_tile_gpu_attention_end(const TsGpuAttentionGrad *x, TsError *err);

#endif
