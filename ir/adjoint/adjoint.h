/* Reverse-mode derivatives, built with operators (ir/compose/build.h): whatever a builder makes of
 * an emitted operator, a computed tensor or a node of a graph, its derivative is made of too.
 *
 * A row's adjoint column names its function ts_adjoint_<word> in ir/adjoint/<family>.c:
 *   zero     the derivative is zero wherever it exists (floor, comparisons, argmax)
 *   compose  a COMPOSE row: what it emits is differentiated, never the row itself
 *   none     there is none: differentiating through it is an error
 *
 * Gradients of complex values follow the conjugate convention: for real L and z = x + iy,
 * the gradient of z is dL/dx + i dL/dy, so that z - rate * gradient descends; a holomorphic
 * f multiplies by conj(f'(z)). PyTorch's is the same, JAX's its conjugate. */
#ifndef TS_IR_ADJOINT_H
#define TS_IR_ADJOINT_H

#include "ir/compose/build.h"

/* Which elements of a value another has: along each axis n, `step` apart, from `start` on. Axes
 * behind the value's are of one element. */
typedef struct TsBox {
  int64_t start[TS_MAX_RANK], step[TS_MAX_RANK], n[TS_MAX_RANK];
} TsBox;

/* One call to be differentiated. grad[i] is the gradient of out[i], of its dtype and
 * shape, or NULL where nothing depends on it. The function stores the gradient of input i
 * in grad_in[i] (preset to NULL, which means zero) where wanted[i]; it may leave it with
 * broadcast axes not yet summed and in another dtype: ts_adjoint_fit makes it that of the
 * input. With `boxed`, grad_in[0] is of the elements `box` of input 0, of its rank and dtype, and
 * the others' is zero: what is a part of something says so and leaves to ts_boxes_sum what many
 * parts add up to. Returns 0, or -1 with the builder failed. */
typedef struct TsAdjoint {
  TsBuild *b;
  TsOp op;
  int nin, nout;
  const TsVal *in, *out;
  const TsAttr *attr;
  const TsVal *grad;
  const bool *wanted;
  TsVal *grad_in;
  bool boxed;
  TsBox box;
  void *arg; /* of the tape entry */
} TsAdjoint;

typedef int TsAdjointFn(TsAdjoint *);
extern TsAdjointFn *const ts_adjoint_table[TS_OP_COUNT];

TsAdjointFn ts_adjoint_none, ts_adjoint_zero, ts_adjoint_compose;
#define OP(name, cls, arity, types, dtype, shape, adjoint, ...)                                \
  TsAdjointFn ts_adjoint_##adjoint;
#include "lib/ops.def"
#undef OP

/* g as a gradient of x: broadcast axes summed, cast to x's dtype (of a complex gradient of
 * a real x the real part). */
TsVal ts_adjoint_fit(TsBuild *b, TsVal g, TsVal x);

/* ---- the reverse pass over a list of calls in the order they ran */
typedef struct TsTapeEntry {
  TsOp op;
  int nin, nout;
  const TsVal *in;
  const TsVal *out;
  const TsAttr *attr;
  TsAdjointFn *adjoint; /* instead of the row's, for calls that are no rows; or NULL */
  void *arg;
  int line;   /* for messages: what the caller's where() understands */
  bool bytes; /* see TsNode */
} TsTapeEntry;

typedef struct TsReverse {
  TsBuild *b;
  int ntape;
  const TsTapeEntry *tape;
  int ny, nx;
  const TsVal *y, *dy; /* results and their gradients */
  const TsVal *x;      /* what to differentiate by: any values of the tape */
  int nheld;
  const TsVal *held; /* values that count as given, whatever they were computed from */
  TsVal *dx;         /* out: NULL where y does not depend on x */
  int *line;         /* set to an entry's line while its adjoint runs, or NULL */
  int failed_at;     /* out: the tape entry without an adjoint, or -1 */
} TsReverse;

/* Contributions to one value are added in the order in which the tape, read backwards,
 * makes them. Returns 0, or -1 with the builder failed. */
int ts_reverse(TsReverse *r);

/* The adjoint of a KERNEL row by a definition in other operators, written as for a COMPOSE
 * row: emits the definition and differentiates it. For rows whose own fast form is only
 * needed once, such as the kernels of first derivatives. */
int ts_adjoint_by_definition(TsAdjoint *a, TsComposeFn *definition);

/* The gradients of one call of any row, COMPOSE rows included, from the gradients of its
 * outputs: in[0..nin) inputs, in[nin..nin+ngrad) gradients (NULL: zero) -> grad_in[0..nin).
 * With second: those are not the result but differentiated once more, with second[i] the
 * gradient of grad_in[i], and grad_in[0..nin + ngrad) are the gradients of all of in. */
int ts_vjp(TsBuild *b, TsOp op, int nin, int ngrad, const TsVal *in, const TsAttr *attr,
           const TsVal *second, TsVal *grad_in);

/* ---- short forms for adjoints */
static inline TsVal ts_input(const TsAdjoint *a, int i) { return i < a->nin ? a->in[i] : NULL; }
static inline bool ts_wanted(const TsAdjoint *a, int i) { return i < a->nin && a->wanted[i]; }
/* Wanted, and not the same value as an earlier input: for adjoints that ask for the whole
 * gradient by a value, which must arrive once. */
static inline bool ts_wanted_once(const TsAdjoint *a, int i) {
  for (int k = 0; k < i; k++)
    if (a->wanted[k] && a->in[k] == a->in[i]) return false;
  return a->wanted[i];
}

#endif
