/* Rewriting graphs by the rules of ir/rules.def: nodes are copied in order into a new graph,
 * and each is simplified as it arrives, until no rule fits. */
#ifndef TS_IR_GRAPH_REWRITE_H
#define TS_IR_GRAPH_REWRITE_H

#include "ir/graph.h"

typedef enum TsRewriteKind { TS_REWRITE_exact, TS_REWRITE_rounding } TsRewriteKind;

typedef struct TsRewriteOptions {
  TsRewriteKind most; /* rounding: both kinds */
  /* Computes a pointwise operator on numbers given in the operands' types, in the result's
   * type, as the VM does; false if it cannot. NULL: no constants are folded. */
  bool (*eval)(void *arg, TsOp op, int n, const double *in, const TsMeta *const *meta,
               const TsAttr *attr, TsDtype out, double *result);
  void *arg;
  TsText *log; /* a line for each rule that fired: name, place, reason; or NULL */
} TsRewriteOptions;

/* A new graph in a unit of its own, without dead nodes; NULL with from's error set. Bound
 * parameters are handed over as they are (no references are counted here). */
TsGraph *ts_graph_rewrite(const TsGraph *from, const TsRewriteOptions *o);

/* ---- for rules */
typedef struct TsRewrite {
  TsBuild b; /* first: what it emits is simplified as well */
  TsGraph *g;
  const TsRewriteOptions *o;
  int *uses; /* by node of g: how often the original's result is read */
  int nuses;
  int depth;
  const TsNode *root; /* what a rule matched, and its variables by letter */
  TsVal var[26];
} TsRewrite;

typedef bool TsRuleGuard(const TsRewrite *r);
typedef TsVal TsRuleMake(TsRewrite *r);

static inline TsVal ts_rule_var(const TsRewrite *r, char name) { return r->var[name - 'a']; }
/* Nothing but the matched expression reads v. */
bool ts_rule_single(const TsRewrite *r, TsVal v);
/* The value of a number, or of a tensor all of whose elements are equal by construction. */
bool ts_rule_fill(TsVal v, double *value);
const TsAttr *ts_rule_attr(const TsNode *n, const char *name);

#define RULE(name, kind, pattern, guard, result, reason) TsRuleGuard ts_rule_guard_##guard;
#define MAKE(name, kind, pattern, guard, reason)                                               \
  TsRuleGuard ts_rule_guard_##guard;                                                           \
  TsRuleMake ts_rule_make_##name;
#include "ir/rules.def"
#undef RULE
#undef MAKE

#endif
