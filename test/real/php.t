#!/bin/sh
# php (8.2, in Debian 13 8.4): it opens its extensions with RTLD_DEEPBIND, so it runs on the library with the companion beside it that drops that flag
# (libjemalloc_deepbind.so). The same answers as without the library, then its built-in server is profiled from outside.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/real/aid"
php=php8.2
command -v $php >/dev/null || php=php8.4
needs $php
COMPANION=$(echo "$LIB" | sed 's/\.so\..*$//')_deepbind.so
ok "$([ -e "$COMPANION" ]; echo $?)" "the companion library is there" "$COMPANION"
is "$($php -m | grep -cx 'mbstring\|xml\|dom')" 3 "extensions are loaded: mbstring, xml, dom"

cat >work.php <<'PHP'
<?php
// Strings, arrays, documents, regular expressions, JSON: PHP's own allocator off, each block is a malloc.
function work(int $n): string {
	$kept = [];
	for ($i = 0; $i < 300; $i++) {
		$text = str_repeat("piece " . $i * $n . " ", 1 + ($i * 7919) % 400);
		$kept["$n/$i"] = mb_strtoupper(preg_replace('/[0-4]+/', '<$0>', $text));
	}
	$document = new DOMDocument();
	$top = $document->appendChild($document->createElement('top'));
	foreach ($kept as $name => $text) {
		$top->appendChild($document->createElement('row', htmlspecialchars($text)))->setAttribute('name', $name);
	}
	$again = simplexml_load_string($document->saveXML());
	$rows = [];
	foreach ($again->row as $row) {
		$rows[(string)$row['name']] = (string)$row;
	}
	if ($rows !== $kept || json_decode(json_encode($kept), true) !== $kept) {
		throw new Exception("not what it was");
	}
	return hash('sha256', serialize($rows));
}
if (PHP_SAPI === 'cli') {
	foreach (range(1, 20) as $n) echo work($n), "\n";
} elseif ($_SERVER['REQUEST_URI'] === '/hold') {
	// At any time the array of one round or two is there, so that each profile has something.
	for ($n = 1; file_exists('busy'); $n++) {
		$older = $newer ?? null;
		$newer = array_map(fn($i) => str_repeat("row $i ", 100), range(1, 1000));
		work(3);
		file_put_contents('rounds', $n);
	}
} else {
	echo $_SERVER['REQUEST_URI'] === '/ready' ? 'ready' : work((int)substr($_SERVER['REQUEST_URI'], 1));
}
PHP
export USE_ZEND_ALLOC=0
$php work.php >want 2>&1
for conf in "" prof:true,lg_prof_sample:10 tcache:false; do
	MALLOC_CONF=$conf LD_PRELOAD=$COMPANION:$LIB $php work.php >got 2>&1
	ok $? "php works (${conf:-default options})" "$(tail -n 5 got)"
	ok "$(cmp -s want got; echo $?)" "the same answers as without the library" "$(diff want got | head -n 10)"
done

port=$(free_port)
launch php env LD_PRELOAD="$COMPANION:$LIB" $php -S "127.0.0.1:$port" work.php
served_by $pid curl -sf "http://127.0.0.1:$port/ready"
ok $? "its built-in server answers" "$(tail -n 5 php.err)"
while_busy curl -sf "http://127.0.0.1:$port/hold"
profile_begins $pid php
# rounds_reach N: the request that goes on has done so many rounds
rounds_reach() { [ "$(cat rounds 2>/dev/null)0" -ge "${1}0" ]; }
before=$(cat rounds 2>/dev/null)
until_true rounds_reach $((${before:-0} + 3))
profile_goes_on $pid php
profile_ends $pid php
at_ease
is "$(curl -sf "http://127.0.0.1:$port/7")" "$(sed -n 7p want)" "it still gives the right answers"
stops $pid INT 0 php
done_testing
