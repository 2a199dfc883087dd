/* backward(): the records below a tensor as a graph, which runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "ir/adjoint/node.h"
#include "ir/graph/copy.h"
#include "ir/rules/recognise.h"
#include "vm/mesh/expand.h"
#include "vm/mesh/parts.h"
#include "vm/core/capture.h"
#include "vm/core/defer.h"
#include "vm/code/lower.h"
#include "vm/tape_state.h"

static int no_memory(TsContext *c) { return ts_error_memory(&c->err); }

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
  if (push(w, ((TsOutput *)y->origin)->record)) return -1;
  for (int i = 0; i < w->n; i++)
    for (int k = 0; k < w->record[i]->nin; k++) {
      TsOutput *from = w->record[i]->in[k].from;
      if (from && push(w, from->record)) return -1;
    }
  qsort(w->record, (size_t)w->n, sizeof *w->record, by_serial);
  return 0;
}

/* ---- the graph */
/* A value by what it is of: an output; a leaf, or something else by twice its id and one, with the
 * elements of a version. */
typedef struct Entry {
  const void *key;
  uint32_t version;
  TsVal value;
} Entry;

/* A parameter whose elements were overwritten: an error if somebody needs it. */
typedef struct Lost {
  int param;
  const TsRecord *record;
  bool made; /* by it, or read */
} Lost;

typedef struct Back {
  TsContext *c;
  TsGraph *g;
  Entry *entry; /* open addressing */
  size_t mask;
  TsTensor **leaf;
  TsVal *leaf_value;
  int nleaf;
  bool older; /* some leaf was read before it was changed */
  Lost *lost;
  int nlost;
  TsTapeEntry *tape;
  int ntape, captape;
} Back;

static Entry *find(Back *b, const void *key, uint32_t version) {
  size_t h = (((size_t)key >> 1) + version) * 0x9e3779b97f4a7c15u >> 20;
  for (;; h++) {
    Entry *e = &b->entry[h & b->mask];
    if (!e->key || (e->key == key && e->version == version)) return e;
  }
}

static Entry *find_output(Back *b, const TsOutput *o) { return find(b, o, 0); }

static int changed(Back *b, const Lost *l) {
  const TsRecord *r = l->record;
  ts_error_set(&b->c->err, TS_ERR_value,
               "backward: a tensor that %s%s%s %s was changed in place since",
               ts_record_name(r), r->place ? " at " : "", r->place ? r->place : "",
               l->made ? "made" : "used");
  return ts_error_hint(&b->c->err,
                       "write x = x * 2 instead of x:mul_(2), or change it after backward()");
}

/* Its elements are not those that its calls give. */
static int unrecorded(Back *b, const TsRecord *r) {
  ts_error_set(&b->c->err, TS_ERR_value,
               "backward: a tensor that %s%s%s used had been changed in place by "
               "tessera.no_grad after it was computed",
               ts_record_name(r), r->place ? " at " : "", r->place ? r->place : "");
  return ts_error_hint(&b->c->err,
                       "change it outside of no_grad, or use x:detach() from there on");
}

static TsVal bound_param(Back *b, TsTensor *t) {
  TsMeta m = t->meta;
  m.device = 0;
  TsVal v = ts_graph_param(b->g, &m, NULL, t);
  if (v) ts_tensor_ref(t);
  return v;
}

/* The same, to be complained of unless nobody needs it. */
static TsVal lost_param(Back *b, TsTensor *t, const TsRecord *r, bool made) {
  TsVal v = bound_param(b, t);
  if (v) b->lost[b->nlost++] = (Lost){b->g->nparam - 1, r, made};
  return v;
}

/* The value of a tensor that no record made. */
static TsVal outside_value(Back *b, const TsRecord *r, const TsInput *in) {
  TsTensor *t = in->t;
  bool leaf = t->requires_grad, failed = false;
  const void *key = leaf ? (const void *)t : (const void *)(uintptr_t)(t->id * 2 + 1);
  Entry *e = find(b, key, in->version);
  if (e->key) return e->value;
  bool same = t->storage->version == in->version;
  TsTensor *kept = same ? NULL : ts_tape_kept(t, in->version, &failed);
  TsVal v = failed         ? NULL
            : same || kept ? bound_param(b, kept ? kept : t)
                           : lost_param(b, t, r, false);
  ts_tensor_unref(kept);
  *e = (Entry){key, in->version, v};
  if (leaf && v) {
    b->older |= !same;
    b->leaf[b->nleaf] = t;
    b->leaf_value[b->nleaf++] = v;
  }
  return v;
}

/* The value of an input: a number, a record's output, or a tensor from outside. */
static TsVal input_value(Back *b, const TsRecord *r, const TsInput *in) {
  if (in->t->meta.weak) return ts_graph_number(b->g, ts_tensor_get(in->t, 0));
  if (!in->from) return outside_value(b, r, in);
  if (in->version != in->from->version) return unrecorded(b, r), NULL;
  return find_output(b, in->from)->value;
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
  if (!more) return no_memory(b->c);
  b->tape = more;
  b->captape = cap;
  return 0;
}

/* The nodes from `first` on as entries. */
static int enter_nodes(Back *b, int first) {
  for (int i = first; i < b->g->nnode; i++) {
    const TsNode *n = b->g->node[i];
    if (n->op == TS_NODE_param || n->op == TS_NODE_number) continue;
    TsVal *out = ts_arena_alloc(&b->g->module->arena, sizeof *out * (size_t)(n->nout + 1));
    if (!out) return no_memory(b->c);
    if (room(b)) return -1;
    b->tape[b->ntape++] = ts_graph_entry(n, out);
  }
  return 0;
}

static bool same_type(const TsMeta *a, const TsMeta *b) {
  return a->dtype == b->dtype && ts_meta_same_shape(a, b);
}

static bool is_there(const TsOutput *o) { return o->saved->storage->version == o->version; }

/* A call that ran at once, by a row that is defined by others and has an adjoint of its own, which
 * asks for what the call gave. */
static bool stands_whole(const TsRecord *r) {
  bool whole = ts_op_info(r->op)->cls == TS_CLASS_DIRECT &&
               ts_adjoint_table[r->op] != ts_adjoint_compose;
  for (int k = 0; k < r->nout && whole; k++) whole = is_there(&r->out[k]);
  return whole;
}

/* The call as nodes: 1, or 0 if it has to be an entry of its own: random numbers are those that
 * were drawn, what depends on data has no type before it runs, and what is differentiated as a
 * whole has no node. What its steps define has no derivative of its own: -1. */
static int emit_call(Back *b, const TsRecord *r, const TsVal *in, TsVal *out) {
  TsVal made[TS_MAX_VARIADIC];
  const TsOpInfo *o = ts_op_info(r->op);
  int n = 0;
  if (o->cls == TS_CLASS_RANDOM || stands_whole(r)) return 0;
  bool fine = ts_graph_emit(b->g, r->op, r->nin, in, r->attr, made, &n) && n == r->nout;
  for (int i = 0; i < r->nout && fine; i++) {
    fine = same_type(&made[i]->meta, &r->out[i].saved->meta);
    out[i] = made[i];
  }
  if (!fine && ts_class_composed(o->cls))
    return b->g->b.failed ? -1
                          : ts_error_set(&b->c->err, TS_ERR_value,
                                         "%s: its steps have another type than it", o->name);
  if (!fine) ts_error_clear(&b->c->err);
  b->g->b.failed = false;
  return fine;
}

/* An entry of its own. */
static int enter_call(Back *b, const TsRecord *r, TsVal *in, TsVal *out) {
  for (int k = 0; k < r->nout; k++) {
    const TsOutput *o = &r->out[k];
    out[k] = is_there(o) ? bound_param(b, o->saved) : lost_param(b, o->saved, r, true);
    if (!out[k]) return -1;
  }
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
  b->g->line = r->place ? ts_graph_place(b->g->module, r->place) : 0;
  if (r->kind == TS_RECORD_function) {
    if (ts_graph_inline_run(b->g, r->graph, in, out, r->seed, r->stream)) return -1;
  } else if (r->kind == TS_RECORD_write || r->kind == TS_RECORD_look) {
    if (!(out[0] = ts_tape_emit(b->c, b->g, r, in))) return -1;
  } else {
    int as_nodes = r->kind == TS_RECORD_custom ? 0 : emit_call(b, r, in, out);
    if (as_nodes <= 0) return as_nodes ? -1 : enter_call(b, r, in, out);
  }
  return enter_nodes(b, first);
}

/* What is known of the results stands instead of them; what was overwritten is computed again, if
 * somebody needs it. */
static int know(Back *b, const TsRecord *r, const TsVal *out) {
  for (int k = 0; k < r->nout; k++) {
    TsNode *n = out[k]->node;
    TsValue *v = &n->out[out[k]->index];
    if (n->op == TS_NODE_param || n->op == TS_NODE_number || v->instead) continue;
    if (!is_there(&r->out[k])) continue;
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
      in[k] = r->in[k].t ? input_value(b, r, &r->in[k]) : NULL;
      if (r->in[k].t && !in[k]) return -1;
    }
    if (enter_record(b, r, in, out) || know(b, r, out)) return -1;
    for (int k = 0; k < r->nout; k++)
      *find_output(b, &r->out[k]) = (Entry){&r->out[k], 0, out[k]};
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
                     : t->adjoint == custom_adjoint ? ts_record_name(r)
                                                    : ts_node_name(t->arg);
  snprintf(was, sizeof was, "%s", b->c->err.message);
  snprintf(b->c->err.message, sizeof was, "%.400s (the %s of %s)", was, name,
           b->g->module->place[t->line]);
}

/* A leaf on which y depends by what has no slope anywhere, as rounding, has the gradient zero. */
static int add_zeros(Back *b, TsVal top, TsVal *dx) {
  bool all = true;
  for (int i = 0; i < b->nleaf; i++) all &= dx[i] != NULL;
  if (all) return 0;
  unsigned char *reached = calloc((size_t)b->g->nnode + 1, 1);
  if (!reached) return no_memory(b->c);
  reached[top->node->id] = 1;
  for (int i = b->ntape; i-- > 0;) {
    const TsTapeEntry *t = &b->tape[i];
    bool any = false;
    for (int k = 0; k < t->nout; k++) any |= t->out[k] && reached[t->out[k]->node->id];
    if (!any || t->op == TS_OP_stop_gradient) continue;
    for (int k = 0; k < t->nin; k++)
      if (t->in[k] && ts_dtype_is((TsDtype)t->in[k]->meta.dtype, TS_KIND_F | TS_KIND_C))
        reached[t->in[k]->node->id] = 1;
  }
  int failed = 0;
  for (int i = 0; i < b->nleaf && !failed; i++) {
    const TsMeta *m = &b->leaf_value[i]->meta;
    if (dx[i] || !reached[b->leaf_value[i]->node->id]) continue;
    dx[i] = ts_build(
        &b->g->b, TS_OP_zeros, 0, NULL,
        TS_ATTRS({"shape", ts_b_ints(m->dim, m->ndim)}, {"dtype", ts_b_dtype(m->dtype)}), NULL);
    failed = !dx[i];
  }
  free(reached);
  return failed;
}

/* Leaves with a gradient, moved to the front. One whose elements were changed between two calls
 * was two values, whose gradients belong to it. */
static int leaves_with_gradients(Back *b, TsVal *dx) {
  int n = 0, failed = 0;
  for (int i = 0; i < b->nleaf && !failed; i++) {
    int k = 0;
    if (!dx[i]) continue;
    while (b->older && k < n && b->leaf[k] != b->leaf[i]) k++;
    if (b->older && k < n) {
      failed = !(dx[k] = ts_build2(&b->g->b, TS_OP_add, dx[k], dx[i]));
      continue;
    }
    b->leaf[n] = b->leaf[i];
    dx[n++] = dx[i];
  }
  b->nleaf = n;
  return failed;
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
  b->lost = malloc((nvalue + 1) * sizeof *b->lost);
  TsVal *values = malloc((nvalue + 1) * sizeof *values),
        *dx = malloc((nvalue + 1) * sizeof *dx);
  int failed =
      b->entry && b->leaf && b->leaf_value && b->lost && values && dx ? 0 : no_memory(b->c);
  if (!failed) failed = fill_tape(b, w, values);
  b->g->line = 0;
  TsVal seed = failed ? NULL : seed_of(b, y, dy),
        top = failed ? NULL : find_output(b, y->origin)->value;
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
  if (!failed) failed = add_zeros(b, top, dx) || leaves_with_gradients(b, dx);
  if (!failed) failed = ts_graph_results(b->g, b->nleaf, dx);
  free(b->entry);
  free(b->leaf_value);
  free(b->tape);
  free(values);
  free(dx);
  return failed;
}

/* Nothing that was overwritten is needed. */
static int check_lost(Back *b) {
  if (!b->nlost) return 0;
  unsigned char *live = ts_graph_live(b->g);
  int failed = live ? 0 : -1;
  for (int i = 0; i < b->nlost && !failed; i++)
    if (live[b->g->param[b->lost[i].param]->node->id]) failed = changed(b, &b->lost[i]);
  free(live);
  return failed;
}

static int no_tape(TsContext *c, const TsTensor *y) {
  char text[TS_META_TEXT];
  ts_error_set(&c->err, TS_ERR_value,
               "backward: %s does not depend on a tensor that requires gradients",
               ts_meta_text(&y->meta, text));
  return ts_error_hint(&c->err, "set x.requires_grad = true before computing with x; integers, "
                                "comparisons, detach() and no_grad pass no gradients on");
}

TsGraph *ts_tape_graph(TsContext *c, TsTensor *y, TsTensor *dy, int *nleaf, TsTensor ***leaf) {
  Walk w = {.c = c};
  Back b = {.c = c};
  if (ts_defer_force(y) || (dy && ts_defer_force(dy)) || ts_tape_refresh(y)) return NULL;
  if (!y->origin || y->storage->symbolic) return no_tape(c, y), NULL;
  if (!(b.g = ts_graph_new("backward", &c->err))) return NULL;
  int failed = collect(&w, y) || build(&b, &w, y, dy);
  TsGraph *settled = failed ? NULL : ts_graph_settle(b.g);
  if (settled && settled != b.g) {
    ts_graph_free(b.g); /* its bound tensors belong to the other one now */
    b.g = settled;
  }
  if (settled) failed = check_lost(&b);
  free(w.record);
  free(b.lost);
  if (failed || !settled) {
    free(b.leaf);
    ts_capture_release(b.g);
    return NULL;
  }
  for (int i = 0; i < b.nleaf; i++) ts_tensor_ref(b.leaf[i]);
  *nleaf = b.nleaf;
  *leaf = b.leaf;
  return b.g;
}

/* What x.grad becomes when g arrives: a new reference. */
static TsTensor *added(TsContext *c, TsTensor *x, TsTensor *g) {
  /* It may be changed in place: nobody else's bytes, and no broadcast. */
  bool own = g->contiguous && g->refs == 1 && g->storage->refs == 1;
  if (ts_mesh_is(x) && g->meta.layout != x->meta.layout) { /* as what it is the gradient of */
    TsTensor *lying = ts_mesh_move(c, g, ts_layout_of(&x->meta), TS_MESH_SHARE_none);
    TsTensor *sum = lying ? added(c, x, lying) : NULL;
    ts_tensor_unref(lying);
    return sum;
  }
  if (g->meta.device != x->meta.device) { /* x:to() has moved its elements */
    TsTensor *here = ts_tensor_to(c, g, x->meta.device);
    TsTensor *sum = here ? added(c, x, here) : NULL;
    ts_tensor_unref(here);
    return sum;
  }
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
  bool cuts = c->leaves > 1 && !ts_mesh_spreads(g); /* on a mesh calls do that */
  TsGraph *cut = cuts ? ts_mesh_leaved(c, g) : NULL;
  TsCode *code = cuts && !cut ? NULL : ts_lower(c, cut ? cut : g);
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
  ts_capture_release(cut);
  ts_capture_release(g);
  return failed ? -1 : 0;
}
