/* See ir/mesh/partition.h. Nodes are taken in their order, those of the update last; each becomes,
 * for every part, nodes of the graph of that part in its group. */
#include "ir/mesh/partition.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "ir/mesh/delays.h"
#include "ir/mesh/leaves.h"
#include "ir/mesh/order.h"
#include "ir/mesh/slots.h"
#include "ir/text/value.h"

typedef struct Call {
  const TsNode *n;
  TsSlotReader r;
  TsShard s;
  int f, leaves, group;
  bool micro;     /* it is done for each micro-batch */
  int *in;        /* slots, -1 where absent, -2: a number */
  TsVal *operand; /* of one part */
} Call;

static int pieces_of(const TsSlots *a, const Call *k, int part, int *place) {
  const TsFactor *f = &k->s.factor[k->f];
  TsLayout l = {.mesh = a->p->space.mesh, .ndim = 1, .naxis = {f->naxis}};
  memcpy(l.axis[0], f->axis, f->naxis);
  *place = ts_layout_piece(&l, part, 0);
  return ts_layout_pieces(&l, 0);
}

static bool lacks(const Call *k, int o) {
  return k->f >= 0 && !memchr(k->s.out_axis[o], k->f, k->s.out[o].ndim);
}

/* The part's own leaves; of a factor that is not split the whole sum. */
static void run_leaves(TsSlots *a, Call *k, int part, TsMeshPiece *piece, const TsShardPart *of,
                       int (*sum)[TS_LEAF_SUMS], TsVal *out) {
  TsVal made[TS_MAX_OUT][TS_LEAF_SUMS];
  int place, pieces = pieces_of(a, k, part, &place);
  int n = ts_leaves_build(&piece->g->b, &k->s, of, k->f, k->leaves, place * k->leaves / pieces,
                          (place + 1) * k->leaves / pieces, k->operand, out, made);
  for (int o = 0; o < k->s.nout && !piece->g->b.failed; o++) {
    if (!lacks(k, o)) continue;
    if (pieces == 1) {
      out[o] = made[o][0];
      if (out[o]->meta.dtype != k->s.out[o].dtype)
        out[o] = ts_build_cast(&piece->g->b, out[o], (TsDtype)k->s.out[o].dtype);
      continue;
    }
    for (int i = 0; i < n; i++) {
      a->p->slot[sum[o][i]].meta.dtype = made[o][i]->meta.dtype;
      ts_slots_set_local(a, sum[o][i], k->group, part, made[o][i]);
    }
  }
}

static void run_part(TsSlots *a, Call *k, int part, const int *slot, int (*sum)[TS_LEAF_SUMS]) {
  TsMeshPiece *piece = ts_slots_piece(a, k->group, part);
  TsShardPart of;
  TsVal out[TS_MAX_OUT] = {NULL};
  for (int i = 0; i < k->s.nin && !a->failed; i++)
    k->operand[i] = k->in[i] == -1 ? NULL
                    : k->in[i] < 0 ? ts_graph_number(piece->g, k->n->in[i]->node->number)
                                   : ts_slots_local(a, k->in[i], k->group, part);
  if (a->failed || ts_shard_part(&k->s, a->p->space.mesh, part, &of)) {
    a->failed = true;
    return;
  }
  piece->g->line = ts_graph_place(piece->g->module, ts_graph_where(k->n));
  piece->g->backward = k->n->backward;
  bool split = false;
  if (k->f >= 0)
    run_leaves(a, k, part, piece, &of, sum, out);
  else
    piece->g->b.emit(&piece->g->b, k->s.op, k->s.nin, k->operand, k->n->attr ? of.attr : NULL,
                     out);
  if (piece->g->b.failed) a->failed = true;
  int place;
  if (k->f >= 0) split = pieces_of(a, k, part, &place) > 1;
  for (int o = 0; o < k->s.nout && !a->failed; o++)
    if (!(split && lacks(k, o))) ts_slots_set_local(a, slot[o], k->group, part, out[o]);
}

/* ---- sums */
/* Slots of summands side by side, as many as the part with the most has. */
static int new_sums(TsSlots *a, const TsMeta *m, int leaves, const TsLayout *of, int group,
                    int place, int *first) {
  int most = 0, level[TS_LEAF_SUMS], at[TS_LEAF_SUMS];
  int pieces = ts_layout_pieces(of, 0);
  for (int p = 0; p < of->mesh->n; p++) {
    int k = ts_layout_piece(of, p, 0);
    int n =
        ts_leaves_subtrees(leaves, k * leaves / pieces, (k + 1) * leaves / pieces, level, at);
    if (n > most) most = n;
  }
  for (int i = 0; i < most && !a->failed; i++) {
    int slot = ts_slots_new(a, m, i, group, place);
    if (!i) *first = slot;
  }
  return most;
}

static TsLayout factor_layout(const TsSlots *a, int naxis, const uint8_t *axis) {
  TsLayout l = {.mesh = a->p->space.mesh, .ndim = 1, .naxis = {(uint8_t)naxis}};
  memcpy(l.axis[0], axis, (size_t)naxis);
  return l;
}

static TsMeshJoin *new_sum(TsSlots *a, const Call *k, TsMeshJoinKind kind, int level, int from,
                           int to, int nfrom) {
  const TsFactor *f = &k->s.factor[k->f];
  TsMeshJoin *j = ts_slots_join(a, kind, &k->r, level, from, to);
  if (!j) return NULL;
  j->combine = f->kind, j->leaves = k->leaves, j->nfrom = nfrom;
  for (int i = 0; i < f->naxis; i++)
    if (kind == TS_JOIN_fold || f->axis[i] != a->p->space.micro)
      j->axis[j->naxis++] = f->axis[i];
  return j;
}

/* Summands are results of their group. Those of micro-batches are added as they come, as far as one
 * device has neighbours in the tree; the sum of devices is there behind that. */
static void join_sums(TsSlots *a, Call *k, const int *slot, int (*sum)[TS_LEAF_SUMS]) {
  const TsFactor *f = k->f >= 0 ? &k->s.factor[k->f] : NULL;
  int level = k->group >= 0 ? a->p->group[k->group].level + 1 : 0;
  for (int o = 0; f && f->naxis && o < k->s.nout && !a->failed; o++) {
    if (!lacks(k, o) || sum[o][0] < 0) continue;
    int from = sum[o][0], n = 0;
    a->p->slot[slot[o]].group = -1;
    a->p->slot[slot[o]].micro =
        ts_space_batch(&a->p->space, ts_layout_of(&a->p->slot[slot[o]].meta)) >= 0;
    for (; n < TS_LEAF_SUMS && sum[o][n] >= 0; n++) ts_slots_give_out(a, sum[o][n]);
    if (a->p->space.micro >= 0 && memchr(f->axis, a->p->space.micro, f->naxis)) {
      uint8_t axis[TS_MESH_AXES], naxis = 0;
      for (int i = 0; i < f->naxis; i++)
        if (f->axis[i] != a->p->space.micro) axis[naxis++] = f->axis[i];
      TsLayout of = factor_layout(a, naxis, axis);
      TsMeta m = a->p->slot[from].meta;
      int to = -1, nto = new_sums(a, &m, k->leaves, &of, -1, k->r.place, &to);
      for (int i = 0; i < nto && !a->failed; i++) a->p->slot[to + i].micro = false;
      TsMeshJoin *j = a->failed ? NULL : new_sum(a, k, TS_JOIN_fold, level, from, to, n);
      if (j) j->nto = nto, j->micro = true;
      from = to, n = nto;
    }
    if (!a->failed) new_sum(a, k, TS_JOIN_sum, level, from, slot[o], n);
  }
}

/* ---- nodes */
/* What is drawn depends on where a part lies in the whole, which no graph of one device says: such a
 * call is made between groups. */
static bool draws_in_parts(const TsSlots *a, const Call *k) {
  const TsLayout *l;
  if (ts_op_info(k->s.op)->cls != TS_CLASS_RANDOM || k->n->nin != 1 || k->n->nout != 1)
    return false;
  l = ts_layout_of(&a->p->slot[k->in[0]].meta);
  for (int d = 0; d < l->ndim; d++)
    if (l->naxis[d]) return true;
  return false;
}

static void add_draw(TsSlots *a, const Call *k) {
  const TsLayout *l = ts_shard_gives(&k->s, a->p->space.mesh, 0);
  TsMeta m = k->n->out[0].meta;
  if (!l) {
    a->failed = true;
    return;
  }
  m.layout = l->id;
  ts_slots_give_out(a, k->in[0]);
  int slot = ts_slots_new(a, &m, -1, -1, k->r.place);
  TsSlotReader after = k->r;
  int level = ts_slots_level(a, k->in[0], &after, true);
  if (a->p->slot[k->in[0]].group >= 0)
    level = a->p->group[a->p->slot[k->in[0]].group].level + 1;
  if (slot >= 0) ts_slots_join(a, TS_JOIN_call, &k->r, level, k->in[0], slot);
  ts_slots_know(a, (TsVal)&k->n->out[0], slot);
}

static bool is_timed(const TsSlots *a, const Call *k) {
  for (int f = 0; f < k->s.nfactor && a->p->space.micro >= 0; f++)
    if (memchr(k->s.factor[f].axis, a->p->space.micro, k->s.factor[f].naxis)) return true;
  for (int i = 0; i < k->s.nin; i++)
    if (k->in[i] >= 0 && a->p->slot[k->in[i]].micro) return true;
  return false;
}

static void operands(TsSlots *a, Call *k) {
  const TsMesh *mesh = a->p->space.mesh;
  for (int i = 0; i < k->n->nin && !a->failed; i++) {
    k->in[i] = -1;
    if (!k->n->in[i]) continue;
    k->in[i] = -2;
    if (k->n->in[i]->node->op != TS_NODE_number)
      k->in[i] = ts_slots_under(a, &k->r, k->n->in[i], ts_shard_needs(&k->s, mesh, i));
  }
  if (a->failed) return;
  k->micro = is_timed(a, k);
  int level = k->r.phase == TS_PHASE_update ? a->updates : 0;
  if (a->least && a->least[k->n->id] > level) level = a->least[k->n->id];
  for (int i = 0; i < k->n->nin; i++) {
    int l = k->in[i] >= 0 ? ts_slots_level(a, k->in[i], &k->r, k->micro) : 0;
    if (k->in[i] >= 0 && a->delays)
      ts_delays_note(a->delays, k->n->in[i]->node->id, k->n->id, l);
    if (l > level) level = l;
  }
  if (a->delays) ts_delays_found(a->delays, k->n->id, level);
  k->group = level;
}

/* Micro-batch number i of a device does the same as the first one: on as many elements, with the same
 * options, in a whole subtree of as many leaves. */
static bool same_part(const TsSlots *a, const Call *k, int first, int i) {
  TsShardPart x, y;
  const TsMesh *mesh = a->p->space.mesh;
  int level[TS_LEAF_SUMS], at[TS_LEAF_SUMS];
  if (ts_shard_part(&k->s, mesh, first, &x) || ts_shard_part(&k->s, mesh, first + i, &y))
    return false;
  for (int f = 0; f < k->s.nfactor; f++)
    if (x.count[f] != y.count[f]) return false;
  for (int o = 0; k->s.local && o < ts_op_info(k->s.op)->nattr; o++)
    if (!ts_attr_same(&x.attr[o], &y.attr[o])) return false;
  for (int p = first; k->f >= 0 && p <= first + i; p += i) {
    int place, pieces = pieces_of(a, k, p, &place);
    int lo = place * k->leaves / pieces, hi = (place + 1) * k->leaves / pieces;
    if (k->leaves % pieces ||
        (pieces > 1 && ts_leaves_subtrees(k->leaves, lo, hi, level, at) > 1))
      return false;
  }
  return true;
}

static bool all_alike(const TsSlots *a, const Call *k) {
  int n = a->p->space.nmicro;
  for (int p = 0; p < a->p->space.mesh->n; p += n)
    for (int i = 1; i < n; i++)
      if (!same_part(a, k, p, i)) return false;
  return true;
}

static void run_parts(TsSlots *a, Call *k, TsMeta *out) {
  const TsMesh *mesh = a->p->space.mesh;
  int slot[TS_MAX_OUT], sum[TS_MAX_OUT][TS_LEAF_SUMS];
  memset(sum, 0xff, sizeof sum);
  if (k->micro && a->p->alike && !all_alike(a, k)) a->unlike = true;
  if (a->unlike || (k->group = ts_slots_group(a, &k->r, k->micro, k->group)) < 0) return;
  for (int o = 0; o < k->s.nout && !a->failed; o++) {
    const TsLayout *l = ts_shard_gives(&k->s, mesh, o);
    out[o].layout = l ? l->id : 0;
    slot[o] = l ? ts_slots_new(a, &out[o], -1, k->group, k->r.place) : (a->failed = true, -1);
    if (!a->failed) ts_slots_know(a, (TsVal)&k->n->out[o], slot[o]);
  }
  for (int o = 0; o < k->s.nout && !a->failed; o++) {
    if (!lacks(k, o)) continue;
    const TsFactor *f = &k->s.factor[k->f];
    TsLayout of = factor_layout(a, f->naxis, f->axis);
    int first = -1, n = 0;
    if (ts_layout_pieces(&of, 0) > 1)
      n = new_sums(a, &a->p->slot[slot[o]].meta, k->leaves, &of, k->group, k->r.place, &first);
    for (int i = 0; i < n; i++) sum[o][i] = first + i;
  }
  for (int p = 0; p < ts_slots_parts(a) && !a->failed; p += ts_slots_step(a, k->micro))
    run_part(a, k, p, slot, sum);
  if (!a->failed) join_sums(a, k, slot, sum);
}

static void add_node(TsSlots *a, const TsNode *n, TsSlotReader r) {
  const TsMesh *mesh = a->p->space.mesh;
  const TsMeta **meta = calloc((size_t)n->nin + 1, sizeof *meta);
  Call k = {.n = n, .r = r};
  TsMeta out[TS_MAX_OUT], *type = calloc((size_t)n->nin + 1, sizeof *type);
  k.in = calloc((size_t)n->nin + 1, sizeof *k.in);
  k.operand = calloc((size_t)n->nin + 1, sizeof *k.operand);
  k.s.in_axis = malloc(sizeof *k.s.in_axis * ((size_t)n->nin + 1));
  if (!meta || !type || !k.in || !k.operand || !k.s.in_axis) {
    ts_slots_fail(a);
  } else {
    for (int i = 0; i < n->nin; i++) {
      int home = n->in[i] ? ts_slots_home(a, n->in[i]) : -1;
      meta[i] = home >= 0 ? &type[i] : n->in[i] ? &n->in[i]->meta : NULL;
      if (home >= 0) type[i] = a->p->slot[home].meta;
    }
    for (int o = 0; o < n->nout; o++) out[o] = n->out[o].meta;
    k.s.op = (TsOp)n->op, k.s.nin = n->nin, k.s.nout = n->nout, k.s.in = meta, k.s.out = out;
    k.s.attr = n->attr, k.s.err = a->err;
    k.s.turns = a->p->space.micro >= 0 ? (uint8_t)(1u << a->p->space.micro) : 0;
    memset(k.s.in_axis, TS_WHOLE, sizeof *k.s.in_axis * (size_t)n->nin);
    memset(k.s.out_axis, TS_WHOLE, sizeof k.s.out_axis);
    ts_op_info(k.s.op)->shard(&k.s);
    a->failed |= ts_shard_solve(&k.s, mesh) != 0;
    k.leaves = ts_shard_leaves(&k.s, mesh, a->leaves, &k.f);
    a->failed |= k.leaves < 0;
  }
  if (!a->failed) operands(a, &k);
  if (!a->failed && draws_in_parts(a, &k))
    add_draw(a, &k);
  else if (!a->failed)
    run_parts(a, &k, out);
  free(meta);
  free(type);
  free(k.in);
  free(k.operand);
  free(k.s.in_axis);
}

/* ---- the whole */
static bool runs_in_parts(const TsNode *n) {
  return n->op < TS_OP_COUNT || n->op == TS_NODE_param || n->op == TS_NODE_number;
}

static const TsMesh *mesh_of(const TsGraph *g, TsError *err) {
  const TsMesh *m = NULL;
  for (int i = 0; i < g->nparam; i++) {
    const TsLayout *l = ts_layout_of(&g->param[i]->meta);
    if (!l || l->mesh == m) continue;
    if (m) {
      ts_error_set(err, TS_ERR_layout, "%s: arguments lie on two meshes", g->name);
      return NULL;
    }
    m = l->mesh;
  }
  return m;
}

/* Arguments that are as long as the first one, along their first axis, are batches: what they are split
 * by goes on with micro-batches. */
static bool is_batch(TsSlots *a, int i, const TsLayout *l, int64_t *n) {
  const TsMeta *m = &a->p->g->param[i]->meta;
  if (a->p->space.micro < 0 || a->p->g->bound[i] || !m->ndim || l->block[0]) return false;
  if (!*n) *n = m->dim[0];
  return m->dim[0] == *n;
}

/* Leaves of the layout, or as many as there are pieces. */
static int check_pieces(TsSlots *a, const TsLayout *l) {
  int pieces = ts_layout_pieces(l, 0), devices = pieces / a->p->space.nmicro;
  if (!l->leaves || pieces <= l->leaves) return 0;
  a->failed = true;
  ts_error_set(a->err, TS_ERR_layout,
               "a batch in %d pieces, %d micro-batches on %d device%s, needs so many leaves: "
               "there are %d",
               pieces, a->p->space.nmicro, devices, devices == 1 ? "" : "s", l->leaves);
  return ts_error_hint(a->err, "at most micro = %d, or dist.leaves(%d)", l->leaves / devices,
                       pieces);
}

static const TsLayout *param_layout(TsSlots *a, int i, int64_t *batch) {
  const TsMeshSpace *s = &a->p->space;
  const TsMeta *m = &a->p->g->param[i]->meta;
  const TsLayout *l =
      m->layout ? ts_layout_of(m) : ts_layout_replicated(s->real, m->ndim, a->err);
  if (!l || l->partial) return NULL;
  for (int d = 0; d < l->ndim; d++)
    if (s->axis >= 0 && memchr(l->axis[d], s->axis, l->naxis[d])) {
      ts_error_set(a->err, TS_ERR_layout,
                   "%s is split by mesh axis %s, along which the pipeline lies",
                   a->p->g->param[i]->name ? a->p->g->param[i]->name : "an argument",
                   s->real->axis[s->axis]);
      return NULL;
    }
  if (s->axis >= 0 && l->pin[s->axis]) a->p->slot[a->p->param[i]].place = l->pin[s->axis] - 1;
  l = ts_space_onto(l, s->mesh, a->err);
  if (!l || !(a->p->batch[i] = is_batch(a, i, l, batch))) return l;
  TsLayout made = *l;
  if (!m->layout && a->leaves) made.leaves = a->leaves;
  made.axis[0][made.naxis[0]++] = (uint8_t)s->micro;
  return check_pieces(a, &made) ? NULL : ts_layout_make(&made, a->err);
}

static void add_params(TsSlots *a) {
  const TsGraph *g = a->p->g;
  int64_t batch = 0;
  for (int i = 0; i < g->nparam && !a->failed; i++) {
    TsMeta m = g->param[i]->meta;
    const TsLayout *all = ts_layout_replicated(a->p->space.mesh, m.ndim, a->err);
    m.layout = all ? all->id : 0;
    if ((a->p->param[i] = ts_slots_new(a, &m, -1, -1, -1)) < 0) return;
    const TsLayout *l = all ? param_layout(a, i, &batch) : NULL;
    if (!l) {
      a->failed = true;
      return;
    }
    TsMeshSlot *s = &a->p->slot[a->p->param[i]];
    s->meta.layout = l->id, s->micro = ts_space_batch(&a->p->space, l) >= 0;
    ts_slots_know(a, g->param[i], a->p->param[i]);
  }
}

static int place_of_chunk(const TsMeshPlan *p, int chunk) {
  return p->space.nplace > 1 && chunk > 0 ? chunk % p->space.nplace : 0;
}

/* Results and updates are read behind the last group. place: where it has to be, -1: where it is. */
static int final_slot(TsSlots *a, TsVal v, const TsLayout *l, int place) {
  const TsMeshSpace *s = &a->p->space;
  int home = ts_slots_home(a, v), at = place >= 0 ? place : a->p->slot[home].place;
  TsSlotReader r = {.place = at < 0 ? 0 : at, .phase = TS_PHASE_update};
  for (int i = 0; i < a->p->ngroup; i++)
    if (a->p->group[i].place == r.place) r.chunk = a->p->group[i].chunk;
  l = l ? ts_space_onto(l, s->mesh, a->err)
        : ts_layout_replicated(s->mesh, v->meta.ndim, a->err);
  int slot = l ? ts_slots_under(a, &r, v, l) : -1;
  if (slot < 0) return a->failed = true, -1;
  a->p->slot[slot].read = true;
  ts_slots_give_out(a, slot);
  return slot;
}

/* A parameter that is at all places gets its new value at all. */
static int final_update(TsSlots *a, int u) {
  const TsUpdate *of = &a->p->g->update[u];
  const TsMeshSlot *p = &a->p->slot[a->p->param[of->param]];
  const TsLayout *l = ts_layout_of(&a->p->g->param[of->param]->meta);
  int place = p->place, slot = final_slot(a, of->value, l, place);
  if (slot < 0 || place >= 0 || a->p->space.nplace == 1 || a->p->slot[slot].place < 0)
    return slot;
  TsMeta m = a->p->slot[slot].meta;
  TsSlotReader r = {.phase = TS_PHASE_update, .place = a->p->slot[slot].place};
  int level = a->p->slot[slot].group >= 0 ? a->p->group[a->p->slot[slot].group].level + 1
                                          : a->updates + a->p->ngroup;
  int all = ts_slots_new(a, &m, -1, -1, -1);
  if (all >= 0 && ts_slots_join(a, TS_JOIN_send, &r, level, slot, all))
    a->p->slot[all].read = true;
  return all;
}

static void mark_read(const TsMeshPlan *p, bool *read) {
  memset(read, 0, (size_t)p->nslot);
  for (int k = 0; k < p->njoin; k++)
    for (int i = 0; i < p->join[k].nfrom; i++) read[p->join[k].from + i] = true;
  for (int k = 0; k < p->ngroup * p->space.mesh->n; k++)
    for (int i = 0; i < p->piece[k].nin; i++) read[p->piece[k].in[i]] = true;
  for (int k = 0; k < p->g->nresult + p->g->nupdate; k++) read[p->result[k]] = true;
}

/* Sums that nobody reads in one piece any more. */
static void drop_dead(TsSlots *a) {
  TsMeshPlan *p = a->p;
  bool *read = malloc((size_t)p->nslot + 1);
  if (!read) ts_slots_fail(a);
  for (bool again = read != NULL; again;) {
    again = false;
    mark_read(p, read);
    for (int i = 0; i < p->njoin; i++) {
      const TsMeshJoin *j = &p->join[i];
      if (memchr(read + j->to, true, (size_t)j->nto)) continue;
      p->join[i--] = p->join[--p->njoin];
      again = true;
    }
  }
  free(read);
}

static int by_level(const void *a, const void *b) {
  const TsMeshJoin *x = a, *y = b;
  return x->level != y->level ? x->level - y->level : x->to - y->to;
}

/* Pieces of one device that differ in their micro-batch alone are one function. */
static int same_as(TsMeshPlan *p, int group, int part) {
  int at = group * p->space.mesh->n + part, first = at - part % p->space.nmicro;
  const TsMeshPiece *own = &p->piece[at];
  for (int k = first; k < at; k++) {
    const TsMeshPiece *other = &p->piece[k];
    if (!other->g || other->like != k || other->nin != own->nin || other->nout != own->nout)
      continue;
    if (!memcmp(other->in, own->in, sizeof *own->in * (size_t)own->nin) &&
        !memcmp(other->out, own->out, sizeof *own->out * (size_t)own->nout) &&
        ts_graph_equal(other->g, own->g, NULL))
      return k;
  }
  return at;
}

/* Results of each piece, by the slots that leave it. */
static void end_pieces(TsSlots *a) {
  TsMeshPlan *p = a->p;
  for (int group = 0; group < p->ngroup; group++)
    for (int part = 0; part < p->space.mesh->n && !a->failed; part++) {
      TsMeshPiece *piece = &p->piece[group * p->space.mesh->n + part];
      TsVal *out = piece->g ? calloc((size_t)piece->nout + 1, sizeof *out) : NULL;
      if (!piece->g) continue;
      for (int i = 0; out && i < piece->nout; i++)
        out[i] = ts_slots_made(a, piece->out[i], group, part);
      if (!out || ts_graph_results(piece->g, piece->nout, out)) a->failed = true;
      free(out);
      if (!a->failed) piece->like = same_as(p, group, part);
    }
}

static void add_nodes(TsSlots *a, const unsigned char *live, const TsChunks *c) {
  const TsGraph *g = a->p->g;
  for (int last = 0; last < 2; last++) {
    for (int i = 0; i < a->p->ngroup && last; i++)
      if (a->timed && a->p->group[i].level >= a->updates) a->updates = a->p->group[i].level + 1;
    for (int i = 0; i < g->nnode && !a->failed && !a->unlike; i++) {
      const TsNode *n = g->node[i];
      bool later = a->timed && c->phase[i] == TS_PHASE_update;
      if (!live[i] || n->op >= TS_OP_COUNT || later != last) continue;
      TsSlotReader r = {.node = n, .chunk = c->chunk[i], .phase = c->phase[i]};
      r.place = place_of_chunk(a->p, r.chunk);
      add_node(a, n, r);
    }
  }
}

static bool open_plan(TsMeshPlan *p, const TsGraph *g, const TsMesh *mesh, const TsMeshHow *how,
                      TsError *err) {
  p->g = g;
  if (how) p->how = *how, p->how.seed = NULL, p->how.nseed = 0;
  if (ts_space_open(&p->space, mesh, how, err)) return false;
  for (int q = 0; q < mesh->n; q++) p->sampled |= mesh->device[q] < 0;
  size_t n = (size_t)(g->nparam + g->nresult + g->nupdate) + 1;
  p->param = calloc(n, sizeof *p->param);
  p->batch = calloc((size_t)g->nparam + 1, sizeof *p->batch);
  p->peak = calloc(2 * (size_t)mesh->n, sizeof *p->peak);
  if (!p->param || !p->batch || !p->peak) return ts_error_memory(err), false;
  p->result = p->param + g->nparam, p->update = p->result + g->nresult;
  p->held = p->peak + mesh->n;
  return true;
}

/* Parameters that lie at places of an axis run there, although nobody asks for a pipeline. */
static bool pinned_axis(const TsGraph *g, TsMeshHow *how) {
  for (int i = 0; i < g->nparam; i++) {
    const TsLayout *l = ts_layout_of(&g->param[i]->meta);
    for (int a = 0; l && a < l->mesh->naxis; a++) {
      if (!l->pin[a]) continue;
      *how = (TsMeshHow){
          .micro = 1, .axis = a, .chunks = l->mesh->size[a], .turns = TS_TURNS_1f1b};
      return how->chunks <= TS_CHUNKS;
    }
  }
  return false;
}

/* Such a node needs whole values: without a plan calls follow each other, but nobody may think that
 * what he asked for is done. */
static TsMeshPlan *whole(const TsGraph *g, const TsNode *n, const TsMeshHow *how,
                         const TsMeshHow *implied, TsError *err) {
  if (err->code || !how || how == implied) return NULL;
  ts_error_set(err, TS_ERR_layout, "%s: %s runs as a whole, not in micro-batches or a pipeline",
               g->name, ts_node_name(n));
  ts_error_hint(err,
                "a step of operators alone is cut; what graph.checkpoint does for memory is "
                "rematerialise = true in plan.pp");
  if (*ts_graph_where(n)) ts_error_where(err, g->name, ts_graph_where(n));
  return NULL;
}

/* A first try, what it finds out, and what it is to keep to. */
typedef struct Way {
  bool
      alike; /* with pieces of the first micro-batch alone; false behind it where that does not do */
  TsDelays *delays;
  const int *least;
} Way;

static TsMeshPlan *partition(const TsGraph *g, const TsMesh *mesh, int leaves,
                             const TsMeshHow *how, Way *way, TsError *err) {
  TsMeshPlan *p = calloc(1, sizeof *p);
  TsSlots a = {.p = p,
               .leaves = leaves,
               .err = err,
               .timed = how != NULL,
               .delays = way->delays,
               .least = way->least};
  TsChunks c = {NULL, NULL, NULL};
  unsigned char *live = ts_graph_live(g);
  if (!p || !live)
    ts_slots_fail(&a);
  else if (!open_plan(p, g, mesh, how, err) || ts_chunks_find(&c, g, live, how, err))
    a.failed = true;
  if (!a.failed) p->alike = way->alike, p->chunk = c.param, c.param = NULL;
  if (!a.failed) add_params(&a);
  if (!a.failed) add_nodes(&a, live, &c);
  for (int i = 0; i < g->nresult && !a.failed && !a.unlike; i++)
    p->result[i] = final_slot(&a, g->result[i], ts_layout_of(&g->result[i]->meta), -1);
  for (int i = 0; i < g->nupdate && !a.failed && !a.unlike; i++)
    p->update[i] = final_update(&a, i);
  if (a.unlike) way->alike = false, a.failed = true;
  if (!a.failed) drop_dead(&a);
  if (!a.failed) end_pieces(&a);
  if (!a.failed && p->njoin) qsort(p->join, (size_t)p->njoin, sizeof *p->join, by_level);
  if (!a.failed) a.failed = ts_mesh_order(p, err) != 0;
  free(live);
  ts_chunks_free(&c);
  ts_slots_free(&a);
  if (!a.failed) return p;
  ts_mesh_plan_free(p);
  return NULL;
}

/* Of pieces that are brought together when they are needed (ZeRO-3) levels say when. */
static bool stores(const TsGraph *g) {
  bool any = false;
  for (int i = 0; i < g->nparam; i++) {
    const TsLayout *l = ts_layout_of(&g->param[i]->meta);
    any |= l && l->stored;
  }
  return any;
}

TsMeshPlan *ts_mesh_partition(const TsGraph *g, int leaves, const TsMeshHow *how,
                              TsError *err) {
  TsMeshHow implied;
  const TsMesh *mesh = mesh_of(g, err);
  if (!how && pinned_axis(g, &implied)) how = &implied;
  for (int i = 0; i < g->nnode; i++)
    if (!mesh || !runs_in_parts(g->node[i])) return whole(g, g->node[i], how, &implied, err);
  Way way = {.alike = how && how->micro > 1};
  if (how || stores(g)) {
    bool tried = way.alike;
    TsMeshPlan *p = partition(g, mesh, leaves, how, &way, err);
    return p || !tried || way.alike ? p : partition(g, mesh, leaves, how, &way, err);
  }
  TsDelays d;
  if (ts_delays_open(&d, g->nnode, err)) return NULL;
  way.delays = &d;
  TsMeshPlan *early = partition(g, mesh, leaves, NULL, &way, err), *late = early;
  way = (Way){.least = early ? ts_delays_least(&d, err) : NULL};
  if (early && (!way.least || d.moved)) { /* the other one has fewer pieces */
    ts_mesh_plan_free(early);
    late = way.least ? partition(g, mesh, leaves, NULL, &way, err) : NULL;
  }
  ts_delays_close(&d);
  return late;
}

void ts_mesh_plan_free(TsMeshPlan *p) {
  for (int i = 0; p && p->space.mesh && i < p->ngroup * p->space.mesh->n; i++) {
    if (p->piece[i].g) ts_graph_free(p->piece[i].g);
    free(p->piece[i].in);
    free(p->piece[i].out);
  }
  if (!p) return;
  ts_space_close(&p->space);
  free(p->group);
  free(p->piece);
  free(p->slot);
  free(p->join);
  free(p->step);
  free(p->die);
  free(p->param);
  free(p->batch);
  free(p->chunk);
  free(p->peak);
  free(p->turns);
  free(p);
}

int ts_mesh_join_leaves(const TsMesh *m, const TsMeshJoin *j, int p, int *lo, int *hi) {
  int level[TS_LEAF_SUMS], place[TS_LEAF_SUMS];
  TsLayout l = {.mesh = m, .ndim = 1, .naxis = {j->naxis}};
  memcpy(l.axis[0], j->axis, j->naxis);
  int pieces = ts_layout_pieces(&l, 0), k = ts_layout_piece(&l, p, 0);
  *lo = k * j->leaves / pieces, *hi = (k + 1) * j->leaves / pieces;
  return ts_leaves_subtrees(j->leaves, *lo, *hi, level, place);
}
