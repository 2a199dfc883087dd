/* Calls whose results go into tensors that exist, and assignments. What the program has is written
 * without interrupts: it has all of its old elements, or all of the new ones. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/call.h"
#include "vm/core/capture.h"
#include "vm/core/copy.h"
#include "vm/core/defer.h"
#include "vm/core/exec.h"
#include "vm/core/mapped.h"
#include "vm/core/offload.h"
#include "vm/drive/optim.h"
#include "vm/core/profile.h"
#include "vm/core/tape.h"
#include "vm/core/trap.h"
#include "vm/mesh/parts.h"
#include "vm/write.h"

static void release(TsTensor **t, int n) {
  for (int i = 0; i < n; i++) {
    ts_tensor_unref(t[i]);
    t[i] = NULL;
  }
}

static bool fits(const TsTensor *t, const TsMeta *m) {
  return t->contiguous && t->meta.dtype == m->dtype && ts_meta_same_shape(&t->meta, m);
}

static int capture_out(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                       int nout, TsTensor *const *out) {
  TsTensor *made[TS_MAX_OUT];
  int n = 0;
  if (ts_capture_call(c, op, nin, in, attr, TS_MAX_OUT, &n, made)) return -1;
  int failed = 0;
  for (int i = 0; i < nout && i < n && !failed; i++)
    failed = ts_capture_assign(c, out[i], made[i]);
  release(made, n);
  return failed;
}

/* ---- calls with their outputs: made ready, run, and what is left to do */
typedef struct Into {
  TsCall call;
  TsTensor *made[TS_MAX_OUT], *const *out;
  TsTensor *const *in; /* as they were given; */
  int nout, device;
  TsTensor *own[TS_MAX_IN]; /* numbers as tensors */
} Into;

static void begin(Into *t, TsContext *c, TsOp op, int nin, TsTensor *const *in,
                  const TsAttr *attr, int nout, TsTensor *const *out) {
  memset(t, 0, offsetof(Into, own));
  t->call = (TsCall){.ctx = c, .op = op, .nin = nin, .in = in, .attr = attr, .out = t->made};
  t->out = out;
  t->nout = nout;
}

/* Whatever may be wrong is found here, and what memory is known to be needed is taken. apart: no
 * result may be made in the bytes of what is given. */
static int make_ready(Into *t, bool apart) {
  TsContext *c = t->call.ctx;
  TsCall *call = &t->call;
  const TsMeta *meta[TS_MAX_VARIADIC];
  TsInfer inf;
  int bad = ts_call_check(c, ts_op_info(call->op), call->nin, call->in);
  t->device = bad ? -1 : ts_call_device(call);
  if (t->device < 0 || ts_call_infer(call, &inf, meta)) return -1;
  for (int i = 0; i < t->nout; i++)
    if (ts_write_check(c, t->out[i])) return -1;
  for (int i = 0; i < call->nout; i++) inf.out[i].device = (uint8_t)t->device;
  if (c->npending &&
      (ts_defer_force_all(call->nin, call->in) || ts_defer_force_all(t->nout, t->out)))
    return -1;
  t->in = call->in;
  if (call->nin <= TS_MAX_IN && ts_call_numbers(call, &inf, t->own)) return -1;
  for (int i = 0; i < call->nout; i++) {
    if (t->device >= TS_DEVICE_MESH) continue; /* how it lies is known when it has run */
    bool given = i < t->nout && !apart && fits(t->out[i], &inf.out[i]);
    t->made[i] = given ? ts_tensor_ref(t->out[i]) : ts_tensor_new(c, &inf.out[i]);
    if (!t->made[i] || ts_defer_touch(t->made[i]->storage)) return -1;
  }
  return 0;
}

static void close(Into *t) {
  if (t->in) ts_call_release_numbers(&t->call, t->in);
  release(t->made, TS_MAX_OUT);
}

static int run_into(const Into *t) {
  TsCall *call = (TsCall *)(uintptr_t)&t->call;
  TsContext *c = call->ctx;
  int n = 0;
  if (t->device >= TS_DEVICE_MESH)
    return ts_vm_call(c, call->op, call->nin, call->in, call->attr, TS_MAX_OUT, &n, call->out);
  int done = ts_offload_on(c, t->device) ? c->offload->call(call, t->device, true) : 0;
  if (done) return done == 1 ? 0 : -1;
  if (t->device) return ts_offload_here(ts_vm_handler[call->op], call);
  return ts_call_fetch(call) ? -1 : ts_vm_handler[call->op](call);
}

static int run_quietly(const Into *t, int n) {
  TsContext *c = t->call.ctx;
  int failed = 0;
  c->no_grad++;
  c->inside++;
  for (int i = 0; i < n && !failed; i++) failed = run_into(&t[i]);
  c->inside--;
  c->no_grad--;
  return failed;
}

static int finish(Into *t) {
  TsContext *c = t->call.ctx;
  int failed = 0;
  ts_call_note(&t->call);
  for (int i = 0; i < t->nout && i < t->call.nout && !failed; i++) {
    if (t->made[i] != t->out[i])
      failed = ts_vm_assign(c, t->out[i], t->made[i]);
    else
      t->out[i]->storage->version++;
  }
  return failed;
}

int ts_vm_call_out(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                   int nout, TsTensor *const *out) {
  if (c->capture) return capture_out(c, op, nin, in, attr, nout, out);
  Into t;
  TsActivity *w = ts_activity_begin_call(c, TS_ACTIVITY_operator, ts_op_info(op)->name);
  begin(&t, c, op, nin, in, attr, nout, out);
  int failed = make_ready(&t, false);
  if (!failed) {
    int held = ts_cpu_hold_interrupts();
    failed = run_quietly(&t, 1) || finish(&t);
    ts_cpu_let_interrupts(held);
  }
  if (!failed && c->trap) failed = ts_trap_check(&t.call, false);
  ts_activity_end_call(w, failed ? NULL : &t.call);
  close(&t);
  return failed ? -1 : 0;
}

/* ---- several, all of them or none */
/* As one piece of work, whose memory is taken before anything is written. */
static bool is_group(const Into *t, int n) {
  for (int i = 0; i < n; i++) {
    if (t[i].call.op != t->call.op || t[i].device != t->device) return false;
    if (!ts_optim_groups(t->call.op)) return false;
    for (int k = 0; k < t[i].call.nout; k++)
      if (k >= t[i].nout || t[i].made[k] != t[i].out[k]) return false;
  }
  return true;
}

/* How many of them ran, or -1. */
static int run_group(Into *t, int n) {
  TsContext *c = t->call.ctx;
  TsCall **call = malloc(sizeof *call * (size_t)n);
  if (!call) return ts_error_memory(&c->err);
  int failed = 0, ran = n;
  for (int i = 0; i < n; i++) call[i] = &t[i].call;
  if (t->device) {
    ran = ts_offload_on(c, t->device) ? c->offload->group(c, n, call, t->device) : 0;
  } else {
    for (int i = 0; i < n && !failed; i++) failed = ts_call_fetch(call[i]);
    if (!failed) failed = ts_optim_group(n, call);
  }
  free(call);
  return failed ? -1 : ran;
}

/* Memory that runs out when something has been written is looked for once more. */
static int run_surely(TsContext *c, const Into *t) {
  int failed = run_quietly(t, 1);
  return failed && ts_context_once_more(c) ? run_quietly(t, 1) : failed;
}

static int run_all(TsContext *c, Into *t, int n) {
  int held = ts_cpu_hold_interrupts();
  int ran = n > 1 && is_group(t, n) ? run_group(t, n) : 0, failed = ran < 0;
  for (int i = ran; i < n && !failed; i++) failed = run_surely(c, &t[i]);
  for (int i = 0; i < n && !failed; i++) failed = finish(&t[i]);
  ts_cpu_let_interrupts(held);
  if (!failed) c->commits++;
  for (int i = 0; i < n && !failed && c->trap; i++) failed = ts_trap_check(&t[i].call, false);
  return failed;
}

int ts_vm_together(TsContext *c, int n, const TsTogether *steps) {
  Into *t = n ? malloc(sizeof *t * (size_t)n) : NULL;
  if (!n) return 0;
  int failed = t ? 0 : ts_error_memory(&c->err), begun = 0;
  TsActivity *w = ts_activity_begin_call(c, TS_ACTIVITY_operator, ts_op_info(steps->op)->name);
  while (begun < n && !failed) {
    const TsTogether *s = &steps[begun];
    Into *into = &t[begun++];
    begin(into, c, s->op, s->nin, s->in, s->attr, s->nout, s->out);
    failed = make_ready(into, !ts_optim_groups(s->op));
  }
  if (!failed) failed = run_all(c, t, n);
  ts_activity_end_call(w, NULL);
  while (begun > 0) close(&t[--begun]);
  free(t);
  return failed ? -1 : 0;
}

/* An elementwise call whose result has x's type and that reads nothing else of x's bytes: on a
 * device one launch instead of two, and no memory. */
static bool goes_straight(TsContext *c, TsOp op, int nin, TsTensor *const *in,
                          const TsAttr *attr, const TsTensor *x) {
  const TsMeta *meta[TS_MAX_VARIADIC];
  const TsOpInfo *o = ts_op_info(op);
  TsInfer inf;
  TsCall call = {.ctx = c, .op = op, .nin = nin, .in = in, .attr = attr};
  if (c->capture || !ts_offload_on(c, x->meta.device) || o->cls != TS_CLASS_POINTWISE ||
      (!attr && o->nattr) || !x->contiguous || x->origin || x->storage->taped ||
      x->storage->symbolic || nin < o->nrequired || nin > o->nin || ts_tape_wants(c, nin, in))
    return false;
  for (int i = 0; i < nin; i++) {
    if (!in[i] || in[i]->storage->pending) return false;
    if (in[i]->storage == x->storage && (in[i]->offset != x->offset || !fits(in[i], &x->meta)))
      return false;
  }
  bool well = ts_call_device(&call) == x->meta.device && !ts_call_infer(&call, &inf, meta);
  ts_error_clear(&c->err);
  return well && call.nout == 1 && !inf.dynamic && fits(x, &inf.out[0]);
}

int ts_vm_call_into(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                    TsTensor *x) {
  if (goes_straight(c, op, nin, in, attr, x)) {
    if (c->watched) c->defer->wrote(x);
    if (ts_vm_call_out(c, op, nin, in, attr, 1, &x)) return -1;
    return ts_cpu_interrupted() ? ts_call_interrupted(c, op) : 0;
  }
  TsTensor *y = ts_vm_call1(c, op, nin, in, attr);
  if (!y) return -1;
  int failed = 0;
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (ts_dtype_rank(ts_tensor_dtype(y)) > ts_dtype_rank(ts_tensor_dtype(x))) {
    failed = ts_error_set(&c->err, TS_ERR_dtype, "%s_: the result %s cannot be stored as %s",
                          ts_op_info(op)->name, ts_meta_text(&y->meta, a),
                          ts_dtype_name(ts_tensor_dtype(x)));
    ts_error_hint(&c->err, "use x = x:%s(...) and let the dtype change", ts_op_info(op)->name);
  } else if (!ts_meta_same_shape(&x->meta, &y->meta)) {
    failed = ts_error_set(&c->err, TS_ERR_shape, "%s_: the result %s does not fit into %s",
                          ts_op_info(op)->name, ts_meta_text(&y->meta, a),
                          ts_meta_text(&x->meta, b));
  } else {
    failed = ts_vm_assign(c, x, y);
  }
  ts_tensor_unref(y);
  return failed;
}
