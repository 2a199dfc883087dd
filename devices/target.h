/* What code is generated for: one row a target (devices/target.c), numbers and words, no
 * driver. Whoever schedules or generates asks for what a target has, never which one it is;
 * so a new one is a row, and, where it has units of its own, what feeds these. */
#ifndef TS_DEVICES_TARGET_H
#define TS_DEVICES_TARGET_H

#include <stdbool.h>
#include <stdint.h>

/* Matrix units, and what moves data for them. */
typedef enum TsTargetUnit {
  TS_UNIT_mma = 1 << 0,   /* mma.sync of warps: fragments of 16 x 8, sums in f32, tf32, i32 */
  TS_UNIT_wgmma = 1 << 1, /* of four warps, operands in shared memory: 64 x 8 .. 256 */
  TS_UNIT_copy = 1 << 2,  /* an engine that copies boxes of a matrix, and signals a barrier */
  TS_UNIT_early = 1 << 3, /* a launch may begin before the one in front of it ends, and waits */
  TS_UNIT_blocks = 1 << 4,  /* threads of a block share memory, meet, and vote */
  TS_UNIT_squares = 1 << 5, /* a matrix unit of AMD's */
  /* Both that kernels with roles are made of. */
  TS_UNIT_roles = TS_UNIT_wgmma | TS_UNIT_copy,
} TsTargetUnit;

/* Of AMD's and Intel's: squares of 16 x 16 sums. How they lie in registers:
 * jit/emit/simt/amd_matrix.c, intel_matrix.c; or nobody says, cooperative.c. */
typedef enum TsTargetMatrix {
  TS_MATRIX_none,
  TS_MATRIX_mfma2, /* CDNA 2, 3, 4: one chain */
  TS_MATRIX_mfma3,
  TS_MATRIX_mfma4,
  TS_MATRIX_wmma3, /* RDNA 3, 4: 16 steps of k, added up before they come to the sum */
  TS_MATRIX_wmma4,
  TS_MATRIX_dpas, /* Intel's, of sub-groups of 16: 16 steps of k, two by two */
  /* SPV_KHR_cooperative_matrix, of sub-groups of 16: in an order that is the driver's own, so
   * floats are multiplied in the profile "fast" alone. */
  TS_MATRIX_cooperative,
} TsTargetMatrix;

/* Of AMD's: the register that says which processor a wave is on. */
typedef enum TsTargetPlace {
  TS_PLACE_none,
  TS_PLACE_engine2, /* HW_ID, with two bits of the engine; or three */
  TS_PLACE_engine3,
  TS_PLACE_die,  /* HW_ID, and XCC_ID */
  TS_PLACE_pair, /* HW_ID1: of a pair of processors */
} TsTargetPlace;

/* What such a unit multiplies. */
typedef enum TsTargetFactor {
  TS_FACTOR_half = 1 << 0,   /* bf16, f16: sums in f32 */
  TS_FACTOR_single = 1 << 1, /* f32 */
  TS_FACTOR_twice = 1 << 2,  /* f64 */
  TS_FACTOR_whole = 1 << 3,  /* i8: sums in i32 */
  TS_FACTOR_eight = 1 << 4,  /* fp8 as OCP has it: sums in f32 */
} TsTargetFactor;

/* Whose GPU it is: what its instructions are called (jit/emit/simt/maker.h). */
typedef enum TsTargetMaker { TS_MAKER_nvidia, TS_MAKER_amd, TS_MAKER_spirv } TsTargetMaker;

typedef struct TsTarget {
  const char *name;     /* "avx512", "avx2", "base", "sm_90a": of the row */
  const char *triple;   /* LLVM's words; NULL: no code can be generated */
  const char *cpu;      /* the oldest one, features come on top of it */
  const char *features; /* "+avx2,+fma" */
  bool fma;
  bool half;        /* has instructions between f16 and f32 */
  bool mixes;       /* LLVM fuses a product with +0 as it is rounded to f16: -0 is lost */
  bool brain;       /* between bf16 and f32 */
  bool round;       /* has floor, ceil, trunc and round as instructions */
  bool scale;       /* has x 2^n as one */
  int look;         /* numbers of f32 that one picks among by index; 0: none does */
  int vector_bytes; /* of a register */
  int registers;    /* vectors that the register file holds */

  /* Of a CPU; of the machine where it is the machine's own row. */
  int64_t cache[3]; /* bytes of the cache levels of one core */
  bool drops;       /* requests for lines that come faster than memory answers */
  /* The instruction for products of bf16 in the profile "fast" (ir/tile/pairs.h), or NULL: then
   * they are chains of f32's there too. */
  const char *pairs;

  /* Of a GPU, whose rounds are blocks of threads. */
  TsTargetMaker maker;
  bool object;   /* drivers take code as an object that is linked; else as text */
  bool generic;  /* of a family: where no row has the GPU's own name */
  bool portable; /* code for drivers whose functions have errors that nobody says */
  bool rough;    /* drivers may round division and root of f32 anyhow, those of f64 not */
  bool single;   /* has no f64 */
  bool forgets;  /* drivers' compilers lose what threads know before they meet, but in memory */
  int lanes;     /* threads that run together; 0: a CPU; 1: nobody says */
  int threads;   /* that a block has at most; 0: 1024 */
  int processors;       /* of the usual one: where no device says how many it has */
  int64_t shared_bytes; /* of a block */
  /* Floating-point operations that a processor does in a cycle, at most: of f32 and f64, and of
   * a matrix unit with operands of 16 bits and sums in f32. As its maker publishes them. */
  int flops, flops64, flops16;
  unsigned units; /* of TsTargetUnit */
  TsTargetMatrix matrix;
  TsTargetPlace place;
  int clock_bits; /* of the counter of cycles that code reads; 0: 64 */
  int direct; /* bytes that a lane copies past its registers into shared memory at most; 0: none */
  bool turns; /* reads tiles of 16 bits turned from shared memory */
  /* Waves of a SIMD that take turns, one multiplies while the other loads; 0: they go as they
   * come. */
  int paired;
  unsigned factors; /* of TsTargetFactor */
} TsTarget;

/* A parameter of this name in a kernel of SPIR-V: threads of Intel's GPUs are to have 256
 * registers, half as many of them at a time, which a driver is told beside the module. */
#define TS_TARGET_LARGE "large_registers"

/* The row of this name; NULL: there is none. */
const TsTarget *ts_target(const char *name);
/* The first row that has these units: of kernels that are for no other target. */
const TsTarget *ts_target_with(unsigned units);
/* Row i, in the order of the table; NULL behind the last one. */
const TsTarget *ts_target_at(int i);

static inline bool ts_target_gpu(const TsTarget *t) { return t && t->lanes; }
/* Whether its matrix unit adds up one chain, not blocks of it. */
static inline bool ts_target_has_chain(const TsTarget *t) {
  return t->matrix == TS_MATRIX_mfma2 || t->matrix == TS_MATRIX_mfma3 ||
         t->matrix == TS_MATRIX_mfma4;
}
/* Whether it multiplies by sub-groups: 8 x 16 sums of 16 lanes. */
static inline bool ts_target_by_groups(const TsTarget *t) {
  return t->matrix == TS_MATRIX_dpas || t->matrix == TS_MATRIX_cooperative;
}
static inline bool ts_target_has(const TsTarget *t, unsigned units) {
  return t && (t->units & units) == units;
}

#endif
