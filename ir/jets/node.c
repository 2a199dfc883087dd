/* Operators on nodes: linear ones pass them on, functions of one value and products take them
 * apart, and whatever else there is is differentiated by its adjoint. */
#include "ir/jets/jets.h"

#include <stdlib.h>
#include <string.h>

#include "ir/adjoint/adjoint.h"
#include "ir/adjoint/common.h"

static TsVal monomial(TsJets *j, TsVal v, const TsMonomial *m) {
  const TsOperator p = {.term = &(TsJetTerm){*m, 1}, .n = 1};
  return ts_jets_apply(j, v, &p);
}

static TsVal plus(TsJets *j, TsVal a, TsVal b) {
  if (!a || !b) return a ? a : b;
  return ts_build_add(&j->g->b, a, b);
}

static bool moves(TsJets *j, TsVal v) {
  return v && ts_jets_mark(j, v) && ts_dtype_is((TsDtype)v->meta.dtype, TS_KIND_F | TS_KIND_C);
}

/* ---- linear nodes */
/* pad: attributes pads, mode, value. */
static bool pads_zeros(const TsNode *n) { return n->attr[1].i == 0 && n->attr[2].f == 0; }

/* Linear in all operands together, and differentiated where each of them has the result's type. */
static bool is_linear(TsJets *j, const TsNode *n) {
  if (n->op >= TS_OP_COUNT || n->nout != 1) return false;
  const TsOpInfo *o = ts_op_info((TsOp)n->op);
  for (int i = 0; i < n->nin; i++)
    if (moves(j, n->in[i]) && n->in[i]->meta.dtype != n->out[0].meta.dtype) return false;
  if (o->moves && n->op != TS_OP_bitcast) return true;
  switch (n->op) {
  case TS_OP_sum:
  case TS_OP_mean:
  case TS_OP_concat:
  case TS_OP_clone:
  case TS_OP_contiguous:
  case TS_OP_roll:
  case TS_OP_tril:
  case TS_OP_neg: return true;
  case TS_OP_pad: return pads_zeros(n);
  case TS_OP_index_select:
  case TS_OP_gather: return !moves(j, n->in[1]);
  case TS_OP_matmul: return n->nin == 2 && (!moves(j, n->in[0]) || !moves(j, n->in[1]));
  case TS_OP_mul: return !moves(j, n->in[0]) || !moves(j, n->in[1]);
  case TS_OP_div: return !moves(j, n->in[1]);
  default: return false;
  }
}

/* The node on p of its operands; what does not move is as it is where it is a factor, else zero. */
static TsVal linear(TsJets *j, TsVal v, const TsOperator *p) {
  const TsNode *n = v->node;
  TsVal few[16], *in = n->nin <= 16 ? few : ts_jets_alloc(j, sizeof *in * (size_t)n->nin);
  bool any = false;
  for (int i = 0; in && i < n->nin; i++) {
    in[i] = moves(j, n->in[i]) ? ts_jets_apply(j, n->in[i], p) : NULL;
    any |= in[i] != NULL;
  }
  if (!any || ts_jets_fails(j)) return NULL;
  for (int i = 0; i < n->nin; i++) {
    bool zero = moves(j, n->in[i]) || n->op == TS_OP_concat;
    if (in[i])
      in[i] = ts_jets_fit(j, in[i], &n->in[i]->meta);
    else if (n->in[i])
      in[i] = zero ? ts_jets_zeros(j, &n->in[i]->meta) : ts_jets_resolve(j, n->in[i]);
  }
  if (ts_jets_fails(j)) return NULL;
  TsNode *made = ts_graph_again(j->g, n, in, n->region, NULL);
  return made ? &made->out[v->index] : NULL;
}

/* A sum of two, or where of two: each by itself. */
static TsVal termwise(TsJets *j, TsVal v, const TsOperator *p) {
  const TsNode *n = v->node;
  TsBuild *b = &j->g->b;
  int from = n->op == TS_OP_where;
  TsVal x = moves(j, n->in[from]) ? ts_jets_apply(j, n->in[from], p) : NULL,
        y = moves(j, n->in[from + 1]) ? ts_jets_apply(j, n->in[from + 1], p) : NULL;
  if ((!x && !y) || ts_jets_fails(j)) return NULL;
  if (n->op == TS_OP_where) {
    TsVal zero = ts_graph_number(j->g, 0);
    return ts_build_where(b, ts_jets_resolve(j, n->in[0]), x ? x : zero, y ? y : zero);
  }
  if (n->op == TS_OP_add) return plus(j, x, y);
  return !y ? x : x ? ts_build_sub(b, x, y) : ts_build_neg(b, y);
}

/* ---- products */
/* A product with an epilogue is what the epilogue says, operator by operator. */
static TsVal written_out(TsJets *j, const TsNode *n) {
  TsBuild *b = &j->g->b;
  TsEpilogueWord word[TS_EPILOGUE_WORDS + 1];
  TsAttr attr[3] = {n->attr[0], n->attr[1], {.type = TS_ATTR_none}};
  ts_epilogue_words(&n->attr[2], n->in[2], n->nin > 3 && n->in[3], word);
  TsVal v = b->emit(b, TS_OP_matmul, 2, n->in, attr, NULL);
  for (const TsEpilogueWord *w = word; *w && v; w++)
    v = *w < TS_EPILOGUE_relu ? ts_build_add(b, v, n->in[*w == TS_EPILOGUE_bias ? 2 : 3])
                              : ts_epilogue_activation(b, *w, v);
  return v;
}

static TsVal product(TsJets *j, TsVal v, const TsOperator *p) {
  const TsNode *n = v->node;
  TsJetGroups all = {.arena = &j->arena};
  TsVal sum = NULL;
  ts_operator_product(p, &all);
  j->failed |= all.failed;
  for (int i = 0; i < all.n && !ts_jets_fails(j); i++) {
    const TsJetGroup *g = &all.group[i];
    TsVal in[2];
    in[!g->side] = monomial(j, n->in[!g->side], &g->beside[0]);
    in[g->side] = in[!g->side] ? ts_jets_apply(j, n->in[g->side], &g->lead) : NULL;
    if (!in[0] || !in[1] || ts_jets_fails(j)) continue;
    if (n->op == TS_OP_mul)
      sum = plus(j, sum, ts_build_mul(&j->g->b, in[0], in[1]));
    else
      sum = plus(j, sum, ts_build(&j->g->b, TS_OP_matmul, 2, in, 0, NULL, NULL));
  }
  return sum;
}

static TsVal quotient(TsJets *j, TsVal v, const TsOperator *p) {
  const TsNode *n = v->node;
  TsBuild *b = &j->g->b;
  TsVal one = ts_build1(b, TS_OP_reciprocal, n->in[1]);
  TsVal all = ts_build_mul(b, n->in[0], one);
  return ts_jets_fails(j) ? NULL : ts_jets_apply(j, all, p);
}

/* ---- functions of one value */
static TsVal function(TsJets *j, TsVal v, TsVal z, int nth);

static double choose(int n, int k) {
  double c = 1;
  for (int i = 0; i < k; i++) c = c * (n - i) / (i + 1);
  return c;
}

/* y' = sign y^2 + rest: by the product rule the higher ones too. Of tanh -y^2 + 1, of sigmoid
 * -y^2 + y. */
static TsVal by_square(TsJets *j, TsVal v, TsVal z, int nth, bool logistic) {
  TsBuild *b = &j->g->b;
  TsVal y = function(j, v, z, 0), sum = NULL;
  if (nth == 1) {
    TsVal square = ts_build1(b, TS_OP_square, y);
    return ts_build_sub(b, logistic ? y : ts_graph_number(j->g, 1), square);
  }
  for (int k = 0; 2 * k <= nth - 1; k++) {
    double c = choose(nth - 1, k) * (2 * k == nth - 1 ? 1 : 2);
    TsVal low = function(j, v, z, k), high = function(j, v, z, nth - 1 - k);
    if (low && high) sum = plus(j, sum, ts_build_scale(b, ts_build_mul(b, low, high), -c));
  }
  return logistic ? plus(j, function(j, v, z, nth - 1), sum) : sum;
}

static TsVal by_turns(TsJets *j, TsVal v, TsVal z, int nth) {
  TsBuild *b = &j->g->b;
  bool cosine = v->node->op == TS_OP_cos;
  int turn = (nth + cosine) % 4;
  TsVal at =
      nth % 2 == 0 ? function(j, v, z, 0) : ts_build1(b, cosine ? TS_OP_sin : TS_OP_cos, z);
  /* sin, cos, -sin, -cos; cos, -sin, -cos, sin */
  return turn >= 2 ? ts_build_neg(b, at) : at;
}

static TsVal by_adjoint(TsJets *j, TsVal v, TsVal z, int nth) {
  TsVal before = function(j, v, z, nth - 1), at = ts_jets_resolve(j, z), made = NULL;
  if (!before || before->meta.weak || ts_jets_fails(j)) return NULL;
  if (ts_graph_gradient(j->g, 1, &before, NULL, 1, &at, &made)) return NULL;
  return made;
}

/* The nth derivative of the function that v's node is of z, at z. NULL: zero. */
static TsVal function(TsJets *j, TsVal v, TsVal z, int nth) {
  TsBuild *b = &j->g->b;
  TsJetEntry *e = ts_jets_entry(j, v, TS_JET_slope - nth);
  TsVal made, at = ts_jets_resolve(j, z);
  if (!e || ts_jets_fails(j) || nth == 0) return ts_jets_resolve(j, v);
  if (e->known) return e->is;
  switch (v->node->op) {
  case TS_OP_tanh: made = by_square(j, v, z, nth, false); break;
  case TS_OP_sigmoid: made = by_square(j, v, z, nth, true); break;
  case TS_OP_exp: made = function(j, v, z, 0); break;
  case TS_OP_sin:
  case TS_OP_cos: made = by_turns(j, v, at, nth); break;
  case TS_OP_square:
    made = nth == 1 ? ts_build_scale(b, at, 2) : nth == 2 ? ts_graph_number(j->g, 2) : NULL;
    break;
  case TS_OP_reciprocal:
    made = ts_build_mul(b, function(j, v, z, 0), function(j, v, z, nth - 1));
    made = ts_build_scale(b, made, -nth);
    break;
  default: made = by_adjoint(j, v, z, nth);
  }
  if (!(e = ts_jets_entry(j, v, TS_JET_slope - nth))) return NULL;
  e->known = true;
  return e->is = made;
}

/* The one value that moves among a pointwise node's operands, of its type; NULL: there are more. */
static TsVal only_operand(TsJets *j, const TsNode *n) {
  TsVal z = NULL;
  if (n->op >= TS_OP_COUNT || ts_op_info((TsOp)n->op)->cls != TS_CLASS_POINTWISE) return NULL;
  for (int i = 0; i < n->nin; i++) {
    if (!moves(j, n->in[i]) || n->in[i] == z) continue;
    if (z) return NULL;
    z = n->in[i];
  }
  const TsMeta *m = &n->out[0].meta;
  bool same = z && !ts_dtype_is((TsDtype)m->dtype, TS_KIND_C) && z->meta.dtype == m->dtype &&
              ts_meta_same_shape(&z->meta, m);
  return same ? z : NULL;
}

static TsVal composed(TsJets *j, TsVal v, TsVal z, const TsOperator *p) {
  TsBuild *b = &j->g->b;
  TsJetGroups all = {.arena = &j->arena};
  TsVal by[TS_JET_ORDER + 1] = {NULL}, sum = NULL;
  ts_operator_compose(p, &all);
  j->failed |= all.failed;
  for (int i = 0; i < all.n && !ts_jets_fails(j); i++) {
    const TsJetGroup *g = &all.group[i];
    TsVal made = NULL;
    bool zero = !function(j, v, z, g->nth);
    for (int k = 0; k < g->nbeside && !zero; k++) {
      TsVal factor = monomial(j, z, &g->beside[k]);
      zero = !factor || ts_jets_fails(j);
      if (!zero) made = made ? ts_build_mul(b, made, factor) : factor;
    }
    TsVal lead = zero ? NULL : ts_jets_apply(j, z, &g->lead);
    if (!lead || ts_jets_fails(j)) continue;
    by[g->nth] = plus(j, by[g->nth], made ? ts_build_mul(b, made, lead) : lead);
  }
  for (int nth = 1; nth <= TS_JET_ORDER && !ts_jets_fails(j); nth++)
    if (by[nth]) sum = plus(j, sum, ts_build_mul(b, function(j, v, z, nth), by[nth]));
  return sum;
}

/* ---- all others: by the adjoint, along one direction after the other */
/* Derivatives of the operands stand for what they are derivatives of when the result of this is
 * differentiated further. */
static void note_origin(TsJets *j, TsVal made, TsVal of, const TsMonomial *m) {
  if (made == of || ts_jets_has(j, made) || !ts_jets_mark(j, made)) return;
  TsJetPart *origin = ts_jets_alloc(j, sizeof *origin);
  TsJetEntry *e = origin ? ts_jets_entry(j, made, TS_JET_origin) : NULL;
  if (!e || e->known) return;
  *origin = (TsJetPart){of, {.arena = &j->arena}};
  ts_operator_add(&origin->p, m, 1);
  j->failed |= origin->p.failed;
  e->known = true;
  e->is = origin;
}

static TsVal along(TsJets *j, TsVal v, int direction) {
  const TsNode *n = v->node;
  TsMonomial m = ts_jets_first(direction);
  TsVal made = NULL;
  TsJetEntry *e = ts_jets_entry(j, v, TS_JET_along - direction);
  if (!e || e->known) return e ? e->is : NULL;
  int nx = 0;
  TsVal *x = ts_jets_alloc(j, 2 * sizeof *x * (size_t)(n->nin + 1));
  TsVal *dx = x ? x + n->nin : NULL;
  for (int i = 0; x && i < n->nin && !ts_jets_fails(j); i++) {
    bool again = !moves(j, n->in[i]);
    for (int k = 0; k < nx && !again; k++) again = x[k] == n->in[i];
    if (again || !(dx[nx] = monomial(j, n->in[i], &m))) continue;
    dx[nx] = ts_jets_fit(j, dx[nx], &n->in[i]->meta);
    x[nx++] = n->in[i];
  }
  if (nx && !ts_jets_fails(j) && ts_graph_jvp_held(j->g, nx, x, dx, 1, &v, &made)) made = NULL;
  for (int i = 0; i < nx && !ts_jets_fails(j); i++) note_origin(j, dx[i], x[i], &m);
  if (!(e = ts_jets_entry(j, v, TS_JET_along - direction))) return NULL;
  e->known = true;
  return e->is = made;
}

static TsVal by_direction(TsJets *j, TsVal v, const TsOperator *p) {
  TsVal sum = NULL;
  for (int i = 0; i < p->n && !ts_jets_fails(j); i++) {
    TsMonomial rest = p->term[i].m;
    TsVal made = along(j, v, rest.d[--rest.n]);
    if (!made || ts_jets_fails(j)) continue;
    const TsOperator one = {.term = &(TsJetTerm){rest, 1}, .n = 1};
    /* As the expression that it is, although it may be what the program noted. */
    made = rest.n ? ts_jets_node(j, made, &one) : ts_jets_again(j, made);
    if (made && p->term[i].c != 1) made = ts_build_scale(&j->g->b, made, p->term[i].c);
    sum = plus(j, sum, made);
  }
  return sum;
}

TsVal ts_jets_node(TsJets *j, TsVal v, const TsOperator *p) {
  const TsNode *n = v->node;
  bool any = false, same = true;
  TsVal z, made;
  for (int i = 0; i < n->nin; i++) {
    any |= moves(j, n->in[i]);
    same &= !moves(j, n->in[i]) || n->in[i]->meta.dtype == v->meta.dtype;
  }
  if (!any || !moves(j, v)) return NULL;
  if (n->op < TS_OP_COUNT && ts_adjoint_table[n->op] == ts_adjoint_zero) return NULL;
  if (n->op == TS_OP_matmul && n->nin > 2) {
    TsVal all = written_out(j, n);
    return ts_jets_fails(j) ? NULL : ts_jets_apply(j, all, p);
  }
  if (is_linear(j, n))
    made = linear(j, v, p);
  else if (same && (n->op == TS_OP_add || n->op == TS_OP_sub || n->op == TS_OP_where))
    made = termwise(j, v, p);
  else if (same && (n->op == TS_OP_mul || (n->op == TS_OP_matmul && n->nin == 2)))
    made = product(j, v, p);
  else if (same && n->op == TS_OP_div)
    made = quotient(j, v, p);
  else if ((z = only_operand(j, n)))
    made = composed(j, v, z, p);
  else
    made = by_direction(j, v, p);
  return ts_jets_fails(j) ? NULL : ts_jets_fit(j, made, &v->meta);
}
