/* Functions and their calls: what runs them, and how long they take. What becomes of them then:
 * jit/promote.c. */
#include "jit/jit_state.h"

#include <stdlib.h>
#include <string.h>

#include "devices/flags.h"
#include "jit/code/cache.h"
#include "jit/device/kernel.h"
#include "jit/compile/llvm.h"
#include "ir/lower/channels.h"
#include "ir/lower/lower.h"
#include "vm/core/capture.h"
#include "vm/fft/plan.h"
#include "lib/clock.h"

/* ---- opening */
/* The interpreter needs no code generator. */
static void find_target(TsJit *j) {
  bool generator = ts_llvm_present() || j->how != TS_BUILD_compiled;
  j->target = generator ? ts_jit_target(j->c->k->isa) : NULL;
  if (j->target && !j->target->triple && j->how == TS_BUILD_compiled) j->target = NULL;
}

TsJit *ts_jit_open(TsContext *c) {
  TsJit *j = calloc(1, sizeof *j);
  if (!j) return NULL;
  j->c = c;
  j->on = true;
  find_target(j);
  ts_fft_plan_serve(&c->k->fft);
  j->queue = ts_queue_open(1);
  j->tunes = ts_queue_open(1);
  j->tuner = ts_tuner_open();
  j->offloader = j->tuner ? ts_offload_open(c, j->tuner) : NULL;
  if (j->queue && j->tunes && j->tuner && j->offloader && (j->tracer = ts_tracer_open(c, j)))
    return j;
  ts_offload_close(j->offloader);
  ts_queue_close(j->queue);
  ts_queue_close(j->tunes);
  ts_tuner_close(j->tuner);
  free(j);
  return NULL;
}

const char *ts_jit_absent(const TsJit *j) {
  if (!ts_llvm_present() && !j->target) return "it was built without LLVM";
  return j->target ? NULL : "there is no code generator for this processor";
}

void ts_jit_enable(TsJit *j, bool on) {
  j->on = on;
  ts_tracer_enable(j->tracer, on);
}
bool ts_jit_enabled(const TsJit *j) { return j->on && j->target; }
bool ts_jit_is_verbose(const TsJit *j) { return j && j->verbose; }

void ts_jit_shows(TsJit *j) {
  if (!j->shown) j->shown = ts_shown_open(j->queue);
}

void ts_jit_verbose(TsJit *j, bool on) {
  j->verbose = on;
  ts_tracer_verbose(j->tracer, on);
  ts_offload_verbose(j->offloader, on);
  ts_cache_verbose(ts_cache_usual(), on);
}
TsTracer *ts_jit_tracer(TsJit *j) { return j->tracer; }
TsOffloader *ts_jit_offloader(TsJit *j) { return j->offloader; }
bool ts_jit_eager(TsJit *j, bool on) {
  bool before = j->eager;
  j->eager = on;
  ts_offload_eager(j->offloader, on);
  return before;
}
TsTuner *ts_jit_tuner(TsJit *j) { return j->tuner; }

/* ---- functions */
/* What runs: on a device, if nothing does here, or it moved there. */
TsJitFunction *ts_jit_shown(TsJitFunction *f) {
  bool moved = f->move.state == MOVE_there;
  for (TsJitFunction *d = f->there; d; d = d->there)
    if (d->state == LIVE && (f->state != LIVE || (moved && d->device == f->move.device)))
      return d;
  return f;
}

/* Where it runs: on a device that has run it, if it does not here. */
TsJitFunction *ts_jit_used(TsJitFunction *f) {
  TsJitFunction *live = ts_jit_shown(f);
  for (TsJitFunction *d = f->there; d && live == f && f->state != LIVE; d = d->there)
    if (d->calls || d->state != COLD) return d;
  return live;
}

TsJitFunction *ts_jit_function(TsJit *j, const TsGraph *g, const bool *donated) {
  TsJitFunction *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  *f = (TsJitFunction){.jit = j, .g = g, .donated = donated, .next = j->first, .at = &j->first};
  ts_jit_cool(f);
  if (j->first) j->first->at = &f->next;
  j->first = f;
  j->stats.functions++;
  return f;
}

void ts_jit_function_free(TsJitFunction *f) {
  if (!f) return;
  ts_jit_function_free(f->there);
  ts_jit_forget(f);
  if (f->next) f->next->at = f->at;
  *f->at = f->next;
  f->jit->stats.functions--;
  ts_build_chosen_free(f->chosen);
  ts_capture_release(f->own);
  free(f);
}

TsGraph *ts_jit_turned(const TsJitFunction *f, const TsTarget *t, const TsDevice *d) {
  TsError err = {0};
  TsGraph *made = NULL;
  TsSched *s = ts_sched_open(f->g, t, 1, &err);
  if (!s) return NULL;
  s->profile = f->jit->c->profile;
  s->processors = t->processors;
  if (d) ts_lower_for(s, d);
  if (!ts_lower_channels(s, f->g, &made, &err) && made) ts_capture_hold(made);
  ts_sched_free(s);
  return made;
}

TsJitFunction *ts_jit_on(TsJitFunction *f, TsDevice *d) {
  const char *why;
  TsJitFunction **at = &f->there;
  while (*at && (*at)->device != d) at = &(*at)->there;
  if (*at || !ts_device_target(d, &why)) return *at;
  TsJitFunction *made = ts_jit_function(f->jit, f->g, f->donated);
  if (made) {
    made->device = d;
    made->own = ts_jit_turned(made, ts_device_target(d, &why), d);
    if (made->own) made->g = made->own;
  }
  return *at = made;
}

static bool can_compile(const TsJit *j, int device) {
  return device ? j->on && j->how == TS_BUILD_compiled : ts_jit_enabled(j);
}

TsFrame *ts_jit_enter(TsJitFunction *f, TsFrame *own, int device) {
  TsJit *j = f->jit;
  if (!can_compile(j, device) || j->c->trap) return own;
  if (device && !(f = ts_jit_on(f, ts_device_at(device)))) return own;
  TsFrame *moved = device ? NULL : ts_jit_move_enter(f, own);
  f->start = ts_clock_nsec();
  if (moved) return moved;
  ts_jit_advance(f, own);
  bool trial = f->trial < TS_JIT_TRIAL && !j->eager && !device && !f->pinned,
       old = trial && f->trial % 2;
  TsFrame *runs = f->state == LIVE && !old ? f->frame : own;
  /* Without memory for the times nothing is known of single kernels. */
  if (f->state == LIVE && trial && !f->weighed) (void)ts_frame_measure(runs, true);
  f->start = ts_clock_nsec();
  return runs;
}

/* For a measurement; failures show up at the next call. */
static void settle(TsDevice *d) {
  TsError ignored = {0};
  if (d->synchronize) d->synchronize(d, &ignored);
}

void ts_jit_leave(TsJitFunction *f, TsFrame *ran, int device, bool failed) {
  if (ran) (void)ts_frame_measure(ran, false);
  if (device) {
    TsDevice *d = ts_device_at(device);
    f = f->there;
    while (f && f->device != d) f = f->there;
    if (!f) return;
  }
  bool moved = !device && ran && ts_frame_device(ran);
  if (failed || !f->start) return;
  if (moved && f->move.state == MOVE_trial) settle(f->move.device);
  int64_t nsec = ts_clock_nsec() - f->start;
  if (!device) ts_jit_move_leave(f, ran, nsec);
  if (moved) return;
  bool live = ran == f->frame;
  if (nsec < f->best[live]) f->best[live] = nsec;
  if (f->state == LIVE) {
    if (f->trial < TS_JIT_TRIAL) f->trial++;
    return;
  }
  f->calls++;
  f->nsec += f->last_nsec = nsec;
}

void ts_jit_stands_for(TsJitFunction *f, int calls) {
  if (f->state == COLD) f->nsec += f->last_nsec * (calls - 1);
}

void ts_jit_move_to(TsJit *j, const char *device) {
  ts_jit_flush(j);
  j->move_to = device;
}

void ts_jit_returns(TsJit *j, int n) {
  ts_jit_flush(j);
  j->returns = n;
}

bool ts_jit_live(const TsJitFunction *f) {
  return ts_jit_shown((TsJitFunction *)(uintptr_t)f)->state == LIVE;
}

/* ---- all of them */
void ts_jit_flush(TsJit *j) {
  find_target(j);
  ts_tracer_flush(j->tracer);
  ts_offload_flush(j->offloader);
  for (TsJitFunction *f = j->first; f; f = f->next) {
    ts_jit_forget(f);
    f->move = (Move){.state = MOVE_here};
  }
  ts_jit_reap(j);
}

int ts_jit_interpret(TsJit *j, const char *form) {
  TsBuildHow how = !form                    ? TS_BUILD_compiled
                   : !strcmp(form, "block") ? TS_BUILD_block
                                            : TS_BUILD_explicit;
  if (form && how == TS_BUILD_explicit && strcmp(form, "explicit")) return -1;
  j->how = how;
  ts_jit_flush(j);
  return 0;
}

TsJitStats ts_jit_stats(const TsJit *j) {
  TsJitStats s = j->stats;
  s.jobs = ts_queue_length(j->queue);
  return s;
}

void ts_jit_stop(TsJit *j) {
  ts_tuner_stop(j->tuner);
  ts_shown_stop(j->shown);
  ts_queue_stop(j->queue);
  ts_queue_stop(j->tunes);
  ts_offload_stop(j->offloader);
}

/* Those on devices go with it. */
static TsJitFunction *first_on_cpu(const TsJit *j) {
  TsJitFunction *f = j->first;
  while (f && f->device) f = f->next;
  return f;
}

void ts_jit_close(TsJit *j) {
  if (!j) return;
  ts_tracer_close(j->tracer);
  ts_tuner_stop(j->tuner);
  for (TsJitFunction *f; (f = first_on_cpu(j));) ts_jit_function_free(f);
  ts_shown_stop(j->shown);
  ts_queue_close(j->queue);
  ts_shown_close(j->shown);
  ts_queue_close(j->tunes);
  ts_jit_free_jobs(j);
  ts_offload_close(j->offloader);
  ts_tuner_close(j->tuner);
  ts_flags_close();
  free(j);
}
