/* Where squares of f32 are in danger, and powers of two that bring their numbers back. */
#ifndef TS_VM_KERNELS_BLAS_SCALE_F32_H
#define TS_VM_KERNELS_BLAS_SCALE_F32_H

#define SCALE_ABOVE   0x1p50 /* of the largest number */
#define SCALE_BELOW   0x1p-50
#define SCALE_DOWN    0x1p-75
#define SCALE_UP      0x1p100
#define SQUARES_BELOW 0x1p-80 /* of their sum */
#define SQUARES_ABOVE 0x1p120

#endif
