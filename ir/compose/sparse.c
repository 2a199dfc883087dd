/* Products with sparse matrices: rows of x are taken, multiplied and added at others, by rows that
 * have kernels and derivatives of their own. What stands between them is made where entries are
 * used, in loops that are fused.
 *
 * index_add sums in the order of entries whatever the threads are, which is all that the results
 * rest on. Rejected: an operator of its own for each format, which would be derived, spread over
 * meshes and written for each device once more; calls that run at once have functions with the same
 * bits (vm/exec/spmm.c, vm/exec/sddmm.c), which make nothing of entries x columns. */
#include "ir/compose/compose.h"

static const char *name_of(const TsCompose *k) { return ts_op_info(k->op)->name; }

static int mismatch(TsCompose *k, const char *what, int i, int j) {
  char ti[TS_META_TEXT], tj[TS_META_TEXT];
  return ts_build_fail(k->b, TS_ERR_shape, "%s: %s: %s x %s", name_of(k), what,
                       ts_meta_text(k->b->meta(k->b, k->given[i]), ti),
                       ts_meta_text(k->b->meta(k->b, k->given[j]), tj));
}

static int wrong(TsCompose *k, int i, const char *what) {
  char text[TS_META_TEXT];
  return ts_build_fail(k->b, TS_ERR_shape, "%s: %s must be %s, not %s", name_of(k),
                       ts_op_info(k->op)->input[i], what,
                       ts_meta_text(k->b->meta(k->b, k->given[i]), text));
}

/* Input i is a vector of whole numbers; how many. */
static int places(TsCompose *k, int i, int64_t *n) {
  const TsMeta *m = k->b->meta(k->b, k->given[i]);
  if (!ts_dtype_is((TsDtype)m->dtype, TS_KIND_I | TS_KIND_U))
    return ts_build_fail(k->b, TS_ERR_dtype, "%s: %s must be integers, not %s", name_of(k),
                         ts_op_info(k->op)->input[i], ts_dtype_name((TsDtype)m->dtype));
  *n = m->ndim ? m->dim[0] : 0;
  return m->ndim == 1 ? 0 : wrong(k, i, "a vector");
}

/* Inputs i and j are vectors with a number for each entry. */
static int of_entries(TsCompose *k, int i, int j) {
  int64_t n, other;
  if (places(k, i, &n) || places(k, j, &other)) return -1;
  return n == other ? 0 : mismatch(k, "one number for each entry is needed", i, j);
}

static TsVal unsqueezed(TsBuild *b, TsVal x, int64_t axis) {
  return ts_build(b, TS_OP_unsqueeze, TS_IN(x), TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
}

static TsVal rows_at(TsBuild *b, TsVal x, TsVal index) {
  return ts_build(b, TS_OP_index_select, TS_IN(x, index), TS_ATTRS({"axis", ts_b_int(0)}),
                  NULL);
}

/* The slices of src added at rows of zeros. */
static TsVal added_at(TsBuild *b, TsVal src, TsVal row, int64_t rows) {
  if (b->failed) return NULL;
  TsMeta m = *b->meta(b, src);
  m.dim[0] = rows;
  TsVal zeros =
      ts_build_expand(b, ts_build_cast(b, b->number(b, 0), (TsDtype)m.dtype), m.dim, m.ndim);
  return ts_build(b, TS_OP_index_add, TS_IN(zeros, row, src), TS_ATTRS({"axis", ts_b_int(0)}),
                  NULL);
}

static TsVal rows_of(TsBuild *b, TsVal offsets, int64_t entries) {
  return ts_build(b, TS_OP_csr_rows, TS_IN(offsets), TS_ATTRS({"entries", ts_b_int(entries)}),
                  NULL);
}

/* x is rows or a vector, which is a column. */
static int check_dense(TsCompose *k, int i) {
  int ndim = k->b->meta(k->b, k->given[i])->ndim;
  return ndim == 1 || ndim == 2 ? 0 : wrong(k, i, "a matrix [k, n] or a vector [k]");
}

/* ---- entries */
static int check_values(TsCompose *k, int i, int column) {
  const TsMeta *v = k->b->meta(k->b, k->given[i]);
  if (v->ndim != 1) return wrong(k, i, "a vector");
  if (v->dim[0] != k->b->meta(k->b, k->given[column])->dim[0])
    return mismatch(k, "one value for each entry is needed", i, column);
  return 0;
}

static TsVal product(TsCompose *k, TsVal row, TsVal column, int64_t rows) {
  TsBuild *b = k->b;
  TsVal values = k->in[0], x = k->in[3];
  if (b->failed) return NULL;
  if (b->meta(b, x)->ndim == 2) values = unsqueezed(b, values, 1);
  return added_at(b, ts_build_mul(b, values, rows_at(b, x, column)), row, rows);
}

int ts_compose_spmm_coo(TsCompose *k) {
  int64_t rows = k->attr[0].i;
  if (of_entries(k, 1, 2) || check_values(k, 0, 2) || check_dense(k, 3)) return -1;
  if (rows < 0)
    return ts_build_fail(k->b, TS_ERR_value, "spmm_coo: rows = %lld", (long long)rows);
  return ts_compose_finish(k, product(k, k->given[1], k->given[2], rows));
}

/* Offsets of rows and columns of entries; how many rows. */
static int check_rows(TsCompose *k, int64_t *rows) {
  int64_t entries;
  if (places(k, 1, rows) || places(k, 2, &entries)) return -1;
  return (*rows)-- ? 0 : wrong(k, 1, "a vector [m + 1]");
}

int ts_compose_spmm_csr(TsCompose *k) {
  int64_t rows;
  if (check_rows(k, &rows) || check_values(k, 0, 2) || check_dense(k, 3)) return -1;
  TsVal row = rows_of(k->b, k->given[1], k->b->meta(k->b, k->given[2])->dim[0]);
  return ts_compose_finish(k, product(k, row, k->given[2], rows));
}

/* ---- elements of a product */
int ts_compose_sddmm(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal values = k->nin > 4 ? k->in[4] : NULL;
  TsMeta m = *b->meta(b, k->given[0]), n = *b->meta(b, k->given[1]);
  if (m.ndim != 2) return wrong(k, 0, "a matrix [m, k]");
  if (n.ndim != 2) return wrong(k, 1, "a matrix [k, n]");
  if (m.dim[1] != n.dim[0]) return mismatch(k, "inner sizes differ", 0, 1);
  if (of_entries(k, 2, 3) || (values && check_values(k, 4, 3))) return -1;
  TsVal left = rows_at(b, k->in[0], k->given[2]);
  TsVal right = rows_at(b, ts_build1(b, TS_OP_transpose, k->in[1]), k->given[3]);
  TsVal sum = ts_build_sum(b, ts_build_mul(b, left, right), (int64_t[]){1}, 1, false);
  return ts_compose_finish(k, values ? ts_build_mul(b, values, sum) : sum);
}

/* ---- blocks */
static int check_blocks(TsCompose *k, int64_t *rows) {
  const TsMeta *w = k->b->meta(k->b, k->given[0]), *x = k->b->meta(k->b, k->given[3]);
  if (w->ndim != 3) return wrong(k, 0, "[e, p, q]");
  if (check_rows(k, rows) || check_dense(k, 3)) return -1;
  if (w->dim[0] != k->b->meta(k->b, k->given[2])->dim[0])
    return mismatch(k, "one column for each block is needed", 0, 2);
  if (w->dim[2] ? x->dim[0] % w->dim[2] : x->dim[0])
    return mismatch(k, "rows of x are no multiple of the columns of a block", 0, 3);
  return 0;
}

int ts_compose_bsmm(TsCompose *k) {
  TsBuild *b = k->b;
  int64_t rows;
  if (check_blocks(k, &rows)) return -1;
  TsMeta w = *b->meta(b, k->given[0]), x = *b->meta(b, k->given[3]);
  int64_t n = x.ndim == 2 ? x.dim[1] : 1, p = w.dim[1], q = w.dim[2];
  int64_t parts[3] = {q ? x.dim[0] / q : 0, q, n}, whole[2] = {rows * p, n};
  TsVal row = rows_of(b, k->given[1], w.dim[0]);
  TsVal at = rows_at(b, ts_build_reshape(b, k->in[3], parts, 3), k->given[2]);
  TsVal y = added_at(b, ts_build2(b, TS_OP_matmul, k->in[0], at), row, rows);
  return ts_compose_finish(k, ts_build_reshape(b, y, whole, x.ndim));
}
