/* See vm/mesh/reshard.h. */
#include "vm/mesh/reshard.h"

#include <stdlib.h>

#include "ir/adjoint/adjoint.h"
#include "ir/graph/graph.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/leaves.h"
#include "vm/mesh/parts.h"
#include "vm/mesh/planned.h"

typedef struct Mover {
  TsCustom base;
  const TsLayout *to; /* or NULL: to the device */
  int device;
} Mover;

/* What is only planned with is of no device: all of the mesh has it. */
static TsTensor *gather_plan(TsContext *c, const TsTensor *x) {
  const TsLayout *l = ts_layout_of(&x->meta);
  TsMeta m = x->meta;
  if (l && !(l = ts_layout_replicated(l->mesh, m.ndim, &c->err))) return NULL;
  m.layout = l ? l->id : 0;
  return ts_mesh_planned(c, &m);
}

static TsTensor *gathered(TsContext *c, TsTensor *x, int device) {
  if (ts_mesh_is(x)) {
    TsCollective sent = ts_collective_of_gather(&x->meta, device);
    sent.asks = "gather";
    ts_collective_note(c, &sent);
    if (ts_mesh_plans(c, 1, &x)) return gather_plan(c, x);
  }
  TsTensor *sum = NULL, *there, *y = NULL;
  if (ts_mesh_is(x) && ts_layout_of(&x->meta)->partial && !(x = sum = ts_mesh_summed(c, x)))
    return NULL;
  if ((there = ts_tensor_to(c, x, device)))
    y = there == x || ts_mesh_is(x) || there->storage == x->storage ? ts_tensor_copy(c, there)
                                                                    : ts_tensor_ref(there);
  ts_tensor_unref(there);
  ts_tensor_unref(sum);
  return y;
}

static int run(TsCustom *base, TsContext *c, int nin, TsTensor *const *in, int nout,
               const TsMeta *const *type, TsTensor **out) {
  Mover *f = (Mover *)base;
  (void)nin, (void)nout, (void)type;
  c->no_grad++;
  if (f->to) {
    ts_collective_note_move(c, &in[0]->meta, f->to, base->name);
    out[0] = ts_mesh_move(c, in[0], f->to, TS_MESH_SHARE_none);
  } else {
    out[0] = gathered(c, in[0], f->device);
  }
  c->no_grad--;
  return out[0] ? 0 : -1;
}

/* Back to where the operand lies; of summands each one gets the gradient of their sum. */
static int adjoint(TsCustom *base, TsAdjoint *a) {
  TsMeta type = *a->b->meta(a->b, a->in[0]);
  const TsLayout *l = ts_layout_of(&type);
  (void)base;
  if (!a->wanted[0] || !a->grad[0]) return 0;
  if (l && l->partial && !(l = ts_layout_summed(l, a->b->err))) return a->b->failed = true, -1;
  TsCustom *back = ts_mesh_mover(l, 0, l ? "reshard" : "gather");
  TsGraph *g = (TsGraph *)a->b; /* functions from outside are differentiated in graphs alone */
  TsAttr name = ts_b_str(back ? back->name : "");
  type.layout = l ? l->id : 0;
  TsNode *n =
      back ? ts_graph_node(g, TS_NODE_custom, 1, &a->grad[0], 0, NULL, 1, &name, 1, &type, back)
           : NULL;
  if (back) ts_custom_unref(back);
  if (!n) return a->b->failed = true, ts_error_memory(a->b->err);
  a->grad_in[0] = &n->out[0];
  return 0;
}

static void release(TsCustom *base) { free(base); }

TsCustom *ts_mesh_mover(const TsLayout *to, int device, const char *asks) {
  Mover *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  uint64_t place = to ? (uint64_t)to->id << 8 : (uint64_t)device;
  f->base = (TsCustom){.refs = 1,
                       .identity = UINT64_C(1) << 60 | place,
                       .name = asks,
                       .run = run,
                       .adjoint = adjoint,
                       .release = release};
  f->to = to, f->device = device;
  return &f->base;
}
