/* A group with one matmul on its way to a kernel: what product.c, operands.c,
 * nodes.c and square.c share. */
#ifndef TS_IR_SCHED_PRODUCT_STATE_H
#define TS_IR_SCHED_PRODUCT_STATE_H

#include "ir/sched/lower.h"
#include "ir/sched/product/product.h"
#include "ir/sched/prologue.h"

typedef struct TsProductAccess {
  TsVal v;
  TsSide side;                 /* what it is read for */
  int64_t from[TS_TILE_RANK];  /* strides along the axes of the group */
  int64_t moves[TS_TILE_RANK]; /* along the axes of the space; of A and B: along the batch's */
  int64_t step[2];             /* of A: rows, k; of B: k, columns */
  bool has[2];                 /* of A and B: these axes */
  bool written;
  TsTileVal param, tile;
} TsProductAccess;

enum { TS_PRODUCT_OPERANDS = TS_SCHED_PARAMS };

/* How operands of a unit that makes squares come: through registers, or past them. */
typedef struct TsProductStages {
  int threads, stages;
  int direct;  /* bytes that a lane copies at a time to shared memory; 0: through registers */
  bool paired; /* halves of the block's waves take turns at the unit */
} TsProductStages;

typedef struct TsProductLower {
  const TsSched *s;
  const TsGroup *g;
  TsLayoutFn *layout;
  void *arg;
  TsError *err;
  const TsNode *product;
  uint8_t side[TS_PROLOGUE_NODES]; /* by node of the group */
  TsProductAccess access[TS_PRODUCT_OPERANDS];
  int naccess;
  int naxis; /* the batch's, rows, columns */
  int64_t axis[TS_TILE_RANK], k, block[2];
  TsDtype d, factor; /* of sums; of what is multiplied */
  const char *unit;  /* whose sums they are, or NULL */
  bool square;       /* it makes squares of them (ir/tile/square.h) */
  TsProductStages how;
  TsTile *tile;
  TsTileBuild b;
  TsTileVal at[TS_TILE_RANK];        /* of the round */
  TsTileVal made[TS_PROLOGUE_NODES]; /* by node of the group */
  TsSide now;                        /* of the node that is put, */
  int64_t shape[2];                  /* and its tiles */
  TsSchedChoice took;                /* of TsSchedKernel */
  bool told;
} TsProductLower;

int ts_product_refuse(TsProductLower *l, const char *why);
/* A vector is a row of A, a column of B, whose axis the result has not. */
int64_t ts_product_rows(const TsNode *n);
int64_t ts_product_columns(const TsNode *n);

static inline bool ts_product_weak(TsVal v) { return v->node->op == TS_NODE_number; }
static inline bool ts_product_inside(const TsProductLower *l, TsVal v) {
  return l->s->of[ts_sched_root(v)->node->id] == l->g->index;
}

/* ---- operands.c */
/* What the kernel reads and writes; then the axes of its space. */
int ts_product_operands(TsProductLower *l);
void ts_product_axes(TsProductLower *l);
/* How v, used at values like `at`, moves along the axes of the group. */
int ts_product_moves(TsProductLower *l, const TsMeta *at, TsVal v, int64_t *moves);
/* The operand of the product's side, or of what follows the product; NULL: there is none. */
TsProductAccess *ts_product_part(TsProductLower *l, TsSide side, TsVal v);
TsProductAccess *ts_product_access(TsProductLower *l, TsVal v, const int64_t *moves);

/* ---- nodes.c */
/* Node i of the group on the tiles of this round. */
int ts_product_put(TsProductLower *l, int i);
void ts_product_store(TsProductLower *l, const TsProductAccess *a);

/* ---- square.c */
/* The target's matrix unit, if it makes the sums, of operands as they lie in memory, and what it multiplies
 * as `factor`; NULL. */
const char *ts_product_square_unit(TsProductLower *l);
/* Rows and columns of a block, its threads, how its operands come. */
void ts_product_square_block(TsProductLower *l, const TsProductSize *size);
/* The sums of the round's block. */
TsTileVal ts_product_square_sums(TsProductLower *l);
/* Steps of k of a stage. */
int64_t ts_product_square_depth(const TsProductLower *l);

/* ---- direct.c */
/* Bytes that a lane can copy at a time past its registers, if block, threads and stages are those of l;
 * 0: it cannot. */
int ts_product_direct_bytes(const TsProductLower *l);
/* Whether neighbours in memory lie across k. */
bool ts_product_lies_across(const TsProductAccess *a);
TsTileVal ts_product_direct_sums(TsProductLower *l);

#endif
