/* What devices send each other between pieces. Of what each micro-batch has for itself, a join
 * is run on that alone: on cells, devices that have the same rows of it. See
 * jit/mesh/state.h. */
#include <stdlib.h>
#include <string.h>

#include "devices/device.h"
#include "jit/mesh/state.h"
#include "vm/drive/random.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/combine.h"
#include "vm/mesh/parts.h"
#include "vm/mesh/wire.h"

/* A step's join as mesh functions see it: a mesh, devices of the place that are its parts, and
 * the tensor before and behind it. */
typedef struct View {
  TsMeshRun *r;
  const TsMeshJoin *j;
  int place, k; /* -1: all micro-batches are parts of the mesh */
  const TsMesh *mesh;
  int n, *part; /* by part of the mesh: the device of the place */
  TsMeta from, to;
} View;

static int place_of(const TsMeshRun *r, const TsMeshJoin *j) {
  int place = r->plan->slot[j->from].place;
  return place < 0 ? (r->plan->slot[j->to].place < 0 ? 0 : r->plan->slot[j->to].place) : place;
}

static TsTensor **tensor_of(const View *v, int slot, int part) {
  int micro = v->r->plan->space.nmicro;
  bool all = v->k < 0 && v->mesh->n > v->r->plan->space.n;
  return ts_mesh_slot(v->r, slot, v->place, all ? part / micro : v->part[part],
                      all        ? part % micro
                      : v->k < 0 ? 0
                                 : v->k);
}

/* ---- notes */
static int onto(TsMeta *m, const TsMesh *mesh, TsError *err) {
  const TsLayout *l = ts_space_onto(ts_layout_of(m), mesh, err);
  m->layout = l ? l->id : 0;
  return l ? 0 : -1;
}

/* All micro-batches of it: what one device has for them is no other's. */
static int together(const TsMeshSpace *s, TsMeta *m, TsError *err) {
  const TsLayout *l = ts_layout_of(m);
  int d = ts_space_batch(s, l);
  if (d < 0) return 0;
  TsLayout made = *l;
  made.naxis[d]--; /* they are its last axis */
  l = ts_layout_make(&made, err);
  m->layout = l ? l->id : 0;
  return l ? 0 : -1;
}

static TsCollective of_send(const TsMeshRun *r, const TsMeshJoin *j) {
  const TsMeshSpace *s = &r->plan->space;
  const TsMeshSlot *from = &r->plan->slot[j->from], *to = &r->plan->slot[j->to];
  TsCollective c = {.kind = TS_COLLECTIVE_permute,
                    .mesh = s->real,
                    .before = from->meta,
                    .meta = to->meta,
                    .op = TS_OP_COUNT,
                    .asks = "pipeline"};
  const TsLayout *a = ts_space_real(s, ts_layout_of(&from->meta), from->place, &r->c->err);
  const TsLayout *b = ts_space_real(s, ts_layout_of(&to->meta), to->place, &r->c->err);
  c.before.layout = a ? a->id : 0, c.meta.layout = b ? b->id : 0;
  if (s->axis >= 0) c.axes = (uint8_t)(1u << s->axis);
  for (int p = 0; p < s->mesh->n; p += from->micro ? 1 : s->nmicro) {
    TsMeta m = ts_layout_part(ts_layout_of(&from->meta), &from->meta, p);
    c.bytes += ts_meta_nbytes(&m) * (to->place < 0 ? s->nplace - 1 : 1);
  }
  if (!c.bytes) c.kind = TS_COLLECTIVE_none;
  return c;
}

static TsCollective collective_of(const TsMeshRun *r, const TsMeshJoin *j) {
  const TsMeshSlot *from = &r->plan->slot[j->from], *to = &r->plan->slot[j->to];
  const TsMeshSpace *s = &r->plan->space;
  TsMeta before = from->meta, after = to->meta;
  const TsMesh *mesh = (j->micro ? s->lane : s->at)[place_of(r, j)];
  TsCollective none = {.kind = TS_COLLECTIVE_none};
  uint8_t axes = 0;
  if (j->kind == TS_JOIN_send) return of_send(r, j);
  if (!j->micro && (together(s, &before, &r->c->err) || together(s, &after, &r->c->err)))
    return none;
  if (onto(&before, mesh, &r->c->err) || onto(&after, mesh, &r->c->err)) return none;
  for (int i = 0; i < j->naxis; i++) axes |= (uint8_t)(1u << j->axis[i]);
  TsCollective sent = j->kind == TS_JOIN_sum
                          ? ts_collective_of_summed(&after, &before, axes)
                          : ts_collective_of_move(&before, ts_layout_of(&after));
  sent.op = j->node && j->node->op < TS_OP_COUNT ? (TsOp)j->node->op : TS_OP_COUNT;
  return sent;
}

/* Found out once: it depends on the plan alone. */
static TsCollective known_of(TsMeshRun *r, int join) {
  TsMeshSent *s = &r->sent[join];
  TsErrorCode before = r->c->err.code;
  if (!s->known) s->what = collective_of(r, &r->plan->join[join]);
  s->known = r->c->err.code == before;
  return s->what;
}

bool ts_mesh_run_sent(const TsMeshRun *r, int join, TsCollective *sent) {
  const TsMeshJoin *j = &r->plan->join[join];
  if (j->kind == TS_JOIN_call || j->kind == TS_JOIN_fold) return false;
  *sent = collective_of(r, j);
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

int ts_mesh_tell_join(TsMeshRun *r, const TsMeshStep *s) {
  const TsMeshJoin *j = &r->plan->join[s->at];
  unsigned char once = s->again ? 2 : 1;
  if (j->kind == TS_JOIN_call || j->kind == TS_JOIN_fold || r->told[s->at] & once) return 0;
  r->told[s->at] |= once;
  if (j->row) return 0; /* with the first one all of them are told */
  TsCollective sent = known_of(r, s->at);
  if (j->nrow) {
    sent.bytes *= j->nrow;
    sent.before.dim[j->along] *= j->nrow, sent.meta.dim[j->along] *= j->nrow;
  }
  bool asked = j->kind != TS_JOIN_move || sent.op == TS_OP_reshard || sent.op == TS_OP_COUNT;
  if (!asked && !r->c->planning && ts_collective_hidden(r->c, &sent, operand_of(r, j)))
    return -1;
  const char *around = r->c->step_place;
  r->c->step_place = j->node ? ts_graph_where(j->node) : NULL;
  ts_collective_note(r->c, &sent);
  r->c->step_place = around;
  return 0;
}

/* ---- views of a join */
static int take_parts(const View *v, TsTensor *whole) {
  TsParts *parts = ts_mesh_parts(whole);
  bool each =
      v->k >= 0 || v->r->plan->slot[v->j->to].micro || v->mesh->n == v->r->plan->space.n;
  int step =
      each ? 1 : v->r->plan->space.nmicro; /* what all micro-batches share is there once */
  for (int p = 0; parts && p < parts->n; p += step) {
    TsTensor **to = tensor_of(v, v->j->to, p);
    ts_tensor_unref(*to);
    *to = ts_tensor_ref(parts->part[p]);
  }
  return parts ? 0 : -1;
}

/* What pieces alone read may be one tensor on devices of one memory; what is handed out is
 * not. */
static TsMeshShare may_share(const View *v) {
  const TsMeshPlan *p = v->r->plan;
  for (int i = 0; i < p->g->nresult + p->g->nupdate; i++)
    if (p->result[i] == v->j->to) return TS_MESH_SHARE_source;
  return TS_MESH_SHARE_all;
}

static int run_move(View *v) {
  TsContext *c = v->r->c;
  TsTensor **part = calloc((size_t)v->mesh->n, sizeof *part);
  if (!part) return ts_error_memory(&c->err);
  for (int p = 0; p < v->mesh->n; p++) part[p] = ts_tensor_ref(*tensor_of(v, v->j->from, p));
  TsTensor *from = ts_mesh_tensor(c, &v->from, part);
  TsTensor *moved = from ? ts_mesh_move(c, from, ts_layout_of(&v->to), may_share(v)) : NULL;
  int failed = !moved || take_parts(v, moved);
  ts_tensor_unref(moved);
  ts_tensor_unref(from);
  free(part);
  return failed;
}

/* A sum and what it is made of. */
typedef struct Sum {
  TsLeafSum *all, **sum;
  TsTensor **out;
  int *nsum;
  TsMeta whole;
} Sum;

static void drop_sum(Sum *s) {
  free(s->all);
  free(s->sum);
  free(s->out);
  free(s->nsum);
}

static int take_sum(View *v, Sum *s, TsMeshSum *job) {
  const TsMeshJoin *j = v->j;
  size_t n = (size_t)v->mesh->n;
  s->all = malloc(n * TS_LEAF_SUMS * sizeof *s->all);
  s->sum = malloc(n * sizeof *s->sum);
  s->out = calloc(n, sizeof *s->out);
  s->nsum = malloc(n * sizeof *s->nsum);
  if (!s->all || !s->sum || !s->out || !s->nsum) return ts_error_memory(&v->r->c->err);
  for (int p = 0; p < v->mesh->n; p++) {
    int lo, hi;
    s->nsum[p] = ts_mesh_join_leaves(v->mesh, j, p, &lo, &hi);
    s->sum[p] = s->all + (size_t)p * TS_LEAF_SUMS;
    ts_leaves_sums(j->leaves, lo, hi, s->sum[p]);
    for (int i = 0; i < s->nsum[p]; i++) s->sum[p][i].value = *tensor_of(v, j->from + i, p);
  }
  s->whole = v->to;
  *job = (TsMeshSum){.whole = &s->whole,
                     .from = ts_layout_of(&v->from),
                     .kind = j->combine,
                     .leaves = j->leaves,
                     .sum = s->sum,
                     .nsum = s->nsum,
                     .out = s->out};
  for (int i = 0; i < j->naxis; i++) job->axes |= (uint8_t)(1u << j->axis[i]);
  return 0;
}

static void give_sum(const View *v, Sum *s) {
  for (int p = 0; s->out && p < v->mesh->n; p++) {
    TsTensor **to = tensor_of(v, v->j->to, p);
    ts_tensor_unref(*to);
    *to = s->out[p];
  }
}

static int run_sum(View *v) {
  Sum s = {.all = NULL};
  TsMeshSum job;
  int failed = take_sum(v, &s, &job) || ts_mesh_combine(v->r->c, 1, &job);
  if (!failed) give_sum(v, &s);
  drop_sum(&s);
  return failed;
}

/* All devices of the place, with the mesh of all micro-batches where these meet. */
static int view_whole(View *v) {
  const TsMeshSpace *s = &v->r->plan->space;
  const TsMeshSlot *slot = v->r->plan->slot;
  bool meet = v->k < 0 && (slot[v->j->from].micro || slot[v->j->to].micro);
  v->mesh = (meet ? s->lane : s->at)[v->place];
  for (int p = 0; p < s->n; p++) v->part[p] = p;
  return onto(&v->from, v->mesh, &v->r->c->err) || onto(&v->to, v->mesh, &v->r->c->err) ? -1
                                                                                        : 0;
}

static int run_whole(View *v) {
  if (view_whole(v)) return -1;
  return v->j->kind == TS_JOIN_sum ? run_sum(v) : run_move(v);
}

/* The layout within a cell: axis d, which its devices share, is whole there. */
static int within(TsMeta *m, const TsLayout *l, int d, int64_t rows, const TsMesh *mesh,
                  TsError *err) {
  TsLayout own = *l;
  own.naxis[d] = 0, own.block[d] = 0, own.mesh = mesh;
  const TsLayout *made = ts_layout_make(&own, err);
  m->layout = made ? made->id : 0, m->dim[d] = rows;
  return made ? 0 : -1;
}

static int run_cell(View *v, int first, int d) {
  const TsMeshSpace *s = &v->r->plan->space;
  const TsMesh *at = s->at[v->place];
  const TsLayout *from = ts_layout_of(&v->r->plan->slot[v->j->from].meta);
  const TsLayout *to = ts_layout_of(&v->r->plan->slot[v->j->to].meta);
  const char *axis[TS_MESH_AXES];
  int size[TS_MESH_AXES], n = 0;
  for (int a = 0; a < at->naxis; a++) {
    axis[a] = at->axis[a];
    size[a] = memchr(from->axis[d], a, from->naxis[d]) ? 1 : at->size[a];
  }
  for (int p = first; p < s->n; p++) {
    bool in = true;
    for (int a = 0; a < at->naxis; a++)
      in &= size[a] == at->size[a] ||
            ts_mesh_coordinate(at, p, a) == ts_mesh_coordinate(at, first, a);
    if (in) v->part[n++] = p;
  }
  v->mesh = ts_mesh_of(at, at->naxis, axis, size, v->part, &v->r->c->err);
  v->from = v->r->plan->slot[v->j->from].meta, v->to = v->r->plan->slot[v->j->to].meta;
  int64_t rows = ts_layout_count(from, d, v->from.dim[d], first * s->nmicro + v->k);
  if (!v->mesh || within(&v->from, from, d, rows, v->mesh, &v->r->c->err) ||
      within(&v->to, to, d, rows, v->mesh, &v->r->c->err))
    return -1;
  return v->j->kind == TS_JOIN_sum ? run_sum(v) : run_move(v);
}

static bool begins_cell(const TsMesh *at, const TsLayout *l, int d, int p) {
  for (int a = 0; a < at->naxis; a++)
    if (!memchr(l->axis[d], a, l->naxis[d]) && ts_mesh_coordinate(at, p, a)) return false;
  return true;
}

static int run_cells(View *v, int d) {
  const TsMeshSpace *s = &v->r->plan->space;
  const TsLayout *from = ts_layout_of(&v->r->plan->slot[v->j->from].meta);
  for (int p = 0; p < s->n; p++)
    if (begins_cell(s->at[v->place], from, d, p) && run_cell(v, p, d)) return -1;
  return 0;
}

/* The axis by which devices form cells, or -1: all are one. */
static int cells_of(const TsMeshRun *r, const TsMeshJoin *j, int k) {
  const TsMeta *from = &r->plan->slot[j->from].meta;
  return k < 0 ? -1 : ts_space_batch(&r->plan->space, ts_layout_of(from));
}

static int open_view(View *v, TsMeshRun *r, const TsMeshJoin *j, int k) {
  *v = (View){.r = r, .j = j, .place = place_of(r, j), .k = k};
  v->from = r->plan->slot[j->from].meta, v->to = r->plan->slot[j->to].meta;
  v->part = malloc(sizeof *v->part * (size_t)r->plan->space.n);
  return v->part ? 0 : ts_error_memory(&r->c->err);
}

static int run_sent(TsMeshRun *r, const TsMeshJoin *j, int k) {
  View v;
  int d = cells_of(r, j, k);
  int failed = open_view(&v, r, j, k) || (d >= 0 ? run_cells(&v, d) : run_whole(&v));
  free(v.part);
  return failed;
}

/* Sums in a row need nothing of each other. */
static int run_sums(TsMeshRun *r, int n, const TsMeshStep *step) {
  View *v = calloc((size_t)n, sizeof *v);
  Sum *sum = calloc((size_t)n, sizeof *sum);
  TsMeshSum *job = calloc((size_t)n, sizeof *job);
  int failed = v && sum && job ? 0 : ts_error_memory(&r->c->err);
  for (int i = 0; i < n && !failed; i++)
    failed = ts_mesh_tell_join(r, &step[i]) ||
             open_view(&v[i], r, &r->plan->join[step[i].at], step[i].k) || view_whole(&v[i]) ||
             take_sum(&v[i], &sum[i], &job[i]);
  if (!failed) failed = ts_mesh_combine(r->c, n, job);
  for (int i = 0; i < n && sum && v; i++) {
    if (!failed) give_sum(&v[i], &sum[i]);
    drop_sum(&sum[i]);
    free(v[i].part);
  }
  free(v);
  free(sum);
  free(job);
  return failed;
}

/* ---- between places */
/* What is lent by another device is copied before that one goes on. */
static int run_send(TsMeshRun *r, const TsMeshJoin *j, int k) {
  const TsMeshSpace *s = &r->plan->space;
  int from = place_of(r, j), to = r->plan->slot[j->to].place, failed = 0;
  int first = to < 0 ? 0 : to, n = to < 0 ? s->nplace : 1, parts = n * s->n;
  TsTensor **lent = calloc((size_t)parts, sizeof *lent);
  if (!lent) return ts_error_memory(&r->c->err);
  TsWire wire = ts_wire_begin(r->c);
  for (int i = 0; i < parts && !failed; i++) {
    const TsMesh *out = s->at[from], *in = s->at[first + i / s->n];
    int device = in->device[i % s->n];
    TsTensor *t = *ts_mesh_slot(r, j->from, from, i % s->n, k < 0 ? 0 : k);
    TsTensor **at = ts_mesh_slot(r, j->to, first + i / s->n, i % s->n, k < 0 ? 0 : k);
    TsMeta m = t->meta;
    m.device = (uint8_t)(device < 0 ? 0 : device);
    ts_tensor_unref(*at);
    if (ts_wire_same_memory(in, i % s->n, out, i % s->n))
      failed = !(*at = ts_tensor_to(r->c, t, m.device));
    else
      failed = !(*at = ts_tensor_new(r->c, &m)) ||
               ts_wire_fetch(&wire, t, ts_wire_end_of(out, i % s->n),
                             ts_wire_end_of(in, i % s->n), &lent[i]);
  }
  failed = failed || ts_wire_flush(&wire);
  for (int i = 0; i < parts && !failed; i++)
    if (lent[i])
      failed = ts_vm_assign(
          r->c, *ts_mesh_slot(r, j->to, first + i / s->n, i % s->n, k < 0 ? 0 : k), lent[i]);
  failed = ts_wire_end(&wire, failed);
  for (int i = 0; i < parts; i++) ts_tensor_unref(lent[i]);
  free(lent);
  return failed;
}

/* ---- between micro-batches */
void ts_mesh_drop_pending(TsMeshRun *r) {
  int n = r->plan->njoin * r->plan->space.n;
  for (int i = 0; r->pending && i < n; i++) {
    TsPending *w = r->pending[i];
    for (int k = 0; w && k < w->n; k++) ts_tensor_unref(w->sum[k].value);
    free(w);
    r->pending[i] = NULL;
  }
}

static int run_fold(TsMeshRun *r, const TsMeshJoin *j, int k) {
  const TsMeshSpace *s = &r->plan->space;
  int place = r->plan->slot[j->to].place;
  for (int p = 0; p < s->n; p++) {
    TsPending **at = &r->pending[(j - r->plan->join) * s->n + p], *w = *at;
    if (!w && !(w = *at = calloc(1, sizeof *w))) return ts_error_memory(&r->c->err);
    int lo, hi, n = ts_mesh_join_leaves(s->mesh, j, p * s->nmicro + k, &lo, &hi);
    ts_leaves_sums(j->leaves, lo, hi, &w->sum[w->n]);
    for (int i = 0; i < n; i++)
      w->sum[w->n + i].value = ts_tensor_ref(*ts_mesh_slot(r, j->from + i, place, p, k));
    w->n += n;
    if (ts_leaves_fold(r->c, j->combine, j->leaves, &w->n, w->sum)) return -1;
    if (++w->seen < s->nmicro) continue;
    TS_ASSERT(w->n <= j->nto);
    for (int i = 0; i < w->n; i++) *ts_mesh_slot(r, j->to + i, place, p, 0) = w->sum[i].value;
    free(w);
    *at = NULL;
  }
  return 0;
}

/* ---- draws: each part's are those of its place in the whole, which nobody has to send. The
 * stream counts from where the function began. */
static int run_call(TsMeshRun *r, const TsMeshJoin *j, int k) {
  TsContext *c = r->c;
  const TsMeshSpace *s = &r->plan->space;
  const TsMeshSlot *to = &r->plan->slot[j->to];
  const TsOpInfo *o = ts_op_info((TsOp)j->node->op);
  uint64_t base = c->stream_base;
  int place = place_of(r, j), leaves = c->leaves, failed = 0;
  TsAttr attr[TS_MAX_ATTR];
  c->stream_base = r->stream, c->leaves = 0;
  memcpy(attr, j->node->attr, sizeof *attr * o->nattr);
  ts_random_pin(c, attr + o->nattr - 2);
  for (int p = 0; p < s->n && !failed; p++) {
    TsTensor *in = *ts_mesh_slot(r, j->from, place, p, k < 0 ? 0 : k), *out = NULL;
    TsRandomBox box = {ts_layout_of(&to->meta), &to->meta, p * s->nmicro + (k < 0 ? 0 : k)};
    int n;
    c->box = &box;
    failed = ts_vm_call(c, (TsOp)j->node->op, 1, &in, attr, 1, &n, &out);
    c->box = NULL;
    TsTensor **at = ts_mesh_slot(r, j->to, place, p, k < 0 ? 0 : k);
    ts_tensor_unref(*at);
    *at = out;
  }
  c->stream_base = base, c->leaves = leaves;
  return failed;
}

static int run_join(TsMeshRun *r, const TsMeshStep *s) {
  static int (*const run[])(TsMeshRun *, const TsMeshJoin *, int) = {
      [TS_JOIN_move] = run_sent, [TS_JOIN_sum] = run_sent,  [TS_JOIN_fold] = run_fold,
      [TS_JOIN_send] = run_send, [TS_JOIN_call] = run_call,
  };
  const TsMeshJoin *j = &r->plan->join[s->at];
  return ts_mesh_tell_join(r, s) || run[j->kind](r, j, s->k) ? -1 : 0;
}

static bool sums_at_once(const TsMeshRun *r, const TsMeshStep *s) {
  const TsMeshJoin *j = &r->plan->join[s->at];
  return s->join && j->kind == TS_JOIN_sum && cells_of(r, j, s->k) < 0;
}

int ts_mesh_run_at_once(const TsMeshRun *r, const TsMeshStep *s, int most) {
  int n = 0;
  while (n < most && s[n].join && s[n].does == s->does && sums_at_once(r, &s[n])) n++;
  return n ? n : 1;
}

/* Errors say where the operator stands that asked for it. */
int ts_mesh_run_joins(TsMeshRun *r, const TsMeshStep *s, int most) {
  const TsMeshJoin *j = &r->plan->join[s->at];
  bool sums = sums_at_once(r, s);
  int n = ts_mesh_run_at_once(r, s, most);
  if (!(sums ? run_sums(r, n, s) : run_join(r, s))) return n;
  const char *place = j->node ? ts_graph_where(j->node) : NULL;
  return place && *place ? ts_error_where(&r->c->err, r->plan->g->name, place) : -1;
}
