/* A function's kernels with profile marks in them, for as long as somebody looks: beside those
 * that run, which come back as they were. */
#include <stdlib.h>

#include "jit/jit_state.h"

static void restore(TsJitFunction *f, TsJitPlain *plain) {
  f->build = plain->build;
  f->code = plain->code;
  f->frame = plain->frame;
  free(plain);
}

static void put_back(TsJitFunction *f) {
  TsJitPlain *plain = f->plain;
  f->plain = NULL;
  ts_jit_drop(f);
  restore(f, plain);
}

static int mark(TsJitFunction *f) {
  TsError *err = &f->jit->c->err;
  TsJitPlain *plain = calloc(1, sizeof *plain);
  TsBuildJob b = ts_jit_build_of(f, 1e9);
  b.marks = true;
  if (!plain || !b.layouts || ts_build_run(&b, err) || !b.nkernel) {
    bool none = plain && b.layouts && !err->code;
    ts_build_free(&b);
    free(plain);
    return none ? 0 : err->code ? -1 : ts_error_memory(err);
  }
  ts_weigh_alike(&b, &f->build);
  *plain = (TsJitPlain){f->build, f->code, f->frame};
  f->build = b;
  f->code = NULL;
  f->frame = NULL;
  if (ts_jit_install(f)) return restore(f, plain), -1;
  f->plain = plain;
  return 1;
}

int ts_jit_marks(TsJitFunction *f, bool on) {
  if (f->state != LIVE || f->device || f->jit->how != TS_BUILD_compiled) return 0;
  if (on == (f->plain != NULL)) return on;
  int marked = on ? mark(f) : 0;
  if (!on) put_back(f);
  ts_jit_judged(f);
  return marked;
}
