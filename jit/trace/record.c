/* Recording: calls that run become nodes of a trace. Who made an input is known by the ids of
 * tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/trace/state.h"
#include "vm/core/tape.h"

/* Of a composed call those are recorded that it is made of, of a DIRECT one itself, which its graph defines
 * by others: rows whose definition is much larger than their handler stand apart. */
bool ts_trace_allowed(TsOp op) {
  const TsOpInfo *o = ts_op_info(op);
  return !o->apart && o->fails != TS_FAILS_ELEMENTS && o->cls != TS_CLASS_COMPOSE;
}

/* ---- traces */
static void free_paths(Node *n) {
  for (; n; n = n->sibling) {
    ts_path_free(n->path);
    free_paths(n->child);
  }
}

void ts_trace_unref(Trace *tr) {
  if (--tr->refs) return;
  free_paths(&tr->root);
  for (Run *r = tr->spare, *next; r; r = next) {
    next = r->next;
    free(r);
  }
  ts_arena_free(&tr->arena);
  free(tr);
}

void ts_trace_free(Trace *tr) {
  TsTracer *t = tr->t;
  for (Trace **at = &t->first; *at; at = &(*at)->next)
    if (*at == tr) {
      *at = tr->next;
      t->ntrace--;
      break;
    }
  for (Trace **at = &t->start[tr->root.child->op]; *at; at = &(*at)->start)
    if (*at == tr) {
      *at = tr->start;
      break;
    }
  tr->dead = true;
  ts_trace_unref(tr);
}

/* Too many, and the one that has not run for longest goes. */
static void evict(TsTracer *t) {
  Trace *least = t->first;
  for (Trace *k = t->first; k; k = k->next)
    if (k->used <= least->used) least = k;
  char span[200];
  ts_trace_say(t, "evicted", "%s: unused for longest of %d; it ran %u times",
               ts_trace_span(least, least->root.child, span), t->ntrace, least->runs);
  ts_trace_free(least);
}

/* The newest one stands first. */
static void enter(TsTracer *t, Trace *tr) {
  if (t->ntrace >= TRACE_MOST_ROOTS) evict(t);
  tr->next = t->first;
  t->first = tr;
  t->ntrace++;
  tr->used = t->stats.runs;
  tr->start = t->start[tr->root.child->op];
  t->start[tr->root.child->op] = tr;
}

const char *ts_trace_span(const Trace *tr, const Node *end, char text[200]) {
  const Node *n = end;
  while (n->parent && n->parent->parent) n = n->parent;
  const char *first = n->place ? n->place : "", *last = end->place ? end->place : "";
  const char *line = strrchr(last, ':');
  (void)tr;
  snprintf(text, 200, "%.120s%s%.20s", first, line && strcmp(first, last) ? ".." : "",
           line && strcmp(first, last) ? line + 1 : "");
  return text;
}

/* ---- nodes */
static bool find_id(const uint64_t *id, int n, uint64_t want, int *at) {
  for (int i = n; i-- > 0;)
    if (id[i] == want) return *at = i, true;
  return false;
}

bool ts_trace_knows(const Recorder *rec, const TsTensor *x) {
  int at;
  return x && find_id(rec->out, rec->nout, x->id, &at);
}

static const TsAttr *copy_attrs(TsArena *a, int n, const TsAttr *attr) {
  TsAttr *to = ts_arena_copy(a, attr, sizeof *to * (size_t)n);
  for (int i = 0; to && i < n; i++) {
    if (to[i].type == TS_ATTR_ints || to[i].type == TS_ATTR_floats)
      to[i].ints = ts_arena_copy(a, attr[i].ints, 8 * (size_t)to[i].n);
    else if (to[i].type == TS_ATTR_str)
      to[i].str = ts_arena_text(a, attr[i].str);
    else
      continue;
    if (!to[i].ints) return NULL;
  }
  return to;
}

/* A number can fail to fit into integers; floats take any. */
static bool may_vary(const TsCall *call) {
  bool any = false;
  for (int i = 0; i < call->nin; i++) {
    const TsTensor *x = call->in[i];
    if (!x || x->meta.weak) continue;
    if (!ts_dtype_is((TsDtype)x->meta.dtype, TS_KIND_F | TS_KIND_C)) return false;
    any = true;
  }
  return any;
}

static int set_source(Recorder *rec, const TsCall *call, int i, Source *s) {
  TsTensor *x = call->in[i];
  int at;
  if (!x) return s->kind = SOURCE_none, 0;
  if (find_id(rec->out, rec->nout, x->id, &at)) {
    *s = (Source){.kind = SOURCE_made, .at = (uint16_t)at};
    return 0;
  }
  if (!x->meta.weak && find_id(rec->ext, rec->next_ext, x->id, &at)) {
    *s = (Source){.kind = SOURCE_seen, .at = (uint16_t)at};
    return 0;
  }
  if (rec->next_ext == TRACE_MOST_OUTPUTS) return -1;
  rec->ext[rec->next_ext++] = x->id;
  *s = (Source){.kind = SOURCE_new};
  if (x->meta.weak) {
    double v = ts_tensor_get(x, 0);
    s->kind = SOURCE_number;
    s->may_vary = may_vary(call);
    memcpy(&s->bits, &v, 8);
    return 0;
  }
  s->meta = ts_arena_copy(&rec->trace->arena, &x->meta, sizeof x->meta);
  return s->meta ? 0 : -1;
}

static void set_base(const Recorder *rec, const TsCall *call, Node *n) {
  bool view = ts_op_info(call->op)->cls == TS_CLASS_VIEW &&
              call->out[0]->storage == call->in[0]->storage;
  n->out[0].base = n->first_out;
  if (!view) return;
  int at = n->in[0].at;
  Node *k = rec->at;
  while (k->first_out > at) k = k->parent;
  n->out[0].base = k->out[at - k->first_out].base;
  for (k = rec->at; k->first_out > n->out[0].base;) k = k->parent;
  k->out[n->out[0].base - k->first_out].shown = true;
}

static int set_outputs(Recorder *rec, const TsCall *call, Node *n) {
  for (int i = 0; i < call->nout; i++) {
    const TsTensor *y = call->out[i];
    if (rec->nout == TRACE_MOST_OUTPUTS) return -1;
    rec->out[rec->nout++] = y->id;
    n->out[i].meta = y->meta;
    if (ts_tensor_numel(y) > rec->trace->largest) rec->trace->largest = ts_tensor_numel(y);
    memcpy(n->out[i].stride, y->stride, sizeof *y->stride * y->meta.ndim);
    n->out[i].contiguous = y->contiguous;
    n->out[i].base = (uint16_t)(n->first_out + i);
  }
  set_base(rec, call, n);
  return 0;
}

static bool draws(const Node *n, const TsOpInfo *o) {
  return o->cls == TS_CLASS_RANDOM && n->attr[o->nattr - 1].type == TS_ATTR_none &&
         n->attr[o->nattr - 2].type == TS_ATTR_none;
}

static bool is_plain(const Node *n) {
  TsAttr preset[TS_MAX_ATTR];
  if (n->attr) ts_op_defaults((TsOp)n->op, preset);
  return !n->attr || ts_trace_same_attrs(n, preset);
}

static const char *place_of(Recorder *rec, const TsContext *c) {
  const char *place = c->where ? c->where(c->where_arg) : NULL;
  if (!place) return NULL;
  const char *before = rec->at->place;
  return before && !strcmp(before, place) ? before : ts_arena_text(&rec->trace->arena, place);
}

/* NULL: no room. */
static Node *node_of(Recorder *rec, const TsCall *call) {
  const TsOpInfo *o = ts_op_info(call->op);
  TsArena *a = &rec->trace->arena;
  Node *n = ts_arena_alloc(a, sizeof *n);
  if (!n) return NULL;
  n->parent = rec->at;
  n->trace = rec->trace;
  n->depth = rec->at->parent ? rec->at->depth + 1 : 0;
  n->op = (uint16_t)call->op;
  n->nin = (uint16_t)call->nin, n->nout = (uint16_t)call->nout;
  n->in = ts_arena_alloc(a, sizeof *n->in * (size_t)(call->nin + 1));
  n->out = ts_arena_alloc(a, sizeof *n->out * (size_t)call->nout);
  n->first_out = (uint16_t)rec->nout, n->first_ext = (uint16_t)rec->next_ext;
  n->random = -1;
  if (!n->in || !n->out) return NULL;
  if (call->attr && o->nattr) {
    n->nattr = o->nattr;
    if (!(n->attr = (TsAttr *)(uintptr_t)copy_attrs(a, o->nattr, call->attr))) return NULL;
    if (draws(n, o)) n->random = (int16_t)rec->nrandom++;
  }
  n->plain = n->random < 0 && is_plain(n);
  for (int i = 0; i < call->nin; i++)
    if (set_source(rec, call, i, &n->in[i])) return NULL;
  n->last_ext = (uint16_t)rec->next_ext;
  n->place = place_of(rec, call->ctx);
  return set_outputs(rec, call, n) ? NULL : n;
}

/* ---- the recorder */
static int open_recorder(TsTracer *t, Trace *tr, Node *at, int left) {
  Recorder *rec = &t->rec;
  if (!rec->ext) rec->ext = malloc(sizeof *rec->ext * TRACE_MOST_OUTPUTS);
  if (!rec->out) rec->out = malloc(sizeof *rec->out * TRACE_MOST_OUTPUTS);
  if (!rec->ext || !rec->out) return -1;
  rec->trace = tr;
  rec->at = at;
  rec->left = left;
  rec->next_ext = rec->nout = rec->nrandom = 0;
  return 0;
}

void ts_trace_begin(TsTracer *t, int ncalls) {
  Trace *tr = calloc(1, sizeof *tr);
  if (!tr) return;
  tr->t = t;
  tr->refs = 1;
  tr->root.trace = tr;
  tr->root.depth = -1;
  if (!open_recorder(t, tr, &tr->root, ncalls)) return;
  free(tr);
}

/* Another way on from a node that a run has just left: what it made and got is known. */
void ts_trace_branch(TsTracer *t, Run *r, Node *at) {
  int room = TRACE_MOST_CALLS - at->depth - 2;
  if (room < 1 || open_recorder(t, r->trace, at, room)) return;
  Recorder *rec = &t->rec;
  for (int i = 0; i < r->next_ext; i++)
    rec->ext[rec->next_ext++] = !r->ext[i].t || r->ext[i].t->meta.weak ? 0 : r->ext[i].t->id;
  int n = at->first_out + at->nout;
  for (int i = 0; i < n; i++) {
    const TsTensor *y = r->out[i] ? ts_run_show(r, i) : NULL;
    rec->out[rec->nout++] = y ? y->id : 0;
  }
  for (Node *k = at; k->parent; k = k->parent) rec->nrandom += k->random >= 0;
}

/* ---- what a new trace is told to be close to */
static const Node *same_op(const Node *at, uint16_t op) {
  const Node *n = at->child;
  while (n && n->op != op) n = n->sibling;
  return n;
}

typedef struct Likeness {
  const Trace *trace;
  int calls;         /* of the same operators */
  const Node *a, *b; /* the first of them that make other types, or NULL */
} Likeness;

/* tr and what follows behind a call of another trace. */
static Likeness compare(const Trace *tr, const Trace *other, const Node *before) {
  Likeness l = {.trace = other};
  const Node *b = before;
  for (const Node *a = tr->root.child; a && (b = same_op(b, a->op)); a = a->child) {
    l.calls++;
    if (!l.a && !ts_trace_same_meta(&a->out->meta, &b->out->meta)) l.a = a, l.b = b;
  }
  return l;
}

/* Another trace of the same loop may begin anywhere in it. */
static void look_behind(const Trace *tr, const Trace *other, const Node *at, Likeness *best) {
  for (; at; at = at->sibling) {
    Likeness l = compare(tr, other, at);
    if (l.calls > best->calls) *best = l;
    look_behind(tr, other, at->child, best);
  }
}

static const char *likeness_text(const TsTracer *t, const Trace *tr, char text[300]) {
  Likeness best = {.calls = 0};
  for (const Trace *k = t->first; k; k = k->next)
    if (k != tr) look_behind(tr, k, &k->root, &best);
  if (!best.trace) return "";
  char span[200], type[2][TS_META_TEXT];
  int n = snprintf(text, 300, "; closest is %.100s, the same for %d calls",
                   ts_trace_span(best.trace, best.trace->root.child, span), best.calls);
  if (best.a)
    snprintf(text + n, 300 - (size_t)n, " but that call %d makes %s, not %s", best.a->depth + 1,
             ts_meta_text(&best.a->out->meta, type[0]),
             ts_meta_text(&best.b->out->meta, type[1]));
  return text;
}

void ts_trace_end_record(TsTracer *t) {
  Recorder *rec = &t->rec;
  Trace *tr = rec->trace;
  char span[200];
  rec->trace = NULL;
  if (!tr->root.child) {
    ts_trace_unref(tr);
    return;
  }
  if (rec->nout > tr->max_out || rec->next_ext > tr->max_ext) {
    for (Run *r = tr->spare, *next; r; r = next) {
      next = r->next;
      free(r);
    }
    tr->spare = NULL;
    if (rec->nout > tr->max_out) tr->max_out = rec->nout;
    if (rec->next_ext > tr->max_ext) tr->max_ext = rec->next_ext;
  }
  if (!rec->at->child) rec->at->end = true;
  bool known = false;
  for (Trace *k = t->first; k; k = k->next) known |= k == tr;
  char like[300];
  if (!known) enter(t, tr);
  ts_trace_say(t, known ? "branch" : "found", "%s: %d calls%s",
               ts_trace_span(tr, rec->at, span), rec->at->depth + 1,
               known || !t->verbose ? "" : likeness_text(t, tr, like));
}

bool ts_trace_places_draw(const TsCall *call) {
  return call->ctx->region && ts_op_info(call->op)->cls == TS_CLASS_RANDOM;
}

static bool fits(const Recorder *rec, const TsCall *call) {
  if (!ts_trace_allowed(call->op) || ts_trace_places_draw(call) ||
      call->nin > TRACE_MOST_INPUTS || ts_tape_wants(call->ctx, call->nin, call->in) ||
      call->ctx->device || call->ctx->trap)
    return false;
  for (int i = 0; i < call->nin; i++) {
    const TsTensor *x = call->in[i];
    if (x && (x->meta.device || x->storage->held == TS_HELD_NEVER)) return false;
  }
  for (int i = 0; i < call->nout; i++)
    if (call->out[i]->meta.device) return false;
  return ts_op_info(call->op)->cls != TS_CLASS_VIEW || ts_trace_knows(rec, call->in[0]);
}

void ts_trace_record_call(TsTracer *t, const TsCall *call) {
  Recorder *rec = &t->rec;
  if (!fits(rec, call)) {
    bool reads = false;
    for (int i = 0; i < call->nin; i++) reads |= ts_trace_knows(rec, call->in[i]);
    if (reads) ts_trace_end_record(t); /* it needs their bytes: runs stop here as well */
    return;
  }
  int next_ext = rec->next_ext, nout = rec->nout;
  Node *n = node_of(rec, call);
  if (!n) {
    rec->next_ext = next_ext, rec->nout = nout;
    ts_trace_end_record(t);
    return;
  }
  n->sibling = rec->at->child;
  rec->at->child = n;
  rec->at = n;
  if (--rec->left == 0 || rec->nout + TS_MAX_OUT > TRACE_MOST_OUTPUTS) ts_trace_end_record(t);
}
