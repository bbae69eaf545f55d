# Order: which dump of a series came first, and how much time lies between two dumps. Within one
# process (its pid, and its instance where the dump says it) the numbers of the dumps and the
# monotonic clock tell, because the wall clock can be set while the process runs. Dumps of different
# processes are compared by the wall clock. Callers: Series, Report, Leaks, Run, Live, Main and
# Export; Pprof, Otlp, Ages and Page for times, Page and Live for counts that began anew.
#
# A point is a hash for one dump, with { dump } and what its caller keeps in it. The caller adds
# what stamp() returns: time, the wall clock in seconds since 1970; mono, the monotonic clock in
# seconds; seq, the number of the dump; each undef if not known; process, its pid and instance as
# text, '' if no pid is known: all such dumps count as one process. sorted() adds: run, the number
# of the process, from 0; key, seconds since 1970 by which points of several processes are merged;
# at, the same, for differences: by the monotonic clock, or by the wall clock if nobody has set that
# back between the dumps; these two undef if not known. Live makes points with { at } alone, for
# minutes().
package Order;

use constant TOLERANCE => 1; # seconds: a smaller step back of the wall clock counts as none

# What one dump says of its place in the series: { time, seq, mono, process } as a list for a hash.
sub stamp {
	my ($dump) = @_;
	my $meta = $dump->{meta};
	my ($seq) = marks($dump);
	my $mono = $meta->{monotonic_ms} // '';
	my $pid = $dump->pid;
	return (time => time_of($dump), seq => $seq eq '-' ? undef : $seq,
		mono => $mono =~ /^\d{1,15}$/ ? $mono / 1000 : undef,
		process => length $pid ? "$pid " . ($meta->{instance} // '') : '');
}

# The wall clock of a dump in seconds since 1970, by its metadata or its name; undef if neither has
# it.
sub time_of {
	my ($dump) = @_;
	my $parts = Input::name_parts($dump->{file});
	return seconds($dump->time_text) // seconds($parts ? $parts->{time} // '' : '');
}

# The wall clock of a dump in nanoseconds since 1970, rounded to a millisecond; 0 if it is not
# known.
sub nanoseconds {
	my ($dump) = @_;
	my $time = time_of($dump) // 0;
	return $time > 0 ? int($time * 1000 + 0.5) * 1_000_000 : 0;
}

# (number, kind) of a dump, by its metadata or its name; '-' for what is not known. The kind of a
# name is its letter.
sub marks {
	my ($dump) = @_;
	my $parts = Input::name_parts($dump->{file}) // {};
	my $seq = $dump->{meta}{seq} // $parts->{seq} // '';
	return ($seq =~ /^\d+$/ ? $seq : '-',
		Talk::clean($dump->{meta}{kind} // $parts->{letter} // '-'));
}

# A time in UTC, as 20261122T220946.577Z, 2026-11-22T22:09:46.577Z, with a blank for the T or
# without seconds, in seconds since 1970; undef for anything else. Each month may have a day 31.
sub seconds {
	my ($text) = @_;
	return undef
	    unless $text =~ /^(\d{4})-?(\d\d)-?(\d\d)[T ](\d\d):?(\d\d)(?::?(\d\d(?:\.\d+)?))?Z?$/;
	my ($year, $month, $day, $hour, $minute, $second) = ($1, $2, $3, $4, $5, $6 // 0);
	return undef if $month < 1 || $month > 12 || $day < 1 || $day > 31 || $minute > 59
	    || $second >= 61 || 60 * $hour + $minute > 1440;
	($year, $month) = $month > 2 ? ($year, $month - 3) : ($year - 1, $month + 9);
	my $days = 365 * $year + int($year / 4) - int($year / 100) + int($year / 400)
	    + int((153 * $month + 2) / 5) + $day - 719469;
	return $days * 86400 + $hour * 3600 + $minute * 60 + $second;
}

# ---- the order ----
# The points in their order; as given if they are of several processes and one has no key. Sets run,
# at and key of the points.
sub sorted {
	my @points = @_;
	my (%group, @names);
	for my $point (@points) {
		push @names, $point->{process} unless $group{ $point->{process} };
		push @{ $group{ $point->{process} } }, $point;
	}
	my @runs = map { runs_of(@{ $group{$_} }) } @names;
	for my $number (0 .. $#runs) {
		$_->{run} = $number for @{ $runs[$number] };
		place(@{ $runs[$number] });
	}
	return @{ $runs[0] } if @runs == 1;
	my @placed = map { @$_ } @runs;
	return @points if grep { !defined $_->{key} } @placed;
	return @placed[sort { $placed[$a]{key} <=> $placed[$b]{key} || $a <=> $b } 0 .. $#placed];
}

# The path of the last of some files, in the order of their dumps.
sub last_of {
	my @files = @_;
	my @points = map { my $head = Dump::head($_); { dump => $head, stamp($head) } } @files;
	return (sorted(@points))[-1]{dump}{file};
}

# Points of one pid and instance, in their order, as one list reference for each process: a sequence
# number that is not above the one before is of another process with the same pid.
sub runs_of {
	my @points = @_;
	my $by = order_key(@points);
	@points = @points[sort { $points[$a]{$by} <=> $points[$b]{$by}
			|| ($points[$a]{seq} // 0) <=> ($points[$b]{seq} // 0) || $a <=> $b } 0 .. $#points]
	    if defined $by;
	my @runs = [shift @points];
	for my $point (@points) {
		my ($before, $seq) = ($runs[-1][-1]{seq}, $point->{seq});
		push @runs, [] if defined $before && defined $seq && $seq <= $before;
		push @{ $runs[-1] }, $point;
	}
	return @runs;
}

# By which of mono, seq and time the points of runs_of() are sorted: the first that all have (seq
# only if no two are equal); undef if there is none.
sub order_key {
	my @points = @_;
	my %is_known = map { my $key = $_; $key => !grep { !defined $_->{$key} } @points } qw(mono seq time);
	my %seen;
	my $is_unique = $is_known{seq} && !grep { $seen{ $_->{seq} }++ } @points;
	return $is_known{mono} ? 'mono' : $is_unique ? 'seq' : $is_known{time} ? 'time' : undef;
}

# Sets key and at of the points of one process, which are in order. Sets neither if one has no time
# of the wall clock. at stays undef if that was set back and not all have the monotonic clock.
sub place {
	my @run = @_;
	my $has_mono = !grep { !defined $_->{mono} } @run;
	return if grep { !defined $_->{time} } @run;
	my ($highest, $last) = ($run[0]{time}, $run[-1]);
	my $was_set_back = say_set_back($has_mono, @run);
	my $is_known = $has_mono || !$was_set_back;
	for my $point (@run) {
		$highest = $point->{time} if $point->{time} > $highest;
		$point->{key} = $has_mono ? $last->{time} + $point->{mono} - $last->{mono} : $highest;
		$point->{at} = $is_known ? $point->{key} : undef;
	}
}

# Whether the wall clock of a dump is earlier than that of the dump before it, by more than
# TOLERANCE; that is noted. $has_mono: whether all have the monotonic clock.
sub say_set_back {
	my ($has_mono, @run) = @_;
	my ($at) = grep { $run[$_]{time} < $run[$_ - 1]{time} - TOLERANCE } 1 .. $#run;
	return 0 if !defined $at;
	my ($before, $after) = @run[$at - 1, $at];
	Talk::note(sprintf 'the clock was set back by %s between %s and %s%s; %s',
		span_text($before->{time} - $after->{time}), map({ $_->{dump}{file} } $before, $after),
		$has_mono ? ('', 'the order of the dumps and the times between them follow the monotonic clock')
		: (', or another process had the same pid',
			'the order follows the sequence numbers, and the times between the dumps are not known'));
	return 1;
}

# Notes that two dumps which are compared are of different processes, if both tell a pid.
sub say_processes {
	my ($from, $to) = @_;
	my ($one, $other) = map { my %stamp = stamp($_); $stamp{process} } $from, $to;
	return if !length $one || !length $other || $one eq $other;
	Talk::note("$from->{file} is of another process (pid " . $from->pid . ") than $to->{file} (pid " . $to->pid . ')');
}

# When the process of a dump began to count, in ms of the monotonic clock: when sampling was first
# switched on, or at the last reset, which forgets all samples; undef if the dump does not tell it.
# Both figures are rounded down, so that dumps of one count may differ by 1.
sub begun {
	my ($dump) = @_;
	my ($now, $span) = map { ($dump->{meta}{$_} // '') =~ /^(\d{1,15})$/ ? $1 : return undef }
	    qw(monotonic_ms profiled_ms);
	return $now - $span;
}

# Whether a process began to count anew between two dumps with these results of begun(): what it had
# allocated before is not in the later one, even if it is still held.
sub is_anew {
	my ($one, $other) = @_;
	return defined $one && defined $other && abs($one - $other) > 1 ? 1 : 0;
}

# A sentence, if some of these dumps are of one process that began to count anew between them; '' if
# not, and of dumps that do not tell the instance of their process: the pid may be used again.
sub anew {
	my @points = sort { $a->{process} cmp $b->{process} || $a->{begun} <=> $b->{begun} || $a->{mono} <=> $b->{mono} }
	    grep { length $_->{process} && defined $_->{begun} && length($_->{dump}{meta}{instance} // '') }
	    map { { dump => $_, begun => begun($_), stamp($_) } } @_;
	for my $at (1 .. $#points) {
		my ($before, $after) = @points[$at - 1, $at];
		next if $before->{process} ne $after->{process} || !is_anew(map { $_->{begun} } $before, $after);
		return "$after->{dump}{file}: its process began to count anew (prof.reset, or the start of a session) after $before->{dump}{file}: "
		    . 'what it had allocated before is not in it, even if it is still held';
	}
	return '';
}

# Notes what anew() says.
sub say_anew {
	my $text = anew(@_);
	Talk::note($text) if length $text;
}

# The minutes from one point to another; undef if they are not known, or not above 0.
sub minutes {
	my ($from, $to) = map { $_->{at} } @_;
	return defined $from && defined $to && $to > $from ? ($to - $from) / 60 : undef;
}

# A time in seconds as text: 3.0 s, 5.5 min, 2.5 h.
sub span_text {
	my ($seconds) = @_;
	return $seconds < 120 ? sprintf '%.1f s', $seconds : $seconds < 7200 ? sprintf '%.1f min',
	    $seconds / 60 : sprintf '%.1f h', $seconds / 3600;
}
