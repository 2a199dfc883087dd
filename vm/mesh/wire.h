/* What crosses devices. Whoever needs tensors of other devices fetches them all, flushes, and then
 * reads them on his own: kernels of a GPU read the memory of another one where they reach it, else
 * bytes are copied. So all moves and sums are the same few steps, however the devices hang
 * together:
 *
 *   TsWire w = ts_wire_begin(c);
 *   ts_wire_fetch(&w, x, from, to, &there);  .. for each; `there` may be read behind
 *   ts_wire_flush(&w);                     .. this. More of both may follow.
 *   failed = ts_wire_end(&w, failed);
 *
 * Devices are in step at each flush: what is queued on any of them behind it comes after all that
 * was queued on the others before. At the end they are in step once more, as what was fetched may
 * change then.
 *
 * Ends may be other processes' (vm/mesh/away.h). All processes fetch the same in the same order, whoever
 * the ends are, and what goes from one to another goes at the flush. */
#ifndef TS_VM_MESH_WIRE_H
#define TS_VM_MESH_WIRE_H

#include "lib/mesh.h"
#include "vm/core/tensor.h"

/* Whose a tensor is: a process, and a device of it. */
typedef struct TsWireEnd {
  int rank;   /* -1: each process has its own */
  int device; /* TS_DEVICE_AWAY: another process's */
  bool host;  /* it has memory of the host */
} TsWireEnd;

/* Part p of a mesh. */
TsWireEnd ts_wire_end_of(const TsMesh *m, int p);
/* What one of them reads the other one has in the same memory. */
bool ts_wire_same_memory(const TsMesh *m, int p, const TsMesh *of, int q);

/* What goes from one process to another. */
typedef struct TsWirePost {
  int from, to;
  int64_t nbytes;
  TsTensor *x; /* to be sent, or received; NULL: of others */
  bool gpu;
} TsWirePost;

typedef struct TsWire {
  TsContext *c;
  unsigned devices; /* bit d: tensors of device d are read from another one, or read there */
  TsTensor **lent;  /* which: their memory stays until the end */
  int n, cap;
  TsWirePost *post;
  int npost, cappost, rounds; /* rounds: of posts that went */
  struct TsWireCopy *copy;    /* what copy engines bring at the next flush */
  int ncopy, capcopy;
  bool engines;       /* whole tensors of other devices are copied, not read where they are */
  bool timed, failed; /* it is recorded (vm/mesh/times.h); it could not begin */
} TsWire;

TsWire ts_wire_begin(TsContext *c);
/* x, which is one's, or elements equal to its, for another one, who only reads them: a reference. 0 or
 * -1. */
int ts_wire_fetch(TsWire *w, TsTensor *x, TsWireEnd from, TsWireEnd to, TsTensor **there);
int ts_wire_flush(TsWire *w);
int ts_wire_end(TsWire *w, int failed); /* -1 if something failed */

#endif
