/* median, quantile, unique: what depends on the order of the elements. The
 * results are NumPy's, but that positions and means are computed in f64 and rounded
 * once to the result type. */
#include <math.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/memory.h"
#include "vm/core/axis.h"
#include "vm/core/call.h"
#include "vm/core/exec.h"
#include "vm/drive/sort.h"

/* ---- median and quantile: selection */
typedef struct Quantile {
  const TsKernels *k;
  TsAxisRows x;
  TsDtype dtype, to;
  double q;
  char *out;
  char *scratch; /* for each worker: keys twice */
} Quantile;

static double value_of(const Quantile *j, uint64_t key) {
  uint64_t pattern = ts_sort_pattern(j->dtype, key);
  double v;
  j->k->convert.convert[j->dtype][TS_DT_f64](1, &v, &pattern);
  return v;
}

/* The least key above place k, whose key is x. */
static uint64_t key_after(const uint64_t *key, int64_t n, int64_t k, uint64_t x) {
  int64_t upto = 0;
  uint64_t next = UINT64_MAX;
  TS_CPU_LOOKING(i, 0, n) {
    upto += key[i] <= x;
    next = key[i] > x && key[i] < next ? key[i] : next;
  }
  return upto > k + 1 ? x : next;
}

static bool has_key(const uint64_t *key, int64_t n, uint64_t x) {
  bool found = false;
  TS_CPU_LOOKING(i, 0, n) found |= key[i] == x;
  return found;
}

static double quantile_of(const Quantile *j, const void *x, uint64_t *key) {
  int64_t n = j->x.n;
  uint64_t *spare = key + n;
  ts_sort_keys(j->dtype, false, n, x, key);
  if (ts_dtype_is(j->dtype, TS_KIND_F) && has_key(key, n, ts_sort_nan(j->dtype))) return NAN;
  double at = j->q * (double)(n - 1), t = at - floor(at);
  int64_t k = (int64_t)at;
  TS_CPU_LOOKING(i, 0, n) spare[i] = key[i];
  uint64_t low = ts_sort_select(n, k, ts_sort_bits(j->dtype), spare);
  double a = value_of(j, low);
  if (t == 0) return a;
  double b = value_of(j, key_after(key, n, k, low));
  if (a == b) return a;
  if (t == 0.5) return (a + b) * 0.5;
  return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
}

static void quantiles(void *arg, int64_t lo, int64_t hi, int worker) {
  const Quantile *j = arg;
  uint64_t *key = (uint64_t *)j->scratch + 2 * j->x.n * worker;
  int in = ts_dtypes[j->dtype].nbytes, out = ts_dtypes[j->to].nbytes;
  for (int64_t r = lo; r < hi && !ts_cpu_interrupted(); r++) {
    double v = quantile_of(j, j->x.at + r * j->x.n * in, key);
    if (j->to == TS_DT_f64)
      memcpy(j->out + r * out, &v, sizeof v);
    else
      j->k->convert.convert[TS_DT_f64][j->to](1, j->out + r * out, &v);
  }
}

/* Row r's result is element r of the output, with and without keepdims. */
static int quantile(TsCall *call, double q, const TsAttr *axis) {
  TsContext *c = call->ctx;
  TsTensor *x = call->in[0], *y = call->out[0];
  int at =
      axis->type == TS_ATTR_none ? -1 : (int)(axis->i < 0 ? axis->i + x->meta.ndim : axis->i);
  Quantile j = {.k = c->k, .dtype = ts_tensor_dtype(x), .to = ts_tensor_dtype(y), .q = q};
  if (!(q >= 0 && q <= 1))
    return ts_error_set(&c->err, TS_ERR_value, "quantile: q = %g is not in 0..1", q);
  if (ts_tensor_numel(y) == 0) return 0;
  if (ts_axis_read(c, x, at, &j.x)) return -1;
  int64_t nbytes = 16 * j.x.n * ts_cpu_threads();
  j.scratch = ts_memory_alloc(nbytes);
  j.out = j.scratch ? ts_tensor_write(y) : NULL;
  if (j.out) ts_cpu_parallel(j.x.rows, 4096 / (j.x.n + 1) + 1, quantiles, &j);
  if (j.scratch)
    ts_memory_free(j.scratch, nbytes);
  else
    ts_error_set(&c->err, TS_ERR_memory, "out of memory: %lld bytes to sort",
                 (long long)nbytes);
  ts_tensor_unref(j.x.t);
  return j.out ? 0 : -1;
}

int ts_exec_median(TsCall *call) { return quantile(call, 0.5, &call->attr[0]); }
int ts_exec_quantile(TsCall *call) { return quantile(call, call->attr[0].f, &call->attr[1]); }

/* ---- unique */
static TsTensor *new_tensor(TsContext *c, const TsTensor *like, TsDtype d, bool vector,
                            int64_t n) {
  TsMeta m = like->meta;
  m.dtype = (uint8_t)d, m.weak = 0;
  if (vector) m.ndim = 1, m.dim[0] = n;
  return ts_tensor_new(c, &m);
}

static int64_t count_runs(int64_t n, const uint64_t *key) {
  int64_t runs = n > 0;
  TS_CPU_LOOKING(i, 1, n) runs += key[i] != key[i - 1];
  return runs;
}

/* key is sorted; index tells where each stood. The value is that of the first. */
static void write_runs(int64_t n, const uint64_t *key, const int64_t *index, const char *x,
                       int size, char *value, int64_t *inverse, int64_t *count) {
  int64_t run = -1;
  TS_CPU_LOOKING(i, 0, n) {
    if (i == 0 || key[i] != key[i - 1]) {
      run++;
      memcpy(value + run * size, x + index[i] * size, (size_t)size);
      count[run] = 0;
    }
    inverse[index[i]] = run;
    count[run]++;
  }
}

static int unique(TsCall *call, TsTensor *x, const char *at, char *scratch) {
  TsContext *c = call->ctx;
  TsDtype d = ts_tensor_dtype(x);
  int64_t n = ts_tensor_numel(x);
  uint64_t *key = (uint64_t *)scratch;
  int64_t *index = (int64_t *)scratch + n;
  ts_sort_keys(d, false, n, at, key);
  ts_sort_index_parallel(n, ts_sort_bits(d), key, index, index + n);
  int64_t runs = count_runs(n, key);
  if (ts_cpu_interrupted()) return ts_call_interrupted(c, call->op);
  call->out[0] = new_tensor(c, x, d, true, runs);
  call->out[1] = call->out[0] ? new_tensor(c, x, TS_DT_i64, false, 0) : NULL;
  call->out[2] = call->out[1] ? new_tensor(c, x, TS_DT_i64, true, runs) : NULL;
  if (!call->out[2]) return -1;
  write_runs(n, key, index, at, ts_dtypes[d].nbytes, ts_tensor_write(call->out[0]),
             ts_tensor_write(call->out[1]), ts_tensor_write(call->out[2]));
  return 0;
}

int ts_exec_unique(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *x = ts_tensor_contiguous(c, call->in[0]);
  const char *at = x ? ts_tensor_read(x) : NULL;
  int failed = -1;
  if (at) {
    int64_t n = ts_tensor_numel(x);
    int64_t nbytes = 16 * n + ts_sort_spare(n, ts_sort_bits(ts_tensor_dtype(x)));
    char *scratch = ts_memory_alloc(nbytes);
    failed = scratch ? unique(call, x, at, scratch)
                     : ts_error_set(&c->err, TS_ERR_memory, "out of memory: %lld bytes to sort",
                                    (long long)nbytes);
    if (scratch) ts_memory_free(scratch, nbytes);
  }
  ts_tensor_unref(x);
  return failed;
}
