/* What the program chooses for a function's kernels: f:choose. */
#include <stdlib.h>
#include <string.h>

#include "jit/build/patched.h"
#include "jit/jit_state.h"

void ts_jit_say_remarks(const TsJit *j, const TsBuildJob *b) {
  TsText t = {0};
  if (j->verbose) ts_build_remarks(b, &t);
  ts_jit_say_lines(j, t.at);
  ts_text_free(&t);
}

static void show(const TsBuildJob *b, TsJitGroupFn *each, void *arg) {
  const TsFusion *f = &b->fusion;
  for (int i = 0; i < f->sched->ngroup; i++) {
    const TsGroup *g = f->sched->group[i];
    TsSchedKernel k = {.tile = NULL};
    TsError ignored = {0};
    bool worth = ts_build_worth_on(b, g);
    if (worth && ts_build_tile(b, f, g, &k, &ignored)) k.tile = NULL;
    each(arg, &(TsJitGroup){f->sched, g, k.tile ? &k : NULL, f->of[i].fused != NULL,
                            ts_build_is_patched(b, f, g)});
    ts_tile_free(k.tile);
  }
}

int ts_jit_groups(TsJitFunction *f, TsJitGroupFn *each, void *arg) {
  f = ts_jit_shown(f);
  ts_jit_step(f);
  TsJitBuild x;
  int failed = ts_jit_open_build(f, NULL, &x);
  if (!failed) show(x.b, each, arg);
  ts_jit_close_build(&x);
  return failed ? -1 : 0;
}

static int set(TsJitFunction *f, int group, const TsSchedChoice *want) {
  TsBuildChosen **at = &f->chosen;
  while (*at && (*at)->group != group) at = &(*at)->next;
  TsBuildChosen *c = *at;
  if (!want) {
    if (c) *at = c->next, free(c);
    return 0;
  }
  if (!c && !(c = *at = calloc(1, sizeof *c))) return ts_error_memory(&f->jit->c->err);
  c->group = group, c->want = *want;
  return 0;
}

int ts_jit_choose(TsJitFunction *f, int group, const TsSchedChoice *want) {
  const char *absent = ts_jit_absent(f->jit);
  f = ts_jit_shown(f);
  if (absent && !f->device)
    return ts_error_set(&f->jit->c->err, TS_ERR_device, "nothing is compiled: %s", absent);
  return set(f, group, want) || ts_jit_rebuild(f) ? -1 : 0;
}
