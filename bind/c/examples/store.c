// An area of the store: made, written so that it survives a loss of power, and read again.
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "heliostat.h"

enum { AREA_BYTES = 1 << 20, PATIENCE_MS = 60000 };

int main(void) {
  heliostat_store *store = NULL;
  heliostat_area *area = NULL;
  CHECK(heliostat_store_connect(&store));
  // Nobody else writes it meanwhile; readers may come.
  CHECK(heliostat_area_create(store, "example/ledger", AREA_BYTES, HELIOSTAT_AREA_EXCLUSIVE, &area));
  CHECK(heliostat_area_write(area, 100, "balance 12", 10));
  CHECK(heliostat_area_flush(area));

  // The same by a queue, which tells by a descriptor, too, what has ended.
  heliostat_area_info info;
  CHECK(heliostat_area_describe(area, &info));
  heliostat_area_queue *queue = NULL;
  CHECK(heliostat_area_queue_open(area, 4, &queue));
  static char sector[1 << 16];
  CHECK(heliostat_area_queue_read(queue, 1, 0, sector, info.sector_bytes));
  heliostat_area_ended ended;
  CHECK(heliostat_area_queue_next(queue, PATIENCE_MS, &ended));
  CHECK(ended.code);
  printf("%.10s\n", sector + 100);
  heliostat_area_queue_close(queue);

  CHECK(heliostat_area_delete(area));
  heliostat_store_close(store);
  return 0;
}
