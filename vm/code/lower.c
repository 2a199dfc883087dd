/* Graph IR to bytecode: one instruction a node, but for what is known before any run
 * (vm/code/lower_constant.c). vm/code/lower_order.c says when nodes run,
 * vm/code/lower_late.c which of them wait for all that may fail, vm/code/lower_place.c which
 * write over parameters or into parts of wholes. */
#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "vm/code/alias.h"
#include "vm/code/lower_state.h"
#include "vm/drive/optim.h"

/* ---- instructions */
static uint32_t new_value(TsLowering *l, TsVal v) {
  TsLoweringPlace *p = place_of(l, v);
  TsTensor *layout = NULL;
  uint32_t over = l->target[value_index(l, v)];
  if (over == TS_CODE_NONE) over = ts_rooms_of(&l->rooms, l->code, v, v->node->line, &layout);
  p->reg = ts_code_register(l->code, &v->meta);
  p->layout = layout ? layout : ts_tensor_symbol(l->c, &v->meta, NULL);
  if (!p->layout) l->code->failed = true;
  if (over != TS_CODE_NONE && !l->code->failed) {
    l->code->reg[p->reg].kind = TS_REG_into;
    l->code->reg[p->reg].of = over;
  }
  return p->reg;
}

/* A row-major copy of v, which lies in `from`, in a register of its own; of a bare number, the
 * tensor as which it leaves. */
static int put_clone(TsLowering *l, TsVal v, uint32_t from, int line, TsLoweringPlace *out) {
  TsMeta m = v->meta;
  if (m.weak) m.weak = 0, m.dtype = m.dtype == TS_DT_i64 ? TS_DT_i64 : TS_DT_f32;
  out->reg = ts_code_register(l->code, &m);
  out->layout = ts_tensor_symbol(l->c, &m, NULL);
  TsAttr dtype = {.type = TS_ATTR_dtype, .i = m.dtype};
  ts_code_add(l->code, v->meta.weak ? TS_OP_cast : TS_OP_clone, 1, &from, v->meta.weak != 0,
              &dtype, 1, &out->reg, line);
  if (out->layout && l->code->failed) return no_memory(l);
  return out->layout ? 0 : -1;
}

/* Whether n leaves the function as a view of an argument: whether it is one depends on strides that
 * only the run knows, and its handler copies where it is none. */
static bool leaves_argument(const TsLowering *l, const TsNode *n, uint32_t from) {
  if (l->code->failed || l->last_use[n->id] != l->g->nnode) return false;
  while (l->code->reg[from].kind == TS_REG_view) from = l->code->reg[from].of;
  return l->code->reg[from].kind == TS_REG_param && !l->code->bound[from];
}

/* View n of what lies in `from`, or of a copy of it. */
static int put_view_of(TsLowering *l, const TsNode *n, TsLoweringPlace from,
                       TsLoweringPlace *to) {
  TsTensor *layout;
  bool is = ts_alias_view(l->c, n, from.layout, &layout);
  if (l->c->err.code == TS_ERR_memory) return -1;
  if (!is && leaves_argument(l, n, from.reg)) {
    if (!(layout = ts_tensor_symbol(l->c, &n->out[0].meta, NULL))) return -1;
  } else if (!is) {
    TsLoweringPlace copy = {0};
    if (put_clone(l, n->in[0], from.reg, n->line, &copy)) return -1;
    bool fits = ts_alias_view(l->c, n, copy.layout, &layout);
    ts_tensor_unref(copy.layout);
    if (l->c->err.code == TS_ERR_memory) return -1;
    if (!fits)
      return ts_error_set(&l->c->err, TS_ERR_value, "%s cannot look at a copy",
                          ts_node_name(n));
    from.reg = copy.reg;
  }
  to->reg = ts_code_register(l->code, &n->out[0].meta);
  to->layout = layout;
  if (!l->code->failed) {
    l->code->reg[to->reg].kind = TS_REG_view;
    l->code->reg[to->reg].of = from.reg;
  }
  uint32_t in[TS_MAX_IN] = {from.reg};
  for (int k = 1; k < n->nin; k++) in[k] = n->in[k] ? place_of(l, n->in[k])->reg : TS_CODE_NONE;
  ts_code_add(l->code, n->op, n->nin, in, row_of(n)->nattr, n->attr, 1, &to->reg, n->line);
  return l->code->failed ? no_memory(l) : 0;
}

static int put_view(TsLowering *l, const TsNode *n) {
  return put_view_of(l, n, *place_of(l, n->in[0]), &l->place[l->start[n->id]]);
}

static int vm_op_of(const TsNode *n) {
  switch (n->op) {
  case TS_NODE_call: return TS_VM_call;
  case TS_NODE_cond: return TS_VM_cond;
  case TS_NODE_while_loop: return TS_VM_while_loop;
  case TS_NODE_scan: return TS_VM_scan;
  case TS_NODE_fixed_point: return TS_VM_fixed_point;
  case TS_NODE_recursive: return TS_VM_recursive;
  case TS_NODE_recur: return TS_VM_recur;
  case TS_NODE_custom: return TS_VM_custom;
  default: TS_BUG("%s has no instruction", ts_node_name(n));
  }
}

static int put_subs(TsLowering *l, const TsNode *n, TsInstr *i) {
  int at = (int)(i - l->code->instr);
  for (int k = 0; k < n->nregion; k++) {
    TsCode *sub = ts_lower_fused(l->c, n->region[k], NULL, l->all);
    if (!sub) return -1;
    uint32_t s = ts_code_sub(l->code, sub);
    if (l->code->failed) return no_memory(l);
    if (k == 0) l->code->instr[at].sub = s;
  }
  return 0;
}

static int put_node(TsLowering *l, const TsNode *n) {
  uint32_t few[32],
      *v = n->nin + n->nout <= 32 ? few : malloc(sizeof *v * (size_t)(n->nin + n->nout));
  if (!v) return no_memory(l);
  for (int k = 0; k < n->nin; k++) v[k] = n->in[k] ? place_of(l, n->in[k])->reg : TS_CODE_NONE;
  for (int k = 0; k < n->nout; k++)
    v[n->nin + k] = new_value(l, &((TsNode *)(uintptr_t)n)->out[k]);
  int op = row_of(n) ? n->op : vm_op_of(n);
  TsInstr *i =
      ts_code_add(l->code, op, n->nin, v, n->nattr, n->attr, n->nout, v + n->nin, n->line);
  if (v != few) free(v);
  if (!i || l->code->failed) return no_memory(l);
  if (n->op == TS_NODE_custom) return ts_code_ref(l->code, i, n->ref) ? no_memory(l) : 0;
  return n->nregion ? put_subs(l, n, i) : 0;
}

static int lower_node(TsLowering *l, const TsNode *n) {
  if (n->op == TS_NODE_param || l->place[l->start[n->id]].known || ts_lower_is_joined(l, n))
    return 0;
  if (n->op == TS_NODE_cotangent) TS_BUG("a cotangent is left in %s", l->g->name);
  l->code->backward = n->backward;
  return is_view(n) ? put_view(l, n) : put_node(l, n);
}

/* ---- groups: in a row, with equal attributes, steps of one optimiser, or casts of parameters on a
 * device. What such steps give lies in parameters, or leaves: in memory that steps before have read
 * it would be written too early. */
static bool same_attrs(const TsNode *a, const TsNode *b) {
  for (int i = 0; i < a->nattr; i++)
    if (a->attr[i].type != b->attr[i].type || a->attr[i].i != b->attr[i].i) return false;
  return true;
}

static bool is_gathered(const TsLowering *l, const TsNode *n) {
  int k = l->fusion ? l->fusion->sched->of[n->id] : -1;
  return k >= 0 && ts_sched_gathered(l->fusion->sched, l->fusion->sched->group[k]);
}

static bool is_result(const TsLowering *l, TsVal v) {
  for (int i = 0; i < l->g->nresult; i++)
    if (l->g->result[i] == v) return true;
  return false;
}

static bool groups(const TsLowering *l, const TsNode *n) {
  if (is_gathered(l, n)) return true;
  if (!row_of(n) || !ts_optim_groups((TsOp)n->op)) return false;
  for (int i = 0; i < n->nout; i++) {
    TsVal v = (TsVal)(uintptr_t)&n->out[i];
    if (l->target[value_index(l, v)] == TS_CODE_NONE && !is_result(l, v)) return false;
  }
  return !l->rooms.parts.n || l->rooms.parts.of[n->id] < 0;
}

/* The last place of the group that begins at this one, which is itself where there is none. */
static int group_end(const TsLowering *l, int at) {
  const TsNode *first = l->g->node[l->order[at]];
  int end = at;
  if (!groups(l, first)) return at;
  for (int k = at + 1; k < l->norder; k++) {
    const TsNode *n = l->g->node[l->order[k]];
    if (n->op != first->op || n->nin != first->nin || n->nout != first->nout || !groups(l, n) ||
        !same_attrs(n, first) || l->late[n->id] != l->late[first->id])
      break;
    end = k;
  }
  return end;
}

/* A result that is turned lies with the axes in this order: of attention the third and the
 * second last are exchanged, of an image the channels are last. */
static void turned_axes(TsVal v, int64_t *perm) {
  int nd = v->meta.ndim;
  bool heads = v->node->op == TS_OP_attention;
  for (int i = 0; i < nd; i++) perm[i] = heads || i == 0 ? i : i == nd - 1 ? 1 : i + 1;
  if (heads) perm[nd - 3] = nd - 2, perm[nd - 2] = nd - 3;
}

/* A register for it. */
static uint32_t transposed_value(TsLowering *l, TsVal v, TsMeta *m) {
  int64_t perm[TS_MAX_RANK];
  turned_axes(v, perm);
  *m = v->meta;
  for (int i = 0; i < m->ndim; i++) m->dim[i] = v->meta.dim[perm[i]];
  return ts_code_register(l->code, m);
}

/* v looks at that register. */
static int put_transposed(TsLowering *l, TsVal v, const TsMeta *m, uint32_t from, int line) {
  TsLoweringPlace *to = place_of(l, v);
  int64_t perm[TS_MAX_RANK], back[TS_MAX_RANK];
  turned_axes(v, perm);
  for (int i = 0; i < m->ndim; i++) back[perm[i]] = i;
  int nd = m->ndim, nattr = v->node->op == TS_OP_attention ? 2 : 1;
  TsOp op = nattr == 2 ? TS_OP_transpose : TS_OP_permute;
  TsAttr axes[2] = {{.type = TS_ATTR_ints, .n = nd, .ints = back}};
  if (nattr == 2) axes[0] = ts_attr_int(nd - 3), axes[1] = ts_attr_int(nd - 2);
  TsTensor *base = ts_tensor_symbol(l->c, m, NULL);
  TsCall call = {.ctx = l->c,
                 .op = op,
                 .nin = 1,
                 .nout = 1,
                 .in = &base,
                 .out = &to->layout,
                 .attr = axes};
  int failed = !base || ts_vm_handler[op](&call);
  ts_tensor_unref(base);
  if (failed) return -1;
  to->reg = ts_code_register(l->code, &v->meta);
  if (!l->code->failed) {
    l->code->reg[to->reg].kind = TS_REG_view;
    l->code->reg[to->reg].of = from;
  }
  ts_code_add(l->code, op, 1, &from, nattr, axes, 1, &to->reg, line);
  return l->code->failed ? no_memory(l) : 0;
}

/* A kernel stands where the first of its nodes would. */
static int put_fused(TsLowering *l, const TsFusedGroup *u) {
  bool transposed = u->group->transposed;
  TsMeta m;
  uint32_t r[TS_SCHED_PARAMS];
  const TsNode *first = u->group->node[0];
  int nin = u->fused->nin, nout = u->fused->nout;
  for (int i = 0; i < nin; i++) r[i] = place_of(l, u->value[i])->reg;
  for (int i = nin; i < nin + nout; i++) {
    TsVal v = u->into ? (TsVal)(uintptr_t)&u->into->out[0] : u->value[i];
    r[i] = transposed ? transposed_value(l, v, &m) : new_value(l, v);
  }
  TsInstr *i = ts_code_add(l->code, TS_VM_fused, nin, r, 0, NULL, nout, r + nin, first->line);
  if (!i || l->code->failed || ts_code_fused(l->code, i, u->fused)) return no_memory(l);
  return transposed ? put_transposed(l, u->value[nin], &m, r[nin], first->line) : 0;
}

/* The instructions from number `from` on come from n. */
static void come_from(TsLowering *l, int from, const TsNode *n) {
  for (int i = from; i < l->code->ninstr; i++)
    l->code->instr[i].node = n->id, l->code->instr[i].as = n->as;
}

/* The nodes from place *at on, up to the late ones, or those. */
static int lower_nodes(TsLowering *l, int *at, bool late) {
  for (int end = -1; *at < l->norder && l->late[l->order[*at]] == late; ++*at) {
    const TsNode *n = l->g->node[l->order[*at]];
    const TsFusedGroup *u = fused_group(l, n);
    int from = l->code->ninstr;
    if (u) {
      if (n == u->group->node[0] && put_fused(l, u)) return -1;
      come_from(l, from, n);
      continue;
    }
    if (*at > end && (end = group_end(l, *at)) > *at) {
      TsInstr *group = ts_code_add(l->code, TS_VM_group, 0, NULL, 0, NULL, 0, NULL, n->line);
      if (!group) return no_memory(l);
      group->sub = (uint32_t)(end - *at + 1);
      from = l->code->ninstr;
    }
    if (lower_node(l, n)) return -1;
    come_from(l, from, n);
  }
  return l->code->failed ? no_memory(l) : 0;
}

/* ---- ends */
static bool is_over(const TsLowering *l, int u) {
  return l->target[value_index(l, l->g->update[u].value)] == (uint32_t)l->g->update[u].param;
}

/* The registers of new values of parameters. What may change before it is copied is put aside. */
static int put_aside(TsLowering *l, uint32_t *from) {
  const TsGraph *g = l->g;
  int failed = 0;
  for (int i = 0; i < g->nupdate && !failed; i++) {
    TsVal v = g->update[i].value, root = v;
    if (l->late[v->node->id]) continue;
    while (is_view(root->node)) root = root->node->in[0];
    TsLoweringPlace copy = {.reg = place_of(l, v)->reg};
    if (root->node->op == TS_NODE_param) {
      failed = put_clone(l, v, copy.reg, v->node->line, &copy);
      ts_tensor_unref(copy.layout);
    }
    from[i] = copy.reg;
  }
  return failed;
}

static int put_updates(TsLowering *l, const uint32_t *from) {
  const TsGraph *g = l->g;
  for (int i = 0; i < g->nupdate; i++) {
    TsVal v = g->update[i].value;
    if (is_over(l, i)) continue;
    uint32_t in[2] = {place_of(l, g->param[g->update[i].param])->reg,
                      l->late[v->node->id] ? place_of(l, v)->reg : from[i]};
    if (!ts_code_add(l->code, TS_VM_update, 2, in, 0, NULL, 0, NULL, v->node->line))
      return no_memory(l);
  }
  return 0;
}

static const TsUpdate *update_of(const TsGraph *g, uint32_t param) {
  for (int i = 0; i < g->nupdate; i++)
    if ((uint32_t)g->update[i].param == param) return &g->update[i];
  return NULL;
}

/* The update of the parameter that result i is, or looks at, when the function ends; or NULL. */
static const TsUpdate *updated_result(const TsGraph *g, int i) {
  const TsUpdate *u =
      g->bytes && g->bytes[i] < g->nparam ? update_of(g, (uint32_t)g->bytes[i]) : NULL;
  TsVal v = g->result[i];
  while (u && v != u->value && is_view(v->node)) v = v->node->in[0];
  return u && v == u->value ? u : NULL;
}

static uint32_t root_register(const TsLowering *l, uint32_t r) {
  while (!l->code->failed && l->code->reg[r].kind == TS_REG_view) r = l->code->reg[r].of;
  return r;
}

/* Whether a result of a region has the bytes of one before it: a control operator's results are
 * tensors of their own. */
static bool seen_before(const TsLowering *l, const uint32_t *r, int i, uint32_t root) {
  for (int k = 0; l->code->region && k < i; k++)
    if (root_register(l, r[k]) == root) return true;
  return false;
}

/* The registers of results that are no updated parameters, late ones or others. Constants stay
 * ours, and what a region was given its caller's. */
static int put_results(TsLowering *l, uint32_t *r, bool late) {
  const TsGraph *g = l->g;
  int failed = 0;
  for (int i = 0; i < g->nresult && !failed; i++) {
    if (l->late[g->result[i]->node->id] != late) continue;
    TsLoweringPlace copy = *place_of(l, g->result[i]);
    if (updated_result(g, i)) continue;
    uint32_t root = root_register(l, copy.reg);
    int kind = l->code->reg[root].kind;
    bool param = kind == TS_REG_param && (l->code->region || update_of(g, root));
    if (kind == TS_REG_const || param || seen_before(l, r, i, root)) {
      failed = put_clone(l, g->result[i], copy.reg, 0, &copy);
      ts_tensor_unref(copy.layout);
    }
    r[i] = copy.reg;
  }
  return failed;
}

/* v, a view of `root`, as a view of what lies in `from`. */
static int put_seen(TsLowering *l, TsVal v, TsVal root, TsLoweringPlace from,
                    TsLoweringPlace *to) {
  *to = from;
  if (v == root) return to->layout = ts_tensor_ref(from.layout), 0;
  TsLoweringPlace under = {0};
  int failed =
      put_seen(l, v->node->in[0], root, from, &under) || put_view_of(l, v->node, under, to);
  ts_tensor_unref(under.layout);
  return failed ? -1 : 0;
}

/* Results that are updated parameters, or views of them, are so for the caller too. */
static int put_updated_results(TsLowering *l, uint32_t *r) {
  const TsGraph *g = l->g;
  for (int i = 0; i < g->nresult; i++) {
    const TsUpdate *u = updated_result(g, i);
    TsLoweringPlace to;
    if (!u) continue;
    if (put_seen(l, g->result[i], u->value, *place_of(l, g->param[u->param]), &to)) return -1;
    ts_tensor_unref(to.layout);
    r[i] = to.reg;
  }
  return 0;
}

/* All that may fail, then what changes parameters. */
static int put_all(TsLowering *l) {
  const TsGraph *g = l->g;
  uint32_t *r = malloc(sizeof *r * ((size_t)g->nresult + (size_t)g->nupdate + 1));
  uint32_t *from = r ? r + g->nresult : NULL;
  int at = 0;
  int failed = r ? lower_nodes(l, &at, false) : no_memory(l);
  if (!failed) failed = put_results(l, r, false) || put_aside(l, from);
  l->code->commit = g->nupdate ? l->code->ninstr : -1;
  if (!failed) failed = lower_nodes(l, &at, true);
  if (!failed)
    failed = put_results(l, r, true) || put_updates(l, from) || put_updated_results(l, r);
  if (!failed && ts_code_finish(l->code, g->nresult, r)) failed = no_memory(l);
  free(r);
  return failed;
}

static int put_params(TsLowering *l) {
  const TsGraph *g = l->g;
  for (int i = 0; i < g->nparam; i++) {
    TsTensor *bound = g->bound[i] == TS_GRAPH_UNBOUND ? NULL : g->bound[i];
    TsLoweringPlace *p = place_of(l, g->param[i]);
    p->reg = ts_code_param(l->code, &g->param[i]->meta, bound);
    p->layout = bound ? ts_tensor_ref(bound) : ts_tensor_symbol(l->c, &g->param[i]->meta, NULL);
    if (!p->layout) return -1;
  }
  return l->code->failed ? no_memory(l) : 0;
}

static int put_places(TsLowering *l) {
  const TsModule *u = l->g->module;
  l->code->nrandom = u->nrandom;
  l->code->region = l->g->parent != NULL;
  if (l->code->region && !l->code->graph) {
    l->code->graph = (TsGraph *)(uintptr_t)l->g;
    l->g->module->refs++;
  }
  if (!(l->code->place = calloc((size_t)u->nplace + 1, sizeof *l->code->place)))
    return no_memory(l);
  for (; l->code->nplace < u->nplace; l->code->nplace++)
    if (!(l->code->place[l->code->nplace] = strdup(u->place[l->code->nplace])))
      return no_memory(l);
  return 0;
}

static int open_lower(TsLowering *l) {
  const TsGraph *g = l->g;
  l->start = malloc(sizeof *l->start * ((size_t)g->nnode + 1));
  l->last_use = malloc(sizeof *l->last_use * ((size_t)g->nnode + 1));
  l->order = malloc(sizeof *l->order * ((size_t)g->nnode + 1));
  l->when = malloc(sizeof *l->when * ((size_t)g->nnode + 1));
  l->live = ts_graph_live(g);
  if (!l->start || !l->last_use || !l->live || !l->order || !l->when) return no_memory(l);
  for (int i = 0; i < g->nnode; i++) {
    l->start[i] = l->nplace;
    l->nplace += g->node[i]->nout ? g->node[i]->nout : 1;
  }
  l->place = calloc((size_t)l->nplace + 1, sizeof *l->place);
  l->target = malloc(sizeof *l->target * ((size_t)l->nplace + 1));
  l->code = ts_code_new(g->name);
  if (l->code) l->code->donated = calloc((size_t)g->nparam + 1, sizeof *l->code->donated);
  return l->place && l->target && l->code && l->code->donated ? 0 : no_memory(l);
}

static void close_lower(TsLowering *l) {
  for (int i = 0; l->place && i < l->nplace; i++) {
    ts_tensor_unref(l->place[i].layout);
    ts_tensor_unref(l->place[i].known);
  }
  free(l->start);
  free(l->last_use);
  free(l->order);
  free(l->when);
  free(l->late);
  free(l->live);
  ts_rooms_close(&l->rooms);
  free(l->place);
  free(l->target);
}

static int lower_all(TsLowering *l) {
  const TsGraph *g = l->g;
  if (put_params(l) || put_places(l)) return -1;
  if (ts_lower_constants(l)) return -1;
  ts_lower_order(l);
  if (ts_lower_late(l)) return -1;
  ts_lower_targets(l);
  if (ts_rooms_open(&l->rooms, l->c, g, ts_lower_may_be_part, l)) return -1;
  return put_all(l) ? -1 : 0;
}

TsCode *ts_lower(TsContext *c, const TsGraph *g) { return ts_lower_donating(c, g, NULL); }

TsCode *ts_lower_donating(TsContext *c, const TsGraph *g, const bool *donated) {
  return ts_lower_fused(c, g, donated, NULL);
}

TsCode *ts_lower_fused(TsContext *c, const TsGraph *g, const bool *donated,
                       const TsFusion *fusion) {
  TsLowering l = {
      .c = c, .g = g, .donated = donated, .fusion = ts_fusion_of(fusion, g), .all = fusion};
  l.was = ts_context_aside(c);
  int failed = open_lower(&l) || lower_all(&l) || ts_code_plan(l.code, &c->err) ||
               ts_code_verify(l.code, &c->err);
  ts_context_resume(c, l.was);
  close_lower(&l);
  if (!failed) return l.code;
  ts_code_free(l.code);
  return NULL;
}
