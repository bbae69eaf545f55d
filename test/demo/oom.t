#!/usr/bin/env bash
# scripts/demo-oom on the library of this build: it must name who held the memory, and leave nothing behind. README shows what it prints.
. "$JEMALLOC_SRC/test/include/tap.sh" || exit 1
[ -x "$BUILD/bin/jeprofd" ] || skip_all "jeprofd is not in this build"
for tool in curl python3; do
	command -v $tool >/dev/null || skip_all "no $tool here"
done

# tells NAME HOW: what the demonstration has printed
tells() {
	name=$1
	is "$(sed '/^cat: /d' errors)" "" "$name: it complains of nothing"
	dead=$(sed -n '/^== who did it/{n;p;}' said)
	printf '%s\n' "$dead" | grep -qE "^serve [0-9]+: 20[0-9-]+ [0-9:]+Z: $2 at [0-9.]+M"
	ok $? "$name: how it ended, and at which size" "$dead"
	has "$(sed -n '/^ *self /{n;p;}' said)" "  remember  serve" "$name: who held the memory"
	page=$(sed -n '/^== its page/{n;s/ .*//;p;}' said)
	printf '%s\n' "$page" | grep -qE '^http://127\.0\.0\.1:[0-9]+/dead/[0-9TZ.]+/$'
	ok $? "$name: the address of the page" "$page"
	pid=$(printf '%s\n' "$dead" | sed 's/^serve \([0-9]*\):.*/\1/')
	kill -0 "$pid" 2>/dev/null
	is $? 1 "$name: the service has ended"
	curl -s --max-time 2 "$page" >/dev/null
	is $? 7 "$name: the agent has ended"
}

DEMO_NO_DEPS=1 DEMO_BUILD=$BUILD DEMO_DIR=$W/demo timeout 200 "$SRC/scripts/demo-oom" >said 2>errors </dev/null
ok $? "scripts/demo-oom" "$(tail -n 20 said)" "$(tail -n 20 errors)" || { done_testing; exit 1; }
group=$(sed -n 's|^/sys/fs/cgroup|&|p' said)
cp said in_group
if [ -n "$group" ]; then
	tells "in a group" "killed by the kernel for want of memory"
	printf '%s\n' "$dead" | grep -qE ' of 32M, growing by [0-9.]+M a minute for [0-9]+ (s|min)$'
	ok $? "the limit, and how fast it grew" "$dead"
	[ ! -e "$group" ]
	ok $? "the group is removed" "$group"
else
	tells "without a group" "ended by SIGKILL"
	grep -q 'no memory cgroup can be made here: .*: it is killed by kill -9 instead' said
	ok $? "it says so" "$(cat said)"
fi

# Another user may make no group.
if [ -n "$group" ] && chmod 755 "$W" && mkdir other && chmod 777 other && setpriv --reuid 65534 --clear-groups test -x "$BUILD/bin/jeprofd" -a -r "$SRC/doc/examples/serve.c" 2>/dev/null; then
	DEMO_NO_DEPS=1 DEMO_BUILD=$BUILD DEMO_DIR=$W/other/demo HOME=$W/other setpriv --reuid 65534 --clear-groups timeout 200 "$SRC/scripts/demo-oom" >said 2>errors </dev/null
	ok $? "as another user" "$(tail -n 20 said)" "$(tail -n 20 errors)"
	tells "as another user" "ended by SIGKILL"
	grep -q 'no memory cgroup can be made here: only root may: it is killed by kill -9 instead' said
	ok $? "it says so" "$(cat said)"
else
	skip "no other user can be had here, or it cannot read the tree"
fi

# README shows what is printed, but for the numbers.
form() { sed -n '/^== who did it/,$p' | head -n 5 | sed -E 's/[0-9]{4}-?[0-9]{2}-?[0-9]{2}[T ][0-9:.]+Z/TIME/g; s/[0-9][0-9.]*/N/g; s/N[MKG]/N/g; s/ +/ /g; s/N min/N s/'; }
if [ -n "$group" ]; then
	is "$(form <in_group)" "$(form <"$SRC/README.md")" "README shows what it prints"
else
	skip "README shows a group"
fi
done_testing
