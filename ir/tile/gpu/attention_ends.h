/* What stands before and behind the gradients of attention (ir/tile/gpu/attention_grad.h): the
 * rows' sums of gradient times result with the logarithms in the kernel's own units, with a
 * role of lanes; and dq in the inputs' type and gradients of sinks, in block form. */
#ifndef TS_IR_TILE_GPU_ATTENTION_ENDS_H
#define TS_IR_TILE_GPU_ATTENTION_ENDS_H

#include "ir/tile/gpu/attention_grad.h"

/* How a tensor [B,H,S,D] lies; stride NULL: row-major. Sizes of one that does not are known. */
typedef struct TsGpuHeads {
  int64_t dim[4];
  const int64_t *stride;
} TsGpuHeads;

/* Sizes, as ts_gpu_attention_begin_sizes gives them: B, H, S, N = B H, widths G and Y of
 * matrices in whose columns heads lie beside each other, else 0, and P, blocks of queries of
 * all heads (ts_gpu_attention_grad_blocks). Of the operands only D is part of the code, and
 * strides of other kinds. Parameters: g y (as said), lse f32[N,S] (natural); lse2 delta
 * f32[P,rows]. Sums are of neighbours, level by level. NULL with the error. */
TsTile *ts_tile_gpu_attention_begin(const TsGpuAttentionGrad *x, const TsGpuHeads *g,
                                    const TsGpuHeads *y, TsError *err);
enum { TS_ATTENTION_BEGIN_SIZES = 7 };
void ts_gpu_attention_begin_sizes(const TsGpuAttentionGrad *x, const TsGpuHeads *g,
                                  const TsGpuHeads *y, int64_t *size);
/* Gradients of the sinks of h heads in b batches, with m lines of numbers each: minus the sums
 * of their probabilities times delta. Parameters: lse2 delta f32[b h,m], sink f32[h]; dsink
 * f32[h]. */
TsTile *ts_tile_gpu_attention_sink(int64_t b, int64_t h, int64_t m, TsError *err);
/* Parameters: sums f32[M]; dq [M], scaled. Where dq is not row-major, of the sizes of its heads. */
TsTile *ts_tile_gpu_attention_end(const TsGpuAttentionGrad *x, const TsGpuHeads *dq,
                                  TsError *err);

#endif
