/* See jit/mesh/run.h. The steps of the plan are done in their order; on devices that work while
 * the host goes on those that need nothing of each other run side by side. */
#include "jit/mesh/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/device.h"
#include "jit/mesh/failure.h"
#include "jit/mesh/flight.h"
#include "jit/mesh/record.h"
#include "jit/mesh/state.h"
#include "lib/clock.h"
#include "vm/code/lower.h"
#include "vm/core/offload.h"
#include "vm/core/profile.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/expand.h"
#include "vm/mesh/parts.h"
#include "vm/mesh/times.h"

/* ---- life */
TsMeshRun *ts_mesh_run_new(TsContext *c, const TsGraph *g, const TsMeshHow *how) {
  TsOverlap overlap;
  if (ts_mesh_overlap_of(c, g, &overlap)) return NULL;
  TsGraph *expanded = ts_mesh_expand(c, g);
  TsMeshPlan *plan =
      expanded ? ts_mesh_partition(expanded, c->leaves, how, &overlap, &c->err) : NULL;
  TsMeshRun *r = plan ? calloc(1, sizeof *r) : NULL;
  if (!r) {
    if (plan) ts_error_memory(&c->err);
    ts_mesh_plan_free(plan);
    if (expanded) ts_graph_free(expanded);
    return NULL;
  }
  const TsMeshSpace *s = &plan->space;
  size_t n = (size_t)s->n * (size_t)s->nmicro;
  *r = (TsMeshRun){.c = c, .plan = plan, .g = expanded, .leaves = c->leaves};
  r->piece = calloc((size_t)plan->ngroup * n + 1, sizeof *r->piece);
  r->slot = calloc((size_t)(plan->nslot * s->nplace) * n + 1, sizeof *r->slot);
  r->pending = calloc((size_t)(plan->njoin * s->n) + 1, sizeof *r->pending);
  r->told = calloc((size_t)plan->njoin + 1, 1);
  r->sent = calloc((size_t)plan->njoin + 1, sizeof *r->sent);
  r->flight = calloc((size_t)(plan->njoin * s->nmicro) + 1, sizeof *r->flight);
  if (r->piece && r->slot && r->pending && r->told && r->sent && r->flight) return r;
  ts_mesh_run_free(r);
  ts_error_memory(&c->err);
  return NULL;
}

void ts_mesh_run_free(TsMeshRun *r) {
  if (!r) return;
  for (int i = 0; r->piece && i < r->plan->ngroup * r->plan->space.mesh->n; i++) {
    if (r->piece[i].hot) ts_jit_function_free(r->piece[i].hot);
    if (r->piece[i].frame) ts_frame_free(r->piece[i].frame);
    if (r->piece[i].code) ts_code_free(r->piece[i].code);
  }
  free(r->piece);
  free(r->slot);
  free(r->pending);
  free(r->told);
  free(r->sent);
  free(r->flight);
  ts_mesh_record_free(r);
  ts_mesh_plan_free(r->plan);
  ts_graph_free(r->g);
  free(r);
}

int ts_mesh_run_leaves(const TsMeshRun *r) { return r->leaves; }
const TsMeshPlan *ts_mesh_run_plan(const TsMeshRun *r) { return r->plan; }

/* ---- what is sent */
/* How argument i lies, over the graph's mesh. */
static const TsLayout *argument_layout(TsMeshRun *r, int i) {
  const TsMeshPlan *plan = r->plan;
  const TsMeta *m = &plan->g->param[i]->meta;
  return m->layout ? ts_layout_of(m)
                   : ts_layout_replicated(plan->space.real, m->ndim, &r->c->err);
}

static void tell_argument(TsMeshRun *r, int i, const TsTensor *t) {
  const TsLayout *l = argument_layout(r, i);
  if (l && ts_tensor_numel(t) > 1) ts_collective_note_move(r->c, &t->meta, l, "argument");
}

int ts_mesh_run_tell(TsMeshRun *r, TsTensor *const *args) {
  int failed = 0;
  memset(r->told, 0, (size_t)r->plan->njoin);
  for (int i = 0; i < r->plan->g->nparam; i++) tell_argument(r, i, args[i]);
  for (int i = 0; i < r->plan->nstep && !failed; i++)
    if (r->plan->step[i].join && r->plan->step[i].does != TS_STEP_done)
      failed = ts_mesh_tell_join(r, &r->plan->step[i]);
  return failed;
}

/* ---- slots */
TsTensor **ts_mesh_slot(TsMeshRun *r, int slot, int place, int part, int k) {
  const TsMeshSpace *s = &r->plan->space;
  if (!r->plan->slot[slot].micro) k = 0;
  return &r->slot[((slot * s->nplace + place) * s->n + part) * s->nmicro + k];
}

/* slot * micro-batches + number, on all devices. */
static void clear(TsMeshRun *r, int what) {
  const TsMeshSpace *s = &r->plan->space;
  for (int place = 0; place < s->nplace; place++)
    for (int part = 0; part < s->n; part++) {
      TsTensor **t = ts_mesh_slot(r, what / s->nmicro, place, part, what % s->nmicro);
      ts_tensor_unref(*t);
      *t = NULL;
    }
}

static void clear_all(TsMeshRun *r) {
  for (int i = 0; i < r->plan->nslot * r->plan->space.nmicro; i++) clear(r, i);
  ts_mesh_drop_pending(r);
}

/* The tensor of a slot's parts, over the graph's mesh. */
static TsTensor *whole_of(TsMeshRun *r, int slot) {
  const TsMeshSpace *s = &r->plan->space;
  int at = r->plan->slot[slot].place;
  TsMeta m = r->plan->slot[slot].meta;
  const TsLayout *l = ts_space_real(s, ts_layout_of(&m), at, &r->c->err);
  TsTensor **part = l ? calloc((size_t)s->real->n, sizeof *part) : NULL;
  if (!part) return l ? (ts_error_memory(&r->c->err), NULL) : NULL;
  int failed = 0;
  for (int place = at < 0 ? 0 : at; place < (at < 0 ? s->nplace : at + 1); place++)
    for (int p = 0; p < s->n && !failed; p++) {
      int k = ts_space_part(s, place, p), device = s->real->device[k];
      /* What is made of constants alone was made on no device in particular. */
      part[k] =
          ts_tensor_to(r->c, *ts_mesh_slot(r, slot, place, p, 0), device < 0 ? 0 : device);
      failed = !part[k];
    }
  m.layout = l->id;
  TsTensor *whole = failed ? NULL : ts_mesh_tensor(r->c, &m, part);
  for (int p = 0; failed && p < s->real->n; p++) ts_tensor_unref(part[p]);
  free(part);
  return whole;
}

/* What micro-batch k has of a device's rows. */
static TsTensor *rows_of(TsMeshRun *r, int i, TsTensor *part, int device, int p, int k) {
  const TsMeshPlan *plan = r->plan;
  const TsMeta *m = &plan->slot[plan->param[i]].meta;
  int64_t start = 0, count = 0, before = 0, all = 0;
  if (!ts_layout_run(ts_layout_of(m), 0, m->dim[0], p * plan->space.nmicro + k, 0, &start,
                     &count))
    start = 0, count = 0;
  ts_layout_run(argument_layout(r, i), 0, m->dim[0], device, 0, &before, &all);
  TsAttr a[] = {ts_attr_int(0), ts_attr_int(count ? start - before : 0), ts_attr_int(count)};
  return ts_vm_call1(r->c, TS_OP_narrow, 1, &part, a);
}

static int take_argument(TsMeshRun *r, int i, TsTensor *whole) {
  const TsMeshSpace *s = &r->plan->space;
  int slot = r->plan->param[i], at = r->plan->slot[slot].place;
  TsParts *parts = ts_mesh_parts(whole);
  for (int place = at < 0 ? 0 : at; parts && place < (at < 0 ? s->nplace : at + 1); place++)
    for (int p = 0; p < s->n; p++) {
      int device = ts_space_part(s, place, p);
      for (int k = 0; k < (r->plan->slot[slot].micro ? s->nmicro : 1); k++) {
        TsTensor *part = parts->part[device];
        TsTensor *t =
            r->plan->batch[i] ? rows_of(r, i, part, device, p, k) : ts_tensor_ref(part);
        if (!t) return -1;
        *ts_mesh_slot(r, slot, place, p, k) = t;
      }
    }
  return parts ? 0 : -1;
}

static int take_arguments(TsMeshRun *r, TsTensor *const *args) {
  const TsMeshPlan *plan = r->plan;
  for (int i = 0; i < plan->g->nparam; i++) {
    const TsLayout *l = argument_layout(r, i);
    tell_argument(r, i, args[i]);
    TsTensor *t = l ? ts_mesh_move(r->c, args[i], l, TS_MESH_SHARE_source) : NULL;
    int failed = !t || take_argument(r, i, t);
    ts_tensor_unref(t);
    if (failed) return -1;
  }
  return 0;
}

/* ---- pieces */
static TsMeshCode *made_piece(TsMeshRun *r, int at) {
  TsMeshCode *piece = &r->piece[at];
  const TsGraph *g = r->plan->piece[at].g;
  if (!piece->code && !(piece->code = ts_lower(r->c, g))) return NULL;
  if (!piece->frame && !(piece->frame = ts_frame_new(r->c, piece->code))) return NULL;
  if (!piece->hot && !(piece->hot = ts_jit_function(r->c->jit, g, NULL))) {
    ts_error_memory(&r->c->err);
    return NULL;
  }
  return piece;
}

/* What another process runs gives results of these types there. */
static int pass_piece(TsMeshRun *r, const TsMeshPiece *of, int place, int part, int k) {
  for (int i = 0; i < of->nout; i++) {
    TsTensor **t = ts_mesh_slot(r, of->out[i], place, part, k);
    TsMeta m = of->g->result[i]->meta;
    m.device = TS_DEVICE_AWAY, m.layout = 0, m.weak = 0;
    ts_tensor_unref(*t);
    if (!(*t = ts_tensor_new(r->c, &m))) return -1;
  }
  return 0;
}

TsJitFunction *ts_mesh_run_piece(TsMeshRun *r, int at, TsCode **code, TsFrame **frame) {
  TsMeshCode *piece = made_piece(r, r->plan->piece[at].like);
  if (!piece) return NULL;
  *code = piece->code, *frame = piece->frame;
  return piece->hot;
}

/* What a virtual device's piece has made is that device's, though the CPU has run it. */
static void label(TsContext *c, int device, int n, TsTensor **out) {
  if (device <= 0 || ts_offload_on(c, device)) return;
  for (int i = 0; i < n; i++)
    if (out[i]->refs == 1 && !out[i]->meta.device) out[i]->meta.device = (uint8_t)device;
}

static int run_piece(TsMeshRun *r, int group, int part, int k, uint64_t stream) {
  TsContext *c = r->c;
  int at = ts_mesh_piece(r->plan, group, part, k < 0 ? 0 : k),
      place = r->plan->group[group].place;
  const TsMeshPiece *of = &r->plan->piece[at];
  const TsMeshSpace *s = &r->plan->space;
  if (!of->g) return 0;
  if (ts_mesh_away(s->real, ts_space_part(s, place, part)))
    return pass_piece(r, of, place, part, k);
  TsMeshCode *piece = made_piece(r, of->like);
  if (!piece) return -1;
  TsTensor **in = calloc((size_t)(of->nin + of->nout) + 1, sizeof *in), **out = in + of->nin;
  if (!in) return ts_error_memory(&c->err);
  for (int i = 0; i < of->nin; i++) in[i] = *ts_mesh_slot(r, of->in[i], place, part, k);
  int device = ts_frame_place(c, piece->code, in), failed = device < 0;
  int whose = s->real->device[ts_space_part(s, place, part)];
  if (!failed && c->times) failed = ts_times_work_begin(c, whose);
  if (!failed) {
    TsFrame *frame = ts_jit_enter(piece->hot, piece->frame, device);
    c->stream = stream; /* draws of all parts are those of the whole function */
    failed = ts_frame_run(frame, in, out);
    ts_jit_leave(piece->hot, frame, device, failed);
    if (c->times && ts_times_work_end(c, whose, failed) && !failed) {
      for (int i = 0; i < of->nout; i++) ts_tensor_unref(out[i]);
      failed = -1;
    }
  }
  if (!failed) label(c, whose, of->nout, out);
  for (int i = 0; i < of->nout && !failed; i++) {
    TsTensor **t = ts_mesh_slot(r, of->out[i], place, part, k);
    ts_tensor_unref(*t);
    *t = out[i];
  }
  free(in);
  return failed;
}

static int run_group(TsMeshRun *r, const TsMeshStep *s, uint64_t stream) {
  const TsMeshSpace *space = &r->plan->space;
  int place = r->plan->group[s->at].place;
  for (int part = 0; part < space->n; part++)
    if (run_piece(r, s->at, part, s->k, stream))
      return ts_mesh_failure(r, s, space->real->device[ts_space_part(space, place, part)]);
  return 0;
}

/* What a step of one micro-batch sends of what all of them do. */
static int64_t bytes_of_step(const TsMeshRun *r, const TsMeshStep *s, const TsCollective *all) {
  bool one = s->k >= 0 && r->plan->join[s->at].micro;
  return one ? all->bytes / r->plan->space.nmicro : all->bytes;
}

/* What is measured is of these joins, which are one collective. */
static int open_times(TsMeshRun *r, int n, const TsMeshStep *s) {
  for (int i = 0; i < n; i++) {
    TsCollective sent;
    const TsNode *node = r->plan->join[s[i].at].node;
    const char *place = node ? ts_graph_where(node) : NULL;
    if (!ts_mesh_run_sent(r, s[i].at, &sent)) continue;
    sent.bytes = bytes_of_step(r, &s[i], &sent);
    if (!sent.asks && sent.op < TS_OP_COUNT) sent.asks = ts_op_info(sent.op)->name;
    if (place) snprintf(sent.place, sizeof sent.place, "%s", place);
    ts_times_note(r->c, &sent);
  }
  return ts_times_open(r->c, NULL, NULL);
}

/* In a profile what is sent stands beside the instructions of the pieces: n joins that are done
 * at once are one. */
static void span_of_joins(const TsMeshRun *r, int n, const TsMeshStep *s, int64_t start) {
  TsSpan span = {
      .start = start, .end = ts_clock_nsec(), .phase = -1, .depth = r->c->spans->depth};
  for (int i = 0; i < n; i++) {
    TsCollective sent;
    const TsNode *node = r->plan->join[s[i].at].node;
    const char *place = node ? ts_graph_where(node) : NULL;
    if (!ts_mesh_run_sent(r, s[i].at, &sent)) continue;
    const char *what = ts_collective_name(sent.kind);
    if (place && !*place) place = NULL;
    bool first = !span.what, here = place && span.place && !strcmp(place, span.place);
    span.place = first || here ? place : NULL;
    span.what = first || span.what == what ? what : "collectives";
    span.nbytes += bytes_of_step(r, &s[i], &sent);
  }
  if (span.what) ts_spans_add(r->c->spans, &span);
}

/* The joins that are done at once from s on: n of them, or -1. */
static int run_joins(TsMeshRun *r, int n, const TsMeshStep *s) {
  int64_t start = r->c->spans ? ts_clock_nsec() : 0;
  bool timed = r->c->times != NULL;
  int failed = timed && open_times(r, n, s);
  if (!failed) {
    failed = ts_mesh_run_joins(r, s, n) < 0;
    if (timed && ts_times_close(r->c, failed)) failed = -1;
  }
  if (!failed && r->c->spans) span_of_joins(r, n, s, start);
  return failed ? -1 : n;
}

/* One that is sent in its place goes behind those that are on their way (flight.c). */
static int run_join(TsMeshRun *r, const TsMeshStep *s, int left) {
  if (s->does == TS_STEP_done) return ts_mesh_done(r, s) ? -1 : 1;
  int n = ts_mesh_run_at_once(r, s, left);
  TsMeshJoinKind kind = r->plan->join[s->at].kind;
  bool sends = kind != TS_JOIN_fold && kind != TS_JOIN_call;
  bool aside = s->does == TS_STEP_start || (sends && r->latest);
  int beside = aside ? ts_mesh_aside(r, n, s) : 0;
  if (beside < 0) return -1;
  int failed = run_joins(r, n, s) < 0;
  if (beside && ts_mesh_started(r, n, s, failed)) failed = -1;
  for (int i = 0; i < n && !failed && s->does == TS_STEP_all && beside; i++)
    failed = ts_mesh_done(r, &s[i]);
  return failed ? -1 : n;
}

/* Step i, and those behind it that are done at once with it: how many, or -1. */
static int run_step(TsMeshRun *r, int i, uint64_t stream) {
  const TsMeshStep *s = &r->plan->step[i];
  if (!s->join) return run_group(r, s, stream) ? -1 : 1;
  int n = run_join(r, s, r->plan->nstep - i);
  if (n < 0) ts_mesh_failure(r, s, -1);
  return n;
}

static int run_all(TsMeshRun *r, uint64_t stream) {
  const TsMeshPlan *plan = r->plan;
  memset(r->told, 0, (size_t)plan->njoin);
  for (int i = 0, n; i < plan->nstep; i += n) {
    if (ts_cpu_interrupted())
      return ts_error_set(&r->c->err, TS_ERR_interrupt, "%s: interrupted", plan->g->name);
    if ((n = run_step(r, i, stream)) < 0) return -1;
    for (int k = i; k < i + n; k++)
      for (int d = 0; d < plan->step[k].ndie; d++) clear(r, plan->die[plan->step[k].dies + d]);
  }
  return 0;
}

/* ---- the whole */
/* A result that is an argument's parts is the argument. */
static TsTensor *result(TsMeshRun *r, int i, TsTensor *const *args) {
  const TsGraph *g = r->plan->g;
  for (int k = 0; k < g->nparam; k++)
    if (g->result[i] == g->param[k]) return ts_tensor_ref(args[k]);
  return whole_of(r, r->plan->result[i]);
}

static int give_results(TsMeshRun *r, TsTensor *const *args, TsTensor **results) {
  const TsGraph *g = r->plan->g;
  for (int i = 0; i < g->nresult; i++) {
    if ((results[i] = result(r, i, args))) continue;
    while (i > 0) ts_tensor_unref(results[--i]);
    return -1;
  }
  return 0;
}

/* Whether somebody besides the parts of the slot holds one of them, or bytes of it. each:
 * references of every part, which its slot and its whole have. */
static bool is_shared(TsMeshRun *r, int slot, int each) {
  const TsMeshSpace *s = &r->plan->space;
  int n = s->n * s->nplace;
  for (int p = 0; p < n; p++) {
    const TsTensor *t = *ts_mesh_slot(r, slot, p / s->n, p % s->n, 0);
    if (!t || (t->refs == each && t->storage->refs == 1)) continue;
    int same = 0, views = 0;
    for (int q = 0; q < n; q++) {
      const TsTensor *u = *ts_mesh_slot(r, slot, q / s->n, q % s->n, 0);
      bool first = true;
      if (!u || u->storage != t->storage) continue;
      for (int k = 0; k < q && first; k++)
        first = *ts_mesh_slot(r, slot, k / s->n, k % s->n, 0) != u;
      same += u == t, views += first;
    }
    if (t->refs != each * same || t->storage->refs != views) return true;
  }
  return false;
}

/* The new value of update u, which nobody else reads: one that is an argument's parts is
 * copied, since these may be written before it is read. */
static TsTensor *new_value(TsMeshRun *r, int u) {
  TsTensor *value = whole_of(r, r->plan->update[u]);
  if (!value || !is_shared(r, r->plan->update[u], 2)) return value;
  TsTensor *own = ts_mesh_move(r->c, value, ts_layout_of(&value->meta), TS_MESH_SHARE_none);
  ts_tensor_unref(value);
  return own;
}

/* Parameters get their new values when all of these are there. */
static int commit(TsMeshRun *r, TsTensor *const *args) {
  const TsGraph *g = r->plan->g;
  TsTensor **all = calloc(2 * (size_t)g->nupdate + 1, sizeof *all);
  TsTensor **value = all, **param = all + g->nupdate;
  int failed = all ? 0 : ts_error_memory(&r->c->err);
  for (int u = 0; u < g->nupdate && !failed; u++) {
    param[u] = args[g->update[u].param];
    failed = !(value[u] = new_value(r, u));
  }
  if (!failed && g->nupdate) failed = ts_vm_replace_all(r->c, g->nupdate, param, value);
  for (int u = 0; all && u < g->nupdate; u++) ts_tensor_unref(value[u]);
  free(all);
  return failed;
}

static int finish(TsMeshRun *r, TsTensor *const *args, TsTensor **results) {
  if (give_results(r, args, results)) return -1;
  if (!commit(r, args)) return 0;
  for (int i = 0; i < r->plan->g->nresult; i++) ts_tensor_unref(results[i]);
  return -1;
}

int ts_mesh_run(TsMeshRun *r, TsTensor *const *args, TsTensor **results) {
  TsContext *c = r->c;
  uint64_t stream = c->stream;
  r->stream = stream;
  c->no_grad++;
  c->inside++;
  int failed = take_arguments(r, args);
  if (failed) ts_mesh_failure(r, NULL, -1);
  bool recorded = !failed && ts_mesh_record_begin(r);
  failed = failed || run_all(r, stream);
  if (ts_mesh_land(r)) failed = -1;
  if (recorded && ts_mesh_record_end(r)) failed = -1;
  c->stream = stream + (uint64_t)r->plan->g->module->nrandom;
  if (!failed && (failed = finish(r, args, results))) ts_mesh_failure(r, NULL, -1);
  clear_all(r);
  c->inside--;
  c->no_grad--;
  return failed ? -1 : 0;
}
