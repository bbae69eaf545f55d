# Since: what one profile tells of growth, by the ages of what lives (ages.pl). A stack that leaks
# at a constant rate has bytes of each age in proportion to the time. A table or a cache that is
# full has old ones only; what is allocated and freed all the time has young ones only. A cache of
# bounded size that is renewed has all ages up to the time that a renewal takes, like a leak that
# began so long ago. The lifetimes of what was freed tell these two apart; a profile has them with
# prof_accum. Without them
# the words of kind "recent" name both. It is a judgement of shape, as that of a series (leaks.pl).
# The number of samples in each column is estimated by its share of the bytes. Caller: Leaks, also
# for the suspects of a report. A part is a column as parts() makes it; density: samples in a second
# of age; $span: for how many seconds the process has been sampled.
package Since;

use constant {
	EXPECTED => 8, # samples that must be expected in each group of columns, if the stack grows
	FEWEST => 22, # samples: with less a stack is "few" ("churn" needs 6), or its parts do not grow
	FLAT => 0.6, # share of the mean density: a group that has it has enough samples
	SURE => 3, # or so many standard errors less than expected; where 8 are expected, 1 is enough
	SHORT => 0.125, # share of $span: a stack whose oldest object is younger is short-lived
	FREED => 0.3, # share of the live bytes: if more was freed at these ages, it is renewed
	PART => 0.2, # share of the samples of a stack, which the parts that grow must have
	WORTH => 0.01, # share of all live bytes: smaller stacks are left out, unless they grow
};

# Kind of a stack => what is said of it.
my %words = (
	grows => 'all ages, in proportion to the time: it grows, a leak suspect',
	recent => 'all ages up to that, and no older: it grows since then, or is a bounded cache that is renewed in that time; prof_accum:true, or a second profile, tells which',
	bounded => 'renewed in that time, as its freed objects show: a bounded cache or a queue',
	stays => 'nothing so young: a table, or a cache that was filled and stays',
	churn => 'short-lived: allocated and freed all the time',
	mixed => 'old and young beside each other: a table, and what is allocated and freed all the time',
	few => 'too few samples to tell',
);

# { kind, seconds, rate in bytes a second } of a stack with these columns of ages, which stand for
# so many samples; $freed are columns of what was freed, by its lifetime, undef if that is not told.
# Kinds are the keys of %words. seconds is for "stays" (also if the oldest lack too) the age of the
# youngest bytes; for "grows" and "bounded" $span, if the density is constant up to it; for these
# else, "recent" and "churn" the age of the oldest bytes; "mixed" and "few" have none. Only "grows"
# and "recent" have a rate.
sub judge {
	my ($columns, $samples, $span, $freed) = @_;
	my $bytes = Ages::sum($columns);
	return { kind => 'few' } unless $bytes > 0 && $samples > 0 && $span > 0;
	my @parts = parts($columns, $samples / $bytes, $span);
	my ($to, $from) = (oldest(@parts), youngest(@parts));
	return { kind => 'churn', seconds => $to } if $to < SHORT * $span && $samples >= 6;
	return { kind => 'few' } if $samples < FEWEST;
	if (defined(my $start = flat_from($samples, @parts))) {
		my ($inside, $width) = (0, $span - $parts[$start]{from});
		$inside += $_->{bytes} for @parts[$start .. $#parts];
		# younger ones that were freed may be short-lived objects beside a leak
		my $limit = $parts[$start]{from} > $span / 4 ? $parts[$start]{from} : $span / 4;
		return { kind => 'bounded', seconds => $span }
		    if $freed && freed_since($freed, $limit, $span) > FREED * $inside;
		return { kind => 'grows', seconds => $span, rate => $inside / $width };
	}
	my ($young, $old) = ends_of(@parts)
	    or return $from < SHORT * $span ? { kind => 'few' } : { kind => 'stays', seconds => $from };
	return { kind => 'stays', seconds => $from } if !$young;
	return { kind => 'mixed' } if $old;
	return { kind => 'recent', seconds => $to, rate => $bytes / $to } unless $freed;
	return freed_since($freed, $to / 4, $span) > FREED * $bytes
	    ? { kind => 'bounded', seconds => $to }
	    : { kind => 'grows', seconds => $to, rate => $bytes / $to };
}

# The columns up to $span: { from, to: in seconds, bytes, n: the estimated number of samples };
# bytes that are older are in the last one. $per_byte: samples in a byte.
sub parts {
	my ($columns, $per_byte, $span) = @_;
	my (@parts, @edges);
	@edges = Ages::edges($span);
	for my $at (0 .. $#$columns) {
		my ($from, $to) = @{ $edges[$at] };
		if (@parts && $from >= $span) {
			$parts[-1]{bytes} += $columns->[$at];
		} else {
			push @parts, { from => $from, to => $to, bytes => $columns->[$at] };
		}
	}
	$parts[-1]{to} = $span if $parts[-1]{from} < $span;
	$_->{n} = $_->{bytes} * $per_byte for @parts;
	return @parts;
}

# Joins parts that are neighbours to groups { from, to, n, e }. n is the number of samples in the
# group. e is how many it would have if the stack grew at a constant rate and had $samples in all
# parts: in proportion to the time from `from` to `to`. A group ends where e reaches EXPECTED; a
# last one that does not is joined to the one before.
sub groups {
	my ($samples, @parts) = @_;
	my $span = $parts[-1]{to} - $parts[0]{from};
	my @groups;
	for my $part (@parts) {
		push @groups, { from => $part->{from}, n => 0, e => 0 }
		    if !@groups || $groups[-1]{e} >= EXPECTED;
		$groups[-1]{n} += $part->{n};
		$groups[-1]{to} = $part->{to};
		$groups[-1]{e} = $samples * ($part->{to} - $groups[-1]{from}) / $span;
	}
	if (@groups > 1 && $groups[-1]{e} < EXPECTED) {
		my $last = pop @groups;
		$groups[-1]{$_} += $last->{$_} for qw(n e);
		$groups[-1]{to} = $last->{to};
	}
	return @groups;
}

# Whether a group has not clearly fewer samples than are expected of something that grows.
sub is_enough {
	my ($group) = @_;
	my $chance = $group->{e} - SURE * sqrt $group->{e};
	my $least = FLAT * $group->{e} < $chance ? FLAT * $group->{e} : $chance;
	return $group->{n} >= ($least > 1 ? $least : 1);
}

# The index of the first part from which on all older parts have enough samples for a constant
# density; undef if there is none. The younger parts, the groups of before(), may have a higher
# density, of short-lived objects of the same stack, but not a lower one.
sub flat_from {
	my ($samples, @parts) = @_;
	for my $start (0 .. $#parts - 1) {
		my $inside = 0;
		$inside += $_->{n} for @parts[$start .. $#parts];
		last if $inside < FEWEST || $inside < PART * $samples;
		my @groups = groups($inside, @parts[$start .. $#parts]);
		next if @groups < 2;
		push @groups, before($inside, $start, @parts) if $start;
		return $start if !grep { !is_enough($_) } @groups;
	}
	return undef;
}

# The parts before index $start, in groups. The parts from $start on have $inside samples; as many
# for each second are expected before $start.
sub before {
	my ($inside, $start, @parts) = @_;
	my $from = $parts[$start]{from};
	return groups($inside * $from / ($parts[-1]{to} - $from), @parts[0 .. $start - 1]);
}

# (1 or 0 for the youngest group, the same for the oldest): whether each has its share. Nothing if
# there is one group only: the samples are too few to compare ends.
sub ends_of {
	my @parts = @_;
	my $samples = 0;
	$samples += $_->{n} for @parts;
	my @groups = groups($samples, @parts);
	return @groups > 1 ? map { is_enough($_) ? 1 : 0 } @groups[0, -1] : ();
}

# The age in seconds of the oldest object. It lies in the last part with bytes; how far into it is
# estimated by the density of the parts before.
sub oldest {
	my @parts = grep { $_->{to} > $_->{from} } @_;
	pop @parts while @parts > 1 && $parts[-1]{bytes} <= 0;
	my $last = pop @parts;
	my $before = 0;
	$before += $_->{bytes} for @parts;
	my $width = $last->{to} - $last->{from};
	return $last->{to} unless $before > 0;
	my $more = $last->{bytes} * $last->{from} / $before;
	return $last->{from} + ($more < $width ? $more : $width);
}

# The age in seconds at which the first part with a sample begins: no object is younger.
sub youngest {
	my @parts = @_;
	my ($first) = grep { $_->{n} >= 0.5 } @parts;
	return $first ? $first->{from} : 0;
}

# The bytes, of those in the columns @$freed, that were freed at this age in seconds or older.
sub freed_since {
	my ($freed, $age, $span) = @_;
	return Ages::sum($freed) * Ages::share($freed, $age, undef, $span);
}

# ---- the stacks of one profile ----
# The rows of sums() of a snapshot $snap of Report, each with { names, age: the median of ages,
# margin, is_bare } and what judge() says. A rate is here in bytes a minute, and has { rate_margin,
# rate_error: its 95 % margin and its standard error }. Those of kind "grows" come first, the
# fastest at the top, then the others by live bytes, without the small ones (WORTH). $work is that
# of Report::gather.
sub rows {
	my ($work, $snap) = @_;
	my $self = $work->{self};
	my $span = Ages::span($snap->{dump}) // longest($snap);
	my @rows = sums($work, $snap);
	for my $row (@rows) {
		my $found = judge($row->{ages}, $row->{samples}, $span,
			$snap->{is_accum} ? $row->{freed} // [(0) x @{ $row->{ages} }] : undef);
		@$row{ keys %$found } = values %$found;
		$row->{names} = [map { $self->{label}[$_] } @{ $row->{path} }];
		$row->{is_bare} = $self->{frame}[$row->{path}[0]]{is_bare};
		$row->{age} = Ages::median($row->{ages}, $span);
		$row->{margin} = Noise::margin(@$row{qw(variance samples)});
		next unless $row->{rate} && $row->{live};
		$_ *= 60 for $row->{rate};
		my $share = $row->{rate} / $row->{live};
		$row->{rate_margin} = $row->{margin} * $share;
		$row->{rate_error} = sqrt($row->{variance}) * $share;
	}
	my $least = WORTH * $snap->{bytes};
	@rows = grep { $_->{kind} eq 'grows' || $_->{live} >= $least } @rows;
	return sort { growth($b) <=> growth($a) || $b->{live} <=> $a->{live}
		    || "@{ $a->{names} }" cmp "@{ $b->{names} }" } @rows;
}

# The rate of a row that grows, 0 of others: for sorting.
sub growth { return $_[0]{kind} eq 'grows' ? $_[0]{rate} : 0 }

# The age in seconds of the oldest sample, in place of the span of a profile that does not tell it;
# 0 if it has none.
sub longest {
	my ($snap) = @_;
	my $all;
	$all = Ages::add($all, Ages::columns($_)) for values %{ $snap->{ages} };
	return $all && Ages::sum($all) ? oldest(parts($all, 1, 86400 * 365)) : 0;
}

# Rows { path, record, live: bytes, objects, samples, variance, ages, freed } of the records of a
# snapshot that have ages, summed by owner and callers; ages and freed are columns, of freed by
# lifetime, undef if none is told; record: the number of the first record. folded, counts, ages and
# life are those of Report (find_owners, take_file).
sub sums {
	my ($work, $snap) = @_;
	my $records = $work->{store}{records};
	my (%row, @order);
	my @values = unpack '(LFF)*', $snap->{counts};
	while (my ($number, @pair) = splice @values, 0, 3) {
		my $record = $records->[$number];
		next unless $record->{path} && defined $snap->{ages}{$number};
		my ($objects, $bytes) = $snap->{dump}->estimate(@pair);
		my $columns = Ages::scaled($snap->{ages}{$number}, $bytes) or next;
		my @path = @{ $record->{path} };
		splice @path, 0, $record->{folded};
		my $key = join ' ', @path;
		push @order, $key unless $row{$key};
		my $row = $row{$key} //= { path => \@path, record => $number };
		$row->{live} += $bytes;
		$row->{objects} += $objects;
		$row->{samples} += $pair[0];
		$row->{variance} += Noise::variance($objects, $bytes, $pair[0]);
		$row->{ages} = Ages::add($row->{ages}, $columns);
		my $life = $snap->{life}{$number} or next;
		$row->{freed} = Ages::add($row->{freed},
			[map { $_ * $life->[1] } @{ Ages::columns($life->[0]) }]);
	}
	return map { $row{$_} } @order;
}

# ---- the verb leaks with one profile ----
# Prints rows as a table, at most -n of them, and what the kinds mean.
sub print_rows {
	my ($work, $snap, @rows) = @_;
	my $option = $work->{option};
	my $count = @rows;
	splice @rows, $option->{top} if $count > $option->{top};
	printf "%12s %9s %9s %9s %6s  %-14s %s\n", 'rate', 'margin', 'live', 'margin', 'age', 'what',
	    'stack, from the owner to its callers';
	for my $row (@rows) {
		my @path = @{ $row->{names} };
		splice @path, 5, @path, '...' if @path > 6 && !$option->{stacks};
		my $grows = $row->{kind} eq 'grows';
		printf "%12s %s %9s %s %6s  %-14s %s\n",
		    $grows ? Series::rate_text($row->{rate}, 1, $option) : '-',
		    Noise::column(9, $grows ? Noise::text($row->{rate_margin}, $option) : '-'),
		    Print::human($row->{live}, $option),
		    Noise::column(9, Noise::text($row->{margin}, $option)), Ages::text($row->{age}),
		    what($row), join ' < ', @path;
	}
	print $count - @rows, " more (-n $count)\n" if $count > @rows;
	my %shown = map { $_->{kind} => 1 } @rows;
	printf "%-8s %s\n", "$_:", $words{$_} for grep { $shown{$_} } qw(grows recent bounded stays churn mixed few);
}

# The kind of a row and its seconds, as text.
sub what {
	my ($row) = @_;
	return $row->{kind} . (defined $row->{seconds} ? ' ' . Ages::text($row->{seconds}) : '');
}

# A row as an object of JSON.
sub row_json {
	my ($row) = @_;
	my $number = sub { defined $_[0] ? sprintf '%d', $_[0] : 'null' };
	return sprintf '{"kind":"%s","seconds":%s,"per_minute":%s,"error_per_minute":%s,"live":%d,"error":%d,"objects":%d,"age":%s,"ages":%s,"stack":[%s]}',
	    $row->{kind}, defined $row->{seconds} ? sprintf('%.1f', $row->{seconds}) : 'null',
	    map({ $row->{kind} =~ /^(?:grows|recent)$/ ? $number->($_) : 'null' } @$row{qw(rate rate_error)}), $row->{live}, sqrt $row->{variance},
	    $row->{objects}, Top::age_json($row), Ages::json($row->{ages}),
	    join ',', map { Top::json_string($_) } @{ $row->{names} };
}
