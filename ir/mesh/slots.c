/* See ir/mesh/slots.h. A slot is a value under one layout at one place; where another group reads
 * it, it is a result of the graph that makes it and a parameter of the one that reads it. */
#include "ir/mesh/slots.h"

#include <stdlib.h>
#include <string.h>

#include "ir/mesh/buckets.h"

/* A value of the graph of one part: of a slot, in a group. */
typedef struct TsLocal {
  int slot, group, part;
  TsVal val;
} Local;

typedef struct TsKnown {
  TsVal of;
  int slot;
} Known;

int ts_slots_fail(TsSlots *a) {
  if (!a->failed) ts_error_memory(a->err);
  a->failed = true;
  return -1;
}

bool ts_slots_room(TsSlots *a, void *list, int n, int *cap, size_t each) {
  void **at = list;
  if (n < *cap) return true;
  int more = *cap ? 2 * *cap : 64;
  void *larger = realloc(*at, each * (size_t)more);
  if (!larger) return ts_slots_fail(a), false;
  *at = larger, *cap = more;
  return true;
}

void ts_slots_free(TsSlots *a) {
  free(a->known);
  free(a->local);
}

/* ---- slots */
int ts_slots_new(TsSlots *a, const TsMeta *m, int summand, int group, int place) {
  TsMeshPlan *p = a->p;
  if (!ts_slots_room(a, &p->slot, p->nslot, &a->capslot, sizeof *p->slot)) return -1;
  bool micro =
      group >= 0 ? p->group[group].micro : ts_space_batch(&p->space, ts_layout_of(m)) >= 0;
  p->slot[p->nslot] = (TsMeshSlot){
      .meta = *m, .summand = summand, .group = group, .place = place, .micro = micro};
  return p->nslot++;
}

static int known_slot(const TsSlots *a, TsVal v, int layout, int place) {
  for (int i = a->nknown; i-- > 0;) {
    const TsMeshSlot *s = &a->p->slot[a->known[i].slot];
    if (a->known[i].of == v && s->meta.layout == layout && (s->place < 0 || s->place == place))
      return a->known[i].slot;
  }
  return -1;
}

int ts_slots_home(const TsSlots *a, TsVal v) {
  for (int i = 0; i < a->nknown; i++)
    if (a->known[i].of == v) return a->known[i].slot;
  return -1;
}

void ts_slots_know(TsSlots *a, TsVal v, int slot) {
  if (slot >= 0 && ts_slots_room(a, &a->known, a->nknown, &a->capknown, sizeof *a->known))
    a->known[a->nknown++] = (Known){v, slot};
}

/* ---- groups and pieces */
int ts_slots_group(TsSlots *a, const TsSlotReader *r, bool micro, int level) {
  TsMeshPlan *p = a->p;
  int n = p->space.mesh->n;
  for (int i = p->ngroup; i-- > 0;) {
    const TsMeshGroup *g = &p->group[i];
    if (g->level == level && g->chunk == r->chunk && g->phase == r->phase &&
        g->micro == micro && !g->closed)
      return i;
  }
  if (!ts_slots_room(a, &p->group, p->ngroup, &a->capgroup, sizeof *p->group)) return -1;
  if (p->ngroup == a->cappiece) {
    int cap = a->cappiece ? 2 * a->cappiece : 16;
    TsMeshPiece *more = realloc(p->piece, sizeof *more * (size_t)cap * (size_t)n);
    if (!more) return ts_slots_fail(a);
    p->piece = more, a->cappiece = cap;
  }
  memset(p->piece + p->ngroup * n, 0, sizeof *p->piece * (size_t)n);
  p->group[p->ngroup] = (TsMeshGroup){
      .chunk = r->chunk, .place = r->place, .level = level, .phase = r->phase, .micro = micro};
  return p->ngroup++;
}

TsMeshPiece *ts_slots_piece(TsSlots *a, int group, int part) {
  if (a->failed) return NULL;
  TsMeshPiece *piece = &a->p->piece[group * a->p->space.mesh->n + part];
  if (piece->g) return piece;
  if (!(piece->g = ts_graph_new(a->p->g->name, a->err))) return a->failed = true, NULL;
  if (a->p->overlap.on) piece->g->spare = a->p->overlap.spare;
  return piece;
}

static uint32_t hash_of(int slot, int group, int part) {
  uint32_t h = (uint32_t)slot * 0x9e3779b1u ^ (uint32_t)group * 0x85ebca6bu ^
               (uint32_t)part * 0xc2b2ae35u;
  return h ^ h >> 15;
}

static Local *find_local(const TsSlots *a, int slot, int group, int part) {
  uint32_t mask = (uint32_t)a->caplocal - 1, at = hash_of(slot, group, part) & mask;
  while (a->local[at].val && (a->local[at].slot != slot || a->local[at].group != group ||
                              a->local[at].part != part))
    at = (at + 1) & mask;
  return &a->local[at];
}

static bool local_room(TsSlots *a) {
  if (2 * a->nlocal < a->caplocal) return true;
  Local *old = a->local;
  int n = a->caplocal;
  a->caplocal = n ? 2 * n : 1024;
  if (!(a->local = calloc((size_t)a->caplocal, sizeof *a->local))) {
    a->local = old, a->caplocal = n;
    return ts_slots_fail(a), false;
  }
  for (int i = 0; i < n; i++)
    if (old[i].val) *find_local(a, old[i].slot, old[i].group, old[i].part) = old[i];
  free(old);
  return true;
}

TsVal ts_slots_made(const TsSlots *a, int slot, int group, int part) {
  return a->caplocal ? find_local(a, slot, group, part)->val : NULL;
}

void ts_slots_set_local(TsSlots *a, int slot, int group, int part, TsVal v) {
  if (!v) a->failed = true;
  if (a->failed || !local_room(a)) return;
  Local *l = find_local(a, slot, group, part);
  a->nlocal += !l->val;
  *l = (Local){slot, group, part, v};
}

static TsMeta local_meta(const TsMeshSlot *s, int part) {
  const TsLayout *l = ts_layout_of(&s->meta);
  TsMeta m = l ? ts_layout_part(l, &s->meta, part) : s->meta;
  m.device = 0, m.layout = 0;
  return m;
}

static void add_slot(TsSlots *a, int **list, int *n, int *cap, int slot) {
  for (int i = 0; i < *n; i++)
    if ((*list)[i] == slot) return;
  if (ts_slots_room(a, list, *n, cap, sizeof **list)) (*list)[(*n)++] = slot;
}

/* The first part of a device: that of what no micro-batch has for itself. */
static int first_part(const TsSlots *a, int part) { return part - part % a->p->space.nmicro; }

static void give_part(TsSlots *a, int slot, int part) {
  const TsMeshSlot *s = &a->p->slot[slot];
  TsMeshPiece *maker = &a->p->piece[s->group * a->p->space.mesh->n + part];
  add_slot(a, &maker->out, &maker->nout, &maker->capout, slot);
}

TsVal ts_slots_local(TsSlots *a, int slot, int group, int part) {
  TsMeshSlot *s = &a->p->slot[slot];
  TsMeshPiece *piece = ts_slots_piece(a, group, part);
  if (!piece || !local_room(a)) return NULL;
  if (s->micro && !a->p->group[group].micro) TS_BUG("a whole group reads a micro-batch");
  Local *l = find_local(a, slot, group, part);
  if (l->val) return l->val;
  if (s->group >= 0) give_part(a, slot, s->micro ? part : first_part(a, part));
  s->read = true;
  TsMeta m = local_meta(s, part);
  TsVal v = ts_graph_param(piece->g, &m, NULL, NULL);
  add_slot(a, &piece->in, &piece->nin, &piece->capin, slot);
  ts_slots_set_local(a, slot, group, part, v);
  return a->failed ? NULL : v;
}

void ts_slots_give_out(TsSlots *a, int slot) {
  int group = a->p->slot[slot].group;
  if (group < 0) return;
  int step = ts_slots_step(a, a->p->slot[slot].micro);
  for (int part = 0; part < ts_slots_parts(a) && !a->failed; part += step)
    if (ts_slots_made(a, slot, group, part)) give_part(a, slot, part);
}

/* ---- joins: what is sent */
TsMeshJoin *ts_slots_join(TsSlots *a, TsMeshJoinKind kind, const TsSlotReader *r, int level,
                          int from, int to) {
  TsMeshPlan *p = a->p;
  if (!ts_slots_room(a, &p->join, p->njoin, &a->capjoin, sizeof *p->join)) return NULL;
  TsMeshJoin *j = &p->join[p->njoin++];
  *j = (TsMeshJoin){.kind = kind,
                    .level = level,
                    .from = from,
                    .to = to,
                    .nfrom = 1,
                    .nto = 1,
                    .chunk = r->chunk,
                    .phase = r->phase,
                    .node = r->node,
                    .micro = p->slot[from].micro && p->slot[to].micro};
  p->slot[from].read = true;
  return j;
}

TsMeshJoin *ts_slots_join_of(const TsSlots *a, int slot) {
  for (int i = a->p->njoin; i-- > 0;) {
    TsMeshJoin *j = &a->p->join[i];
    if (slot >= j->to && slot < j->to + j->nto) return j;
  }
  return NULL;
}

/* When a join can read a slot: behind the group that makes it, or its own join. */
static int join_level(const TsSlots *a, int slot) {
  const TsMeshSlot *s = &a->p->slot[slot];
  const TsMeshJoin *j = s->group < 0 ? ts_slots_join_of(a, slot) : NULL;
  return s->group >= 0 ? a->p->group[s->group].level + 1 : j ? j->level : 0;
}

int ts_slots_level(const TsSlots *a, int slot, const TsSlotReader *r, bool micro) {
  const TsMeshSlot *s = &a->p->slot[slot];
  if (s->group < 0) {
    int level = join_level(a, slot);
    if (!ts_buckets_last(a, ts_slots_join_of(a, slot), r)) return level;
    return (a->timed && level < a->updates ? a->updates : level) + 1;
  }
  const TsMeshGroup *g = &a->p->group[s->group];
  bool before = g->phase < r->phase || (g->phase == r->phase && g->micro <= micro);
  return g->level + !(g->chunk == r->chunk && before);
}

/* Micro-batches of a device take the same slices of what they have. */
static bool same_slices(const TsSlots *a, const TsMeta *m, const TsLayout *old,
                        const TsLayout *to) {
  int n = a->p->space.nmicro;
  for (int part = 0; part < to->mesh->n; part++)
    for (int d = 0; d < m->ndim; d++) {
      int64_t have[2] = {0}, all[2] = {0}, want[2] = {0}, count[2] = {0};
      for (int i = 0; i < 2; i++) {
        int p = i ? part : part - part % n;
        ts_layout_run(to, d, m->dim[d], p, 0, &want[i], &count[i]);
        ts_layout_run(old, d, m->dim[d], p, 0, &have[i], &all[i]);
      }
      if (want[0] - have[0] != want[1] - have[1] || count[0] != count[1] || all[0] != all[1])
        return false;
    }
  return true;
}

/* Each part has what it needs within its own: slices of the parts. */
static int sliced(TsSlots *a, const TsSlotReader *r, const TsMeta *m, int from,
                  const TsLayout *old, const TsLayout *to) {
  bool micro = ts_space_batch(&a->p->space, to) >= 0 || a->p->slot[from].micro;
  int group = ts_slots_group(a, r, micro, ts_slots_level(a, from, r, micro));
  int slot = group >= 0 ? ts_slots_new(a, m, -1, group, r->place) : -1;
  int step = ts_slots_step(a, micro);
  if (micro && a->p->alike && !same_slices(a, m, old, to)) a->unlike = true;
  for (int part = 0; part < ts_slots_parts(a) && slot >= 0 && !a->failed; part += step) {
    TsVal v = ts_slots_local(a, from, group, part);
    TsMeshPiece *piece = ts_slots_piece(a, group, part);
    for (int d = 0; d < m->ndim && !a->failed; d++) {
      int64_t have = 0, all = 0, want = 0, count = 0;
      bool any = ts_layout_run(to, d, m->dim[d], part, 0, &want, &count);
      if (!ts_layout_run(old, d, m->dim[d], part, 0, &have, &all)) continue;
      if (!any) want = have, count = 0;
      if (want != have || count != all)
        v = ts_build_narrow(&piece->g->b, v, d, want - have, count);
    }
    if (piece && piece->g->b.failed) a->failed = true;
    ts_slots_set_local(a, slot, group, part, v);
  }
  return slot;
}

/* A value that is stretched along all axes that are to be split: each part stretches the operand by
 * itself, to its own size. */
static bool is_stretched(const TsSlots *a, TsVal v, const TsLayout *to) {
  const TsNode *n = v->node;
  if (n->op != TS_OP_broadcast_to) return false;
  int home = ts_slots_home(a, n->in[0]), ahead = v->meta.ndim - n->in[0]->meta.ndim;
  const TsLayout *l = home >= 0 ? ts_layout_of(&a->p->slot[home].meta) : NULL;
  for (int d = 0; l && d < l->ndim; d++)
    if (l->naxis[d]) return false;
  for (int d = 0; d < to->ndim; d++)
    if (to->naxis[d] && d >= ahead && n->in[0]->meta.dim[d - ahead] != 1) return false;
  return l != NULL;
}

static int stretched(TsSlots *a, const TsSlotReader *r, TsVal v, const TsMeta *m,
                     const TsLayout *to) {
  TsVal of = v->node->in[0];
  const TsLayout *l = ts_layout_of(&a->p->slot[ts_slots_home(a, of)].meta);
  int from = ts_slots_under(a, r, of, l);
  bool micro = ts_space_batch(&a->p->space, to) >= 0;
  int group = from >= 0 ? ts_slots_group(a, r, micro, ts_slots_level(a, from, r, micro)) : -1;
  int slot = group >= 0 ? ts_slots_new(a, m, -1, group, r->place) : -1;
  for (int part = 0; part < ts_slots_parts(a) && slot >= 0 && !a->failed;
       part += ts_slots_step(a, micro)) {
    TsVal x = ts_slots_local(a, from, group, part);
    TsMeshPiece *piece = ts_slots_piece(a, group, part);
    TsMeta own = ts_layout_part(to, m, part);
    if (!x || !piece) return -1;
    ts_slots_set_local(a, slot, group, part,
                       ts_build(&piece->g->b, TS_OP_broadcast_to, 1, &x,
                                TS_ATTRS({"shape", ts_b_ints(own.dim, own.ndim)}), NULL));
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
      if (!ts_layout_run(old, d, m->dim[d], p, 0, &s, &n) || t < s || t + k > s + n)
        return false;
    }
  return true;
}

/* What is summed and then cut along the same axes of the mesh is summed piece by piece, each where
 * it is needed: half of what is sent, and no device has the whole. */
static int scattered(TsSlots *a, const TsSlotReader *r, const TsMeta *m, int from,
                     const TsLayout *old, const TsLayout *to) {
  const TsMeshJoin *sum = a->p->slot[from].group < 0 ? ts_slots_join_of(a, from) : NULL;
  if (!sum || sum->kind != TS_JOIN_sum || is_dealt(to)) return -1;
  for (int d = 0; d < m->ndim; d++) {
    int i = old->naxis[d]; /* what was split stays so */
    if (to->naxis[d] < i || memcmp(to->axis[d], old->axis[d], (size_t)i)) return -1;
    if (i < to->naxis[d] && d == ts_space_batch(&a->p->space, to)) return -1;
    for (; i < to->naxis[d]; i++)
      if (!memchr(sum->axis, to->axis[d][i], sum->naxis)) return -1;
  }
  TsMeshJoin copy = *sum;
  int slot = ts_slots_new(a, m, -1, -1, a->p->slot[from].place);
  TsMeshJoin *j =
      slot >= 0 ? ts_slots_join(a, copy.kind, r, copy.level, copy.from, slot) : NULL;
  if (!j) return -1;
  copy.to = slot;
  *j = copy;
  return slot;
}

/* Pieces that are used whole are brought together as late as may be: not all at once, since then
 * all are in memory. Those that are needed next go together, up to so many bytes. Where several
 * micro-batches read them they stay. */
enum { LATE_BYTES = 32 << 20 };

static int late_level(TsSlots *a, const TsMeta *m, int level) {
  if (a->latest < level) a->latest = level, a->late_bytes = 0;
  if (a->late_bytes && a->late_bytes + ts_meta_nbytes(m) > LATE_BYTES)
    a->latest++, a->late_bytes = 0;
  a->late_bytes += ts_meta_nbytes(m);
  return a->latest;
}

static int sent(TsSlots *a, const TsSlotReader *r, TsVal v, int from) {
  TsMeta m = a->p->slot[from].meta;
  ts_slots_give_out(a, from);
  int slot = ts_slots_new(a, &m, -1, -1, r->place);
  if (slot < 0) return -1;
  a->p->slot[slot].micro = a->p->slot[from].micro;
  if (!ts_slots_join(a, TS_JOIN_send, r, join_level(a, from), from, slot)) return -1;
  ts_slots_know(a, v, slot);
  return slot;
}

int ts_slots_under(TsSlots *a, const TsSlotReader *r, TsVal v, const TsLayout *to) {
  int from = ts_slots_home(a, v);
  if (from < 0)
    TS_BUG("a value of %s has no parts", r->node ? ts_node_name(r->node) : "the result");
  const TsLayout *old = ts_layout_of(&a->p->slot[from].meta);
  int slot = to ? known_slot(a, v, to->id, r->place) : (a->failed = true, -1);
  bool gone = slot >= 0 && old->stored && old != to && a->latest > join_level(a, slot) + 1;
  if ((slot >= 0 && !gone) || a->failed) return slot;
  int at = a->p->slot[from].place;
  if (at >= 0 && at != r->place) {
    int there = known_slot(a, v, old->id, r->place);
    from = there >= 0 ? there : sent(a, r, v, from);
    if (from < 0 || old == to) return from;
  }
  TsMeta m = v->meta;
  m.layout = to->id;
  if ((slot = scattered(a, r, &m, from, old, to)) < 0 && !a->failed && stays(&m, old, to)) {
    slot =
        is_stretched(a, v, to) ? stretched(a, r, v, &m, to) : sliced(a, r, &m, from, old, to);
  } else if (slot < 0 && !a->failed) {
    int level = join_level(a, from);
    if (old->stored && !a->timed) level = late_level(a, &m, level);
    ts_slots_give_out(a, from);
    slot = ts_slots_new(a, &m, -1, -1, r->place);
    TsMeshJoin *j = slot < 0 ? NULL : ts_slots_join(a, TS_JOIN_move, r, level, from, slot);
    if (j) j->micro = ts_space_apart(&a->p->space, old, to);
  }
  ts_slots_know(a, v, slot);
  return slot;
}
