/* Products with sparse matrices by offsets of rows: the same by the rows of entries, or blocks taken,
 * multiplied and added where they lead, in the order of blocks. */
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
  if (k->b->failed) return -1;
  return ts_compose_finish(k, ts_build(k->b, TS_OP_spmm_coo,
                                       TS_IN(k->in[0], row, k->given[2], k->in[3]),
                                       TS_ATTRS({"rows", ts_b_int(rows)}), NULL));
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
  TsVal y = ts_build(b, TS_OP_spmm_coo,
                     TS_IN(k->in[0], row, k->given[2], ts_build_reshape(b, k->in[3], parts, 3)),
                     TS_ATTRS({"rows", ts_b_int(rows)}), NULL);
  return ts_compose_finish(k, ts_build_reshape(b, y, whole, x.ndim));
}
