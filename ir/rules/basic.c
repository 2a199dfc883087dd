/* Guards and results of identities, inverse pairs, movement, broadcasts. */
#include <string.h>

#include "ir/rules/rewrite.h"

static const TsMeta *meta_of(const TsRewrite *r, char name) {
  return &ts_rule_var(r, name)->meta;
}
static const TsMeta *root_meta(const TsRewrite *r) { return &r->root->out[0].meta; }
static const TsNode *inner(const TsRewrite *r) { return r->root->in[0]->node; }

/* ---- types */
bool ts_rule_guard_same_shape_x(const TsRewrite *r) {
  return ts_meta_same_shape(meta_of(r, 'x'), root_meta(r));
}
bool ts_rule_guard_same_type_x(const TsRewrite *r) {
  return meta_of(r, 'x')->dtype == root_meta(r)->dtype && !meta_of(r, 'x')->weak;
}

/* ---- transforms: the same axis and norm, the length not changed */
static bool same_int(const TsNode *a, const TsNode *b, const char *name) {
  return ts_rule_attr(a, name)->i == ts_rule_attr(b, name)->i;
}

static bool same_axis(const TsNode *a, const TsNode *b) {
  int64_t n = a->out[0].meta.ndim, i = ts_rule_attr(a, "axis")->i,
          k = ts_rule_attr(b, "axis")->i;
  return (i < 0 ? i + n : i) == (k < 0 ? k + n : k);
}

bool ts_rule_guard_fft_pair(const TsRewrite *r) {
  const TsNode *a = r->root, *b = inner(r);
  return ts_rule_attr(a, "n")->type == TS_ATTR_none &&
         ts_rule_attr(b, "n")->type == TS_ATTR_none && same_axis(a, b) &&
         same_int(a, b, "norm");
}

bool ts_rule_guard_rfft_pair(const TsRewrite *r) {
  return ts_rule_attr(inner(r), "n")->type == TS_ATTR_none && same_axis(r->root, inner(r)) &&
         same_int(r->root, inner(r), "norm") &&
         ts_meta_same_shape(meta_of(r, 'x'), root_meta(r));
}

/* A complex transform of a real tensor and back gives complex numbers. */
static TsVal itself(TsRewrite *r) {
  TsVal x = ts_rule_var(r, 'x');
  return ts_build_cast(&r->b, x, (TsDtype)root_meta(r)->dtype);
}
TsVal ts_rule_make_ifft_fft(TsRewrite *r) { return itself(r); }
TsVal ts_rule_make_fft_ifft(TsRewrite *r) { return itself(r); }
TsVal ts_rule_make_irfft_rfft(TsRewrite *r) { return ts_rule_var(r, 'x'); }
TsVal ts_rule_make_idct_dct(TsRewrite *r) { return ts_rule_var(r, 'x'); }
TsVal ts_rule_make_dct_idct(TsRewrite *r) { return ts_rule_var(r, 'x'); }

/* ---- movement */
TsVal ts_rule_make_reshape_reshape(TsRewrite *r) {
  return ts_build_reshape(&r->b, ts_rule_var(r, 'x'), root_meta(r)->dim, root_meta(r)->ndim);
}

/* The middle type holds every value of the first, and the last one is reached in one step. */
bool ts_rule_holds(TsDtype wide, TsDtype narrow) {
  if (wide == narrow) return true;
  if (narrow == TS_DT_bool) return true;
  switch (narrow) {
  case TS_DT_bf16:
  case TS_DT_f16: return wide == TS_DT_f32 || wide == TS_DT_f64;
  case TS_DT_f32: return wide == TS_DT_f64;
  case TS_DT_i8:
  case TS_DT_u8:
    return wide == TS_DT_i16 || wide == TS_DT_i32 || wide == TS_DT_i64 || wide == TS_DT_f32 ||
           wide == TS_DT_f64;
  case TS_DT_i16:
    return wide == TS_DT_i32 || wide == TS_DT_i64 || wide == TS_DT_f32 || wide == TS_DT_f64;
  case TS_DT_i32: return wide == TS_DT_i64 || wide == TS_DT_f64;
  default: return false;
  }
}

bool ts_rule_guard_lossless_middle(const TsRewrite *r) {
  TsDtype first = (TsDtype)meta_of(r, 'x')->dtype, last = (TsDtype)root_meta(r)->dtype;
  if (meta_of(r, 'x')->weak || !ts_rule_holds((TsDtype)inner(r)->out[0].meta.dtype, first))
    return false;
  /* Integers that become narrower wrap, floats saturate: only where the ends agree in kind. */
  return first == last || (ts_dtype_is(first, TS_KIND_F) && ts_dtype_is(last, TS_KIND_F));
}

TsVal ts_rule_make_cast_cast(TsRewrite *r) {
  return ts_build_cast(&r->b, ts_rule_var(r, 'x'), (TsDtype)root_meta(r)->dtype);
}

TsVal ts_rule_make_expand_expand(TsRewrite *r) {
  return ts_build(&r->b, TS_OP_broadcast_to, TS_IN(ts_rule_var(r, 'x')),
                  TS_ATTRS({"shape", ts_b_ints(root_meta(r)->dim, root_meta(r)->ndim)}), NULL);
}

/* ---- broadcasts into pointwise operators */
static bool is_pointwise(const TsNode *n) {
  return n->op < TS_OP_COUNT && ts_op_info((TsOp)n->op)->cls == TS_CLASS_POINTWISE;
}

bool ts_rule_guard_unary(const TsRewrite *r) {
  return is_pointwise(r->root) && r->root->nin == 1 && !ts_rule_var(r, 'x')->meta.weak;
}

TsVal ts_rule_make_unary_expand(TsRewrite *r) {
  TsVal x = ts_rule_var(r, 'x');
  return r->b.emit(&r->b, (TsOp)r->root->op, 1, &x, r->root->attr, NULL);
}

/* An operand that is a broadcast, or the same number everywhere: it can be left smaller if
 * the others give the result its shape and its type. */
static TsVal smaller(const TsRewrite *r, TsVal v) {
  double value;
  if (v->meta.ndim > 0 && ts_rule_fill(v, &value) &&
      ts_dtype_is((TsDtype)v->meta.dtype, TS_KIND_F | TS_KIND_I))
    return ts_graph_number(r->g, value);
  if (v->node->op == TS_OP_broadcast_to && !v->node->in[0]->meta.weak) return v->node->in[0];
  return NULL;
}

/* The operator computes in the same type, whatever that of its result is. */
static bool infers_alike(const TsRewrite *r, TsVal const *in) {
  const TsMeta *want = root_meta(r), *m[TS_MAX_IN];
  TsError ignored;
  TsInfer inf = {.op = (TsOp)r->root->op,
                 .nin = r->root->nin,
                 .in = m,
                 .attr = r->root->attr,
                 .settles = r->root->as || r->root->backward,
                 .err = &ignored};
  for (int i = 0; i < inf.nin; i++) m[i] = r->root->in[i] ? &r->root->in[i]->meta : NULL;
  if (ts_op_infer(&inf)) return false;
  TsDtype compute = inf.compute;
  for (int i = 0; i < inf.nin; i++) m[i] = in[i] ? &in[i]->meta : NULL;
  return !ts_op_infer(&inf) && inf.compute == compute && inf.out[0].dtype == want->dtype &&
         ts_meta_same_shape(&inf.out[0], want);
}

static bool replace_operand(const TsRewrite *r, int at, TsVal *in) {
  for (int i = 0; i < r->root->nin; i++) in[i] = r->root->in[i];
  if (!in[at] || !(in[at] = smaller(r, in[at]))) return false;
  return infers_alike(r, in);
}

bool ts_rule_guard_expanded_operand(const TsRewrite *r) {
  TsVal in[TS_MAX_IN];
  if (!is_pointwise(r->root) || r->root->nin < 2) return false;
  for (int i = 0; i < r->root->nin; i++)
    if (replace_operand(r, i, in)) return true;
  return false;
}

TsVal ts_rule_make_binary_expand(TsRewrite *r) {
  TsVal in[TS_MAX_IN];
  for (int i = 0; i < r->root->nin; i++)
    if (replace_operand(r, i, in))
      return r->b.emit(&r->b, (TsOp)r->root->op, r->root->nin, in, r->root->attr, NULL);
  return NULL;
}
