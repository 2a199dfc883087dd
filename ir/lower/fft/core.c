/* Passes of a transform on tiles: butterflies, roots, exchanges. See ir/lower/fft/tile.h. */
#include <stdlib.h>
#include <string.h>

#include "ir/lower/fft/tile.h"

typedef TsTileVal V;
typedef TsFftCx Cx;
typedef TsFftMake Make;

/* ---- tiles */
void ts_fft_set_dim(Make *m, int64_t r, int64_t d, int64_t t, int64_t c) {
  m->dim[0] = r, m->dim[1] = d, m->dim[2] = t, m->dim[3] = c;
}

void ts_fft_first_dim(Make *m) {
  ts_fft_set_dim(m, m->rows, m->step[0].d, m->step[0].m, m->cols);
}

TsTileType ts_fft_tile_type(const Make *m, TsDtype d) { return ts_tile_type(d, 4, m->dim); }

V ts_fft_all(Make *m, double v) {
  TsTileType t = ts_fft_tile_type(m, m->real);
  return ts_tile_const(&m->b, v, &t);
}

V ts_fft_splat(Make *m, V scalar) {
  TsTileType t = ts_fft_tile_type(m, TS_DT_i64);
  return ts_tile_broadcast(&m->b, scalar, &t, NULL);
}

V ts_fft_ints(Make *m, int64_t v) {
  TsTileType t = ts_fft_tile_type(m, TS_DT_i64);
  return ts_tile_bits(&m->b, (uint64_t)v, &t);
}

V ts_fft_iota(Make *m, int axis) {
  TsTileType t = ts_fft_tile_type(m, TS_DT_i64);
  TsAttr a = {.type = TS_ATTR_int, .i = axis};
  return ts_tile_emit1(&m->b, TS_TILE_iota, 0, NULL, &a, &t);
}

/* The constant at p, of the real type, everywhere. */
static V constant(Make *m, const void *p) {
  TsTileType t = ts_fft_tile_type(m, m->real);
  uint64_t bits = 0;
  memcpy(&bits, p, (size_t)m->size);
  return ts_tile_bits(&m->b, bits, &t);
}

static V add(Make *m, V x, V y) { return ts_fft_op(m, TS_OP_add, x, y); }
static V sub(Make *m, V x, V y) { return ts_fft_op(m, TS_OP_sub, x, y); }
static V mul(Make *m, V x, V y) { return ts_fft_op(m, TS_OP_mul, x, y); }
static V fma3(Make *m, V x, V y, V z) { return ts_tile_op3(&m->b, TS_OP_fma, x, y, z); }
static V neg(Make *m, V x) { return ts_tile_op1(&m->b, TS_OP_neg, x); }

static Cx cadd(Make *m, Cx a, Cx b) { return (Cx){add(m, a.re, b.re), add(m, a.im, b.im)}; }
static Cx csub(Make *m, Cx a, Cx b) { return (Cx){sub(m, a.re, b.re), sub(m, a.im, b.im)}; }
/* a - i b and a + i b. */
static Cx sub_i(Make *m, Cx a, Cx b) { return (Cx){add(m, a.re, b.im), sub(m, a.im, b.re)}; }
static Cx add_i(Make *m, Cx a, Cx b) { return (Cx){sub(m, a.re, b.im), add(m, a.im, b.re)}; }

Cx ts_fft_cmul(Make *m, Cx a, V wr, V wi) {
  return (Cx){fma3(m, a.re, wr, neg(m, mul(m, a.im, wi))), fma3(m, a.re, wi, mul(m, a.im, wr))};
}

Cx ts_fft_where(Make *m, V c, Cx a, Cx b) {
  return (Cx){ts_tile_op3(&m->b, TS_OP_where, c, a.re, b.re),
              ts_tile_op3(&m->b, TS_OP_where, c, a.im, b.im)};
}

/* ---- memory */
Cx ts_fft_unpack(Make *m, V x) {
  if (!x) return (Cx){NULL, NULL};
  TsTileType t = x->type;
  t.dtype = TS_DT_i64;
  V by = ts_tile_bits(&m->b, 32, &t), in[2] = {x, by};
  V high = ts_tile_emit1(&m->b, TS_TILE_shr, 2, in, NULL, &t);
  return (Cx){ts_tile_bitcast(&m->b, ts_tile_cast(&m->b, x, TS_DT_i32), TS_DT_f32),
              ts_tile_bitcast(&m->b, ts_tile_cast(&m->b, high, TS_DT_i32), TS_DT_f32)};
}

V ts_fft_pack(Make *m, Cx x) {
  if (!x.re || !x.im) return NULL;
  TsTileType t = x.re->type;
  t.dtype = TS_DT_i64;
  V low = ts_tile_cast(&m->b, ts_tile_bitcast(&m->b, x.re, TS_DT_i32), TS_DT_i64);
  V high = ts_tile_cast(&m->b, ts_tile_bitcast(&m->b, x.im, TS_DT_i32), TS_DT_i64);
  V in[2] = {high, ts_tile_bits(&m->b, 32, &t)};
  high = ts_tile_emit1(&m->b, TS_TILE_shl, 2, in, NULL, &t);
  low = ts_fft_op(m, TS_OP_bitwise_and, low, ts_tile_bits(&m->b, 0xffffffffu, &t));
  return ts_fft_op(m, TS_OP_bitwise_or, low, high);
}

TsTileType ts_fft_memory(const Make *m, int rank, const int64_t *dim) {
  int64_t all[TS_TILE_RANK];
  memcpy(all, dim, sizeof *dim * (size_t)rank);
  all[rank] = 2;
  return m->wide ? ts_tile_type(TS_DT_f64, rank + 1, all) : ts_tile_type(TS_DT_i64, rank, all);
}

/* Axes of the memory for those of the tile, and positions, with one more for the part. */
typedef struct Where {
  V at[TS_TILE_RANK];
  TsTileAccess a;
  int64_t axes[TS_TILE_RANK];
} Where;

static Where where_of(V memory, int rank, const V *at, const int64_t *axes, bool pairs,
                      bool edge) {
  Where w = {.a = {.edge = edge, .naxis = rank}};
  int n = memory->type.rank - pairs;
  for (int i = 0; i < n; i++) w.at[i] = at[i];
  for (int i = 0; i < rank; i++) w.axes[i] = axes ? axes[i] : n - rank + i;
  return w;
}

Cx ts_fft_load(Make *m, V memory, const V *at, const TsTileType *tile, const int64_t *axes,
               bool edge) {
  V part[2];
  if (!memory) return (Cx){NULL, NULL};
  TsTileType t = *tile;
  t.dtype = m->wide ? TS_DT_f64 : TS_DT_i64;
  Where w = where_of(memory, t.rank, at, axes, m->wide, edge);
  w.a.axes = w.axes;
  if (!m->wide) return ts_fft_unpack(m, ts_tile_load(&m->b, memory, w.at, &t, &w.a));
  for (int i = 0; i < 2; i++) {
    w.at[memory->type.rank - 1] = ts_tile_index(&m->b, i);
    part[i] = ts_tile_load(&m->b, memory, w.at, &t, &w.a);
  }
  return (Cx){part[0], part[1]};
}

void ts_fft_store(Make *m, V memory, const V *at, Cx x, const int64_t *axes, bool edge) {
  if (!memory || !x.re) return;
  Where w = where_of(memory, x.re->type.rank, at, axes, m->wide, edge);
  w.a.axes = w.axes;
  if (!m->wide) {
    ts_tile_store(&m->b, memory, w.at, ts_fft_pack(m, x), &w.a);
    return;
  }
  for (int i = 0; i < 2; i++) {
    w.at[memory->type.rank - 1] = ts_tile_index(&m->b, i);
    ts_tile_store(&m->b, memory, w.at, i ? x.im : x.re, &w.a);
  }
}

void ts_fft_views(Make *m, int rank, const int64_t *dim, V view[2]) {
  TsTileType t = ts_tile_type(m->wide ? TS_DT_f64 : TS_DT_i64, rank, dim);
  t.space = TS_SPACE_shared;
  for (int i = 0; i < 1 + m->wide; i++)
    view[i] = ts_tile_emit1(&m->b, TS_TILE_view, 1, &m->shared[i], NULL, &t);
}

void ts_fft_put(Make *m, const V view[2], const V *at, Cx x, bool edge) {
  TsTileAccess a = {.edge = edge};
  if (!m->wide) {
    ts_tile_store(&m->b, view[0], at, ts_fft_pack(m, x), &a);
    return;
  }
  ts_tile_store(&m->b, view[0], at, x.re, &a);
  ts_tile_store(&m->b, view[1], at, x.im, &a);
}

Cx ts_fft_get(Make *m, const V view[2], const V *at, const TsTileType *tile,
              const int64_t *axes) {
  TsTileType t = *tile;
  TsTileAccess a = {.naxis = axes ? t.rank : 0, .axes = axes};
  t.dtype = m->wide ? TS_DT_f64 : TS_DT_i64;
  V x = ts_tile_load(&m->b, view[0], at, &t, &a);
  if (!m->wide) return ts_fft_unpack(m, x);
  return (Cx){x, ts_tile_load(&m->b, view[1], at, &t, &a)};
}

/* ---- tables */
TsFftTable ts_fft_table(Make *m, int64_t rows, int64_t d, int64_t t) {
  TsFftTile *o = m->out;
  int64_t dim[3] = {rows, d, t};
  TsFftTable table = {.rows = rows, .d = d, .t = t};
  size_t at = (o->nbytes + 255) / 256 * 256;
  size_t n = (size_t)(rows * d * t) * 2 * (size_t)m->size;
  if (m->k->failed) return table;
  m->crowded = o->ntable == TS_FFT_TABLES;
  char *all = m->crowded ? NULL : realloc(o->table, at + n);
  if (!all) return m->k->failed = true, table;
  memset(all + o->nbytes, 0, at + n - o->nbytes);
  o->table = all, o->nbytes = at + n;
  o->offset[o->ntable++] = at;
  table.at = all + at;
  TsTileType type = ts_fft_memory(m, 3, dim);
  table.memory = ts_tile_param(m->k, NULL, &type, false);
  return table;
}

void ts_fft_table_set(Make *m, const TsFftTable *t, int64_t index, const void *re,
                      const void *im) {
  if (!t->at) return;
  char *to = t->at + index * 2 * m->size;
  memcpy(to, re, (size_t)m->size);
  memcpy(to + m->size, im, (size_t)m->size);
}

Cx ts_fft_table_row(Make *m, const TsFftTable *t, int64_t row) {
  static const int64_t axes[2] = {1, 2};
  int64_t dim[2] = {t->d, t->t};
  TsTileType part = ts_tile_type(m->real, 2, dim), all = ts_fft_tile_type(m, m->real);
  V zero = ts_tile_index(&m->b, 0), at[3] = {ts_tile_index(&m->b, row), zero, zero};
  Cx w = ts_fft_load(m, t->memory, at, &part, axes, false);
  return (Cx){ts_tile_broadcast(&m->b, w.re, &all, axes),
              ts_tile_broadcast(&m->b, w.im, &all, axes)};
}

/* ---- butterflies, as vm/kernels/fft/fft.h has them */
static void four(Make *m, Cx *a0, Cx *a1, Cx *a2, Cx *a3) {
  Cx t0 = cadd(m, *a0, *a2), t1 = csub(m, *a0, *a2);
  Cx t2 = cadd(m, *a1, *a3), t3 = csub(m, *a1, *a3);
  *a0 = cadd(m, t0, t2);
  *a1 = sub_i(m, t1, t3);
  *a2 = csub(m, t0, t2);
  *a3 = add_i(m, t1, t3);
}

static V root_half(Make *m, bool negative) {
  double d = 0.70710678118654752440;
  float s = (float)d;
  if (negative) d = -d, s = -s;
  return constant(m, m->wide ? (void *)&d : (void *)&s);
}

static void eight(Make *m, Cx *a) {
  V h = root_half(m, false), g = root_half(m, true);
  four(m, &a[0], &a[2], &a[4], &a[6]);
  four(m, &a[1], &a[3], &a[5], &a[7]);
  Cx e0 = a[0], e1 = a[2], e2 = a[4], e3 = a[6], o0 = a[1], o1 = a[3], o2 = a[5], o3 = a[7];
  a[0] = cadd(m, e0, o0);
  a[4] = csub(m, e0, o0);
  a[2] = sub_i(m, e2, o2);
  a[6] = add_i(m, e2, o2);
  V s = add(m, o1.re, o1.im), d = sub(m, o1.im, o1.re);
  a[1] = (Cx){fma3(m, h, s, e1.re), fma3(m, h, d, e1.im)};
  a[5] = (Cx){fma3(m, g, s, e1.re), fma3(m, g, d, e1.im)};
  s = add(m, o3.re, o3.im), d = sub(m, o3.im, o3.re);
  a[3] = (Cx){fma3(m, h, d, e3.re), fma3(m, g, s, e3.im)};
  a[7] = (Cx){fma3(m, g, d, e3.re), fma3(m, h, s, e3.im)};
}

static V root_of(Make *m, const TsFftPass *p, int i) {
  return constant(m, (const char *)p->chain->root[p->index] + i * m->size);
}

static void odd(Make *m, const TsFftPass *p, Cx *a) {
  int r = p->r, half = r / 2;
  Cx y[TS_FFT_LOCAL], sum = a[0];
  for (int j = 1; j <= half; j++) {
    Cx s = cadd(m, a[j], a[r - j]), d = csub(m, a[j], a[r - j]);
    sum = cadd(m, sum, s);
    a[j] = s, a[r - j] = d;
  }
  y[0] = sum;
  for (int k = 1; k <= half; k++) {
    V c1 = root_of(m, p, k), s1 = root_of(m, p, r + k);
    Cx c = {fma3(m, c1, a[1].re, a[0].re), fma3(m, c1, a[1].im, a[0].im)};
    Cx e = {mul(m, s1, a[r - 1].re), mul(m, s1, a[r - 1].im)};
    for (int j = 2; j <= half; j++) {
      V cs = root_of(m, p, j * k % r), sn = root_of(m, p, r + j * k % r);
      c = (Cx){fma3(m, cs, a[j].re, c.re), fma3(m, cs, a[j].im, c.im)};
      e = (Cx){fma3(m, sn, a[r - j].re, e.re), fma3(m, sn, a[r - j].im, e.im)};
    }
    y[k] = sub_i(m, c, e);
    y[r - k] = add_i(m, c, e);
  }
  memcpy(a, y, sizeof *a * (size_t)r);
}

static void butterfly(Make *m, const TsFftPass *p, Cx *a) {
  if (p->r == 2) {
    Cx x = a[0];
    a[0] = cadd(m, x, a[1]);
    a[1] = csub(m, x, a[1]);
  } else if (p->r == 4) {
    four(m, &a[0], &a[1], &a[2], &a[3]);
  } else if (p->r == 8) {
    eight(m, a);
  } else {
    odd(m, p, a);
  }
}

/* ---- roots behind a pass */
typedef struct Root {
  const char *re, *im; /* NULL: none */
} Root;

/* For frequency number K and time number T behind the pass, of `done` and `left` of them. */
static Root root_at(const Make *m, const TsFftPass *p, int k, int64_t K, int64_t T,
                    int64_t left) {
  if (p->rest > 1) {
    int64_t at = T / (left / p->rest);
    if (!at || !k) return (Root){NULL, NULL};
    const char *w =
        (const char *)p->chain->w[p->index] + 2 * ((at - 1) * (p->r - 1) + k - 1) * m->size;
    return (Root){w, w + m->size};
  }
  const TsFftNode *n = p->twist;
  if (!n) return (Root){NULL, NULL};
  int lanes = 64 / m->size;
  int64_t row = K / p->before, t = T / (left / n->n2);
  const char *w = n->twist + row * n->step + t / lanes * TS_FFT_ROW + t % lanes * m->size;
  return (Root){w, w + 64};
}

static bool same_root(const Make *m, Root a, Root b) {
  if (!a.re || !b.re) return !a.re && !b.re;
  return !memcmp(a.re, b.re, (size_t)m->size) && !memcmp(a.im, b.im, (size_t)m->size);
}

/* One pass of a step, of whose local digits those before are frequencies. */
typedef struct Local {
  const TsFftStep *s;
  const TsFftPass *p;
  int64_t done;       /* D of the step and the local digits before this pass */
  int64_t inner, all; /* local digits behind it, and their number times M */
  TsFftTable *roots;  /* all of them where the passes run a second time */
  bool again;
} Local;

static void set_roots(Make *m, const Local *l, int64_t slot, int k, int64_t K0, int64_t T0) {
  const TsFftStep *s = l->s;
  double one[1] = {1}, zero[1] = {0};
  float one32 = 1, zero32 = 0;
  for (int64_t d = 0; d < s->d; d++)
    for (int64_t t = 0; t < s->m; t++) {
      Root w = root_at(m, l->p, k, K0 + d, T0 + t, l->all);
      const void *re = w.re, *im = w.im;
      if (!re) re = m->wide ? (void *)one : (void *)&one32;
      if (!im) im = m->wide ? (void *)zero : (void *)&zero32;
      ts_fft_table_set(m, l->roots, (slot * s->d + d) * s->m + t, re, im);
    }
}

static Cx twiddle(Make *m, const Local *l, int slot, int64_t low, int k, int64_t tl, Cx x) {
  const TsFftStep *s = l->s;
  int64_t K0 = s->d * (low + l->done / s->d * k), T0 = tl * s->m;
  Root first = root_at(m, l->p, k, K0, T0, l->all);
  bool same = true, mixed = false;
  for (int64_t d = 0; d < s->d; d++)
    for (int64_t t = 0; t < s->m; t++) {
      Root w = root_at(m, l->p, k, K0 + d, T0 + t, l->all);
      same = same && same_root(m, w, first);
      mixed = mixed || !w.re != !first.re;
    }
  if (same && !first.re) return x;
  if (same) return ts_fft_cmul(m, x, constant(m, first.re), constant(m, first.im));
  if (!l->roots->memory) *l->roots = ts_fft_table(m, s->e, s->d, s->m);
  if (!l->again) set_roots(m, l, slot, k, K0, T0);
  Cx w = ts_fft_table_row(m, l->roots, slot), y = ts_fft_cmul(m, x, w.re, w.im);
  if (!mixed) return y;
  V begins = ts_fft_ints(m, l->all / l->p->rest);
  return ts_fft_where(m, ts_fft_op(m, TS_OP_lt, ts_fft_iota(m, 2), begins), x, y);
}

/* All passes of a step; afterwards v is in the order of frequencies. */
static void run_step(Make *m, const TsFftStep *s, Cx *v) {
  int64_t low = 1; /* product of the local digits that are frequencies */
  for (int i = 0; i < s->count; i++) {
    const TsFftPass *p = &m->pass[s->first + i];
    Local l = {.s = s, .p = p, .done = s->d * low, .inner = s->e / low / p->r};
    Cx next[TS_FFT_LOCAL], a[TS_FFT_LOCAL];
    l.all = l.inner * s->m;
    l.roots = &m->roots[s->first + i], l.again = l.roots->memory != NULL;
    /* v: [low in the order of frequencies][digits of time], time the faster. */
    for (int64_t f = 0; f < low; f++)
      for (int64_t t = 0; t < l.inner; t++) {
        for (int j = 0; j < p->r; j++) a[j] = v[(f * p->r + j) * l.inner + t];
        butterfly(m, p, a);
        for (int j = 0; j < p->r; j++) {
          int64_t slot = (f + low * j) * l.inner + t;
          next[slot] = twiddle(m, &l, (int)slot, f, j, t, a[j]);
        }
      }
    memcpy(v, next, sizeof *v * (size_t)s->e);
    low *= p->r;
  }
}

/* ---- exchanges */
static int64_t pad_of(const Make *m, const TsFftStep *next) {
  return next->m * m->cols < 16 ? next->m : 0;
}

static void exchange_dim(const Make *m, const TsFftStep *s, const TsFftStep *next,
                         int64_t dim[4]) {
  dim[0] = m->rows;
  dim[1] = next->d + (m->transposed && next == &m->step[m->nstep - 1]);
  dim[2] = s->m + pad_of(m, next);
  dim[3] = m->cols;
}

int64_t ts_fft_exchange_room(const Make *m) {
  int64_t most = 0;
  for (int i = 0; i + 1 < m->nstep; i++) {
    int64_t dim[4], n = 1;
    exchange_dim(m, &m->step[i], &m->step[i + 1], dim);
    for (int a = 0; a < 4; a++) n *= dim[a];
    if (n > most) most = n;
  }
  return most;
}

static void exchange(Make *m, const TsFftStep *s, const TsFftStep *next, Cx *v) {
  static const int64_t transposed[4] = {0, 2, 3, 1};
  int64_t dim[5] = {1};
  V view[2], zero = ts_tile_index(&m->b, 0);
  bool transposes = m->transposed && next == &m->step[m->nstep - 1];
  exchange_dim(m, s, next, dim);
  ts_fft_views(m, 4, dim, view);
  for (int64_t i = 0; i < s->e; i++) {
    V at[4] = {zero, ts_tile_index(&m->b, i * s->d), zero, zero};
    ts_fft_put(m, view, at, v[i], false);
  }
  ts_fft_set_dim(m, m->rows, next->d, next->m, m->cols);
  if (transposes) {
    memmove(dim + 1, dim, sizeof *dim * 4);
    dim[0] = 1;
    ts_fft_views(m, 5, dim, view);
    ts_fft_set_dim(m, 1, next->d, next->m, m->rows);
  }
  TsTileType t = ts_fft_tile_type(m, m->real);
  for (int64_t i = 0; i < next->e; i++) {
    V column = ts_tile_index(&m->b, i * next->m);
    V at[5] = {zero, zero, column, zero}, at5[5] = {zero, zero, zero, column, zero};
    v[i] = transposes ? ts_fft_get(m, view, at5, &t, transposed)
                      : ts_fft_get(m, view, at, &t, NULL);
  }
}

void ts_fft_core(Make *m, Cx *v) {
  for (int i = 0; i < m->nstep; i++) {
    if (i) exchange(m, &m->step[i - 1], &m->step[i], v);
    run_step(m, &m->step[i], v);
  }
}

/* ---- the list of passes */
static void walk(Make *m, const TsFftNode *t, int64_t before, const TsFftNode *twist,
                 int64_t twist_before) {
  if (t->left) {
    walk(m, t->left, before, t, before);
    walk(m, t->right, before * t->n1, twist, twist_before);
    return;
  }
  const TsFftChain *c = &t->chain;
  for (int i = 0, rest = c->n; i < c->count && m->npass < TS_FFT_PASSES; i++) {
    rest /= c->radix[i];
    bool last = i == c->count - 1;
    m->pass[m->npass++] =
        (TsFftPass){c->radix[i], c, i, rest, last ? twist_before : 1, last ? twist : NULL};
  }
}

void ts_fft_passes(Make *m, const TsFftNode *root) {
  m->npass = 0;
  memset(m->roots, 0, sizeof m->roots);
  walk(m, root, 1, NULL, 1);
}
