/* The digest of the sources that generated code depends on, which the Makefile takes. */
#include "jit/code/kernel.h"

const char *ts_code_version(void) { return TS_CODE; }
