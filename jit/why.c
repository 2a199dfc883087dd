/* What runs a function, and why, as text. */
#include <string.h>

#include "jit/jit_state.h"
#include "jit/level.h"

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

static void time_text(const char *what, int64_t nsec, TsText *t) {
  if (nsec != INT64_MAX && nsec > 0)
    ts_text_format(t, "// %s: %.4g us at best\n", what, (double)nsec / 1e3);
}

static int why_text(const TsJitFunction *f, const TsBuildJob *b, TsText *t, TsError *err) {
  const char *absent = ts_jit_absent(f->jit);
  tier_text(f, t);
  if (absent) ts_text_format(t, "// nothing is compiled: %s\n", absent);
  if (!f->jit->on) ts_text_str(t, "// tessera.jit is off\n");
  if (*f->told) ts_text_format(t, "// %s\n", f->told);
  time_text("at tier 0", f->best[0], t);
  if (f->state == LIVE) time_text("with kernels", f->best[1], t);
  return ts_build_text(b, "groups", t, err);
}

/* The build that runs, or one that was only scheduled. */
static int text_of(TsJitFunction *f, const TsBuildJob *b, const char *level, TsText *text) {
  TsError *err = &f->jit->c->err;
  return strcmp(level, "why") ? ts_build_text(b, level, text, err) : why_text(f, b, text, err);
}

/* What another machine would run: its kernels are made, and not compiled. */
static int text_for(TsJitFunction *f, const TsTarget *t, const char *level, TsText *text) {
  TsError *err = &f->jit->c->err;
  if (ts_level_check(TS_LEVEL_function, level, t, err)) return -1;
  TsBuildJob b = ts_jit_build_of(f, 0);
  b.device = NULL, b.target = t, b.choose = NULL;
  int failed = !b.layouts ? ts_error_memory(err)
                          : ts_build_schedule(&b, err) || ts_build_text(&b, level, text, err);
  ts_build_free(&b);
  return failed ? -1 : 0;
}

int ts_jit_text(TsJitFunction *f, const char *level, const TsTarget *target, TsText *text) {
  TsJit *j = f->jit;
  f = ts_jit_shown(f);
  ts_jit_step(f);
  if (target) return text_for(f, target, level, text);
  if (!strcmp(level, "bytecode")) {
    if (f->state != LIVE) return 0;
    ts_code_text(f->code, text);
    tier_text(f, text);
    return 0;
  }
  if (f->state == LIVE) return text_of(f, &f->build, level, text);
  TsBuildJob b = ts_jit_build_of(f, 0);
  int failed = !b.layouts || ts_build_schedule(&b, &j->c->err) || text_of(f, &b, level, text);
  ts_build_free(&b);
  return failed ? -1 : 0;
}
