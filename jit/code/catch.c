/* See jit/code/catch.h. */
#include "jit/code/catch.h"

const TsCatch *ts_catch;
