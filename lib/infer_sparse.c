/* Shapes of products with sparse matrices, of which entries are given. */
#include "lib/infer.h"

static const char *opname(const TsInfer *inf) { return ts_op_info(inf->op)->name; }

static int wrong(TsInfer *inf, int i, const char *what) {
  char text[TS_META_TEXT];
  return ts_error_set(inf->err, TS_ERR_shape, "%s: %s must be %s, not %s", opname(inf),
                      ts_op_info(inf->op)->input[i], what, ts_meta_text(inf->in[i], text));
}

/* Input i is a vector of whole numbers. */
static int places(TsInfer *inf, int i) {
  const TsMeta *m = inf->in[i];
  if (!ts_dtype_is((TsDtype)m->dtype, TS_KIND_I | TS_KIND_U))
    return ts_error_set(inf->err, TS_ERR_dtype, "%s: %s must be integers, not %s", opname(inf),
                        ts_op_info(inf->op)->input[i], ts_dtype_name((TsDtype)m->dtype));
  return m->ndim == 1 ? 0 : wrong(inf, i, "a vector");
}

/* Inputs i and j are vectors with a number for each entry. */
static int of_entries(TsInfer *inf, int i, int j) {
  if (places(inf, i) || places(inf, j)) return -1;
  if (inf->in[i]->dim[0] == inf->in[j]->dim[0]) return 0;
  return ts_infer_mismatch(inf, "one number for each entry is needed", i, j);
}

static int of_values(TsInfer *inf, int i, int column) {
  if (inf->in[i]->ndim != 1) return wrong(inf, i, "a vector");
  if (inf->in[i]->dim[0] == inf->in[column]->dim[0]) return 0;
  return ts_infer_mismatch(inf, "one value for each entry is needed", i, column);
}

/* Result 0: as m, with so many along its first axis and `ndim` axes. */
static int result(TsInfer *inf, const TsMeta *m, int64_t n, int ndim) {
  int dtype = inf->out[0].dtype;
  inf->out[0] = *m;
  inf->out[0].dtype = (uint8_t)dtype;
  inf->out[0].weak = 0;
  inf->out[0].device = inf->in[0]->device;
  inf->out[0].ndim = (uint8_t)ndim;
  inf->out[0].dim[0] = n;
  return 0;
}

int ts_shape_rule_csr_rows(TsInfer *inf) {
  const TsMeta *offsets = inf->in[0];
  if (offsets->ndim != 1 || !offsets->dim[0]) return wrong(inf, 0, "[m + 1]");
  if (inf->attr[0].i < 0)
    return ts_error_set(inf->err, TS_ERR_value, "csr_rows: %lld entries",
                        (long long)inf->attr[0].i);
  return result(inf, offsets, inf->attr[0].i, 1);
}

int ts_shape_rule_spmm_coo(TsInfer *inf) {
  const TsMeta *x = inf->in[3];
  int64_t rows = inf->attr[0].i;
  if (of_entries(inf, 1, 2) || of_values(inf, 0, 2)) return -1;
  if (x->ndim < 1 || x->ndim > 2) return wrong(inf, 3, "a matrix [k, n] or a vector [k]");
  if (rows < 0)
    return ts_error_set(inf->err, TS_ERR_value, "spmm_coo: rows = %lld", (long long)rows);
  return result(inf, x, rows, x->ndim);
}

int ts_shape_rule_sddmm(TsInfer *inf) {
  const TsMeta *a = inf->in[0], *b = inf->in[1];
  if (a->ndim != 2) return wrong(inf, 0, "a matrix [m, k]");
  if (b->ndim != 2) return wrong(inf, 1, "a matrix [k, n]");
  if (a->dim[1] != b->dim[0]) return ts_infer_mismatch(inf, "inner sizes differ", 0, 1);
  if (of_entries(inf, 2, 3)) return -1;
  if (inf->nin > 4 && inf->in[4] && of_values(inf, 4, 3)) return -1;
  return result(inf, inf->in[2], inf->in[2]->dim[0], 1);
}
