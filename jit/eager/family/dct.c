/* Cosine transforms on a device: a real transform of the reordered row between two kernels, the
 * dataflow of vm/fft/line.c with the products of vm/kernels/fft/body.h. Rows along another axis
 * are turned. */
#include <string.h>

#include "jit/eager/family/fft.h"
#include "jit/eager/family/own.h"

typedef TsTileVal V;

enum { PIECE = 256 };
static const int norm_of_choice[] = {TS_FFT_ortho, TS_FFT_backward, TS_FFT_forward};

/* What a kernel does: reorder and multiply rows of n. */
typedef enum Work { SPREAD, FINISH, BEGIN, GATHER } Work; /* two of dct, two of idct */

typedef struct Dct {
  Work work;
  TsDtype d;
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

static TsTile *build(const void *arg) {
  static V (*const work[])(Make *) = {spread, finish, begin, gather};
  const Dct *f = arg;
  TsTile *k = ts_tile_new("dct");
  if (!k) return NULL;
  int64_t in = ts_tile_size(k, "N"), rows = ts_tile_size(k, "R"), wide = width(f, true);
  TsTileType x = ts_tile_vector(f->d, in), w = ts_tile_vector(f->d, 2 * (f->n / 2 + 1));
  TsTileType y = ts_tile_type(f->d, 2, (int64_t[]){rows, wide});
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
  ts_tile_store(&m.b, to, at, work[f->work](&m), &edge);
  ts_tile_for_end(&m.b, &c, NULL, NULL), ts_tile_for_end(&m.b, &r, NULL, NULL);
  return k;
}

static int launch(TsOffloader *o, const TsCall *call, Dct f, Work work, TsTensor *x,
                  TsTensor *w, TsTensor *y, int64_t rows, int device) {
  f.work = work;
  TsOwn k = {.build = build, .arg = &f, .nin = 1, .nout = 1, .in = {x}, .out = {y}, .ndim = 2};
  if (work == FINISH || work == BEGIN) k.in[k.nin++] = w;
  k.dim[0] = rows * width(&f, false), k.dim[1] = rows;
  double number[2] = {f.scale, f.dc};
  int64_t bits[2];
  memcpy(bits, number, sizeof bits);
  ts_own_word(&k, f.work | (int64_t)f.d << 8), ts_own_word(&k, f.n);
  ts_own_word(&k, f.given), ts_own_word(&k, bits[0]), ts_own_word(&k, bits[1]);
  return ts_own_run(o, call, device, &k);
}

/* x [.., n] of the type to y; spare: as x; half: the spectrum. */
static int transform(TsOffloader *o, const TsCall *call, const TsFft *f, TsTensor *x,
                     TsTensor *y, TsTensor *spare, TsTensor *half, int device) {
  TsDtype d = f->type == TS_FFT_f64 ? TS_DT_f64 : TS_DT_f32;
  Dct form = {.d = d, .n = f->n, .given = f->in_n, .scale = f->scale, .dc = f->dc};
  bool back = f->kind == TS_FFT_dct3;
  int64_t rows = ts_tensor_numel(y) / f->n;
  int axis = y->meta.ndim - 1, done;
  TsFft inner = {
      .kind = back ? TS_FFT_c2r : TS_FFT_r2c, .type = f->type, .n = f->n, .scale = 1};
  TsTensor *w = ts_offload_fft_quarter(o, f->type, f->n);
  if (!w) return ts_error_memory(&o->c->err);
  if (back) inner.inverse = true, inner.scale = f->scale;
  done = launch(o, call, form, back ? BEGIN : SPREAD, x, w, back ? half : spare, rows, device);
  if (done == 1)
    done = ts_offload_fft_along(o, call, &inner, axis, back ? half : spare, back ? spare : half,
                                device);
  if (done == 1)
    done =
        launch(o, call, form, back ? GATHER : FINISH, back ? spare : half, w, y, rows, device);
  return done;
}

/* The operand with the axis last, in the type in which it goes in; row-major. */
static TsTensor *ready(const TsCall *call, TsTensor *x, int axis, TsDtype d) {
  TsTensor *view = ts_own_turned(x, axis), *cast = NULL;
  if (view && ts_tensor_dtype(view) != d) {
    cast = ts_tensor_cast(call->ctx, view, d);
    ts_tensor_unref(view), view = cast;
  }
  TsTensor *y = view ? ts_tensor_contiguous(call->ctx, view) : NULL;
  ts_tensor_unref(view);
  return y;
}

int ts_offload_dct(TsOffloader *o, TsCall *call, int device) {
  if (call->op != TS_OP_dct && call->op != TS_OP_idct) return 0;
  TsTensor *y = call->out[0];
  int nd = y->meta.ndim,
      axis = nd ? (int)(call->attr[1].i + (call->attr[1].i < 0 ? nd : 0)) : 0;
  const char *why;
  if (!nd || !ts_tensor_numel(y) || !ts_tensor_numel(call->in[0]) ||
      !ts_device_target(ts_device_at(device), &why))
    return 0;
  bool wide = ts_dtype_complex(call->compute) == TS_DT_complex128;
  TsDtype d = wide ? TS_DT_f64 : TS_DT_f32;
  TsFft f = {.kind = call->op == TS_OP_dct ? TS_FFT_dct2 : TS_FFT_dct3,
             .type = wide ? TS_FFT_f64 : TS_FFT_f32,
             .n = y->meta.dim[axis]};
  f.inverse = f.kind == TS_FFT_dct3;
  ts_fft_normalise(&f, norm_of_choice[call->attr[2].i]);
  TsTensor *x = ready(call, call->in[0], axis, d), *half = NULL, *spare = NULL, *to = NULL;
  int done = -1;
  if (x) {
    TsMeta m = x->meta, h = x->meta;
    h.dim[nd - 1] = f.n / 2 + 1, h.dtype = (uint8_t)ts_dtype_complex(d);
    f.in_n = m.dim[nd - 1], m.dim[nd - 1] = f.n;
    spare = ts_tensor_new(call->ctx, &m), half = ts_tensor_new(call->ctx, &h);
    bool as_it_is = axis == nd - 1 && y->contiguous && ts_tensor_dtype(y) == d;
    to = as_it_is ? ts_tensor_ref(y) : ts_tensor_new(call->ctx, &m);
    if (spare && half && to) done = transform(o, call, &f, x, to, spare, half, device);
    if (done == 1 && to != y && ts_own_turn_back(call, to, y, axis)) done = -1;
  }
  ts_tensor_unref(x), ts_tensor_unref(spare), ts_tensor_unref(half), ts_tensor_unref(to);
  return done;
}
