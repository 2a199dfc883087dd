/* What tests ask of the driver of Level Zero that fake_ze.c is, beside fake_base.h's. */
#ifndef TS_TESTS_DEVICES_DRIVER_FAKE_ZE_H
#define TS_TESTS_DEVICES_DRIVER_FAKE_ZE_H

void fake_apart(int on);  /* neither device sees the other's memory */
long fake_busy(void);     /* lists whose end nobody has waited for */
long fake_barriers(void); /* of the list that was executed last */

#endif
