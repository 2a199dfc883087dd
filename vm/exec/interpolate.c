/* interpolate: space axes resampled. Output o of an axis of `in` elements lies at
 *   nearest        floor(o * in / out), or floor(o / scale) where scale is given
 *   nearest_exact  floor((o + 1/2) * in / out), or floor((o + 1/2) / scale)
 *   align_corners  o * (in - 1) / (out - 1), 0 for one output
 *   else           (o + 1/2) * r - 1/2, r = in / out or 1 / scale; not below 0 for linear
 * made in f64 (nearest by integers). With i = floor and t = the rest, linear takes
 * elements i and i + 1 with weights 1 - t and t, cubic i - 1 .. i + 2 with those of the
 * cubic convolution with a = -3/4 (Keys 1981), indices limited to the image; weights are
 * rounded to the type of the sums, f32 or f64. Axes are resampled from the first to the
 * last, each as w0 x0, then fma(w, x, sum) for the taps in increasing order. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "lib/resample.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"

enum { MOST_TAPS = TS_RESAMPLE_TAPS };

/* Taps of one axis: tap t of output o is element at[t*out + o] with weight w[t*out + o]. */
typedef struct Axis {
  int64_t in, out, *at;
  void *w;
} Axis;

typedef struct Job {
  const TsKernels *k;
  int taps, wide; /* wide: f64 */
  int64_t size;
  Axis axis[3];
  const char *x;
  char *y;
  TsScratch scratch; /* for MOST_TAPS + 1 rows of the input */
} Job;

static double weight(const Job *j, const Axis *a, int tap, int64_t o) {
  int64_t i = tap * a->out + o;
  return j->wide ? ((double *)a->w)[i] : (double)((float *)a->w)[i];
}

static int make_axis(const Job *j, Axis *a, int mode, double scale, bool corners) {
  TsResample r = {mode, corners, a->in, a->out, scale};
  a->at = ts_work_take((j->taps * a->out + 1) * 8);
  a->w = ts_work_take((j->taps * a->out + 1) * 8);
  if (!a->at || !a->w) return -1;
  for (int64_t o = 0; o < a->out; o++) {
    int64_t from[TS_RESAMPLE_TAPS];
    double w[TS_RESAMPLE_TAPS];
    ts_resample_at(&r, o, from, w);
    for (int t = 0; t < j->taps; t++) {
      int64_t at = t * a->out + o;
      a->at[at] = from[t];
      if (j->wide)
        ((double *)a->w)[at] = w[t];
      else
        ((float *)a->w)[at] = (float)w[t];
    }
  }
  return 0;
}

/* to = the taps' rows blended; rows of n elements, src[t] is tap t's. */
static void blend(const Job *j, const Axis *a, int64_t o, char *to, const char *const *src,
                  int64_t n) {
  TsPointwiseFn *const *f = j->wide ? j->k->pointwise.f64 : j->k->pointwise.f32;
  for (int t = 0; t < j->taps; t++) {
    double w = weight(j, a, t, o);
    float w32 = (float)w;
    const void *factor = j->wide ? (const void *)&w : (const void *)&w32;
    const void *in[3] = {src[t], factor, to};
    f[t ? TS_PW_fma : TS_PW_mul](n, to, in, NULL, 2);
  }
}

/* Row h of the plane that the first axis gives for its output d: the input's own where
 * there is nothing to blend. */
static const char *deep_row(const Job *j, const char *image, int64_t d, int64_t h,
                            char *scratch) {
  const Axis *a = &j->axis[0];
  const char *src[MOST_TAPS];
  int64_t n = j->axis[2].in, plane = j->axis[1].in * n;
  for (int t = 0; t < j->taps; t++)
    src[t] = image + (a->at[t * a->out + d] * plane + h * n) * j->size;
  if (j->taps == 1 || (a->in == 1 && a->out == 1)) return src[0];
  blend(j, a, d, scratch, src, n);
  return scratch;
}

static const char *high_row(const Job *j, const char *image, int64_t d, int64_t h,
                            char *scratch) {
  const Axis *a = &j->axis[1];
  const char *src[MOST_TAPS];
  int64_t bytes = j->axis[2].in * j->size;
  bool alone = j->taps == 1 || (a->in == 1 && a->out == 1);
  for (int t = 0; t < (alone ? 1 : j->taps); t++)
    src[t] = deep_row(j, image, d, a->at[t * a->out + h], scratch + (t + 1) * bytes);
  if (alone) return src[0];
  blend(j, a, h, scratch, src, j->axis[2].in);
  return scratch;
}

static void rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  const Axis *w = &j->axis[2];
  int64_t per = j->axis[0].out * j->axis[1].out, in = j->axis[0].in * j->axis[1].in * w->in;
  char *scratch = ts_scratch_part(&j->scratch, worker);
  for (int64_t i = lo; i < hi; i++) {
    int64_t d = i % per / j->axis[1].out, h = i % j->axis[1].out;
    const char *row = high_row(j, j->x + i / per * in * j->size, d, h, scratch);
    j->k->pool.resample[j->wide](j->y + i * w->out * j->size, row, w->out, j->taps, w->at,
                                 w->w);
  }
}

static int make_axes(TsCall *call, Job *j, const TsMeta *x, const TsMeta *y) {
  const TsAttr *scale = &call->attr[1];
  int nd = x->ndim - 2, mode = (int)call->attr[2].i;
  j->taps = ts_resample_taps(mode);
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - nd);
    Axis *a = &j->axis[i];
    a->in = at < 0 ? 1 : x->dim[2 + at], a->out = at < 0 ? 1 : y->dim[2 + at];
    double s =
        at >= 0 && scale->type == TS_ATTR_floats ? scale->floats[scale->n == 1 ? 0 : at] : 0;
    if (make_axis(j, a, mode, s, call->attr[3].i)) return ts_scratch_failed(call);
  }
  return 0;
}

static void release(Job *j) {
  for (int i = 0; i < 3; i++) ts_work_give(j->axis[i].at), ts_work_give(j->axis[i].w);
  ts_scratch_close(&j->scratch);
}

int ts_exec_interpolate(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *y = call->out[0];
  TsDtype stored = ts_tensor_dtype(y), d = (TsDtype)ts_dtypes[stored].accum;
  Job j = {.k = c->k, .wide = d == TS_DT_f64, .size = ts_dtypes[d].nbytes};
  int64_t n = ts_tensor_numel(y);
  if (n == 0) return 0;
  TsTensor *x = ts_tensor_cast(c, call->in[0], d);
  char *to = x ? ts_tensor_write(y) : NULL;
  int failed =
      !to || !(j.x = ts_tensor_read(x)) || make_axes(call, &j, &call->in[0]->meta, &y->meta);
  if (!failed && ts_scratch_open(&j.scratch, (MOST_TAPS + 1) * j.axis[2].in * j.size))
    failed = ts_scratch_failed(call);
  j.y = failed || stored == d ? to : ts_work_take(n * j.size + 64);
  if (!failed && !j.y) failed = ts_scratch_failed(call);
  if (!failed)
    ts_cpu_parallel(n / j.axis[2].out, (1 << 15) / (j.axis[2].out * j.taps * 2 + 1) + 1, rows,
                    &j);
  if (!failed && stored != d) c->k->convert.convert[d][stored](n, to, j.y);
  if (j.y != to) ts_work_give(j.y);
  release(&j);
  ts_tensor_unref(x);
  return failed ? -1 : 0;
}

/* ---- the transpose, interpolate_grad. Axis after axis, the first one first: an element is
 * the chain of fma(weight, g, sum) from +0 over the outputs, and the taps of each, that
 * point to it, in increasing order. Along the first two axes these are sums of rows. */
typedef struct Sorted { /* taps of the last axis by the element that they point to */
  int64_t *first, *at;
  void *w;
} Sorted;

typedef struct Back {
  Job j;
  Sorted last;
  const char *g;
  char *x;
} Back;

static bool identity(const Axis *a) { return a->in == 1 && a->out == 1; }

static int sort_taps(const Job *j, Sorted *s) {
  const Axis *a = &j->axis[2];
  int64_t n = j->taps * a->out;
  s->first = ts_work_take((a->in + 2) * 8);
  s->at = ts_work_take((n + 1) * 8), s->w = ts_work_take((n + 1) * 8);
  if (!s->first || !s->at || !s->w) return -1;
  memset(s->first, 0, (size_t)(a->in + 2) * 8);
  for (int64_t i = 0; i < n; i++) s->first[a->at[i] + 2]++;
  for (int64_t i = 2; i < a->in + 2; i++) s->first[i] += s->first[i - 1];
  for (int64_t o = 0; o < a->out; o++)
    for (int t = 0; t < j->taps; t++) {
      int64_t e = s->first[a->at[t * a->out + o] + 1]++;
      double w = weight(j, a, t, o);
      s->at[e] = o;
      if (j->wide)
        ((double *)s->w)[e] = w;
      else
        ((float *)s->w)[e] = (float)w;
    }
  return 0;
}

/* to [a->in][n] from g [a->out][n]. */
static void join_rows(const Job *j, const Axis *a, char *to, const char *g, int64_t n) {
  TsPointwiseFn *fma =
      j->wide ? j->k->pointwise.f64[TS_PW_fma] : j->k->pointwise.f32[TS_PW_fma];
  int64_t bytes = n * j->size;
  for (int64_t i = 0; i < a->in && !ts_cpu_interrupted(); i++)
    memset(to + i * bytes, 0, (size_t)bytes);
  for (int64_t o = 0; o < a->out && !ts_cpu_interrupted(); o++)
    for (int t = 0; t < j->taps; t++) {
      double w = weight(j, a, t, o);
      float w32 = (float)w;
      char *row = to + a->at[t * a->out + o] * bytes;
      const void *in[3] = {g + o * bytes, j->wide ? (const void *)&w : (const void *)&w32, row};
      fma(n, row, in, NULL, 2);
    }
}

static void planes_back(void *arg, int64_t lo, int64_t hi, int worker) {
  const Back *b = arg;
  const Job *j = &b->j;
  const Axis *d = &j->axis[0], *h = &j->axis[1], *w = &j->axis[2];
  char *deep = ts_scratch_part(&j->scratch, worker);
  char *high = deep + (identity(d) ? 0 : d->in * h->out * w->out) * j->size;
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    const char *g = b->g + i * d->out * h->out * w->out * j->size;
    char *x = b->x + i * d->in * h->in * w->in * j->size;
    if (!identity(d)) join_rows(j, d, deep, g, h->out * w->out), g = deep;
    for (int64_t p = 0; p < d->in; p++, g += h->out * w->out * j->size) {
      const char *rows_in = g;
      if (!identity(h)) join_rows(j, h, high, g, w->out), rows_in = high;
      for (int64_t r = 0; r < h->in && !ts_cpu_interrupted(); r++, x += w->in * j->size)
        j->k->pool.collect[j->wide](x, rows_in + r * w->out * j->size, w->in, b->last.first,
                                    b->last.at, b->last.w);
    }
  }
}

int ts_exec_interpolate_grad(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *y = call->out[0];
  TsDtype stored = ts_tensor_dtype(y), d = (TsDtype)ts_dtypes[stored].accum;
  Back b = {.j = {.k = c->k, .wide = d == TS_DT_f64, .size = ts_dtypes[d].nbytes}};
  int64_t n = ts_tensor_numel(y);
  if (n == 0) return 0;
  TsTensor *g = ts_tensor_cast(c, call->in[0], d);
  char *to = g ? ts_tensor_write(y) : NULL;
  int failed =
      !to || !(b.g = ts_tensor_read(g)) || make_axes(call, &b.j, &y->meta, &call->in[0]->meta);
  const Axis *a = b.j.axis;
  int64_t scratch = a[0].in * a[1].out * a[2].out + a[1].in * a[2].out;
  b.x = failed || stored == d ? to : ts_work_take(n * b.j.size + 64);
  if (!failed &&
      (!b.x || sort_taps(&b.j, &b.last) || ts_scratch_open(&b.j.scratch, scratch * b.j.size)))
    failed = ts_scratch_failed(call);
  if (!failed) ts_cpu_parallel(y->meta.dim[0] * y->meta.dim[1], 1, planes_back, &b);
  if (!failed && stored != d) c->k->convert.convert[d][stored](n, to, b.x);
  if (b.x != to) ts_work_give(b.x);
  ts_work_give(b.last.first), ts_work_give(b.last.at), ts_work_give(b.last.w);
  release(&b.j);
  ts_tensor_unref(g);
  return failed ? -1 : 0;
}
