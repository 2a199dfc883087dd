/* What a group costs: bytes that it must move, arithmetic that it must do, and the larger of the
 * two times on the target. A roofline: it orders candidates, nothing depends on it. */
#include "ir/sched/sched.h"
#include "ir/sched/conv.h"
#include "ir/sched/product/product.h"

/* Of one core and of the machine; good for ratios. */
enum {
  MEMORY_GBPS = 20, /* a thread's share of what leaves the caches */
  CACHE_GBPS = 80,
  LAUNCH_NS = 200,   /* of a kernel: call and operands */
  THREADS_NS = 3000, /* waking the pool */
};

/* Nodes that are no rows count as one step. */
double ts_sched_steps(int op) { return op < TS_OP_COUNT ? ts_op_info((TsOp)op)->steps : 1; }

/* About 3 GHz: steps of a nanosecond. */
static double speed(const TsSched *s) {
  return (s->target ? s->target->vector_bytes / 4.0 : 4) * 3;
}

static double gbps(const TsSched *s, double whole) {
  return s->target && whole < (double)s->target->cache[1] ? CACHE_GBPS : MEMORY_GBPS;
}

double ts_sched_steps_of_bytes(const TsSched *s, double whole, double nbytes) {
  return nbytes / gbps(s, whole) * speed(s);
}

static double points(const TsGroup *g) {
  double n = 1;
  for (int i = 0; i < g->naxis; i++) n *= (double)g->axis[i];
  return n;
}

/* Two products of every row and key, half of them if causal, and an exponential. */
static double attention_steps(const TsNode *n) {
  const TsMeta *q = &n->in[0]->meta, *k = &n->in[1]->meta, *y = &n->out[0].meta;
  double width = (double)(q->dim[q->ndim - 1] + y->dim[y->ndim - 1]) + 24;
  double rows = (double)ts_meta_numel(q) / (double)q->dim[q->ndim - 1];
  if (n->op == TS_OP_attention_grad) width *= 2.5; /* five products, not two */
  return rows * (double)k->dim[k->ndim - 2] * width / (n->attr[0].i ? 2 : 1);
}

static double node_steps(const TsGroup *g, const TsNode *n) {
  if (g->kind == TS_GROUP_attention) return attention_steps(n);
  double most = n->nout ? (double)ts_meta_numel(&n->out[0].meta) : 0;
  if (n->op == TS_OP_matmul) return ts_sched_product_steps(n);
  if (n->op == TS_OP_conv1d || n->op == TS_OP_conv2d || n->op == TS_OP_conv3d)
    return ts_sched_conv_steps(n);
  TsGroupKind kind = ts_sched_kind(n);
  if (kind == TS_GROUP_rows || kind == TS_GROUP_columns) most = points(g);
  return most * ts_sched_steps(n->op);
}

static void cost(const TsSched *s, TsGroup *g) {
  g->bytes = g->flops = 0;
  for (int i = 0; i < g->nin; i++) g->bytes += (double)ts_meta_nbytes(&g->in[i]->meta);
  for (int i = 0; i < g->nout; i++) g->bytes += (double)ts_meta_nbytes(&g->out[i]->meta);
  for (int i = 0; i < g->nnode; i++) g->flops += node_steps(g, g->node[i]);
  double cores = s->threads > 1 && points(g) > 32768 ? s->threads : 1;
  double move = g->bytes / gbps(s, g->bytes) / cores, work = g->flops / speed(s) / cores;
  g->usec = ((move > work ? move : work) + LAUNCH_NS + (cores > 1 ? THREADS_NS : 0)) / 1000;
}

void ts_sched_cost(TsSched *s) {
  for (int i = 0; i < s->ngroup; i++) cost(s, s->group[i]);
}
