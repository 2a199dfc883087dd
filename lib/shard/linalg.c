/* How contractions and linear algebra are done in parts. Leading axes are a batch. */
#include "lib/shard/shard.h"

/* Batch axes of the result and of those inputs that have them, all but the last `own` of each. */
static void batch(TsShard *s, int nin, const int *own, int out_own) {
  int n = s->out[0].ndim - out_own;
  for (int d = 0; d < n; d++) {
    int f = ts_shard_factor(s, TS_FACTOR_along, s->out[0].dim[d]), back = n - d;
    ts_shard_out(s, 0, d, f);
    for (int i = 0; i < nin; i++)
      if (s->in[i] && s->in[i]->ndim - own[i] >= back)
        ts_shard_in(s, i, s->in[i]->ndim - own[i] - back, f);
  }
}

/* Summands of 16 bits are those of the matrix unit, before they are rounded. */
static int local_product(const TsShard *s, TsShardPart *part) {
  TsAttr *a = ts_shard_own(s, part, "accumulate");
  bool narrow =
      ts_dtype_is((TsDtype)s->in[0]->dtype, TS_KIND_F) && ts_dtypes[s->in[0]->dtype].nbytes < 4;
  if (part->summand && narrow && a->type == TS_ATTR_none)
    *a = (TsAttr){.type = TS_ATTR_dtype, .i = TS_DT_f32};
  return 0;
}

/* Bias and residual are added once, to the sum: a call that has them is summed in one piece. */
void ts_shard_matmul(TsShard *s) {
  bool row = s->in[0]->ndim == 1, column = s->in[1]->ndim == 1;
  int own[] = {row ? 1 : 2, column ? 1 : 2, 0, 0}, last = s->out[0].ndim;
  batch(s, 2, own, !row + !column);
  int n = !column ? ts_shard_along(s, 1, -1, 0, --last) : TS_WHOLE;
  int m = !row ? ts_shard_along(s, 0, -2, 0, --last) : TS_WHOLE;
  bool epilogue = ts_shard_attr(s, "epilogue")->type == TS_ATTR_str;
  for (int i = 2; i < 4 && i < s->nin; i++) {
    if (!s->in[i]) continue;
    epilogue = true;
    for (int d = 0; d < s->in[i]->ndim; d++) /* as the result's axes, from the right */
      ts_shard_in(s, i, d, s->out_axis[0][s->out[0].ndim - s->in[i]->ndim + d]);
  }
  (void)m, (void)n;
  if (epilogue) return;
  int k = ts_shard_factor(s, TS_FACTOR_sum, s->in[0]->dim[s->in[0]->ndim - 1]);
  ts_shard_in(s, 0, -1, k);
  ts_shard_in(s, 1, column ? 0 : -2, k);
  s->local = local_product;
}

/* Rows of x; blocks are whole. */
void ts_shard_quantized_matmul(TsShard *s) {
  for (int d = 0; d < s->in[0]->ndim - 1; d++) ts_shard_along(s, 0, d, 0, d);
}

/* Tokens, and columns of results; what is in blocks is whole along them. */
void ts_shard_experts_linear(TsShard *s) {
  int last = s->out[0].ndim - 1;
  for (int d = 0; d < s->in[2]->ndim; d++) {
    int f = ts_shard_along(s, 2, d, 0, d);
    if (d < s->in[0]->ndim - 1) ts_shard_in(s, 0, d, f);
  }
  int n = ts_shard_along(s, 1, 1, 0, last);
  if (s->nin > 3 && s->in[3]) ts_shard_in(s, 3, 1, n);
  if (s->nin > 4 && s->in[4]) ts_shard_in(s, 4, 1, n);
}

/* Groups that have room of their own are done one by one. */
static void groups(TsShard *s, int by) {
  if (s->in[0]->ndim != 3) return;
  int g = ts_shard_along(s, 0, 0, 0, 0);
  ts_shard_in(s, by, 0, g);
  ts_shard_in(s, 2, 0, g);
}

/* Groups of rows are where their sizes say: rows are whole. */
void ts_shard_grouped_matmul(TsShard *s) {
  groups(s, 1);
  ts_shard_along(s, 1, 2, 0, -1);
  int k = ts_shard_factor(s, TS_FACTOR_sum, s->in[1]->dim[1]);
  ts_shard_in(s, 0, -1, k);
  ts_shard_in(s, 1, 1, k);
  s->local = local_product;
}

void ts_shard_grouped_matmul_weight_grad(TsShard *s) {
  groups(s, 1);
  ts_shard_along(s, 0, -1, 0, 1);
  ts_shard_along(s, 1, -1, 0, 2);
}

/* Whatever comes of matrices, their batch stands in front of it. */
void ts_shard_matrices(TsShard *s) {
  for (int d = 0; d < s->in[0]->ndim - 2; d++) {
    int f = ts_shard_along(s, 0, d, 0, d);
    for (int o = 1; o < s->nout; o++) ts_shard_out(s, o, d, f);
  }
}

/* Columns of b are solved for one by one. */
void ts_shard_solution(TsShard *s) {
  bool vector = s->in[1]->ndim == 1;
  batch(s, 2, (int[]){2, vector ? 1 : 2}, vector ? 1 : 2);
  if (!vector) ts_shard_along(s, 1, -1, 0, -1);
}

/* x and the filter are aligned at the right; transformed axes are whole. */
void ts_shard_filter(TsShard *s) {
  const TsAttr *axes = ts_shard_attr(s, "axes");
  int ndim = s->in[0]->ndim;
  for (int d = 0; d < s->out[0].ndim; d++) {
    int back = d - s->out[0].ndim;
    bool along = true;
    for (int i = 0; i < axes->n; i++)
      along &= (axes->ints[i] < 0 ? axes->ints[i] : axes->ints[i] - ndim) != back;
    if (!along) continue;
    int f = ts_shard_factor(s, TS_FACTOR_along, s->out[0].dim[d]);
    ts_shard_out(s, 0, d, f);
    for (int i = 0; i < 2; i++)
      if (s->in[i]->ndim >= -back) ts_shard_in(s, i, back, f);
  }
}
