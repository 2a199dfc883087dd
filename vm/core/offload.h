/* Calls on devices with kernels of their own: a tier above runs them there
 * (jit/eager/offload.c). The VM knows no more than this: whom to ask. What is refused runs
 * on the CPU over fetched bytes, with the same bits; TsContext.on_host says that a handler
 * or a function does, so that what it makes on the way belongs to the CPU. */
#ifndef TS_VM_OFFLOAD_H
#define TS_VM_OFFLOAD_H

#include "devices/device.h"
#include "vm/core/vm.h"

struct TsGuard;
struct TsMeshSum;
struct TsMeshBox;

/* 1: it was queued on the device; 0: it is not for the device, and nothing happened; -1: the
 * error is filled. */
typedef struct TsOffload {
  /* The outputs are there, of the device, row-major, and are not read; some may be inputs, if
   * in_place. */
  int (*call)(TsCall *call, int device, bool in_place);
  /* src, broadcast and converted, into the elements of dst, which is of the device; both may be
   * views. They share no storage. */
  int (*assign)(TsContext *c, TsTensor *dst, TsTensor *src);
  /* The kernel of such an assignment is there afterwards, if it is the device's, and both tensors
   * are: one of several must not fail by that. 0 or -1. */
  int (*ready)(TsContext *c, TsTensor *dst, TsTensor *src);
  /* A function begins and ends on a device; slot: what is remembered of it, NULL at first. The
   * end may fail with launches that were put off. What is outside of functions is not put
   * off. */
  void (*enter)(TsContext *c, int device, void **slot);
  int (*leave)(TsContext *c);
  void (*forget)(void *slot);
  /* Bytes are about to move: what was put off is queued now. fetched: to the host, which waits;
   * an index that was out of range is told then. */
  int (*flush)(TsContext *c, bool fetched);
  /* 1: the device looks whether the numbers of an index, which the host has not, are in range;
   * 0: it cannot; -1. */
  int (*guard)(TsContext *c, const struct TsGuard *g, TsTensor *index);
  /* Calls in a row that need nothing of each other, as call with in_place: how many of them,
   * from the first on, were queued; -1 with the error. */
  int (*group)(TsContext *c, int n, TsCall *const *call, int device);
  /* A sum of summands of several devices (vm/mesh/combine.h), the nth of n that are done at once, by
   * kernels that meet each other; its results are made. Optional. */
  int (*sum)(TsContext *c, const struct TsMeshSum *s, int nth, int n);
  /* And boxes that go from device to device. */
  int (*exchange)(TsContext *c, int n, const struct TsMeshBox *box);
} TsOffload;

/* Whether calls on tensors of this device are asked for. */
static inline bool ts_offload_on(const TsContext *c, int device) {
  return device && c->offload && !c->on_host && ts_device_at(device)->runs_kernels &&
         !ts_device_at(device)->host_memory;
}

/* The handler of a call over fetched bytes. Outputs that are there may be anywhere. */
int ts_offload_here(TsHandler *handler, TsCall *call);

#endif
