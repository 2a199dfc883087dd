/* Orthogonal factors and eigenvalues of batches of matrices. Real QR and the tridiagonal forms of
 * real matrices are our own (vm/blas/qr.c, tridiagonal.c), small ones in lanes; the rest is
 * LAPACK's.
 *
 * LAPACK's reference routines, linked statically, run on our own BLAS (vm/blas) in one order, so
 * their bits are the same on every machine. They look at nothing while they compute, so Ctrl-C
 * leaves them by a jump (ts_blas_begin): they hold no lock, allocate nothing, and what they write
 * is work memory of ours; our BLAS, which does hold and allocate, looks by itself and jumps when it
 * is done. *Rejected:* a thread that is let alone when nobody waits for it any more (it goes on
 * taking a processor, and copies of all operands). */
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
  lwork = (wide + m) * 64 + 1;
  int64_t count = ts_linalg_count_of(w->a, 2), most = (int64_t)m * wide + (int64_t)q * n;
  char *a = ts_linalg_take(w, most * w->es), *r = ts_linalg_take(w, most * w->es),
       *s = ts_linalg_take(w, most * w->es);
  void *tau = ts_linalg_take(w, (int64_t)k * w->es),
       *space = ts_linalg_take(w, (int64_t)lwork * w->es);
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

/* By a tridiagonal matrix of our own, LAPACK's vectors of that, and our way back. */
static bool real_eigh(TsLinalg *w, TsEigh *e, int64_t i, const void *from, uint64_t most,
                      void *vectors) {
  int n = e->n, info = 0;
  int64_t nn = (int64_t)n * n;
  double by = middle(w, most);
  ts_linalg_flip(w, n, n, e->a, from);
  times(w, e->a, nn, by);
  if (ts_linalg_lost(
          w, ts_factor_tridiagonal(w->f, n, e->a, n, e->values, e->off, e->v, n, e->tau),
          &info) ||
      ts_cpu_interrupted())
    return false;
  ts_blas_begin(w->call->ctx->k, &w->out);
  (w->rs == 8 ? dstedc_ : sstedc_)("I", &n, e->values, e->off, e->a, &n, e->space, &e->lwork,
                                   e->iwork, &e->liwork, &info, 1);
  ts_blas_end();
  if (info) return ts_linalg_refuse(w, i, "does not converge"), false;
  ts_linalg_flip(w, n, n, vectors, e->a);
  ts_linalg_lost(w, ts_factor_tridiagonal_back(w->f, n, e->v, n, e->tau, vectors, n), &info);
  times(w, e->values, n, 1 / by);
  return true;
}

void ts_linalg_eigh_take(TsLinalg *w, TsEigh *e, int n) {
  int64_t nn = (int64_t)n * n;
  e->n = n, e->liwork = 3 + 5 * n;
  e->lwork = 1 + (w->complex ? 2 : 4) * n + n * n;
  e->lrwork = w->complex ? 1 + 5 * n + 2 * n * n : 1;
  e->a = ts_linalg_take(w, nn * w->es), e->values = ts_linalg_take(w, n * w->rs);
  e->space = ts_linalg_take(w, (int64_t)e->lwork * w->es);
  e->iwork = ts_linalg_take(w, (int64_t)e->liwork * 4);
  if (w->complex) {
    e->rwork = ts_linalg_take(w, (int64_t)e->lrwork * w->rs);
  } else {
    e->v = ts_linalg_take(w, nn * w->es);
    e->off = ts_linalg_take(w, n * w->es), e->tau = ts_linalg_take(w, n * w->es);
  }
}

bool ts_linalg_eigh(TsLinalg *w, TsEigh *e, int64_t i, void *vectors) {
  int n = e->n, info = 0;
  const void *from = ts_linalg_matrix(w, w->a, i, n, n);
  uint64_t most = ts_linalg_most_bits(w, from, (int64_t)n * n);
  if (!ts_linalg_bits_finite(w, most))
    return ts_linalg_refuse(w, i, "has a NaN or an infinity"), false;
  if (!w->complex) return real_eigh(w, e, i, from, most, vectors);
  ts_linalg_flip(w, n, n, e->a, from);
  ts_blas_begin(w->call->ctx->k, &w->out);
  (w->rs == 8 ? zheevd_ : cheevd_)("V", "L", &n, e->a, &n, e->values, e->space, &e->lwork,
                                   e->rwork, &e->lrwork, e->iwork, &e->liwork, &info, 1, 1);
  ts_blas_end();
  if (info) return ts_linalg_refuse(w, i, "does not converge"), false;
  ts_linalg_flip(w, n, n, vectors, e->a);
  return true;
}

static int eigh(TsLinalg *w) {
  TsCall *call = w->call;
  TsTensor *y = call->out[1];
  TsEigh e;
  int n = (int)ts_linalg_cols_of(w->a);
  int64_t count = n ? ts_linalg_count_of(w->a, 2) : 0, nn = (int64_t)n * n;
  TsLanes l = {.what = TS_LANES_EIGH, .m = n, .n = n, .k = n};
  for (int64_t i = 0; n <= TS_BLAS_LANES_EIGH && i < count; i++)
    if (!ts_linalg_is_finite(w, ts_linalg_matrix(w, w->a, i, n, n), nn))
      return ts_linalg_refuse(w, i, "has a NaN or an infinity");
  if (ts_linalg_lanes_factors(w, l, y, call->out[0])) return 0;
  ts_linalg_eigh_take(w, &e, n);
  void *own = ts_linalg_own(w, y, nn);
  for (int64_t i = 0; ts_linalg_more(w, i, count); i++) {
    if (!ts_linalg_eigh(w, &e, i, ts_linalg_place(w, y, i, nn, own))) break;
    ts_linalg_put(w, call->out[0], i * n, n, e.values, ts_dtype_real(w->d));
    if (own) ts_linalg_put(w, y, i * nn, nn, own, w->d);
  }
  return 0;
}

int ts_exec_eigh(TsCall *call) { return ts_linalg_run(call, eigh); }
