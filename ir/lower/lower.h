/* From a group of a schedule to its kernel: the one way there is, for captured functions, eager
 * calls, the tuner, and whoever prints one.
 *
 * What a kernel is follows from the group, how its operands lie, the target and what was
 * chosen (TsSched, TsGroup). Operators that units of a target have kernels for stand in the
 * table of ir/lower/lower.c, with what their kernels need of it; groups of others, and
 * operands that none of these take, have the block form of ir/sched. */
#ifndef TS_IR_LOWER_H
#define TS_IR_LOWER_H

#include "ir/sched/sched.h"

struct TsDevice;

/* -1 with the error: why there is no kernel. A caller that runs kernels where it can neither
 * draw nor look at indices before refuses those that want it. */
int ts_lower_group(const TsSched *s, const TsGroup *g, TsLayoutFn *layout, void *arg,
                   TsSchedKernel *out, TsError *err);
/* Of a group that the program chose for (TsGroup.want, pinned): its choice becomes the nearest
 * that its kernel has, and what of it could not be had is told in its remarks. */
void ts_lower_settle(TsSched *s, TsGroup *g, TsLayoutFn *layout, void *arg);
void ts_lower_settle_none(TsSched *s, TsGroup *g); /* where there is no kernel */
/* Why attention or its gradients have a kernel that leaves the target's unit of squares alone;
 * NULL: they use it, or there is none. */
const char *ts_lower_without(const TsSched *s, const TsGroup *g);
/* Whether attention over pages reads them in place on GPUs that can; it does at first. on: of
 * what is lowered from then on, -1 as it is. Gives what it was. */
bool ts_lower_pages_in_place(int on);
/* Of a group that is attention over pages: why they are brought together; NULL: read in
 * place. */
const char *ts_lower_pages_together(const TsSched *s, const TsGroup *g);
/* Of a product whose factors are of other types than that in which it multiplies them: its
 * name. Its kernel copies them first. NULL: they are read as they are. */
const char *ts_lower_factors_become(const TsGroup *g);
/* Whether a node that is a group by itself may have a kernel there that functions launch; steps
 * of optimisers, which stand together, are launched by their calls. */
bool ts_lower_has(const TsTarget *t, const TsNode *n);
/* What runs the kernels of s. */
void ts_lower_for(TsSched *s, const struct TsDevice *d);
/* The kernel is one of the table's, which have looked at how all operands lie. */
static inline bool ts_lower_own(const TsSchedKernel *k) {
  return k->tile->sequence || k->tile->form == TS_FORM_explicit;
}
/* Its kernel writes its result row by row alone, and is worth that. */
bool ts_lower_straight(const TsSched *s, const TsGroup *g, TsLayoutFn *layout, void *arg);

/* Whether the gradients are of this attention and nothing else: they may use its logarithms. */
bool ts_lower_attention_pair(const TsNode *n, const TsNode *grad);
/* By which name the two know them (ir/tile/sequence.h); 0: they cannot. */
uint64_t ts_lower_attention_name(const TsNode *n);

#endif
