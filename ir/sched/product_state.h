/* A product that becomes a kernel in block form: shared by ir/sched/product.c and
 * ir/sched/product_square.c. */
#ifndef TS_IR_SCHED_PRODUCT_STATE_H
#define TS_IR_SCHED_PRODUCT_STATE_H

#include "ir/sched/lower.h"
#include "ir/sched/product.h"
#include "ir/sched/prologue.h"

/* What a product reads or writes. */
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

typedef struct TsProductLower {
  const TsSched *s;
  const TsGroup *g;
  TsLayoutFn *layout;
  void *arg;
  TsError *err;
  const TsNode *product;
  uint8_t side[TS_PROLOGUE_NODES]; /* by node of the group */
  TsProductAccess access[TS_SCHED_PARAMS];
  int naccess;
  int naxis; /* the batch's, rows, columns */
  int64_t axis[TS_TILE_RANK], k, block[2];
  TsDtype d, factor; /* of sums; of what is multiplied */
  const char *unit;  /* whose sums they are, or NULL */
  bool square;       /* it makes squares of them (ir/tile/square.h) */
  TsTile *tile;
  TsTileBuild b;
  TsTileVal at[TS_TILE_RANK];        /* of the round */
  TsTileVal made[TS_PROLOGUE_NODES]; /* by node of the group */
  TsSide now;                        /* of the node that is put, */
  int64_t shape[2];                  /* and its tiles */
  TsSchedChoice took;                /* of TsSchedKernel */
  bool told;
} TsProductLower;

/* Whether the target's matrix unit makes the sums, by operands as they lie in memory. */
const char *ts_sched_square_unit(const TsProductLower *l);
/* Rows and columns of a block, and the threads of one, in the tile's head. */
void ts_sched_square_block(TsProductLower *l, const TsProductSize *size);
/* The sums of the round's block. */
TsTileVal ts_sched_square_sums(TsProductLower *l);

#endif
