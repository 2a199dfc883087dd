/* Shape rules of contractions and linear algebra. Leading axes are a batch. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/infer.h"

static const char *opname(const TsInfer *inf) { return ts_op_info(inf->op)->name; }

/* out = broadcast batch axes of a and b (all but their last na, nb axes). */
static int batch_shape(TsInfer *inf, int na, int nb) {
  TsMeta a = *inf->in[0], b = *inf->in[1];
  int dtype = inf->out[0].dtype;
  a.ndim = (uint8_t)(a.ndim - na), b.ndim = (uint8_t)(b.ndim - nb);
  if (ts_meta_broadcast(&a, &b, &inf->out[0]))
    return ts_infer_mismatch(inf, "batch sizes do not broadcast", 0, 1);
  inf->out[0].dtype = (uint8_t)dtype;
  return 0;
}

static int check_epilogue_operand(TsInfer *inf, int i) {
  TsMeta m = inf->out[0];
  if (inf->nin <= i || !inf->in[i]) return 0;
  if (!ts_meta_broadcast(&inf->out[0], inf->in[i], &m) && ts_meta_same_shape(&m, &inf->out[0]))
    return 0;
  char a[TS_META_TEXT], b[TS_META_TEXT];
  return ts_error_set(inf->err, TS_ERR_shape, "%s: %s %s does not fit the result %s",
                      opname(inf), ts_op_info(inf->op)->input[i], ts_meta_text(inf->in[i], a),
                      ts_meta_text(&inf->out[0], b));
}

/* Of the first two inputs. */
static void differ(TsInfer *inf, const char *sizes, int64_t a, int64_t b) {
  char what[80];
  snprintf(what, sizeof what, "%s differ (%lld vs %lld)", sizes, (long long)a, (long long)b);
  ts_infer_mismatch(inf, what, 0, 1);
}

int ts_infer_tile_shape(TsInfer *inf, const TsAttr *shape, int most) {
  bool good = shape->type != TS_ATTR_ints || (shape->n >= 1 && shape->n <= most);
  for (int i = 0; good && shape->type == TS_ATTR_ints && i < shape->n; i++)
    good = shape->ints[i] > 0;
  if (good) return 0;
  ts_error_set(inf->err, TS_ERR_attribute, "%s: tile_shape is 1 to %d numbers above 0",
               ts_op_info(inf->op)->name, most);
  return ts_error_hint(inf->err, most == 3 ? "rows, columns and steps of k, as {128, 128, 64}"
                                           : "query rows and keys, as {32, 128}");
}

int ts_shape_rule_matmul(TsInfer *inf) {
  const TsMeta *a = inf->in[0], *b = inf->in[1];
  if (a->ndim == 0 || b->ndim == 0) {
    ts_infer_mismatch(inf, "a scalar is no matrix", 0, 1);
    return ts_error_hint(inf->err, "multiply by a number with *");
  }
  bool row = a->ndim == 1, column = b->ndim == 1;
  int64_t k = a->dim[a->ndim - 1], kb = b->dim[column ? 0 : b->ndim - 2];
  if (k != kb) {
    differ(inf, "inner sizes", k, kb);
    if (b->ndim >= 2 && b->dim[b->ndim - 1] == k)
      return ts_error_hint(inf->err, "the second operand fits transposed: b:T()");
    return -1;
  }
  if (batch_shape(inf, row ? 1 : 2, column ? 1 : 2)) return -1;
  TsMeta *m = &inf->out[0];
  if (!row) m->dim[m->ndim++] = a->dim[a->ndim - 2];
  if (!column) m->dim[m->ndim++] = b->dim[b->ndim - 1];
  if (inf->op != TS_OP_matmul) return 0;
  if (ts_infer_tile_shape(inf, &inf->attr[0], 3)) return -1;
  return check_epilogue_operand(inf, 2) || check_epilogue_operand(inf, 3) ? -1 : 0;
}

/* ---- products of groups of rows */
static int check_rank(TsInfer *inf, int i, int ndim, const char *what) {
  char text[TS_META_TEXT];
  if (inf->in[i]->ndim == ndim) return 0;
  return ts_error_set(inf->err, TS_ERR_shape, "%s: %s must be %s, not %s", opname(inf),
                      ts_op_info(inf->op)->input[i], what, ts_meta_text(inf->in[i], text));
}

/* Rows one behind the other, or of each group by itself. */
static int check_rows(TsInfer *inf, int i, const char *what) {
  return inf->in[i]->ndim == 3 ? 0 : check_rank(inf, i, 2, what);
}

static int check_own_rows(TsInfer *inf, int i) {
  int64_t of = inf->in[i]->dim[0], groups = inf->in[2]->dim[0];
  if (of == groups || (of > 0 && groups % of == 0)) return 0;
  return ts_infer_mismatch(inf, "rows of each group are needed", i, 2);
}

static int check_sizes(TsInfer *inf) {
  TsDtype d = (TsDtype)inf->in[2]->dtype;
  if (ts_dtype_is(d, TS_KIND_I | TS_KIND_U))
    return check_rank(inf, 2, 1, "a vector [g], the rows of each group");
  ts_error_set(inf->err, TS_ERR_dtype, "%s: sizes must be integers, not %s", opname(inf),
               ts_dtype_name(d));
  return ts_error_hint(inf->err, ts_dtype_is(d, TS_KIND_C)
                                     ? "they count rows"
                                     : "convert with sizes:cast(\"i64\")");
}

int ts_shape_rule_quantized_matmul(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *w = inf->in[1];
  char text[TS_META_TEXT];
  if (!ts_dtype_in_blocks(w->dtype)) {
    ts_error_set(inf->err, TS_ERR_dtype, "%s: w must be stored in blocks, not %s", opname(inf),
                 ts_meta_text(w, text));
    return ts_error_hint(inf->err, "linear(x, w) takes both; w:cast(\"q8_0\") is stored so");
  }
  if (check_rank(inf, 1, 2, "a matrix [out, in]")) return -1;
  if (x->ndim < 1 || x->dim[x->ndim - 1] != w->dim[1])
    return ts_infer_mismatch(inf, "x [.., in] does not fit w [out, in]", 0, 1);
  int dtype = inf->out[0].dtype, last = x->ndim - 1;
  inf->out[0] = *x;
  inf->out[0].dtype = (uint8_t)dtype, inf->out[0].weak = 0;
  inf->out[0].dim[last] = w->dim[0];
  const TsMeta *bias = inf->nin > 2 ? inf->in[2] : NULL;
  if (!bias || (bias->ndim == 1 && bias->dim[0] == w->dim[0])) return 0;
  return ts_error_set(inf->err, TS_ERR_shape,
                      "%s: bias must be [%lld], a number for each row "
                      "of w, not %s",
                      opname(inf), (long long)w->dim[0], ts_meta_text(bias, text));
}

/* w [experts, out, in] in blocks, or codes of mxfp4 with scales beside them: sizes of the
 * numbers. */
static int experts_matrices(TsInfer *inf, int64_t dim[3]) {
  const TsMeta *w = inf->in[1], *scales = inf->nin > 4 ? inf->in[4] : NULL;
  char text[TS_META_TEXT];
  if (check_rank(inf, 1, 3, "a matrix of each expert [experts, out, in]")) return -1;
  memcpy(dim, w->dim, 3 * sizeof *dim);
  if (!scales && !ts_dtype_in_blocks(w->dtype)) {
    ts_error_set(inf->err, TS_ERR_dtype, "%s: w must be stored in blocks, not %s", opname(inf),
                 ts_meta_text(w, text));
    return ts_error_hint(inf->err, w->dtype == TS_DT_u8
                                       ? "codes of mxfp4 go with their scales: scales = .."
                                       : "w:cast(\"mxfp4\") is; moe and grouped_matmul take numbers");
  }
  if (!scales) return 0;
  if (w->dtype != TS_DT_u8 || scales->dtype != TS_DT_u8)
    return ts_infer_mismatch(inf, "codes and scales are u8", 1, 4);
  dim[2] *= 2;
  int64_t blocks = dim[2] / ts_dtypes[TS_DT_mxfp4].block;
  if (scales->ndim == 3 && scales->dim[0] == dim[0] && scales->dim[1] == dim[1] &&
      scales->dim[2] == blocks && dim[2] % ts_dtypes[TS_DT_mxfp4].block == 0)
    return 0;
  return ts_infer_mismatch(
      inf, "a scale for 32 numbers of each row is needed, [experts, out, in / 32]", 1, 4);
}

static int experts_bias(TsInfer *inf, const int64_t *dim) {
  const TsMeta *bias = inf->nin > 3 ? inf->in[3] : NULL;
  char text[TS_META_TEXT];
  if (!bias || (bias->ndim == 2 && bias->dim[0] == dim[0] && bias->dim[1] == dim[1])) return 0;
  return ts_error_set(inf->err, TS_ERR_shape,
                      "%s: bias must be [%lld,%lld], a number for each row of each w, not %s",
                      opname(inf), (long long)dim[0], (long long)dim[1],
                      ts_meta_text(bias, text));
}

int ts_shape_rule_experts_linear(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *index = inf->in[2];
  int64_t dim[3];
  if (experts_matrices(inf, dim) || experts_bias(inf, dim)) return -1;
  if (!ts_dtype_is((TsDtype)index->dtype, TS_KIND_I | TS_KIND_U))
    return ts_error_set(inf->err, TS_ERR_dtype, "%s: index must be integers, not %s",
                        opname(inf), ts_dtype_name((TsDtype)index->dtype));
  if (x->ndim < 1 || x->dim[x->ndim - 1] != dim[2])
    return ts_infer_mismatch(inf, "x [.., in] does not fit w [experts, out, in]", 0, 1);
  int lead = x->ndim - 1;
  bool fits = index->ndim >= 1 && (lead == index->ndim || lead + 1 == index->ndim);
  for (int i = 0; i < lead && fits; i++) fits = x->dim[i] == index->dim[i];
  if (!fits)
    return ts_infer_mismatch(inf, "index [.., k] does not fit x [.., in] or [.., k, in]", 0, 2);
  int dtype = inf->out[0].dtype;
  inf->out[0] = *x;
  inf->out[0].dtype = (uint8_t)dtype, inf->out[0].weak = 0;
  inf->out[0].ndim = index->ndim;
  memcpy(inf->out[0].dim, index->dim, sizeof *index->dim * index->ndim);
  if (index->ndim == TS_MAX_RANK)
    return ts_error_set(inf->err, TS_ERR_shape, "%s: more than %d axes", opname(inf),
                        TS_MAX_RANK);
  inf->out[0].dim[inf->out[0].ndim++] = dim[1];
  return 0;
}

static int set_grouped(TsInfer *inf, int ndim, const int64_t *dim) {
  TsMeta *m = &inf->out[0];
  int dtype = m->dtype;
  *m = *inf->in[0];
  m->dtype = (uint8_t)dtype, m->weak = 0;
  m->ndim = (uint8_t)ndim;
  for (int i = 0; i < ndim; i++) m->dim[i] = dim[i];
  return 0;
}

int ts_shape_rule_grouped_matmul(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *w = inf->in[1], *sizes = inf->in[2];
  if (check_rows(inf, 0, "a matrix [t, k]") ||
      check_rank(inf, 1, 3, "a matrix for each group [g, k, n]") || check_sizes(inf))
    return -1;
  int64_t k = x->dim[x->ndim - 1];
  if (k != w->dim[1]) {
    differ(inf, "inner sizes", k, w->dim[1]);
    return w->dim[2] == k ? ts_error_hint(inf->err, "the matrices fit transposed: w:T()") : -1;
  }
  if (x->ndim == 3 && check_own_rows(inf, 0)) return -1;
  if (sizes->dim[0] != w->dim[0]) {
    ts_infer_mismatch(inf, "one size for each matrix is needed", 1, 2);
    return ts_error_hint(inf->err, "a group without rows has size 0");
  }
  if (x->ndim == 3) return set_grouped(inf, 3, (int64_t[]){x->dim[0], x->dim[1], w->dim[2]});
  return set_grouped(inf, 2, (int64_t[]){x->dim[0], w->dim[2]});
}

int ts_shape_rule_grouped_matmul_weight_grad(TsInfer *inf) {
  const TsMeta *x = inf->in[0], *g = inf->in[1];
  int rows = x->ndim - 2;
  if (check_rows(inf, 0, "a matrix [t, k]") ||
      check_rank(inf, 1, x->ndim, rows ? "as x, [g, c, n]" : "a matrix [t, n]") ||
      check_sizes(inf) || (rows && (check_own_rows(inf, 0) || check_own_rows(inf, 1))))
    return -1;
  if (x->dim[rows] != g->dim[rows]) {
    differ(inf, "rows", x->dim[rows], g->dim[rows]);
    return ts_error_hint(inf->err, "g has a row for each row of x, as the result of "
                                   "grouped_matmul");
  }
  return set_grouped(inf, 3,
                     (int64_t[]){inf->in[2]->dim[0], x->dim[rows + 1], g->dim[rows + 1]});
}

/* ---- linear algebra */

/* LAPACK counts rows, columns and the numbers of its workspace in 32 bits, and what it would
 * answer about a larger one has wrapped. Whether m, and so many numbers for each matrix, can
 * be counted. */
static int counted(TsInfer *inf, const TsMeta *m, double numbers) {
  char text[TS_META_TEXT];
  bool good = numbers <= INT_MAX;
  for (int i = 0; i < m->ndim - 2; i++) good |= !m->dim[i]; /* no matrices at all */
  for (int i = m->ndim > 1 ? m->ndim - 2 : 0; i < m->ndim; i++) good &= m->dim[i] <= INT_MAX;
  if (good) return 0;
  return ts_error_set(inf->err, TS_ERR_shape,
                      "%s: matrices of %s are too large for LAPACK, which counts in 32 bits",
                      opname(inf), ts_meta_text(m, text));
}

/* The most numbers that gesdd counts for m x n, by its description: work, and rwork beside
 * complex numbers. */
static int svd_counted(TsInfer *inf) {
  const TsMeta *a = inf->in[0];
  double m = (double)a->dim[a->ndim - 2], n = (double)a->dim[a->ndim - 1];
  double k = m < n ? m : n, big = m + n - k;
  bool complex = ts_dtype_is((TsDtype)a->dtype, TS_KIND_C);
  double work = (complex ? 2 : 4) * k * k + 7 * k + 64 * (k + big);
  double tall = 2 * big * k + 2 * k * k + k, real = 5 * k * k + 7 * k;
  double rwork = complex ? (tall > real ? tall : real) : 0;
  return counted(inf, a, work > rwork ? work : rwork);
}

/* The same of stedc and heevd. */
static int eigh_counted(TsInfer *inf) {
  const TsMeta *a = inf->in[0];
  double n = (double)a->dim[a->ndim - 1];
  bool complex = ts_dtype_is((TsDtype)a->dtype, TS_KIND_C);
  return counted(inf, a, 1 + 5 * n + (complex ? 2 : 1) * n * n);
}
static int matrices(TsInfer *inf, int i, bool square) {
  const TsMeta *m = inf->in[i];
  char text[TS_META_TEXT];
  if (m->ndim >= 2 && (!square || m->dim[m->ndim - 1] == m->dim[m->ndim - 2]))
    return counted(inf, m, 0);
  return ts_error_set(inf->err, TS_ERR_shape, "%s: %s must be %s [.., n, %s], not %s",
                      opname(inf), ts_op_info(inf->op)->input[i],
                      square ? "square" : "a matrix", square ? "n" : "m",
                      ts_meta_text(m, text));
}

static TsMeta *output(TsInfer *inf, int i, int ndim, TsDtype d) {
  TsMeta *m = &inf->out[i];
  const TsMeta *a = inf->in[0];
  *m = *a;
  m->weak = 0;
  m->dtype = (uint8_t)d;
  m->ndim = (uint8_t)(a->ndim - 2 + ndim);
  if (inf->nout <= i) inf->nout = i + 1;
  return m;
}

static void set_matrix(TsInfer *inf, int i, TsDtype d, int64_t rows, int64_t cols) {
  TsMeta *m = output(inf, i, 2, d);
  m->dim[m->ndim - 2] = rows;
  m->dim[m->ndim - 1] = cols;
}

int ts_shape_rule_square(TsInfer *inf) {
  if (matrices(inf, 0, true)) return -1;
  if (inf->op == TS_OP_cofactor && svd_counted(inf)) return -1;
  int64_t n = inf->in[0]->dim[inf->in[0]->ndim - 1];
  set_matrix(inf, 0, (TsDtype)inf->out[0].dtype, n, n);
  return 0;
}

int ts_shape_rule_det(TsInfer *inf) {
  if (matrices(inf, 0, true)) return -1;
  output(inf, 0, 0, (TsDtype)inf->out[0].dtype);
  return 0;
}

int ts_shape_rule_qr(TsInfer *inf) {
  if (matrices(inf, 0, false)) return -1;
  const TsMeta *a = inf->in[0];
  TsDtype d = (TsDtype)inf->out[0].dtype;
  int64_t m = a->dim[a->ndim - 2], n = a->dim[a->ndim - 1];
  int64_t k = inf->attr[0].i == 1 ? m : m < n ? m : n;
  if (counted(inf, a, ((double)(n > k ? n : k) + (double)m) * 64 + 1)) return -1;
  set_matrix(inf, 0, d, m, k);
  set_matrix(inf, 1, d, k, n);
  return 0;
}

int ts_shape_rule_svd(TsInfer *inf) {
  if (matrices(inf, 0, false) || svd_counted(inf)) return -1;
  const TsMeta *a = inf->in[0];
  TsDtype d = (TsDtype)inf->out[0].dtype;
  int64_t m = a->dim[a->ndim - 2], n = a->dim[a->ndim - 1], k = m < n ? m : n;
  set_matrix(inf, 0, d, m, inf->attr[0].i ? m : k);
  TsMeta *s = output(inf, 1, 1, ts_dtype_real(d));
  s->dim[s->ndim - 1] = k;
  set_matrix(inf, 2, d, inf->attr[0].i ? n : k, n);
  return 0;
}

int ts_shape_rule_lu(TsInfer *inf) {
  if (matrices(inf, 0, false)) return -1;
  const TsMeta *a = inf->in[0];
  TsDtype d = (TsDtype)inf->out[0].dtype;
  int64_t m = a->dim[a->ndim - 2], n = a->dim[a->ndim - 1], k = m < n ? m : n;
  set_matrix(inf, 0, d, m, m);
  set_matrix(inf, 1, d, m, k);
  set_matrix(inf, 2, d, k, n);
  return 0;
}

int ts_shape_rule_eigh(TsInfer *inf) {
  if (matrices(inf, 0, true) || eigh_counted(inf)) return -1;
  TsDtype d = (TsDtype)inf->out[0].dtype;
  int64_t n = inf->in[0]->dim[inf->in[0]->ndim - 1];
  TsMeta *w = output(inf, 0, 1, ts_dtype_real(d));
  w->dim[w->ndim - 1] = n;
  set_matrix(inf, 1, d, n, n);
  return 0;
}

/* Eigenvalues of any matrix, in the complex type of the row's result. */
int ts_shape_rule_eigvals(TsInfer *inf) {
  if (matrices(inf, 0, true)) return -1;
  TsMeta *w = output(inf, 0, 1, (TsDtype)inf->out[0].dtype);
  w->dim[w->ndim - 1] = inf->in[0]->dim[inf->in[0]->ndim - 1];
  return 0;
}

int ts_shape_rule_eig(TsInfer *inf) {
  if (ts_shape_rule_eigvals(inf)) return -1;
  int64_t n = inf->in[0]->dim[inf->in[0]->ndim - 1];
  set_matrix(inf, 1, (TsDtype)inf->out[0].dtype, n, n);
  return 0;
}

int ts_shape_rule_pinv(TsInfer *inf) {
  bool hermitian = inf->attr[1].i;
  if (matrices(inf, 0, hermitian) || (hermitian ? eigh_counted(inf) : svd_counted(inf)))
    return -1;
  const TsMeta *a = inf->in[0];
  set_matrix(inf, 0, (TsDtype)inf->out[0].dtype, a->dim[a->ndim - 1], a->dim[a->ndim - 2]);
  return 0;
}

/* A b of vectors, one for each matrix, is none of columns. */
static int not_columns(TsInfer *inf) {
  const TsMeta *a = inf->in[0], *b = inf->in[1];
  ts_infer_mismatch(inf, "rows of b and size of a differ", 0, 1);
  if (b->ndim == a->ndim - 1 && b->dim[b->ndim - 1] == a->dim[a->ndim - 1])
    ts_error_hint(inf->err, "b is a vector with one axis alone: b:unsqueeze(-1) has columns");
  return -1;
}

/* a [.., n, n], b [.., n, k]; for solve also b [n]. */
int ts_shape_rule_tri_solve(TsInfer *inf) {
  const TsMeta *a = inf->in[0], *b = inf->in[1];
  if (matrices(inf, 0, true)) return -1;
  bool vector = b->ndim == 1;
  if (b->ndim < 1 || b->dim[vector ? 0 : b->ndim - 2] != a->dim[a->ndim - 1])
    return not_columns(inf);
  if (counted(inf, b, 0) || batch_shape(inf, 2, vector ? 1 : 2)) return -1;
  TsMeta *m = &inf->out[0];
  m->dim[m->ndim++] = a->dim[a->ndim - 1];
  if (!vector) m->dim[m->ndim++] = b->dim[b->ndim - 1];
  return 0;
}

int ts_shape_rule_solve(TsInfer *inf) { return ts_shape_rule_tri_solve(inf); }

/* For rows that are always composed: their shape follows from the parts. */
int ts_shape_rule_linear(TsInfer *inf) { return ts_shape_rule_same(inf); }
