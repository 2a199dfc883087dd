/* Parts of a call, for vm.c and vm_into.c. */
#ifndef TS_VM_CALL_H
#define TS_VM_CALL_H

#include "lib/op.h"
#include "vm/core/vm.h"

int ts_call_check(TsContext *c, const TsOpInfo *o, int nin, TsTensor *const *in); /* how many */
int ts_call_device(TsCall *call); /* where it runs; -1 with the error */
/* Types of the results. meta: room for those of the inputs. */
int ts_call_infer(TsCall *call, TsInfer *inf, const TsMeta **meta);
/* Bare numbers as what the row takes them as: call->in becomes own, room for as many, of which
 * _release frees what is not in's. 0 where all are as they should be, or -1. */
int ts_call_numbers(TsCall *call, const TsInfer *inf, TsTensor **own);
void ts_call_release_numbers(const TsCall *call, TsTensor *const *in);
int ts_call_fetch(const TsCall *call); /* bytes of the CPU's tensors that a device made */
void ts_call_note(TsCall *call);       /* it has run */
int ts_call_interrupted(TsContext *c, TsOp op); /* the error */

#endif
