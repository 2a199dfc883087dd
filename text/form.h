/* Unicode's normal forms of a piece of text. */
#ifndef TS_TEXT_FORM_H
#define TS_TEXT_FORM_H

#include "text/line.h"

/* `compatible`: K; `composed`: C, else D. */
typedef struct TsForm {
  bool compatible, composed;
} TsForm;

/* It is in that form already, as far as a look at each of its characters tells. */
bool ts_form_is(TsForm form, const char *s, size_t n);
/* Puts it behind what e has begun with. -1 with the error. */
int ts_form_apply(TsForm form, const char *s, size_t n, TsEdit *e, TsError *err);

#endif
