/* See jit/mesh/run.h. Pieces of one stage need nothing of each other: on devices that work while
 * the host goes on they run side by side. */
#include "jit/mesh/run.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/device.h"
#include "lib/clock.h"
#include "vm/code/lower.h"
#include "vm/core/profile.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/combine.h"
#include "vm/mesh/expand.h"
#include "vm/mesh/parts.h"

typedef struct Piece {
  TsCode *code;
  TsFrame *frame;
  TsJitFunction *hot;
} Piece;

struct TsMeshRun {
  TsContext *c;
  TsGraph *g; /* in which rows that are done by others are these */
  TsMeshPlan *plan;
  int leaves;
  Piece *piece;    /* as the plan's */
  TsTensor **slot; /* while it runs: by slot, then by part; */
  uint64_t stream; /* the stream at which it began */
};

/* ---- life */
TsMeshRun *ts_mesh_run_new(TsContext *c, const TsGraph *g) {
  TsGraph *expanded = ts_mesh_expand(c, g);
  TsMeshPlan *plan = expanded ? ts_mesh_partition(expanded, c->leaves, &c->err) : NULL;
  TsMeshRun *r = plan ? calloc(1, sizeof *r) : NULL;
  if (!r) {
    if (plan) ts_error_memory(&c->err);
    ts_mesh_plan_free(plan);
    if (expanded) ts_graph_free(expanded);
    return NULL;
  }
  size_t n = (size_t)plan->mesh->n;
  *r = (TsMeshRun){.c = c, .plan = plan, .g = expanded, .leaves = c->leaves};
  r->piece = calloc((size_t)plan->nstage * n + 1, sizeof *r->piece);
  r->slot = calloc((size_t)plan->nslot * n + 1, sizeof *r->slot);
  if (r->piece && r->slot) return r;
  ts_mesh_run_free(r);
  ts_error_memory(&c->err);
  return NULL;
}

void ts_mesh_run_free(TsMeshRun *r) {
  if (!r) return;
  for (int i = 0; r->piece && i < r->plan->nstage * r->plan->mesh->n; i++) {
    if (r->piece[i].hot) ts_jit_function_free(r->piece[i].hot);
    if (r->piece[i].frame) ts_frame_free(r->piece[i].frame);
    if (r->piece[i].code) ts_code_free(r->piece[i].code);
  }
  free(r->piece);
  free(r->slot);
  ts_mesh_plan_free(r->plan);
  ts_graph_free(r->g);
  free(r);
}

int ts_mesh_run_leaves(const TsMeshRun *r) { return r->leaves; }
const TsMeshPlan *ts_mesh_run_plan(const TsMeshRun *r) { return r->plan; }

/* ---- what is sent */
static TsCollective collective_of(const TsMeshRun *r, const TsMeshJoin *j) {
  const TsMeta *from = &r->plan->slot[j->from].meta, *to = &r->plan->slot[j->to].meta;
  uint8_t axes = 0;
  for (int i = 0; i < j->naxis; i++) axes |= (uint8_t)(1u << j->axis[i]);
  TsCollective sent = j->sum ? ts_collective_of_summed(to, from, axes)
                             : ts_collective_of_move(from, ts_layout_of(to));
  sent.op = j->node && j->node->op < TS_OP_COUNT ? (TsOp)j->node->op : TS_OP_COUNT;
  return sent;
}

bool ts_mesh_run_sent(const TsMeshRun *r, int join, TsCollective *sent) {
  if (r->plan->join[join].call) return false;
  *sent = collective_of(r, &r->plan->join[join]);
  return sent->kind != TS_COLLECTIVE_none;
}

static const char *operand_of(const TsMeshRun *r, const TsMeshJoin *j) {
  const TsMeta *from = &r->plan->slot[j->from].meta;
  const TsOpInfo *o = ts_op_info((TsOp)j->node->op);
  for (int i = 0; i < j->node->nin; i++)
    if (j->node->in[i] && ts_meta_same_shape(&j->node->in[i]->meta, from))
      return o->input[i < o->nin ? i : o->nin - 1];
  return "an operand";
}

static int tell(TsMeshRun *r, const TsMeshJoin *j) {
  if (j->call) return 0; /* a part of a draw needs nothing of others */
  TsCollective sent = collective_of(r, j);
  bool asked = j->sum || sent.op == TS_OP_reshard || sent.op == TS_OP_COUNT;
  if (!asked && !r->c->planning && ts_collective_hidden(r->c, &sent, operand_of(r, j)))
    return -1;
  r->c->step_place = j->node ? ts_graph_where(j->node) : NULL;
  ts_collective_note(r->c, &sent);
  r->c->step_place = NULL;
  return 0;
}

static void tell_argument(TsMeshRun *r, int i, const TsTensor *t) {
  const TsMeshPlan *plan = r->plan;
  if (ts_tensor_numel(t) > 1)
    ts_collective_note_move(r->c, &t->meta, ts_layout_of(&plan->slot[plan->param[i]].meta),
                            "argument");
}

int ts_mesh_run_tell(TsMeshRun *r, TsTensor *const *args) {
  int failed = 0;
  for (int i = 0; i < r->plan->g->nparam; i++)
    if (r->plan->param[i] >= 0) tell_argument(r, i, args[i]);
  for (int j = 0; j < r->plan->njoin && !failed; j++) failed = tell(r, &r->plan->join[j]);
  return failed;
}

/* ---- slots */
static TsTensor **slots(TsMeshRun *r, int slot) {
  return r->slot + (size_t)slot * (size_t)r->plan->mesh->n;
}

static void clear(TsMeshRun *r, int slot) {
  TsTensor **t = slots(r, slot);
  for (int p = 0; p < r->plan->mesh->n; p++) {
    ts_tensor_unref(t[p]);
    t[p] = NULL;
  }
}

static void clear_all(TsMeshRun *r) {
  for (int s = 0; s < r->plan->nslot; s++) clear(r, s);
}

/* What nobody reads from here on. */
static void clear_behind(TsMeshRun *r, int stage) {
  for (int s = 0; s < r->plan->nslot; s++)
    if (r->plan->slot[s].last <= stage) clear(r, s);
}

/* The tensor of a slot's parts. */
static TsTensor *whole_of(TsMeshRun *r, int slot) {
  TsTensor **t = slots(r, slot), **part = calloc((size_t)r->plan->mesh->n, sizeof *part);
  if (!part) return ts_error_memory(&r->c->err), NULL;
  for (int p = 0; p < r->plan->mesh->n; p++) part[p] = ts_tensor_ref(t[p]);
  TsTensor *whole = ts_mesh_tensor(r->c, &r->plan->slot[slot].meta, part);
  free(part);
  return whole;
}

static int take_parts(TsMeshRun *r, TsTensor *whole, int slot) {
  TsParts *parts = ts_mesh_parts(whole);
  TsTensor **t = slots(r, slot);
  for (int p = 0; parts && p < parts->n; p++) t[p] = ts_tensor_ref(parts->part[p]);
  return parts ? 0 : -1;
}

static int take_arguments(TsMeshRun *r, TsTensor *const *args) {
  const TsMeshPlan *plan = r->plan;
  for (int i = 0; i < plan->g->nparam; i++) {
    const TsLayout *l = ts_layout_of(&plan->slot[plan->param[i]].meta);
    TsTensor *t = ts_mesh_move(r->c, args[i], l, true);
    int failed = !t || take_parts(r, t, plan->param[i]);
    ts_tensor_unref(t);
    if (failed) return -1;
  }
  return 0;
}

/* ---- joins */
static int run_move(TsMeshRun *r, const TsMeshJoin *j) {
  const TsMeshSlot *to = &r->plan->slot[j->to];
  const TsLayout *l = ts_layout_of(&to->meta);
  TsTensor *from = whole_of(r, j->from),
           *moved = from ? ts_mesh_move(r->c, from, l, true) : NULL;
  int failed = !moved || take_parts(r, moved, j->to);
  ts_tensor_unref(moved);
  ts_tensor_unref(from);
  return failed;
}

/* A sum and what it is made of. */
typedef struct Sum {
  TsLeafSum *all, **sum;
  int *nsum;
} Sum;

static void drop_sum(Sum *s) {
  free(s->all);
  free(s->sum);
  free(s->nsum);
}

static int take_sum(TsMeshRun *r, const TsMeshJoin *j, Sum *s, TsMeshSum *job) {
  const TsMeshPlan *plan = r->plan;
  size_t n = (size_t)plan->mesh->n;
  s->all = calloc(n * TS_LEAF_SUMS, sizeof *s->all);
  s->sum = calloc(n, sizeof *s->sum);
  s->nsum = calloc(n, sizeof *s->nsum);
  if (!s->all || !s->sum || !s->nsum) return ts_error_memory(&r->c->err);
  for (int p = 0; p < plan->mesh->n; p++) {
    int lo, hi;
    s->nsum[p] = ts_mesh_join_leaves(plan, j, p, &lo, &hi);
    s->sum[p] = s->all + (size_t)p * TS_LEAF_SUMS;
    ts_leaves_sums(j->leaves, lo, hi, s->sum[p]);
    for (int k = 0; k < s->nsum[p]; k++) s->sum[p][k].value = slots(r, j->from + k)[p];
  }
  *job = (TsMeshSum){.whole = &plan->slot[j->to].meta,
                     .from = ts_layout_of(&plan->slot[j->from].meta),
                     .kind = j->kind,
                     .leaves = j->leaves,
                     .sum = s->sum,
                     .nsum = s->nsum,
                     .out = slots(r, j->to)};
  for (int i = 0; i < j->naxis; i++) job->axes |= (uint8_t)(1u << j->axis[i]);
  return 0;
}

/* Sums in a row need nothing of each other. */
static int run_sums(TsMeshRun *r, int n, const TsMeshJoin *j) {
  Sum *sum = calloc((size_t)n, sizeof *sum);
  TsMeshSum *job = calloc((size_t)n, sizeof *job);
  int failed = sum && job ? 0 : ts_error_memory(&r->c->err);
  for (int i = 0; i < n && !failed; i++)
    failed = tell(r, &j[i]) || take_sum(r, &j[i], &sum[i], &job[i]);
  if (!failed) failed = ts_mesh_combine(r->c, n, job);
  for (int i = 0; i < n && sum; i++) drop_sum(&sum[i]);
  free(sum);
  free(job);
  return failed;
}

/* Its stream counts from where the function began. */
static int run_call(TsMeshRun *r, const TsMeshJoin *j) {
  TsContext *c = r->c;
  uint64_t base = c->stream_base;
  c->stream_base = r->stream;
  TsTensor *from = whole_of(r, j->from);
  TsTensor *y = from ? ts_vm_call1(c, (TsOp)j->node->op, 1, &from, j->node->attr) : NULL;
  int failed = !y || take_parts(r, y, j->to);
  ts_tensor_unref(y);
  ts_tensor_unref(from);
  c->stream_base = base;
  return failed;
}

/* In a profile what is sent stands beside the instructions of the pieces: n joins that are done at
 * once are one. */
static void span_of_joins(const TsMeshRun *r, int n, const TsMeshJoin *j, int64_t start) {
  TsSpan span = {
      .start = start, .end = ts_clock_nsec(), .phase = -1, .depth = r->c->spans->depth};
  for (int i = 0; i < n; i++) {
    TsCollective sent = j[i].call ? (TsCollective){.bytes = 0} : collective_of(r, &j[i]);
    const char *place = j[i].node ? ts_graph_where(j[i].node) : NULL;
    const char *what = ts_collective_name(sent.kind);
    if (!sent.kind) continue;
    if (place && !*place) place = NULL;
    bool first = !span.what, here = place && span.place && !strcmp(place, span.place);
    span.place = first || here ? place : NULL;
    span.what = first || span.what == what ? what : "collectives";
    span.nbytes += sent.bytes;
  }
  if (span.what) ts_spans_add(r->c->spans, &span);
}

/* Joins from number i on that are done at once: how many, or -1. Errors say where the operator stands
 * that asked for it. */
static int run_joins(TsMeshRun *r, int i) {
  const TsMeshPlan *plan = r->plan;
  const TsMeshJoin *j = &plan->join[i];
  int n = 1, failed;
  int64_t start = r->c->spans ? ts_clock_nsec() : 0;
  while (j->sum && i + n < plan->njoin && j[n].sum && j[n].stage == j->stage) n++;
  if (j->sum)
    failed = run_sums(r, n, j);
  else
    failed = tell(r, j) || (j->call ? run_call : run_move)(r, j);
  if (!failed && r->c->spans) span_of_joins(r, n, j, start);
  if (!failed) return n;
  const char *place = j->node ? ts_graph_where(j->node) : NULL;
  return place && *place ? ts_error_where(&r->c->err, plan->g->name, place) : -1;
}

/* ---- pieces */
static Piece *made_piece(TsMeshRun *r, int at) {
  Piece *piece = &r->piece[at];
  const TsGraph *g = r->plan->piece[at].g;
  if (!piece->code && !(piece->code = ts_lower(r->c, g))) return NULL;
  if (!piece->frame && !(piece->frame = ts_frame_new(r->c, piece->code))) return NULL;
  if (!piece->hot && !(piece->hot = ts_jit_function(r->c->jit, g, NULL))) {
    ts_error_memory(&r->c->err);
    return NULL;
  }
  return piece;
}

TsJitFunction *ts_mesh_run_piece(TsMeshRun *r, int at, TsCode **code, TsFrame **frame) {
  Piece *piece = made_piece(r, at);
  if (!piece) return NULL;
  *code = piece->code, *frame = piece->frame;
  return piece->hot;
}

static int run_piece(TsMeshRun *r, int stage, int part, uint64_t stream) {
  TsContext *c = r->c;
  int at = stage * r->plan->mesh->n + part;
  const TsMeshPiece *of = &r->plan->piece[at];
  Piece *piece = made_piece(r, at);
  if (!piece) return -1;
  TsTensor **in = calloc((size_t)(of->nin + of->nout) + 1, sizeof *in), **out = in + of->nin;
  if (!in) return ts_error_memory(&c->err);
  for (int i = 0; i < of->nin; i++) in[i] = slots(r, of->in[i])[part];
  int device = ts_frame_place(c, piece->code, in), failed = device < 0;
  if (!failed) {
    TsFrame *frame = ts_jit_enter(piece->hot, piece->frame, device);
    c->stream = stream; /* draws of all parts are those of the whole function */
    failed = ts_frame_run(frame, in, out);
    ts_jit_leave(piece->hot, frame, device, failed);
  }
  for (int i = 0; i < of->nout && !failed; i++) {
    TsTensor **t = &slots(r, of->out[i])[part];
    ts_tensor_unref(*t);
    *t = out[i];
  }
  free(in);
  return failed;
}

static int run_stage(TsMeshRun *r, int stage, uint64_t stream) {
  if (ts_cpu_interrupted())
    return ts_error_set(&r->c->err, TS_ERR_interrupt, "%s: interrupted", r->plan->g->name);
  for (int part = 0; part < r->plan->mesh->n; part++)
    if (r->plan->piece[stage * r->plan->mesh->n + part].g && run_piece(r, stage, part, stream))
      return -1;
  return 0;
}

static int run_all(TsMeshRun *r, uint64_t stream) {
  const TsMeshPlan *plan = r->plan;
  for (int stage = 0, j = 0; stage < plan->nstage || j < plan->njoin; stage++) {
    for (int n; j < plan->njoin && plan->join[j].stage == stage; j += n)
      if ((n = run_joins(r, j)) < 0) return -1;
    if (stage < plan->nstage && run_stage(r, stage, stream)) return -1;
    clear_behind(r, stage);
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

/* The new value of update u, of bytes of its own: one that is an argument's parts is copied, since
 * these may be written before it is read. */
static TsTensor *new_value(TsMeshRun *r, int u) {
  TsTensor **t = slots(r, r->plan->update[u]), *value = whole_of(r, r->plan->update[u]);
  bool shared = false;
  for (int p = 0; p < r->plan->mesh->n; p++)
    shared |= t[p] && (t[p]->refs > 2 || t[p]->storage->refs > 1);
  if (!value || !shared) return value;
  TsTensor *own = ts_mesh_move(r->c, value, ts_layout_of(&value->meta), false);
  ts_tensor_unref(value);
  return own;
}

/* Parameters get their new values when all of these are there. */
static int commit(TsMeshRun *r, TsTensor *const *args) {
  const TsGraph *g = r->plan->g;
  TsTensor **value = calloc((size_t)g->nupdate + 1, sizeof *value);
  int failed = value ? 0 : ts_error_memory(&r->c->err);
  for (int u = 0; u < g->nupdate && !failed; u++) failed = !(value[u] = new_value(r, u));
  int held = ts_cpu_hold_interrupts();
  for (int u = 0; u < g->nupdate && !failed; u++)
    failed = ts_vm_assign(r->c, args[g->update[u].param], value[u]);
  ts_cpu_let_interrupts(held);
  for (int u = 0; value && u < g->nupdate; u++) ts_tensor_unref(value[u]);
  free(value);
  if (g->nupdate && !failed) r->c->commits++;
  return failed;
}

int ts_mesh_run(TsMeshRun *r, TsTensor *const *args, TsTensor **results) {
  TsContext *c = r->c;
  uint64_t stream = c->stream;
  r->stream = stream;
  c->no_grad++;
  c->inside++;
  int failed = take_arguments(r, args) || run_all(r, stream);
  c->stream = stream + (uint64_t)r->plan->g->module->nrandom;
  if (!failed) failed = give_results(r, args, results);
  if (!failed && commit(r, args)) {
    for (int i = 0; i < r->plan->g->nresult; i++) ts_tensor_unref(results[i]);
    failed = -1;
  }
  clear_all(r);
  c->inside--;
  c->no_grad--;
  return failed ? -1 : 0;
}
