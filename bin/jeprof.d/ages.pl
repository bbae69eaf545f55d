# Ages: how old the live bytes of a stack are, as a profile tells it: by columns, each of an
# interval of ages. Bounds are in seconds. $columns is a list of bytes, one number for each column,
# an estimate once it is scaled. The bytes of a column are taken to be spread evenly over the ages
# from its lower to its upper bound. $span is for how many seconds the process has been sampled,
# undef if not known; the column that it lies in is taken to end there, see edges(). Callers: Dump,
# Reduce and Labels, and what prints or judges their sums (top, flame, leaks, Since, report, export,
# live).
package Ages;

# The upper bounds of the columns but the last, which has none: as in the library and in model.js.
my @bounds = (1, 4, 16, 60, 240, 960, 3600, 14400, 57600);

# The bounds as a list of JSON.
sub bounds_json { return '[' . join(',', @bounds) . ']' }

# Columns as a list of JSON, in whole bytes; null for undef.
sub json {
	my ($columns) = @_;
	return $columns ? '[' . join(',', map { sprintf '%d', $_ } @$columns) . ']' : 'null';
}

# The bounds as the line age_bounds_s of a profile has them.
sub bounds_text { return join '', map { " $_" } @bounds }

# Whether a Dump tells the ages of what lives. A delta (what was added since a mark) does not.
sub is_told { return $_[0]{has_ages} && ($_[0]{meta}{kind} // '') ne 'delta' ? 1 : 0 }

# A sentence, for where ages are asked for and the Dump has none.
sub missing {
	my ($dump) = @_;
	return "$dump->{file}: has no ages: " . ($dump->{ages_why} // 'it was written by a version without them, or by another allocator');
}

# Columns of the text of a stack, "0:123 4:5678": the number of a column from 0, its bytes; columns
# that it leaves out are 0. Words of another form, and numbers above the last column, are passed
# over. Texts of lifetimes have the same form and the same bounds.
sub columns {
	my ($text) = @_;
	my @columns = (0) x (1 + @bounds);
	while ($text =~ /(?<!\S)(\d{1,2}):(\d{1,20})(?!\S)/g) {
		$columns[$1] += $2 if $1 < @columns;
	}
	return \@columns;
}

# The bytes of all columns.
sub sum {
	my ($columns) = @_;
	my $sum = 0;
	$sum += $_ for @$columns;
	return $sum;
}

# Columns of the text of a stack, scaled so that they add up to $bytes, its estimate; undef if it
# has none.
sub scaled {
	my ($text, $bytes) = @_;
	return undef unless defined $text && length $text;
	my $columns = columns($text);
	my $sum = sum($columns) || return undef;
	return [map { $_ * $bytes / $sum } @$columns];
}

# Columns as a text, for the rows of stacks, of which there may be many: the number and the bytes of
# each column that has bytes. undef for undef.
sub packed {
	my ($columns) = @_;
	return $columns
	    && pack '(Cd)*', map { ($_, $columns->[$_]) } grep { $columns->[$_] } 0 .. $#$columns;
}

# The columns of a packed text, as a list; undef for undef.
sub unpacked { return add_packed(undef, $_[0]) }

# Adds $columns to $to in place and returns $to, a new list if that is undef. If $columns is undef,
# returns $to as it is.
sub add {
	my ($to, $columns) = @_;
	return $to unless $columns;
	$to //= [(0) x @$columns];
	$to->[$_] += $columns->[$_] for 0 .. $#$columns;
	return $to;
}

# As add(), of columns that are packed.
sub add_packed {
	my ($to, $packed) = @_;
	return $to unless defined $packed;
	$to //= [(0) x (1 + @bounds)];
	my @pairs = unpack '(Cd)*', $packed;
	while (my ($at, $bytes) = splice @pairs, 0, 2) {
		$to->[$at] += $bytes;
	}
	return $to;
}

# For how many seconds the process of a Dump has been sampled: profiled_ms, else the time from the
# beginning of the session, or of the black box, to the dump; undef if the Dump says neither.
sub span {
	my ($dump) = @_;
	my $ms = $dump->{meta}{profiled_ms} // '';
	return $ms / 1000 if $ms =~ /^\d{1,15}$/;
	my $end = Order::seconds($dump->time_text) // return undef;
	for my $key (qw(start_time opened_time)) {
		my $begin = Order::seconds($dump->{meta}{$key} // '') // next;
		return $end - $begin if $end > $begin;
	}
	return undef;
}

# The longest span() of some Dumps, which are added up; undef if none is known.
sub longest { return (sort { $b <=> $a } grep { defined } map { span($_) } @_)[0] }

# [from, to] in seconds of each column. The column that $span lies in ends there; the last one ends
# at $span, or at four times its beginning if $span is undef or not above that beginning. Columns
# that begin after $span keep their bounds.
sub edges {
	my ($span) = @_;
	my @edges = (0, @bounds, $bounds[-1] * 4);
	$edges[-1] = $span if defined $span && $span > $edges[-2];
	return map {
		my ($from, $to) = @edges[$_, $_ + 1];
		$to = $span if defined $span && $from < $span && $to > $span;
		[$from, $to]
	} 0 .. $#edges - 1;
}

# The share of the bytes that is at least $older and at most $younger seconds old, 0 to 1; undef for
# no limit. 0 if there are no bytes.
sub share {
	my ($columns, $older, $younger, $span) = @_;
	my $all = sum($columns) or return 0;
	my @edges = edges($span);
	my $inside = 0;
	for my $at (grep { $columns->[$_] } 0 .. $#$columns) {
		my ($from, $to) = @{ $edges[$at] };
		my $low = defined $older && $older > $from ? $older : $from;
		my $high = defined $younger && $younger < $to ? $younger : $to;
		$inside += $columns->[$at] * ($high - $low) / ($to - $from) if $high > $low;
	}
	return $inside / $all;
}

# Columns with only those of their bytes that share() counts.
sub cut {
	my ($columns, $older, $younger, $span) = @_;
	return [map { my $at = $_; my @one = map { $_ == $at ? $columns->[$_] : 0 } 0 .. $#$columns;
			$columns->[$at] * share(\@one, $older, $younger, $span) } 0 .. $#$columns];
}

# The age in seconds that half of the bytes exceed; undef if there are none.
sub median {
	my ($columns, $span) = @_;
	my $all = $columns ? sum($columns) : 0;
	return undef unless $all > 0;
	my @edges = edges($span);
	my $before = 0;
	for my $at (grep { $columns->[$_] > 0 } 0 .. $#$columns) {
		my ($from, $to) = @{ $edges[$at] };
		return $from + ($to - $from) * ($all / 2 - $before) / $columns->[$at]
		    if $before + $columns->[$at] >= $all / 2;
		$before += $columns->[$at];
	}
	return $edges[-1][1];
}

# An age as 30s, 10m, 2h, 1d or a number, in seconds; fails for another text, which is the value of
# --$option.
sub seconds {
	my ($option, $text) = @_;
	$text =~ /^(\d+(?:\.\d+)?)([smhd]?)$/
	    or Talk::fail(2, "--$option takes an age as 30s, 10m, 2h, 1d; '$text' is none");
	return $1 * { '' => 1, s => 1, m => 60, h => 3600, d => 86400 }->{$2};
}

# Seconds as short text: 0.3s, 45s, 90s, 12m, 3.2h, 5d; - for undef. A unit serves from two on.
sub text {
	my ($seconds) = @_;
	return '-' unless defined $seconds;
	my ($unit) = grep { $seconds >= 2 * $_->[0] } [86400, 'd'], [3600, 'h'], [60, 'm'];
	my ($length, $letter) = @{ $unit // [1, 's'] };
	return sprintf $seconds / $length < 9.95 ? '%.1f%s' : '%.0f%s', $seconds / $length, $letter;
}

# (older, younger): the limits of --older and --younger in seconds, undef for one that is not given;
# () if neither is. Fails if they are given and one of the Dumps has no ages.
sub limits {
	my ($option, @dumps) = @_;
	my ($older, $younger) = map { length($option->{$_} // '') ? seconds($_, $option->{$_}) : undef }
	    qw(older younger);
	return () unless defined $older || defined $younger;
	for my $dump (@dumps) {
		Talk::fail(1, missing($dump)) unless is_told($dump);
		Talk::doubt("$dump->{file}: does not say how long it was profiled: of ages above "
			    . text($bounds[-1]) . ' only that is known')
		    if !defined span($dump) && grep { defined && $_ > $bounds[-1] } $older, $younger;
	}
	return ($older, $younger);
}

# What is said beside a sum that --older or --younger cut, as " older than 10m"; '' if neither is
# given.
sub words {
	my ($option) = @_;
	my @words = map { length($option->{$_} // '') ? "$_ than $option->{$_}" : () } qw(older younger);
	return @words ? ' ' . join ' and ', @words : '';
}
