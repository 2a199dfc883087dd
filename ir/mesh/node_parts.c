/* See ir/mesh/node_parts.h. */
#include "ir/mesh/node_parts.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "ir/mesh/buckets.h"
#include "ir/mesh/chain.h"
#include "ir/mesh/chunked.h"
#include "ir/mesh/delays.h"
#include "ir/mesh/leaves.h"
#include "ir/text/value.h"

typedef TsNodeCall Call;

static int pieces_of(const TsSlots *a, const Call *k, int part, int *place) {
  const TsFactor *f = &k->s.factor[k->f];
  TsLayout l = {.mesh = a->p->space.mesh, .ndim = 1, .naxis = {f->naxis}};
  memcpy(l.axis[0], f->axis, f->naxis);
  *place = ts_layout_piece(&l, part, 0);
  return ts_layout_pieces(&l, 0);
}

static bool lacks(const Call *k, int o) {
  return k->f >= 0 && ts_shard_axis(&k->s, o, k->f) < 0;
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
                                   : ts_slots_local(a, k->rows[i] < 0 ? k->in[i] : k->rows[i],
                                                    k->group, part);
  if (a->failed || ts_shard_part(&k->s, a->p->space.mesh, part, &of)) {
    a->failed = true;
    return;
  }
  piece->g->line = ts_graph_place(piece->g->module, ts_graph_where(k->n));
  piece->g->backward = k->n->backward;
  if (k->nchunk > 1) ts_chunked_operands(k, piece, &of);
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
  if (k->nchunk > 1) j->row = k->chunk, j->nrow = k->nchunk, j->along = k->axis;
  for (int i = 0; i < f->naxis; i++)
    if (kind == TS_JOIN_fold || f->axis[i] != a->p->space.micro)
      j->axis[j->naxis++] = f->axis[i];
  return j;
}

/* Summands are results of their group. Those of micro-batches are added as they come, as far
 * as one device has neighbours in the tree; the sum of devices is there behind that. */
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
    if (!a->failed && new_sum(a, k, TS_JOIN_sum, level, from, slot[o], n))
      ts_buckets_sum(a, k->n, k->group, slot[o]);
  }
}

/* ---- nodes */
/* What is drawn depends on where a part lies in the whole, which no graph of one device says:
 * such a call is made between groups. */
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

/* It updates by sums that are there while others are on their way, or by what does. */
static bool is_early(const TsSlots *a, const Call *k) {
  for (int i = 0; i < k->n->nin && !k->n->backward; i++) {
    const TsNode *of = k->in[i] >= 0 ? k->n->in[i]->node : NULL;
    if (!of || of->op >= TS_OP_COUNT) continue;
    if (of->backward ? ts_buckets_early(a, ts_slots_join_of(a, k->in[i]))
                     : a->delays->stays[of->id])
      return true;
  }
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
  if (a->delays && is_early(a, k)) ts_delays_keep(a->delays, k->n->id);
  k->level = level, k->group = -1;
}

/* Micro-batch number i of a device does the same as the first one: on as many elements, with
 * the same options, in a whole subtree of as many leaves. */
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

static void run_parts(TsSlots *a, Call *k, TsMeta *out, int *slot) {
  const TsMesh *mesh = a->p->space.mesh;
  int sum[TS_MAX_OUT][TS_LEAF_SUMS];
  memset(sum, 0xff, sizeof sum);
  if ((k->group = ts_slots_group(a, &k->r, k->micro, k->level)) < 0) return;
  for (int o = 0; o < k->s.nout && !a->failed; o++) {
    const TsLayout *l = ts_shard_gives(&k->s, mesh, o);
    out[o].layout = l ? l->id : 0;
    slot[o] = l ? ts_slots_new(a, &out[o], -1, k->group, k->r.place) : (a->failed = true, -1);
    if (!a->failed && k->nchunk < 2) ts_slots_know(a, (TsVal)&k->n->out[o], slot[o]);
  }
  for (int o = 0; o < k->s.nout && !a->failed; o++) {
    if (!lacks(k, o)) continue;
    const TsFactor *f = &k->s.factor[k->f];
    TsLayout of = factor_layout(a, f->naxis, f->axis);
    TsMeta m = a->p->slot[slot[o]].meta; /* a copy: slots move as they become more */
    int first = -1, n = 0;
    if (ts_layout_pieces(&of, 0) > 1)
      n = new_sums(a, &m, k->leaves, &of, k->group, k->r.place, &first);
    for (int i = 0; i < n; i++) sum[o][i] = first + i;
  }
  for (int p = 0; p < ts_slots_parts(a) && !a->failed; p += ts_slots_step(a, k->micro))
    run_part(a, k, p, slot, sum);
  if (!a->failed) join_sums(a, k, slot, sum);
}

/* ---- in chunks of rows */
/* Where all chunks lie together: known from here on, made by whoever puts them together. */
static void new_whole(TsSlots *a, Call *k) {
  const TsLayout *l = ts_shard_gives(&k->s, a->p->space.mesh, 0);
  TsMeta m = k->out[0];
  if (!l) {
    a->failed = true;
    return;
  }
  m.layout = l->id;
  k->whole = ts_slots_new(a, &m, -1, -1, k->r.place);
  ts_slots_know(a, (TsVal)&k->n->out[0], k->whole);
}

static void run_chunk(TsSlots *a, Call *k, const Call *last) {
  int slot[TS_MAX_OUT];
  TsMeta m = k->out[0];
  k->nchunk = last->nchunk, k->chunk = last->chunk, k->level = last->level;
  m.dim[k->axis] /= k->nchunk;
  for (int i = 0; i < k->n->nin; i++) {
    int of = k->in[i] >= 0 ? (int)k->n->in[i]->node->id : -1;
    bool own = of >= 0 && a->chains->node[of].of == (int)last->n->id + 1;
    k->rows[i] = own ? a->held[of]->made[k->chunk] : -1;
  }
  run_parts(a, k, &m, slot);
  k->made[k->chunk] = slot[0];
}

/* Each chunk in a group behind the one before, with its rows of what the product is made of,
 * so that its sum is sent beside the next. What is wanted later of those is put together
 * beside the last sum. */
static void run_chunks(TsSlots *a, Call *k, const int *id, int nid) {
  bool kept = false;
  for (int i = 0; i < nid; i++) {
    Call *c = a->held[id[i]];
    c->axis = a->chains->node[id[i]].axis;
    if (c->level > k->level) k->level = c->level;
    kept |= a->chains->node[id[i]].kept;
  }
  for (k->chunk = 0; k->chunk < k->nchunk && !a->failed; k->chunk++) {
    for (int i = 0; i < nid && !a->failed; i++) run_chunk(a, a->held[id[i]], k);
    if (!a->failed) run_chunk(a, k, k);
    if (!a->failed && (kept || k->chunk + 1 < k->nchunk)) a->p->group[k->group].closed = true;
  }
  for (int i = 0; i < nid && !a->failed; i++) {
    Call *c = a->held[id[i]];
    if (a->chains->node[id[i]].kept)
      ts_chunked_join(a, c, ts_slots_group(a, &c->r, c->micro, k->level));
  }
  if (a->failed) return;
  new_whole(a, k);
  ts_chunked_join(a, k, ts_slots_group(a, &k->r, k->micro, k->level + 1));
}

static void run_all(TsSlots *a, Call *k) {
  int slot[TS_MAX_OUT], id[TS_CHAIN_MOST], nid = 0;
  if (k->micro && a->p->alike && !all_alike(a, k)) a->unlike = true;
  if (a->unlike) return;
  ts_chain_look(a, k, k->out);
  if ((k->nchunk = ts_chunked_count(a, k, k->out, id, &nid)) > 1)
    run_chunks(a, k, id, nid);
  else
    run_parts(a, k, k->out, slot);
}

void ts_node_call_free(TsNodeCall *k) {
  if (!k) return;
  free(k->meta);
  free(k->type);
  free(k->in);
  free(k->rows);
  free(k->operand);
  free(k->s.in_axis);
  free(k);
}

static Call *new_call(TsSlots *a, const TsNode *n, const TsSlotReader *r) {
  Call *k = calloc(1, sizeof *k);
  size_t some = (size_t)n->nin + 1;
  if (!k) return ts_slots_fail(a), NULL;
  k->n = n, k->r = *r, k->whole = -1;
  k->meta = calloc(some, sizeof *k->meta);
  k->type = calloc(some, sizeof *k->type);
  k->in = calloc(some, sizeof *k->in);
  k->rows = malloc(some * sizeof *k->rows);
  k->operand = calloc(some, sizeof *k->operand);
  k->s.in_axis = malloc(sizeof *k->s.in_axis * some);
  if (k->meta && k->type && k->in && k->rows && k->operand && k->s.in_axis) {
    memset(k->rows, 0xff, some * sizeof *k->rows);
    return k;
  }
  ts_node_call_free(k);
  return ts_slots_fail(a), NULL;
}

static void solve(TsSlots *a, Call *k) {
  const TsMesh *mesh = a->p->space.mesh;
  const TsNode *n = k->n;
  for (int i = 0; i < n->nin; i++) {
    int home = n->in[i] ? ts_slots_home(a, n->in[i]) : -1;
    k->meta[i] = home >= 0 ? &k->type[i] : n->in[i] ? &n->in[i]->meta : NULL;
    if (home >= 0) k->type[i] = a->p->slot[home].meta;
  }
  for (int o = 0; o < n->nout; o++) k->out[o] = n->out[o].meta;
  k->s.op = (TsOp)n->op, k->s.nin = n->nin, k->s.nout = n->nout;
  k->s.in = k->meta, k->s.out = k->out;
  k->s.attr = n->attr, k->s.err = a->err, k->s.settles = n->as || n->backward;
  k->s.turns = a->p->space.micro >= 0 ? (uint8_t)(1u << a->p->space.micro) : 0;
  memset(k->s.in_axis, TS_WHOLE, sizeof *k->s.in_axis * (size_t)n->nin);
  memset(k->s.out_axis, TS_WHOLE, sizeof k->s.out_axis);
  ts_op_info(k->s.op)->shard(&k->s);
  a->failed |= ts_shard_solve(&k->s, mesh) != 0;
  k->leaves = ts_shard_leaves(&k->s, mesh, a->leaves, &k->f);
  a->failed |= k->leaves < 0;
}

void ts_node_parts(TsSlots *a, const TsNode *n, const TsSlotReader *r) {
  Call *k = new_call(a, n, r);
  if (!k) return;
  solve(a, k);
  if (!a->failed) operands(a, k);
  bool holds = !a->failed && a->held && ts_chain_holds(a, n);
  if (holds) {
    new_whole(a, k);
    a->held[n->id] = k;
    return;
  }
  if (!a->failed && draws_in_parts(a, k))
    add_draw(a, k);
  else if (!a->failed)
    run_all(a, k);
  ts_node_call_free(k);
}
