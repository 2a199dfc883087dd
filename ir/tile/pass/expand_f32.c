/* Pointwise rows of f32 as primitive rows: the definitions of lib/elem over Tile IR. */
#define FLOAT    TS_DT_f32
#define INTEGER  TS_DT_i32
#define UNSIGNED uint32_t
#include "ir/tile/pass/elem.h"

#include "lib/elem/elem_f32.inc"

#include "ir/tile/pass/elem_rows.inc"

TsTileVal ts_tile_expand_f32(TsTileExpand *x, int op, const TsTileVal *in) {
  now = x;
  TsTileVal y = expand(op, in);
  now = NULL;
  return y;
}
