/* gather, one_hot on a device, what is read of views, and where indices lead. See ir/lower/index/index.h. */
#include "ir/lower/index/index.h"

typedef TsTileVal V;

enum { PIECE = 1024 };

/* ---- maps */
TsIndexMap ts_index_map(const TsMeta *shape, const TsMeta *index, int axis) {
  TsIndexMap m = {.ndim = index->ndim, .index = (TsDtype)index->dtype};
  int64_t x = 1, i = 1;
  for (int a = index->ndim; a-- > 0;) {
    m.dim[a] = index->dim[a], m.istride[a] = i, m.stride[a] = a == axis ? 0 : x;
    if (a == axis) m.step = x, m.size = shape->dim[a];
    i *= index->dim[a], x *= shape->dim[a];
  }
  return m;
}

TsIndexMap ts_index_map_slices(const TsStepsAxis *a, int64_t count, TsDtype index) {
  return (TsIndexMap){.ndim = 3,
                      .dim = {a->outer, count, a->inner},
                      .stride = {a->n * a->inner, 0, 1},
                      .istride = {0, 1, 0},
                      .step = a->inner,
                      .size = a->n,
                      .index = index};
}

int64_t ts_index_map_count(const TsIndexMap *m) {
  int64_t n = 1;
  for (int a = 0; a < m->ndim; a++) n *= m->dim[a];
  return n;
}

static V plus_times(TsTileBuild *b, V sum, V c, int64_t n) {
  if (!n || !c) return sum;
  V x = n == 1 ? c : ts_short_by(b, TS_OP_mul, c, n);
  return sum ? ts_tile_op2(b, TS_OP_add, sum, x) : x;
}

V ts_index_map_at(TsTileBuild *b, const TsIndexMap *m, V index, V e) {
  if (!e) return NULL;
  V rest = e, own = NULL, at = NULL, none = ts_short_int(b, &e->type, -1);
  V inside = ts_short_by(b, TS_TILE_ult, e, ts_index_map_count(m));
  for (int a = m->ndim; a-- > 0;) {
    bool first = true;
    for (int i = 0; i < a; i++) first &= m->dim[i] == 1;
    V c = first ? rest : ts_short_by(b, TS_OP_mod, rest, m->dim[a]);
    if (m->dim[a] > 1) own = plus_times(b, own, c, m->stride[a]);
    if (m->dim[a] > 1) at = plus_times(b, at, c, m->istride[a]);
    if (first) break;
    rest = ts_short_by(b, TS_OP_floordiv, rest, m->dim[a]);
  }
  if (!at) at = ts_short_int(b, &e->type, 0);
  at = ts_tile_op3(b, TS_OP_where, inside, at, none);
  V i = ts_tile_cast(b, ts_short_gather(b, index, at, true), TS_DT_i64);
  V below = ts_short_by(b, TS_OP_lt, i, 0);
  i = ts_tile_op3(b, TS_OP_where, below, ts_short_by(b, TS_OP_add, i, m->size), i);
  inside = ts_tile_op2(b, TS_OP_logical_and, inside, ts_short_by(b, TS_TILE_ult, i, m->size));
  own = plus_times(b, own, i, m->step);
  return ts_tile_op3(b, TS_OP_where, inside, own, none);
}

bool ts_index_takes(const TsMeta *index) {
  return ts_dtype_is((TsDtype)index->dtype, TS_KIND_I | TS_KIND_U | TS_KIND_B);
}

/* ---- reading */
typedef struct Reading {
  TsOp op;
  TsDtype d;
  TsIndexMap map;
  int64_t classes;
} Reading;

static V numbers(TsTileBuild *b, V first) {
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  return ts_tile_op2(b, TS_OP_add, ts_short_iota(b, &t, 0), ts_short_splat(b, &t, first));
}

/* Of each class whether it is the index's. */
static V of_class(TsTileBuild *b, const Reading *r, V index, V e) {
  V i = ts_short_gather(b, index, ts_short_by(b, TS_OP_floordiv, e, r->classes), true);
  V c = ts_short_by(b, TS_OP_mod, e, r->classes);
  return ts_tile_cast(b, ts_tile_op2(b, TS_OP_eq, ts_tile_cast(b, i, TS_DT_i64), c), r->d);
}

/* Sizes: elements of x, of the index, of y. */
static TsTile *build(const Reading *r) {
  TsTile *k = ts_tile_new(ts_op_info(r->op)->name);
  if (!k) return NULL;
  int64_t nx = ts_tile_size(k, "X"), ni = ts_tile_size(k, "I"), ny = ts_tile_size(k, "Y");
  TsTileType tx = ts_tile_vector(r->d, nx), ti = ts_tile_vector(r->map.index, ni);
  TsTileType ty = ts_tile_vector(r->d, ny);
  V x = r->classes ? NULL : ts_tile_param(k, "x", &tx, false);
  V index = ts_tile_param(k, "index", &ti, false), y = ts_tile_param(k, "y", &ty, true);
  TsTileBuild b = ts_tile_build(k);
  k->threads = PIECE / 4, k->vector = 8;
  V zero = ts_tile_index(&b, 0), count = ts_short_dim(&b, 2);
  TsTileLoop l = ts_tile_for(&b, zero, count, PIECE, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  V e = numbers(&b, l.i);
  V value = x ? ts_short_gather(&b, x, ts_index_map_at(&b, &r->map, index, e), true)
              : of_class(&b, r, index, e);
  ts_tile_store(&b, y, &l.i, value, &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

static bool set_gather(Reading *r, const TsNode *n) {
  const TsMeta *m = &n->in[0]->meta;
  TsDtype d = (TsDtype)n->out[0].meta.dtype;
  if (ts_dtype_in_blocks(d) || ts_dtypes[d].nbytes > 8 || !m->ndim || !ts_meta_numel(m))
    return false;
  r->d = ts_short_bits(d);
  r->map = ts_index_map(m, &n->in[1]->meta, ts_steps_axis(m, n->attr[0].i).at);
  return true;
}

/* take and index_select of what lies otherwise than row-major, which is copied first: of others
 * slices are read as they are (ir/sched/index.c). */
static bool set_view(Reading *r, const TsNode *n, TsLayoutFn *layout, void *arg) {
  const TsMeta *m = &n->in[0]->meta;
  TsDtype d = (TsDtype)n->out[0].meta.dtype;
  int64_t stride[TS_MAX_RANK], count = ts_meta_numel(&n->in[1]->meta);
  bool views = layout && (layout(arg, n->in[0], stride) || layout(arg, n->in[1], stride));
  if (!views || ts_dtype_in_blocks(d) || ts_dtypes[d].nbytes > 8 || !ts_meta_numel(m))
    return false;
  if (n->in[0]->node->op == TS_NODE_number || m->dtype != d) return false;
  TsStepsAxis flat = {0, 1, ts_meta_numel(m), 1};
  if (n->op == TS_OP_index_select) flat = ts_steps_axis(m, n->attr[0].i);
  r->d = ts_short_bits(d);
  r->map = ts_index_map_slices(&flat, count, (TsDtype)n->in[1]->meta.dtype);
  return true;
}

static bool set_one_hot(Reading *r, const TsNode *n) {
  r->d = (TsDtype)n->out[0].meta.dtype, r->classes = n->attr[0].i;
  r->map.index = (TsDtype)n->in[0]->meta.dtype;
  return !ts_dtype_in_blocks(r->d) && !ts_dtype_is(r->d, TS_KIND_C) && r->classes > 0;
}

int ts_lower_at_index(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                      TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  int which = n->op != TS_OP_one_hot;
  const TsMeta *index = &n->in[which]->meta, *y = &n->out[0].meta;
  Reading r = {.op = (TsOp)n->op};
  if (!ts_meta_numel(y) || !ts_index_takes(index)) return 0;
  bool reads = n->op == TS_OP_gather ? set_gather(&r, n)
               : which               ? set_view(&r, n, layout, arg)
                                     : set_one_hot(&r, n);
  if (!reads) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int list[3], count = 0;
  if (which) list[count++] = ts_steps_in(&x, 0, NULL);
  list[count++] = ts_steps_in(&x, which, NULL);
  list[count++] = ts_steps_out(&x, 0, NULL);
  int64_t dim[3] = {which ? ts_meta_numel(&n->in[0]->meta) : 0, ts_meta_numel(index),
                    ts_meta_numel(y)};
  ts_steps_guard(&x, which);
  ts_steps_add(&x, build(&r), list, dim);
  return ts_steps_end(&x, out);
}
