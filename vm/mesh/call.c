/* See vm/mesh/call.h. The rule of the row says which axes hang together (lib/shard.h), the layouts
 * of the operands which of them are split; operands that lie otherwise are moved, each device
 * does the call on its parts, and summands are combined. */
#include "vm/mesh/call.h"

#include <stdlib.h>
#include <string.h>

#include "lib/shard.h"
#include "vm/drive/random.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/define.h"
#include "vm/mesh/leaves.h"
#include "vm/mesh/parts.h"
#include "vm/mesh/planned.h"

typedef struct MeshCall {
  TsContext *c;
  const TsCall *call;
  const TsMesh *mesh;
  TsTensor **in;       /* as they have to lie; numbers and NULL as they are */
  const TsMeta **meta; /* of the operands before */
  TsShard s;
  TsAttr pinned[TS_MAX_ATTR];
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
  if (ts_collective_hidden(m->c, &sent, operand_name(m->call, i))) return -1;
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
  return !l ? NULL : m->plans ? planned(m, t, l) : ts_mesh_move(m->c, t, l, true);
}

static int take_operands(MeshCall *m) {
  const TsCall *call = m->call;
  int failed = 0;
  for (int i = 0; i < call->nin && !failed; i++) {
    if (!call->in[i]) continue;
    failed = !(m->in[i] = on_mesh(m, i));
    if (!failed) m->meta[i] = &m->in[i]->meta;
  }
  return failed;
}

static int split(MeshCall *m, const TsMeta *out) {
  const TsCall *call = m->call;
  TsShard *s = &m->s;
  s->op = call->op, s->nin = call->nin, s->nout = call->nout;
  s->in = m->meta, s->out = out, s->attr = call->attr, s->err = &m->c->err;
  memset(s->in_axis, TS_WHOLE, sizeof *s->in_axis * (size_t)call->nin);
  memset(s->out_axis, TS_WHOLE, sizeof s->out_axis);
  ts_op_info(call->op)->shard(s);
  if (ts_shard_solve(s, m->mesh)) return -1;
  m->scatters = ts_collective_scatters(s, m->mesh, 0, s->want);
  m->f = -1;
  for (int f = 0; f < s->nfactor; f++) {
    if (s->factor[f].kind == TS_FACTOR_along) continue;
    int pieces = 1;
    for (int a = 0; a < s->factor[f].naxis; a++) pieces *= m->mesh->size[s->factor[f].axis[a]];
    int leaves = s->factor[f].leaves ? s->factor[f].leaves : pieces > 1 ? pieces : m->c->leaves;
    if (leaves > 1) m->f = f, m->leaves = leaves;
  }
  return 0;
}

static int move_operands(MeshCall *m) {
  for (int i = 0; i < m->call->nin; i++) {
    TsTensor *t = m->in[i];
    if (!t || t->meta.weak) continue;
    const TsLayout *l = ts_shard_needs(&m->s, m->mesh, i);
    if (l && l->id != t->meta.layout && told(m, ts_collective_of_move(&t->meta, l), i))
      return -1;
    TsTensor *lies = !l ? NULL : m->plans ? planned(m, t, l) : ts_mesh_move(m->c, t, l, true);
    if (!lies) return -1;
    ts_tensor_unref(t);
    m->in[i] = lies;
  }
  return 0;
}

/* ---- the parts */
typedef struct Part {
  TsTensor *out[TS_MAX_OUT];
  TsLeafSum sum[TS_MAX_OUT][TS_LEAF_SUMS];
  int nsum;
} Part;

static int run_part(MeshCall *m, int p, Part *made, int nout) {
  TsContext *c = m->c;
  const TsCall *call = m->call;
  TsShardPart part;
  TsTensor **in = calloc((size_t)call->nin + 1, sizeof *in);
  int failed = in ? ts_shard_part(&m->s, m->mesh, p, &part) : ts_error_memory(&c->err), n = 0;
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
    failed = ts_vm_call(c, call->op, call->nin, in, call->attr ? part.attr : NULL, nout, &n,
                        made->out);
  }
  free(in);
  return failed;
}

/* ---- what comes out */
/* Values of the parts with p's place outside of the axes that were summed over. */
static bool in_group(const TsMesh *m, uint8_t axes, int p, int q) {
  for (int a = 0; a < m->naxis; a++)
    if (!(axes >> a & 1) && ts_mesh_coordinate(m, p, a) != ts_mesh_coordinate(m, q, a))
      return false;
  return true;
}

static int first_of_group(const TsMesh *m, uint8_t axes, int p) {
  for (int q = 0; q < p; q++)
    if (in_group(m, axes, p, q)) return q;
  return p;
}

/* What part p is to have of a summand, where results are scattered. */
static TsTensor *piece(MeshCall *m, TsTensor *t, int o, int p) {
  const TsLayout *had = ts_shard_gives(&m->s, m->mesh, o), *want = m->s.want;
  TsTensor *y = ts_tensor_ref(t);
  if (!m->scatters || o) return y;
  for (int d = 0; d < want->ndim && y; d++) {
    int64_t n = m->s.out[o].dim[d], from = 0, to = 0, count = 0, all = 0;
    if (want->naxis[d] == had->naxis[d]) continue;
    ts_layout_run(had, d, n, p, 0, &from, &all);
    if (!ts_layout_run(want, d, n, p, 0, &to, &count)) to = from, count = 0;
    TsAttr a[] = {ts_attr_int(d), ts_attr_int(to - from), ts_attr_int(count)};
    TsTensor *cut = ts_vm_call1(m->c, TS_OP_narrow, 1, &y, a);
    ts_tensor_unref(y);
    y = cut;
  }
  return y;
}

static TsTensor *combined(MeshCall *m, Part *made, int o, uint8_t axes, int p) {
  TsLeafSum all[1024];
  int n = 0, device = m->mesh->device[p], failed = 0;
  for (int q = 0; q < m->mesh->n; q++) {
    if (!in_group(m->mesh, axes, p, q)) continue;
    for (int k = 0; k < made[q].nsum && n < (int)(sizeof all / sizeof *all) && !failed; k++) {
      TsTensor *own = piece(m, made[q].sum[o][k].value, o, p);
      all[n] = made[q].sum[o][k];
      all[n].value = own ? ts_tensor_to(m->c, own, device < 0 ? 0 : device) : NULL;
      ts_tensor_unref(own);
      failed = !all[n++].value;
    }
  }
  if (failed) {
    for (int k = 0; k < n; k++) ts_tensor_unref(all[k].value);
    return NULL;
  }
  TsTensor *sum = ts_leaves_root(m->c, m->s.factor[m->f].kind, m->leaves, n, all);
  if (!sum || sum->meta.dtype == m->s.out[o].dtype) return sum;
  TsAttr a = ts_attr_dtype((TsDtype)m->s.out[o].dtype);
  TsTensor *y = ts_vm_call1(m->c, TS_OP_cast, 1, &sum, &a);
  ts_tensor_unref(sum);
  return y;
}

/* The sums of result o: computed once for each group, and copied to its other devices. */
static int combine(MeshCall *m, Part *made, int o) {
  uint8_t axes;
  ts_shard_combines(&m->s, o, &axes);
  for (int p = 0; p < m->mesh->n; p++) {
    int q = m->scatters && !o ? p : first_of_group(m->mesh, axes, p);
    TsTensor *there;
    if (q == p) {
      if (!(made[p].out[o] = combined(m, made, o, axes, p))) return -1;
      continue;
    }
    int device = m->mesh->device[p];
    if (!(there = ts_tensor_to(m->c, made[q].out[o], device < 0 ? 0 : device))) return -1;
    made[p].out[o] = ts_tensor_copy(m->c, there);
    ts_tensor_unref(there);
    if (!made[p].out[o]) return -1;
  }
  return 0;
}

static const TsLayout *result_layout(MeshCall *m, int o) {
  return m->scatters && !o ? m->s.want : ts_shard_gives(&m->s, m->mesh, o);
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
  meta.layout = l->id;
  TsTensor *t = ts_mesh_tensor(m->c, &meta, part);
  free(part);
  return t;
}

/* A view of an operand whose elements moved is none. */
static void note_views(MeshCall *m) {
  if (ts_op_info(m->call->op)->cls != TS_CLASS_VIEW || m->in[0] == m->call->in[0]) return;
  TsParts *p = ts_mesh_parts(m->call->out[0]);
  if (p) p->copied = true;
}

static void note_sums(MeshCall *m) {
  for (int o = 0; o < m->call->nout; o++) {
    TsCollective sent = ts_collective_of_sum(&m->s, m->mesh, o);
    ts_collective_note(m->c, &sent);
  }
}

/* Types and layouts alone. */
static int plan(MeshCall *m) {
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
  note_sums(m);
  if (m->plans) return plan(m);
  if (ts_mesh_there(m->c, m->mesh)) return -1;
  Part *made = calloc((size_t)m->mesh->n, sizeof *made);
  int failed = made ? 0 : ts_error_memory(&m->c->err), ndone = 0;
  for (int p = 0; p < m->mesh->n && !failed; p++) {
    failed = run_part(m, p, &made[p], call->nout);
    ndone += !failed;
  }
  for (int o = 0; o < call->nout && !failed; o++) {
    bool summed = m->f >= 0 && !memchr(m->s.out_axis[o], m->f, out[o].ndim);
    if (summed) failed = combine(m, made, o);
    if (!failed) failed = !(call->out[o] = result(m, made, o));
  }
  for (int p = 0; p < ndone; p++)
    for (int o = 0; o < call->nout; o++) {
      ts_tensor_unref(made[p].out[o]);
      for (int k = 0; k < made[p].nsum; k++) ts_tensor_unref(made[p].sum[o][k].value);
    }
  free(made);
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
  MeshCall m = {.c = c, .call = &own, .plans = ts_mesh_plans(c, call->nin, call->in)};
  m.s.want = want;
  m.in = calloc(n, sizeof *m.in);
  m.meta = calloc(n, sizeof *m.meta);
  m.s.in_axis = malloc(n * sizeof *m.s.in_axis);
  const TsOpInfo *o = ts_op_info(call->op);
  if (o->cls == TS_CLASS_RANDOM) {
    memcpy(m.pinned, call->attr, sizeof *m.pinned * o->nattr);
    ts_random_pin(call->ctx, m.pinned + o->nattr - 2);
    own.attr = m.pinned;
  }
  int failed = m.in && m.meta && m.s.in_axis ? run(&m, out) : ts_error_memory(&call->ctx->err);
  for (int i = 0; m.in && i < call->nin; i++) ts_tensor_unref(m.in[i]);
  free(m.in);
  free(m.meta);
  free(m.s.in_axis);
  return failed;
}
