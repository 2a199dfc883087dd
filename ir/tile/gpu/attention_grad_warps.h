/* The gradients of attention for GPUs without a copy engine (sm_80 and later), by warps that
 * copy and multiply: two kernels, of which one makes dk and dv and the other dq. What stands
 * before and behind is that of the other form (ir/tile/gpu/attention_ends.h), but that dq needs
 * nothing behind it.
 *
 * Sizes and parameters are those of ir/tile/gpu/attention_grad.h with P the number of tiles and
 * L that of tiles of `own` queries of all heads, but for these: lse delta f32[1,1,L,own]; the
 * one kernel has no dq, turn and counter, of the other dq [B,H,S,D] is the only result. Masks
 * are of `own` queries, transposed for keys. Sums are in one order: over blocks of `step` queries
 * from the last to the first, in a block over query heads; of queries over blocks of `step`
 * keys in increasing order. They do not depend on `own`. */
#ifndef TS_IR_TILE_GPU_ATTENTION_GRAD_WARPS_H
#define TS_IR_TILE_GPU_ATTENTION_GRAD_WARPS_H

#include "ir/tile/gpu/attention_grad.h"

/* target, shared: of the GPU; bytes that a block may have. */
TsGpuAttentionGrad ts_gpu_attention_grad_by_warps(TsDtype dtype, int d, bool causal,
                                                  int64_t window, const char *target,
                                                  int64_t shared);
/* NULL with the error. */
TsTile *ts_tile_gpu_attention_grad_keys(const TsGpuAttentionGrad *x, TsError *err);
TsTile *ts_tile_gpu_attention_grad_queries(const TsGpuAttentionGrad *x, TsError *err);

/* L and P of n heads of s rows. */
int64_t ts_gpu_attention_grad_own(const TsGpuAttentionGrad *x, int64_t n, int64_t s);

#endif
