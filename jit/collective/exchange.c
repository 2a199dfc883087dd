/* Moves by kernels that meet: see jit/collective/collective.h. A box is brought to the form of a
 * kernel: runs of neighbours, at equal distances. What has no such form goes the other way, as do
 * boxes of one device that differ in theirs. */
#include <stdlib.h>
#include <string.h>

#include "devices/meet.h"
#include "jit/collective/collective.h"
#include "jit/collective/kernel.h"
#include "jit/collective/policy.h"
#include "jit/collective/push.h"
#include "jit/collective/state.h"
#include "jit/device/kernel.h"
#include "jit/device/marks.h"
#include "jit/launch/launch.h"
#include "net/world.h"
#include "vm/core/context.h"

enum { MOST = TS_MAX_DEVICES, MOST_PLANS = 256, MOST_ARGS = 2 * TS_PUSH_MOST + MOST };

/* Bytes: of a run, and from one to the next. */
typedef struct Form {
  int64_t outer, run, from, to;
} Form;

/* Of one device. */
typedef struct Pusher {
  TsDevice *device;
  Form form; /* of its boxes */
  TsPushKernel k;
  int64_t dim[TS_PUSH_NDIM];
  int nbox, box[TS_PUSH_MOST];
} Pusher;

typedef struct Plan {
  int n, lane;
  int64_t patience;
  TsDevice *device[MOST];
  TsPushKernel k[MOST];
  TsFlags *flags;
  TsDeviceKernel *kernel[MOST];
  bool refused;
} Plan;

static Plan *plan[MOST_PLANS];
static int nplan;

static void free_plan(Plan *p) {
  for (int k = 0; k < p->n; k++) ts_device_kernel_free(p->kernel[k]);
  free(p);
}

void ts_exchange_close(void) {
  while (nplan) free_plan(plan[--nplan]);
}

/* ---- boxes */
static bool form_of(const TsMeshBox *box, Form *f) {
  const TsTensor *x = box->from, *y = box->into;
  int64_t size = ts_dtypes[x->meta.dtype].nbytes, run = 1;
  int d = x->meta.ndim - 1;
  if (x->meta.dtype != y->meta.dtype || ts_dtype_in_blocks(x->meta.dtype)) return false;
  for (; d >= 0; d--) {
    if (x->meta.dim[d] == 1) continue;
    if (x->stride[d] != run || y->stride[d] != run) break;
    run *= x->meta.dim[d];
  }
  *f = (Form){1, run * size, run * size, run * size};
  for (bool first = true; d >= 0; d--) {
    int64_t n = x->meta.dim[d], from = x->stride[d] * size, to = y->stride[d] * size;
    if (n == 1) continue;
    if (first) f->from = from, f->to = to;
    if (from != f->from * f->outer || to != f->to * f->outer) return false;
    f->outer *= n, first = false;
  }
  return f->from >= f->run && f->to >= f->run;
}

static void set_form(Pusher *p, const Form *f) {
  int64_t all = f->run | (f->outer > 1 ? f->from | f->to : 0);
  p->k.word = all % 4 ? TS_DT_u8 : TS_DT_i32;
  p->k.width = all % 16 ? 1 : 4;
  if (p->k.word == TS_DT_u8) p->k.width = 1;
  int64_t row = p->k.word == TS_DT_u8 ? 1 : 4 * p->k.width, rows = f->run / row;
  p->k.across = 1;
  if (f->outer == 1) {
    p->dim[TS_PUSH_outer] = rows;
    p->dim[TS_PUSH_from] = p->dim[TS_PUSH_to] = p->dim[TS_PUSH_inner] = 1;
    return;
  }
  while (rows % (2 * p->k.across) == 0 && 2 * p->k.across * p->k.width <= TS_SUM_TILE)
    p->k.across *= 2;
  p->dim[TS_PUSH_outer] = f->outer;
  p->dim[TS_PUSH_from] = f->from / row, p->dim[TS_PUSH_to] = f->to / row;
  p->dim[TS_PUSH_inner] = rows / p->k.across;
}

static TsDevice *gpu_of(const TsTensor *t) {
  if (t->meta.device >= ts_device_count()) return NULL;
  TsDevice *d = ts_device_at(t->meta.device);
  if (d->host_memory || !d->runs_kernels) return NULL;
  const TsTarget *target = d->simulated ? ts_target_of(d) : d->target; /* of the same maker */
  return target && target->maker == TS_MAKER_nvidia ? d : NULL;
}

static Pusher *pusher_of(int *n, Pusher *list, TsDevice *d) {
  int i = 0;
  while (i < *n && list[i].device != d) i++;
  if (i == *n) list[(*n)++] = (Pusher){.device = d};
  return &list[i];
}

static int by_index(const void *a, const void *b) {
  return ((const Pusher *)a)->device->index - ((const Pusher *)b)->device->index;
}

/* Who writes what; false: not for kernels. */
static bool deal(int n, const TsMeshBox *box, int *npusher, Pusher *list) {
  bool crosses = false;
  *npusher = 0;
  for (int i = 0; i < n; i++) {
    TsDevice *d = gpu_of(box[i].from), *to = gpu_of(box[i].into);
    Form f;
    if (!d || !to || !form_of(&box[i], &f)) return false;
    crosses |= d != to;
    (void)pusher_of(npusher, list, to);
    Pusher *p = pusher_of(npusher, list, d);
    if (p->nbox == TS_PUSH_MOST) return false;
    p->box[p->nbox++] = i;
    if (p->nbox == 1) p->form = f, set_form(p, &f);
    if (memcmp(&f, &p->form, sizeof f)) return false;
  }
  qsort(list, (size_t)*npusher, sizeof *list, by_index);
  for (int i = 0; i < *npusher && crosses; i++)
    for (int k = 0; k < *npusher; k++)
      if (k != i && !ts_device_reaches(list[i].device, list[k].device)) return false;
  return crosses;
}

static int64_t tiles_of(const Pusher *p) {
  int64_t runs = p->nbox ? TS_SUM_TILE / (p->k.width * p->k.across) : 1;
  return p->nbox ? (p->dim[TS_PUSH_outer] + runs - 1) / runs * p->dim[TS_PUSH_inner] : 0;
}

/* ---- plans */
static Plan *find(int n, const Pusher *list) {
  for (int i = 0; i < nplan; i++) {
    bool same = plan[i]->n == n && plan[i]->lane == ts_flags_lane() &&
                plan[i]->patience == ts_flags_patience(0);
    for (int k = 0; k < n && same; k++)
      same = plan[i]->device[k] == list[k].device &&
             !memcmp(&plan[i]->k[k], &list[k].k, sizeof list[k].k);
    if (same) return plan[i];
  }
  return NULL;
}

static int open_plan(Plan *p, TsError *err) {
  if (!(p->flags = ts_flags_of(p->n, p->device, p->lane, err))) return -1;
  for (int i = 0; i < p->n; i++) {
    TsTile *k = ts_push_kernel(&p->k[i], ts_target_of(p->device[i])->name, err);
    if (k) p->kernel[i] = ts_device_kernel_open(p->device[i], k, err);
    ts_tile_free(k);
    if (!p->kernel[i]) return -1;
  }
  for (int i = 0; i < p->n; i++) { /* its code is there before devices wait (sum.c) */
    int64_t none[TS_PUSH_NDIM] = {[TS_PUSH_blocks] = 1, [TS_PUSH_rank] = i};
    void *arg[MOST_ARGS];
    for (int k = 0; k < MOST_ARGS; k++) arg[k] = p->flags->words[i];
    if (!p->device[i]->simulated && ts_device_kernel_run(p->kernel[i], arg, none, err))
      return -1;
  }
  return 0;
}

static Plan *plan_of(TsContext *c, int n, const Pusher *list) {
  Plan *p = find(n, list);
  TsError err = {0};
  if (p) return p;
  if (ts_launch_flush(c)) return NULL;
  if (nplan == MOST_PLANS) ts_exchange_close();
  if (!(p = calloc(1, sizeof *p))) return ts_error_memory(&c->err), NULL;
  p->n = n, p->lane = ts_flags_lane(), p->patience = ts_flags_patience(0);
  for (int i = 0; i < n; i++) p->device[i] = list[i].device, p->k[i] = list[i].k;
  p->refused = open_plan(p, &err);
  if (p->refused && err.code == TS_ERR_memory) { /* it may be there the next time */
    free_plan(p);
    c->err = err;
    return NULL;
  }
  if (p->refused) ts_collective_refused(&err);
  plan[nplan++] = p;
  return p;
}

/* ---- a call */
static int launch(TsContext *c, Plan *p, Pusher *list, void *const *from, void *const *to) {
  void *arg[MOST][MOST_ARGS];
  TsReplayMeeting m[MOST];
  for (int i = 0; i < p->n; i++) {
    const Pusher *d = &list[i];
    int k = 0;
    for (int b = 0; b < d->k.nin; b++) arg[i][k++] = from[d->box[b]];
    for (int b = 0; b < d->nbox; b++) arg[i][k++] = to[d->box[b]];
    for (int q = 0; q < p->n; q++) arg[i][k++] = p->flags->words[q];
    m[i] = (TsReplayMeeting){p->kernel[i], k, TS_PUSH_NDIM, arg[i], d->dim};
  }
  if (ts_launch_meet(c, p->n, m)) return ts_flags_drop(p->flags), -1;
  ts_collective_queued(p->flags, 2, 0, 1);
  return 1;
}

static int addresses(int n, const TsMeshBox *box, void **from, void **to) {
  uintptr_t low = 0;
  for (int i = 0; i < n; i++) {
    TsTensor *y = box[i].into;
    bool whole = y->contiguous && ts_meta_nbytes(&y->meta) == y->storage->nbytes;
    from[i] = ts_tensor_read_on(box[i].from, box[i].from->meta.device);
    to[i] = from[i] ? ts_tensor_write_on(y, y->meta.device, whole) : NULL;
    if (!to[i]) return -1;
    low |= (uintptr_t)from[i] | (uintptr_t)to[i];
  }
  return low % 16 == 0;
}

int ts_collective_exchange(TsContext *c, int n, const TsMeshBox *box) {
  enum { BOXES = 64 };
  Pusher list[MOST];
  void *from[BOXES], *to[BOXES];
  TsLaunches *l = ts_launches(c);
  int npusher = 0;
  if (ts_collective_off() || l->prepares || ts_marks_collecting() || ts_world_size() > 1)
    return 0;
  if (n < 2 || n > BOXES || !deal(n, box, &npusher, list)) return 0;
  int done = addresses(n, box, from, to);
  if (done != 1) return done;
  int64_t most = 0;
  for (int i = 0; i < npusher; i++)
    if (tiles_of(&list[i]) > most) most = tiles_of(&list[i]);
  for (int i = 0; i < npusher; i++) {
    Pusher *p = &list[i];
    bool one = p->nbox > 0;
    for (int b = 1; b < p->nbox; b++) one &= from[p->box[b]] == from[p->box[0]];
    p->k.n = npusher, p->k.nout = p->nbox, p->k.nin = one ? 1 : p->nbox;
    if (!p->nbox) p->k.word = TS_DT_i32, p->k.width = p->k.across = 1;
    p->dim[TS_PUSH_blocks] = ts_way_blocks(ts_way_of_move(), most);
    p->dim[TS_PUSH_rank] = i, p->dim[TS_PUSH_go] = 1;
  }
  Plan *p = plan_of(c, npusher, list);
  if (!p) return -1;
  if (p->refused) return 0;
  bool there = p->flags->words[0];
  if (!there && ts_launch_flush(c)) return -1;
  if (!there && !ts_flags_of(p->n, p->device, p->lane, &c->err)) return -1;
  done = launch(c, p, list, from, to);
  if (done == 1) ts_collectives++, l->guarded = c->waiting = true;
  return done;
}
