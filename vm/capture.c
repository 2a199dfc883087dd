/* Capture: operator calls as nodes. */
#include "vm/capture.h"

#include <stdlib.h>
#include <string.h>

/* A tensor from before, and its value at this point of the function. */
typedef struct Bound {
  TsTensor *t;
  TsVal value;
  int param;
  bool updated;
} Bound;

struct TsCapture {
  TsGraph *root, *g; /* g: the region that calls go into */
  Bound *bound;
  int nbound, capbound;
};

TsGraph *ts_capture_graph(TsContext *c) { return c->capture ? c->capture->g : NULL; }

static int no_memory(TsContext *c) { return ts_error_set(&c->err, TS_ERR_memory, "out of memory"); }

int ts_capture_begin(TsContext *c, const char *name) {
  TsCapture *k = calloc(1, sizeof *k);
  TS_ASSERT(!c->capture);
  if (!k || !(k->root = ts_graph_new(name, &c->err))) {
    free(k);
    return no_memory(c);
  }
  k->g = k->root;
  c->capture = k;
  return 0;
}

void ts_capture_ref(TsGraph *g) { g->unit->refs++; }

void ts_capture_release(TsGraph *g) {
  if (!g) return;
  if (g->unit->refs > 1) {
    ts_graph_free(g);
    return;
  }
  for (int i = 0; i < g->nparam; i++)
    if (g->bound[i] && g->bound[i] != TS_GRAPH_UNBOUND) ts_tensor_unref(g->bound[i]);
  ts_graph_free(g);
}

static void close_capture(TsContext *c) {
  free(c->capture->bound);
  free(c->capture);
  c->capture = NULL;
}

void ts_capture_abort(TsContext *c) {
  if (!c->capture) return;
  ts_capture_release(c->capture->root);
  close_capture(c);
}

/* The place of the call, on the nodes that it makes. */
static void mark_line(TsContext *c, TsGraph *g) {
  const char *place = c->where ? c->where(c->where_arg) : NULL;
  if (place && *place) g->line = ts_graph_place(g->unit, place);
}

TsTensor *ts_capture_symbol(TsContext *c, TsVal v) {
  return v ? ts_tensor_symbol(c, &v->meta, v) : NULL;
}

TsTensor *ts_capture_param(TsContext *c, const TsMeta *m, const char *name) {
  TsMeta plain = *m;
  plain.weak = 0, plain.device = 0;
  TsVal v = ts_graph_param(c->capture->g, &plain, name, NULL);
  return v ? ts_capture_symbol(c, v) : NULL;
}

/* ---- tensors from before */
static Bound *find(TsCapture *k, const TsTensor *t) {
  for (int i = k->nbound; i-- > 0;)
    if (k->bound[i].t == t) return &k->bound[i];
  return NULL;
}

static Bound *bind(TsContext *c, TsTensor *t) {
  TsCapture *k = c->capture;
  Bound *b = find(k, t);
  if (b) return b;
  if (k->nbound == k->capbound) {
    int cap = k->capbound ? k->capbound * 2 : 16;
    if (!(b = realloc(k->bound, (size_t)cap * sizeof *b))) return no_memory(c), NULL;
    k->bound = b;
    k->capbound = cap;
  }
  TsMeta m = t->meta;
  m.device = 0;
  TsVal v = ts_graph_param(k->root, &m, NULL, t);
  if (!v) return NULL;
  ts_tensor_ref(t);
  k->bound[k->nbound] = (Bound){t, v, k->root->nparam - 1, false};
  return &k->bound[k->nbound++];
}

int ts_capture_name(TsContext *c, TsTensor *t, const char *name) {
  Bound *b = bind(c, t);
  if (!b) return -1;
  char *own = ts_arena_text(&c->capture->root->unit->arena, name);
  if (!own) return no_memory(c);
  b->value->name = own;
  return 0;
}

TsVal ts_capture_value(TsContext *c, TsTensor *t) {
  TsCapture *k = c->capture;
  if (t->storage->symbolic) return ts_graph_import(k->g, t->origin);
  if (t->meta.weak) return ts_graph_number(k->g, ts_tensor_get(t, 0));
  Bound *b = bind(c, t);
  return b ? ts_graph_import(k->g, b->value) : NULL;
}

/* ---- calls */
static TsTensor **symbols(TsContext *c, int n, const TsVal *v, TsTensor **out) {
  for (int i = 0; i < n; i++) {
    if ((out[i] = ts_capture_symbol(c, v[i]))) continue;
    while (i-- > 0) ts_tensor_unref(out[i]);
    return NULL;
  }
  return out;
}

int ts_capture_call(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                    int room, int *nout, TsTensor **out) {
  TsGraph *g = c->capture->g;
  TsVal few[16], *v = nin <= 16 ? few : malloc(sizeof *v * (size_t)nin), made[TS_MAX_VARIADIC];
  int failed = v ? 0 : no_memory(c);
  g->b.failed = false;
  for (int i = 0; i < nin && !failed; i++) {
    v[i] = in[i] ? ts_capture_value(c, in[i]) : NULL;
    failed = in[i] && !v[i];
  }
  mark_line(c, g);
  if (!failed) failed = !ts_graph_emit(g, op, nin, v, attr, made, nout);
  TS_ASSERT(failed || *nout <= room);
  if (!failed) failed = !symbols(c, *nout, made, out);
  if (v != few) free(v);
  return failed ? -1 : 0;
}

static TsVal fitted(TsContext *c, TsGraph *g, TsVal v, const TsMeta *m) {
  if (v->meta.weak || v->meta.dtype != m->dtype) v = ts_build_cast(&g->b, v, (TsDtype)m->dtype);
  if (v && !ts_meta_same_shape(&v->meta, m))
    v = ts_build(&g->b, TS_OP_broadcast_to, TS_IN(v), TS_ATTRS({"shape", ts_b_ints(m->dim, m->ndim)}),
                 NULL);
  (void)c;
  return v;
}

static bool is_view(TsVal v) {
  return v->node->op < TS_OP_COUNT && ts_op_info((TsOp)v->node->op)->cls == TS_CLASS_VIEW;
}

static int refuse_view(TsContext *c) {
  ts_error_set(&c->err, TS_ERR_value, "a view is changed in place while a function is captured");
  return ts_error_hint(&c->err, "build the new value with op.where, op.concat or op.scatter");
}

/* Another captured tensor of the same bytes would not see the change. */
static bool is_shared(const TsCapture *k, const Bound *b) {
  for (int i = 0; i < k->nbound; i++)
    if (&k->bound[i] != b && k->bound[i].t->storage == b->t->storage) return true;
  return false;
}

int ts_capture_assign(TsContext *c, TsTensor *dst, TsTensor *src) {
  TsCapture *k = c->capture;
  TsGraph *g = k->g;
  TsMeta m = dst->meta;
  g->b.failed = false;
  mark_line(c, g);
  TsVal v = ts_capture_value(c, src);
  if (!v || ts_meta_broadcast(&m, &v->meta, &m) || !(v = fitted(c, g, v, &dst->meta)))
    return c->err.code ? -1 : ts_error_set(&c->err, TS_ERR_shape, "assignment: shapes do not fit");
  if (dst->storage->symbolic) {
    if (is_view(dst->origin)) return refuse_view(c);
    dst->origin = v;
    return 0;
  }
  Bound *b = bind(c, dst);
  if (!b) return -1;
  if (g != k->root)
    return ts_error_set(&c->err, TS_ERR_value, "a tensor from outside is changed in place in a region");
  if (is_shared(k, b)) return refuse_view(c);
  b->value = v;
  b->updated = true;
  return 0;
}

/* ---- results */
static int set_results(TsContext *c, TsGraph *g, int n, TsTensor *const *result) {
  TsVal *v = malloc(sizeof *v * (size_t)(n + 1));
  int failed = v ? 0 : no_memory(c);
  for (int i = 0; i < n && !failed; i++) failed = !(v[i] = ts_capture_value(c, result[i]));
  /* A bare number is a tensor when it leaves. */
  g->b.failed = false;
  for (int i = 0; i < n && !failed; i++)
    if (v[i]->meta.weak)
      failed = !(v[i] = ts_build_cast(&g->b, v[i], v[i]->meta.dtype == TS_DT_i64 ? TS_DT_i64 : TS_DT_f32));
  if (!failed) failed = ts_graph_results(g, n, v);
  free(v);
  return failed;
}

TsGraph *ts_capture_end(TsContext *c, int n, TsTensor *const *result) {
  TsCapture *k = c->capture;
  TsGraph *g = k->root;
  int failed = set_results(c, g, n, result);
  for (int i = 0; i < k->nbound && !failed; i++)
    if (k->bound[i].updated) failed = ts_graph_update(g, k->bound[i].param, k->bound[i].value);
  if (failed) {
    ts_capture_abort(c);
    return NULL;
  }
  close_capture(c);
  return g;
}

int ts_capture_region(TsContext *c, const char *name) {
  TsGraph *g = ts_graph_region(c->capture->g, name);
  if (!g) return -1;
  c->capture->g = g;
  return 0;
}

TsGraph *ts_capture_region_end(TsContext *c, int n, TsTensor *const *result) {
  TsGraph *g = c->capture->g;
  int failed = set_results(c, g, n, result);
  c->capture->g = g->parent;
  return failed ? NULL : g;
}
