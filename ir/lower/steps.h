/* Operators that a GPU does in steps: kernels of Tile IR one behind the other, what they leave
 * to each other in memory of their own. A family of operators (ir/lower/<family>.c) says which
 * kernels those are, of a node, types and sizes; here is where operands lie otherwise than a
 * kernel wants them, which parameter is whose, and that a single step is an ordinary kernel.
 *
 *   TsSteps x;
 *   ts_steps_begin(&x, s, layout, arg, n, err);
 *   int arg[] = {ts_steps_in(&x, 0, NULL), ts_steps_temp(&x, nbytes), ts_steps_out(&x, 0, NULL)};
 *   ts_steps_add(&x, kernel, arg, dim);
 *   return ts_steps_end(&x, out);
 *
 * After a failure all calls do nothing, and the end says so. */
#ifndef TS_IR_LOWER_STEPS_H
#define TS_IR_LOWER_STEPS_H

#include "ir/lower/row.h"
#include "ir/tile/sequence.h"

/* Axes of a value in another order: axis i of what a step sees is axis at[i] of the value. */
typedef struct TsStepsOrder {
  int at[TS_MAX_RANK];
} TsStepsOrder;
/* Axis `axis` behind the others. */
TsStepsOrder ts_steps_last(const TsMeta *m, int axis);

enum { TS_STEPS_FROM = 64 };

typedef struct TsSteps {
  const TsSched *s;
  TsLayoutFn *layout;
  void *layout_arg;
  const TsNode *n;
  TsError *err;
  TsTile *whole;
  TsTileSequence *sequence;
  int nin, nout; /* parameters so far: inputs, results */
  TsVal in[TS_TILE_STEP_PARAMS], out[TS_TILE_STEP_PARAMS];
  int nfrom; /* arguments that begin later than others */
  struct TsStepsFrom {
    int arg;
    int64_t byte;
  } from[TS_STEPS_FROM];
  int nback; /* results that are brought to their places at the end */
  struct TsStepsBack {
    int from;
    bool transposed;
    TsStepsOrder order;
    TsVal to;
  } back[TS_TILE_STEP_PARAMS];
  TsSchedKernel kernel; /* guards and draws, by argument, until the end */
  int nsize;            /* sizes of the whole */
  struct TsStepsSize {
    enum {
      TS_STEPS_NUMBER,
      TS_STEPS_ATTR,
      TS_STEPS_ELEMENTS,
      TS_STEPS_SEED,
      TS_STEPS_STREAM
    } kind;
    int which; /* operand, attribute */
  } size[TS_TILE_DIMS];
  bool failed;
} TsSteps;

bool ts_steps_begin(TsSteps *x, const TsSched *s, TsLayoutFn *layout, void *arg,
                    const TsNode *n, TsError *err);

/* An argument that has operand i of the node (result i) row-major in that order of its axes,
 * NULL: its own: the parameter where it lies so, else a copy. */
int ts_steps_in(TsSteps *x, int i, const TsStepsOrder *order);
int ts_steps_out(TsSteps *x, int i, const TsStepsOrder *order);
/* Operand i as it lies, for steps that know its strides: those of a value, in elements. */
int ts_steps_in_place(TsSteps *x, int i);
int ts_steps_into(TsSteps *x, int i); /* the same of result i */
/* Memory between steps, and constants, which stay in memory; data is copied. */
int ts_steps_temp(TsSteps *x, int64_t nbytes);
int ts_steps_table(TsSteps *x, const void *data, int64_t nbytes);
/* An argument that is another one from that byte on. */
int ts_steps_from(TsSteps *x, int arg, int64_t byte);
/* The next step, which takes k over. arg: one a parameter of k; dim: its sizes. */
void ts_steps_add(TsSteps *x, TsTile *k, const int *arg, const int64_t *dim);

/* ---- the kernel of another graph as steps (ir/lower/steps_kernel.c) */
/* A schedule of g, which is one group, for what runs s. NULL with the error. */
TsSched *ts_steps_schedule(const TsSched *s, const TsGraph *g, TsError *err);
/* Whether a kernel needs nothing but its arguments and memory between its steps. */
bool ts_steps_takes(const TsSchedKernel *k);
/* Such a kernel, which is taken over, as a step; a sequence as its steps. */
void ts_steps_add_kernel(TsSteps *x, TsTile *k, const int *arg, const int64_t *dim);

/* ---- common steps */
/* Elements of an argument as somebody sees them, strides in elements. */
typedef struct TsStepsView {
  int arg;
  TsDtype dtype;
  int64_t stride[TS_MAX_RANK];
} TsStepsView;
/* Operand i, result i, as it lies. */
TsStepsView ts_steps_in_view(TsSteps *x, int i);
TsStepsView ts_steps_out_view(TsSteps *x, int i);
/* to becomes from, converted as operator cast does. */
void ts_steps_copy(TsSteps *x, int ndim, const int64_t *dim, const TsStepsView *to,
                   const TsStepsView *from);
/* The same of axes that are named one after the other, with their strides. */
typedef struct TsStepsMove {
  int ndim;
  int64_t dim[TS_MAX_RANK];
  TsStepsView to, from;
} TsStepsMove;
void ts_steps_along(TsStepsMove *m, int64_t dim, int64_t to, int64_t from);
void ts_steps_move(TsSteps *x, const TsStepsMove *m);
/* Operand i row-major in type d. */
int ts_steps_in_as(TsSteps *x, int i, const TsStepsOrder *order, TsDtype d);
/* Operand i, which is of type d or a bare number, broadcast to the axes of `like`,
 * row-major. */
int ts_steps_in_spread(TsSteps *x, int i, const TsMeta *like, TsDtype d);
/* n elements become v. */
void ts_steps_fill(TsSteps *x, int arg, TsDtype d, int64_t n, double v);

/* ---- sizes that are known when the kernel runs: numbers of the whole, by their place in it */
/* Of an operand that is a bare number, its bits as f64; of attribute `attr`, a whole number;
 * of a draw the seed, the next one is the stream. */
int ts_steps_number(TsSteps *x, int i);
int ts_steps_elements(TsSteps *x); /* of the first result */
int ts_steps_attr(TsSteps *x, int attr);
int ts_steps_draw(TsSteps *x);
/* Size d of the last step is number `of`. */
void ts_steps_bind(TsSteps *x, int d, int of);
/* Operand i of the node, an argument of a step, holds places that must be in range. */
void ts_steps_guard(TsSteps *x, int i);
/* 1 with the kernel; -1 with the error. */
int ts_steps_end(TsSteps *x, TsSchedKernel *out);

/* Sizes before, along and behind an axis, which may count from the end. */
typedef struct TsStepsAxis {
  int at;
  int64_t outer, n, inner;
} TsStepsAxis;
TsStepsAxis ts_steps_axis(const TsMeta *m, int64_t axis);

#endif
