# Types the commands of a page: each block fenced as one of the given kinds goes into one shell, in
# the order of the page, in a directory that looks like a source tree that was configured and built
# in place. A command must end as the page says (exit status 0, or N in a line "[exit N]"), and each
# line that the page shows must come, in that order. Numbers, times and ids may differ, /tmp/prod is
# the directory; a line "..." stands for anything. What the page leaves running is ended with its
# shell.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Time::HiRes qw(sleep time);

my ($src, $build, $lib) = map { $ENV{$_} // die "$_ is not set\n" } qw(JEMALLOC_SRC JEMALLOC_BUILD
    JEMALLOC_LIB);
require "$src/test/demo/slurp.pl";
my ($tests, $failures, $config, $dir, %shell) = (0, 0);

# Pages: [file, fence, fence ...]. Ends the program.
sub type_pages {
	my @pages = @_;
	delete @ENV{qw(MALLOC_CONF LD_PRELOAD LD_LIBRARY_PATH BASH_ENV)};
	$ENV{LC_ALL} = 'C';
	$ENV{PATH} = "$ENV{PATH}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	skip_all('no C compiler') if !grep { -x "$_/gcc" } split /:/, $ENV{PATH};
	$config = slurp("$build/src/config.h");
	skip_all('no profiler or other names in this build')
	    if $config =~ /^#define (?:CONFIG_PROF 0|JEMALLOC_PREFIX_STR "[^"])/m;
	skip_all('for another C library') if `LD_PRELOAD='$lib' /bin/true 2>&1` ne '';
	for my $page (@pages) {
		my ($file, @fences) = @$page;
		$dir = tempdir('jetest.XXXXXX', TMPDIR => 1, CLEANUP => 1);
		lay_out();
		my @steps = steps("$src/$file", @fences);
		check("$file has examples", @steps > 0);
		shell_begin();
		type_step($_) for @steps;
		shell_end();
	}
	print "1..$tests\n";
	exit($failures != 0);
}

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
	# prove shows standard error only.
	print STDERR "not ok $tests - $name\n", map { "#   $_\n" } @remarks;
}

sub skip {
	my ($name, $reason) = @_;
	$tests++;
	print "ok $tests # SKIP $reason: ", $name =~ s/\s*\n\s*/ /gr =~ s/#/\\#/gr, "\n";
}

sub lay_out {
	mkdir "$dir/bin";
	symlink $lib =~ s{/[^/]*$}{}r, "$dir/lib";
	mkdir $_ for "$dir/include", "$dir/include/jemalloc";
	symlink "$build/include/jemalloc/jemalloc.h", "$dir/include/jemalloc/jemalloc.h";
	symlink "$src/include/jemalloc/jemalloc_prof.h", "$dir/include/jemalloc/jemalloc_prof.h";
	symlink "$src/$_", "$dir/$_" for qw(doc src);
	symlink "$src/bin/$_", "$dir/bin/$_" for qw(ctl client jeprof.d page);
	symlink "$build/bin/$_", "$dir/bin/$_" for qw(jemalloc-config jemalloc.sh jeprof jeprofctl);
}

# What a fence of root's needs that is not everywhere, in a plain chroot or in most containers; with
# the command that tells.
my %needs = ('unshare -m ' => 'unshare -m true',
	'mount -t tmpfs ' => 'mount -t tmpfs tmpfs DIR && umount DIR');

# The command that the steps of a fence need and that cannot run here; undef: there is none.
sub impossible {
	my $text = join "\n", map { $_->{command} } @_;
	my ($at) = grep { $text =~ /\Q$_\E/ && !is_possible($needs{$_}) } sort keys %needs;
	return $at;
}

sub is_possible {
	my ($probe) = @_;
	mkdir "$dir/.probe";
	$probe =~ s{DIR}{$dir/.probe}g;
	return system("{ $probe; } >/dev/null 2>&1") == 0;
}

# Commands of the page with what it shows of their output.
sub steps {
	my ($page, @fences) = @_;
	my %is_wanted = map { ("```$_" => 1) } @fences;
	open my $in, '<', $page or die "$page: $!\n";
	my ($inside, $first, @found);
	while (my $line = <$in>) {
		chomp $line;
		if ($line =~ /^```/) {
			my $missing = $inside ? impossible(@found[$first .. $#found]) : undef;
			$_->{missing} = $missing for defined $missing ? @found[$first .. $#found] : ();
			$inside = $is_wanted{$line};
			$first = @found;
		} elsif ($inside && $line =~ /^\$ (.*)/) {
			push @found, { command => $1, shown => [], status => 0 };
		} elsif ($inside && @found && $line =~ /^> (.*)/ && !@{ $found[-1]{shown} }) {
			$found[-1]{command} .= "\n$1";
		} elsif ($inside && @found && $line =~ /^\[exit (\d+)\]$/) {
			$found[-1]{status} = $1;
		} elsif ($inside && @found && $line ne '...') {
			push @{ $found[-1]{shown} }, $line;
		}
	}
	return @found;
}

# What only looks is typed again until it sees what the page shows: here the program may take longer
# to come so far.
sub type_step {
	my ($step) = @_;
	my ($said, $status, $missing);
	return skip($step->{command}, "\"$step->{missing}\" cannot be done here")
	    if defined $step->{missing};
	for (my $end = time + 120;; sleep 0.1) {
		($said, $status) = typed($step->{command});
		# A debug build ends a program with a bad option, and one that fails to dump by itself
		# (abort_conf and abort are on there).
		$status = 0 if $config =~ /^#define CONFIG_DEBUG 1/m && $status == 134
		    && $said =~ /: (?:Invalid conf|failed to write) /;
		$missing = missing($step->{shown}, $said);
		last if $status == $step->{status} && !defined $missing;
		last if $step->{command} !~ /^(?:sleep \d+; )?(?:ls|cat|bin\/jeprofctl status) /
		    || time > $end;
	}
	check($step->{command}, $status == $step->{status} && !defined $missing,
		"exit status $status, the page says $step->{status}",
		defined $missing ? "not said: $missing" : (), split(/\n/, $said));
}

# ---- the shell: commands go in by a pipe, what is said lands in a file, behind each command a mark
# with its status

sub shell_begin {
	%shell = (output => "$dir/.said", mark => sprintf('=%08x=', rand 2**32), at => 0);
	$shell{pid} = open($shell{in}, '|-') // die "fork: $!\n";
	if ($shell{pid} == 0) {
		setpgrp;
		chdir $dir or die "$dir: $!\n";
		open STDOUT, '>', $shell{output} or die "$shell{output}: $!\n";
		open STDERR, '>&', \*STDOUT or die;
		exec 'bash', '--norc' or die "bash: $!\n";
	}
	$shell{in}->autoflush(1);
}

sub shell_end {
	local $SIG{PIPE} = 'IGNORE';
	kill 'KILL', -$shell{pid};
	close $shell{in};
}

sub typed {
	my ($command) = @_;
	local $SIG{PIPE} = 'IGNORE';
	print { $shell{in} } "{ $command\n} </dev/null; printf '\\n%s%d\\n' '$shell{mark}' \$?\n";
	for (my $end = time + 400; time < $end; sleep 0.02) {
		my $said = -e $shell{output} ? substr(slurp($shell{output}), $shell{at}) : '';
		next if $said !~ /^(.*?)\n\Q$shell{mark}\E(\d+)\n/s;
		$shell{at} += $+[0];
		return ($1, $2);
	}
	return ("(no end within 400 seconds)\n", 255);
}

# What stays of a line when everything that may differ is taken out.
sub plain {
	my ($line) = @_;
	$line =~ s/-g[0-9a-f]{40}\b/-g#/g;
	$line =~ s{\Q$dir\E}{/tmp/prod}g;
	$line =~ s/\d{8}T\d{6}\.\d{3}Z/#/g;
	$line =~ s/\b\d\d:\d\d:\d\dZ/#/g;
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

1;
