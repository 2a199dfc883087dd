/* Runs: what becomes of calls that were put off. A run that reached an end computes the wanted
 * values by one function; any other value is computed from the run's externals by calling its
 * operators again, when somebody asks. */
#include <stdlib.h>
#include <stddef.h>
#include <string.h>

#include "devices/memory.h"
#include "ir/rules/rewrite.h"
#include "jit/trace/state.h"
#include "vm/core/capture.h"
#include "vm/compile.h"
#include "vm/code/lower.h"
#include "lib/clock.h"
#include "lib/activity.h"

enum {
  QUIET_RUNS = 2, /* without a new wanted value, before a function is made */
  ALL_TIMED = 64, /* first runs of a function */
  ONE_TIMED = 8,  /* of so many later */
};

/* ---- externals, and the storages that they hold */
static bool enter_storage(TsTracer *t, TsStorage *s) {
  if (t->nfree_held) {
    s->held = t->free_held[--t->nfree_held];
  } else {
    if (t->nheld + 1 >= TS_HELD_NEVER) return false;
    if (t->nheld + 1 >= t->capheld) {
      int cap = t->capheld ? t->capheld * 2 : 256;
      Ext **held = realloc(t->held, (size_t)cap * sizeof *held);
      if (!held) return false;
      /* The first of each list points back at its place here. */
      for (int i = 1; i <= t->nheld; i++)
        if (held[i]) held[i]->at = &held[i];
      t->held = held;
      uint16_t *list = realloc(t->free_held, (size_t)cap * sizeof *list);
      if (!list) return false;
      t->free_held = list;
      t->capheld = cap;
    }
    s->held = (uint16_t)++t->nheld;
  }
  t->held[s->held] = NULL;
  return true;
}

int ts_run_hold(TsTracer *t, Ext *e, TsTensor *x) {
  TsStorage *s = x->storage;
  *e = (Ext){.t = NULL};
  if (!x->meta.weak) {
    if (!s->held && !enter_storage(t, s)) return -1;
    Ext **first = &t->held[s->held];
    e->next = *first;
    e->at = first;
    if (e->next) e->next->at = &e->next;
    *first = e;
  }
  e->t = ts_tensor_ref(x);
  return 0;
}

static void let_go(TsTracer *t, Ext *e) {
  if (e->at) {
    TsStorage *s = e->t->storage;
    *e->at = e->next;
    if (e->next) e->next->at = e->at;
    if (!t->held[s->held]) {
      t->free_held[t->nfree_held++] = s->held;
      s->held = 0;
    }
  }
  ts_tensor_unref(e->t);
  *e = (Ext){.t = NULL};
}

/* x over a copy of all its storage's bytes. */
static TsTensor *moved(const TsTensor *x, TsTensor *bytes) {
  TsTensor *y = ts_tensor_view(bytes, &x->meta, x->stride, x->offset);
  if (y) y->contiguous = x->contiguous;
  return y;
}

int ts_run_touch(TsStorage *s) {
  TsTracer *t = tracer_of(s->ctx);
  TsMeta m = {.dtype = TS_DT_u8, .ndim = 1, .dim = {s->nbytes}};
  TsTensor *bytes = ts_tensor_read(t->held[s->held]->t) ? ts_tensor_new(t->c, &m) : NULL;
  if (!bytes) return -1;
  memcpy(bytes->storage->host, s->host, (size_t)s->nbytes);
  int failed = 0;
  while (s->held && !failed) {
    Ext *e = t->held[s->held];
    TsTensor *y = moved(e->t, bytes);
    failed = !y;
    if (failed) break;
    let_go(t, e); /* the last one clears s->held */
    e->t = y;
  }
  ts_tensor_unref(bytes);
  return failed ? -1 : 0;
}

/* ---- life */
Run *ts_run_new(Trace *tr) {
  TsTracer *t = tr->t;
  Run *r = tr->spare;
  if (r) {
    tr->spare = r->next;
  } else {
    size_t next = (size_t)tr->max_ext, nout = (size_t)tr->max_out;
    r = malloc(sizeof *r + (next + 1) * sizeof(Ext) +
               (nout + 1) * (sizeof(TsWord) + sizeof(uint64_t)));
    if (!r) return NULL;
    r->ext = (Ext *)(r + 1);
    r->out = (TsWord *)(r->ext + next + 1);
    r->made = (uint64_t *)(r->out + nout + 1);
    r->cap_ext = tr->max_ext, r->cap_out = tr->max_out;
  }
  r->trace = tr;
  r->end = &tr->root;
  r->next_ext = r->alive = 0;
  r->active = true, r->busy = false;
  r->seed = t->c->seed, r->stream = t->c->stream;
  r->next = t->runs;
  r->at = &t->runs;
  if (r->next) r->next->at = &r->next;
  t->runs = r;
  tr->refs++;
  return r;
}

void ts_run_free(Run *r) {
  Trace *tr = r->trace;
  for (int i = 0; i < r->next_ext; i++) let_go(tr->t, &r->ext[i]);
  *r->at = r->next;
  if (r->next) r->next->at = r->at;
  if (r->cap_ext == tr->max_ext && r->cap_out == tr->max_out) {
    r->next = tr->spare;
    tr->spare = r;
  } else {
    free(r); /* the trace has grown a longer branch */
  }
  ts_trace_unref(tr);
}

static Made *made_of(const Run *r, int value) {
  Node *n = r->end;
  while (n->first_out > value) n = n->parent;
  return &n->out[value - n->first_out];
}

TsTensor *ts_run_pend(Run *r, const Made *m, int value) {
  TsTracer *t = r->trace->t;
  TsTensor *p = ts_memory_alloc(sizeof *p);
  if (!p) return NULL;
  p->refs = 1;
  p->contiguous = m->contiguous;
  p->requires_grad = p->apart = p->recorded = 0;
  p->storage = &t->pending;
  p->offset = value;
  p->id = r->made[value];
  p->origin = r;
  p->grad = NULL;
  memcpy(&p->meta, &m->meta, offsetof(TsMeta, dim));
  for (int i = 0; i < m->meta.ndim; i++)
    p->meta.dim[i] = m->meta.dim[i], p->stride[i] = m->stride[i];
  return p;
}

TsTensor *ts_run_show(Run *r, int value) {
  TsWord w = r->out[value], *home = (TsWord *)(uintptr_t)(w - 1);
  if (!ts_word_is_loose(w)) return ts_word_tensor(w);
  TsTensor *p = ts_run_pend(r, made_of(r, value), value);
  if (p) r->out[value] = *home = ts_word_of(p);
  return p;
}

uint64_t ts_run_made(const TsTensor *p) {
  const Run *r = p->origin;
  return r->made[made_of(r, (int)p->offset)->base];
}

/* Memory is as old as it would be if the call had run at once. */
static void date(TsStorage *s, uint64_t made) {
  if (!s->release && (uint64_t)(uintptr_t)s->release_arg > made)
    s->release_arg = (void *)(uintptr_t)made;
}

/* P shows the bytes of y from now on. */
static int adopt(Run *r, int value, TsTensor *y) {
  TsTensor *p = ts_run_show(r, value);
  if (!p) return ts_error_memory(&r->trace->t->c->err);
  date(y->storage, ts_run_made(p));
  r->out[value] = 0;
  r->alive--;
  r->trace->t->c->npending--;
  y->storage->refs++;
  p->storage = y->storage;
  p->offset = y->offset;
  p->origin = NULL;
  return 0;
}

/* ---- calling the operators again */
static int list_nodes(const Run *r, Node **node) {
  int n = r->end->depth + 1;
  Node *k = r->end;
  if (!k->parent) return 0; /* the root itself */
  for (int i = n; i-- > 0; k = k->parent) node[i] = k;
  return n;
}

/* The recorded number, whose tensor nobody needed so far. */
static TsTensor *number_of(TsContext *c, Ext *e, const Source *s) {
  double v;
  memcpy(&v, &s->bits, 8);
  return e->t ? e->t : (e->t = ts_tensor_number(c, v));
}

static int call_again(Run *r, const Node *n, TsTensor **value) {
  TsContext *c = r->trace->t->c;
  TsTensor *in[TRACE_MOST_INPUTS], *out[TS_MAX_OUT];
  TsAttr attr[TS_MAX_ATTR];
  int ext = n->first_ext, nout = 0;
  for (int i = 0; i < n->nin; i++) {
    const Source *s = &n->in[i];
    switch ((SourceKind)s->kind) {
    case SOURCE_none: in[i] = NULL; break;
    case SOURCE_made: in[i] = value[s->at]; break;
    case SOURCE_seen: in[i] = r->ext[s->at].t; break;
    default:
      if (!(in[i] = number_of(c, &r->ext[ext++], s))) return -1;
    }
  }
  if (n->random >= 0) {
    memcpy(attr, n->attr, sizeof *attr * n->nattr);
    attr[n->nattr - 2] = ts_attr_int((int64_t)r->seed);
    attr[n->nattr - 1] = ts_attr_int((int64_t)(r->stream + (uint64_t)n->random));
  }
  if (ts_vm_call(c, (TsOp)n->op, n->nin, in, n->random >= 0 ? attr : n->attr, TS_MAX_OUT, &nout,
                 out))
    return -1;
  TS_ASSERT(nout == n->nout);
  memcpy(value + n->first_out, out, sizeof *out * (size_t)nout);
  r->trace->t->stats.replayed++;
  return 0;
}

/* What values need, by value, and how often it is used. The one that is given needs nothing. */
static void mark_needs(int n, Node **node, int given, bool *needed, uint16_t *uses) {
  for (int i = n; i-- > 0;) {
    bool any = false, there = false;
    for (int k = 0; k < node[i]->nout; k++) {
      any |= needed[node[i]->first_out + k];
      there |= node[i]->first_out + k == given;
    }
    for (int k = 0; any && !there && k < node[i]->nin; k++) {
      if (node[i]->in[k].kind != SOURCE_made) continue;
      needed[node[i]->in[k].at] = true;
      uses[node[i]->in[k].at]++;
    }
  }
}

/* What n has read and nobody reads again is let go. */
static void drop_inputs(const Node *n, const bool *target, uint16_t *uses, TsTensor **value) {
  for (int k = 0; k < n->nin; k++) {
    int v = n->in[k].at;
    if (n->in[k].kind != SOURCE_made || --uses[v] || target[v]) continue;
    ts_tensor_unref(value[v]);
    value[v] = NULL;
  }
}

/* Computes the values that are needed; those of them that are pending get their bytes. given:
 * a value that is there, or -1. */
static int replay(Run *r, bool *needed, int given, TsTensor *y) {
  TsContext *c = r->trace->t->c;
  Node *node[TRACE_MOST_CALLS];
  TsTensor *value[TRACE_MOST_OUTPUTS];
  int n = list_nodes(r, node), nvalue = n ? r->end->first_out + r->end->nout : 0, failed = 0;
  bool target[TRACE_MOST_OUTPUTS];
  uint16_t uses[TRACE_MOST_OUTPUTS];
  memset(value, 0, sizeof *value * (size_t)nvalue);
  memcpy(target, needed, (size_t)nvalue);
  memset(uses, 0, sizeof *uses * (size_t)nvalue);
  mark_needs(n, node, given, needed, uses);
  if (given >= 0) value[given] = ts_tensor_ref(y);
  TsAside was = ts_context_aside(c);
  for (int i = 0; i < n && !failed; i++) {
    bool any = false;
    for (int k = 0; k < node[i]->nout; k++)
      any |= needed[node[i]->first_out + k] && !value[node[i]->first_out + k];
    if (any) failed = call_again(r, node[i], value);
    if (any && !failed) drop_inputs(node[i], target, uses, value);
  }
  ts_context_resume(c, was);
  for (int v = 0; v < nvalue && !failed; v++)
    if (target[v] && r->out[v]) failed = adopt(r, v, value[v]);
  for (int v = 0; v < nvalue; v++) ts_tensor_unref(value[v]);
  return failed ? -1 : 0;
}

/* Everything that shows the same bytes gets them together: one may be changed in place. */
static void mark_group(const Run *r, int base, bool *needed) {
  int n = r->end->first_out + r->end->nout;
  needed[base] = true;
  for (int v = base + 1; v < n; v++)
    if (r->out[v] && made_of(r, v)->base == base) needed[v] = true;
}

static void end_work(Run *r) {
  r->busy = false;
  if (!r->alive) ts_run_free(r);
}

int ts_run_force(Run *r, int value) {
  bool needed[TRACE_MOST_OUTPUTS] = {false};
  mark_group(r, made_of(r, value)->base, needed);
  r->busy = true;
  int failed = replay(r, needed, -1, NULL);
  end_work(r);
  return failed;
}

int ts_run_all(Run *r) {
  bool needed[TRACE_MOST_OUTPUTS] = {false};
  int n = r->end->first_out + r->end->nout;
  for (int v = 0; v < n; v++)
    if (r->out[v]) needed[v] = needed[made_of(r, v)->base] = true;
  r->busy = true;
  int failed = replay(r, needed, -1, NULL);
  end_work(r);
  return failed;
}

/* ---- the function of a path */
void ts_path_free(Path *p) {
  if (!p) return;
  ts_jit_function_free(p->hot);
  ts_frame_free(p->frame);
  ts_code_free(p->code);
  ts_capture_release(p->g);
  free(p->param);
  free(p->result);
  free(p);
}

typedef struct Builder {
  TsGraph *g;
  Path *p;
  TsVal ext[TRACE_MOST_OUTPUTS], value[TRACE_MOST_OUTPUTS];
} Builder;

static TsVal external(Builder *b, const Source *s, int ext, const TsMeta *m) {
  if (s->kind == SOURCE_number) {
    double v;
    memcpy(&v, &s->bits, 8);
    return b->ext[ext] = ts_graph_number(b->g, v);
  }
  TsMeta weak = {.dtype = TS_DT_f64, .weak = TS_WEAK_number};
  b->p->param[b->p->nparam++] = (uint16_t)ext;
  return b->ext[ext] = ts_graph_param(b->g, s->kind == SOURCE_varies ? &weak : m, NULL, NULL);
}

static int build_node(Builder *b, const Node *n) {
  TsVal in[TRACE_MOST_INPUTS];
  int ext = n->first_ext, nout = 0;
  for (int i = 0; i < n->nin; i++) {
    const Source *s = &n->in[i];
    switch ((SourceKind)s->kind) {
    case SOURCE_none: in[i] = NULL; continue;
    case SOURCE_made: in[i] = b->value[s->at]; break;
    case SOURCE_seen: in[i] = b->ext[s->at]; break;
    default: in[i] = external(b, s, ext, s->meta), ext++; break;
    }
    if (!in[i]) return -1;
  }
  if (n->place) b->g->line = ts_graph_place(b->g->module, n->place);
  if (!ts_graph_emit(b->g, (TsOp)n->op, n->nin, in, n->attr, b->value + n->first_out, &nout))
    return -1;
  for (int i = 0; i < nout; i++) {
    const TsMeta *m = ts_val_meta(b->value[n->first_out + i]);
    if (i >= n->nout || m->dtype != n->out[i].meta.dtype ||
        !ts_meta_same_shape(m, &n->out[i].meta))
      return ts_error_set(b->g->err, TS_ERR_value, "a trace has other types than its calls");
  }
  return 0;
}

static int build_graph(Builder *b, const Run *r) {
  Node *node[TRACE_MOST_CALLS];
  TsVal result[TRACE_MOST_OUTPUTS];
  int n = list_nodes(r, node), failed = 0;
  for (int i = 0; i < n && !failed; i++) failed = build_node(b, node[i]);
  for (int i = 0; i < n && !failed; i++)
    for (int k = 0; k < node[i]->nout; k++) {
      if (!node[i]->out[k].wanted) continue;
      result[b->p->nresult] = b->value[node[i]->first_out + k];
      b->p->result[b->p->nresult++] = (uint16_t)(node[i]->first_out + k);
    }
  return failed ? -1 : ts_graph_results(b->g, b->p->nresult, result);
}

static int compile(TsTracer *t, Builder *b) {
  TsContext *c = t->c;
  Path *p = b->p;
  if (!(p->g = ts_compile_exact(c, b->g))) return -1;
  if (!(p->code = ts_lower(c, p->g)) || !(p->frame = ts_frame_new(c, p->code))) return -1;
  return (p->hot = ts_jit_function(t->jit, p->g, NULL)) ? 0 : -1;
}

static Path *build(Run *r) {
  Trace *tr = r->trace;
  TsContext *c = tr->t->c;
  Builder *b = calloc(1, sizeof *b);
  Path *p = calloc(1, sizeof *p);
  if (b) b->p = p;
  if (p) {
    p->param = malloc(sizeof *p->param * (size_t)(tr->max_ext + 1));
    p->result = malloc(sizeof *p->result * (size_t)(tr->max_out + 1));
    p->layout = tr->layout;
  }
  TsAside was = ts_context_aside(c);
  char span[200];
  ts_trace_span(tr, r->end, span);
  int64_t begin = ts_clock_nsec();
  int failed = !b || !p || !p->param || !p->result ||
               !(b->g = ts_graph_new("trace", &c->err)) || build_graph(b, r) ||
               compile(tr->t, b);
  ts_context_resume(c, was);
  if (b) ts_capture_release(b->g);
  free(b);
  tr->builds++;
  if (p) p->id = ++tr->t->npath;
  if (failed) {
    ts_trace_say(tr->t, "refused", "%s: %s, in %.1f ms", span, c->err.message,
                 (double)(ts_clock_nsec() - begin) / 1e6);
    ts_error_clear(&c->err);
    ts_path_free(p);
    return NULL;
  }
  ts_trace_say(tr->t, "promoted",
               "%s: %d calls, %d tensors in, %d of %d values out, in %.2f ms here", span,
               r->end->depth + 1, p->nparam, p->nresult, r->end->first_out + r->end->nout,
               (double)(ts_clock_nsec() - begin) / 1e6);
  return p;
}

static int count_wanted(const Node *n) {
  int wanted = 0;
  for (; n->parent; n = n->parent)
    for (int k = 0; k < n->nout; k++) wanted += n->out[k].wanted;
  return wanted;
}

/* The path of this end as it should be now, or NULL while it is not known well enough. */
static Path *ready(Run *r) {
  Node *n = r->end;
  Trace *tr = r->trace;
  if (n->path && n->path->layout != tr->layout) {
    ts_path_free(n->path);
    n->path = NULL;
    n->quiet = 0;
  }
  if (n->wanted != tr->wanted) {
    n->wanted = tr->wanted;
    int wanted = count_wanted(n);
    if (wanted != n->nwanted) n->nwanted = wanted, n->quiet = 0;
  }
  if (!n->nwanted || (n->path && n->path->nresult == n->nwanted)) return n->path;
  if (n->quiet++ < (tr->t->eager ? 1 : QUIET_RUNS + tr->builds)) return n->path;
  Path *p = build(r);
  n->quiet = 0;
  if (!p) return n->path;
  ts_path_free(n->path);
  return n->path = p;
}

/* A result that nobody else has. */
static TsTensor *alone(TsContext *c, TsTensor *y) {
  if (y->refs == 1 && y->storage->refs == 1 && y->contiguous && !y->storage->release) return y;
  TsTensor *own = ts_tensor_copy(c, y);
  ts_tensor_unref(y);
  return own;
}

static int give(Run *r, int value, TsTensor *y) {
  if (!made_of(r, value)->shown) {
    return r->out[value] ? adopt(r, value, y) : 0;
  }
  bool needed[TRACE_MOST_OUTPUTS] = {false};
  mark_group(r, value, needed);
  return replay(r, needed, value, y);
}

static int run_path(Run *r, Path *p) {
  TsContext *c = r->trace->t->c;
  TsTensor *arg[TRACE_MOST_OUTPUTS], *result[TRACE_MOST_OUTPUTS];
  for (int i = 0; i < p->nparam; i++) arg[i] = r->ext[p->param[i]].t;
  uint64_t seed = c->seed, stream = c->stream;
  struct TsCapture *capture = c->capture;
  bool trap = c->trap;
  c->seed = r->seed, c->stream = r->stream, c->trap = false, c->capture = NULL;
  TsActivity *w = ts_activity_begin(TS_ACTIVITY_loop, "hot loop", NULL);
  bool timed = ++p->runs < ALL_TIMED || p->runs % ONE_TIMED == 0;
  if (timed) p->last = ts_jit_enter(p->hot, p->frame, 0);
  int failed = ts_frame_run(p->last, arg, result);
  if (timed) ts_jit_leave(p->hot, p->last, 0, failed);
  if (timed && p->runs > ALL_TIMED) ts_jit_stands_for(p->hot, ONE_TIMED);
  ts_activity_end(w, 0, 0);
  c->seed = seed, c->stream = stream, c->trap = trap, c->capture = capture;
  for (int i = 0; i < p->nresult && !failed; i++) {
    if (!(result[i] = alone(c, result[i]))) continue;
    if (give(r, p->result[i], result[i])) ts_error_clear(&c->err);
    ts_tensor_unref(result[i]);
  }
  return failed;
}

/* A failure leaves the values pending: whoever reads them gets the error of the call itself. */
void ts_run_finish(Run *r) {
  TsContext *c = r->trace->t->c;
  r->busy = true;
  r->trace->runs++;
  r->trace->used = ++r->trace->t->stats.runs;
  Path *p = ready(r);
  if (p && run_path(r, p)) ts_error_clear(&c->err);
  end_work(r);
}
