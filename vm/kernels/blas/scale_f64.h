/* Where squares of f64 are in danger, and powers of two that bring their numbers back. */
#ifndef TS_VM_KERNELS_BLAS_SCALE_F64_H
#define TS_VM_KERNELS_BLAS_SCALE_F64_H

#define SCALE_ABOVE   0x1p400 /* of the largest number */
#define SCALE_BELOW   0x1p-400
#define SCALE_DOWN    0x1p-600
#define SCALE_UP      0x1p600
#define SQUARES_BELOW 0x1p-800 /* of their sum */
#define SQUARES_ABOVE 0x1p1000

#endif
