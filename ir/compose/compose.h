/* The definitions of COMPOSE rows (ir/compose/<family>.c), one a row. */
#ifndef TS_IR_COMPOSE_H
#define TS_IR_COMPOSE_H

#include "ir/compose/build.h"

#define DECLARE_POINTWISE(name)
#define DECLARE_REDUCE(name)
#define DECLARE_SCAN(name)
#define DECLARE_RANDOM(name)
#define DECLARE_VIEW(name)
#define DECLARE_KERNEL(name)
#define DECLARE_COMPOSE(name) TsComposeFn ts_compose_##name;
#define DECLARE_DIRECT(name)  DECLARE_COMPOSE(name)
#define OP(name, cls, ...)    DECLARE_##cls(name)
#include "lib/ops.def"
#undef OP
#undef DECLARE_POINTWISE
#undef DECLARE_REDUCE
#undef DECLARE_SCAN
#undef DECLARE_RANDOM
#undef DECLARE_VIEW
#undef DECLARE_KERNEL
#undef DECLARE_COMPOSE
#undef DECLARE_DIRECT

/* What an lstm takes, for its definition, the function of calls that run at once, and Lua. */
enum { TS_LSTM_STEPS = 512 };                               /* most steps of one call */
int ts_lstm_check(const TsMeta *const in[4], TsError *err); /* or an error, and -1 */

#endif
