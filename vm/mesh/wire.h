/* What crosses devices. Whoever needs tensors of other devices fetches them all, flushes, and then
 * reads them on his own: kernels of a GPU read the memory of another one where they reach it, else
 * bytes are copied. So all moves and sums are the same few steps, however the devices hang
 * together:
 *
 *   TsWire w = ts_wire_begin(c);
 *   ts_wire_fetch(&w, x, device, &there);  .. for each; `there` may be read behind
 *   ts_wire_flush(&w);                     .. this. More of both may follow.
 *   failed = ts_wire_end(&w, failed);
 *
 * Devices are in step at each flush: what is queued on any of them behind it comes after all that
 * was queued on the others before. At the end they are in step once more, as what was fetched may
 * change then. */
#ifndef TS_VM_MESH_WIRE_H
#define TS_VM_MESH_WIRE_H

#include "vm/core/tensor.h"

typedef struct TsWire {
  TsContext *c;
  unsigned devices; /* bit d: tensors of device d are read from another one, or read there */
  TsTensor **lent;  /* which: their memory stays until the end */
  int n, cap;
} TsWire;

TsWire ts_wire_begin(TsContext *c);
/* x, or elements equal to its, on another device, where it is only read: a reference. 0 or -1. */
int ts_wire_fetch(TsWire *w, TsTensor *x, int device, TsTensor **there);
int ts_wire_flush(TsWire *w);
int ts_wire_end(TsWire *w, int failed); /* -1 if something failed */

#endif
