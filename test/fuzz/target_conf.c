/* Any bytes as an option string. The variables that it writes are not read again: boot is over. */
#include "target.h"

#include "conf/conf.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	char *text = copy_exactly(data, size, true);
	conf_parse(text);
	free(text);
	return 0;
}
