/* Schedules: what nodes can be part of a kernel, and how their shapes lie in its space. */
#include "ir/sched/sched.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "ir/sched/attention.h"
#include "ir/sched/conv.h"
#include "ir/sched/norm_grad.h"
#include "ir/sched/product/product.h"
#include "ir/sched/rows.h"

TsSched *ts_sched_open(const TsGraph *g, const TsTarget *target, int threads, TsError *err) {
  TsSched *s = calloc(1, sizeof *s);
  if (s) *s = (TsSched){.g = g, .target = target, .threads = threads};
  if (s && target) s->processors = target->processors;
  if (s && !(s->of = ts_arena_alloc(&s->arena, sizeof *s->of * ((size_t)g->nnode + 1)))) {
    ts_sched_free(s);
    s = NULL;
  }
  if (!s) return ts_error_memory(err), NULL;
  for (int i = 0; i < g->nnode; i++) s->of[i] = -1;
  return s;
}

TsSched *ts_sched_new(const TsGraph *g, const TsTarget *target, int threads, TsError *err) {
  TsSched *s = ts_sched_open(g, target, threads, err);
  if (!s) return NULL;
  if (!ts_sched_fuse(s, err)) {
    ts_sched_cost(s);
    return s;
  }
  ts_sched_free(s);
  return NULL;
}

void ts_sched_free(TsSched *s) {
  if (!s) return;
  for (int i = 0; i < s->ngroup; i++) free(s->group[i]->node);
  free(s->group);
  ts_arena_free(&s->arena);
  free(s);
}

bool ts_sched_is_view(const TsNode *n) {
  return n->op < TS_OP_COUNT && ts_op_info((TsOp)n->op)->cls == TS_CLASS_VIEW;
}

TsVal ts_sched_root(TsVal v) {
  for (;;) {
    const TsNode *n = v->node;
    if (n->op >= TS_OP_COUNT) return v;
    if (!ts_op_info((TsOp)n->op)->keeps_order && n->op != TS_OP_contiguous) return v;
    v = n->in[0];
  }
}

/* ---- what runs */
/* Whether it depends on a parameter, or draws: else it is computed before any run. */
static bool depends(const TsNode *n, const unsigned char *varies) {
  if (n->op == TS_NODE_param || n->nregion) return true;
  if (n->op >= TS_OP_COUNT) return n->op != TS_NODE_number;
  if (n->nout && n->out[0].graph->runs_all) return true;
  if (ts_op_info((TsOp)n->op)->cls == TS_CLASS_RANDOM) return true;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && varies[n->in[i]->node->id]) return true;
  return false;
}

unsigned char *ts_sched_runs(const TsGraph *g) {
  unsigned char *live = ts_graph_live(g), *varies = calloc((size_t)g->nnode + 1, 1);
  for (int i = 0; live && varies && i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    varies[i] = depends(n, varies);
    live[i] = live[i] && varies[i] && n->op != TS_NODE_param && !ts_sched_is_view(n);
  }
  if (!live || !varies) free(live), live = NULL;
  free(varies);
  return live;
}

/* ---- what can be part of a kernel */
bool ts_sched_handles(TsDtype d) {
  switch (d) {
  case TS_DT_bool:
  case TS_DT_u8:
  case TS_DT_i8:
  case TS_DT_i16:
  case TS_DT_i32:
  case TS_DT_i64:
  case TS_DT_f16:
  case TS_DT_bf16:
  case TS_DT_f32:
  case TS_DT_f64: return true;
  default: return false;
  }
}

static bool handled_types(const TsNode *n) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && !ts_sched_handles((TsDtype)n->in[i]->meta.dtype)) return false;
  for (int i = 0; i < n->nout; i++)
    if (!ts_sched_handles((TsDtype)n->out[i].meta.dtype) || ts_meta_numel(&n->out[i].meta) == 0)
      return false;
  return true;
}

/* A bare number beside integers must fit their type, which is the VM's to say. */
static bool numbers_fit(const TsNode *n) {
  bool number = false, whole = false;
  if (n->out[0].graph->numbers_fit) return true;
  for (int i = n->op == TS_OP_where; i < n->nin; i++) { /* its condition is no type for it */
    if (!n->in[i]) continue;
    number |= n->in[i]->meta.weak;
    whole |= !n->in[i]->meta.weak && !ts_dtype_is(n->in[i]->meta.dtype, TS_KIND_F);
  }
  return !(number && whole);
}

TsGroupKind ts_sched_kind(const TsNode *n) {
  if (n->op >= TS_OP_COUNT || !handled_types(n)) return TS_GROUP_vm;
  if (ts_sched_draws(n)) return TS_GROUP_map;
  if (!n->nin) return TS_GROUP_vm;
  if (ts_sched_is_product(n)) return TS_GROUP_matmul;
  /* Rows of one element are no axis of a space. */
  if (ts_sched_row(n)) return ts_sched_row_length(n) > 1 ? TS_GROUP_rows : TS_GROUP_vm;
  if (ts_sched_column(n)) return TS_GROUP_columns;
  if (ts_sched_is_attention(n)) return TS_GROUP_attention;
  if (n->op == TS_OP_cast) return TS_GROUP_map;
  bool pointwise = ts_op_info((TsOp)n->op)->cls == TS_CLASS_POINTWISE;
  return pointwise && n->op != TS_OP_complex && numbers_fit(n) ? TS_GROUP_map : TS_GROUP_vm;
}

TsGroupKind ts_sched_kind_in(const TsSched *s, const TsNode *n) {
  TsGroupKind kind = ts_sched_kind(n);
  const TsTarget *t = s->target;
  bool cpu = kind == TS_GROUP_vm && t && !ts_target_gpu(t);
  if (cpu && ts_sched_is_conv(n)) return TS_GROUP_conv;
  if (cpu && ts_sched_by_pairs(s, n) && ts_sched_is_large_product(n)) return TS_GROUP_matmul;
  bool gpu = kind == TS_GROUP_vm && ts_target_gpu(t) && n->op < TS_OP_COUNT;
  if (gpu && ts_sched_is_any_product(t, n)) return TS_GROUP_matmul;
  if (!gpu || !handled_types(n)) return kind;
  if (ts_sched_is_decode(n)) return TS_GROUP_attention;
  return ts_sched_norm_grad(n) ? TS_GROUP_columns : kind;
}

TsExtent ts_sched_extent(const TsGroup *group, const TsMeta *m) {
  int64_t full = 1, rows = 1, n = ts_meta_numel(m);
  bool columns = group->kind == TS_GROUP_columns;
  for (int i = 0; i < group->naxis; i++) {
    full *= group->axis[i];
    if ((i < group->naxis - group->nrow) != columns) rows *= group->axis[i];
  }
  if (n == full) return TS_EXTENT_full;
  if (group->nrow && n == rows) return TS_EXTENT_row;
  return n == 1 ? TS_EXTENT_number : TS_EXTENT_none;
}

void ts_sched_strides(TsLayoutFn *layout, void *arg, TsVal v, int64_t *stride) {
  if (!layout || !layout(arg, v, stride)) ts_meta_strides(&v->meta, stride);
}

bool ts_sched_row_major(TsLayoutFn *layout, void *arg, TsVal v) {
  int64_t stride[TS_MAX_RANK];
  return !layout || !layout(arg, v, stride) || ts_meta_row_major(&v->meta, stride);
}
