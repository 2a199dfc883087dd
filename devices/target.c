/* The targets. See devices/target.h. */
#include "devices/target.h"

#include <stddef.h>
#include <string.h>

#define AVX2   "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt"
#define AVX512 AVX2 ",+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd"

/* What no processor of the last ten years goes below. */
#define CPU                                                                                    \
  .triple = "x86_64-unknown-linux-gnu", .cpu = "x86-64", .cache = {32 << 10, 256 << 10, 2 << 20}
#define NVIDIA                                                                                 \
  .triple = "nvptx64-nvidia-cuda", .vector_bytes = 16, .registers = 255, .lanes = 32,          \
  .fma = true, .half = true, .brain = true, .round = true
/* Registers are a thread's, with as many threads as a block may have. Waves of 32 where there are
 * such; compute units and not their pairs, so that each has a memory that is its blocks' own. A
 * generic row is code for all GPUs of a family, with what the least of them has; its numbers are
 * those of the usual one. Numbers are per cycle of a compute unit, from AMD's data sheets: peak
 * rates by units by clock; registers and shared memory from its documents of the instruction sets. */
#define AMD                                                                                    \
  .triple = "amdgcn-amd-amdhsa", .maker = TS_MAKER_amd, .object = true, .vector_bytes = 16,    \
  .fma = true, .half = true, .mixes = true, .round = true
#define GCN  AMD, .features = "", .lanes = 64
#define NAVI AMD, .features = "+wavefrontsize32,+cumode", .lanes = 32, .place = TS_PLACE_pair
/* With a matrix unit. */
#define CDNA GCN, .units = TS_UNIT_blocks | TS_UNIT_squares
#define RDNA NAVI, .units = TS_UNIT_blocks | TS_UNIT_squares
/* What units of RDNA multiply, and those of CDNA. */
#define FEW  TS_FACTOR_half | TS_FACTOR_whole
#define MORE FEW | TS_FACTOR_single | TS_FACTOR_twice

/* Any driver of SPIR-V takes the code of "spirv", and one of a CPU that of "spirv_cpu": no sub-groups;
 * blocks of these have 4 KiB beside what is said here, for what threads tell one another. Intel's GPUs are asked for sub-groups of 32: of 16 and 32
 * that pvc has, of 8, 16 and 32 of the others. Registers are words of a thread then. */
#define SPIRV                                                                                  \
  .triple = "spirv64v1.2-unknown-unknown", .cpu = "", .features = "", .maker = TS_MAKER_spirv, \
  .object = true, .portable = true, .vector_bytes = 16, .units = TS_UNIT_blocks, .fma = true,  \
  .round = true

/* Of whom that is nobody knows: numbers are those of a CPU with 16 cores. */
#define ANY_SPIRV                                                                              \
  SPIRV, .processors = 16, .lanes = 1, .rough = true, .registers = 64, .flops = 32,            \
         .flops64 = 16, .flops16 = 32, .shared_bytes = 64 << 10

/* Code for sm_90a runs there alone; the driver compiles that of sm_80 and sm_90 for all that came
 * later. */
static const TsTarget target[] = {
    {.name = "avx512",
     CPU,
     .features = AVX512,
     .vector_bytes = 64,
     .registers = 32,
     .fma = true,
     .half = true,
     .round = true,
     .scale = true,
     .look = 16},
    {.name = "avx2",
     CPU,
     .features = AVX2,
     .vector_bytes = 32,
     .registers = 16,
     .fma = true,
     .half = true,
     .round = true,
     .look = 8},
    {.name = "base", CPU, .features = "", .vector_bytes = 16, .registers = 16},
    {.name = "sm_80",
     NVIDIA,
     .processors = 108,
     .cpu = "sm_80",
     .features = "+ptx80",
     .flops = 128,
     .flops64 = 64,
     .flops16 = 2048,
     .shared_bytes = 163 << 10,
     .units = TS_UNIT_blocks | TS_UNIT_mma},
    {.name = "sm_86",
     NVIDIA,
     .processors = 84,
     .cpu = "sm_80",
     .features = "+ptx80",
     .flops = 256,
     .flops64 = 4,
     .flops16 = 1024,
     .shared_bytes = 99 << 10,
     .units = TS_UNIT_blocks | TS_UNIT_mma},
    {.name = "sm_90a",
     NVIDIA,
     .processors = 132,
     .cpu = "sm_90a",
     .features = "+ptx83",
     .flops = 256,
     .flops64 = 128,
     .flops16 = 4096,
     .shared_bytes = 227 << 10,
     .units = TS_UNIT_blocks | TS_UNIT_mma | TS_UNIT_roles | TS_UNIT_early},
    {.name = "sm_100",
     NVIDIA,
     .processors = 148,
     .cpu = "sm_90",
     .features = "+ptx83",
     .flops = 256,
     .flops64 = 128,
     .flops16 = 8192,
     .shared_bytes = 227 << 10,
     .units = TS_UNIT_blocks | TS_UNIT_mma | TS_UNIT_early},
    {.name = "sm_120",
     NVIDIA,
     .processors = 170,
     .cpu = "sm_90",
     .features = "+ptx83",
     .flops = 256,
     .flops64 = 4,
     .flops16 = 512,
     .shared_bytes = 99 << 10,
     .units = TS_UNIT_blocks | TS_UNIT_mma | TS_UNIT_early},
    {.name = "gfx90a", /* Instinct MI250X, of one of its two dies */
     CDNA,
     .place = TS_PLACE_engine3,
     .direct = 4,
     .processors = 110,
     .cpu = "gfx90a",
     .registers = 128,
     .flops = 128,
     .flops64 = 128,
     .matrix = TS_MATRIX_mfma2,
     .factors = MORE,
     .flops16 = 1024,
     .shared_bytes = 64 << 10},
    {.name = "gfx942", /* Instinct MI300X */
     CDNA,
     .place = TS_PLACE_die,
     .direct = 4,
     .processors = 304,
     .cpu = "gfx942",
     .registers = 128,
     .flops = 256,
     .flops64 = 128,
     .matrix = TS_MATRIX_mfma3,
     .factors = MORE,
     .flops16 = 2048,
     .shared_bytes = 64 << 10},
    {.name = "gfx950", /* Instinct MI355X */
     CDNA,
     .place = TS_PLACE_die,
     .direct = 16,
     .turns = true,
     .paired = 2,
     .processors = 256,
     .cpu = "gfx950",
     .registers = 128,
     .brain = true,
     .flops = 256,
     .flops64 = 128,
     .matrix = TS_MATRIX_mfma4,
     .factors = MORE | TS_FACTOR_eight,
     .flops16 = 4096,
     .shared_bytes = 160 << 10},
    {.name = "gfx1100", /* Radeon RX 7900 XTX */
     RDNA,
     .clock_bits = 20,
     .processors = 96,
     .cpu = "gfx1100",
     .registers = 96,
     .flops = 256,
     .flops64 = 8,
     .matrix = TS_MATRIX_wmma3,
     .factors = FEW,
     .flops16 = 512,
     .shared_bytes = 64 << 10},
    {.name = "gfx1200", /* Radeon RX 9060 XT */
     RDNA,
     .processors = 32,
     .cpu = "gfx1200",
     .registers = 96,
     .flops = 256,
     .flops64 = 4,
     .matrix = TS_MATRIX_wmma4,
     .factors = FEW | TS_FACTOR_eight,
     .flops16 = 1024,
     .shared_bytes = 64 << 10},
    {.name = "gfx9-generic", /* Radeon RX Vega 64 */
     GCN,
     .units = TS_UNIT_blocks,
     .place = TS_PLACE_engine2,
     .generic = true,
     .processors = 64,
     .cpu = "gfx9-generic",
     .registers = 64,
     .flops = 128,
     .flops64 = 8,
     .flops16 = 256,
     .shared_bytes = 64 << 10},
    {.name = "gfx9-4-generic", /* Instinct MI300X */
     CDNA,
     .place = TS_PLACE_die,
     .direct = 4,
     .generic = true,
     .processors = 304,
     .cpu = "gfx9-4-generic",
     .registers = 128,
     .flops = 256,
     .flops64 = 128,
     .matrix = TS_MATRIX_mfma3,
     .factors = MORE,
     .flops16 = 2048,
     .shared_bytes = 64 << 10},
    {.name = "gfx10-3-generic", /* Radeon RX 6900 XT */
     NAVI,
     .units = TS_UNIT_blocks,
     .generic = true,
     .processors = 80,
     .cpu = "gfx10-3-generic",
     .registers = 64,
     .flops = 128,
     .flops64 = 8,
     .flops16 = 256,
     .shared_bytes = 64 << 10},
    {.name = "gfx11-generic", /* Radeon RX 7900 XTX */
     RDNA,
     .clock_bits = 20,
     .generic = true,
     .processors = 96,
     .cpu = "gfx11-generic",
     .registers = 64,
     .flops = 256,
     .flops64 = 8,
     .matrix = TS_MATRIX_wmma3,
     .factors = FEW,
     .flops16 = 512,
     .shared_bytes = 64 << 10},
    {.name = "gfx12-generic", /* Radeon RX 9070 XT */
     RDNA,
     .generic = true,
     .processors = 64,
     .cpu = "gfx12-generic",
     .registers = 96,
     .flops = 256,
     .flops64 = 4,
     .matrix = TS_MATRIX_wmma4,
     .factors = FEW | TS_FACTOR_eight,
     .flops16 = 1024,
     .shared_bytes = 64 << 10},
    {.name = "spirv", ANY_SPIRV},
    {.name = "spirv_cpu", ANY_SPIRV, .forgets = true},
    {.name = "pvc", /* Data Center GPU Max 1550 */
     SPIRV,
     .processors = 128,
     .half = true,
     .lanes = 32,
     .matrix = TS_MATRIX_dpas,
     .factors = FEW,
     .registers = 64,
     .flops = 256,
     .flops64 = 256,
     .flops16 = 4096,
     .shared_bytes = 128 << 10},
    {.name = "cooperative", /* whose driver has such matrices; numbers of an Arc A770 */
     SPIRV,
     .processors = 32,
     .half = true,
     .single = true,
     .lanes = 32,
     .matrix = TS_MATRIX_cooperative,
     .factors = FEW,
     .registers = 32,
     .flops = 256,
     .flops16 = 2048,
     .shared_bytes = 64 << 10},
    {.name = "dg2", /* Arc A770 */
     SPIRV,
     .processors = 32,
     .half = true,
     .single = true,
     .lanes = 32,
     .registers = 32,
     .flops = 256,
     .flops16 = 2048,
     .shared_bytes = 64 << 10},
    {.name = "tgllp", /* Iris Xe with 96 units */
     SPIRV,
     .processors = 6,
     .half = true,
     .single = true,
     .lanes = 32,
     .threads = 512,
     .registers = 32,
     .flops = 256,
     .flops16 = 512,
     .shared_bytes = 64 << 10},
};

const TsTarget *ts_target_at(int i) {
  return i >= 0 && i < (int)(sizeof target / sizeof *target) ? &target[i] : NULL;
}

const TsTarget *ts_target(const char *name) {
  for (size_t i = 0; i < sizeof target / sizeof *target; i++)
    if (!strcmp(target[i].name, name)) return &target[i];
  return NULL;
}

const TsTarget *ts_target_with(unsigned units) {
  for (size_t i = 0; i < sizeof target / sizeof *target; i++)
    if (ts_target_has(&target[i], units)) return &target[i];
  return NULL;
}
