/* Moves by kernels that meet: see jit/collective/collective.h. A box is brought to the form of
 * a kernel: runs of neighbours, at equal distances. What has no such form goes the other way,
 * as do boxes of one device that differ in theirs. */
#include <stdio.h>
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

enum {
  MOST = TS_MAX_DEVICES,
  MOST_PLANS = 256,
  MOST_ARGS = 5 * TS_PUSH_MOST + MOST + 1,
  MOST_PARAMS = 64, /* of a kernel */
  BOXES = MOST * TS_PUSH_MOST
};

/* Bytes: of a run, and from one to the next. */
typedef struct Form {
  int64_t outer, run, from, to;
} Form;

/* Of one device. */
typedef struct Pusher {
  TsDevice *device;
  TsPushKernel k;
  int64_t dim[TS_PUSH_NDIM];
  int nbox, nown, box[TS_PUSH_MOST]; /* that it has: those that stay first */
  int nget, get[TS_PUSH_MOST];       /* that come to it */
} Pusher;

/* A move. */
typedef struct Move {
  int n; /* boxes */
  const TsMeshBox *box;
  void *from[BOXES], *to[BOXES];
  Form form[BOXES];
  int to_rank[BOXES],
      seat[BOXES]; /* of those that are far: who gets it, and which it is there */
  int npusher;
  Pusher pusher[MOST];
  bool rooms;
  int64_t room; /* bytes that a box has of the room of a block */
} Move;

typedef struct Plan {
  int n, lane;
  int64_t patience;
  TsDevice *device[MOST];
  TsPushKernel k[MOST];
  TsFlags *flags;
  TsDeviceKernel *kernel[MOST];
  bool refused;
  char why[sizeof((TsError *)0)->message];
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

/* Boxes that pusher p has are of form f; all: what rows of words divide, or'ed. */
static void set_form(Pusher *p, const Form *f, int64_t all, TsWayTile tile) {
  p->k.tile = tile.elements, p->k.threads = tile.threads;
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
  while (rows % (2 * p->k.across) == 0 && 2 * p->k.across * p->k.width <= tile.elements)
    p->k.across *= 2;
  p->dim[TS_PUSH_outer] = f->outer;
  p->dim[TS_PUSH_from] = f->from / row, p->dim[TS_PUSH_to] = f->to / row;
  p->dim[TS_PUSH_inner] = rows / p->k.across;
}

static int64_t divides(const Form *f) { return f->run | (f->outer > 1 ? f->from | f->to : 0); }

static Pusher *pusher_of(int *n, Pusher *list, TsDevice *d) {
  int i = 0;
  while (i < *n && list[i].device != d) i++;
  if (i == *n) list[(*n)++] = (Pusher){.device = d};
  return &list[i];
}

static int by_index(const void *a, const void *b) {
  return ((const Pusher *)a)->device->index - ((const Pusher *)b)->device->index;
}

static void add_box(Pusher *p, int i, bool stays) {
  p->box[p->nbox++] = i;
  if (!stays) return;
  p->box[p->nbox - 1] = p->box[p->nown];
  p->box[p->nown++] = i;
}

/* Who writes what. NULL; or why it is not for kernels, "": nothing goes to another device. */
static const char *deal(Move *m) {
  bool crosses = false;
  for (int i = 0; i < m->n; i++) {
    TsDevice *d = ts_collective_gpu(m->box[i].from->meta.device),
             *to = ts_collective_gpu(m->box[i].into->meta.device);
    if (!d || !to) return "kernels meet on GPUs of NVIDIA alone";
    if (!form_of(&m->box[i], &m->form[i]))
      return "a box is not runs of neighbours at equal distances";
    crosses |= d != to;
    Pusher *q = pusher_of(&m->npusher, m->pusher, to), *p;
    if (d != to && q->nget == TS_PUSH_MOST) return "a device gets too many boxes";
    if (d != to) q->get[q->nget++] = i;
    p = pusher_of(&m->npusher, m->pusher, d);
    if (p->nbox == TS_PUSH_MOST) return "a device sends too many boxes";
    add_box(p, i, d == to);
    if (memcmp(&m->form[i], &m->form[p->box[0]], sizeof *m->form))
      return "boxes of a device are not of one form";
  }
  Pusher *list = m->pusher;
  qsort(list, (size_t)m->npusher, sizeof *list, by_index);
  for (int i = 0; i < m->npusher && crosses; i++)
    for (int k = 0; k < m->npusher; k++)
      if (k != i && !ts_device_reaches(list[i].device, list[k].device))
        return "devices do not reach each other's memory";
  return crosses ? NULL : "";
}

/* ---- which way */
static int64_t most_bytes(const Move *m) {
  int64_t most = 0;
  for (int i = 0; i < m->npusher; i++) {
    int64_t bytes = 0;
    for (int k = 0; k < m->pusher[i].nget; k++) {
      const Form *f = &m->form[m->pusher[i].get[k]];
      bytes += f->outer * f->run;
    }
    if (bytes > most) most = bytes;
  }
  return most;
}

/* By rooms all boxes have runs of the same size, and as many; those that come to a device lie
 * there alike. All send something and get something: what one deals out to some, once, is not
 * worth the memory of rooms of theirs. */
static bool is_alike(const Move *m) {
  for (int i = 1; i < m->n; i++)
    if (m->form[i].outer != m->form[0].outer || m->form[i].run != m->form[0].run) return false;
  for (int i = 0; i < m->npusher; i++) {
    const Pusher *p = &m->pusher[i];
    if (!p->nget || p->nbox == p->nown) return false;
    int first = p->nown ? p->box[0] : p->get[0];
    for (int k = 0; k < p->nget; k++)
      if (m->form[p->get[k]].to != m->form[first].to) return false;
  }
  return true;
}

static void set_forms(Move *m, TsWayTile tile) {
  int64_t all = 0;
  for (int i = 0; i < m->n; i++) all |= divides(&m->form[i]);
  for (int i = 0; i < m->npusher; i++) {
    Pusher *p = &m->pusher[i];
    Form f = m->form[p->nbox ? p->box[0] : p->get[0]];
    if (m->rooms && p->nget) f.to = m->form[p->get[0]].to;
    set_form(p, &f, m->rooms ? all : divides(&f), tile);
    p->k.n = m->npusher, p->k.rooms = m->rooms;
    p->k.nout = m->rooms ? p->nown : p->nbox, p->k.nfar = m->rooms ? p->nbox - p->nown : 0;
    p->k.nget = m->rooms ? p->nget : 0;
    bool one = p->nbox > 0;
    for (int b = 1; b < p->nbox; b++) one &= m->from[p->box[b]] == m->from[p->box[0]];
    p->k.nin = one ? 1 : p->nbox;
    p->dim[TS_PUSH_rank] = i, p->dim[TS_PUSH_go] = 1;
  }
}

/* Blocks, alike on all; whether what comes to a block fits into its room. */
static bool set_blocks(Move *m, const TsWayRow *row) {
  int64_t most = 0, boxes = 0, bytes = 0;
  for (int i = 0; i < m->npusher; i++) {
    const Pusher *p = &m->pusher[i];
    int64_t tiles = p->nbox || m->rooms ? ts_push_tiles(&p->k, p->dim) : 0;
    if (tiles > most) most = tiles;
    if (p->nget > boxes) boxes = p->nget;
    bytes = (int64_t)p->k.tile * ts_dtypes[p->k.word].nbytes;
  }
  int64_t blocks = ts_way_blocks(row, most), rounds = (most + blocks - 1) / blocks;
  m->room = rounds * bytes;
  for (int i = 0; i < m->npusher; i++) {
    m->pusher[i].dim[TS_PUSH_blocks] = blocks;
    m->pusher[i].k.once = m->rooms && rounds <= 1;
    if (ts_push_params(&m->pusher[i].k) > MOST_PARAMS) return false;
  }
  return m->room * boxes <= TS_FLAGS_ROOM / 2;
}

static void choose(Move *m, bool rooms) {
  const TsWayRow *row = ts_way_of_move(most_bytes(m));
  int64_t elements = 0;
  for (int i = 0; i < m->n; i++) {
    int64_t words = m->form[i].outer * m->form[i].run / 4;
    if (words > elements) elements = words;
  }
  TsWayTile tile = ts_way_tile(row, elements, 4);
  for (m->rooms = rooms && row->way == TS_WAY_room && is_alike(m);; m->rooms = false) {
    set_forms(m, tile);
    if (set_blocks(m, row) || !m->rooms) break;
  }
  for (int i = 0; i < m->npusher; i++)
    for (int k = 0; k < m->pusher[i].nget; k++)
      m->to_rank[m->pusher[i].get[k]] = i, m->seat[m->pusher[i].get[k]] = k;
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
  if (p->k[0].rooms && ts_flags_make_room(p->flags, err)) return -1;
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
  snprintf(p->why, sizeof p->why, "%s", err.message);
  plan[nplan++] = p;
  return p;
}

/* ---- a call */
static void **give_rooms(const Move *m, const Plan *p, const Pusher *d, void **arg) {
  for (int b = d->k.nout; b < d->nbox; b++) {
    int i = d->box[b];
    *arg++ = (char *)p->flags->room[m->to_rank[i]] + m->seat[i] * m->room;
  }
  return arg;
}

static int launch(TsContext *c, Plan *p, const Move *m) {
  void *arg[MOST][MOST_ARGS];
  TsReplayMeeting meeting[MOST];
  for (int i = 0; i < p->n; i++) {
    const Pusher *d = &m->pusher[i];
    void **a = arg[i];
    for (int b = 0; b < d->k.nin; b++) *a++ = m->from[d->box[b]];
    *a++ = p->flags->words[i];
    for (int b = 0; b < d->k.nget; b++) *a++ = (char *)p->flags->room[i] + b * m->room;
    for (int b = 0; b < d->k.nout; b++) *a++ = m->to[d->box[b]];
    for (int b = 0; b < d->k.nget; b++) *a++ = m->to[d->get[b]];
    a = give_rooms(m, p, d, a);
    for (int q = 0; q < p->n; q++) *a++ = p->flags->words[q];
    int k = (int)(a - arg[i]);
    TS_ASSERT(k == ts_push_params(&d->k));
    meeting[i] = (TsReplayMeeting){p->kernel[i], k, TS_PUSH_NDIM, arg[i], d->dim};
  }
  if (ts_launch_meet(c, p->n, meeting)) return ts_flags_drop(p->flags), -1;
  ts_collective_queued(p->flags, m->rooms ? 1 : 2, 0, 1);
  return 1;
}

static int addresses(Move *m) {
  uintptr_t low = 0;
  for (int i = 0; i < m->n; i++) {
    TsTensor *x = m->box[i].from, *y = m->box[i].into;
    bool whole = y->contiguous && ts_meta_nbytes(&y->meta) == y->storage->nbytes;
    m->from[i] = ts_tensor_read_on(x, x->meta.device);
    m->to[i] = m->from[i] ? ts_tensor_write_on(y, y->meta.device, whole) : NULL;
    if (!m->to[i]) return -1;
    low |= (uintptr_t)m->from[i] | (uintptr_t)m->to[i];
  }
  return low % 16 == 0;
}

/* Words, and rooms, that were dropped are made again. */
static int words_there(TsContext *c, Plan *p) {
  bool rooms = p->k[0].rooms;
  if (p->flags->words[0] && (!rooms || p->flags->room[0])) return 0;
  if (ts_launch_flush(c)) return -1;
  if (!ts_flags_of(p->n, p->device, p->lane, &c->err)) return -1;
  return rooms ? ts_flags_make_room(p->flags, &c->err) : 0;
}

/* The plan of the move by rooms or without, with all that its kernels meet by. NULL with the error. */
static Plan *ready(TsContext *c, Move *m, bool rooms) {
  choose(m, rooms);
  Plan *p = plan_of(c, m->npusher, m->pusher);
  return p && !p->refused && words_there(c, p) ? NULL : p;
}

int ts_collective_exchange(TsContext *c, int n, const TsMeshBox *box) {
  TsLaunches *l = ts_launches(c);
  if (ts_collective_off() || l->prepares || ts_marks_collecting() || ts_world_size() > 1)
    return 0;
  if (n < 2) return 0;
  Move m;
  m.n = n, m.box = box, m.npusher = 0;
  const char *why = n > BOXES ? "there are too many boxes" : deal(&m);
  if (why && *why) ts_collective_apart(why);
  if (why) return 0;
  int done = addresses(&m);
  if (!done) ts_collective_apart("a box does not begin at a multiple of 16 bytes");
  if (done != 1) return done;
  Plan *p = ready(c, &m, true);
  if (!p && m.rooms && c->err.code == TS_ERR_memory) { /* rooms are not needed */
    ts_error_clear(&c->err);
    p = ready(c, &m, false);
  }
  if (!p) return -1;
  if (p->refused) return ts_collective_apart(p->why), 0;
  done = launch(c, p, &m);
  if (done == 1) ts_collectives++, l->guarded = c->waiting = true;
  return done;
}
