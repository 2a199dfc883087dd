/* Gradients of attention of 16-bit floats where no matrix unit makes them, or none may (profile
 * strict): widened, by the kernel for f32 (ir/sched/attention_grad.c), rounded at the end. That is
 * the definition of vm/drive/attention_grad.c, so the bits are the VM's. */
#include "ir/graph/graph.h"
#include "ir/lower/steps.h"

enum { INPUTS = 7, RESULTS = 3 };

/* The node in f32, by itself in a graph. */
typedef struct Wide {
  TsGraph *g;
  TsSched *s;
  TsVal in[INPUTS], out[RESULTS];
} Wide;

static bool make(Wide *w, const TsNode *n, const TsTarget *target, TsError *err) {
  int nout = 0;
  if (!(w->g = ts_graph_new("wide", err))) return false;
  w->g->apart = true;
  for (int i = 0; i < n->nin; i++) {
    if (!n->in[i]) continue;
    TsMeta m = n->in[i]->meta;
    m.dtype = TS_DT_f32, m.weak = m.device = 0;
    if (!(w->in[i] = ts_graph_param(w->g, &m, NULL, NULL))) return false;
  }
  return ts_graph_emit(w->g, (TsOp)n->op, n->nin, w->in, n->attr, w->out, &nout) &&
         !ts_graph_results(w->g, nout, w->out) && (w->s = ts_sched_new(w->g, target, 1, err));
}

static int from(TsVal const *list, int n, TsVal v) {
  for (int i = 0; i < n; i++)
    if (list[i] && list[i] == v) return i;
  return -1;
}

/* The kernel over copies in f32, whose results are rounded into the node's. */
static bool put(TsSteps *x, const Wide *w, const TsNode *n, TsSchedKernel *k) {
  int arg[INPUTS + RESULTS], temp[RESULTS], found = 0;
  TS_ASSERT(!k->nguard && !k->ndraw);
  if (k->tile->nparam > INPUTS + RESULTS) return ts_tile_free(k->tile), false;
  for (int i = 0; i < k->tile->nparam; i++) {
    int in = from(w->in, INPUTS, k->value[i]), to = from(w->out, RESULTS, k->value[i]);
    if (in < 0 && to < 0) return ts_tile_free(k->tile), false;
    if (in < 0) temp[to] = ts_steps_temp(x, ts_meta_nbytes(&w->out[to]->meta)), found++;
    arg[i] = in >= 0 ? ts_steps_in_as(x, in, NULL, TS_DT_f32) : temp[to];
  }
  if (found != RESULTS) return ts_tile_free(k->tile), false;
  ts_steps_add(x, k->tile, arg, k->dim);
  for (int i = 0; i < RESULTS; i++) {
    const TsMeta *m = &n->out[i].meta;
    TsStepsView to = {.arg = ts_steps_out(x, i, NULL), .dtype = (TsDtype)m->dtype};
    TsStepsView wide = {.arg = temp[i], .dtype = TS_DT_f32};
    ts_meta_strides(m, to.stride), ts_meta_strides(m, wide.stride);
    ts_steps_copy(x, m->ndim, m->dim, &to, &wide);
  }
  return true;
}

int ts_lower_attention_wide(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout,
                            void *arg, TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  TsDtype d = (TsDtype)n->in[0]->meta.dtype;
  Wide w = {.g = NULL};
  TsSchedKernel k = {.tile = NULL};
  if ((d != TS_DT_bf16 && d != TS_DT_f16) || n->nin != INPUTS || n->nout != RESULTS) return 0;
  bool made = make(&w, n, sched->target, err) && w.s->ngroup == 1 &&
              w.s->group[0]->kind == TS_GROUP_attention &&
              !ts_sched_lower(w.s, w.s->group[0], NULL, NULL, &k, err);
  int done = made || err->code != TS_ERR_memory ? 0 : -1;
  if (made) {
    TsSteps x;
    ts_steps_begin(&x, sched, layout, arg, n, err);
    made = put(&x, &w, n, &k);
    done = ts_steps_end(&x, out);
    if (done == 1 && !made) ts_tile_free(out->tile), out->tile = NULL, done = 0;
  }
  ts_sched_free(w.s);
  if (w.g) ts_graph_free(w.g);
  if (!done) ts_error_clear(err);
  return done;
}
