/* max_pool, max_pool_index, avg_pool, adaptive_avg_pool. For every output element:
 *   max   the largest number of the window, NaN if there is one; padding is not there
 *   mean  a sum from +0 over the window in row-major order, one addition an element,
 *         divided by the count of elements (with padding, unless it is left out; what
 *         a window reaches beyond that does not count)
 *   index the row-major place in x of the first largest number, or of the first NaN
 * 16-bit floats are summed in f32 and rounded once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/drive/conv.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"

enum { LOOK = 16 }; /* taps of a row between looks for interrupts */

typedef struct Job {
  TsCall *call;
  const TsKernels *k;
  bool last, max, whole; /* whole: all taps of a mean count */
  TsDtype d;             /* in which the pool is computed */
  int64_t size, batch, channels, in[3], out[3], window[3], stride[3], padding[3], dilation[3],
      margin[3];     /* padding that counts */
  const char *x;     /* row-major */
  char *y;           /* the same */
  char least[8];     /* of the type */
  TsScratch scratch; /* max_pool_index: largest numbers; y are places */
} Job;

static void clear(const Job *j, char *acc, int64_t n) {
  if (j->max)
    j->k->copy.splat(n, acc, j->least, (int)j->size);
  else
    memset(acc, 0, (size_t)(n * j->size));
}

static void join(const Job *j, char *acc, const char *x, int64_t n, int64_t step) {
  if (j->max)
    j->k->pool.max[j->d](acc, x, n, step);
  else
    j->k->pool.add[j->size == 8](acc, x, n, step);
}

/* Position of tap k for output o along an axis, or -1 outside. */
static int64_t reach(const Job *j, int a, int64_t o, int64_t k) {
  int64_t i = o * j->stride[a] + k * j->dilation[a] - j->padding[a];
  return i >= 0 && i < j->in[a] ? i : -1;
}

/* Outputs [lo, hi) along axis a for which tap k lies inside. */
static void span(const Job *j, int a, int64_t k, int64_t *lo, int64_t *hi) {
  int64_t off = k * j->dilation[a] - j->padding[a], s = j->stride[a];
  *lo = off >= 0 ? 0 : (-off + s - 1) / s;
  *hi = off >= j->in[a] ? 0 : (j->in[a] - 1 - off) / s + 1;
  if (*hi > j->out[a]) *hi = j->out[a];
}

static int64_t count_taps(const Job *j, int a, int64_t o) {
  int64_t n = 0;
  for (int64_t k = 0; k < j->window[a]; k++) {
    int64_t i = o * j->stride[a] + k * j->dilation[a] - j->padding[a];
    n += i >= -j->margin[a] && i < j->in[a] + j->margin[a];
  }
  return n;
}

static void divide(const Job *j, char *acc, int64_t n, double count) {
  if (j->size == 8)
    for (int64_t i = 0; i < n; i++) ((double *)(void *)acc)[i] /= count;
  else
    for (int64_t i = 0; i < n; i++) ((float *)(void *)acc)[i] /= (float)count;
}

static void divide_by_counts(const Job *j, char *acc, int64_t d, int64_t h, int64_t w,
                             int64_t n, int64_t per) {
  if (j->max) return;
  if (j->whole) {
    divide(j, acc, n * per, (double)(j->window[0] * j->window[1] * j->window[2]));
    return;
  }
  int64_t rest = count_taps(j, 0, d) * count_taps(j, 1, h);
  for (int64_t i = 0; i < n; i++)
    divide(j, acc + i * per * j->size, per, (double)(rest * count_taps(j, 2, w + i)));
}

/* One row of outputs of one channel. */
static void pool_row(const Job *j, const char *plane, int64_t d, int64_t h, char *acc) {
  clear(j, acc, j->out[2]);
  for (int64_t a = 0; a < j->window[0]; a++)
    for (int64_t b = 0; b < j->window[1]; b++) {
      int64_t id = reach(j, 0, d, a), ih = reach(j, 1, h, b), lo, hi;
      if (id < 0 || ih < 0) continue;
      const char *row = plane + (id * j->in[1] + ih) * j->in[2] * j->size;
      for (int64_t k = 0; k < j->window[2] && (k % LOOK || !ts_cpu_interrupted()); k++) {
        span(j, 2, k, &lo, &hi);
        int64_t at = lo * j->stride[2] + k * j->dilation[2] - j->padding[2];
        if (lo < hi) join(j, acc + lo * j->size, row + at * j->size, hi - lo, j->stride[2]);
      }
    }
  divide_by_counts(j, acc, d, h, 0, j->out[2], 1);
}

/* All channels of one output position. */
static void pool_pixel(const Job *j, const char *image, int64_t d, int64_t h, int64_t w,
                       char *acc) {
  clear(j, acc, j->channels);
  for (int64_t a = 0; a < j->window[0]; a++)
    for (int64_t b = 0; b < j->window[1]; b++)
      for (int64_t k = 0; k < j->window[2]; k++) {
        int64_t id = reach(j, 0, d, a), ih = reach(j, 1, h, b), iw = reach(j, 2, w, k);
        if (id < 0 || ih < 0 || iw < 0) continue;
        int64_t at = ((id * j->in[1] + ih) * j->in[2] + iw) * j->channels;
        join(j, acc, image + at * j->size, j->channels, 1);
      }
  divide_by_counts(j, acc, d, h, w, 1, j->channels);
}

/* Item i: row i of outputs, of a channel or, channels last, of an image. */
static void rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t per = j->out[0] * j->out[1], in = j->in[0] * j->in[1] * j->in[2];
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    int64_t d = i % per / j->out[1], h = i % j->out[1];
    if (!j->last) {
      pool_row(j, j->x + i / per * in * j->size, d, h, j->y + i * j->out[2] * j->size);
      continue;
    }
    for (int64_t w = 0; w < j->out[2]; w++)
      pool_pixel(j, j->x + i / per * in * j->channels * j->size, d, h, w,
                 j->y + (i * j->out[2] + w) * j->channels * j->size);
  }
}

static void set_least(Job *j) {
  int64_t lo, hi;
  if (j->d == TS_DT_f64) {
    double v = -INFINITY;
    memcpy(j->least, &v, sizeof v);
  } else if (j->d == TS_DT_f32) {
    float v = -INFINITY;
    memcpy(j->least, &v, sizeof v);
  } else {
    ts_dtype_int_range(j->d, &lo, &hi);
    memcpy(j->least, &lo, (size_t)j->size); /* little endian */
  }
}

static void read_sizes(Job *j, const TsMeta *x, const TsMeta *y) {
  int nd = x->ndim - 2, space = j->last ? 1 : 2;
  j->batch = x->dim[0], j->channels = x->dim[j->last ? nd + 1 : 1];
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - nd);
    j->in[i] = at < 0 ? 1 : x->dim[space + at];
    j->out[i] = at < 0 ? 1 : y->dim[space + at];
  }
}

typedef void Task(void *arg, int64_t lo, int64_t hi, int worker);

/* x and y in the type of the computation around the task. */
static int run(Job *j, Task *task, int64_t items, int64_t work) {
  TsContext *c = j->call->ctx;
  TsTensor *y = j->call->out[0];
  TsDtype stored = ts_tensor_dtype(y);
  int64_t n = ts_tensor_numel(y);
  TsTensor *x = ts_tensor_cast(c, j->call->in[0], j->d);
  char *to = x ? ts_tensor_write(y) : NULL;
  int failed = !to || !(j->x = ts_tensor_read(x));
  j->y = failed || stored == j->d ? to : ts_work_take(n * j->size + 64);
  if (!failed && !j->y) failed = ts_scratch_failed(j->call);
  if (!failed) ts_cpu_parallel(items, (1 << 15) / (work + 1) + 1, task, j);
  if (!failed && stored != j->d) c->k->convert.convert[j->d][stored](n, to, j->y);
  if (j->y != to) ts_work_give(j->y);
  ts_tensor_unref(x);
  return failed ? -1 : 0;
}

static TsDtype computed_in(TsDtype d) {
  return ts_dtype_is(d, TS_KIND_F) ? (TsDtype)ts_dtypes[d].accum : d;
}

static void read_window(Job *j) {
  const TsAttr *a = j->call->attr;
  int nd = j->call->in[0]->meta.ndim - 2;
  read_sizes(j, &j->call->in[0]->meta, &j->call->out[0]->meta);
  ts_window_list(&a[0], nd, 1, j->window);
  ts_window_list(a[1].type == TS_ATTR_ints ? &a[1] : &a[0], nd, 1, j->stride);
  ts_window_list(&a[2], nd, 0, j->padding);
  ts_window_list(&a[3], nd, 1, j->dilation);
}

static int pool(TsCall *call, bool max) {
  const TsAttr *a = call->attr;
  Job j = {.call = call, .k = call->ctx->k, .max = max, .last = a[4].i == 1};
  j.d = computed_in(ts_tensor_dtype(call->out[0])), j.size = ts_dtypes[j.d].nbytes;
  read_window(&j);
  if (!max) j.whole = a[5].i && !a[6].i;
  for (int i = 0; i < 3 && !max; i++) j.margin[i] = a[5].i ? j.padding[i] : 0;
  set_least(&j);
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  int64_t items = j.batch * (j.last ? 1 : j.channels) * j.out[0] * j.out[1];
  int64_t work = j.out[2] * (j.last ? j.channels : 1) * j.window[0] * j.window[1] * j.window[2];
  return run(&j, rows, items, work);
}

/* ---- places of the largest */
static void index_row(const Job *j, const char *plane, int64_t d, int64_t h, char *acc,
                      int64_t *y) {
  for (int64_t i = 0; i < j->out[2]; i++) y[i] = -1;
  for (int64_t a = 0; a < j->window[0]; a++)
    for (int64_t b = 0; b < j->window[1]; b++) {
      int64_t id = reach(j, 0, d, a), ih = reach(j, 1, h, b), lo, hi;
      if (id < 0 || ih < 0) continue;
      int64_t row = (id * j->in[1] + ih) * j->in[2];
      for (int64_t k = 0; k < j->window[2] && (k % LOOK || !ts_cpu_interrupted()); k++) {
        span(j, 2, k, &lo, &hi);
        int64_t at = row + lo * j->stride[2] + k * j->dilation[2] - j->padding[2];
        if (lo < hi)
          j->k->pool.index_max[j->d](acc + lo * j->size, y + lo, plane + at * j->size, hi - lo,
                                     j->stride[2], at, j->stride[2]);
      }
    }
}

static void index_pixel(const Job *j, const char *image, int64_t d, int64_t h, int64_t w,
                        char *acc, int64_t *y) {
  for (int64_t i = 0; i < j->channels; i++) y[i] = -1;
  for (int64_t a = 0; a < j->window[0]; a++)
    for (int64_t b = 0; b < j->window[1]; b++)
      for (int64_t k = 0; k < j->window[2]; k++) {
        int64_t id = reach(j, 0, d, a), ih = reach(j, 1, h, b), iw = reach(j, 2, w, k);
        if (id < 0 || ih < 0 || iw < 0) continue;
        int64_t at = (id * j->in[1] + ih) * j->in[2] + iw;
        j->k->pool.index_max[j->d](acc, y, image + at * j->channels * j->size, j->channels, 1,
                                   at, 0);
      }
}

static void index_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t per = j->out[0] * j->out[1], in = j->in[0] * j->in[1] * j->in[2];
  int64_t *y = (int64_t *)(void *)j->y;
  char *acc = ts_scratch_part(&j->scratch, worker);
  for (int64_t i = lo; i < hi; i++) {
    int64_t d = i % per / j->out[1], h = i % j->out[1];
    if (!j->last) {
      index_row(j, j->x + i / per * in * j->size, d, h, acc, y + i * j->out[2]);
      continue;
    }
    for (int64_t w = 0; w < j->out[2]; w++)
      index_pixel(j, j->x + i / per * in * j->channels * j->size, d, h, w, acc,
                  y + (i * j->out[2] + w) * j->channels);
  }
}

int ts_exec_max_pool_index(TsCall *call) {
  Job j = {.call = call, .k = call->ctx->k, .max = true, .last = call->attr[4].i == 1};
  j.d = computed_in(ts_tensor_dtype(call->in[0])), j.size = ts_dtypes[j.d].nbytes;
  read_window(&j);
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  TsTensor *x = ts_tensor_cast(call->ctx, call->in[0], j.d);
  int64_t row = j.last ? j.channels : j.out[2];
  int64_t items = j.batch * (j.last ? 1 : j.channels) * j.out[0] * j.out[1];
  int64_t work = j.out[2] * (j.last ? j.channels : 1) * j.window[0] * j.window[1] * j.window[2];
  int failed = !x || !(j.x = ts_tensor_read(x)) || !(j.y = ts_tensor_write(call->out[0]));
  if (!failed && ts_scratch_open(&j.scratch, row * j.size)) failed = ts_scratch_failed(call);
  if (!failed) ts_cpu_parallel(items, (1 << 14) / (work + 1) + 1, index_rows, &j);
  ts_scratch_close(&j.scratch);
  ts_tensor_unref(x);
  return failed ? -1 : 0;
}

int ts_exec_max_pool(TsCall *call) { return pool(call, true); }
int ts_exec_avg_pool(TsCall *call) { return pool(call, false); }

/* ---- windows of differing sizes: output o of an axis has floor(o n / s) to
 * ceil((o + 1) n / s) */
typedef struct Range {
  int64_t lo, hi;
} Range;

static Range window_of(const Job *j, int a, int64_t o) {
  return (Range){o * j->in[a] / j->out[a], ((o + 1) * j->in[a] + j->out[a] - 1) / j->out[a]};
}

#define MEAN(t, T)                                                                             \
  static T mean_##t(const Job *j, const T *x, Range d, Range h, Range w) {                     \
    T sum = 0;                                                                                 \
    for (int64_t a = d.lo; a < d.hi; a++)                                                      \
      for (int64_t b = h.lo; b < h.hi && !ts_cpu_interrupted(); b++)                           \
        for (int64_t c = w.lo; c < w.hi; c++) sum += x[(a * j->in[1] + b) * j->in[2] + c];     \
    return sum / (T)((d.hi - d.lo) * (h.hi - h.lo) * (w.hi - w.lo));                           \
  }

MEAN(f32, float)
MEAN(f64, double)

static void adaptive_planes(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t in = j->in[0] * j->in[1] * j->in[2], out = j->out[0] * j->out[1] * j->out[2];
  (void)worker;
  for (int64_t i = lo; i < hi; i++)
    for (int64_t o = 0; o < out && !ts_cpu_interrupted(); o++) {
      Range d = window_of(j, 0, o / j->out[2] / j->out[1]),
            h = window_of(j, 1, o / j->out[2] % j->out[1]), w = window_of(j, 2, o % j->out[2]);
      const char *x = j->x + i * in * j->size;
      char *y = j->y + (i * out + o) * j->size;
      if (j->size == 8)
        *(double *)(void *)y = mean_f64(j, (const double *)(const void *)x, d, h, w);
      else
        *(float *)(void *)y = mean_f32(j, (const float *)(const void *)x, d, h, w);
    }
}

int ts_exec_adaptive_avg_pool(TsCall *call) {
  Job j = {.call = call, .k = call->ctx->k};
  j.d = computed_in(ts_tensor_dtype(call->out[0])), j.size = ts_dtypes[j.d].nbytes;
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  read_sizes(&j, &call->in[0]->meta, &call->out[0]->meta);
  return run(&j, adaptive_planes, j.batch * j.channels, j.in[0] * j.in[1] * j.in[2]);
}
