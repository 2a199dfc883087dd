/* Pointwise rows of f64 as primitive rows: the definitions of lib/elem over Tile IR. */
#define FLOAT    TS_DT_f64
#define INTEGER  TS_DT_i64
#define UNSIGNED uint64_t
#include "ir/tile/pass/elem.h"

#include "lib/elem/elem_f64.inc"

#include "ir/tile/pass/elem_rows.inc"

TsTileVal ts_tile_expand_f64(TsTileExpand *x, int op, const TsTileVal *in) {
  now = x;
  TsTileVal y = expand(op, in);
  now = NULL;
  return y;
}
