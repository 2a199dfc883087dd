/* Products whose factors are not of the type in which the VM multiplies them: two float types,
 * whole numbers beside floats, or sums in f64 of what is narrower. As there, each such factor
 * becomes that type first, a copy in the order in which it lies, and what follows is the kernel
 * of the product of one type. The copies are steps of the kernel.
 *
 * Rejected: widening where a kernel loads. Products with roles and of warps copy tiles past
 * registers, as they lie; the copies cost what reading a factor costs, which its product hides
 * wherever it has rows enough to be worth a GPU. */
#include "ir/graph/graph.h"
#include "ir/lower/steps.h"

enum { FACTORS = 2, INPUTS = 4 };

typedef struct Mixed {
  const TsNode *n;
  TsDtype d; /* of both factors, as they are multiplied */
  TsStepsOrder order[FACTORS];
  bool turned[FACTORS]; /* its rows are columns in memory */
  TsGraph *g;           /* the product by itself */
  TsSched *s;
  TsVal in[INPUTS], y;
} Mixed;

/* As vm/exec/matmul.c and vm/exec/grouped.c choose it. */
static TsDtype multiplied_in(const TsNode *n) {
  TsDtype y = (TsDtype)n->out[0].meta.dtype;
  if (y == TS_DT_f64) return y;
  return ts_dtype_promote((TsDtype)n->in[0]->meta.dtype, (TsDtype)n->in[1]->meta.dtype);
}

static bool takes(Mixed *m) {
  const TsNode *n = m->n;
  if (n->nin < FACTORS || n->nin > INPUTS || !ts_meta_numel(&n->out[0].meta)) return false;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && (n->in[i]->node->op == TS_NODE_number || !ts_meta_numel(&n->in[i]->meta)))
      return false;
  m->d = multiplied_in(n);
  bool differs = false;
  for (int i = 0; i < FACTORS; i++) {
    TsDtype d = (TsDtype)n->in[i]->meta.dtype;
    if (ts_dtype_in_blocks(d) || ts_dtype_is(d, TS_KIND_C)) return false;
    differs = differs || d != m->d;
  }
  return differs && ts_dtype_is(m->d, TS_KIND_F);
}

/* Copies keep which of the last two axes lies straight: kernels take either. */
static void find_order(Mixed *m, int i, TsLayoutFn *layout, void *arg) {
  TsVal v = m->n->in[i];
  int64_t stride[TS_MAX_RANK];
  int rank = v->meta.ndim;
  ts_sched_strides(layout, arg, v, stride);
  for (int a = 0; a < rank; a++) m->order[i].at[a] = a;
  m->turned[i] = rank > 1 && v->meta.dim[rank - 1] > 1 && v->meta.dim[rank - 2] > 1 &&
                 stride[rank - 2] == 1 && stride[rank - 1] > 1;
  if (m->turned[i]) m->order[i].at[rank - 2] = rank - 1, m->order[i].at[rank - 1] = rank - 2;
}

static bool layout_of(void *arg, TsVal v, int64_t *stride) {
  const Mixed *m = arg;
  for (int i = 0; i < FACTORS; i++) {
    int64_t step = 1;
    if (v != m->in[i] || !m->turned[i]) continue;
    for (int a = v->meta.ndim; a-- > 0;) {
      int at = m->order[i].at[a];
      stride[at] = step, step *= v->meta.dim[at];
    }
    return true;
  }
  return false;
}

/* The same product of factors of one type. */
static bool make(Mixed *m, const TsSched *s, TsError *err) {
  const TsNode *n = m->n;
  int nout = 0;
  if (!(m->g = ts_graph_new(ts_node_name(n), err))) return false;
  m->g->apart = true;
  for (int i = 0; i < n->nin; i++) {
    TsMeta meta = n->in[i] ? n->in[i]->meta : (TsMeta){0};
    if (!n->in[i]) continue;
    if (i < FACTORS) meta.dtype = (uint8_t)m->d;
    if (!(m->in[i] = ts_graph_param(m->g, &meta, NULL, NULL))) return false;
  }
  if (!ts_graph_emit(m->g, (TsOp)n->op, n->nin, m->in, n->attr, &m->y, &nout) ||
      ts_graph_results(m->g, 1, &m->y))
    return false;
  return (m->s = ts_steps_schedule(s, m->g, err)) != NULL;
}

static int operand(TsSteps *x, Mixed *m, int i) {
  if (i >= FACTORS) return ts_steps_in(x, i, NULL);
  return ts_steps_in_as(x, i, &m->order[i], m->d);
}

/* The copies, and behind them the product. */
static void put(TsSteps *x, Mixed *m, TsSchedKernel *k) {
  int arg[TS_TILE_STEP_PARAMS];
  for (int p = 0; p < k->tile->nparam; p++) {
    int i = 0;
    while (i < m->n->nin && (!m->in[i] || m->in[i] != k->value[p])) i++;
    TS_ASSERT(i < m->n->nin || k->value[p] == m->y);
    arg[p] = i < m->n->nin ? operand(x, m, i) : ts_steps_out(x, 0, NULL);
  }
  for (int i = 0; i < k->nguard; i++) ts_steps_guard(x, k->guard[i].input);
  ts_steps_add_kernel(x, k->tile, arg, k->dim);
  k->tile = NULL;
}

static int in_steps(Mixed *m, const TsSched *s, const TsGroup *group, TsLayoutFn *layout,
                    void *arg, TsSchedKernel *out, TsError *err) {
  TsSchedKernel k = {.tile = NULL};
  TsSteps x;
  if (!make(m, s, err)) return ts_lower_refused(err);
  m->s->group[0]->choice = group->choice;
  if (ts_lower_group(m->s, m->s->group[0], layout_of, m, &k, err)) return ts_lower_refused(err);
  if (!ts_steps_takes(&k)) return ts_tile_free(k.tile), 0;
  ts_steps_begin(&x, s, layout, arg, m->n, err);
  put(&x, m, &k);
  int done = ts_steps_end(&x, out);
  if (done == 1) out->told = k.told, out->took = k.took;
  return done;
}

const char *ts_lower_factors_become(const TsGroup *g) {
  Mixed m = {.n = g->node[0]};
  int op = m.n->op;
  bool product = op == TS_OP_matmul || op == TS_OP_grouped_matmul ||
                 op == TS_OP_grouped_matmul_weight_grad;
  return g->nnode == 1 && product && takes(&m) ? ts_dtypes[m.d].name : NULL;
}

int ts_lower_mixed(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg,
                   TsSchedKernel *out, TsError *err) {
  Mixed m = {.n = group->node[0]};
  if (!takes(&m)) return 0;
  for (int i = 0; i < FACTORS; i++) find_order(&m, i, layout, arg);
  int made = in_steps(&m, s, group, layout, arg, out, err);
  ts_sched_free(m.s);
  if (m.g) ts_graph_free(m.g);
  return made;
}
