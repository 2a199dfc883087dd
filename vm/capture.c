/* Capture: operator calls as nodes. */
#include "vm/capture.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph_recognise.h"
#include "vm/defer.h"

/* A tensor from before, or the symbol of an argument, and its value at this point of the
 * function. */
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
  TsVal *stale; /* values that a tensor had before it was changed */
  int nstale, capstale;
  uint64_t serial; /* tells this capture's symbols from those of others */
};

TsGraph *ts_capture_graph(TsContext *c) { return c->capture ? c->capture->g : NULL; }

static int no_memory(TsContext *c) {
  return ts_error_set(&c->err, TS_ERR_memory, "out of memory");
}

int ts_capture_begin(TsContext *c, const char *name) {
  TsCapture *k = calloc(1, sizeof *k);
  TS_ASSERT(!c->capture);
  if (!k || !(k->root = ts_graph_new(name, &c->err))) {
    free(k);
    return no_memory(c);
  }
  k->g = k->root;
  k->serial = c->next_id++;
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

/* The version of a symbol's storage: OWN if it is a tensor of its own, although its value may
 * be what a view gives. */
enum { OWN = 1 };

static bool is_symbol(const TsTensor *t) { return t->storage->symbolic; }

static void close_capture(TsContext *c) {
  TsCapture *k = c->capture;
  for (int i = 0; i < k->nbound; i++)
    if (is_symbol(k->bound[i].t)) ts_tensor_unref(k->bound[i].t);
  free(k->bound);
  free(k->stale);
  free(k);
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
  TsTensor *t = v ? ts_tensor_symbol(c, &v->meta, v) : NULL;
  if (t) t->storage->release_arg = (void *)(uintptr_t)c->capture->serial;
  return t;
}

TsTensor *ts_capture_own_symbol(TsContext *c, TsVal v) {
  TsTensor *t = ts_capture_symbol(c, v);
  if (t) t->storage->version = OWN;
  return t;
}

static bool is_ours(const TsCapture *k, const TsTensor *symbol) {
  return (uintptr_t)symbol->storage->release_arg == k->serial;
}

/* ---- tensors from before */
static Bound *find(TsCapture *k, const TsTensor *t) {
  for (int i = k->nbound; i-- > 0;)
    if (k->bound[i].t == t) return &k->bound[i];
  return NULL;
}

/* t, with a reference of its own, stands for the newest parameter of the root. */
static Bound *enter(TsContext *c, TsTensor *t, TsVal v) {
  TsCapture *k = c->capture;
  if (k->nbound == k->capbound) {
    int cap = k->capbound ? k->capbound * 2 : 16;
    Bound *b = realloc(k->bound, (size_t)cap * sizeof *b);
    if (!b) return no_memory(c), NULL;
    k->bound = b;
    k->capbound = cap;
  }
  k->bound[k->nbound] = (Bound){ts_tensor_ref(t), v, k->root->nparam - 1, false};
  return &k->bound[k->nbound++];
}

TsTensor *ts_capture_param(TsContext *c, const TsMeta *m, const char *name) {
  TsCapture *k = c->capture;
  TsMeta plain = *m;
  plain.weak = 0, plain.device = 0;
  TsVal v = ts_graph_param(k->g, &plain, name, NULL);
  TsTensor *t = v ? ts_capture_symbol(c, v) : NULL;
  if (t && k->g == k->root && !enter(c, t, v)) {
    ts_tensor_unref(t);
    return NULL;
  }
  return t;
}

static int refuse_view(TsContext *c, const char *what) {
  ts_error_set(&c->err, TS_ERR_value, "%s while a function is captured", what);
  return ts_error_hint(&c->err, "build the new value with op.where, op.concat or op.scatter");
}

static Bound *bind(TsContext *c, TsTensor *t) {
  TsCapture *k = c->capture;
  Bound *b = find(k, t);
  if (b) return b;
  if (ts_defer_force(t)) return NULL;
  for (int i = 0; i < k->nbound; i++)
    if (k->bound[i].updated && k->bound[i].t->storage == t->storage)
      return refuse_view(c, "a view of a tensor that was changed in place is used"), NULL;
  TsMeta m = t->meta;
  m.device = 0;
  TsVal v = ts_graph_param(k->root, &m, NULL, t);
  if (!v || !(b = enter(c, t, v))) {
    if (v) k->root->bound[k->root->nparam - 1] = NULL;
    return NULL;
  }
  return b;
}

int ts_capture_name(TsContext *c, TsTensor *t, const char *name) {
  if (is_symbol(t)) return 0; /* it has one, or is not ours */
  Bound *b = bind(c, t);
  if (!b) return -1;
  char *own = ts_arena_text(&c->capture->root->unit->arena, name);
  if (!own) return no_memory(c);
  b->value->name = own;
  return 0;
}

static bool is_view(TsVal v) {
  return v->node->op < TS_OP_COUNT && ts_op_info((TsOp)v->node->op)->cls == TS_CLASS_VIEW;
}

static bool looks_at(const TsTensor *symbol) {
  return is_view(symbol->origin) && symbol->storage->version != OWN;
}

/* Eagerly, t would show the change that was made to what it looks at. */
static bool is_stale(const TsCapture *k, const TsTensor *t) {
  TsVal v = t->origin;
  if (!looks_at(t)) return false;
  while (is_view(v)) v = v->node->in[0];
  for (int i = 0; i < k->nstale; i++)
    if (k->stale[i] == v) return true;
  return false;
}

static TsVal symbol_value(TsContext *c, const TsTensor *t) {
  TsCapture *k = c->capture;
  if (!is_ours(k, t)) {
    ts_error_set(&c->err, TS_ERR_value, "a value of another function is used in %s",
                 k->g->name);
    ts_error_hint(&c->err, "return it from there, or pass it as an argument");
    return NULL;
  }
  if (is_stale(k, t))
    return refuse_view(c, "a view of a tensor that was changed in place is used"), NULL;
  return ts_graph_import(k->g, t->origin);
}

TsVal ts_capture_value(TsContext *c, TsTensor *t) {
  TsCapture *k = c->capture;
  if (is_symbol(t)) return symbol_value(c, t);
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

static TsVal fitted(TsGraph *g, TsVal v, const TsMeta *m) {
  if (v->meta.weak || v->meta.dtype != m->dtype) v = ts_build_cast(&g->b, v, (TsDtype)m->dtype);
  if (v && !ts_meta_same_shape(&v->meta, m))
    v = ts_build(&g->b, TS_OP_broadcast_to, TS_IN(v),
                 TS_ATTRS({"shape", ts_b_ints(m->dim, m->ndim)}), NULL);
  return v;
}

/* Another captured tensor of the same bytes would not see the change. */
static bool is_shared(const TsCapture *k, const Bound *b) {
  for (int i = 0; i < k->nbound; i++)
    if (&k->bound[i] != b && k->bound[i].t->storage == b->t->storage) return true;
  return false;
}

/* The value that a tensor had so far is remembered: views of it are stale. */
static int set_value(TsContext *c, TsTensor *t, Bound *b, TsVal v) {
  TsCapture *k = c->capture;
  if (k->nstale == k->capstale) {
    int cap = k->capstale ? k->capstale * 2 : 16;
    TsVal *more = realloc(k->stale, (size_t)cap * sizeof *more);
    if (!more) return no_memory(c);
    k->stale = more;
    k->capstale = cap;
  }
  k->stale[k->nstale++] = b ? b->value : t->origin;
  if (b) b->value = v, b->updated = true;
  if (is_symbol(t)) t->origin = v, t->storage->version = OWN;
  return 0;
}

int ts_capture_assign(TsContext *c, TsTensor *dst, TsTensor *src) {
  TsCapture *k = c->capture;
  TsGraph *g = k->g;
  TsMeta m = dst->meta;
  g->b.failed = false;
  mark_line(c, g);
  TsVal v = ts_capture_value(c, src);
  if (!v || ts_meta_broadcast(&m, &v->meta, &m) || !(v = fitted(g, v, &dst->meta)))
    return c->err.code ? -1
                       : ts_error_set(&c->err, TS_ERR_shape, "assignment: shapes do not fit");
  if (is_symbol(dst) && is_ours(k, dst) && looks_at(dst))
    return refuse_view(c, "a view is changed in place");
  if (is_symbol(dst) && !symbol_value(c, dst)) return -1;
  Bound *b = is_symbol(dst) ? find(k, dst) : bind(c, dst);
  if (!b && !is_symbol(dst)) return -1;
  bool outside = b || ((TsVal)dst->origin)->graph != g;
  if (outside && g != k->root)
    return ts_error_set(&c->err, TS_ERR_value,
                        "a tensor from outside is changed in place in a region");
  if (b && is_shared(k, b)) return refuse_view(c, "a view is changed in place");
  return set_value(c, dst, b, v);
}

/* ---- results */
static int set_results(TsContext *c, TsGraph *g, int n, TsTensor *const *result) {
  TsVal *v = malloc(sizeof *v * (size_t)(n + 1));
  int failed = v ? 0 : no_memory(c);
  for (int i = 0; i < n && !failed; i++)
    failed = !(v[i] = ts_graph_now(ts_capture_value(c, result[i])));
  /* A bare number is a tensor when it leaves. */
  g->b.failed = false;
  for (int i = 0; i < n && !failed; i++)
    if (v[i]->meta.weak)
      failed = !(v[i] = ts_build_cast(&g->b, v[i],
                                      v[i]->meta.dtype == TS_DT_i64 ? TS_DT_i64 : TS_DT_f32));
  if (!failed) failed = ts_graph_results(g, n, v);
  free(v);
  return failed;
}

int ts_capture_updated(TsContext *c, TsVal *v) {
  const TsCapture *k = c->capture;
  int n = 0;
  for (int i = 0; k->g == k->root && i < k->nbound; i++)
    if (k->bound[i].updated) {
      if (v) v[n] = k->bound[i].value;
      n++;
    }
  return n;
}

TsGraph *ts_capture_end(TsContext *c, int n, TsTensor *const *result) {
  TsCapture *k = c->capture;
  TsGraph *g = k->root;
  int failed = set_results(c, g, n, result);
  for (int i = 0; i < k->nbound && !failed; i++)
    if (k->bound[i].updated) failed = ts_graph_update(g, k->bound[i].param, k->bound[i].value);
  TsGraph *settled = failed ? NULL : ts_graph_settle(g);
  if (!settled) {
    ts_capture_abort(c);
    return NULL;
  }
  if (settled != g) ts_graph_free(g); /* its bound tensors belong to the other one now */
  close_capture(c);
  return settled;
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

TsCaptureMark ts_capture_mark(TsContext *c) {
  TsGraph *g = c->capture->g;
  return (TsCaptureMark){g, g->unit->nrandom};
}

void ts_capture_reset(TsContext *c, TsCaptureMark mark) {
  c->capture->g = mark.g;
  mark.g->unit->nrandom = mark.nrandom;
  mark.g->b.failed = false;
}

int ts_capture_into(TsContext *c, TsGraph *g, TsCaptureInto *before) {
  TsCapture *k = c->capture;
  *before = (TsCaptureInto){.capture = k, .g = k ? k->g : NULL, .where = c->where};
  if (!k || k->root->unit != g->unit) {
    if (!(k = before->made = calloc(1, sizeof *k))) return no_memory(c);
    for (k->root = g; k->root->parent;) k->root = k->root->parent;
  }
  c->capture = k;
  c->where = NULL;
  k->g = g;
  return 0;
}

void ts_capture_back(TsContext *c, const TsCaptureInto *before) {
  if (before->made) {
    free(before->made->bound);
    free(before->made);
  }
  c->capture = before->capture;
  c->where = before->where;
  if (c->capture) c->capture->g = before->g;
}
