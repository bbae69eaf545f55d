#!/usr/bin/env perl
# What CONTRIBUTING.md says under "Add ..." is done, step by step, on a copy of the source: an option, a node, a statistic of each
# list, a kind of dump, a verb of jeprof, a path of jeprofd. The copy is built and each of them works. Before the steps for the
# documents the tests that shall miss them do so; after them they pass.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Temp qw(tempdir);

my ($src, $build, $lib) = map { abs_path($ENV{$_} // die "$_ is not set\n") } qw(JEMALLOC_SRC
    JEMALLOC_BUILD JEMALLOC_LIB);
delete @ENV{qw(MALLOC_CONF LD_PRELOAD MAKEFLAGS MFLAGS MAKELEVEL CFLAGS CC)};
delete @ENV{ grep { /^GIT_/ } keys %ENV }; # a hook that runs this has its own
$ENV{LC_ALL} = 'C';
require "$src/test/demo/slurp.pl";
my $config = slurp("$build/src/config.h");
if ($config =~ /^#define CONFIG_(?:DEBUG 1|PROF 0|STATS 0|CACHE_OBLIVIOUS 0)/m
	|| $config =~ /^#define JEMALLOC_PREFIX_STR "[^"]/m
	|| `LD_PRELOAD='$lib' /bin/true 2>&1` ne '' || system('command -v autoconf >/dev/null') != 0) {
	print "1..0 # SKIP once is enough: on a release build, where autoconf is\n";
	exit 0;
}
my $dir = tempdir('jetest.XXXXXX', TMPDIR => 1, CLEANUP => 1);
my ($tests, $failures) = (0, 0);
my $copy = "$dir/copy";
my $here = "$dir/build";

mkdir $_ or die "$_: $!\n" for $copy, $here;
sh("cd '$src' && scripts/tracked | tar -cf - -T - | tar -xf - -C '$copy'") == 0 or die "no copy\n";
# What asks git sees the copy alone.
sh("cd '$copy' && git init -q . && git add .") == 0 or die "no copy in git\n";

add_option();
add_node_and_kind();
add_statistics();
add_verb();
add_path();

is(sh("cd '$copy' && ./autogen.sh && cd '$here' && '$copy/configure' -q CFLAGS=-O0"), 0,
	'the copy is configured') or finish();
is(sh("make -s -j2 -C '$here' build_lib build_tools doc/manual/manual"), 0, 'and built') or finish();
my $has_agent = -x "$here/bin/jeprofd";
my $new = "$here/lib/libjemalloc.so.2";

# ---- each does its work ----

spew("$dir/use.c", <<'EOC');
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
static int (*ctl)(const char *, void *, size_t *, void *, size_t);
static long long
value(const char *name, size_t size) {
	unsigned long long v = 0;
	int err = ctl(name, &v, &size, NULL, 0);
	return err != 0 ? -err : (long long)v;
}
int
main(void) {
	uint64_t epoch = 1;
	void (*print)(void *, void *, const char *);
	*(void **)&ctl = dlsym(RTLD_DEFAULT, "mallctl");
	*(void **)&print = dlsym(RTLD_DEFAULT, "malloc_stats_print");
	for (int i = 0; i < 100; i++)
		free(malloc(100000)), malloc(50), malloc(3 << 20);
	ctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	printf("option %lld\n", value("opt.recipe_number", sizeof(unsigned)));
	printf("node %lld\n", value("prof.recipe_count", 8));
	printf("dump %d\n", ctl("prof.recipe_dump", NULL, NULL, NULL, 0));
	printf("dumps %lld\n", value("prof.recipe_count", 8));
	printf("large %lld\n", value("stats.arenas.0.lextents.0.nrecipes", 8) > 0
	    || value("stats.arenas.4096.lextents.20.nrecipes", 8) > 0);
	printf("row %d\n", value("stats.arenas.4096.recipe_bytes", 8) > 0);
	printf("bin %d\n", value("stats.arenas.4096.bins.4.nrecipes", 8) > 0);
	print(NULL, NULL, "");
	print(NULL, NULL, "J");
	return 0;
}
EOC
sh("cd '$dir' && gcc -w -o use use.c -ldl") == 0 or die "no program\n";
my $conf = 'recipe_number:7,prof:true,prof_prefix:app,lg_prof_sample:12';
my $out = `cd '$dir' && MALLOC_CONF='$conf' LD_PRELOAD='$new' ./use 2>&1`;
is_line($out, 'option 7', 'option: read, and readable as a node');
is_line($out, '  opt.recipe_number: 7', 'and printed');
my $said = `MALLOC_CONF=recipe_number:200 LD_PRELOAD='$new' /bin/true 2>&1`;
like($said, qr/recipe_number/, 'a value outside is refused');
is_line($out, 'node 0', 'node: it answers');
is_line($out, 'dump 0', 'kind of dump: it is made');
is_line($out, 'dumps 1', 'and counted');
my ($profile) = glob "$dir/app.*.q0.heap";
check('in a file of its letter', defined $profile, glob "$dir/app.*");
like(slurp($profile // '/dev/null'), qr/^# jemalloc\.kind=recipe$/m, 'which says its word');
is_line($out, "$_ 1", "statistic of $_: it is counted") for qw(large row bin);
my ($text, $json) = $out =~ /^(___ Begin .*?)^(\{.*)/ms;
like($text // '', qr/^recipe_bytes: +[1-9]/m, 'statistic: of an arena, in the text');
like($text // '', qr/\bnrecipes\b/, 'of a class, in the text');
my @numbers = ($json // '') =~ /"nrecipes": ?(\d+)/g;
check('in the JSON, and not 0', @numbers > 100 && grep { $_ > 0 } @numbers);
is(sh("make -s -C '$here' one TEST=unit/stats_fields"), 0, 'and unit/stats_fields reads each back');
is(sh("make -s -C '$here' one TEST=unit/conf_table"), 0, 'unit/conf_table has seen the option');
like(scalar(`cd '$dir' && '$here/bin/jeprof' recipe 5 2>&1`), qr/^a recipe of 5$/m, 'verb: it works');
like(scalar(`'$here/bin/jeprof' --help`), qr/^  jeprof recipe N +what the test says$/m, 'with help');
like(scalar(`'$here/bin/jeprof' completion bash`), qr/\brecipe\b/, 'and completion');
like(scalar(`'$here/bin/jeprofd' --help`), qr{^  /p/PID/recipe +a page$}m, 'path: in --help') if $has_agent;

# ---- what the documents lack is told, and mended as the recipes say ----

my $missed = `make -s -C '$here' one TEST=demo/manual.t 2>&1`;
like($missed, qr/^not ok \d+ - doc\/jemalloc\.3 is the one that the tables give/m, 'no make manual: told');
like($missed, qr/^not ok \d+ - a document shows each of its \d+ verbs$/m, 'no document shows the verb: told');
like($missed, qr/^not ok \d+ - jeprofd: paths: the page has all/m, 'the page lacks the path: told')
    if $has_agent;
like(scalar(`make -s -C '$here' one TEST=demo/house.t 2>&1`), qr/^# +not listed: Recipe$/m,
	'the head of jeprof lacks the room: told');
is(sh("make -s -C '$here' manual"), 0, 'make manual');
my $page = slurp("$copy/doc/jemalloc.3");
like($page, qr/^\.TP\n\\fB\Q$_\E/m, "and the page has $_") for 'recipe_number:', 'prof.recipe_count',
    'prof.recipe_dump';
edit('doc/PRODUCTION.md', qr/^More of jeprof: /m, "`jeprof recipe N` is for the test.\n\n");
edit('bin/jeprof.d/head.pl', qr/^#   Rooms  /m, "#   Recipe                 a number.\n");
edit('doc/jeprofd.1', qr/^\.TP\n\.BI \/p\/ PID \/start\n/m, ".TP\n.BI /p/ PID /recipe\na page\n");
for my $test ('manual', 'house') {
	is(sh("make -s -C '$here' one TEST=demo/$test.t"), 0, "then test/demo/$test.t passes");
}
finish();

# ---- the steps ----

sub add_option {
	edit('src/extent/guard.h', qr/^\/\* Whether fewer than/m, "extern unsigned opt_recipe_number;\n\n");
	edit('src/extent/guard.c', qr/^size_t opt_san_guard_small/m, "unsigned opt_recipe_number = 3;\n");
	edit('src/conf/conf_table.c', qr/^BOOL\(disable_large_size_classes/m,
		"NUM(recipe_number, CONF_UNSIGNED, opt_recipe_number, 1, 100, HERE, SHOWN | EXPERIMENTAL, \"a number\"),\n");
}

sub add_node_and_kind {
	edit('src/ctl/ctl_prof.c', qr/^static int\nset_prefix\(/m, <<'EOC');
static int
get_recipe_count(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->u64 = prof_recipes();
	return 0;
}

static int
act_recipe_dump(const ctl_call_t *call, const void *in) {
	(void)call;
	(void)in;
	return prof_recipe_dump();
}

EOC
	edit('src/ctl/ctl_prof.c', qr/^\tCTL_VALUE_RW\("gdump"/m, <<'EOC');
	CTL_NODE_R("recipe_count", CTL_U64, get_recipe_count, PROF, NODE_EXPERIMENTAL "dumps of the test"),
	CTL_NODE_ACT("recipe_dump", act_recipe_dump, BOOTED | CTL_OUTSIDE, NODE_EXPERIMENTAL "a dump for the test"),
EOC
	edit('src/prof/file/prof_sys.h', qr/^\tprof_kind_box, /m, "\tprof_kind_recipe,\n");
	edit('src/prof/file/prof_sys.c', qr/^\t\[prof_kind_box\]/m,
		"\t[prof_kind_recipe] = {'q', \"recipe\"},\n");
	edit('src/prof/file/prof_keep.c', qr/^\tcase prof_kind_timer:/m, "\tcase prof_kind_recipe:\n");
	edit('src/prof/trigger/prof_auto.h', qr/^int prof_mdump\(/m,
		"int prof_recipe_dump(void);\nuint64_t prof_recipes(void);\n");
	edit('src/prof/trigger/prof_auto.c', qr/^void\nprof_final_dump\(/m, <<'EOC');
static uint64_t recipes;

int
prof_recipe_dump(void) {
	prof_dump_t d = {.kind = prof_kind_recipe, .may_wait = true};
	int err = prof_dump(&d);
	recipes += err == 0;
	return err;
}

uint64_t
prof_recipes(void) {
	return recipes;
}

EOC
}

sub add_statistics {
	my $lists = 'src/arena/arena_stats.h';
	my $x = "\tX(nrecipes, uint64_t, NODE_EXPERIMENTAL \"for the test\") \\\n";
	edit($lists, qr/^\tX\(mapped, size_t,/m, "\tX(recipe_bytes, size_t, NODE_EXPERIMENTAL \"for the test\") \\\n");
	edit($lists, qr/(?<=^#define BIN_STATS_FIELDS\(X\) \\\n)/m, $x);
	edit($lists, qr/(?<=^#define LARGE_COUNT_FIELDS\(X\) \\\n)/m, $x);
	edit('src/arena/inspect.c', qr/^#define SUM_extent_avail /m,
		"#define SUM_recipe_bytes (atomic_load_zu(&a->pac.mapped, MO_RELAXED) / 2)\n");
	edit('src/stats.c', qr/^\tcell\(&l, 13, "nslabs", b->nslabs\);/m,
		"\tcell(&l, 13, \"nrecipes\", b->nrecipes);\n");
	edit('src/arena/bin.c', qr/^\tbin->stats\.nmalloc \+= got;/m, "\tbin->stats.nrecipes += got;\n");
	edit('src/arena/large.c', qr/^\t\tatomic_fetch_add_u64\(&large_count\(a, usize\)->nmalloc, n/m,
		"\t\tatomic_fetch_add_u64(&large_count(a, usize)->nrecipes, n, MO_RELAXED);\n");
}

sub add_verb {
	spew("$copy/bin/jeprof.d/recipe.pl", <<'EOC');
# Recipe: the verb "recipe": a number.
package Recipe;

sub command {
	my ($option, $number) = @_;
	print "a recipe of $number\n";
}
EOC
	sh("cd '$copy' && git add bin/jeprof.d/recipe.pl");
	edit('scripts/join-jeprof', qr/(?<=^later=')/m, 'recipe ');
	edit('bin/jeprof.d/verbs.pl', qr/^\t\[completion => /m,
		"\t[recipe => \\&Recipe::command, 'N', 'what the test says'],\n");
}

sub add_path {
	edit('bin/agent/route.c', qr/^\t\{PROCESS "\/otlp"/m,
		"\t{PROCESS \"/recipe\", place_page, false, job_heap, false, \"a page\"},\n");
}

# ---- tools ----

# The text is put where the pattern matches, which is in one place of the file.
sub edit {
	my ($file, $where, $text) = @_;
	my $old = slurp("$copy/$file");
	my @at;
	push @at, $-[0] while $old =~ /$where/g;
	check("$file: the place of a step is there", @at == 1, "$where: " . @at . ' places') if @at != 1;
	spew("$copy/$file", substr($old, 0, $at[0]) . $text . substr($old, $at[0])) if @at;
}

sub spew {
	my ($file, $text) = @_;
	open my $to, '>', $file or die "$file: $!\n";
	print $to $text;
	close $to or die "$file: $!\n";
}

# Runs a command, and keeps what it says.
sub sh {
	my ($command) = @_;
	system("($command) >'$dir/said' 2>&1");
	return $?;
}

sub check {
	my ($name, $is_ok, @remarks) = @_;
	$tests++;
	print $is_ok ? 'ok' : 'not ok', " $tests - $name\n";
	return 1 if $is_ok;
	$failures++;
	splice @remarks, 20 if @remarks > 20;
	print STDERR "not ok $tests - $name\n", map { "#   $_\n" } @remarks;
	return 0;
}

sub is {
	my ($got, $want, $name) = @_;
	my @said = split /\n/, slurp("$dir/said");
	splice @said, 0, -20 if @said > 20;
	return check($name, $got eq $want, "got $got, want $want", @said);
}

sub is_line {
	my ($text, $line, $name) = @_;
	my ($word) = $line =~ /(\w+)/;
	return check($name, $text =~ /^\Q$line\E/m, "no line: $line", grep { /\b$word\b/ } split /\n/, $text);
}

sub like {
	my ($text, $pattern, $name) = @_;
	return check($name, $text =~ $pattern, "no match: $pattern", split /\n/, $text);
}

sub finish {
	print "1..$tests\n";
	exit($failures != 0);
}
