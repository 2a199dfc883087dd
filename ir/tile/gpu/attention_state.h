/* What the files of attention share (ir/tile/gpu/attention.c). */
#ifndef TS_IR_TILE_GPU_ATTENTION_STATE_H
#define TS_IR_TILE_GPU_ATTENTION_STATE_H

#include "ir/tile/gpu/attention.h"
#include "ir/tile/gpu/build.h"

typedef struct TsGpuAttend {
  TsGpuAttention x;
  TsTileBuild b;
  TsTileVal q, k, v, mask, sink, y, lse, counter;     /* parameters */
  TsTileVal nb, h, j, s, t, g, p, n;                  /* sizes; n: query heads of all batches */
  TsTileVal tiles, total, blocks, span, offset, each; /* each: query heads of a key head */
  TsTileVal block;                                    /* the number of this one */
  TsTileVal sq, sk, sv, so, box;                      /* memory */
  TsTileVal full_q, empty_q, full_k, empty_k, full_v, empty_v;
  /* of this tile; its head among all, among its batch's; its key blocks */
  TsTileVal all_head, batch, head, key_head, q0, first, count;
  TsTileVal mine; /* of count: those that some row of this group sees, at least one */
} TsGpuAttend;

/* Where a ring is: slot and parity. */
typedef struct TsGpuAttendRing {
  TsTileVal slot, parity;
} TsGpuAttendRing;

/* What a row knows. Of fragments f32[rows,D], [rows], [rows,4] */
typedef struct TsGpuAttendRows {
  TsTileVal o, m, l;
} TsGpuAttendRows;
/* ---- ir/tile/gpu/attention_step.c */
void ts_gpu_attend_params(TsGpuAttend *a);
void ts_gpu_attend_sizes(TsGpuAttend *a);
/* The tile of number t: groups of heads, in a group the last queries of all heads first. */
void ts_gpu_attend_tile(TsGpuAttend *a, TsTileVal t);
/* A number of each group of warps. */
TsTileVal ts_gpu_attend_own(TsGpuAttend *a, const TsTileVal *of);
/* The first key of block j of the tile's. */
TsTileVal ts_gpu_attend_keys_at(TsGpuAttend *a, TsTileVal j);
/* Scores of block j with the mask, -inf where a row does not see. */
TsTileVal ts_gpu_attend_masked(TsGpuAttend *a, TsTileVal x, TsTileVal j);
/* Probabilities of the first block, and of others: with the factor of the sums so far. */
TsTileVal ts_gpu_attend_first(TsGpuAttend *a, TsTileVal x, TsGpuAttendRows *s);
TsTileVal ts_gpu_attend_next(TsGpuAttend *a, TsTileVal x, TsGpuAttendRows *s,
                             TsTileVal *factor);
/* The factor of a row's sums; its logarithm goes to memory. */
TsTileVal ts_gpu_attend_finish(TsGpuAttend *a, const TsGpuAttendRows *s);

/* ---- ir/tile/gpu/attention_warps.c */
void ts_gpu_attend_by_warps(TsGpuAttend *a); /* the kernel's body, of `warps` */

#endif
