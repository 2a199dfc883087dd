/* tile @fill<N, value>() -> (%y): every element is the number whose bits, as an f64, are a
 * size. */
#include "jit/eager/state.h"

enum { PIECE = 1024 };

static TsTileVal number(TsTileBuild *b, TsDtype d) {
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  TsAttr which = {.type = TS_ATTR_int, .i = 1};
  TsTileVal bits = ts_tile_emit1(b, TS_TILE_dim, 0, NULL, &which, &index);
  return ts_tile_cast(b, ts_tile_bitcast(b, bits, TS_DT_f64), d);
}

TsTile *ts_offload_fill(TsDtype d) {
  TsTile *k = ts_tile_new("fill");
  if (!k) return NULL;
  int64_t n = ts_tile_size(k, "N");
  ts_tile_size(k, "value");
  TsTileType memory = ts_tile_type(d, 1, &n), tile = ts_tile_vector(d, PIECE);
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  TsTileVal y = ts_tile_param(k, "y", &memory, true);
  TsTileBuild b = ts_tile_build(k);
  TsAttr which = {.type = TS_ATTR_int, .i = 0};
  TsTileVal size = ts_tile_emit1(&b, TS_TILE_dim, 0, NULL, &which, &index);
  TsTileLoop loop = ts_tile_for(&b, ts_tile_index(&b, 0), size, PIECE, true, 0, NULL);
  TsTileVal x = ts_tile_broadcast(&b, number(&b, d), &tile, NULL);
  TsTileAccess edge = {.edge = true};
  ts_tile_store(&b, y, &loop.i, x, &edge);
  ts_tile_for_end(&b, &loop, NULL, NULL);
  if (!k->failed) return k;
  ts_tile_free(k);
  return NULL;
}
