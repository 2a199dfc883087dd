/* Transform, product with a spectrum, transform back, some rows of the batch at a time: their
 * terms stay in the cache. Every step is the one that the operators fft, mul and ifft make, in
 * their types, so that the bits are theirs (vm/kernels/fft/fft.h,
 * vm/kernels/pointwise/complex.inc).
 *
 * A box is the part of the batch that is worked on at once: all of the last batch axes, a range
 * of the one before, one index of the others. Its terms are in row-major order with the
 * transformed axes last, as the filter's blocks are. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/fft/fft.h"
#include "vm/core/scratch.h"

enum { BOX = 256 << 10 }; /* bytes of a box's terms, a part of the second-level cache */

typedef struct Axis {
  int64_t terms, x, y; /* terms along it; strides in elements */
} Axis;

typedef struct Outer {
  int64_t dim, x, y, h; /* size and strides in elements */
} Outer;

typedef struct Filter {
  const TsKernels *k;
  bool real, wide; /* wide: f64 */
  int norm, naxis, nouter;
  int64_t n, given; /* length of the last transform, and of the axis of x */
  Axis axis[TS_MAX_RANK];
  Outer outer[TS_MAX_RANK];
  int64_t block;       /* terms of one row */
  int64_t rows, inner; /* of a box; of one step along its partial axis */
  int part;            /* that axis among outer */
  int64_t step, boxes; /* how much of it a box has; all boxes */
  const char *x, *h;
  char *y;
  TsScratch scratch;
  _Atomic int code;
} Filter;

typedef struct Box {
  int64_t x, y, h, count; /* first row, in elements; how much of the partial axis */
  char *terms;
} Box;

static int64_t real_size(const Filter *f) { return f->wide ? 8 : 4; }

/* ---- one step of a box: along axis i of the transformed ones */
typedef enum Place { X, TERMS, Y } Place;

static int64_t terms_stride(const Filter *f, int axis) {
  int64_t s = 1;
  for (int i = f->naxis - 1; i > axis; i--) s *= f->axis[i].terms;
  return s;
}

static int64_t axis_stride(const Filter *f, Place p, int axis) {
  return p == X ? f->axis[axis].x : p == Y ? f->axis[axis].y : terms_stride(f, axis);
}

/* Strides of the batch axes of a box, and of the transformed ones but `skip`. */
static int strides(const Filter *f, const Box *b, Place p, int skip, int64_t *dim,
                   int64_t *stride) {
  int n = 0;
  int64_t rest = f->block;
  for (int i = f->nouter - 1; i >= f->part; i--) {
    const Outer *o = &f->outer[i];
    dim[i - f->part] = i == f->part ? b->count : o->dim;
    stride[i - f->part] = p == X ? o->x : p == Y ? o->y : rest;
    rest *= dim[i - f->part];
    n++;
  }
  for (int i = 0; i < f->naxis; i++) {
    if (i == skip) continue;
    dim[n] = f->axis[i].terms;
    stride[n++] = axis_stride(f, p, i);
  }
  return n;
}

static char *place(const Filter *f, const Box *b, Place p) {
  int64_t size = real_size(f) * (f->real ? 1 : 2);
  if (p == X) return (char *)(uintptr_t)f->x + b->x * size;
  return p == Y ? f->y + b->y * size : b->terms;
}

static int transform(const Filter *f, const Box *b, int kind, bool inverse, int axis,
                     Place from, Place to) {
  int64_t dim[2 * TS_MAX_RANK], in[2 * TS_MAX_RANK], out[2 * TS_MAX_RANK];
  bool last = axis == f->naxis - 1;
  TsFft t = {.type = f->wide ? TS_FFT_f64 : TS_FFT_f32, .kind = kind, .inverse = inverse};
  t.n = last ? f->n : f->axis[axis].terms;
  t.in_n = from == X && last ? f->given : f->axis[axis].terms;
  t.in = place(f, b, from), t.out = place(f, b, to);
  t.in_stride = axis_stride(f, from, axis), t.out_stride = axis_stride(f, to, axis);
  strides(f, b, from, axis, dim, in);
  t.nouter = strides(f, b, to, axis, dim, out);
  t.outer_dim = dim, t.in_outer_stride = in, t.out_outer_stride = out;
  ts_fft_normalise(&t, f->norm);
  return ts_fft(&t, &f->k->fft);
}

/* The last of the axes first, as fftn does; a real transform comes last on the way back. */
static int forward(const Filter *f, const Box *b) {
  int last = f->naxis - 1;
  int code = transform(f, b, f->real ? TS_FFT_r2c : TS_FFT_c2c, false, last, X, TERMS);
  for (int i = last - 1; i >= 0 && !code; i--)
    code = transform(f, b, TS_FFT_c2c, false, i, TERMS, TERMS);
  return code;
}

static int back(const Filter *f, const Box *b) {
  int last = f->naxis - 1, code = 0;
  if (f->real) {
    for (int i = 0; i < last && !code; i++)
      code = transform(f, b, TS_FFT_c2c, true, i, TERMS, TERMS);
    return code ? code : transform(f, b, TS_FFT_c2r, true, last, TERMS, Y);
  }
  for (int i = last; i >= 0 && !code; i--)
    code = transform(f, b, TS_FFT_c2c, true, i, TERMS, i ? TERMS : Y);
  return code;
}

/* ---- the filter */
static int64_t filter_offset(const Filter *f, const Box *b, int64_t row) {
  int64_t at = b->h;
  for (int i = f->nouter - 1; i > f->part; i--) {
    at += row % f->outer[i].dim * f->outer[i].h;
    row /= f->outer[i].dim;
  }
  return f->nouter ? at + row * f->outer[f->part].h : at;
}

static void multiply(const Filter *f, const Box *b) {
  TsPointwiseFn *mul = f->k->pointwise_complex.fn[f->wide][TS_PW_mul];
  int64_t size = 2 * real_size(f), rows = b->count * f->inner;
  for (int64_t r = 0; r < rows && !ts_cpu_interrupted(); r++) {
    char *t = b->terms + r * f->block * size;
    const void *in[2] = {t, f->h + filter_offset(f, b, r) * size};
    mul(f->block, t, in, NULL, 0);
  }
}

/* ---- boxes */
static Box box_of(const Filter *f, int64_t index, char *terms) {
  Box b = {.terms = terms, .count = 1};
  if (f->nouter == 0) return b;
  const Outer *o = &f->outer[f->part];
  int64_t steps = (o->dim + f->step - 1) / f->step, first = index % steps * f->step;
  b.count = o->dim - first < f->step ? o->dim - first : f->step;
  b.x = first * o->x, b.y = first * o->y, b.h = first * o->h;
  index /= steps;
  for (int i = f->part - 1; i >= 0; i--) {
    int64_t at = index % f->outer[i].dim;
    index /= f->outer[i].dim;
    b.x += at * f->outer[i].x, b.y += at * f->outer[i].y, b.h += at * f->outer[i].h;
  }
  return b;
}

static void task(void *arg, int64_t lo, int64_t hi, int worker) {
  Filter *f = arg;
  for (int64_t i = lo; i < hi && !f->code && !ts_cpu_interrupted(); i++) {
    Box b = box_of(f, i, ts_scratch_part(&f->scratch, worker));
    int code = forward(f, &b);
    if (!code) multiply(f, &b);
    if (!code) code = back(f, &b);
    if (code) atomic_store(&f->code, code);
  }
}

/* Boxes of whole vectors of rows where the batch is large enough; few long rows are one box
 * each, whose transforms the threads share. */
static void cut(Filter *f) {
  int64_t row = f->block * 2 * real_size(f), lanes = 64 / real_size(f), all = 1;
  int64_t threads = ts_cpu_threads(), want = BOX / row;
  for (int i = 0; i < f->nouter; i++) all *= f->outer[i].dim;
  if (want > (all + threads - 1) / threads) want = (all + threads - 1) / threads;
  if (want > lanes) want -= want % lanes;
  if (want < 1) want = 1;
  f->inner = f->step = f->boxes = 1;
  f->part = f->nouter ? f->nouter - 1 : 0;
  while (f->part > 0 && f->inner * f->outer[f->part].dim < want)
    f->inner *= f->outer[f->part--].dim;
  if (f->nouter)
    f->step = want / f->inner < f->outer[f->part].dim ? want / f->inner : f->outer[f->part].dim;
  if (f->step < 1) f->step = 1;
  f->rows = f->step * f->inner;
  for (int i = 0; i < f->part; i++) f->boxes *= f->outer[i].dim;
  if (f->nouter) f->boxes *= (f->outer[f->part].dim + f->step - 1) / f->step;
}

static int run(TsCall *call, Filter *f) {
  cut(f);
  if (ts_scratch_open(&f->scratch, f->rows * f->block * 2 * real_size(f)))
    return ts_scratch_failed(call);
  if (f->boxes >= ts_cpu_threads())
    ts_cpu_parallel(f->boxes, 1, task, f);
  else
    task(f, 0, f->boxes, 0);
  ts_scratch_close(&f->scratch);
  return f->code ? ts_scratch_failed(call) : 0;
}

/* ---- along one axis: the driver keeps the terms in its own work memory */
static int one_axis(TsCall *call, const Filter *f) {
  int64_t dim[TS_MAX_RANK], x[TS_MAX_RANK], y[TS_MAX_RANK], h[TS_MAX_RANK];
  for (int i = 0; i < f->nouter; i++) {
    const Outer *o = &f->outer[i];
    dim[i] = o->dim, x[i] = o->x, y[i] = o->y, h[i] = o->h;
  }
  TsFft t = {.type = f->wide ? TS_FFT_f64 : TS_FFT_f32,
             .kind = f->real ? TS_FFT_r2c : TS_FFT_c2c,
             .n = f->n,
             .in_n = f->given,
             .in = f->x,
             .out = f->y,
             .in_stride = f->axis[0].x,
             .out_stride = f->axis[0].y,
             .nouter = f->nouter,
             .outer_dim = dim,
             .in_outer_stride = x,
             .out_outer_stride = y};
  TsFftFilter all = {.x = t, .norm = f->norm, .h = f->h, .h_outer = h};
  return ts_fft_filter(&all, &f->k->fft) ? ts_scratch_failed(call) : 0;
}

/* ---- the call */
static int64_t stride_of(const TsTensor *t, int axis, int ndim) {
  int own = axis - (ndim - t->meta.ndim);
  return own < 0 || t->meta.dim[own] == 1 ? 0 : t->stride[own];
}

/* Two batch axes that are one in memory become one. */
static void add_outer(Filter *f, Outer o) {
  Outer *p = f->nouter ? &f->outer[f->nouter - 1] : NULL;
  if (o.dim == 1) return;
  if (p && p->x == o.dim * o.x && p->y == o.dim * o.y && p->h == o.dim * o.h) {
    *p = (Outer){p->dim * o.dim, o.x, o.y, o.h};
    return;
  }
  f->outer[f->nouter++] = o;
}

/* h in the type of the terms, with the transformed axes last and whole, and its own strides
 * along the others: a block for each row, those that rows share once. */
static TsTensor *blocks_of(TsCall *call, const Filter *f, const int *axis, const bool *along) {
  TsTensor *h = call->in[1];
  int nd = call->out[0]->meta.ndim, at = 0;
  TsMeta m = h->meta;
  int64_t stride[TS_MAX_RANK];
  m.ndim = (uint8_t)nd;
  for (int i = 0; i < nd; i++) {
    int own = i - (nd - h->meta.ndim);
    if (along[i]) continue;
    m.dim[at] = own < 0 ? 1 : h->meta.dim[own];
    stride[at++] = stride_of(h, i, nd);
  }
  for (int i = 0; i < f->naxis; i++) {
    m.dim[at] = f->axis[i].terms;
    stride[at++] = stride_of(h, axis[i], nd);
  }
  TsTensor *view = ts_tensor_view(h, &m, stride, h->offset), *cast = NULL, *whole = NULL;
  if (view)
    cast = ts_tensor_cast(call->ctx, view, f->wide ? TS_DT_complex128 : TS_DT_complex64);
  if (cast) whole = ts_tensor_contiguous(call->ctx, cast);
  ts_tensor_unref(view);
  ts_tensor_unref(cast);
  return whole;
}

static void take_axes(TsCall *call, Filter *f, int axis[TS_MAX_RANK], bool along[TS_MAX_RANK],
                      const TsTensor *x) {
  const TsAttr *a = &call->attr[0];
  const TsTensor *y = call->out[0];
  int nd = y->meta.ndim, extra = nd - x->meta.ndim;
  f->naxis = a->n;
  f->block = 1;
  for (int i = 0; i < a->n; i++) {
    axis[i] = (int)(a->ints[i] + (a->ints[i] < 0 ? x->meta.ndim : 0)) + extra;
    along[axis[i]] = true;
    f->axis[i] = (Axis){y->meta.dim[axis[i]], x->stride[axis[i] - extra], 0};
    if (i < a->n - 1) {
      f->block *= f->axis[i].terms;
      continue;
    }
    f->n = f->axis[i].terms;
    f->given = x->meta.dim[axis[i] - extra];
    if (f->real) f->axis[i].terms = f->n / 2 + 1;
    f->block *= f->axis[i].terms;
  }
}

static int filter(TsCall *call, Filter *f, TsTensor *x, TsTensor *y) {
  int axis[TS_MAX_RANK], nd = y->meta.ndim, at = 0;
  bool along[TS_MAX_RANK] = {false};
  take_axes(call, f, axis, along, x);
  for (int i = 0; i < f->naxis; i++) f->axis[i].y = y->stride[axis[i]];
  TsTensor *h = blocks_of(call, f, axis, along);
  if (!h) return -1;
  for (int i = 0; i < nd; i++) {
    if (along[i]) continue;
    int64_t own = h->meta.dim[at] == 1 ? 0 : h->stride[at];
    at++;
    add_outer(f, (Outer){y->meta.dim[i], stride_of(x, i, nd), y->stride[i], own});
  }
  int failed = !(f->x = ts_tensor_read(x)) || !(f->h = ts_tensor_read(h)) ||
               !(f->y = ts_tensor_write(y)) ||
               (f->naxis == 1 ? one_axis(call, f) : run(call, f));
  ts_tensor_unref(h);
  return failed ? -1 : 0;
}

int ts_exec_spectral_filter(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *y = call->out[0], *narrow = NULL;
  Filter f = {.k = c->k, .norm = ts_fft_norm(call->attr[2].i)};
  TsDtype d = ts_dtype_complex(call->compute);
  f.wide = d == TS_DT_complex128;
  f.real = ts_dtype_is(ts_tensor_dtype(call->in[0]), TS_KIND_F);
  if (f.real) d = ts_dtype_real(d);
  if (ts_tensor_numel(y) == 0) return 0;
  TsTensor *x = call->in[0];
  x = ts_tensor_dtype(x) == d ? ts_tensor_ref(x) : ts_tensor_cast(c, x, d);
  int failed = !x;
  if (!failed && ts_tensor_dtype(y) != d) {
    TsMeta m = y->meta;
    m.dtype = (uint8_t)d;
    failed = !(narrow = ts_tensor_new(c, &m));
  }
  if (!failed) failed = filter(call, &f, x, narrow ? narrow : y);
  if (!failed && narrow) failed = ts_vm_assign(c, y, narrow);
  ts_tensor_unref(x);
  ts_tensor_unref(narrow);
  return failed ? -1 : 0;
}
