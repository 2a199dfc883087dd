/* See ir/sched/epilogue.h. */
#include "ir/sched/epilogue.h"

#include <string.h>

#include "ir/tile/tile.h"
#include "ir/tile/gpu/quick.h"

enum {
  ALIGN = 8,     /* elements of 16 bytes */
  MOST_OWN = 8,  /* nodes behind a product */
  MOST_READ = 6, /* tensors that they read */
  LONG = 8192,
  FEW = 16 /* rows of a product that waits for memory */
};

static bool is_half(const TsMeta *m) { return m->dtype == TS_DT_bf16 || m->dtype == TS_DT_f16; }

static int64_t last(const TsMeta *m) { return m->dim[m->ndim - 1]; }

static bool reads_alone(const TsMeta *y) { return ts_meta_numel(y) <= FEW * last(y); }

/* Products of 8 bits have a kernel with roles alone. */
static bool has_eight(const TsTarget *t) { return ts_target_has(t, TS_UNIT_roles); }

bool ts_sched_epilogue_begins(const TsTarget *target, const TsNode *n) {
  if (!ts_target_gpu(target) || n->op != TS_OP_matmul || n->nin < 2) return false;
  const TsMeta *a = &n->in[0]->meta, *b = &n->in[1]->meta, *y = &n->out[0].meta;
  bool eight = ts_dtypes[a->dtype].nbytes == 1 && ts_dtype_is((TsDtype)a->dtype, TS_KIND_F);
  if (a->dtype != b->dtype || (eight && !has_eight(target)) ||
      (eight ? !is_half(y) && y->dtype != TS_DT_f32 : !is_half(y) || a->dtype != y->dtype))
    return false;
  if (a->ndim < 2 || b->ndim < 2 || y->ndim < 2) return false;
  int64_t k = last(a), cols = last(b);
  if (eight && n->in[1]->node->op != TS_OP_transpose && n->in[1]->node->op != TS_OP_permute)
    return false; /* columns of B must lie along k */
  return k > 0 && cols > 0 && k % (eight ? 2 * ALIGN : ALIGN) == 0 && cols % ALIGN == 0 &&
         ts_meta_numel(b) == k * cols && ts_meta_numel(y) == ts_meta_numel(a) / k * cols;
}

static const TsNode *product_of(const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++)
    if (g->node[i]->op == TS_OP_matmul) return g->node[i];
  return NULL;
}

static bool made_in(const TsGroup *g, TsVal v) {
  for (int i = 0; i < g->nnode; i++)
    if (&g->node[i]->out[0] == v) return true;
  return false;
}

/* Something that lies as the result does, or along its columns, or a number. */
static bool can_read(const TsGroup *g, const TsMeta *y, TsVal v) {
  const TsMeta *m = &v->meta;
  if (v->node->op == TS_NODE_number || made_in(g, v)) return true;
  if (ts_sched_root(v) != v || ts_sched_is_view(v->node)) return false;
  if (ts_meta_numel(m) == 1) return m->dtype == TS_DT_f32;
  if (!is_half(m) && m->dtype != TS_DT_f32) return false;
  return ts_meta_same_shape(m, y) || (m->ndim == 1 && m->dim[0] == last(y));
}

/* What takes long holds up the threads that multiply, but where products take longer still. */
static bool is_light(const TsNode *n) {
  TsDtype d = (TsDtype)n->out[0].meta.dtype;
  return n->op == TS_OP_cast || ts_op_info((TsOp)n->op)->code <= 2 ||
         ts_gpu_quick_has(n->op, d);
}

static int tensors_read(const TsGroup *g) {
  int n = 0;
  for (int i = 0; i < g->nnode; i++)
    for (int k = 0; k < g->node[i]->nin; k++) {
      TsVal v = g->node[i]->in[k];
      n += v && v->node->op != TS_NODE_number && !made_in(g, v);
    }
  return n;
}

static bool same_types(const TsMeta *y, const TsMeta *m, bool eight, bool cast) {
  if (!eight && !is_half(y)) return false;
  return m->dtype == y->dtype || cast || (eight && is_half(m));
}

bool ts_sched_epilogue_takes(const TsGroup *g, const TsNode *n, TsWhy *w) {
  const TsNode *p = product_of(g);
  if (!p) return ts_why_not(w, TS_WHY_unit_types, 0, 0);
  if (g->nnode > MOST_OWN) return ts_why_not(w, TS_WHY_unit_nodes, MOST_OWN, 0);
  if (n->nout != 1 || n->op >= TS_OP_COUNT) return ts_why_not(w, TS_WHY_unit_kind, 0, 0);
  const TsMeta *y = &p->out[0].meta, *m = &n->out[0].meta;
  bool eight = ts_dtypes[p->in[0]->meta.dtype].nbytes == 1;
  bool cast = eight && n->op == TS_OP_cast && is_half(m);
  if (!cast && ts_op_info((TsOp)n->op)->cls != TS_CLASS_POINTWISE)
    return ts_why_not(w, n->op == TS_OP_cast ? TS_WHY_unit_types : TS_WHY_unit_kind, 0, 0);
  if (!same_types(y, m, eight, cast)) return ts_why_not(w, TS_WHY_unit_types, 0, 0);
  if (!ts_meta_same_shape(m, y)) {
    *w = ts_why(TS_WHY_extents, 0, 0);
    w->naxis = y->ndim < TS_TILE_RANK ? y->ndim : TS_TILE_RANK;
    memcpy(w->axis, y->dim, sizeof *y->dim * (size_t)w->naxis);
    return false;
  }
  if (ts_sched_draws(n)) return ts_why_not(w, TS_WHY_draws, 0, 0);
  int64_t depth = last(&p->in[0]->meta);
  if (!is_light(n) && depth < LONG && !reads_alone(y))
    return ts_why_not(w, TS_WHY_unit_heavy, depth, LONG);
  for (int i = 0; i < n->nin; i++)
    if (!n->in[i] || !can_read(g, y, n->in[i])) return ts_why_not(w, TS_WHY_unit_operand, 0, 0);
  if (tensors_read(g) + n->nin > MOST_READ)
    return ts_why_not(w, TS_WHY_unit_reads, MOST_READ, 0);
  return true;
}
