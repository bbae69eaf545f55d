#!/bin/sh
# --debuginfod where the home directory cannot be written, as in a service: what the server sends is kept below --cache, unless the user
# names another place; and that no server is named is told.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
[ -x "$BUILD/bin/jeprof-symbolize" ] || skip_all "jeprof-symbolize is not built (no libdw)"
ls /usr/lib/*/libdebuginfod.so.1 >found 2>/dev/null || skip_all "no libdebuginfod"
command -v objcopy >/dev/null || skip_all "no objcopy"
unset DEBUGINFOD_CACHE_PATH XDG_CACHE_HOME DEBUGINFOD_URLS HOME

agent --debuginfod --passive
has "$(cat agent.err)" "DEBUGINFOD_URLS names no server" "no server: told"
end_agent
agent --passive
is "$(grep -c debuginfod agent.err)" 0 "nothing of it without the option"
end_agent

# A function that only the debug file names: stripped here, whole at the server.
cat >serve.c <<'C'
#include <stdlib.h>
#include <unistd.h>
char *volatile kept[256];
__attribute__((noinline)) static void hold_orders(unsigned i) { free(kept[i % 256]); kept[i % 256] = malloc(3000); }
int main(void) { for (unsigned i = 0;; i++) { hold_orders(i); usleep(1000); } }
C
$CC -g -O1 -Wl,--build-id -o whole serve.c && objcopy --strip-all whole serve || exit 1
id=$(readelf -n whole | sed -n 's/.*Build ID: //p')
mkdir -p "server/buildid/$id" && objcopy --only-keep-debug whole "server/buildid/$id/debuginfo" || exit 1
LD_PRELOAD=$LIB ./serve >/dev/null 2>&1 &
pid=$!
children="$children $pid"
names() { get "/p/$pid/debug/pprof/heap"; gzip -dc <answer 2>/dev/null | grep -q hold_orders; }
# Nothing can be written there, not even by root.
export HOME=/proc DEBUGINFOD_URLS="file://$W/server"

agent --debuginfod --rate 4K --cache "$W/cache"
until_true is_target "$pid"
until_true names
ok $? "the name comes from the server" "$(cat agent.err)"
ok "$([ -d "$W/cache/debuginfod/$id" ]; echo $?)" "and is kept below --cache"
is "$(grep -c debuginfod agent.err)" 0 "nothing is told"
end_agent
mkdir own
export DEBUGINFOD_CACHE_PATH="$W/own"
agent --debuginfod --rate 4K --cache "$W/cache2"
until_true is_target "$pid"
until_true names
ok $? "the name again"
ok "$([ -d "$W/own/$id" ]; echo $?)" "kept where the user says"
end_agent
# Who started it ignored SIGCHLD: the kernel then forgets children that end, and nobody could wait for jeprof-symbolize.
printf '#!/bin/sh\nexec env --ignore-signal=CHLD "%s" "$@"\n' "$AGENT" >ignoring # a trap of dash does not ignore it
chmod +x ignoring
AGENT=$W/ignoring
agent --debuginfod --rate 4K --cache "$W/cache3"
until_true is_target "$pid"
until_true names
ok $? "names where SIGCHLD was ignored" "$(cat agent.err)"
done_testing
