// How the examples take an answer: what is not HELIOSTAT_OK is told, and ends the function with 1.
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>

#include "heliostat.h"

#define CHECK(call)                                                                      \
  do {                                                                                   \
    int code = (call);                                                                   \
    if (code != HELIOSTAT_OK) {                                                          \
      fprintf(stderr, "%s answered %d: %s\n", #call, code, heliostat_last_message());    \
      return 1;                                                                          \
    }                                                                                    \
  } while (0)

#endif // CHECK_H
