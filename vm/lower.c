/* Graph IR to bytecode: one instruction a node, but for what is known before any run. */
#include "vm/lower.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph_copy.h"
#include "vm/optim.h"
#include "vm/rooms.h"
#include "vm/trap.h"

/* What becomes of one value. The layout is a tensor without bytes that has the strides
 * which the value will have, NULL where they are the caller's. */
typedef struct Place {
  uint32_t reg;
  TsTensor *layout;
  TsTensor *known; /* a constant */
} Place;

typedef struct Lower {
  TsContext *c;
  const TsGraph *g;
  TsCode *code;
  unsigned char *live;
  Place *place; /* by start of the node's outputs */
  int *start;
  int nplace;
  const TsFusion *fusion; /* of g, or NULL */
  const TsFusion *all;    /* and of the functions inside */
  int *order, norder;     /* live nodes as they run; with kernels not in the graph's order */
  int *when;              /* by node: its place in the order */
  int *last_use;          /* by node: the last place of a node that reads it or a view of it */
  uint32_t *target;       /* by value: the parameter it is written into, or NONE */
  const bool *donated;    /* by parameter, or NULL */
  TsRooms rooms;          /* of values that are made in their places */
} Lower;

enum {
  MOST_CONSTANT = 16 << 20, /* bytes of a hoisted constant */
  MOST_GATHERED = 64 << 20, /* of what is made together, some of it long before it is read */
};

static int no_memory(Lower *l) {
  return ts_error_set(&l->c->err, TS_ERR_memory, "out of memory");
}

static int value_index(const Lower *l, TsVal v) { return l->start[v->node->id] + v->index; }
static Place *place_of(const Lower *l, TsVal v) { return &l->place[value_index(l, v)]; }

static const TsOpInfo *row_of(const TsNode *n) {
  return n->op < TS_OP_COUNT ? ts_op_info((TsOp)n->op) : NULL;
}

static bool is_view(const TsNode *n) { return row_of(n) && row_of(n)->cls == TS_CLASS_VIEW; }

/* ---- constants: what depends on no parameter is computed once */
static bool constant_inputs(const Lower *l, const TsNode *n) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && !place_of(l, n->in[i])->known) return false;
  return true;
}

static int64_t node_nbytes(const TsNode *n) {
  int64_t sum = 0;
  for (int i = 0; i < n->nout; i++) sum += ts_meta_nbytes(&n->out[i].meta);
  return sum;
}

static bool is_constant(const Lower *l, const TsNode *n) {
  const TsOpInfo *o = row_of(n);
  return o && o->cls != TS_CLASS_RANDOM && constant_inputs(l, n) &&
         node_nbytes(n) <= MOST_CONSTANT;
}

static int trap_constant(Lower *l, const TsNode *n, TsTensor *const *in, int nout,
                         TsTensor **out) {
  TsCall call = {.ctx = l->c,
                 .op = (TsOp)n->op,
                 .nin = n->nin,
                 .nout = nout,
                 .in = in,
                 .out = out,
                 .attr = n->attr};
  if (!ts_trap_check(&call, n->backward)) return 0;
  for (int i = 0; i < nout; i++) ts_tensor_unref(out[i]);
  return -1;
}

static int hoist(Lower *l, const TsNode *n) {
  TsTensor *in[TS_MAX_IN] = {NULL},
           **v = n->nin <= TS_MAX_IN ? in : malloc(sizeof *v * (size_t)n->nin);
  TsTensor *out[TS_MAX_VARIADIC];
  int nout = 0;
  if (!v) return no_memory(l);
  for (int i = 0; i < n->nin; i++) v[i] = n->in[i] ? place_of(l, n->in[i])->known : NULL;
  bool trap = l->c->trap; /* the call does not know of which pass it is */
  l->c->trap = false;
  int failed = ts_vm_call(l->c, (TsOp)n->op, n->nin, v, n->attr, TS_MAX_VARIADIC, &nout, out);
  l->c->trap = trap;
  if (!failed && trap) failed = trap_constant(l, n, v, nout, out);
  if (v != in) free(v);
  if (failed && *ts_graph_where(n)) ts_error_where(&l->c->err, l->g->name, ts_graph_where(n));
  for (int i = 0; i < nout && !failed; i++) l->place[l->start[n->id] + i].known = out[i];
  return failed;
}

static int number(Lower *l, const TsNode *n) {
  Place *p = &l->place[l->start[n->id]];
  return (p->known = ts_tensor_number(l->c, n->number)) ? 0 : -1;
}

/* Registers of constants come before all others, so they are entered when every constant
 * is known: those that a live node or a result reads. */
static int enter_constants(Lower *l) {
  const TsGraph *g = l->g;
  unsigned char *read = calloc((size_t)l->nplace + 1, 1);
  if (!read) return no_memory(l);
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    bool runs = l->live[i] && !l->place[l->start[i]].known;
    for (int k = 0; runs && k < n->nin; k++)
      if (n->in[k]) read[value_index(l, n->in[k])] = 1;
  }
  for (int i = 0; i < g->nresult; i++) read[value_index(l, g->result[i])] = 1;
  for (int i = 0; i < g->nupdate; i++) read[value_index(l, g->update[i].value)] = 1;
  for (int v = 0; v < l->nplace; v++)
    if (l->place[v].known && read[v]) {
      l->place[v].reg = ts_code_constant(l->code, l->place[v].known);
      l->place[v].layout = ts_tensor_ref(l->place[v].known);
    }
  free(read);
  return 0;
}

/* ---- the order in which nodes run */
static const TsFusedGroup *fused_group(const Lower *l, const TsNode *n) {
  int k = l->fusion ? l->fusion->sched->of[n->id] : -1;
  return k >= 0 && l->fusion->of[k].fused ? &l->fusion->of[k] : NULL;
}

/* n joins what one kernel has written where it belongs: there is nothing left to do. */
static bool is_joined(const Lower *l, const TsNode *n) {
  if (!l->fusion || n->op != TS_OP_concat || !n->nin || !n->in[0]) return false;
  TsVal v = n->in[0];
  while (is_view(v->node)) v = v->node->in[0];
  const TsFusedGroup *u = fused_group(l, v->node);
  return u && u->into == n;
}

static void put_in_order(Lower *l, const TsNode *n) {
  if (l->when[n->id] >= 0) return;
  l->when[n->id] = l->norder;
  l->order[l->norder++] = (int)n->id;
}

/* Views go where they are first needed: what they look at is there by then. */
static void order_view(Lower *l, TsVal v) {
  if (!v || !is_view(v->node) || l->when[v->node->id] >= 0) return;
  order_view(l, v->node->in[0]);
  put_in_order(l, v->node);
}

/* What a kernel makes is there when all of it has run: views of that come later. */
static void order_views(Lower *l, const TsGroup *group, const TsNode *n, bool fused) {
  for (int i = 0; i < n->nin; i++) {
    TsVal root = n->in[i];
    while (root && is_view(root->node)) root = root->node->in[0];
    bool own = root && l->fusion->sched->of[root->node->id] == group->index;
    if (!own || !fused) order_view(l, n->in[i]);
  }
}

static void order_group(Lower *l, const TsGroup *group) {
  bool fused = l->fusion->of[group->index].fused != NULL;
  for (int k = 0; k < group->nnode; k++) {
    if (!is_joined(l, group->node[k])) order_views(l, group, group->node[k], fused);
    if (!fused) put_in_order(l, group->node[k]);
  }
  for (int k = 0; k < group->nnode; k++) put_in_order(l, group->node[k]);
}

/* Casts of parameters on a device, as many as lie in the memory that they may take. */
static void order_gathered(Lower *l, int k) {
  const TsSched *s = l->fusion->sched;
  int64_t nbytes = 0;
  for (; k < s->ngroup; k++) {
    const TsNode *n = s->group[k]->node[0];
    if (!ts_sched_gathered(s, s->group[k]) || l->when[n->id] >= 0) continue;
    if (nbytes && nbytes + node_nbytes(n) > MOST_GATHERED) return;
    nbytes += node_nbytes(n);
    put_in_order(l, n);
  }
}

static void find_order(Lower *l) {
  const TsGraph *g = l->g;
  for (int i = 0; i < g->nnode; i++) l->when[i] = -1;
  for (int i = 0; i < g->nnode; i++) /* what is there before any kernel */
    if (l->live[i] && (!l->fusion || (l->fusion->sched->of[i] < 0 && !is_view(g->node[i]))))
      put_in_order(l, g->node[i]);
  for (int k = 0; l->fusion && k < l->fusion->sched->ngroup; k++) {
    const TsGroup *group = l->fusion->sched->group[k];
    if (!ts_sched_gathered(l->fusion->sched, group))
      order_group(l, group);
    else if (l->when[group->node[0]->id] < 0)
      order_gathered(l, k);
  }
  for (int i = 0; i < g->nresult; i++) order_view(l, g->result[i]);
  for (int i = 0; i < g->nupdate; i++) order_view(l, g->update[i].value);
}

/* ---- updates: which results may be written straight into their parameter */
static void find_last_uses(Lower *l) {
  const TsGraph *g = l->g;
  for (int i = 0; i < g->nnode; i++) l->last_use[i] = -1;
  for (int at = l->norder; at-- > 0;) {
    int i = l->order[at];
    const TsNode *n = g->node[i];
    int own = is_view(n) && l->last_use[i] > at ? l->last_use[i] : at;
    for (int k = 0; k < n->nin; k++)
      if (n->in[k] && l->last_use[n->in[k]->node->id] < own)
        l->last_use[n->in[k]->node->id] = own;
  }
  for (int i = 0; i < g->nresult; i++) l->last_use[g->result[i]->node->id] = g->nnode;
  for (int i = 0; i < g->nupdate; i++) l->last_use[g->update[i].value->node->id] = g->nnode;
  for (int i = g->nnode; i-- > 0;) { /* a result that is a view keeps what it looks at */
    const TsNode *n = g->node[i];
    if (is_view(n) && l->last_use[i] == g->nnode) l->last_use[n->in[0]->node->id] = g->nnode;
  }
}

static bool writes_in_place(const TsNode *n) {
  const TsOpInfo *o = row_of(n);
  return o && (o->cls == TS_CLASS_POINTWISE || !strcmp(o->family, "optim"));
}

/* No other operand of the node may be a view of the parameter. */
static bool reads_directly(const TsNode *n, TsVal p) {
  for (int k = 0; k < n->nin; k++) {
    TsVal v = n->in[k];
    if (!v || v == p) continue;
    while (is_view(v->node)) v = v->node->in[0];
    if (v == p) return false;
  }
  return true;
}

/* A result must not change with the parameter. */
static bool leaves(const TsGraph *g, TsVal v) {
  for (int i = 0; i < g->nresult; i++) {
    TsVal r = g->result[i];
    while (r != v && is_view(r->node)) r = r->node->in[0];
    if (r == v) return true;
  }
  return false;
}

/* The last place of the nodes that run with n. */
static int end_of(const Lower *l, const TsNode *n) {
  const TsFusedGroup *u = fused_group(l, n);
  int end = l->when[n->id];
  for (int i = 0; u && i < u->group->nnode; i++)
    if (l->when[u->group->node[i]->id] > end) end = l->when[u->group->node[i]->id];
  return end;
}

/* A kernel writes v over its input p. */
static bool kernel_takes(const TsFusedGroup *u, TsVal v, TsVal p) {
  uint32_t root[TS_SCHED_PARAMS];
  int own = -1, out = -1;
  for (int i = 0; i < u->fused->nin; i++) {
    TsVal from = u->value[i];
    if (from == p) own = i;
    while (is_view(from->node)) from = from->node->in[0];
    root[i] = from == p;
  }
  for (int i = 0; i < u->fused->nout; i++)
    if (u->value[u->fused->nin + i] == v) out = i;
  return own >= 0 && out >= 0 && ts_fused_over(u->fused, out, own, root);
}

static bool takes_operand(const Lower *l, TsVal v, TsVal p) {
  const TsFusedGroup *u = fused_group(l, v->node);
  if (u) return kernel_takes(u, v, p);
  return writes_in_place(v->node) && reads_directly(v->node, p);
}

/* v may be written over p where it is made: p has its type, is read no later and in no other
 * way, and nothing else is written there. */
static bool may_take(const Lower *l, TsVal v, TsVal p) {
  return v->meta.dtype == p->meta.dtype && ts_meta_same_shape(&v->meta, &p->meta) &&
         l->last_use[p->node->id] <= end_of(l, v->node) && takes_operand(l, v, p) &&
         !place_of(l, v)->known && l->target[value_index(l, v)] == TS_CODE_NONE;
}

static void find_targets(Lower *l) {
  const TsGraph *g = l->g;
  for (int v = 0; v < l->nplace; v++) l->target[v] = TS_CODE_NONE;
  for (int i = 0; i < g->nupdate; i++) {
    int param = g->update[i].param;
    TsVal v = g->update[i].value;
    const TsTensor *bound = l->code->bound[param];
    if (bound && bound->contiguous && !leaves(g, v) && may_take(l, v, g->param[param]))
      l->target[value_index(l, v)] = (uint32_t)param;
  }
}

/* Results in the bytes of arguments that the caller gave away. */
static void find_donations(Lower *l) {
  const TsGraph *g = l->g;
  for (int i = 0; l->donated && i < g->nparam; i++) {
    bool given = l->donated[i] && !g->bound[i];
    for (int k = 0; given && k < g->nresult; k++) {
      if (!may_take(l, g->result[k], g->param[i])) continue;
      l->target[value_index(l, g->result[k])] = (uint32_t)i;
      l->code->donated[i] = true;
      break;
    }
  }
}

/* ---- parts of wholes that are made in their places */
static bool has_place(const Lower *l, TsVal v) {
  return place_of(l, v)->known || l->target[value_index(l, v)] != TS_CODE_NONE;
}

/* Kernels write as they were made for, and read so what jit/build.c chose to lie with strides.
 * Of the VM's handlers those of pointwise rows write with strides. */
static int may_be_part(void *arg, const TsPart *p) {
  const Lower *l = arg;
  const TsFusedGroup *u = fused_group(l, p->v->node);
  const unsigned char *spread = l->fusion ? l->fusion->sched->spread : NULL;
  if (has_place(l, p->v) || has_place(l, (TsVal)(uintptr_t)&p->whole->out[0])) return 0;
  if (p->dense) return !u || !u->group->turned;
  if (l->fusion && !(spread && spread[p->v->node->id])) return 0;
  return u ? 2 : row_of(p->v->node)->cls == TS_CLASS_POINTWISE;
}

/* ---- instructions */
static uint32_t new_value(Lower *l, TsVal v) {
  Place *p = place_of(l, v);
  TsTensor *layout = NULL;
  uint32_t over = l->target[value_index(l, v)];
  if (over == TS_CODE_NONE) over = ts_rooms_of(&l->rooms, l->code, v, v->node->line, &layout);
  p->reg = ts_code_register(l->code, &v->meta);
  p->layout = layout ? layout : ts_tensor_symbol(l->c, &v->meta, NULL);
  if (over != TS_CODE_NONE && !l->code->failed) {
    l->code->reg[p->reg].kind = TS_REG_into;
    l->code->reg[p->reg].of = over;
  }
  return p->reg;
}

/* A row-major copy of v in a register of its own. */
static int put_clone(Lower *l, TsVal v, int line, Place *out) {
  uint32_t from = place_of(l, v)->reg;
  out->reg = ts_code_register(l->code, &v->meta);
  out->layout = ts_tensor_symbol(l->c, &v->meta, NULL);
  ts_code_add(l->code, TS_OP_clone, 1, &from, 0, NULL, 1, &out->reg, line);
  return out->layout ? 0 : -1;
}

/* The view's strides, or false if the elements would have to be copied. */
static bool view_layout(Lower *l, const TsNode *n, TsTensor *from, TsTensor **out) {
  TsTensor *in[TS_MAX_IN] = {from, from};
  TsCall call = {.ctx = l->c,
                 .op = (TsOp)n->op,
                 .nin = n->nin,
                 .nout = 1,
                 .in = in,
                 .out = out,
                 .attr = n->attr};
  *out = NULL;
  int failed = ts_vm_handler[n->op](&call);
  if (!failed && (*out)->storage == from->storage) return true;
  if (!failed) ts_tensor_unref(*out);
  ts_error_clear(&l->c->err);
  *out = NULL;
  return false;
}

static int put_view(Lower *l, const TsNode *n) {
  Place from = *place_of(l, n->in[0]), *to = &l->place[l->start[n->id]];
  TsTensor *layout;
  if (!view_layout(l, n, from.layout, &layout)) {
    Place copy = {0};
    if (put_clone(l, n->in[0], n->line, &copy)) return -1;
    bool fits = view_layout(l, n, copy.layout, &layout);
    ts_tensor_unref(copy.layout);
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
  return 0;
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

static int put_subs(Lower *l, const TsNode *n, TsInstr *i) {
  int at = (int)(i - l->code->instr);
  for (int k = 0; k < n->nregion; k++) {
    TsCode *sub = ts_lower_fused(l->c, n->region[k], NULL, l->all);
    if (!sub) return -1;
    uint32_t s = ts_code_sub(l->code, sub);
    if (k == 0) l->code->instr[at].sub = s;
  }
  return 0;
}

static int put_node(Lower *l, const TsNode *n) {
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
  if (!i) return no_memory(l);
  if (n->op == TS_NODE_custom) return ts_code_ref(l->code, i, n->ref);
  return n->nregion ? put_subs(l, n, i) : 0;
}

static int lower_node(Lower *l, const TsNode *n) {
  if (n->op == TS_NODE_param || l->place[l->start[n->id]].known || is_joined(l, n)) return 0;
  if (n->op == TS_NODE_cotangent) TS_BUG("a cotangent is left in %s", l->g->name);
  l->code->backward = n->backward;
  return is_view(n) ? put_view(l, n) : put_node(l, n);
}

/* ---- groups: in a row, with equal attributes, steps of one optimiser in place, or casts of
 * parameters on a device */
static bool same_attrs(const TsNode *a, const TsNode *b) {
  for (int i = 0; i < a->nattr; i++)
    if (a->attr[i].type != b->attr[i].type || a->attr[i].i != b->attr[i].i) return false;
  return true;
}

static bool is_gathered(const Lower *l, const TsNode *n) {
  int k = l->fusion ? l->fusion->sched->of[n->id] : -1;
  return k >= 0 && ts_sched_gathered(l->fusion->sched, l->fusion->sched->group[k]);
}

static bool groups(const Lower *l, const TsNode *n) {
  if (is_gathered(l, n)) return true;
  if (!row_of(n) || !ts_optim_groups((TsOp)n->op)) return false;
  for (int i = 0; i < n->nout; i++)
    if (l->target[l->start[n->id] + i] == TS_CODE_NONE) return false;
  return true;
}

/* The last place of the group that begins at this one, which is itself where there is none. */
static int group_end(const Lower *l, int at) {
  const TsNode *first = l->g->node[l->order[at]];
  int end = at;
  if (!groups(l, first)) return at;
  for (int k = at + 1; k < l->norder; k++) {
    const TsNode *n = l->g->node[l->order[k]];
    if (n->op != first->op || n->nin != first->nin || n->nout != first->nout || !groups(l, n) ||
        !same_attrs(n, first))
      break;
    end = k;
  }
  return end;
}

/* A register for v with its third and second last axes exchanged. */
static uint32_t turned_value(Lower *l, TsVal v, TsMeta *m) {
  int nd = v->meta.ndim;
  *m = v->meta;
  m->dim[nd - 3] = v->meta.dim[nd - 2], m->dim[nd - 2] = v->meta.dim[nd - 3];
  return ts_code_register(l->code, m);
}

/* v looks at that register. */
static int put_turned(Lower *l, TsVal v, const TsMeta *m, uint32_t from, int line) {
  Place *to = place_of(l, v);
  TsAttr axes[2] = {{.type = TS_ATTR_int, .i = m->ndim - 3},
                    {.type = TS_ATTR_int, .i = m->ndim - 2}};
  TsTensor *base = ts_tensor_symbol(l->c, m, NULL);
  TsCall call = {.ctx = l->c,
                 .op = TS_OP_transpose,
                 .nin = 1,
                 .nout = 1,
                 .in = &base,
                 .out = &to->layout,
                 .attr = axes};
  int failed = !base || ts_vm_handler[TS_OP_transpose](&call);
  ts_tensor_unref(base);
  if (failed) return -1;
  to->reg = ts_code_register(l->code, &v->meta);
  if (!l->code->failed) {
    l->code->reg[to->reg].kind = TS_REG_view;
    l->code->reg[to->reg].of = from;
  }
  ts_code_add(l->code, TS_OP_transpose, 1, &from, 2, axes, 1, &to->reg, line);
  return 0;
}

/* A kernel stands where the first of its nodes would. */
static int put_fused(Lower *l, const TsFusedGroup *u) {
  bool turned = u->group->turned;
  TsMeta m;
  uint32_t r[TS_SCHED_PARAMS];
  const TsNode *first = u->group->node[0];
  int nin = u->fused->nin, nout = u->fused->nout;
  for (int i = 0; i < nin; i++) r[i] = place_of(l, u->value[i])->reg;
  for (int i = nin; i < nin + nout; i++) {
    TsVal v = u->into ? (TsVal)(uintptr_t)&u->into->out[0] : u->value[i];
    r[i] = turned ? turned_value(l, v, &m) : new_value(l, v);
  }
  TsInstr *i = ts_code_add(l->code, TS_VM_fused, nin, r, 0, NULL, nout, r + nin, first->line);
  if (!i || ts_code_fused(l->code, i, u->fused)) return no_memory(l);
  return turned ? put_turned(l, u->value[nin], &m, r[nin], first->line) : 0;
}

static int lower_nodes(Lower *l) {
  int end = -1;
  for (int at = 0; at < l->norder; at++) {
    const TsNode *n = l->g->node[l->order[at]];
    const TsFusedGroup *u = fused_group(l, n);
    if (u) {
      if (n == u->group->node[0] && put_fused(l, u)) return -1;
      continue;
    }
    if (at > end && (end = group_end(l, at)) > at) {
      TsInstr *group = ts_code_add(l->code, TS_VM_group, 0, NULL, 0, NULL, 0, NULL, n->line);
      if (group) group->sub = (uint32_t)(end - at + 1);
    }
    if (lower_node(l, n)) return -1;
  }
  return 0;
}

/* ---- ends */
static int put_updates(Lower *l) {
  const TsGraph *g = l->g;
  uint32_t *from = malloc(sizeof *from * ((size_t)g->nupdate + 1));
  if (!from) return no_memory(l);
  int failed = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < g->nupdate && !failed; i++) {
      TsVal v = g->update[i].value, root = v;
      if (l->target[value_index(l, v)] == (uint32_t)g->update[i].param) continue;
      while (is_view(root->node)) root = root->node->in[0];
      Place copy = {.reg = place_of(l, v)->reg};
      /* What may change before it is copied is put aside first. */
      if (pass == 0 && root->node->op == TS_NODE_param) {
        failed = put_clone(l, v, v->node->line, &copy);
        ts_tensor_unref(copy.layout);
      }
      if (pass == 0) from[i] = copy.reg;
      if (pass == 1)
        ts_code_add(l->code, TS_VM_update, 2,
                    (uint32_t[]){place_of(l, g->param[g->update[i].param])->reg, from[i]}, 0,
                    NULL, 0, NULL, v->node->line);
    }
  }
  free(from);
  return failed;
}

static bool is_updated(const TsGraph *g, uint32_t param) {
  for (int i = 0; i < g->nupdate; i++)
    if ((uint32_t)g->update[i].param == param) return true;
  return false;
}

/* The registers of the results, before parameters get their new values. */
static int put_results(Lower *l, uint32_t *r) {
  const TsGraph *g = l->g;
  int failed = 0;
  for (int i = 0; i < g->nresult && !failed; i++) {
    Place copy = *place_of(l, g->result[i]);
    uint32_t root = copy.reg;
    while (!l->code->failed && l->code->reg[root].kind == TS_REG_view)
      root = l->code->reg[root].of;
    /* Constants stay ours, and what a region was given its caller's. */
    int kind = l->code->failed ? TS_REG_slab : l->code->reg[root].kind;
    bool param = kind == TS_REG_param && (l->code->region || is_updated(g, root));
    if (kind == TS_REG_const || param) {
      failed = put_clone(l, g->result[i], 0, &copy);
      ts_tensor_unref(copy.layout);
    }
    r[i] = copy.reg;
  }
  return failed;
}

static int put_end(Lower *l) {
  uint32_t *r = malloc(sizeof *r * ((size_t)l->g->nresult + 1));
  int failed = r ? put_results(l, r) || put_updates(l) : no_memory(l);
  if (!failed && ts_code_finish(l->code, l->g->nresult, r)) failed = no_memory(l);
  free(r);
  return failed;
}

static int put_params(Lower *l) {
  const TsGraph *g = l->g;
  for (int i = 0; i < g->nparam; i++) {
    TsTensor *bound = g->bound[i] == TS_GRAPH_UNBOUND ? NULL : g->bound[i];
    Place *p = place_of(l, g->param[i]);
    p->reg = ts_code_param(l->code, &g->param[i]->meta, bound);
    p->layout = bound ? ts_tensor_ref(bound) : ts_tensor_symbol(l->c, &g->param[i]->meta, NULL);
    if (!p->layout) return -1;
  }
  return 0;
}

static int put_places(Lower *l) {
  const TsUnit *u = l->g->unit;
  l->code->nrandom = u->nrandom;
  l->code->region = l->g->parent != NULL;
  if (!(l->code->place = calloc((size_t)u->nplace + 1, sizeof *l->code->place)))
    return no_memory(l);
  for (; l->code->nplace < u->nplace; l->code->nplace++)
    if (!(l->code->place[l->code->nplace] = strdup(u->place[l->code->nplace])))
      return no_memory(l);
  return 0;
}

static int open_lower(Lower *l) {
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

static void close_lower(Lower *l) {
  for (int i = 0; l->place && i < l->nplace; i++) {
    ts_tensor_unref(l->place[i].layout);
    ts_tensor_unref(l->place[i].known);
  }
  free(l->start);
  free(l->last_use);
  free(l->order);
  free(l->when);
  free(l->live);
  ts_rooms_close(&l->rooms);
  free(l->place);
  free(l->target);
}

static int lower_all(Lower *l) {
  const TsGraph *g = l->g;
  if (put_params(l) || put_places(l)) return -1;
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (!l->live[i]) continue;
    if (n->op == TS_NODE_number ? number(l, n) : is_constant(l, n) && hoist(l, n)) return -1;
  }
  if (enter_constants(l)) return -1;
  find_order(l);
  find_last_uses(l);
  find_targets(l);
  find_donations(l);
  if (ts_rooms_open(&l->rooms, l->c, g, may_be_part, l) || lower_nodes(l)) return -1;
  return put_end(l) ? -1 : 0;
}

TsCode *ts_lower(TsContext *c, const TsGraph *g) { return ts_lower_donating(c, g, NULL); }

TsCode *ts_lower_donating(TsContext *c, const TsGraph *g, const bool *donated) {
  return ts_lower_fused(c, g, donated, NULL);
}

TsCode *ts_lower_fused(TsContext *c, const TsGraph *g, const bool *donated,
                       const TsFusion *fusion) {
  Lower l = {
      .c = c, .g = g, .donated = donated, .fusion = ts_fusion_of(fusion, g), .all = fusion};
  TsCapture *capture = c->capture; /* constants are computed, not captured */
  c->capture = NULL;
  c->no_grad++;
  int failed = open_lower(&l) || lower_all(&l) || ts_code_plan(l.code, &c->err) ||
               ts_code_verify(l.code, &c->err);
  c->capture = capture;
  c->no_grad--;
  close_lower(&l);
  if (!failed) return l.code;
  ts_code_free(l.code);
  return NULL;
}
