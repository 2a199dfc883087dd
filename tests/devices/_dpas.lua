-- The functions of Intel's matrix unit and its 2D block loads as their descriptions have them, in OpenCL C, for a driver
-- without them: of the left operand a lane has 16 bits along k of eight rows, of the right one its column in words. A
-- box that does not begin as the loads demand is NaNs. What TESSERA_OPENCL_FUNCTIONS is to be.
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

__attribute__((overloadable)) int8 intel_sub_group_i8_i8_matrix_mad_k32(short8 a, int8 b, int8 acc) {
  __attribute__((opencl_unroll_hint(1))) for (uint d = 0; d < 8; d++)
    __attribute__((opencl_unroll_hint(1))) for (uint i = 0; i < 8; i++) {
      int x = ((short *)&a)[i], w = ((int *)&b)[d], sum = ((int *)&acc)[i];
      int low = intel_sub_group_shuffle(x, 2 * d), high = intel_sub_group_shuffle(x, 2 * d + 1);
      sum += (char)low * (char)w + (char)(low >> 8) * (char)(w >> 8);
      sum += (char)high * (char)(w >> 16) + (char)(high >> 8) * (char)(w >> 24);
      ((int *)&acc)[i] = sum;
    }
  return acc;
}

#define MATRIX long base, int width, int height, int pitch, int2 at
#define NUMBER(type) \
  type read_##type(MATRIX, int x, int y) { \
    bool fits = base % 64 == 0 && width >= 63 && pitch >= width && pitch % 8 == 7 && at.x * sizeof(type) % 4 == 0; \
    if (!fits) return (type)~0; \
    if (x < 0 || y < 0 || x * (int)sizeof(type) > width || y > height) return 0; \
    return *(global type *)(base + (long)y * (pitch + 1) + x * sizeof(type)); \
  }
NUMBER(uchar)
NUMBER(ushort)
NUMBER(uint)
#define OF base, width, height, pitch, at

ushort16 __builtin_IB_subgroup_block_read_flat_u16_m8k16v2(MATRIX) {
  ushort16 y;
  int lane = get_sub_group_local_id();
  for (int i = 0; i < 16; i++) ((ushort *)&y)[i] = read_ushort(OF, at.x + i / 8 * 16 + lane, at.y + i % 8);
  return y;
}
ushort8 __builtin_IB_subgroup_block_read_flat_u16_m8k16v1(MATRIX) {
  ushort8 y;
  int lane = get_sub_group_local_id();
  for (int i = 0; i < 8; i++) ((ushort *)&y)[i] = read_ushort(OF, at.x + lane, at.y + i);
  return y;
}
ushort16 __builtin_IB_subgroup_block_read_flat_u8_m8k32v2(MATRIX) {
  ushort16 y;
  int lane = get_sub_group_local_id();
  for (int i = 0; i < 16; i++) {
    int x = at.x + i / 8 * 32 + 2 * lane;
    ((ushort *)&y)[i] = read_uchar(OF, x, at.y + i % 8) | read_uchar(OF, x + 1, at.y + i % 8) << 8;
  }
  return y;
}
int8 __builtin_IB_subgroup_block_read_flat_transform_u16_k16(MATRIX) {
  int8 y;
  int x = at.x + get_sub_group_local_id();
  for (int i = 0; i < 8; i++)
    ((int *)&y)[i] = read_ushort(OF, x, at.y + 2 * i) | read_ushort(OF, x, at.y + 2 * i + 1) << 16;
  return y;
}
int8 __builtin_IB_subgroup_block_read_flat_transform_u8_k32(MATRIX) {
  int8 y;
  int x = at.x + get_sub_group_local_id();
  for (int i = 0; i < 8; i++) {
    int w = 0;
    for (int k = 3; k >= 0; k--) w = w << 8 | read_uchar(OF, x, at.y + 4 * i + k);
    ((int *)&y)[i] = w;
  }
  return y;
}
int8 __builtin_IB_subgroup_block_read_flat_transpose_u32_k8(MATRIX) {
  int8 y;
  int lane = get_sub_group_local_id();
  for (int i = 0; i < 8; i++) ((int *)&y)[i] = read_uint(OF, at.x + i, at.y + lane);
  return y;
}
]]
