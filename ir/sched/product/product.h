/* Products in kernels (ir/sched/product/product.c). */
#ifndef TS_IR_SCHED_PRODUCT_H
#define TS_IR_SCHED_PRODUCT_H

#include "ir/sched/sched.h"
#include "ir/tile/product/product.h"

/* Whether a matmul can be the heart of a kernel: types and shapes for which there is one that
 * is as fast as the VM's. */
bool ts_sched_is_product(const TsNode *n);
/* One of types and sizes that a kernel is for, whatever its depth. */
bool ts_sched_is_large_product(const TsNode *n);
/* The profile is "fast", and the processor has an instruction for pairs of bf16. */
bool ts_sched_by_pairs(const TsSched *s, const TsNode *n);
/* The VM is as fast, unless what makes B joins it: columns of int8 in f32 with a scale take half
 * the time, or two thirds, for 32 or 64 rows, while relu of A with 1024 columns takes as long. */
bool ts_sched_needs_prologue(const TsNode *n);
/* Whether there is one at all: any sizes, on a processor where no other would be near. */
bool ts_sched_is_any_product(const TsTarget *t, const TsNode *n);
/* Whether its unit makes squares of sums of such operands (ir/sched/product/square.c). */
bool ts_sched_square_has(const TsTarget *t, TsDtype d);
/* The name of AMD's, where it makes sums of such numbers in this profile, of `factor`; NULL. */
const char *ts_sched_square_unit(const TsSched *s, TsDtype d, TsDtype *factor);
double ts_sched_product_steps(const TsNode *n); /* multiply-adds */

/* The size of a group's product and the type of its sums, where operands lie row-major; false:
 * there is none. */
bool ts_sched_product_size(const TsSched *s, const TsGroup *group, TsProductSize *size,
                           TsDtype *d);
/* In a few words how the target's unit makes squares of its sums; none if it does not. */
void ts_sched_product_how(const TsSched *s, const TsGroup *group, TsText *text);

/* ts_sched_lower of a group of kind matmul. */
int ts_sched_lower_product(const TsSched *s, const TsGroup *group, TsLayoutFn *layout,
                           void *arg, TsSchedKernel *out, TsError *err);

#endif
