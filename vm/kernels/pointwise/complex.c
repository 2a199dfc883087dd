/* Pointwise kernels of complex numbers. Rows of a few operations are loops in the type
 * itself; the functions of complex.inc run in f64 on blocks whose parts lie apart,
 * for both types. */
#include "vm/kernels/pointwise/complex.h"

#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f64.h"
#include "vm/kernels/pointwise/spread.h"

#include "lib/elem/elem_f64.inc"

#include "vm/kernels/pointwise/lanes.inc"

#undef E
#undef T

/* ---- functions on n numbers (a multiple of V_LANES) in two planes, in place; the
 * second operand, if any, stands in x and y */
enum { BLOCK = 128 };

typedef struct Planes {
  _Alignas(64) double re[BLOCK], im[BLOCK], x[BLOCK], y[BLOCK];
} Planes;

typedef void PlanesFn(int64_t n, Planes *p);

#define EACH(name, call)                                                                       \
  static void name##_planes(int64_t n, Planes *p) {                                            \
    for (int64_t i = 0; i < n; i += V_LANES) {                                                 \
      Z z = {v_load(p->re + i), v_load(p->im + i)}, r = call;                                  \
      v_store(p->re + i, r.re);                                                                \
      v_store(p->im + i, r.im);                                                                \
    }                                                                                          \
  }
#define SECOND      ((Z){v_load(p->x + i), v_load(p->y + i)})
#define REAL(value) ((Z){value, v_const(0.0)})

EACH(abs, REAL(z_abs(z)))
EACH(angle, REAL(z_angle(z)))
EACH(sign, z_sign(z))
EACH(reciprocal, z_reciprocal(z))
EACH(sqrt, z_sqrt(z))
EACH(exp, z_exp(z))
EACH(log, z_log(z))
EACH(sin, z_sin(z))
EACH(cos, z_cos(z))
EACH(sinh, z_sinh(z))
EACH(cosh, z_cosh(z))
EACH(tanh, z_tanh(z))
EACH(div, z_div(z, SECOND))
EACH(pow, z_pow(z, SECOND))

/* ---- both types */
#define JOIN(a, b) a##_##b
#define CAT(a, b)  JOIN(a, b)

#define ENTRY_F(name)
#define ENTRY_FI(name)
#define ENTRY_FIB(name)
#define ENTRY_I(name)
#define ENTRY_IB(name)
#define ENTRY_FC(name)   ENTRY(name)
#define ENTRY_FIC(name)  ENTRY(name)
#define ENTRY_FIBC(name) ENTRY(name)

#define NAME c64
#define R    float
#include "vm/kernels/pointwise/complex.inc"

#define NAME c128
#define R    double
#include "vm/kernels/pointwise/complex.inc"

void TS_ISA(ts_kernels_pointwise_complex)(TsPointwiseComplexKernels *k) {
  memcpy(k->fn[0], table_c64, sizeof table_c64);
  memcpy(k->fn[1], table_c128, sizeof table_c128);
}
