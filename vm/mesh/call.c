/* See vm/mesh/call.h. The rule of the row says which axes hang together (lib/shard/shard.h),
 * the layouts of the operands which of them are split; operands that lie otherwise are moved,
 * each device does the call on its parts, and summands are combined. */
#include "vm/mesh/call.h"

#include <stdlib.h>
#include <string.h>

#include "lib/shard/shard.h"
#include "vm/drive/random.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/combine.h"
#include "vm/mesh/define.h"
#include "vm/mesh/failure.h"
#include "vm/mesh/leaves.h"
#include "vm/mesh/parts.h"
#include "vm/mesh/planned.h"
#include "vm/mesh/times.h"

typedef struct MeshCall {
  TsContext *c;
  const TsCall *call;
  const TsMesh *mesh;
  TsTensor **in;       /* as they have to lie; numbers and NULL as they are */
  TsMeta *was;         /* types of the operands before they move */
  const TsMeta **meta; /* each of these, or NULL */
  TsShard s;
  const TsLayout *gives[TS_MAX_OUT]; /* how results lie, when their summands are added up */
  TsAttr pinned[TS_MAX_ATTR];
  int declared;  /* leaves, by the program */
  int leaves, f; /* of the factor that results are summed over, or -1 */
  bool plans;    /* nothing is computed (vm/mesh/planned.h) */
  bool scatters; /* the result is a sum of which each device gets its piece */
} MeshCall;

static int find_mesh(MeshCall *m) {
  const TsCall *call = m->call;
  for (int i = 0; i < call->nin; i++) m->meta[i] = call->in[i] ? &call->in[i]->meta : NULL;
  return ts_shard_mesh(call->op, call->nin, m->meta, &m->mesh, &m->c->err);
}

static const char *operand_name(const TsCall *call, int i) {
  const TsOpInfo *o = ts_op_info(call->op);
  return o->input[i < o->nin ? i : o->nin - 1];
}

/* Devices are about to send what the program may not have asked for. */
static int told(MeshCall *m, TsCollective sent, int i) {
  sent.op = m->call->op;
  if (m->plans && !m->c->planning) return 0;
  if (sent.op != TS_OP_reshard && ts_collective_hidden(m->c, &sent, operand_name(m->call, i)))
    return -1;
  ts_collective_note(m->c, &sent);
  return 0;
}

static TsTensor *planned(MeshCall *m, const TsTensor *t, const TsLayout *l) {
  TsMeta meta = t->meta;
  meta.layout = l->id;
  return ts_mesh_planned(m->c, &meta);
}

/* Operands without summands, all of the mesh. Single numbers go along everywhere. */
static TsTensor *on_mesh(MeshCall *m, int i) {
  TsTensor *t = m->call->in[i];
  const TsLayout *l = ts_layout_of(&t->meta);
  if (t->meta.weak || (l && !l->partial)) return ts_tensor_ref(t);
  if (l) {
    TsCollective sent = ts_collective_of_summands(&t->meta);
    const TsLayout *sum = ts_layout_at(sent.meta.layout);
    if (told(m, sent, i)) return NULL;
    return m->plans ? planned(m, t, sum) : ts_mesh_summed(m->c, t);
  }
  l = ts_layout_replicated(m->mesh, t->meta.ndim, &m->c->err);
  if (l && ts_tensor_numel(t) > 1 && told(m, ts_collective_of_move(&t->meta, l), i))
    return NULL;
  return !l ? NULL : m->plans ? planned(m, t, l) : ts_mesh_move(m->c, t, l, TS_MESH_SHARE_all);
}

static int take_operands(MeshCall *m) {
  const TsCall *call = m->call;
  int failed = 0;
  for (int i = 0; i < call->nin && !failed; i++) {
    if (!call->in[i]) continue;
    failed = !(m->in[i] = on_mesh(m, i));
    if (!failed) m->was[i] = m->in[i]->meta, m->meta[i] = &m->was[i];
  }
  return failed;
}

static int split(MeshCall *m, const TsMeta *out) {
  const TsCall *call = m->call;
  TsShard *s = &m->s;
  s->op = call->op, s->nin = call->nin, s->nout = call->nout;
  s->in = m->meta, s->out = out, s->attr = call->attr, s->err = &m->c->err;
  s->settles = m->c->settles > 0;
  memset(s->in_axis, TS_WHOLE, sizeof *s->in_axis * (size_t)call->nin);
  memset(s->out_axis, TS_WHOLE, sizeof s->out_axis);
  ts_op_info(call->op)->shard(s);
  if (ts_shard_solve(s, m->mesh)) return -1;
  for (int o = 0; o < s->nout; o++)
    if (!(m->gives[o] = ts_shard_gives(s, m->mesh, o))) return -1;
  m->scatters = ts_collective_scatters(s, m->mesh, 0, s->want);
  m->leaves = ts_shard_leaves(s, m->mesh, m->declared, &m->f);
  return m->leaves < 0 ? -1 : 0;
}

static int move_operands(MeshCall *m) {
  for (int i = 0; i < m->call->nin; i++) {
    TsTensor *t = m->in[i];
    if (!t || t->meta.weak) continue;
    const TsLayout *l = ts_shard_needs(&m->s, m->mesh, i);
    if (l && l->id != t->meta.layout && told(m, ts_collective_of_move(&t->meta, l), i))
      return -1;
    TsTensor *lies = !l         ? NULL
                     : m->plans ? planned(m, t, l)
                                : ts_mesh_move(m->c, t, l, TS_MESH_SHARE_all);
    if (!lies) return -1;
    ts_tensor_unref(t);
    m->in[i] = lies;
  }
  return 0;
}

/* ---- the parts */
typedef struct Part {
  TsTensor *out[TS_MAX_OUT];
  TsLeafSum (*sum)[TS_LEAF_SUMS]; /* of a call that sums: by result */
  int nsum;
} Part;

static void drop_part(Part *made, int nout) {
  for (int o = 0; o < nout; o++) {
    ts_tensor_unref(made->out[o]);
    for (int k = 0; k < made->nsum; k++) ts_tensor_unref(made->sum[o][k].value);
  }
}

static int run_part(MeshCall *m, int p, Part *made, int nout) {
  TsContext *c = m->c;
  const TsCall *call = m->call;
  TsShardPart part;
  TsTensor *few[TS_MAX_IN] = {NULL}, **in = few;
  if (call->nin > TS_MAX_IN) in = calloc((size_t)call->nin, sizeof *in);
  int failed = in ? ts_shard_part(&m->s, m->mesh, p, &part) : ts_error_memory(&c->err), n = 0;
  if (!failed && c->times) failed = ts_times_work_begin(c, m->mesh->device[p]);
  for (int i = 0; i < call->nin && !failed; i++) {
    TsParts *parts = m->in[i] && !m->in[i]->meta.weak ? ts_mesh_parts(m->in[i]) : NULL;
    in[i] = parts ? parts->part[p] : m->in[i];
    failed = m->in[i] && !in[i];
  }
  if (!failed && m->f >= 0) {
    const TsFactor *f = &m->s.factor[m->f];
    TsLayout l = {.mesh = m->mesh, .ndim = 1, .naxis = {f->naxis}};
    memcpy(l.axis[0], f->axis, f->naxis);
    int64_t pieces = ts_layout_pieces(&l, 0), k = ts_layout_piece(&l, p, 0);
    failed = ts_leaves_run(c, &m->s, &part, m->f, m->leaves, (int)(k * m->leaves / pieces),
                           (int)((k + 1) * m->leaves / pieces), in, made->out, made->sum,
                           &made->nsum);
  } else if (!failed) {
    TsRandomBox box = {m->gives[0], &m->s.out[0], p};
    if (ts_op_info(call->op)->cls == TS_CLASS_RANDOM) c->box = &box;
    failed = ts_vm_call(c, call->op, call->nin, in, call->attr ? part.attr : NULL, nout, &n,
                        made->out);
    c->box = NULL;
  }
  if (c->times && ts_times_work_end(c, m->mesh->device[p], failed) && !failed) {
    drop_part(made, nout);
    failed = -1;
  }
  if (in != few) free(in);
  if (failed && (c->err.code == TS_ERR_index || c->err.code == TS_ERR_value) && !c->err.hint[0])
    ts_error_hint(&c->err, "places are counted within part %d of %d", p, m->mesh->n);
  return failed;
}

/* ---- what comes out */
/* The sums of result o. */
static int combine(MeshCall *m, Part *made, int o) {
  int n = m->mesh->n, failed = 0;
  uint8_t axes;
  TsLeafSum **sum = calloc((size_t)n, sizeof *sum);
  TsTensor **out = calloc((size_t)n, sizeof *out);
  int *nsum = calloc((size_t)n, sizeof *nsum);
  TsMeta whole = m->s.out[o];
  ts_shard_combines(&m->s, o, &axes);
  if (!sum || !out || !nsum) failed = ts_error_memory(&m->c->err);
  for (int p = 0; p < n && !failed; p++) sum[p] = made[p].sum[o], nsum[p] = made[p].nsum;
  const TsLayout *from = m->gives[o];
  if (!failed) {
    whole.layout = m->scatters && !o ? m->s.want->id : from->id;
    TsMeshSum job = {.whole = &whole,
                     .from = from,
                     .axes = axes,
                     .kind = m->s.factor[m->f].kind,
                     .leaves = m->leaves,
                     .sum = sum,
                     .nsum = nsum,
                     .out = out};
    failed = ts_mesh_combine(m->c, 1, &job);
  }
  for (int p = 0; out && p < n; p++) made[p].out[o] = out[p];
  free(sum);
  free(out);
  free(nsum);
  return failed;
}

static const TsLayout *result_layout(MeshCall *m, int o) {
  return m->scatters && !o ? m->s.want : m->gives[o];
}

static const TsMeta *result_type(MeshCall *m, TsMeta *whole) {
  const TsLayout *l = result_layout(m, 0);
  *whole = m->s.out[0];
  whole->layout = l ? l->id : 0;
  return whole;
}

static TsTensor *result(MeshCall *m, Part *made, int o) {
  const TsLayout *l = result_layout(m, o);
  TsTensor **part = l ? calloc((size_t)m->mesh->n, sizeof *part) : NULL;
  if (!part) return l ? (ts_error_memory(&m->c->err), NULL) : NULL;
  for (int p = 0; p < m->mesh->n; p++) {
    part[p] = made[p].out[o];
    made[p].out[o] = NULL;
  }
  TsMeta meta = m->s.out[o];
  if (part[0] &&
      meta.ndim == part[0]->meta.ndim) /* sizes that depend on elements, of all parts */
    for (int d = 0; d < meta.ndim; d++)
      if (!l->naxis[d]) meta.dim[d] = part[0]->meta.dim[d];
  meta.layout = l->id;
  TsTensor *t = ts_mesh_tensor(m->c, &meta, part);
  free(part);
  return t;
}

/* A view of an operand whose elements moved is none. */
static void note_views(MeshCall *m) {
  if (ts_op_info(m->call->op)->cls != TS_CLASS_VIEW) return;
  const TsParts *of = ts_mesh_parts(m->in[0]);
  if (m->in[0] == m->call->in[0] && of && !of->copied) return;
  TsParts *p = ts_mesh_parts(m->call->out[0]);
  if (p) p->copied = true;
}

static void note_sum(MeshCall *m, int o) {
  uint8_t axes;
  ts_shard_combines(&m->s, o, &axes);
  if (!axes) return; /* parts give parts */
  TsCollective sent = ts_collective_of_sum(&m->s, m->mesh, o);
  ts_collective_note(m->c, &sent);
}

/* Types and layouts alone. */
static int plan(MeshCall *m) {
  for (int o = 0; o < m->call->nout && m->c->planning; o++) note_sum(m, o);
  for (int o = 0; o < m->call->nout; o++) {
    const TsLayout *l = result_layout(m, o);
    TsMeta meta = m->s.out[o];
    if (l) meta.layout = l->id;
    if (!l || !(m->call->out[o] = ts_mesh_planned(m->c, &meta))) return -1;
  }
  return 0;
}

static int run(MeshCall *m, const TsMeta *out) {
  const TsCall *call = m->call;
  if (find_mesh(m) || take_operands(m) || split(m, out) || move_operands(m)) return -1;
  if (m->plans) return plan(m);
  if (ts_mesh_there(m->c, m->mesh)) return -1;
  Part *made = calloc((size_t)m->mesh->n, sizeof *made);
  TsMeta whole;
  size_t nsum = m->f >= 0 ? (size_t)m->mesh->n * (size_t)call->nout : 0;
  TsLeafSum(*sum)[TS_LEAF_SUMS] = nsum ? malloc(nsum * sizeof *sum) : NULL;
  int failed = made && (sum || !nsum) ? 0 : ts_error_memory(&m->c->err), ndone = 0;
  for (int p = 0; p < m->mesh->n && !failed; p++) {
    if (sum) made[p].sum = sum + p * call->nout;
    if (!m->s.pin || ts_layout_has(m->s.pin, p)) failed = run_part(m, p, &made[p], call->nout);
    if (failed) ts_mesh_failed_part(m->c, call->op, m->mesh, p, result_type(m, &whole));
    ndone += !failed;
  }
  for (int o = 0; o < call->nout && !failed; o++) {
    bool summed = m->f >= 0 && !memchr(m->s.out_axis[o], m->f, out[o].ndim);
    note_sum(m, o);
    if (summed && (failed = combine(m, made, o)))
      ts_mesh_failed_part(m->c, call->op, m->mesh, 0, result_type(m, &whole));
    if (!failed) failed = !(call->out[o] = result(m, made, o));
  }
  for (int p = 0; p < ndone; p++) drop_part(&made[p], call->nout);
  free(made);
  free(sum);
  if (!failed) note_views(m);
  return failed ? -1 : 0;
}

int ts_mesh_call(TsCall *call, const TsMeta *out) {
  TsContext *c = call->ctx;
  const TsLayout *want = c->want && c->want_op == (int)call->op ? c->want : NULL;
  if (want) c->want = NULL; /* it is of this call alone */
  int defined = ts_mesh_define(call, out);
  if (defined) return defined < 0 ? -1 : 0;
  size_t n = (size_t)call->nin + 1;
  TsCall own = *call;
  MeshCall m = {.c = c,
                .call = &own,
                .declared = c->leaves,
                .plans = ts_mesh_plans(c, call->nin, call->in)};
  m.s.want = want;
  m.in = calloc(n, sizeof *m.in);
  m.was = calloc(n, sizeof *m.was);
  m.meta = calloc(n, sizeof *m.meta);
  m.s.in_axis = malloc(n * sizeof *m.s.in_axis);
  const TsOpInfo *o = ts_op_info(call->op);
  if (o->cls == TS_CLASS_RANDOM) {
    memcpy(m.pinned, call->attr, sizeof *m.pinned * o->nattr);
    ts_random_pin(call->ctx, m.pinned + o->nattr - 2);
    own.attr = m.pinned;
  }
  call->ctx->leaves = 0; /* calls on parts are not cut again */
  int failed =
      m.in && m.was && m.meta && m.s.in_axis ? run(&m, out) : ts_error_memory(&call->ctx->err);
  call->ctx->leaves = m.declared;
  for (int i = 0; m.in && i < call->nin; i++) ts_tensor_unref(m.in[i]);
  free(m.in);
  free(m.was);
  free(m.meta);
  free(m.s.in_axis);
  return failed;
}
