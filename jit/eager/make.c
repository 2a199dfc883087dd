/* From a form to a kernel: a graph of one node, its schedule, the group's block form. */
#include <stdlib.h>
#include <string.h>

#include "ir/graph/graph.h"
#include "ir/lower/lower.h"
#include "ir/lower/short.h"
#include "jit/build/build.h"
#include "jit/eager/state.h"
#include "jit/tune/device.h"

static int refuse(TsError *err, const char *why) {
  return ts_error_set(err, TS_ERR_value, "%s", why);
}

/* Values of the graph: by input of the form, and the node's results. */
typedef struct Making {
  const Form *f;
  TsGraph *g;
  TsVal in[OFFLOAD_IN], out[TS_MAX_OUT];
  TsText remarks;    /* of what was chosen */
  bool quick, roles; /* in: the block form is wanted; out: it is not */
  bool tuned;        /* what was measured counts */
} Making;

static bool layout_of(void *arg, TsVal v, int64_t *stride) {
  const Making *m = arg;
  for (int k = 0; k < m->f->nin + m->f->nout; k++) {
    bool input = k < m->f->nin;
    const Operand *o = input ? &m->f->in[k] : &m->f->out[k - m->f->nin];
    if ((input ? m->in[k] : m->out[k - m->f->nin]) != v) continue;
    if (o->strided) memcpy(stride, o->stride, sizeof *stride * o->meta.ndim);
    return o->strided;
  }
  return false;
}

static int build_graph(Making *m, TsError *err) {
  const Form *f = m->f;
  int nout = 0;
  if (!(m->g = ts_graph_new(ts_op_info((TsOp)f->op)->name, err))) return -1;
  m->g->apart = m->g->numbers_fit = m->g->runs_all = true;
  m->g->choice = f->choice;
  for (int i = 0; i < f->nin; i++) {
    const Operand *o = &f->in[i];
    TsMeta meta = o->meta;
    meta.device = 0;
    m->in[i] = NULL;
    if (o->kind == OPERAND_none) continue;
    bool number = o->kind == OPERAND_number;
    m->in[i] =
        number ? ts_graph_number(m->g, o->number) : ts_graph_param(m->g, &meta, NULL, NULL);
    if (!m->in[i]) return -1;
  }
  if (!ts_graph_emit(m->g, (TsOp)f->op, f->nin, m->in, f->attr, m->out, &nout)) return -1;
  if (nout != f->nout) return refuse(err, "it has other results");
  for (int i = 0; i < nout; i++) {
    const TsMeta *want = &f->out[i].meta, *have = &m->out[i]->meta;
    if (want->dtype != have->dtype || !ts_meta_same_shape(want, have))
      return refuse(err, "its results have other types");
  }
  return ts_graph_results(m->g, nout, m->out);
}

/* What each parameter of the kernel is. */
static int find_args(const Making *m, const TsSchedKernel *k, Plan *p, TsError *err) {
  const Form *f = m->f;
  p->nparam = k->tile->nparam;
  for (int i = 0; i < p->nparam; i++) {
    int found = INT8_MAX;
    for (int j = 0; j < f->nin; j++)
      if (m->in[j] == k->value[i] && i < k->tile->nin) found = j;
    for (int j = 0; j < f->nout; j++)
      if (m->out[j] == k->value[i] && i >= k->tile->nin) {
        found = -1 - j;
        p->over[j] = k->over[i - k->tile->nin];
      }
    if (found == INT8_MAX) return refuse(err, "a parameter is no operand");
    p->arg[i] = (int8_t)found;
  }
  return 0;
}

static void find_sizes(const Making *m, const TsSchedKernel *k, Plan *p) {
  p->ndim = k->tile->ndim;
  p->elements = k->elements - 1;
  p->sized = m->f->collapsed && p->ndim && !k->number[0] && !k->elements;
  p->draw = k->ndraw ? k->draw[0].dim : -1;
  for (int d = 0; d < p->ndim; d++) {
    p->dim[d] = k->dim[d];
    p->number[d] = -1, p->attr[d] = (int8_t)(k->attr[d] - 1);
    for (int j = 0; k->number[d] && j < m->f->nin; j++)
      if (m->in[j] == k->number[d]) p->number[d] = (int8_t)j;
  }
}

/* Bits `over` of the kernel are of its inputs; those of the plan of the call's. */
static void find_over(Plan *p) {
  for (int j = 0; j < OFFLOAD_OUT; j++) {
    uint64_t own = p->over[j], bits = 0;
    for (int i = 0; i < p->nparam; i++)
      if (p->arg[i] >= 0 && (own >> i & 1)) bits |= 1ull << p->arg[i];
    for (int i = 0; i < p->nparam; i++) /* read in another way as well */
      if (p->arg[i] >= 0 && !(own >> i & 1)) bits &= ~(1ull << p->arg[i]);
    p->over[j] = bits;
  }
}

/* Without a function: the VM has the words of an error. */
static void find_guards(const TsSchedKernel *k, Plan *p) {
  p->nguard = 0;
  for (int i = 0; i < k->nguard; i++) {
    int at = p->arg[k->guard[i].param];
    TsGuard g = ts_guard_of(k->guard[i].node, k->guard[i].input, "");
    if (at < 0) continue;
    p->guarded[p->nguard] = (int8_t)at;
    p->guard[p->nguard++] = g;
  }
}

static bool is_half(const Form *f) { return ts_dtypes[f->in[0].meta.dtype].nbytes == 2; }

/* What is known of the group, or of the quick ones the smallest tiles. */
static void choose(const Making *m, TsSched *s, TsGroup *g) {
  TsTuneEntry known;
  s->plain = m->quick && !is_half(m->f);
  if (m->quick)
    g->choice = (TsSchedChoice){.rows = 64, .columns = 64, .cluster = 1};
  else if (m->tuned && g->kind == TS_GROUP_matmul && !g->pinned &&
           ts_tune_device_known(ts_device_at(m->f->device), s, g, layout_of, (void *)m, &known))
    g->choice = known.choice;
}

static int lower(Making *m, const TsTarget *target, TsSchedKernel *k, TsError *err) {
  TsSched *s = ts_sched_new(m->g, target, 1, err);
  if (!s) return -1;
  s->numbers_vary = true;
  s->sizes_vary = m->f->collapsed;
  s->profile = m->f->profile;
  ts_lower_for(s, ts_device_at(m->f->device));
  TsGroup *g = s->ngroup == 1 ? s->group[0] : NULL;
  if (g) choose(m, s, g);
  if (g && !m->quick) ts_lower_settle(s, g, layout_of, m);
  if (g && g->remarks) ts_text_str(&m->remarks, g->remarks);
  int failed = g ? ts_lower_group(s, g, layout_of, m, k, err)
                 : refuse(err, "there is no kernel of this operator");
  m->roles = !failed && ts_lower_own(k);
  ts_sched_free(s);
  if (!failed && k->ndraw > 1) return refuse(err, "it draws from several streams");
  return failed;
}

/* Products have two kernels of the same bits, of which one is compiled sooner. Of 16-bit floats
 * the other one has small tiles: half the speed, a seventh of the driver's time where large
 * ones are chosen. Of wider types it is the block form: a twentieth of the code and of the
 * speed, so that only those of some 10 ms have it. */
static bool has_twin(const Making *m) {
  const double large = 4e9;
  const Form *f = m->f;
  const TsMeta *a = &f->in[0].meta;
  if (!m->roles || f->op != TS_OP_matmul || f->profile == TS_PROFILE_fast) return false;
  if (f->in[1].meta.dtype != a->dtype) return false; /* each is copied first, in both */
  double work = (double)ts_meta_numel(&f->out[0].meta) * (double)a->dim[a->ndim - 1];
  return is_half(f) ? work > large : ts_dtypes[a->dtype].nbytes >= 4 && work <= large;
}

static int lower_form(Making *m, const TsTarget *target, TsSchedKernel *k, TsError *err) {
  *k = (TsSchedKernel){.tile = NULL};
  if (!build_graph(m, err) && !lower(m, target, k, err)) return 0;
  ts_tile_free(k->tile);
  k->tile = NULL;
  return -1;
}

static bool takes_tuned(const TsOffloader *o) {
  return o->tuner && ts_tuner_mode(o->tuner) != TS_TUNE_off;
}

static int make_of_graph(TsOffloader *o, const Form *f, const TsTarget *target, bool quick,
                         Plan *p, TsError *err) {
  Making m = {.f = f, .quick = quick, .tuned = takes_tuned(o)};
  TsSchedKernel k;
  int failed = lower_form(&m, target, &k, err) || find_args(&m, &k, p, err);
  ts_offload_remarks(o, f, m.remarks.at);
  ts_text_free(&m.remarks);
  if (!failed) {
    find_sizes(&m, &k, p);
    find_over(p);
    find_guards(&k, p);
    p->twin = has_twin(&m);
    p->kernel = p->twin ? ts_offload_kernel_later(o, ts_device_at(f->device), k.tile, err)
                        : ts_offload_kernel(o, ts_device_at(f->device), k.tile, err);
  }
  ts_tile_free(k.tile);
  if (m.g) ts_graph_free(m.g);
  return failed;
}

/* One number everywhere: a size of the kernel, as no node says it. */
static void make_fill(TsOffloader *o, const Form *f, Plan *p, TsError *err) {
  TsTile *k = ts_short_fill((TsDtype)f->out[0].meta.dtype);
  p->nparam = 1, p->ndim = 2;
  p->arg[0] = -1;
  p->number[0] = -1, p->number[1] = 0;
  p->attr[0] = p->attr[1] = -1;
  p->sized = true;
  if (!k)
    ts_error_memory(err);
  else
    p->kernel = ts_offload_kernel(o, ts_device_at(f->device), k, err);
  ts_tile_free(k);
}

static bool is_fill(const Form *f) {
  return f->op == TS_OP_cast && f->in[0].kind == OPERAND_number && f->out[0].meta.ndim == 1 &&
         !f->out[0].strided;
}

static TsTile *tile_of(const TsOffloader *o, const Form *f, const TsTarget *target, TsGraph **g,
                       TsError *err) {
  Making m = {.f = f, .tuned = takes_tuned(o)};
  TsSchedKernel k;
  if (is_fill(f)) {
    TsTile *fill = ts_short_fill((TsDtype)f->out[0].meta.dtype);
    if (!fill) ts_error_memory(err);
    return fill;
  }
  int failed = lower_form(&m, target, &k, err);
  ts_text_free(&m.remarks);
  *g = m.g;
  return failed ? NULL : k.tile;
}

int ts_offload_show(TsOffloader *o, const Form *f) {
  const char *why;
  TsDevice *d = ts_device_at(f->device);
  TsError err = {0};
  TsGraph *g = NULL;
  const TsTarget *target = ts_device_target(d, &why);
  TsTile *k = target ? tile_of(o, f, target, &g, &err) : NULL;
  const char *name = ts_op_info((TsOp)f->op)->name;
  int failed = 0;
  if (k)
    failed = ts_build_kernel_text(d, NULL, k, o->level, &o->shown, &o->c->err);
  else
    ts_text_format(&o->shown, "// %s: the CPU runs it: %s\n", name,
                   target ? err.message
                   : why  ? why
                          : "the device has no kernels");
  ts_tile_free(k);
  if (g) ts_graph_free(g);
  return failed;
}

void ts_offload_make(TsOffloader *o, const Form *f, Plan *p, TsError *err) {
  const char *why;
  const TsTarget *target = ts_device_target(ts_device_at(f->device), &why);
  p->kernel = NULL, p->quick = NULL, p->twin = false, p->nquick = 0;
  p->nguard = 0, p->draw = p->elements = -1;
  memset(p->over, 0, sizeof p->over);
  if (!target)
    refuse(err, why ? why : "the device has no kernels");
  else if (is_fill(f))
    make_fill(o, f, p, err);
  else
    make_of_graph(o, f, target, false, p, err);
}

/* Launches are queued faster than they run: a few of slow ones, then the program waits. */
Plan *ts_offload_quick(TsOffloader *o, const Form *f, Plan *p) {
  enum { RUNS = 4 };
  const char *why;
  TsError err = {0};
  const TsTarget *target = ts_device_target(ts_device_at(f->device), &why);
  if (!is_half(f) && p->nquick++ >= RUNS) return NULL;
  if (p->quick || !p->twin) return p->quick;
  Plan *q = target ? calloc(1, sizeof *q) : NULL;
  if (q && make_of_graph(o, f, target, true, q, &err)) q->kernel = NULL;
  if (q && q->kernel) return p->quick = q;
  p->twin = false;
  free(q);
  return NULL;
}
