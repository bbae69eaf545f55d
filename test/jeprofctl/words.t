#!/bin/sh
# The command line: usage, verbs, options, what each of them asks for.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/jeprofctl/aid"

ctl
gives 2 "no word"
has "$err" "Usage:" "and the usage"
ctl --help
gives 0 "--help"
has "$out" "jeprofctl VERB" "on stdout"
is "$err" "" "nothing on stderr"
ctl help
gives 0 "help, the word"
has "$out" "jeprofctl VERB" "is the same"
ctl --version
has "$out" "protocol 2" "--version"
for words in "fly 1" "status" "stop" "status 1 2" "status 1 --nonsense" "status 1 --rate 5" "start 1 --rate" "start 1 --rate x" \
    "start 1 --rate -5" "start 1 --max 5x" "stop 1 --session x" "start 1 --prefix a,b" "set 1" "set 1 nonsense" "set 1 A:b" "set 1 a:b,c:d" \
    "dump 1 f -o g" "dump 1 -o g --ctl-dir d" "list 1" "status 1 --json=1" "status --pid=x" "watch 1 -n x" "watch 1 -n 0" "stop 1 -p 2" "status name --pid 2" \
    "set 1 rate:5 -p 2" "start 1 --blackbox-size 1M" "watch 1 -n 9ms"; do
	# shellcheck disable=SC2086
	ctl $words
	gives 2 "$words"
done
has "$err" '--interval: "9ms" is not a time from 10ms to ' "watch: how short"
# a number that cannot be is told with its option and the limits, before the process is asked
limits() {
	while read -r least most words; do
		# shellcheck disable=SC2086
		ctl $words
		gives 2 "$words"
		set -- $words
		option=$(printf '%s\n' "$@" | sed -n 's/^--//p' | tail -n 1)
		has "$err" "--$option: \"$(printf '%s\n' "$@" | tail -n 1)\" is not a " "$words: told"
		has "$err" " from $least to $most" "$words: with the limits"
	done
}
limits <<'END'
1 9223372036854775807 set 1 --rate 0
1 9223372036854775807 set 1 --rate 9223372036854775808
1 9223372036854775807 set 1 --rate 18446744073709551615
1 9223372036854775807 set 1 --rate 18446744073709551616
1 9223372036854775807 set 1 --rate -1
1 9223372036854775807 start 1 --rate 0x10
1 9223372036854775807 start 1 --rate +1
0 18446744073709551615 set 1 --alloc 18446744073709551616
0 18446744073709551615 set 1 --large -1
0 18446744073709551615 set 1 --highwater 0%
0 18446744073709551615 set 1 --step 101%
0 18446744073709551615 set 1 --step 4294967297%
1M 1G start 1 --blackbox --blackbox-size 1k
1M 1G start 1 --blackbox --blackbox-size 18446744073709551615
0 4294967296s start 1 --max 49710269618d
0 53375995583d set 1 --every 106751991167d
0 53375995583d status 1 --wait -1
0 49710d start 1 --duration 49711d
0 18446744073709551615 stop 1 --session 18446744073709551616
0 18446744073709551615 watch 1 --count 1k
END
ctl set 1 --rate " 1"
has "$err" '--rate: " 1" is not a size from 1 to 9223372036854775807' "a number behind a blank"
ctl set 1 alloc:1,large:2
has "$err" '"alloc:1,large:2" is not KEY:VALUE; each pair is a word of its own' "set: two pairs in a word"
for most in "--max 1s" max_seconds:3; do
	# shellcheck disable=SC2086
	ctl start 1 -d 3s $most
	gives 2 "start -d 3s $most"
	has "$err" "-d 3s: --max or max_seconds ends the session before" "and why"
done
ctl start 1 -d 200000000d
gives 2 "start -d for too long"
has "$err" '--duration: "200000000d" is not a time from 0 to 49710d' "and how long it may be"
ctl start 1 nonsense
is "$err" 'jeprofctl: start: "nonsense" is not KEY:VALUE' "start: a word that is no pair"
ctl set rate:5 -p 999999999
gives 5 "set: a word before -p is no process"
ctl dump file -p 999999999
gives 5 "dump: nor is a file"
if [ "$(cat /proc/2/comm 2>/dev/null)" = kthreadd ]; then
	ctl status 2
	gives 5 "a thread of the kernel"
	has "$err" "thread of the kernel" "is said to be one"
fi
long=$(printf '%05000d' 0)
for option in --prefix --reset --budget start; do
	word=$option=
	[ $option = start ] && word=prefix:
	ctl start 1 "$word$long"
	gives 2 "start $word: too long"
	has "$err" "$option: \"" "and names it"
	has "$err" ' bytes, and at most 4095 can be used' "and says how long it may be"
done
ctl set 1 --rate "$long"
has "$err" '..." is not a size from 1 to 9223372036854775807' "a long value does not hide the limits"
ctl dump 1 ""
gives 2 "dump to an empty name"
has "$err" "the name of the file is empty" "and said"
tab=$(printf 'a\tb')
ctl start 1 --prefix "/tmp/$tab"
gives 2 "a prefix with a control character, which no request may have"
ctl dump 1 "/tmp/$tab"
gives 2 "a file with one"
ctl set 1 "prefix:$tab"
gives 2 "a word with one"
if [ -c /dev/full ]; then
	for word in --help --version; do
		"$CTL" $word >/dev/full 2>err
		is "$? $(cat err)" "1 jeprofctl: cannot write: No space left on device" "$word to a full device"
	done
fi
ctl status 999999999
gives 5 "no such pid"
has "$err" "no process 999999999" "and said"
ctl status no-such-program-runs
gives 5 "no such program"
ctl status $$ --wait 100ms
gives 5 "a process without the library"
has "$err" "does not run the library" "and said"
sleep 0 &
ended=$!
has_ended() { ! kill -0 $ended || is_in_state $ended Z; }
until_true has_ended
ctl status $ended
gives 5 "an ended child"

# a process that has just been forked has not come to its exec, nor to its first allocation
mkfifo gate
sh -c 'read -r go; exec "$0" normal' "$W/$NAME" <gate >late 2>&1 &
late=$!
children="$children $late"
exec 8>gate
"$CTL" start "$late" --wait 60s -q >late.out 2>&1 8>&- &
asker=$!
is_asking() { [ "$(awk '{ print $3 }' "/proc/$asker/stat")" = S ]; }
until_true is_asking
echo go >&8
wait $asker
is "$? $(head -n 1 late.out)" "0 session 1" "a program that is only about to become one with the library"
exec 8>&-

if command -v perl >/dev/null; then
	perl -e 'exec {"sleep"} "titled: *:6379", 60' 9>&- &
	titled=$!
	children="$children $titled"
	ctl status "$titled" --wait 300ms
	gives 5 "a title in place of the command line"
	has "$err" "/libjemalloc.so.2 titled ..." "the command has the name of the program alone"
	kill "$titled"
else
	skip "no perl"
fi

fake normal
ctl set "$pid" --rate 512K --alloc 4G --large 64M --highwater 1.5G --step 128M --metric rss --every 5m dump_max_files:9
gives 0 "set"
ctl status "$pid" --json
has "$out" '"settings":"sample_interval:524288,alloc:4294967296,large:67108864,highwater:1610612736,highwater_step:134217728,highwater_metric:rss,time_ms:300000,dump_max_files:9"' "every option has its key"
ctl start -p "$pid" --prefix=rel/x
gives 2 "start, directory of the prefix missing"
has "$err" "sees no directory $W/rel/" "and said"
mkdir rel
ctl start -p "$pid" --prefix=rel/x --reset false --max 1500ms --rate=1
gives 0 "start, options with ="
ctl --json status -p "$pid"
has "$out" "\"settings\":\"prefix:$W/rel/x,reset:false,max_seconds:2,sample_interval:1\"" "relative prefix of this directory; seconds rounded up"
rmdir rel
ctl -p "$pid" stop
gives 1 "stop, directory of the prefix missing"
has "$err" "what it sampled is still there: jeprofctl dump $pid -o FILE" "and how to get at it"
ctl rearm "$pid"
gives 0 "rearm"
ctl start "$pid" --prefix "$(printf '%1000s' x)"
gives 2 "longer than a request"
ctl start "$pid" --prefix "$W/ok"
gives 0 "start"
ctl dump "$pid" -- -odd
is "$out" "$W/-odd" "a file name that looks like an option"
ctl dump "$pid" "a, b"
is "$out" "$W/a, b" "a file name with a comma and a blank"
end
done_testing
