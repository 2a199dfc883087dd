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

void *ts_linalg_take(TsLinalg *w, int64_t nbytes) {
  TS_ASSERT(w->nblock < (int)(sizeof w->block / sizeof *w->block));
  if (w->failed) return NULL;
  void *p = ts_work_take(nbytes > 0 ? nbytes : 16);
  if (!p) {
    ts_scratch_failed(w->call);
    w->failed = true;
    return NULL;
  }
  return w->block[w->nblock++] = p;
}

/* LAPACK answers a workspace query in the first number of the workspace. */
double ts_linalg_answer(const TsLinalg *w, const void *query) {
  return w->d == TS_DT_f64 || w->d == TS_DT_complex128 ? *(const double *)query
                                                       : (double)*(const float *)query;
}

const int TS_LINALG_ASK = -1;

/* The largest magnitude of n numbers, or pairs of them, as bits, which have the order of what they
 * stand for; above those of infinity where there is a NaN. */
uint64_t ts_linalg_most_bits(const TsLinalg *w, const void *a, int64_t n) {
  uint64_t most = 0, x;
  uint32_t most_f = 0, f;
  n *= 1 + w->complex;
  for (int64_t i = 0; w->rs == 8 && i < n; i++) {
    memcpy(&x, (const char *)a + i * 8, 8);
    x &= ~((uint64_t)1 << 63);
    most = x > most ? x : most;
  }
  for (int64_t i = 0; w->rs == 4 && i < n; i++) {
    memcpy(&f, (const char *)a + i * 4, 4);
    f &= ~((uint32_t)1 << 31);
    most_f = f > most_f ? f : most_f;
  }
  return w->rs == 8 ? most : most_f;
}

bool ts_linalg_bits_finite(const TsLinalg *w, uint64_t bits) {
  return w->rs == 8 ? bits < (uint64_t)0x7ff << 52 : bits < 0x7f800000u;
}

/* LAPACK's iterations need not end where a number is not finite. */
bool ts_linalg_is_finite(const TsLinalg *w, const void *a, int64_t n) {
  return ts_linalg_bits_finite(w, ts_linalg_most_bits(w, a, n));
}

static int open_work(TsLinalg *w, TsCall *call) {
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

bool ts_linalg_more(const TsLinalg *w, int64_t i, int64_t count) {
  return !w->failed && i < count && !ts_cpu_interrupted();
}

bool ts_linalg_lost(TsLinalg *w, int64_t got, int *info) {
  *info = (int)got;
  if (got >= 0) return false;
  ts_scratch_failed(w->call);
  *info = 0;
  return w->failed = true;
}

int ts_linalg_run(TsCall *call, int (*body)(TsLinalg *w)) {
  TsLinalg w;
  int failed = open_work(&w, call);
  if (!failed && ts_linalg_count_of(w.a, 2)) { /* else there is nothing to make */
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

int64_t ts_linalg_meets(const TsTensor *x, int nx, const TsTensor *y, int ny, int64_t i) {
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

void ts_linalg_flip(const TsLinalg *w, int64_t rows, int64_t cols, void *dst, const void *src) {
  enum { BAND = 512 }; /* columns, between looks for interrupts */
  for (int64_t j = 0; j < cols && !ts_cpu_interrupted(); j += BAND)
    w->call->ctx->k->copy.transpose(cols - j < BAND ? cols - j : BAND, rows,
                                    (char *)dst + j * rows * w->es, rows * w->es,
                                    (const char *)src + j * w->es, cols * w->es, w->es, 0);
}

const char *ts_linalg_matrix(const TsLinalg *w, const TsTensor *t, int64_t i, int64_t rows,
                             int64_t cols) {
  return (const char *)t->storage->host + t->offset + i * rows * cols * w->es;
}

void ts_linalg_put(const TsLinalg *w, TsTensor *y, int64_t at, int64_t n, const void *from,
                   TsDtype d) {
  TsDtype to = ts_tensor_dtype(y);
  char *base = (char *)y->storage->host + y->offset + at * ts_dtypes[to].nbytes;
  w->call->ctx->k->convert.convert[d][to](n, base, from);
}

void *ts_linalg_own(TsLinalg *w, const TsTensor *y, int64_t numbers) {
  return ts_tensor_dtype(y) == w->d ? NULL : ts_linalg_take(w, numbers * w->es);
}

void *ts_linalg_place(const TsLinalg *w, const TsTensor *y, int64_t i, int64_t numbers,
                      void *own) {
  return own ? own : (char *)y->storage->host + y->offset + i * numbers * w->es;
}

void ts_linalg_put_matrix(TsLinalg *w, TsTensor *y, int64_t i, int64_t rows, int64_t cols,
                          const void *from, void *scratch) {
  if (ts_tensor_dtype(y) == w->d) {
    char *base = (char *)y->storage->host + y->offset + i * rows * cols * w->es;
    return ts_linalg_flip(w, cols, rows, base, from);
  }
  ts_linalg_flip(w, cols, rows, scratch, from);
  ts_linalg_put(w, y, i * rows * cols, rows * cols, scratch, w->d);
}

void ts_linalg_put_identities(TsLinalg *w, TsTensor *y) {
  int64_t n = ts_linalg_rows_of(y), size = ts_dtypes[y->meta.dtype].nbytes;
  const double one[2] = {1, 0};
  char *base = ts_tensor_write(y);
  memset(base, 0, (size_t)ts_meta_nbytes(&y->meta));
  for (int64_t i = 0; i < ts_linalg_count_of(y, 1); i++)
    w->call->ctx->k->convert.convert[TS_DT_complex128][ts_tensor_dtype(y)](
        1, base + (i * n + i % n) * size, one);
}

int ts_linalg_refuse(TsLinalg *w, int64_t i, const char *what) {
  w->failed = true;
  return ts_error_set(&w->call->ctx->err, TS_ERR_value, "%s: matrix %lld %s",
                      ts_op_info(w->call->op)->name, (long long)i, what);
}

int ts_linalg_singular(TsLinalg *w, int64_t i, const char *what, int info) {
  return ts_error_set(&w->call->ctx->err, TS_ERR_value, "%s: matrix %lld is %s (at pivot %d)",
                      ts_op_info(w->call->op)->name, (long long)i, what, info - 1);
}

/* Of each row of n x n, the numbers of one half: from `from`, or 0 in the other half. */
static void set_half(const TsLinalg *w, int64_t n, bool upper, char *to, const char *from) {
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

static int cholesky(TsLinalg *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int64_t count = ts_linalg_count_of(w->a, 2);
  int n = (int)ts_linalg_cols_of(w->a);
  bool upper = call->attr[0].i;
  TsLanes l = {.what = TS_LANES_CHOLESKY, .m = n, .n = n, .upper = upper};
  if (ts_linalg_lanes(w, l, 2, &failed)) return failed;
  int64_t nn = (int64_t)n * n;
  void *own = ts_linalg_own(w, call->out[0], nn);
  for (int64_t i = 0; n && ts_linalg_more(w, i, count) && !failed; i++) {
    char *a = ts_linalg_place(w, call->out[0], i, nn, own);
    set_half(w, n, upper, a, ts_linalg_matrix(w, w->a, i, n, n));
    /* By rows l l' is the u' u of the conjugates, with u = l^T. */
    if (!ts_linalg_lost(w, ts_factor_cholesky(w->f, !upper, n, a, n), &info) && info)
      failed = ts_linalg_singular(w, i, "not positive definite", info);
    set_half(w, n, !upper, a, NULL);
    if (!failed && own) ts_linalg_put(w, call->out[0], i * nn, nn, a, w->d);
  }
  return failed;
}

int ts_exec_cholesky(TsCall *call) { return ts_linalg_run(call, cholesky); }

/* a x = b; the loop that tri_solve and solve share. */
static int solve_all(TsLinalg *w, bool triangular) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  TsTensor *y = call->out[0];
  bool vector = w->b->meta.ndim == 1;
  int n = (int)ts_linalg_cols_of(w->a), k = vector ? 1 : (int)ts_linalg_cols_of(w->b),
      ny = vector ? 1 : 2;
  TsLanes l = {.what = triangular ? TS_LANES_TRIANGLE : TS_LANES_SOLVE, .m = n, .n = n, .k = k};
  if (triangular) {
    l.upper = !call->attr[0].i, l.transposed = call->attr[1].i, l.unit = call->attr[2].i;
  }
  if (k && ts_linalg_lanes(w, l, ny, &failed)) return failed;
  int64_t count = ts_linalg_count_of(y, ny);
  int64_t nk = (int64_t)n * k;
  void *a = triangular ? NULL : ts_linalg_take(w, (int64_t)n * n * w->es);
  void *own = ts_linalg_own(w, y, nk);
  int *pivot = ts_linalg_take(w, (int64_t)n * 4);
  for (int64_t i = 0; n && k && ts_linalg_more(w, i, count) && !failed; i++) {
    const void *from = ts_linalg_matrix(w, w->a, ts_linalg_meets(w->a, 2, y, ny, i), n, n);
    void *b = ts_linalg_place(w, y, i, nk, own);
    memcpy(b, ts_linalg_matrix(w, w->b, ts_linalg_meets(w->b, ny, y, ny, i), n, k),
           (size_t)(nk * w->es));
    if (triangular) {
      ts_linalg_lost(
          w, ts_factor_solve(w->f, l.upper, l.transposed, l.unit, n, k, from, n, b, k), &info);
    } else {
      ts_linalg_flip(w, n, n, a, from);
      if (!ts_linalg_lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info) && !info)
        ts_linalg_lost(w, ts_factor_lu_solve(w->f, n, k, a, n, pivot, b, k), &info);
    }
    if (info) failed = ts_linalg_singular(w, i, "singular", info);
    if (!failed && own) ts_linalg_put(w, y, i * nk, nk, own, w->d);
  }
  return failed;
}

static int tri_solve(TsLinalg *w) { return solve_all(w, true); }
static int solve(TsLinalg *w) { return solve_all(w, false); }
int ts_exec_tri_solve(TsCall *call) { return ts_linalg_run(call, tri_solve); }
int ts_exec_solve(TsCall *call) { return ts_linalg_run(call, solve); }

void ts_linalg_invert(TsLinalg *w, int n, const void *a, const int *pivot, void *b) {
  const double one[2] = {1, 0};
  int info;
  memset(b, 0, (size_t)n * (size_t)n * (size_t)w->es);
  for (int64_t i = 0; i < n; i++)
    w->call->ctx->k->convert.convert[TS_DT_complex128][w->d](1, (char *)b + i * (n + 1) * w->es,
                                                             one);
  ts_linalg_lost(w, ts_factor_lu_solve(w->f, n, n, a, n, pivot, b, n), &info);
}

static int inv(TsLinalg *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int n = (int)ts_linalg_cols_of(w->a);
  TsLanes l = {.what = TS_LANES_INVERSE, .m = n, .n = n, .k = n};
  if (ts_linalg_lanes(w, l, 2, &failed)) return failed;
  int64_t count = ts_linalg_count_of(w->a, 2);
  int64_t nn = (int64_t)n * n;
  void *a = ts_linalg_take(w, nn * w->es), *own = ts_linalg_own(w, call->out[0], nn);
  int *pivot = ts_linalg_take(w, (int64_t)n * 4);
  for (int64_t i = 0; n && ts_linalg_more(w, i, count) && !failed; i++) {
    ts_linalg_flip(w, n, n, a, ts_linalg_matrix(w, w->a, i, n, n));
    if (!ts_linalg_lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info) && !info)
      ts_linalg_invert(w, n, a, pivot, ts_linalg_place(w, call->out[0], i, nn, own));
    if (info) failed = ts_linalg_singular(w, i, "singular", info);
    if (!failed && own) ts_linalg_put(w, call->out[0], i * nn, nn, own, w->d);
  }
  return failed;
}

int ts_exec_inv(TsCall *call) { return ts_linalg_run(call, inv); }

void ts_linalg_diagonal_product(const TsLinalg *w, const char *a, int n, const int *pivot,
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

static int det(TsLinalg *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int n = (int)ts_linalg_cols_of(w->a);
  TsLanes l = {.what = TS_LANES_DET, .m = n, .n = n};
  if (ts_linalg_lanes(w, l, 0, &failed)) return failed;
  int64_t count = ts_linalg_count_of(w->a, 2);
  void *a = ts_linalg_take(w, (int64_t)n * n * w->es);
  int *pivot = ts_linalg_take(w, (int64_t)n * 4);
  for (int64_t i = 0; ts_linalg_more(w, i, count); i++) {
    double value[2] = {1, 0};
    ts_linalg_flip(w, n, n, a, ts_linalg_matrix(w, w->a, i, n, n));
    if (n) ts_linalg_lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info);
    if (n) ts_linalg_diagonal_product(w, a, n, pivot, value);
    ts_linalg_put(w, call->out[0], i, 1, value, TS_DT_complex128);
  }
  return 0;
}

int ts_exec_det(TsCall *call) { return ts_linalg_run(call, det); }

/* p, l and u of matrix i, of m x n factors by row. part: max(m, n) m numbers. */
static void split_lu(TsLinalg *w, int64_t i, int m, int n, const char *a, const int *pivot,
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
  ts_linalg_put(w, call->out[0], i * m * m, (int64_t)m * m, part, w->d);
  memset(part, 0, (size_t)m * (size_t)k * (size_t)es);
  for (int64_t r = 0; r < m; r++) {
    memcpy(part + r * k * es, a + r * n * es, (size_t)((r < k ? r : k) * es));
    if (r < k) memcpy(part + r * (k + 1) * es, unit, (size_t)es);
  }
  ts_linalg_put(w, call->out[1], i * m * k, (int64_t)m * k, part, w->d);
  memset(part, 0, (size_t)k * (size_t)n * (size_t)es);
  for (int64_t r = 0; r < k; r++)
    memcpy(part + (r * n + r) * es, a + (r * n + r) * es, (size_t)((n - r) * es));
  ts_linalg_put(w, call->out[2], i * k * n, (int64_t)k * n, part, w->d);
}

static int lu(TsLinalg *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int m = (int)ts_linalg_rows_of(w->a), n = (int)ts_linalg_cols_of(w->a), k = m < n ? m : n;
  int64_t count = ts_linalg_count_of(w->a, 2), mn = (int64_t)m * n, one = mn * w->es;
  if (!n) ts_linalg_put_identities(w, call->out[0]);
  if (!m || !n || !count) return 0;
  TsLanes l = {.f = w->f, .what = TS_LANES_LU, .m = m, .n = n, .count = count};
  bool lanes = ts_lanes_take(&l);
  int64_t some = lanes ? count : 1; /* matrices that are factored at once */
  char *a = ts_linalg_take(w, some * one), *column = lanes ? NULL : ts_linalg_take(w, one);
  char *part = ts_linalg_take(w, (int64_t)(m > n ? m : n) * m * w->es);
  int *pivot = ts_linalg_take(w, some * k * 4), *order = ts_linalg_take(w, (int64_t)m * 4);
  if (w->failed) return 0;
  l.out = a, l.pivot = pivot;
  if (lanes) ts_linalg_lanes(w, l, 2, &failed);
  for (int64_t i = 0; ts_linalg_more(w, i, count); i++) {
    if (!lanes) {
      ts_linalg_flip(w, m, n, column, ts_linalg_matrix(w, w->a, i, m, n));
      ts_linalg_lost(w, ts_factor_lu(w->f, m, n, column, m, pivot), &info);
      ts_linalg_flip(w, n, m, a, column);
    }
    split_lu(w, i, m, n, a + (lanes ? i * one : 0), pivot + (lanes ? i * k : 0), order, part);
  }
  return 0;
}

int ts_exec_lu(TsCall *call) { return ts_linalg_run(call, lu); }
