/* The grammar of values in IR text, printed and read by the same rules:
 *
 *   number     12  -0.5  1e-5  inf  -inf  nan  -0.0     the shortest digits that read back
 *   string     "a \"b\" \\ \n \x07"
 *   type       f32[2,3]  f32[]                          f64[]~ is the type of a bare number,
 *                                                       f64[]~~ of the number -0.0
 *   attributes {k=3 axis=-1 perm=[0,2,1] mode=reflect dtype=bf16 epilogue="bias_relu"}
 *
 * Attributes stand in the order of their column; those that have their default, and optional
 * ones without a value, are left out. Whole numbers may be expressions of sizes (ir/text/size.h),
 * 2*B*T/4+1, and numbers their inverses, 1/(64*B); the reader needs values for the symbols. */
#ifndef TS_IR_TEXT_VALUE_H
#define TS_IR_TEXT_VALUE_H

#include "ir/text/lex.h"
#include "lib/op.h"
#include "lib/text.h"

/* ---- printing */
void ts_text_number(TsText *t, double v);
void ts_text_int(TsText *t, int64_t v);
void ts_text_quoted(TsText *t, const char *s);
void ts_text_place_text(TsText *t, const char *where); /* "model.lua:12", behind "//" */
void ts_text_size(TsText *t, int64_t size);
void ts_text_type(TsText *t, const TsMeta *m);
void ts_text_attr(TsText *t, const TsAttrSpec *s, const TsAttr *a);
/* " {k=3}", or nothing where all have their defaults. */
void ts_text_attrs(TsText *t, const TsAttrSpec *spec, int n, const TsAttr *attr);

/* ---- reading; -1 with the lexer's failure */
bool ts_read_at_number(const TsReader *r);
int ts_read_number(TsReader *r, double *out);
int ts_read_int(TsReader *r, const char *what, int64_t *out);
int ts_read_string(TsReader *r, const char **out);
int ts_read_size(TsReader *r, int64_t *out);
int ts_read_dtype(TsReader *r, TsDtype *out);
int ts_read_type(TsReader *r, TsMeta *out);
/* attr[0..n) has the defaults before; `of` is the operator, for messages. */
int ts_read_attrs(TsReader *r, const TsToken *of, const TsAttrSpec *spec, int n, TsAttr *attr);

/* ---- comparing, as the text would: floats by their bits, one NaN of each sign */
bool ts_number_same(double a, double b);
bool ts_attr_same(const TsAttr *a, const TsAttr *b);
bool ts_type_same(const TsMeta *a, const TsMeta *b);
/* The value has the type that its spec says, and a word that exists. */
bool ts_attr_legal(const TsAttrSpec *s, const TsAttr *a);

#endif
