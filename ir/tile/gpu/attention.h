/* Attention for a GPU with a copy engine in explicit form (ir/tile/gpu/attention.c): online
 * softmax over key blocks of 128 in order, products on the matrix unit with sums in f32,
 * probabilities rounded to the inputs' type. A row's bits depend on its head's inputs alone:
 * not on rows of a tile, stages, turns, the number of blocks or of heads.
 *
 * Sizes: B batches, H query heads and J key heads of one (H a multiple of J; head h uses key
 * head h J / H), S queries, T keys, G heads whose tiles stand together in the order, P blocks
 * that run at a time, at most the number of tiles (ts_gpu_attention_tiles). Parameters: q
 * [B,H,S,D], k v [B,J,T,D], with a mask that, with a sink that [H] in f32; y [B,H,S,D], lse
 * [B,H,S] in f32 (natural logarithm of the sums), counter i32[1], which is 0 before a run and
 * behind it. Query i stands at position i + T - S among the keys. */
#ifndef TS_IR_TILE_GPU_ATTENTION_H
#define TS_IR_TILE_GPU_ATTENTION_H

#include "ir/tile/gpu/attention_mask.h"

enum { TS_GPU_KEYS = 128 }; /* of a block */

typedef struct TsGpuAttention {
  TsDtype dtype; /* bf16, f16 */
  int d;         /* 64, 128 */
  bool causal, sink;
  int64_t window;    /* 0: none */
  double scale;      /* above 0 */
  int rows;          /* queries of a tile: 64 for each group of four warps */
  int stages;        /* of keys, and of values */
  bool turns;        /* groups of warps take turns at the matrix unit */
  bool apart;        /* groups of warps pass blocks of keys that none of their rows sees */
  TsGpuMask mask;    /* added to the scores, in whose own units their maximum then is */
  const char *warps; /* the target: by mma.sync and cp.async there. NULL: with roles, sm_90a */
  bool alone;        /* no lse, and the counter is scratch of the kernel: no such parameters */
} TsGpuAttention;

/* The usual numbers: what was measured to be good. */
TsGpuAttention ts_gpu_attention(TsDtype dtype, int d, bool causal, int64_t window, bool sink);
/* Those for so many queries. */
void ts_gpu_attention_fit(TsGpuAttention *x, int64_t s, bool masked);
/* NULL with the error. */
TsTile *ts_tile_gpu_attention(const TsGpuAttention *x, TsError *err);

/* Heads that stand together (G), so that their keys and values stay in the second cache. */
/* n, j: of all batches. */
int64_t ts_gpu_attention_heads(const TsGpuAttention *x, int64_t n, int64_t j, int64_t t);
/* The same by warps: P is the number of tiles, and there is no counter. shared: bytes that a
 * block may have. The bits are the same but for what the processors' units do with a step. */
TsGpuAttention ts_gpu_attention_by_warps(TsDtype dtype, int d, bool causal, int64_t window,
                                         bool sink, const char *target, int64_t shared);
int64_t ts_gpu_attention_tiles(const TsGpuAttention *x, int64_t n, int64_t s);

#endif
