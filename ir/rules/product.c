/* Guards and results around matmul. */
#include <stdio.h>
#include <string.h>

#include "ir/rules/rewrite.h"

static const TsMeta *root_meta(const TsRewrite *r) { return &r->root->out[0].meta; }

/* The matmul operand of a root with two. */
static const TsNode *product(const TsRewrite *r) {
  for (int i = 0; i < r->root->nin; i++)
    if (r->root->in[i] && r->root->in[i]->node->op == TS_OP_matmul) return r->root->in[i]->node;
  return NULL;
}

static TsVal value_of(const TsNode *n) { return (TsVal)&n->out[0]; }

/* In these types the epilogue rounds where the operators would. */
static bool rounds_alike(const TsNode *p) {
  TsDtype d = (TsDtype)p->out[0].meta.dtype;
  return d == TS_DT_f32 || d == TS_DT_f64;
}

static const char *words_of(const TsNode *p) {
  const TsAttr *a = ts_rule_attr(p, "epilogue");
  return a->type == TS_ATTR_str ? a->str : "";
}

/* Without words, what is given is added. */
static bool explicit_words(const TsNode *p) { return *words_of(p) || p->nin == 2; }

static TsVal with_word(TsRewrite *r, const TsNode *p, const char *word, TsVal bias,
                       TsVal residual) {
  char words[120];
  TsAttr attr[TS_MAX_ATTR];
  TsVal in[4] = {p->in[0], p->in[1], bias, residual};
  snprintf(words, sizeof words, "%s%s%s", words_of(p), *words_of(p) ? "_" : "", word);
  memcpy(attr, p->attr, sizeof *attr * (size_t)p->nattr);
  ((TsAttr *)attr)[ts_rule_attr(p, "epilogue") - p->attr] = ts_b_str(words);
  return r->b.emit(&r->b, TS_OP_matmul, 4, in, attr, NULL);
}

static TsVal bias_in(const TsNode *p) { return p->nin > 2 ? p->in[2] : NULL; }
static TsVal residual_in(const TsNode *p) { return p->nin > 3 ? p->in[3] : NULL; }

bool ts_rule_guard_bias_of_product(const TsRewrite *r) {
  const TsNode *p = product(r);
  const TsMeta *c = &ts_rule_var(r, 'c')->meta, *y = root_meta(r);
  return p && rounds_alike(p) && ts_rule_single(r, value_of(p)) && !*words_of(p) &&
         p->nin == 2 && y->ndim >= 2 && c->ndim == 1 && c->dim[0] == y->dim[y->ndim - 1] &&
         c->dtype == y->dtype && !c->weak && p->in[1]->meta.ndim >= 2 &&
         ts_meta_same_shape(&p->out[0].meta, y);
}

TsVal ts_rule_make_product_bias(TsRewrite *r) {
  return with_word(r, product(r), "bias", ts_rule_var(r, 'c'), NULL);
}

bool ts_rule_guard_residual_of_product(const TsRewrite *r) {
  const TsNode *p = product(r);
  const TsMeta *x = &ts_rule_var(r, 'x')->meta;
  return p && rounds_alike(p) && ts_rule_single(r, value_of(p)) && !residual_in(p) &&
         explicit_words(p) && x->dtype == root_meta(r)->dtype && !x->weak &&
         ts_meta_same_shape(x, root_meta(r)) &&
         ts_meta_same_shape(&p->out[0].meta, root_meta(r)) &&
         ts_rule_var(r, 'x') != value_of(p);
}

TsVal ts_rule_make_product_residual(TsRewrite *r) {
  const TsNode *p = product(r);
  return with_word(r, p, "residual", bias_in(p), ts_rule_var(r, 'x'));
}

static const char *word_of(uint16_t op) {
  return op == TS_OP_relu       ? "relu"
         : op == TS_OP_silu     ? "silu"
         : op == TS_OP_gelu_erf ? "gelu"
                                : NULL;
}

bool ts_rule_guard_activation_of_product(const TsRewrite *r) {
  const TsNode *p = product(r);
  return p && r->root->nin == 1 && word_of(r->root->op) && rounds_alike(p) &&
         explicit_words(p) && ts_rule_single(r, value_of(p)) &&
         root_meta(r)->dtype == p->out[0].meta.dtype;
}

TsVal ts_rule_make_product_activation(TsRewrite *r) {
  const TsNode *p = product(r);
  return with_word(r, p, word_of(r->root->op), bias_in(p), residual_in(p));
}

/* ---- the transpose of a product */
bool ts_rule_guard_plain_transposed_product(const TsRewrite *r) {
  int nd = root_meta(r)->ndim;
  int a = ts_rule_axis(r->root, "axis0", nd), b = ts_rule_axis(r->root, "axis1", nd);
  const TsNode *p = product(r);
  bool last_two = a != b && a >= nd - 2 && b >= nd - 2;
  return last_two && ts_rule_single(r, value_of(p)) && !*words_of(p) &&
         !ts_dtype_is((TsDtype)root_meta(r)->dtype, TS_KIND_C) && p->in[0]->meta.ndim >= 2 &&
         p->in[1]->meta.ndim >= 2;
}

TsVal ts_rule_make_transposed_product(TsRewrite *r) {
  const TsNode *p = product(r);
  TsVal in[2] = {ts_build1(&r->b, TS_OP_transpose, p->in[1]),
                 ts_build1(&r->b, TS_OP_transpose, p->in[0])};
  return r->b.failed ? NULL : r->b.emit(&r->b, TS_OP_matmul, 2, in, p->attr, NULL);
}
