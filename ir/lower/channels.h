/* Images with their channels last, through a whole graph.
 *
 * Convolutions of a matrix unit make images with channels last and read such ones; what is
 * summed for each channel, and numbers of a channel beside its elements, are then columns of a
 * matrix (ir/sched/lanes.c). So where a target has such a unit everything between convolutions
 * works so: pointwise rows, casts, reductions over all axes but the channels or over the space,
 * pools, their gradients, joined channels. Convolutions stay as they are and look at their
 * images by views of permuted axes; others see such views as well, which are copies where they
 * want another order. What is cheap to compute once more from 16 bits is, by each who reads it,
 * rather than kept in 32.
 *
 * No bit changes: elements of a reduction keep their order (image, then position), a variance
 * is spelled out as it is defined (lib/reduce.h). */
#ifndef TS_IR_LOWER_CHANNELS_H
#define TS_IR_LOWER_CHANNELS_H

#include "ir/sched/sched.h"

/* s: a schedule without groups, of which target, profile and what runs the kernels count. *out:
 * the graph so, in a module of its own, or NULL where nothing is won. Bound parameters are
 * handed over as they are. -1 with the error. */
int ts_lower_channels(const TsSched *s, const TsGraph *from, TsGraph **out, TsError *err);

/* Whether convolution n is the unit's, whose result lies channels last by itself. */
bool ts_lower_conv_by_unit(const TsSched *s, const TsNode *n);
/* Whether all who read that look at it with channels last, so that it is written so. */
bool ts_lower_conv_turned(const TsSched *s, const TsNode *n);

#endif
