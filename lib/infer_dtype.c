/* Dtype rules: the result types from the input types. A weak input (a bare
 * number) takes part only by its kind: it never widens a tensor's type, but a
 * number with a fraction turns integers into f32. */
#include <math.h>

#include "lib/infer.h"

static TsDtype default_of(const TsMeta *m) {
  if (!m->weak) return (TsDtype)m->dtype;
  if (m->weak == TS_WEAK_minus_zero) return TS_DT_i64;
  return ts_dtype_is((TsDtype)m->dtype, TS_KIND_F) ? TS_DT_f32 : (TsDtype)m->dtype;
}

static TsDtype join_weak(TsDtype strong, const TsMeta *weak) {
  TsDtype w = default_of(weak);
  int rank_s = ts_dtypes[strong].kind, rank_w = ts_dtypes[w].kind;
  if (rank_s == TS_KIND_B && rank_w != TS_KIND_B) return w;
  if (rank_w == TS_KIND_C && rank_s != TS_KIND_C) return ts_dtype_complex(strong);
  if (rank_w == TS_KIND_F && (rank_s & (TS_KIND_U | TS_KIND_I))) return TS_DT_f32;
  return strong;
}

/* The common type of inputs [from, nin), in inf->compute. */
static int promote(TsInfer *inf, int from) {
  TsDtype strong = TS_DT_none, weak = TS_DT_none;
  int first = -1;
  for (int i = from; i < inf->nin; i++) {
    const TsMeta *m = inf->in[i];
    if (!m || ts_dtype_in_blocks(m->dtype)) continue; /* of rows that read them as they are */
    if (m->weak) {
      weak = weak == TS_DT_none ? default_of(m) : ts_dtype_promote(weak, default_of(m));
    } else if (strong == TS_DT_none) {
      strong = (TsDtype)m->dtype, first = i;
    } else {
      strong = ts_dtype_promote(strong, (TsDtype)m->dtype);
      if (strong == TS_DT_none) return ts_infer_mismatch(inf, "no common dtype", first, i);
    }
  }
  if (strong == TS_DT_none) strong = weak;
  for (int i = from; i < inf->nin; i++)
    if (inf->in[i] && inf->in[i]->weak) strong = join_weak(strong, inf->in[i]);
  inf->compute = strong;
  return 0;
}

/* Where the inputs are computed with in their common type, integer or not. */
static int numbers_fit(TsInfer *inf, int from, TsDtype d) {
  for (int i = from; i < inf->nin && inf->known >> i; i++)
    if (ts_infer_number(inf, i, d)) return -1;
  return 0;
}

static int promote_exact(TsInfer *inf, int from) {
  return promote(inf, from) || numbers_fit(inf, from, inf->compute) ? -1 : 0;
}

static int all_out(TsInfer *inf, TsDtype d) {
  for (int i = 0; i < TS_MAX_OUT; i++) inf->out[i].dtype = (uint8_t)d;
  return 0;
}

int ts_dtype_rule_same(TsInfer *inf) {
  inf->compute = default_of(inf->in[0]);
  return all_out(inf, inf->compute);
}

int ts_dtype_rule_first(TsInfer *inf) { return ts_dtype_rule_same(inf); }

/* Of what is stored in blocks the numbers, as its cast to f32 has them. */
int ts_dtype_rule_unblocked(TsInfer *inf) {
  if (!ts_dtype_in_blocks(inf->in[0]->dtype)) return ts_dtype_rule_same(inf);
  inf->compute = TS_DT_f32;
  return all_out(inf, TS_DT_f32);
}

int ts_dtype_rule_promote(TsInfer *inf) {
  return promote_exact(inf, 0) ? -1 : all_out(inf, inf->compute);
}

int ts_dtype_rule_promote_all(TsInfer *inf) { return ts_dtype_rule_promote(inf); }

/* As promote, but for the places among the inputs. */
int ts_dtype_rule_promote_experts(TsInfer *inf) {
  const TsMeta *in[TS_MAX_IN];
  TsInfer own = *inf;
  for (int i = 0; i < inf->nin; i++) in[i] = ts_op_is_value(inf->op, i) ? inf->in[i] : NULL;
  own.in = in;
  if (promote_exact(&own, 0)) return -1;
  inf->compute = own.compute;
  return all_out(inf, inf->compute);
}

/* Of rows and biases: w are numbers in blocks, or their codes. */
int ts_dtype_rule_experts_linear(TsInfer *inf) {
  const TsMeta *in[TS_MAX_IN] = {inf->in[0]};
  TsInfer own = *inf;
  if (inf->nin > 3) in[3] = inf->in[3];
  own.in = in;
  if (promote_exact(&own, 0)) return -1;
  inf->compute = own.compute;
  return all_out(inf, inf->compute);
}

/* Arithmetic of two bools counts: it is done in i64. */
int ts_dtype_rule_arith(TsInfer *inf) {
  if (promote(inf, 0)) return -1;
  if (inf->compute == TS_DT_bool) inf->compute = TS_DT_i64;
  return numbers_fit(inf, 0, inf->compute) ? -1 : all_out(inf, inf->compute);
}

int ts_dtype_rule_float(TsInfer *inf) {
  if (promote(inf, 0)) return -1;
  inf->compute = ts_dtype_float(inf->compute);
  return all_out(inf, inf->compute);
}

/* As float, of the first input alone. */
int ts_dtype_rule_float1(TsInfer *inf) {
  inf->compute = ts_dtype_float(default_of(inf->in[0]));
  return all_out(inf, inf->compute);
}

int ts_dtype_rule_compare(TsInfer *inf) {
  return promote_exact(inf, 0) ? -1 : all_out(inf, TS_DT_bool);
}

int ts_dtype_rule_bool(TsInfer *inf) {
  inf->compute = default_of(inf->in[0]);
  return all_out(inf, TS_DT_bool);
}

int ts_dtype_rule_index(TsInfer *inf) {
  inf->compute = default_of(inf->in[0]);
  return all_out(inf, TS_DT_i64);
}

/* Of inputs that are compared with each other. */
int ts_dtype_rule_compare_index(TsInfer *inf) {
  return promote_exact(inf, 0) ? -1 : all_out(inf, TS_DT_i64);
}

int ts_dtype_rule_real(TsInfer *inf) {
  inf->compute = default_of(inf->in[0]);
  return all_out(inf, ts_dtype_real(inf->compute));
}

int ts_dtype_rule_angle(TsInfer *inf) {
  inf->compute = ts_dtype_float(default_of(inf->in[0]));
  return all_out(inf, ts_dtype_real(inf->compute));
}

int ts_dtype_rule_complex(TsInfer *inf) {
  if (promote(inf, 0)) return -1;
  inf->compute = inf->compute == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  return all_out(inf, ts_dtype_complex(inf->compute));
}

int ts_dtype_rule_where(TsInfer *inf) {
  if (inf->in[0]->dtype != TS_DT_bool) {
    char text[TS_META_TEXT];
    ts_error_set(inf->err, TS_ERR_dtype, "where: the condition must be bool, not %s",
                 ts_meta_text(inf->in[0], text));
    return ts_error_hint(inf->err, "compare first: op.where(x:gt(0), x, y)");
  }
  return promote_exact(inf, 1) ? -1 : all_out(inf, inf->compute);
}

/* The dtype attribute of the row, wherever it stands. */
static TsDtype dtype_attr(TsInfer *inf) {
  const TsOpInfo *o = ts_op_info(inf->op);
  for (int i = 0; i < o->nattr; i++)
    if (o->attr[i].type == TS_ATTR_dtype && inf->attr[i].type == TS_ATTR_dtype)
      return (TsDtype)inf->attr[i].i;
  return TS_DT_none;
}

static int no_blocks(TsInfer *inf, TsDtype d) {
  if (!ts_dtype_in_blocks(d) || inf->op == TS_OP_cast || inf->op == TS_OP_bitcast) return 0;
  ts_error_set(inf->err, TS_ERR_dtype, "%s: %s is a storage format", ts_op_info(inf->op)->name,
               ts_dtype_name(d));
  return ts_error_hint(inf->err, "make f32 and convert with x:cast(\"%s\")", ts_dtype_name(d));
}

int ts_dtype_rule_attr(TsInfer *inf) {
  TsDtype d = dtype_attr(inf);
  return no_blocks(inf, d) ? -1 : all_out(inf, d);
}

int ts_dtype_rule_like(TsInfer *inf) {
  TsDtype d = dtype_attr(inf);
  return no_blocks(inf, d) ? -1 : all_out(inf, d == TS_DT_none ? default_of(inf->in[0]) : d);
}

int ts_dtype_rule_arange(TsInfer *inf) {
  TsDtype d = dtype_attr(inf);
  if (d == TS_DT_none) {
    bool whole = true;
    for (int i = 0; i < 3; i++) {
      const TsAttr *a = &inf->attr[i];
      if (a->type == TS_ATTR_f && !(fabs(a->f) < 0x1p63 && a->f == floor(a->f))) whole = false;
    }
    d = whole ? TS_DT_i64 : TS_DT_f32;
  }
  return no_blocks(inf, d) ? -1 : all_out(inf, d);
}

/* Sums: integers and bool in i64, floats rounded once to their own type. */
int ts_dtype_rule_accum(TsInfer *inf) {
  inf->compute = default_of(inf->in[0]);
  bool exact = ts_dtype_is(inf->compute, TS_KIND_B | TS_KIND_U | TS_KIND_I);
  return all_out(inf, exact ? TS_DT_i64 : inf->compute);
}

int ts_dtype_rule_mean(TsInfer *inf) {
  inf->compute = default_of(inf->in[0]);
  return all_out(inf, ts_dtype_float(inf->compute));
}

int ts_dtype_rule_norm(TsInfer *inf) {
  inf->compute = default_of(inf->in[0]);
  return all_out(inf, ts_dtype_real(ts_dtype_float(inf->compute)));
}

int ts_dtype_rule_attention(TsInfer *inf) {
  const TsMeta *const *in = inf->in;
  char q[TS_META_TEXT], other[TS_META_TEXT];
  int i = in[0]->dtype != in[1]->dtype ? 1 : 2;
  if (in[0]->dtype != in[i]->dtype)
    return ts_error_set(inf->err, TS_ERR_dtype, "%s: q, k and v differ in dtype: q %s, %s %s",
                        ts_op_info(inf->op)->name, ts_meta_text(in[0], q), i == 1 ? "k" : "v",
                        ts_meta_text(in[i], other));
  return ts_dtype_rule_same(inf);
}

/* LAPACK works in f32, f64 and their complex types: 16-bit floats go through f32. */
int ts_dtype_rule_linalg(TsInfer *inf) {
  if (promote(inf, 0)) return -1;
  return all_out(inf, ts_dtype_float(inf->compute));
}

int ts_dtype_rule_fft(TsInfer *inf) {
  inf->compute = default_of(inf->in[0]);
  return all_out(inf, ts_dtype_complex(inf->compute));
}

int ts_dtype_rule_ifft_real(TsInfer *inf) {
  inf->compute = default_of(inf->in[0]);
  return all_out(inf, ts_dtype_real(ts_dtype_complex(inf->compute)));
}

/* Real signals stay real, and narrow ones narrow. */
int ts_dtype_rule_filter(TsInfer *inf) {
  TsDtype x = default_of(inf->in[0]);
  if (promote(inf, 0)) return -1;
  TsDtype d = ts_dtype_complex(inf->compute);
  if (ts_dtype_is(x, TS_KIND_F)) d = ts_dtypes[x].nbytes < 4 ? x : ts_dtype_real(d);
  return all_out(inf, d);
}

/* The common type of the two factors, or the one named by accumulate= if there is one. */
int ts_dtype_rule_matmul(TsInfer *inf) {
  TsDtype d = dtype_attr(inf);
  int nin = inf->nin;
  inf->nin = 2;
  int failed = promote(inf, 0);
  inf->nin = nin;
  if (failed) return -1;
  bool kind = d == TS_DT_none || ts_dtype_rank(d) == ts_dtype_rank(inf->compute);
  if (d != TS_DT_none && (!kind || ts_dtype_promote(d, inf->compute) != d)) {
    return ts_error_set(inf->err, TS_ERR_attribute, "%s: cannot accumulate %s in %s",
                        ts_op_info(inf->op)->name, ts_dtype_name(inf->compute),
                        ts_dtype_name(d));
  }
  return all_out(inf, d == TS_DT_none ? inf->compute : d);
}
