/* Products of a schedule in explicit form: as kernels with roles (ir/tile/gpu/product.h), where
 * the device has a copy engine and the matrix unit of sm_90a, and operands lie as these want
 * them; else of warps that copy and multiply (ir/tile/gpu/mma.h). */
#ifndef TS_JIT_DEVICE_PRODUCT_H
#define TS_JIT_DEVICE_PRODUCT_H

#include "devices/device.h"
#include "ir/sched/sched.h"
#include "ir/tile/gpu/mma.h"
#include "vm/core/context.h"

/* As ts_sched_lower, for groups that are one matmul, and rows behind it. False: there is no such
 * kernel for it, and the block form is asked for; with an error if something else failed.
 * Strict: multiply-adds for 16 bits, as the chain of a matrix unit is another one than the
 * CPU's. Fast: f32 on the matrix unit. */
bool ts_device_product(TsDevice *d, const TsSched *s, const TsGroup *group, TsProfile profile,
                       TsLayoutFn *layout, void *arg, TsSchedKernel *out, TsError *err);
/* The same for attention (ir/tile/gpu/attention.h). */
bool ts_device_attention(TsDevice *d, const TsGroup *group, bool strict, TsLayoutFn *layout,
                         void *arg, TsSchedKernel *out, TsError *err);
/* The same for attention of few queries (ir/tile/gpu/decode.h), not for strict. */
bool ts_device_decode(TsDevice *d, const TsGroup *group, TsLayoutFn *layout, void *arg,
                      TsSchedKernel *out, TsError *err);

/* And for its gradients (ir/tile/gpu/attention_grad.h), a kernel of several parts. */
bool ts_device_attention_grad(TsDevice *d, const TsGroup *group, bool strict,
                              TsLayoutFn *layout, void *arg, TsSchedKernel *out, TsError *err);

/* Whether the gradients are of this attention and nothing else: they may use its logarithms. */
bool ts_device_attention_pair(const TsNode *n, const TsNode *grad);
/* By which name the two know them (ir/tile/parts.h); 0: they cannot. */
uint64_t ts_device_attention_name(const TsNode *n);

/* ---- what all ask */
bool ts_device_row_major(TsLayoutFn *layout, void *arg, TsVal v);
/* Multiprocessors; 0: it runs no kernels with roles. A simulated device runs those that are
 * small enough for the interpreter. */
int ts_device_processors(TsDevice *d, bool small, TsError *err);
/* What kernels of warps have there; false: it runs none. */
bool ts_device_room(TsDevice *d, bool small, TsGpuRoom *room, TsError *err);

#endif
