/* simd_f64.h in portable C: one lane. The fused multiply-add is a call where the
 * hardware has none: slow, and right. */

typedef double V;
typedef int64_t I;
typedef int M;
enum { V_LANES = 1 };

FN V v_const(double c) { return c; }
FN V v_splat(double c) { return c; }
FN I i_set(int64_t c) { return c; }
FN V v_of_bits(I a) {
  V v;
  memcpy(&v, &a, sizeof v);
  return v;
}
FN I i_of_bits(V a) {
  I i;
  memcpy(&i, &a, sizeof i);
  return i;
}

FN V v_add(V a, V b) { return a + b; }
FN V v_sub(V a, V b) { return a - b; }
FN V v_mul(V a, V b) { return a * b; }
FN V v_div(V a, V b) { return a / b; }
FN V v_fma(V a, V b, V c) { return __builtin_fma(a, b, c); }
FN V v_fms(V a, V b, V c) { return __builtin_fma(a, b, -c); }
FN V v_fnma(V a, V b, V c) { return __builtin_fma(-a, b, c); }
FN V v_sqrt(V a) { return __builtin_sqrt(a); }
FN V v_neg(V a) { return -a; }
FN V v_abs(V a) { return __builtin_fabs(a); }
FN V v_copysign(V a, V s) { return __builtin_copysign(a, s); }
FN V v_floor(V a) { return __builtin_floor(a); }
FN V v_ceil(V a) { return __builtin_ceil(a); }
FN V v_trunc(V a) { return __builtin_trunc(a); }
FN V v_rint(V a) { return __builtin_rint(a); }
FN V v_from_int(I a) { return (V)a; }
FN V v_min(V a, V b) { return a < b ? a : b; }
FN V v_max(V a, V b) { return b < a ? a : b; }
FN V v_select(M m, V a, V b) { return m ? a : b; }
FN M v_lt(V a, V b) { return a < b; }
FN M v_le(V a, V b) { return a <= b; }
FN M v_eq(V a, V b) { return a == b; }

FN I i_add(I a, I b) { return (I)((uint64_t)a + (uint64_t)b); }
FN I i_sub(I a, I b) { return (I)((uint64_t)a - (uint64_t)b); }
FN I i_mulwide(I a, I b) { return (I)((uint64_t)(uint32_t)a * (uint32_t)b); }
FN I i_and(I a, I b) { return a & b; }
FN I i_or(I a, I b) { return a | b; }
FN I i_xor(I a, I b) { return a ^ b; }
FN I i_shl(I a, int n) { return (I)((uint64_t)a << n); }
FN I i_shr(I a, int n) { return (I)((uint64_t)a >> n); }
FN I i_sar(I a, int n) { return a >> n; }
FN I i_shlv(I a, I n) { return (I)((uint64_t)a << n); }
FN I i_shrv(I a, I n) { return (I)((uint64_t)a >> n); }
FN I i_select(M m, I a, I b) { return m ? a : b; }
FN M i_lt(I a, I b) { return a < b; }
FN M i_eq(I a, I b) { return a == b; }
FN M i_ult(I a, I b) { return (uint64_t)a < (uint64_t)b; }

FN M m_and(M a, M b) { return a & b; }
FN M m_or(M a, M b) { return a | b; }
FN M m_xor(M a, M b) { return a ^ b; }
FN M m_not(M a) { return !a; }
FN int m_any(M a) { return a; }

/* by memcpy, because no alignment is promised; parts never occur: none is shorter than a
 * lane */
FN V v_load(const double *p) {
  V a;
  memcpy(&a, p, sizeof a);
  return a;
}
FN V v_load_part(const double *p, int64_t n) { return n ? v_load(p) : 0; }
FN void v_store(double *p, V a) { memcpy(p, &a, sizeof a); }
FN void v_store_part(double *p, V a, int64_t n) {
  if (n) v_store(p, a);
}
FN M m_load(const uint8_t *p) { return *p != 0; }
FN M m_load_part(const uint8_t *p, int64_t n) { return n && *p; }
FN void m_store(uint8_t *p, M m) { *p = (uint8_t)m; }
FN void m_store_part(uint8_t *p, M m, int64_t n) {
  if (n) *p = (uint8_t)m;
}
/* p[2i] = a[i], p[2i+1] = b[i] */
FN void v_store_pairs(double *p, V a, V b) {
  v_store(p, a);
  v_store(p + 1, b);
}
