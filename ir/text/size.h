/* Symbolic sizes: what stands in a shape, an attribute or a number where it changes with the
 * shapes of the arguments. An expression num * B^i * T^j * N^k * M^l / den + off over at most
 * four symbols packs into the 64 bits of the size itself, so that graphs with symbols are
 * graphs like others; only who computes with sizes must give the symbols values first
 * (ir/graph/symbolic.h). Numbers carry one in the payload of a NaN. */
#ifndef TS_IR_SIZE_H
#define TS_IR_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/text.h"

enum { TS_SYMBOLS = 4 };

typedef struct TsSize {
  int num, den, off; /* den > 0; |num| < 2^15, den < 2^6, |off| < 2^11 */
  int power[TS_SYMBOLS];
  bool inverse; /* of numbers: 1 / value */
} TsSize;

/* A symbol's name: B, T, N, M. */
extern const char ts_size_symbol[TS_SYMBOLS + 1];

bool ts_size_is(int64_t v); /* is a packed expression */
int64_t ts_size_pack(const TsSize *s);
TsSize ts_size_unpack(int64_t v);
/* Its value; false where a division leaves a rest or a symbol has no value (0). */
bool ts_size_value(const TsSize *s, const int64_t value[TS_SYMBOLS], int64_t *out);
void ts_size_text(const TsSize *s, TsText *t);

bool ts_number_is_size(double v);
double ts_number_pack(const TsSize *s);
TsSize ts_number_unpack(double v);

/* The simplest expression that is va where the symbols are a and vb where they are b: a
 * constant, a symbol, a product with a fraction, a sum with a constant. False if none is. */
bool ts_size_fit(int nsymbol, const int64_t *a, const int64_t *b, int64_t va, int64_t vb,
                 TsSize *out);

#endif
