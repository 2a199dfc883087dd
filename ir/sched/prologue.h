/* Prologues of products: pointwise rows that make A or B, in the same kernel. They have that
 * operand's shape, not the space of the group, and are computed while it is packed. */
#ifndef TS_IR_SCHED_PROLOGUE_H
#define TS_IR_SCHED_PROLOGUE_H

#include "ir/sched/why.h"

/* What a node of such a group is part of. */
typedef enum TsSide { TS_SIDE_a, TS_SIDE_b, TS_SIDE_result } TsSide;

const TsNode *ts_sched_product_of(const TsGroup *g); /* NULL: it has none */

enum { TS_PROLOGUE_NODES = 64 }; /* most of a group that has prologues */
/* By node of the group: what it is part of. False: one is part of both operands, or there are too
 * many. */
bool ts_sched_sides(const TsGroup *g, uint8_t side[TS_PROLOGUE_NODES]);
/* n can be in the prologue of an operand of this shape. */
bool ts_sched_in_prologue(const TsNode *n, const TsMeta *operand);

/* B of this product might get one. */
bool ts_sched_prologue_of_b(const TsNode *product);
/* Whether the group that makes this operand of g's product, and serves nobody else, can be its
 * prologue, and whether that pays; w: why, or why not. */
bool ts_sched_prologue_pays(const TsSched *s, const TsGroup *from, const TsGroup *g,
                            TsSide side, TsWhy *w);

#endif
