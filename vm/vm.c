/* One call of one operator: types by the row's rules, outputs, the handler, the
 * trace. */
#include "vm/vm.h"

#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/device.h"
#include "vm/capture.h"
#include "vm/copy.h"
#include "vm/defer.h"
#include "vm/random.h"
#include "vm/exec.h"
#include "vm/mapped.h"
#include "vm/offload.h"
#include "vm/tape.h"
#include "vm/trap.h"
#include "vm/write.h"

/* The handler of a row by its class; a row without its function does not link. */
#define HANDLER_POINTWISE(name) ts_exec_pointwise
#define HANDLER_REDUCE(name)    ts_exec_reduce
#define HANDLER_SCAN(name)      ts_exec_scan
#define HANDLER_RANDOM(name)    ts_exec_random
#define HANDLER_VIEW(name)      ts_view_##name
#define HANDLER_KERNEL(name)    ts_exec_##name
#define HANDLER_COMPOSE(name)   ts_exec_compose

TsHandler *const ts_vm_handler[TS_OP_COUNT] = {
#define OP(name, cls, ...) [TS_OP_##name] = HANDLER_##cls(name),
#include "lib/ops.def"
#undef OP
};

static int apart(const TsCall *call, int a, int b) {
  ts_error_set(&call->ctx->err, TS_ERR_device, "%s: inputs on %s and %s",
               ts_op_info(call->op)->name, ts_device_at(a)->name, ts_device_at(b)->name);
  return ts_error_hint(&call->ctx->err, "move one with x:to(\"%s\")", ts_device_at(a)->name);
}

/* Where a call runs. Numbers go along everywhere, scalars wherever something larger is; bytes
 * of the CPU follow to a device with kernels. Everything else is the program's to move. */
static int device_of(TsCall *call) {
  int device = call->ctx->device, scalar = -1;
  bool found = false;
  if (call->ctx->on_host) return 0;
  for (int i = 0; i < call->nin; i++) {
    const TsTensor *t = call->in[i];
    if (!t || t->meta.weak) continue;
    int own = t->meta.device;
    if (t->meta.ndim == 0) {
      if (scalar <= 0) scalar = own;
      continue;
    }
    if (!found || own == device) {
      device = own, found = true;
      continue;
    }
    bool follows = ts_offload_on(call->ctx, own ? own : device);
    if ((own && device) || !follows) return apart(call, device, own);
    if (own) device = own;
  }
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
static void note(TsCall *call) {
  TsContext *c = call->ctx;
  if (c->inside) return;
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

/* By the device: as call of vm/offload.h. */
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
  int device = out[0].device, done = allocate ? run_there(call, out) : 0;
  return done ? (done == 1 ? 0 : -1) : run_here(call, out, allocate, device);
}

/* Bytes of the CPU's tensors may be on a device that made them, or written by the program. */
static int fetch(const TsCall *call) {
  for (int i = 0; i < call->nin; i++) {
    TsTensor *t = call->in[i];
    if (!t || ((t->storage->valid & 1) && !t->storage->raw) || t->storage->symbolic) continue;
    if (!ts_tensor_read(t)) return -1;
  }
  return 0;
}

static int run(TsCall *call, const TsOpInfo *o, const TsMeta *out, bool allocate) {
  if (o->cls != TS_CLASS_VIEW && fetch(call)) return -1;
  return make_outputs(call, out, allocate) || ts_vm_handler[call->op](call) ? -1 : 0;
}

static int interrupted(TsContext *c, TsOp op) {
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
  bool elsewhere = o->cls != TS_CLASS_VIEW && call->nout && ts_offload_on(c, out[0].device);
  bool allocate = allocates(o, dynamic);
  int failed = elsewhere ? run_elsewhere(call, out, allocate) : run(call, o, out, allocate);
  c->inside--;
  c->no_grad -= record;
  if (!failed && ts_cpu_interrupted()) failed = interrupted(c, call->op);
  if (!failed && ts_mapped_changed()) failed = ts_mapped_check(c, call->nin, call->in);
  if (failed) {
    release(call->out, call->nout);
    return -1;
  }
  note(call);
  if ((record && ts_tape_record(call)) || (c->trap && ts_trap_check(call, false))) {
    release(call->out, call->nout);
    return -1;
  }
  return 0;
}

static int infer_call(TsCall *call, TsInfer *inf, const TsMeta **meta) {
  *inf = (TsInfer){
      .op = call->op, .nin = call->nin, .in = meta, .attr = call->attr, .err = &call->ctx->err};
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
static int number_tensors(TsCall *call, const TsInfer *inf, TsTensor **own) {
  TsTensor *const *in = call->in;
  for (int i = 0; i < call->nin; i++) {
    TsDtype d = ts_op_number_dtype(inf, i);
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

static void release_numbers(const TsCall *call, TsTensor *const *in) {
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
  int device = device_of(call);
  if (device < 0 || infer_call(call, &inf, meta)) return -1;
  TS_ASSERT(inf.nout <= room);
  for (int i = 0; i < inf.nout; i++) inf.out[i].device = (uint8_t)device, inf.out[i].weak = 0;
  int failed = number_tensors(call, &inf, own) || execute(call, o, inf.out, inf.dynamic);
  release_numbers(call, in);
  return failed ? -1 : 0;
}

static int wrong_inputs(TsContext *c, const TsOpInfo *o, int nin) {
  ts_error_set(&c->err, TS_ERR_argument, "%s: %d tensors given, takes %s%s", o->name, nin,
               o->nin ? "" : "none", o->inputs);
  return ts_error_hint(&c->err, "see ? %s", o->name);
}

static int check_inputs(TsContext *c, const TsOpInfo *o, int nin, TsTensor *const *in) {
  int most = o->variadic ? TS_MAX_VARIADIC : o->nin;
  if (nin < o->nrequired || nin > most || (o->variadic && nin == 0))
    return wrong_inputs(c, o, nin);
  for (int i = 0; i < o->nrequired; i++)
    if (!in[i] && o->required >> i & 1)
      return ts_error_set(&c->err, TS_ERR_argument, "%s: input '%s' is missing", o->name,
                          o->input[i]);
  return 0;
}

int ts_vm_call(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
               int room, int *nout, TsTensor **out) {
  TsMeta m;
  TsCall call = {.ctx = c, .op = op, .nin = nin, .nout = 1, .in = in, .out = out, .attr = attr};
  if (c->capture) return ts_capture_call(c, op, nin, in, attr, room, nout, out);
  if (c->watched && !c->inside && c->defer->call(&call)) return *nout = call.nout, 0;
  const TsOpInfo *o = ts_op_info(op);
  if (check_inputs(c, o, nin, in)) return -1;
  if (o->cls == TS_CLASS_COMPOSE) return ts_vm_compose(&call, room, nout);
  int failed = nin && !o->npar && infer_simple(&call, o, &m) ? execute(&call, o, &m, false)
                                                             : call_general(&call, o, room);
  *nout = call.nout;
  return failed;
}

TsTensor *ts_vm_call1(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr) {
  TsTensor *out[TS_MAX_OUT];
  int nout = 0;
  if (ts_vm_call(c, op, nin, in, attr, TS_MAX_OUT, &nout, out)) return NULL;
  release(out + 1, nout - 1);
  return out[0];
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

/* Outputs are there. */
static int run_into(TsCall *call, int device) {
  TsContext *c = call->ctx;
  int done = ts_offload_on(c, device) ? c->offload->call(call, device, true) : 0;
  if (done) return done == 1 ? 0 : -1;
  if (device) return ts_offload_here(ts_vm_handler[call->op], call);
  return fetch(call) ? -1 : ts_vm_handler[call->op](call);
}

int ts_vm_call_out(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                   int nout, TsTensor *const *out) {
  if (c->capture) return capture_out(c, op, nin, in, attr, nout, out);
  const TsOpInfo *o = ts_op_info(op);
  const TsMeta *meta[TS_MAX_VARIADIC];
  TsTensor *made[TS_MAX_OUT] = {NULL};
  TsInfer inf;
  TsCall call = {.ctx = c, .op = op, .nin = nin, .in = in, .out = made, .attr = attr};
  int device = check_inputs(c, o, nin, in) ? -1 : device_of(&call);
  if (device < 0 || infer_call(&call, &inf, meta)) return -1;
  for (int i = 0; i < nout; i++)
    if (ts_write_check(c, out[i])) return -1;
  for (int i = 0; i < call.nout; i++) inf.out[i].device = (uint8_t)device;
  if (c->npending && (ts_defer_force_all(nin, in) || ts_defer_force_all(nout, out))) return -1;
  TsTensor *own[TS_MAX_VARIADIC];
  int failed = number_tensors(&call, &inf, own);
  for (int i = 0; i < call.nout && !failed; i++) {
    bool given = i < nout && fits(out[i], &inf.out[i]);
    made[i] = given ? ts_tensor_ref(out[i]) : ts_tensor_new(c, &inf.out[i]);
    failed = !made[i] || ts_defer_touch(made[i]->storage);
  }
  c->no_grad++;
  c->inside++;
  if (!failed) failed = run_into(&call, device);
  c->inside--;
  c->no_grad--;
  if (!failed) note(&call);
  if (!failed && c->trap) failed = ts_trap_check(&call, false);
  for (int i = 0; i < nout && i < call.nout && !failed; i++) {
    if (made[i] != out[i])
      failed = ts_vm_assign(c, out[i], made[i]);
    else
      out[i]->storage->version++;
  }
  release(made, call.nout);
  release_numbers(&call, in);
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
      (!attr && o->nattr) || !x->contiguous || x->origin || x->storage->symbolic ||
      nin < o->nrequired || nin > o->nin || ts_tape_wants(c, nin, in))
    return false;
  for (int i = 0; i < nin; i++) {
    if (!in[i] || in[i]->storage->pending) return false;
    if (in[i]->storage == x->storage && (in[i]->offset != x->offset || !fits(in[i], &x->meta)))
      return false;
  }
  bool well = device_of(&call) == x->meta.device && !infer_call(&call, &inf, meta);
  ts_error_clear(&c->err);
  return well && call.nout == 1 && !inf.dynamic && fits(x, &inf.out[0]);
}

int ts_vm_call_into(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                    TsTensor *x) {
  if (goes_straight(c, op, nin, in, attr, x)) {
    if (c->watched) c->defer->wrote(x);
    if (ts_vm_call_out(c, op, nin, in, attr, 1, &x)) return -1;
    return ts_cpu_interrupted() ? interrupted(c, op) : 0;
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

int ts_vm_assign(TsContext *c, TsTensor *dst, TsTensor *src) {
  TsDtype type = ts_tensor_dtype(dst);
  bool number = src->meta.weak && !src->storage->symbolic;
  if (number && ts_dtype_check_number(type, ts_tensor_number_value(src), "assignment", &c->err))
    return -1;
  if (c->capture) return ts_capture_assign(c, dst, src);
  if (ts_write_check(c, dst)) return -1;
  if (ts_defer_force(src) || ts_defer_force(dst)) return -1;
  if (c->watched) c->defer->wrote(dst);
  if (dst->origin && !c->no_grad) {
    ts_error_set(
        &c->err, TS_ERR_value,
        "a tensor that was computed from others that require gradients is changed in place");
    return ts_error_hint(&c->err,
                         "write x = x * 2 instead of x:mul_(2), or use tessera.no_grad");
  }
  dst->storage->version++;
  TsMeta m = dst->meta;
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (ts_meta_broadcast(&dst->meta, &src->meta, &m) || !ts_meta_same_shape(&m, &dst->meta))
    return ts_error_set(&c->err, TS_ERR_shape, "assignment: %s does not fit into %s",
                        ts_meta_text(&src->meta, a), ts_meta_text(&dst->meta, b));
  if ((dst->meta.dtype == TS_DT_mxfp4 || src->meta.dtype == TS_DT_mxfp4) &&
      !ts_meta_same_shape(&dst->meta, &src->meta))
    return ts_error_set(&c->err, TS_ERR_dtype, "assignment: mxfp4 is not broadcast");
  TsTensor *own = NULL; /* overlapping views must not see their own writes */
  if (src->storage == dst->storage && !(own = ts_tensor_copy(c, src))) return -1;
  if (own) src = own;
  int done = ts_offload_on(c, dst->meta.device) ? c->offload->assign(c, dst, src) : 0;
  if (done) {
    ts_tensor_unref(own);
    return done == 1 ? 0 : -1;
  }
  const void *from = ts_tensor_read(src);
  void *to = from ? ts_tensor_write(dst) : NULL;
  if (to) {
    int64_t ds[TS_MAX_RANK], ss[TS_MAX_RANK];
    int skip = dst->meta.ndim - src->meta.ndim;
    TsDtype dd = ts_tensor_dtype(dst), sd = ts_tensor_dtype(src);
    for (int i = 0; i < dst->meta.ndim; i++) {
      bool spread = i < skip || src->meta.dim[i - skip] == 1;
      ds[i] = ts_dtype_nbytes(dd, dst->stride[i]);
      ss[i] = spread ? 0 : ts_dtype_nbytes(sd, src->stride[i - skip]);
    }
    if (dd == TS_DT_mxfp4 && sd == dd)
      memcpy(to, from, (size_t)ts_meta_nbytes(&m)); /* it has no views */
    else if (dd == sd)
      ts_copy_nd(m.ndim, m.dim, to, ds, from, ss, ts_dtypes[dd].nbytes);
    else
      ts_convert_nd(m.ndim, m.dim, to, dd, ds, from, sd, ss);
  }
  if (to && ts_mapped_changed() && ts_mapped_check(c, 1, &src)) to = NULL;
  ts_tensor_unref(own);
  return to ? 0 : -1;
}
