/* Recognising gelu where it is written out,
 *
 *   x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))        x/2 (1 + erf(x / sqrt(2)))
 *
 * in whatever order its factors stand: expressions are read as polynomials, inside of the
 * function in x, outside of it in x and the function's value. */
#include <math.h>
#include <string.h>

#include "ir/rules/rewrite.h"

enum { DEGREE = 4, DEEPEST = 12 };

/* c[i][k] x^i f^k */
typedef struct Poly {
  double c[DEGREE][2];
} Poly;

typedef struct Reading {
  TsVal x, f; /* f: NULL inside of it */
} Reading;

static bool times(const Poly *a, const Poly *b, Poly *p) {
  *p = (Poly){{{0}}};
  for (int i = 0; i < DEGREE; i++)
    for (int j = 0; j < DEGREE; j++)
      for (int k = 0; k < 4; k++) {
        double c = a->c[i][k & 1] * b->c[j][k >> 1];
        if (c == 0) continue;
        if (i + j >= DEGREE || k == 3) return false;
        p->c[i + j][k != 0] += c;
      }
  return true;
}

static bool read_poly(const Reading *r, TsVal v, Poly *p, int depth);

static bool read_two(const Reading *r, const TsNode *n, Poly *p, int depth) {
  Poly a, b;
  double c;
  if (n->op == TS_OP_div) {
    if (!ts_rule_fill(n->in[1], &c) || c == 0 || !read_poly(r, n->in[0], p, depth))
      return false;
    for (int i = 0; i < DEGREE; i++) p->c[i][0] /= c, p->c[i][1] /= c;
    return true;
  }
  if (!read_poly(r, n->in[0], &a, depth) || !read_poly(r, n->in[1], &b, depth)) return false;
  if (n->op == TS_OP_mul) return times(&a, &b, p);
  for (int i = 0; i < DEGREE; i++)
    for (int k = 0; k < 2; k++)
      p->c[i][k] = n->op == TS_OP_add ? a.c[i][k] + b.c[i][k] : a.c[i][k] - b.c[i][k];
  return true;
}

static bool read_poly(const Reading *r, TsVal v, Poly *p, int depth) {
  const TsNode *n = v->node;
  Poly a;
  *p = (Poly){{{0}}};
  if (v == r->x) return p->c[1][0] = 1, true;
  if (v == r->f) return p->c[0][1] = 1, true;
  if (ts_rule_fill(v, &p->c[0][0])) return true;
  if (depth > DEEPEST) return false;
  switch (n->op) {
  case TS_OP_add:
  case TS_OP_sub:
  case TS_OP_mul:
  case TS_OP_div: return read_two(r, n, p, depth + 1);
  case TS_OP_square: return read_poly(r, n->in[0], &a, depth + 1) && times(&a, &a, p);
  case TS_OP_neg:
    if (!read_poly(r, n->in[0], p, depth + 1)) return false;
    for (int i = 0; i < DEGREE; i++) p->c[i][0] = -p->c[i][0], p->c[i][1] = -p->c[i][1];
    return true;
  default: return false;
  }
}

/* p is a x + b x^3 + c x f, to the digits that people write. */
static bool is(const Poly *p, double a, double b, double c) {
  Poly want = {{{0}}};
  want.c[1][0] = a, want.c[3][0] = b, want.c[1][1] = c;
  for (int i = 0; i < DEGREE; i++)
    for (int k = 0; k < 2; k++)
      if (!(fabs(p->c[i][k] - want.c[i][k]) <= 1e-6 * fabs(want.c[i][k]))) return false;
  return true;
}

/* The function's value among the factors of a product. */
static TsVal find_gate(TsVal v, int depth) {
  const TsNode *n = v->node;
  TsVal f = NULL;
  if (n->op == TS_OP_tanh || n->op == TS_OP_erf) return v;
  if (depth > 4 || n->nin > 2) return NULL;
  if (n->op != TS_OP_mul && n->op != TS_OP_add && n->op != TS_OP_div) return NULL;
  for (int i = 0; i < n->nin && !f; i++) f = find_gate(n->in[i], depth + 1);
  return f;
}

/* The next value on the way down from what the function is taken of, or NULL. */
static TsVal below(TsVal v) {
  const TsNode *n = v->node;
  double c;
  bool arithmetic = n->op == TS_OP_add || n->op == TS_OP_sub || n->op == TS_OP_mul ||
                    n->op == TS_OP_div || n->op == TS_OP_square || n->op == TS_OP_neg;
  for (int i = 0; arithmetic && i < n->nin; i++)
    if (!ts_rule_fill(n->in[i], &c)) return n->in[i];
  return NULL;
}

static TsOp gate_of(TsVal root, TsVal f, TsVal x) {
  Poly inside, outside;
  Reading in = {.x = x}, out = {.x = x, .f = f};
  if (!read_poly(&in, f->node->in[0], &inside, 0) || !read_poly(&out, root, &outside, 0))
    return TS_OP_COUNT;
  if (!is(&outside, 0.5, 0, 0.5)) return TS_OP_COUNT;
  if (f->node->op == TS_OP_erf)
    return is(&inside, sqrt(0.5), 0, 0) ? TS_OP_gelu_erf : TS_OP_COUNT;
  double a = sqrt(2 / M_PI);
  return is(&inside, a, a * 0.044715, 0) ? TS_OP_gelu_tanh : TS_OP_COUNT;
}

/* The operators are 0 at minus infinity, where 0 times infinity is NaN when they are written. */
static bool gates_alike(const TsRewrite *r, TsVal x) {
  return ts_rule_fast(r) || ts_rule_finite(r, x);
}

bool ts_rule_guard_gates_alike_x(const TsRewrite *r) {
  return gates_alike(r, ts_rule_var(r, 'x'));
}

/* x may itself be a sum or a product, so every value on the way down is tried. */
static TsOp gelu(const TsRewrite *r, TsVal *x) {
  TsVal root = (TsVal)&r->root->out[0], f = find_gate(root, 0);
  if (!f || !ts_rule_single(r, f) || !ts_rule_float(root)) return TS_OP_COUNT;
  *x = f->node->in[0];
  for (int i = 0; *x && i < DEEPEST; i++, *x = below(*x)) {
    TsOp op = gate_of(root, f, *x);
    if (op != TS_OP_COUNT) return op;
  }
  return TS_OP_COUNT;
}

static bool written_out(const TsRewrite *r) {
  TsVal x;
  return gelu(r, &x) != TS_OP_COUNT && x->meta.dtype == ts_rule_type(r)->dtype &&
         ts_rule_float(x) && ts_meta_same_shape(&x->meta, ts_rule_type(r)) && gates_alike(r, x);
}

bool ts_rule_guard_gelu_written_out(const TsRewrite *r) { return written_out(r); }

TsVal ts_rule_make_gelu(TsRewrite *r) {
  TsVal x;
  TsOp op = gelu(r, &x);
  return op == TS_OP_COUNT ? NULL : ts_build1(&r->b, op, x);
}
