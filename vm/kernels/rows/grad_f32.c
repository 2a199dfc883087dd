/* The gradients of rows in f32: definitions from lib/elem/, loops from vm/kernels/rows/grad.inc. */
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/rows/reduce.h"
#include "vm/kernels/rows/grad.h"
#include "vm/kernels/simd/f32.h"

#include "vm/kernels/simd/lanes_f32.h"

#include "lib/elem/elem_f32.inc"

enum { LANES = TS_RED_LANES_f32, INDEX = 0 };
#define scalar_sqrt(x) __builtin_sqrtf(x)
#define exports(name)  TS_ISA(ts_rows_grad_##name##_f32)
#if defined TS_ISA_avx512
#define stream(p, v) _mm512_stream_ps(p, v)
#elif defined TS_ISA_avx2
#define stream(p, v) _mm256_stream_ps(p, v)
#else
#define stream(p, v) v_store(p, v)
#endif

#include "vm/kernels/rows/grad.inc"
