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
#include <complex.h>
#undef complex
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/blas/blas.h"
#include "vm/blas/factor.h"
#include "vm/core/call.h"
#include "vm/core/exec.h"
#include "vm/drive/lapack.h"
#include "vm/core/scratch.h"

#define CALL4(name, ...)                                                                       \
  (ts_blas_begin(w->call->ctx->k, &w->out),                                                    \
   w->d == TS_DT_f32         ? s##name##_(__VA_ARGS__)                                         \
   : w->d == TS_DT_f64       ? d##name##_(__VA_ARGS__)                                         \
   : w->d == TS_DT_complex64 ? c##name##_(__VA_ARGS__)                                         \
                             : z##name##_(__VA_ARGS__),                                        \
   ts_blas_end())

/* One call: operands in the working type, and workspace that grows as asked. */
typedef struct Work {
  TsCall *call;
  TsDtype d;
  int es, rs; /* bytes of an element, of its real part */
  bool complex;
  TsTensor *a, *b;
  void *block[8]; /* workspaces, freed at the end */
  int nblock;
  bool failed;
  TsFactor f;
  sigjmp_buf out; /* where an interrupt leaves to */
} Work;

static void *take(Work *w, int64_t nbytes) {
  void *p = w->nblock < 8 ? ts_work_take(nbytes > 0 ? nbytes : 16) : NULL;
  if (!p) {
    ts_scratch_failed(w->call);
    w->failed = true;
    return NULL;
  }
  return w->block[w->nblock++] = p;
}

static int open_work(Work *w, TsCall *call) {
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
static bool lost(Work *w, int64_t got, int *info) {
  *info = (int)got;
  if (got >= 0) return false;
  ts_scratch_failed(w->call);
  *info = 0;
  return w->failed = true;
}

/* The body of a handler, which an interrupt leaves. */
static int run(TsCall *call, int (*body)(Work *w)) {
  Work w;
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

static int64_t rows_of(const TsTensor *t) { return t->meta.dim[t->meta.ndim - 2]; }
static int64_t cols_of(const TsTensor *t) { return t->meta.dim[t->meta.ndim - 1]; }

/* Number of matrices in the leading axes of t but its last n. */
static int64_t count_of(const TsTensor *t, int n) {
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
static void flip(const Work *w, int64_t rows, int64_t cols, void *dst, const void *src) {
  enum { BAND = 512 }; /* columns, between looks for interrupts */
  for (int64_t j = 0; j < cols && !ts_cpu_interrupted(); j += BAND)
    w->call->ctx->k->copy.transpose(cols - j < BAND ? cols - j : BAND, rows,
                                    (char *)dst + j * rows * w->es, rows * w->es,
                                    (const char *)src + j * w->es, cols * w->es, w->es, 0);
}

static const char *matrix(const Work *w, const TsTensor *t, int64_t i, int64_t rows,
                          int64_t cols) {
  return (const char *)t->storage->host + t->offset + i * rows * cols * w->es;
}

/* n working-type numbers into an output from element `at` on, rounded to its dtype. */
static void put(const Work *w, TsTensor *y, int64_t at, int64_t n, const void *from,
                TsDtype d) {
  TsDtype to = ts_tensor_dtype(y);
  char *base = (char *)y->storage->host + y->offset + at * ts_dtypes[to].nbytes;
  w->call->ctx->k->convert.convert[d][to](n, base, from);
}

/* A column-major result into matrix i of an output. */
static void put_matrix(Work *w, TsTensor *y, int64_t i, int64_t rows, int64_t cols,
                       const void *from, void *scratch) {
  if (ts_tensor_dtype(y) == w->d) {
    char *base = (char *)y->storage->host + y->offset + i * rows * cols * w->es;
    return flip(w, cols, rows, base, from);
  }
  flip(w, cols, rows, scratch, from);
  put(w, y, i * rows * cols, rows * cols, scratch, w->d);
}

/* The identity into every n x n matrix of an output: a basis for what has no elements. */
static void put_identities(Work *w, TsTensor *y) {
  int64_t n = rows_of(y), size = ts_dtypes[y->meta.dtype].nbytes;
  const double one[2] = {1, 0};
  char *base = ts_tensor_write(y);
  memset(base, 0, (size_t)ts_meta_nbytes(&y->meta));
  for (int64_t i = 0; i < count_of(y, 1); i++)
    w->call->ctx->k->convert.convert[TS_DT_complex128][ts_tensor_dtype(y)](
        1, base + (i * n + i % n) * size, one);
}

static void zero_triangle(const Work *w, char *a, int64_t m, int64_t n, bool upper) {
  for (int64_t j = 0; j < n; j++) {
    int64_t from = upper ? j + 1 : 0, to = upper ? m : j < m ? j : m;
    if (from < to) memset(a + (j * m + from) * w->es, 0, (size_t)((to - from) * w->es));
  }
}

static int refuse(const Work *w, int64_t i, const char *what) {
  return ts_error_set(&w->call->ctx->err, TS_ERR_value, "%s: matrix %lld %s",
                      ts_op_info(w->call->op)->name, (long long)i, what);
}

static int singular(Work *w, int64_t i, const char *what, int info) {
  ts_error_set(&w->call->ctx->err, TS_ERR_value, "%s: matrix %lld is %s (at pivot %d)",
               ts_op_info(w->call->op)->name, (long long)i, what, info - 1);
  return -1;
}

static void *lapack_work(Work *w, double wanted) { return take(w, (int64_t)wanted * w->es); }

/* LAPACK answers a workspace query in the first number of the workspace. */
static double answer(const Work *w, const void *query) {
  return w->d == TS_DT_f64 || w->d == TS_DT_complex128 ? *(const double *)query
                                                       : (double)*(const float *)query;
}

static const int ASK = -1;

static int cholesky(Work *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int64_t count = count_of(w->a, 2);
  int n = (int)cols_of(w->a);
  bool upper = call->attr[0].i;
  void *a = take(w, (int64_t)n * n * w->es);
  for (int64_t i = 0; n && i < count && !failed && !w->failed; i++) {
    memcpy(a, matrix(w, w->a, i, n, n), (size_t)n * (size_t)n * (size_t)w->es);
    /* By rows l l' is the u' u of the conjugates, with u = l^T. */
    if (!lost(w, ts_factor_cholesky(w->f, !upper, n, a, n), &info) && info)
      failed = singular(w, i, "not positive definite", info);
    zero_triangle(w, a, n, n, !upper);
    if (!failed) put(w, call->out[0], i * n * n, (int64_t)n * n, a, w->d);
  }
  return failed;
}

int ts_exec_cholesky(TsCall *call) { return run(call, cholesky); }

/* a x = b; the loop that tri_solve and solve share. */
static int solve_all(Work *w, bool triangular) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  TsTensor *y = call->out[0];
  bool vector = w->b->meta.ndim == 1;
  int n = (int)cols_of(w->a), k = vector ? 1 : (int)cols_of(w->b), ny = vector ? 1 : 2;
  int64_t count = count_of(y, ny);
  void *a = take(w, (int64_t)n * n * w->es), *b = take(w, (int64_t)n * k * w->es);
  void *s = take(w, (int64_t)n * k * w->es);
  int *pivot = take(w, (int64_t)n * 4);
  for (int64_t i = 0; !w->failed && n && k && i < count && !failed; i++) {
    flip(w, n, n, a, matrix(w, w->a, meets(w->a, 2, y, ny, i), n, n));
    flip(w, n, k, b, matrix(w, w->b, meets(w->b, ny, y, ny, i), n, k));
    if (triangular)
      lost(w,
           ts_factor_solve(w->f, !call->attr[0].i, call->attr[1].i, call->attr[2].i, n, k, a, n,
                           b, n),
           &info);
    else if (!lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info) && !info)
      lost(w, ts_factor_lu_solve(w->f, n, k, a, n, pivot, b, n), &info);
    if (info) failed = singular(w, i, "singular", info);
    if (!failed) put_matrix(w, y, i, n, k, b, s);
  }
  return failed;
}

static int tri_solve(Work *w) { return solve_all(w, true); }
static int solve(Work *w) { return solve_all(w, false); }
int ts_exec_tri_solve(TsCall *call) { return run(call, tri_solve); }
int ts_exec_solve(TsCall *call) { return run(call, solve); }

/* b = a^-1, by the factors of a. */
static void invert(Work *w, int n, const void *a, const int *pivot, void *b) {
  const double one[2] = {1, 0};
  int info;
  memset(b, 0, (size_t)n * (size_t)n * (size_t)w->es);
  for (int64_t i = 0; i < n; i++)
    w->call->ctx->k->convert.convert[TS_DT_complex128][w->d](1, (char *)b + i * (n + 1) * w->es,
                                                             one);
  lost(w, ts_factor_lu_solve(w->f, n, n, a, n, pivot, b, n), &info);
}

static int inv(Work *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int n = (int)cols_of(w->a);
  int64_t count = count_of(w->a, 2);
  void *a = take(w, (int64_t)n * n * w->es), *s = take(w, (int64_t)n * n * w->es);
  void *b = take(w, (int64_t)n * n * w->es);
  int *pivot = take(w, (int64_t)n * 4);
  for (int64_t i = 0; !w->failed && n && i < count && !failed; i++) {
    flip(w, n, n, a, matrix(w, w->a, i, n, n));
    if (!lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info) && !info)
      invert(w, n, a, pivot, b);
    if (info) failed = singular(w, i, "singular", info);
    if (!failed) put_matrix(w, call->out[0], i, n, n, b, s);
  }
  return failed;
}

int ts_exec_inv(TsCall *call) { return run(call, inv); }

/* The product of the diagonal, in increasing order, with the permutation's sign. */
static void diagonal_product(const Work *w, const char *a, int n, const int *pivot,
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

static int det(Work *w) {
  TsCall *call = w->call;
  int info = 0;
  int n = (int)cols_of(w->a);
  int64_t count = count_of(w->a, 2);
  void *a = take(w, (int64_t)n * n * w->es);
  int *pivot = take(w, (int64_t)n * 4);
  for (int64_t i = 0; !w->failed && i < count; i++) {
    double value[2] = {1, 0};
    flip(w, n, n, a, matrix(w, w->a, i, n, n));
    if (n) lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info);
    if (n) diagonal_product(w, a, n, pivot, value);
    put(w, call->out[0], i, 1, value, TS_DT_complex128);
  }
  return 0;
}

int ts_exec_det(TsCall *call) { return run(call, det); }

static int lu(Work *w) {
  TsCall *call = w->call;
  int info = 0;
  int m = (int)rows_of(w->a), n = (int)cols_of(w->a), k = m < n ? m : n;
  int64_t count = count_of(w->a, 2), most = (int64_t)(m > n ? m : n) * m + (int64_t)m * n;
  char *a = take(w, (int64_t)m * n * w->es), *part = take(w, most * w->es),
       *s = take(w, most * w->es);
  int *pivot = take(w, (int64_t)k * 4), *order = take(w, (int64_t)m * 4);
  double one[2] = {1, 0};
  char unit[16];
  call->ctx->k->convert.convert[TS_DT_complex128][w->d](1, unit, one);
  if (!n) put_identities(w, call->out[0]);
  for (int64_t i = 0; !w->failed && m && n && i < count; i++) {
    flip(w, m, n, a, matrix(w, w->a, i, m, n));
    lost(w, ts_factor_lu(w->f, m, n, a, m, pivot), &info);
    for (int r = 0; r < m; r++) order[r] = r;
    for (int r = 0; r < k; r++) {
      int t = order[r];
      order[r] = order[pivot[r]], order[pivot[r]] = t;
    }
    memset(part, 0, (size_t)m * (size_t)m * (size_t)w->es);
    for (int r = 0; r < m; r++)
      memcpy(part + ((int64_t)r * m + order[r]) * w->es, unit, (size_t)w->es);
    put_matrix(w, call->out[0], i, m, m, part, s);
    memcpy(part, a, (size_t)m * (size_t)k * (size_t)w->es);
    zero_triangle(w, part, m, k, false);
    for (int r = 0; r < k; r++)
      memcpy(part + ((int64_t)r * m + r) * w->es, unit, (size_t)w->es);
    put_matrix(w, call->out[1], i, m, k, part, s);
    for (int j = 0; j < n; j++)
      memcpy(part + (int64_t)j * k * w->es, a + (int64_t)j * m * w->es, (size_t)(k * w->es));
    zero_triangle(w, part, k, n, true);
    put_matrix(w, call->out[2], i, k, n, part, s);
  }
  return 0;
}

int ts_exec_lu(TsCall *call) { return run(call, lu); }

static void make_q(Work *w, int m, int n, int k, void *a, const void *tau, void *space,
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

static int qr(Work *w) {
  TsCall *call = w->call;
  int info = 0;
  int m = (int)rows_of(w->a), n = (int)cols_of(w->a), k = m < n ? m : n;
  int q = call->attr[0].i == 1 ? m : k, wide = n > q ? n : q, lwork = (wide + m) * 64 + 1;
  int64_t count = count_of(w->a, 2), most = (int64_t)m * wide + (int64_t)q * n;
  char *a = take(w, most * w->es), *r = take(w, most * w->es), *s = take(w, most * w->es);
  void *tau = take(w, (int64_t)k * w->es), *space = lapack_work(w, lwork);
  for (int64_t i = 0; !w->failed && m && i < count; i++) {
    flip(w, m, n, a, matrix(w, w->a, i, m, n));
    if (n) CALL4(geqrf, &m, &n, a, &m, tau, space, &lwork, &info);
    memset(r, 0, (size_t)q * (size_t)n * (size_t)w->es);
    for (int j = 0; j < n; j++)
      memcpy(r + (int64_t)j * q * w->es, a + (int64_t)j * m * w->es,
             (size_t)((j + 1 < k ? j + 1 : k) * w->es));
    if (n) put_matrix(w, call->out[1], i, q, n, r, s);
    if (q) make_q(w, m, q, k, a, tau, space, lwork);
    if (q) put_matrix(w, call->out[0], i, m, q, a, s);
  }
  return 0;
}

int ts_exec_qr(TsCall *call) { return run(call, qr); }

/* n numbers, or pairs of them. LAPACK's iterations need not end where one is not. */
static bool is_finite(const Work *w, const void *a, int64_t n) {
  bool finite = true;
  for (int64_t i = 0; i < n * (1 + w->complex); i++)
    finite &= w->rs == 8 ? isfinite(((const double *)a)[i]) : isfinite(((const float *)a)[i]);
  return finite;
}

typedef struct Svd {
  int m, n, k, ldvt;
  const char *job;
  void *a, *s, *u, *vt, *rwork;
  int *iwork;
} Svd;

static int gesdd(Work *w, Svd *v, void *space, TsInt lwork) {
  int info = 0;
#define REAL v->job, &v->m, &v->n, v->a, &v->m, v->s, v->u, &v->m, v->vt, &v->ldvt, space, lwork
  ts_blas_begin(w->call->ctx->k, &w->out);
  if (w->d == TS_DT_f32)
    sgesdd_(REAL, v->iwork, &info, 1);
  else if (w->d == TS_DT_f64)
    dgesdd_(REAL, v->iwork, &info, 1);
  else if (w->d == TS_DT_complex64)
    cgesdd_(REAL, v->rwork, v->iwork, &info, 1);
  else
    zgesdd_(REAL, v->rwork, v->iwork, &info, 1);
#undef REAL
  ts_blas_end();
  return info;
}

static int svd(Work *w) {
  TsCall *call = w->call;
  int failed = 0;
  Svd v = {
      .m = (int)rows_of(w->a), .n = (int)cols_of(w->a), .job = call->attr[0].i ? "A" : "S"};
  int m = v.m, n = v.n, big = m > n ? m : n;
  int k = v.k = m < n ? m : n, ucols = call->attr[0].i ? m : k;
  v.ldvt = call->attr[0].i ? n : k;
  int64_t count = count_of(w->a, 2), es = w->es;
  if (!m || !n) {
    count = 0;
    if (call->attr[0].i) put_identities(w, call->out[0]), put_identities(w, call->out[2]);
  }
  v.a = take(w, (int64_t)m * n * es), v.s = take(w, (int64_t)k * w->rs);
  v.u = take(w, (int64_t)m * ucols * es), v.vt = take(w, (int64_t)v.ldvt * n * es);
  v.iwork = take(w, (int64_t)k * 8 * 4);
  v.rwork = take(w, w->complex ? ((int64_t)5 * k * k + 7 * k + 2 * (int64_t)big * k +
                                  2 * (int64_t)k * k + k) *
                                     w->rs
                               : 16);
  char query[16] = {0};
  if (count && !w->failed) gesdd(w, &v, query, &ASK);
  int lwork = count ? (int)answer(w, query) + 1 : 1;
  void *space = lapack_work(w, lwork), *s = take(w, (int64_t)big * big * es);
  for (int64_t i = 0; !w->failed && i < count && !failed; i++) {
    flip(w, m, n, v.a, matrix(w, w->a, i, m, n));
    if (!is_finite(w, v.a, (int64_t)m * n))
      failed = refuse(w, i, "has a NaN or an infinity");
    else if (gesdd(w, &v, space, &lwork))
      failed = refuse(w, i, "does not converge");
    put_matrix(w, call->out[0], i, m, ucols, v.u, s);
    put(w, call->out[1], i * k, k, v.s, ts_dtype_real(w->d));
    put_matrix(w, call->out[2], i, v.ldvt, n, v.vt, s);
  }
  return failed;
}

int ts_exec_svd(TsCall *call) { return run(call, svd); }

/* ---- cofactors */
static double _Complex join(const double part[2]) {
  double _Complex z;
  memcpy(&z, part, sizeof z);
  return z;
}

static double _Complex element(const Work *w, const void *base, int64_t i) {
  const char *at = (const char *)base + i * w->es;
  double part[2] = {0, 0};
  for (int k = 0; k < 1 + w->complex; k++)
    part[k] = w->rs == 8 ? ((const double *)(const void *)at)[k]
                         : (double)((const float *)(const void *)at)[k];
  return join(part);
}

/* Whether no pivot is lost in the rounding of the largest. */
static bool regular(const Work *w, const void *lu, int n) {
  double least = HUGE_VAL, most = 0;
  for (int64_t i = 0; i < n; i++) {
    double pivot = cabs(element(w, lu, i * (n + 1)));
    least = pivot < least ? pivot : least;
    most = pivot > most ? pivot : most;
  }
  return least > n * (w->rs == 8 ? 0x1p-52 : 0x1p-23) * most;
}

/* det(a) of an n x n matrix that is lost. */
static double _Complex det_of(Work *w, void *a, int n, int *pivot) {
  double value[2];
  int info;
  lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info);
  diagonal_product(w, a, n, pivot, value);
  return join(value);
}

/* With a = u s vt, c[i][j] = det(u) det(vt) sum over l of u*[i][l] f[l] vt*[l][j], where
 * f[l] is the product of the other singular values: nothing is divided. */
static int cofactors_by_svd(Work *w, Svd *v, void *space, int lwork, int *pivot,
                            double _Complex *c) {
  int n = v->n;
  int64_t nn = (int64_t)n * n;
  if (gesdd(w, v, space, &lwork)) return -1;
  for (int64_t i = 0; i < nn; i++) c[i] = 0;
  for (int l = 0; l < n; l++) {
    double f = 1;
    for (int k = 0; k < n; k++)
      if (k != l) f *= w->rs == 8 ? ((double *)v->s)[k] : (double)((float *)v->s)[k];
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++)
        c[(int64_t)i * n + j] += f * conj(element(w, v->u, (int64_t)l * n + i)) *
                                 conj(element(w, v->vt, (int64_t)j * n + l));
  }
  double _Complex d = det_of(w, v->u, n, pivot) * det_of(w, v->vt, n, pivot);
  for (int64_t i = 0; i < nn; i++) c[i] *= d;
  return 0;
}

static int cofactor(Work *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int n = (int)cols_of(w->a);
  int64_t nn = (int64_t)n * n, bytes = nn * w->es, count = n ? count_of(w->a, 2) : 0;
  Svd v = {.m = n, .n = n, .k = n, .ldvt = n, .job = "A"};
  char *block = take(w, 3 * bytes + n * w->rs);
  if (block)
    v.a = block, v.u = block + bytes, v.vt = block + 2 * bytes, v.s = block + 3 * bytes;
  int *pivot = take(w, (int64_t)n * 4);
  double _Complex *c = take(w, nn * 16);
  v.iwork = take(w, (int64_t)n * 8 * 4);
  v.rwork = take(w, w->complex ? (9 * nn + 8 * (int64_t)n) * w->rs : 16);
  char query[16] = {0};
  if (count && !w->failed) gesdd(w, &v, query, &ASK);
  int lwork = count ? (int)answer(w, query) + 64 * n : 1;
  void *space = lapack_work(w, lwork);
  for (int64_t i = 0; !w->failed && i < count && !failed; i++) {
    double d[2];
    flip(w, n, n, v.a, matrix(w, w->a, i, n, n));
    if (!is_finite(w, v.a, nn)) { /* nor are the cofactors */
      for (int64_t k = 0; k < nn; k++) c[k] = NAN;
      put(w, call->out[0], i * nn, nn, c, TS_DT_complex128);
      continue;
    }
    lost(w, ts_factor_lu(w->f, n, n, v.a, n, pivot), &info);
    if (regular(w, v.a, n)) {
      diagonal_product(w, v.a, n, pivot, d);
      invert(w, n, v.a, pivot, v.u);
      for (int64_t k = 0; k < nn; k++) c[k] = join(d) * element(w, v.u, k);
    } else {
      flip(w, n, n, v.a, matrix(w, w->a, i, n, n));
      if (cofactors_by_svd(w, &v, space, lwork, pivot, c))
        failed = refuse(w, i, "does not converge");
    }
    if (!failed) put(w, call->out[0], i * nn, nn, c, TS_DT_complex128);
  }
  return failed;
}

int ts_exec_cofactor(TsCall *call) { return run(call, cofactor); }

static int evd(Work *w, int n, void *a, void *values, void *space, int lwork, void *rwork,
               int lrwork, int *iwork, int liwork) {
  int info = 0;
#define ARGS "V", "L", &n, a, &n, values, space, &lwork
  ts_blas_begin(w->call->ctx->k, &w->out);
  if (w->d == TS_DT_f32)
    ssyevd_(ARGS, iwork, &liwork, &info, 1, 1);
  else if (w->d == TS_DT_f64)
    dsyevd_(ARGS, iwork, &liwork, &info, 1, 1);
  else if (w->d == TS_DT_complex64)
    cheevd_(ARGS, rwork, &lrwork, iwork, &liwork, &info, 1, 1);
  else
    zheevd_(ARGS, rwork, &lrwork, iwork, &liwork, &info, 1, 1);
#undef ARGS
  ts_blas_end();
  return info;
}

static int eigh(Work *w) {
  TsCall *call = w->call;
  int failed = 0;
  int n = (int)cols_of(w->a), lrwork = 1 + 5 * n + 2 * n * n, liwork = 3 + 5 * n;
  int lwork = w->complex ? 2 * n + n * n + 1 : 1 + 6 * n + 2 * n * n;
  int64_t count = n ? count_of(w->a, 2) : 0;
  void *a = take(w, (int64_t)n * n * w->es), *s = take(w, (int64_t)n * n * w->es);
  void *values = take(w, (int64_t)n * w->rs), *space = lapack_work(w, lwork);
  void *rwork = take(w, (int64_t)lrwork * w->rs);
  int *iwork = take(w, (int64_t)liwork * 4);
  for (int64_t i = 0; !w->failed && i < count && !failed; i++) {
    flip(w, n, n, a, matrix(w, w->a, i, n, n));
    if (!is_finite(w, a, (int64_t)n * n))
      failed = refuse(w, i, "has a NaN or an infinity");
    else if (evd(w, n, a, values, space, lwork, rwork, lrwork, iwork, liwork))
      failed = refuse(w, i, "does not converge");
    put(w, call->out[0], i * n, n, values, ts_dtype_real(w->d));
    put_matrix(w, call->out[1], i, n, n, a, s);
  }
  return failed;
}

int ts_exec_eigh(TsCall *call) { return run(call, eigh); }
