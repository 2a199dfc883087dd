/* Tensors from nothing: constants, series, triangles, one_hot. */
#include <math.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/copy.h"
#include "vm/core/element.h"
#include "vm/core/exec.h"
#include "vm/drive/index.h"

enum { BLOCK = 1024, GRAIN = 32 }; /* elements of a series at once; blocks a thread takes */

static int fill(TsCall *call, double value) {
  TsTensor *y = call->out[0];
  int64_t n = ts_tensor_numel(y), size = ts_dtypes[y->meta.dtype].nbytes;
  _Alignas(16) char at[16];
  if (ts_element_make(call, ts_tensor_dtype(y), value, at)) return -1;
  char *dst = ts_tensor_write(y);
  if (dst) ts_fill_nd(1, &n, dst, &size, (int)size, at);
  return dst ? 0 : -1;
}

int ts_exec_zeros(TsCall *call) { return fill(call, 0); }
int ts_exec_ones(TsCall *call) { return fill(call, 1); }
int ts_exec_full(TsCall *call) { return fill(call, call->attr[1].f); }
int ts_exec_zeros_like(TsCall *call) { return fill(call, 0); }
int ts_exec_ones_like(TsCall *call) { return fill(call, 1); }
int ts_exec_full_like(TsCall *call) { return fill(call, call->attr[0].f); }

int ts_exec_empty(TsCall *call) { return ts_tensor_write(call->out[0]) ? 0 : -1; }
int ts_exec_empty_like(TsCall *call) { return ts_exec_empty(call); }

int ts_exec_eye(TsCall *call) {
  const TsMeta *m = &call->out[0]->meta;
  int64_t n = m->dim[0] < m->dim[1] ? m->dim[0] : m->dim[1];
  int64_t size = ts_dtypes[m->dtype].nbytes, step = (m->dim[1] + 1) * size;
  _Alignas(16) char one[16];
  if (fill(call, 0) || ts_element_make(call, (TsDtype)m->dtype, 1, one)) return -1;
  ts_fill_nd(1, &n, ts_tensor_write(call->out[0]), &step, (int)size, one);
  return 0;
}

/* ---- series: start + i step in f64, or in i64 where all is whole */
typedef struct Series {
  double start, step, last; /* last: of linspace, at n - 1; else NaN */
  bool whole;
  int64_t n;
  TsConvertFn *convert; /* NULL: the series' own type is stored */
  char *dst;
  int size;
} Series;

static void series_blocks(void *arg, int64_t lo, int64_t hi, int worker) {
  const Series *s = arg;
  union {
    double f[BLOCK];
    int64_t i[BLOCK];
  } v;
  (void)worker;
  for (int64_t b = lo; b < hi; b++) {
    int64_t first = b * BLOCK, n = s->n - first < BLOCK ? s->n - first : BLOCK;
    char *dst = s->dst + first * s->size;
    if (s->whole)
      for (int64_t i = 0; i < n; i++)
        v.i[i] = (int64_t)s->start + (first + i) * (int64_t)s->step;
    else
      for (int64_t i = 0; i < n; i++) v.f[i] = (double)(first + i) * s->step + s->start;
    if (!s->whole && s->last == s->last && first + n == s->n) v.f[n - 1] = s->last;
    if (s->convert)
      s->convert(n, dst, &v);
    else
      memcpy(dst, &v, (size_t)n * 8);
  }
}

static int series(TsCall *call, Series *s) {
  TsTensor *y = call->out[0];
  TsDtype d = ts_tensor_dtype(y), own = s->whole ? TS_DT_i64 : TS_DT_f64;
  s->n = ts_tensor_numel(y), s->size = ts_dtypes[d].nbytes;
  s->convert = d == own ? NULL : call->ctx->k->convert.convert[own][d];
  s->dst = ts_tensor_write(y);
  if (s->dst) ts_cpu_parallel((s->n + BLOCK - 1) / BLOCK, GRAIN, series_blocks, s);
  return s->dst ? 0 : -1;
}

static bool is_whole(double v) { return fabs(v) < 0x1p62 && v == trunc(v); }

int ts_exec_arange(TsCall *call) {
  const TsAttr *a = call->attr;
  bool two = a[1].type == TS_ATTR_f;
  TsDtype d = ts_tensor_dtype(call->out[0]);
  int64_t n = ts_tensor_numel(call->out[0]);
  Series s = {.start = two ? a[0].f : 0, .step = a[2].f, .last = NAN};
  bool integers = ts_dtype_is(d, TS_KIND_B | TS_KIND_U | TS_KIND_I);
  s.whole = integers && is_whole(s.start) && is_whole(s.step);
  _Alignas(16) char at[16];
  if (integers && n) { /* both ends fit, then all do */
    if (ts_element_make(call, d, trunc(s.start), at)) return -1;
    if (ts_element_make(call, d, trunc(s.start + (double)(n - 1) * s.step), at)) return -1;
  }
  return series(call, &s);
}

int ts_exec_linspace(TsCall *call) {
  const TsAttr *a = call->attr;
  double steps = (double)(a[2].i - 1);
  Series s = {.start = a[0].f, .last = a[1].f};
  if (!isfinite(a[1].f - a[0].f))
    return ts_error_set(&call->ctx->err, TS_ERR_value, "linspace: no interval from %g to %g",
                        a[0].f, a[1].f);
  s.step = steps > 0 ? (a[1].f - a[0].f) / steps : 0;
  if (steps <= 0) s.last = NAN;
  return series(call, &s);
}

/* ---- triangles */
typedef struct Triangle {
  const char *x;
  char *y;
  int64_t rows, row_bytes, size, cols, diagonal;
  bool lower;
} Triangle;

/* Row i of a matrix keeps columns up to i + diagonal (lower), or from there on. */
static void triangle_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Triangle *t = arg;
  (void)worker;
  for (int64_t r = lo; r < hi; r++) {
    int64_t cut = r % t->rows + t->diagonal + t->lower;
    cut = cut < 0 ? 0 : cut > t->cols ? t->cols : cut;
    size_t head = (size_t)(cut * t->size), tail = (size_t)t->row_bytes - head;
    const char *x = t->x + r * t->row_bytes;
    char *y = t->y + r * t->row_bytes;
    if (t->lower)
      memcpy(y, x, head), memset(y + head, 0, tail);
    else
      memset(y, 0, head), memcpy(y + head, x + head, tail);
  }
}

static int triangle(TsCall *call, bool lower) {
  TsTensor *x = ts_tensor_contiguous(call->ctx, call->in[0]);
  const TsMeta *m = &call->out[0]->meta;
  Triangle t = {.rows = m->dim[m->ndim - 2],
                .cols = m->dim[m->ndim - 1],
                .size = ts_dtypes[m->dtype].nbytes,
                .diagonal = call->attr[0].i,
                .lower = lower};
  t.row_bytes = t.cols * t.size;
  int64_t limit = t.rows + t.cols; /* beyond it a diagonal changes nothing */
  t.diagonal = t.diagonal > limit ? limit : t.diagonal < -limit ? -limit : t.diagonal;
  t.x = x ? ts_tensor_read(x) : NULL;
  t.y = t.x ? ts_tensor_write(call->out[0]) : NULL;
  if (t.y && ts_meta_numel(m))
    ts_cpu_parallel(ts_meta_numel(m) / t.cols, (1 << 17) / t.row_bytes + 1, triangle_rows, &t);
  ts_tensor_unref(x);
  return t.y ? 0 : -1;
}

int ts_exec_tril(TsCall *call) { return triangle(call, true); }
int ts_exec_triu(TsCall *call) { return triangle(call, false); }

/* ---- one_hot */
int ts_exec_one_hot(TsCall *call) {
  TsTensor *y = call->out[0];
  int64_t classes = call->attr[0].i, size = ts_dtypes[y->meta.dtype].nbytes;
  TsIndex ix;
  _Alignas(16) char one[16];
  if (ts_element_make(call, ts_tensor_dtype(y), 1, one)) return -1;
  if (ts_index_open(call, 0, TS_INDEX_CLASS, classes, &ix)) return -1;
  int failed = fill(call, 0);
  char *dst = failed ? NULL : ts_tensor_write(y);
  for (int64_t i = 0; dst && i < ix.n && !ts_cpu_interrupted(); i++)
    memcpy(dst + (i * classes + ix.at[i]) * size, one, (size_t)size);
  ts_index_close(&ix);
  return failed;
}
