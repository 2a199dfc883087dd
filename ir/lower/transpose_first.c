/* See ir/lower/transpose_first.h. The copies are memory's work: beside a product of 4096 cubed they take
 * a tenth of its time. */
#include "ir/lower/transpose_first.h"

#include "ir/tile/gpu/build.h"
#include "ir/tile/sequence.h"

typedef TsTileVal V;

enum { SIDE = 64 /* of a tile, as of ir/lower/transpose.c */ };

static int64_t side_of(int64_t n, int64_t most) {
  int64_t side = 8;
  while (side < n && side < most) side *= 2;
  return side;
}

/* [rows, cols] to [cols, rows], tile by tile. */
static TsTile *build_transpose(TsDtype d, int64_t rows, int64_t cols) {
  TsTile *k = ts_tile_new("transpose");
  if (!k) return NULL;
  int64_t most = ts_dtypes[d].nbytes > 2 ? SIDE : 2 * SIDE;
  int64_t dim[2] = {side_of(rows, most), side_of(cols, most)};
  TsTileType in = ts_tile_type(d, 2, (int64_t[]){rows, cols}),
             out = ts_tile_type(d, 2, (int64_t[]){cols, rows}), tile = ts_tile_type(d, 2, dim),
             transposed = ts_tile_type(d, 2, (int64_t[]){dim[1], dim[0]});
  V x = ts_tile_param(k, "x", &in, false), y = ts_tile_param(k, "y", &out, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileAccess edge = {.edge = rows % dim[0] || cols % dim[1]};
  V zero = ts_tile_index(&b, 0);
  TsTileLoop i = ts_tile_for(&b, zero, ts_tile_index(&b, rows), dim[0], true, 0, NULL);
  TsTileLoop j = ts_tile_for(&b, zero, ts_tile_index(&b, cols), dim[1], true, 0, NULL);
  V v = ts_tile_load(&b, x, (V[]){i.i, j.i}, &tile, &edge);
  TsAttr perm = ts_gpu_list(2, (int64_t[]){1, 0});
  if (v) v = ts_tile_emit1(&b, TS_TILE_transpose, 1, &v, &perm, &transposed);
  if (v) ts_tile_store(&b, y, (V[]){j.i, i.i}, v, &edge);
  ts_tile_for_end(&b, &j, NULL, NULL);
  ts_tile_for_end(&b, &i, NULL, NULL);
  if (!k->failed) return k;
  ts_tile_free(k);
  return NULL;
}

/* As the whole sees it: sizes are numbers, and what is turned lies as it does. */
static void parameter(TsTile *all, const TsTile *product, int i, bool transposed,
                      const int64_t *dim) {
  TsTileType t = product->param[i]->type;
  for (int a = 0; a < t.rank; a++)
    if (ts_tile_dim_is(t.dim[a])) t.dim[a] = dim[ts_tile_dim_index(t.dim[a])];
  int64_t first = t.dim[0];
  if (transposed) t.dim[0] = t.dim[1], t.dim[1] = first;
  ts_tile_param(all, product->param[i]->name, &t, i >= product->nin);
}

static bool add_parts(TsTileSequence *to, TsTile *product, const bool transposes[2],
                      const int64_t size[3], const int64_t *dim) {
  TsDtype d = (TsDtype)product->param[0]->type.dtype;
  int arg[TS_TILE_STEP_PARAMS];
  bool good = true;
  for (int i = 0; i < product->nparam; i++) arg[i] = i;
  for (int i = 0; i < 2 && good; i++) {
    int64_t wide = size[i], k = size[2];
    if (!transposes[i]) continue;
    arg[i] = ts_tile_sequence_temp(to, wide * k * ts_dtypes[d].nbytes, false);
    good = ts_tile_sequence_add(to, build_transpose(d, k, wide), (int[]){i, arg[i]}, NULL);
  }
  if (good) return ts_tile_sequence_add(to, product, arg, dim);
  ts_tile_free(product);
  return false;
}

TsTile *ts_lower_transpose_first(TsTile *product, const bool transposes[2],
                                 const int64_t size[3], const int64_t *dim, TsError *err) {
  TsTile *all = product->nparam <= TS_TILE_STEP_PARAMS ? ts_tile_new("matmul") : NULL;
  for (int i = 0; all && i < product->nparam; i++)
    parameter(all, product, i, i < 2 && transposes[i], dim);
  TsTileSequence *to = all && !all->failed ? ts_tile_sequence(all) : NULL;
  if (to && add_parts(to, product, transposes, size, dim)) return all;
  if (!to) ts_tile_free(product);
  ts_tile_free(all);
  return ts_error_memory(err), NULL;
}
