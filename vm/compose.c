/* COMPOSE rows run eagerly: the builder of ir/compose/build.h over the VM. Every value
 * made on the way is kept in a list and released at the end but for the outputs. */
#include <stdlib.h>
#include <string.h>

#include "devices/memory.h"
#include "ir/adjoint/adjoint.h"
#include "vm/core/exec.h"

typedef struct Eager {
  TsBuild b; /* first: the builder is found from it */
  TsContext *ctx;
  TsTensor **made;
  int nmade, cap;
} Eager;

static TsTensor *tensor_of(TsVal v) { return (TsTensor *)v; }

static TsVal keep(Eager *e, TsTensor *t) {
  if (t && e->nmade == e->cap) {
    int cap = e->cap ? e->cap * 2 : 32;
    TsTensor **made =
        ts_memory_should_fail() ? NULL : realloc(e->made, (size_t)cap * sizeof *made);
    if (!made) {
      ts_tensor_unref(t);
      ts_error_memory(&e->ctx->err);
      t = NULL;
    } else {
      e->made = made;
      e->cap = cap;
    }
  }
  if (!t) {
    e->b.failed = true;
    return NULL;
  }
  return (TsVal)(e->made[e->nmade++] = t);
}

static TsVal emit(TsBuild *b, TsOp op, int nin, const TsVal *in, const TsAttr *attr,
                  TsVal *out) {
  Eager *e = (Eager *)b;
  TsTensor *made[TS_MAX_VARIADIC];
  int nout = 0;
  if (b->failed) return NULL;
  e->ctx->settles++;
  b->failed = ts_vm_call(e->ctx, op, nin, (TsTensor *const *)in, attr, TS_MAX_VARIADIC, &nout,
                         made) != 0;
  e->ctx->settles--;
  if (b->failed) return NULL;
  TsVal first = NULL;
  for (int i = 0; i < nout; i++) {
    TsVal v = keep(e, made[i]);
    if (i == 0) first = v;
    if (out) out[i] = v;
  }
  return b->failed ? NULL : first;
}

/* After a failure definitions may still ask for shapes: they get a scalar's. */
static const TsMeta *meta(TsBuild *b, TsVal v) {
  static const TsMeta nothing = {.dtype = TS_DT_f32};
  (void)b;
  return v ? &tensor_of(v)->meta : &nothing;
}

static TsVal number(TsBuild *b, double value) {
  Eager *e = (Eager *)b;
  return b->failed ? NULL : keep(e, ts_tensor_number(e->ctx, value));
}

/* What was put off is computed now. */
static int whole(TsBuild *b, TsVal v, int64_t *out) {
  (void)b;
  if (!ts_tensor_read(tensor_of(v))) return -1;
  *out = ts_tensor_get_int(tensor_of(v), 0);
  return 0;
}

static Eager begin(TsContext *c) {
  return (Eager){
      .b = {.emit = emit, .meta = meta, .number = number, .whole = whole, .err = &c->err},
      .ctx = c};
}

int ts_vm_compose(TsCall *call, int room, int *nout) {
  TsVal out[TS_MAX_VARIADIC];
  TsContext *c = call->ctx;
  Eager e = begin(c);
  TsCompose k = {.b = &e.b,
                 .op = call->op,
                 .nin = call->nin,
                 .given = (const TsVal *)call->in,
                 .attr = call->attr,
                 .nout = 1,
                 .room = room,
                 .out = out};
  int failed = ts_compose(&k);
  *nout = failed ? 0 : k.nout;
  for (int i = 0; i < *nout; i++) call->out[i] = ts_tensor_ref(tensor_of(out[i]));
  for (int i = 0; i < e.nmade; i++) ts_tensor_unref(e.made[i]);
  free(e.made);
  return failed ? -1 : 0;
}

int ts_vm_vjp(TsContext *c, TsOp op, int nin, int ngrad, TsTensor *const *in,
              const TsAttr *attr, TsTensor *const *second, TsTensor **grad_in) {
  TsVal g[TS_MAX_IN + TS_MAX_OUT];
  Eager e = begin(c);
  int failed = ts_vjp(&e.b, op, nin, ngrad, (const TsVal *)in, attr, (const TsVal *)second, g);
  for (int i = 0; i < nin + ngrad; i++)
    grad_in[i] = !failed && g[i] ? ts_tensor_ref(tensor_of(g[i])) : NULL;
  for (int i = 0; i < e.nmade; i++) ts_tensor_unref(e.made[i]);
  free(e.made);
  return failed;
}

/* COMPOSE rows never reach the handler table: ts_vm_call expands them first. */
int ts_exec_compose(TsCall *call) { TS_BUG("%s is not expanded", ts_op_info(call->op)->name); }
