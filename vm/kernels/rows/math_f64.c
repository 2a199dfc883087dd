/* The row functions of f64: definitions from lib/elem/, loops from vm/kernels/rows/math.inc. */
#include "vm/kernels/rows/math.h"
#include "vm/kernels/simd/f64.h"

#include "lib/elem/elem_f64.inc"

#define exports(name) TS_ISA(ts_rows_math_##name##_f64)
#if defined TS_ISA_avx512
#define stream(p, v) _mm512_stream_pd(p, v)
#elif defined TS_ISA_avx2
#define stream(p, v) _mm256_stream_pd(p, v)
#else
#define stream(p, v) v_store(p, v)
#endif

#include "vm/kernels/rows/math.inc"
