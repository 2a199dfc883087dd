/* Jets: derivatives of derivatives along directions, computed together.
 *
 * Forward mode notes which value is the derivative of which (TsDerived). A program that writes
 * nested jvp says what it wants, and this pass finds the sums of those derivatives,
 *
 *   psi_xxy + psi_yyy  =  (d0 d0 d1 + d1 d1 d1) psi,
 *
 * as operators on the value (ir/jets/operator.h) and computes them in one walk forward: through a
 * linear node an operator passes as it is, so a sum of derivatives costs one product with the weights
 * and not one for each; products and functions of one value follow Leibniz and Faa di Bruno.
 * Any other node is differentiated by its adjoint, direction by direction.
 * Rejected: factoring the graph that nested forward mode leaves. It has the same sums in it, but
 * each differentiation writes the derivatives of an activation in another way, and what is equal
 * is no longer the same node. */
#ifndef TS_IR_JETS_H
#define TS_IR_JETS_H

#include "ir/graph/graph.h"
#include "ir/jets/operator.h"

/* The n values v of g once more with collapsed jets, where derivatives of order two or more
 * are among what they are computed from: v[i] becomes the new value, the old one has it as its
 * `instead`. nx values x will be differentiated by afterwards. Gives how many values were
 * replaced (0: there is nothing to do, or the directions move one another), or -1 with the error.
 * log (may be NULL) gets a line. It rounds in another order than nested derivatives do. */
int ts_jets_collapse(TsGraph *g, int n, TsVal *v, int nx, const TsVal *x, TsText *log);

/* Whether n values are gradients, of which another derivative is about to be made: that is no
 * jet, and log gets a line that says why, once. -1 with the error. */
int ts_jets_refused(const TsGraph *g, int n, const TsVal *v, TsText *log);

/* ---- inside */
typedef struct TsJetPart {
  TsVal of;
  TsOperator p; /* with the value itself as the monomial of order 0 */
} TsJetPart;

/* A sum of operators on values. */
typedef struct TsLinear {
  TsJetPart *part;
  int n, cap;
} TsLinear;

/* Whatever is known of (value, number): a table that grows. */
typedef struct TsJetEntry {
  const void *value;
  int about;
  bool known;
  void *is;
} TsJetEntry;

typedef struct TsJets {
  TsGraph *g;
  TsArena arena;
  const TsDerived **direction; /* one of those noted along it */
  int ndirection;
  int *along;             /* by g->derived: its direction */
  TsOperator **operators; /* without their common factor; the index is `about` */
  int noperator, capoperator;
  TsOperator alone; /* the monomials that are computed one by one */
  TsJetEntry *entry;
  size_t nentry, capentry;
  unsigned char *mark; /* by node: TS_JET_moves, TS_JET_reads */
  int nmark, capmark;
  int depth, sums, terms, asked; /* the line that asks for derivatives */
  bool failed, unfit;            /* unfit: not to be collapsed after all */
} TsJets;

/* Marks: depends on what moves; depends on a noted derivative. */
enum { TS_JET_moves = 1, TS_JET_reads = 2 };
/* What entries are about besides operators, which count from 0. */
enum {
  TS_JET_resolved = -1,
  TS_JET_form = -2,
  TS_JET_origin = -3,
  TS_JET_has = -4,
  TS_JET_form_made = -5, /* of what the pass made */
  TS_JET_slope = -16,    /* and below: the nth derivative of a function */
  TS_JET_along = -64     /* and below: an operator's derivative along a direction */
};

void *ts_jets_alloc(TsJets *j, size_t nbytes);
/* The entry, entered if new: its place is good until the next one is. NULL: out of memory. */
TsJetEntry *ts_jets_entry(TsJets *j, const void *value, int about);
unsigned ts_jets_mark(TsJets *j, TsVal v);
/* The derivatives that v is a sum of; of other values v itself. */
const TsLinear *ts_jets_form(TsJets *j, TsVal v);
bool ts_jets_has(TsJets *j, TsVal v); /* some derivative is in the form of v */
/* p on v. NULL: zero, or j->failed. */
TsVal ts_jets_apply(TsJets *j, TsVal v, const TsOperator *p);
/* v with collapsed derivatives in what it is computed from. */
TsVal ts_jets_resolve(TsJets *j, TsVal v);
/* Its node on such operands. */
TsVal ts_jets_again(TsJets *j, TsVal v);
/* made as a value of type m: products of what is broadcast may be smaller. Zeros of type m. */
TsVal ts_jets_fit(TsJets *j, TsVal made, const TsMeta *m);
TsVal ts_jets_zeros(TsJets *j, const TsMeta *m);
/* What a node makes of p, which has no common factor; about: its number. NULL: zero, or
 * j->failed. */
TsVal ts_jets_node(TsJets *j, TsVal v, const TsOperator *p);
/* Which monomials are computed one by one when these operators are wanted. */
void ts_jets_choose(TsJets *j, int n, const TsOperator *const *wanted);
int ts_jets_operator(TsJets *j, const TsOperator *p); /* its number */

static inline TsMonomial ts_jets_first(int direction) {
  return (TsMonomial){.n = 1, .d = {(uint8_t)direction}};
}
static inline bool ts_jets_fails(const TsJets *j) {
  return j->failed || j->unfit || j->g->b.failed;
}

#endif
