/* The build of a function: what its kernels are made from, or what is made of it to be looked at. */
#include "devices/cpu_pool.h"
#include "jit/jit_state.h"
#include "jit/tune/tune.h"
#include "vm/core/capture.h"

TsBuildJob ts_jit_build_of(TsJitFunction *f, double spent_msec) {
  TsJit *j = f->jit;
  return (TsBuildJob){.how = j->how,
                      .g = f->g,
                      .layouts = ts_layouts_new(j->c, f->g),
                      .target = f->device ? NULL : j->target,
                      .device = f->device,
                      .profile = j->c->profile,
                      .shows = j->shown != NULL,
                      .threads = ts_cpu_threads(),
                      .chosen = ts_build_chosen_copy(f->chosen),
                      .choose = j->tuner ? ts_tune_apply : NULL,
                      .tuner = j->tuner,
                      .spent_msec = spent_msec};
}

int ts_jit_open_build(TsJitFunction *f, const TsTarget *target, TsJitBuild *x) {
  TsError *err = &f->jit->c->err;
  *x = (TsJitBuild){.b = &f->build};
  if (f->state == LIVE && !target) return 0;
  TsJitFunction there = *f;
  if (target && ts_target_gpu(target)) x->turned = ts_jit_turned(f, target, NULL);
  if (x->turned) there.g = x->turned;
  x->own = ts_jit_build_of(&there, 0);
  x->b = &x->own;
  if (target) x->own.device = NULL, x->own.target = target, x->own.choose = NULL;
  return x->own.layouts ? ts_build_schedule(&x->own, err) : ts_error_memory(err);
}

void ts_jit_close_build(TsJitBuild *x) {
  ts_build_free(&x->own);
  ts_capture_release(x->turned);
  x->turned = NULL;
}
