/* Orthogonal factors and eigenvalues of batches of matrices. Real QR and the tridiagonal forms of real
 * matrices are our own (vm/blas/qr.c, tridiagonal.c), small ones in lanes; the rest is LAPACK's.
 *
 * LAPACK's reference routines, linked statically, run on our own BLAS (vm/blas) in one order, so
 * their bits are the same on every machine. They look at nothing while they compute, so Ctrl-C leaves
 * them by a jump (ts_blas_begin): they hold no lock, allocate nothing, and what they write is work
 * memory of ours; our BLAS, which does hold and allocate, looks by itself and jumps when it is done.
 * *Rejected:* a thread that is let alone when nobody waits for it any more (it goes on taking a
 * processor, and copies of all operands). */
#include <complex.h>
#undef complex
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/blas/blas.h"
#include "vm/core/exec.h"
#include "vm/drive/lapack.h"
#include "vm/exec/linalg.h"

#define CALL4(name, ...)                                                                       \
  (ts_blas_begin(w->call->ctx->k, &w->out),                                                    \
   w->d == TS_DT_f32         ? s##name##_(__VA_ARGS__)                                         \
   : w->d == TS_DT_f64       ? d##name##_(__VA_ARGS__)                                         \
   : w->d == TS_DT_complex64 ? c##name##_(__VA_ARGS__)                                         \
                             : z##name##_(__VA_ARGS__),                                        \
   ts_blas_end())

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

/* q, m x k, and r by our own reflections; matrices by row all the way. */
static int real_qr(TsLinalg *w, int m, int n, int k) {
  TsCall *call = w->call;
  TsTensor *q = call->out[0];
  int info;
  int64_t count = ts_linalg_count_of(w->a, 2), mn = (int64_t)m * n, mk = (int64_t)m * k;
  char *a = ts_linalg_take(w, mn * w->es), *own = ts_linalg_own(w, q, mk);
  for (int64_t i = 0; m && ts_linalg_more(w, i, count); i++) {
    memcpy(a, ts_linalg_matrix(w, w->a, i, m, n), (size_t)(mn * w->es));
    void *to = ts_linalg_place(w, q, i, mk, own);
    ts_linalg_lost(w, ts_factor_qr(w->f, m, n, k, a, n, to, k), &info);
    for (int64_t r = 1; r < k && n; r++)
      memset(a + r * n * w->es, 0, (size_t)((r < n ? r : n) * w->es));
    if (own) ts_linalg_put(w, q, i * mk, mk, own, w->d);
    ts_linalg_put(w, call->out[1], i * k * n, (int64_t)k * n, a, w->d);
  }
  return 0;
}

static int qr(TsLinalg *w) {
  TsCall *call = w->call;
  int info = 0;
  int m = (int)ts_linalg_rows_of(w->a), n = (int)ts_linalg_cols_of(w->a), k = m < n ? m : n;
  int q = call->attr[0].i == 1 ? m : k, wide = n > q ? n : q, lwork = 1;
  TsLanes l = {.what = TS_LANES_QR, .m = m, .n = n, .k = q};
  if (ts_linalg_lanes_factors(w, l, call->out[0], call->out[1])) return 0;
  if (!w->complex) return real_qr(w, m, n, q);
  lwork = ts_linalg_lapack_count(w, ((double)wide + m) * 64 + 1);
  int64_t count = ts_linalg_count_of(w->a, 2), most = (int64_t)m * wide + (int64_t)q * n;
  char *a = ts_linalg_take(w, most * w->es), *r = ts_linalg_take(w, most * w->es),
       *s = ts_linalg_take(w, most * w->es);
  void *tau = ts_linalg_take(w, (int64_t)k * w->es), *space = ts_linalg_lapack_work(w, lwork);
  for (int64_t i = 0; m && ts_linalg_more(w, i, count); i++) {
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

/* The vectors z, by column, of a tridiagonal matrix, whose values d becomes. */
static int stedc(TsLinalg *w, int n, void *d, void *e, void *z, void *space, int lwork,
                 int *iwork, int liwork) {
  int info = 0;
  ts_blas_begin(w->call->ctx->k, &w->out);
  (w->rs == 8 ? dstedc_ : sstedc_)("I", &n, d, e, z, &n, space, &lwork, iwork, &liwork, &info,
                                   1);
  ts_blas_end();
  return info;
}

/* A power of two that brings numbers up to these bits into the middle of the range, or 1. */
static double middle(const TsLinalg *w, uint64_t bits) {
  double most, edge = w->rs == 8 ? 0x1p400 : 0x1p50;
  float f;
  uint32_t low = (uint32_t)bits;
  memcpy(&f, &low, sizeof f);
  if (w->rs == 8)
    memcpy(&most, &bits, sizeof most);
  else
    most = f;
  return !bits || (most < edge && most > 1 / edge) ? 1 : ldexp(1, -ilogb(most));
}

static void times(const TsLinalg *w, void *a, int64_t n, double by) {
  for (int64_t i = 0; i < n && by != 1; i++)
    if (w->rs == 8)
      ((double *)a)[i] *= by;
    else
      ((float *)a)[i] = (float)(((float *)a)[i] * by);
}

/* Eigenvalues by a tridiagonal matrix of our own, LAPACK's of that, and our way back. */
static int real_eigh(TsLinalg *w, int n) {
  TsCall *call = w->call;
  TsTensor *y = call->out[1];
  int failed = 0, info = 0, lwork = ts_linalg_lapack_count(w, 1 + 4.0 * n + (double)n * n),
      liwork = 3 + 5 * n;
  int64_t count = ts_linalg_count_of(w->a, 2), es = w->es, nn = (int64_t)n * n;
  char *a = ts_linalg_take(w, nn * es), *v = ts_linalg_take(w, nn * es);
  char *d = ts_linalg_take(w, n * es), *e = ts_linalg_take(w, n * es),
       *tau = ts_linalg_take(w, n * es);
  void *space = ts_linalg_lapack_work(w, lwork), *own = ts_linalg_own(w, y, nn);
  int *iwork = ts_linalg_take(w, (int64_t)liwork * 4);
  for (int64_t i = 0; ts_linalg_more(w, i, count) && !failed; i++) {
    const void *from = ts_linalg_matrix(w, w->a, i, n, n);
    uint64_t most = ts_linalg_most_bits(w, from, nn);
    if (!ts_linalg_bits_finite(w, most))
      return ts_linalg_refuse(w, i, "has a NaN or an infinity");
    double by = middle(w, most);
    ts_linalg_flip(w, n, n, a, from);
    times(w, a, nn, by);
    if (ts_linalg_lost(w, ts_factor_tridiagonal(w->f, n, a, n, d, e, v, n, tau), &info) ||
        ts_cpu_interrupted())
      break;
    if (stedc(w, n, d, e, a, space, lwork, iwork, liwork))
      return ts_linalg_refuse(w, i, "does not converge");
    char *z = ts_linalg_place(w, y, i, nn, own);
    ts_linalg_flip(w, n, n, z, a);
    ts_linalg_lost(w, ts_factor_tridiagonal_back(w->f, n, v, n, tau, z, n), &info);
    times(w, d, n, 1 / by);
    ts_linalg_put(w, call->out[0], i * n, n, d, w->d);
    if (own) ts_linalg_put(w, y, i * nn, nn, own, w->d);
  }
  return failed;
}

static int heevd(TsLinalg *w, int n, void *a, void *values, void *space, int lwork, void *rwork,
                 int lrwork, int *iwork, int liwork) {
  int info = 0;
  ts_blas_begin(w->call->ctx->k, &w->out);
  (w->rs == 8 ? zheevd_ : cheevd_)("V", "L", &n, a, &n, values, space, &lwork, rwork, &lrwork,
                                   iwork, &liwork, &info, 1, 1);
  ts_blas_end();
  return info;
}

static int eigh(TsLinalg *w) {
  TsCall *call = w->call;
  int failed = 0;
  int n = (int)ts_linalg_cols_of(w->a), liwork = 3 + 5 * n, lrwork = 1, lwork = 1;
  int64_t count = n ? ts_linalg_count_of(w->a, 2) : 0;
  TsLanes l = {.what = TS_LANES_EIGH, .m = n, .n = n, .k = n};
  for (int64_t i = 0; n <= TS_BLAS_LANES_EIGH && i < count; i++)
    if (!ts_linalg_is_finite(w, ts_linalg_matrix(w, w->a, i, n, n), (int64_t)n * n))
      return ts_linalg_refuse(w, i, "has a NaN or an infinity");
  if (ts_linalg_lanes_factors(w, l, call->out[1], call->out[0])) return 0;
  if (!w->complex && count) return real_eigh(w, n);
  lrwork = ts_linalg_lapack_count(w, 1 + 5.0 * n + 2.0 * n * n);
  lwork = ts_linalg_lapack_count(w, 2.0 * n + (double)n * n + 1);
  void *a = ts_linalg_take(w, (int64_t)n * n * w->es),
       *s = ts_linalg_take(w, (int64_t)n * n * w->es);
  void *values = ts_linalg_take(w, (int64_t)n * w->rs),
       *space = ts_linalg_lapack_work(w, lwork);
  void *rwork = ts_linalg_take(w, (int64_t)lrwork * w->rs);
  int *iwork = ts_linalg_take(w, (int64_t)liwork * 4);
  for (int64_t i = 0; ts_linalg_more(w, i, count) && !failed; i++) {
    ts_linalg_flip(w, n, n, a, ts_linalg_matrix(w, w->a, i, n, n));
    if (!ts_linalg_is_finite(w, a, (int64_t)n * n))
      failed = ts_linalg_refuse(w, i, "has a NaN or an infinity");
    else if (heevd(w, n, a, values, space, lwork, rwork, lrwork, iwork, liwork))
      failed = ts_linalg_refuse(w, i, "does not converge");
    ts_linalg_put(w, call->out[0], i * n, n, values, ts_dtype_real(w->d));
    ts_linalg_put_matrix(w, call->out[1], i, n, n, a, s);
  }
  return failed;
}

int ts_exec_eigh(TsCall *call) { return ts_linalg_run(call, eigh); }
