/* See jit/eager/offload.h: the table of plans, and running them. */
#include "jit/eager/offload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/graph/failing.h"
#include "ir/lower/index/index.h"
#include "jit/build/build.h"
#include "jit/collective/collective.h"
#include "jit/persistent/persistent.h"
#include "jit/eager/state.h"
#include "jit/launch/profile.h"
#include "jit/device/stand_in.h"
#include "vm/core/offload.h"
#include "vm/drive/optim.h"
#include "vm/drive/random.h"
#include "lib/clock.h"
#include "vm/core/flops.h"

enum { MOST_PLANS = 4096 };

static TsOffloader *of(TsContext *c) { return c->offloader; }

/* ---- the table */
static Plan *find(const TsOffloader *o, const Form *f) {
  for (Plan *p = o->bucket[f->hash % OFFLOAD_BUCKETS]; p; p = p->next)
    if (p->hash == f->hash && p->nword == f->nword &&
        !memcmp(p->word, f->word, sizeof *f->word * (size_t)f->nword))
      return p;
  return NULL;
}

void ts_offload_flush(TsOffloader *o) {
  for (int i = 0; i < OFFLOAD_BUCKETS; i++) {
    for (Plan *p = o->bucket[i], *next; p; p = next) {
      next = p->next;
      free(p->quick);
      free(p);
    }
    o->bucket[i] = NULL;
  }
  o->nplan = 0;
  memset(o->optim, 0, sizeof o->optim);
  ts_offload_guards_drop(o);
  if (ts_launch_small_ones(o->c)) ts_error_clear(&o->c->err);
  ts_offload_drop_kernels(o);
  ts_stand_in_close();
}

/* Once an operator: it is the same reason for most calls of it. */
void ts_offload_refused(TsOffloader *o, TsOp op, int device, const char *why) {
  uint64_t *told = &o->told[op / 64], bit = 1ull << op % 64;
  if (!o->verbose || (*told & bit)) return;
  *told |= bit;
  fprintf(stderr, "[jit device: %s of %s runs on the CPU: %s]\n", ts_op_info(op)->name,
          ts_device_at(device)->name, why);
}

void ts_offload_remarks(const TsOffloader *o, const Form *f, const char *remarks) {
  while (o->verbose && remarks && *remarks) {
    size_t n = strcspn(remarks, "\n");
    fprintf(stderr, "[jit remark %s on %s: %.*s]\n", ts_op_info((TsOp)f->op)->name,
            ts_device_at(f->device)->name, (int)n, remarks);
    remarks += n + (remarks[n] == '\n');
  }
}

static Plan *make(TsOffloader *o, const Form *f) {
  TsError err = {0};
  double start = ts_clock_msec();
  if (o->nplan >= MOST_PLANS && !o->grouping) ts_offload_flush(o);
  size_t nbytes = sizeof *f->word * (size_t)f->nword;
  Plan *p = malloc(sizeof *p + nbytes);
  if (!p) return NULL;
  int64_t kernels = o->stats.kernels, cached = o->stats.cached;
  ts_offload_make(o, f, p, &err);
  if (!p->kernel && err.code == TS_ERR_memory) { /* the next call may have it */
    o->c->err = err;
    return free(p), NULL;
  }
  p->hash = f->hash;
  p->nword = f->nword;
  memcpy(p->word, f->word, nbytes);
  p->next = o->bucket[f->hash % OFFLOAD_BUCKETS];
  o->bucket[f->hash % OFFLOAD_BUCKETS] = p;
  o->nplan++;
  double msec = ts_clock_msec() - start;
  o->stats.compile_msec += msec;
  if (!p->kernel) {
    o->stats.refused++;
    ts_offload_refused(o, (TsOp)f->op, f->device, err.message);
    return p;
  }
  if (o->verbose && !ts_device_kernel_ready(p->kernel))
    fprintf(stderr, "[jit device: the kernel of %s for %s is %s meanwhile]\n",
            ts_op_info((TsOp)f->op)->name, ts_device_at(f->device)->name,
            ts_device_kernel_cached(p->kernel) ? "loaded" : "compiled");
  if (!ts_device_kernel_ready(p->kernel)) return p;
  double llvm, driver;
  ts_device_kernel_times(p->kernel, &llvm, &driver);
  if (o->verbose && o->stats.kernels > kernels)
    fprintf(stderr,
            "[jit device: a kernel of %s for %s%s in %.2f ms; LLVM %.2f, the driver %.2f]\n",
            ts_op_info((TsOp)f->op)->name, ts_device_at(f->device)->name,
            o->stats.cached > cached ? " from disk" : "", msec, llvm * 1e-3, driver * 1e-3);
  return p;
}

/* ---- running */
static int flush(TsContext *c, bool fetched) {
  int failed = ts_launch_flush(c);
  if (!fetched || failed || !of(c)->launches.guarded) return failed;
  return ts_collective_tell(c) || ts_persistent_tell(&c->err) || ts_offload_guards_tell(of(c)) ? -1
                                                                                              : 0;
}

static bool shares(const Form *f, const Plan *p, int k) {
  const TsTensor *y = f->out[k].t;
  for (int i = 0; i < f->nin; i++) {
    const TsTensor *x = f->in[i].kind == OPERAND_tensor ? f->in[i].t : NULL;
    if (!x || x->storage != y->storage) continue;
    if (!(p->over[k] >> i & 1) || x->offset != y->offset) return true;
  }
  return false;
}

static double bytes_of(const Form *f) {
  double bytes = 0;
  for (int i = 0; i < f->nin; i++)
    if (f->in[i].kind == OPERAND_tensor) bytes += (double)ts_meta_nbytes(&f->in[i].meta);
  for (int i = 0; i < f->nout; i++) bytes += (double)ts_meta_nbytes(&f->out[i].meta);
  return bytes;
}

/* Work in proportion to elements. */
static bool is_linear(const Form *f) {
  switch (f->op) {
  case TS_OP_softmax:
  case TS_OP_log_softmax:
  case TS_OP_layernorm:
  case TS_OP_rmsnorm: return true;
  default: return f->collapsed || ts_op_info((TsOp)f->op)->cls == TS_CLASS_REDUCE;
  }
}

/* Over in a moment, so that nobody minds when it is put off. */
static bool is_brief(const Form *f, const Plan *p) {
  enum { FEW = 8192 };
  bool small = is_linear(f);
  int64_t n = 0;
  for (int i = 0; i < f->nin && small; i++)
    if (f->in[i].kind == OPERAND_tensor) n += ts_tensor_numel(f->in[i].t);
  for (int i = 0; i < f->nout && small; i++) n += ts_tensor_numel(f->out[i].t);
  return small && n <= FEW && ts_device_kernel_simple(p->kernel);
}

static void touch(TsContext *c, const Form *f, const Plan *p, void *const *arg) {
  for (int i = 0; i < p->nparam; i++) {
    int k = p->arg[i];
    ts_launch_touch(c, k >= 0 ? f->in[k].t : f->out[-1 - k].t, arg[i], k < 0);
  }
}

static int launch(TsContext *c, const Form *f, const Plan *p, void *const *arg,
                  const int64_t *dim) {
  if (!c->replaying && !ts_profile_on() && is_brief(f, p))
    return ts_launch_small(c, p->kernel, p->nparam, arg, p->ndim, dim);
  touch(c, f, p, arg);
  return ts_launch(c, p->kernel, p->nparam, arg, p->ndim, dim);
}

static void sizes(TsContext *c, const Form *f, const Plan *p, int64_t *dim) {
  memcpy(dim, p->dim, sizeof p->dim);
  if (p->sized) dim[0] = f->out[0].meta.dim[0];
  if (p->elements >= 0) dim[p->elements] = ts_meta_numel(&f->out[0].meta);
  for (int d = 0; d < p->ndim; d++) {
    if (p->number[d] >= 0) memcpy(&dim[d], &f->in[p->number[d]].number, sizeof *dim);
    if (p->attr[d] >= 0) dim[d] = f->attr[p->attr[d]].i;
  }
  if (p->draw < 0) return;
  uint64_t seed, stream;
  ts_random_pick(c, f->attr + ts_op_info((TsOp)f->op)->nattr - 2, &seed, &stream);
  dim[p->draw] = (int64_t)seed, dim[p->draw + 1] = (int64_t)stream;
}

/* Addresses and sizes of a run. */
static int arguments(TsContext *c, const Form *f, const Plan *p, void **arg, int64_t *dim) {
  void *in[OFFLOAD_IN], *out[OFFLOAD_OUT];
  for (int i = 0; i < f->nin; i++)
    if (f->in[i].kind == OPERAND_tensor && !(in[i] = ts_tensor_read_on(f->in[i].t, f->device)))
      return -1;
  for (int i = 0; i < f->nout; i++) {
    TsTensor *y = f->out[i].t;
    bool whole = y->contiguous && ts_meta_nbytes(&y->meta) == y->storage->nbytes;
    if (!(out[i] = ts_tensor_write_on(y, f->device, whole))) return -1;
  }
  for (int i = 0; i < p->nparam; i++)
    arg[i] = p->arg[i] >= 0 ? in[p->arg[i]] : out[-1 - p->arg[i]];
  sizes(c, f, p, dim);
  return 0;
}

static double flops_of(const Form *f) {
  const TsMeta *in[OFFLOAD_IN];
  for (int i = 0; i < f->nin; i++) in[i] = &f->in[i].meta;
  return ts_flops((TsOp)f->op, f->nin, in, f->nout ? &f->out[0].meta : NULL);
}

static int run(TsContext *c, const Form *f, const Plan *p) {
  void *arg[TS_SCHED_PARAMS];
  int64_t dim[TS_TILE_DIMS];
  uint64_t stream = c->stream;
  if (arguments(c, f, p, arg, dim)) return -1;
  if (ts_profile_on())
    ts_profile_label(ts_op_info((TsOp)f->op)->name, bytes_of(f), flops_of(f));
  int failed = launch(c, f, p, arg, dim);
  if (failed || of(c)->launches.prepares) c->stream = stream; /* nothing was drawn */
  return failed ? -1 : 1;
}

/* Results without elements need no kernel. */
static bool is_empty(const Form *f) {
  for (int i = 0; i < f->nout; i++)
    if (ts_tensor_numel(f->out[i].t)) return false;
  return true;
}

static bool may_index(const TsOpInfo *o) {
  return o->cls != TS_CLASS_POINTWISE && o->cls != TS_CLASS_REDUCE && o->cls != TS_CLASS_SCAN &&
         o->cls != TS_CLASS_VIEW;
}

/* Of an empty result the VM has still to say what is wrong: draws move the generator, indices
 * may be out of range, texts are read by handlers. */
static bool needs_vm(const Form *f) {
  const TsOpInfo *o = ts_op_info((TsOp)f->op);
  if (o->cls == TS_CLASS_RANDOM || ts_op_may_fail((TsOp)f->op)) return true;
  for (int i = 0; f->attr && i < o->nattr; i++)
    if (f->attr[i].type == TS_ATTR_str) return true;
  for (int i = 0; i < f->nin && may_index(o); i++)
    if (f->in[i].kind == OPERAND_tensor && ts_index_takes(&f->in[i].t->meta) &&
        ts_tensor_numel(f->in[i].t))
      return true;
  return false;
}

/* If not, the VM says so. */
static bool in_range(TsContext *c, const Form *f, const Plan *p) {
  for (int i = 0; i < p->nguard; i++) {
    if (!ts_guard_check(&p->guard[i], c, f->in[p->guarded[i]].t)) continue;
    ts_error_clear(&c->err);
    return false;
  }
  return true;
}

/* 1 with the plan of f; 0: the VM runs it; SHARED: its results are over operands that it
 * reads later. */
enum { SHARED = 2 };
static int find_plan(TsContext *c, const Form *f, bool in_place, Plan **found) {
  TsOffloader *o = of(c);
  Plan *p = *found = find(o, f);
  if (!p && ts_launch_small_ones(c)) return -1;
  if (!p && !(p = *found = make(o, f))) return o->c->err.code ? -1 : 0;
  bool apart = true, waits = p->kernel && !ts_device_kernel_ready(p->kernel);
  Plan *quick =
      waits && !o->launches.prepares && !ts_offload_brief(o) ? ts_offload_quick(o, f, p) : NULL;
  if (quick) p = *found = quick;
  if (p->kernel && !ts_offload_can(o, f->op, f->device, &p->kernel)) return 0;
  if (p->kernel && !in_range(c, f, p)) return 0;
  for (int k = 0; in_place && k < f->nout; k++) apart &= !shares(f, p, k);
  if (!p->kernel) return o->stats.fallback++, 0;
  if (!apart) return SHARED;
  o->stats.calls++;
  return 1;
}

/* 1, 0 or -1; or SHARED. */
static int run_form(TsContext *c, const Form *f, bool in_place) {
  Plan *p;
  if (is_empty(f)) return !needs_vm(f);
  if (of(c)->shows && ts_offload_show(of(c), f)) return -1;
  int done = find_plan(c, f, in_place, &p);
  return done == 1 ? run(c, f, p) : done;
}

/* ---- the hook */
/* A number beside integers must fit their type: if not, the VM has the words. */
static bool numbers_fit(const TsCall *call) {
  int64_t lo, hi;
  if (!ts_dtype_is(call->compute, TS_KIND_B | TS_KIND_U | TS_KIND_I)) return true;
  ts_dtype_int_range(call->compute, &lo, &hi);
  for (int i = 0; i < call->nin; i++) {
    const TsTensor *t = call->in[i];
    if (!t || !t->meta.weak || t->meta.ndim || t->meta.dtype != TS_DT_i64) continue;
    int64_t v = *(const int64_t *)t->storage->host;
    if (v < lo || v > hi) return false;
  }
  return true;
}

/* x, a number, everywhere. Where elements lie apart, it is one element that all are copies of. */
static int assign_element(TsContext *c, TsTensor *dst, TsTensor *x) {
  const int64_t apart[TS_MAX_RANK] = {0};
  TsMeta m = {.dtype = dst->meta.dtype, .ndim = 1, .device = dst->meta.device, .dim = {1}};
  TsTensor *one = ts_tensor_new(c, &m), *all = NULL;
  int done = one ? ts_offload_assign(c, one, x) : -1;
  if (done == 1) done = (all = ts_tensor_view(one, &dst->meta, apart, one->offset)) ? 1 : -1;
  if (done == 1) done = ts_offload_assign(c, dst, all);
  ts_tensor_unref(one), ts_tensor_unref(all);
  return done;
}

int ts_offload_assign(TsContext *c, TsTensor *dst, TsTensor *src) {
  Form f;
  TsOffloader *o = of(c);
  if (!o->on) return 0;
  bool number = src->meta.weak && !src->meta.ndim;
  if (number && !dst->contiguous) return assign_element(c, dst, src);
  bool outermost = ts_offload_begin(o, (Meanwhile){.dst = dst});
  int done = ts_offload_form_assign(dst, src, &f) ? run_form(c, &f, false) : 0;
  ts_offload_end(o, outermost);
  return done;
}

static int assign_ready(TsContext *c, TsTensor *dst, TsTensor *src) {
  Form f;
  Plan *p;
  TsOffloader *o = of(c);
  if (!o->on || !ts_offload_form_assign(dst, src, &f) || is_empty(&f)) return 0;
  bool outermost = ts_offload_begin(o, (Meanwhile){.dst = dst});
  int done = find_plan(c, &f, false, &p);
  bool tensor = f.in[0].kind == OPERAND_tensor;
  if (done == 1 && tensor && !ts_tensor_read_on(f.in[0].t, f.device)) done = -1;
  if (done == 1 && !ts_tensor_read_on(dst, f.device)) done = -1; /* its elements still count */
  ts_offload_end(o, outermost);
  return done < 0 ? -1 : 0;
}

int ts_offload_assign_number(TsContext *c, TsTensor *dst, double value) {
  TsTensor *x = ts_tensor_number(c, value);
  int done = x ? ts_offload_assign(c, dst, x) : -1;
  ts_tensor_unref(x);
  return done;
}

static int call_device(TsOffloader *o, TsCall *call, int device, bool in_place);

/* Over copies of the operands that share a result's bytes. */
static int call_apart(TsOffloader *o, const TsCall *call, int device) {
  TsTensor *in[OFFLOAD_IN], *copy[OFFLOAD_IN] = {NULL};
  TsCall own = *call;
  bool failed = false;
  for (int i = 0; i < call->nin; i++) {
    in[i] = call->in[i];
    for (int k = 0; k < call->nout && in[i] && !copy[i] && !failed; k++)
      if (in[i]->storage == call->out[k]->storage)
        failed = !(in[i] = copy[i] = ts_tensor_copy(call->ctx, in[i]));
  }
  own.in = in;
  int done = failed ? -1 : call_device(o, &own, device, false);
  for (int i = 0; i < call->nin; i++) ts_tensor_unref(copy[i]);
  return done;
}

static int call_device(TsOffloader *o, TsCall *call, int device, bool in_place) {
  Form f;
  if (ts_optim_groups(call->op)) return ts_offload_optim(o, call, device);
  int done = ts_offload_several(call);
  int64_t before = o->stats.meanwhile;
  if (done || o->stats.meanwhile != before) return done;
  if (!numbers_fit(call) || !ts_offload_form(call, device, &f)) {
    o->stats.fallback++;
    return 0;
  }
  done = run_form(call->ctx, &f, in_place);
  return done == SHARED ? call_apart(o, call, device) : done;
}

static int call_there(TsCall *call, int device, bool in_place) {
  TsOffloader *o = of(call->ctx);
  if (!o->on) return 0;
  bool outermost = ts_offload_begin(o, (Meanwhile){.call = call});
  int done = call_device(o, call, device, in_place);
  ts_offload_end(o, outermost);
  return o->launches.prepares && !done
             ? 1
             : done; /* nor is it the CPU's, which would take minutes */
}

static void say_sizes(const Form *f, const Plan *p, TsOffloadLaunch *l) {
  for (int i = 0; i < p->nparam; i++) {
    const TsTensor *t = p->arg[i] >= 0 ? f->in[p->arg[i]].t : f->out[-1 - p->arg[i]].t;
    l->size[i] = ts_meta_nbytes(&t->meta);
    if (p->arg[i] >= 0 && l->nread == i) l->nread = i + 1;
    if (!t->contiguous) l->nread = -1;
  }
}

int ts_offload_ready(TsOffloader *o, TsCall *call, int device, TsOffloadLaunch *l) {
  Form f;
  Plan *p;
  *l = (TsOffloadLaunch){.kernel = NULL};
  if (!numbers_fit(call) || !ts_offload_form(call, device, &f)) return 0;
  if (is_empty(&f)) return !needs_vm(&f);
  int done = find_plan(o->c, &f, true, &p);
  if (done != 1) return done < 0 ? -1 : 0;
  if (p->nparam > OFFLOAD_IN + OFFLOAD_OUT) return 0;
  if (arguments(o->c, &f, p, l->arg, l->dim)) return -1;
  l->kernel = p->kernel, l->nparam = p->nparam, l->ndim = p->ndim;
  l->nbytes = bytes_of(&f);
  say_sizes(&f, p, l);
  return 1;
}

static const TsOffload hook = {call_there,
                               ts_offload_assign,
                               assign_ready,
                               ts_launch_enter,
                               ts_launch_leave,
                               ts_launch_forget,
                               flush,
                               ts_offload_guard,
                               ts_offload_group,
                               ts_collective_sum,
                               ts_collective_exchange};

/* ---- life */
/* The program goes on meanwhile. */
static int half_of_processors(void) {
  long n = sysconf(_SC_NPROCESSORS_ONLN) / 2;
  return n < 1 ? 1 : n > TS_QUEUE_THREADS ? TS_QUEUE_THREADS : (int)n;
}

TsOffloader *ts_offload_open(TsContext *c, const struct TsTuner *tuner) {
  TsOffloader *o = calloc(1, sizeof *o);
  if (!o || !(o->queue = ts_queue_open(half_of_processors()))) return free(o), NULL;
  o->c = c;
  o->tuner = tuner;
  o->on = o->later = true;
  c->offload = &hook;
  c->offloader = o;
  return o;
}

void ts_offload_wait(TsOffloader *o) { ts_queue_wait(o->queue); }

void ts_offload_stop(TsOffloader *o) {
  ts_queue_stop(o->queue);
  ts_device_kernel_abandon(o->queue);
}

void ts_offload_close(TsOffloader *o) {
  if (!o) return;
  ts_offload_stop(o);
  ts_offload_flush(o);
  ts_collective_close();
  ts_replay_window_close(&o->launches.window);
  o->c->offload = NULL;
  o->c->offloader = NULL;
  ts_queue_close(o->queue);
  ts_text_free(&o->shown);
  free(o);
}

void ts_offload_verbose(TsOffloader *o, bool on) { o->verbose = on; }
void ts_offload_later(TsOffloader *o, bool on) { o->later = on; }
void ts_offload_eager(TsOffloader *o, bool on) { o->eager = on; }
void ts_offload_prepare(TsOffloader *o, bool on) { o->launches.prepares = on; }
void ts_offload_shows(TsOffloader *o, const char *level) {
  o->shows = level != NULL;
  if (!level) return;
  ts_text_free(&o->shown);
  snprintf(o->level, sizeof o->level, "%s", level);
}
TsText *ts_offload_shown(TsOffloader *o) { return &o->shown; }
void ts_offload_enable(TsOffloader *o, bool on) { o->on = on; }
TsOffloadStats ts_offload_stats(const TsOffloader *o) { return o->stats; }

/* ---- kernels that the program brought along */
bool ts_offload_runs(const TsContext *c) { return ((const TsOffloader *)c->offloader)->on; }

int ts_offload_own(TsContext *c, const TsDevice *d, const TsTile *k, const char *why) {
  TsOffloader *o = of(c);
  if (why) {
    o->stats.fallback++;
    if (o->verbose)
      fprintf(stderr, "[jit device: kernel %s of %s runs on the CPU: %s]\n", k->name, d->name,
              why);
  } else {
    o->stats.calls++;
  }
  if (!o->shows) return 0;
  if (!why) return ts_build_kernel_text(d, NULL, k, o->level, &o->shown, &c->err);
  ts_text_format(&o->shown, "// %s: the CPU runs it: %s\n", k->name, why);
  return 0;
}
