/* Cosine transforms on a device: a real transform of the reordered row between two kernels, the
 * dataflow of vm/fft/line.c with the products of vm/kernels/fft/body.h. Rows along another axis
 * are turned. */
#include "ir/lower/fft/fft.h"
#include "ir/lower/fft/plans.h"
#include "ir/lower/short.h"

typedef TsTileVal V;

enum { PIECE = 256 };

/* What a kernel does: reorder and multiply rows of n. */
typedef enum Work { SPREAD, FINISH, BEGIN, GATHER } Work; /* two of dct, two of idct */

typedef struct Dct {
  Work work;
  TsDtype d, out;   /* in which it is done; of what comes out */
  int64_t n, given; /* elements along the axis of the operand: zeros behind them */
  double scale, dc;
} Dct;

typedef struct Make {
  const Dct *f;
  TsTileBuild b;
  TsTileType t; /* of positions */
  V x, w;
  V row, at; /* the row's number, places in it */
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V by(Make *m, int op, V x, int64_t y) { return ts_short_by(&m->b, op, x, y); }
static V where(Make *m, V c, V x, V y) { return ts_tile_op3(&m->b, TS_OP_where, c, x, y); }
static V number(Make *m, double v) {
  return ts_short_number(&m->b, &m->t, m->f->d, m->f->d == TS_DT_f32 ? (float)v : v);
}
static V neg(Make *m, V x) { return ts_tile_op1(&m->b, TS_OP_neg, x); }

/* Elements of rows of `wide` numbers. */
static V take(Make *m, V memory, int64_t wide, V at) {
  V first = ts_short_splat(&m->b, &m->t, by(m, TS_OP_mul, m->row, wide));
  return ts_short_gather(&m->b, memory, op2(m, TS_OP_add, first, at), true);
}

static V below(Make *m, V at, int64_t n) {
  return op2(m, TS_OP_lt, at, ts_short_int(&m->b, &m->t, n));
}
static V clipped(Make *m, V at, int64_t n) {
  V zero = ts_short_int(&m->b, &m->t, 0), last = ts_short_int(&m->b, &m->t, n - 1);
  return op2(m, TS_OP_minimum, op2(m, TS_OP_maximum, at, zero), last);
}

/* Of the operand. */
static V given(Make *m, V at) {
  V x = take(m, m->x, m->f->given, clipped(m, at, m->f->given));
  return m->f->given < m->f->n ? where(m, below(m, at, m->f->given), x, number(m, 0)) : x;
}

/* n - k */
static V mirror(Make *m, V k) {
  return op2(m, TS_OP_sub, ts_short_int(&m->b, &m->t, m->f->n), k);
}

static void product(Make *m, V re, V im, V k, bool back, V *to) {
  V at = by(m, TS_OP_mul, k, 2), wr = ts_short_gather(&m->b, m->w, at, true);
  V wi = ts_short_gather(&m->b, m->w, by(m, TS_OP_add, at, 1), true);
  if (back) wi = neg(m, wi);
  to[0] = ts_tile_op3(&m->b, TS_OP_fma, re, wr, neg(m, op2(m, TS_OP_mul, im, wi)));
  to[1] = ts_tile_op3(&m->b, TS_OP_fma, re, wi, op2(m, TS_OP_mul, im, wr));
}

/* Even places, then odd ones from the end. */
static V spread(Make *m) {
  int64_t n = m->f->n;
  V even = by(m, TS_OP_mul, m->at, 2);
  V odd = op2(m, TS_OP_sub, ts_short_int(&m->b, &m->t, 2 * n - 1), even);
  return given(m, where(m, below(m, m->at, (n + 1) / 2), even, odd));
}

static V gather(Make *m) {
  V half = by(m, TS_OP_floordiv, m->at, 2), odd = by(m, TS_OP_mod, m->at, 2);
  V back = op2(m, TS_OP_sub, ts_short_int(&m->b, &m->t, m->f->n - 1), half);
  V even = op2(m, TS_OP_eq, odd, ts_short_int(&m->b, &m->t, 0));
  return take(m, m->x, m->f->n, clipped(m, where(m, even, half, back), m->f->n));
}

static V finish(Make *m) {
  const Dct *f = m->f;
  int64_t wide = 2 * (f->n / 2 + 1);
  V lower = below(m, m->at, f->n / 2 + 1), p[2];
  V k = clipped(m, where(m, lower, m->at, mirror(m, m->at)), f->n);
  V at = by(m, TS_OP_mul, k, 2), re = take(m, m->x, wide, at);
  V im = take(m, m->x, wide, by(m, TS_OP_add, at, 1));
  product(m, re, im, k, false, p);
  V y = op2(m, TS_OP_mul, where(m, lower, p[0], neg(m, p[1])), number(m, 2 * f->scale));
  V first = op2(m, TS_OP_mul, re, number(m, 2 * f->scale * f->dc));
  return where(m, below(m, m->at, 1), first, y);
}

/* Of places in the half spectrum: re and im behind each other. */
static V begin(Make *m) {
  const Dct *f = m->f;
  V k = clipped(m, by(m, TS_OP_floordiv, m->at, 2), f->n), p[2];
  V re = given(m, k), im = neg(m, given(m, mirror(m, k)));
  V odd = op2(m, TS_OP_eq, by(m, TS_OP_mod, m->at, 2), ts_short_int(&m->b, &m->t, 1));
  product(m, re, im, k, true, p);
  V first = where(m, odd, number(m, 0), op2(m, TS_OP_mul, re, number(m, f->dc)));
  return where(m, below(m, m->at, 2), first, where(m, odd, p[1], p[0]));
}

static int64_t width(const Dct *f, bool out) {
  if (f->work == (out ? BEGIN : FINISH)) return 2 * (f->n / 2 + 1);
  return !out && (f->work == SPREAD || f->work == BEGIN) ? f->given : f->n;
}

static TsTile *build(const Dct *f) {
  static V (*const work[])(Make *) = {spread, finish, begin, gather};
  TsTile *k = ts_tile_new("dct");
  if (!k) return NULL;
  int64_t in = ts_tile_size(k, "N"), rows = ts_tile_size(k, "R"), wide = width(f, true);
  TsTileType x = ts_tile_vector(f->d, in), w = ts_tile_vector(f->d, 2 * (f->n / 2 + 1));
  TsTileType y = ts_tile_type(f->out, 2, (int64_t[]){rows, wide});
  Make m = {.f = f, .t = ts_tile_vector(TS_DT_i64, PIECE)};
  TsTileAccess edge = {.edge = true};
  m.x = ts_tile_param(k, "x", &x, false);
  if (f->work == FINISH || f->work == BEGIN) m.w = ts_tile_param(k, "w", &w, false);
  V to = ts_tile_param(k, "y", &y, true);
  m.b = ts_tile_build(k);
  V zero = ts_tile_index(&m.b, 0), end = ts_short_dim(&m.b, 1);
  TsTileLoop r = ts_tile_for(&m.b, zero, end, 1, true, 0, NULL);
  TsTileLoop c = ts_tile_for(&m.b, zero, ts_tile_index(&m.b, wide), PIECE, true, 0, NULL);
  if (k->failed) return k;
  m.row = r.i;
  m.at = op2(&m, TS_OP_add, ts_short_iota(&m.b, &m.t, 0), ts_short_splat(&m.b, &m.t, c.i));
  V at[2] = {r.i, c.i};
  ts_tile_store(&m.b, to, at, ts_tile_cast(&m.b, work[f->work](&m), f->out), &edge);
  ts_tile_for_end(&m.b, &c, NULL, NULL), ts_tile_for_end(&m.b, &r, NULL, NULL);
  return k;
}

static bool has_roots(Work w) { return w == FINISH || w == BEGIN; }

typedef struct Job {
  TsSteps x;
  Dct f;
  int64_t rows;
  int w; /* w(4n, k) for k <= n/2, re and im */
} Job;

static void step(Job *j, Work work, TsDtype out, int from, int to) {
  Dct f = j->f;
  f.work = work, f.out = out;
  int with[] = {from, j->w, to}, without[] = {from, to};
  ts_steps_add(&j->x, build(&f), has_roots(work) ? with : without,
               (int64_t[]){j->rows * width(&f, false), j->rows});
}

static void transform(Job *j, bool back, TsDtype out, int in, int y) {
  const Dct *f = &j->f;
  int64_t size = ts_dtypes[f->d].nbytes, bins = f->n / 2 + 1;
  int half = ts_steps_temp(&j->x, j->rows * bins * 2 * size);
  int spare = ts_steps_temp(&j->x, j->rows * f->n * size);
  TsFftForm inner = {.kind = back ? TS_FFT_c2r : TS_FFT_r2c, .inverse = back, .n = f->n};
  inner.type = f->d == TS_DT_f64 ? TS_FFT_f64 : TS_FFT_f32;
  inner.scale = back ? f->scale : 1;
  TsStepsAxis a = {.outer = j->rows, .n = back ? bins : f->n, .inner = 1};
  step(j, back ? BEGIN : SPREAD, f->d, in, back ? half : spare);
  ts_fft_step(&j->x, inner, a, back ? half : spare, back ? spare : half);
  step(j, back ? GATHER : FINISH, out, back ? spare : half, y);
}

static int roots(Job *j) {
  int64_t n = j->f.n;
  TsFftPlan *p =
      ts_fft_plans_take(j->f.d == TS_DT_f64 ? TS_FFT_f64 : TS_FFT_f32, TS_FFT_QUARTER, n);
  int w = ts_steps_table(&j->x, p ? p->line : NULL, 2 * (n / 2 + 1) * ts_dtypes[j->f.d].nbytes);
  ts_fft_plans_give(p);
  return w;
}

/* A result of 16 bits is made in f32 and rounded once. */
int ts_lower_dct(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                 TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *x = &n->in[0]->meta, *y = &n->out[0].meta;
  bool back = n->op == TS_OP_idct;
  TsDtype to = (TsDtype)y->dtype;
  if (!y->ndim || !ts_meta_numel(y) || !ts_meta_numel(x)) return 0;
  if (ts_dtype_in_blocks(to) || ts_dtype_in_blocks(x->dtype)) return 0;
  TsStepsAxis from = ts_steps_axis(x, n->attr[1].i), a = ts_steps_axis(y, n->attr[1].i);
  TsFftScale s =
      ts_fft_scale(back ? TS_FFT_dct3 : TS_FFT_dct2, back, a.n, ts_fft_norm(n->attr[2].i));
  Job j = {.f = {.d = to == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32, .n = a.n, .given = from.n}};
  j.f.scale = s.scale, j.f.dc = s.dc;
  j.rows = a.outer * a.inner;
  TsStepsOrder last = ts_steps_last(x, a.at);
  ts_steps_begin(&j.x, sched, layout, arg, n, err);
  j.w = roots(&j);
  int in = ts_steps_in_as(&j.x, 0, &last, j.f.d);
  transform(&j, back, to, in, ts_steps_out(&j.x, 0, &last));
  return ts_steps_end(&j.x, out);
}
