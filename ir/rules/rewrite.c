/* The rewriting pass: nodes as they arrive, simplified by what they are computed from and by rules
 * (ir/rules/rules.c). */
#include "ir/rules/rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"

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
  ts_rules_log(r, "fold", "computed from constants", false, n);
  return ts_rule_filled(r, value, &v->meta);
}

/* ---- simplification */
enum { DEEPEST = 60 };

static TsVal simplify(TsRewrite *r, TsVal v) {
  while (v && v->node->op < TS_OP_COUNT && v->node->nout == 1 && r->depth < DEEPEST) {
    r->depth++;
    TsVal made = fold(r, v);
    if (!made) made = ts_rules_apply(r, v);
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

/* The live nodes of a region alone, in the same module. */
static TsGraph *without_dead(const TsGraph *from) {
  TsGraphMap m;
  unsigned char *live = ts_graph_live(from);
  TsGraph *g = NULL;
  if (live && !ts_graph_map_open(&m, NULL, from)) {
    int failed = !(g = ts_graph_map_shell(&m, from->module, from, from->err));
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
  if ((g = ts_graph_map_shell(&m, r->g->module, from, r->g->err))) {
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
      made->out[i].name = ts_arena_text(&r->g->module->arena, n->out[i].name);
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
  r->g->line = step->line, r->g->choice = NULL;
  if (!ts_graph_emit(r->g, (TsOp)step->op, step->nin, in, step->attr, out, &nout)) return -1;
  for (int i = 0; i < nout; i++) m->value[m->start[n->id] + i] = out[i];
  ts_rules_log(r, "narrow_gradient", "the step widens it itself", false, cast);
  return 0;
}

/* ---- what the program chose for a node's kernel, which what becomes of it has */
enum { NEAR = 4 }; /* nodes on the way from one that takes others into itself */

static bool reads(const TsNode *n, const TsNode *what, int near) {
  if (n == what) return true;
  for (int i = 0; i < n->nin && near; i++)
    if (n->in[i] && reads(n->in[i]->node, what, near - 1)) return true;
  return false;
}

/* Of what n reads, and now does not, the first that was chosen for. */
static const TsNode *lost(const TsNode *n, const TsNode *now, int near) {
  for (int i = 0; i < n->nin; i++) {
    const TsNode *in = n->in[i] ? n->in[i]->node : NULL;
    if (in && in->choice && !reads(now, in, NEAR)) return in;
    if (in && near && (in = lost(in, now, near - 1))) return in;
  }
  return NULL;
}

/* A product that takes its bias, attention that takes its products. */
static TsVal keep_choice(TsGraph *g, TsVal was, TsVal v) {
  const TsNode *n = v ? v->node : NULL, *from;
  if (!n || v == was || n->choice || n->op >= TS_OP_COUNT || ts_node_is_view(n)) return v;
  if (!(from = lost(was->node, n, NEAR - 1))) return v;
  TsNode *made = ts_graph_chosen(g, n, from->choice);
  return made ? &made->out[v->index] : NULL;
}

static int rewrite_node(TsRewrite *r, TsGraphMap *m, const TsNode *n, int uses, bool stays) {
  if (n->nregion ? map_holder(r, m, n) : ts_graph_map_node(m, n)) return -1;
  if (n->nout == 0) return 0;
  if (is_step(n) && narrow_gradient(r, m, n)) return -1;
  TsVal v = m->value[m->start[n->id]];
  if (!room(r, v->node->id)) return -1;
  r->g->line = v->node->line;
  r->g->choice = v->node->choice;
  r->g->backward = v->node->backward;
  if (n->nout == 1 && !stays && !n->runs) v = keep_choice(r->g, v, simplify(r, v));
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
    g->module->nrandom = from->module->nrandom;
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
  ts_rules_read();
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
