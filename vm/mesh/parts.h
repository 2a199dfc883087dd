/* Tensors that are spread over a mesh. Such a tensor has a storage whose only copy is a table of
 * parts, each a tensor of its own on its device (devices/registry.c gives TS_DEVICE_MESH the
 * functions of parts.c). So residency is decided as for all others: whoever reads the bytes on the
 * host gets them gathered, and what the host writes is dealt out again. It is always a whole one:
 * views of it are tables of views. */
#ifndef TS_VM_MESH_PARTS_H
#define TS_VM_MESH_PARTS_H

#include "lib/mesh.h"
#include "vm/core/tensor.h"

typedef struct TsParts TsParts;
struct TsParts {
  TsMeta meta;   /* of the whole, with its layout */
  bool copied;   /* it was to be a view, but its elements had to move: writing would be lost */
  uint64_t seen; /* changes of the parts' storages, when the host read them */
  int n;
  TsTensor *part[]; /* those of other processes without elements (vm/mesh/away.h) */
};

/* Summands and what they are of: parts of a layout with `partial` have a first axis of the sums of
 * the largest subtrees that a device has of the tree of leaves (vm/mesh/leaves.h). */

/* How many part p has of them. */
int ts_mesh_summands(const TsLayout *l, int p);

static inline bool ts_mesh_is(const TsTensor *t) { return t->meta.device == TS_DEVICE_MESH; }

/* A tensor of these parts, one reference each, which it takes even if it fails. whole: type and
 * layout. NULL with the error. */
TsTensor *ts_mesh_tensor(TsContext *c, const TsMeta *whole, TsTensor **part);
/* The parts of t, which is on a mesh, with current elements. NULL with the error. */
TsParts *ts_mesh_parts(TsTensor *t);

void ts_mesh_open(void); /* the device of all meshes; once a process */

typedef enum TsMeshShare {
  TS_MESH_SHARE_none,   /* parts have bytes of their own */
  TS_MESH_SHARE_source, /* they may be those of the tensor, as it is only read */
  TS_MESH_SHARE_all,    /* and in one memory those of each other: nobody will write them */
} TsMeshShare;
/* t, on a mesh or not, as it lies under l, of this mesh or another one. */
TsTensor *ts_mesh_move(TsContext *c, TsTensor *t, const TsLayout *l, TsMeshShare share);
/* The same of parts without summands. */
TsTensor *ts_mesh_moved_parts(TsContext *c, const TsParts *from, const TsLayout *l,
                              TsMeshShare share);
/* t itself lies under l from now on: whoever has it sees so. Not of views, nor of what others see
 * by views. 0 or -1. */
int ts_mesh_spread(TsContext *c, TsTensor *t, const TsLayout *l);
/* src, broadcast, as it lies where dst does, to be copied into its parts: a reference in *lying, or
 * NULL for a bare number, which each part takes. False with the error. */
bool ts_mesh_fitting(TsContext *c, TsTensor *dst, TsTensor *src, TsTensor **lying);

#endif
