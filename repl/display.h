/* Tensors as text for people. */
#ifndef TS_REPL_DISPLAY_H
#define TS_REPL_DISPLAY_H

#include "lib/text.h"
#include "vm/core/tensor.h"

/* The elements of x as nested rows that fit `width` columns, then a line with
 * dtype, shape and, where it is not the default one, the device; no line end
 * after it. Large tensors are elided; width <= 0 shows every element. Reads no
 * other elements than those shown. */
void ts_display_tensor(TsContext *c, TsTensor *x, int width, TsText *text);

/* Columns for what is printed now: of the terminal on stdout, else COLUMNS, else 80. */
int ts_display_width(void);

#endif
