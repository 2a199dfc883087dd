/* Kernels of a GPU: from Tile IR to PTX, or a code object of AMD's, and launched.
 *
 * A kernel in block form says what a round does to tiles; here every tile is spread over the
 * threads of a block (jit/emit/simt/emit.h has the idea), the rounds of the parallel loop at
 * the top are the blocks of the grid, phases are launched one after another, scratch is
 * memory of the device. Making code needs no GPU and works in any thread. */
#ifndef TS_JIT_GPU_H
#define TS_JIT_GPU_H

#include "devices/device.h"
#include "ir/tile/tile.h"
#include "lib/text.h"

enum { TS_GPU_PHASES = 16, TS_GPU_SCRATCH = 16, TS_GPU_PREFIX = 256 };
/* A first phase of so many blocks reads before it waits for the launch in front of it, one of fewer
 * behind. With less to do the host is late anyway: such a launch costs it 0.3 us more, and it is
 * begun early only in a record. */
enum { TS_GPU_MANY_BLOCKS = 128 };

typedef struct TsGpuPhase {
  char name[48];
  int threads;      /* of a block */
  uint32_t cluster; /* blocks that share their memory; 0: none */
  uint32_t shared;  /* bytes of dynamic shared memory */
  int rounds;       /* of the parallel loop that one block does, side by side */
} TsGpuPhase;

/* What the host computes before a launch: whole numbers in order, each from those before. */
typedef struct TsGpuStep {
  uint8_t op; /* of TsGpuStepOp, jit/gpu/outline.c */
  int16_t a, b;
  int64_t number;
} TsGpuStep;

/* Code of one kernel; depends on kernel and target alone. */
typedef struct TsGpuCode {
  char *image; /* PTX, which ends with NUL, or a code object (TsTarget.object) */
  size_t size;
  int nphase, nparam, ndim, nscratch;
  int align; /* bytes: of TS_GPU_aligned all parameters begin at multiples of it */
  TsGpuPhase phase[TS_GPU_PHASES];
  int count[TS_GPU_PHASES]; /* the step that is the number of rounds of a phase */
  TsTileType scratch[TS_GPU_SCRATCH];
  int nstep;
  TsGpuStep step[TS_GPU_PREFIX];
  double usec; /* that LLVM took; 0: from the cache */
} TsGpuCode;

/* Forms of the same kernel. */
typedef enum TsGpuForm {
  TS_GPU_loose,
  TS_GPU_aligned, /* all parameters begin at multiples of `align` bytes, 16 for most */
  TS_GPU_batch,   /* so do they, and a launch is many runs (jit/emit/simt/batch.c) */
} TsGpuForm;

/* -1 with the error: there is no code for this kernel, nothing else. */
int ts_gpu_code(const TsTile *k, const TsTarget *t, TsGpuForm form, TsGpuCode *code,
                TsError *err);
void ts_gpu_code_free(TsGpuCode *code);
/* Of block form, "llvm" or "asm". */
int ts_gpu_text(const TsTile *k, const TsTarget *t, const char *level, TsText *out,
                TsError *err);
/* May a phase that was read from disk be launched? See jit/gpu/sound.c. */
bool ts_gpu_phase_sound(const TsGpuPhase *p, const TsTarget *t);
/* The rounds of each phase for these sizes; -1: a size that makes no sense. */
int ts_gpu_rounds(const TsGpuCode *code, const int64_t *dim, int64_t rounds[TS_GPU_PHASES]);

/* The table of a launch of many runs, less than 4 KiB with the sizes that all share. */
enum { TS_GPU_BATCH_WORDS = 496, TS_GPU_BATCH_RUNS = 64 };
int ts_gpu_batch_most(const TsGpuCode *code);
/* Fills it in; the blocks of the launch, or -1 with the error. */
int64_t ts_gpu_batch_table(const TsGpuCode *code, int n, void *const *arg, const int64_t *dim,
                           uint64_t table[TS_GPU_BATCH_WORDS], TsError *err);

/* ---- the same code for the host, a thread of the block at a time: how tests compare bits
 * where there is no GPU (jit/compile/gpu_emulate.c). Slow. */
int ts_gpu_emulate(const TsTile *k, bool aligned, void *const *arg, const int64_t *dim,
                   TsError *err);
int ts_gpu_emulate_many(const TsTile *k, int n, void *const *arg, const int64_t *dim,
                        TsError *err);

#endif
