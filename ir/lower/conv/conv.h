/* Convolutions on a GPU: as products on the matrix unit (ir/lower/conv/unit.c), else as chains of
 * multiply-adds, one an element (ir/lower/conv/chain.c). */
#ifndef TS_IR_LOWER_CONV_H
#define TS_IR_LOWER_CONV_H

#include "ir/lower/short.h"
#include "ir/lower/steps.h"
#include "ir/tile/gpu/conv.h"
#include "lib/window.h"

/* Of a transposed one of a stride the results that the same places of the window meet: along each
 * axis the first of them and how far one is from the next; the first place and the same. */
typedef struct TsConvPhase {
  int64_t at[3], stride[3], place[3], step[3];
} TsConvPhase;

enum { TS_CONV_PHASES = 16 };

/* A node: of conv1d .. conv3d, of the gradient of their weights, or a transposed one,
 * whose weights are [channels in, out, window]; with in_phases c is the geometry of a phase. */
typedef struct TsConvWork {
  const TsNode *n;
  TsConv c;
  TsDtype d; /* of operands and result */
  bool grad, transposed;
  bool last; /* channels are the last axis */
  bool bias, residual, relu;
  bool in_phases;
  TsConvPhase phase;
} TsConvWork;

/* Each as a row of the table: 1, 0 or -1. */
int ts_conv_chain(const TsConvWork *w, const TsSched *s, TsLayoutFn *layout, void *arg,
                  TsSchedKernel *out, TsError *err);
int ts_conv_unit(const TsConvWork *w, const TsSched *s, const TsSchedChoice *c,
                 TsLayoutFn *layout, void *arg, TsSchedKernel *out, TsError *err);
bool ts_conv_unit_takes(const TsConvWork *w,
                        const TsSched *s); /* whether the second makes it */
int ts_conv_unit_grad(const TsConvWork *w, const TsSched *s, TsLayoutFn *layout, void *arg,
                      TsSchedKernel *out, TsError *err);

/* ---- ir/lower/conv/phases.c: transposed convolutions of a stride, which have phases. How many, 0: too
 * many. */
int ts_conv_phases(const TsConvWork *w);
bool ts_conv_has_phases(const TsConvWork *w);
/* Phase i of w, of stride 1. False: no place of the window meets it. */
bool ts_conv_phase(const TsConvWork *w, int i, TsConvWork *own);
/* An argument that has the phase's weights, [in, out, places], or with taps [out, places, channels] with
 * zeros behind those in. */
int ts_conv_phase_weights(TsSteps *x, const TsConvWork *w, bool taps, int64_t channels);
/* Puts its results where they belong, of an argument in which images, channels and positions are so
 * far apart; puts zeros there. */
void ts_conv_phase_back(TsSteps *x, const TsConvWork *w, int arg, const int64_t stride[5]);
void ts_conv_phase_zeros(TsSteps *x, const TsConvWork *w);

/* ---- ir/lower/conv/padded.c: values with padding around them, row-major in an order of their
 * axes. */
typedef struct TsConvPadded {
  TsStepsOrder order;
  int ndim;
  int64_t size[TS_MAX_RANK];  /* along each axis, in that order */
  int64_t first[TS_MAX_RANK]; /* where the value's elements begin */
  int64_t part[TS_MAX_RANK];  /* how many there are of them */
} TsConvPadded;

/* As large as the value; axis `axis` behind the others. */
TsConvPadded ts_conv_padded(const TsMeta *m, int axis);
int64_t ts_conv_padded_numel(const TsConvPadded *r);
/* An argument that has operand i padded by zeros. */
int ts_conv_padded_in(TsSteps *x, int i, const TsConvPadded *r);
/* An argument for the padded result, whose elements go to the result by
 * ts_conv_padded_back, if they are not there. */
int ts_conv_padded_out(TsSteps *x, const TsConvPadded *r);
void ts_conv_padded_back(TsSteps *x, int arg, const TsConvPadded *r);

/* ---- what convolutions on a unit and the gradients of their weights share */
typedef struct TsConvUnit {
  const TsConvWork *w;
  TsSteps x;
  int64_t channels, n;     /* in, out */
  bool folded;             /* windows are rows of a matrix */
  int64_t q[3], before[3]; /* positions of the result with the window's; of padding */
  int64_t rows;            /* of all images */
  TsGpuConv k;
} TsConvUnit;

/* Sizes of what the kernels read; false: it is not for them. */
bool ts_conv_unit_plan(TsConvUnit *u, const TsConvWork *w, const TsSched *s);
int ts_conv_unit_processors(const TsConvUnit *u, const TsSched *s); /* 0: none for this */
/* The image, channels last and positions of a stride side by side, or rows of windows. */
int ts_conv_unit_image(TsConvUnit *u);
/* Of m [batch, .. ], an operand or the result, with q positions. */
TsConvPadded ts_conv_unit_padded(const TsConvUnit *u, const TsMeta *m);

/* ---- ir/lower/conv/folded.c: those of few channels. What each window sees; weights as such rows, and
 * how far apart they lie there along each axis of the value, in rows of so many numbers. */
int ts_conv_folded_image(TsConvUnit *u);
int ts_conv_folded_weights(TsConvUnit *u);
void ts_conv_folded_strides(const TsConvUnit *u, int ndim, int64_t row, int64_t *stride);

#endif
