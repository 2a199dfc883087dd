/* The rewriting engine: patterns, matching, and the pass. The rules' guards and results are
 * in ir/rules_<group>.c. */
#include "ir/graph_rewrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph_copy.h"
#include "ir/text_value.h"

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
#include "ir/rules.def"
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

static void read_rules(void) {
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

/* ---- facts for guards */
const TsAttr *ts_rule_attr(const TsNode *n, const char *name) {
  const TsOpInfo *o = ts_op_info((TsOp)n->op);
  for (int i = 0; i < o->nattr; i++)
    if (strlen(name) == (size_t)o->attr[i].namelen &&
        !memcmp(name, o->attr[i].name, strlen(name)))
      return &n->attr[i];
  TS_BUG("%s has no attribute %s", o->name, name);
}

bool ts_rule_fill(TsVal v, double *value) {
  const TsNode *n = v->node;
  switch (n->op) {
  case TS_NODE_number: *value = n->number; return true;
  case TS_OP_ones:
  case TS_OP_ones_like: *value = 1; return true;
  case TS_OP_zeros:
  case TS_OP_zeros_like: *value = 0; return true;
  case TS_OP_full:
  case TS_OP_full_like:
    *value = ts_dtype_stored((TsDtype)v->meta.dtype, ts_rule_attr(n, "value")->f);
    return true;
  case TS_OP_broadcast_to:
  case TS_OP_reshape: return ts_rule_fill(n->in[0], value);
  default: return false;
  }
}

int ts_rule_uses(const TsRewrite *r, TsVal v) {
  return v->node->id < (uint32_t)r->nuses ? r->uses[v->node->id] : 1 << 30;
}

int ts_rule_axis(const TsNode *n, const char *name, int ndim) {
  int64_t i = ts_rule_attr(n, name)->i;
  return (int)(i < 0 ? i + ndim : i);
}

unsigned ts_rule_axes(const TsNode *reduction, const TsMeta *x) {
  const TsAttr *a = ts_rule_attr(reduction, "axis");
  unsigned axes = 0;
  if (a->type == TS_ATTR_none) return (1u << x->ndim) - 1;
  for (int i = 0; i < a->n; i++)
    axes |= 1u << (a->ints[i] < 0 ? a->ints[i] + x->ndim : a->ints[i]);
  return axes;
}

int ts_rule_one_axis(unsigned axes) {
  int i = 0;
  if (!axes || axes & (axes - 1)) return -1;
  while (!(axes >> i & 1)) i++;
  return i;
}

bool ts_rule_constant_along(const TsMeta *m, const TsMeta *x, unsigned axes) {
  int skip = x->ndim - m->ndim;
  if (skip < 0) return false;
  for (int i = skip; i < x->ndim; i++)
    if (axes >> i & 1 && m->dim[i - skip] != 1) return false;
  return true;
}

bool ts_rule_float(TsVal v) {
  return !v->meta.weak && ts_dtype_is((TsDtype)v->meta.dtype, TS_KIND_F);
}

bool ts_rule_pointwise(const TsNode *n) {
  return n->op < TS_OP_COUNT && ts_op_info((TsOp)n->op)->cls == TS_CLASS_POINTWISE;
}

bool ts_rule_guard_always(const TsRewrite *r) {
  (void)r;
  return true;
}

/* ---- matching */
static bool commutes(uint16_t op) {
  return op == TS_OP_add || op == TS_OP_mul || op == TS_OP_minimum || op == TS_OP_maximum ||
         op == TS_OP_logical_and || op == TS_OP_logical_or;
}

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

static void log_rule(TsRewrite *r, const char *name, const char *reason, bool rounds,
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
  log_rule(r, rule->name, rule->reason, rule->kind == TS_REWRITE_rounding, v->node);
  return made;
}

/* ---- constants */
TsVal ts_rule_filled(TsRewrite *r, double value, const TsMeta *m) {
  return ts_build(&r->b, TS_OP_full, 0, NULL,
                  TS_ATTRS({"shape", ts_b_ints(m->dim, m->ndim)}, {"value", ts_b_f(value)},
                           {"dtype", ts_b_dtype(m->dtype)}),
                  NULL);
}

static TsVal fold(TsRewrite *r, TsVal v) {
  const TsNode *n = v->node;
  double in[TS_MAX_IN], value;
  const TsMeta *m[TS_MAX_IN];
  int kinds = TS_KIND_F | TS_KIND_B | TS_KIND_U | TS_KIND_I;
  if (!r->o->eval || n->op >= TS_OP_COUNT || ts_op_info((TsOp)n->op)->cls != TS_CLASS_POINTWISE)
    return NULL;
  if (!ts_dtype_is((TsDtype)v->meta.dtype, kinds) || n->nin == 0) return NULL;
  for (int i = 0; i < n->nin; i++) {
    if (!n->in[i] || !ts_rule_fill(n->in[i], &in[i])) return NULL;
    m[i] = &n->in[i]->meta;
  }
  if (!r->o->eval(r->o->arg, (TsOp)n->op, n->nin, in, m, n->attr, (TsDtype)v->meta.dtype,
                  &value))
    return NULL;
  log_rule(r, "fold", "computed from constants", false, n);
  return ts_rule_filled(r, value, &v->meta);
}

/* ---- simplification */
enum { DEEPEST = 60 };

static TsVal one_step(TsRewrite *r, TsVal v) {
  TsVal made = fold(r, v);
  for (int i = first_rule[v->node->op]; !made && i >= 0; i = next_rule[i])
    made = apply(r, i, v);
  for (int i = 0; !made && i < nany; i++) made = apply(r, any_rules[nany - 1 - i], v);
  return made;
}

static TsVal simplify(TsRewrite *r, TsVal v) {
  while (v && v->node->op < TS_OP_COUNT && v->node->nout == 1 && r->depth < DEEPEST) {
    r->depth++;
    TsVal made = one_step(r, v);
    r->depth--;
    if (!made || r->b.failed) break;
    v = made;
  }
  return v;
}

static bool room(TsRewrite *r, uint32_t id) {
  if (id < (uint32_t)r->nuses) return true;
  int n = (int)id * 2 + 64;
  int *p = realloc(r->uses, sizeof *p * (size_t)n);
  if (!p) return ts_build_fail(&r->b, TS_ERR_memory, "out of memory"), false;
  for (int i = r->nuses; i < n; i++) p[i] = 0;
  r->uses = p;
  r->nuses = n;
  return true;
}

static TsVal emit(TsBuild *b, TsOp op, int nin, const TsVal *in, const TsAttr *attr,
                  TsVal *out) {
  TsRewrite *r = (TsRewrite *)b;
  TsVal made[1024];
  int nout = 0;
  TsVal v = b->failed ? NULL : ts_graph_emit(r->g, op, nin, in, attr, made, &nout);
  b->failed |= r->g->b.failed;
  if (!v || !room(r, v->node->id)) return NULL;
  if (nout == 1) {
    /* The rule that emits goes on with its own match. */
    const TsNode *root = r->root;
    TsVal var[26];
    memcpy(var, r->var, sizeof var);
    made[0] = v = simplify(r, v);
    memcpy(r->var, var, sizeof var);
    r->root = root;
  }
  if (out) memcpy(out, made, sizeof *out * (size_t)nout);
  return v;
}

static const TsMeta *meta(TsBuild *b, TsVal v) {
  (void)b;
  return &v->meta;
}

static TsVal number(TsBuild *b, double value) {
  return ts_graph_number(((TsRewrite *)b)->g, value);
}

/* ---- the pass */
/* By node, how many nodes read it, each counted once: x * x is one reader. */
static int *count_uses(const TsGraph *g, const unsigned char *live) {
  int *uses = calloc(2 * ((size_t)g->nnode + 1), sizeof *uses);
  if (!uses) return NULL;
  int *reader = uses + g->nnode + 1; /* who read it last, from 1 */
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    for (int k = 0; live[i] && k < n->nin; k++) {
      if (!n->in[k]) continue;
      uint32_t id = n->in[k]->node->id;
      uses[id] += reader[id] != i + 1;
      reader[id] = i + 1;
    }
  }
  for (int i = 0; i < g->nresult; i++) uses[g->result[i]->node->id] += 2; /* it must stay */
  for (int i = 0; i < g->nupdate; i++) uses[g->update[i].value->node->id] += 2;
  return uses;
}

/* By node, what no rule may take: the views through which results share bytes, or could, with an
 * argument of other strides, and what several results look at, of which a view that is a rule's
 * may have to be a copy. NULL when memory runs out. */
static unsigned char *shared_by_results(const TsGraph *g) {
  unsigned char *mark = calloc((size_t)g->nnode + 1, 1);
  for (int i = 0; mark && g->bytes && i < g->nresult; i++) {
    const TsNode *n = g->result[i]->node, *root = n;
    while (ts_node_is_view(root)) root = root->in[0]->node;
    bool several = false;
    for (int k = 0; k < g->nresult; k++) several |= k != i && g->bytes[k] == g->bytes[i];
    if (root == n || !(several || root->op == TS_NODE_param || g->bytes[i] < g->nparam))
      continue;
    for (; n != root; n = n->in[0]->node) mark[n->id] = 1;
    mark[root->id] = 1;
  }
  return mark;
}

static int rewrite_graph(TsRewrite *r, TsGraphMap *m);

/* The live nodes of a region alone, in the same unit. */
static TsGraph *without_dead(const TsGraph *from) {
  TsGraphMap m;
  unsigned char *live = ts_graph_live(from);
  TsGraph *g = NULL;
  if (live && !ts_graph_map_open(&m, NULL, from)) {
    int failed = !(g = ts_graph_map_shell(&m, from->unit, from, from->err));
    for (int i = 0; i < from->nnode && !failed; i++)
      if (live[i] && from->node[i]->op != TS_NODE_param)
        failed = ts_graph_map_node(&m, from->node[i]);
    if (failed || ts_graph_map_finish(&m)) g = NULL;
    ts_graph_map_close(&m);
  }
  free(live);
  return g;
}

static TsGraph *enter_region(TsRewrite *r, TsGraph *from, TsGraph *to) {
  if (!to) return NULL;
  if (r->nregion == r->capregion) {
    int cap = r->capregion ? r->capregion * 2 : 8;
    TsGraph **p = realloc(r->region, sizeof *p * 2 * (size_t)cap);
    if (!p) return NULL;
    r->region = p;
    r->capregion = cap;
  }
  r->region[2 * r->nregion] = from;
  r->region[2 * r->nregion++ + 1] = to;
  return to;
}

/* A region is a graph of its own with closed ends, and is rewritten as such. A graph that is
 * called from several places stays one. */
static TsGraph *rewrite_region(TsRewrite *r, TsGraph *from) {
  TsGraphMap m;
  TsGraph *g, *clean = NULL;
  for (int i = 0; i < r->nregion; i++)
    if (r->region[2 * i] == from) return r->region[2 * i + 1];
  if (ts_graph_map_open(&m, NULL, from)) return NULL;
  if ((g = ts_graph_map_shell(&m, r->g->unit, from, r->g->err))) {
    TsRuleFacts facts = {NULL, 0, 0};
    TsRewrite inner = {.b = r->b, .g = g, .o = r->o, .final = r->final, .facts = &facts};
    g->parent = r->g;
    if (!rewrite_graph(&inner, &m) && (clean = without_dead(g))) clean->parent = r->g;
    r->fired += inner.fired;
    r->waits |= inner.waits;
  }
  ts_graph_map_close(&m);
  return enter_region(r, from, clean);
}

/* A node that holds regions, with what became of those. */
static int map_holder(TsRewrite *r, TsGraphMap *m, const TsNode *n) {
  TsVal *in = malloc(sizeof *in * (size_t)(n->nin + 1));
  TsGraph *region[4];
  TsNode *made = NULL;
  bool whole = in != NULL;
  TS_ASSERT(n->nregion <= 4);
  for (int i = 0; i < n->nin && whole; i++) in[i] = ts_graph_mapped(m, n->in[i]);
  for (int i = 0; i < n->nregion && whole; i++)
    whole = (region[i] = rewrite_region(r, n->region[i])) != NULL;
  if (whole) made = ts_graph_again(r->g, n, in, region, NULL);
  free(in);
  if (!made) return ts_build_fail(&r->b, TS_ERR_memory, "out of memory");
  for (int i = 0; i < n->nout; i++) {
    m->value[m->start[n->id] + i] = &made->out[i];
    if (n->out[i].name && !made->out[i].name)
      made->out[i].name = ts_arena_text(&r->g->unit->arena, n->out[i].name);
  }
  return 0;
}

static bool is_step(const TsNode *n) {
  return n->op < TS_OP_COUNT && !strcmp(ts_op_info((TsOp)n->op)->family, "optim");
}

/* Steps of optimisers have several results, so no rule is for them. They compute in a type of
 * their own, to which a gradient is widened as it is read: what it was before it was widened
 * will do, and is fewer bytes. */
static int narrow_gradient(TsRewrite *r, TsGraphMap *m, const TsNode *n) {
  const TsNode *step = m->value[m->start[n->id]]->node;
  const TsNode *cast = ts_rule_node(step->in[1], TS_OP_cast);
  if (!cast || r->o->forward || !ts_rule_float(cast->in[0]) ||
      !ts_rule_holds((TsDtype)cast->out[0].meta.dtype, (TsDtype)cast->in[0]->meta.dtype))
    return 0;
  TsVal in[TS_MAX_IN], out[TS_MAX_OUT];
  int nout = 0;
  memcpy(in, step->in, sizeof *in * (size_t)step->nin);
  in[1] = cast->in[0];
  r->g->line = step->line;
  if (!ts_graph_emit(r->g, (TsOp)step->op, step->nin, in, step->attr, out, &nout)) return -1;
  for (int i = 0; i < nout; i++) m->value[m->start[n->id] + i] = out[i];
  log_rule(r, "narrow_gradient", "the step widens it itself", false, cast);
  return 0;
}

static int rewrite_node(TsRewrite *r, TsGraphMap *m, const TsNode *n, int uses, bool stays) {
  if (n->nregion ? map_holder(r, m, n) : ts_graph_map_node(m, n)) return -1;
  if (n->nout == 0) return 0;
  if (is_step(n) && narrow_gradient(r, m, n)) return -1;
  TsVal v = m->value[m->start[n->id]];
  if (!room(r, v->node->id)) return -1;
  r->g->line = v->node->line;
  r->g->backward = v->node->backward;
  if (n->nout == 1 && !stays && !n->runs) v = simplify(r, v);
  if (!v || r->b.failed) return -1;
  m->value[m->start[n->id]] = v;
  if (!room(r, v->node->id)) return -1;
  r->uses[v->node->id] += uses;
  return 0;
}

/* The live nodes of m->from into r->g, with results and updates. */
static int rewrite_graph(TsRewrite *r, TsGraphMap *m) {
  const TsGraph *from = m->from;
  unsigned char *live = ts_graph_live(from);
  int *uses = live ? count_uses(from, live) : NULL;
  unsigned char *stays = uses ? shared_by_results(from) : NULL;
  int failed = !stays;
  for (int i = 0; i < from->nparam && !failed; i++) {
    uint32_t id = ts_graph_mapped(m, from->param[i])->node->id;
    failed = !room(r, id);
    if (!failed) r->uses[id] = uses[from->param[i]->node->id];
  }
  for (int i = 0; i < from->nnode && !failed; i++)
    if (live[i] && from->node[i]->op != TS_NODE_param)
      failed = rewrite_node(r, m, from->node[i], uses[i], stays[i]);
  free(stays);
  free(uses);
  free(live);
  free(r->uses);
  free(r->region);
  free(r->facts->finite);
  return failed || ts_graph_map_finish(m) ? -1 : 0;
}

typedef struct Passed {
  int fired;
  bool waits;
} Passed;

static TsGraph *pass(const TsGraph *from, const TsRewriteOptions *o, bool final, Passed *p) {
  TsGraphMap m;
  TsGraph *g = NULL, *clean = NULL;
  if (ts_graph_map_open(&m, NULL, from)) return NULL;
  if ((g = ts_graph_map_shell(&m, NULL, from, from->err))) {
    TsBuild b = {.emit = emit, .meta = meta, .number = number, .err = from->err};
    TsRuleFacts facts = {NULL, 0, 0};
    TsRewrite r = {.b = b, .g = g, .o = o, .final = final, .facts = &facts};
    g->unit->nrandom = from->unit->nrandom;
    if (!rewrite_graph(&r, &m)) clean = ts_graph_clone(g, from->err);
    *p = (Passed){p->fired + r.fired, r.waits};
  }
  ts_graph_map_close(&m);
  ts_graph_free(g);
  return clean;
}

/* g is given up. */
static TsGraph *pass_on(TsGraph *g, const TsRewriteOptions *o, bool final, Passed *p) {
  TsGraph *next = pass(g, o, final, p);
  ts_graph_free(g);
  return next;
}

/* A value that a rule has left without readers still counts as a reader of its operands
 * until the graph is copied without it: so there is another pass while rules fire. Final rules
 * have passes of their own behind those, where some could apply. */
enum { MOST_PASSES = 4, FINAL_PASSES = 2 };

TsGraph *ts_graph_rewrite(const TsGraph *from, const TsRewriteOptions *o) {
  Passed p = {0, false};
  int before = 0;
  read_rules();
  TsGraph *g = pass(from, o, false, &p);
  for (int i = 1; g && p.fired > before && i < MOST_PASSES; i++) {
    before = p.fired;
    g = pass_on(g, o, false, &p);
  }
  for (int i = 0; g && p.waits && (i == 0 || p.fired > before) && i < FINAL_PASSES; i++) {
    before = p.fired;
    g = pass_on(g, o, true, &p);
  }
  if (o->fired) *o->fired = p.fired;
  return g;
}
