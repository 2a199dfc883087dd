/* POLY(x, c0, c1, ..., cn) = c0 + c1 x + ... + cn x^n by Horner's rule with fused
 * multiply-adds, at most 24 coefficients, lowest first. x is evaluated often:
 * give a variable. */
#ifndef TS_ELEM_POLY_H
#define TS_ELEM_POLY_H

#define POLY_1(x, c)       v_const(c)
#define POLY_2(x, c, ...)  v_fma(POLY_1(x, __VA_ARGS__), x, v_const(c))
#define POLY_3(x, c, ...)  v_fma(POLY_2(x, __VA_ARGS__), x, v_const(c))
#define POLY_4(x, c, ...)  v_fma(POLY_3(x, __VA_ARGS__), x, v_const(c))
#define POLY_5(x, c, ...)  v_fma(POLY_4(x, __VA_ARGS__), x, v_const(c))
#define POLY_6(x, c, ...)  v_fma(POLY_5(x, __VA_ARGS__), x, v_const(c))
#define POLY_7(x, c, ...)  v_fma(POLY_6(x, __VA_ARGS__), x, v_const(c))
#define POLY_8(x, c, ...)  v_fma(POLY_7(x, __VA_ARGS__), x, v_const(c))
#define POLY_9(x, c, ...)  v_fma(POLY_8(x, __VA_ARGS__), x, v_const(c))
#define POLY_10(x, c, ...) v_fma(POLY_9(x, __VA_ARGS__), x, v_const(c))
#define POLY_11(x, c, ...) v_fma(POLY_10(x, __VA_ARGS__), x, v_const(c))
#define POLY_12(x, c, ...) v_fma(POLY_11(x, __VA_ARGS__), x, v_const(c))
#define POLY_13(x, c, ...) v_fma(POLY_12(x, __VA_ARGS__), x, v_const(c))
#define POLY_14(x, c, ...) v_fma(POLY_13(x, __VA_ARGS__), x, v_const(c))
#define POLY_15(x, c, ...) v_fma(POLY_14(x, __VA_ARGS__), x, v_const(c))
#define POLY_16(x, c, ...) v_fma(POLY_15(x, __VA_ARGS__), x, v_const(c))
#define POLY_17(x, c, ...) v_fma(POLY_16(x, __VA_ARGS__), x, v_const(c))
#define POLY_18(x, c, ...) v_fma(POLY_17(x, __VA_ARGS__), x, v_const(c))
#define POLY_19(x, c, ...) v_fma(POLY_18(x, __VA_ARGS__), x, v_const(c))
#define POLY_20(x, c, ...) v_fma(POLY_19(x, __VA_ARGS__), x, v_const(c))
#define POLY_21(x, c, ...) v_fma(POLY_20(x, __VA_ARGS__), x, v_const(c))
#define POLY_22(x, c, ...) v_fma(POLY_21(x, __VA_ARGS__), x, v_const(c))
#define POLY_23(x, c, ...) v_fma(POLY_22(x, __VA_ARGS__), x, v_const(c))
#define POLY_24(x, c, ...) v_fma(POLY_23(x, __VA_ARGS__), x, v_const(c))

#define POLY_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,      \
                  pick, ...)                                                                   \
  pick
#define POLY(x, ...)                                                                           \
  POLY_PICK(__VA_ARGS__, POLY_24, POLY_23, POLY_22, POLY_21, POLY_20, POLY_19, POLY_18,        \
            POLY_17, POLY_16, POLY_15, POLY_14, POLY_13, POLY_12, POLY_11, POLY_10, POLY_9,    \
            POLY_8, POLY_7, POLY_6, POLY_5, POLY_4, POLY_3, POLY_2, POLY_1, 0)                 \
  (x, __VA_ARGS__)

#endif
