/* Kernels of whole transforms: how many threads and elements, what comes before and behind the
 * passes (real transforms, Bluestein), and which parts longer ones take. See
 * ir/lower/fft/tile.h. */
#include "ir/lower/fft/tile.h"

#include <stdlib.h>
#include <string.h>

#include "ir/lower/fft/plans.h"
#include "ir/lower/short.h"

typedef TsTileVal V;
typedef TsFftCx Cx;
typedef TsFftMake Make;

enum {
  LOCAL_f32 = 32, /* elements of a thread, at least where a leaf needs no more */
  LOCAL_f64 = 16,
  LOCAL_LONE = 64, /* where a processor has room for one block */
  LOCAL = 16,      /* elements of a thread, where a step has fewer */
  SHARED = 160 << 10,
  THREADS = 512,
};

static int refuse(TsError *err, const char *why) {
  return ts_error_set(err, TS_ERR_value, "%s", why);
}

/* ---- steps and threads */
/* Passes that follow one another, as long as a thread has room for them. */
void ts_fft_cut_steps(Make *m) {
  bool lone = m->f->inner > 1 && m->length > 2048;
  int64_t room = m->wide ? LOCAL_f64 : lone ? LOCAL_LONE : LOCAL_f32, done = 1;
  m->nstep = 0;
  for (int i = 0; i < m->npass;) {
    TsFftStep *s = &m->step[m->nstep++];
    *s = (TsFftStep){.first = i, .e = 1, .d = done};
    while (i < m->npass && (!s->count || s->e * m->pass[i].r <= room)) {
      s->e *= m->pass[i++].r;
      s->count++;
    }
    done *= s->e;
  }
  if (!m->npass) m->step[m->nstep++] = (TsFftStep){.e = 1, .d = 1};
  for (int i = 0; i < m->nstep; i++) m->step[i].m = done / m->step[i].d / m->step[i].e;
}

static int64_t widest(const Make *m) {
  int64_t e = 1;
  for (int i = 0; i < m->nstep; i++)
    if (m->step[i].e > e) e = m->step[i].e;
  return e;
}

int64_t ts_fft_room(const Make *m) {
  int64_t has = m->f->shared;
  return (has && has < SHARED ? has : SHARED) / 5 * 4;
}

/* Columns that lie side by side, rows so that a group has a warp at least. */
void ts_fft_choose(Make *m, int64_t inner, int64_t batch, int64_t segment) {
  int64_t each = 2 * m->size, length = m->length ? m->length : 1;
  int64_t most = ts_fft_room(m) / each / length;
  m->cols = inner > 1 ? segment / each : 1;
  while (m->cols > 1 && (m->cols > most || m->cols / 2 >= inner)) m->cols /= 2;
  m->rows = 1;
  while (m->rows < 32 && 2 * m->rows <= batch && 2 * m->rows * m->cols <= most &&
         m->rows * m->cols * length < 32 * widest(m))
    m->rows *= 2;
}

void ts_fft_set_threads(Make *m) {
  int64_t most = widest(m), local = m->length > 2048 ? LOCAL : most;
  int64_t n = m->rows * m->cols * m->length / (local > most ? local : most);
  int64_t threads = 32;
  while (threads < n && threads < THREADS) threads *= 2;
  m->k->threads = (int)threads;
  m->k->vector = 8;
}

/* ---- positions */
static V index_of(Make *m, int64_t i) { return ts_tile_index(&m->b, i); }
static Cx swapped(Cx x) { return (Cx){x.im, x.re}; }

Cx ts_fft_scaled(Make *m, Cx x) {
  if (m->f->scale == 1) return x;
  V s = ts_fft_all(m, m->wide ? m->f->scale : (double)(float)m->f->scale);
  return (Cx){ts_fft_op(m, TS_OP_mul, x.re, s), ts_fft_op(m, TS_OP_mul, x.im, s)};
}

/* Frequencies of tile i of the last step: base, and the tile's own along axis 1. */
V ts_fft_own_index(Make *m, int axis, int64_t base) {
  return ts_fft_op(m, TS_OP_add, ts_fft_iota(m, axis), ts_fft_ints(m, base));
}

V ts_fft_below(Make *m, V x, int64_t n) { return ts_fft_op(m, TS_OP_lt, x, ts_fft_ints(m, n)); }

/* c ? a : b, where c is index < n over count elements from base. */
Cx ts_fft_pick_below(Make *m, int axis, int64_t base, int64_t count, int64_t n, Cx a, Cx b) {
  if (base + count <= n) return a;
  if (base >= n) return b;
  return ts_fft_where(m, ts_fft_below(m, ts_fft_own_index(m, axis, base), n), a, b);
}

/* ---- the core of any length: direct or by Bluestein's convolution */
typedef struct Core {
  TsFftPlan *p;
  bool guarded; /* elements behind n come as zeros */
} Core;

/* A table [rows, d, t] of a line of complex constants, at the index j; zeros from n on. */
TsFftTable ts_fft_line_table(Make *m, const void *line, int64_t rows, int64_t d, int64_t t,
                             int64_t n, int64_t mirror) {
  TsFftTable table = ts_fft_table(m, rows, d, t);
  for (int64_t j = 0; j < rows * d * t && j < n; j++) {
    int64_t from = mirror && 2 * j > mirror ? mirror - j : j;
    const char *w = (const char *)line + from * 2 * m->size;
    ts_fft_table_set(m, &table, j, w, w + m->size);
  }
  return table;
}

static void bluestein_between(Make *m, const TsFftPlan *p, Cx *v) {
  const TsFftStep *first = &m->step[0], *last = &m->step[m->nstep - 1];
  int64_t out[4] = {m->rows, m->length, 1, m->cols}, in[4] = {m->rows, 1, m->length, m->cols};
  V view[2], zero = index_of(m, 0);
  TsFftTable kernel = ts_fft_line_table(m, p->kernel, last->e, last->d, 1, p->m, 0);
  ts_fft_views(m, 4, out, view);
  for (int64_t i = 0; i < last->e; i++) {
    Cx w = ts_fft_table_row(m, &kernel, i);
    V at[4] = {zero, index_of(m, i * last->d), zero, zero};
    ts_fft_put(m, view, at, swapped(ts_fft_cmul(m, v[i], w.re, w.im)), false);
  }
  ts_fft_views(m, 4, in, view);
  ts_fft_first_dim(m);
  TsTileType t = ts_fft_tile_type(m, m->real);
  for (int64_t i = 0; i < first->e; i++) {
    V at[4] = {zero, zero, index_of(m, i * first->m), zero};
    v[i] = ts_fft_get(m, view, at, &t, NULL);
  }
}

static void core(Make *m, const Core *c, Cx *v) {
  const TsFftPlan *p = c->p;
  const TsFftStep *first = &m->step[0], *last = &m->step[m->nstep - 1];
  if (!p->m) {
    ts_fft_core(m, v);
    return;
  }
  TsFftTable chirp = ts_fft_line_table(m, p->chirp, first->e, 1, first->m, p->n, 0);
  for (int64_t i = 0; i < first->e; i++) {
    Cx w = ts_fft_table_row(m, &chirp, i), zero = {ts_fft_all(m, 0), ts_fft_all(m, 0)};
    v[i] = ts_fft_cmul(m, v[i], w.re, w.im);
    if (!c->guarded) v[i] = ts_fft_pick_below(m, 2, i * first->m, first->m, p->n, v[i], zero);
  }
  ts_fft_core(m, v);
  bluestein_between(m, p, v);
  ts_fft_core(m, v);
  TsFftTable back = ts_fft_line_table(m, p->chirp, last->e, last->d, 1, p->n, 0);
  for (int64_t i = 0; i < last->e; i++) {
    Cx w = ts_fft_table_row(m, &back, i);
    v[i] = ts_fft_cmul(m, swapped(v[i]), w.re, w.im);
  }
}

/* ---- what goes in */
static V parameter(Make *m, const TsTileType *t, bool written) {
  return ts_tile_param(m->k, written ? "y" : "x", t, written);
}

static V real_param(Make *m, int rank, const int64_t *dim, bool written) {
  TsTileType t = ts_tile_type(m->real, rank, dim);
  return parameter(m, &t, written);
}

static int64_t batch_dim(Make *m) { return ts_tile_size(m->k, "B"); }

static V load_real(Make *m, V memory, const V *at, const int64_t *axes, bool edge) {
  TsTileType t = ts_fft_tile_type(m, m->real);
  TsTileAccess a = {.edge = edge, .naxis = axes ? 4 : 0, .axes = axes};
  return ts_tile_load(&m->b, memory, at, &t, &a);
}

static V input_param(Make *m) {
  const TsFftForm *f = m->f;
  int64_t B = batch_dim(m), I = f->inner, total = ts_tile_size(m->k, "N");
  int64_t plain[4] = {B, 1, f->in_n, I}, half[4] = {B, 1, f->in_n / 2, I};
  int64_t pairs[5] = {B, 1, f->in_n / 2, 2, I};
  bool reals = f->kind == TS_FFT_r2c || f->real;
  TsTileType t = ts_fft_memory(m, 4, f->kind == TS_FFT_r2c ? half : plain);
  if (f->kind == TS_FFT_c2r) {
    t = ts_tile_type(m->wide ? TS_DT_f64 : TS_DT_i64, 1, &total);
    return parameter(m, &t, false);
  }
  if (!reals) return parameter(m, &t, false);
  if (f->real || f->n % 2) return real_param(m, 4, plain, false);
  return I == 1 ? parameter(m, &t, false) : real_param(m, 5, pairs, false);
}

static void load_plain(Make *m, V x, Cx *v) {
  static const int64_t axes[4] = {0, 1, 2, 4};
  const TsFftStep *s = &m->step[0];
  const TsFftForm *f = m->f;
  bool packed = f->kind == TS_FFT_r2c && f->n % 2 == 0;
  int64_t n = packed ? f->in_n / 2 : f->in_n;
  bool reals = !packed && (f->kind == TS_FFT_r2c || f->real);
  TsTileType t = ts_fft_tile_type(m, m->real);
  V zero = index_of(m, 0);
  for (int64_t i = 0; i < s->e; i++) {
    V j = index_of(m, i * s->m), at[4] = {m->at_row, zero, j, m->at_col};
    bool edge = m->edge_row || m->edge_col || (i + 1) * s->m > n;
    if (reals) {
      v[i] = (Cx){load_real(m, x, at, NULL, edge), ts_fft_all(m, 0)};
    } else if (packed && f->inner > 1) {
      V even[5] = {m->at_row, zero, j, zero, m->at_col};
      V odd[5] = {m->at_row, zero, j, index_of(m, 1), m->at_col};
      v[i] = (Cx){load_real(m, x, even, axes, edge), load_real(m, x, odd, axes, edge)};
    } else {
      v[i] = ts_fft_load(m, x, at, &t, NULL, edge);
    }
    if (f->inverse) v[i] = swapped(v[i]);
  }
}

/* ---- what comes out */
static V output_param(Make *m) {
  const TsFftForm *f = m->f;
  int64_t B = batch_dim(m), I = f->inner;
  int64_t bins = f->kind == TS_FFT_r2c ? f->n / 2 + 1 : f->n;
  int64_t plain[4] = {B, bins, 1, I}, half[4] = {B, f->n / 2, 1, I};
  int64_t pairs[5] = {B, f->n / 2, 2, 1, I};
  if (f->kind != TS_FFT_c2r) {
    TsTileType t = ts_fft_memory(m, 4, plain);
    return parameter(m, &t, true);
  }
  if (f->n % 2) return real_param(m, 4, plain, true);
  TsTileType t = ts_fft_memory(m, 4, half);
  return I == 1 ? parameter(m, &t, true) : real_param(m, 5, pairs, true);
}

bool ts_fft_edge(const Make *m, int64_t end, int64_t n) {
  return m->edge_row || m->edge_col || end > n;
}

static void store_complex(Make *m, V y, int64_t bins, const Cx *v) {
  const TsFftStep *s = &m->step[m->nstep - 1];
  V zero = index_of(m, 0);
  for (int64_t i = 0; i < s->e && i * s->d < bins; i++) {
    V at[4] = {m->at_row, index_of(m, i * s->d), zero, m->at_col};
    Cx x = ts_fft_scaled(m, m->f->inverse ? swapped(v[i]) : v[i]);
    ts_fft_store(m, y, at, x, NULL, ts_fft_edge(m, (i + 1) * s->d, bins));
  }
}

static void store_real(Make *m, V y, const V *at, V x, const int64_t *axes, bool edge) {
  TsTileAccess a = {.edge = edge, .naxis = axes ? 4 : 0, .axes = axes};
  ts_tile_store(&m->b, y, at, x, &a);
}

static void store_reals(Make *m, V y, const Cx *v) {
  static const int64_t axes[4] = {0, 1, 3, 4};
  const TsFftForm *f = m->f;
  const TsFftStep *s = &m->step[m->nstep - 1];
  bool even = f->n % 2 == 0;
  int64_t n = even ? f->n / 2 : f->n;
  V zero = index_of(m, 0);
  for (int64_t i = 0; i < s->e && i * s->d < n; i++) {
    V j = index_of(m, i * s->d), at[4] = {m->at_row, j, zero, m->at_col};
    bool edge = ts_fft_edge(m, (i + 1) * s->d, n);
    Cx x = ts_fft_scaled(m, swapped(v[i]));
    if (!even) {
      store_real(m, y, at, x.re, NULL, edge);
    } else if (f->inner == 1) {
      ts_fft_store(m, y, at, x, NULL, edge);
    } else {
      V first[5] = {m->at_row, j, zero, zero, m->at_col};
      V second[5] = {m->at_row, j, index_of(m, 1), zero, m->at_col};
      store_real(m, y, first, x.re, axes, edge);
      store_real(m, y, second, x.im, axes, edge);
    }
  }
}

/* ---- a kernel of one phase */
void ts_fft_take_shared(Make *m, int64_t least) {
  int64_t n = ts_fft_exchange_room(m);
  if (least > n) n = least;
  TsTileType t = ts_tile_vector(m->wide ? TS_DT_f64 : TS_DT_i64, n);
  for (int i = 0; i < 1 + m->wide && n; i++)
    m->shared[i] = ts_tile_alloc(&m->b, TS_SPACE_shared, &t);
}

typedef struct Grid {
  TsTileLoop row, col;
  bool cols;
} Grid;

static Grid open_grid(Make *m, int64_t inner, V count) {
  Grid g = {.cols = inner > 1};
  g.row = ts_tile_for(&m->b, index_of(m, 0), count, m->rows, true, 0, NULL);
  m->at_row = g.row.i;
  m->at_col = NULL;
  if (g.cols) {
    g.col = ts_tile_for(&m->b, index_of(m, 0), index_of(m, inner), m->cols, true, 0, NULL);
    m->at_col = g.col.i;
  } else {
    m->at_col = index_of(m, 0);
  }
  m->edge_row = m->rows > 1;
  m->edge_col = inner % m->cols != 0;
  return g;
}

static void close_grid(Make *m, Grid *g) {
  if (g->cols) ts_tile_for_end(&m->b, &g->col, NULL, NULL);
  ts_tile_for_end(&m->b, &g->row, NULL, NULL);
}

static void one_phase(Make *m, const Core *c, const TsFftPlan *roots) {
  const TsFftForm *f = m->f;
  Cx *v = calloc(TS_FFT_LOCAL, sizeof *v);
  TsFftTable split = {.memory = NULL};
  bool even = f->n % 2 == 0;
  if (!v) return m->k->failed = true, (void)0;
  V x = input_param(m);
  V count = ts_short_dim(&m->b, 0);
  Grid g = open_grid(m, f->inner, count);
  ts_fft_take_shared(
      m, c->p->m || (f->kind == TS_FFT_r2c && even) ? m->rows * m->length * m->cols : 0);
  ts_fft_first_dim(m);
  if (f->kind == TS_FFT_c2r)
    ts_fft_load_half(m, x, roots ? roots->line : NULL, v);
  else
    load_plain(m, x, v);
  core(m, c, v);
  if (f->kind == TS_FFT_r2c && even) {
    const TsFftStep *s = &m->step[m->nstep - 1];
    split = ts_fft_line_table(m, roots->line, s->e, s->d, 1, f->n / 2, f->n / 2);
  }
  V y = output_param(m);
  if (f->kind == TS_FFT_c2c)
    store_complex(m, y, f->n, v);
  else if (f->kind == TS_FFT_c2r)
    store_reals(m, y, v);
  else if (even)
    ts_fft_store_split(m, y, &split, v);
  else
    store_complex(m, y, f->n / 2 + 1, v);
  close_grid(m, &g);
  free(v);
}

bool ts_fft_fits(const Make *m, int64_t length) {
  return length * 2 * m->size <= ts_fft_room(m);
}

static void build(Make *m, const TsFftPlan *p, const TsFftPlan *roots) {
  const TsFftForm *f = m->f;
  Core c = {.p = (TsFftPlan *)(uintptr_t)p,
            .guarded = f->kind != TS_FFT_c2r && f->in_n <= f->n};
  ts_fft_passes(m, p->root);
  ts_fft_cut_steps(m);
  ts_fft_choose(m, f->inner, f->batch, TS_FFT_SEGMENT);
  ts_fft_set_threads(m);
  one_phase(m, &c, roots);
}

/* What is made of plans, which are given back. */
static int made(Make *m, TsFftPlan *p, TsFftPlan *roots, TsError *err) {
  const TsFftForm *f = m->f;
  bool even = f->kind != TS_FFT_c2c && f->n % 2 == 0;
  m->k = m->out->tile = p && (roots || !even) ? ts_tile_new("fft") : NULL;
  if (!m->k) return ts_error_memory(err);
  m->k->target = ts_target_with(TS_UNIT_mma)->name;
  m->b = ts_tile_build(m->k);
  m->length = p->m ? p->m : p->n;
  m->out->in = f->in_n * (m->wide && f->kind == TS_FFT_c2r ? 2 : 1);
  if (f->part == TS_FFT_split)
    ts_fft_split_kernel(m, roots->line);
  else if (f->part)
    ts_fft_long(m, p, roots ? roots->line : NULL);
  else if (ts_fft_fits(m, m->length))
    build(m, p, roots);
  else
    return refuse(err, "a transform of this length in one part");
  if (!m->k->failed) return 0;
  return m->crowded ? refuse(err, "too many tables of roots") : ts_error_memory(err);
}

int ts_fft_tile(const TsFftForm *f, TsFftTile *t, TsError *err) {
  bool even_real = f->kind != TS_FFT_c2c && f->n % 2 == 0;
  int64_t h = f->n / 2;
  *t = (TsFftTile){.tile = NULL};
  if (f->kind == TS_FFT_r2c && even_real && f->in_n % 2)
    return refuse(err, "an odd number of reals of an even transform");
  if (f->kind == TS_FFT_c2r && f->in_n != h + 1) return refuse(err, "padded half spectra");
  TsFftPlan *p = ts_fft_plans_take(f->type, TS_FFT_TREE, even_real ? h : f->n);
  TsFftPlan *roots = even_real ? ts_fft_plans_take(f->type, TS_FFT_ROOTS, f->n) : NULL;
  Make m = {.f = f, .out = t, .wide = f->type == TS_FFT_f64};
  m.real = m.wide ? TS_DT_f64 : TS_DT_f32, m.size = m.wide ? 8 : 4;
  int failed = made(&m, p, roots, err);
  ts_fft_plans_give(p), ts_fft_plans_give(roots);
  if (!failed) return 0;
  ts_tile_free(t->tile);
  free(t->table);
  *t = (TsFftTile){.tile = NULL};
  return -1;
}

int ts_fft_parts(const TsFftForm *f, int part[3], int64_t *length, TsError *err) {
  bool even_real = f->kind != TS_FFT_c2c && f->n % 2 == 0;
  TsFftPlan *p = ts_fft_plans_take(f->type, TS_FFT_TREE, even_real ? f->n / 2 : f->n);
  Make m = {.f = f, .size = f->type == TS_FFT_f64 ? 8 : 4};
  if (!p) return ts_error_memory(err);
  *length = p->m ? p->m : p->n;
  int n = 0;
  bool whole = ts_fft_fits(&m, *length), chirp = p->m;
  bool fits = whole || ts_fft_long_fits(&m, p->root);
  ts_fft_plans_give(p);
  if (!fits) return refuse(err, "a transform of this length");
  if (whole) return part[0] = TS_FFT_whole, 1;
  part[n++] = chirp ? TS_FFT_there : TS_FFT_both;
  if (chirp) part[n++] = TS_FFT_back;
  if (f->kind == TS_FFT_r2c && even_real) part[n++] = TS_FFT_split;
  return n;
}
