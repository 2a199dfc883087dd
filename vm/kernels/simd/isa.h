/* Which instruction set this translation unit is compiled for. Every file in
 * vm/kernels/ is compiled once for each ISA of the Makefile's list, with one of
 * TS_ISA_avx512, TS_ISA_avx2, TS_ISA_base defined; the files export only names
 * wrapped in TS_ISA(), and vm/core/kernels.c picks a set by what the CPU has.
 * All sets give the same bits: only speed may differ. */
#ifndef TS_VM_KERNELS_ISA_H
#define TS_VM_KERNELS_ISA_H

#if defined TS_ISA_avx512
#define TS_ISA(name) name##_avx512
#define TS_ISA_NAME  "avx512"
#elif defined TS_ISA_avx2
#define TS_ISA(name) name##_avx2
#define TS_ISA_NAME  "avx2"
#elif defined TS_ISA_base
#define TS_ISA(name) name##_base
#define TS_ISA_NAME  "base"
#else
#error "compile with one of -DTS_ISA_avx512, -DTS_ISA_avx2, -DTS_ISA_base"
#endif

#endif
