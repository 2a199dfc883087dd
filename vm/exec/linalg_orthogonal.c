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

static void *lapack_work(Linalg *w, double wanted) {
  return linalg_take(w, (int64_t)wanted * w->es);
}

/* LAPACK answers a workspace query in the first number of the workspace. */
static double answer(const Linalg *w, const void *query) {
  return w->d == TS_DT_f64 || w->d == TS_DT_complex128 ? *(const double *)query
                                                       : (double)*(const float *)query;
}

static const int ASK = -1;

static void make_q(Linalg *w, int m, int n, int k, void *a, const void *tau, void *space,
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
static int real_qr(Linalg *w, int m, int n, int k) {
  TsCall *call = w->call;
  TsTensor *q = call->out[0];
  int info;
  int64_t count = count_of(w->a, 2), mn = (int64_t)m * n, mk = (int64_t)m * k;
  char *a = linalg_take(w, mn * w->es), *own = linalg_own(w, q, mk);
  for (int64_t i = 0; !w->failed && m && i < count && !ts_cpu_interrupted(); i++) {
    memcpy(a, linalg_matrix(w, w->a, i, m, n), (size_t)(mn * w->es));
    void *to = linalg_place(w, q, i, mk, own);
    linalg_lost(w, ts_factor_qr(w->f, m, n, k, a, n, to, k), &info);
    for (int64_t r = 1; r < k && n; r++)
      memset(a + r * n * w->es, 0, (size_t)((r < n ? r : n) * w->es));
    if (own) linalg_put(w, q, i * mk, mk, own, w->d);
    linalg_put(w, call->out[1], i * k * n, (int64_t)k * n, a, w->d);
  }
  return 0;
}

static int qr(Linalg *w) {
  TsCall *call = w->call;
  int info = 0;
  int m = (int)rows_of(w->a), n = (int)cols_of(w->a), k = m < n ? m : n;
  int q = call->attr[0].i == 1 ? m : k, wide = n > q ? n : q, lwork = (wide + m) * 64 + 1;
  TsLanes l = {.what = TS_LANES_QR, .m = m, .n = n, .k = q};
  if (linalg_lanes_factors(w, l, call->out[0], call->out[1])) return 0;
  if (!w->complex) return real_qr(w, m, n, q);
  int64_t count = count_of(w->a, 2), most = (int64_t)m * wide + (int64_t)q * n;
  char *a = linalg_take(w, most * w->es), *r = linalg_take(w, most * w->es),
       *s = linalg_take(w, most * w->es);
  void *tau = linalg_take(w, (int64_t)k * w->es), *space = lapack_work(w, lwork);
  for (int64_t i = 0; !w->failed && m && i < count; i++) {
    linalg_flip(w, m, n, a, linalg_matrix(w, w->a, i, m, n));
    if (n) CALL4(geqrf, &m, &n, a, &m, tau, space, &lwork, &info);
    memset(r, 0, (size_t)q * (size_t)n * (size_t)w->es);
    for (int j = 0; j < n; j++)
      memcpy(r + (int64_t)j * q * w->es, a + (int64_t)j * m * w->es,
             (size_t)((j + 1 < k ? j + 1 : k) * w->es));
    if (n) linalg_put_matrix(w, call->out[1], i, q, n, r, s);
    if (q) make_q(w, m, q, k, a, tau, space, lwork);
    if (q) linalg_put_matrix(w, call->out[0], i, m, q, a, s);
  }
  return 0;
}

int ts_exec_qr(TsCall *call) { return linalg_run(call, qr); }

/* The largest magnitude of n numbers, or pairs of them, as bits, which have the order of what they
 * stand for; above those of infinity where there is a NaN. */
static uint64_t most_bits(const Linalg *w, const void *a, int64_t n) {
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

static bool bits_are_finite(const Linalg *w, uint64_t bits) {
  return w->rs == 8 ? bits < (uint64_t)0x7ff << 52 : bits < 0x7f800000u;
}

/* LAPACK's iterations need not end where a number is not finite. */
static bool is_finite(const Linalg *w, const void *a, int64_t n) {
  return bits_are_finite(w, most_bits(w, a, n));
}

typedef struct Svd {
  int m, n, k, ldvt;
  const char *job;
  void *a, *s, *u, *vt, *rwork;
  int *iwork;
} Svd;

static int gesdd(Linalg *w, Svd *v, void *space, TsInt lwork) {
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

static int svd(Linalg *w) {
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
    if (call->attr[0].i)
      linalg_put_identities(w, call->out[0]), linalg_put_identities(w, call->out[2]);
  }
  v.a = linalg_take(w, (int64_t)m * n * es), v.s = linalg_take(w, (int64_t)k * w->rs);
  v.u = linalg_take(w, (int64_t)m * ucols * es),
  v.vt = linalg_take(w, (int64_t)v.ldvt * n * es);
  v.iwork = linalg_take(w, (int64_t)k * 8 * 4);
  v.rwork = linalg_take(w, w->complex ? ((int64_t)5 * k * k + 7 * k + 2 * (int64_t)big * k +
                                         2 * (int64_t)k * k + k) *
                                            w->rs
                                      : 16);
  char query[16] = {0};
  if (count && !w->failed) gesdd(w, &v, query, &ASK);
  int lwork = count ? (int)answer(w, query) + 1 : 1;
  void *space = lapack_work(w, lwork), *s = linalg_take(w, (int64_t)big * big * es);
  for (int64_t i = 0; !w->failed && i < count && !failed; i++) {
    linalg_flip(w, m, n, v.a, linalg_matrix(w, w->a, i, m, n));
    if (!is_finite(w, v.a, (int64_t)m * n))
      failed = linalg_refuse(w, i, "has a NaN or an infinity");
    else if (gesdd(w, &v, space, &lwork))
      failed = linalg_refuse(w, i, "does not converge");
    linalg_put_matrix(w, call->out[0], i, m, ucols, v.u, s);
    linalg_put(w, call->out[1], i * k, k, v.s, ts_dtype_real(w->d));
    linalg_put_matrix(w, call->out[2], i, v.ldvt, n, v.vt, s);
  }
  return failed;
}

int ts_exec_svd(TsCall *call) { return linalg_run(call, svd); }

/* ---- cofactors */
static double _Complex join(const double part[2]) {
  double _Complex z;
  memcpy(&z, part, sizeof z);
  return z;
}

static double _Complex element(const Linalg *w, const void *base, int64_t i) {
  const char *at = (const char *)base + i * w->es;
  double part[2] = {0, 0};
  for (int k = 0; k < 1 + w->complex; k++)
    part[k] = w->rs == 8 ? ((const double *)(const void *)at)[k]
                         : (double)((const float *)(const void *)at)[k];
  return join(part);
}

/* Whether no pivot is lost in the rounding of the largest. */
static bool regular(const Linalg *w, const void *lu, int n) {
  double least = HUGE_VAL, most = 0;
  for (int64_t i = 0; i < n; i++) {
    double pivot = cabs(element(w, lu, i * (n + 1)));
    least = pivot < least ? pivot : least;
    most = pivot > most ? pivot : most;
  }
  return least > n * (w->rs == 8 ? 0x1p-52 : 0x1p-23) * most;
}

/* det(a) of an n x n matrix that is lost. */
static double _Complex det_of(Linalg *w, void *a, int n, int *pivot) {
  double value[2];
  int info;
  linalg_lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info);
  linalg_diagonal_product(w, a, n, pivot, value);
  return join(value);
}

/* With a = u s vt, c[i][j] = det(u) det(vt) sum over l of u*[i][l] f[l] vt*[l][j], where
 * f[l] is the product of the other singular values: nothing is divided. */
static int cofactors_by_svd(Linalg *w, Svd *v, void *space, int lwork, int *pivot,
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

static int cofactor(Linalg *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int n = (int)cols_of(w->a);
  int64_t nn = (int64_t)n * n, bytes = nn * w->es, count = n ? count_of(w->a, 2) : 0;
  Svd v = {.m = n, .n = n, .k = n, .ldvt = n, .job = "A"};
  char *block = linalg_take(w, 3 * bytes + n * w->rs);
  if (block)
    v.a = block, v.u = block + bytes, v.vt = block + 2 * bytes, v.s = block + 3 * bytes;
  int *pivot = linalg_take(w, (int64_t)n * 4);
  double _Complex *c = linalg_take(w, nn * 16);
  v.iwork = linalg_take(w, (int64_t)n * 8 * 4);
  v.rwork = linalg_take(w, w->complex ? (9 * nn + 8 * (int64_t)n) * w->rs : 16);
  char query[16] = {0};
  if (count && !w->failed) gesdd(w, &v, query, &ASK);
  int lwork = count ? (int)answer(w, query) + 64 * n : 1;
  void *space = lapack_work(w, lwork);
  for (int64_t i = 0; !w->failed && i < count && !failed; i++) {
    double d[2];
    linalg_flip(w, n, n, v.a, linalg_matrix(w, w->a, i, n, n));
    if (!is_finite(w, v.a, nn)) { /* nor are the cofactors */
      for (int64_t k = 0; k < nn; k++) c[k] = NAN;
      linalg_put(w, call->out[0], i * nn, nn, c, TS_DT_complex128);
      continue;
    }
    linalg_lost(w, ts_factor_lu(w->f, n, n, v.a, n, pivot), &info);
    if (regular(w, v.a, n)) {
      linalg_diagonal_product(w, v.a, n, pivot, d);
      linalg_invert(w, n, v.a, pivot, v.u);
      linalg_flip(w, n, n, v.vt, v.u);
      for (int64_t k = 0; k < nn; k++) c[k] = join(d) * element(w, v.vt, k);
    } else {
      linalg_flip(w, n, n, v.a, linalg_matrix(w, w->a, i, n, n));
      if (cofactors_by_svd(w, &v, space, lwork, pivot, c))
        failed = linalg_refuse(w, i, "does not converge");
    }
    if (!failed) linalg_put(w, call->out[0], i * nn, nn, c, TS_DT_complex128);
  }
  return failed;
}

int ts_exec_cofactor(TsCall *call) { return linalg_run(call, cofactor); }

/* The vectors z, by column, of a tridiagonal matrix, whose values d becomes. */
static int stedc(Linalg *w, int n, void *d, void *e, void *z, void *space, int lwork,
                 int *iwork, int liwork) {
  int info = 0;
  ts_blas_begin(w->call->ctx->k, &w->out);
  (w->rs == 8 ? dstedc_ : sstedc_)("I", &n, d, e, z, &n, space, &lwork, iwork, &liwork, &info,
                                   1);
  ts_blas_end();
  return info;
}

/* A power of two that brings numbers up to these bits into the middle of the range, or 1. */
static double middle(const Linalg *w, uint64_t bits) {
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

static void times(const Linalg *w, void *a, int64_t n, double by) {
  for (int64_t i = 0; i < n && by != 1; i++)
    if (w->rs == 8)
      ((double *)a)[i] *= by;
    else
      ((float *)a)[i] = (float)(((float *)a)[i] * by);
}

/* Eigenvalues by a tridiagonal matrix of our own, LAPACK's of that, and our way back. */
static int real_eigh(Linalg *w, int n) {
  TsCall *call = w->call;
  TsTensor *y = call->out[1];
  int failed = 0, info = 0, lwork = 1 + 4 * n + n * n, liwork = 3 + 5 * n;
  int64_t count = count_of(w->a, 2), es = w->es, nn = (int64_t)n * n;
  char *a = linalg_take(w, nn * es), *v = linalg_take(w, nn * es);
  char *d = linalg_take(w, n * es), *e = linalg_take(w, n * es), *tau = linalg_take(w, n * es);
  void *space = lapack_work(w, lwork), *own = linalg_own(w, y, nn);
  int *iwork = linalg_take(w, (int64_t)liwork * 4);
  for (int64_t i = 0; !w->failed && i < count && !failed && !ts_cpu_interrupted(); i++) {
    const void *from = linalg_matrix(w, w->a, i, n, n);
    uint64_t most = most_bits(w, from, nn);
    if (!bits_are_finite(w, most)) return linalg_refuse(w, i, "has a NaN or an infinity");
    double by = middle(w, most);
    linalg_flip(w, n, n, a, from);
    times(w, a, nn, by);
    if (linalg_lost(w, ts_factor_tridiagonal(w->f, n, a, n, d, e, v, n, tau), &info) ||
        ts_cpu_interrupted())
      break;
    if (stedc(w, n, d, e, a, space, lwork, iwork, liwork))
      return linalg_refuse(w, i, "does not converge");
    char *z = linalg_place(w, y, i, nn, own);
    linalg_flip(w, n, n, z, a);
    linalg_lost(w, ts_factor_tridiagonal_back(w->f, n, v, n, tau, z, n), &info);
    times(w, d, n, 1 / by);
    linalg_put(w, call->out[0], i * n, n, d, w->d);
    if (own) linalg_put(w, y, i * nn, nn, own, w->d);
  }
  return failed;
}

static int heevd(Linalg *w, int n, void *a, void *values, void *space, int lwork, void *rwork,
                 int lrwork, int *iwork, int liwork) {
  int info = 0;
  ts_blas_begin(w->call->ctx->k, &w->out);
  (w->rs == 8 ? zheevd_ : cheevd_)("V", "L", &n, a, &n, values, space, &lwork, rwork, &lrwork,
                                   iwork, &liwork, &info, 1, 1);
  ts_blas_end();
  return info;
}

static int eigh(Linalg *w) {
  TsCall *call = w->call;
  int failed = 0;
  int n = (int)cols_of(w->a), lrwork = 1 + 5 * n + 2 * n * n, liwork = 3 + 5 * n;
  int lwork = 2 * n + n * n + 1;
  int64_t count = n ? count_of(w->a, 2) : 0;
  TsLanes l = {.what = TS_LANES_EIGH, .m = n, .n = n, .k = n};
  for (int64_t i = 0; n <= TS_BLAS_LANES_EIGH && i < count; i++)
    if (!is_finite(w, linalg_matrix(w, w->a, i, n, n), (int64_t)n * n))
      return linalg_refuse(w, i, "has a NaN or an infinity");
  if (linalg_lanes_factors(w, l, call->out[1], call->out[0])) return 0;
  if (!w->complex && count) return real_eigh(w, n);
  void *a = linalg_take(w, (int64_t)n * n * w->es), *s = linalg_take(w, (int64_t)n * n * w->es);
  void *values = linalg_take(w, (int64_t)n * w->rs), *space = lapack_work(w, lwork);
  void *rwork = linalg_take(w, (int64_t)lrwork * w->rs);
  int *iwork = linalg_take(w, (int64_t)liwork * 4);
  for (int64_t i = 0; !w->failed && i < count && !failed; i++) {
    linalg_flip(w, n, n, a, linalg_matrix(w, w->a, i, n, n));
    if (!is_finite(w, a, (int64_t)n * n))
      failed = linalg_refuse(w, i, "has a NaN or an infinity");
    else if (heevd(w, n, a, values, space, lwork, rwork, lrwork, iwork, liwork))
      failed = linalg_refuse(w, i, "does not converge");
    linalg_put(w, call->out[0], i * n, n, values, ts_dtype_real(w->d));
    linalg_put_matrix(w, call->out[1], i, n, n, a, s);
  }
  return failed;
}

int ts_exec_eigh(TsCall *call) { return linalg_run(call, eigh); }
