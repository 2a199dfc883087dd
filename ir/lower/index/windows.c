/* scatter_add at the places that max_pool_index found, as the gradient of a maximum has it. A
 * place lies in a few windows, whose indices an element of the result looks at, in their order:
 * the same sums as element by element, of all places side by side and without sorting. */
#include "ir/lower/index/scatter.h"
#include "ir/lower/pool_window.h"

typedef TsTileVal V;

enum {
  PIECE = 512, /* elements of a round, about */
  MOST = 64,   /* windows of a place */
};

typedef struct Windows {
  TsDtype d, acc;
  TsPoolWindow w;
  bool one;        /* x is one number */
  int64_t tile[2]; /* positions along the last axis, and channels where they are last */
} Windows;

/* A round is a part of a line of an image: what all of it says of the other axes is computed
 * once. */
typedef struct Make {
  const Windows *s;
  TsTileBuild b;
  TsTileType t;
  V index, src;
  V line[2]; /* its position along the other axes */
  V x0, c0;  /* where it begins */
  V image;   /* its number, of channels that are first as well */
  V x, c;    /* of the tile */
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V by(Make *m, int op, V x, int64_t y) {
  return x && !x->type.rank ? op2(m, op, x, ts_tile_index(&m->b, y))
                            : ts_short_by(&m->b, op, x, y);
}

/* Windows of a place along an axis, at most. */
static int64_t windows_of(const TsPoolWindow *w, int a) {
  return (w->window[a] + w->stride[a] - 1) / w->stride[a];
}

/* Window number j along an axis of those that may have the position; *in: it is one, and has
 * it. */
static V window_at(Make *m, int a, V position, int64_t j, V *in) {
  const TsPoolWindow *w = &m->s->w;
  V at = by(m, TS_OP_add, position, w->padding[a]);
  V from = by(m, TS_OP_add, at, w->stride[a] - w->window[a]);
  V o = by(m, TS_OP_add, by(m, TS_OP_floordiv, from, w->stride[a]), j);
  V ok = op2(m, TS_OP_logical_and, by(m, TS_OP_ge, o, 0), by(m, TS_OP_lt, o, w->out[a]));
  *in = op2(m, TS_OP_logical_and, ok, op2(m, TS_OP_le, by(m, TS_OP_mul, o, w->stride[a]), at));
  return o;
}

static void open_line(Make *m, V r) {
  const Windows *s = m->s;
  const TsPoolWindow *w = &s->w;
  int64_t across = w->last ? w->channels / s->tile[1] : 1, along = w->in[2] / s->tile[0];
  TsTileBuild *b = &m->b;
  m->c0 = by(m, TS_OP_mul, by(m, TS_OP_mod, r, across), s->tile[1]);
  r = by(m, TS_OP_floordiv, r, across);
  m->x0 = by(m, TS_OP_mul, by(m, TS_OP_mod, r, along), s->tile[0]);
  r = by(m, TS_OP_floordiv, r, along);
  for (int a = 1; a >= 0; a--) {
    m->line[a] = by(m, TS_OP_mod, r, w->in[a]);
    r = by(m, TS_OP_floordiv, r, w->in[a]);
  }
  m->image = r;
  m->x = op2(m, TS_OP_add, ts_short_iota(b, &m->t, 0), ts_short_splat(b, &m->t, m->x0));
  m->c = op2(m, TS_OP_add, ts_short_iota(b, &m->t, 1), ts_short_splat(b, &m->t, m->c0));
}

/* With what window number j of the place brings. Of one that is none the index is behind the
 * end. */
static V add(Make *m, int64_t j, V place, V acc) {
  const Windows *s = m->s;
  const TsPoolWindow *w = &s->w;
  TsTileBuild *b = &m->b;
  int64_t each = windows_of(w, 1) * windows_of(w, 2), inner = w->last ? w->channels : 1;
  int64_t nth[3] = {j / each, j / windows_of(w, 2) % windows_of(w, 1), j % windows_of(w, 2)};
  V in[3], o[3];
  for (int a = 0; a < 3; a++) o[a] = window_at(m, a, a < 2 ? m->line[a] : m->x, nth[a], &in[a]);
  V line = op2(m, TS_OP_add, by(m, TS_OP_mul, m->image, w->out[0]), o[0]);
  line = op2(m, TS_OP_add, by(m, TS_OP_mul, line, w->out[1]), o[1]);
  line = by(m, TS_OP_mul, line, w->out[2] * inner);
  V all = op2(m, TS_OP_logical_and, in[0], in[1]);
  line = ts_tile_op3(b, TS_OP_where, all, line, ts_tile_index(b, INT32_MIN));
  V at = op2(m, TS_OP_add, by(m, TS_OP_mul, o[2], inner), ts_short_splat(b, &m->t, line));
  if (w->last) at = op2(m, TS_OP_add, at, m->c);
  V has = op2(m, TS_OP_logical_and, in[2], by(m, TS_OP_ge, at, 0));
  at = ts_tile_op3(b, TS_OP_where, has, at, ts_short_int(b, &m->t, -1));
  V index = ts_short_gather(b, m->index, at, true);
  V src = ts_tile_cast(b, ts_short_gather(b, m->src, at, true), s->acc);
  has = op2(m, TS_OP_logical_and, has, op2(m, TS_OP_eq, index, place));
  return ts_tile_op3(b, TS_OP_where, has, op2(m, TS_OP_add, acc, src), acc);
}

/* As memory, [lines, positions of a line, channels where they are last]. */
static TsTileType lines_of(const Windows *s) {
  const TsPoolWindow *w = &s->w;
  int64_t images = w->batch * (w->last ? 1 : w->channels);
  return ts_tile_type(
      s->d, 3, (int64_t[]){images * w->in[0] * w->in[1], w->in[2], w->last ? w->channels : 1});
}

static TsTile *build(const Windows *s) {
  static const int64_t axes[2] = {1, 2};
  TsTile *k = ts_tile_new("scatter_add_windows");
  if (!k) return NULL;
  const TsPoolWindow *w = &s->w;
  Make m = {.s = s, .t = ts_tile_type(TS_DT_i64, 2, s->tile)};
  TsTileType t = lines_of(s), tile = ts_tile_type(s->d, 2, s->tile);
  int64_t count = w->batch * w->channels * ts_pool_numel(w->out), all = 1;
  int64_t rounds = t.dim[0] * (t.dim[1] / s->tile[0]) * (t.dim[2] / s->tile[1]);
  V x = s->one ? ts_short_param(k, "x", s->d, 1, false) : ts_tile_param(k, "x", &t, false);
  m.index = ts_short_param(k, "index", TS_DT_i64, count, false);
  m.src = ts_short_param(k, "src", s->d, count, false);
  V y = ts_tile_param(k, "y", &t, true);
  m.b = ts_tile_build(k);
  TsTileBuild *b = &m.b;
  TsTileAccess how = {.naxis = 2, .axes = axes};
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, rounds), 1, true, 0, NULL);
  if (!l.stmt) return k;
  open_line(&m, l.i);
  V line = op2(&m, TS_OP_add, by(&m, TS_OP_mul, m.image, w->in[0]), m.line[0]);
  line = op2(&m, TS_OP_add, by(&m, TS_OP_mul, line, w->in[1]), m.line[1]);
  V to[3] = {line, m.x0, m.c0};
  V before = op2(&m, TS_OP_add, by(&m, TS_OP_mul, m.line[0], w->in[1]), m.line[1]);
  before = by(&m, TS_OP_mul, before, w->in[2]);
  V place = op2(&m, TS_OP_add, m.x, ts_short_splat(b, &m.t, before));
  V acc = s->one ? ts_short_gather(b, x, ts_short_int(b, &m.t, 0), false)
                 : ts_tile_load(b, x, to, &tile, &how);
  acc = ts_tile_cast(b, acc, s->acc);
  for (int a = 0; a < 3; a++) all *= windows_of(w, a);
  for (int64_t j = 0; j < all && acc; j++) acc = add(&m, j, place, acc);
  if (acc) ts_tile_store(b, y, to, ts_tile_cast(b, acc, s->d), &how);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* Whole parts of a line: channels first, then positions. */
static void choose(Windows *s) {
  const TsPoolWindow *w = &s->w;
  int64_t c = w->last ? w->channels : 1, x = w->in[2], n = 1;
  s->tile[1] = 1;
  for (int64_t i = 1; i <= c && i <= PIECE; i++)
    if (c % i == 0) s->tile[1] = i;
  for (int64_t i = 1; i <= x && i * s->tile[1] <= PIECE; i++)
    if (x % i == 0) n = i;
  s->tile[0] = n;
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
  if (all > MOST || ts_meta_numel(&n->out[0].meta) >= INT32_MAX) return 0;
  choose(&s);
  ts_sched_strides(layout, arg, n->in[0], stride);
  s.one = !stride[0] && !stride[1] && !stride[2];
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int args[] = {s.one ? ts_steps_in_place(&x, 0) : ts_steps_in(&x, 0, NULL),
                ts_steps_in(&x, 1, NULL), ts_steps_in(&x, 2, NULL), ts_steps_out(&x, 0, NULL)};
  ts_steps_add(&x, build(&s), args, NULL);
  return ts_steps_end(&x, out);
}
