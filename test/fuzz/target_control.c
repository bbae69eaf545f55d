/* The content of a command file of the control directory, from reading to the answer. */
#include "target.h"

#include "prof/control/prof_ctl_dir.h"
#include "prof/control/prof_session.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const prof_asker_t asker = {.is_confined = true};
	static prof_answer_t answer;
	uint64_t nonce = 1, until_ms;
	char *content = copy_exactly(data, size, false);
	char *text = prof_ctl_cmd_parse(content, size, &nonce, &until_ms);
	if (text != NULL) {
		if (text < content || text > content + size) {
			abort();
		}
		int err = prof_request(text, &asker, &answer);
		if (answer.len >= sizeof(answer.text) || answer.text[answer.len] != '\0' || err < 0) {
			abort();
		}
	}
	prof_session_stop(0, NULL);
	free(content);
	return 0;
}
