/* One call of one operator: types by the row's rules, outputs, the handler, the
 * trace. Into tensors that exist: vm/vm_into.c. */
#include "vm/core/vm.h"

#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/device.h"
#include "lib/mesh.h"
#include "vm/autocast.h"
#include "vm/core/capture.h"
#include "vm/core/defer.h"
#include "vm/drive/random.h"
#include "vm/core/call.h"
#include "vm/core/exec.h"
#include "vm/core/mapped.h"
#include "vm/core/offload.h"
#include "vm/core/profile.h"
#include "vm/core/tape.h"
#include "vm/core/trap.h"
#include "vm/mesh/away.h"
#include "vm/mesh/call.h"
#include "vm/mesh/planned.h"

/* The handler of a row by its class; a row without its function does not link. */
#define HANDLER_POINTWISE(name) ts_exec_pointwise
#define HANDLER_REDUCE(name)    ts_exec_reduce
#define HANDLER_SCAN(name)      ts_exec_scan
#define HANDLER_RANDOM(name)    ts_exec_random
#define HANDLER_VIEW(name)      ts_view_##name
#define HANDLER_KERNEL(name)    ts_exec_##name
#define HANDLER_COMPOSE(name)   ts_exec_compose
#define HANDLER_DIRECT(name)    ts_exec_##name

TsHandler *const ts_vm_handler[TS_OP_COUNT] = {
#define OP(name, cls, ...) [TS_OP_##name] = HANDLER_##cls(name),
#include "lib/ops.def"
#undef OP
};

#define FITS_POINTWISE(name)
#define FITS_REDUCE(name)
#define FITS_SCAN(name)
#define FITS_RANDOM(name)
#define FITS_VIEW(name)
#define FITS_KERNEL(name)
#define FITS_COMPOSE(name)
#define FITS_DIRECT(name) [TS_OP_##name] = ts_fits_##name,

static TsDirectFits *const eager_fits[TS_OP_COUNT] = {
#define OP(name, cls, ...) FITS_##cls(name)
#include "lib/ops.def"
#undef OP
};

static int apart(const TsCall *call, int a, int b) {
  ts_error_set(&call->ctx->err, TS_ERR_device, "%s: inputs on %s and %s",
               ts_op_info(call->op)->name, ts_device_at(a)->name, ts_device_at(b)->name);
  return ts_error_hint(&call->ctx->err, "move one with x:to(\"%s\")", ts_device_at(a)->name);
}

/* Where a call runs. Numbers go along everywhere, scalars wherever something larger is; bytes
 * of the CPU follow to a device with kernels, those of any device to a mesh. Everything else is the
 * program's to move. */
int ts_call_device(TsCall *call) {
  int device = call->ctx->device, scalar = -1;
  bool found = false, away = false;
  if (call->ctx->on_host) return 0;
  for (int i = 0; i < call->nin; i++) {
    const TsTensor *t = call->in[i];
    if (!t || t->meta.weak) continue;
    int own = t->meta.device;
    if (own == TS_DEVICE_AWAY) { /* who has it has the others, too */
      away = true;
      continue;
    }
    if (t->meta.ndim == 0) {
      if (scalar <= 0) scalar = own;
      continue;
    }
    if (!found || own == device) {
      device = own, found = true;
      continue;
    }
    if (own == TS_DEVICE_MESH || device == TS_DEVICE_MESH) {
      device = TS_DEVICE_MESH;
      continue;
    }
    bool follows = call->ctx->mixes || ts_offload_on(call->ctx, own ? own : device);
    if ((own && device) || !follows) return apart(call, device, own);
    if (own) device = own;
  }
  if (away && device != TS_DEVICE_MESH) return TS_DEVICE_AWAY;
  return found || scalar < 0 ? device : scalar;
}

/* One or two plain float operands of one dtype and shape, the case that small
 * programs are made of: what the general inference would find, without asking. */
static bool infer_simple(TsCall *call, const TsOpInfo *o, TsMeta *out) {
  if (o->cls != TS_CLASS_POINTWISE || call->nin > 2 || !o->keeps_float) return false;
  const TsMeta *a = &call->in[0]->meta, *b = &call->in[call->nin - 1]->meta;
  if (a->weak || b->weak || a->dtype != b->dtype || a->device != b->device) return false;
  if (!ts_dtype_is((TsDtype)a->dtype, o->types & TS_KIND_F)) return false;
  if (a->ndim != b->ndim) return false;
  for (int i = 0; i < a->ndim; i++) {
    if (a->dim[i] != b->dim[i]) return false;
    out->dim[i] = a->dim[i];
  }
  out->dtype = a->dtype, out->ndim = a->ndim, out->weak = 0, out->device = a->device;
  out->layout = 0;
  call->compute = (TsDtype)a->dtype;
  return true;
}

static void release(TsTensor **t, int n) {
  for (int i = 0; i < n; i++) {
    ts_tensor_unref(t[i]);
    t[i] = NULL;
  }
}

static bool allocates(const TsOpInfo *o, bool dynamic) {
  return o->cls != TS_CLASS_VIEW && !dynamic;
}

/* What ran, for those who look at sequences of calls. What a handler calls inside is not the
 * program's. */
void ts_call_note(TsCall *call) {
  TsContext *c = call->ctx;
  if (c->inside || c->leaves > 1) return; /* what is compiled of them would not be cut */
  ts_trace_record(&c->trace, call);
  if (c->watched) c->defer->ran(call);
  if (--c->trace.countdown == 0 && c->defer) c->defer->look(c);
}

/* After a failure some are NULL, as all are before. */
static int make_outputs(TsCall *call, const TsMeta *out, bool allocate) {
  for (int i = 0; i < call->nout && allocate; i++)
    if (!(call->out[i] = ts_tensor_new(call->ctx, &out[i]))) return -1;
  return 0;
}

/* By the device: as call of vm/core/offload.h. */
static int run_there(TsCall *call, const TsMeta *out) {
  if (make_outputs(call, out, true)) return -1; /* the caller releases */
  int done = call->ctx->offload->call(call, out[0].device, false);
  if (done != 1) release(call->out, call->nout);
  return done;
}

/* Handlers look at the host's addresses. */
int ts_offload_here(TsHandler *handler, TsCall *call) {
  TsContext *c = call->ctx;
  for (int i = 0; i < call->nin; i++)
    if (call->in[i] && !ts_tensor_read(call->in[i])) return -1;
  for (int i = 0; i < call->nout; i++)
    if (call->out[i] && !ts_tensor_write(call->out[i])) return -1;
  c->on_host++;
  int failed = handler(call);
  c->on_host--;
  return failed;
}

/* By the handler, over fetched bytes; results belong to the device. */
static int run_here(TsCall *call, const TsMeta *out, bool allocate, int device) {
  TsContext *c = call->ctx;
  c->on_host++;
  int failed = make_outputs(call, out, allocate);
  c->on_host--;
  if (!failed) failed = ts_offload_here(ts_vm_handler[call->op], call);
  for (int i = 0; i < call->nout && !failed; i++) call->out[i]->meta.device = (uint8_t)device;
  return failed ? -1 : 0;
}

static int run_elsewhere(TsCall *call, const TsMeta *out, bool allocate) {
  int device = out[0].device, done = allocate && !call->ctx->box ? run_there(call, out) : 0;
  return done ? (done == 1 ? 0 : -1) : run_here(call, out, allocate, device);
}

/* Bytes of the CPU's tensors may be on a device that made them, or written by the program. */
int ts_call_fetch(const TsCall *call) {
  for (int i = 0; i < call->nin; i++) {
    TsTensor *t = call->in[i];
    if (!t || ((t->storage->valid & 1) && !t->storage->raw) || t->storage->symbolic) continue;
    if (!ts_tensor_read(t)) return -1;
  }
  return 0;
}

static int run(TsCall *call, const TsOpInfo *o, const TsMeta *out, bool allocate) {
  if (o->cls != TS_CLASS_VIEW && ts_call_fetch(call)) return -1;
  return make_outputs(call, out, allocate) || ts_vm_handler[call->op](call) ? -1 : 0;
}

static int run_somewhere(TsCall *call, const TsOpInfo *o, const TsMeta *out, bool allocate) {
  TsContext *c = call->ctx;
  int device = call->nout && !c->on_host ? out[0].device : 0;
  if (o->cls != TS_CLASS_VIEW && ts_offload_on(c, device))
    return run_elsewhere(call, out, allocate);
  return run(call, o, out, allocate);
}

/* On a mesh, or leaf by leaf, as far as the call is cut; what handlers call inside is not. */
static int run_cut(TsCall *call, const TsOpInfo *o, const TsMeta *out, bool allocate) {
  TsContext *c = call->ctx;
  int leaves = c->leaves;
  if (c->on_host) return run_somewhere(call, o, out, allocate);
  if (c->abstract && !call->nin && c->inside == 1) return ts_mesh_abstract(call, out);
  if (call->nout && out[0].device == TS_DEVICE_MESH) return ts_mesh_call(call, out);
  if (call->nout && out[0].device == TS_DEVICE_AWAY) return ts_away_call(call, out, allocate);
  int done = leaves > 1 ? ts_leaves_call(call, out) : 0;
  if (done) return done < 0 ? -1 : 0;
  c->leaves = 0;
  int failed = run_somewhere(call, o, out, allocate);
  c->leaves = leaves;
  return failed;
}

int ts_call_interrupted(TsContext *c, TsOp op) {
  return ts_error_set(&c->err, TS_ERR_interrupt, "%s: interrupted", ts_op_info(op)->name);
}

/* Outputs, the handler, the trace. */
static int execute(TsCall *call, const TsOpInfo *o, const TsMeta *out, bool dynamic) {
  TsContext *c = call->ctx;
  if (c->npending && ts_defer_force_all(call->nin, call->in)) return -1;
  if (o->cls == TS_CLASS_VIEW && call->in[0]->storage->symbolic)
    return ts_error_set(&c->err, TS_ERR_value,
                        "%s: a value of a captured function is used outside of it", o->name);
  for (int i = 0; i < call->nout; i++) call->out[i] = NULL;
  bool record = ts_tape_wants(c, call->nin, call->in);
  c->no_grad += record; /* what a handler calls inside is its own matter */
  c->inside++;
  int failed = run_cut(call, o, out, allocates(o, dynamic));
  c->inside--;
  c->no_grad -= record;
  /* What is said of work that was left half done is not worth reading. */
  if (ts_cpu_interrupted()) failed = ts_call_interrupted(c, call->op);
  if (!failed && ts_mapped_changed()) failed = ts_mapped_check(c, call->nin, call->in);
  if (failed) {
    release(call->out, call->nout);
    return -1;
  }
  ts_call_note(call);
  if (!record && !c->inside && o->cls == TS_CLASS_VIEW) ts_tape_unrecorded(call);
  if ((record && ts_tape_record(call)) || (c->trap && ts_trap_check(call, false))) {
    release(call->out, call->nout);
    return -1;
  }
  return 0;
}

int ts_call_infer(TsCall *call, TsInfer *inf, const TsMeta **meta) {
  *inf = (TsInfer){
      .op = call->op, .nin = call->nin, .in = meta, .attr = call->attr, .err = &call->ctx->err};
  inf->settles = call->ctx->settles > 0;
  if (call->ctx->want && call->ctx->want_op == (int)call->op) inf->want = call->ctx->want;
  for (int i = 0; i < call->nin; i++) {
    TsTensor *t = call->in[i];
    meta[i] = t ? &t->meta : NULL;
    if (!t || !t->meta.weak || t->storage->symbolic || i >= TS_MAX_IN) continue;
    inf->number[i] = ts_tensor_number_value(t);
    inf->known |= 1u << i;
  }
  if (ts_op_infer(inf)) return -1;
  call->compute = inf->compute;
  call->nout = inf->nout;
  return 0;
}

/* Bare numbers as what the row takes them as: in[] becomes own[], of which the caller releases
 * those that are not in[]'s. 0 where all are as they should be. */
int ts_call_numbers(TsCall *call, const TsInfer *inf, TsTensor **own) {
  TsTensor *const *in = call->in;
  for (int i = 0; i < call->nin; i++) {
    TsDtype d = in[i] && in[i]->meta.weak ? ts_op_number_dtype(inf, i) : TS_DT_none;
    if (d == TS_DT_none) continue;
    if (call->in == in) memcpy(own, in, sizeof *own * (size_t)call->nin);
    call->in = own;
    if (!(own[i] = ts_tensor_cast(call->ctx, in[i], d))) {
      own[i] = in[i];
      return -1;
    }
  }
  return 0;
}

void ts_call_release_numbers(const TsCall *call, TsTensor *const *in) {
  for (int i = 0; i < call->nin && call->in != in; i++)
    if (call->in[i] != in[i]) ts_tensor_unref(call->in[i]);
}

static int call_general(TsCall *call, const TsOpInfo *o, int room) {
  TsTensor *const *in = call->in, *own[TS_MAX_VARIADIC];
  const TsMeta *meta[TS_MAX_VARIADIC];
  TsAttr preset[TS_MAX_ATTR];
  TsInfer inf;
  if (!call->attr) {
    ts_op_defaults(call->op, preset);
    if (ts_op_check_attrs(call->op, preset, &call->ctx->err)) return -1;
    call->attr = preset;
  }
  TsAttr pinned[TS_MAX_ATTR]; /* backward repeats a recorded random call */
  if (o->cls == TS_CLASS_RANDOM && ts_tape_wants(call->ctx, call->nin, call->in)) {
    memcpy(pinned, call->attr, sizeof *pinned * o->nattr);
    ts_random_pin(call->ctx, pinned + o->nattr - 2);
    call->attr = pinned;
  }
  int device = ts_call_device(call);
  if (device < 0 || ts_call_infer(call, &inf, meta)) return -1;
  TS_ASSERT(inf.nout <= room);
  for (int i = 0; i < inf.nout; i++) {
    inf.out[i].device = (uint8_t)device;
    inf.out[i].weak = 0, inf.out[i].layout = 0;
  }
  int failed = ts_call_numbers(call, &inf, own) || execute(call, o, inf.out, inf.dynamic);
  ts_call_release_numbers(call, in);
  return failed ? -1 : 0;
}

static int wrong_inputs(TsContext *c, const TsOpInfo *o, int nin) {
  ts_error_set(&c->err, TS_ERR_argument, "%s: %d tensors given, takes %s%s", o->name, nin,
               o->nin ? "" : "none", o->inputs);
  return ts_error_hint(&c->err, "see ? %s", o->name);
}

int ts_call_check(TsContext *c, const TsOpInfo *o, int nin, TsTensor *const *in) {
  int most = o->variadic ? TS_MAX_VARIADIC : o->nin;
  if (nin < o->nrequired || nin > most || (o->variadic && nin == 0))
    return wrong_inputs(c, o, nin);
  for (int i = 0; i < o->nrequired; i++)
    if (!in[i] && o->required >> i & 1)
      return ts_error_set(&c->err, TS_ERR_argument, "%s: input '%s' is missing", o->name,
                          o->input[i]);
  return 0;
}

/* A composed row: by its definition, or at once where nobody asks for the steps. */
static int call_composed(TsCall *call, const TsOpInfo *o, int room, int *nout) {
  TsContext *c = call->ctx;
  TsAttr preset[TS_MAX_ATTR];
  TsMeta out[TS_MAX_OUT];
  if (!call->attr) {
    ts_op_defaults(call->op, preset);
    if (ts_op_check_attrs(call->op, preset, &c->err)) return -1;
    call->attr = preset;
  }
  bool steps = o->cls != TS_CLASS_DIRECT || c->trap || c->leaves > 1;
  for (int i = 0; i < call->nin && !steps; i++)
    steps = call->in[i] && (call->in[i]->meta.weak || call->in[i]->meta.device);
  if (steps || !eager_fits[call->op](call, out)) return ts_vm_compose(call, room, nout);
  for (int i = 0; i < call->nout; i++) out[i].weak = 0, out[i].device = 0;
  int failed = execute(call, o, out, false);
  *nout = failed ? 0 : call->nout;
  return failed;
}

static int call_now(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                    int room, int *nout, TsTensor **out) {
  TsMeta m;
  TsCall call = {.ctx = c, .op = op, .nin = nin, .nout = 1, .in = in, .out = out, .attr = attr};
  /* What does not run now would not hear of it. */
  bool later = c->capture || (c->watched && !c->inside && !c->choice && c->leaves < 2 &&
                              !c->abstract); /* what is planned is never there */
  if (later && ts_cpu_interrupted()) return ts_call_interrupted(c, op);
  if (c->capture) return ts_capture_call(c, op, nin, in, attr, room, nout, out);
  if (later && c->defer->call(&call)) return *nout = call.nout, 0;
  const TsOpInfo *o = ts_op_info(op);
  if (ts_call_check(c, o, nin, in)) return -1;
  uint64_t stream = c->stream; /* what fails has drawn nothing */
  bool composed = ts_class_composed(o->cls);
  int failed = composed ? call_composed(&call, o, room, nout)
               : nin && !o->npar && infer_simple(&call, o, &m) ? execute(&call, o, &m, false)
                                                               : call_general(&call, o, room);
  if (!composed) *nout = call.nout;
  if (failed) c->stream = stream;
  return failed;
}

/* As ts_vm_call, which it is part of. */
static int call_recorded(TsContext *c, TsOp op, int nin, TsTensor *const *in,
                         const TsAttr *attr, int room, int *nout, TsTensor **out) {
  TsActivity *w = ts_activity_begin_call(c, TS_ACTIVITY_operator, ts_op_info(op)->name);
  int failed = call_now(c, op, nin, in, attr, room, nout, out);
  TsCall call = {
      .ctx = c, .op = op, .nin = nin, .nout = failed ? 0 : *nout, .in = in, .out = out};
  ts_activity_end_call(w, &call);
  return failed;
}

int ts_vm_call(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
               int room, int *nout, TsTensor **out) {
  if (c->autocast && (c->capture || !c->inside))
    return ts_autocast_call(c, op, nin, in, attr, room, nout, out);
  return (ts_activities ? call_recorded : call_now)(c, op, nin, in, attr, room, nout, out);
}

TsTensor *ts_vm_call1(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr) {
  TsTensor *out[TS_MAX_OUT];
  int nout = 0;
  if (ts_vm_call(c, op, nin, in, attr, TS_MAX_OUT, &nout, out)) return NULL;
  release(out + 1, nout - 1);
  return out[0];
}
