#!/usr/bin/env perl
# The examples of README.md, as they stand there: each block fenced as "console" is typed into a shell, in the order of the
# page, in a directory that looks like a source tree that was configured and built in place. A command must end as the page
# says (exit status 0, or N in a line "[exit N]"), and each line that the page shows must come, in that order. Numbers,
# times and ids may differ; a line "..." stands for anything. A fence "console demo" or "console no-test" is left to others.
use strict;
use warnings;
use File::Temp qw(tempdir);

my ($src, $build, $lib) = map { $ENV{$_} // die "$_ is not set\n" } qw(JEMALLOC_SRC JEMALLOC_BUILD JEMALLOC_LIB);
delete @ENV{qw(MALLOC_CONF LD_PRELOAD LD_LIBRARY_PATH)};
$ENV{LC_ALL} = 'C';
$ENV{PATH} = "$ENV{PATH}:/usr/local/bin:/usr/bin:/bin";

skip_all('no C compiler') if !grep { -x "$_/gcc" } split /:/, $ENV{PATH};
my $config = slurp("$build/src/config.h");
my $is_debug = $config =~ /^#define CONFIG_DEBUG 1/m;
skip_all('no profiler or other names in this build') if $config =~ /^#define (?:CONFIG_PROF 0|JEMALLOC_PREFIX_STR "[^"])/m;
my $dir = tempdir('jetest.XXXXXX', TMPDIR => 1, CLEANUP => 1);
lay_out();
chdir $dir or die "$dir: $!\n";

my $tests = 0;
my $failures = 0;
my @steps = steps("$src/README.md");
check('README.md has examples', @steps >= 10);
for my $step (@steps) {
	my ($said, $status) = typed($step->{command});
	# A debug build ends a program with a bad option (abort_conf is on there).
	$status = 0 if $is_debug && $status == 134 && $said =~ /: Invalid conf /;
	my $missing = missing($step->{shown}, $said);
	check($step->{command}, $status == $step->{status} && !defined $missing,
	    "exit status $status, the page says $step->{status}", defined $missing ? "not said: $missing" : (), split(/\n/, $said));
}
print "1..$tests\n";
chdir '/';
exit($failures != 0);

sub skip_all {
	print "1..0 # SKIP $_[0]\n";
	exit 0;
}

sub check {
	my ($name, $is_ok, @remarks) = @_;
	$tests++;
	$name =~ s/\s*\n\s*/ /g;
	$name =~ s/#/\\#/g;
	print $is_ok ? 'ok' : 'not ok', " $tests - $name\n";
	return if $is_ok;
	$failures++;
	splice @remarks, 40 if @remarks > 40;
	print "#   $_\n" for @remarks;
}

sub slurp {
	open my $in, '<', $_[0] or die "$_[0]: $!\n";
	local $/;
	return <$in> // '';
}

sub lay_out {
	mkdir "$dir/bin";
	symlink $lib =~ s{/[^/]*$}{}r, "$dir/lib";
	symlink "$build/include", "$dir/include";
	symlink "$src/doc", "$dir/doc";
	symlink "$src/bin/jeprof", "$dir/bin/jeprof";
	symlink "$build/bin/$_", "$dir/bin/$_" for qw(jemalloc-config jemalloc.sh);
}

# Commands of the page with what it shows of their output.
sub steps {
	my ($page) = @_;
	open my $in, '<', $page or die "$page: $!\n";
	my ($inside, @found);
	while (my $line = <$in>) {
		chomp $line;
		if ($line =~ /^```/) {
			$inside = $line eq '```console';
		} elsif ($inside && $line =~ /^\$ (.*)/) {
			push @found, { command => $1, shown => [], status => 0 };
		} elsif ($inside && @found && $line =~ /^> (.*)/ && !@{$found[-1]{shown}}) {
			$found[-1]{command} .= "\n$1";
		} elsif ($inside && @found && $line =~ /^\[exit (\d+)\]$/) {
			$found[-1]{status} = $1;
		} elsif ($inside && @found && $line ne '...') {
			push @{$found[-1]{shown}}, $line;
		}
	}
	return @found;
}

sub typed {
	my ($command) = @_;
	open my $out, '-|', 'timeout', '60', 'bash', '-c', "exec 2>&1 </dev/null; $command" or die "bash: $!\n";
	my $said = do { local $/; <$out> } // '';
	close $out;
	return ($said, $? & 127 ? 128 + ($? & 127) : $? >> 8);
}

# What stays of a line when everything that may differ is taken out.
sub plain {
	my ($line) = @_;
	$line =~ s/-g[0-9a-f]{40}\b/-g#/g;
	$line =~ s/\b\d{8}T\d{6}\.\d{3}Z/#/g;
	$line =~ s/\b0x[0-9a-f]+/#/g;
	$line =~ s/(?:\b|(?<=[a-z~]))-?\d+(?:\.\d+)?(?:[KMG]\b)?/#/g;
	$line =~ s/\s+/ /g;
	$line =~ s/^ | $//g;
	return $line;
}

# The first line shown that does not come, undef if all do.
sub missing {
	my ($shown, $said) = @_;
	my @lines = map { plain($_) } split /\n/, $said;
	for my $wanted (@$shown) {
		my $plain = plain($wanted);
		shift @lines while @lines && $lines[0] ne $plain;
		return $wanted if !@lines;
		shift @lines;
	}
	return undef;
}
