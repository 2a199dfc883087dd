/* The vocabulary of lib/elem/ for f64 on the instruction set of this translation unit,
 * and loads and stores: lib/elem/README.md says what each word means. V_LANES values a
 * vector; a "part" moves only the first n < V_LANES. */
#ifndef TS_VM_KERNELS_SIMD_F64_H
#define TS_VM_KERNELS_SIMD_F64_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define FN                   static inline __attribute__((always_inline))
#define IFANY(m)             if (m_any(m))
#define SET_V(m, var, value) ((var) = v_select(m, value, var))
#define SET_I(m, var, value) ((var) = i_select(m, value, var))
#define E(name)              f64_##name
#define i_const(c)           i_set((int64_t)(c))

typedef double T;

#if defined TS_ISA_avx512
#include "vm/kernels/simd/f64_avx512.h"
#elif defined TS_ISA_avx2
#include "vm/kernels/simd/f64_avx2.h"
#else
#include "vm/kernels/simd/f64_base.h"
#endif

#endif
