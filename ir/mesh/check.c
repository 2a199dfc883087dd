/* Whether the steps of a plan can run: see ir/mesh/order.h. Two views of one list. As a list, each value is
 * there when it is read. As programs of devices, which know nothing of each other, all that take part in
 * what is sent come to it: each device goes on as far as it can, one that sends or receives waits until
 * all others are at the same step, and if in the end one still waits, it does so for ever. */
#include <stdlib.h>
#include <string.h>

#include "ir/mesh/order.h"

/* ---- names */
static const char *const phases[] = {"data", "forward", "backward", "update"};

static void put_node(const TsNode *n, TsText *t) {
  if (!n) return;
  ts_text_format(t, " of %s", ts_node_name(n));
  if (*ts_graph_where(n)) ts_text_format(t, " (%s)", ts_graph_where(n));
}

static void put_place(const TsMeshPlan *p, int place, TsText *t) {
  if (p->space.axis >= 0) ts_text_format(t, "%s=%d", p->space.real->axis[p->space.axis], place);
}

static void put_join(const TsMeshPlan *p, const TsMeshJoin *j, TsText *t) {
  static const char *const kind[] = {"the move", "the sum", "the fold", "the send", "the draw"};
  char a[TS_META_TEXT], b[TS_META_TEXT];
  ts_text_format(t, "%s of %s to %s", kind[j->kind], ts_meta_text(&p->slot[j->from].meta, a),
                 ts_meta_text(&p->slot[j->to].meta, b));
  if (j->kind == TS_JOIN_send && p->slot[j->to].place >= 0) {
    ts_text_str(t, " at ");
    put_place(p, p->slot[j->to].place, t);
  }
  put_node(j->node, t);
}

static void put_group(const TsMeshPlan *p, int at, TsText *t) {
  const TsMeshGroup *g = &p->group[at];
  const TsNode *first = NULL;
  for (int part = 0; part < ts_plan_parts(p) && !first; part++) {
    const TsGraph *of = p->piece[ts_mesh_piece(p, at, part, 0)].g;
    for (int i = 0; of && i < of->nnode && !first; i++)
      if (of->node[i]->op < TS_OP_COUNT) first = of->node[i];
  }
  ts_text_format(t, "stage %d, %s", g->stage, phases[g->phase]);
  if (p->how.chunks) {
    ts_text_format(t, " of chunk %d on ", g->chunk);
    put_place(p, g->place, t);
  }
  if (first) ts_text_str(t, ", which begins with what is");
  put_node(first, t);
}

static void put_step(const TsMeshPlan *p, int i, TsText *t) {
  static const char *const does[] = {"", "the start of ", "the end of "};
  const TsMeshStep *s = &p->step[i];
  ts_text_str(t, does[s->does]);
  if (s->join)
    put_join(p, &p->join[s->at], t);
  else
    put_group(p, s->at, t);
  if (s->k >= 0) ts_text_format(t, ", micro-batch %d", s->k);
}

static void put_value(const TsMeshPlan *p, int what, TsText *t) {
  char a[TS_META_TEXT];
  int slot = what / p->space.nmicro;
  ts_text_format(t, "%%%d %s", slot, ts_meta_text(&p->slot[slot].meta, a));
  if (p->slot[slot].micro) ts_text_format(t, " of micro-batch %d", what % p->space.nmicro);
}

/* ---- as a list */
typedef struct List {
  const TsMeshPlan *p;
  TsText *why;
  bool *there, *flies; /* flies: a join that was started will give it */
  int *times, *own;
} List;

static int *times_of(const List *l, const TsMeshStep *s, int k) {
  return &l->times[(s->at + (s->join ? l->p->ngroup : 0)) * l->p->space.nmicro + k];
}

static int stands(List *l, int i, const char *what) {
  put_step(l->p, i, l->why);
  ts_text_str(l->why, what);
  return -1;
}

/* A join is started, then done, each once. */
static int check_flight(List *l, int i) {
  const TsMeshPlan *p = l->p;
  const TsMeshStep *s = &p->step[i];
  TsMeshStep all = *s;
  all.does = TS_STEP_all;
  int n = ts_step_writes(p, &all, l->own);
  for (int k = 0; k < n && s->does != TS_STEP_all; k++) {
    if (l->flies[l->own[k]] == (s->does == TS_STEP_start))
      return stands(l, i,
                    s->does == TS_STEP_start ? " stands twice" : " has no start before it");
    l->flies[l->own[k]] = s->does == TS_STEP_start;
  }
  return 0;
}

static int check_step(List *l, int i) {
  const TsMeshPlan *p = l->p;
  const TsMeshStep *s = &p->step[i];
  if (check_flight(l, i)) return -1;
  bool fold = s->join && p->join[s->at].kind == TS_JOIN_fold, last = true;
  int n = ts_step_reads(p, s, l->own), micro = p->space.nmicro;
  for (int k = 0; k < n; k++) {
    bool behind = s->join && p->join[s->at].kind != TS_JOIN_fold && /* in the same order */
                  p->join[s->at].kind != TS_JOIN_call && s->does != TS_STEP_done;
    if (l->there[l->own[k]] || (behind && l->flies[l->own[k]])) continue;
    put_step(p, i, l->why);
    ts_text_str(l->why, " reads ");
    put_value(p, l->own[k], l->why);
    ts_text_str(l->why, ", which is not there");
    return -1;
  }
  if (s->does != TS_STEP_start && ++*times_of(l, s, s->k < 0 ? 0 : s->k) > 1 && !s->again)
    return stands(l, i, " stands twice");
  n = ts_step_writes(p, s, l->own);
  for (int k = 0; k < micro && fold; k++) last &= *times_of(l, s, k) > 0;
  for (int k = 0; k < n && last; k++) l->there[l->own[k]] = true;
  for (int k = 0; k < s->ndie; k++) {
    if (l->flies[p->die[s->dies + k]]) return stands(l, i, " ends what is on its way");
    l->there[p->die[s->dies + k]] = false;
  }
  return 0;
}

int ts_mesh_check_steps(const TsMeshPlan *p, TsText *why) {
  int micro = p->space.nmicro, room = 1, wrong = 0;
  List l = {.p = p, .why = why};
  for (int i = 0; i < p->nstep; i++)
    if (ts_step_most(p, &p->step[i]) > room) room = ts_step_most(p, &p->step[i]);
  l.there = calloc(2 * (size_t)(p->nslot * micro) + 1, sizeof *l.there);
  l.flies = l.there ? l.there + p->nslot * micro : NULL;
  l.times = calloc((size_t)((p->ngroup + p->njoin) * micro) + 1, sizeof *l.times);
  l.own = malloc(sizeof *l.own * (size_t)room);
  if (!l.there || !l.times || !l.own) why->failed = true, wrong = -1;
  for (int i = 0; i < p->g->nparam && !wrong; i++)
    for (int k = 0; k < micro; k++) l.there[p->param[i] * micro + k] = true;
  for (int i = 0; i < p->nstep && !wrong; i++) wrong = check_step(&l, i);
  for (int i = 0; i < p->g->nresult + p->g->nupdate && !wrong; i++) {
    if (l.there[p->result[i] * micro]) continue;
    ts_text_str(why, i < p->g->nresult ? "the result " : "the new value ");
    put_value(p, p->result[i] * micro, why);
    ts_text_str(why, " is not there in the end");
    wrong = -1;
  }
  free(l.there);
  free(l.times);
  free(l.own);
  return wrong;
}

/* ---- as programs */
/* Where a join is done, or begins. */
static int place_of(const TsMeshPlan *p, const TsMeshJoin *j) {
  int from = p->slot[j->from].place, to = p->slot[j->to].place;
  return from >= 0 ? from : to >= 0 ? to : 0;
}

/* Whether devices of the place do the step. */
static bool takes_part(const TsMeshPlan *p, const TsMeshStep *s, int place) {
  if (!s->join) return p->group[s->at].place == place;
  const TsMeshJoin *j = &p->join[s->at];
  if (place_of(p, j) == place) return true;
  int to = p->slot[j->to].place;
  return j->kind == TS_JOIN_send && (to < 0 || to == place);
}

/* Each for itself, or with others: with those of its own part at other places, or all at its place. A
 * device waits for its own order alone when what was started has to be done. */
static bool meets(const TsMeshPlan *p, const TsMeshStep *s, int part, int other) {
  if (!s->join) return part == other;
  if (s->does == TS_STEP_done) return false;
  TsMeshJoinKind kind = p->join[s->at].kind;
  return part == other || kind == TS_JOIN_move || kind == TS_JOIN_sum;
}

TsMeshProgram *ts_mesh_programs(const TsMeshPlan *p, int parts) {
  int n = p->space.nplace * parts;
  TsMeshProgram *of = calloc((size_t)n + 1, sizeof *of);
  for (int i = 0; of && i < n; i++) {
    if (!(of[i].step = malloc(sizeof *of[i].step * ((size_t)p->nstep + 1)))) {
      ts_mesh_programs_free(p, parts, of);
      return NULL;
    }
    for (int k = 0; k < p->nstep; k++)
      if (takes_part(p, &p->step[k], i / parts)) of[i].step[of[i].n++] = k;
  }
  return of;
}

void ts_mesh_programs_free(const TsMeshPlan *p, int parts, TsMeshProgram *of) {
  for (int i = 0; of && i < p->space.nplace * parts; i++) free(of[i].step);
  free(of);
}

static void put_device(const TsMeshPlan *p, int parts, int i, TsText *t) {
  const TsMesh *m = p->space.real;
  int r = ts_space_part(&p->space, i / parts, i % parts);
  const char *before = "";
  for (int a = 0; a < m->naxis; a++) {
    if (parts == 1 && p->space.n > 1 && a != p->space.axis) continue;
    ts_text_format(t, "%s%s=%d", before, m->axis[a], ts_mesh_coordinate(m, r, a)), before = " ";
  }
}

/* The first one that program i waits for at its step, or -1: all are there. */
static int awaited(const TsMeshPlan *p, int parts, const TsMeshProgram *of, const int *at,
                   int i) {
  int step = of[i].step[at[i]];
  for (int q = 0; q < p->space.nplace * parts; q++) {
    if (q == i || !takes_part(p, &p->step[step], q / parts) ||
        !meets(p, &p->step[step], i % parts, q % parts))
      continue;
    if (at[q] == of[q].n || of[q].step[at[q]] != step) return q;
  }
  return -1;
}

static void put_wait(const TsMeshPlan *p, int parts, const TsMeshProgram *of, const int *at,
                     int i, TsText *t) {
  int q = awaited(p, parts, of, at, i);
  put_device(p, parts, i, t);
  ts_text_str(t, " is at ");
  put_step(p, of[i].step[at[i]], t);
  ts_text_str(t, ", and waits for ");
  put_device(p, parts, q, t);
  if (at[q] == of[q].n) {
    ts_text_str(t, ", which has come to its end");
  } else {
    ts_text_str(t, ", which is at ");
    put_step(p, of[q].step[at[q]], t);
  }
}

/* All that are at the step of i go on. */
static void go_on(const TsMeshPlan *p, int parts, const TsMeshProgram *of, int *at, int i) {
  int step = of[i].step[at[i]];
  for (int q = 0; q < p->space.nplace * parts; q++)
    if (q == i || (takes_part(p, &p->step[step], q / parts) &&
                   meets(p, &p->step[step], i % parts, q % parts)))
      at[q]++;
}

/* Each device has started what it waits for. */
static int check_starts(const TsMeshPlan *p, int parts, const TsMeshProgram *of, int i,
                        TsText *why) {
  int micro = p->space.nmicro, wrong = 0;
  bool *flies = calloc((size_t)(p->njoin * micro) + 1, sizeof *flies);
  if (!flies) return why->failed = true, -1;
  for (int k = 0; k < of[i].n && !wrong; k++) {
    const TsMeshStep *s = &p->step[of[i].step[k]];
    if (!s->join || s->does == TS_STEP_all) continue;
    bool *own = &flies[s->at * micro + (s->k < 0 ? 0 : s->k)];
    if (s->does == TS_STEP_done && !*own) {
      put_device(p, parts, i, why);
      ts_text_str(why, " is at ");
      put_step(p, of[i].step[k], why);
      ts_text_str(why, ", and has not started it");
      wrong = -1;
    }
    *own = s->does == TS_STEP_start;
  }
  free(flies);
  return wrong;
}

int ts_mesh_check_programs(const TsMeshPlan *p, int parts, const TsMeshProgram *of,
                           TsText *why) {
  int n = p->space.nplace * parts, *at = calloc((size_t)n + 1, sizeof *at), waits = -1;
  if (!at) return why->failed = true, -1;
  for (int i = 0; i < n; i++)
    if (check_starts(p, parts, of, i, why)) return free(at), -1;
  for (bool some = true; some;) {
    some = false, waits = -1;
    for (int i = 0; i < n; i++) {
      while (at[i] < of[i].n && awaited(p, parts, of, at, i) < 0)
        go_on(p, parts, of, at, i), some = true;
      if (at[i] < of[i].n && waits < 0) waits = i;
    }
  }
  if (waits >= 0) put_wait(p, parts, of, at, waits, why);
  free(at);
  return waits >= 0 ? -1 : 0;
}

int ts_mesh_check_places(const TsMeshPlan *p, TsText *why) {
  TsMeshProgram *of = ts_mesh_programs(p, 1);
  if (!of) return why->failed = true, -1;
  int wrong = ts_mesh_check_programs(p, 1, of, why);
  ts_mesh_programs_free(p, 1, of);
  return wrong;
}
