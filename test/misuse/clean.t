#!/bin/sh
# Fifteen programs that misuse nothing say the same as without the library, and the library says nothing.
. "$JEMALLOC_SRC/test/include/tap.sh"

# clean NAME COMMAND...: the command, which is run twice
clean() {
	name=$1
	shift
	"$@" >without 2>&1 </dev/null
	wanted=$?
	LD_PRELOAD=$LIB "$@" >with 2>&1 </dev/null
	got=$?
	[ $got = $wanted ] && [ $got = 0 ] && cmp -s without with
	ok $? "$name" "status $got, without the library $wanted" "$(diff without with | head -5)"
}

# The same, if the program that it is named for is there.
clean_if() {
	if command -v "$1" >/dev/null; then clean "$@"; else skip "no $1"; fi
}

for source in "$SRC"/test/misuse/clean/*.c; do
	name=$(basename "$source" .c)
	"$CC" -O1 -D_GNU_SOURCE -w -pthread -o "$name" "$source" || exit 1
	clean "$name" ./"$name"
done
if command -v "$CXX" >/dev/null && "$CXX" -std=c++17 -O1 -o containers "$SRC/test/misuse/clean/containers.cc"; then
	clean containers ./containers
else
	skip "no C++"
fi

cat >words.py <<'END'
import json, re, collections
words = collections.Counter(re.findall(r'\w+', open(__file__).read() * 200))
text = json.dumps([{k: [v] * 20} for k, v in sorted(words.items())] * 50)
print(len(text), len(json.loads(text)), sum(map(len, ('x' * i for i in range(3000)))))
END
clean_if "python3" env PYTHONMALLOC=malloc python3 words.py
clean_if "perl" perl -e 'my %h; $h{"k" . $_ % 5000} .= "v" x ($_ % 50) for 1 .. 100000; my $n = 0; $n += length for values %h; print "$n\n"; print join(",", (sort keys %h)[0 .. 5]), "\n"'
clean_if "sqlite3" sqlite3 :memory: 'create table t (a integer primary key, b text); with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000) insert into t select i, hex(zeroblob(i % 90)) from n; create index x on t (b); select count(*), sum(length(b)), count(distinct b) from t; delete from t where a % 3 = 0; select count(*) from t;'
clean_if "sort" sh -c 'seq 1 200000 | awk "{ print \$1 * 7919 % 200003 }" | sort -n | cksum'
printf '#include <stdio.h>\nint main(void) { printf("%%d\\n", 7); return 0; }\n' >seven.c
clean_if "gcc" sh -c 'gcc -O2 -o seven seven.c && ./seven'
clean_if "xz" sh -c 'seq 1 100000 | xz -9 -T2 | xz -d | cksum'

# A server that is asked, and told to end.
talk_to_redis() {
	redis-server --port 0 --unixsocket "$W/sock" --save '' --daemonize no >server.log 2>&1 &
	pid=$!
	until_true redis-cli -s "$W/sock" ping
	redis-cli -s "$W/sock" eval 'for i = 1, 20000 do redis.call("hset", "h" .. i % 500, "f" .. i, string.rep("v", i % 200)); redis.call("append", "s" .. i % 90, i) end return redis.call("dbsize")' 0
	redis-cli -s "$W/sock" hlen h7
	redis-cli -s "$W/sock" shutdown nosave
	wait $pid
	grep -c '<jemalloc>' server.log
	return 0
}
if command -v redis-server >/dev/null && command -v redis-cli >/dev/null; then
	without=$(talk_to_redis)
	with=$(LD_PRELOAD=$LIB && export LD_PRELOAD && talk_to_redis)
	is "$with" "$without" "redis-server"
else
	skip "no redis-server"
fi
done_testing
