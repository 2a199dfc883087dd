/* The VM: one call of one operator. Eager calls and bytecode instructions go
 * through the same handlers. */
#ifndef TS_VM_VM_H
#define TS_VM_VM_H

#include "lib/op.h"
#include "vm/core/tensor.h"

/* One call as its handler sees it. Inputs may be NULL where optional. Outputs
 * are allocated row-major before the handler runs, except for VIEW, COMPOSE and
 * data-dependent rows, which set out[] themselves. A handler returns 0, or -1
 * with ctx->err filled. */
typedef struct TsCall {
  TsContext *ctx;
  TsOp op;
  int nin, nout;
  TsTensor *const *in;
  TsTensor **out;
  const TsAttr *attr;
  TsDtype compute; /* common dtype of the inputs by the row's rule */
} TsCall;

enum { TS_MAX_VARIADIC = 1024 }; /* inputs of concat, stack, einsum */

typedef int TsHandler(TsCall *);
extern TsHandler *const ts_vm_handler[TS_OP_COUNT];

/* Runs op. attr: one for each attribute of the row, NULL for the defaults. On
 * success *nout outputs with one reference each stand in out. `out` must have
 * room for `room` tensors. */
int ts_vm_call(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
               int room, int *nout, TsTensor **out);

/* One output. */
TsTensor *ts_vm_call1(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr);

/* Runs op and writes its first output into x (same shape; x's dtype is kept). */
int ts_vm_call_into(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                    TsTensor *x);

/* Runs a KERNEL row with its first nout outputs in the given tensors, which may be
 * inputs of the same place (an optimiser's step). Each must have the dtype and shape
 * that the row gives and be row-major; otherwise it is made apart and copied in. */
int ts_vm_call_out(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                   int nout, TsTensor *const *out);

/* Several of them, which are all done or, if anything is wrong with one, none. */
typedef struct TsTogether {
  TsOp op;
  int nin, nout;
  TsTensor *in[TS_MAX_IN], *out[TS_MAX_OUT];
  TsAttr attr[TS_MAX_ATTR];
} TsTogether;
int ts_vm_together(TsContext *c, int n, const TsTogether *steps);

/* Gradients of one call (ts_vjp of ir/adjoint/adjoint.h), computed at once. in: inputs, then the
 * gradients of the outputs, NULL where zero. grad_in[0..nin + ngrad): a reference or NULL. */
int ts_vm_vjp(TsContext *c, TsOp op, int nin, int ngrad, TsTensor *const *in,
              const TsAttr *attr, TsTensor *const *second, TsTensor **grad_in);

/* Copies src, broadcast and converted, into the elements of dst. */
int ts_vm_assign(TsContext *c, TsTensor *dst, TsTensor *src);
/* All of them or, if one does not fit or memory runs out, none. Not while a function is
 * captured. */
int ts_vm_assign_all(TsContext *c, int n, TsTensor *const *dst, TsTensor *const *src);
/* The same of values that nobody reads any more: what they hold is given to dst without a copy, where
 * these are no views, and lie where the values do. */
int ts_vm_replace_all(TsContext *c, int n, TsTensor *const *dst, TsTensor *const *src);

/* The options of a call, by name, for C callers:
 *   TsAttr a[TS_MAX_ATTR]; ts_op_defaults(op, a); a[i] = ts_attr_int(3); */
static inline TsAttr ts_attr_int(int64_t i) { return (TsAttr){.type = TS_ATTR_int, .i = i}; }
static inline TsAttr ts_attr_f(double f) { return (TsAttr){.type = TS_ATTR_f, .f = f}; }
static inline TsAttr ts_attr_bool(bool b) { return (TsAttr){.type = TS_ATTR_bool, .i = b}; }
static inline TsAttr ts_attr_dtype(TsDtype d) {
  return (TsAttr){.type = TS_ATTR_dtype, .i = d};
}
static inline TsAttr ts_attr_ints(const int64_t *v, int n) {
  return (TsAttr){.type = TS_ATTR_ints, .n = n, .ints = v};
}

#endif
