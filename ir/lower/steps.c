/* See ir/lower/steps.h. */
#include "ir/lower/steps.h"

#include <string.h>

#include "ir/graph/graph.h"
#include "ir/lower/short.h"

/* Arguments until the end: inputs from 0, results from here on; temporaries are negative. */
enum { RESULT = 1 << 16, NOTHING = 1 << 20 };

static int fail(TsSteps *x) {
  if (!x->failed && !x->err->code) ts_error_set(x->err, TS_ERR_memory, "out of memory");
  x->failed = true;
  return NOTHING;
}

bool ts_steps_begin(TsSteps *x, const TsSched *s, TsLayoutFn *layout, void *arg,
                    const TsNode *n, TsError *err) {
  *x = (TsSteps){
      .s = s, .layout = layout, .layout_arg = arg, .n = n, .err = err, .kernel.tile = NULL};
  x->whole = ts_tile_new(ts_node_name(n));
  if (!x->whole || !(x->parts = ts_tile_parts(x->whole))) fail(x);
  return !x->failed;
}

/* ---- where values lie */
static void strides_of(const TsSteps *x, TsVal v, int64_t *stride) {
  int64_t step = 1;
  if (x->layout && x->layout(x->layout_arg, v, stride)) return;
  for (int i = v->meta.ndim; i-- > 0; step *= v->meta.dim[i]) stride[i] = step;
}

static int axis_at(int i, const TsStepsOrder *order) { return order ? order->at[i] : i; }

TsStepsOrder ts_steps_last(const TsMeta *m, int axis) {
  TsStepsOrder o = {{0}};
  for (int i = 0; i < m->ndim; i++) o.at[i] = i == m->ndim - 1 ? axis : i < axis ? i : i + 1;
  return o;
}

static bool lies_so(const TsSteps *x, TsVal v, const TsStepsOrder *order) {
  int64_t stride[TS_MAX_RANK], step = 1;
  strides_of(x, v, stride);
  for (int i = v->meta.ndim; i-- > 0;) {
    int at = axis_at(i, order);
    if (v->meta.dim[at] > 1 && stride[at] != step) return false;
    step *= v->meta.dim[at];
  }
  return true;
}

static TsTileType memory_of(const TsSteps *x, TsVal v) {
  TsTileType t = ts_tile_type((TsDtype)v->meta.dtype, v->meta.ndim, v->meta.dim);
  int64_t stride[TS_MAX_RANK];
  t.strided = !lies_so(x, v, NULL);
  if (!t.strided) return t;
  strides_of(x, v, stride);
  memcpy(t.stride, stride, sizeof *stride * v->meta.ndim);
  return t;
}

/* ---- copies: a schedule of one cast that changes nothing, between memory that lies as given */
typedef struct Copy {
  TsVal from, to;
  int64_t from_stride[TS_MAX_RANK], to_stride[TS_MAX_RANK];
} Copy;

static bool layout_of_copy(void *arg, TsVal v, int64_t *stride) {
  const Copy *c = arg;
  const int64_t *known = v == c->from ? c->from_stride : v == c->to ? c->to_stride : NULL;
  if (known) memcpy(stride, known, sizeof *known * v->meta.ndim);
  return known != NULL;
}

static int copy_kernel(TsSteps *x, const TsMeta *m, Copy *c, TsSchedKernel *k) {
  TsMeta bits = *m;
  bits.dtype = (uint8_t)ts_short_bits((TsDtype)m->dtype), bits.weak = bits.device = 0;
  TsAttr to = ts_b_dtype((TsDtype)bits.dtype);
  TsGraph *g = ts_graph_new("copy", x->err);
  if (!g) return -1;
  g->apart = true;
  c->from = ts_graph_param(g, &bits, NULL, NULL);
  TsVal y = NULL;
  int n = 0, failed = !c->from || !ts_graph_emit(g, TS_OP_cast, 1, &c->from, &to, &y, &n);
  c->to = y;
  if (!failed) failed = ts_graph_results(g, 1, &y);
  TsSched *s = failed ? NULL : ts_sched_new(g, x->s->target, 1, x->err);
  if (!s || s->ngroup != 1) failed = -1;
  if (!failed) failed = ts_sched_lower(s, s->group[0], layout_of_copy, c, k, x->err);
  ts_sched_free(s);
  ts_graph_free(g);
  return failed ? -1 : 0;
}

/* From one argument to another, of which one lies as v does, the other row-major in that order. */
static void add_copy(TsSteps *x, TsVal v, const TsStepsOrder *order, int from, int to,
                     bool back) {
  Copy c = {.from = NULL};
  TsSchedKernel k = {.tile = NULL};
  TsMeta m = v->meta;
  int64_t stride[TS_MAX_RANK], *own = back ? c.to_stride : c.from_stride,
                               *other = back ? c.from_stride : c.to_stride, step = 1;
  strides_of(x, v, stride);
  for (int i = m.ndim; i-- > 0; step *= m.dim[i]) {
    int at = axis_at(i, order);
    m.dim[i] = v->meta.dim[at], own[i] = stride[at], other[i] = step;
  }
  if (x->failed || copy_kernel(x, &m, &c, &k)) {
    fail(x);
    return;
  }
  ts_steps_add(x, k.tile, (int[]){from, to}, k.dim);
}

/* ---- arguments */
static int param(TsVal *list, int *n, TsVal v) {
  for (int i = 0; i < *n; i++)
    if (list[i] == v) return i;
  list[*n] = v;
  return (*n)++;
}

int ts_steps_in(TsSteps *x, int i, const TsStepsOrder *order) {
  TsVal v = i < x->n->nin ? x->n->in[i] : NULL;
  if (x->failed || !v || x->nin == TS_TILE_PART_PARAMS) return fail(x);
  int own = param(x->in, &x->nin, v);
  if (lies_so(x, v, order)) return own;
  int copy = ts_steps_temp(x, ts_meta_nbytes(&v->meta));
  add_copy(x, v, order, own, copy, false);
  return copy;
}

int ts_steps_out(TsSteps *x, int i, const TsStepsOrder *order) {
  TsVal v = i < x->n->nout ? (TsVal)&x->n->out[i] : NULL;
  if (x->failed || !v || x->nout == TS_TILE_PART_PARAMS) return fail(x);
  int own = RESULT + param(x->out, &x->nout, v);
  if (lies_so(x, v, order)) return own;
  int copy = ts_steps_temp(x, ts_meta_nbytes(&v->meta));
  x->back[x->nback] = (struct TsStepsBack){.from = copy, .turned = order != NULL, .to = v};
  if (order) x->back[x->nback].order = *order;
  x->nback++;
  return copy;
}

int ts_steps_temp(TsSteps *x, int64_t nbytes) {
  return x->failed ? NOTHING : ts_tile_parts_temp(x->parts, nbytes ? nbytes : 1, false);
}

void ts_steps_add(TsSteps *x, TsTile *k, const int *arg, const int64_t *dim) {
  bool known = k && !x->failed;
  for (int i = 0; known && i < k->nparam; i++) known = arg[i] != NOTHING;
  if (known && x->s->target) k->target = x->s->target->name;
  if (!known) {
    ts_tile_free(k);
    fail(x);
  } else if (k->failed || !ts_tile_parts_add(x->parts, k, arg, dim)) {
    fail(x);
  }
}

void ts_steps_guard(TsSteps *x, int i) {
  if (x->failed || x->kernel.nguard == TS_SCHED_GUARDS) return;
  x->kernel.guard[x->kernel.nguard++] =
      (TsSchedGuard){param(x->in, &x->nin, x->n->in[i]), x->n};
}

/* ---- the end */
static void put_params(TsSteps *x) {
  for (int i = 0; i < x->nin + x->nout; i++) {
    TsVal v = i < x->nin ? x->in[i] : x->out[i - x->nin];
    TsTileType t = memory_of(x, v);
    if (!ts_tile_param(x->whole, v->name, &t, i >= x->nin)) fail(x);
    x->kernel.value[i] = v;
  }
  for (int i = 0; i < x->parts->n; i++) {
    TsTilePart *p = &x->parts->part[i];
    for (int a = 0; a < p->k->nparam; a++)
      if (p->arg[a] >= RESULT) p->arg[a] += x->nin - RESULT;
  }
}

/* The only step has the parameters of the whole, in their order. */
static bool is_single(const TsSteps *x) {
  const TsTilePart *p = &x->parts->part[0];
  if (x->parts->n != 1 || x->parts->ntemp || p->k->nparam != x->nin + x->nout) return false;
  for (int a = 0; a < p->k->nparam; a++)
    if (p->arg[a] != a) return false;
  return true;
}

int ts_steps_end(TsSteps *x, TsSchedKernel *out) {
  for (int i = 0; i < x->nback && !x->failed; i++) {
    const struct TsStepsBack *b = &x->back[i];
    add_copy(x, b->to, b->turned ? &b->order : NULL, b->from,
             RESULT + param(x->out, &x->nout, b->to), true);
  }
  if (!x->failed) put_params(x);
  if (x->failed || x->whole->failed) {
    ts_tile_free(x->whole);
    fail(x);
    return ts_lower_refused(x->err);
  }
  *out = x->kernel;
  out->function = x->s->g->name;
  out->tile = x->whole;
  if (!is_single(x)) return 1;
  const TsTilePart *p = &x->parts->part[0];
  memcpy(out->dim, p->dim, sizeof out->dim);
  out->tile = ts_tile_share(p->k);
  ts_tile_free(x->whole);
  return 1;
}

TsStepsAxis ts_steps_axis(const TsMeta *m, int64_t axis) {
  TsStepsAxis a = {(int)(axis < 0 ? axis + m->ndim : axis), 1, 1, 1};
  for (int i = 0; i < m->ndim; i++)
    *(i < a.at ? &a.outer : i == a.at ? &a.n : &a.inner) *= m->dim[i];
  return a;
}
