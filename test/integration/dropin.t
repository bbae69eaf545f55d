#!/bin/sh
# Real programs, unmodified, on the library: each runs preloaded and must give what it
# gives without; redis-server uses it through its own link to libjemalloc.so.2.
. "$JEMALLOC_SRC/test/include/tap.sh"
CONFS="none tcache:false"
! grep -q '^#define CONFIG_PROF 1' "$BUILD/src/config.h" || CONFS="$CONFS prof:true,lg_prof_sample:10"

# same NAME COMMAND...: same output and status with and without the library
same() {
	name=$1
	shift
	command -v "$1" >/dev/null || {
		skip "no $1"
		return
	}
	timeout 400 "$@" >want 2>&1 </dev/null
	rc=$?
	for conf in $CONFS; do
		MALLOC_CONF=$([ $conf = none ] || echo $conf) LD_PRELOAD="$LIB" timeout 400 "$@" >got 2>&1 </dev/null
		got=$?
		ok "$([ $got -eq $rc ] && cmp -s want got; echo $?)" "$name ($conf)" \
		    "exit status $got, without the library $rc" "$(diff want got | head -n 20)"
	done
}

cat >prog.sh <<'END'
a=(); for i in {1..3000}; do a+=("item $i ${a[i/2]:0:20}"); done
printf '%s\n' "${a[@]}" | sort | sed 's/item/thing/' | awk '{ n += length($0) } END { print n }'
f() { local x=$1; [ $x -le 0 ] || echo "$(f $((x - 1)))$x"; }; f 12
for i in {1..50}; do (exit $i) & done; wait; echo "${#a[@]}"
END
same bash bash prog.sh

cat >prog.pl <<'END'
my %h; my @a;
for my $i (1 .. 60000) { $h{"k" . $i % 7000} .= chr(65 + $i % 26); push @a, [$i, "x" x ($i % 300)]; }
my $n = 0; $n += length $_->[1] for @a; @a = sort { $b->[0] <=> $a->[0] } @a;
print "$n $a[0][0] ", scalar(keys %h), "\n";
my $s = join ",", map { $h{"k$_"} } 1 .. 3000; my $c = () = $s =~ /A[B-Z]*?Z?/g; print "$c\n";
for (1 .. 5) { my $p = fork; if (!$p) { my @b = map { "y" x $_ } 1 .. 2000; exit(@b == 2000 ? 0 : 1) } waitpid $p, 0; print "child $?\n"; }
END
same perl perl prog.pl

cat >prog.py <<'END'
import json, re, threading, collections
d = {str(i): [i] * (i % 50) for i in range(20000)}
s = json.dumps(d); e = json.loads(s); print(len(s), len(e))
r = []
def work(n):
    c = collections.Counter(str(i * n)[:3] for i in range(20000)); r.append(sum(c.values()))
t = [threading.Thread(target=work, args=(n,)) for n in range(1, 6)]
[x.start() for x in t]; [x.join() for x in t]
print(sum(r), len(re.sub(r'[0-9]+', 'x', s)))
b = bytearray()
for i in range(3000): b += bytes(i)
print(len(b), sum(len(str(10 ** i)) for i in range(500)))
END
PYTHONMALLOC=malloc
export PYTHONMALLOC
same "python3, PYTHONMALLOC=malloc" /usr/bin/python3 prog.py
unset PYTHONMALLOC

cat >prog.sql <<'END'
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
 insert into t select i, printf('%0*d', i % 100 + 1, i), i * 1.5 from n;
create index tb on t(b);
select count(*), sum(length(b)), max(c) from t where b like '%7%';
select substr(b, 1, 3) k, count(*) from t group by k order by 2 desc, 1 limit 5;
delete from t where a % 3 = 0; vacuum; select count(*) from t;
END
same sqlite3 sqlite3 :memory: ".read prog.sql"

cat >prog.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct s { int a; struct s *next; };
static int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
int main(void) { struct s *l = 0; for (int i = 0; i < 100; i++) { struct s *n = malloc(sizeof(*n)); n->a = f(i % 20); n->next = l; l = n; }
 int t = 0; for (; l; l = l->next) t += l->a; printf("%d\n", t); return 0; }
END
same "gcc -O2 -S" gcc -O2 -S -o - prog.c
same "gcc, four files at once" sh -c 'for i in 1 2 3 4; do gcc -O2 -g -c -o $i.o prog.c & done; wait; cksum <1.o; gcc -o prog 1.o && ./prog'
printf '#include <map>\n#include <string>\n#include <iostream>\nint main() { std::map<std::string, int> m; m["x"] = 1; std::cout << m.size() << "\\n"; }\n' >prog.cpp
same "g++" sh -c 'g++ -O1 -o cxx prog.cpp && ./cxx'

if command -v git >/dev/null; then
	export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z' HOME="$W" \
	    GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
	cat >git.sh <<-'END'
	rm -rf repo; git init -q repo 2>/dev/null; cd repo || exit 1
	for i in 1 2 3 4 5 6 7 8; do seq 1 $((i * 3000)) >f$i; git add . ; git commit -q -m "c$i"; done
	git gc -q --aggressive --prune=now; git fsck --strict 2>&1 | grep -v dangling; git log --format='%h %s' --stat | cksum
	git blame f8 | cksum; git diff HEAD~3 | cksum; git repack -q -a -d -f; git count-objects | cksum
	END
	same git sh git.sh
else
	skip "no git"
fi

# Ten modules of Python's own test suite, where Debian's package of it is installed. -w: what fails is run once more, for
# those of threads have time limits of two seconds. A crash is no failure that can be run again.
if /usr/bin/python3 -c 'import test.test_dict' 2>/dev/null; then
	str=test_unicode # its name until Python 3.12
	/usr/bin/python3 -c 'import test.test_str' 2>/dev/null && str=test_str
	PYTHONMALLOC=malloc LD_PRELOAD="$LIB" timeout 500 /usr/bin/python3 -m test -q -w test_dict test_list \
	    test_json test_re test_threading test_bytes $str test_array test_set test_struct >got 2>&1
	ok $? "python3 -m test of ten modules" "$(tail -n 20 got)"
else
	skip "no test suite of Python"
fi

# redis-server by its real link, under some load, with a dump and a restart.
if command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null; then
	sock=$W/redis.sock
	redis() {
		env LD_LIBRARY_PATH="$LIBDIR" MALLOC_CONF="$1" redis-server --port 0 \
		    --dir "$W" --unixsocket "$sock" --save '' --daemonize no >redis.log 2>&1 &
		pid=$!
		until_true answers
	}
	answers() { [ "$(redis-cli -s "$sock" ping 2>/dev/null)" = PONG ]; }
	has_saved() { redis-cli -s "$sock" info persistence | grep -q 'rdb_bgsave_in_progress:0'; }
	for conf in tcache:true prof:true,lg_prof_sample:12; do
		redis $conf
		ok $? "redis-server starts ($conf)" "$(cat redis.log)"
		ok "$(grep -q "$LIB" /proc/$pid/maps; echo $?)" "on this library"
		timeout 400 redis-benchmark -s "$sock" -q -n 20000 -r 5000 -d 100 -t set,get,lpush,lpop,sadd,hset,zadd >bench 2>&1
		ok $? "redis-benchmark" "$(tail -n 5 bench)"
		redis-cli -s "$sock" info memory >info
		has "$(cat info)" "mem_allocator:jemalloc-5.3" "it says which allocator it uses"
		used=$(tr -d '\r' <info | sed -n 's/^allocator_allocated://p')
		ok "$([ "${used:-0}" -gt 1000000 ]; echo $?)" "and reads its figures (allocated $used)"
		is "$(redis-cli -s "$sock" bgsave 2>&1 | head -n 1)" "Background saving started" "it forks to save"
		until_true has_saved
		ok $? "and has saved"
		is "$(redis-cli -s "$sock" memory purge)" OK "memory purge"
		is "$(redis-cli -s "$sock" memory doctor | grep -c .)" 1 "memory doctor"
		is "$(redis-cli -s "$sock" config set activedefrag yes 2>&1 | grep -c .)" 1 "activedefrag is answered"
		redis-cli -s "$sock" shutdown nosave >/dev/null 2>&1
		wait $pid
		is $? 0 "it ends well"
	done
else
	skip "no redis-server"
fi
done_testing
