/* histogram: bin b holds low + b step <= x < low + (b + 1) step, the last one also high,
 * where the edges are what the second result says: rounded to the type of a float x,
 * f64 for integers. Elements outside and NaN count nowhere. */
#include <math.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/memory.h"
#include "vm/core/exec.h"
#include "vm/drive/histogram.h"

enum { BLOCK = 1024, GRAIN = 32 }; /* elements read at once; blocks a thread takes */

typedef struct Job {
  const char *x;
  int64_t n, bins;
  int size;
  TsConvertFn *convert; /* x -> f64, or NULL */
  double low, high, *edge;
  int64_t *count;     /* bins for each worker */
  double (*range)[8]; /* least, greatest, whether all finite: for each worker, a line */
} Job;

static const double *block(const Job *j, int64_t b, double *buffer, int64_t *n) {
  const char *at = j->x + b * BLOCK * j->size;
  *n = j->n - b * BLOCK < BLOCK ? j->n - b * BLOCK : BLOCK;
  if (!j->convert) return (const double *)(const void *)at;
  j->convert(*n, buffer, at);
  return buffer;
}

static void find_range(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  double buffer[BLOCK], *r = j->range[worker];
  for (int64_t b = lo; b < hi; b++) {
    int64_t n;
    const double *v = block(j, b, buffer, &n);
    for (int64_t i = 0; i < n; i++) {
      r[0] = v[i] < r[0] ? v[i] : r[0];
      r[1] = v[i] > r[1] ? v[i] : r[1];
      r[2] += v[i] - v[i]; /* NaN as soon as one is not finite */
    }
  }
}

/* A guess by division, then the edges decide. */
static int64_t bin_of(const Job *j, double v, double scale) {
  double guess = (v - j->low) * scale; /* NaN where the range is a point */
  int64_t b = guess >= (double)j->bins ? j->bins - 1 : guess > 0 ? (int64_t)guess : 0;
  while (b > 0 && v < j->edge[b]) b--;
  while (b + 1 < j->bins && v >= j->edge[b + 1]) b++;
  return b;
}

static void count_blocks(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  double buffer[BLOCK], scale = (double)j->bins / (j->high - j->low);
  int64_t *count = j->count + j->bins * worker;
  for (int64_t b = lo; b < hi; b++) {
    int64_t n;
    const double *v = block(j, b, buffer, &n);
    for (int64_t i = 0; i < n; i++)
      if (v[i] >= j->low && v[i] <= j->high) count[bin_of(j, v[i], scale)]++;
  }
}

static int set_range(TsContext *c, Job *j, const TsAttr *low, const TsAttr *high) {
  int workers = ts_cpu_threads();
  double least = INFINITY, greatest = -INFINITY, finite = 0;
  if (low->type == TS_ATTR_none || high->type == TS_ATTR_none) {
    for (int w = 0; w < workers; w++)
      j->range[w][0] = INFINITY, j->range[w][1] = -INFINITY, j->range[w][2] = 0;
    ts_cpu_parallel((j->n + BLOCK - 1) / BLOCK, GRAIN, find_range, j);
    for (int w = 0; w < workers; w++) {
      least = fmin(least, j->range[w][0]);
      greatest = fmax(greatest, j->range[w][1]);
      finite += j->range[w][2];
    }
    if (finite != 0) {
      ts_error_set(&c->err, TS_ERR_value,
                   "histogram: elements that are not finite have no range");
      return ts_error_hint(&c->err, "give low= and high=");
    }
    if (j->n == 0) least = 0, greatest = 1;
  }
  j->low = low->type == TS_ATTR_none ? least : low->f;
  j->high = high->type == TS_ATTR_none ? greatest : high->f;
  if (j->low == j->high) j->low -= 0.5, j->high += 0.5;
  if (j->low < j->high && isfinite(j->high - j->low)) return 0;
  return ts_error_set(&c->err, TS_ERR_value, "histogram: no interval from %g to %g", j->low,
                      j->high);
}

void ts_histogram_edges(TsContext *c, int64_t bins, double low, double high, TsDtype d,
                        bool round, double *edge, void *at) {
  double step = (high - low) / (double)bins;
  for (int64_t b = 0; b < bins; b++) edge[b] = (double)b * step + low;
  edge[bins] = high;
  if (d == TS_DT_f64) {
    memcpy(at, edge, (size_t)(bins + 1) * sizeof *edge);
    return;
  }
  c->k->convert.convert[TS_DT_f64][d](bins + 1, at, edge);
  if (round) c->k->convert.convert[d][TS_DT_f64](bins + 1, edge, at);
}

static void make_edges(TsContext *c, Job *j, TsTensor *out, bool round) {
  ts_histogram_edges(c, j->bins, j->low, j->high, ts_tensor_dtype(out), round, j->edge,
                     ts_tensor_write(out));
  j->low = j->edge[0], j->high = j->edge[j->bins];
}

static int run(TsCall *call, Job *j, bool floats) {
  int workers = ts_cpu_threads();
  int64_t *y = ts_tensor_write(call->out[0]);
  if (!y || set_range(call->ctx, j, &call->attr[1], &call->attr[2])) return -1;
  make_edges(call->ctx, j, call->out[1], floats);
  memset(j->count, 0, (size_t)(j->bins * workers) * sizeof *j->count);
  if (j->low < j->high) ts_cpu_parallel((j->n + BLOCK - 1) / BLOCK, GRAIN, count_blocks, j);
  for (int64_t b = 0; b < j->bins; b++) {
    y[b] = 0;
    for (int w = 0; w < workers; w++) y[b] += j->count[j->bins * w + b];
  }
  return 0;
}

int ts_exec_histogram(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *x = ts_tensor_contiguous(c, call->in[0]);
  int workers = ts_cpu_threads(), failed = -1;
  Job j = {.bins = call->attr[0].i};
  j.x = x ? ts_tensor_read(x) : NULL;
  if (j.x) {
    TsDtype d = ts_tensor_dtype(x);
    int64_t edges = (j.bins + 1) * 8, counts = j.bins * workers * 8, ranges = workers * 64;
    char *scratch = ts_memory_alloc(ranges + edges + counts);
    j.n = ts_tensor_numel(x), j.size = ts_dtypes[d].nbytes;
    j.convert = d == TS_DT_f64 ? NULL : c->k->convert.convert[d][TS_DT_f64];
    j.range = (double(*)[8])(void *)scratch;
    j.edge = (double *)(void *)(scratch + ranges);
    j.count = (int64_t *)(void *)(scratch + ranges + edges);
    failed = scratch ? run(call, &j, ts_dtype_is(d, TS_KIND_F))
                     : ts_error_set(&c->err, TS_ERR_memory, "out of memory for %lld bins",
                                    (long long)j.bins);
    if (scratch) ts_memory_free(scratch, ranges + edges + counts);
  }
  ts_tensor_unref(x);
  return failed;
}
