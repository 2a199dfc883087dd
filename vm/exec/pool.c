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

enum { LOOK = 16 }; /* taps of a row between looks for interrupts; those whose span is known */

typedef struct Job {
  TsCall *call;
  const TsKernels *k;
  bool last, max, whole; /* whole: all taps of a mean count */
  TsDtype d;             /* in which the pool is computed */
  int64_t size, batch, channels, in[3], out[3], window[3], stride[3], padding[3], dilation[3],
      margin[3];          /* padding that counts */
  const char *x;          /* row-major */
  char *y;                /* the same */
  char least[8];          /* of the type */
  TsScratch scratch;      /* max_pool_index: largest numbers and their taps; y are places */
  int64_t known[LOOK][2]; /* spans of the first taps along the last axis */
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
static void find_span(const Job *j, int a, int64_t k, int64_t *lo, int64_t *hi) {
  int64_t off = k * j->dilation[a] - j->padding[a], s = j->stride[a];
  *lo = off >= 0 ? 0 : (-off + s - 1) / s;
  *hi = off >= j->in[a] ? 0 : (j->in[a] - 1 - off) / s + 1;
  if (*hi > j->out[a]) *hi = j->out[a];
}

static void span(const Job *j, int64_t k, int64_t *lo, int64_t *hi) {
  if (k < LOOK)
    *lo = j->known[k][0], *hi = j->known[k][1];
  else
    find_span(j, 2, k, lo, hi);
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

/* ---- rows of outputs of one channel, several at once: their elements at one tap are taken out
 * of their rows and joined as one run */
enum { AT_ONCE = 1024, LONG = 64 }; /* elements; of a row that is a run of its own */

typedef struct Rows {
  const char *plane;
  int64_t d, h, n; /* rows h to h + n */
  char *acc, *stage;
  int32_t *tap; /* of the largest, or NULL */
} Rows;

/* As many as are worked on at once. */
static int64_t rows_at_once(const Job *j) {
  return j->out[2] < AT_ONCE ? AT_ONCE / j->out[2] : 1;
}

static void join_run(const Job *j, const Rows *r, int64_t at, const char *x, int64_t n,
                     int64_t step, int32_t number) {
  char *acc = r->acc + at * j->size;
  if (!r->tap) {
    join(j, acc, x, n, step);
    return;
  }
  if (step != 1) {
    j->k->copy.gather(n, r->stage, x, step * j->size, (int)j->size);
    x = r->stage;
  }
  j->k->pool.index_max[j->d](acc, r->tap + at, x, n, number);
}

/* Columns [lo, hi) of `rows` rows from output `at` on; x is the first one's element. */
static void join_tap(const Job *j, const Rows *r, int64_t at, const char *x, int64_t rows,
                     int64_t lo, int64_t hi, int32_t number) {
  int64_t n = hi - lo, step = j->stride[2], pitch = j->stride[1] * j->in[2] * j->size;
  if (n < j->out[2] || n >= LONG || rows == 1) {
    for (int64_t i = 0; i < rows; i++)
      join_run(j, r, at + i * j->out[2] + lo, x + i * pitch, n, step, number);
    return;
  }
  for (int64_t i = 0; i < rows; i++)
    j->k->copy.gather(n, r->stage + i * n * j->size, x + i * pitch, step * j->size,
                      (int)j->size);
  join_run(j, r, at, r->stage, rows * n, 1, number);
}

static void join_rows(const Job *j, const Rows *r) {
  int64_t number = 0, lo, hi, from, to;
  for (int64_t a = 0; a < j->window[0]; a++)
    for (int64_t b = 0; b < j->window[1]; b++, number += j->window[2]) {
      int64_t id = reach(j, 0, r->d, a);
      find_span(j, 1, b, &from, &to);
      if (from < r->h) from = r->h;
      if (to > r->h + r->n) to = r->h + r->n;
      if (id < 0 || from >= to) continue;
      int64_t ih = from * j->stride[1] + b * j->dilation[1] - j->padding[1];
      const char *row = r->plane + (id * j->in[1] + ih) * j->in[2] * j->size;
      for (int64_t k = 0; k < j->window[2] && (k % LOOK || !ts_cpu_interrupted()); k++) {
        span(j, k, &lo, &hi);
        int64_t x = lo * j->stride[2] + k * j->dilation[2] - j->padding[2];
        if (lo < hi)
          join_tap(j, r, (from - r->h) * j->out[2], row + x * j->size, to - from, lo, hi,
                   (int32_t)(number + k));
      }
    }
}

/* The rows from row i on, of less than `end`, that are worked on at once. */
static Rows rows_from(const Job *j, int64_t i, int64_t end) {
  int64_t per = j->out[0] * j->out[1], in = j->in[0] * j->in[1] * j->in[2];
  Rows r = {.plane = j->x + i / per * in * j->size,
            .d = i % per / j->out[1],
            .h = i % j->out[1],
            .n = rows_at_once(j)};
  if (r.n > j->out[1] - r.h) r.n = j->out[1] - r.h;
  if (r.n > end - i) r.n = end - i;
  return r;
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
  while (lo < hi && !j->last) {
    Rows r = rows_from(j, lo, hi);
    int64_t n = r.n * j->out[2];
    r.acc = j->y + lo * j->out[2] * j->size;
    r.stage = ts_scratch_part(&j->scratch, worker);
    clear(j, r.acc, n);
    join_rows(j, &r);
    for (int64_t i = 0; i < r.n; i++)
      divide_by_counts(j, r.acc + i * j->out[2] * j->size, r.d, r.h + i, 0, j->out[2], 1);
    lo += r.n;
  }
  for (; lo < hi; lo++)
    for (int64_t w = 0; w < j->out[2]; w++)
      pool_pixel(j, j->x + lo / per * in * j->channels * j->size, lo % per / j->out[1],
                 lo % j->out[1], w, j->y + (lo * j->out[2] + w) * j->channels * j->size);
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

/* Of a thread: what is taken out of rows, the largest, and their taps. */
static int64_t scratch_run(const Job *j) {
  int64_t n = j->last ? j->channels : rows_at_once(j) * j->out[2];
  return (n + 1) / 2 * 2; /* so that taps are whole words of 8 bytes */
}

static int64_t scratch_size(const Job *j) {
  return scratch_run(j) * (2 * j->size + (int64_t)sizeof(int32_t));
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
  if (!failed && (!j->y || ts_scratch_open(&j->scratch, scratch_size(j))))
    failed = ts_scratch_failed(j->call);
  if (!failed) ts_cpu_parallel(items, (1 << 15) / (work + 1) + 1, task, j);
  ts_scratch_close(&j->scratch);
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
  for (int64_t k = 0; k < LOOK && k < j->window[2]; k++)
    find_span(j, 2, k, &j->known[k][0], &j->known[k][1]);
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

/* ---- places of the largest: taps by their number, which is as wide as most of what is compared */
typedef struct Largest {
  char *acc, *stage;
  int32_t *tap;
  int64_t from[LOOK]; /* of the first taps: as tap_offset says */
} Largest;

/* How far the element of a tap lies behind that of the first one. */
static int64_t tap_offset(const Job *j, int64_t number) {
  int64_t k = number % j->window[2], rest = number / j->window[2];
  int64_t b = rest % j->window[1], a = rest / j->window[1];
  return (a * j->dilation[0] * j->in[1] + b * j->dilation[1]) * j->in[2] + k * j->dilation[2];
}

static void open_largest(const Job *j, int worker, Largest *l) {
  char *part = ts_scratch_part(&j->scratch, worker);
  int64_t n = scratch_run(j);
  l->stage = part, l->acc = part + n * j->size;
  l->tap = (int32_t *)(void *)(part + 2 * n * j->size);
  for (int t = 0; t < LOOK; t++) l->from[t] = tap_offset(j, t);
}

/* The places of n outputs, of which the first is (d, h, w); step lies between their first taps. */
static void write_places(const Job *j, const Largest *l, const int32_t *tap, int64_t n,
                         int64_t d, int64_t h, int64_t w, int64_t step, int64_t *y) {
  int64_t id = d * j->stride[0] - j->padding[0], ih = h * j->stride[1] - j->padding[1];
  int64_t first = (id * j->in[1] + ih) * j->in[2] + w * j->stride[2] - j->padding[2];
  for (int64_t i = 0; i < n; i++) {
    int32_t t = tap[i];
    int64_t from = t < 0 ? 0 : t < LOOK ? l->from[t] : tap_offset(j, t);
    y[i] = t < 0 ? -1 : first + i * step + from;
  }
}

static void index_pixel(const Job *j, const char *image, int64_t d, int64_t h, int64_t w,
                        const Largest *l, int64_t *y) {
  int64_t number = 0;
  for (int64_t i = 0; i < j->channels; i++) l->tap[i] = -1;
  for (int64_t a = 0; a < j->window[0]; a++)
    for (int64_t b = 0; b < j->window[1]; b++)
      for (int64_t k = 0; k < j->window[2]; k++, number++) {
        int64_t id = reach(j, 0, d, a), ih = reach(j, 1, h, b), iw = reach(j, 2, w, k);
        if (id < 0 || ih < 0 || iw < 0) continue;
        int64_t at = ((id * j->in[1] + ih) * j->in[2] + iw) * j->channels;
        j->k->pool.index_max[j->d](l->acc, l->tap, image + at * j->size, j->channels,
                                   (int32_t)number);
      }
  write_places(j, l, l->tap, j->channels, d, h, w, 0, y);
}

static void index_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t per = j->out[0] * j->out[1], in = j->in[0] * j->in[1] * j->in[2], n = j->out[2];
  int64_t *y = (int64_t *)(void *)j->y;
  Largest l;
  open_largest(j, worker, &l);
  while (lo < hi && !j->last) {
    Rows r = rows_from(j, lo, hi);
    r.acc = l.acc, r.stage = l.stage, r.tap = l.tap;
    for (int64_t i = 0; i < r.n * n; i++) l.tap[i] = -1;
    join_rows(j, &r);
    for (int64_t i = 0; i < r.n; i++, lo++)
      write_places(j, &l, l.tap + i * n, n, r.d, r.h + i, 0, j->stride[2], y + lo * n);
  }
  for (; lo < hi; lo++)
    for (int64_t w = 0; w < n; w++)
      index_pixel(j, j->x + lo / per * in * j->channels * j->size, lo % per / j->out[1],
                  lo % j->out[1], w, &l, y + (lo * n + w) * j->channels);
}

static int too_many_taps(const Job *j) {
  int64_t n = INT32_MAX;
  for (int i = 0; i < 3; i++) n /= j->window[i];
  return n ? 0
           : ts_error_set(&j->call->ctx->err, TS_ERR_value,
                          "max_pool_index: a window of more than %d elements", INT32_MAX);
}

int ts_exec_max_pool_index(TsCall *call) {
  Job j = {.call = call, .k = call->ctx->k, .max = true, .last = call->attr[4].i == 1};
  j.d = computed_in(ts_tensor_dtype(call->in[0])), j.size = ts_dtypes[j.d].nbytes;
  read_window(&j);
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  if (too_many_taps(&j)) return -1;
  TsTensor *x = ts_tensor_cast(call->ctx, call->in[0], j.d);
  int64_t items = j.batch * (j.last ? 1 : j.channels) * j.out[0] * j.out[1];
  int64_t work = j.out[2] * (j.last ? j.channels : 1) * j.window[0] * j.window[1] * j.window[2];
  int failed = !x || !(j.x = ts_tensor_read(x)) || !(j.y = ts_tensor_write(call->out[0]));
  if (!failed && ts_scratch_open(&j.scratch, scratch_size(&j)))
    failed = ts_scratch_failed(call);
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
