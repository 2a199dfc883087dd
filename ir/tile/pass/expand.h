/* The parts of the expansion of pointwise rows; the pass is ts_tile_expand of ir/tile/tile.h. */
#ifndef TS_IR_TILE_EXPAND_H
#define TS_IR_TILE_EXPAND_H

#include "ir/tile/copy.h"

typedef struct TsTileConstant {
  TsTileVal v;
  uint64_t bits;
  uint16_t op;
} TsTileConstant;

typedef struct TsTileExpand {
  TsTileCopy *c;
  TsTileType type;          /* the shape of the row at hand; its dtype is of no account */
  TsTileConstant *constant; /* made so far: a hash table */
  int nconstant, room;
  bool branches; /* what few elements need is behind a branch, */
  bool rare;     /* or TS_TILE_rare; else always computed */
} TsTileExpand;

/* A tile of the shape at hand whose elements are all this constant (op: const with the bits of
 * a double, or bits), made once for each region and those around it. */
TsTileVal ts_tile_expand_constant(TsTileExpand *x, int op, uint64_t bits, TsDtype d);

/* Puts the statements behind `mark` into a branch for `any`: *var[i] becomes after[i] there,
 * else before[i]. */
void ts_tile_expand_branch(TsTileExpand *x, TsTileVal any, TsTileStmt *mark, int n,
                           TsTileVal *const *var, TsTileVal const *before,
                           TsTileVal const *after);

/* The result of a row; NULL if the row is not for the type, or memory ran out. */
TsTileVal ts_tile_expand_f32(TsTileExpand *x, int op, const TsTileVal *in);
TsTileVal ts_tile_expand_f64(TsTileExpand *x, int op, const TsTileVal *in);
/* Of bool and integers. */
TsTileVal ts_tile_expand_int(TsTileExpand *x, int op, const TsTileVal *in);

#endif
