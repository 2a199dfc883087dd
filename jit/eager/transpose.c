/* Copies in which another axis is the fastest one of the source than of the result: tiles of
 * the two axes, read along one and written along the other, which meet in shared memory. What
 * other axes there are is one loop. */
#include "jit/eager/state.h"

typedef TsTileVal V;

enum {
  LEAST = 16384, /* elements; fewer are copied one by one */
  SIDE = 64,     /* of a tile; 128 of elements of 16 bits or less */
  THIN = 8,      /* of an axis, at least */
};

/* The axis of neighbours in memory; -1: there is none, or elements that lie on each other. */
static int fastest(const Operand *o) {
  int found = -1;
  int64_t step = 1;
  int64_t stride[TS_MAX_RANK];
  for (int i = o->meta.ndim; i-- > 0; step *= o->meta.dim[i])
    stride[i] = o->strided ? o->stride[i] : step;
  for (int i = 0; i < o->meta.ndim; i++) {
    if (o->meta.dim[i] > 1 && stride[i] <= 0) return -1;
    if (o->meta.dim[i] > 1 && stride[i] == 1) found = i;
  }
  return found;
}

static bool turned(const Operand *x, const Operand *y) {
  const TsMeta *m = &y->meta;
  if (x->kind != OPERAND_tensor || x->meta.ndim != m->ndim) return false;
  int from = fastest(x), to = fastest(y);
  if (from < 0 || to < 0 || from == to) return false;
  return m->dim[from] >= THIN && m->dim[to] >= THIN && ts_meta_numel(m) >= LEAST;
}

bool ts_offload_turns(const Form *f) {
  for (int i = 0; i < f->nin; i++)
    if (turned(&f->in[i], &f->out[0])) return true;
  return false;
}

bool ts_offload_transposes(const Form *f) {
  const TsMeta *x = &f->in[0].meta, *y = &f->out[0].meta;
  if (f->op != TS_OP_cast || f->collapsed || x->dtype != y->dtype) return false;
  return y->ndim <= TS_TILE_RANK && ts_dtypes[y->dtype].nbytes <= 8 &&
         turned(&f->in[0], &f->out[0]);
}

static TsTileType memory_of(const Operand *o) {
  TsTileType t = ts_tile_type((TsDtype)o->meta.dtype, o->meta.ndim, o->meta.dim);
  t.strided = o->strided;
  for (int i = 0; o->strided && i < t.rank; i++) t.stride[i] = o->stride[i];
  return t;
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

TsTile *ts_offload_transpose(const Form *f) {
  const TsMeta *m = &f->out[0].meta;
  int from = fastest(&f->in[0]), to = fastest(&f->out[0]);
  TsDtype d = (TsDtype)m->dtype;
  TsTile *k = ts_tile_new("transpose");
  if (!k) return NULL;
  int64_t side = ts_dtypes[d].nbytes > 2 ? SIDE : 2 * SIDE, batch = 1;
  int64_t dim[2] = {side_of(m->dim[to], side), side_of(m->dim[from], side)};
  for (int i = 0; i < m->ndim; i++)
    if (i != from && i != to) batch *= m->dim[i];
  TsTileType in = memory_of(&f->in[0]), out = memory_of(&f->out[0]);
  V x = ts_tile_param(k, "x", &in, false), y = ts_tile_param(k, "y", &out, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType tile = ts_tile_type(d, 2, dim),
             turned = ts_tile_type(d, 2, (int64_t[]){dim[1], dim[0]});
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
  TsAttr perm = ts_attr_ints((int64_t[]){1, 0}, 2);
  if (v) v = ts_tile_emit1(&b, TS_TILE_transpose, 1, &v, &perm, &turned);
  if (v) ts_tile_store(&b, y, at, v, &write);
  ts_tile_for_end(&b, &j, NULL, NULL);
  ts_tile_for_end(&b, &i, NULL, NULL);
  ts_tile_for_end(&b, &r, NULL, NULL);
  if (!k->failed) return k;
  ts_tile_free(k);
  return NULL;
}
