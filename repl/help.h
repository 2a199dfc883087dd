/* Help texts from the operator table. */
#ifndef TS_REPL_HELP_H
#define TS_REPL_HELP_H

#include <stdbool.h>

#include <stdbool.h>

#include "lib/op.h"
#include "lib/text.h"

/* Help on one operator, on "dtypes" or one dtype, or, for an empty name, the list
 * of operators by family, in lines of `width` columns. -1 if there is nothing of
 * that name: the text then says so, with the nearest name. */
int ts_help_operator(const char *name, int width, TsText *text);

/* "x [, {axis}]": what stands between the brackets of a call, for a method without
 * the first tensor. -1 if there is no such operator. */
int ts_help_arguments(const char *name, bool method, TsText *text);

/* Adds the words of s, the first at this column, later lines behind `indent` blanks, none longer
 * than `width` where words are not; a newline at the end. */
void ts_help_wrap(TsText *out, const char *s, int column, int indent, int width);

/* Options that choose for its kernel, in words; nothing where there are none (repl/help_choice.c). */
void ts_help_choices(TsOp op, TsText *line);

/* Of an operator: options that calls from Lua take beside those of its row, or as more than these. */
typedef struct TsMoreOption {
  const char *row, *name, *text; /* "true or false = false" */
  const char *words;             /* "floor|trunc", or NULL */
  const char *help;              /* or NULL */
} TsMoreOption;
const TsMoreOption *ts_help_more(const TsOpInfo *o, int nth); /* NULL behind the last */
const TsMoreOption *ts_help_more_named(const TsOpInfo *o, const char *name, int size);
bool ts_help_more_is_new(const TsOpInfo *o, const TsMoreOption *m);

#endif
