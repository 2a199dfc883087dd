/* What the two files of the gradients of attention share (ir/tile_gpu_attention_grad.c). */
#ifndef TS_IR_TILE_GPU_ATTENTION_GRAD_STATE_H
#define TS_IR_TILE_GPU_ATTENTION_GRAD_STATE_H

#include "ir/tile_gpu_attention_grad.h"
#include "ir/tile_gpu_build.h"

enum {
  TS_GPU_GRAD_KEYS = 128,
  TS_GPU_GRAD_WARPS = 8, /* of role mma */
  TS_GPU_GRAD_RING = 2,  /* slots of dq, each of a role that adds */
};

/* Where a ring is: slot and parity. */
typedef struct TsGpuRing {
  TsTileVal slot, parity;
} TsGpuRing;

typedef struct TsGpuGrad {
  TsGpuAttentionGrad x;
  TsTileBuild b;
  TsTileVal q, k, v, g, lse, delta, dq, dk, dv, turn, counter; /* parameters */
  TsTileVal nb, h, j, s, t, l, near, p;                        /* sizes */
  TsTileVal blocks, keys, heads, total, span, ahead, each;
  TsTileVal block;                                      /* the number of this one */
  TsTileVal sk, sv, sq, sg, ss, sdq, slse, sdelta, box; /* memory */
  TsTileVal full_kv, empty_kv, seen, full_q, empty_q, full_g, empty_g, full_dq, empty_dq;
  /* of this tile: its key block, its queries' */
  TsTileVal batch, key_head, n0, number, first, count;
} TsGpuGrad;

static inline TsTileVal ts_gpu_grad_number(TsGpuGrad *a, int64_t i) {
  return ts_tile_index(&a->b, i);
}
static inline TsTileVal ts_gpu_grad_op2(TsGpuGrad *a, int op, TsTileVal x, TsTileVal y) {
  return ts_tile_op2(&a->b, op, x, y);
}
static inline TsTileVal ts_gpu_grad_by(TsGpuGrad *a, int op, TsTileVal x, int64_t y) {
  return ts_gpu_by(&a->b, op, x, y);
}

/* The tile of number t: groups of heads, in a group the first keys of all heads first. */
void ts_gpu_grad_tile(TsGpuGrad *a, TsTileVal t);
/* Step j is the j-th block of queries from the end. */
TsTileVal ts_gpu_grad_block(TsGpuGrad *a, TsTileVal j);
/* Number of the next tile, whose keys and values are there. */
TsTileVal ts_gpu_grad_receive(TsGpuGrad *a, TsTileVal parity);
void ts_gpu_grad_mma(TsGpuGrad *a); /* adds the role */

#endif
