/* The gradients of attention for a GPU with a copy engine in explicit form
 * (ir/tile/gpu/attention_grad.c): probabilities are computed again from the logarithms of the
 * forward pass, products run on the matrix unit with sums in f32, probabilities and their
 * gradients are rounded to the inputs' type before they are multiplied. Sums are in one order:
 * those of keys and values over blocks of queries from the last to the first, and in a block
 * over the query heads of the key head; those of queries over key blocks of 128 in increasing
 * order. So the bits are those of every run, whatever the number of blocks and of heads.
 *
 * Sizes: B batches, H query heads and J key heads of one (H a multiple of J), S queries, T
 * keys, L blocks of `rows` queries of all heads (B H ceil(S / rows)), G key heads whose tiles
 * stand together in the order, P blocks that run at a time, at most the number of tiles.
 * Parameters: q [B,H,S,D], k v [B,J,T,D], with a mask that (transposed), g [B,H,S,D] (gradient of
 * the result), lse delta f32[L,rows]; dq f32[B,H,S,D], dk dv [B,J,T,D], turn i32[L], counter
 * i32[1]. Of rows that there are not, lse is infinite and delta 0; else they are logarithms of
 * base 2 of the sums of 2^(scores scale log2 e), and the sums of g times the result. dq is to
 * be multiplied by scale. turn and counter are zeros before a run and behind it. Query i stands
 * at position i + T - S; with `causal` T is at least S. */
#ifndef TS_IR_TILE_GPU_ATTENTION_GRAD_H
#define TS_IR_TILE_GPU_ATTENTION_GRAD_H

#include "ir/tile/gpu/attention_mask.h"

typedef struct TsGpuAttentionGrad {
  TsDtype dtype; /* bf16, f16 */
  int d;         /* 64, 128 */
  bool causal;
  int64_t window; /* 0: none; with causal */
  double scale;   /* above 0 */
  int rows;       /* queries of a block: 64 */
  int stages;     /* of queries and gradients */
  TsGpuMask mask; /* as it was added to the scores */
  bool held;      /* with overlap: a tile's values stay in registers */
  bool overlap;   /* products of a step run beside those of the next one; takes D 64 */
  /* the target: by mma.sync and cp.async there (ir/tile/gpu/attention_grad_warps.h). NULL: with
   * roles, sm_90a */
  const char *warps;
  int own, step; /* by warps: rows of a tile, and of what goes by in a step */
} TsGpuAttentionGrad;

/* The usual numbers: what was measured to be good. */
TsGpuAttentionGrad ts_gpu_attention_grad(TsDtype dtype, int d, bool causal, int64_t window);
/* NULL with the error. */
TsTile *ts_tile_gpu_attention_grad(const TsGpuAttentionGrad *x, TsError *err);

/* Of all batches n query heads and j key heads. */
int64_t ts_gpu_attention_grad_heads(const TsGpuAttentionGrad *x, int64_t j, int64_t s);
int64_t ts_gpu_attention_grad_tiles(const TsGpuAttentionGrad *x, int64_t j, int64_t t);
int64_t ts_gpu_attention_grad_blocks(const TsGpuAttentionGrad *x, int64_t n, int64_t s); /* L */

#endif
