/* Pieces that adjoints of several families are made of. All pass NULL through. */
#ifndef TS_IR_ADJOINT_PARTS_H
#define TS_IR_ADJOINT_PARTS_H

#include "ir/adjoint.h"

bool ts_part_is_complex(TsBuild *b, TsVal x);
/* x in the type in which its functions are computed: f32 for narrower floats. */
TsVal ts_part_wide(TsBuild *b, TsVal x);
/* Infinity where x is 0: what is divided by it is 0 there, and so is the derivative of the
 * quotient, in every order. */
TsVal ts_part_divisor(TsBuild *b, TsVal x);

/* ---- along one axis, counted from 0 */
TsVal ts_part_flip(TsBuild *b, TsVal x, int axis);
TsVal ts_part_scan(TsBuild *b, TsOp op, TsVal x, int axis);
/* x[i-1], with first at the beginning; of an axis that is not empty. */
TsVal ts_part_previous(TsBuild *b, TsVal x, int axis, double first);
/* s[i] = g[i] + c[i+1] s[i+1], from the end. */
TsVal ts_part_from_end(TsBuild *b, TsVal c, TsVal g, int axis);

#endif
