/* The pointwise kernels of f64: definitions from lib/elem/, loops from
 * vm/kernels/pointwise/float.inc. */
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/pointwise/pointwise.h"
#include "vm/kernels/simd/f64.h"

#include "lib/elem/elem_f64.inc"

#if defined TS_ISA_avx512
#define v_stream(p, v) _mm512_stream_pd(p, v)
#elif defined TS_ISA_avx2
#define v_stream(p, v) _mm256_stream_pd(p, v)
#endif

#include "vm/kernels/pointwise/float.inc"

void TS_ISA(ts_pointwise_fill_f64)(TsPointwiseFn **fn) { fill(fn); }
