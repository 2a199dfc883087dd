/* Convolutions in kernels for a CPU (ir/sched/conv.c, ir/sched/conv_sums.c). */
#ifndef TS_IR_SCHED_CONV_H
#define TS_IR_SCHED_CONV_H

#include "ir/sched/lower.h"

/* Whether a convolution can be the heart of a kernel: f32 or f64, channels first, one group, a
 * window of more than one element, small strides. Others are the VM's. */
bool ts_sched_is_conv(const TsNode *n);
double ts_sched_conv_steps(const TsNode *n);      /* multiply-adds */
const TsNode *ts_sched_conv_of(const TsGroup *g); /* the group's; NULL: it has none */
/* Which nodes of a group of a convolution make its images; by their place in the group. */
uint64_t ts_sched_conv_before(const TsGroup *g);
/* Whether a node can be one of them: pointwise over the images themselves. */
bool ts_sched_conv_takes(const TsNode *conv, const TsNode *n);

/* The words of a convolution's epilogue in their order: rows of Tile IR, or an operand that
 * is added. How many; -1: they are not those that the VM takes, which says why. */
enum { TS_CONV_bias = -1, TS_CONV_residual = -2, TS_CONV_none = -3, TS_CONV_unknown = -4 };
enum { TS_CONV_WORDS = 7 };
int ts_sched_conv_words(const TsNode *conv, int word[TS_CONV_WORDS]);

/* ts_sched_lower of such a group. The kernel begins in explicit form. */
int ts_sched_lower_conv(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg,
                        TsSchedKernel *out, TsError *err);

/* ---- what the two files share */
enum { TS_CONV_TOGETHER = 4 }; /* vectors of what is before and behind at once, at most */

/* Axes are always three: of space that is not there, of one element. */
typedef struct TsConvKernel {
  const TsSched *s;
  const TsGroup *g;
  const TsNode *conv;
  TsLayoutFn *layout;
  void *arg;
  TsError *err;
  TsDtype d;
  int nd, lanes, mr, nv;
  int64_t images, channels, maps; /* N, C, O */
  int64_t in[3], out[3], window[3], stride[3], dilation[3], before[3];
  int64_t rows, some; /* of a round: rows of a result, of its maps */
  int64_t span;       /* elements of a map in a round, `wide` from row to row */
  /* Of the image in a round: rows of a plane, elements of a row, of a plane, of a channel. */
  int64_t high, wide, plane, pitch;
  TsTile *k;
  TsTileBuild b;
  TsLower pre, post;   /* what makes the images, and what follows */
  TsGroup first, last; /* their nodes */
  TsVal x, weights;    /* operands of the convolution */
  TsTileVal w, bias;   /* parameters */
  int nword, word[TS_CONV_WORDS];
  int residual; /* among what follows reads */
  /* Local memory; line: a row whose elements are taken apart. */
  TsTileVal image, sum, line;
  TsTileVal n, depth, row, map; /* the round's: image, plane, first row, first map */
} TsConvKernel;

/* How far a tap of the window is from the first one, in elements of the image: i is its place
 * along an axis of the window. */
int64_t ts_sched_conv_step(const TsConvKernel *p, int axis, int64_t i);
void ts_sched_conv_image(TsConvKernel *p); /* the round's part of an image, padded */
void ts_sched_conv_sums(TsConvKernel *p);
int ts_sched_conv_end(TsConvKernel *p); /* what follows, and the results */

#endif
