/* Adjoints of products with sparse matrices: such products themselves, so without memory of entries x
 * columns. */
#include "ir/adjoint/common.h"

static TsVal rows_at(TsBuild *b, TsVal x, TsVal index) {
  return ts_build(b, TS_OP_index_select, TS_IN(x, index), TS_ATTRS({"axis", ts_b_int(0)}),
                  NULL);
}

static TsVal turned(TsBuild *b, TsVal x) {
  return ts_build(b, TS_OP_transpose, TS_IN(x), TS_NO_ATTRS, NULL);
}

static TsVal product(TsBuild *b, TsVal values, TsVal row, TsVal column, TsVal x, int64_t rows) {
  return ts_build(b, TS_OP_spmm_coo, TS_IN(values, row, column, x),
                  TS_ATTRS({"rows", ts_b_int(rows)}), NULL);
}

/* A block's is the product of the rows that it meets. */
static int of_blocks(TsAdjoint *a, TsVal row) {
  TsBuild *b = a->b;
  TsVal g = a->grad[0], column = a->in[2], x = a->in[3];
  if (ts_wanted(a, 0))
    a->grad_in[0] =
        ts_build2(b, TS_OP_matmul, rows_at(b, g, row), turned(b, rows_at(b, x, column)));
  if (ts_wanted(a, 3))
    a->grad_in[3] = product(b, turned(b, a->in[0]), column, row, g, b->meta(b, x)->dim[0]);
  return b->failed ? -1 : 0;
}

static int of_entries(TsAdjoint *a, TsVal row) {
  TsBuild *b = a->b;
  TsVal g = a->grad[0], column = a->in[2], x = a->in[3];
  if (b->failed) return -1;
  TsMeta m = *b->meta(b, x);
  if (m.ndim == 3) return of_blocks(a, row);
  if (ts_wanted(a, 0))
    a->grad_in[0] = m.ndim == 2 ? ts_build(b, TS_OP_sddmm, TS_IN(g, turned(b, x), row, column),
                                           TS_NO_ATTRS, NULL)
                                : ts_build_mul(b, rows_at(b, g, row), rows_at(b, x, column));
  if (ts_wanted(a, 3)) a->grad_in[3] = product(b, a->in[0], column, row, g, m.dim[0]);
  return b->failed ? -1 : 0;
}

int ts_adjoint_spmm_coo(TsAdjoint *a) { return of_entries(a, a->in[1]); }

int ts_adjoint_spmm_csr(TsAdjoint *a) {
  TsBuild *b = a->b;
  int64_t entries = b->meta(b, a->in[2])->dim[0];
  return of_entries(a, ts_build(b, TS_OP_csr_rows, TS_IN(a->in[1]),
                                TS_ATTRS({"entries", ts_b_int(entries)}), NULL));
}

int ts_adjoint_sddmm(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal g = a->grad[0], values = ts_input(a, 4), row = a->in[2], column = a->in[3];
  int64_t rows = b->meta(b, a->in[0])->dim[0], columns = b->meta(b, a->in[1])->dim[1];
  TsVal by = values ? ts_build_mul(b, g, values) : g;
  if (ts_wanted(a, 0)) a->grad_in[0] = product(b, by, row, column, turned(b, a->in[1]), rows);
  if (ts_wanted(a, 1))
    a->grad_in[1] = turned(b, product(b, by, column, row, a->in[0], columns));
  if (ts_wanted(a, 4)) {
    TsVal plain =
        ts_build(b, TS_OP_sddmm, TS_IN(a->in[0], a->in[1], row, column), TS_NO_ATTRS, NULL);
    a->grad_in[4] = ts_build_mul(b, g, plain);
  }
  return b->failed ? -1 : 0;
}
