/* Dense linear algebra over batches of matrices, by LAPACK.
 *
 * LAPACK's reference routines, linked statically, run on our own BLAS (vm/blas) in one order, so
 * their bits are the same on every machine. Matrices go through column-major copies; 16-bit floats
 * through f32.
 *
 * They look at nothing while they compute, so Ctrl-C leaves them by a jump (ts_blas_begin): they
 * hold no lock, allocate nothing, and what they write is work memory of ours; our BLAS, which does
 * hold and allocate, looks by itself and jumps when it is done. *Rejected:* a thread that is let alone when nobody waits for it any more
 * (it goes on taking a processor, and copies of all operands). */
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/call.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/drive/lapack.h"
#include "vm/exec/linalg.h"

#define CALL4(name, ...)                                                                       \
  (ts_blas_begin(w->call->ctx->k, &w->out),                                                    \
   w->d == TS_DT_f32         ? s##name##_(__VA_ARGS__)                                         \
   : w->d == TS_DT_f64       ? d##name##_(__VA_ARGS__)                                         \
   : w->d == TS_DT_complex64 ? c##name##_(__VA_ARGS__)                                         \
                             : z##name##_(__VA_ARGS__),                                        \
   ts_blas_end())

void *ts_linalg_take(TsLinalg *w, int64_t nbytes) {
  void *p = w->nblock < 8 ? ts_work_take(nbytes > 0 ? nbytes : 16) : NULL;
  if (!p) {
    ts_scratch_failed(w->call);
    w->failed = true;
    return NULL;
  }
  return w->block[w->nblock++] = p;
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

/* Whether a factorisation had no memory, which is told; else its info. */
bool ts_linalg_lost(TsLinalg *w, int64_t got, int *info) {
  *info = (int)got;
  if (got >= 0) return false;
  ts_scratch_failed(w->call);
  *info = 0;
  return w->failed = true;
}

/* The body of a handler, which an interrupt leaves. */
int ts_linalg_run(TsCall *call, int (*body)(TsLinalg *w)) {
  TsLinalg w;
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

int64_t ts_linalg_rows_of(const TsTensor *t) { return t->meta.dim[t->meta.ndim - 2]; }
int64_t ts_linalg_cols_of(const TsTensor *t) { return t->meta.dim[t->meta.ndim - 1]; }

/* Number of matrices in the leading axes of t but its last n. */
int64_t ts_linalg_count_of(const TsTensor *t, int n) {
  int64_t count = 1;
  for (int i = 0; i < t->meta.ndim - n; i++) count *= t->meta.dim[i];
  return count;
}

/* Matrix i of a broadcast batch: index in x of the matrix that meets output i. */
static int64_t meets(const TsTensor *x, int nx, const TsTensor *y, int ny, int64_t i) {
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

/* dst[j * rows + i] = src[i * cols + j]: between row-major and column-major. */
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

/* n working-type numbers into an output from element `at` on, rounded to its dtype. */
void ts_linalg_put(const TsLinalg *w, TsTensor *y, int64_t at, int64_t n, const void *from,
                   TsDtype d) {
  TsDtype to = ts_tensor_dtype(y);
  char *base = (char *)y->storage->host + y->offset + at * ts_dtypes[to].nbytes;
  w->call->ctx->k->convert.convert[d][to](n, base, from);
}

/* A column-major result into matrix i of an output. */
void ts_linalg_put_matrix(TsLinalg *w, TsTensor *y, int64_t i, int64_t rows, int64_t cols,
                          const void *from, void *scratch) {
  if (ts_tensor_dtype(y) == w->d) {
    char *base = (char *)y->storage->host + y->offset + i * rows * cols * w->es;
    return ts_linalg_flip(w, cols, rows, base, from);
  }
  ts_linalg_flip(w, cols, rows, scratch, from);
  ts_linalg_put(w, y, i * rows * cols, rows * cols, scratch, w->d);
}

/* The identity into every n x n matrix of an output: a basis for what has no elements. */
void ts_linalg_put_identities(TsLinalg *w, TsTensor *y) {
  int64_t n = ts_linalg_rows_of(y), size = ts_dtypes[y->meta.dtype].nbytes;
  const double one[2] = {1, 0};
  char *base = ts_tensor_write(y);
  memset(base, 0, (size_t)ts_meta_nbytes(&y->meta));
  for (int64_t i = 0; i < ts_linalg_count_of(y, 1); i++)
    w->call->ctx->k->convert.convert[TS_DT_complex128][ts_tensor_dtype(y)](
        1, base + (i * n + i % n) * size, one);
}

static void zero_triangle(const TsLinalg *w, char *a, int64_t m, int64_t n, bool upper) {
  for (int64_t j = 0; j < n; j++) {
    int64_t from = upper ? j + 1 : 0, to = upper ? m : j < m ? j : m;
    if (from < to) memset(a + (j * m + from) * w->es, 0, (size_t)((to - from) * w->es));
  }
}

int ts_linalg_refuse(const TsLinalg *w, int64_t i, const char *what) {
  return ts_error_set(&w->call->ctx->err, TS_ERR_value, "%s: matrix %lld %s",
                      ts_op_info(w->call->op)->name, (long long)i, what);
}

static int singular(TsLinalg *w, int64_t i, const char *what, int info) {
  ts_error_set(&w->call->ctx->err, TS_ERR_value, "%s: matrix %lld is %s (at pivot %d)",
               ts_op_info(w->call->op)->name, (long long)i, what, info - 1);
  return -1;
}

void *ts_linalg_lapack_work(TsLinalg *w, double wanted) {
  return ts_linalg_take(w, (int64_t)wanted * w->es);
}

/* LAPACK answers a workspace query in the first number of the workspace. */
double ts_linalg_answer(const TsLinalg *w, const void *query) {
  return w->d == TS_DT_f64 || w->d == TS_DT_complex128 ? *(const double *)query
                                                       : (double)*(const float *)query;
}

const int TS_LINALG_ASK = -1;

static int cholesky(TsLinalg *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int64_t count = ts_linalg_count_of(w->a, 2);
  int n = (int)ts_linalg_cols_of(w->a);
  bool upper = call->attr[0].i;
  void *a = ts_linalg_take(w, (int64_t)n * n * w->es);
  for (int64_t i = 0; n && i < count && !failed && !w->failed; i++) {
    memcpy(a, ts_linalg_matrix(w, w->a, i, n, n), (size_t)n * (size_t)n * (size_t)w->es);
    /* By rows l l' is the u' u of the conjugates, with u = l^T. */
    if (!ts_linalg_lost(w, ts_factor_cholesky(w->f, !upper, n, a, n), &info) && info)
      failed = singular(w, i, "not positive definite", info);
    zero_triangle(w, a, n, n, !upper);
    if (!failed) ts_linalg_put(w, call->out[0], i * n * n, (int64_t)n * n, a, w->d);
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
  int64_t count = ts_linalg_count_of(y, ny);
  void *a = ts_linalg_take(w, (int64_t)n * n * w->es),
       *b = ts_linalg_take(w, (int64_t)n * k * w->es);
  void *s = ts_linalg_take(w, (int64_t)n * k * w->es);
  int *pivot = ts_linalg_take(w, (int64_t)n * 4);
  for (int64_t i = 0; !w->failed && n && k && i < count && !failed; i++) {
    ts_linalg_flip(w, n, n, a, ts_linalg_matrix(w, w->a, meets(w->a, 2, y, ny, i), n, n));
    ts_linalg_flip(w, n, k, b, ts_linalg_matrix(w, w->b, meets(w->b, ny, y, ny, i), n, k));
    if (triangular)
      ts_linalg_lost(w,
                     ts_factor_solve(w->f, !call->attr[0].i, call->attr[1].i, call->attr[2].i,
                                     n, k, a, n, b, n),
                     &info);
    else if (!ts_linalg_lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info) && !info)
      ts_linalg_lost(w, ts_factor_lu_solve(w->f, n, k, a, n, pivot, b, n), &info);
    if (info) failed = singular(w, i, "singular", info);
    if (!failed) ts_linalg_put_matrix(w, y, i, n, k, b, s);
  }
  return failed;
}

static int tri_solve(TsLinalg *w) { return solve_all(w, true); }
static int solve(TsLinalg *w) { return solve_all(w, false); }
int ts_exec_tri_solve(TsCall *call) { return ts_linalg_run(call, tri_solve); }
int ts_exec_solve(TsCall *call) { return ts_linalg_run(call, solve); }

/* b = a^-1, by the factors of a. */
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
  int64_t count = ts_linalg_count_of(w->a, 2);
  void *a = ts_linalg_take(w, (int64_t)n * n * w->es),
       *s = ts_linalg_take(w, (int64_t)n * n * w->es);
  void *b = ts_linalg_take(w, (int64_t)n * n * w->es);
  int *pivot = ts_linalg_take(w, (int64_t)n * 4);
  for (int64_t i = 0; !w->failed && n && i < count && !failed; i++) {
    ts_linalg_flip(w, n, n, a, ts_linalg_matrix(w, w->a, i, n, n));
    if (!ts_linalg_lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info) && !info)
      ts_linalg_invert(w, n, a, pivot, b);
    if (info) failed = singular(w, i, "singular", info);
    if (!failed) ts_linalg_put_matrix(w, call->out[0], i, n, n, b, s);
  }
  return failed;
}

int ts_exec_inv(TsCall *call) { return ts_linalg_run(call, inv); }

/* The product of the diagonal, in increasing order, with the permutation's sign. */
void ts_linalg_diagonal_product(const TsLinalg *w, const char *a, int n, const int *pivot,
                                double out[2]) {
  double re = 1, im = 0;
  for (int i = 0; i < n; i++) {
    const char *at = a + ((int64_t)i * n + i) * w->es;
    double x = w->rs == 8 ? *(const double *)at : (double)*(const float *)at, y = 0;
    if (w->complex) y = w->rs == 8 ? ((const double *)at)[1] : (double)((const float *)at)[1];
    double t = re * x - im * y;
    im = re * y + im * x;
    re = t;
    if (pivot[i] != i) re = -re, im = -im;
  }
  out[0] = re, out[1] = im;
}

static int det(TsLinalg *w) {
  TsCall *call = w->call;
  int info = 0;
  int n = (int)ts_linalg_cols_of(w->a);
  int64_t count = ts_linalg_count_of(w->a, 2);
  void *a = ts_linalg_take(w, (int64_t)n * n * w->es);
  int *pivot = ts_linalg_take(w, (int64_t)n * 4);
  for (int64_t i = 0; !w->failed && i < count; i++) {
    double value[2] = {1, 0};
    ts_linalg_flip(w, n, n, a, ts_linalg_matrix(w, w->a, i, n, n));
    if (n) ts_linalg_lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info);
    if (n) ts_linalg_diagonal_product(w, a, n, pivot, value);
    ts_linalg_put(w, call->out[0], i, 1, value, TS_DT_complex128);
  }
  return 0;
}

int ts_exec_det(TsCall *call) { return ts_linalg_run(call, det); }

static int lu(TsLinalg *w) {
  TsCall *call = w->call;
  int info = 0;
  int m = (int)ts_linalg_rows_of(w->a), n = (int)ts_linalg_cols_of(w->a), k = m < n ? m : n;
  int64_t count = ts_linalg_count_of(w->a, 2),
          most = (int64_t)(m > n ? m : n) * m + (int64_t)m * n;
  char *a = ts_linalg_take(w, (int64_t)m * n * w->es), *part = ts_linalg_take(w, most * w->es),
       *s = ts_linalg_take(w, most * w->es);
  int *pivot = ts_linalg_take(w, (int64_t)k * 4), *order = ts_linalg_take(w, (int64_t)m * 4);
  double one[2] = {1, 0};
  char unit[16];
  call->ctx->k->convert.convert[TS_DT_complex128][w->d](1, unit, one);
  if (!n) ts_linalg_put_identities(w, call->out[0]);
  for (int64_t i = 0; !w->failed && m && n && i < count; i++) {
    ts_linalg_flip(w, m, n, a, ts_linalg_matrix(w, w->a, i, m, n));
    ts_linalg_lost(w, ts_factor_lu(w->f, m, n, a, m, pivot), &info);
    for (int r = 0; r < m; r++) order[r] = r;
    for (int r = 0; r < k; r++) {
      int t = order[r];
      order[r] = order[pivot[r]], order[pivot[r]] = t;
    }
    memset(part, 0, (size_t)m * (size_t)m * (size_t)w->es);
    for (int r = 0; r < m; r++)
      memcpy(part + ((int64_t)r * m + order[r]) * w->es, unit, (size_t)w->es);
    ts_linalg_put_matrix(w, call->out[0], i, m, m, part, s);
    memcpy(part, a, (size_t)m * (size_t)k * (size_t)w->es);
    zero_triangle(w, part, m, k, false);
    for (int r = 0; r < k; r++)
      memcpy(part + ((int64_t)r * m + r) * w->es, unit, (size_t)w->es);
    ts_linalg_put_matrix(w, call->out[1], i, m, k, part, s);
    for (int j = 0; j < n; j++)
      memcpy(part + (int64_t)j * k * w->es, a + (int64_t)j * m * w->es, (size_t)(k * w->es));
    zero_triangle(w, part, k, n, true);
    ts_linalg_put_matrix(w, call->out[2], i, k, n, part, s);
  }
  return 0;
}

int ts_exec_lu(TsCall *call) { return ts_linalg_run(call, lu); }

static void make_q(TsLinalg *w, int m, int n, int k, void *a, const void *tau, void *space,
                   int lwork) {
  int info = 0;
  ts_blas_begin(w->call->ctx->k, &w->out);
  if (w->d == TS_DT_f32)
    sorgqr_(&m, &n, &k, a, &m, tau, space, &lwork, &info);
  else if (w->d == TS_DT_f64)
    dorgqr_(&m, &n, &k, a, &m, tau, space, &lwork, &info);
  else if (w->d == TS_DT_complex64)
    cungqr_(&m, &n, &k, a, &m, tau, space, &lwork, &info);
  else
    zungqr_(&m, &n, &k, a, &m, tau, space, &lwork, &info);
  ts_blas_end();
}

static int qr(TsLinalg *w) {
  TsCall *call = w->call;
  int info = 0;
  int m = (int)ts_linalg_rows_of(w->a), n = (int)ts_linalg_cols_of(w->a), k = m < n ? m : n;
  int q = call->attr[0].i == 1 ? m : k, wide = n > q ? n : q, lwork = (wide + m) * 64 + 1;
  int64_t count = ts_linalg_count_of(w->a, 2), most = (int64_t)m * wide + (int64_t)q * n;
  char *a = ts_linalg_take(w, most * w->es), *r = ts_linalg_take(w, most * w->es),
       *s = ts_linalg_take(w, most * w->es);
  void *tau = ts_linalg_take(w, (int64_t)k * w->es), *space = ts_linalg_lapack_work(w, lwork);
  for (int64_t i = 0; !w->failed && m && i < count; i++) {
    ts_linalg_flip(w, m, n, a, ts_linalg_matrix(w, w->a, i, m, n));
    if (n) CALL4(geqrf, &m, &n, a, &m, tau, space, &lwork, &info);
    memset(r, 0, (size_t)q * (size_t)n * (size_t)w->es);
    for (int j = 0; j < n; j++)
      memcpy(r + (int64_t)j * q * w->es, a + (int64_t)j * m * w->es,
             (size_t)((j + 1 < k ? j + 1 : k) * w->es));
    if (n) ts_linalg_put_matrix(w, call->out[1], i, q, n, r, s);
    if (q) make_q(w, m, q, k, a, tau, space, lwork);
    if (q) ts_linalg_put_matrix(w, call->out[0], i, m, q, a, s);
  }
  return 0;
}

int ts_exec_qr(TsCall *call) { return ts_linalg_run(call, qr); }
