/* Recording calls, and the backward graph of a recording. */
#include "vm/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/adjoint.h"
#include "ir/custom.h"
#include "ir/graph_copy.h"
#include "vm/capture.h"
#include "vm/defer.h"
#include "vm/lower.h"

/* An output as the record knows it; a tensor's origin points here. */
typedef struct Output {
  TsRecord *record;
  TsTensor *saved; /* a view of the result, without origin */
  uint32_t version;
} Output;

struct TsRecord {
  int refs;
  TsOp op; /* TS_OP_COUNT: a captured function, graph, or one from outside, custom */
  TsGraph *graph;
  TsCustom *custom;
  int nin, nout;
  uint64_t serial;   /* order of the calls */
  int mark;          /* of the walk that saw it last */
  TsTensor **in;     /* with references */
  uint32_t *version; /* of the inputs' storages */
  TsAttr *attr;
  uint64_t seed, stream; /* of a captured function's run */
  char *place;
  Output out[];
};

static int no_memory(TsContext *c) {
  return ts_error_set(&c->err, TS_ERR_memory, "out of memory");
}

/* ---- life: a chain of records is released without recursion */
static const char *name_of(const TsRecord *r) {
  return r->graph ? r->graph->name : r->custom ? r->custom->name : ts_op_info(r->op)->name;
}
static int nattr_of(const TsRecord *r) {
  return r->op == TS_OP_COUNT ? 0 : ts_op_info(r->op)->nattr;
}

static void free_attrs(TsRecord *r) {
  int n = nattr_of(r);
  for (int i = 0; r->attr && i < n; i++)
    if (r->attr[i].type == TS_ATTR_ints || r->attr[i].type == TS_ATTR_floats ||
        r->attr[i].type == TS_ATTR_str)
      free((void *)(uintptr_t)r->attr[i].ints);
  free(r->attr);
}

static TsRecord *pending; /* a stack through `serial`, which nobody reads any more */
static bool releasing;

static void release_now(TsRecord *r) {
  for (int i = 0; i < r->nin; i++) ts_tensor_unref(r->in[i]);
  for (int i = 0; i < r->nout; i++) ts_tensor_unref(r->out[i].saved);
  free_attrs(r);
  free(r->place);
  free(r->in);
  free(r->version);
  if (r->graph) ts_capture_release(r->graph);
  ts_custom_unref(r->custom);
  free(r);
}

void ts_record_unref(void *origin) {
  TsRecord *r = ((Output *)origin)->record;
  if (--r->refs) return;
  r->serial = (uint64_t)(uintptr_t)pending;
  pending = r;
  if (releasing) return;
  releasing = true;
  while ((r = pending)) {
    pending = (TsRecord *)(uintptr_t)r->serial;
    release_now(r);
  }
  releasing = false;
}

/* ---- recording */
static bool copy_attrs(TsRecord *r, const TsAttr *attr) {
  int n = nattr_of(r);
  r->attr = calloc((size_t)n + 1, sizeof *r->attr);
  for (int i = 0; r->attr && attr && i < n; i++) {
    bool list = attr[i].type == TS_ATTR_ints || attr[i].type == TS_ATTR_floats;
    size_t nbytes =
        attr[i].type == TS_ATTR_str ? strlen(attr[i].str) + 1 : (size_t)attr[i].n * 8;
    r->attr[i] = attr[i];
    if (!list && attr[i].type != TS_ATTR_str) continue;
    void *p = malloc(nbytes + 1);
    if (p && nbytes) memcpy(p, attr[i].ints, nbytes);
    r->attr[i].ints = p;
    if (!p) return r->attr[i].type = TS_ATTR_none, false;
  }
  return r->attr != NULL;
}

static TsTensor *alias_of(TsTensor *t) {
  return ts_tensor_view(t, &t->meta, t->stride, t->offset);
}

static bool differentiable(const TsTensor *t) {
  return ts_dtype_is(ts_tensor_dtype(t), TS_KIND_F | TS_KIND_C);
}

static TsRecord *new_record(const TsCall *call, TsGraph *g, TsCustom *f) {
  TsRecord *r = calloc(1, sizeof *r + sizeof *r->out * (size_t)call->nout);
  if (!r) return NULL;
  if (g) ts_capture_ref(r->graph = g);
  if (f) r->custom = ts_custom_ref(f);
  r->refs = 1;
  r->op = call->op;
  r->nin = call->nin;
  r->serial = call->ctx->next_id++;
  r->in = calloc((size_t)call->nin + 1, sizeof *r->in);
  r->version = calloc((size_t)call->nin + 1, sizeof *r->version);
  const char *place = call->ctx->where ? call->ctx->where(call->ctx->where_arg) : NULL;
  r->place = place ? strdup(place) : NULL;
  bool whole = r->in && r->version && copy_attrs(r, call->attr);
  for (int i = 0; whole && i < call->nin; i++) {
    if (!call->in[i]) continue;
    if (ts_defer_force(call->in[i])) whole = false;
    r->in[i] = ts_tensor_ref(call->in[i]);
    r->version[i] = call->in[i]->storage->version;
  }
  for (int i = 0; whole && i < call->nout; i++) {
    r->out[i] = (Output){r, alias_of(call->out[i]), call->out[i]->storage->version};
    r->nout = i + 1;
    whole = r->out[i].saved != NULL;
  }
  if (whole) return r;
  release_now(r);
  return NULL;
}

static int record(const TsCall *call, TsGraph *g, TsCustom *f, uint64_t stream) {
  bool any = false;
  for (int i = 0; i < call->nout; i++) any |= differentiable(call->out[i]);
  if (!any) return 0;
  TsRecord *r = new_record(call, g, f);
  if (!r) return no_memory(call->ctx);
  r->seed = call->ctx->seed;
  r->stream = stream;
  for (int i = 0; i < call->nout; i++) {
    if (!differentiable(call->out[i]) || call->out[i]->origin) continue;
    call->out[i]->requires_grad = 1;
    call->out[i]->origin = &r->out[i];
    r->refs++;
  }
  if (--r->refs == 0) release_now(r); /* every output was there before */
  return 0;
}

int ts_tape_record(const TsCall *call) {
  return ts_adjoint_table[call->op] == ts_adjoint_zero ? 0 : record(call, NULL, NULL, 0);
}

int ts_tape_record_function(TsContext *c, TsGraph *g, TsTensor *const *in, TsTensor *const *out,
                            uint64_t stream) {
  TsCall call = {.ctx = c,
                 .op = TS_OP_COUNT,
                 .nin = g->nparam,
                 .nout = g->nresult,
                 .in = in,
                 .out = (TsTensor **)(uintptr_t)out};
  return record(&call, g, NULL, stream);
}

int ts_tape_record_custom(TsContext *c, TsCustom *f, int nin, TsTensor *const *in, int nout,
                          TsTensor *const *out) {
  TsCall call = {.ctx = c,
                 .op = TS_OP_COUNT,
                 .nin = nin,
                 .nout = nout,
                 .in = in,
                 .out = (TsTensor **)(uintptr_t)out};
  return record(&call, NULL, f, 0);
}

/* ---- the records below a tensor, in the order in which they ran */
typedef struct Walk {
  TsContext *c;
  TsRecord **record;
  int n, cap;
} Walk;

static int push(Walk *w, TsRecord *r) {
  static int walk_number;
  if (w->n == 0) walk_number++;
  if (r->mark == walk_number) return 0;
  r->mark = walk_number;
  if (w->n == w->cap) {
    int cap = w->cap ? w->cap * 2 : 64;
    TsRecord **more = realloc(w->record, (size_t)cap * sizeof *more);
    if (!more) return no_memory(w->c);
    w->record = more;
    w->cap = cap;
  }
  w->record[w->n++] = r;
  return 0;
}

static int by_serial(const void *a, const void *b) {
  uint64_t x = (*(TsRecord *const *)a)->serial, y = (*(TsRecord *const *)b)->serial;
  return x < y ? -1 : x > y;
}

static int collect(Walk *w, TsTensor *y) {
  if (push(w, ((Output *)y->origin)->record)) return -1;
  for (int i = 0; i < w->n; i++)
    for (int k = 0; k < w->record[i]->nin; k++) {
      TsTensor *t = w->record[i]->in[k];
      if (t && t->origin && push(w, ((Output *)t->origin)->record)) return -1;
    }
  qsort(w->record, (size_t)w->n, sizeof *w->record, by_serial);
  return 0;
}

/* ---- the graph */
typedef struct Entry {
  const void *key; /* a tensor, or an Output */
  TsVal value;
} Entry;

typedef struct Back {
  TsContext *c;
  TsGraph *g;
  Entry *entry; /* open addressing */
  size_t mask;
  TsTensor **leaf;
  TsVal *leaf_value;
  int nleaf;
} Back;

static Entry *find(Back *b, const void *key) {
  size_t h = ((size_t)key >> 4) * 0x9e3779b97f4a7c15u >> 20;
  for (;; h++) {
    Entry *e = &b->entry[h & b->mask];
    if (!e->key || e->key == key) return e;
  }
}

static int changed(Back *b, const TsRecord *r) {
  ts_error_set(&b->c->err, TS_ERR_value,
               "backward: a tensor that %s%s%s used was changed in place since", name_of(r),
               r->place ? " at " : "", r->place ? r->place : "");
  return ts_error_hint(&b->c->err,
                       "write x = x * 2 instead of x:mul_(2), or change it after backward()");
}

static TsVal bound_param(Back *b, TsTensor *t) {
  TsMeta m = t->meta;
  m.device = 0;
  TsVal v = ts_graph_param(b->g, &m, NULL, t);
  if (v) ts_tensor_ref(t);
  return v;
}

/* The value of an input: a number, a record's output, or a tensor from outside. */
static TsVal input_value(Back *b, TsTensor *t) {
  if (t->meta.weak) return ts_graph_number(b->g, ts_tensor_get(t, 0));
  Output *o = t->origin;
  Entry *e = find(b, o ? (const void *)o : t);
  if (e->key) return e->value;
  e->key = o ? (const void *)o : t;
  e->value = bound_param(b, o ? o->saved : t);
  if (!o && t->requires_grad && e->value) {
    b->leaf[b->nleaf] = t;
    b->leaf_value[b->nleaf++] = e->value;
  }
  return e->value;
}

/* A captured function: its graph again, and the gradients through that. */
static int function_adjoint(TsAdjoint *a) {
  const TsRecord *r = a->arg;
  TsGraph *g = (TsGraph *)a->b;
  TsVal *v = malloc(sizeof *v * (size_t)(3 * r->nout + 2 * r->nin + 1));
  if (!v) return ts_build_fail(a->b, TS_ERR_memory, "out of memory");
  TsVal *result = v, *y = v + r->nout, *dy = y + r->nout, *x = dy + r->nout, *dx = x + r->nin;
  int ny = 0, nx = 0;
  int failed = ts_graph_inline_run(g, r->graph, a->in, result, r->seed, r->stream);
  for (int i = 0; i < r->nout; i++)
    if (a->grad[i]) y[ny] = result[i], dy[ny++] = a->grad[i];
  for (int i = 0; i < r->nin; i++)
    if (ts_wanted_once(a, i)) x[nx++] = a->in[i];
  if (!failed) failed = ts_graph_gradient(g, ny, y, dy, nx, x, dx);
  for (int i = r->nin; i-- > 0 && !failed;)
    if (ts_wanted_once(a, i)) a->grad_in[i] = dx[--nx];
  free(v);
  return failed;
}

static int custom_adjoint(TsAdjoint *a) {
  const TsRecord *r = a->arg;
  return ts_custom_adjoint(r->custom, a);
}

static int fill_tape(Back *b, const Walk *w, TsTapeEntry *tape, TsVal *values) {
  for (int i = 0; i < w->n; i++) {
    const TsRecord *r = w->record[i];
    TsVal *in = values, *out = values + r->nin;
    values = out + r->nout;
    for (int k = 0; k < r->nin; k++) {
      in[k] = r->in[k] ? input_value(b, r->in[k]) : NULL;
      if (r->in[k] && !in[k]) return -1;
      if (r->in[k] && r->in[k]->storage->version != r->version[k]) return changed(b, r);
    }
    for (int k = 0; k < r->nout; k++) {
      Entry *e = find(b, &r->out[k]);
      if (r->out[k].saved->storage->version != r->out[k].version) return changed(b, r);
      if (!e->key) *e = (Entry){&r->out[k], bound_param(b, r->out[k].saved)};
      if (!(out[k] = e->value)) return -1;
    }
    int line = r->place ? ts_graph_place(b->g->unit, r->place) : 0;
    tape[i] = (TsTapeEntry){.op = r->op,
                            .nin = r->nin,
                            .nout = r->nout,
                            .in = in,
                            .out = out,
                            .attr = r->attr,
                            .line = line,
                            .arg = (void *)(uintptr_t)r,
                            .adjoint = r->graph    ? function_adjoint
                                       : r->custom ? custom_adjoint
                                                   : NULL};
  }
  return 0;
}

static TsVal seed_of(Back *b, TsTensor *y, TsTensor *dy) {
  if (dy) return bound_param(b, dy);
  return ts_build(&b->g->b, TS_OP_ones, 0, NULL,
                  TS_ATTRS({"shape", ts_b_ints(y->meta.dim, y->meta.ndim)},
                           {"dtype", ts_b_dtype(y->meta.dtype)}),
                  NULL);
}

static void explain(TsContext *c, const Walk *w, int at) {
  char was[sizeof c->err.message];
  if (at < 0 || !w->record[at]->place) return;
  snprintf(was, sizeof was, "%s", c->err.message);
  snprintf(c->err.message, sizeof c->err.message, "%.400s (the %s of %s)", was,
           name_of(w->record[at]), w->record[at]->place);
}

static int build(Back *b, const Walk *w, TsTensor *y, TsTensor *dy) {
  size_t nvalue = 0;
  for (int i = 0; i < w->n; i++) nvalue += (size_t)(w->record[i]->nin + w->record[i]->nout);
  size_t size = 64;
  while (size < nvalue * 2 + 2) size *= 2;
  b->mask = size - 1;
  b->entry = calloc(size, sizeof *b->entry);
  b->leaf = malloc((nvalue + 1) * sizeof *b->leaf);
  b->leaf_value = malloc((nvalue + 1) * sizeof *b->leaf_value);
  TsTapeEntry *tape = calloc((size_t)w->n + 1, sizeof *tape);
  TsVal *values = malloc((nvalue + 1) * sizeof *values),
        *dx = malloc((nvalue + 1) * sizeof *dx);
  int failed =
      b->entry && b->leaf && b->leaf_value && tape && values && dx ? 0 : no_memory(b->c);
  if (!failed) failed = fill_tape(b, w, tape, values);
  TsVal seed = failed ? NULL : seed_of(b, y, dy),
        top = failed ? NULL : find(b, y->origin)->value;
  if (!failed && !seed) failed = -1;
  TsReverse r = {.b = &b->g->b,
                 .ntape = w->n,
                 .tape = tape,
                 .ny = 1,
                 .y = &top,
                 .dy = &seed,
                 .nx = b->nleaf,
                 .x = b->leaf_value,
                 .dx = dx,
                 .line = &b->g->line};
  b->g->backward = true;
  if (!failed && (failed = ts_reverse(&r))) explain(b->c, w, r.failed_at);
  int n = 0; /* leaves with a gradient, moved to the front */
  for (int i = 0; i < b->nleaf && !failed; i++)
    if (dx[i]) b->leaf[n] = b->leaf[i], dx[n++] = dx[i];
  b->nleaf = n;
  if (!failed) failed = ts_graph_results(b->g, n, dx);
  free(b->entry);
  free(b->leaf_value);
  free(tape);
  free(values);
  free(dx);
  return failed;
}

static int no_tape(TsContext *c, const TsTensor *y) {
  char text[TS_META_TEXT];
  ts_error_set(&c->err, TS_ERR_value,
               "backward: %s does not depend on a tensor that requires gradients",
               ts_meta_text(&y->meta, text));
  return ts_error_hint(&c->err, "set x.requires_grad = true before computing with x");
}

TsGraph *ts_tape_graph(TsContext *c, TsTensor *y, TsTensor *dy, int *nleaf, TsTensor ***leaf) {
  Walk w = {.c = c};
  Back b = {.c = c};
  if (ts_defer_force(y) || (dy && ts_defer_force(dy))) return NULL;
  if (!y->origin || y->storage->symbolic) return no_tape(c, y), NULL;
  if (!(b.g = ts_graph_new("backward", &c->err))) return NULL;
  int failed = collect(&w, y) || build(&b, &w, y, dy);
  free(w.record);
  if (failed) {
    free(b.leaf);
    ts_capture_release(b.g);
    return NULL;
  }
  for (int i = 0; i < b.nleaf; i++) ts_tensor_ref(b.leaf[i]);
  *nleaf = b.nleaf;
  *leaf = b.leaf;
  return b.g;
}

static int add_grad(TsContext *c, TsTensor *x, TsTensor *g) {
  /* It may be changed in place: nobody else's bytes, and no broadcast. */
  bool own = g->contiguous && g->refs == 1 && g->storage->refs == 1;
  if (!x->grad) return (x->grad = own ? ts_tensor_ref(g) : ts_tensor_copy(c, g)) ? 0 : -1;
  TsTensor *in[2] = {x->grad, g}, *sum = ts_vm_call1(c, TS_OP_add, 2, in, NULL);
  if (!sum) return -1;
  ts_tensor_unref(x->grad);
  x->grad = sum;
  return 0;
}

int ts_tape_backward(TsContext *c, TsTensor *y, TsTensor *dy) {
  TsTensor **leaf = NULL, **grad = NULL;
  int n = 0;
  TsGraph *g = ts_tape_graph(c, y, dy, &n, &leaf);
  if (!g) return -1;
  c->no_grad++;
  TsCode *code = ts_lower(c, g);
  TsFrame *f = code ? ts_frame_new(c, code) : NULL;
  int failed = !f, nparam = code ? code->nparam : 0;
  TsTensor **args = calloc((size_t)nparam + (size_t)n + 1, sizeof *args);
  if (!failed && !args) failed = no_memory(c);
  if (!failed) {
    grad = args + nparam;
    uint64_t stream = c->stream;
    c->stream = 0; /* functions are repeated by absolute streams */
    failed = ts_frame_run(f, args, grad);
    c->stream = stream;
  }
  for (int i = 0; i < n && !failed; i++) failed = add_grad(c, leaf[i], grad[i]);
  for (int i = 0; i < n; i++) {
    if (grad) ts_tensor_unref(grad[i]);
    ts_tensor_unref(leaf[i]);
  }
  c->no_grad--;
  free(args);
  free(leaf);
  ts_frame_free(f);
  ts_code_free(code);
  ts_capture_release(g);
  return failed ? -1 : 0;
}
