/* See ir/mesh/partition.h. Nodes are taken in their order, those of the update last; each
 * becomes, for every part, nodes of the graph of that part in its group
 * (ir/mesh/node_parts.c). */
#include "ir/mesh/partition.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/copy.h"
#include "ir/mesh/arguments.h"
#include "ir/mesh/buckets.h"
#include "ir/mesh/chain.h"
#include "ir/mesh/chunked.h"
#include "ir/mesh/delays.h"
#include "ir/mesh/node_parts.h"
#include "ir/mesh/order.h"

static bool runs_in_parts(const TsNode *n) {
  return n->op < TS_OP_COUNT || n->op == TS_NODE_param || n->op == TS_NODE_number;
}

static const TsMesh *mesh_of(const TsGraph *g, TsError *err) {
  const TsMesh *m = NULL;
  const TsMeta *first = NULL;
  for (int i = 0; i < g->nparam; i++) {
    const TsMeta *meta = &g->param[i]->meta;
    const TsLayout *l = ts_layout_of(meta);
    if (!l || l->mesh == m) continue;
    if (m) {
      ts_shard_two_meshes(err, g->name, "arguments", first, meta);
      return NULL;
    }
    m = l->mesh, first = meta;
  }
  return m;
}

static int place_of_chunk(const TsMeshPlan *p, int chunk) {
  return p->space.nplace > 1 && chunk > 0 ? chunk % p->space.nplace : 0;
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
      ts_node_parts(a, n, &r);
    }
  }
}

static bool open_plan(TsMeshPlan *p, const TsGraph *g, const TsMesh *mesh, const TsMeshHow *how,
                      const TsOverlap *overlap, TsError *err) {
  p->g = g;
  if (overlap) p->overlap = *overlap;
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

/* Such a node needs whole values: without a plan calls follow each other, but nobody may think
 * that what he asked for is done. */
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
  bool alike; /* pieces of the first micro-batch alone; false where that did not do */
  TsDelays *delays;
  const int *least;
  const TsOverlap *overlap;
  TsChains chains;
  bool *could, *chunked; /* by node: products of the first try, and of the second (chunked.h) */
  int ncould;
} Way;

static int open_chains(TsSlots *a, const unsigned char *live) {
  size_t n = (size_t)a->p->g->nnode + 1;
  a->chains->live = live;
  if (!a->chunked) memset(a->chains->node, 0, n * sizeof *a->chains->node);
  if (!a->chunked) memset(a->could, 0, n * sizeof *a->could);
  return (a->held = calloc(n, sizeof *a->held)) ? 0 : ts_slots_fail(a);
}

static TsMeshPlan *partition(const TsGraph *g, const TsMesh *mesh, int leaves,
                             const TsMeshHow *how, Way *way, TsError *err) {
  TsMeshPlan *p = calloc(1, sizeof *p);
  TsSlots a = {.p = p,
               .leaves = leaves,
               .err = err,
               .timed = how != NULL,
               .delays = way->delays,
               .could = way->could,
               .chunked = way->chunked,
               .chains = way->could ? &way->chains : NULL,
               .least = way->least};
  TsChunks c = {NULL, NULL, NULL};
  unsigned char *live = ts_graph_live(g);
  if (!p || !live)
    ts_slots_fail(&a);
  else if (!open_plan(p, g, mesh, how, way->overlap, err) ||
           ts_chunks_find(&c, g, live, how, err))
    a.failed = true;
  if (!a.failed) p->alike = way->alike, p->chunk = c.param, c.param = NULL;
  if (!a.failed) a.failed = ts_buckets_open(&a, live) != 0;
  if (!a.failed && a.chains) a.failed = open_chains(&a, live) != 0;
  if (!a.failed) ts_arguments_add(&a);
  if (!a.failed) add_nodes(&a, live, &c);
  for (int i = 0; i < g->nresult && !a.failed && !a.unlike; i++)
    p->result[i] = ts_arguments_result(&a, i);
  for (int i = 0; i < g->nupdate && !a.failed && !a.unlike; i++)
    p->update[i] = ts_arguments_update(&a, i);
  if (a.unlike) way->alike = false, a.failed = true;
  if (!a.failed) drop_dead(&a);
  if (!a.failed && !way->chunked && way->could) way->ncould = ts_chunked_settle(&a);
  if (!a.failed) end_pieces(&a);
  if (!a.failed && p->njoin) qsort(p->join, (size_t)p->njoin, sizeof *p->join, by_level);
  if (!a.failed) a.failed = ts_mesh_order(p, err) != 0;
  for (int i = 0; a.held && i < g->nnode; i++) ts_node_call_free(a.held[i]);
  free(a.held);
  free(live);
  ts_chunks_free(&c);
  ts_buckets_close(&a);
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

/* Pieces of micro-batches are alike, as far as they can be. */
static TsMeshPlan *alike_or_not(const TsGraph *g, const TsMesh *mesh, int leaves,
                                const TsMeshHow *how, Way *way, TsError *err) {
  bool tried = way->alike;
  TsMeshPlan *p = partition(g, mesh, leaves, how, way, err);
  return p || !tried || way->alike ? p : partition(g, mesh, leaves, how, way, err);
}

static TsMeshPlan *in_time(const TsGraph *g, const TsMesh *mesh, int leaves,
                           const TsMeshHow *how, Way *way, TsError *err) {
  TsMeshPlan *p = alike_or_not(g, mesh, leaves, how, way, err);
  if (!p || !way->ncould) return p;
  ts_mesh_plan_free(p);
  way->chunked = way->could;
  return alike_or_not(g, mesh, leaves, how, way, err);
}

/* Nodes stand as late as they can (delays.h), by the levels of a first plan. */
static TsMeshPlan *as_late(const TsGraph *g, const TsMesh *mesh, int leaves, Way *way,
                           TsError *err) {
  TsDelays d;
  if (ts_delays_open(&d, g->nnode, err)) return NULL;
  way->delays = &d;
  TsMeshPlan *early = partition(g, mesh, leaves, NULL, way, err), *late = early;
  way->delays = NULL, way->least = early ? ts_delays_least(&d, g, err) : NULL;
  way->chunked = way->ncould ? way->could : NULL;
  if (early && (!way->least || d.moved || way->ncould)) { /* the other one has fewer pieces */
    ts_mesh_plan_free(early);
    late = way->least ? partition(g, mesh, leaves, NULL, way, err) : NULL;
  }
  ts_delays_close(&d);
  return late;
}

TsMeshPlan *ts_mesh_partition(const TsGraph *g, int leaves, const TsMeshHow *how,
                              const TsOverlap *overlap, TsError *err) {
  TsMeshHow implied;
  const TsMesh *mesh = mesh_of(g, err);
  if (!how && pinned_axis(g, &implied)) how = &implied;
  for (int i = 0; i < g->nnode; i++)
    if (!mesh || !runs_in_parts(g->node[i])) return whole(g, g->node[i], how, &implied, err);
  Way way = {.alike = how && how->micro > 1, .overlap = overlap};
  bool looks = overlap && overlap->on;
  if (looks) {
    way.could = calloc((size_t)g->nnode + 1, sizeof *way.could);
    way.chains.node = calloc((size_t)g->nnode + 1, sizeof *way.chains.node);
  }
  TsMeshPlan *p = NULL;
  if (looks && (!way.could || !way.chains.node))
    ts_error_memory(err);
  else
    p = how || stores(g) ? in_time(g, mesh, leaves, how, &way, err)
                         : as_late(g, mesh, leaves, &way, err);
  free(way.could);
  free(way.chains.node);
  return p;
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
  ts_text_free(&p->remarks);
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
