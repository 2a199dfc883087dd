-- The functions of Intel's matrix unit as its description has them, in OpenCL C, for a driver without such a unit:
-- of the left operand a lane has one step of k of eight rows, of the right one its column in words of two steps. Text
-- of TESSERA_OPENCL_FUNCTIONS.
local text = [[
#define DPAS(name, type, wide) \
  __attribute__((overloadable)) float8 name(short8 a, int8 b, float8 acc) { \
    float *sum = (float *)&acc; \
    for (uint d = 0; d < 8; d++) \
      for (uint i = 0; i < 8; i++) { \
        short x = ((short *)&a)[i]; \
        int w = ((int *)&b)[d]; \
        float first = wide(intel_sub_group_shuffle(x, 2 * d)), second = wide(intel_sub_group_shuffle(x, 2 * d + 1)); \
        float two = fma(first, wide((short)w), 0.0f); \
        two = fma(second, wide((short)(w >> 16)), two); \
        sum[i] = two + sum[i]; \
      } \
    return acc; \
  }
float of_bf16(short x) { return as_float((int)x << 16); }
float of_f16(short x) { return vload_half(0, (half *)&x); }
DPAS(intel_sub_group_bf16_bf16_matrix_mad_k16, bf16, of_bf16)
DPAS(intel_sub_group_f16_f16_matrix_mad_k16, f16, of_f16)
]]
return (text:gsub("name%(short8 a, int8 b, float8 acc%)", "name(short8 a, int8 b, float8 acc)"))
