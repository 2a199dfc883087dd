/* What is known of the steps of a plan before they run: how long places wait for each other, by what
 * operators cost, and how many bytes each device has at most. */
#include <stdlib.h>
#include <string.h>

#include "ir/mesh/chunks.h"
#include "ir/mesh/order.h"

static double cost_of(const TsGraph *g) {
  double sum = 0;
  for (int i = 0; g && i < g->nnode; i++) sum += ts_chunks_cost(g->node[i]);
  return sum;
}

/* Of a step, the slowest device's. */
static double step_cost(const TsMeshPlan *p, const TsMeshStep *s, const double *cost) {
  double most = 0;
  for (int part = 0; part < ts_plan_parts(p) && !s->join; part++) {
    double own = cost[p->piece[ts_mesh_piece(p, s->at, part, s->k < 0 ? 0 : s->k)].like];
    if (own > most) most = own;
  }
  return most;
}

double *ts_mesh_step_costs(const TsMeshPlan *p) {
  int n = p->ngroup * p->space.mesh->n;
  double *piece = calloc((size_t)n + 1, sizeof *piece);
  double *step = calloc((size_t)p->nstep + 1, sizeof *step);
  for (int i = 0; i < n && piece; i++)
    for (int k = 0; p->piece[i].g && p->piece[i].like == i && k < p->piece[i].g->nnode; k++)
      piece[i] +=
          ts_chunks_cost_at(p->piece[i].g->node[k], p->overlap.flops, p->overlap.memory);
  for (int i = 0; i < p->nstep && piece && step; i++)
    step[i] = step_cost(p, &p->step[i], piece);
  if (!piece) free(step);
  free(piece);
  return piece ? step : NULL;
}

typedef struct Weigher {
  TsMeshPlan *p;
  double *cost;         /* by piece, */
  int64_t *scratch;     /* as well */
  double *done, *place; /* when a slot is there; until when a place works */
  int *own;
} Weigher;

/* Turns alone: what is done once at the begin or the end does not count as waiting. */
static void weigh_time(Weigher *w) {
  TsMeshPlan *p = w->p;
  double busy = 0, end = 0;
  for (int i = 0; i < p->nstep; i++) {
    const TsMeshStep *s = &p->step[i];
    double start = 0, cost = step_cost(p, s, w->cost);
    const TsMeshGroup *g = s->join ? NULL : &p->group[s->at];
    bool turn =
        g && g->micro && (g->phase == TS_PHASE_forward || g->phase == TS_PHASE_backward);
    int n = ts_step_reads(p, s, w->own);
    for (int k = 0; k < n; k++)
      if (w->done[w->own[k]] > start) start = w->done[w->own[k]];
    if (turn) {
      double *at = &w->place[g->place];
      if (*at > start) start = *at;
      *at = start + cost, busy += cost;
      if (*at > end) end = *at;
    }
    n = ts_step_writes(p, s, w->own);
    for (int k = 0; k < n; k++) w->done[w->own[k]] = start + (turn ? cost : 0);
  }
  p->bubble = end > 0 ? 1 - busy / (end * p->space.nplace) : 0;
}

/* Where the bytes of a value are: views have those of what they are of. */
static TsVal base_of(TsVal v) {
  while (v->node->op < TS_OP_COUNT && ts_node_is_view(v->node)) v = v->node->in[0];
  return v;
}

/* Bytes that a piece has at most of values that do not leave it, operator by operator: kernels that do
 * several at once have less. */
static int64_t scratch_of(const TsGraph *g) {
  int *last = calloc((size_t)g->nnode + 1, sizeof *last);
  int64_t now = 0, most = 0;
  for (int i = 0; last && i < g->nnode; i++)
    for (int k = 0; k < g->node[i]->nin; k++)
      if (g->node[i]->in[k]) last[base_of(g->node[i]->in[k])->node->id] = i;
  for (int i = 0; last && i < g->nresult; i++)
    last[base_of(g->result[i])->node->id] = INT32_MAX;
  for (int i = 0; last && i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    if (n->op >= TS_OP_COUNT || ts_node_is_view(n)) continue;
    for (int o = 0; o < n->nout && last[i] != INT32_MAX; o++)
      now += ts_meta_nbytes(&n->out[o].meta);
    if (now > most) most = now;
    for (int k = 0; k < n->nin; k++) {
      TsVal v = n->in[k] ? base_of(n->in[k]) : NULL;
      if (!v || v->node->op >= TS_OP_COUNT || last[v->node->id] != i) continue;
      last[v->node->id] = -1; /* once, although it is read twice */
      for (int o = 0; o < v->node->nout; o++) now -= ts_meta_nbytes(&v->node->out[o].meta);
    }
  }
  free(last);
  return most;
}

/* Bytes that device r of the graph's mesh has of a slot. */
static int64_t slot_bytes(const TsMeshPlan *p, int slot, int place, int part, int k) {
  const TsMeshSlot *s = &p->slot[slot];
  if (s->place >= 0 && s->place != place) return 0;
  TsMeta m = ts_layout_part(ts_layout_of(&s->meta), &s->meta, part * p->space.nmicro + k);
  return ts_meta_nbytes(&m);
}

static void count(Weigher *w, int64_t *now, int what, int sign) {
  const TsMeshPlan *p = w->p;
  int slot = what / p->space.nmicro, k = what % p->space.nmicro;
  for (int place = 0; place < p->space.nplace; place++)
    for (int part = 0; part < p->space.n; part++)
      now[ts_space_part(&p->space, place, part)] += sign * slot_bytes(p, slot, place, part, k);
}

static bool is_param(const TsMeshPlan *p, int slot) {
  for (int i = 0; i < p->g->nparam; i++)
    if (p->param[i] == slot) return true;
  return false;
}

static int weigh_bytes(Weigher *w) {
  TsMeshPlan *p = w->p;
  int n = p->space.real->n, micro = p->space.nmicro;
  int64_t *now = p->held;
  bool *there = calloc((size_t)(p->nslot * micro) + 1, sizeof *there);
  int64_t *live = calloc((size_t)n, sizeof *live);
  if (!there || !live) {
    free(there);
    free(live);
    return -1;
  }
  for (int i = 0; i < p->g->nparam; i++)
    for (int k = 0; k < (p->slot[p->param[i]].micro ? micro : 1); k++)
      count(w, now, p->param[i] * micro + k, 1);
  memcpy(live, now, sizeof *now * (size_t)n);
  for (int i = 0; i < p->nstep; i++) {
    const TsMeshStep *s = &p->step[i];
    TsMeshStep from = *s; /* what a join gives needs room from its start on */
    from.does = TS_STEP_all;
    int k = ts_step_writes(p, &from, w->own);
    while (k-- > 0)
      if (!there[w->own[k]]) there[w->own[k]] = true, count(w, live, w->own[k], 1);
    for (int r = 0; r < n; r++)
      if (live[r] > p->peak[r]) p->peak[r] = live[r];
    for (int part = 0; part < p->space.n && !s->join; part++) {
      int r = ts_space_part(&p->space, p->group[s->at].place, part);
      int at = ts_mesh_piece(p, s->at, part, s->k < 0 ? 0 : s->k);
      int64_t all = p->piece[at].g ? live[r] + w->scratch[p->piece[at].like] : 0;
      if (all > p->peak[r]) p->peak[r] = all;
    }
    for (k = 0; k < s->ndie; k++) {
      int what = p->die[s->dies + k];
      if (there[what] && !is_param(p, what / micro)) count(w, live, what, -1);
      there[what] = false;
    }
  }
  free(there);
  free(live);
  return 0;
}

int ts_mesh_weigh(TsMeshPlan *p, TsError *err) {
  int micro = p->space.nmicro, room = 1, npiece = p->ngroup * p->space.mesh->n;
  for (int i = 0; i < p->nstep; i++) {
    int a = ts_step_reads(p, &p->step[i], NULL), b = ts_step_writes(p, &p->step[i], NULL);
    if (a > room) room = a;
    if (b > room) room = b;
  }
  Weigher w = {.p = p};
  w.cost = calloc((size_t)npiece + 1, sizeof *w.cost);
  w.scratch = calloc((size_t)npiece + 1, sizeof *w.scratch);
  w.done = calloc((size_t)(p->nslot * micro) + 1, sizeof *w.done);
  w.place = calloc((size_t)p->space.nplace, sizeof *w.place);
  w.own = malloc(sizeof *w.own * (size_t)room);
  int failed = !w.cost || !w.scratch || !w.done || !w.place || !w.own;
  for (int i = 0; i < npiece && !failed; i++)
    if (p->piece[i].g && p->piece[i].like == i)
      w.cost[i] = cost_of(p->piece[i].g), w.scratch[i] = scratch_of(p->piece[i].g);
  if (!failed) {
    weigh_time(&w);
    failed = weigh_bytes(&w) != 0;
  }
  free(w.cost);
  free(w.scratch);
  free(w.done);
  free(w.place);
  free(w.own);
  return failed ? ts_error_memory(err) : 0;
}
