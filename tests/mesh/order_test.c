/* The steps of plans: that every schedule gives a list in which each value is there before it is read,
 * and that the check finds lists that are wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/mesh/order.h"

static int failed;
static TsError err;

#define CHECK(x, ...)                                                                          \
  do {                                                                                         \
    if (!(x)) failed++, printf("order_test.c:%d: ", __LINE__), printf(__VA_ARGS__), puts("");  \
  } while (0)

/* Two layers and their gradients. */
static TsGraph *graph_of(int rows, int places, const char *one, const char *two) {
  char text[600];
  snprintf(text, sizeof text,
           "mesh {dp=%d pp=%d} leaves 24\n"
           "graph @f(%%x: f32[24@dp,4], %%w: f32[4,4]%s, %%v: f32[4,4]%s, %%y: f32[24@dp,4]) "
           "-> %%l {\n"
           "%%a = matmul %%x, %%w\n%%h = tanh %%a\n%%b = matmul %%h, %%v\n"
           "%%d = sub %%b, %%y\n%%e = mul %%d, %%d\n%%l = sum %%e\n}\n",
           rows, places, one, two);
  TsGraph *g = ts_graph_parse(text, &err);
  TsVal of[2], dx[2], all[3];
  if (!g) return NULL;
  of[0] = g->param[1], of[1] = g->param[2];
  g->backward = true;
  if (ts_graph_gradient(g, 1, &g->result[0], NULL, 2, of, dx)) return NULL;
  g->backward = false;
  all[0] = g->result[0], all[1] = dx[0], all[2] = dx[1];
  return ts_graph_results(g, 3, all) ? NULL : g;
}

/* Each place has each of its turns once, forward first, and as 1F1B no more of them begun than places
 * behind it need. */
static void check_turns(const TsMeshHow *how, int nplace) {
  for (int place = 0; place < nplace; place++) {
    int n = ts_turns_count(how, nplace, place), begun = 0, most = 0;
    TsTurn *turn = calloc((size_t)n + 1, sizeof *turn);
    char *seen = calloc((size_t)(how->chunks * how->micro) + 1, 1);
    ts_turns_fill(how, nplace, place, turn);
    for (int i = 0; i < n; i++) {
      char *at = &seen[turn[i].chunk * how->micro + turn[i].k];
      bool forward = turn[i].phase == TS_PHASE_forward;
      CHECK(turn[i].chunk % nplace == place, "chunk %d at place %d", turn[i].chunk, place);
      CHECK(*at == !forward, "turn %d of place %d: chunk %d, micro-batch %d", i, place,
            turn[i].chunk, turn[i].k);
      ++*at;
      begun += forward ? 1 : -1;
      if (begun > most) most = begun;
    }
    for (int i = 0; i < how->chunks * how->micro; i++)
      CHECK(seen[i] == (i / how->micro % nplace == place ? 2 : 0), "turns of place %d", place);
    int limit = nplace - place < how->micro ? nplace - place : how->micro;
    if (how->turns == TS_TURNS_1f1b) CHECK(most == limit, "place %d has %d begun", place, most);
    free(turn);
    free(seen);
  }
}

/* Whether the check says so; NULL: that nothing is wrong. */
static bool said(int (*check)(const TsMeshPlan *, TsText *), const TsMeshPlan *p,
                 const char *what) {
  TsText why = {0};
  int wrong = check(p, &why);
  bool right = what ? wrong && why.at && strstr(why.at, what) : !wrong;
  if (!right) printf("%s\n", why.at ? why.at : "nothing");
  ts_text_free(&why);
  return right;
}

/* Two neighbours of which the second one reads what the first one gives, the other way round; and a
 * list without its last step. */
static int spoil(TsMeshPlan *p) {
  int found = 0, need = 0;
  for (int i = 0; i + 1 < p->nstep; i++) {
    TsMeshStep a = p->step[i], b = p->step[i + 1];
    int write[64], read[64], n = ts_step_writes(p, &a, write), m = ts_step_reads(p, &b, read);
    bool hangs = false;
    for (int k = 0; k < n; k++)
      for (int x = 0; x < m; x++) hangs |= write[k] == read[x];
    if (!hangs || (a.join && p->join[a.at].kind == TS_JOIN_fold)) continue;
    p->step[i] = b, p->step[i + 1] = a;
    need++, found += said(ts_mesh_check_steps, p, "which is not there");
    p->step[i] = a, p->step[i + 1] = b;
  }
  CHECK(found == need, "%d of %d wrong lists were found", found, need);
  p->nstep--;
  CHECK(said(ts_mesh_check_steps, p, "is not there in the end"), "a list without its end");
  p->nstep++;
  return need;
}

/* ---- programs of devices that do not fit each other */
/* What is sent, as program i has it: number `nth` of this kind, or -1. */
static int find(const TsMeshPlan *p, const TsMeshProgram *of, TsMeshJoinKind kind, int nth) {
  for (int i = 0; i < of->n; i++) {
    const TsMeshStep *s = &p->step[of->step[i]];
    if (s->join && p->join[s->at].kind == kind && nth-- == 0) return i;
  }
  return -1;
}

static bool programs_say(const TsMeshPlan *p, int parts, const TsMeshProgram *of,
                         const char *const *words) {
  TsText why = {0};
  int wrong = ts_mesh_check_programs(p, parts, of, &why);
  bool right = !*words == !wrong;
  for (; *words && right; words++) right = why.at && strstr(why.at, *words);
  if (!right) printf("%s\n", why.at ? why.at : "nothing");
  ts_text_free(&why);
  return right;
}

/* Program i does two of what is sent in the other order, then not at all. */
static void seed(const TsMeshPlan *p, int parts, int i, TsMeshJoinKind kind,
                 const char *const *swapped, const char *const *left_out) {
  TsMeshProgram *of = ts_mesh_programs(p, parts);
  static const char *const fine[] = {NULL};
  int a = find(p, &of[i], kind, 0), b = find(p, &of[i], kind, 1);
  CHECK(programs_say(p, parts, of, fine), "as it is");
  CHECK(a >= 0 && b > a, "two of kind %d: %d %d", (int)kind, a, b);
  if (a >= 0 && b > a) {
    int *step = of[i].step, first = step[a];
    step[a] = step[b], step[b] = first;
    CHECK(programs_say(p, parts, of, swapped), "swapped");
    first = step[b], step[b] = step[a], step[a] = first;
    memmove(step + b, step + b + 1, sizeof *step * (size_t)(of[i].n-- - b - 1));
    CHECK(programs_say(p, parts, of, left_out), "left out");
  }
  ts_mesh_programs_free(p, parts, of);
}

static void check_programs(void) {
  TsGraph *g = graph_of(2, 2, " pp=0", " pp=1");
  TsMeshHow how = {.micro = 3, .chunks = 2, .axis = 1, .turns = TS_TURNS_1f1b};
  TsMeshPlan *p = g ? ts_mesh_partition(g, 24, &how, NULL, &err) : NULL;
  CHECK(p != NULL, "%s", err.message);
  if (!p) return;
  /* The second place takes the second micro-batch first, which the first one sends behind the first. */
  static const char *const late[] = {"dp=0 pp=0 is at the send of", "at pp=1 of matmul",
                                     "micro-batch 0, and waits for dp=0 pp=1, which is at",
                                     "micro-batch 1", NULL};
  static const char *const never[] = {"waits for", NULL};
  seed(p, 2, 2, TS_JOIN_send, late, never);
  /* A device adds up its gradients in another order than its neighbour. */
  static const char *const other[] = {"is at the sum of f32[4,4]", "and waits for dp=", NULL};
  static const char *const end[] = {"is at the sum of", "waits for dp=1 pp=0, which", NULL};
  how.chunks = 0, how.micro = 1;
  ts_mesh_plan_free(p);
  ts_graph_free(g);
  g = graph_of(2, 2, "", "");
  p = g ? ts_mesh_partition(g, 24, &how, NULL, &err) : NULL;
  if (p) seed(p, 4, 2, TS_JOIN_sum, other, end);
  ts_mesh_plan_free(p);
  ts_graph_free(g);
}

/* ---- joins that are started and done */
static int find_step(const TsMeshPlan *p, TsStepDoes does, int at) {
  for (int i = 0; i < p->nstep; i++)
    if (p->step[i].join && p->step[i].does == does && (at < 0 || p->step[i].at == at)) return i;
  return -1;
}

static void move_step(TsMeshPlan *p, int from, int to) {
  TsMeshStep s = p->step[from];
  int n = from < to ? to - from : from - to;
  if (from < to)
    memmove(p->step + from, p->step + from + 1, sizeof s * (size_t)n);
  else
    memmove(p->step + to + 1, p->step + to, sizeof s * (size_t)n);
  p->step[to] = s;
}

/* Starts and dones where they must not be. */
static void spoil_flight(TsMeshPlan *p) {
  int start = find_step(p, TS_STEP_start, -1), done, reader = -1, own[64], read[64];
  CHECK(start >= 0, "nothing is started");
  if (start < 0) return;
  done = find_step(p, TS_STEP_done, p->step[start].at);
  CHECK(done > start, "started at %d, done at %d", start, done);
  CHECK(said(ts_mesh_check_steps, p, NULL) && said(ts_mesh_check_places, p, NULL), "as it is");
  move_step(p, done, start);
  CHECK(said(ts_mesh_check_steps, p, "has no start before it"), "done before its start");
  CHECK(said(ts_mesh_check_places, p, "has not started it"), "a device that has no start");
  move_step(p, start, done);
  int n = ts_step_writes(p, &p->step[done], own);
  for (int i = done + 1; i < p->nstep && reader < 0; i++) {
    int m = ts_step_reads(p, &p->step[i], read);
    for (int k = 0; k < m; k++)
      for (int x = 0; x < n; x++)
        if (read[k] == own[x]) reader = i;
  }
  if (reader < 0) return;
  move_step(p, done, reader);
  CHECK(said(ts_mesh_check_steps, p, "which is not there"), "read before it is done");
  move_step(p, reader, done);
  /* What it reads ends while it is on its way. */
  TsMeshStep *before = &p->step[start], *at = &p->step[done];
  int dies = at->ndie;
  if (!dies) return;
  TsMeshStep kept = *before;
  before->dies = at->dies, before->ndie = dies, at->ndie = 0;
  CHECK(!said(ts_mesh_check_steps, p, NULL), "it reads what is gone");
  *before = kept, at->ndie = dies;
}

static void check_flight(void) {
  static const char *const fine[] = {NULL};
  TsOverlapAsked asked = {.on = 1, .bucket = 1, .ahead = 1};
  TsOverlap overlap = ts_overlap_of("cuda", &asked);
  TsGraph *g = graph_of(2, 1, "", "");
  TsMeshPlan *p = g ? ts_mesh_partition(g, 24, NULL, &overlap, &err) : NULL;
  CHECK(p != NULL, "%s", err.message);
  if (p) spoil_flight(p);
  if (p) { /* one device starts two in the other order */
    TsMeshProgram *of = ts_mesh_programs(p, 2);
    int a = -1, b = -1;
    CHECK(programs_say(p, 2, of, fine), "as they are");
    for (int i = 0; i < of[1].n; i++) {
      const TsMeshStep *s = &p->step[of[1].step[i]];
      if (!s->join || s->does == TS_STEP_done) continue;
      a = b, b = i;
    }
    CHECK(a >= 0, "two that are sent");
    if (a >= 0) {
      int first = of[1].step[a];
      of[1].step[a] = of[1].step[b], of[1].step[b] = first;
      TsText why = {0};
      CHECK(ts_mesh_check_programs(p, 2, of, &why), "another order");
      ts_text_free(&why);
    }
    ts_mesh_programs_free(p, 2, of);
  }
  ts_mesh_plan_free(p);
  asked.on = -1;
  overlap = ts_overlap_of("cuda", &asked);
  p = g ? ts_mesh_partition(g, 24, NULL, &overlap, &err) : NULL;
  CHECK(p && find_step(p, TS_STEP_start, -1) < 0, "it is off");
  ts_mesh_plan_free(p);
  if (g) ts_graph_free(g);
}

int main(void) {
  int wrong = 0, plans = 0;
  check_programs();
  check_flight();
  for (int places = 1; places <= 2; places++) {
    TsGraph *g = graph_of(1, places, "", "");
    if (!g) {
      printf("%s\n", err.message);
      return 1;
    }
    for (int turns = 0; turns <= TS_TURNS_interleaved; turns++)
      for (int micro = 1; micro <= 12; micro++)
        for (int again = 0; again < 2; again++) {
          int chunks = turns == TS_TURNS_interleaved ? 2 * places : places;
          TsMeshHow how = {
              .micro = micro, .chunks = chunks, .axis = 1, .turns = (TsTurns)turns};
          for (int i = 0; i < chunks; i++) how.again[i] = again;
          check_turns(&how, places);
          TsMeshPlan *p = ts_mesh_partition(g, 24, &how, NULL, &err);
          CHECK(p != NULL, "%s", err.message);
          if (!p) continue;
          CHECK(said(ts_mesh_check_steps, p, NULL), "steps");
          CHECK(said(ts_mesh_check_places, p, NULL), "places");
          CHECK(!p->turned, "%d steps out of turn", p->turned);
          CHECK(p->bubble >= 0 && p->bubble < 1, "places wait %g", p->bubble);
          wrong += spoil(p), plans++;
          ts_mesh_plan_free(p);
        }
    ts_graph_free(g);
  }
  CHECK(wrong > 200, "%d wrong lists", wrong);
  for (int nplace = 1; nplace <= 5; nplace++)
    for (int micro = 1; micro <= 11; micro++)
      for (int several = 1; several <= 3; several++)
        for (int turns = 0; turns <= TS_TURNS_interleaved; turns++) {
          TsMeshHow how = {.micro = micro, .chunks = nplace * several, .turns = (TsTurns)turns};
          if (turns != TS_TURNS_1f1b || several == 1) check_turns(&how, nplace);
        }
  printf("%d plans, %d wrong lists\n", plans, wrong);
  return failed != 0;
}
