/* See ir/lower/steps.h. */
#include "ir/lower/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph/graph.h"
#include "ir/lower/short.h"

/* Arguments until the end: inputs from 0, results and those that begin later from here on;
 * temporaries are negative. */
enum { RESULT = 1 << 16, FROM = 1 << 18, NOTHING = 1 << 20 };

static int fail(TsSteps *x) {
  if (!x->failed && !x->err->code) ts_error_set(x->err, TS_ERR_memory, "out of memory");
  x->failed = true;
  return NOTHING;
}

/* These operands are others than the family has kernels for. */
static int refuse(TsSteps *x) {
  if (!x->failed && !x->err->code)
    ts_error_set(x->err, TS_ERR_value, "there is no kernel for these operands");
  return fail(x);
}

bool ts_steps_begin(TsSteps *x, const TsSched *s, TsLayoutFn *layout, void *arg,
                    const TsNode *n, TsError *err) {
  *x = (TsSteps){
      .s = s, .layout = layout, .layout_arg = arg, .n = n, .err = err, .kernel.tile = NULL};
  x->whole = ts_tile_new(ts_node_name(n));
  if (!x->whole || !(x->sequence = ts_tile_sequence(x->whole))) fail(x);
  return !x->failed;
}

/* ---- where values lie */
static void strides_of(const TsSteps *x, TsVal v, int64_t *stride) {
  ts_sched_strides(x->layout, x->layout_arg, v, stride);
}

static int axis_at(int i, const TsStepsOrder *order) { return order ? order->at[i] : i; }

TsStepsOrder ts_steps_last(const TsMeta *m, int axis) {
  TsStepsOrder o = {{0}};
  for (int i = 0; i < m->ndim; i++) o.at[i] = i == m->ndim - 1 ? axis : i < axis ? i : i + 1;
  return o;
}

static bool has_layout(const TsSteps *x, TsVal v, const TsStepsOrder *order) {
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
  if (ts_dtype_in_blocks(v->meta.dtype)) /* its bytes */
    return ts_tile_vector(TS_DT_u8, ts_meta_nbytes(&v->meta));
  if (v->meta.ndim > TS_TILE_RANK) /* steps have their own view of it */
    return ts_tile_vector((TsDtype)v->meta.dtype, ts_meta_numel(&v->meta));
  TsTileType t = ts_tile_type((TsDtype)v->meta.dtype, v->meta.ndim, v->meta.dim);
  int64_t stride[TS_MAX_RANK];
  strides_of(x, v, stride);
  ts_tile_set_strides(&t, stride);
  return t;
}

/* ---- copies: the kernel of one cast, between memory that lies as given */
typedef struct Copy {
  TsVal from, to;
  const int64_t *from_stride, *to_stride;
} Copy;

static bool layout_of_copy(void *arg, TsVal v, int64_t *stride) {
  const Copy *c = arg;
  const int64_t *known = v == c->from ? c->from_stride : v == c->to ? c->to_stride : NULL;
  if (known) memcpy(stride, known, sizeof *known * v->meta.ndim);
  return known != NULL;
}

/* The element type of a copy that changes nothing is that of its bits. */
static int copy_kernel(TsSteps *x, const TsMeta *m, TsDtype d, Copy *c, TsSchedKernel *k) {
  bool moves = m->dtype == d;
  TsMeta from = *m;
  if (moves) from.dtype = (uint8_t)ts_short_bits(d);
  TsAttr to = ts_b_dtype(moves ? (TsDtype)from.dtype : d);
  TsGraph *g = ts_graph_new("copy", x->err);
  if (!g) return -1;
  g->apart = true;
  c->from = ts_graph_param(g, &from, NULL, NULL);
  TsVal y = NULL;
  int n = 0, failed = !c->from || !ts_graph_emit(g, TS_OP_cast, 1, &c->from, &to, &y, &n);
  c->to = y;
  if (!failed) failed = ts_graph_results(g, 1, &y);
  TsSched *s = failed ? NULL : ts_sched_new(g, x->s->target, 1, x->err);
  if (!s || s->ngroup != 1) failed = -1;
  if (!failed) failed = ts_lower_group(s, s->group[0], layout_of_copy, c, k, x->err);
  ts_sched_free(s);
  ts_graph_free(g);
  return failed ? -1 : 0;
}

/* Elements of 16 bytes are pairs along one more axis. */
static int halve(int ndim, int64_t *dim, TsStepsView *v) {
  for (int i = 0; i < ndim; i++) v->stride[i] *= 2;
  v->dtype = TS_DT_i64, v->stride[ndim] = 1, dim[ndim] = 2;
  return ndim + 1;
}

/* Axes of a copy in any order are the same copy: the last one is along which it writes
 * neighbours, so that they are written in whole lines (find_transposed of ir/sched/lower.c reads
 * others so). */
typedef struct CopyAxes {
  TsMeta m;
  int64_t to[TS_MAX_RANK], from[TS_MAX_RANK];
} CopyAxes;

static CopyAxes by_lines(int ndim, const int64_t *dim, const TsStepsView *to,
                         const TsStepsView *from) {
  CopyAxes a = {.m = {.dtype = (uint8_t)from->dtype}};
  for (int i = 0; i < ndim; i++) {
    int at = a.m.ndim;
    if (dim[i] == 1) continue;
    for (; at > 0 && llabs(a.to[at - 1]) < llabs(to->stride[i]); at--) {
      a.m.dim[at] = a.m.dim[at - 1];
      a.to[at] = a.to[at - 1], a.from[at] = a.from[at - 1];
    }
    a.m.dim[at] = dim[i], a.to[at] = to->stride[i], a.from[at] = from->stride[i];
    a.m.ndim++;
  }
  return a;
}

void ts_steps_copy(TsSteps *x, int ndim, const int64_t *dim, const TsStepsView *to,
                   const TsStepsView *from) {
  TsStepsView a = *from, b = *to;
  int64_t all[TS_MAX_RANK];
  bool pairs = a.dtype == b.dtype && ts_dtypes[a.dtype].nbytes == 16 && ndim < TS_MAX_RANK;
  if (ndim) memcpy(all, dim, sizeof *dim * (size_t)ndim);
  if (pairs) halve(ndim, all, &a), ndim = halve(ndim, all, &b);
  CopyAxes axes = by_lines(ndim, all, &b, &a);
  Copy c = {.from_stride = axes.from, .to_stride = axes.to};
  TsSchedKernel k = {.tile = NULL};
  if (x->failed || copy_kernel(x, &axes.m, b.dtype, &c, &k)) {
    fail(x);
    return;
  }
  ts_steps_add(x, k.tile, (int[]){a.arg, b.arg}, k.dim);
}

void ts_steps_along(TsStepsMove *m, int64_t dim, int64_t to, int64_t from) {
  m->dim[m->ndim] = dim;
  m->to.stride[m->ndim] = to, m->from.stride[m->ndim++] = from;
}

void ts_steps_move(TsSteps *x, const TsStepsMove *m) {
  ts_steps_copy(x, m->ndim, m->dim, &m->to, &m->from);
}

/* From one argument to another, of which one lies as v does, the other row-major in that
 * order and of type d. */
static void add_copy(TsSteps *x, TsVal v, const TsStepsOrder *order, TsDtype d, int from,
                     int to, bool back) {
  TsStepsView own = {.arg = back ? to : from, .dtype = (TsDtype)v->meta.dtype};
  TsStepsView other = {.arg = back ? from : to, .dtype = d};
  int64_t stride[TS_MAX_RANK], dim[TS_MAX_RANK], step = 1;
  strides_of(x, v, stride);
  for (int i = v->meta.ndim; i-- > 0; step *= dim[i]) {
    int at = axis_at(i, order);
    dim[i] = v->meta.dim[at], own.stride[i] = stride[at], other.stride[i] = step;
  }
  ts_steps_copy(x, v->meta.ndim, dim, back ? &own : &other, back ? &other : &own);
}

/* ---- arguments */
static int param(TsVal *list, int *n, TsVal v) {
  for (int i = 0; i < *n; i++)
    if (list[i] == v) return i;
  list[*n] = v;
  return (*n)++;
}

/* A bare number as n elements of type d. */
static int number_in(TsSteps *x, int i, TsDtype d, int64_t n) {
  TsMeta m = {.dtype = (uint8_t)d, .ndim = 1, .dim = {n}};
  int temp = ts_steps_temp(x, ts_meta_nbytes(&m));
  ts_steps_fill(x, temp, d, n, x->n->in[i]->node->number);
  if (x->s->numbers_vary) ts_steps_bind(x, 1, ts_steps_number(x, i));
  return temp;
}

static bool is_number(TsVal v) { return v->node->op == TS_NODE_number; }

int ts_steps_in_place(TsSteps *x, int i) {
  TsVal v = i < x->n->nin ? x->n->in[i] : NULL;
  if (x->failed || !v || x->nin == TS_TILE_STEP_PARAMS) return refuse(x);
  if (is_number(v)) return refuse(x);
  return param(x->in, &x->nin, v);
}

int ts_steps_into(TsSteps *x, int i) {
  TsVal v = i < x->n->nout ? (TsVal)&x->n->out[i] : NULL;
  if (x->failed || !v || x->nout == TS_TILE_STEP_PARAMS) return refuse(x);
  return RESULT + param(x->out, &x->nout, v);
}

int ts_steps_in_as(TsSteps *x, int i, const TsStepsOrder *order, TsDtype d) {
  TsVal v = i < x->n->nin ? x->n->in[i] : NULL;
  if (x->failed || !v || x->nin == TS_TILE_STEP_PARAMS) return refuse(x);
  if (is_number(v)) return number_in(x, i, d, ts_meta_numel(&v->meta));
  int own = param(x->in, &x->nin, v);
  if (has_layout(x, v, order) && v->meta.dtype == d) return own;
  TsMeta m = v->meta;
  m.dtype = (uint8_t)d;
  int copy = ts_steps_temp(x, ts_meta_nbytes(&m));
  add_copy(x, v, order, d, own, copy, false);
  return copy;
}

int ts_steps_in(TsSteps *x, int i, const TsStepsOrder *order) {
  TsVal v = i < x->n->nin ? x->n->in[i] : NULL;
  return ts_steps_in_as(x, i, order, v ? (TsDtype)v->meta.dtype : TS_DT_f32);
}

int ts_steps_in_spread(TsSteps *x, int i, const TsMeta *like, TsDtype d) {
  TsVal v = i < x->n->nin ? x->n->in[i] : NULL;
  if (x->failed || !v || x->nin == TS_TILE_STEP_PARAMS) return refuse(x);
  if (ts_meta_same_shape(&v->meta, like) && !is_number(v)) return ts_steps_in(x, i, NULL);
  if (is_number(v)) return number_in(x, i, d, ts_meta_numel(like));
  TsMeta m = *like;
  m.dtype = v->meta.dtype;
  int64_t stride[TS_MAX_RANK], step = 1;
  int skip = m.ndim - v->meta.ndim, copy = ts_steps_temp(x, ts_meta_nbytes(&m));
  TsStepsView from = {.arg = param(x->in, &x->nin, v), .dtype = (TsDtype)m.dtype};
  TsStepsView to = {.arg = copy, .dtype = (TsDtype)m.dtype};
  strides_of(x, v, stride);
  for (int a = m.ndim; a-- > 0; step *= m.dim[a]) {
    bool repeats = a < skip || v->meta.dim[a - skip] == 1;
    from.stride[a] = repeats ? 0 : stride[a - skip], to.stride[a] = step;
  }
  ts_steps_copy(x, m.ndim, m.dim, &to, &from);
  return copy;
}

int ts_steps_out(TsSteps *x, int i, const TsStepsOrder *order) {
  TsVal v = i < x->n->nout ? (TsVal)&x->n->out[i] : NULL;
  if (x->failed || !v || x->nout == TS_TILE_STEP_PARAMS) return refuse(x);
  int own = RESULT + param(x->out, &x->nout, v);
  if (has_layout(x, v, order)) return own;
  int copy = ts_steps_temp(x, ts_meta_nbytes(&v->meta));
  x->back[x->nback] = (struct TsStepsBack){.from = copy, .transposed = order != NULL, .to = v};
  if (order) x->back[x->nback].order = *order;
  x->nback++;
  return copy;
}

TsStepsView ts_steps_in_view(TsSteps *x, int i) {
  TsVal v = i < x->n->nin ? x->n->in[i] : NULL;
  if (x->failed || !v || x->nin == TS_TILE_STEP_PARAMS) return (TsStepsView){.arg = refuse(x)};
  TsStepsView own = {.arg = param(x->in, &x->nin, v), .dtype = (TsDtype)v->meta.dtype};
  strides_of(x, v, own.stride);
  return own;
}

TsStepsView ts_steps_out_view(TsSteps *x, int i) {
  TsVal v = i < x->n->nout ? (TsVal)&x->n->out[i] : NULL;
  if (x->failed || !v || x->nout == TS_TILE_STEP_PARAMS) return (TsStepsView){.arg = refuse(x)};
  TsStepsView own = {.arg = RESULT + param(x->out, &x->nout, v),
                     .dtype = (TsDtype)v->meta.dtype};
  strides_of(x, v, own.stride);
  return own;
}

int ts_steps_temp(TsSteps *x, int64_t nbytes) {
  return x->failed ? NOTHING : ts_tile_sequence_temp(x->sequence, nbytes ? nbytes : 1, false);
}

int ts_steps_table(TsSteps *x, const void *data, int64_t nbytes) {
  if (x->failed || !data) return fail(x);
  return nbytes ? ts_tile_sequence_table(x->sequence, data, nbytes) : ts_steps_temp(x, 1);
}

int ts_steps_from(TsSteps *x, int arg, int64_t byte) {
  if (!byte) return arg;
  TS_ASSERT(arg < FROM || arg == NOTHING); /* it begins at a byte of what others begin at 0 */
  if (x->failed || arg == NOTHING || x->nfrom == TS_STEPS_FROM) return refuse(x);
  x->from[x->nfrom] = (struct TsStepsFrom){arg, byte};
  return FROM + x->nfrom++;
}

static bool begins_later(int arg) { return arg >= FROM && arg < NOTHING; }

void ts_steps_add(TsSteps *x, TsTile *k, const int *arg, const int64_t *dim) {
  bool known = k && !x->failed;
  for (int i = 0; known && i < k->nparam; i++) known = arg[i] != NOTHING;
  if (known && x->s->target) k->target = x->s->target->name;
  if (!known) {
    ts_tile_free(k);
    fail(x);
    return;
  }
  int own[TS_TILE_STEP_PARAMS], n = k->nparam;
  for (int i = 0; i < n && i < TS_TILE_STEP_PARAMS; i++)
    own[i] = begins_later(arg[i]) ? x->from[arg[i] - FROM].arg : arg[i];
  bool whole = !k->failed;
  if (!whole) ts_tile_free(k);
  if (!whole || !ts_tile_sequence_add(x->sequence, k, own, dim)) return (void)fail(x);
  TsTileStep *p = &x->sequence->step[x->sequence->n - 1];
  for (int i = 0; i < n; i++)
    if (begins_later(arg[i])) p->byte[i] = x->from[arg[i] - FROM].byte;
}

void ts_steps_fill(TsSteps *x, int arg, TsDtype d, int64_t n, double v) {
  int64_t dim[2] = {n, 0};
  memcpy(&dim[1], &v, sizeof v);
  ts_steps_add(x, ts_short_fill(d), &arg, dim);
}

/* ---- sizes of the whole */
static int sized(TsSteps *x, int kind, int which) {
  for (int i = 0; i < x->nsize; i++)
    if ((int)x->size[i].kind == kind && x->size[i].which == which) return i;
  if (x->nsize == TS_TILE_DIMS) return fail(x), 0;
  x->size[x->nsize] = (struct TsStepsSize){kind, which};
  return x->nsize++;
}

int ts_steps_number(TsSteps *x, int i) { return sized(x, TS_STEPS_NUMBER, i); }
int ts_steps_elements(TsSteps *x) { return sized(x, TS_STEPS_ELEMENTS, 0); }
int ts_steps_attr(TsSteps *x, int attr) { return sized(x, TS_STEPS_ATTR, attr); }
int ts_steps_draw(TsSteps *x) {
  int seed = sized(x, TS_STEPS_SEED, 0);
  sized(x, TS_STEPS_STREAM, 0);
  return seed;
}

void ts_steps_bind(TsSteps *x, int d, int of) {
  if (x->failed) return;
  x->sequence->step[x->sequence->n - 1].of[d] = (unsigned char)(1 + of);
}

void ts_steps_guard(TsSteps *x, int i) {
  TsVal v = i < x->n->nin ? x->n->in[i] : NULL;
  if (!v || is_number(v) || x->kernel.nguard == TS_SCHED_GUARDS) {
    refuse(x);
    return;
  }
  if (x->failed) return;
  x->kernel.guard[x->kernel.nguard++] = (TsSchedGuard){param(x->in, &x->nin, v), x->n, i};
}

/* ---- the end */
static void put_params(TsSteps *x) {
  for (int i = 0; i < x->nin + x->nout; i++) {
    TsVal v = i < x->nin ? x->in[i] : x->out[i - x->nin];
    TsTileType t = memory_of(x, v);
    ts_tile_param(x->whole, v->name, &t, i >= x->nin);
    x->kernel.value[i] = v;
  }
  if (x->whole->failed) fail(x);
  for (int i = 0; i < x->sequence->n; i++) {
    TsTileStep *p = &x->sequence->step[i];
    for (int a = 0; a < p->k->nparam; a++)
      if (p->arg[a] >= RESULT) p->arg[a] += x->nin - RESULT;
  }
}

/* The only step has the parameters of the whole, in their order and as elements of their size. */
static bool is_single(const TsSteps *x) {
  const TsTileStep *p = &x->sequence->step[0];
  if (x->sequence->n != 1 || x->sequence->ntemp || p->k->nparam != x->nin + x->nout)
    return false;
  for (int a = 0; a < p->k->nparam; a++) {
    const TsTileType *own = &p->k->param[a]->type, *whole = &x->whole->param[a]->type;
    if (p->arg[a] != a || p->byte[a]) return false;
    if (ts_dtypes[own->dtype].nbytes > ts_dtypes[whole->dtype].nbytes) return false;
  }
  return true;
}

/* Size d of the kernel is number i of the whole. */
static void put_size(TsSteps *x, TsSchedKernel *out, int d, int i) {
  const struct TsStepsSize *s = &x->size[i];
  const TsAttr *seed = x->n->attr + ts_op_info((TsOp)x->n->op)->nattr - 2;
  switch (s->kind) {
  case TS_STEPS_NUMBER: out->number[d] = x->n->in[s->which]; break;
  case TS_STEPS_ATTR: out->attr[d] = (unsigned char)(1 + s->which); break;
  case TS_STEPS_ELEMENTS: out->elements = (unsigned char)(1 + d); break;
  case TS_STEPS_SEED:
    out->draw[out->ndraw].dim = d;
    memcpy(out->draw[out->ndraw++].at, seed, sizeof out->draw[0].at);
    break;
  case TS_STEPS_STREAM: break; /* behind the seed */
  }
}

/* The kernel is the only step, whose sizes stand where it has them. */
static void be_single(TsSteps *x, TsSchedKernel *out) {
  const TsTileStep *p = &x->sequence->step[0];
  memcpy(out->dim, p->dim, sizeof out->dim);
  for (int d = 0; d < p->k->ndim; d++)
    if (p->of[d]) put_size(x, out, d, p->of[d] - 1);
  out->tile = ts_tile_share(p->k);
  ts_tile_free(x->whole);
}

static void be_several(TsSteps *x, TsSchedKernel *out) {
  static const char *const name[] = {"number", "attribute", "elements", "seed", "stream"};
  for (int i = 0; i < x->nsize; i++) {
    char text[32];
    snprintf(text, sizeof text, "%s%d", name[x->size[i].kind], x->size[i].which);
    put_size(x, out, ts_tile_dim_index(ts_tile_size(x->whole, text)), i);
  }
}

int ts_steps_end(TsSteps *x, TsSchedKernel *out) {
  for (int i = 0; i < x->nback && !x->failed; i++) {
    const struct TsStepsBack *b = &x->back[i];
    add_copy(x, b->to, b->transposed ? &b->order : NULL, (TsDtype)b->to->meta.dtype, b->from,
             RESULT + param(x->out, &x->nout, b->to), true);
  }
  if (!x->failed) put_params(x);
  bool single = !x->failed && is_single(x);
  *out = x->kernel;
  if (!x->failed && !single) be_several(x, out);
  if (x->failed || x->whole->failed) {
    ts_tile_free(x->whole);
    fail(x);
    return ts_lower_refused(x->err);
  }
  out->function = x->s->g->name;
  out->tile = x->whole;
  if (single) be_single(x, out);
  return 1;
}

TsStepsAxis ts_steps_axis(const TsMeta *m, int64_t axis) {
  TsStepsAxis a = {(int)(axis < 0 ? axis + m->ndim : axis), 1, 1, 1};
  for (int i = 0; i < m->ndim; i++)
    *(i < a.at ? &a.outer : i == a.at ? &a.n : &a.inner) *= m->dim[i];
  return a;
}
