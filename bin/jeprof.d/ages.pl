# Ages: how old the live bytes of a stack are, as a profile tells it: by columns, each of an interval of
# ages. Bounds are in seconds; columns are estimates of bytes. Within a column bytes are taken to be
# of all its ages alike, and none is older than the profile. Callers: reduce and what prints its sums
# (top, leaks, report, export).
package Ages;

my @bounds = (1, 4, 16, 60, 240, 960, 3600, 14400, 57600);

sub bounds_json { return '[' . join(',', @bounds) . ']' }

# Bytes by column.
sub json {
	my ($columns) = @_;
	return $columns ? '[' . join(',', map { sprintf '%d', $_ } @$columns) . ']' : 'null';
}

# As the line age_bounds_s has them.
sub bounds_text { return join '', map { " $_" } @bounds }

sub is_told { return $_[0]{has_ages} && ($_[0]{meta}{kind} // '') ne 'delta' ? 1 : 0 }

# What is said where ages are asked for and the profile has none.
sub missing {
	my ($dump) = @_;
	return "$dump->{file}: has no ages: " . ($dump->{ages_why} // 'it was written by a version without them, or by another allocator');
}

# Bytes by column, of "0:123 4:5678".
sub columns {
	my ($text) = @_;
	my @columns = (0) x (1 + @bounds);
	while ($text =~ /(\d{1,2}):(\d{1,20})/g) {
		$columns[$1] += $2 if $1 < @columns;
	}
	return \@columns;
}

sub sum {
	my ($columns) = @_;
	my $sum = 0;
	$sum += $_ for @$columns;
	return $sum;
}

# The columns of a stack, scaled so that they add up to its estimate; undef if it has none.
sub scaled {
	my ($text, $bytes) = @_;
	return undef unless defined $text && length $text;
	my $columns = columns($text);
	my $sum = sum($columns) || return undef;
	return [map { $_ * $bytes / $sum } @$columns];
}

# Adds columns to others, which may not be there yet.
sub add {
	my ($to, $columns) = @_;
	return $to unless $columns;
	$to //= [(0) x @$columns];
	$to->[$_] += $columns->[$_] for 0 .. $#$columns;
	return $to;
}

# For how many seconds the process has been sampled; undef if the profile does not say it.
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

# From and to of each column, the last ones as long as the profile; those that it is too young for
# have the length 0.
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

# The share of the bytes between two ages; undef for no limit.
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

# What lies between two ages, by column.
sub cut {
	my ($columns, $older, $younger, $span) = @_;
	return [map { my $at = $_; my @one = map { $_ == $at ? $columns->[$_] : 0 } 0 .. $#$columns;
			$columns->[$at] * share(\@one, $older, $younger, $span) } 0 .. $#$columns];
}

# Half of the bytes are older.
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

# 10m, 90s, 1.5h as seconds.
sub seconds {
	my ($option, $text) = @_;
	$text =~ /^(\d+(?:\.\d+)?)([smhd]?)$/
	    or Talk::fail(2, "--$option takes an age as 30s, 10m, 2h, 1d; '$text' is none");
	return $1 * { '' => 1, s => 1, m => 60, h => 3600, d => 86400 }->{$2};
}

# Short: 0.3s, 45s, 12m, 3.2h, 5d.
sub text {
	my ($seconds) = @_;
	return '-' unless defined $seconds;
	for my $unit ([86400, 'd', 2], [3600, 'h', 2], [60, 'm', 2], [1, 's', 1]) {
		my $value = $seconds / $unit->[0];
		return sprintf $value < 9.95 ? '%.1f%s' : '%.0f%s', $value, $unit->[1]
		    if $value >= $unit->[2] || $unit->[1] eq 's';
	}
	return '-';
}

# The limits of --older and --younger, checked against the profiles; () if neither is given.
sub limits {
	my ($option, @dumps) = @_;
	my ($older, $younger) = map { length($option->{$_} // '') ? seconds($_, $option->{$_}) : undef }
	    qw(older younger);
	return () unless defined $older || defined $younger;
	for my $dump (@dumps) {
		Talk::fail(1, missing($dump)) unless is_told($dump);
	}
	return ($older, $younger);
}

# Is said beside a sum that --older or --younger cut: older than 10m.
sub words {
	my ($option) = @_;
	my @words = map { length($option->{$_} // '') ? "$_ than $option->{$_}" : () } qw(older younger);
	return @words ? ' ' . join ' and ', @words : '';
}
