/* Numbers given as options, as elements of a type. */
#ifndef TS_VM_ELEMENT_H
#define TS_VM_ELEMENT_H

#include "vm/core/vm.h"

/* The value as one element of type d, in 16 bytes of which the rest is 0. An integer
 * type must have it, other types round it. -1 with the error filled. */
int ts_element_make(TsCall *call, TsDtype d, double value, void *out);

#endif
