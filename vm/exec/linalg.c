/* Dense linear algebra over batches of matrices: what is made of triangles, by vm/blas/factor.h,
 * through column-major copies; small real matrices by lanes (vm/blas/lanes.h). 16-bit floats go
 * through f32. Orthogonal factors: linalg_orthogonal.c. */
#include "vm/exec/linalg.h"

#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/blas/blas.h"
#include "vm/blas/lanes.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"

void *linalg_take(Linalg *w, int64_t nbytes) {
  void *p = w->nblock < 8 ? ts_work_take(nbytes > 0 ? nbytes : 16) : NULL;
  if (!p) {
    ts_scratch_failed(w->call);
    w->failed = true;
    return NULL;
  }
  return w->block[w->nblock++] = p;
}

static int open_work(Linalg *w, TsCall *call) {
  TsDtype d = ts_dtype_float(call->compute);
  if (ts_dtype_is(d, TS_KIND_F) && d != TS_DT_f64) d = TS_DT_f32;
  memset(w, 0, sizeof *w);
  w->call = call, w->d = d;
  w->es = ts_dtypes[d].nbytes, w->complex = ts_dtype_is(d, TS_KIND_C);
  w->rs = ts_dtypes[ts_dtype_real(d)].nbytes;
  w->f = (TsFactor){call->ctx->k, d == TS_DT_f32         ? TS_BLAS_f32
                                  : d == TS_DT_f64       ? TS_BLAS_f64
                                  : d == TS_DT_complex64 ? TS_BLAS_c64
                                                         : TS_BLAS_c128};
  w->a = ts_tensor_cast(call->ctx, call->in[0], d);
  if (call->nin > 1) w->b = ts_tensor_cast(call->ctx, call->in[1], d);
  return w->a && (call->nin < 2 || w->b) ? 0 : -1;
}

bool linalg_lost(Linalg *w, int64_t got, int *info) {
  *info = (int)got;
  if (got >= 0) return false;
  ts_scratch_failed(w->call);
  *info = 0;
  return w->failed = true;
}

int linalg_run(TsCall *call, int (*body)(Linalg *w)) {
  Linalg w;
  int failed = open_work(&w, call);
  if (!failed) {
    switch (sigsetjmp(w.out, 0)) {
    case 0: failed = body(&w); break;
    case TS_BLAS_NO_MEMORY: failed = ts_scratch_failed(call); break;
    default: failed = ts_call_interrupted(call->ctx, call->op); break;
    }
  }
  for (int i = 0; i < w.nblock; i++) ts_work_give(w.block[i]);
  ts_tensor_unref(w.a);
  ts_tensor_unref(w.b);
  return failed || w.failed ? -1 : 0;
}

int64_t linalg_meets(const TsTensor *x, int nx, const TsTensor *y, int ny, int64_t i) {
  int nbatch = y->meta.ndim - ny, axes = x->meta.ndim - nx, skip = nbatch - axes;
  int64_t at = 0, step = 1;
  for (int a = nbatch; a-- > 0;) {
    int64_t r = i % y->meta.dim[a];
    i /= y->meta.dim[a];
    if (a < skip) continue;
    if (x->meta.dim[a - skip] != 1) at += r * step;
    step *= x->meta.dim[a - skip];
  }
  return at;
}

void linalg_flip(const Linalg *w, int64_t rows, int64_t cols, void *dst, const void *src) {
  enum { BAND = 512 }; /* columns, between looks for interrupts */
  for (int64_t j = 0; j < cols && !ts_cpu_interrupted(); j += BAND)
    w->call->ctx->k->copy.transpose(cols - j < BAND ? cols - j : BAND, rows,
                                    (char *)dst + j * rows * w->es, rows * w->es,
                                    (const char *)src + j * w->es, cols * w->es, w->es, 0);
}

const char *linalg_matrix(const Linalg *w, const TsTensor *t, int64_t i, int64_t rows,
                          int64_t cols) {
  return (const char *)t->storage->host + t->offset + i * rows * cols * w->es;
}

void linalg_put(const Linalg *w, TsTensor *y, int64_t at, int64_t n, const void *from,
                TsDtype d) {
  TsDtype to = ts_tensor_dtype(y);
  char *base = (char *)y->storage->host + y->offset + at * ts_dtypes[to].nbytes;
  w->call->ctx->k->convert.convert[d][to](n, base, from);
}

void *linalg_own(Linalg *w, const TsTensor *y, int64_t numbers) {
  return ts_tensor_dtype(y) == w->d ? NULL : linalg_take(w, numbers * w->es);
}

void *linalg_place(const Linalg *w, const TsTensor *y, int64_t i, int64_t numbers, void *own) {
  return own ? own : (char *)y->storage->host + y->offset + i * numbers * w->es;
}

void linalg_put_matrix(Linalg *w, TsTensor *y, int64_t i, int64_t rows, int64_t cols,
                       const void *from, void *scratch) {
  if (ts_tensor_dtype(y) == w->d) {
    char *base = (char *)y->storage->host + y->offset + i * rows * cols * w->es;
    return linalg_flip(w, cols, rows, base, from);
  }
  linalg_flip(w, cols, rows, scratch, from);
  linalg_put(w, y, i * rows * cols, rows * cols, scratch, w->d);
}

void linalg_put_identities(Linalg *w, TsTensor *y) {
  int64_t n = rows_of(y), size = ts_dtypes[y->meta.dtype].nbytes;
  const double one[2] = {1, 0};
  char *base = ts_tensor_write(y);
  memset(base, 0, (size_t)ts_meta_nbytes(&y->meta));
  for (int64_t i = 0; i < count_of(y, 1); i++)
    w->call->ctx->k->convert.convert[TS_DT_complex128][ts_tensor_dtype(y)](
        1, base + (i * n + i % n) * size, one);
}

int linalg_refuse(const Linalg *w, int64_t i, const char *what) {
  return ts_error_set(&w->call->ctx->err, TS_ERR_value, "%s: matrix %lld %s",
                      ts_op_info(w->call->op)->name, (long long)i, what);
}

int linalg_singular(Linalg *w, int64_t i, const char *what, int info) {
  ts_error_set(&w->call->ctx->err, TS_ERR_value, "%s: matrix %lld is %s (at pivot %d)",
               ts_op_info(w->call->op)->name, (long long)i, what, info - 1);
  return -1;
}

/* Of each row of n x n, the numbers of one half: from `from`, or 0 in the other half. */
static void set_half(const Linalg *w, int64_t n, bool upper, char *to, const char *from) {
  int64_t es = w->es;
  for (int64_t r = 0; r < n; r++) {
    int64_t at = (r * n + (upper ? r : 0)) * es, some = (upper ? n - r : r + 1) * es;
    if (from)
      memcpy(to + at, from + at, (size_t)some);
    else if (upper)
      memset(to + at + es, 0, (size_t)(some - es));
    else
      memset(to + at, 0, (size_t)(some - es));
  }
}

static int cholesky(Linalg *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int64_t count = count_of(w->a, 2);
  int n = (int)cols_of(w->a);
  bool upper = call->attr[0].i;
  TsLanes l = {.what = TS_LANES_CHOLESKY, .m = n, .n = n, .upper = upper};
  if (linalg_lanes(w, l, 2, &failed)) return failed;
  int64_t nn = (int64_t)n * n;
  void *own = linalg_own(w, call->out[0], nn);
  for (int64_t i = 0; n && i < count && !failed && !w->failed; i++) {
    char *a = linalg_place(w, call->out[0], i, nn, own);
    set_half(w, n, upper, a, linalg_matrix(w, w->a, i, n, n));
    /* By rows l l' is the u' u of the conjugates, with u = l^T. */
    if (!linalg_lost(w, ts_factor_cholesky(w->f, !upper, n, a, n), &info) && info)
      failed = linalg_singular(w, i, "not positive definite", info);
    set_half(w, n, !upper, a, NULL);
    if (!failed && own) linalg_put(w, call->out[0], i * nn, nn, a, w->d);
  }
  return failed;
}

int ts_exec_cholesky(TsCall *call) { return linalg_run(call, cholesky); }

/* a x = b; the loop that tri_solve and solve share. */
static int solve_all(Linalg *w, bool triangular) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  TsTensor *y = call->out[0];
  bool vector = w->b->meta.ndim == 1;
  int n = (int)cols_of(w->a), k = vector ? 1 : (int)cols_of(w->b), ny = vector ? 1 : 2;
  TsLanes l = {.what = triangular ? TS_LANES_TRIANGLE : TS_LANES_SOLVE, .m = n, .n = n, .k = k};
  if (triangular) {
    l.upper = !call->attr[0].i, l.transposed = call->attr[1].i, l.unit = call->attr[2].i;
  }
  if (k && linalg_lanes(w, l, ny, &failed)) return failed;
  int64_t count = count_of(y, ny);
  int64_t nk = (int64_t)n * k;
  void *a = triangular ? NULL : linalg_take(w, (int64_t)n * n * w->es);
  void *own = linalg_own(w, y, nk);
  int *pivot = linalg_take(w, (int64_t)n * 4);
  for (int64_t i = 0; !w->failed && n && k && i < count && !failed; i++) {
    const void *from = linalg_matrix(w, w->a, linalg_meets(w->a, 2, y, ny, i), n, n);
    void *b = linalg_place(w, y, i, nk, own);
    memcpy(b, linalg_matrix(w, w->b, linalg_meets(w->b, ny, y, ny, i), n, k),
           (size_t)(nk * w->es));
    if (triangular) {
      linalg_lost(w, ts_factor_solve(w->f, l.upper, l.transposed, l.unit, n, k, from, n, b, k),
                  &info);
    } else {
      linalg_flip(w, n, n, a, from);
      if (!linalg_lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info) && !info)
        linalg_lost(w, ts_factor_lu_solve(w->f, n, k, a, n, pivot, b, k), &info);
    }
    if (info) failed = linalg_singular(w, i, "singular", info);
    if (!failed && own) linalg_put(w, y, i * nk, nk, own, w->d);
  }
  return failed;
}

static int tri_solve(Linalg *w) { return solve_all(w, true); }
static int solve(Linalg *w) { return solve_all(w, false); }
int ts_exec_tri_solve(TsCall *call) { return linalg_run(call, tri_solve); }
int ts_exec_solve(TsCall *call) { return linalg_run(call, solve); }

void linalg_invert(Linalg *w, int n, const void *a, const int *pivot, void *b) {
  const double one[2] = {1, 0};
  int info;
  memset(b, 0, (size_t)n * (size_t)n * (size_t)w->es);
  for (int64_t i = 0; i < n; i++)
    w->call->ctx->k->convert.convert[TS_DT_complex128][w->d](1, (char *)b + i * (n + 1) * w->es,
                                                             one);
  linalg_lost(w, ts_factor_lu_solve(w->f, n, n, a, n, pivot, b, n), &info);
}

static int inv(Linalg *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int n = (int)cols_of(w->a);
  TsLanes l = {.what = TS_LANES_INVERSE, .m = n, .n = n, .k = n};
  if (linalg_lanes(w, l, 2, &failed)) return failed;
  int64_t count = count_of(w->a, 2);
  int64_t nn = (int64_t)n * n;
  void *a = linalg_take(w, nn * w->es), *own = linalg_own(w, call->out[0], nn);
  int *pivot = linalg_take(w, (int64_t)n * 4);
  for (int64_t i = 0; !w->failed && n && i < count && !failed; i++) {
    linalg_flip(w, n, n, a, linalg_matrix(w, w->a, i, n, n));
    if (!linalg_lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info) && !info)
      linalg_invert(w, n, a, pivot, linalg_place(w, call->out[0], i, nn, own));
    if (info) failed = linalg_singular(w, i, "singular", info);
    if (!failed && own) linalg_put(w, call->out[0], i * nn, nn, own, w->d);
  }
  return failed;
}

int ts_exec_inv(TsCall *call) { return linalg_run(call, inv); }

void linalg_diagonal_product(const Linalg *w, const char *a, int n, const int *pivot,
                             double out[2]) {
  double re = 1, im = 0;
  for (int i = 0; i < n; i++) {
    const char *at = a + ((int64_t)i * n + i) * w->es;
    double x = w->rs == 8 ? *(const double *)at : (double)*(const float *)at;
    if (w->complex) {
      double y = w->rs == 8 ? ((const double *)at)[1] : (double)((const float *)at)[1];
      double t = re * x - im * y;
      im = re * y + im * x;
      re = t;
    } else {
      re *= x; /* 0 times an infinity would be a NaN */
    }
    if (pivot[i] != i) re = -re, im = -im;
  }
  out[0] = re, out[1] = im;
}

static int det(Linalg *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int n = (int)cols_of(w->a);
  TsLanes l = {.what = TS_LANES_DET, .m = n, .n = n};
  if (linalg_lanes(w, l, 0, &failed)) return failed;
  int64_t count = count_of(w->a, 2);
  void *a = linalg_take(w, (int64_t)n * n * w->es);
  int *pivot = linalg_take(w, (int64_t)n * 4);
  for (int64_t i = 0; !w->failed && i < count; i++) {
    double value[2] = {1, 0};
    linalg_flip(w, n, n, a, linalg_matrix(w, w->a, i, n, n));
    if (n) linalg_lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info);
    if (n) linalg_diagonal_product(w, a, n, pivot, value);
    linalg_put(w, call->out[0], i, 1, value, TS_DT_complex128);
  }
  return 0;
}

int ts_exec_det(TsCall *call) { return linalg_run(call, det); }

/* p, l and u of matrix i, of m x n factors by row. part: max(m, n) m numbers. */
static void split_lu(Linalg *w, int64_t i, int m, int n, const char *a, const int *pivot,
                     int *order, char *part) {
  TsCall *call = w->call;
  int k = m < n ? m : n;
  int64_t es = w->es;
  const double one[2] = {1, 0};
  char unit[16];
  call->ctx->k->convert.convert[TS_DT_complex128][w->d](1, unit, one);
  for (int r = 0; r < m; r++) order[r] = r;
  for (int r = 0; r < k; r++) {
    int t = order[r];
    order[r] = order[pivot[r]], order[pivot[r]] = t;
  }
  memset(part, 0, (size_t)m * (size_t)m * (size_t)es);
  for (int r = 0; r < m; r++) memcpy(part + ((int64_t)order[r] * m + r) * es, unit, (size_t)es);
  linalg_put(w, call->out[0], i * m * m, (int64_t)m * m, part, w->d);
  memset(part, 0, (size_t)m * (size_t)k * (size_t)es);
  for (int64_t r = 0; r < m; r++) {
    memcpy(part + r * k * es, a + r * n * es, (size_t)((r < k ? r : k) * es));
    if (r < k) memcpy(part + r * (k + 1) * es, unit, (size_t)es);
  }
  linalg_put(w, call->out[1], i * m * k, (int64_t)m * k, part, w->d);
  memset(part, 0, (size_t)k * (size_t)n * (size_t)es);
  for (int64_t r = 0; r < k; r++)
    memcpy(part + (r * n + r) * es, a + (r * n + r) * es, (size_t)((n - r) * es));
  linalg_put(w, call->out[2], i * k * n, (int64_t)k * n, part, w->d);
}

static int lu(Linalg *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int m = (int)rows_of(w->a), n = (int)cols_of(w->a), k = m < n ? m : n;
  int64_t count = count_of(w->a, 2), mn = (int64_t)m * n, one = mn * w->es;
  if (!n) linalg_put_identities(w, call->out[0]);
  if (!m || !n || !count) return 0;
  TsLanes l = {.f = w->f, .what = TS_LANES_LU, .m = m, .n = n, .count = count};
  bool lanes = ts_lanes_take(&l);
  int64_t some = lanes ? count : 1; /* matrices that are factored at once */
  char *a = linalg_take(w, some * one), *column = lanes ? NULL : linalg_take(w, one);
  char *part = linalg_take(w, (int64_t)(m > n ? m : n) * m * w->es);
  int *pivot = linalg_take(w, some * k * 4), *order = linalg_take(w, (int64_t)m * 4);
  if (w->failed) return 0;
  l.out = a, l.pivot = pivot;
  if (lanes) linalg_lanes(w, l, 2, &failed);
  for (int64_t i = 0; !w->failed && i < count && !ts_cpu_interrupted(); i++) {
    if (!lanes) {
      linalg_flip(w, m, n, column, linalg_matrix(w, w->a, i, m, n));
      linalg_lost(w, ts_factor_lu(w->f, m, n, column, m, pivot), &info);
      linalg_flip(w, n, m, a, column);
    }
    split_lu(w, i, m, n, a + (lanes ? i * one : 0), pivot + (lanes ? i * k : 0), order, part);
  }
  return 0;
}

int ts_exec_lu(TsCall *call) { return linalg_run(call, lu); }
