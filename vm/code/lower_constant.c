/* Constants: what of a graph depends on no parameter is computed once, while it is lowered. See
 * vm/code/lower.c. */
#include <stdlib.h>

#include "vm/code/lower_state.h"
#include "vm/core/trap.h"

enum { MOST_CONSTANT = 16 << 20 /* bytes of a hoisted constant */ };

static bool constant_inputs(const TsLowering *l, const TsNode *n) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && !place_of(l, n->in[i])->known) return false;
  return true;
}

/* Results that are views of one value shall share bytes, and those of constants stay ours: the
 * value is made by every run then. */
static bool is_shared(const TsGraph *g, const TsNode *n) {
  int seen = 0;
  for (int i = 0; i < g->nresult; i++) {
    const TsNode *r = g->result[i]->node;
    while (r != n && is_view(r)) r = r->in[0]->node;
    seen += r == n;
  }
  return seen > 1;
}

static bool is_constant(const TsLowering *l, const TsNode *n) {
  const TsOpInfo *o = row_of(n);
  return o && o->cls != TS_CLASS_RANDOM && constant_inputs(l, n) &&
         node_nbytes(n) <= MOST_CONSTANT && !is_shared(l->g, n);
}

static int trap_constant(TsLowering *l, const TsNode *n, TsTensor *const *in, int nout,
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

static int hoist(TsLowering *l, const TsNode *n) {
  TsTensor *in[TS_MAX_IN] = {NULL},
           **v = n->nin <= TS_MAX_IN ? in : malloc(sizeof *v * (size_t)n->nin);
  TsTensor *out[TS_MAX_VARIADIC];
  int nout = 0;
  if (!v) return no_memory(l);
  for (int i = 0; i < n->nin; i++) v[i] = n->in[i] ? place_of(l, n->in[i])->known : NULL;
  int failed = ts_vm_call(l->c, (TsOp)n->op, n->nin, v, n->attr, TS_MAX_VARIADIC, &nout, out);
  /* The call does not know of which pass it is. */
  if (!failed && l->was.trap) failed = trap_constant(l, n, v, nout, out);
  if (v != in) free(v);
  if (failed && n->as) ts_op_error_of(&l->c->err, ts_op_info((TsOp)(n->as - 1))->name);
  if (failed && *ts_graph_where(n)) ts_error_where(&l->c->err, l->g->name, ts_graph_where(n));
  for (int i = 0; i < nout && !failed; i++) l->place[l->start[n->id] + i].known = out[i];
  return failed;
}

static int number(TsLowering *l, const TsNode *n) {
  TsLoweringPlace *p = &l->place[l->start[n->id]];
  return (p->known = ts_tensor_number(l->c, n->number)) ? 0 : -1;
}

/* Registers of constants come before all others, so they are entered when every constant
 * is known: those that a live node or a result reads. */
static int enter_constants(TsLowering *l) {
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
  return l->code->failed ? no_memory(l) : 0;
}

int ts_lower_constants(TsLowering *l) {
  const TsGraph *g = l->g;
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (!l->live[i]) continue;
    if (n->op == TS_NODE_number ? number(l, n) : is_constant(l, n) && hoist(l, n)) return -1;
  }
  return enter_constants(l);
}
