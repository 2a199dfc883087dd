/* Fourier transforms on a device: a kernel for each form of a transform along one axis
 * (jit/eager/family/fft_tile.h), its tables as a tensor that stays there. Several axes are several kernels,
 * the later ones in place. Their Tile IR is the longest that eager calls make, half a
 * millisecond or more, so that of a brief call is made by the thread that opens the kernel. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "jit/eager/family/fft_tile.h"
#include "jit/eager/family/fft.h"
#include "vm/fft/plan.h"

typedef struct TsFftDevicePlan Kept;
struct TsFftDevicePlan {
  Kept *next;
  TsFftForm form;
  int device;
  TsDeviceKernel *kernel; /* NULL: the CPU transforms */
  TsTensor *table;
  int ntable;
  size_t offset[TS_FFT_TABLES];
  bool begun; /* by another thread, until its result is taken */
  TsQueueJob job;
  const TsFftKernels *fft;
  TsFftTile made;
  uint8_t key[32];
  TsDeviceKernel *opened;
  TsError why;
};

static const int norm_of_choice[] = {TS_FFT_ortho, TS_FFT_backward, TS_FFT_forward};

static bool same(const Kept *k, const TsFftForm *f, int device) {
  const TsFftForm *g = &k->form;
  return k->device == device && g->kind == f->kind && g->type == f->type &&
         g->inverse == f->inverse && g->real == f->real && g->n == f->n && g->in_n == f->in_n &&
         g->inner == f->inner && g->batch == f->batch && g->scale == f->scale;
}

static void forget(Kept *k) {
  ts_tile_free(k->made.tile);
  free(k->made.table);
  k->made = (TsFftTile){.tile = NULL};
}

void ts_offload_fft_flush(TsOffloader *o) {
  for (Kept *k = o->fft, *next; k; k = next) {
    next = k->next;
    if (k->begun && !ts_queue_cancel(o->queue, &k->job)) ts_queue_finish(o->queue, &k->job);
    ts_device_kernel_free(k->opened);
    forget(k);
    ts_tensor_unref(k->table);
    free(k);
  }
  o->fft = NULL;
}

/* The tables as a tensor of the CPU, which the device copies when it reads it. */
static TsTensor *table_of(TsContext *c, const TsFftTile *t) {
  TsMeta m = {.dtype = TS_DT_u8, .ndim = 1, .dim = {t->nbytes ? (int64_t)t->nbytes : 1}};
  TsTensor *x = ts_tensor_new(c, &m);
  void *to = x ? ts_tensor_write(x) : NULL;
  if (to && t->nbytes) memcpy(to, t->table, t->nbytes);
  return x;
}

/* What is made needs its table there, and the kernel, which may be open already. */
static void settle(TsOffloader *o, Kept *k, TsOp op) {
  TsDevice *d = ts_device_at(k->device);
  TsFftTile *t = &k->made;
  if (t->tile && (k->table = table_of(o->c, t))) {
    k->ntable = t->ntable;
    memcpy(k->offset, t->offset, sizeof k->offset);
    if (!k->begun)
      k->kernel = ts_offload_kernel(o, d, t->tile, &k->why);
    else if (k->opened)
      k->kernel = ts_offload_opened(o, d, k->key, k->opened, &k->why);
    k->opened = NULL;
  }
  k->begun = false;
  forget(k);
  if (!k->kernel) ts_offload_refused(o, op, k->device, k->why.message);
}

static void make_job(TsQueueJob *job) {
  Kept *k = (Kept *)((char *)job - offsetof(Kept, job));
  if (ts_fft_tile(&k->form, k->fft, &k->made, &k->why)) return;
  ts_device_kernel_key(k->made.tile, k->key);
  k->opened = ts_device_kernel_open_as(ts_device_at(k->device), k->made.tile, k->key, &k->why);
}

static bool may_wait(const TsOffloader *o, int device) {
  return ts_offload_brief(o) && ts_device_kernel_takes_time(ts_device_at(device));
}

static Kept *make(TsOffloader *o, TsOp op, const TsFftForm *f, int device) {
  Kept *k = calloc(1, sizeof *k);
  if (!k) return NULL;
  *k = (Kept){.next = o->fft, .form = *f, .device = device, .fft = &o->c->k->fft};
  o->fft = k;
  k->job.run = make_job;
  k->begun = may_wait(o, device) && !ts_queue_add(o->queue, &k->job);
  if (k->begun) return k;
  ts_fft_tile(f, k->fft, &k->made, &k->why); /* or there is no tile */
  settle(o, k, op);
  return k;
}

/* Whether its kernel, if it has one, can be asked for. */
static bool is_made(TsOffloader *o, Kept *k, TsOp op) {
  if (!k->begun) return true;
  if (!atomic_load_explicit(&k->job.done, memory_order_acquire)) {
    if (may_wait(o, k->device)) return o->stats.meanwhile++, false;
    ts_queue_finish(o->queue, &k->job);
  }
  settle(o, k, op);
  return true;
}

TsTensor *ts_offload_fft_quarter(TsOffloader *o, int type, int64_t n) {
  TsFftForm form = {.kind = TS_FFT_dct2, .type = type, .n = n};
  Kept *k = o->fft;
  while (k && !same(k, &form, -1)) k = k->next;
  if (k) return k->table;
  TsFftPlan *p = ts_fft_plan_take(type, TS_FFT_QUARTER, n, &o->c->k->fft);
  TsMeta m = {.dtype = type == TS_FFT_f64 ? TS_DT_f64 : TS_DT_f32, .ndim = 1};
  m.dim[0] = 2 * (n / 2 + 1);
  TsTensor *x = p && (k = calloc(1, sizeof *k)) ? ts_tensor_new(o->c, &m) : NULL;
  void *to = x ? ts_tensor_write(x) : NULL;
  if (to) memcpy(to, p->line, (size_t)ts_meta_nbytes(&m));
  ts_fft_plan_give(p);
  if (!to) return ts_tensor_unref(x), free(k), NULL;
  *k = (Kept){.next = o->fft, .form = form, .device = -1, .table = x};
  o->fft = k;
  return x;
}

/* Batches of one kernel: what they choose does not change bits, only how many rows a block
 * takes. */
static int64_t about(int64_t batch) {
  int64_t n = 1;
  while (n < 32 && 2 * n <= batch) n *= 2;
  return n;
}

typedef struct Step {
  TsFftForm f;
  int64_t outer;
  TsTensor *x, *y;
} Step;

static int run(TsOffloader *o, TsOp op, const Step *s, int device) {
  void *arg[TS_FFT_TABLES + 2];
  int64_t dim[TS_TILE_DIMS] = {s->outer, ts_tensor_numel(s->x)};
  Kept *k = o->fft;
  while (k && !same(k, &s->f, device)) k = k->next;
  if (!k && !(k = make(o, op, &s->f, device))) return ts_error_memory(&o->c->err);
  if (!is_made(o, k, op)) return 0;
  if (!k->kernel || !ts_offload_can(o, op, device, &k->kernel)) return 0;
  if (s->f.type == TS_FFT_f64 && s->f.kind == TS_FFT_c2r) dim[1] *= 2;
  char *table = ts_tensor_read_on(k->table, device);
  if (!table || !(arg[0] = ts_tensor_read_on(s->x, device))) return -1;
  for (int i = 0; i < k->ntable; i++) arg[1 + i] = table + k->offset[i];
  bool whole = ts_meta_nbytes(&s->y->meta) == s->y->storage->nbytes && s->x != s->y;
  if (!(arg[1 + k->ntable] = ts_tensor_write_on(s->y, device, whole))) return -1;
  ts_offload_touch(o->c, s->x, arg[0], false);
  ts_offload_touch(o->c, k->table, table, false);
  ts_offload_touch(o->c, s->y, arg[1 + k->ntable], true);
  return ts_offload_launch(o->c, k->kernel, k->ntable + 2, arg, 2, dim) ? -1 : 1;
}

int ts_offload_fft_along(TsOffloader *o, const TsCall *call, const TsFft *f, int axis,
                         TsTensor *x, TsTensor *y, int device) {
  int kind = f->kind;
  Step s = {.f = {.kind = kind, .inverse = f->inverse, .n = f->n, .in_n = x->meta.dim[axis]},
            .outer = 1,
            .x = x,
            .y = y};
  s.f.type = f->type, s.f.scale = f->scale;
  s.f.inner = 1;
  s.f.real = kind == TS_FFT_c2c && !ts_dtype_is(ts_tensor_dtype(x), TS_KIND_C);
  int64_t wanted = kind == TS_FFT_c2r ? f->n / 2 + 1 : f->n;
  for (int i = 0; i < axis; i++) s.outer *= x->meta.dim[i];
  for (int i = axis + 1; i < x->meta.ndim; i++) s.f.inner *= x->meta.dim[i];
  s.f.batch = about(s.outer);
  if (s.f.in_n > wanted && s.f.inner * s.outer != 0 && kind != TS_FFT_c2c) return 0;
  return run(o, call->op, &s, device);
}

/* One transform along `axis`, as in vm/exec/fft.c. */
static int along(TsOffloader *o, const TsCall *call, int kind, bool inverse, int norm, int axis,
                 int64_t n, TsTensor *x, TsTensor *y, int device) {
  bool wide = ts_dtype_real((TsDtype)y->meta.dtype) == TS_DT_f64;
  TsFft f = {.kind = kind, .inverse = inverse, .n = n, .type = wide ? TS_FFT_f64 : TS_FFT_f32};
  ts_fft_normalise(&f, norm);
  return ts_offload_fft_along(o, call, &f, axis, x, y, device);
}

/* x in the type in which it goes in, row-major, where the device can make it so. */
static TsTensor *ready(const TsCall *call, TsTensor *x, TsDtype want) {
  TsDtype d = ts_tensor_dtype(x);
  TsDtype real = ts_dtype_real(want);
  if (ts_dtype_is(d, TS_KIND_C) ? d != want : d != real && d != want)
    return ts_tensor_cast(call->ctx, x, ts_dtype_is(d, TS_KIND_C) ? want : real);
  bool odd = x->offset % 8 != 0 || x->storage == call->out[0]->storage;
  return odd ? ts_tensor_copy(call->ctx, x) : ts_tensor_contiguous(call->ctx, x);
}

static int axis_of(int64_t axis, int nd) { return (int)(axis < 0 ? axis + nd : axis); }

static int several(TsOffloader *o, const TsCall *call, bool inverse, TsTensor *x, int device) {
  TsTensor *y = call->out[0];
  const TsAttr *axes = &call->attr[0];
  bool all = axes->type == TS_ATTR_none, begun = false;
  int nd = y->meta.ndim, count = all ? nd : axes->n, done = 1;
  for (int i = count; done == 1 && i-- > 0; begun = true) {
    int axis = all ? i : axis_of(axes->ints[i], nd);
    done = along(o, call, TS_FFT_c2c, inverse, norm_of_choice[call->attr[1].i], axis,
                 y->meta.dim[axis], begun ? y : x, y, device);
  }
  return begun ? done : 0;
}

static bool is_transform(TsOp op) { return op >= TS_OP_fft && op <= TS_OP_ifftn; }

int ts_offload_fft(TsOffloader *o, TsCall *call, int device) {
  if (!is_transform(call->op) || !call->out[0]) return 0;
  TsTensor *y = call->out[0];
  int nd = y->meta.ndim, axis = nd ? axis_of(call->attr[1].i, nd) : 0, done = 0;
  int norm = call->op < TS_OP_fft2 ? norm_of_choice[call->attr[2].i] : 0;
  const char *why;
  if (!ts_tensor_numel(y) || !nd || !y->contiguous || !call->in[0]) return 0;
  if (!ts_device_target(ts_device_at(device), &why)) return 0;
  bool real_in = call->op == TS_OP_rfft;
  TsDtype d = ts_tensor_dtype(y);
  if (ts_dtypes[ts_dtype_real(d)].nbytes < 4) return 0;
  TsTensor *x = ready(call, call->in[0], real_in ? ts_dtype_real(d) : ts_dtype_complex(d));
  if (!x) return -1;
  int64_t n = y->meta.dim[axis];
  switch (call->op) {
  case TS_OP_fft:
  case TS_OP_ifft:
    done = along(o, call, TS_FFT_c2c, call->op == TS_OP_ifft, norm, axis, n, x, y, device);
    break;
  case TS_OP_rfft:
    n = call->attr[0].type == TS_ATTR_int ? call->attr[0].i : x->meta.dim[axis];
    done = along(o, call, TS_FFT_r2c, false, norm, axis, n, x, y, device);
    break;
  case TS_OP_irfft:
    if (ts_dtype_is(ts_tensor_dtype(x), TS_KIND_C))
      done = along(o, call, TS_FFT_c2r, true, norm, axis, n, x, y, device);
    break;
  default:
    done = several(o, call, call->op == TS_OP_ifft2 || call->op == TS_OP_ifftn, x, device);
  }
  ts_tensor_unref(x);
  if (done == 1) o->stats.calls++;
  return done;
}
