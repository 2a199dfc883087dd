/* See jit/user/kernel.h. */
#include "jit/user/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "ir/tile/work.h"
#include "jit/user/state.h"
#include "vm/core/profile.h"
#include "lib/clock.h"

/* ---- making */
static int suitable(const TsTile *k, TsError *err) {
  if (k->nparam > USER_PARAMS)
    return ts_error_set(err, TS_ERR_argument, "@%.60s: more than %d parameters", k->name,
                        USER_PARAMS);
  if (k->nparam == k->nin)
    return ts_error_set(err, TS_ERR_argument,
                        "@%.60s: nothing is written, so there is no result", k->name);
  for (int i = 0; i < k->nparam; i++)
    if (k->param[i]->type.strided)
      return ts_error_set(err, TS_ERR_argument,
                          "@%.60s: the parameters of an operator are row-major, %%%.60s is not",
                          k->name, k->param[i]->name ? k->param[i]->name : "?");
  return 0;
}

TsUserKernel *ts_user_kernel_new(TsTile *k, bool interpret, TsError *err) {
  TsUserKernel *u = NULL;
  if (!ts_tile_check(k, NULL, err) && !suitable(k, err) && !(u = calloc(1, sizeof *u)))
    ts_error_memory(err);
  if (!u) {
    ts_tile_free(k);
    return NULL;
  }
  *u = (TsUserKernel){.refs = 1, .interpret = interpret, .tile = k};
  return u;
}

TsUserKernel *ts_user_kernel_ref(TsUserKernel *u) {
  u->refs++;
  return u;
}

void ts_user_kernel_unref(TsUserKernel *u) {
  if (!u || --u->refs) return;
  for (int i = 0; i < USER_KEPT; i++) ts_user_drop(&u->of[i]);
  ts_tile_free(u->tile);
  free(u);
}

const TsTile *ts_user_kernel_tile(const TsUserKernel *u) { return u->tile; }

TsUserKernelStatus ts_user_kernel_status(const TsUserKernel *u) {
  const Compiled *p = u->last;
  if (u->interpret) return (TsUserKernelStatus){.why = "it is to be interpreted"};
  if (!p) return (TsUserKernelStatus){.why = "it has not run yet"};
  if (p->on)
    return (TsUserKernelStatus){
        .compiled = true, .cached = ts_device_kernel_cached(p->on), .device = p->device->name};
  return (TsUserKernelStatus){.compiled = p->kernel != NULL,
                              .cached = p->kernel && p->kernel->cached,
                              .why = p->kernel ? NULL : p->why.message};
}

/* ---- calls */
static int interpret(TsUserKernel *u, TsContext *c, void **arg, const int64_t *dim) {
  int64_t start = ts_clock_nsec();
  int failed = ts_tile_run(u->tile, arg, dim, &c->err);
  if (u->last) u->last->nsec += ts_clock_nsec() - start;
  return failed;
}

static int run(TsUserKernel *u, TsContext *c, void **arg, const int64_t *dim) {
  bool marks = c->spans && c->spans->marks;
  const TsKernel *kernel = u->interpret ? NULL
                           : marks      ? ts_user_marked(u, c, dim)
                                        : ts_user_compiled(u, c, dim);
  return kernel ? ts_kernel_run_timed(kernel, arg, dim, c->spans, &c->err)
                : interpret(u, c, arg, dim);
}

/* The bytes of all, as the CPU sees them. */
static int run_here(TsUserKernel *u, TsContext *c, TsTensor *const *in, TsTensor *const *out,
                    const int64_t *dim) {
  void *arg[USER_PARAMS];
  for (int i = 0; i < u->tile->nparam; i++) {
    int k = i - u->tile->nin;
    if (!(arg[i] = k < 0 ? (void *)(uintptr_t)ts_tensor_read(in[i]) : ts_tensor_write(out[k])))
      return -1;
  }
  return run(u, c, arg, dim);
}

static int run_anywhere(TsUserKernel *u, TsContext *c, TsTensor *const *in,
                        TsTensor *const *out, const int64_t *dim) {
  int device = out[0]->meta.device;
  bool same = u->called && !memcmp(u->seen, dim, sizeof u->seen);
  if (!same && ts_tile_check_work(u->tile, dim, &c->err)) return -1;
  memcpy(u->seen, dim, sizeof u->seen);
  u->called = true;
  int done =
      device && !u->interpret ? ts_user_run_on(u, c, ts_device_at(device), in, out, dim) : 0;
  return done ? (done < 0 ? -1 : 0) : run_here(u, c, in, out, dim);
}

int ts_user_kernel_call(TsUserKernel *u, TsContext *c, int nin, TsTensor *const *in,
                        const int64_t *given, TsTensor **out) {
  int nout = u->tile->nparam - u->tile->nin;
  TsTensor *own[USER_PARAMS] = {NULL};
  const TsMeta *m[USER_PARAMS] = {NULL};
  TsMeta type[USER_PARAMS];
  int64_t dim[TS_TILE_DIMS];
  bool failed = false;
  for (int i = 0; i < nout; i++) out[i] = NULL;
  for (int i = 0; i < nin && i < USER_PARAMS; i++) m[i] = &in[i]->meta;
  memcpy(dim, given, sizeof dim);
  if (ts_user_kernel_infer(u, nin, m, dim, type, &c->err)) return -1;
  for (int i = 0; i < nin && !failed; i++) failed = !(own[i] = ts_tensor_contiguous(c, in[i]));
  for (int i = 0; i < nout && !failed; i++) failed = !(out[i] = ts_tensor_new(c, &type[i]));
  failed = failed || run_anywhere(u, c, own, out, dim);
  for (int i = 0; i < nin; i++) ts_tensor_unref(own[i]);
  for (int i = 0; i < nout && failed; i++) {
    ts_tensor_unref(out[i]);
    out[i] = NULL;
  }
  return failed ? -1 : 0;
}

/* ---- tuning */
int ts_user_kernel_tune(TsUserKernel *u, TsContext *c, int nin, TsTensor *const *in,
                        const int64_t *given) {
  TsTensor *own[USER_PARAMS] = {NULL};
  const TsMeta *m[USER_PARAMS] = {NULL};
  TsMeta type[USER_PARAMS];
  void *arg[USER_PARAMS];
  int64_t dim[TS_TILE_DIMS];
  bool failed = false;
  for (int i = 0; i < nin && i < USER_PARAMS; i++) m[i] = &in[i]->meta;
  memcpy(dim, given, sizeof dim);
  if (ts_user_kernel_infer(u, nin, m, dim, type, &c->err)) return -1;
  if (type[0].device) {
    ts_error_set(&c->err, TS_ERR_device, "%.60s: a kernel of one's own has no choices on %s",
                 u->tile->name, ts_device_at(type[0].device)->name);
    return ts_error_hint(&c->err, "x:to \"cpu\" has those of the CPU");
  }
  for (int i = 0; i < nin && !failed; i++)
    failed = !(own[i] = ts_tensor_contiguous(c, in[i])) ||
             !(arg[i] = (void *)(uintptr_t)ts_tensor_read(own[i]));
  failed = failed || ts_user_measure(u, c, dim, arg);
  for (int i = 0; i < nin; i++) ts_tensor_unref(own[i]);
  return failed ? -1 : 0;
}
