/* Rewriting graphs by the rules of ir/rules/rules.def: nodes are copied in order into a new graph,
 * and each is simplified as it arrives, until no rule fits. Time is linear in the nodes: the
 * matches and what guards look at are of bounded depth, and so is the number of passes. */
#ifndef TS_IR_GRAPH_REWRITE_H
#define TS_IR_GRAPH_REWRITE_H

#include "ir/graph/graph.h"

typedef enum TsRewriteKind {
  TS_REWRITE_exact,
  TS_REWRITE_rounding,
  TS_REWRITE_last,
  TS_REWRITE_final
} TsRewriteKind;

typedef struct TsRewriteOptions {
  TsRewriteKind most; /* rounding: exact ones too */
  bool fast;          /* also what may change whether a result is finite */
  bool forward;       /* what comes out will be differentiated: no last and final ones */
  /* Computes a pointwise operator on numbers given in the operands' types, in the result's
   * type, as the VM does; false if it cannot. NULL: no constants are folded. */
  bool (*eval)(void *arg, TsOp op, int n, const double *in, const TsMeta *const *meta,
               const TsAttr *attr, TsDtype out, double *result);
  void *arg;
  TsText *log; /* a line for each rule that fired: name, place, reason; or NULL */
  int *fired;  /* gets how many did; or NULL */
} TsRewriteOptions;

/* A new graph in a module of its own, without dead nodes; NULL with from's error set. Bound
 * parameters are handed over as they are (no references are counted here). */
TsGraph *ts_graph_rewrite(const TsGraph *from, const TsRewriteOptions *o);

/* ---- for rules */
typedef struct TsRuleFacts { /* by node of g, for the first n of them */
  unsigned char *finite;
  int n, cap;
} TsRuleFacts;

typedef struct TsRewrite {
  TsBuild b; /* first: what it emits is simplified as well */
  TsGraph *g;
  const TsRewriteOptions *o;
  int *uses; /* by node of g: how often the original's result is read */
  int nuses;
  int depth;
  int fired;              /* rules, so far */
  bool final, waits;      /* only final rules; whether some could apply */
  int nregion, capregion; /* regions of the original, and what became of them */
  TsGraph **region;
  const TsNode *root; /* what a rule matched, and its variables by letter */
  TsVal var[26];
  TsRuleFacts *facts;
  unsigned types; /* of the rule that is tried: kinds as bits (ir/rules/rules.c) */
} TsRewrite;

/* ---- ir/rules/rules.c */
void ts_rules_read(void); /* before the first of them is tried */
/* What a rule makes of v, the result of an operator, or NULL. */
TsVal ts_rules_apply(TsRewrite *r, TsVal v);
/* A rule has fired at n. rounds: not exactly the same bits. */
void ts_rules_log(TsRewrite *r, const char *name, const char *reason, bool rounds,
                  const TsNode *n);

typedef bool TsRuleGuard(const TsRewrite *r);
typedef TsVal TsRuleMake(TsRewrite *r);

/* The node of v if it is this operator, else NULL. */
static inline const TsNode *ts_rule_node(TsVal v, TsOp op) {
  return v && v->node->op == op ? v->node : NULL;
}
/* What changes whether a result is finite is allowed. */
static inline bool ts_rule_fast(const TsRewrite *r) { return r->o->fast; }
/* A tensor of type m with the same value everywhere. */
TsVal ts_rule_filled(TsRewrite *r, double value, const TsMeta *m);
static inline TsVal ts_rule_var(const TsRewrite *r, char name) { return r->var[name - 'a']; }
static inline const TsMeta *ts_rule_type(const TsRewrite *r) { return &r->root->out[0].meta; }
/* How many nodes of the original read v: a node made by a rule has none yet. A value that a
 * backward pass reads as well as the matched expression must stay, and with it its cost. */
int ts_rule_uses(const TsRewrite *r, TsVal v);
/* Nothing but the matched expression reads v. */
static inline bool ts_rule_single(const TsRewrite *r, TsVal v) {
  return ts_rule_uses(r, v) <= 1;
}
/* The value of a number, or of a tensor all of whose elements are equal by construction, as its
 * type stores it. */
bool ts_rule_fill(TsVal v, double *value);
const TsAttr *ts_rule_attr(const TsNode *n, const char *name);
/* The axis that the attribute names, of a tensor of the given rank: 0 .. ndim-1. */
int ts_rule_axis(const TsNode *n, const char *name, int ndim);
/* The axes of a reduction of x as bits. */
unsigned ts_rule_axes(const TsNode *reduction, const TsMeta *x);
/* The single axis of such a set, or -1. */
int ts_rule_one_axis(unsigned axes);
/* m does not vary along the axes of x, to which it broadcasts. */
bool ts_rule_constant_along(const TsMeta *m, const TsMeta *x, unsigned axes);
bool ts_rule_float(TsVal v); /* a tensor of floats */
/* Every value of narrow is one of wide. */
bool ts_rule_holds(TsDtype wide, TsDtype narrow);
bool ts_rule_pointwise(const TsNode *n);

/* ---- values, by what they are made of (ir/rules/value.c) */
typedef enum TsRuleSign {
  TS_SIGN_any,
  TS_SIGN_minus_zero, /* not negative, but maybe -0 */
  TS_SIGN_none        /* neither negative nor -0; maybe NaN */
} TsRuleSign;
TsRuleSign ts_rule_sign(TsVal v);
/* Finite where the inputs of the graph or region are, but for an overflow of very large numbers. */
bool ts_rule_finite(const TsRewrite *r, TsVal v);
/* A bound of the magnitude of what is made from counts and numbers; infinity if unknown. */
double ts_rule_bound(TsVal v);

/* A matrix known without its elements: upto where column - row <= last, else beyond
 * (ir/rules/constant.c). */
bool ts_rule_step(const TsRewrite *r, TsVal v, int64_t *last, double *upto, double *beyond);
/* v at one index of an axis along which alone it varies, if v is made from constants. */
bool ts_rule_element(const TsRewrite *r, TsVal v, int axis, int64_t at, double *value);

#define RULE(name, kind, types, pattern, guard, result, reason)                                \
  TsRuleGuard ts_rule_guard_##guard;
#define MAKE(name, kind, types, pattern, guard, reason)                                        \
  TsRuleGuard ts_rule_guard_##guard;                                                           \
  TsRuleMake ts_rule_make_##name;
#include "ir/rules/rules.def"
#undef RULE
#undef MAKE

#endif
