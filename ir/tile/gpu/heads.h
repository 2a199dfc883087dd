/* What kernels of attention share that copy and multiply by warps (cp.async, mma.sync): heads
 * in shared memory, products of 16 rows a warp; and for all of them the order of tiles and
 * which keys a tile of queries sees. */
#ifndef TS_IR_TILE_GPU_HEADS_H
#define TS_IR_TILE_GPU_HEADS_H

#include "ir/tile/gpu/build.h"

/* ---- tiles */
/* Of tile t: which one of its head (row), and the head, of all ones. In the order `near` heads
 * stand together; span: tiles of so many. */
void ts_gpu_heads_tile(TsTileBuild *b, TsTileVal t, TsTileVal near, TsTileVal span,
                       TsTileVal all, TsTileVal *row, TsTileVal *head);

/* Tiles of queries, and the blocks of keys that they are multiplied with. */
typedef struct TsGpuSeen {
  bool causal;
  int64_t window; /* 0: none */
  int rows, keys;
} TsGpuSeen;

/* The blocks of keys, of all ones, that some row of a tile sees whose first query stands at
 * `position`: the first one and how many, at least one. */
void ts_gpu_heads_seen(TsTileBuild *b, const TsGpuSeen *x, TsTileVal position, TsTileVal blocks,
                       TsTileVal *first, TsTileVal *count);

/* ---- by warps */
TsTileVal ts_gpu_heads_room(TsTileBuild *b, const char *name, TsDtype d, int slots,
                            int64_t rows, int64_t width);
/* A slot, of rows of a head from `row` on; behind the last one zeros. By all threads. */
void ts_gpu_heads_copy(TsTileBuild *b, TsTileVal to, TsTileVal slot, TsTileVal from,
                       TsTileVal batch, TsTileVal head, TsTileVal row);
void ts_gpu_heads_meet(TsTileBuild *b, int threads);
enum { TS_GPU_HEADS_STEPS = 8 }; /* of the unit along a row of 128 numbers */
/* The left operands of all steps of a slot. */
void ts_gpu_heads_hold(TsTileBuild *b, TsTileVal x, TsTileVal at, TsTileVal *to);
/* x y', of slots. held: x in registers already, or NULL. */
TsTileVal ts_gpu_heads_scores(TsTileBuild *b, TsTileVal x, TsTileVal at, const TsTileVal *held,
                              TsTileVal y, TsTileVal slot);
/* sum + p y: f32 p is rounded to y's type. */
TsTileVal ts_gpu_heads_add(TsTileBuild *b, TsTileVal p, TsTileVal y, TsTileVal slot,
                           TsTileVal sum);

#endif
