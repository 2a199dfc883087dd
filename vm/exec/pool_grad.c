/* avg_pool_grad, adaptive_avg_pool_grad: the transposes of the means of vm/exec/pool.c. The
 * definition, for every element of x: a sum from +0 of g / count over the windows that
 * hold it, in increasing order of outputs. 16-bit floats are summed in f32 and rounded
 * once. What runs in parallel are images and channels, which never meet. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/drive/conv.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"

enum {
  PIECE = 64, /* channels of a unit where they stand last */
  LOOK = 16   /* taps of a row between looks for interrupts */
};

typedef struct Job {
  TsCall *call;
  const TsKernels *k;
  bool last, whole;
  TsDtype d;
  int64_t size, batch, channels, in[3], out[3], window[3], stride[3], padding[3], dilation[3],
      margin[3];
  const char *g;
  char *x;
  TsScratch scratch; /* for a row of shares */
} Job;

/* to[i] = g[i] / count */
static void share(const Job *j, char *to, const char *g, int64_t n, double count) {
  if (j->size == 8)
    for (int64_t i = 0; i < n; i++)
      ((double *)(void *)to)[i] = ((const double *)(const void *)g)[i] / count;
  else
    for (int64_t i = 0; i < n; i++)
      ((float *)(void *)to)[i] = ((const float *)(const void *)g)[i] / (float)count;
}

/* x[i*step] += v[i] */
static void spread(const Job *j, char *x, const char *v, int64_t n, int64_t step) {
  if (step == 1)
    j->k->pool.add[j->size == 8](x, v, n, 1);
  else if (j->size == 8)
    for (int64_t i = 0; i < n; i++)
      ((double *)(void *)x)[i * step] += ((const double *)(const void *)v)[i];
  else
    for (int64_t i = 0; i < n; i++)
      ((float *)(void *)x)[i * step] += ((const float *)(const void *)v)[i];
}

static int64_t reach(const Job *j, int a, int64_t o, int64_t k) {
  int64_t i = o * j->stride[a] + k * j->dilation[a] - j->padding[a];
  return i >= 0 && i < j->in[a] ? i : -1;
}

/* Outputs [lo, hi) along the last axis for which tap k lies inside. */
static void span(const Job *j, int64_t k, int64_t *lo, int64_t *hi) {
  int64_t off = k * j->dilation[2] - j->padding[2], s = j->stride[2];
  *lo = off >= 0 ? 0 : (-off + s - 1) / s;
  *hi = off >= j->in[2] ? 0 : (j->in[2] - 1 - off) / s + 1;
  if (*hi > j->out[2]) *hi = j->out[2];
}

static double count(const Job *j, int64_t d, int64_t h, int64_t w) {
  int64_t at[3] = {d, h, w}, n = 1;
  for (int a = 0; a < 3; a++) {
    int64_t taps = j->whole ? j->window[a] : 0;
    for (int64_t k = 0; k < j->window[a] && !j->whole; k++) {
      int64_t i = at[a] * j->stride[a] + k * j->dilation[a] - j->padding[a];
      taps += i >= -j->margin[a] && i < j->in[a] + j->margin[a];
    }
    n *= taps;
  }
  return (double)n;
}

/* A row of outputs of one channel. Taps from the last to the first reach an element from
 * increasing outputs. */
static void spread_row(const Job *j, char *plane, int64_t d, int64_t h, const char *g,
                       char *v) {
  if (j->whole) share(j, v, g, j->out[2], count(j, d, h, 0));
  for (int64_t w = 0; w < j->out[2] && !j->whole; w++)
    share(j, v + w * j->size, g + w * j->size, 1, count(j, d, h, w));
  for (int64_t a = 0; a < j->window[0]; a++)
    for (int64_t b = 0; b < j->window[1]; b++) {
      int64_t id = reach(j, 0, d, a), ih = reach(j, 1, h, b), lo, hi;
      if (id < 0 || ih < 0) continue;
      for (int64_t k = j->window[2]; k-- > 0 && (k % LOOK || !ts_cpu_interrupted());) {
        span(j, k, &lo, &hi);
        int64_t at = (id * j->in[1] + ih) * j->in[2] + lo * j->stride[2] + k * j->dilation[2] -
                     j->padding[2];
        if (lo < hi) spread(j, plane + at * j->size, v + lo * j->size, hi - lo, j->stride[2]);
      }
    }
}

static void clear_rows(const Job *j, char *plane) {
  int64_t row = j->in[2] * j->size;
  for (int64_t r = 0; r < j->in[0] * j->in[1] && !ts_cpu_interrupted(); r++)
    memset(plane + r * row, 0, (size_t)row);
}

static void planes(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t in = j->in[0] * j->in[1] * j->in[2], rows = j->out[0] * j->out[1];
  char *v = ts_scratch_part(&j->scratch, worker);
  for (int64_t i = lo; i < hi; i++) {
    char *plane = j->x + i * in * j->size;
    clear_rows(j, plane);
    for (int64_t r = 0; r < rows && !ts_cpu_interrupted(); r++)
      spread_row(j, plane, r / j->out[1], r % j->out[1],
                 j->g + (i * rows + r) * j->out[2] * j->size, v);
  }
}

/* ---- channels last: a piece of the channels of one image */
static void spread_pixel(const Job *j, char *image, const int64_t o[3], const char *g,
                         int64_t n, char *v) {
  share(j, v, g, n, count(j, o[0], o[1], o[2]));
  for (int64_t a = 0; a < j->window[0]; a++)
    for (int64_t b = 0; b < j->window[1]; b++)
      for (int64_t k = 0; k < j->window[2]; k++) {
        int64_t id = reach(j, 0, o[0], a), ih = reach(j, 1, o[1], b), iw = reach(j, 2, o[2], k);
        if (id < 0 || ih < 0 || iw < 0) continue;
        int64_t at = ((id * j->in[1] + ih) * j->in[2] + iw) * j->channels;
        spread(j, image + at * j->size, v, n, 1);
      }
}

static void pieces(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t in = j->in[0] * j->in[1] * j->in[2], out = j->out[0] * j->out[1] * j->out[2];
  int64_t each = (j->channels + PIECE - 1) / PIECE;
  char *v = ts_scratch_part(&j->scratch, worker);
  for (int64_t i = lo; i < hi; i++) {
    int64_t first = i % each * PIECE;
    int64_t n = j->channels - first < PIECE ? j->channels - first : PIECE;
    char *image = j->x + (i / each * in * j->channels + first) * j->size;
    const char *g = j->g + (i / each * out * j->channels + first) * j->size;
    for (int64_t p = 0; p < in; p++)
      memset(image + p * j->channels * j->size, 0, (size_t)(n * j->size));
    for (int64_t p = 0; p < out && !ts_cpu_interrupted(); p++) {
      int64_t o[3] = {p / j->out[2] / j->out[1], p / j->out[2] % j->out[1], p % j->out[2]};
      spread_pixel(j, image, o, g + p * j->channels * j->size, n, v);
    }
  }
}

/* ---- windows of differing sizes, as in vm/exec/pool.c */
static int64_t from(const Job *j, int a, int64_t o) { return o * j->in[a] / j->out[a]; }
static int64_t upto(const Job *j, int a, int64_t o) {
  return ((o + 1) * j->in[a] + j->out[a] - 1) / j->out[a];
}

static void add_share(const Job *j, char *x, const char *v, int64_t n) {
  if (j->size == 8)
    for (int64_t i = 0; i < n; i++)
      ((double *)(void *)x)[i] += *(const double *)(const void *)v;
  else
    for (int64_t i = 0; i < n; i++) ((float *)(void *)x)[i] += *(const float *)(const void *)v;
}

static void adaptive_planes(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t in = j->in[0] * j->in[1] * j->in[2], out = j->out[0] * j->out[1] * j->out[2];
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    char *plane = j->x + i * in * j->size;
    clear_rows(j, plane);
    for (int64_t p = 0; p < out && !ts_cpu_interrupted(); p++) {
      int64_t d = p / j->out[2] / j->out[1], h = p / j->out[2] % j->out[1], w = p % j->out[2];
      int64_t d0 = from(j, 0, d), d1 = upto(j, 0, d), h0 = from(j, 1, h), h1 = upto(j, 1, h);
      int64_t w0 = from(j, 2, w), n = upto(j, 2, w) - w0;
      double v[1];
      share(j, (char *)v, j->g + (i * out + p) * j->size, 1,
            (double)((d1 - d0) * (h1 - h0) * n));
      for (int64_t a = d0; a < d1; a++)
        for (int64_t b = h0; b < h1; b++)
          add_share(j, plane + ((a * j->in[1] + b) * j->in[2] + w0) * j->size, (char *)v, n);
    }
  }
}

/* ---- setting up */
static void read_sizes(Job *j) {
  const TsMeta *x = &j->call->out[0]->meta, *g = &j->call->in[0]->meta;
  int nd = x->ndim - 2, space = j->last ? 1 : 2;
  j->d = (TsDtype)ts_dtypes[x->dtype].accum, j->size = ts_dtypes[j->d].nbytes;
  j->batch = x->dim[0], j->channels = x->dim[j->last ? nd + 1 : 1];
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - nd);
    j->in[i] = at < 0 ? 1 : x->dim[space + at];
    j->out[i] = at < 0 ? 1 : g->dim[space + at];
  }
}

static int run(Job *j, TsTask *task, int64_t items) {
  TsContext *c = j->call->ctx;
  TsTensor *y = j->call->out[0];
  TsDtype stored = ts_tensor_dtype(y);
  int64_t n = ts_tensor_numel(y);
  if (n == 0) return 0;
  TsTensor *g = ts_tensor_cast(c, j->call->in[0], j->d);
  char *to = g ? ts_tensor_write(y) : NULL;
  int failed = !to || !(j->g = ts_tensor_read(g));
  j->x = failed || stored == j->d ? to : ts_work_take(n * j->size + 64);
  if (!failed && (!j->x || ts_scratch_open(&j->scratch, (j->out[2] + PIECE) * j->size)))
    failed = ts_scratch_failed(j->call);
  if (!failed) ts_cpu_parallel(items, (1 << 14) / (n / items + 1) + 1, task, j);
  if (!failed && stored != j->d) c->k->convert.convert[j->d][stored](n, to, j->x);
  if (j->x != to) ts_work_give(j->x);
  ts_scratch_close(&j->scratch);
  ts_tensor_unref(g);
  return failed ? -1 : 0;
}

int ts_exec_avg_pool_grad(TsCall *call) {
  enum { SIZE, WINDOW, STRIDE, PADDING, DILATION, LAYOUT, COUNT, OVER };
  const TsAttr *a = call->attr;
  int nd = call->in[0]->meta.ndim - 2;
  bool whole = a[COUNT].i && !a[OVER].i;
  Job j = {.call = call, .k = call->ctx->k, .last = a[LAYOUT].i == 1, .whole = whole};
  read_sizes(&j);
  ts_window_list(&a[WINDOW], nd, 1, j.window);
  ts_window_list(a[STRIDE].type == TS_ATTR_ints ? &a[STRIDE] : &a[WINDOW], nd, 1, j.stride);
  ts_window_list(&a[PADDING], nd, 0, j.padding);
  ts_window_list(&a[DILATION], nd, 1, j.dilation);
  for (int i = 0; i < 3; i++) j.margin[i] = a[COUNT].i ? j.padding[i] : 0;
  if (j.last) return run(&j, pieces, j.batch * ((j.channels + PIECE - 1) / PIECE));
  return run(&j, planes, j.batch * j.channels);
}

int ts_exec_adaptive_avg_pool_grad(TsCall *call) {
  Job j = {.call = call, .k = call->ctx->k};
  read_sizes(&j);
  return run(&j, adaptive_planes, j.batch * j.channels);
}
