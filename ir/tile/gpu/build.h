/* Short forms for kernels with roles, shared by those that build them (ir/tile/gpu). */
#ifndef TS_IR_TILE_GPU_BUILD_H
#define TS_IR_TILE_GPU_BUILD_H

#include "ir/tile/tile.h"

/* Bytes of the pattern that the matrix unit reads, rows of a group of warps, the most shared
 * memory of a block in bytes. */
enum { TS_GPU_PATTERN = 128, TS_GPU_GROUP_ROWS = 64, TS_GPU_SHARED = 232448 };

/* ---- statements with some attributes set */
typedef struct TsGpuOption {
  const char *name;
  TsAttr value;
} TsGpuOption;

TsAttr ts_gpu_whole(int64_t i);
TsAttr ts_gpu_word(const char *s);
TsAttr ts_gpu_choice(int i);
TsAttr ts_gpu_list(int n, const int64_t *v);

/* out NULL: no result. */
TsTileStmt *ts_gpu_say(TsTileBuild *b, int op, int nin, const TsTileVal *in, int n,
                       const TsGpuOption *o, const TsTileType *out);
/* Its result, NULL if there is none. */
TsTileVal ts_gpu_give(TsTileBuild *b, int op, int nin, const TsTileVal *in, int n,
                      const TsGpuOption *o, const TsTileType *out);

#define TS_GPU_IN(...)                                                                         \
  (int)(sizeof((TsTileVal[]){__VA_ARGS__}) / sizeof(TsTileVal)), (TsTileVal[]) { __VA_ARGS__ }
#define TS_GPU_SET(...)                                                                        \
  (int)(sizeof((TsGpuOption[]){__VA_ARGS__}) / sizeof(TsGpuOption)), (TsGpuOption[]) {         \
    __VA_ARGS__                                                                                \
  }
#define TS_GPU_PLAIN 0, NULL

/* ---- positions */
TsTileVal ts_gpu_by(TsTileBuild *b, int op, TsTileVal x, int64_t y);
static inline TsTileVal ts_gpu_named(TsTileVal v, const char *name) {
  if (v) v->name = name;
  return v;
}
TsTileVal ts_gpu_div_up(TsTileBuild *b, TsTileVal x, int64_t y);
TsTileVal ts_gpu_size(TsTileBuild *b, int index, const char *name);
/* The head says how the grid's numbers go over its tiles: "bands:4", "heads". */
void ts_gpu_order(TsTile *k, const char *order, int64_t n);
/* How many of `total` tiles block `first` of `blocks` has, which takes each blocks-th one. */
TsTileVal ts_gpu_share(TsTileBuild *b, TsTileVal total, TsTileVal first, TsTileVal blocks);

/* ---- memory */
TsTileVal ts_gpu_matrix(TsTileBuild *b, const char *name, TsDtype d, int64_t rows, int64_t cols,
                        bool written); /* a parameter */

/* ---- memory of a block */
TsTileVal ts_gpu_shared(TsTileBuild *b, const char *name, TsDtype d, int rank,
                        const int64_t *dim, int swizzle);
TsTileVal ts_gpu_barriers(TsTileBuild *b, const char *name, int n, int count);

/* ---- fragments */
TsTileType ts_gpu_fragment(TsDtype d, int64_t rows, int64_t cols); /* cols 0: of one axis */
TsTileVal ts_gpu_zeros(TsTileBuild *b, int64_t rows, int64_t cols);
/* f32 number everywhere. */
TsTileVal ts_gpu_all(TsTileBuild *b, double v, const TsTileType *like);
/* An operand of the matrix unit in a slot of shared memory; transposed: its axes exchanged. */
TsTileVal ts_gpu_operand(TsTileBuild *b, TsTileVal memory, TsTileVal slot, bool transposed);
TsTileVal ts_gpu_mma(TsTileBuild *b, TsTileVal x, TsTileVal y, TsTileVal acc);
TsTileVal ts_gpu_span(TsTileBuild *b, TsTileVal x, int64_t from, int64_t n);
/* Along rows (axis 0) or columns (1) of a tile of like's shape. */
TsTileVal ts_gpu_spread(TsTileBuild *b, TsTileVal x, const TsTileType *like, int axis);
/* 2 to the power of x, the larger one, of f32; NULL of NULL. */
TsTileVal ts_gpu_ex2(TsTileBuild *b, TsTileVal x);
TsTileVal ts_gpu_larger(TsTileBuild *b, TsTileVal x, TsTileVal y);

/* ---- control */
enum { TS_GPU_PRODUCTS = 1, TS_GPU_STORES = 2, TS_GPU_WRITES = 3 }; /* of commit and wait */
void ts_gpu_commit(TsTileBuild *b, int of);
void ts_gpu_wait(TsTileBuild *b, int of, int pending);
void ts_gpu_await(TsTileBuild *b, TsTileVal barrier, TsTileVal slot, TsTileVal parity);
void ts_gpu_arrive(TsTileBuild *b, TsTileVal barrier, TsTileVal slot);
void ts_gpu_plain(TsTileBuild *b, int op);
void ts_gpu_async_fence(TsTileBuild *b);
void ts_gpu_turn(TsTileBuild *b, bool end);
void ts_gpu_registers(TsTileBuild *b, int n);
/* Moves b into it; gives the region before. */
TsTileRegion *ts_gpu_role(TsTileBuild *b, const char *name, int warps);
TsTileRegion *ts_gpu_role_with_lanes(TsTileBuild *b, const char *name, int warps);
/* Bytes of one slot. */
int64_t ts_gpu_slot_bytes(TsTileVal memory);
/* The arrival of one thread at a barrier that also waits for a slot of that memory. */
void ts_gpu_expect(TsTileBuild *b, TsTileVal barrier, TsTileVal slot, TsTileVal memory);
/* Whole slots from rank 4 parameters, or rank 3 ones without a batch: one copy each, counted by
 * the barrier's slot. */
void ts_gpu_fetch(TsTileBuild *b, TsTileVal to, TsTileVal from, TsTileVal barrier,
                  TsTileVal slot, TsTileVal batch, TsTileVal head, TsTileVal row);
/* Of rank 3, what nobody reads again. */
void ts_gpu_fetch_once(TsTileBuild *b, TsTileVal to, TsTileVal from, TsTileVal barrier,
                       TsTileVal slot, TsTileVal head, TsTileVal row);

/* The same of as many rows of the slot, from `at` on. */
void ts_gpu_fetch_rows(TsTileBuild *b, TsTileVal to, TsTileVal from, TsTileVal barrier,
                       TsTileVal slot, int at, int rows, TsTileVal head, TsTileVal row);

/* The slot behind s of n, and the parity of its turn. */
void ts_gpu_advance(TsTileBuild *b, TsTileVal *s, TsTileVal *parity, int n);

/* region 0 of an if; the region before comes back. */
TsTileRegion *ts_gpu_when(TsTileBuild *b, TsTileVal condition);

/* repeat: values by n, what is carried inside by carry. _end yields, b moves behind it. */
typedef struct TsGpuRepeat {
  TsTileStmt *stmt;
  TsTileRegion *before;
  TsTileVal *carry;
} TsGpuRepeat;
TsGpuRepeat ts_gpu_repeat(TsTileBuild *b, int n, const TsTileVal *first);
void ts_gpu_repeat_end(TsTileBuild *b, TsGpuRepeat *l, TsTileVal again, const TsTileVal *next);

#endif
