/* What runs a function, and why: as text, and as facts. */
#include <string.h>

#include "jit/facts.h"
#include "jit/jit_state.h"
#include "jit/launch/replay.h"
#include "jit/level.h"
#include "lib/facts.h"

typedef struct Shown {
  const char *level;
  bool facts; /* or text */
  TsText *text;
} Shown;

static void tier_text(const TsJitFunction *f, TsText *t) {
  bool live = f->state == LIVE;
  ts_text_format(t, "// tier %d", live ? f->device ? 2 : 1 : 0);
  if (f->device) ts_text_format(t, " on %s", f->device->name);
  if (live)
    ts_text_format(t, ": %d kernel%s of %d operators", f->build.nkernel,
                   f->build.nkernel == 1 ? "" : "s", f->build.nnode);
  else if (f->state == QUEUED)
    ts_text_str(t, ": kernels are being compiled");
  else
    ts_text_format(t, ": %.3g ms spent, looked at after %.3g", (double)f->nsec / 1e6,
                   (double)f->need_nsec / 1e6);
  ts_text_char(t, '\n');
}

static void time_fact(TsText *t, const char *key, int64_t nsec) {
  if (nsec != INT64_MAX && nsec > 0)
    ts_facts_number(t, key, (double)nsec);
  else
    ts_facts_none(t, key, "no call of it has been measured");
}

/* What the tiers know of f. */
static void tier_facts(const TsJitFunction *f, TsText *t) {
  static const char *const state[] = {
      [COLD] = "cold", [QUEUED] = "compiling", [LIVE] = "kernels"};
  bool live = f->state == LIVE;
  const char *absent = ts_jit_absent(f->jit);
  ts_facts_number(t, "tier", live ? f->device ? 2 : 1 : 0);
  ts_facts_text(t, "state", state[f->state]);
  ts_facts_text(t, "device", f->device ? f->device->name : "cpu:0");
  ts_facts_flag(t, "on", f->jit->on);
  if (absent) ts_facts_text(t, "absent", absent);
  if (live) {
    ts_facts_number(t, "kernels", f->build.nkernel);
    ts_facts_number(t, "operators", f->build.nnode);
  } else {
    ts_facts_none(t, "kernels", "none run");
    ts_facts_number(t, "spent_ns", (double)f->nsec);
    ts_facts_number(t, "needed_ns", (double)f->need_nsec);
  }
  if (*f->told) ts_facts_text(t, "told", f->told);
  const TsReplay *r = live && f->device ? ts_frame_launches(f->frame) : NULL;
  TsText launches = {0};
  if (r) ts_replay_persistent_text(r, false, &launches);
  if (launches.at && !launches.failed) ts_facts_text(t, "launches", launches.at);
  ts_text_free(&launches);
  time_fact(t, "best_operators_ns", f->best[0]);
  if (live)
    time_fact(t, "best_kernels_ns", f->best[1]);
  else
    ts_facts_none(t, "best_kernels_ns", "no kernels run");
}

static int facts_of(const TsJitFunction *f, const TsBuildJob *b, const Shown *s, TsError *err) {
  ts_facts_object(s->text, NULL);
  ts_facts_text(s->text, "function", b->g->name);
  ts_facts_text(s->text, "level", s->level);
  const TsTarget *t = ts_build_target(b);
  if (t)
    ts_facts_text(s->text, "target", t->name);
  else
    ts_facts_none(s->text, "target", "nothing is compiled here");
  if (f && !strcmp(s->level, "why")) tier_facts(f, s->text);
  if (ts_build_facts(b, s->level, s->text, err)) return -1;
  ts_facts_end(s->text, '}');
  return s->text->failed ? ts_error_memory(err) : 0;
}

/* The build that runs, or one that was only scheduled; f: what is known besides, or NULL. */
static int show(const TsJitFunction *f, const TsBuildJob *b, const Shown *s, TsError *err) {
  return s->facts ? facts_of(f, b, s, err) : ts_build_text(b, s->level, s->text, err);
}

/* How what runs is launched on a device, with the tasks of a persistent launch. */
static void launches_text(const TsJitFunction *f, const Shown *s) {
  const TsReplay *r = f->state == LIVE && f->device ? ts_frame_launches(f->frame) : NULL;
  if (r && !strcmp(s->level, "schedule")) ts_replay_persistent_text(r, true, s->text);
}

static int show_what_runs(TsJitFunction *f, const TsTarget *target, const Shown *s) {
  TsError *err = &f->jit->c->err;
  f = ts_jit_shown(f);
  ts_jit_step(f);
  if (target && ts_level_check(TS_LEVEL_function, s->level, target, err)) return -1;
  if (!target && !s->facts && !strcmp(s->level, "bytecode")) {
    if (f->state != LIVE) return 0;
    ts_code_text(f->code, s->text);
    tier_text(f, s->text);
    return 0;
  }
  TsJitBuild x; /* what another machine would run is made, and not compiled */
  int failed = ts_jit_open_build(f, target, &x) || show(target ? NULL : f, x.b, s, err);
  if (!failed && !target && !s->facts) launches_text(f, s);
  ts_jit_close_build(&x);
  return failed ? -1 : 0;
}

int ts_jit_text(TsJitFunction *f, const char *level, const TsTarget *target, TsText *text) {
  return show_what_runs(f, target, &(Shown){level, false, text});
}

int ts_jit_facts(TsJitFunction *f, const char *level, const TsTarget *target, TsText *text) {
  return show_what_runs(f, target, &(Shown){level, true, text});
}
