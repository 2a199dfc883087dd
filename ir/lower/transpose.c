/* Copies in which another axis is the fastest one of the source than of the result: tiles of
 * the two axes, read along one and written along the other, which meet in shared memory. What
 * other axes there are is one loop. The copies are memory's work: beside a product of 4096 cubed
 * those of its operands take a tenth of its time. */
#include "ir/lower/transpose.h"

#include "ir/tile/sequence.h"
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

typedef TsTileVal V;

enum {
  LEAST = 16384, /* elements; fewer are copied one by one */
  SIDE = 64,     /* of a tile; 128 of elements of 16 bits or less */
  THIN = 8,      /* of an axis, at least */
};

/* The axis of neighbours in memory; -1: there is none, or elements that lie on each other. */
static int fastest(const TsMeta *m, const int64_t *stride) {
  int found = -1;
  for (int i = 0; i < m->ndim; i++) {
    if (m->dim[i] > 1 && stride[i] <= 0) return -1;
    if (m->dim[i] > 1 && stride[i] == 1) found = i;
  }
  return found;
}

bool ts_lower_transposes(const TsMeta *m, const int64_t *x, const int64_t *y) {
  int from = fastest(m, x), to = fastest(m, y);
  if (from < 0 || to < 0 || from == to) return false;
  return m->dim[from] >= THIN && m->dim[to] >= THIN && ts_meta_numel(m) >= LEAST;
}

/* Positions along the axes before others, of round r. */
static void put_batch(TsTileBuild *b, const TsMeta *m, V r, int from, int to, V *at) {
  int64_t left = 1;
  for (int i = 0; i < m->ndim; i++)
    if (i != from && i != to) left *= m->dim[i];
  for (int i = m->ndim; i-- > 0;) {
    if (i == from || i == to) continue;
    left /= m->dim[i];
    at[i] = m->dim[i] == 1 ? ts_tile_index(b, 0) : r;
    if (m->dim[i] == 1 || left == 1) continue;
    V size = ts_tile_index(b, m->dim[i]);
    at[i] = ts_tile_op2(b, TS_OP_mod, r, size);
    r = ts_tile_op2(b, TS_OP_floordiv, r, size);
  }
}

static int64_t side_of(int64_t n, int64_t most) {
  int64_t side = THIN;
  while (side < n && side < most) side *= 2;
  return side;
}

typedef struct Transpose {
  TsMeta m;
  int64_t x[TS_MAX_RANK], y[TS_MAX_RANK]; /* strides */
  int from, to;                           /* the axes of neighbours in x and in y */
} Transpose;

static TsTileType memory_of(const Transpose *t, const int64_t *stride) {
  TsTileType type = ts_tile_type((TsDtype)t->m.dtype, t->m.ndim, t->m.dim);
  ts_tile_set_strides(&type, stride);
  return type;
}

static TsTile *build(const Transpose *t) {
  const TsMeta *m = &t->m;
  int from = t->from, to = t->to;
  TsDtype d = (TsDtype)m->dtype;
  TsTile *k = ts_tile_new("transpose");
  if (!k) return NULL;
  int64_t side = ts_dtypes[d].nbytes > 2 ? SIDE : 2 * SIDE, batch = 1;
  int64_t dim[2] = {side_of(m->dim[to], side), side_of(m->dim[from], side)};
  for (int i = 0; i < m->ndim; i++)
    if (i != from && i != to) batch *= m->dim[i];
  TsTileType in = memory_of(t, t->x), out = memory_of(t, t->y);
  V x = ts_tile_param(k, "x", &in, false), y = ts_tile_param(k, "y", &out, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType tile = ts_tile_type(d, 2, dim);
  bool edge = m->dim[to] % dim[0] || m->dim[from] % dim[1];
  TsTileAccess read = {.edge = edge, .naxis = 2, .axes = (int64_t[]){to, from}};
  TsTileAccess write = {.edge = edge, .naxis = 2, .axes = (int64_t[]){from, to}};
  V zero = ts_tile_index(&b, 0), at[TS_TILE_RANK] = {NULL};
  TsTileLoop r = ts_tile_for(&b, zero, ts_tile_index(&b, batch), 1, true, 0, NULL);
  put_batch(&b, m, r.i, from, to, at);
  TsTileLoop i = ts_tile_for(&b, zero, ts_tile_index(&b, m->dim[from]), dim[1], true, 0, NULL);
  TsTileLoop j = ts_tile_for(&b, zero, ts_tile_index(&b, m->dim[to]), dim[0], true, 0, NULL);
  at[from] = i.i, at[to] = j.i;
  V v = ts_tile_load(&b, x, at, &tile, &read);
  v = ts_tile_transposed(&b, v);
  if (v) ts_tile_store(&b, y, at, v, &write);
  ts_tile_for_end(&b, &j, NULL, NULL);
  ts_tile_for_end(&b, &i, NULL, NULL);
  ts_tile_for_end(&b, &r, NULL, NULL);
  return k;
}

int ts_lower_transpose(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                       TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  TsVal from = n->in[0], to = (TsVal)&n->out[0];
  Transpose t = {.m = to->meta};
  if (from->meta.dtype != t.m.dtype || t.m.ndim > TS_TILE_RANK ||
      ts_dtypes[t.m.dtype].nbytes > 8 || !ts_meta_same_shape(&from->meta, &t.m))
    return 0;
  ts_sched_strides(layout, arg, from, t.x), ts_sched_strides(layout, arg, to, t.y);
  if (!ts_lower_transposes(&t.m, t.x, t.y)) return 0;
  t.from = fastest(&t.m, t.x), t.to = fastest(&t.m, t.y);
  t.m.dtype = (uint8_t)ts_short_bits((TsDtype)t.m.dtype);
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int list[2] = {ts_steps_in_place(&x, 0), ts_steps_into(&x, 0)};
  ts_steps_add(&x, build(&t), list, NULL);
  return ts_steps_end(&x, out);
}

/* ---- before a product */
/* As the whole sees it: sizes are numbers, and what is transposed lies as it does. */
static void parameter(TsTile *all, const TsTile *product, int i, bool transposed,
                      const int64_t *dim) {
  TsTileType t = product->param[i]->type;
  for (int a = 0; a < t.rank; a++)
    if (ts_tile_dim_is(t.dim[a])) t.dim[a] = dim[ts_tile_dim_index(t.dim[a])];
  int64_t first = t.dim[0];
  if (transposed) t.dim[0] = t.dim[1], t.dim[1] = first;
  ts_tile_param(all, product->param[i]->name, &t, i >= product->nin);
}

/* [rows, cols], row by row, becomes [cols, rows]. */
static TsTile *transposed_rows(TsDtype d, int64_t rows, int64_t cols) {
  return build(
      &(Transpose){.m = {.dtype = (uint8_t)ts_short_bits(d), .ndim = 2, .dim = {cols, rows}},
                   .x = {1, cols},
                   .y = {rows, 1},
                   .from = 0,
                   .to = 1});
}

static bool add_steps(TsTileSequence *to, TsTile *product, const bool transposes[2],
                      const int64_t size[3], const int64_t *dim) {
  TsDtype d = (TsDtype)product->param[0]->type.dtype;
  int arg[TS_TILE_STEP_PARAMS];
  bool good = true;
  for (int i = 0; i < product->nparam; i++) arg[i] = i;
  for (int i = 0; i < 2 && good; i++) {
    int64_t wide = size[i], k = size[2];
    if (!transposes[i]) continue;
    arg[i] = ts_tile_sequence_temp(to, wide * k * ts_dtypes[d].nbytes, false);
    good = ts_tile_sequence_add(to, transposed_rows(d, k, wide), (int[]){i, arg[i]}, NULL);
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
  if (to && add_steps(to, product, transposes, size, dim)) return all;
  if (!to) ts_tile_free(product);
  ts_tile_free(all);
  return ts_error_memory(err), NULL;
}
