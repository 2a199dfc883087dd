/* Kernels of Tile IR with roles, stages and barriers (ir/tile/gpu/product.c) as PTX, statement
 * by statement: nothing is scheduled here, the Tile IR says what happens when. No GPU is
 * needed.
 *
 * The PTX has one entry: a pointer for each parameter and one for scratch if there
 * is some, then the tensor maps by value (128 bytes
 * each), then the symbolic sizes as i64. Its grid is the rounds of the parallel loop times the
 * blocks of a cluster. */
#ifndef TS_JIT_GPU_ROLES_H
#define TS_JIT_GPU_ROLES_H

#include "devices/device.h"
#include "ir/tile/tile.h"

enum { TS_GPU_MAPS = 8 };

/* A view of a parameter for the copy engine: boxes of so many rows and columns. Elements
 * outside of the parameter are zeros, and are not written. */
typedef struct TsGpuMap {
  int param;
  int rows, cols; /* of the box, along the last two axes */
  int panels;     /* of a parameter of rank 3, 4: how many times cols the box has; 0: one */
  int swizzle;    /* bytes of the pattern in shared memory, 0: none */
} TsGpuMap;

typedef struct TsGpuRoles {
  char name[48];
  int threads, cluster; /* cluster: at least 1 */
  uint32_t shared;      /* bytes of dynamic shared memory */
  bool dependent;       /* waits for the launch before only to write: TsLaunch.dependent */
  int64_t scratch;      /* bytes of device memory, zeros when it begins and when it ends */
  int nparam, ndim, nmap;
  TsGpuMap map[TS_GPU_MAPS];
} TsGpuRoles;

/* Appends the PTX, or the LLVM IR behind the passes. Without LLVM a sentence. */
int ts_gpu_roles_text(const TsTile *k, bool llvm, TsGpuRoles *info, TsText *text, TsError *err);

/* ---- jit/gpu/sound.c: may what was read from disk be launched for this kernel? */
bool ts_gpu_roles_sound(const TsGpuRoles *r, const TsTile *k, const TsTarget *t);

/* ---- jit/gpu/map.c: on a device */
/* A view as an argument, TS_TENSOR_MAP_NBYTES, for the parameter at this address. */
int ts_gpu_roles_map(TsDevice *d, const TsTile *k, const TsGpuMap *map, void *at,
                     const int64_t *dim, void *out, TsError *err);
/* Queued: a kernel of this outline. arg: addresses of the parameters on the device; dim: the
 * sizes, of which the last says how many rounds the grid has; scratch: on the device, which one
 * launch at a time uses, or NULL if it needs none. */
int ts_gpu_roles_launch(TsDevice *d, void *kernel, const TsTile *k, const TsGpuRoles *info,
                        void *const *arg, void *scratch, const int64_t *dim, TsError *err);
/* The same by another function that launches; of: its own. */
typedef int TsGpuLaunchFn(TsDevice *d, void *of, const TsTile *k, const TsLaunch *l, TsError *err);
int ts_gpu_roles_launch_by(TsDevice *d, TsGpuLaunchFn *launch, void *of, void *kernel,
                           const TsTile *k, const TsGpuRoles *info, void *const *arg,
                           void *scratch, const int64_t *dim, TsError *err);

#endif
