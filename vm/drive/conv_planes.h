/* Depthwise convolutions of small images: each plane is padded where it is used, in the first cache. */
#ifndef TS_VM_CONV_PLANES_H
#define TS_VM_CONV_PLANES_H

#include "vm/drive/conv.h"

typedef struct TsConvPlanes {
  const TsConv *c;
  const TsKernels *k;
  const TsTensor *x; /* [batch][channels]..., of c->acc */
  const char *w;     /* [channels][taps] */
  char *y;           /* [batch][channels][positions]; NULL: sums are finish's alone */
  void (*finish)(void *arg, char *sums, int64_t image, int64_t channel); /* or NULL */
  void *arg;
} TsConvPlanes;

/* x may have any strides. */
bool ts_conv_planes_fit(const TsConv *c, const TsTensor *x);
/* -1: no memory. */
int ts_conv_planes(const TsConvPlanes *p);

#endif
