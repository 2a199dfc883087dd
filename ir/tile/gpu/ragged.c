/* See ir/tile/gpu/ragged.h. */
#include "ir/tile/gpu/ragged.h"

#include "ir/tile/gpu/build.h"

typedef TsTileVal V;

V ts_gpu_items(TsTileBuild *b, V n) {
  return ts_gpu_named(ts_gpu_by(b, TS_OP_floordiv, n, TS_GPU_PLACES), "items");
}

V ts_gpu_place(TsTileBuild *b, V places, V items, TsGpuPlace kind, V item) {
  static const char *const name[] = {"row", "end", "group", "from", "count"};
  TsTileType one = ts_tile_scalar(TS_DT_i64);
  V at = ts_tile_op2(b, TS_OP_add, ts_gpu_by(b, TS_OP_mul, items, kind), item);
  return ts_gpu_named(ts_tile_load(b, places, &at, &one, NULL), name[kind]);
}

void ts_gpu_store_below(TsTileBuild *b, V to, V row, V col, V end, V y) {
  TsAttr yes = {.type = TS_ATTR_bool, .i = 1};
  ts_gpu_say(b, TS_TILE_store_below, TS_GPU_IN(to, row, col, end, y), TS_GPU_SET({"edge", yes}),
             NULL);
}
