/* The rules of ir/rules/rules.def: their patterns, read once, where they fit, and what is
 * built then. Guards, and results that are functions, are in the other files of ir/rules. */
#include <stdlib.h>
#include <string.h>

#include "ir/rules/rewrite.h"
#include "ir/text/value.h"

typedef struct Rule {
  const char *name, *types, *pattern, *result, *reason;
  TsRewriteKind kind;
  TsRuleGuard *guard;
  TsRuleMake *make;
} Rule;

static const Rule rules[] = {
#define RULE(name, kind, types, pattern, guard, result, reason)                                \
  {#name, types, pattern, result, reason, TS_REWRITE_##kind, ts_rule_guard_##guard, NULL},
#define MAKE(name, kind, types, pattern, guard, reason)                                        \
  {#name,                                                                                      \
   types,                                                                                      \
   pattern,                                                                                    \
   NULL,                                                                                       \
   reason,                                                                                     \
   TS_REWRITE_##kind,                                                                          \
   ts_rule_guard_##guard,                                                                      \
   ts_rule_make_##name},
#include "ir/rules/rules.def"
#undef RULE
#undef MAKE
};
enum { NRULE = sizeof rules / sizeof *rules };

/* ---- expressions, read once */
typedef enum ExprKind {
  EXPR_op,
  EXPR_any_op,
  EXPR_var,
  EXPR_constant,
  EXPR_number,
  EXPR_absent
} ExprKind;

typedef struct Expr {
  ExprKind kind;
  TsOp op;
  char var;
  bool rest;  /* "...": any operands */
  bool typed; /* of the rule's types */
  double number;
  int nkid;
  struct Expr *kid[6];
} Expr;

static Expr pool[NRULE * 16];
static int npool;
static Expr *pattern_of[NRULE], *result_of[NRULE];

/* Types of a row as bits: the kinds of lib/dtype.h, and two more. */
enum { ANY_TYPE = 1 << 6, WIDE = 1 << 7 };
static unsigned types_of[NRULE][2]; /* as its kind says, and in the profile fast */

static int first_rule[TS_OP_COUNT], any_rules[NRULE], nany, next_rule[NRULE];

static Expr *new_expr(ExprKind kind) {
  TS_ASSERT(npool < (int)(sizeof pool / sizeof *pool));
  pool[npool].kind = kind;
  return &pool[npool++];
}

static Expr *read_expr(const char **s) {
  while (**s == ' ') ++*s;
  if (**s == '?' || **s == '%' || **s == '#') {
    Expr *e = new_expr(**s == '#' ? EXPR_constant : EXPR_var);
    e->typed = **s == '?';
    e->var = (*s)[1];
    *s += 2;
    return e;
  }
  if (**s == '_') {
    ++*s;
    return new_expr(EXPR_absent);
  }
  if (**s != '(') {
    Expr *e = new_expr(EXPR_number);
    char *end;
    e->number = strtod(*s, &end);
    TS_ASSERT(end != *s);
    *s = end;
    return e;
  }
  char name[40];
  int n = 0;
  for (++*s; **s && !strchr(" )", **s); ++*s) name[n++] = **s;
  name[n] = 0;
  Expr *e = new_expr(strcmp(name, "*") ? EXPR_op : EXPR_any_op);
  e->op = ts_op_find(name);
  if (e->kind == EXPR_op && e->op == TS_OP_COUNT) TS_BUG("rules: no operator %s", name);
  for (;;) {
    while (**s == ' ') ++*s;
    if (**s == ')') break;
    if (!strncmp(*s, "...", 3)) {
      e->rest = true;
      *s += 3;
      continue;
    }
    e->kid[e->nkid++] = read_expr(s);
  }
  ++*s;
  return e;
}

static unsigned type_bit(char c) {
  switch (c) {
  case '*': return ANY_TYPE;
  case 'W': return WIDE;
  case 'F': return TS_KIND_F;
  case 'B': return TS_KIND_B;
  case 'U': return TS_KIND_U;
  case 'I': return TS_KIND_I;
  case 'C': return TS_KIND_C;
  default: TS_BUG("rules: no kind of types %c", c);
  }
}

static void read_types(const char *s, unsigned types[2]) {
  bool fast = false;
  for (; *s; s++) {
    fast |= *s == '|';
    if (*s == '|') continue;
    if (!fast) types[0] |= type_bit(*s);
    types[1] |= type_bit(*s);
  }
}

void ts_rules_read(void) {
  static bool done;
  if (done) return;
  done = true;
  for (int i = 0; i < TS_OP_COUNT; i++) first_rule[i] = -1;
  for (int i = NRULE; i-- > 0;) {
    const char *p = rules[i].pattern, *q = rules[i].result;
    pattern_of[i] = read_expr(&p);
    result_of[i] = q ? read_expr(&q) : NULL;
    read_types(rules[i].types, types_of[i]);
    if (pattern_of[i]->kind == EXPR_any_op) {
      any_rules[nany++] = i;
      continue;
    }
    next_rule[i] = first_rule[pattern_of[i]->op];
    first_rule[pattern_of[i]->op] = i;
  }
}

/* ---- matching */
static bool commutes(uint16_t op) { return ts_op_info((TsOp)op)->commutes; }

/* The kind of the type among those that the rule takes, and WIDE where it may say so. */
static bool takes(unsigned types, TsDtype d) {
  bool wide = d == TS_DT_bf16 || d == TS_DT_f32 || d == TS_DT_f64;
  return (types & (unsigned)ts_dtypes[d].kind) || (wide && types & WIDE);
}

/* v is of the rule's types, and of the same kind as the root. */
static bool typed(const TsRewrite *r, TsVal v) {
  TsDtype d = (TsDtype)v->meta.dtype, root = (TsDtype)ts_rule_type(r)->dtype;
  if (r->types & ANY_TYPE || v->meta.weak) return true;
  if (!takes(r->types, d) || ts_dtypes[d].kind != ts_dtypes[root].kind) return false;
  return d == root || ts_dtype_is(d, TS_KIND_F | TS_KIND_C);
}

static bool match(TsRewrite *r, const Expr *e, TsVal v);

static bool match_kids(TsRewrite *r, const Expr *e, const TsNode *n, bool swapped) {
  TsVal saved[26];
  memcpy(saved, r->var, sizeof saved);
  for (int i = 0; i < e->nkid; i++) {
    int k = swapped ? 1 - i : i;
    if (match(r, e->kid[i], k < n->nin ? n->in[k] : NULL)) continue;
    memcpy(r->var, saved, sizeof saved);
    return false;
  }
  return true;
}

static bool match_node(TsRewrite *r, const Expr *e, const TsNode *n) {
  if (n->op >= TS_OP_COUNT || n->nout != 1) return false;
  if (e->kind == EXPR_op && n->op != e->op) return false;
  if (!e->rest && n->nin > e->nkid) return false;
  if (match_kids(r, e, n, false)) return true;
  return e->nkid == 2 && n->nin == 2 && commutes(n->op) && match_kids(r, e, n, true);
}

static bool match(TsRewrite *r, const Expr *e, TsVal v) {
  double value;
  switch (e->kind) {
  case EXPR_constant:
    if (!v || !ts_rule_fill(v, &value)) return false; /* fall through */
  case EXPR_var: {
    if (v && e->typed && !typed(r, v)) return false;
    TsVal *slot = &r->var[e->var - 'a'];
    if (*slot) return *slot == v;
    *slot = v;
    return true;
  }
  case EXPR_number: return v && ts_rule_fill(v, &value) && ts_number_same(value, e->number);
  case EXPR_absent: return !v;
  default: return v && typed(r, v) && match_node(r, e, v->node);
  }
}

/* ---- results */
static TsVal build(TsRewrite *r, const Expr *e) {
  TsVal in[6];
  if (e->kind == EXPR_var) return r->var[e->var - 'a'];
  if (e->kind == EXPR_number) return ts_graph_number(r->g, e->number);
  if (e->kind == EXPR_absent) return NULL;
  for (int i = 0; i < e->nkid; i++) in[i] = build(r, e->kid[i]);
  return ts_build(&r->b, e->op, e->nkid, in, TS_NO_ATTRS, NULL);
}

/* v in the root's shape, or NULL where the type differs. */
static TsVal of_type(TsRewrite *r, TsVal v, const TsMeta *want) {
  if (!v || v->meta.weak || v->meta.dtype != want->dtype) return NULL;
  if (ts_meta_same_shape(&v->meta, want)) return v;
  TsMeta m = v->meta;
  if (ts_meta_broadcast(&m, want, &m) || !ts_meta_same_shape(&m, want)) return NULL;
  return ts_build(&r->b, TS_OP_broadcast_to, TS_IN(v),
                  TS_ATTRS({"shape", ts_b_ints(want->dim, want->ndim)}), NULL);
}

void ts_rules_log(TsRewrite *r, const char *name, const char *reason, bool rounds,
                  const TsNode *n) {
  r->fired++;
  if (!r->o->log) return;
  const char *where = ts_graph_where(n);
  ts_text_format(r->o->log, "%s%s%s: %s%s\n", name, *where ? " at " : "", where, reason,
                 rounds ? " (rounding)" : "");
}

/* Whether rules of this kind apply in this pass. */
static bool due(TsRewrite *r, TsRewriteKind kind) {
  if (kind == TS_REWRITE_final) r->waits = !r->o->forward;
  if (kind == TS_REWRITE_final || r->final) return r->final && kind == TS_REWRITE_final;
  return kind == TS_REWRITE_last ? !r->o->forward : kind <= r->o->most;
}

static TsVal apply(TsRewrite *r, int i, TsVal v) {
  const Rule *rule = &rules[i];
  if (!due(r, rule->kind)) return NULL;
  memset(r->var, 0, sizeof r->var);
  r->root = v->node;
  r->types = types_of[i][ts_rule_fast(r)];
  if (!typed(r, v) || !match_node(r, pattern_of[i], v->node) || !rule->guard(r)) return NULL;
  TsMeta want = v->meta;
  TsVal made = of_type(r, rule->make ? rule->make(r) : build(r, result_of[i]), &want);
  if (!made || made == v) return NULL;
  ts_rules_log(r, rule->name, rule->reason, rule->kind == TS_REWRITE_rounding, v->node);
  return made;
}

TsVal ts_rules_apply(TsRewrite *r, TsVal v) {
  TsVal made = NULL;
  for (int i = first_rule[v->node->op]; !made && i >= 0; i = next_rule[i])
    made = apply(r, i, v);
  for (int i = 0; !made && i < nany; i++) made = apply(r, any_rules[nany - 1 - i], v);
  return made;
}
