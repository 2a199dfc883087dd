/* Convolutions of 16-bit floats on a matrix unit (ir/tile/gpu/conv.h). */
#ifndef TS_JIT_OFFLOAD_CONV_UNIT_H
#define TS_JIT_OFFLOAD_CONV_UNIT_H

#include "ir/tile/gpu/conv.h"
#include "jit/eager/family/own.h"
#include "vm/drive/conv.h"

typedef struct TsConvUnit {
  TsConv c;               /* window, stride, before, dilation: positive */
  bool last;              /* x and y have channels last */
  bool transposed;        /* the gradient of one of stride 1: w is [channels in, out, window] */
  TsTensor *x, *w, *bias; /* bias may be NULL; of the gradient
                           * of weights, w is that of the result */
} TsConvUnit;

/* As a family: 0 where there is no matrix unit for it, or the profile is strict. */
int ts_conv_unit(TsOffloader *o, const TsCall *call, int device, const TsConvUnit *u);

/* The gradient of the weights. */
int ts_conv_unit_grad(TsOffloader *o, const TsCall *call, int device, const TsConvUnit *u);

/* ---- shared by jit/eager/family/conv_*.c */
typedef struct TsConvJob {
  TsOffloader *o;
  const TsCall *call;
  int device;
  const TsConvUnit *u;
  int64_t channels, n;     /* in, out */
  int64_t q[3], before[3]; /* positions of the result with the window's; of padding */
  int64_t rows;            /* of all images */
  TsGpuConv k;
  TsTensor *a, *w, *bias, *c;
} TsConvJob;

/* Sizes of what the kernels read; false: it is not for them. */
bool ts_conv_plan(TsConvJob *j);
int ts_conv_processors(const TsConvJob *j); /* 0: none for this */

void ts_conv_words(TsOwn *k, const TsGpuConv *x);

typedef struct TsConvView {
  TsMeta m;
  int64_t stride[TS_MAX_RANK], offset;
} TsConvView;

TsConvView ts_conv_view(const TsTensor *t); /* without axes */
void ts_conv_axis(TsConvView *v, int64_t dim, int64_t stride);
/* [batch, space.., channels] of an image with the call's layout, and of a row-major one. */
TsConvView ts_conv_image_of(const TsConvJob *j, TsTensor *t, const int64_t size[3],
                            int64_t channels);
TsConvView ts_conv_padded(const TsConvJob *j, TsTensor *t, const int64_t size[3],
                          int64_t channels);
/* to takes from, converted. */
int ts_conv_move(const TsConvJob *j, TsTensor *to, const TsConvView *vt, TsTensor *from,
                 const TsConvView *vf);
TsTensor *ts_conv_room(const TsConvJob *j, TsDtype d, int64_t n);
int ts_conv_zero(const TsConvJob *j, TsTensor *t);
bool ts_conv_lies_well(const TsTensor *t); /* as the copy engine wants it */
int ts_conv_make_image(TsConvJob *j);      /* j->a */

#endif
