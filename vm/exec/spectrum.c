/* What LAPACK's iterations give of batches of matrices: singular values, cofactors, eigenvalues of
 * any square matrix, pseudoinverses. How they run: linalg_orthogonal.c. */
#include <complex.h>
#undef complex
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "vm/blas/blas.h"
#include "vm/core/exec.h"
#include "vm/drive/lapack.h"
#include "vm/exec/linalg.h"

typedef struct Svd {
  int m, n, k, ldvt;
  const char *job;
  void *a, *s, *u, *vt, *rwork;
  int *iwork;
} Svd;

static int gesdd(TsLinalg *w, Svd *v, void *space, TsInt lwork) {
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

static int svd(TsLinalg *w) {
  TsCall *call = w->call;
  int failed = 0;
  Svd v = {.m = (int)ts_linalg_rows_of(w->a),
           .n = (int)ts_linalg_cols_of(w->a),
           .job = call->attr[0].i ? "A" : "S"};
  int m = v.m, n = v.n, big = m > n ? m : n;
  int k = v.k = m < n ? m : n, ucols = call->attr[0].i ? m : k;
  v.ldvt = call->attr[0].i ? n : k;
  int64_t count = ts_linalg_count_of(w->a, 2), es = w->es;
  if (!m || !n) {
    count = 0;
    if (call->attr[0].i)
      ts_linalg_put_identities(w, call->out[0]), ts_linalg_put_identities(w, call->out[2]);
  }
  v.a = ts_linalg_take(w, (int64_t)m * n * es), v.s = ts_linalg_take(w, (int64_t)k * w->rs);
  v.u = ts_linalg_take(w, (int64_t)m * ucols * es),
  v.vt = ts_linalg_take(w, (int64_t)v.ldvt * n * es);
  v.iwork = ts_linalg_take(w, (int64_t)k * 8 * 4);
  v.rwork = ts_linalg_take(w, w->complex ? ((int64_t)5 * k * k + 7 * k + 2 * (int64_t)big * k +
                                            2 * (int64_t)k * k + k) *
                                               w->rs
                                         : 16);
  char query[16] = {0};
  if (count && !w->failed) gesdd(w, &v, query, &TS_LINALG_ASK);
  int lwork = count ? (int)ts_linalg_answer(w, query) + 1 : 1;
  void *space = ts_linalg_take(w, (int64_t)lwork * w->es),
       *s = ts_linalg_take(w, (int64_t)big * big * es);
  for (int64_t i = 0; ts_linalg_more(w, i, count) && !failed; i++) {
    ts_linalg_flip(w, m, n, v.a, ts_linalg_matrix(w, w->a, i, m, n));
    if (!ts_linalg_is_finite(w, v.a, (int64_t)m * n))
      failed = ts_linalg_refuse(w, i, "has a NaN or an infinity");
    else if (gesdd(w, &v, space, &lwork))
      failed = ts_linalg_refuse(w, i, "does not converge");
    ts_linalg_put_matrix(w, call->out[0], i, m, ucols, v.u, s);
    ts_linalg_put(w, call->out[1], i * k, k, v.s, ts_dtype_real(w->d));
    ts_linalg_put_matrix(w, call->out[2], i, v.ldvt, n, v.vt, s);
  }
  return failed;
}

int ts_exec_svd(TsCall *call) { return ts_linalg_run(call, svd); }

/* ---- cofactors */
static double _Complex join(const double part[2]) {
  double _Complex z;
  memcpy(&z, part, sizeof z);
  return z;
}

static double _Complex element(const TsLinalg *w, const void *base, int64_t i) {
  const char *at = (const char *)base + i * w->es;
  double part[2] = {0, 0};
  for (int k = 0; k < 1 + w->complex; k++)
    part[k] = w->rs == 8 ? ((const double *)(const void *)at)[k]
                         : (double)((const float *)(const void *)at)[k];
  return join(part);
}

/* Whether no pivot is lost in the rounding of the largest. */
static bool regular(const TsLinalg *w, const void *lu, int n) {
  double least = HUGE_VAL, most = 0;
  for (int64_t i = 0; i < n; i++) {
    double pivot = cabs(element(w, lu, i * (n + 1)));
    least = pivot < least ? pivot : least;
    most = pivot > most ? pivot : most;
  }
  return least > n * (w->rs == 8 ? 0x1p-52 : 0x1p-23) * most;
}

/* det(a) of an n x n matrix that is lost. */
static double _Complex det_of(TsLinalg *w, void *a, int n, int *pivot) {
  double value[2];
  int info;
  ts_linalg_lost(w, ts_factor_lu(w->f, n, n, a, n, pivot), &info);
  ts_linalg_diagonal_product(w, a, n, pivot, value);
  return join(value);
}

/* With a = u s vt, c[i][j] = det(u) det(vt) sum over l of u*[i][l] f[l] vt*[l][j], where
 * f[l] is the product of the other singular values: nothing is divided. */
static int cofactors_by_svd(TsLinalg *w, Svd *v, void *space, int lwork, int *pivot,
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

static int cofactor(TsLinalg *w) {
  TsCall *call = w->call;
  int failed = 0, info = 0;
  int n = (int)ts_linalg_cols_of(w->a);
  int64_t nn = (int64_t)n * n, bytes = nn * w->es, count = n ? ts_linalg_count_of(w->a, 2) : 0;
  Svd v = {.m = n, .n = n, .k = n, .ldvt = n, .job = "A"};
  char *block = ts_linalg_take(w, 3 * bytes + n * w->rs);
  if (block)
    v.a = block, v.u = block + bytes, v.vt = block + 2 * bytes, v.s = block + 3 * bytes;
  int *pivot = ts_linalg_take(w, (int64_t)n * 4);
  double _Complex *c = ts_linalg_take(w, nn * 16);
  v.iwork = ts_linalg_take(w, (int64_t)n * 8 * 4);
  v.rwork = ts_linalg_take(w, w->complex ? (9 * nn + 8 * (int64_t)n) * w->rs : 16);
  char query[16] = {0};
  if (count && !w->failed) gesdd(w, &v, query, &TS_LINALG_ASK);
  int lwork = count ? (int)ts_linalg_answer(w, query) + 64 * n : 1;
  void *space = ts_linalg_take(w, (int64_t)lwork * w->es);
  for (int64_t i = 0; ts_linalg_more(w, i, count) && !failed; i++) {
    double d[2];
    ts_linalg_flip(w, n, n, v.a, ts_linalg_matrix(w, w->a, i, n, n));
    if (!ts_linalg_is_finite(w, v.a, nn)) { /* nor are the cofactors */
      for (int64_t k = 0; k < nn; k++) c[k] = NAN;
      ts_linalg_put(w, call->out[0], i * nn, nn, c, TS_DT_complex128);
      continue;
    }
    ts_linalg_lost(w, ts_factor_lu(w->f, n, n, v.a, n, pivot), &info);
    if (regular(w, v.a, n)) {
      ts_linalg_diagonal_product(w, v.a, n, pivot, d);
      ts_linalg_invert(w, n, v.a, pivot, v.u);
      ts_linalg_flip(w, n, n, v.vt, v.u);
      for (int64_t k = 0; k < nn; k++) c[k] = join(d) * element(w, v.vt, k);
    } else {
      ts_linalg_flip(w, n, n, v.a, ts_linalg_matrix(w, w->a, i, n, n));
      if (cofactors_by_svd(w, &v, space, lwork, pivot, c))
        failed = ts_linalg_refuse(w, i, "does not converge");
    }
    if (!failed) ts_linalg_put(w, call->out[0], i * nn, nn, c, TS_DT_complex128);
  }
  return failed;
}

int ts_exec_cofactor(TsCall *call) { return ts_linalg_run(call, cofactor); }

/* ---- eigenvalues of any square matrix */
typedef struct Eig {
  int n;
  const char *job; /* "V" or "N" */
  void *a, *re, *im, *v, *rwork;
} Eig;

static int geev(TsLinalg *w, Eig *e, void *space, TsInt lwork) {
  int info = 0, one = 1;
#define LEFT "N", e->job, &e->n, e->a, &e->n, e->re
#define REST NULL, &one, e->v, &e->n, space, lwork
  ts_blas_begin(w->call->ctx->k, &w->out);
  if (w->d == TS_DT_f32)
    sgeev_(LEFT, e->im, REST, &info, 1, 1);
  else if (w->d == TS_DT_f64)
    dgeev_(LEFT, e->im, REST, &info, 1, 1);
  else if (w->d == TS_DT_complex64)
    cgeev_(LEFT, REST, e->rwork, &info, 1, 1);
  else
    zgeev_(LEFT, REST, e->rwork, &info, 1, 1);
#undef LEFT
#undef REST
  ts_blas_end();
  return info;
}

static double real_at(const TsLinalg *w, const void *x, int64_t i) {
  return w->rs == 8 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

static double _Complex value_at(const TsLinalg *w, const Eig *e, int64_t i) {
  if (w->complex) return element(w, e->re, i);
  return join((double[]){real_at(w, e->re, i), real_at(w, e->im, i)});
}

/* Of a real matrix the vectors of two conjugate values are two columns: real and imaginary
 * parts of the first. */
static double _Complex vector_at(const TsLinalg *w, const Eig *e, int64_t row, int64_t j) {
  int64_t n = e->n;
  double im = w->complex ? 0 : real_at(w, e->im, j);
  if (im == 0) return element(w, e->v, j * n + row);
  int64_t first = im > 0 ? j : j - 1;
  double part = real_at(w, e->v, (first + 1) * n + row);
  return join((double[]){real_at(w, e->v, first * n + row), im > 0 ? part : -part});
}

static int eig_of(TsLinalg *w, bool vectors) {
  TsCall *call = w->call;
  int failed = 0;
  int64_t n = ts_linalg_cols_of(w->a), count = n ? ts_linalg_count_of(w->a, 2) : 0;
  Eig e = {.n = (int)n, .job = vectors ? "V" : "N"};
  char query[16] = {0};
  e.a = ts_linalg_take(w, n * n * w->es), e.v = ts_linalg_take(w, n * n * w->es);
  e.re = ts_linalg_take(w, n * w->es), e.im = ts_linalg_take(w, n * w->es);
  e.rwork = ts_linalg_take(w, 2 * n * w->rs);
  double _Complex *z = ts_linalg_take(w, n * n * 16);
  if (count && !w->failed) geev(w, &e, query, &TS_LINALG_ASK);
  int lwork = count ? (int)ts_linalg_answer(w, query) + 1 : 1;
  void *space = ts_linalg_take(w, (int64_t)lwork * w->es);
  for (int64_t i = 0; ts_linalg_more(w, i, count) && !failed; i++) {
    ts_linalg_flip(w, n, n, e.a, ts_linalg_matrix(w, w->a, i, n, n));
    if (!ts_linalg_is_finite(w, e.a, n * n))
      failed = ts_linalg_refuse(w, i, "has a NaN or an infinity");
    else if (geev(w, &e, space, &lwork))
      failed = ts_linalg_refuse(w, i, "does not converge");
    for (int64_t k = 0; k < n; k++) z[k] = value_at(w, &e, k);
    ts_linalg_put(w, call->out[0], i * n, n, z, TS_DT_complex128);
    for (int64_t k = 0; vectors && k < n * n; k++) z[k] = vector_at(w, &e, k / n, k % n);
    if (vectors) ts_linalg_put(w, call->out[1], i * n * n, n * n, z, TS_DT_complex128);
  }
  return failed;
}

static int eig(TsLinalg *w) { return eig_of(w, true); }
static int eigvals(TsLinalg *w) { return eig_of(w, false); }
int ts_exec_eig(TsCall *call) { return ts_linalg_run(call, eig); }
int ts_exec_eigvals(TsCall *call) { return ts_linalg_run(call, eigvals); }

/* ---- pseudoinverse */

/* Columns of x, n numbers each, times 1 / value where that is above limit times the largest. */
static void divide_columns(const TsLinalg *w, void *x, int64_t n, const void *values,
                           int64_t k) {
  const TsAttr *a = w->call->attr;
  double most = 0, limit = a[2].f, eps = w->rs == 8 ? 0x1p-52 : 0x1p-23;
  int64_t rows = ts_linalg_rows_of(w->a), cols = ts_linalg_cols_of(w->a);
  double share = a[0].type == TS_ATTR_f ? a[0].f
                 : limit > 0            ? 0
                                        : eps * (double)(rows > cols ? rows : cols);
  for (int64_t j = 0; j < k; j++) most = fmax(most, fabs(real_at(w, values, j)));
  limit = fmax(limit, share * most);
  for (int64_t j = 0; j < k; j++) {
    double s = real_at(w, values, j), f = fabs(s) > limit ? 1 / s : 0;
    int64_t from = j * n * (1 + w->complex), to = from + n * (1 + w->complex);
    for (int64_t i = from; i < to; i++) {
      if (w->rs == 8)
        ((double *)x)[i] *= f;
      else
        ((float *)x)[i] = (float)(((float *)x)[i] * f);
    }
  }
}

/* p = op(x) y^H, column-major: [n, k], [m, k] -> [n, m]; x is given as its conjugate transpose
 * if adjoint. */
static void times_adjoint(TsLinalg *w, const char *adjoint, int n, int m, int k, const void *x,
                          const void *y, void *p) {
  double one[2], zero[2] = {0, 0}, unit[2] = {1, 0};
  const int *ldx = *adjoint == 'C' ? &k : &n;
  w->call->ctx->k->convert.convert[TS_DT_complex128][w->d](1, one, unit);
  ts_blas_begin(w->call->ctx->k, &w->out);
#define ARGS adjoint, "C", &n, &m, &k, one, x, ldx, y, &m, zero, p, &n, 1, 1
  if (w->d == TS_DT_f32)
    sgemm_(ARGS);
  else if (w->d == TS_DT_f64)
    dgemm_(ARGS);
  else if (w->d == TS_DT_complex64)
    cgemm_(ARGS);
  else
    zgemm_(ARGS);
#undef ARGS
  ts_blas_end();
}

static int pinv_of_hermitian(TsLinalg *w) {
  TsEigh e;
  int n = (int)ts_linalg_cols_of(w->a);
  int64_t nn = (int64_t)n * n, count = n ? ts_linalg_count_of(w->a, 2) : 0;
  ts_linalg_eigh_take(w, &e, n);
  void *v = ts_linalg_take(w, nn * w->es), *b = ts_linalg_take(w, nn * w->es);
  void *p = ts_linalg_take(w, nn * w->es);
  for (int64_t i = 0; ts_linalg_more(w, i, count) && ts_linalg_eigh(w, &e, i, v); i++) {
    ts_linalg_flip(w, n, n, e.a, v);
    memcpy(b, e.a, (size_t)(nn * w->es));
    divide_columns(w, b, n, e.values, n);
    times_adjoint(w, "N", n, n, n, b, e.a, p);
    ts_linalg_put_matrix(w, w->call->out[0], i, n, n, p, b);
  }
  return 0;
}

static int pinv(TsLinalg *w) {
  TsCall *call = w->call;
  int failed = 0;
  Svd v = {.m = (int)ts_linalg_rows_of(w->a), .n = (int)ts_linalg_cols_of(w->a), .job = "S"};
  int64_t m = v.m, n = v.n, big = m > n ? m : n, k = m < n ? m : n, es = w->es;
  int64_t count = k ? ts_linalg_count_of(w->a, 2) : 0;
  char query[16] = {0};
  if (call->attr[1].i) return pinv_of_hermitian(w);
  v.k = v.ldvt = (int)k;
  v.a = ts_linalg_take(w, m * n * es), v.s = ts_linalg_take(w, k * w->rs);
  v.u = ts_linalg_take(w, m * k * es), v.vt = ts_linalg_take(w, k * n * es);
  v.iwork = ts_linalg_take(w, k * 8 * 4);
  v.rwork = ts_linalg_take(w, w->complex ? (7 * k * k + 8 * k + 2 * big * k) * w->rs : 16);
  if (count && !w->failed) gesdd(w, &v, query, &TS_LINALG_ASK);
  int lwork = count ? (int)ts_linalg_answer(w, query) + 1 : 1;
  void *space = ts_linalg_take(w, (int64_t)lwork * w->es), *p = ts_linalg_take(w, m * n * es);
  for (int64_t i = 0; ts_linalg_more(w, i, count) && !failed; i++) {
    ts_linalg_flip(w, m, n, v.a, ts_linalg_matrix(w, w->a, i, m, n));
    if (!ts_linalg_is_finite(w, v.a, m * n))
      failed = ts_linalg_refuse(w, i, "has a NaN or an infinity");
    else if (gesdd(w, &v, space, &lwork))
      failed = ts_linalg_refuse(w, i, "does not converge");
    divide_columns(w, v.u, m, v.s, k);
    times_adjoint(w, "C", v.n, v.m, v.k, v.vt, v.u, p);
    ts_linalg_put_matrix(w, call->out[0], i, n, m, p, v.a);
  }
  return failed;
}

int ts_exec_pinv(TsCall *call) { return ts_linalg_run(call, pinv); }
