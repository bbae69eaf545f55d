# Contention: profiles of threads that wait for locks, as gperftools and Go write them: cycles waited
# and how often, stack by stack. They become text of our heap profile format whose objects are the
# contentions and whose bytes are nanoseconds, both multiplied by the sampling period, so top, flame
# and the options of output that name no verb (--text, --dot and more) read them. Verbs about memory
# refuse them. Profiles of processor time (CpuProfile), whose objects are samples, are treated as
# these are; where nothing is chosen, samples are counted. Callers: Foreign (heap_text); Main (settle, to_means); Shell (check_means); Series,
# Report and Export (refuse); Reduce, Elsewhere and Top (is_one).
package Contention;

use constant GUESS => 2_800_000_000; # cycles in a second, for a profile that does not say it

# Options for such profiles only, and values of $option->{index}: what is counted.
our @indices = qw(total_delay contentions mean_delay);

# The profile as text of our own format; undef if it is no profile of contention. Fails if it has no
# stacks; the first line that is not understood is a doubt. A stack without a count has one
# contention. Of comments only the names that Go tells are taken.
sub heap_text {
	my ($path, $text) = @_;
	return undef unless $text =~ /\A--- *(?:contention|mutex|(Stacks:))[^\n]*\n/gc;
	Talk::note("$path: a contention profile of the old form: it counts signals of condition variables too") if defined $1;
	my (%head, @rows, $wrong, %told);
	while ($text !~ /\G(?:--- Memory map:|MAPPED_LIBRARIES:)[^\n]*\n/gc
		&& $text =~ /\G([^\n]*)\n?/gc && (length $1 || pos $text < length $text)) {
		my $line = $1;
		if (my ($cycles, $count, $stack) =
			$line =~ /^\s*(\d{1,20})\s+(?:(\d{1,20})\s+)?@\s*((?:(?:0x)?[0-9a-fA-F]{1,16}(?:\s+|$))*+)$/) {
			push @rows, [$cycles, $count // 1, $stack];
			$told{stack}++;
		} elsif ($line =~ /^#/) {
			Foreign::take_told(\%told, $line);
		} elsif ($line =~ m{^\s*([a-z/ ]+?)\s*=\s*(\d{1,20})\s*$}) {
			$head{$1} = $2 + 0;
		} elsif ($line =~ /\S/) {
			$wrong //= $line;
		}
	}
	Talk::doubt("$path: a line of the contention profile is not understood: "
		    . Talk::piece(Talk::clean($wrong), 0, 60)) if defined $wrong;
	Talk::fail(1, "$path: a profile of contention that holds none") unless @rows;
	return Foreign::with_told(\%told, written($path, \%head, \@rows, substr $text, pos($text) // 0));
}

# The text in our form, of what heap_text() has parsed: header values, rows [cycles, count, stack],
# the list of mapped objects as text. The sampling period is 1 if it is missing or 0.
sub written {
	my ($path, $head, $rows, $maps) = @_;
	my $speed = $head->{'cycles/second'} || GUESS;
	Talk::doubt("$path: does not say cycles/second; 2.8 GHz is assumed")
	    unless $head->{'cycles/second'};
	my $period = $head->{'sampling period'} || 1;
	my $out = "heap_v2/0\n# jemalloc.kind=contention\n";
	for my $row (@$rows) {
		my ($cycles, $count, $stack) = @$row;
		$out .= sprintf "\@%s\n  t*: %.0f: %.0f [0: 0]\n",
		    join('', map { ' ' . lc } split ' ', $stack), $count * $period,
		    $cycles * $period / $speed * 1e9;
	}
	$out .= "\nMAPPED_LIBRARIES:\n$maps";
	$out .= "\n" unless $out =~ /\n\z/;
	return $out . sprintf "# end %d\n", length $out;
}

# Whether a Dump is of contention or of processor time.
sub is_one {
	my ($dump) = @_;
	return ($dump->{meta}{kind} // '') =~ /^(?:contention|cpu)$/ ? 1 : 0;
}

# What a Dump for which is_one() is true is called.
sub name_of {
	my ($dump) = @_;
	return $dump->{meta}{kind} eq 'cpu' ? 'processor time' : 'contention';
}

# "waited 3.5s in 750 contentions", with the text of the seconds and the number.
sub sentence {
	my ($dump, $seconds, $count) = @_;
	return $dump->{meta}{kind} eq 'cpu' ? "$seconds of processor time in $count samples"
	    : "waited $seconds in $count contentions";
}

# Sets $option->{index}, what is counted, if the Dumps are of contention. Fails if only some are, as
# they would be added; if two of @indices are given; and for --mean_delay in modes other than --text
# and the interactive one. Notes the options of the other kind, which have no effect; of those for
# heaps the first only.
sub settle {
	my ($option, @dumps) = @_;
	my @mine = grep { is_one($_) } @dumps;
	if (!@mine) {
		$option->{$_}
		    and Talk::note("--$_ has no effect here: it is for profiles of contention, and this is one of a heap") for @indices;
		return;
	}
	my $name = name_of($mine[0]);
	Talk::fail(2, "a profile of $name and one of a heap cannot be added") if @mine < @dumps;
	my ($other) = grep { $_ ne $name } map { name_of($_) } @mine;
	Talk::fail(2, "a profile of $name and one of $other cannot be added") if defined $other;
	my ($heap) = grep { $option->{$_} } qw(inuse_space inuse_objects alloc_space alloc_objects);
	Talk::note("--$heap has no effect here: it is for profiles of a heap, and this is one of $name") if defined $heap;
	$option->{index} =
	    Options::choose($option, $name eq 'contention' ? 'total_delay' : 'contentions', @indices);
	check_means($option) if $option->{mode} ne 'interactive'; # there each command is checked
}

# Fails for --mean_delay in another mode than --text.
sub check_means {
	my ($option) = @_;
	Talk::fail(2, '--mean_delay is for --text: means of several stacks cannot be added')
	    if $option->{index} eq 'mean_delay' && $option->{mode} ne 'text';
}

# Returns the dump, and fails for one of contention: for the verbs that know memory only.
sub refuse {
	my ($dump) = @_;
	Talk::fail(2,
		"$dump->{file}: a profile of " . name_of($dump) . ": jeprof top, flame, and the forms --text, --dot, --svg, --collapsed, --callgrind read it") if is_one($dump);
	return $dump;
}

# Turns sums of delays into means: changes $sum, the sums of delays of Reduce::sum, by $counts,
# those of contentions of the same rows (entries have the same numbers). The mean of an entry is its
# delay divided by its contentions, not a sum of the means of its stacks; total becomes a mean too.
# Keeps the sums: { delay_flat, delay_cum } are the old flat and cum, and kept stays.
sub to_means {
	my ($sum, $counts) = @_;
	for my $key (qw(flat cum)) {
		$sum->{"delay_$key"} = $sum->{$key};
		my $count = $counts->{$key};
		$sum->{$key} = [map { defined $sum->{$key}[$_] ? $sum->{$key}[$_] / ($count->[$_] || 1)
				    : undef } 0 .. $#{ $sum->{$key} }];
	}
	$sum->{total} /= $counts->{total} || 1;
}
