/* Capture: operator calls as nodes. */
#include "vm/core/capture.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/failing.h"
#include "ir/rules/recognise.h"
#include "vm/capture_state.h"
#include "vm/code/alias.h"
#include "vm/code/control.h"
#include "vm/compile.h"
#include "vm/core/defer.h"
#include "vm/core/overlap.h"
#include "vm/core/profile.h"
#include "vm/write.h"

TsGraph *ts_capture_graph(TsContext *c) { return c->capture ? c->capture->g : NULL; }

int ts_capture_begin(TsContext *c, const char *name) {
  TsCapture *k = calloc(1, sizeof *k);
  TS_ASSERT(!c->capture);
  if (!k || !(k->root = ts_graph_new(name, &c->err))) {
    free(k);
    return ts_error_memory(&c->err);
  }
  k->work = ts_activity_begin_call(c, TS_ACTIVITY_capture, name);
  k->g = k->root;
  k->serial = k->root->since = c->next_id++;
  c->capture = k;
  return 0;
}

void ts_capture_ref(TsGraph *g) { g->module->refs++; }

void ts_capture_hold(TsGraph *g) {
  for (int i = 0; i < g->nparam; i++)
    if (g->bound[i] && g->bound[i] != TS_GRAPH_UNBOUND) ts_tensor_ref(g->bound[i]);
}

void ts_capture_release(TsGraph *g) {
  if (!g) return;
  if (g->module->refs > 1) {
    ts_graph_free(g);
    return;
  }
  for (int i = 0; i < g->nparam; i++)
    if (g->bound[i] && g->bound[i] != TS_GRAPH_UNBOUND) ts_tensor_unref(g->bound[i]);
  ts_graph_free(g);
}

static bool is_symbol(const TsTensor *t) { return ts_capture_is_symbol(t); }

/* A tensor with bytes that was made while g was captured. */
static bool made_in(const TsGraph *g, const TsTensor *t) {
  return g->since && !is_symbol(t) && ts_tensor_made(t) >= g->since;
}

static void close_capture(TsContext *c) {
  TsCapture *k = c->capture;
  for (int i = 0; i < k->nbound; i++)
    if (is_symbol(k->bound[i].t)) ts_tensor_unref(k->bound[i].t);
  free(k->bound);
  free(k->memory);
  free(k->past);
  free(k->used);
  ts_activity_end_call(k->work, NULL);
  free(k);
  c->capture = NULL;
}

void ts_capture_abort(TsContext *c) {
  if (!c->capture) return;
  TsGraph *root = c->capture->root; /* holds tensors that closing looks at */
  close_capture(c);
  ts_capture_release(root);
}

/* The place of the call, on the nodes that it makes. */
static void mark_line(TsContext *c, TsGraph *g) {
  const char *place = c->where ? c->where(c->where_arg) : NULL;
  if (place && *place) g->line = ts_graph_place(g->module, place);
}

/* ---- symbols and their memory */
static TsMemory *new_memory(TsContext *c, const TsTensor *outside, int param, uint64_t owner,
                            TsVal first) {
  TsCapture *k = c->capture;
  if (k->nmemory == k->capmemory) {
    int cap = k->capmemory ? k->capmemory * 2 : 32;
    TsMemory *m = realloc(k->memory, (size_t)cap * sizeof *m);
    if (!m) return ts_error_memory(&c->err), NULL;
    k->memory = m;
    k->capmemory = cap;
  }
  k->memory[k->nmemory] = (TsMemory){outside, k->g, false, param, owner, 0, first, first};
  return &k->memory[k->nmemory++];
}

static TsMemory *memory_of(const TsCapture *k, const TsTensor *symbol) {
  return ts_capture_memory(k, symbol);
}

/* A symbol of v whose bytes are those of memory number m. */
static TsTensor *symbol_in(TsContext *c, TsVal v, uint32_t m) {
  TsTensor *t = ts_tensor_symbol(c, &v->meta, v);
  if (!t) return NULL;
  t->storage->release_arg = (void *)(uintptr_t)c->capture->serial;
  t->storage->version = m;
  return t;
}

TsTensor *ts_capture_symbol(TsContext *c, TsVal v) {
  TsMemory *m = v ? new_memory(c, NULL, -1, 0, v) : NULL;
  TsTensor *t = m ? symbol_in(c, v, (uint32_t)c->capture->nmemory) : NULL;
  if (t) memory_of(c->capture, t)->owner = t->id;
  return t;
}

static bool is_ours(const TsCapture *k, const TsTensor *symbol) {
  return (uintptr_t)symbol->storage->release_arg == k->serial;
}

/* ---- tensors from before */
static TsBound *find(TsCapture *k, const TsTensor *t) {
  for (int i = k->nbound; i-- > 0;)
    if (k->bound[i].t == t) return &k->bound[i];
  return NULL;
}

/* t, with a reference of its own, stands for the newest parameter of the root. */
static TsBound *enter(TsContext *c, TsTensor *t, TsVal v) {
  TsCapture *k = c->capture;
  if (k->nbound == k->capbound) {
    int cap = k->capbound ? k->capbound * 2 : 16;
    TsBound *b = realloc(k->bound, (size_t)cap * sizeof *b);
    if (!b) return ts_error_memory(&c->err), NULL;
    k->bound = b;
    k->capbound = cap;
  }
  k->bound[k->nbound] =
      (TsBound){ts_tensor_ref(t), v, k->root->nparam - 1, .anew = made_in(k->root, t)};
  return &k->bound[k->nbound++];
}

TsTensor *ts_capture_param(TsContext *c, const TsMeta *m, const char *name) {
  TsCapture *k = c->capture;
  TsMeta plain = *m;
  plain.weak = 0, plain.device = 0;
  TsVal v = ts_graph_param(k->g, &plain, name, NULL);
  TsTensor *t = v ? ts_capture_symbol(c, v) : NULL;
  if (t) memory_of(k, t)->given = k->g != k->root;
  if (!t || k->g != k->root) return t;
  memory_of(k, t)->param = k->root->nparam - 1;
  if (enter(c, t, v)) return t;
  ts_tensor_unref(t);
  return NULL;
}

static TsBound *bind(TsContext *c, TsTensor *t) {
  TsCapture *k = c->capture;
  TsBound *b = find(k, t);
  if (b) return b;
  if (ts_defer_force(t)) return NULL;
  for (int i = 0; i < k->nbound; i++)
    if (k->bound[i].updated && ts_tensors_overlap(k->bound[i].t, t))
      return ts_capture_refuse_view(c, "a view of a tensor that was changed in place is used"),
             NULL;
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
  TsBound *b = bind(c, t);
  if (!b) return -1;
  char *own = ts_arena_text(&c->capture->root->module->arena, name);
  if (!own) return ts_error_memory(&c->err);
  b->value->name = own;
  return 0;
}

static bool looks_at(const TsCapture *k, const TsTensor *symbol) {
  return memory_of(k, symbol)->owner != symbol->id;
}

/* In a region: a tensor of those around it, or one that its caller gave it, or a view of one. */
static bool from_outside(const TsCapture *k, const TsTensor *symbol) {
  const TsMemory *m = memory_of(k, symbol);
  return k->g != k->root && (m->outside || m->given || m->home != k->g);
}

static TsVal symbol_value(TsContext *c, TsTensor *t) {
  TsCapture *k = c->capture;
  if (!is_ours(k, t)) {
    ts_error_set(&c->err, TS_ERR_value, "a value of another function is used in %s",
                 k->g->name);
    ts_error_hint(&c->err, "return it from there, or pass it as an argument");
    return NULL;
  }
  return ts_capture_seen(c, t);
}

TsVal ts_capture_value(TsContext *c, TsTensor *t) {
  TsCapture *k = c->capture;
  if (is_symbol(t)) return symbol_value(c, t);
  if (t->meta.weak) return ts_graph_number(k->g, ts_tensor_get(t, 0));
  TsBound *b = bind(c, t);
  return b ? ts_graph_import(k->g, b->value) : NULL;
}

/* ---- calls */
/* The memory of tensor t, which a call is given; 0 with the error. */
static uint32_t memory_number(TsContext *c, const TsTensor *t) {
  TsCapture *k = c->capture;
  if (is_symbol(t)) return t->storage->version;
  for (int i = 0; i < k->nmemory; i++)
    if (k->memory[i].outside == t || (!is_symbol(t) && k->memory[i].owner == t->id))
      return (uint32_t)i + 1;
  const TsBound *b = find(k, t);
  bool own = b && b->anew;
  bool fine =
      new_memory(c, own ? NULL : t, b && !own ? b->param : -1, t->id, b ? b->value : NULL);
  return fine ? (uint32_t)k->nmemory : 0;
}

/* What a call was given and what it gave. */
typedef struct Given {
  int nin, nout;
  TsTensor *const *in;
  const TsVal *v, *made;
} Given;

static TsTensor *given_tensor(void *arg, TsVal v) {
  const Given *k = arg;
  for (int i = 0; i < k->nin; i++)
    if (k->v[i] == v && k->in[i] && !k->in[i]->meta.weak) return k->in[i];
  return NULL;
}

/* Output i as a symbol: a view of what the call was given, or of what it made, lies there as it
 * would eagerly. The roots of outputs before it are known. */
static TsTensor *output_symbol(TsContext *c, const Given *k, int i, TsVal *root,
                               TsTensor *const *out) {
  TsTensor *layout = NULL, *of, *t;
  root[i] = ts_alias_root(c, k->made[i], given_tensor, (void *)(uintptr_t)k, &layout);
  if (!root[i]) return NULL;
  uint32_t m = (of = given_tensor((void *)(uintptr_t)k, root[i])) ? memory_number(c, of) : 0;
  for (int j = 0; j < i && !m && !of; j++) {
    if (root[j] != root[i]) continue;
    m = out[j]->storage->version;
    TsMemory *several = memory_of(c->capture, out[j]); /* of nothing that is seen */
    several->owner = 0, several->first = several->now = root[i];
  }
  t = m ? symbol_in(c, k->made[i], m) : of ? NULL : ts_capture_symbol(c, k->made[i]);
  if (t) memcpy(t->stride, layout->stride, sizeof t->stride);
  if (t) t->contiguous = layout->contiguous;
  ts_tensor_unref(layout);
  return t;
}

static TsTensor **symbols(TsContext *c, const Given *k, TsTensor **out) {
  TsVal few[16], *root = k->nout <= 16 ? few : malloc(sizeof *root * (size_t)k->nout);
  int i = 0;
  if (!root) return ts_error_memory(&c->err), NULL;
  while (i < k->nout && (out[i] = output_symbol(c, k, i, root, out))) i++;
  bool whole = i == k->nout;
  while (!whole && i-- > 0) ts_tensor_unref(out[i]);
  if (root != few) free(root);
  return whole ? out : NULL;
}

int ts_capture_call(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                    int room, int *nout, TsTensor **out) {
  TsGraph *g = c->capture->g;
  TsVal few[16], *v = nin <= 16 ? few : malloc(sizeof *v * (size_t)nin), made[TS_MAX_VARIADIC];
  int failed = v ? 0 : ts_error_memory(&c->err);
  g->b.failed = false;
  for (int i = 0; i < nin && !failed; i++) {
    v[i] = in[i] ? ts_capture_value(c, in[i]) : NULL;
    failed = in[i] && !v[i];
  }
  mark_line(c, g);
  g->choice = c->choice;
  g->calling = true;
  if (!failed) { /* there may be no result */
    ts_graph_emit(g, op, nin, v, attr, made, nout);
    failed = g->b.failed;
  }
  g->calling = false, g->choice = NULL;
  TS_ASSERT(failed || *nout <= room);
  if (!failed) failed = !symbols(c, &(Given){nin, *nout, in, v, made}, out);
  if (v != few) free(v);
  return failed ? -1 : 0;
}

TsVal ts_capture_fitted(TsGraph *g, TsVal v, const TsMeta *m) {
  if (v->meta.weak || v->meta.dtype != m->dtype) v = ts_build_cast(&g->b, v, (TsDtype)m->dtype);
  if (v && !ts_meta_same_shape(&v->meta, m))
    v = ts_build(&g->b, TS_OP_broadcast_to, TS_IN(v),
                 TS_ATTRS({"shape", ts_b_ints(m->dim, m->ndim)}), NULL);
  return v;
}

/* Another captured tensor with some of its elements would not see the change. */
static bool is_shared(const TsCapture *k, const TsBound *b) {
  for (int i = 0; i < k->nbound; i++)
    if (&k->bound[i] != b && ts_tensors_overlap(k->bound[i].t, b->t)) return true;
  return false;
}

/* All of the bytes that t's are among have the value v from now on. */
static int set_value(TsContext *c, TsTensor *t, TsBound *b, TsVal v) {
  uint32_t m = memory_number(c, t);
  if (!m || ts_capture_changed(c, m, v)) return -1;
  if (b) b->value = v, b->updated = true;
  return is_symbol(t) && !ts_capture_seen(c, t) ? -1 : 0;
}

/* What stands for the bytes that a view looks at, or NULL: the function's own. */
static TsBound *bound_behind(TsCapture *k, const TsTensor *view) {
  const TsMemory *m = memory_of(k, view);
  for (int i = k->nbound; i-- > 0;) {
    TsBound *b = &k->bound[i];
    if (m->outside ? b->t == m->outside : b->t->id == m->owner) return b;
  }
  return NULL;
}

/* Whose function a region is. */
static const char *operator_of(const TsGraph *region) {
  static const char *const of[][2] = {{"if", "cond"},
                                      {"else", "cond"},
                                      {"while", "while_loop"},
                                      {"do", "while_loop"},
                                      {"round", "fixed_point"}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    if (!strcmp(region->name, of[i][0])) return of[i][1];
  return region->name;
}

int ts_capture_assign(TsContext *c, TsTensor *dst, TsTensor *src) {
  TsCapture *k = c->capture;
  TsGraph *g = k->g;
  g->b.failed = false;
  mark_line(c, g);
  TsVal v = ts_capture_value(c, src);
  if (!v || !(v = ts_capture_fitted(g, v, &dst->meta))) return -1;
  if (is_symbol(dst) && is_ours(k, dst) && from_outside(k, dst))
    return ts_write_refuse(c, operator_of(g));
  if (is_symbol(dst) && !symbol_value(c, dst)) return -1;
  bool view = is_symbol(dst) && looks_at(k, dst);
  if (view && !(v = ts_capture_put(c, dst, v))) return -1;
  TsBound *b = view ? bound_behind(k, dst) : is_symbol(dst) ? find(k, dst) : bind(c, dst);
  if (!b && !is_symbol(dst)) return -1;
  if (b && g != k->root && !made_in(g, b->t)) return ts_write_refuse(c, operator_of(g));
  if (b && is_shared(k, b)) return ts_capture_refuse_view(c, "a view is changed in place");
  /* A tensor of the function's own lies row by row, whatever it is filled from. */
  uint32_t m = memory_number(c, dst);
  bool copied = ts_node_is_view(v->node) && m && (!b || ts_capture_shows(k, m, v));
  if (!m || (copied && !(v = ts_build1(&g->b, TS_OP_clone, v)))) return -1;
  return set_value(c, dst, b, v);
}

/* ---- results */
int ts_capture_use(TsContext *c, int n, const TsVal *v) {
  TsCapture *k = c->capture;
  if (k->nused + n > k->capused) {
    int cap = 2 * k->capused + n;
    TsVal *more = realloc(k->used, (size_t)cap * sizeof *more);
    if (!more) return ts_error_memory(&c->err);
    k->used = more;
    k->capused = cap;
  }
  for (int i = 0; i < n; i++) k->used[k->nused++] = v[i];
  return 0;
}

static int set_results(TsContext *c, TsGraph *g, int n, TsTensor *const *result) {
  TsVal *v = malloc(sizeof *v * (size_t)(n + 1));
  int failed = v ? 0 : ts_error_memory(&c->err);
  for (int i = 0; i < n && !failed; i++)
    failed = !(v[i] = ts_capture_value(c, result[i])) || ts_capture_use(c, 1, &v[i]) ||
             !(v[i] = ts_graph_now(v[i]));
  if (!failed) failed = ts_compile_jets(c, g, n, v, 0, NULL);
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

/* The parameter whose bytes these are, or -1. Captured tensors may be views of one. */
static int param_of(const TsCapture *k, const TsMemory *m) {
  for (int i = 0; m->outside && i < k->nbound; i++)
    if (k->bound[i].t->storage == m->outside->storage) return k->bound[i].param;
  return m->param;
}

/* Which results share bytes, and with which parameters. */
static int note_bytes(TsContext *c, TsGraph *g, int n, TsTensor *const *result) {
  int *bytes = malloc(sizeof *bytes * (size_t)(n + 1)),
      failed = bytes ? 0 : ts_error_memory(&c->err);
  uint32_t *m = malloc(sizeof *m * (size_t)(n + 1));
  if (!m) failed = ts_error_memory(&c->err);
  for (int i = 0; i < n && !failed; i++) {
    int same = i, param = -1;
    m[i] = result[i]->meta.weak ? 0 : memory_number(c, result[i]);
    if (m[i]) param = param_of(c->capture, &c->capture->memory[m[i] - 1]);
    for (int k = i; m[i] && k-- > 0;)
      if (m[k] == m[i]) same = k;
    bytes[i] = param >= 0 ? param : g->nparam + same;
    failed = !m[i] && !result[i]->meta.weak;
  }
  if (!failed) failed = ts_graph_result_bytes(g, bytes);
  free(bytes);
  free(m);
  return failed ? -1 : 0;
}

int ts_capture_updated(TsContext *c, TsVal *v) {
  const TsCapture *k = c->capture;
  int n = 0;
  for (int i = 0; k->g == k->root && i < k->nbound; i++)
    if (k->bound[i].updated && !k->bound[i].anew) {
      if (v) v[n] = k->bound[i].value;
      n++;
    }
  return n;
}

TsGraph *ts_capture_end(TsContext *c, int n, TsTensor *const *result) {
  TsCapture *k = c->capture;
  TsGraph *g = k->root;
  int failed = set_results(c, g, n, result) || note_bytes(c, g, n, result);
  for (int i = 0; i < k->nbound && !failed; i++)
    if (k->bound[i].updated && !k->bound[i].anew)
      failed = ts_graph_update(g, k->bound[i].param, k->bound[i].value);
  if (!failed) failed = ts_graph_keep_failing(g, k->nused, k->used);
  TsGraph *settled = failed ? NULL : ts_graph_settle(g);
  if (!settled) {
    ts_capture_abort(c);
    return NULL;
  }
  if (settled != g)
    settled->module->whole = g; /* its bound tensors belong to the other one now */
  close_capture(c);
  return settled;
}

int ts_capture_region(TsContext *c, const char *name, const TsGraph *instead) {
  TsGraph *g = ts_graph_region(c->capture->g, name);
  if (!g) return -1;
  if (instead) g->module->nrandom = instead->streams;
  g->streams = g->module->nrandom;
  g->since = c->next_id++;
  c->capture->g = g;
  return 0;
}

/* What was made in a region and changed there is as it was made for those around it. */
static void forget_changes(TsCapture *k, const TsGraph *region) {
  for (int i = 0; i < k->nbound; i++)
    if (k->bound[i].updated && made_in(region, k->bound[i].t))
      k->bound[i].value = k->root->param[k->bound[i].param], k->bound[i].updated = false;
}

TsGraph *ts_capture_region_end(TsContext *c, int n, TsTensor *const *result) {
  TsGraph *g = c->capture->g;
  int failed = set_results(c, g, n, result) ||
               ts_graph_keep_failing(g, c->capture->nused, c->capture->used);
  forget_changes(c->capture, g);
  c->capture->g = g->parent;
  return failed ? NULL : g;
}

void ts_capture_behind(TsContext *c, const TsGraph *first_region) {
  int level = 0;
  for (const TsGraph *g = c->capture->g; g->parent; g = g->parent) level++;
  first_region->module->nrandom = first_region->streams + (int64_t)ts_control_block(level);
}

TsCaptureMark ts_capture_mark(TsContext *c) {
  TsGraph *g = c->capture->g;
  return (TsCaptureMark){g, g->module->nrandom};
}

void ts_capture_reset(TsContext *c, TsCaptureMark mark) {
  c->capture->g = mark.g;
  mark.g->module->nrandom = mark.nrandom;
  mark.g->b.failed = false;
}

int ts_capture_into(TsContext *c, TsGraph *g, TsCaptureInto *before) {
  TsCapture *k = c->capture;
  *before = (TsCaptureInto){.capture = k, .g = k ? k->g : NULL, .where = c->where};
  if (!k || k->root->module != g->module) {
    if (!(k = before->made = calloc(1, sizeof *k))) return ts_error_memory(&c->err);
    for (k->root = g; k->root->parent;) k->root = k->root->parent;
    k->serial = c->next_id++;
  }
  c->capture = k;
  c->where = NULL;
  k->g = g;
  return 0;
}

void ts_capture_back(TsContext *c, const TsCaptureInto *before) {
  if (before->made) {
    free(before->made->bound);
    free(before->made->memory);
    free(before->made->used);
    free(before->made);
  }
  c->capture = before->capture;
  c->where = before->where;
  if (c->capture) c->capture->g = before->g;
}
