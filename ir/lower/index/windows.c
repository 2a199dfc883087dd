/* scatter_add at the places that max_pool_index found, as the gradient of a maximum has it. A place lies in
 * a few windows, whose indices an element of the result looks at, in their order: the same sums as
 * element by element, of all places side by side and without sorting. */
#include "ir/lower/index/scatter.h"
#include "ir/lower/pool_window.h"

typedef TsTileVal V;

enum { PIECE = 512, MOST = 64 /* windows of a place */ };

typedef struct Windows {
  TsDtype d, acc;
  TsPoolWindow w;
  bool one; /* x is one number */
} Windows;

typedef struct Make {
  const Windows *s;
  TsTileBuild b;
  TsTileType t;
  V index, src;
  V place, base, step; /* of the element in its image; of its channel among the windows */
  V first[3],
      at[3]; /* of each axis: the first window that has the place; the place with padding */
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V by(Make *m, int op, V x, int64_t y) { return ts_short_by(&m->b, op, x, y); }

/* Windows of a place along an axis, at most. */
static int64_t windows_of(const TsPoolWindow *w, int a) {
  return (w->window[a] + w->stride[a] - 1) / w->stride[a];
}

static void find(Make *m, V i) {
  const TsPoolWindow *w = &m->s->w;
  V c = NULL, rest = i;
  if (w->last)
    c = by(m, TS_OP_mod, rest, w->channels), rest = by(m, TS_OP_floordiv, rest, w->channels);
  m->place = by(m, TS_OP_mod, rest, ts_pool_numel(w->in));
  for (int a = 3; a-- > 0;) {
    V own = by(m, TS_OP_mod, rest, w->in[a]);
    rest = by(m, TS_OP_floordiv, rest, w->in[a]);
    m->at[a] = by(m, TS_OP_add, own, w->padding[a]);
    V from = by(m, TS_OP_add, m->at[a], w->stride[a] - w->window[a]);
    m->first[a] = by(m, TS_OP_floordiv, from, w->stride[a]);
  }
  m->base = by(m, TS_OP_mul, rest, ts_pool_numel(w->out) * (w->last ? w->channels : 1));
  if (c) m->base = op2(m, TS_OP_add, m->base, c);
}

/* With what window number j of the place brings. */
static V add(Make *m, int64_t j, V acc) {
  const Windows *s = m->s;
  const TsPoolWindow *w = &s->w;
  TsTileBuild *b = &m->b;
  V in = NULL, at = NULL;
  int64_t each = windows_of(w, 1) * windows_of(w, 2);
  int64_t nth[3] = {j / each, j / windows_of(w, 2) % windows_of(w, 1), j % windows_of(w, 2)};
  for (int a = 0; a < 3; a++) {
    V o = nth[a] ? by(m, TS_OP_add, m->first[a], nth[a]) : m->first[a];
    V ok = op2(m, TS_OP_logical_and, by(m, TS_OP_ge, o, 0), by(m, TS_OP_lt, o, w->out[a]));
    V has = op2(m, TS_OP_le, by(m, TS_OP_mul, o, w->stride[a]), m->at[a]);
    ok = op2(m, TS_OP_logical_and, ok, has);
    in = in ? op2(m, TS_OP_logical_and, in, ok) : ok;
    at = at ? op2(m, TS_OP_add, by(m, TS_OP_mul, at, w->out[a]), o) : o;
  }
  at = op2(m, TS_OP_add, m->base, by(m, TS_OP_mul, at, w->last ? w->channels : 1));
  at = ts_tile_op3(b, TS_OP_where, in, at, ts_short_int(b, &m->t, -1));
  V index = ts_short_gather(b, m->index, at, true);
  V src = ts_tile_cast(b, ts_short_gather(b, m->src, at, true), s->acc);
  in = op2(m, TS_OP_logical_and, in, op2(m, TS_OP_eq, index, m->place));
  return ts_tile_op3(b, TS_OP_where, in, op2(m, TS_OP_add, acc, src), acc);
}

static TsTile *build(const Windows *s) {
  TsTile *k = ts_tile_new("scatter_add_windows");
  if (!k) return NULL;
  const TsPoolWindow *w = &s->w;
  Make m = {.s = s, .t = ts_tile_vector(TS_DT_i64, PIECE)};
  int64_t images = w->batch * w->channels, count = images * ts_pool_numel(w->out);
  int64_t n = images * ts_pool_numel(w->in), all = 1;
  V x = ts_short_param(k, "x", s->d, s->one ? 1 : n, false);
  m.index = ts_short_param(k, "index", TS_DT_i64, count, false);
  m.src = ts_short_param(k, "src", s->d, count, false);
  V y = ts_short_param(k, "y", s->d, n, true);
  m.b = ts_tile_build(k);
  k->threads = PIECE / 2, k->vector = 8;
  TsTileBuild *b = &m.b;
  TsTileAccess edge = {.edge = true};
  TsTileType line = ts_tile_vector(s->d, PIECE);
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, n), PIECE, true, 0, NULL);
  find(&m, by(&m, TS_OP_minimum, ts_short_positions(b, &m.t, l.i), n - 1));
  V acc = s->one ? ts_short_gather(b, x, ts_short_int(b, &m.t, 0), false)
                 : ts_tile_load(b, x, &l.i, &line, &edge);
  acc = ts_tile_cast(b, acc, s->acc);
  for (int a = 0; a < 3; a++) all *= windows_of(w, a);
  for (int64_t j = 0; j < all && acc; j++) acc = add(&m, j, acc);
  if (acc) ts_tile_store(b, y, &l.i, ts_tile_cast(b, acc, s->d), &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* The values of n are images and windows of that pool, with the space as one axis. */
static bool fits(const TsNode *n, const TsPoolWindow *w, int64_t axis) {
  const TsMeta *y = &n->out[0].meta, *index = &n->in[1]->meta, *src = &n->in[2]->meta;
  int space = w->last ? 1 : 2, channel = 3 - space;
  if (y->ndim != 3 || index->ndim != 3 || axis != space) return false;
  if (!ts_meta_same_shape(index, src) || !ts_meta_same_shape(y, &n->in[0]->meta)) return false;
  return y->dim[0] == w->batch && index->dim[0] == w->batch && y->dim[channel] == w->channels &&
         index->dim[channel] == w->channels && y->dim[space] == ts_pool_numel(w->in) &&
         index->dim[space] == ts_pool_numel(w->out);
}

int ts_lower_scatter_windows(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout,
                             void *arg, TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0], *pool = ts_sched_root(n->in[1])->node;
  TsDtype d = (TsDtype)n->out[0].meta.dtype;
  Windows s = {.d = d, .acc = (TsDtype)ts_dtypes[d].compute};
  int64_t all = 1, stride[TS_MAX_RANK];
  if (pool->op != TS_OP_max_pool_index || !ts_dtype_is(d, TS_KIND_F)) return 0;
  if (ts_dtype_in_blocks(d) || n->in[0]->meta.dtype != d || n->in[2]->meta.dtype != d) return 0;
  if (n->in[0]->meta.weak || n->in[2]->meta.weak || !ts_meta_numel(&n->in[1]->meta)) return 0;
  if (!ts_pool_window(&s.w, &pool->in[0]->meta, &pool->out[0].meta, pool->attr, false))
    return 0;
  int64_t axis = n->attr[0].i < 0 ? n->attr[0].i + n->out[0].meta.ndim : n->attr[0].i;
  if (!fits(n, &s.w, axis)) return 0;
  for (int a = 0; a < 3; a++) {
    if (s.w.dilation[a] != 1) return 0;
    all *= windows_of(&s.w, a);
  }
  if (all > MOST) return 0;
  ts_sched_strides(layout, arg, n->in[0], stride);
  s.one = !stride[0] && !stride[1] && !stride[2];
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int args[] = {s.one ? ts_steps_in_place(&x, 0) : ts_steps_in(&x, 0, NULL),
                ts_steps_in(&x, 1, NULL), ts_steps_in(&x, 2, NULL), ts_steps_out(&x, 0, NULL)};
  ts_steps_add(&x, build(&s), args, NULL);
  return ts_steps_end(&x, out);
}
