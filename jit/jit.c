/* Functions that get hot, and what becomes of them.
 *
 *   cold ── spent enough ──> queued ── job done, next call ──> live ── slower ──> cold again,
 *    ^                          │                                │             with a higher bar
 *    └──── not worth it, failed ┴────────── flushed ─────────────┘
 *
 * Nothing is refused for ever: whatever sends a function back raises what it must spend before
 * the next attempt. */
#include "jit/jit_state.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "devices/cpu_pool.h"
#include "devices/device.h"
#include "jit/build.h"
#include "jit/cache.h"
#include "jit/device_kernel.h"
#include "jit/known.h"
#include "jit/llvm.h"
#include "jit/offload.h"
#include "jit/queue.h"
#include "jit/trace.h"
#include "jit/tune.h"
#include "jit/unit.h"
#include "vm/lower.h"

enum {
  HOT_USEC = 2000, /* spent in a function before it is looked at */
  HOT_CALLS = 2,
  TRIAL = 12,         /* calls that judge new code, in turns with the old */
  SLOWER_PERCENT = 5, /* more than this and the old code comes back */
};

int64_t ts_jit_need_longer(int64_t nsec) {
  const int64_t more = 8, most = 3600 * 1000000000LL;
  return nsec < most / more ? nsec * more : most;
}

int64_t ts_jit_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

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
  j->queue = ts_queue_open(1);
  j->tunes = ts_queue_open(1);
  j->tuner = ts_tuner_open();
  j->offloader = ts_offload_open(c);
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
void ts_jit_verbose(TsJit *j, bool on) {
  j->verbose = on;
  ts_tracer_verbose(j->tracer, on);
  ts_offload_verbose(j->offloader, on);
  ts_cache_verbose(ts_cache_usual(), on);
}
TsTracer *ts_jit_tracer(TsJit *j) { return j->tracer; }
TsOffloader *ts_jit_offloader(TsJit *j) { return j->offloader; }
void ts_jit_eager(TsJit *j, bool on) {
  j->eager = on;
  ts_offload_eager(j->offloader, on);
}
TsTuner *ts_jit_tuner(TsJit *j) { return j->tuner; }

/* ---- jobs */
static void run_job(TsQueueJob *base) {
  Job *job = (Job *)base;
  int64_t start = ts_jit_now();
  job->failed = ts_build_run(&job->build, &job->err);
  if (job->failed) job->build.msec = (double)(ts_jit_now() - start) / 1e6;
}

/* Kernels are made anew only if one is another now; ts_build_run goes on from the schedule. */
static void run_tuning(TsQueueJob *base) {
  Job *job = (Job *)base;
  job->failed = ts_build_schedule(&job->build, &job->err);
  if (!job->failed && ts_tune_run(job->build.tuner, &job->build, true, &job->cancel))
    job->failed = ts_build_run(&job->build, &job->err);
}

static void free_job(TsJit *j, Job *job) {
  for (Job **at = &j->jobs; *at; at = &(*at)->next)
    if (*at == job) {
      *at = job->next;
      break;
    }
  ts_capture_release((TsGraph *)(uintptr_t)job->build.g);
  ts_build_free(&job->build);
  free(job);
}

static bool is_done(Job *job) {
  return atomic_load_explicit(&job->base.done, memory_order_acquire);
}

/* Jobs whose function is gone. */
static void reap(TsJit *j) {
  for (Job *job = j->jobs, *next; job; job = next) {
    next = job->next;
    if (!job->f && is_done(job)) free_job(j, job);
  }
}

TsBuildJob ts_jit_build_of(TsJitFunction *f, double spent_msec) {
  TsJit *j = f->jit;
  return (TsBuildJob){.how = j->how,
                      .g = f->g,
                      .layouts = ts_layouts_new(j->c, f->g),
                      .target = f->device ? NULL : j->target,
                      .device = f->device,
                      .profile = j->c->profile,
                      .threads = ts_cpu_threads(),
                      .tuner = j->tuner,
                      .spent_msec = spent_msec};
}

static Job *queue_job(TsJitFunction *f, TsQueue *queue, void (*run)(TsQueueJob *job),
                      double spent_msec, bool at_hand) {
  TsJit *j = f->jit;
  reap(j);
  Job *job = calloc(1, sizeof *job);
  if (!job) return NULL;
  job->f = f;
  job->base.run = run;
  job->build = ts_jit_build_of(f, spent_msec);
  job->build.at_hand = at_hand;
  if (!job->build.layouts || ts_queue_add(queue, &job->base)) {
    ts_error_clear(&j->c->err);
    ts_layouts_free(job->build.layouts);
    free(job);
    return NULL;
  }
  ts_capture_ref((TsGraph *)(uintptr_t)f->g);
  job->next = j->jobs;
  return j->jobs = job;
}

int ts_jit_begin(TsJitFunction *f) {
  TsJit *j = f->jit;
  double spent = j->eager || f->pinned ? 1e9 : (double)f->nsec / 1e6;
  if (!(f->job = queue_job(f, j->queue, run_job, spent, false))) return -1;
  f->state = QUEUED;
  return 0;
}

static void abandon_tuning(TsJitFunction *f) {
  Job *job = f->tuning;
  f->tuning = NULL;
  if (!job) return;
  job->f = NULL;
  atomic_store(&job->cancel, true);
  if (ts_queue_cancel(f->jit->tunes, &job->base)) free_job(f->jit, job);
}

static void abandon(TsJitFunction *f) {
  abandon_tuning(f);
  if (!f->job) return;
  f->job->f = NULL;
  if (ts_queue_cancel(f->jit->queue, &f->job->base)) free_job(f->jit, f->job);
  f->job = NULL;
}

/* ---- states */
static void cool(TsJitFunction *f, int64_t need_nsec) {
  f->state = COLD;
  f->need_nsec = need_nsec;
  f->calls = f->nsec = 0;
  f->best[0] = INT64_MAX;
}

/* After an attempt in vain. */
static void cool_longer(TsJitFunction *f) { cool(f, ts_jit_need_longer(f->need_nsec)); }

/* Those that stand aside while others are profiled go too. */
static void drop_plain(TsJitFunction *f) {
  TsJitPlain *p = f->plain;
  f->plain = NULL;
  if (!p) return;
  f->jit->stats.promoted--;
  ts_frame_free(p->frame);
  ts_code_free(p->code);
  ts_build_free(&p->build);
  free(p);
}

void ts_jit_drop(TsJitFunction *f) {
  drop_plain(f);
  if (f->frame) f->jit->stats.promoted--;
  ts_frame_free(f->frame);
  ts_code_free(f->code);
  ts_build_free(&f->build);
  f->frame = NULL;
  f->code = NULL;
}

int ts_jit_install(TsJitFunction *f) {
  TsJit *j = f->jit;
  f->code = ts_lower_fused(j->c, f->g, f->donated, &f->build.fusion);
  f->frame = f->code ? ts_frame_new(j->c, f->code) : NULL;
  if (!f->frame) return ts_jit_drop(f), -1;
  j->stats.promoted++;
  f->state = LIVE;
  f->trial = 0;
  f->best[0] = f->best[1] = INT64_MAX;
  return 0;
}

/* What began at start is how long a call was held up. */
static double held_up(TsJit *j, int64_t start) {
  double msec = (double)(ts_jit_now() - start) / 1e6;
  if (msec > j->stats.install_msec_max) j->stats.install_msec_max = msec;
  return msec;
}

static void take_kernels(TsJitFunction *f, Job *job) {
  TsJit *j = f->jit;
  int64_t start = ts_jit_now();
  f->build = job->build;
  job->build = (TsBuildJob){.g = job->build.g};
  j->stats.kernels += f->build.nkernel;
  j->stats.cached += f->build.ncached;
  j->stats.failed += f->build.nfailed;
  j->stats.compile_msec += f->build.msec;
  f->weighed = false;
  if (j->returns && !f->device && f->build.nkernel) ts_weigh_some(&f->build, j->returns);
  bool compiled = !f->device && f->build.ncached < f->build.nkernel;
  if (compiled && j->how == TS_BUILD_compiled) ts_warm_begin(&j->warm, j->queue, j->target);
  if (f->build.nkernel && ts_jit_install(f)) {
    ts_jit_say(f, "refused", "%s", j->c->err.message);
    ts_error_clear(&j->c->err);
    cool_longer(f);
    return;
  }
  double msec = held_up(j, start);
  if (!f->build.nkernel) {
    ts_jit_say(f, "refused", "%s, in %.1f ms",
               f->build.nfailed ? "no group has a kernel" : "nothing to fuse", f->build.msec);
    ts_jit_say_lines(j, f->build.why.at);
    ts_jit_drop(f);
    return cool_longer(f);
  }
  if (f->device) ts_known_add(f->device, f->g);
  ts_jit_say(f, "promoted",
             "%d kernel%s of %d operators, %d from disk, in %.1f ms and %.2f ms here",
             f->build.nkernel, f->build.nkernel > 1 ? "s" : "", f->build.nnode,
             f->build.ncached, f->build.msec, msec);
  ts_jit_say_lines(j, f->build.why.at);
}

static void tune_later(TsJitFunction *f) {
  TsJit *j = f->jit;
  if (f->state == LIVE && !f->tuning && !f->device && j->how == TS_BUILD_compiled &&
      ts_tuner_mode(j->tuner) == TS_TUNE_on)
    f->tuning = queue_job(f, j->tunes, run_tuning, 1e9, false);
}

/* Better kernels take the place of those that run, like a promotion. */
static void finish_tuning(TsJitFunction *f) {
  Job *job = f->tuning;
  f->tuning = NULL;
  if (!job->failed && job->build.nkernel && f->state == LIVE) {
    ts_jit_drop(f);
    take_kernels(f, job);
  }
  free_job(f->jit, job);
}

/* What runs: on a device, if nothing does here, or it moved there. */
static TsJitFunction *shown(TsJitFunction *f) {
  bool moved = f->move.state == MOVE_there;
  for (TsJitFunction *d = f->there; d; d = d->there)
    if (d->state == LIVE && (f->state != LIVE || (moved && d->device == f->move.device)))
      return d;
  return f;
}

/* Where it runs: on a device that has run it, if it does not here. */
static TsJitFunction *used(TsJitFunction *f) {
  TsJitFunction *live = shown(f);
  for (TsJitFunction *d = f->there; d && live == f && f->state != LIVE; d = d->there)
    if (d->calls || d->state != COLD) return d;
  return live;
}

int ts_jit_tune(TsJitFunction *f) {
  TsJit *j = f->jit;
  TsError *err = &j->c->err;
  f = used(f);
  const char *absent = ts_jit_absent(j);
  if (absent) return ts_error_set(err, TS_ERR_device, "nothing is compiled: %s", absent);
  Job job = {.build = ts_jit_build_of(f, 1e9)};
  int failed = !job.build.layouts || ts_build_schedule(&job.build, err);
  if (!failed && (ts_tune_run(j->tuner, &job.build, false, NULL) || f->state != LIVE))
    failed = ts_build_run(&job.build, err);
  if (!failed && job.build.nkernel) {
    abandon(f);
    ts_jit_drop(f);
    take_kernels(f, &job);
  }
  ts_build_free(&job.build);
  return failed ? -1 : 0;
}

static void finish(TsJitFunction *f) {
  Job *job = f->job;
  TsJit *j = f->jit;
  f->job = NULL;
  if (job->failed) {
    ts_jit_say(f, "refused", "%s, in %.1f ms", job->err.message, job->build.msec);
    cool_longer(f);
  } else if (job->build.need_msec > 0) {
    f->state = COLD; /* goes on counting */
    f->need_nsec = (int64_t)(job->build.need_msec * 1e6);
    ts_jit_say(f, "waits", "until %.1f ms are spent here; compiling may take twice as long",
               job->build.need_msec);
  } else {
    take_kernels(f, job);
    tune_later(f);
  }
  free_job(j, job);
}

int ts_jit_pin(TsJitFunction *f, bool on) {
  TsJit *j = f->jit;
  const char *absent = ts_jit_absent(j);
  f = used(f);
  if (on && absent)
    return ts_error_set(&j->c->err, TS_ERR_device, "nothing is compiled: %s", absent);
  f->pinned = on;
  if (!on) return f->state == LIVE;
  if (f->state == COLD && ts_jit_begin(f))
    return ts_error_set(&j->c->err, TS_ERR_memory, "out of memory");
  if (f->state == QUEUED) ts_queue_wait(j->queue), finish(f);
  return f->state == LIVE;
}

static bool hot(const TsJitFunction *f) {
  if (f->jit->eager) return true;
  return f->calls >= HOT_CALLS && f->nsec >= f->need_nsec;
}

/* The kernels that are left. */
static void install_again(TsJitFunction *f) {
  TsJit *j = f->jit;
  int64_t start = ts_jit_now();
  ts_frame_free(f->frame);
  ts_code_free(f->code);
  f->frame = NULL, f->code = NULL;
  j->stats.promoted--;
  if (f->build.nkernel && !ts_jit_install(f)) return (void)held_up(j, start);
  ts_error_clear(&j->c->err);
  ts_jit_drop(f);
  cool_longer(f);
}

/* New code that is slower than what was there is given up, kernel by kernel, then as a whole.
 * Both take turns for a while, so that what else the machine does meets both. */
static void judge(TsJitFunction *f, const TsFrame *own) {
  if (f->device) return; /* what was timed is how long it takes to ask the device */
  if (f->pinned) return;
  if (f->trial != TRIAL || f->jit->eager || f->best[0] == INT64_MAX) return;
  f->trial++; /* once */
  if (!f->weighed && (f->weighed = true) && ts_weigh_kernels(f, own)) {
    install_again(f);
    return;
  }
  if (f->best[1] <= f->best[0] + f->best[0] * SLOWER_PERCENT / 100) return;
  ts_jit_say(f, "returned", "%.1f us with kernels, %.1f us without", (double)f->best[1] / 1e3,
             (double)f->best[0] / 1e3);
  ts_jit_drop(f);
  cool_longer(f);
}

void ts_jit_judged(TsJitFunction *f) { f->trial = TRIAL + 1; }

/* ---- functions */
TsJitFunction *ts_jit_function(TsJit *j, const TsGraph *g, const bool *donated) {
  TsJitFunction *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  *f = (TsJitFunction){.jit = j, .g = g, .donated = donated, .next = j->first, .at = &j->first};
  cool(f, HOT_USEC * 1000LL);
  if (j->first) j->first->at = &f->next;
  j->first = f;
  j->stats.functions++;
  return f;
}

void ts_jit_function_free(TsJitFunction *f) {
  if (!f) return;
  ts_jit_function_free(f->there);
  abandon(f);
  ts_jit_drop(f);
  if (f->next) f->next->at = f->at;
  *f->at = f->next;
  f->jit->stats.functions--;
  free(f);
}

TsJitFunction *ts_jit_on(TsJitFunction *f, TsDevice *d) {
  const char *why;
  TsJitFunction **at = &f->there;
  while (*at && (*at)->device != d) at = &(*at)->there;
  if (*at || !ts_device_target(d, &why)) return *at;
  TsJitFunction *made = ts_jit_function(f->jit, f->g, f->donated);
  if (made) made->device = d;
  return *at = made;
}

bool ts_jit_step(TsJitFunction *f) {
  if (f->state == QUEUED && f->jit->eager) ts_queue_wait(f->jit->queue);
  if (f->state == QUEUED && is_done(f->job)) finish(f);
  return f->state == LIVE;
}

/* What an earlier process promoted on this device runs by its kernels from the first call on:
 * they are loaded in less time than a call without them takes, which loads others. */
static void look_on_disk(TsJitFunction *f) {
  TsJit *j = f->jit;
  f->looked = true;
  if (f->state != COLD || ts_queue_length(j->queue) || !ts_known_has(f->device, f->g)) return;
  if (!(f->job = queue_job(f, j->queue, run_job, 0, true))) return;
  f->state = QUEUED;
  ts_queue_wait(j->queue);
}

static bool can_compile(const TsJit *j, int device) {
  return device ? j->on && j->how == TS_BUILD_compiled : ts_jit_enabled(j);
}

TsFrame *ts_jit_enter(TsJitFunction *f, TsFrame *own, int device) {
  TsJit *j = f->jit;
  if (!can_compile(j, device) || j->c->trap) return own;
  if (device && !(f = ts_jit_on(f, ts_device_at(device)))) return own;
  TsFrame *moved = device ? NULL : ts_jit_move_enter(f, own);
  f->start = ts_jit_now();
  if (moved) return moved;
  if (device && !f->looked) look_on_disk(f);
  if (f->state == COLD && hot(f) && ts_jit_begin(f)) cool_longer(f);
  ts_jit_step(f);
  if (f->tuning && is_done(f->tuning)) finish_tuning(f);
  if (f->state == LIVE) judge(f, own);
  bool trial = f->trial < TRIAL && !j->eager && !device && !f->pinned,
       old = trial && f->trial % 2;
  TsFrame *runs = f->state == LIVE && !old ? f->frame : own;
  /* Without memory for the times nothing is known of single kernels. */
  if (f->state == LIVE && trial && !f->weighed) (void)ts_frame_measure(runs, true);
  f->start = ts_jit_now();
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
  int64_t nsec = ts_jit_now() - f->start;
  if (!device) ts_jit_move_leave(f, ran, nsec);
  if (moved) return;
  bool live = ran == f->frame;
  if (nsec < f->best[live]) f->best[live] = nsec;
  if (f->state == LIVE) {
    if (f->trial < TRIAL) f->trial++;
    return;
  }
  f->calls++;
  f->nsec += f->last_nsec = nsec;
}

void ts_jit_stands_for(TsJitFunction *f, int calls) {
  if (f->state == COLD) f->nsec += f->last_nsec * (calls - 1);
}

/* ---- text */
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

int ts_jit_text(TsJitFunction *f, const char *level, TsText *text) {
  TsJit *j = f->jit;
  f = shown(f);
  if (f->state == QUEUED && is_done(f->job)) finish(f);
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

void ts_jit_move_to(TsJit *j, const char *device) {
  ts_jit_flush(j);
  j->move_to = device;
}

void ts_jit_returns(TsJit *j, int n) {
  ts_jit_flush(j);
  j->returns = n;
}

bool ts_jit_live(const TsJitFunction *f) {
  return shown((TsJitFunction *)(uintptr_t)f)->state == LIVE;
}

/* ---- all of them */
void ts_jit_wait(TsJit *j) {
  ts_offload_wait(j->offloader);
  ts_queue_wait(j->queue);
  reap(j);
  for (TsJitFunction *f = j->first; f; f = f->next)
    if (f->state == QUEUED && is_done(f->job)) finish(f);
  ts_queue_wait(j->tunes);
  for (TsJitFunction *f = j->first; f; f = f->next)
    if (f->tuning && is_done(f->tuning)) finish_tuning(f);
}

void ts_jit_flush(TsJit *j) {
  find_target(j);
  ts_tracer_flush(j->tracer);
  ts_offload_flush(j->offloader);
  for (TsJitFunction *f = j->first; f; f = f->next) {
    abandon(f);
    ts_jit_drop(f);
    cool(f, HOT_USEC * 1000LL);
    f->move = (Move){.state = MOVE_here};
  }
  reap(j);
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
  ts_queue_close(j->queue);
  ts_queue_close(j->tunes);
  while (j->jobs) free_job(j, j->jobs);
  ts_tuner_close(j->tuner);
  ts_offload_close(j->offloader);
  free(j);
}
