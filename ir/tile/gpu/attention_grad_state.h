/* What the files of the gradients of attention share (ir/tile/gpu/attention_grad.c). */
#ifndef TS_IR_TILE_GPU_ATTENTION_GRAD_STATE_H
#define TS_IR_TILE_GPU_ATTENTION_GRAD_STATE_H

#include "ir/tile/gpu/attention_grad.h"
#include "ir/tile/gpu/build.h"

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
  TsTileVal q, k, v, mask, g, lse, delta, dq, dk, dv, turn, counter; /* parameters */
  TsTileVal nb, h, j, s, t, l, near, p;                              /* sizes */
  TsTileVal blocks, keys, heads, total, span, offset, each;
  TsTileVal block;                                          /* the number of this one */
  TsTileVal sk, sv, sq, sg, ss, sdq, so, slse, sdelta, box; /* memory */
  TsTileVal full_kv, empty_kv, seen, full_q, empty_q, full_g, empty_g, full_dq, empty_dq;
  TsTileVal full_s;
  /* of this tile: its key block, its queries' */
  TsTileVal batch, key_head, n0, number, first, count;
  int keys_axis; /* of scores: 0, [keys, queries], or 1 */
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

/* Keys of a tile, queries of a step. */
static inline int ts_gpu_grad_keys(const TsGpuGrad *a) {
  return a->x.warps ? a->x.own : TS_GPU_GRAD_KEYS;
}
static inline int ts_gpu_grad_rows(const TsGpuGrad *a) {
  return a->x.warps ? a->x.step : a->x.rows;
}

/* A parameter [B,heads,rows,D]. */
TsTileVal ts_gpu_grad_heads(TsGpuGrad *a, const char *name, TsDtype d, int64_t heads,
                            int64_t rows, bool written);
/* The sizes, and the parameters that are read: lse and delta of so many axes, the last ones L and
 * `rows`. */
void ts_gpu_grad_given(TsGpuGrad *a, int rank, int64_t rows, int64_t size[8]);
void ts_gpu_grad_sizes(TsGpuGrad *a);
/* The tile of number t: groups of heads, in a group the first keys of all heads first. */
void ts_gpu_grad_tile(TsGpuGrad *a, TsTileVal t);
/* Query head e of the tile's key head, among its batch's. */
TsTileVal ts_gpu_grad_query_head(TsGpuGrad *a, TsTileVal e);
/* Step j is the j-th block of queries from the end. */
TsTileVal ts_gpu_grad_block(TsGpuGrad *a, TsTileVal j);
/* Slots of keys and values, and the one that a ring of them is at. */
int ts_gpu_grad_slots(const TsGpuGrad *a);
TsTileVal ts_gpu_grad_slot(TsGpuGrad *a, const TsGpuRing *kv);
void ts_gpu_grad_next_tile(TsGpuGrad *a, TsGpuRing *kv); /* to the next tile's */
/* Number of the next tile, whose keys and values are there. */
TsTileVal ts_gpu_grad_receive(TsGpuGrad *a, const TsGpuRing *kv);
void ts_gpu_grad_mma(TsGpuGrad *a); /* adds the role */

/* ---- ir/tile/gpu/attention_grad_step.c: what a step of the role that multiplies is made of */
/* x y' for this tile's x in a slot: [keys, queries]. */
TsTileVal ts_gpu_grad_scores(TsGpuGrad *a, TsTileVal x, TsTileVal at, TsTileVal y,
                             TsTileVal slot);
/* Those of the step that ring r is at, if there are more; else of anything. */
TsTileVal ts_gpu_grad_next_scores(TsGpuGrad *a, TsTileVal at, const TsGpuRing *r,
                                  TsTileVal more);
/* Of query head e of the key head, from query m0 on. */
TsTileVal ts_gpu_grad_probabilities(TsGpuGrad *a, TsTileVal x, TsTileVal slot, TsTileVal m0,
                                    TsTileVal e);
/* The same of scores with their mask; less: the logarithms, spread. */
TsTileVal ts_gpu_grad_exponentials(TsGpuGrad *a, TsTileVal x, TsTileVal less, TsTileVal m0);
/* Gradients of the scores. */
TsTileVal ts_gpu_grad_differences(TsGpuGrad *a, TsTileVal p, TsTileVal y, TsTileVal slot);
TsTileVal ts_gpu_grad_narrow(TsGpuGrad *a, TsTileVal x);
TsTileVal ts_gpu_grad_add_rows(TsGpuGrad *a, TsTileVal p, TsTileVal y, TsTileVal slot,
                               TsTileVal sum);
/* dq of the gradients in a slot. */
TsTileVal ts_gpu_grad_of_queries(TsGpuGrad *a, TsTileVal at, TsTileVal slot);
/* To a role that adds. */
void ts_gpu_grad_give_away(TsGpuGrad *a, TsTileVal dq, const TsGpuRing *w);
/* The slot of queries before this one. */
TsTileVal ts_gpu_grad_before(TsGpuGrad *a, TsTileVal slot);
/* What comes behind a step of a block and of query head `head` - 1 of the key head. */
void ts_gpu_grad_next_head(TsGpuGrad *a, TsTileVal block, TsTileVal head, TsTileVal *next_block,
                           TsTileVal *next_head);
/* A panel of sums, 64 columns from col on, to a slot of memory and from there to its place. */
void ts_gpu_grad_put(TsGpuGrad *a, TsTileVal to, TsTileVal x, int col, int slot, double factor);
void ts_gpu_grad_send(TsGpuGrad *a, TsTileVal to, TsTileVal from, int col, int slot);

/* ---- ir/tile/gpu/attention_grad_overlap.c */
/* A tile whose keys and values are there: its steps, its sums. */
void ts_gpu_grad_tile_overlap(TsGpuGrad *a, const TsGpuRing *kv, TsGpuRing *r, TsGpuRing *w);

#endif
