/* Launches of optimisers' steps (ir/lower/optim.h): a kernel for each kind and types, whose
 * constants are sizes. */
#include "vm/drive/optim.h"

#include <string.h>

#include "ir/lower/optim.h"
#include "jit/build/build.h"
#include "jit/eager/state.h"
#include "jit/launch/profile.h"

typedef struct Operands {
  int nin, nout;
  TsTensor *in[4], *out[3];
} Operands;

/* Row-major tensors of one shape, and none over another element of another. */
static bool collect(const TsCall *call, const TsOptimStep *s, Operands *o) {
  int most = call->op == TS_OP_adam_step ? 4 : 3;
  const TsTensor *p = call->out[0];
  *o = (Operands){.nout = call->nout};
  for (int i = 0; i < most && i < call->nin; i++) {
    bool unread = call->op == TS_OP_sgd_step && i == 2 && (s->first || call->nout < 2);
    if (!call->in[i] || unread) continue;
    o->in[o->nin++] = call->in[i];
  }
  for (int i = 0; i < call->nout; i++) o->out[i] = call->out[i];
  for (int i = 0; i < o->nin; i++) {
    const TsTensor *x = o->in[i];
    if (!x->contiguous || !ts_meta_same_shape(&x->meta, &p->meta)) return false;
    for (int k = 0; k < o->nout; k++)
      if (x->storage == o->out[k]->storage &&
          (x->offset != o->out[k]->offset || x->meta.dtype != o->out[k]->meta.dtype))
        return false;
  }
  for (int k = 0; k < o->nout; k++)
    if (!o->out[k]->contiguous || !ts_meta_same_shape(&o->out[k]->meta, &p->meta)) return false;
  return true;
}

/* All that the kernel depends on. */
static uint64_t key_of(const TsCall *call, const Operands *o, const TsOptimStep *s,
                       int device) {
  uint64_t k = (uint64_t)call->op | (uint64_t)device << 10;
  for (int i = 0; i < o->nin; i++) k = k << 5 | o->in[i]->meta.dtype;
  for (int i = 0; i < o->nout; i++) k = k << 5 | o->out[i]->meta.dtype;
  unsigned flags = (unsigned)s->decoupled | (unsigned)s->nesterov << 1 |
                   (unsigned)s->first << 2 | (unsigned)(s->decay != 0) << 3 |
                   (unsigned)o->nin << 4 | (unsigned)o->nout << 7;
  return k << 11 | flags << 1 | 1;
}

static TsLowerOptim form_of(TsOp op, const Operands *t, const TsOptimStep *s) {
  TsLowerOptim o = {.op = op, .nin = t->nin, .nout = t->nout};
  o.first = s->first, o.nesterov = s->nesterov, o.decoupled = s->decoupled;
  o.decays = s->decay != 0;
  for (int i = 0; i < t->nin; i++) o.in[i] = ts_tensor_dtype(t->in[i]);
  for (int i = 0; i < t->nout; i++) o.out[i] = ts_tensor_dtype(t->out[i]);
  return o;
}

static TsTile *tile_of(int device, const TsLowerOptim *form) {
  TsTile *k = ts_lower_optim_tile(form);
  if (k) k->target = ts_target_of(ts_device_at(device))->name;
  return k;
}

static int show(TsOffloader *o, int device, TsLowerOptim form) {
  TsTile *k = tile_of(device, &form);
  int failed =
      k ? ts_build_kernel_text(ts_device_at(device), NULL, k, o->level, &o->shown, &o->c->err)
        : ts_error_memory(&o->c->err);
  ts_tile_free(k);
  return failed;
}

/* NULL with the error where memory failed: the next call may have it. */
static OptimPlan *plan_of(TsOffloader *o, TsCall *call, const Operands *t, const TsOptimStep *s,
                          int device) {
  uint64_t key = key_of(call, t, s, device);
  TsError err = {0};
  for (int i = 0; i < OFFLOAD_OPTIM; i++)
    if (o->optim[i].key == key) return &o->optim[i];
  TsLowerOptim form = form_of(call->op, t, s);
  TsTile *k = tile_of(device, &form);
  OptimPlan made = {.key = key};
  if (!k || k->failed)
    ts_error_memory(&err);
  else
    made.kernel = ts_offload_kernel(o, ts_device_at(device), k, &err);
  ts_tile_free(k);
  if (!made.kernel && err.code == TS_ERR_memory) return o->c->err = err, NULL;
  if (!made.kernel) ts_offload_refused(o, call->op, device, err.message);
  OptimPlan *p = &o->optim[o->noptim++ % OFFLOAD_OPTIM];
  *p = made;
  return p;
}

static int64_t bits_of(double v) {
  int64_t w;
  memcpy(&w, &v, 8);
  return w;
}

static double bytes_of(const Operands *t) {
  double bytes = 0;
  for (int i = 0; i < t->nin; i++) bytes += (double)ts_meta_nbytes(&t->in[i]->meta);
  for (int i = 0; i < t->nout; i++) bytes += (double)ts_meta_nbytes(&t->out[i]->meta);
  return bytes;
}

int ts_offload_optim_ready(TsOffloader *o, TsCall *call, int device, TsOffloadLaunch *l) {
  TsOptimStep s;
  Operands t;
  *l = (TsOffloadLaunch){.kernel = NULL};
  if (ts_optim_constants(call, &s)) return -1;
  if (!collect(call, &s, &t)) return 0;
  if (o->shows && show(o, device, form_of(call->op, &t, &s))) return -1;
  OptimPlan *p = plan_of(o, call, &t, &s, device);
  if (!p) return -1;
  if (!p->kernel) return 0;
  for (int i = 0; i < t.nin; i++)
    if (!(l->arg[i] = ts_tensor_read_on(t.in[i], device))) return -1;
  for (int i = 0; i < t.nout; i++) {
    bool whole = ts_meta_nbytes(&t.out[i]->meta) == t.out[i]->storage->nbytes;
    if (!(l->arg[t.nin + i] = ts_tensor_write_on(t.out[i], device, whole))) return -1;
  }
  int64_t dim[] = {
      ts_tensor_numel(t.out[0]), bits_of(s.lr),    bits_of(s.decay), bits_of(s.beta1),
      bits_of(s.rest1),          bits_of(s.beta2), bits_of(s.eps),   bits_of(s.correction)};
  memcpy(l->dim, dim, sizeof dim);
  l->kernel = p->kernel, l->nparam = t.nin + t.nout, l->ndim = 8;
  l->nbytes = bytes_of(&t);
  l->nread = t.nin;
  for (int i = 0; i < t.nin; i++) l->size[i] = ts_meta_nbytes(&t.in[i]->meta);
  for (int i = 0; i < t.nout; i++) l->size[t.nin + i] = ts_meta_nbytes(&t.out[i]->meta);
  o->stats.calls++;
  return 1;
}

int ts_offload_optim(TsOffloader *o, TsCall *call, int device) {
  TsOffloadLaunch l;
  int done = ts_offload_optim_ready(o, call, device, &l);
  if (done != 1) return done;
  for (int i = 0; i < l.nparam; i++)
    ts_launch_touch_bytes(call->ctx, l.arg[i], l.size[i], i >= l.nread);
  if (ts_profile_on()) ts_profile_label(ts_op_info(call->op)->name, l.nbytes, 0);
  return ts_launch(call->ctx, l.kernel, l.nparam, l.arg, l.ndim, l.dim) ? -1 : 1;
}
