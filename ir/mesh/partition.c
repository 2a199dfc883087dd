/* See ir/mesh/partition.h. Nodes are taken in their order; each becomes, for every part, nodes of
 * the graph of that part in its stage. A slot is a value under one layout; where a later stage
 * reads it, it is a result of the graph that makes it and a parameter of the one that reads it. */
#include "ir/mesh/partition.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "ir/mesh/leaves.h"

/* A value of the graph of one part: of a slot, in a stage. */
typedef struct Local {
  int slot, stage, part;
  TsVal val;
} Local;

typedef struct Known {
  TsVal of;   /* the value of the whole graph */
  int layout; /* under which it lies */
  int slot;
} Known;

typedef struct Partition {
  TsMeshPlan *p;
  int leaves, capslot, capjoin, nknown, capknown, *bucket, nbucket;
  Known *known;
  int latest; /* stage of pieces that are brought together late; */
  int64_t late_bytes; /* of those of that stage */
  Local *local; /* by hash of slot, stage and part */
  int nlocal, caplocal;
  bool failed;
  TsError *err;
} Partition;

static int none(Partition *a) {
  if (!a->failed) ts_error_memory(a->err);
  a->failed = true;
  return -1;
}

static bool room(Partition *a, void *list, int n, int *cap, size_t each) {
  void **at = list;
  if (n < *cap) return true;
  int more = *cap ? 2 * *cap : 64;
  void *larger = realloc(*at, each * (size_t)more);
  if (!larger) return none(a), false;
  *at = larger, *cap = more;
  return true;
}

/* ---- slots */
static int new_slot(Partition *a, const TsMeta *m, int summand, int stage) {
  TsMeshPlan *p = a->p;
  if (!room(a, &p->slot, p->nslot, &a->capslot, sizeof *p->slot)) return -1;
  p->slot[p->nslot] = (TsMeshSlot){.meta = *m, .summand = summand, .stage = stage, .last = stage};
  return p->nslot++;
}

static int known_slot(const Partition *a, TsVal v, int layout) {
  for (int i = a->nknown; i-- > 0;)
    if (a->known[i].of == v && a->known[i].layout == layout) return a->known[i].slot;
  return -1;
}

/* Where a value was made, under the layout that its operands gave it then. */
static int home_slot(const Partition *a, TsVal v) {
  for (int i = 0; i < a->nknown; i++)
    if (a->known[i].of == v) return a->known[i].slot;
  return -1;
}

static void know(Partition *a, TsVal v, int layout, int slot) {
  if (room(a, &a->known, a->nknown, &a->capknown, sizeof *a->known))
    a->known[a->nknown++] = (Known){v, layout, slot};
}

/* ---- pieces */
static bool stage_room(Partition *a, int stage) {
  TsMeshPlan *p = a->p;
  int n = p->mesh->n;
  if (stage < p->nstage) return true;
  TsMeshPiece *more = realloc(p->piece, sizeof *more * (size_t)(stage + 1) * (size_t)n);
  if (!more) return none(a), false;
  memset(more + p->nstage * n, 0, sizeof *more * (size_t)(stage + 1 - p->nstage) * (size_t)n);
  p->piece = more, p->nstage = stage + 1;
  return true;
}

static TsMeshPiece *piece_of(Partition *a, int stage, int part) {
  if (a->failed || !stage_room(a, stage)) return NULL;
  TsMeshPiece *piece = &a->p->piece[stage * a->p->mesh->n + part];
  if (!piece->g && !(piece->g = ts_graph_new(a->p->g->name, a->err))) a->failed = true;
  return piece->g ? piece : NULL;
}

static uint32_t hash_of(int slot, int stage, int part) {
  uint32_t h = (uint32_t)slot * 0x9e3779b1u ^ (uint32_t)stage * 0x85ebca6bu ^ (uint32_t)part;
  return h ^ h >> 15;
}

static Local *find_local(Partition *a, int slot, int stage, int part) {
  uint32_t mask = (uint32_t)a->caplocal - 1, at = hash_of(slot, stage, part) & mask;
  while (a->local[at].val && (a->local[at].slot != slot || a->local[at].stage != stage ||
                              a->local[at].part != part))
    at = (at + 1) & mask;
  return &a->local[at];
}

static bool local_room(Partition *a) {
  if (2 * a->nlocal < a->caplocal) return true;
  Local *old = a->local;
  int n = a->caplocal;
  a->caplocal = n ? 2 * n : 1024;
  if (!(a->local = calloc((size_t)a->caplocal, sizeof *a->local))) {
    a->local = old, a->caplocal = n;
    return none(a), false;
  }
  for (int i = 0; i < n; i++)
    if (old[i].val) *find_local(a, old[i].slot, old[i].stage, old[i].part) = old[i];
  free(old);
  return true;
}

static void set_local(Partition *a, int slot, int stage, int part, TsVal v) {
  if (!v) a->failed = true;
  if (a->failed || !local_room(a)) return;
  Local *l = find_local(a, slot, stage, part);
  a->nlocal += !l->val;
  *l = (Local){slot, stage, part, v};
}

static TsMeta local_meta(Partition *a, const TsMeshSlot *s, int part) {
  const TsLayout *l = ts_layout_of(&s->meta);
  TsMeta m = l ? ts_layout_part(l, &s->meta, part) : s->meta;
  m.device = 0, m.layout = 0;
  (void)a;
  return m;
}

static void add_slot(Partition *a, int **list, int *n, int *cap, int slot) {
  if (room(a, list, *n, cap, sizeof **list)) (*list)[(*n)++] = slot;
}

/* The slot's value in the graph of a part: made there, or a parameter of it. */
static TsVal local_of(Partition *a, int slot, int stage, int part) {
  TsMeshSlot *s = &a->p->slot[slot];
  TsMeshPiece *piece = piece_of(a, stage, part);
  if (!piece || !local_room(a)) return NULL;
  Local *l = find_local(a, slot, stage, part);
  if (l->val) return l->val;
  if (s->stage >= 0) { /* it leaves the graph that makes it */
    TsMeshPiece *maker = &a->p->piece[s->stage * a->p->mesh->n + part];
    bool given = false;
    for (int i = 0; i < maker->nout && !given; i++) given = maker->out[i] == slot;
    if (!given) add_slot(a, &maker->out, &maker->nout, &maker->capout, slot);
  }
  if (s->last < stage) s->last = stage;
  TsMeta m = local_meta(a, s, part);
  TsVal v = ts_graph_param(piece->g, &m, NULL, NULL);
  add_slot(a, &piece->in, &piece->nin, &piece->capin, slot);
  set_local(a, slot, stage, part, v);
  return a->failed ? NULL : v;
}

/* ---- joins: what is sent */
static TsMeshJoin *new_join(Partition *a, const TsNode *n, int stage, int from, int to) {
  TsMeshPlan *p = a->p;
  if (!room(a, &p->join, p->njoin, &a->capjoin, sizeof *p->join)) return NULL;
  TsMeshJoin *j = &p->join[p->njoin++];
  *j = (TsMeshJoin){.stage = stage, .from = from, .to = to, .node = n};
  if (p->slot[from].last < stage) p->slot[from].last = stage;
  return j;
}

/* When a slot can be read: in the stage that makes it, or which its join comes before. */
static int ready(const Partition *a, int slot) {
  const TsMeshPlan *p = a->p;
  if (p->slot[slot].stage >= 0) return p->slot[slot].stage;
  for (int i = p->njoin; i-- > 0;)
    if (p->join[i].to == slot) return p->join[i].stage;
  return 0;
}

/* Results of the stage that makes it, for every part that has it. */
static void give_out(Partition *a, int slot) {
  int stage = a->p->slot[slot].stage;
  for (int part = 0; part < a->p->mesh->n && stage >= 0 && !a->failed; part++) {
    TsMeshPiece *maker = piece_of(a, stage, part);
    if (!maker || !a->caplocal || !find_local(a, slot, stage, part)->val) continue;
    bool given = false;
    for (int i = 0; i < maker->nout && !given; i++) given = maker->out[i] == slot;
    if (!given) add_slot(a, &maker->out, &maker->nout, &maker->capout, slot);
  }
}

/* Each part has what it needs within its own: slices of the parts. */
static int sliced(Partition *a, const TsMeta *m, int from, const TsLayout *old,
                  const TsLayout *to) {
  int stage = ready(a, from), slot = new_slot(a, m, -1, stage);
  for (int part = 0; part < to->mesh->n && slot >= 0 && !a->failed; part++) {
    TsVal v = local_of(a, from, stage, part);
    TsMeshPiece *piece = piece_of(a, stage, part);
    for (int d = 0; d < m->ndim && !a->failed; d++) {
      int64_t have = 0, all = 0, want = 0, count = 0;
      bool any = ts_layout_run(to, d, m->dim[d], part, 0, &want, &count);
      if (!ts_layout_run(old, d, m->dim[d], part, 0, &have, &all)) continue;
      if (!any) want = have, count = 0;
      if (want != have || count != all)
        v = ts_build_narrow(&piece->g->b, v, d, want - have, count);
    }
    if (v && v->node->op == TS_NODE_param) { /* nothing is cut: a value of its own all the same */
      set_local(a, slot, stage, part, v);
      continue;
    }
    if (piece && piece->g->b.failed) a->failed = true;
    set_local(a, slot, stage, part, v);
  }
  return slot;
}

/* Parts are dealt out in turn: their slices are no narrow. */
static bool is_dealt(const TsLayout *l) {
  for (int d = 0; d < l->ndim; d++)
    if (l->naxis[d] && l->block[d]) return true;
  return false;
}

/* Whether each part's new elements are among those that it has. */
static bool stays(const TsMeta *m, const TsLayout *old, const TsLayout *to) {
  if (is_dealt(old) || is_dealt(to)) return false;
  for (int p = 0; p < to->mesh->n; p++)
    for (int d = 0; d < m->ndim; d++) {
      int64_t s, n, t, k;
      if (!ts_layout_run(to, d, m->dim[d], p, 0, &t, &k)) continue;
      if (!ts_layout_run(old, d, m->dim[d], p, 0, &s, &n) || t < s || t + k > s + n) return false;
    }
  return true;
}

/* The join that gives a slot, or NULL. */
static TsMeshJoin *join_of(const Partition *a, int slot) {
  for (int i = a->p->njoin; i-- > 0;)
    if (a->p->join[i].to == slot) return &a->p->join[i];
  return NULL;
}

/* What is summed and then cut along the same axes of the mesh is summed piece by piece, each where
 * it is needed: half of what is sent, and no device has the whole. */
static int scattered(Partition *a, const TsMeta *m, int from, const TsLayout *old,
                     const TsLayout *to) {
  const TsMeshJoin *sum = join_of(a, from);
  if (!sum || !sum->sum || is_dealt(to)) return -1;
  for (int d = 0; d < m->ndim; d++) {
    int i = old->naxis[d]; /* what was split stays so */
    if (to->naxis[d] < i || memcmp(to->axis[d], old->axis[d], (size_t)i)) return -1;
    for (; i < to->naxis[d]; i++)
      if (!memchr(sum->axis, to->axis[d][i], sum->naxis)) return -1;
  }
  TsMeshJoin copy = *sum;
  int slot = new_slot(a, m, -1, -1);
  TsMeshJoin *j = slot >= 0 ? new_join(a, copy.node, copy.stage, copy.from, slot) : NULL;
  if (!j) return -1;
  copy.to = slot;
  *j = copy;
  return slot;
}

/* Pieces that are used whole are brought together as late as may be: not all at once, since then
 * all are in memory. Those that are needed next go together, up to so many bytes. */
enum { LATE_BYTES = 32 << 20 };

static int late_stage(Partition *a, const TsMeta *m, int stage) {
  if (a->latest < stage) a->latest = stage, a->late_bytes = 0;
  if (a->late_bytes && a->late_bytes + ts_meta_nbytes(m) > LATE_BYTES)
    a->latest++, a->late_bytes = 0;
  a->late_bytes += ts_meta_nbytes(m);
  return a->latest;
}

/* The slot of v under a layout, moved there if it is not. */
static int slot_under(Partition *a, const TsNode *n, TsVal v, const TsLayout *to) {
  int from = home_slot(a, v);
  if (from < 0) TS_BUG("a value of %s has no parts", n ? ts_node_name(n) : "the result");
  const TsLayout *old = ts_layout_of(&a->p->slot[from].meta);
  int slot = to ? known_slot(a, v, to->id) : (a->failed = true, -1);
  bool gone = slot >= 0 && old->stored && old != to && a->latest > ready(a, slot) + 1;
  if ((slot >= 0 && !gone) || a->failed) return slot;
  TsMeta m = v->meta;
  m.layout = to->id;
  if ((slot = scattered(a, &m, from, old, to)) < 0 && !a->failed && stays(&m, old, to)) {
    slot = sliced(a, &m, from, old, to);
  } else if (slot < 0 && !a->failed) {
    int stage = ready(a, from) + (a->p->slot[from].stage >= 0);
    if (old->stored) stage = late_stage(a, &m, stage);
    give_out(a, from);
    slot = new_slot(a, &m, -1, -1);
    if (slot >= 0) new_join(a, n, stage, from, slot);
  }
  if (slot >= 0) know(a, v, to->id, slot);
  return slot;
}

/* ---- nodes */
typedef struct Call {
  const TsNode *n;
  TsShard s;
  int f, leaves, stage;
  int *in;        /* slots, -1 where absent, -2 - i: number i */
  TsVal *operand; /* of one part */
} Call;

static int pieces_of(const Partition *a, const Call *k, int part, int *place) {
  const TsFactor *f = &k->s.factor[k->f];
  TsLayout l = {.mesh = a->p->mesh, .ndim = 1, .naxis = {f->naxis}};
  memcpy(l.axis[0], f->axis, f->naxis);
  *place = ts_layout_piece(&l, part, 0);
  return ts_layout_pieces(&l, 0);
}

static bool lacks(const Call *k, int o) {
  return k->f >= 0 && !memchr(k->s.out_axis[o], k->f, k->s.out[o].ndim);
}

/* The part's own leaves; of a factor that is not split the whole sum. */
static void run_leaves(Partition *a, Call *k, int part, TsMeshPiece *piece,
                       const TsShardPart *of, int (*sum)[TS_LEAF_SUMS], TsVal *out) {
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
      set_local(a, sum[o][i], k->stage, part, made[o][i]);
    }
  }
}

static void run_part(Partition *a, Call *k, int part, const int *slot,
                     int (*sum)[TS_LEAF_SUMS]) {
  TsMeshPiece *piece = piece_of(a, k->stage, part);
  TsShardPart of;
  TsVal out[TS_MAX_OUT] = {NULL};
  for (int i = 0; i < k->s.nin && !a->failed; i++)
    k->operand[i] = k->in[i] == -1 ? NULL
                    : k->in[i] < 0 ? ts_graph_number(piece->g, k->n->in[i]->node->number)
                                   : local_of(a, k->in[i], k->stage, part);
  if (a->failed || ts_shard_part(&k->s, a->p->mesh, part, &of)) {
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
    if (!(split && lacks(k, o))) set_local(a, slot[o], k->stage, part, out[o]);
}

/* Slots of the summands of result o, side by side: as many as the part with the most has. */
static void new_sums(Partition *a, Call *k, int o, int slot, int *sum) {
  int most = 0, place, level[TS_LEAF_SUMS], at[TS_LEAF_SUMS];
  for (int p = 0; p < a->p->mesh->n; p++) {
    int pieces = pieces_of(a, k, p, &place);
    int n = ts_leaves_subtrees(k->leaves, place * k->leaves / pieces,
                               (place + 1) * k->leaves / pieces, level, at);
    if (pieces > 1 && n > most) most = n;
  }
  TsMeta m = k->s.out[o];
  m.layout = a->p->slot[slot].meta.layout;
  for (int i = 0; i < most && !a->failed; i++) sum[i] = new_slot(a, &m, i, k->stage);
}

/* Summands are results of their stage, and their sum is there in the next one. */
static void join_sums(Partition *a, Call *k, const int *slot, int (*sum)[TS_LEAF_SUMS]) {
  const TsFactor *f = k->f >= 0 ? &k->s.factor[k->f] : NULL;
  for (int o = 0; f && f->naxis && o < k->s.nout && !a->failed; o++) {
    if (!lacks(k, o) || sum[o][0] < 0) continue;
    TsMeshJoin *j = new_join(a, k->n, k->stage + 1, sum[o][0], slot[o]);
    if (!j) return;
    j->sum = true, j->kind = f->kind, j->leaves = k->leaves, j->naxis = f->naxis;
    memcpy(j->axis, f->axis, f->naxis);
    a->p->slot[slot[o]].stage = -1;
    for (int i = 0; i < TS_LEAF_SUMS && sum[o][i] >= 0; i++) {
      a->p->slot[sum[o][i]].last = k->stage + 1;
      give_out(a, sum[o][i]);
    }
  }
}

/* What is drawn depends on where a part lies in the whole, which no graph of one device says: such a
 * call is made between stages. */
static bool draws_in_parts(const Partition *a, const TsNode *n) {
  const TsLayout *l;
  if (ts_op_info((TsOp)n->op)->cls != TS_CLASS_RANDOM || n->nin != 1 || n->nout != 1) return false;
  l = ts_layout_of(&a->p->slot[home_slot(a, n->in[0])].meta);
  for (int d = 0; d < l->ndim; d++)
    if (l->naxis[d]) return true;
  return false;
}

static void add_draw(Partition *a, const TsNode *n) {
  int from = home_slot(a, n->in[0]);
  int stage = ready(a, from) + (a->p->slot[from].stage >= 0);
  TsMeta m = n->out[0].meta;
  if (!m.layout) m.layout = a->p->slot[from].meta.layout;
  give_out(a, from);
  int slot = new_slot(a, &m, -1, -1);
  TsMeshJoin *j = slot >= 0 ? new_join(a, n, stage, from, slot) : NULL;
  if (j) j->call = true, know(a, (TsVal)&n->out[0], m.layout, slot);
}

static void add_node(Partition *a, const TsNode *n) {
  const TsMesh *mesh = a->p->mesh;
  const TsMeta **meta = calloc((size_t)n->nin + 1, sizeof *meta);
  Call k = {.n = n};
  TsMeta out[TS_MAX_OUT], *type = calloc((size_t)n->nin + 1, sizeof *type);
  k.in = calloc((size_t)n->nin + 1, sizeof *k.in);
  k.operand = calloc((size_t)n->nin + 1, sizeof *k.operand);
  k.s.in_axis = malloc(sizeof *k.s.in_axis * ((size_t)n->nin + 1));
  if (!meta || !type || !k.in || !k.operand || !k.s.in_axis) {
    none(a);
  } else {
    for (int i = 0; i < n->nin; i++) {
      int home = n->in[i] ? home_slot(a, n->in[i]) : -1;
      meta[i] = home >= 0 ? &type[i] : n->in[i] ? &n->in[i]->meta : NULL;
      if (home >= 0) type[i] = a->p->slot[home].meta;
    }
    for (int o = 0; o < n->nout; o++) out[o] = n->out[o].meta;
    k.s.op = (TsOp)n->op, k.s.nin = n->nin, k.s.nout = n->nout, k.s.in = meta, k.s.out = out;
    k.s.attr = n->attr, k.s.err = a->err;
    memset(k.s.in_axis, TS_WHOLE, sizeof *k.s.in_axis * (size_t)n->nin);
    memset(k.s.out_axis, TS_WHOLE, sizeof k.s.out_axis);
    ts_op_info(k.s.op)->shard(&k.s);
    a->failed |= ts_shard_solve(&k.s, mesh) != 0;
    k.leaves = ts_shard_leaves(&k.s, mesh, a->leaves, &k.f);
    a->failed |= k.leaves < 0;
  }
  for (int i = 0; i < n->nin && !a->failed; i++) {
    k.in[i] = -1;
    if (!n->in[i]) continue;
    if (n->in[i]->node->op == TS_NODE_number) {
      k.in[i] = -2;
      continue;
    }
    k.in[i] = slot_under(a, n, n->in[i], ts_shard_needs(&k.s, mesh, i));
    if (!a->failed && ready(a, k.in[i]) > k.stage) k.stage = ready(a, k.in[i]);
  }
  int slot[TS_MAX_OUT], sum[TS_MAX_OUT][TS_LEAF_SUMS];
  memset(sum, 0xff, sizeof sum);
  for (int o = 0; o < n->nout && !a->failed; o++) {
    const TsLayout *l = ts_shard_gives(&k.s, mesh, o);
    out[o].layout = l ? l->id : 0;
    slot[o] = l ? new_slot(a, &out[o], -1, k.stage) : (a->failed = true, -1);
    if (!a->failed) know(a, (TsVal)&n->out[o], l->id, slot[o]);
  }
  for (int o = 0; o < n->nout && !a->failed; o++)
    if (lacks(&k, o)) new_sums(a, &k, o, slot[o], sum[o]);
  for (int p = 0; p < mesh->n && !a->failed; p++) run_part(a, &k, p, slot, sum);
  if (!a->failed) join_sums(a, &k, slot, sum);
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

static void add_params(Partition *a) {
  const TsGraph *g = a->p->g;
  for (int i = 0; i < g->nparam && !a->failed; i++) {
    TsMeta m = g->param[i]->meta;
    const TsLayout *l = m.layout ? ts_layout_of(&m)
                                 : ts_layout_replicated(a->p->mesh, m.ndim, a->err);
    if (!l || l->partial) {
      a->failed = true;
      return;
    }
    m.layout = l->id;
    a->p->param[i] = new_slot(a, &m, -1, -1);
    know(a, g->param[i], l->id, a->p->param[i]);
  }
}

/* Results and updates are read behind the last stage. */
static int final_slot(Partition *a, TsVal v, const TsLayout *l) {
  if (!l) l = ts_layout_replicated(a->p->mesh, v->meta.ndim, a->err);
  int slot = l ? slot_under(a, NULL, v, l) : -1;
  if (slot < 0) return a->failed = true, -1;
  a->p->slot[slot].last = INT32_MAX;
  give_out(a, slot);
  return slot;
}

/* Sums that nobody reads in one piece any more. */
static void drop_dead(Partition *a) {
  TsMeshPlan *p = a->p;
  for (bool again = true; again;) {
    again = false;
    for (int i = 0; i < p->njoin; i++) {
      int to = p->join[i].to;
      bool read = p->slot[to].last >= p->join[i].stage;
      for (int k = 0; k < p->njoin && !read; k++) read = p->join[k].from == to;
      if (read) continue;
      p->join[i--] = p->join[--p->njoin];
      again = true;
    }
  }
}

static int by_stage(const void *a, const void *b) {
  const TsMeshJoin *x = a, *y = b;
  return x->stage != y->stage ? x->stage - y->stage : x->to - y->to;
}

/* Results of each piece, by the slots that leave it. */
static void end_pieces(Partition *a) {
  TsMeshPlan *p = a->p;
  for (int stage = 0; stage < p->nstage; stage++)
    for (int part = 0; part < p->mesh->n && !a->failed; part++) {
      TsMeshPiece *piece = &p->piece[stage * p->mesh->n + part];
      TsVal *out = piece->g ? calloc((size_t)piece->nout + 1, sizeof *out) : NULL;
      if (!piece->g) continue;
      for (int i = 0; out && i < piece->nout; i++)
        out[i] = find_local(a, piece->out[i], stage, part)->val;
      if (!out || ts_graph_results(piece->g, piece->nout, out)) a->failed = true;
      free(out);
    }
}

TsMeshPlan *ts_mesh_partition(const TsGraph *g, int leaves, TsError *err) {
  const TsMesh *mesh = mesh_of(g, err);
  for (int i = 0; i < g->nnode; i++)
    if (!mesh || !runs_in_parts(g->node[i])) return NULL;
  TsMeshPlan *p = calloc(1, sizeof *p);
  Partition a = {.p = p, .leaves = leaves, .err = err};
  unsigned char *live = ts_graph_live(g);
  if (p) {
    p->mesh = mesh, p->g = g;
    p->param = calloc((size_t)(g->nparam + g->nresult + g->nupdate) + 1, sizeof *p->param);
  }
  if (!p || !live || !p->param) {
    none(&a);
  } else {
    p->result = p->param + g->nparam, p->update = p->result + g->nresult;
    stage_room(&a, 0);
    add_params(&a);
  }
  for (int i = 0; i < g->nnode && !a.failed; i++)
    if (live[i] && g->node[i]->op < TS_OP_COUNT)
      (draws_in_parts(&a, g->node[i]) ? add_draw : add_node)(&a, g->node[i]);
  for (int i = 0; i < g->nresult && !a.failed; i++)
    p->result[i] = final_slot(&a, g->result[i], ts_layout_of(&g->result[i]->meta));
  for (int i = 0; i < g->nupdate && !a.failed; i++)
    p->update[i] = final_slot(&a, g->update[i].value,
                              ts_layout_of(&g->param[g->update[i].param]->meta));
  if (!a.failed) drop_dead(&a);
  if (!a.failed) end_pieces(&a);
  if (!a.failed && p->njoin) qsort(p->join, (size_t)p->njoin, sizeof *p->join, by_stage);
  free(live);
  free(a.known);
  free(a.local);
  if (!a.failed) return p;
  ts_mesh_plan_free(p);
  return NULL;
}

void ts_mesh_plan_free(TsMeshPlan *p) {
  for (int i = 0; p && i < p->nstage * p->mesh->n; i++) {
    if (p->piece[i].g) ts_graph_free(p->piece[i].g);
    free(p->piece[i].in);
    free(p->piece[i].out);
  }
  if (!p) return;
  free(p->piece);
  free(p->slot);
  free(p->join);
  free(p->param);
  free(p);
}

int ts_mesh_join_leaves(const TsMeshPlan *p, const TsMeshJoin *j, int part, int *lo, int *hi) {
  int level[TS_LEAF_SUMS], place[TS_LEAF_SUMS];
  TsLayout l = {.mesh = p->mesh, .ndim = 1, .naxis = {j->naxis}};
  memcpy(l.axis[0], j->axis, j->naxis);
  int pieces = ts_layout_pieces(&l, 0), k = ts_layout_piece(&l, part, 0);
  *lo = k * j->leaves / pieces, *hi = (k + 1) * j->leaves / pieces;
  return ts_leaves_subtrees(j->leaves, *lo, *hi, level, place);
}

void ts_mesh_plan_text(const TsMeshPlan *p, TsText *t) {
  for (int stage = 0, j = 0; stage < p->nstage || j < p->njoin; stage++) {
    char a[TS_META_TEXT], b[TS_META_TEXT];
    for (; j < p->njoin && p->join[j].stage == stage; j++) {
      const TsMeshSlot *to = &p->slot[p->join[j].to], *from = &p->slot[p->join[j].from];
      ts_text_format(t, "  %s %%%d %s -> %%%d %s%s%s\n", p->join[j].sum ? "sum" : "move",
                     p->join[j].from, ts_meta_text(&from->meta, a), p->join[j].to,
                     ts_meta_text(&to->meta, b), p->join[j].node ? "  // " : "",
                     p->join[j].node ? ts_node_name(p->join[j].node) : "");
    }
    if (stage >= p->nstage) continue;
    for (int part = 0; part < p->mesh->n; part++) {
      const TsMeshPiece *piece = &p->piece[stage * p->mesh->n + part];
      ts_text_format(t, "stage %d part %d\n", stage, part);
      if (piece->g) ts_graph_text(piece->g, t);
    }
  }
}
