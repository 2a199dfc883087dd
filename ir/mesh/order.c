/* See ir/mesh/order.h. Each place takes its turns in the order of the schedule as soon as what they need
 * is there; what belongs to no turn (weights that are converted once, sums of gradients, updates)
 * comes when somebody needs it, or at the end. Where micro-batches meet in the middle of a turn, as they
 * do in an operator over the whole batch, a later turn may come first, or the turns come apart:
 * any order in which operands come before their uses gives the same bits. */
#include "ir/mesh/order.h"

#include <stdlib.h>
#include <string.h>

typedef struct Step {
  TsMeshStep is;
  int level, phase, chunk, place, k, turn; /* turn: which it belongs to, or -1 */
  int ndep, *dep;
  bool done, micro;
  int seen, can; /* at try number `seen` it could be done */
} Step;

typedef struct Order {
  TsMeshPlan *p;
  TsError *err;
  Step *step;
  int n, *maker, *dep, cap; /* maker: by slot and micro-batch, the step, or -1 */
  int nturn, *first, tries; /* turns by phase, chunk, micro-batch */
  TsMeshStep *list;
  int nlist, caplist;
  bool failed;
} Order;

/* ---- what steps read and write */
static int add(int *out, int n, int slot, int k, int micro) {
  for (int i = 0; out && i < n; i++)
    if (out[i] == slot * micro + k) return n;
  if (out) out[n] = slot * micro + k;
  return n + 1;
}

/* One slot for a step: its own micro-batch's, the only one, or those of all. */
static int add_slot(const TsMeshPlan *p, int *out, int n, int slot, int k) {
  int micro = p->space.nmicro;
  if (!p->slot[slot].micro) return add(out, n, slot, 0, micro);
  if (k >= 0) return add(out, n, slot, k, micro);
  for (int i = 0; i < micro; i++) n = add(out, n, slot, i, micro);
  return n;
}

/* Summands that some device has: a micro-batch of fewer leaves has fewer than others. */
static int summands(const TsMeshPlan *p, const TsMeshJoin *j, int k) {
  int most = 1, lo, hi;
  for (int part = k < 0 ? 0 : k; part < p->space.mesh->n && j->nfrom > 1;
       part += p->space.nmicro) {
    int n = ts_mesh_join_leaves(p->space.mesh, j, part, &lo, &hi);
    if (n > most) most = n;
  }
  return most;
}

int ts_step_reads(const TsMeshPlan *p, const TsMeshStep *s, int *out) {
  int n = 0;
  if (s->join) {
    const TsMeshJoin *j = &p->join[s->at];
    int from = summands(p, j, s->k);
    for (int i = 0; i < from; i++) n = add_slot(p, out, n, j->from + i, s->k);
    return n;
  }
  for (int part = 0; part < ts_plan_parts(p); part++) {
    const TsMeshPiece *piece = &p->piece[ts_mesh_piece(p, s->at, part, s->k < 0 ? 0 : s->k)];
    for (int i = 0; i < piece->nin; i++) n = add_slot(p, out, n, piece->in[i], s->k);
  }
  return n;
}

int ts_step_writes(const TsMeshPlan *p, const TsMeshStep *s, int *out) {
  int n = 0;
  if (s->does == TS_STEP_start) return 0;
  if (s->join) {
    const TsMeshJoin *j = &p->join[s->at];
    for (int i = 0; i < j->nto; i++) n = add_slot(p, out, n, j->to + i, s->k);
    return n;
  }
  for (int part = 0; part < ts_plan_parts(p); part++) {
    const TsMeshPiece *piece = &p->piece[ts_mesh_piece(p, s->at, part, s->k < 0 ? 0 : s->k)];
    for (int i = 0; i < piece->nout; i++) n = add_slot(p, out, n, piece->out[i], s->k);
  }
  return n;
}

/* Pieces of several devices name a slot each: without a list to compare with they are counted
 * more often than once. */
int ts_step_most(const TsMeshPlan *p, const TsMeshStep *s) {
  int a = ts_step_reads(p, s, NULL), b = ts_step_writes(p, s, NULL);
  return (a > b ? a : b) + 1;
}

/* ---- all steps */
static bool runs(const TsMeshPlan *p, int group) {
  int n = p->space.mesh->n;
  for (int i = 0; i < n; i++)
    if (p->piece[group * n + i].g) return true;
  return false;
}

static int turn_of(const Order *o, int phase, int chunk, int k) {
  return ((phase - TS_PHASE_forward) * (o->p->how.chunks ? o->p->how.chunks : 1) + chunk) *
             o->p->space.nmicro +
         k;
}

static void new_step(Order *o, bool join, int at, int level, TsPhase phase, int chunk,
                     int place, bool micro) {
  for (int k = 0; k < (micro ? o->p->space.nmicro : 1); k++) {
    Step *s = &o->step[o->n++];
    *s = (Step){.is = {.join = join, .at = at, .k = micro ? k : -1},
                .level = level,
                .phase = phase,
                .chunk = chunk,
                .place = place,
                .k = micro ? k : -1,
                .micro = micro,
                .turn = -1};
    if (micro && (phase == TS_PHASE_forward || phase == TS_PHASE_backward))
      s->turn = turn_of(o, (int)phase, chunk, k);
  }
}

/* Joins of a level come before its groups, and within a level phases in their order. */
static int compare(const void *a, const void *b) {
  const Step *x = a, *y = b;
  if (x->level != y->level) return x->level - y->level;
  if (x->is.join != y->is.join) return x->is.join ? -1 : 1;
  if (x->is.join) return x->is.at != y->is.at ? x->is.at - y->is.at : x->k - y->k;
  if (x->phase != y->phase) return x->phase - y->phase;
  if (x->micro != y->micro) return x->micro - y->micro;
  return x->is.at != y->is.at ? x->is.at - y->is.at : x->k - y->k;
}

static void collect(Order *o) {
  TsMeshPlan *p = o->p;
  int most = (p->ngroup + p->njoin) * p->space.nmicro + 1;
  if (!(o->step = calloc((size_t)most, sizeof *o->step))) {
    o->failed = true;
    return;
  }
  for (int g = 0; g < p->ngroup; g++)
    if (runs(p, g))
      new_step(o, false, g, p->group[g].level, p->group[g].phase, p->group[g].chunk,
               p->group[g].place, p->group[g].micro);
  for (int j = 0; j < p->njoin; j++) {
    const TsMeshJoin *join = &p->join[j];
    new_step(o, true, j, join->level, join->phase, join->chunk, p->slot[join->to].place,
             join->micro);
  }
  qsort(o->step, (size_t)o->n, sizeof *o->step, compare);
}

/* Whom each step waits for. Of what is folded one needs all. */
static void link(Order *o) {
  TsMeshPlan *p = o->p;
  int micro = p->space.nmicro, room = 1;
  int *own = NULL, *maker = malloc(sizeof *maker * (size_t)(p->nslot * micro + 1));
  for (int i = 0; i < o->n; i++) {
    int n = ts_step_most(p, &o->step[i].is);
    if (n > room) room = n;
  }
  own = malloc(sizeof *own * (size_t)room);
  if (!own || !maker) o->failed = true;
  for (int i = 0; maker && i < p->nslot * micro; i++) maker[i] = -1;
  for (int i = 0; i < o->n && !o->failed; i++) {
    int n = ts_step_writes(p, &o->step[i].is, own);
    for (int k = 0; k < n; k++) maker[own[k]] = i;
  }
  for (int i = 0; i < o->n && !o->failed; i++) {
    Step *s = &o->step[i];
    int n = ts_step_reads(p, &s->is, own);
    s->dep = calloc((size_t)(n * micro) + 1, sizeof *s->dep);
    o->failed |= !s->dep;
    for (int k = 0; k < n && !o->failed; k++) {
      int m = maker[own[k]];
      if (m < 0) continue;
      const TsMeshStep *by = &o->step[m].is;
      bool folds = by->join && p->join[by->at].kind == TS_JOIN_fold;
      for (int x = 0; x < (folds ? micro : 1); x++) s->dep[s->ndep++] = folds ? m - x : m;
    }
  }
  free(own);
  o->maker = maker;
}

/* ---- the list */
static void put(Order *o, Step *s, bool again) {
  if (o->nlist == o->caplist) {
    int cap = o->caplist ? 2 * o->caplist : 256;
    TsMeshStep *more = realloc(o->list, sizeof *more * (size_t)cap);
    if (!more) {
      o->failed = true;
      return;
    }
    o->list = more, o->caplist = cap;
  }
  o->list[o->nlist] = s->is;
  o->list[o->nlist++].again = again;
  s->done = true;
}

/* With what it waits for, as far as that is of no other turn. */
static bool can(Order *o, Step *s, int turn) {
  if (s->done) return true;
  if (s->turn >= 0 && s->turn != turn) return false;
  if (s->seen == o->tries) return s->can;
  s->seen = o->tries, s->can = true;
  for (int i = 0; i < s->ndep && s->can; i++) s->can = can(o, &o->step[s->dep[i]], turn);
  return s->can;
}

static void put_all(Order *o, Step *s) {
  if (s->done || o->failed) return;
  for (int i = 0; i < s->ndep; i++) put_all(o, &o->step[s->dep[i]]);
  put(o, s, false);
}

static bool turn_done(const Order *o, int turn) {
  for (int i = o->first[turn]; i < o->n; i++)
    if (o->step[i].turn == turn && !o->step[i].done) return false;
  return true;
}

static bool turn_can(Order *o, int turn) {
  o->tries++;
  for (int i = o->first[turn]; i < o->n; i++)
    if (o->step[i].turn == turn && !can(o, &o->step[i], turn)) return false;
  return true;
}

/* A chunk's forward values once more: what its backward steps read of them. Values that came from
 * other chunks are still there. */
static void need_again(Order *o, Step *s, int turn, bool *marked) {
  for (int i = 0; i < s->ndep; i++) {
    int d = s->dep[i];
    Step *of = &o->step[d];
    bool sent = of->is.join && o->p->join[of->is.at].kind == TS_JOIN_send;
    if (of->turn != turn || sent || marked[d]) continue;
    marked[d] = true;
    need_again(o, of, turn, marked);
  }
}

static void put_again(Order *o, int turn, int forward) {
  bool *marked = calloc((size_t)o->n + 1, sizeof *marked);
  if (!marked) {
    o->failed = true;
    return;
  }
  for (int i = o->first[turn]; i < o->n; i++)
    if (o->step[i].turn == turn) need_again(o, &o->step[i], forward, marked);
  for (int i = 0; i < o->n && !o->failed; i++)
    if (marked[i]) put(o, &o->step[i], true);
  free(marked);
}

static void put_turn(Order *o, TsTurn t, const TsTurn *before) {
  int turn = turn_of(o, t.phase, t.chunk, t.k);
  if (turn_done(o, turn)) return;
  bool just = before && before->chunk == t.chunk && before->k == t.k; /* all is there still */
  if (t.phase == TS_PHASE_backward && o->p->how.again[t.chunk] && !just)
    put_again(o, turn, turn_of(o, TS_PHASE_forward, t.chunk, t.k));
  for (int i = o->first[turn]; i < o->n && !o->failed; i++)
    if (o->step[i].turn == turn) put_all(o, &o->step[i]);
}

typedef struct Queue {
  TsTurn *turn;
  bool *taken;
  int n, at;
  const TsTurn *last;
} Queue;

static bool take(Order *o, Queue *q, int i) {
  TsTurn t = q->turn[i];
  int turn = turn_of(o, t.phase, t.chunk, t.k);
  if (!turn_done(o, turn) && !turn_can(o, turn)) return false;
  put_turn(o, t, q->last);
  q->last = &q->turn[i];
  q->taken[i] = true;
  while (q->at < q->n && q->taken[q->at]) q->at++;
  return true;
}

/* Whatever can be done, when no turn can. */
static bool put_some(Order *o) {
  for (int i = 0; i < o->n; i++) {
    bool ready = !o->step[i].done;
    for (int k = 0; k < o->step[i].ndep && ready; k++) ready = o->step[o->step[i].dep[k]].done;
    if (!ready) continue;
    put(o, &o->step[i], false);
    return true;
  }
  return false;
}

static void take_turns(Order *o, Queue *q) {
  int nplace = o->p->space.nplace;
  for (bool left = true; left && !o->failed;) {
    bool some = false;
    left = false;
    for (int s = 0; s < nplace; s++) {
      if (q[s].at < q[s].n) left = true;
      if (q[s].at < q[s].n && take(o, &q[s], q[s].at)) some = true;
    }
    for (int s = 0; s < nplace && left && !some; s++)
      for (int i = q[s].at + 1; i < q[s].n && !some; i++)
        if (!q[s].taken[i] && take(o, &q[s], i)) some = true, o->p->turned++;
    if (left && !some && !put_some(o)) return;
    if (left && !some) o->p->turned++;
  }
}

static void make_turns(Order *o) {
  const TsMeshPlan *p = o->p;
  int nplace = p->space.nplace;
  Queue *q = calloc((size_t)nplace, sizeof *q);
  o->nturn = 2 * (p->how.chunks ? p->how.chunks : 1) * p->space.nmicro;
  o->first = malloc(sizeof *o->first * (size_t)o->nturn);
  o->failed |= !q || !o->first;
  for (int t = 0; t < o->nturn && !o->failed; t++) {
    o->first[t] = o->n;
    for (int i = o->n; i-- > 0;)
      if (o->step[i].turn == t) o->first[t] = i;
  }
  for (int s = 0; s < nplace && !o->failed; s++) {
    q[s].n = ts_turns_count(&p->how, nplace, s);
    q[s].turn = calloc((size_t)q[s].n + 1, sizeof *q[s].turn);
    q[s].taken = calloc((size_t)q[s].n + 1, sizeof *q[s].taken);
    o->failed |= !q[s].turn || !q[s].taken;
    if (!o->failed) ts_turns_fill(&p->how, nplace, s, q[s].turn);
  }
  if (!o->failed) take_turns(o, q);
  for (int s = 0; q && s < nplace; s++) {
    free(q[s].turn);
    free(q[s].taken);
  }
  free(q);
}

/* ---- life of slots */
static void find_deaths(Order *o) {
  TsMeshPlan *p = o->p;
  int micro = p->space.nmicro, room = 1, total = 0, cap = 0;
  bool *needed = calloc((size_t)(p->nslot * micro) + 1, sizeof *needed);
  bool *folded = calloc((size_t)p->njoin + 1, sizeof *folded);
  for (int i = 0; i < p->nstep; i++) {
    int n = ts_step_most(p, &p->step[i]);
    if (n > room) room = n;
    cap += 2 * n;
  }
  int *own = malloc(sizeof *own * (size_t)room);
  p->die = malloc(sizeof *p->die * (size_t)(cap + 1));
  if (!needed || !folded || !own || !p->die) o->failed = true;
  for (int i = 0; i < p->g->nresult + p->g->nupdate && !o->failed; i++)
    for (int k = 0; k < micro; k++) needed[p->result[i] * micro + k] = true;
  for (int i = p->nstep; i-- > 0 && !o->failed;) {
    TsMeshStep *s = &p->step[i];
    s->dies = total;
    bool fold = s->join && p->join[s->at].kind == TS_JOIN_fold;
    int n = fold && folded[s->at] ? 0 : ts_step_writes(p, s, own);
    if (fold) folded[s->at] = true;
    for (int k = 0; k < n; k++)
      if (!needed[own[k]]) p->die[total++] = own[k];
    TsMeshStep made = *s; /* what is on its way is there from its start on, for joins behind it */
    if (s->does == TS_STEP_start) made.does = TS_STEP_all, n = ts_step_writes(p, &made, own);
    for (int k = 0; k < n && s->does != TS_STEP_done; k++) needed[own[k]] = false;
    n = ts_step_reads(p, s, own);
    for (int k = 0; k < n; k++) {
      if (!needed[own[k]]) p->die[total++] = own[k];
      needed[own[k]] = true;
    }
    s->ndie = total - s->dies;
  }
  free(needed);
  free(folded);
  free(own);
}

static void number_stages(TsMeshPlan *p) {
  int n = 0;
  for (int i = 0; i < p->ngroup; i++) p->group[i].stage = -1;
  for (int j = 0; j < p->njoin; j++) p->join[j].stage = p->join[j].begins = -1;
  for (int i = 0; i < p->nstep; i++) {
    int *begins = p->step[i].join ? &p->join[p->step[i].at].begins : NULL;
    if (begins && *begins < 0) *begins = n;
    int *stage =
        p->step[i].join ? &p->join[p->step[i].at].stage : &p->group[p->step[i].at].stage;
    bool starts = p->step[i].does == TS_STEP_start; /* it is of the group that waits for it */
    if (*stage < 0 && !starts) *stage = p->step[i].join ? n : n++;
  }
}

static int fly(TsMeshPlan *p) {
  double *cost = p->overlap.on ? ts_mesh_step_costs(p) : NULL;
  int failed = p->overlap.on && (!cost || ts_mesh_fly(p, cost));
  free(cost);
  return failed;
}

int ts_mesh_order(TsMeshPlan *p, TsError *err) {
  Order o = {.p = p, .err = err};
  collect(&o);
  if (!o.failed) link(&o);
  if (!o.failed && (p->space.nmicro > 1 || p->how.chunks)) make_turns(&o);
  for (int i = 0; i < o.n && !o.failed; i++) put_all(&o, &o.step[i]);
  p->step = o.list, p->nstep = o.nlist;
  if (!o.failed) o.failed = fly(p) != 0;
  if (!o.failed) find_deaths(&o);
  if (!o.failed) number_stages(p);
  for (int i = 0; i < o.n; i++) free(o.step[i].dep);
  free(o.step);
  free(o.maker);
  free(o.first);
  if (o.failed) return ts_error_memory(err);
  TsText why = {0};
  int wrong = ts_mesh_check_steps(p, &why) || ts_mesh_check_places(p, &why);
  if (why.failed) return ts_text_free(&why), ts_error_memory(err);
  if (wrong) TS_BUG("the steps of %s are in no order: %s", p->g->name, why.at);
  ts_text_free(&why);
  return ts_mesh_weigh(p, err);
}
