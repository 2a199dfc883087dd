/* Many tensors change at once, all or none. */
#ifndef TS_VM_COMMIT_H
#define TS_VM_COMMIT_H

#include "vm/core/vm.h"

/* dst[i] gets the elements of src[i], which nobody needs afterwards. Where both have memory of their
 * own on the same devices they exchange it, which nothing can refuse; what has to be copied is
 * copied before, so that a device that fails leaves the others as they were. 0 or -1. */
int ts_vm_commit(TsContext *c, int n, TsTensor *const *dst, TsTensor *const *src);

#endif
