/* Images of convolutions (lib/window.h) laid out so that every tap of the window meets
 * neighbouring outputs in neighbouring numbers; their type, and that of weights, is c->acc. */
#ifndef TS_VM_CONV_H
#define TS_VM_CONV_H

#include "lib/window.h"
#include "vm/gemm/gemm.h"
#include "vm/core/vm.h"

enum {
  TS_CONV_FEW_CHANNELS = 7, /* most output channels of a group that are summed directly */
  TS_CONV_SMALL = 128       /* most positions of an image that joins others in one product */
};

/* Element offsets: position p of channel c in image n lies at n*step_n + c*step_c +
 * sum of p*step[a] over the first two axes; along the last axis the positions of a
 * stride lie in phases: position p at (p % stride) * phase + p / stride. */
typedef struct TsConvImage {
  const char *at;
  int64_t step_n, step_c, step[2], phase, stride;
  void *own; /* for ts_work_give, or NULL */
} TsConvImage;

/* The image of x (of c->acc; its channel axis, its first space axis), padded by before
 * and after, or x itself where it needs nothing. -1: error filled. */
int ts_conv_image(TsCall *call, const TsConv *c, TsTensor *x, int channel, int space,
                  bool phases, TsConvImage *image);

int64_t ts_conv_offset(const TsConvImage *m, int64_t channel, const int64_t pos[3]);

/* Offsets of n output positions from the p-th, row-major over size; the image's offset
 * of position 0 is 0. step: what one output position is along the first two axes. */
void ts_conv_positions(const TsConvImage *m, const int64_t size[3], const int64_t step[2],
                       int64_t p, int64_t n, int64_t *at);

/* The same of positions that go on from image to image. */
void ts_conv_joined(const TsConvImage *m, const int64_t size[3], const int64_t step[2],
                    int64_t p, int64_t n, int64_t *at);
/* [channels][images][nbytes] to [images][channels][nbytes]. */
void ts_conv_apart(int64_t images, int64_t channels, int64_t nbytes, char *to,
                   const char *from);

/* Rows of n outputs one behind the other in y, in registers: k->conv.plane of accumulators of
 * `size` bytes, in parts between which interrupts are looked for. */
void ts_conv_plane(const TsKernels *k, int64_t size, char *y, int64_t rows, int64_t n,
                   const char *x, int64_t x_step, const char *w, const int64_t *tap,
                   int64_t ntap);

#endif
