/* Pieces that adjoints of several families are made of. All pass NULL through. */
#ifndef TS_IR_ADJOINT_COMMON_H
#define TS_IR_ADJOINT_COMMON_H

#include "ir/adjoint/adjoint.h"

bool ts_common_is_complex(TsBuild *b, TsVal x);
/* x in the type in which its functions are computed: f32 for narrower floats. */
TsVal ts_common_wide(TsBuild *b, TsVal x);
/* Infinity where x is 0: what is divided by it is 0 there, and so is the derivative of the
 * quotient, in every order. */
TsVal ts_common_divisor(TsBuild *b, TsVal x);

/* Where x is the extreme y of its group, or NaN and makes y so. */
TsVal ts_common_chosen(TsBuild *b, TsVal x, TsVal y);
/* Zeros of a shape: a view of one number. */
TsVal ts_common_zeros(TsBuild *b, TsDtype d, const TsMeta *shape);
/* g where relu's result y is not 0. */
TsVal ts_common_open(TsBuild *b, TsVal y, TsVal g);

/* ---- epilogues of products: words that are joined by _; the row has checked them */
typedef enum TsEpilogueWord {
  TS_EPILOGUE_end,
  TS_EPILOGUE_bias,
  TS_EPILOGUE_residual,
  TS_EPILOGUE_relu, /* from here on activations */
  TS_EPILOGUE_silu,
  TS_EPILOGUE_gelu
} TsEpilogueWord;
enum { TS_EPILOGUE_WORDS = 8 };

/* The words in order, and an end; without text, of what is given. Returns how many. */
int ts_epilogue_words(const TsAttr *text, bool bias, bool residual,
                      TsEpilogueWord word[TS_EPILOGUE_WORDS + 1]);
TsVal ts_epilogue_activation(TsBuild *b, TsEpilogueWord word, TsVal x);

/* ---- along one axis, counted from 0 */
TsVal ts_common_flip(TsBuild *b, TsVal x, int axis);
TsVal ts_common_scan(TsBuild *b, TsOp op, TsVal x, int axis);
/* x[i-1], with first at the beginning; of an axis that is not empty. */
TsVal ts_common_previous(TsBuild *b, TsVal x, int axis, double first);
/* s[i] = g[i] + c[i+1] s[i+1], from the end. */
TsVal ts_common_from_end(TsBuild *b, TsVal c, TsVal g, int axis);

#endif
