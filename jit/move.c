/* Functions that move to a GPU by themselves, while new tensors are made on the CPU ("auto").
 *
 *   here ── spent more than a start costs, and expected to pay ──> compiling ──> trial ──>
 * there ^                                                                 │           │
 *    └────────────── nothing to compile, or slower: looked at later ───┴───────────┘
 *
 * A look costs nothing but a schedule: what the device needs for each group, and what has to go
 * over the bus. In the trial both sides take turns and are measured, with the bytes that the
 * program then fetched; a device has to be a quarter faster. What was moved stays where it is:
 * parameters that a step updates are current on the device alone, and results have no bytes on
 * the host before somebody reads them. So nothing goes to and fro, but for what the CPU
 * reads. */
#include <string.h>

#include "devices/device.h"
#include "jit/device/kernel.h"
#include "jit/jit_state.h"

enum {
  START_MSEC = 250, /* the driver's start and a context; measured: 200 to 240 */
  KERNEL_MSEC = 30, /* a kernel; measured: 15 to 60, most of it in the driver */
  LAUNCH_USEC = 3,
  TRIAL = 8, /* calls of each side */
  FASTER_PERCENT = 25,
  RAISE = 8,
};

/* Bytes a microsecond of the device's memory and of the bus, and steps of arithmetic. An H200 has
 * 4e6, 26e3 there and 36e3 back (8e3 for a single megabyte), and 50e6: lesser ones half of that. */
static const double MEMORY = 2e6, BUS = 13e3, STEPS = 25e6;
/* The same of the CPU, for groups that it must run in between. */
static const double HOST_MEMORY = 10e3, HOST_STEPS = 20e3;

static TsDevice *candidate(const TsJit *j) {
  TsError ignored = {0};
  if (j->move_to) return ts_device_find(j->move_to, &ignored);
  for (int i = 0; i < ts_device_count(); i++) {
    TsDevice *d = ts_device_at(i);
    if (ts_target_gpu(d->target) && !d->simulated && !d->only_named) return d;
  }
  return NULL;
}

static double group_usec(const TsGroup *g) {
  if (g->kind == TS_GROUP_vm)
    return LAUNCH_USEC + g->bytes / BUS + g->bytes / HOST_MEMORY + g->flops / HOST_STEPS;
  double move = g->bytes / MEMORY, work = g->flops / STEPS;
  return LAUNCH_USEC + (move > work ? move : work);
}

/* What a call takes there; kernels: how many there would be. Arguments come anew each time and
 * results are read, captured tensors stay. */
static double expected_usec(TsJitFunction *there, int *kernels) {
  TsBuildJob b = ts_jit_build_of(there, 0);
  TsError err = {0};
  double usec = -1;
  *kernels = 0;
  if (b.layouts && !ts_build_schedule(&b, &err)) {
    const TsGraph *g = there->g;
    const TsSched *s = b.fusion.sched;
    usec = 0;
    for (int i = 0; i < s->ngroup; i++) {
      usec += group_usec(s->group[i]);
      *kernels += s->group[i]->kind != TS_GROUP_vm;
    }
    for (int i = 0; i < g->nparam; i++)
      if (!g->bound[i]) usec += (double)ts_meta_nbytes(&g->param[i]->meta) / BUS;
    for (int i = 0; i < g->nresult; i++)
      usec += (double)ts_meta_nbytes(&g->result[i]->meta) / BUS;
  }
  ts_build_free(&b);
  return usec;
}

static void stay(TsJitFunction *f) {
  Move *m = &f->move;
  m->state = MOVE_here;
  int64_t spent = m->need_nsec > m->nsec ? m->need_nsec : m->nsec;
  m->need_nsec = spent < INT64_MAX / RAISE ? spent * RAISE : INT64_MAX;
}

static void look(TsJitFunction *f) {
  Move *m = &f->move;
  int kernels;
  TsDevice *d = candidate(f->jit);
  TsJitFunction *there = d ? ts_jit_on(f, d) : NULL;
  if (!there) return stay(f);
  int64_t here = f->best[0] < f->best[1] || f->best[1] <= 0 ? f->best[0] : f->best[1];
  double usec = expected_usec(there, &kernels), start = d->opened ? 0 : START_MSEC;
  bool forced = f->jit->move_to != NULL;
  start += kernels * KERNEL_MSEC;
  if (usec < 0 || !kernels) return stay(f);
  if (!forced && usec * 100 > (double)here / 1e3 * (100 - FASTER_PERCENT)) return stay(f);
  if (!forced && start * 1e6 > (double)m->nsec) {
    m->need_nsec = (int64_t)(start * 1e6);
    return;
  }
  m->device = d;
  m->state = MOVE_compiling;
  if (there->state == COLD && ts_jit_begin(there)) stay(f);
}

/* Both sides in turns: the start of a call, and what the program fetched since the last. */
static bool is_there(const Move *m) {
  return m->state == MOVE_there || (m->state == MOVE_trial && m->trial % 2);
}

static void judge(TsJitFunction *f) {
  Move *m = &f->move;
  double here = (double)m->best[0] / 1e3;
  double there = (double)m->best[1] / 1e3 + (double)m->fetched / TRIAL / BUS;
  bool faster = there * 100 <= here * (100 - FASTER_PERCENT);
  if (faster || f->jit->move_to) {
    m->state = MOVE_there;
    ts_jit_say(f, "moved", "to %s, %.1f us there, %.1f us here", m->device->name, there, here);
    return;
  }
  ts_jit_say(f, "stays", "%.1f us on %s, %.1f us here", there, m->device->name, here);
  stay(f);
}

static void begin_trial(TsJitFunction *f) {
  Move *m = &f->move;
  m->state = MOVE_trial;
  m->trial = f->jit->move_to ? 1 : 0;
  m->best[0] = m->best[1] = INT64_MAX;
  m->fetched = 0;
  m->was_there = false;
}

TsFrame *ts_jit_move_enter(TsJitFunction *f, TsFrame *own) {
  Move *m = &f->move;
  TsContext *c = f->jit->c;
  (void)own;
  if (!c->device_auto || c->on_host || f->jit->how != TS_BUILD_compiled) return NULL;
  if (!m->need_nsec) m->need_nsec = f->jit->move_to ? 1 : KERNEL_MSEC * 1000000LL;
  if (m->state == MOVE_here && m->nsec >= m->need_nsec) look(f);
  if (m->state == MOVE_here) return NULL;
  TsJitFunction *there = ts_jit_on(f, m->device);
  if (m->state == MOVE_compiling) {
    bool live = there && ts_jit_step(there);
    if (live)
      begin_trial(f);
    else if (!there || there->state == COLD)
      stay(f);
  }
  if (!there || there->state != LIVE) return NULL;
  if (m->was_there) m->fetched += c->downloaded - m->downloaded;
  m->downloaded = c->downloaded;
  m->was_there = is_there(m);
  if (!m->was_there) return NULL;
  TsFrame *frame = ts_frame_there(there->frame, m->device->index);
  if (!frame) ts_error_clear(&c->err);
  return frame;
}

void ts_jit_move_leave(TsJitFunction *f, const TsFrame *ran, int64_t nsec) {
  Move *m = &f->move;
  bool there = ran && ts_frame_device(ran);
  if (!there) m->nsec += nsec;
  if (m->state != MOVE_trial) return;
  if (nsec < m->best[there]) m->best[there] = nsec;
  if (++m->trial >= 2 * TRIAL) judge(f);
}
