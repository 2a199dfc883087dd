/* Kernels of a function one by one: what is slower than the operators that it stands for goes back
 * to them, while the others stay. Both codes take turns for a while after a promotion
 * (jit/jit.c); meanwhile their instructions are timed, and the shortest times compared. */
#include "jit/jit_state.h"

enum {
  SLOWER_PERCENT = 10, /* more than this, and the operators come back */
  LEAST_NSEC = 2000,   /* and at least so much: two looks at the clock are part of each time */
};

static void give_back(TsBuildJob *b, TsFusedGroup *u) {
  ts_fused_unref(u->fused);
  u->fused = NULL;
  b->nkernel--;
  b->nnode -= u->group->nnode;
}

/* Whether the operators are faster; then both times are kept for people. */
static bool is_slower(const TsJitFunction *f, const TsFrame *own, TsFusedGroup *u) {
  const TsGroup *g = u->group;
  int64_t with = ts_frame_shortest(f->frame, g->node[0]->id), without = 0;
  for (int i = 0; i < g->nnode; i++) {
    int64_t nsec = ts_frame_shortest(own, g->node[i]->id);
    if (nsec < 0) return false;
    without += nsec;
  }
  if (with - without < LEAST_NSEC + without * SLOWER_PERCENT / 100) return false;
  u->usec = (double)with / 1e3, u->usec_without = (double)without / 1e3;
  return true;
}

int ts_weigh_kernels(TsJitFunction *f, const TsFrame *own) {
  TsFusion *all = &f->build.fusion; /* of functions inside nothing was measured */
  int n = 0;
  for (int i = 0; i < all->sched->ngroup; i++) {
    TsFusedGroup *u = &all->of[i];
    if (!u->fused || !is_slower(f, own, u)) continue;
    ts_jit_say(f, "returned", "%s: %.1f us by its kernel, %.1f us without", u->fused->what,
               u->usec, u->usec_without);
    give_back(&f->build, u);
    n++;
  }
  return n;
}

void ts_weigh_alike(TsBuildJob *b, const TsBuildJob *other) {
  TsFusion *f = &b->fusion;
  for (const TsFusion *o = &other->fusion; f && o; f = f->next, o = o->next)
    for (int i = 0; i < f->sched->ngroup && i < o->sched->ngroup; i++)
      if (f->of[i].fused && !o->of[i].fused) give_back(b, &f->of[i]);
}

void ts_weigh_some(TsBuildJob *b, int step) {
  int n = 0;
  for (TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++)
      if (f->of[i].fused && n++ % step == 0) give_back(b, &f->of[i]);
}
