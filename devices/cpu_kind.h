/* What the processor is like, for choices that change speed and no bit. */
#ifndef TS_DEVICES_CPU_KIND_H
#define TS_DEVICES_CPU_KIND_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of the first data cache; 32 KiB where nobody knows. */
int64_t ts_cpu_first_cache(void);

/* Whether it is AMD's: those drop requests for lines that come faster than memory answers. */
bool ts_cpu_is_amd(void);

#endif
