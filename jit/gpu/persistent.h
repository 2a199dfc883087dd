/* Code of a persistent program (ir/persistent/program.h) for NVIDIA's GPUs, and what it is
 * given.
 *
 * The kernel has the arguments: table of tasks, counters, what each counter comes to in a
 * launch, a word that says which task was waited for in vain, all addresses; tasks, blocks,
 * number of the launch from 1, as i32: counters go on from launch to launch. A row of the table
 * has TS_GPU_TASK_BYTES, with these fields, i32, and from TS_GPU_TASK_words on addresses. A
 * wait has 16 bytes: the first counter, how many, and the address of pairs by turn, or 0. What
 * is fetched ahead has 16: address, bytes. The words of a task are in jit/emit/simt/task.h;
 * those of a kernel with roles have maps behind them, from the next multiple of
 * TS_GPU_TASK_MAPS on. */
#ifndef TS_JIT_GPU_PERSISTENT_H
#define TS_JIT_GPU_PERSISTENT_H

#include "ir/persistent/program.h"
#include "jit/gpu/plan.h"
#include "jit/gpu/roles.h"

enum {
  TS_GPU_TASK_code = 0,
  TS_GPU_TASK_turns = 4,
  TS_GPU_TASK_first = 8,
  TS_GPU_TASK_counter = 12,
  TS_GPU_TASK_piece = 16,
  TS_GPU_TASK_nwait = 20,
  TS_GPU_TASK_nahead = 24,
  TS_GPU_TASK_nmap = 28,
  TS_GPU_TASK_words = 32,
  TS_GPU_TASK_waits = 40,
  TS_GPU_TASK_ahead = 48,
  TS_GPU_TASK_maps = 56,
  TS_GPU_TASK_BYTES = 64,
  TS_GPU_TASK_MAPS = 128,
  TS_GPU_TASK_CODES = 64,
};

typedef struct TsGpuTaskCode {
  const TsTile *k; /* given: of each code its kernel and phase */
  int phase;
  bool roles;
  int threads;
  int64_t shared;
  TsGpuRoles info; /* of roles: maps */
} TsGpuTaskCode;

typedef struct TsGpuPersistent {
  int ncode, threads;
  int64_t shared;
  TsGpuTaskCode code[TS_GPU_TASK_CODES];
} TsGpuPersistent;

#define TS_GPU_PERSISTENT_NAME "persistent"

/* Threads and rounds of a block, by phase, as that code has them. */
int ts_gpu_persistent_phases(const TsTile *k, const TsTarget *t, TsPersistentPhase *phase,
                             TsError *err);
/* The PTX of its code; out is filled in. Any thread. -1 with the error. */
int ts_gpu_persistent_text(const TsPersistent *p, const TsTarget *t, TsGpuPersistent *out,
                           TsText *ptx, TsError *err);

#endif
