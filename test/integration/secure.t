#!/bin/sh
# A set-user-id program takes no options from its environment nor from a link that somebody else than root has made,
# has no control directory, and its mailbox stays closed. The rest of the profiler works in it.
. "$JEMALLOC_SRC/test/include/tap.sh"
[ "$(id -u)" = 0 ] || skip_all "not root"
command -v setpriv >/dev/null || skip_all "no setpriv"

cat >show.c <<'END'
#include <stdio.h>
#include <sys/auxv.h>
#include <jemalloc/jemalloc.h>
#ifdef CONF
const char *malloc_conf = CONF;
#endif
int main(int argc, char **argv)
{
	unsigned n = 0;
	const char *dir = "none";
	size_t len = sizeof(n), dir_len = sizeof(dir);
	mallctl("opt.narenas", &n, &len, NULL, 0);
	mallctl("opt.prof_ctl_dir", &dir, &dir_len, NULL, 0);
	printf("secure %lu narenas %u dir %s\n", getauxval(AT_SECURE), n, dir);
	fflush(stdout);
	if (argc > 1)
		getchar();
	return argv[argc] != NULL;
}
END
cp "$LIB" ./libjemalloc.so.2
chmod 755 . libjemalloc.so.2
for name in show show_ctl; do
	conf=
	[ $name = show ] || conf="-DCONF=\"prof_ctl_dir:$W/ctl\""
	$CC -w -O1 $conf -I"$BUILD/include" -o $name show.c -Wl,--no-as-needed ./libjemalloc.so.2 -Wl,-rpath,"$W"
	cp $name setuid_$name
	chown 12345 setuid_$name
	chmod 4755 setuid_$name
	chmod 755 $name
done
user="setpriv --reuid 23456 --clear-groups"
is_secure() { case $1 in "secure 1 "*) true ;; *) false ;; esac; }
# a set-user-id program answered, and without this
lacks() {
	case $1 in
	*"$2"*) ok 1 "$3" "$1" ;;
	*) is_secure "$1"; ok $? "$3" "$1" ;;
	esac
}
out=$(MALLOC_CONF=narenas:7 $user ./show 2>&1)
has "$out" "secure 0 narenas 7 " "an ordinary program reads MALLOC_CONF"
out=$(MALLOC_CONF=narenas:7 $user ./setuid_show 2>&1)
if ! is_secure "$out"; then
	case $out in "secure 0 "*) skip "set-user-id has no effect here" ;; *) ok 1 "a set-user-id program runs" "$out" ;; esac
	done_testing
	exit
fi
lacks "$out" "narenas 7 " "a set-user-id program does not"

# The link, in a mount namespace of its own.
linked() {
	unshare -m sh -c "mount -t tmpfs none /etc && ln -s narenas:5 /etc/malloc.conf && chown -h $1 /etc/malloc.conf && $user $2" 2>&1
}
out=$(linked 12345 ./show)
case $out in
"secure 0 narenas 5 "*)
	out=$(linked 0 ./setuid_show)
	has "$out" "secure 1 narenas 5 " "it follows root's /etc/malloc.conf"
	out=$(linked 12345 ./setuid_show)
	lacks "$out" "narenas 5 " "not one of another owner"
	;;
*) skip "no mount namespace, or no link is read: $out" ;;
esac

if [ "$(asks config.prof)" = true ]; then
	has "$($user ./show_ctl 2>&1)" " dir $W/ctl" "a program sets its control directory"
	out=$($user ./setuid_show_ctl 2>&1)
	lacks "$out" "$W/ctl" "a set-user-id program has none"
	mkfifo input
	for name in show setuid_show; do
		$user ./$name wait <input >$name.ready 2>&1 &
		exec 3>input
		until_true grep -q secure $name.ready
		"$BUILD/bin/jeprofctl" --wait 1s status $! >$name.out 2>&1
		echo "status $?" >>$name.out
		exec 3>&-
		wait $!
	done
	# One that waits for input does not look at its mailbox, but has one.
	if grep -q '^status 0\|allocated too little' show.out; then
		has "$(cat setuid_show.out)" "keeps the mailbox closed" "and its mailbox is closed"
	else
		skip "no mailbox can be reached here: $(cat show.out)"
	fi

	# What the program itself asks for: the end of a session, the profile of a signal.
	cat >ends.c <<'END'
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <jemalloc/jemalloc.h>
const char *malloc_conf = CONF;
static void work(void)
{
	void *volatile p = malloc(100000);
	free(p);
}
int main(void)
{
	const char *options = "max_seconds:1,final:false";
	bool active = true;
	size_t len = sizeof(active);
	time_t end = time(NULL) + 30;
	if (mallctl("prof.session.start", NULL, NULL, &options, sizeof(options)) != 0)
		return 2;
	while (active && time(NULL) < end) {
		work();
		mallctl("prof.session.active", &active, &len, NULL, 0);
	}
	printf("session %s\n", active ? "runs" : "is over");
	fflush(stdout);
	raise(SIGTERM);
	return 3;
}
END
	for thread in auto false; do
		mkdir out
		chmod 777 out
		$CC -w -O1 -DCONF="\"prof:true,prof_final_signals:true,prof_prefix:$W/out/x,prof_thread:$thread\"" \
			-I"$BUILD/include" -o ends ends.c -Wl,--no-as-needed ./libjemalloc.so.2 -Wl,-rpath,"$W"
		chown 12345 ends
		chmod 4755 ends
		has "$($user ./ends 2>&1)" "session is over" "a session ends in time (prof_thread:$thread)"
		is "$(ls out | grep -c '\.f\.heap$')" 1 "and a signal that ends the program writes its profile"
		rm -rf out
	done
fi
done_testing
