/* What operators with kernels of their own share. See jit/eager/family/own.h. */
#include "jit/eager/family/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/launch/profile.h"

enum { MOST = 4096 };

typedef struct TsOwnPlan Kept;
struct TsOwnPlan {
  Kept *next;
  int op, device, nword;
  TsDeviceKernel *kernel; /* NULL: the CPU runs it */
  char name[32];          /* for the profiler: of the operator and the kernel */
  int64_t word[];
};

void ts_own_flush(TsOffloader *o) {
  for (Kept *k = o->own, *next; k; k = next) {
    next = k->next;
    free(k);
  }
  o->own = NULL;
}

void ts_own_word(TsOwn *k, int64_t w) {
  if (k->nword < TS_OWN_WORDS) k->word[k->nword] = w;
  k->nword++;
}

/* What is found comes first: a program that repeats itself looks at few. */
static Kept *find(TsOffloader *o, int op, int device, const TsOwn *k, int *length) {
  *length = 0;
  for (Kept **at = &o->own; *at; at = &(*at)->next, ++*length) {
    Kept *p = *at;
    if (p->op != op || p->device != device || p->nword != k->nword) continue;
    if (memcmp(p->word, k->word, sizeof *k->word * (size_t)k->nword)) continue;
    *at = p->next;
    p->next = o->own;
    return o->own = p;
  }
  return NULL;
}

static Kept *make(TsOffloader *o, const TsCall *call, int device, const TsOwn *k) {
  TsError err = {0};
  size_t nbytes = sizeof *k->word * (size_t)k->nword;
  Kept *p = malloc(sizeof *p + nbytes);
  if (!p) return NULL;
  *p = (Kept){.next = o->own, .op = call->op, .device = device, .nword = k->nword};
  memcpy(p->word, k->word, nbytes);
  TsTile *t = k->build(k->arg);
  if (t && !t->failed) {
    snprintf(p->name, sizeof p->name, "%.15s %.15s", ts_op_info(call->op)->name, t->name);
    if (t->form != TS_FORM_explicit) t->target = ts_target_of(ts_device_at(device))->name;
    p->kernel = ts_offload_kernel(o, ts_device_at(device), t, &err);
  }
  ts_tile_free(t);
  if (!p->kernel) {
    o->stats.refused++;
    ts_offload_refused(o, call->op, device, err.message);
  }
  return o->own = p;
}

static double bytes_of(const TsOwn *k) {
  double n = 0;
  for (int i = 0; i < k->nin; i++) n += (double)ts_meta_nbytes(&k->in[i]->meta);
  for (int i = 0; i < k->nout; i++)
    if (k->out[i]) n += (double)ts_meta_nbytes(&k->out[i]->meta);
  return n;
}

int ts_own_run(TsOffloader *o, const TsCall *call, int device, const TsOwn *k) {
  void *arg[2 * TS_OWN_PARAMS];
  const char *why;
  if (k->nword > TS_OWN_WORDS || !ts_device_target(ts_device_at(device), &why)) return 0;
  int length;
  Kept *p = find(o, call->op, device, k, &length);
  if (!p && length >= MOST) ts_own_flush(o);
  if (!p && !(p = make(o, call, device, k))) return ts_error_memory(&o->c->err);
  if (!p->kernel || !ts_offload_can(o, p->op, p->device, &p->kernel)) return 0;
  int n = 0;
  for (int i = 0; i < k->nin; i++)
    if (!(arg[n++] = ts_tensor_read_on(k->in[i], device))) return -1;
  for (int i = 0; i < k->nout; i++) {
    if (!k->out[i]) continue;
    bool whole = ts_meta_nbytes(&k->out[i]->meta) == k->out[i]->storage->nbytes;
    if (!(arg[n++] = ts_tensor_write_on(k->out[i], device, whole))) return -1;
  }
  for (int i = 0, at = k->nin; i < k->nin + k->nout; i++) {
    const TsTensor *t = i < k->nin ? k->in[i] : k->out[i - k->nin];
    if (t) ts_offload_touch(o->c, t, i < k->nin ? arg[i] : arg[at++], i >= k->nin);
  }
  if (ts_profile_on()) ts_profile_label(p->name, bytes_of(k), 0);
  if (ts_offload_launch(o->c, p->kernel, n, arg, k->ndim, k->dim)) return -1;
  o->stats.calls++;
  return 1;
}

TsTensor *ts_own_ready(const TsCall *call, TsTensor *x) {
  for (int i = 0; i < call->nout; i++)
    if (call->out[i] && call->out[i]->storage == x->storage)
      return ts_tensor_copy(call->ctx, x);
  return ts_tensor_contiguous(call->ctx, x);
}

/* ---- what a device runs */
static bool fits(const TsDevice *d, double work) {
  return !d->most_work || work <= (double)d->most_work;
}

int ts_own_roles(int device, double work) {
  const TsDevice *d = ts_device_at(device);
  return ts_target_has(ts_target_of(d), TS_UNIT_roles) && fits(d, work) ? d->processors : 0;
}

bool ts_own_warps(int device, double work, TsGpuMachine *gpu) {
  const TsDevice *d = ts_device_at(device);
  *gpu = (TsGpuMachine){ts_target_of(d), d->processors};
  return ts_target_has(gpu->target, TS_UNIT_mma) && fits(d, work);
}
