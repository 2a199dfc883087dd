/* Transforms for which a block has no room, cut as the plan cuts its length first: columns of
 * the matrix [n1, n2] with the roots of the cut, then rows, between which the matrix lies in
 * device memory. Two phases of a kernel, with the butterflies and roots of the whole dataflow,
 * so that the bits are those of any other order of it.
 *
 * An element has a number x * n2 + y, where the first phase transforms along x, which becomes
 * k1, and the second one along y, which becomes k2, of frequency k1 + n1 * k2. A block has
 * elements that lie side by side: of the batch's inner axis, along axis 3 of its tiles, and
 * beside them some of the axis that it does not transform (the middle one) along axis 0. A
 * batch without an inner axis has the middle one in its place; the second phase then turns its
 * tiles in its last exchange. */
#include "ir/lower/fft/tile.h"
#include "ir/lower/short.h"

#include <stdlib.h>
#include <string.h>

typedef TsTileVal V;
typedef TsFftCx Cx;
typedef TsFftMake Make;

enum {
  WIDE = 128,  /* bytes side by side of a block, */
  SHORT = 512, /* where a transform has no more elements */
  TURNED = 8   /* rows of a block that turns them */
};

typedef struct Long {
  Make *m;
  const TsFftPlan *p;
  const void *line;
  bool even, inner; /* reals in pairs; there is an inner axis */
  int threads;
  V count, x, between;
  /* of the phase */
  TsTileLoop loop[3];
  V at_mid;
  int mid_axis; /* of the tiles now */
  int64_t mid;  /* size of the middle axis */
  bool edge;
} Long;

static V index_of(Long *l, int64_t i) { return ts_tile_index(&l->m->b, i); }
static Cx swapped(Cx x) { return (Cx){x.im, x.re}; }
static V op2(Long *l, int op, V x, V y) { return ts_fft_op(l->m, op, x, y); }
static V ints(Long *l, int64_t v) { return ts_fft_ints(l->m, v); }
static V by(Long *l, int op, V x, int64_t y) { return op2(l, op, x, ints(l, y)); }

bool ts_fft_long_fits(const Make *m, const TsFftNode *root) {
  return root->left && ts_fft_fits(m, root->n1) && ts_fft_fits(m, 2 * root->n2);
}

/* ---- where elements are */
/* Axes of memory [B, 1 or n, n or 1, middle, I] for those of the tile; `pairs`: of [.., 2, I].
 * The transformed axis of the tile is the one that has more than one element. */
static const int64_t *axes_of(const Long *l, bool pairs) {
  static const int64_t with[2][4] = {{3, 1, 2, 4}, {3, 1, 2, 5}};
  static const int64_t without[4] = {0, 1, 2, 3};
  return l->mid_axis == 0 ? with[pairs] : without;
}

static V mid_index(Long *l) {
  return op2(l, TS_OP_add, ts_fft_iota(l->m, l->mid_axis), ts_fft_splat(l->m, l->at_mid));
}

static V col_index(Long *l) {
  if (!l->inner) return ints(l, 0);
  return op2(l, TS_OP_add, ts_fft_iota(l->m, 3), ts_fft_splat(l->m, l->m->at_col));
}

/* Positions of elements at `j` of n along the axis, `each` of them an element of the transform;
 * -1, which is nowhere, where not `in`. */
static V place(Long *l, V j, int64_t each, int64_t n, V in) {
  V row = by(l, TS_OP_mul, ts_fft_splat(l->m, l->m->at_row), n);
  V at = op2(l, TS_OP_add, row, each == 1 ? j : by(l, TS_OP_mul, j, each));
  if (l->m->f->inner > 1) at = by(l, TS_OP_mul, at, l->m->f->inner);
  if (l->inner) at = op2(l, TS_OP_add, at, col_index(l));
  return in ? ts_tile_op3(&l->m->b, TS_OP_where, in, at, ints(l, -1)) : at;
}

/* ---- constants that differ from element to element: a table [n along `axis`, middle], of the tile's
 * own elements from `base` on. */
static Cx factor(Long *l, const TsFftTable *table, int axis, int64_t base, int64_t count) {
  static const int64_t turned[2] = {2, 1};
  Make *m = l->m;
  bool first = l->mid_axis == 0;
  int64_t own[2] = {count, m->dim[3]}, other[2] = {m->dim[0], count};
  int64_t axes[2] = {first ? 0 : axis, first ? axis : 3};
  TsTileType part = ts_tile_type(m->real, 2, first ? other : own);
  TsTileType all = ts_fft_tile_type(m, m->real);
  V at[3] = {index_of(l, 0), index_of(l, base), l->at_mid};
  Cx w = ts_fft_load(m, table->memory, at, &part, first ? turned : NULL, l->edge);
  return (Cx){ts_tile_broadcast(&m->b, w.re, &all, axes),
              ts_tile_broadcast(&m->b, w.im, &all, axes)};
}

static TsFftTable roots_of_cut(Long *l) {
  Make *m = l->m;
  const TsFftNode *n = l->p->root;
  TsFftTable table = ts_fft_table(m, 1, n->n1, n->n2);
  int lanes = 64 / m->size;
  for (int64_t k = 0; k < n->n1; k++)
    for (int64_t j = 0; j < n->n2; j++) {
      const char *w = n->twist + k * n->step + j / lanes * TS_FFT_ROW + j % lanes * m->size;
      ts_fft_table_set(m, &table, k * n->n2 + j, w, w + 64);
    }
  return table;
}

/* ---- what goes in */
typedef enum Given { PLAIN, REALS, PAIRS, HALF } Given;

static Given given(const Long *l) {
  const TsFftForm *f = l->m->f;
  if (f->part == TS_FFT_back) return PLAIN;
  if (f->kind == TS_FFT_c2r) return HALF;
  if (f->kind == TS_FFT_r2c && l->even) return PAIRS;
  return f->real || f->kind == TS_FFT_r2c ? REALS : PLAIN;
}

/* Elements of the transform that the axis has. */
static int64_t given_n(const Long *l) {
  const TsFftForm *f = l->m->f;
  if (f->part == TS_FFT_back) return l->m->length;
  int64_t n = f->in_n < f->n ? f->in_n : f->n;
  return given(l) == PAIRS ? n / 2 : n;
}

/* Whether elements lie as a matrix, all of them. */
static bool lies(const Long *l) {
  return l->m->f->part == TS_FFT_back ||
         (!l->p->m && given(l) != HALF && l->m->f->in_n >= l->m->f->n);
}

static bool as_complex(const Long *l) {
  return given(l) == PLAIN || (given(l) == PAIRS && !l->inner && lies(l));
}

static V input_param(Long *l) {
  Make *m = l->m;
  const TsFftForm *f = m->f;
  const TsFftNode *n = l->p->root;
  bool cx = as_complex(l), pairs = !cx && given(l) == PAIRS;
  int64_t B = ts_tile_size(m->k, "B"), N = ts_tile_size(m->k, "N"), I = f->inner;
  m->out->in = (f->part == TS_FFT_back ? l->p->root->n : f->in_n) *
               (m->wide && (given(l) == PLAIN || given(l) == HALF) ? 2 : 1);
  TsTileType t;
  if (!lies(l)) {
    bool two = given(l) == PLAIN || given(l) == HALF;
    t = ts_tile_vector(two && !m->wide ? TS_DT_i64 : m->real, N);
    return ts_tile_param(m->k, "x", &t, false);
  }
  int64_t dim[6] = {B, 1, n->n1, n->n2, pairs ? 2 : I, I}, stride[TS_TILE_RANK];
  t = cx ? ts_fft_memory(m, 5, dim) : ts_tile_type(m->real, 5 + pairs, dim);
  int64_t step = 1;
  for (int i = t.rank; i-- > 1; step *= t.dim[i]) stride[i] = step;
  int64_t axis = f->part == TS_FFT_back ? n->n : f->in_n;
  stride[0] = axis * I;
  if (cx && given(l) == PAIRS && !m->wide) stride[0] = axis / 2; /* elements are pairs */
  if (cx && given(l) != PAIRS && m->wide) stride[0] *= 2;
  ts_tile_set_strides(&t, stride);
  return ts_tile_param(m->k, "x", &t, false);
}

static V load_reals(Long *l, const V *at, bool pairs) {
  TsTileType t = ts_fft_tile_type(l->m, l->m->real);
  TsTileAccess a = {.edge = l->edge, .naxis = 4, .axes = axes_of(l, pairs)};
  return ts_tile_load(&l->m->b, l->x, at, &t, &a);
}

static Cx load_lying(Long *l, int64_t base) {
  Make *m = l->m;
  V zero = index_of(l, 0), i = index_of(l, base);
  V at[6] = {m->at_row, zero, i, l->at_mid, m->at_col, m->at_col};
  TsTileType t = ts_fft_tile_type(m, m->real);
  if (as_complex(l)) return ts_fft_load(m, l->x, at, &t, axes_of(l, false), l->edge);
  if (given(l) == REALS) return (Cx){load_reals(l, at, false), ts_fft_all(m, 0)};
  at[4] = zero;
  V re = load_reals(l, at, true);
  at[4] = index_of(l, 1);
  return (Cx){re, load_reals(l, at, true)};
}

/* Term j of the packed (the whole) spectrum out of the half one, re and im exchanged. */
static Cx load_half(Long *l, V j, const TsFftTable *roots, int64_t base, int64_t count) {
  Make *m = l->m;
  int64_t h = m->f->n / 2, n = l->even ? h : m->f->n;
  V mirror = op2(l, TS_OP_sub, ints(l, n), j), first = ts_fft_below(m, j, 1);
  V in = ts_fft_below(m, j, n);
  Cx none = {ts_fft_all(m, 0), ts_fft_all(m, 0)};
  if (!l->even) {
    V upper = op2(l, TS_OP_gt, j, ints(l, h));
    V k = ts_tile_op3(&m->b, TS_OP_where, upper, mirror, j);
    Cx a = ts_fft_gather(m, l->x, place(l, k, 1, h + 1, in), true);
    a = ts_fft_where(m, upper, ts_fft_conj(m, a), a);
    a.im = ts_tile_op3(&m->b, TS_OP_where, first, none.im, a.im);
    return swapped(ts_fft_where(m, in, a, none));
  }
  Cx own = ts_fft_gather(m, l->x, place(l, j, 1, h + 1, in), true);
  Cx other = ts_fft_gather(m, l->x, place(l, mirror, 1, h + 1, in), true);
  V low = ts_fft_below(m, j, (h + 1) / 2);
  Cx a = ts_fft_where(m, low, own, other), b = ts_fft_where(m, low, other, own);
  TsFftPair z = ts_fft_merge_pair(m, a, b, factor(l, roots, 2, base, count));
  Cx v = ts_fft_where(m, low, z.lower, z.upper);
  if (h % 2 == 0)
    v = ts_fft_where(m, op2(l, TS_OP_eq, j, ints(l, h / 2)), ts_fft_merge_middle(m, own), v);
  v = ts_fft_where(m, first, ts_fft_merge_ends(m, own, other), v);
  return l->p->m ? ts_fft_where(m, in, v, none) : v;
}

static Cx load_at(Long *l, V j) {
  Make *m = l->m;
  V in = ts_fft_below(m, j, given_n(l));
  if (given(l) == PLAIN) return ts_fft_gather(m, l->x, place(l, j, 1, m->f->in_n, in), true);
  bool pairs = given(l) == PAIRS;
  V at = place(l, j, 1 + pairs, m->f->in_n, in);
  V re = ts_fft_gather_real(m, l->x, at);
  if (!pairs) return (Cx){re, ts_fft_all(m, 0)};
  V next = ts_tile_op3(&m->b, TS_OP_where, in, by(l, TS_OP_add, at, m->f->inner), at);
  return (Cx){re, ts_fft_gather_real(m, l->x, next)};
}

static void load(Long *l, Cx *v) {
  Make *m = l->m;
  const TsFftNode *n = l->p->root;
  const TsFftStep *s = &m->step[0];
  bool chirps = m->f->part == TS_FFT_there, half = given(l) == HALF && l->even;
  TsFftTable roots = {.memory = NULL}, chirp = {.memory = NULL};
  int64_t h = m->f->n / 2;
  if (half) roots = ts_fft_line_table(m, l->line, 1, n->n1, n->n2, h, h);
  if (chirps) chirp = ts_fft_line_table(m, l->p->chirp, 1, n->n1, n->n2, l->p->n, 0);
  for (int64_t i = 0; i < s->e; i++) {
    int64_t base = i * s->m;
    V j = by(l, TS_OP_mul, ts_fft_own_index(m, 2, base), n->n2);
    j = op2(l, TS_OP_add, j, mid_index(l));
    v[i] = lies(l)            ? load_lying(l, base)
           : given(l) == HALF ? load_half(l, j, &roots, base, s->m)
                              : load_at(l, j);
    bool whole = given(l) == PLAIN || given(l) == REALS; /* half spectra come exchanged */
    if (m->f->inverse && whole && m->f->part != TS_FFT_back) v[i] = swapped(v[i]);
    if (!chirps) continue;
    Cx w = factor(l, &chirp, 2, base, s->m);
    v[i] = ts_fft_cmul(m, v[i], w.re, w.im);
  }
}

/* ---- what comes out */
/* Terms of one that are wanted. */
static int64_t wanted(const Long *l) {
  const TsFftForm *f = l->m->f;
  if (f->part == TS_FFT_there) return l->p->root->n;
  return f->kind == TS_FFT_r2c && !l->even ? f->n / 2 + 1 : l->p->n;
}

static bool gives_reals(const Long *l) {
  return l->m->f->kind == TS_FFT_c2r && l->m->f->part != TS_FFT_there;
}

/* Two reals of c2r that lie apart. */
static bool apart(const Long *l, bool all) {
  return gives_reals(l) && l->even && (l->inner || !all);
}

static V output_param(Long *l, bool all) {
  Make *m = l->m;
  const TsFftNode *n = l->p->root;
  int64_t B = ts_tile_dim(0), I = m->f->inner;
  bool pairs = apart(l, all), real = gives_reals(l) && (!l->even || pairs);
  int64_t dim[6] = {B, n->n2, 1, n->n1, pairs ? 2 : I, I};
  m->out->to = wanted(l) * (1 + ((m->wide && !real) || pairs));
  TsTileType t = real ? ts_tile_type(m->real, 5 + pairs, dim) : ts_fft_memory(m, 5, dim);
  int64_t Y = ts_tile_size(m->k, "Y");
  if (!all) t = ts_tile_vector(real || m->wide ? m->real : TS_DT_i64, Y);
  return ts_tile_param(m->k, "y", &t, true);
}

static void store_reals(Long *l, V y, const V *at, V x, bool pairs) {
  TsTileAccess a = {.edge = l->edge, .naxis = 4, .axes = axes_of(l, pairs)};
  ts_tile_store(&l->m->b, y, at, x, &a);
}

static void store_lying(Long *l, V y, int64_t base, Cx x) {
  Make *m = l->m;
  V zero = index_of(l, 0);
  V at[6] = {m->at_row, index_of(l, base), zero, l->at_mid, m->at_col, m->at_col};
  if (!gives_reals(l) || (l->even && !apart(l, true)))
    return ts_fft_store(m, y, at, x, axes_of(l, false), l->edge);
  bool pairs = apart(l, true);
  if (pairs) at[4] = zero;
  store_reals(l, y, at, x.re, pairs);
  if (!pairs) return;
  at[4] = index_of(l, 1);
  store_reals(l, y, at, x.im, true);
}

static void store_at(Long *l, V y, int64_t base, Cx x) {
  Make *m = l->m;
  bool pairs = apart(l, false);
  V k = by(l, TS_OP_mul, ts_fft_own_index(m, 1, base), l->p->root->n1);
  V mid = mid_index(l), in = ts_fft_below(m, mid, l->mid);
  k = op2(l, TS_OP_add, k, mid);
  in = op2(l, TS_OP_logical_and, in, ts_fft_below(m, k, wanted(l)));
  if (l->inner) in = op2(l, TS_OP_logical_and, in, ts_fft_below(m, col_index(l), m->f->inner));
  V at = place(l, k, 1 + pairs, wanted(l) * (1 + pairs), in);
  if (!gives_reals(l)) return ts_fft_scatter(m, y, at, x);
  ts_fft_scatter_real(m, y, at, x.re);
  if (!pairs) return;
  V next = ts_tile_op3(&m->b, TS_OP_where, in, by(l, TS_OP_add, at, m->f->inner), at);
  ts_fft_scatter_real(m, y, next, x.im);
}

/* What follows the transform: a product of Bluestein's, or what is wanted, scaled. */
static Cx finished(Long *l, const TsFftTable *w, int64_t base, int64_t count, Cx x) {
  const TsFftForm *f = l->m->f;
  if (f->part == TS_FFT_back) x = swapped(x);
  if (w->memory) {
    Cx c = factor(l, w, 1, base, count);
    x = ts_fft_cmul(l->m, x, c.re, c.im);
  }
  if (f->part == TS_FFT_there) return swapped(x);
  if (f->inverse || f->kind == TS_FFT_c2r) x = swapped(x);
  return f->kind == TS_FFT_r2c && l->even ? x : ts_fft_scaled(l->m, x);
}

static void store(Long *l, const Cx *v) {
  Make *m = l->m;
  const TsFftNode *n = l->p->root;
  const TsFftStep *s = &m->step[m->nstep - 1];
  bool there = m->f->part == TS_FFT_there, all = wanted(l) == n->n;
  TsFftTable w = {.memory = NULL};
  if (there) w = ts_fft_line_table(m, l->p->kernel, 1, n->n2, n->n1, n->n, 0);
  if (m->f->part == TS_FFT_back)
    w = ts_fft_line_table(m, l->p->chirp, 1, n->n2, n->n1, l->p->n, 0);
  V y = output_param(l, all);
  for (int64_t i = 0; i < s->e; i++) {
    Cx x = finished(l, &w, i * s->d, s->d, v[i]);
    if (all)
      store_lying(l, y, i * s->d, x);
    else
      store_at(l, y, i * s->d, x);
  }
}

/* ---- the two phases */
static void open_phase(Long *l, int64_t mid, int mid_axis) {
  Make *m = l->m;
  TsTileBuild *b = &m->b;
  int64_t step = mid_axis == 3 ? m->cols : m->rows;
  V zero = index_of(l, 0);
  l->loop[0] = ts_tile_for(b, zero, l->count, 1, true, 0, NULL);
  l->loop[1] = ts_tile_for(b, index_of(l, 0), index_of(l, mid), step, true, 0, NULL);
  m->at_row = l->loop[0].i, l->at_mid = l->loop[1].i;
  l->mid = mid, l->mid_axis = mid_axis;
  l->edge = mid % step != 0;
  if (l->inner) {
    int64_t I = m->f->inner;
    l->loop[2] = ts_tile_for(b, index_of(l, 0), index_of(l, I), m->cols, true, 0, NULL);
    m->at_col = l->loop[2].i;
    l->edge = l->edge || I % m->cols != 0;
  } else {
    m->at_col = index_of(l, 0);
  }
  ts_fft_take_shared(m, 0);
  ts_fft_first_dim(m);
}

static void close_phase(Long *l) {
  for (int i = 1 + l->inner; i >= 0; i--) ts_tile_for_end(&l->m->b, &l->loop[i], NULL, NULL);
}

/* Steps and tiles of a phase, that has as many threads as the other where there are rows for
 * them. */
static void cut(Long *l, const TsFftNode *side) {
  Make *m = l->m;
  const TsFftNode *n = l->p->root;
  bool left = side == n->left;
  int64_t mid = left ? n->n2 : n->n1, segment = l->inner && side->n <= SHORT ? WIDE : 0;
  m->length = side->n;
  ts_fft_passes(m, side);
  ts_fft_cut_steps(m);
  ts_fft_choose(m,
                l->inner ? m->f->inner
                : left   ? mid
                         : 1,
                l->inner ? mid : 1, segment ? segment : TS_FFT_SEGMENT);
  while (!l->inner && !left && m->rows < TURNED && ts_fft_fits(m, 2 * m->rows * side->n))
    m->rows *= 2;
  for (ts_fft_set_threads(m); m->k->threads < l->threads; ts_fft_set_threads(m)) {
    int64_t *more = l->inner ? &m->rows : left ? &m->cols : NULL;
    if (!more || 2 * *more > mid || !ts_fft_fits(m, 2 * m->rows * m->cols * side->n)) break;
    *more *= 2;
  }
}

/* Columns, whose terms are multiplied by the roots of the cut. */
static void columns(Long *l, Cx *v) {
  Make *m = l->m;
  const TsFftNode *n = l->p->root;
  cut(l, n->left);
  open_phase(l, n->n2, l->inner ? 0 : 3);
  load(l, v);
  ts_fft_core(m, v);
  TsFftTable table = roots_of_cut(l);
  const TsFftStep *s = &m->step[m->nstep - 1];
  V zero = index_of(l, 0);
  for (int64_t i = 0; i < s->e; i++) {
    Cx w = factor(l, &table, 1, i * s->d, s->d);
    V at[5] = {m->at_row, index_of(l, i * s->d), zero, l->at_mid, m->at_col};
    Cx x = ts_fft_cmul(m, v[i], w.re, w.im);
    ts_fft_store(m, l->between, at, x, axes_of(l, false), l->edge);
  }
  close_phase(l);
}

static void rows(Long *l, Cx *v) {
  static const int64_t axes[4] = {1, 2, 3, 4};
  Make *m = l->m;
  const TsFftNode *n = l->p->root;
  cut(l, n->right);
  m->transposed = !l->inner && m->nstep > 1;
  m->k->threads = l->threads;
  open_phase(l, n->n1, 0);
  TsTileType t = ts_fft_tile_type(m, m->real);
  V zero = index_of(l, 0);
  for (int64_t i = 0; i < m->step[0].e; i++) {
    V at[5] = {m->at_row, l->at_mid, zero, index_of(l, i * m->step[0].m), m->at_col};
    v[i] = ts_fft_load(m, l->between, at, &t, axes, l->edge);
  }
  ts_fft_core(m, v);
  if (m->transposed) l->mid_axis = 3;
  store(l, v);
  close_phase(l);
}

void ts_fft_long(Make *m, const TsFftPlan *p, const void *line) {
  const TsFftForm *f = m->f;
  const TsFftNode *n = p->root;
  Long l = {.m = m, .p = p, .line = line, .inner = f->inner > 1};
  l.even = f->kind != TS_FFT_c2c && f->n % 2 == 0;
  Cx *v = calloc(TS_FFT_LOCAL, sizeof *v);
  if (!v) return m->k->failed = true, (void)0;
  l.x = input_param(&l);
  l.count = ts_short_dim(&m->b, 0);
  TsTileType t = ts_fft_memory(m, 5, (int64_t[]){ts_tile_dim(0), n->n1, 1, n->n2, f->inner});
  l.between = ts_tile_alloc(&m->b, TS_SPACE_scratch, &t);
  cut(&l, n->left);
  int threads = m->k->threads;
  cut(&l, n->right);
  l.threads = m->k->threads > threads ? m->k->threads : threads;
  columns(&l, v);
  rows(&l, v);
  free(v);
}
