/* The pointwise kernels of f32: definitions from lib/elem/, loops from
 * vm/kernels/pointwise/float.inc. */
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/pointwise/pointwise.h"
#include "vm/kernels/simd/f32.h"

#include "lib/elem/elem_f32.inc"

#if defined TS_ISA_avx512
#define v_stream(p, v) _mm512_stream_ps(p, v)
#elif defined TS_ISA_avx2
#define v_stream(p, v) _mm256_stream_ps(p, v)
#endif

#include "vm/kernels/pointwise/float.inc"

void TS_ISA(ts_pointwise_fill_f32)(TsPointwiseFn **fn) { fill(fn); }
