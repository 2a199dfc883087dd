/* The i32 table: inputs of up to 32 bits, widened; arithmetic wraps. */
#include <stdint.h>

typedef uint32_t T;

#include "vm/kernels/gemm/simd_int.h"
#include "vm/kernels/gemm/acc.h"
#include "vm/kernels/gemm/tile.inc"
#include "vm/kernels/gemm/round.inc"

static inline V own_load(const T *p) { return v_load(p); }

#define ELEM     T
#define FN(name) own_##name
#include "vm/kernels/gemm/first.inc"
#undef ELEM
#undef FN

const TsGemmAcc TS_ISA(ts_gemm_i32) = {
    .nbytes = 4,
    .mr = MR,
    .nr = NR,
    .kc = 512,
    .round_mr = RM,
    .round_nr = RN,
    .round_transposed = TRANSPOSED_STAYS,
    .round = round_tile,
    .round_first = {[TS_GEMM_i32] = own_first},
    .tile = tile,
    .full = full,
    .pack_a = {[TS_GEMM_i8] = i8_pack,
               [TS_GEMM_u8] = u8_pack,
               [TS_GEMM_i16] = i16_pack,
               [TS_GEMM_i32] = i32_pack},
    .pack_b = {[TS_GEMM_i8] = i8_pack,
               [TS_GEMM_u8] = u8_pack,
               [TS_GEMM_i16] = i16_pack,
               [TS_GEMM_i32] = i32_pack},
    .store = {[TS_GEMM_i8] = store_i8,
              [TS_GEMM_u8] = store_i8,
              [TS_GEMM_i16] = store_i16,
              [TS_GEMM_i32] = store_i32},
    .bias = add_bias,
};
