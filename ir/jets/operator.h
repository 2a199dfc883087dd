/* Differential operators with constant coefficients, as polynomials of directions: d0 d0 + d1 d1 is
 * the Laplacian along directions 0 and 1. What one is on a product or on a function of a
 * function is a sum of products with lower operators; of those with the same factors beside
 * them the highest are one operator again. That is what makes collapsed jets short: the highest
 * derivatives are never needed one by one. See A. Dangel et al., "Collapsing Taylor Mode
 * Automatic Differentiation", arXiv 2505.13644. */
#ifndef TS_IR_JETS_OPERATOR_H
#define TS_IR_JETS_OPERATOR_H

#include "lib/arena.h"

#include <stdint.h>

enum { TS_JET_ORDER = 6, TS_JET_DIRECTIONS = 64 };

/* A derivative along n directions, sorted. n 0: the value itself. */
typedef struct TsMonomial {
  uint8_t n, d[TS_JET_ORDER];
} TsMonomial;

typedef struct TsJetTerm {
  TsMonomial m;
  double c;
} TsJetTerm;

/* A sum of different monomials in their order, none with the factor 0. */
typedef struct TsOperator {
  TsArena *arena;
  TsJetTerm *term;
  int n, cap;
  bool failed; /* out of memory */
} TsOperator;

int ts_monomial_compare(const TsMonomial *a, const TsMonomial *b); /* lower orders first */
/* a and b together; false if that is of too high an order. */
bool ts_monomial_product(const TsMonomial *a, const TsMonomial *b, TsMonomial *c);

void ts_operator_add(TsOperator *p, const TsMonomial *m, double c);
bool ts_operator_equal(const TsOperator *p, const TsOperator *q);
/* Divides p by its first factor, which it returns: operators that differ by a factor are one. */
double ts_operator_normal(TsOperator *p);

/* Products with the same factors but the highest: lead is applied to one value, the factors
 * are derivatives by single monomials.
 * Of f(z): nth derivative of f times the derivatives `beside` of z times lead of z.
 * Of a product a b: lead of a (side 0) or b (side 1) times the derivative beside[0] of the
 * other one. */
typedef struct TsJetGroup {
  int nth, side, nbeside;
  TsMonomial beside[TS_JET_ORDER];
  TsOperator lead;
} TsJetGroup;

typedef struct TsJetGroups {
  TsArena *arena;
  TsJetGroup *group;
  int n, cap;
  bool failed;
} TsJetGroups;

/* p of f(z) by Faa di Bruno's formula, for p of order 1 and higher. */
void ts_operator_compose(const TsOperator *p, TsJetGroups *out);
/* p of a b by Leibniz's rule. */
void ts_operator_product(const TsOperator *p, TsJetGroups *out);

#endif
