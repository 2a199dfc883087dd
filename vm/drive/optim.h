/* Optimiser steps of a group of parameters as one piece of work. */
#ifndef TS_VM_OPTIM_H
#define TS_VM_OPTIM_H

#include "vm/core/vm.h"

bool ts_optim_groups(TsOp op); /* can stand in a group */
/* Runs n calls of one optimiser, whose outputs are disjoint, with the bits of one after the
 * other. */
int ts_optim_group(int n, TsCall *const *call);

/* The constants of a step, for whoever computes it elsewhere. -1 with the error. */
int ts_optim_constants(TsCall *call, TsOptimStep *step);

#endif
