/* What joins a finished sum before its only rounding: the words of an epilogue
 * attribute, such as "bias_gelu_residual", in their order. */
#ifndef TS_VM_EPILOGUE_H
#define TS_VM_EPILOGUE_H

#include "vm/core/vm.h"

typedef enum TsEpilogueWord {
  TS_EPILOGUE_end,
  TS_EPILOGUE_bias,
  TS_EPILOGUE_relu,
  TS_EPILOGUE_silu,
  TS_EPILOGUE_gelu,
  TS_EPILOGUE_residual,
} TsEpilogueWord;

enum { TS_EPILOGUE_MAX = 8 };

/* The words of the attribute; without one, a bias and then a residual, if given. An
 * error names the operator: unknown words, operands named but not given or given but
 * not named, activations of complex numbers, silu and gelu of integers. */
int ts_epilogue_read(TsCall *call, const TsAttr *words, bool bias, bool residual, TsDtype acc,
                     TsEpilogueWord word[TS_EPILOGUE_MAX]);

/* Applies an activation word to n numbers of type acc. */
void ts_epilogue_activate(const TsKernels *k, TsEpilogueWord word, TsDtype acc, void *at,
                          int64_t n);

/* at[i] += from[i], or += from[0] for all if one; acc is of any kind. */
void ts_epilogue_add(const TsKernels *k, TsDtype acc, void *at, const void *from, bool one,
                     int64_t n);

#endif
