/* Recording calls. What is written in place: tape_write.c; backward(): tape_graph.c. */
#include "vm/core/tape.h"

#include <stdlib.h>
#include <string.h>

#include "ir/adjoint/adjoint.h"
#include "vm/core/capture.h"
#include "vm/core/defer.h"
#include "vm/tape_state.h"

static int no_memory(TsContext *c) { return ts_error_memory(&c->err); }

/* ---- life: a chain of records is released without recursion */
const char *ts_record_name(const TsRecord *r) {
  switch (r->kind) {
  case TS_RECORD_function: return r->graph->name;
  case TS_RECORD_custom: return r->custom->name;
  case TS_RECORD_write: return "the assignment";
  case TS_RECORD_look: return "a view";
  default: return ts_op_info(r->op)->name;
  }
}
static int nattr_of(const TsRecord *r) {
  return r->kind == TS_RECORD_call ? ts_op_info(r->op)->nattr : 0;
}

static void free_attrs(TsRecord *r) {
  int n = nattr_of(r);
  for (int i = 0; r->attr && i < n; i++)
    if (r->attr[i].type == TS_ATTR_ints || r->attr[i].type == TS_ATTR_floats ||
        r->attr[i].type == TS_ATTR_str)
      free((void *)(uintptr_t)r->attr[i].ints);
  free(r->attr);
}

void ts_record_leave(TsRecord *r, int i) {
  ts_tensor_unref(r->in[i].t);
  if (r->in[i].from) ts_record_unref(r->in[i].from);
  r->in[i] = (TsInput){NULL, NULL, 0};
}

static TsRecord *pending; /* a stack through `serial`, which nobody reads any more */
static bool releasing;

static void release_now(TsRecord *r) {
  for (int i = 0; r->in && i < r->nin; i++) ts_record_leave(r, i);
  for (int i = 0; i < r->nout; i++) ts_tensor_unref(r->out[i].saved);
  ts_tensor_unref(r->onto);
  ts_taped_free(r->taped);
  free_attrs(r);
  free(r->place);
  free(r->in);
  if (r->graph) ts_capture_release(r->graph);
  ts_custom_unref(r->custom);
  free(r);
}

static void release(TsRecord *r) {
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

void ts_record_unref(void *origin) {
  TsRecord *r = ((TsOutput *)origin)->record;
  if (--r->refs == 0) release(r);
}

void ts_record_free(TsRecord *r) {
  if (r && --r->refs == 0) release(r);
}

/* ---- recording */
static bool copy_attrs(TsRecord *r, const TsAttr *attr) {
  int n = nattr_of(r);
  if (n == 0) return true;
  r->attr = calloc((size_t)n, sizeof *r->attr);
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

TsTensor *ts_record_alias(TsTensor *t) {
  TsTensor *a = ts_tensor_view(t, &t->meta, t->stride, t->offset);
  if (a && a->storage->recorded < UINT16_MAX) {
    a->recorded = 1;
    a->storage->recorded++;
  }
  return a;
}

static bool differentiable(const TsTensor *t) {
  return ts_dtype_is(ts_tensor_dtype(t), TS_KIND_F | TS_KIND_C);
}

TsRecord *ts_record_new(TsContext *c, TsRecordKind kind, int nin, int nout) {
  TsRecord *r = calloc(1, sizeof *r + sizeof *r->out * (size_t)nout);
  if (!r) return no_memory(c), NULL;
  r->refs = 1;
  r->kind = kind;
  r->nin = nin;
  r->nout = nout;
  r->serial = c->next_id++;
  r->in = calloc((size_t)nin + 1, sizeof *r->in);
  const char *place = c->where ? c->where(c->where_arg) : NULL;
  r->place = place ? strdup(place) : NULL;
  for (int k = 0; k < nout; k++) r->out[k].record = r;
  if (r->in && (r->place || !place)) return r;
  no_memory(c);
  release_now(r);
  return NULL;
}

void ts_record_from(TsRecord *r, int i, TsOutput *o) {
  o->record->refs++;
  r->in[i] = (TsInput){ts_tensor_ref(o->saved), o, o->version};
}

/* What the program may go on changing is held by views: it would hold the record in turn. */
int ts_record_take(TsRecord *r, int i, TsTensor *t) {
  if (ts_defer_force(t) || ts_tape_refresh(t)) return -1;
  if (t->origin) {
    ts_record_from(r, i, t->origin);
  } else {
    bool itself = t->requires_grad || t->meta.weak;
    r->in[i].t = itself ? ts_tensor_ref(t) : ts_record_alias(t);
    if (!r->in[i].t) return -1;
    if (!itself) r->in[i].t->id = t->id;
  }
  r->in[i].version = t->storage->version;
  return 0;
}

int ts_record_give(TsRecord *r, int k, TsTensor *t) {
  r->out[k].version = t->storage->version;
  return (r->out[k].saved = ts_record_alias(t)) ? 0 : -1;
}

void ts_record_made(TsRecord *r, int k, TsTensor *t) {
  r->refs++;
  if (t->origin) ts_record_unref(t->origin);
  t->origin = &r->out[k];
  t->requires_grad = 1;
  t->apart = 0;
  t->storage->computed = 1;
}

static TsRecord *record_inputs(TsContext *c, TsRecordKind kind, int nin, TsTensor *const *in,
                               int nout) {
  TsRecord *r = ts_record_new(c, kind, nin, nout);
  for (int i = 0; r && i < nin; i++) {
    if (!in[i] || !ts_record_take(r, i, in[i])) continue;
    release_now(r);
    return NULL;
  }
  if (r) r->serial = c->next_id++; /* behind the looks that its inputs may have taken */
  return r;
}

/* The outputs, as far as they are the record's own: those that have a derivative, and were not
 * there before. */
static int record_outputs(TsRecord *r, int n, TsTensor *const *out, int nin,
                          TsTensor *const *in) {
  for (int k = 0; k < n; k++)
    if (ts_record_give(r, k, out[k])) return -1;
  for (int k = 0; k < n; k++) {
    bool given = false; /* a function that returns what it was given has not made it */
    for (int i = 0; i < nin && r->kind == TS_RECORD_function; i++) given |= in[i] == out[k];
    if (differentiable(out[k]) && !out[k]->origin && !given) ts_record_made(r, k, out[k]);
  }
  return 0;
}

static bool any_differentiable(int n, TsTensor *const *out) {
  for (int i = 0; i < n; i++)
    if (differentiable(out[i])) return true;
  return false;
}

/* What is constant almost everywhere is recorded, since what it is computed from gets zeros;
 * other rows without a derivative do not compute with the elements, or give no floats. */
static bool passes(TsOp op) {
  return ts_adjoint_table[op] != ts_adjoint_zero || ts_op_info(op)->cls == TS_CLASS_POINTWISE;
}

int ts_tape_record(const TsCall *call) {
  if (!passes(call->op)) return ts_tape_unrecorded(call), 0;
  if (!any_differentiable(call->nout, call->out)) return 0;
  TsRecord *r = record_inputs(call->ctx, TS_RECORD_call, call->nin, call->in, call->nout);
  if (!r) return -1;
  r->op = call->op;
  int failed = !copy_attrs(r, call->attr) ? no_memory(call->ctx)
                                          : record_outputs(r, call->nout, call->out, 0, NULL);
  ts_record_free(r); /* or what it has made holds it */
  return failed;
}

void ts_tape_unrecorded(const TsCall *call) {
  if (ts_op_info(call->op)->cls == TS_CLASS_VIEW && ts_tape_asks(call->in[0]))
    call->out[0]->apart = 1;
}

int ts_tape_record_custom(TsContext *c, TsCustom *f, int nin, TsTensor *const *in, int nout,
                          TsTensor *const *out) {
  if (!any_differentiable(nout, out)) return 0;
  TsRecord *r = record_inputs(c, TS_RECORD_custom, nin, in, nout);
  if (!r) return -1;
  r->custom = ts_custom_ref(f);
  int failed = record_outputs(r, nout, out, 0, NULL);
  ts_record_free(r);
  return failed;
}

/* ---- captured functions: what they read is recorded before the run, what they gave after it */
/* What the run is about to change and no record made. */
static int keep_updated(TsContext *c, TsInput *in) {
  TsTensor *copy = in->from ? NULL : ts_tensor_copy(c, in->t);
  if (!copy) return in->from ? 0 : -1;
  ts_tensor_unref(in->t);
  in->t = copy;
  in->version = copy->storage->version;
  return 0;
}

TsRecord *ts_tape_begin_function(TsContext *c, TsGraph *g, TsTensor *const *in) {
  TsRecord *r = record_inputs(c, TS_RECORD_function, g->nparam, in, g->nresult + g->nupdate);
  if (!r) return NULL;
  ts_capture_ref(r->graph = g);
  for (int u = 0; u < g->nupdate; u++)
    if (keep_updated(c, &r->in[g->update[u].param])) return ts_record_free(r), NULL;
  r->seed = c->seed;
  r->stream = c->stream;
  return r;
}

int ts_tape_end_function(TsContext *c, TsRecord *r, TsTensor *const *in, TsTensor *const *out,
                         TsRecord *const *update) {
  const TsGraph *g = r->graph;
  int failed = 0;
  r->serial = c->next_id++;
  for (int u = 0; u < g->nupdate && !failed; u++)
    failed = ts_record_give(r, g->nresult + u, in[g->update[u].param]);
  if (!failed) failed = record_outputs(r, g->nresult, out, g->nparam, in);
  for (int u = 0; u < g->nupdate; u++) {
    if (!update || !update[u]) continue;
    if (failed)
      ts_record_free(update[u]);
    else
      ts_tape_end_write_of(update[u], in[g->update[u].param], r, g->nresult + u);
  }
  ts_record_free(r);
  return failed;
}
