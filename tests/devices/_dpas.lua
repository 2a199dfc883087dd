-- The functions of Intel's matrix unit as its description has them, in OpenCL C, for a driver without such a unit: of
-- the left operand a lane has one step of k of eight rows, of the right one its column in words of two steps. What
-- TESSERA_OPENCL_FUNCTIONS is to be.
return [[
#define DPAS(name, wide) \
  __attribute__((overloadable)) float8 name(short8 a, int8 b, float8 acc) { \
    __attribute__((opencl_unroll_hint(1))) for (uint d = 0; d < 8; d++) \
      __attribute__((opencl_unroll_hint(1))) for (uint i = 0; i < 8; i++) { \
        int x = ((short *)&a)[i], w = ((int *)&b)[d]; \
        float two = fma(wide(intel_sub_group_shuffle(x, 2 * d)), wide(w), 0.0f); \
        two = fma(wide(intel_sub_group_shuffle(x, 2 * d + 1)), wide(w >> 16), two); \
        ((float *)&acc)[i] = two + ((float *)&acc)[i]; \
      } \
    return acc; \
  }
float of_bf16(int x) { return as_float(x << 16); }
float of_f16(int x) { short low = (short)x; return vload_half(0, (half *)&low); }
DPAS(intel_sub_group_bf16_bf16_matrix_mad_k16, of_bf16)
DPAS(intel_sub_group_f16_f16_matrix_mad_k16, of_f16)
]]
