/* Random f64: definitions from lib/elem/, loops from random_float.inc; and the normal
 * distribution function with its inverse, which f32 uses as well. */
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/random.h"
#include "vm/kernels/simd/f64.h"

#include "lib/elem/elem_f64.inc"

typedef uint64_t U;

/* Integers become floats exactly below 2^51: 53 bits go in two pieces. */
FN V unit(I b) {
  V low = v_from_int(i_and(i_shr(b, 11), i_const(0x1fffff)));
  return v_fma(v_from_int(i_shr(b, 32)), v_const(0x1p-32), v_mul(low, v_const(0x1p-53)));
}
FN V above(I b) { return v_sub(v_const(1.0), unit(b)); }
FN V inside(I b) {
  return v_fma(v_from_int(i_sar(b, 12)), v_const(0x1p-52), v_const(0.5 + 0x1p-53));
}
FN V angle(I b) { return v_mul(v_from_int(i_sar(b, 12)), v_const(0x1.921fb54442d18p-50)); }

static T limit(double p) { return p; }

#include "vm/kernels/random_float.inc"

/* Wichura's PPND16 (Algorithm AS 241, Applied Statistics 37, 1988): three quotients of
 * polynomials, about 1e-16 relative. r is the smaller tail. */
FN V inverse_middle(V q) {
  V r = v_fnma(q, q, v_const(0.180625));
  V a = POLY(r, 3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
             1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
             3.3430575583588128105e4, 2.5090809287301226727e3);
  V b = POLY(r, 1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
             2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
             5.2264952788528545610e3);
  return v_mul(q, v_div(a, b));
}

FN V inverse_tail(V t) {
  V r = v_sub(t, v_const(1.6));
  V a = POLY(r, 1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
             3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
             2.27238449892691845833e-2, 7.74545014278341407640e-4);
  V b = POLY(r, 1.0, 2.05319162663775882187e0, 1.67638483018380384940e0,
             6.89767334985100004550e-1, 1.48103976427480074590e-1, 1.51986665636164571966e-2,
             5.47593808499534494600e-4, 1.05075007164441684324e-9);
  return v_div(a, b);
}

FN V inverse_far(V t) {
  V r = v_sub(t, v_const(5.0));
  V a = POLY(r, 6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
             2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
             2.71155556874348757815e-5, 2.01033439929228813265e-7);
  V b = POLY(r, 1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
             1.48753612908506148525e-2, 7.86869131145613259100e-4, 1.84631831751005468180e-5,
             1.42151175831644588870e-7, 2.04426310338993978564e-15);
  return v_div(a, b);
}

FN V inverse_phi(V p) {
  V q = v_sub(p, v_const(0.5));
  V t = v_sqrt(v_neg(E(log)(v_min(p, v_sub(v_const(1.0), p)))));
  V tail = v_select(v_le(t, v_const(5.0)), inverse_tail(t), inverse_far(t));
  return v_select(v_le(v_abs(q), v_const(0.425)), inverse_middle(q), v_copysign(tail, q));
}

FN V limited_quantile(V v, V from, V width, V min, V max) {
  V z = inverse_phi(v_add(from, v_mul(width, v)));
  return v_max(v_min(z, max), min);
}

static void quantile64(int64_t n, double *y, const void *bits, double from, double width,
                       double min, double max) {
  V f = v_splat(from), w = v_splat(width), a = v_splat(min), b = v_splat(max);
  for (int64_t i = 0; i < n; i += V_LANES)
    v_store(y + i, limited_quantile(inside(load_bits((const U *)bits + i)), f, w, a, b));
}

static void quantile32(int64_t n, double *y, const void *bits, double from, double width,
                       double min, double max) {
  V f = v_splat(from), w = v_splat(width), a = v_splat(min), b = v_splat(max);
  for (int64_t i = 0; i < n; i += V_LANES) {
    U wide[V_LANES];
    for (int l = 0; l < V_LANES; l++) wide[l] = ((const uint32_t *)bits)[i + l];
    V v = v_fma(v_from_int(load_bits(wide)), v_const(0x1p-32), v_const(0x1p-33));
    v_store(y + i, limited_quantile(v, f, w, a, b));
  }
}

static double phi(double x) {
  double y[V_LANES];
  v_store(y, v_mul(v_const(0.5), E(erfc)(v_mul(v_splat(x), v_const(-0x1.6a09e667f3bcdp-1)))));
  return y[0];
}

void TS_ISA(ts_random_fill_f64)(TsRandomKernels *k) {
  k->uniform[1] = uniform;
  k->normal[1] = normal;
  k->dropout[1] = dropout;
  k->quantile[0] = quantile32;
  k->quantile[1] = quantile64;
  k->phi = phi;
}
