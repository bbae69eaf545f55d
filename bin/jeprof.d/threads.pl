# Threads: what a report holds by thread, so that its page can show one of them alone. Most stacks
# belong to one thread: of such a record the thread is told once, and its counts are those of the
# record. Of the others each pair of record and thread has counts of its own, told as changes from
# dump to dump. Counts are sampled, as the profile prints them. Sums are those of top --thread.
# $store and its records are those of Report::gather; $at is the index of the objects in a stack of
# Dump (1: live, 3: ever allocated), their bytes follow. Callers: Report; Reduce for what is told by
# thread (divided, only); Labels (told); Top (names); Run, Export, Flame and Shell (refuse_each).
package Threads;

use constant PART => 'LLFF'; # as parts() packs

# Fails with status 2 for --thread=* and what is no number, where all threads are shown, or one.
sub refuse_each {
	my ($option) = @_;
	return if $option->{thread} =~ /^\d*$/;
	Talk::fail(2, "--thread=$option->{thread}: all threads are shown here, or one: --thread=N");
}

# The number of the only thread of a Dump, whose stacks have no lines of threads; undef if the Dump
# tells none or several.
sub only {
	my ($dump) = @_;
	my @threads = @{ $dump->{threads} };
	return @threads == 1 ? $threads[0][0] : undef;
}

# [thread, objects, bytes] of each thread that holds something of a stack, as printed.
sub of_stack {
	my ($dump, $stack, $at) = @_;
	my $only = defined $stack->[5] ? undef : only($dump) // return;
	my @found;
	return $stack->[$at] || $stack->[$at + 1] ? [$only, @$stack[$at, $at + 1]] : () if defined $only;
	while ($stack->[5] =~ /^  t(\d+): (\d+): (\d+) \[(\d+): (\d+)\]/mg) {
		my ($thread, @pair) = ($1, $at == 1 ? ($2, $3) : ($4, $5));
		push @found, [$thread, @pair] if $pair[0] || $pair[1];
	}
	return @found;
}

# Adds the estimates of a stack's threads to %$sums: thread => [bytes, objects].
sub add {
	my ($sums, $dump, @found) = @_;
	for my $part (@found) {
		my ($objects, $bytes) = $dump->estimate(@$part[1, 2]);
		$sums->{ $part->[0] }[0] += $bytes;
		$sums->{ $part->[0] }[1] += $objects;
	}
}

# What threads have of the stack of record $number: (record, thread, objects, bytes) of each packed,
# the thread as an index into the store's list. Sets { thread } of the record: the only one that it
# ever had, as such an index, -1 if there were several or if it had less than the stack.
sub parts {
	my ($store, $number, $stack, $at, @found) = @_;
	my $record = $store->{records}[$number];
	my $parts = '';
	for my $part (@found) {
		$part->[0] = $store->{thread_index}{ $part->[0] } //=
		    push(@{ $store->{thread_list} }, $part->[0]) - 1;
		$parts .= pack PART, $number, @$part;
	}
	my $thread = @found == 1 && $found[0][1] == $stack->[$at] && $found[0][2] == $stack->[$at + 1]
	    ? $found[0][0] : -1;
	$record->{thread} = ($record->{thread} // $thread) == $thread ? $thread : -1;
	return $parts;
}

# { number of a thread => its name, '' if it has none } of a Dump, or of a snapshot of Report.
sub names {
	my ($dump) = @_;
	return $dump->{thread_names} //= do {
		my %name;
		for my $thread (@{ $dump->{threads} }) {
			$name{ $thread->[0] } = $thread->[1]
			    if length $thread->[1] || !defined $name{ $thread->[0] };
		}
		\%name;
	};
}

# Divides a row of Reduce::stacks, @whole = (places, objects, bytes, places without the allocator's,
# samples), among the threads of its stack: a row for each, with the thread's name behind. Objects
# and bytes are divided in the ratio of the threads' own estimates, and the last row gets the
# remainder, so the sum stays, as in jeprofd; samples stay those of the whole. One row if there is
# one thread, or only $thread is counted (undef: all are).
sub divided {
	my ($dump, $stack, $thread, $at, @whole) = @_;
	my $name = names($dump);
	my @known = defined $thread ? $thread : defined $stack->[5] ? () : keys %$name;
	return [@whole, $name->{ $known[0] // '' } // ''] if @known || !defined $stack->[5];
	my @parts = map { my ($thread, @pair) = @$_;
		[$whole[0], $dump->estimate(@pair), @whole[3, 4], $name->{$thread} // ''] }
	    of_stack($dump, $stack, $at);
	return [@whole, ''] unless @parts;
	for my $column (1, 2) {
		my ($sum, $left) = (0, $whole[$column]);
		$sum += $_->[$column] for @parts;
		for my $part (@parts) {
			my $share = $sum ? $whole[$column] * ($part->[$column] / $sum) : 0;
			$part->[$column] = $part == $parts[-1] ? $left : int($share * 1024 + 0.5) / 1024;
			$left -= $part->[$column];
		}
	}
	return @parts;
}

# [number, name, bytes, objects] of each thread that holds something, estimates in whole numbers,
# the most bytes first; $sums as add() makes them.
sub held {
	my ($dump, $sums) = @_;
	my %name = %{ names($dump) };
	return [map { [$_, $name{$_} // '', map { int } @{ $sums->{$_} }] }
		    sort { $sums->{$b}[0] <=> $sums->{$a}[0]
			    || $a <=> $b } grep { $sums->{$_}[0] } keys %$sums];
}

# Takes the threads from snapshots that all have the same one alone: there is none to choose.
sub drop_only {
	my @snaps = @_;
	my %known = map { $_->[0] => 1 } map { @{ $_->{dump}{threads} } } @snaps;
	return if keys %known > 1;
	$_->{threads} = [] for @snaps;
}

# The threads as members of the data of a report's page, '' if there are not two: the threads, the
# one of each record (-1: see pairs), and pairs of record and thread, in order. Sets of each
# snapshot whose stacks the page has (%$whole has their numbers as keys) { told }: GAP,OBJECTS,BYTES
# of each pair that changed.
sub data {
	my ($work, $whole) = @_;
	my $store = $work->{store};
	return '' if @{ $store->{thread_list} // [] } < 2;
	my @records = map { $store->{records}[$_] } @{ $work->{order} };
	my @whole = map { $work->{snaps}[$_] } grep { $whole->{$_} } 0 .. $#{ $work->{snaps} };
	my ($pairs, @told) = told(map { pairs_of($store, $_) } @whole);
	$whole[$_]{told} = $told[$_] for 0 .. $#whole;
	local $" = ',';
	my @own = map { $_->{thread} // -1 } @records;
	return '"threads":[' . join(',',
		map { "[$_," . Report::json(name_of($work, $_)) . ']' } @{ $store->{thread_list} })
	    . "],\n\"own\":[@own],\n\"pairs\":[$pairs],\n";
}

# (pairs, changes of each snapshot), as texts. Pairs of a record and the index of a thread or label,
# in order: GAP,INDEX of each; GAP is the { at } of the record minus that in the pair before.
# Changes: GAP,OBJECTS,BYTES of each pair whose counts changed; GAP is the index of the pair minus
# that of the changed pair before. Each of @cells is { pack 'NN', at, index => [objects, bytes] } of
# one snapshot.
sub told {
	my @cells = @_;
	my %all = map { $_ => 1 } map { keys %$_ } @cells;
	my @pairs = sort keys %all;
	my @before = (0) x (2 * @pairs);
	my @changes;
	for my $cell (@cells) {
		my @now = map { @{ $cell->{$_} // [0, 0] } } @pairs;
		push @changes, Report::cells(\@before, \@now);
		@before = @now;
	}
	my $last = 0;
	my @told = map { my ($at, $number) = unpack 'NN', $_; my $gap = $at - $last; $last = $at;
		($gap, $number) } @pairs;
	return (join(',', @told), @changes);
}

# { key => [objects, bytes] } of the records that several threads share, sampled: one key for each
# pair of record and thread, which sorts by record, then thread. If a thread comes twice in one, the
# second key has a "+" behind.
sub pairs_of {
	my ($store, $snap) = @_;
	my %cell;
	my @values = unpack '(' . PART . ')*', $snap->{parts};
	for (my $i = 0; $i < @values; $i += 4) {
		my $record = $store->{records}[$values[$i]];
		next if !defined $record->{at} || $record->{thread} >= 0;
		my $key = pack 'NN', $record->{at}, $values[$i + 1];
		$key .= '+' while $cell{$key};
		$cell{$key} = [@values[$i + 2, $i + 3]];
	}
	return \%cell;
}

# The name of a thread in the last snapshot that has one, else ''.
sub name_of {
	my ($work, $thread) = @_;
	for my $snap (reverse @{ $work->{snaps} }) {
		my $name = names($snap)->{$thread};
		return $name if length($name // '');
	}
	return '';
}
