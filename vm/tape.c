/* Recording calls, and the backward graph of a recording. */
#include "vm/core/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "ir/adjoint/node.h"
#include "ir/graph/custom.h"
#include "ir/graph/copy.h"
#include "ir/rules/recognise.h"
#include "vm/core/capture.h"
#include "vm/core/defer.h"
#include "vm/code/lower.h"

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
  for (int i = 0; r->in && i < r->nin; i++) ts_tensor_unref(r->in[i]);
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

/* A function that returns what it was given has not made it. */
static bool is_given(const TsCall *call, const TsTensor *t) {
  for (int i = 0; i < call->nin; i++)
    if (call->in[i] == t) return true;
  return false;
}

static int record(const TsCall *call, TsGraph *g, TsCustom *f, uint64_t stream) {
  bool any = false;
  for (int i = 0; i < call->nout; i++) any |= differentiable(call->out[i]);
  if (!any) return 0;
  TsRecord *r = new_record(call, g, f);
  if (!r) return ts_error_memory(&call->ctx->err);
  r->seed = call->ctx->seed;
  r->stream = stream;
  for (int i = 0; i < call->nout; i++) {
    if (!differentiable(call->out[i]) || call->out[i]->origin) continue;
    if (g && is_given(call, call->out[i])) continue;
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
    if (!more) return ts_error_memory(&w->c->err);
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
  TsTapeEntry *tape;
  int ntape, captape;
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

static int custom_adjoint(TsAdjoint *a) {
  const TsRecord *r = a->arg;
  return ts_custom_adjoint(r->custom, a);
}

/* ---- the calls again, as entries of the reverse pass
 *
 * Calls become the nodes that they would be if the program had been captured, in the same
 * order: equal ones are one node, functions stand there with their own nodes, and sums of
 * gradients have one order in both. What a call gave is known, so at the end its bytes stand
 * instead of its node (ts_graph_settle), and nothing is computed twice but the inside of
 * functions. What has no record is not known to be equal: masks and other values without a
 * derivative, and calls whose results nobody uses. *Rejected:* an entry for each call and
 * function: a value that several functions compute from then got their gradients one by one. */
static int room(Back *b) {
  if (b->ntape < b->captape) return 0;
  int cap = b->captape ? b->captape * 2 : 64;
  TsTapeEntry *more = realloc(b->tape, sizeof *more * (size_t)cap);
  if (!more) return ts_error_memory(&b->c->err);
  b->tape = more;
  b->captape = cap;
  return 0;
}

/* The nodes from `first` on as entries. */
static int enter_nodes(Back *b, int first) {
  for (int i = first; i < b->g->nnode; i++) {
    const TsNode *n = b->g->node[i];
    if (n->op == TS_NODE_param || n->op == TS_NODE_number) continue;
    TsVal *out = ts_arena_alloc(&b->g->unit->arena, sizeof *out * (size_t)(n->nout + 1));
    if (!out) return ts_error_memory(&b->c->err);
    if (room(b)) return -1;
    b->tape[b->ntape++] = ts_graph_entry(n, out);
  }
  return 0;
}

static bool same_type(const TsMeta *a, const TsMeta *b) {
  return a->dtype == b->dtype && ts_meta_same_shape(a, b);
}

/* The call as nodes; false if it has to be an entry of its own: random numbers are those that
 * were drawn, and what depends on data has no type before it runs. */
static bool emit_call(Back *b, const TsRecord *r, const TsVal *in, TsVal *out) {
  TsVal made[TS_MAX_VARIADIC];
  int n = 0;
  if (ts_op_info(r->op)->cls == TS_CLASS_RANDOM) return false;
  bool fine = ts_graph_emit(b->g, r->op, r->nin, in, r->attr, made, &n) && n == r->nout;
  for (int i = 0; i < r->nout && fine; i++) {
    fine = same_type(&made[i]->meta, &r->out[i].saved->meta);
    out[i] = made[i];
  }
  if (!fine) ts_error_clear(&b->c->err);
  b->g->b.failed = false;
  return fine;
}

/* An entry of its own. */
static int enter_call(Back *b, const TsRecord *r, TsVal *in, TsVal *out) {
  for (int k = 0; k < r->nout; k++)
    if (!(out[k] = bound_param(b, r->out[k].saved))) return -1;
  if (room(b)) return -1;
  b->tape[b->ntape++] = (TsTapeEntry){.op = r->op,
                                      .nin = r->nin,
                                      .nout = r->nout,
                                      .in = in,
                                      .out = out,
                                      .attr = r->attr,
                                      .line = b->g->line,
                                      .arg = (void *)(uintptr_t)r,
                                      .adjoint = r->custom ? custom_adjoint : NULL};
  return 0;
}

static int enter_record(Back *b, const TsRecord *r, TsVal *in, TsVal *out) {
  int first = b->g->nnode;
  b->g->line = r->place ? ts_graph_place(b->g->unit, r->place) : 0;
  if (r->graph) {
    if (ts_graph_inline_run(b->g, r->graph, in, out, r->seed, r->stream)) return -1;
  } else if (r->custom || !emit_call(b, r, in, out)) {
    return enter_call(b, r, in, out);
  }
  return enter_nodes(b, first);
}

/* What is known of the results stands instead of them. */
static int know(Back *b, const TsRecord *r, const TsVal *out) {
  for (int k = 0; k < r->nout; k++) {
    TsNode *n = out[k]->node;
    TsValue *v = &n->out[out[k]->index];
    if (n->op == TS_NODE_param || n->op == TS_NODE_number || v->instead) continue;
    if (!(v->instead = bound_param(b, r->out[k].saved))) return -1;
    b->g->replaced = true;
  }
  return 0;
}

static int fill_tape(Back *b, const Walk *w, TsVal *values) {
  for (int i = 0; i < w->n; i++) {
    const TsRecord *r = w->record[i];
    TsVal *in = values, *out = values + r->nin;
    values = out + r->nout;
    for (int k = 0; k < r->nin; k++) {
      in[k] = r->in[k] ? input_value(b, r->in[k]) : NULL;
      if (r->in[k] && !in[k]) return -1;
      if (r->in[k] && r->in[k]->storage->version != r->version[k]) return changed(b, r);
    }
    for (int k = 0; k < r->nout; k++)
      if (r->out[k].saved->storage->version != r->out[k].version) return changed(b, r);
    if (enter_record(b, r, in, out) || know(b, r, out)) return -1;
    for (int k = 0; k < r->nout; k++) *find(b, &r->out[k]) = (Entry){&r->out[k], out[k]};
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

static void explain(const Back *b, int at) {
  char was[sizeof b->c->err.message];
  if (at < 0 || !b->tape[at].line) return;
  const TsTapeEntry *t = &b->tape[at];
  const TsRecord *r = t->arg;
  const char *name = t->op < TS_OP_COUNT            ? ts_op_info(t->op)->name
                     : t->adjoint == custom_adjoint ? name_of(r)
                                                    : ts_node_name(t->arg);
  snprintf(was, sizeof was, "%s", b->c->err.message);
  snprintf(b->c->err.message, sizeof was, "%.400s (the %s of %s)", was, name,
           b->g->unit->place[t->line]);
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
  TsVal *values = malloc((nvalue + 1) * sizeof *values),
        *dx = malloc((nvalue + 1) * sizeof *dx);
  int failed =
      b->entry && b->leaf && b->leaf_value && values && dx ? 0 : ts_error_memory(&b->c->err);
  if (!failed) failed = fill_tape(b, w, values);
  b->g->line = 0;
  TsVal seed = failed ? NULL : seed_of(b, y, dy),
        top = failed ? NULL : find(b, y->origin)->value;
  if (!failed && !seed) failed = -1;
  TsReverse r = {.b = &b->g->b,
                 .ntape = b->ntape,
                 .tape = b->tape,
                 .ny = 1,
                 .y = &top,
                 .dy = &seed,
                 .nx = b->nleaf,
                 .x = b->leaf_value,
                 .dx = dx,
                 .line = &b->g->line};
  b->g->backward = true;
  if (!failed && (failed = ts_reverse(&r))) explain(b, r.failed_at);
  int n = 0; /* leaves with a gradient, moved to the front */
  for (int i = 0; i < b->nleaf && !failed; i++)
    if (dx[i]) b->leaf[n] = b->leaf[i], dx[n++] = dx[i];
  b->nleaf = n;
  if (!failed) failed = ts_graph_results(b->g, n, dx);
  free(b->entry);
  free(b->leaf_value);
  free(b->tape);
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
  TsGraph *settled = ts_graph_settle(b.g);
  if (!settled) {
    free(b.leaf);
    ts_capture_release(b.g);
    return NULL;
  }
  if (settled != b.g) ts_graph_free(b.g); /* its bound tensors belong to the other one now */
  b.g = settled;
  for (int i = 0; i < b.nleaf; i++) ts_tensor_ref(b.leaf[i]);
  *nleaf = b.nleaf;
  *leaf = b.leaf;
  return b.g;
}

/* What x.grad becomes when g arrives: a new reference. */
static TsTensor *added(TsContext *c, TsTensor *x, TsTensor *g) {
  /* It may be changed in place: nobody else's bytes, and no broadcast. */
  bool own = g->contiguous && g->refs == 1 && g->storage->refs == 1;
  if (!x->grad) return own ? ts_tensor_ref(g) : ts_tensor_copy(c, g);
  TsTensor *in[2] = {x->grad, g};
  return ts_vm_call1(c, TS_OP_add, 2, in, NULL);
}

/* All of them, or none. */
static int add_grads(TsContext *c, int n, TsTensor *const *leaf, TsTensor **grad) {
  int failed = 0, made = 0;
  for (; made < n && !failed; made++) {
    TsTensor *sum = added(c, leaf[made], grad[made]);
    if (!sum) failed = -1;
    ts_tensor_unref(grad[made]);
    grad[made] = sum;
  }
  if (!failed && ts_cpu_interrupted())
    failed = ts_error_set(&c->err, TS_ERR_interrupt, "backward: interrupted");
  for (int i = 0; i < n && !failed; i++) {
    ts_tensor_unref(leaf[i]->grad);
    leaf[i]->grad = grad[i];
    grad[i] = NULL;
  }
  return failed;
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
  if (!failed && !args) failed = ts_error_memory(&c->err);
  if (!failed) {
    grad = args + nparam;
    uint64_t stream = c->stream;
    c->stream = 0; /* functions are repeated by absolute streams */
    failed = ts_frame_run(f, args, grad);
    c->stream = stream;
  }
  if (!failed) failed = add_grads(c, n, leaf, grad);
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
