# Massif: a series in the form of valgrind's massif, for ms_print and massif-visualizer: a snapshot
# for each dump, each with its tree from the allocation to its callers. Callers that hold less than
# one percent of the snapshot are told together in one line, as massif does. Bytes are those that
# Report::gather counts (live ones, or with --alloc_space those ever allocated), of the stacks that
# the filters leave. $work and its snapshots are those of Report::gather. Caller: Export.
package Massif;

use constant THRESHOLD => 0.01; # share of the bytes of a snapshot, below which callers are joined

# The file in the form of massif, as text. Times are in milliseconds since the first snapshot, or if
# one has no time, numbers of snapshots. The peak is the first snapshot with the most bytes.
sub text {
	my ($work) = @_;
	my @snaps = @{ $work->{snaps} };
	my $is_dated = !grep { !defined $_->{at} } @snaps;
	my ($peak) = sort { $snaps[$b]{bytes} <=> $snaps[$a]{bytes} || $a <=> $b } 0 .. $#snaps;
	my $text = sprintf "desc: jeprof export\ncmd: %s\ntime_unit: %s\n",
	    line(Talk::clean($work->{store}{program})), $is_dated ? 'ms' : 'i';
	for my $number (0 .. $#snaps) {
		my $snap = $snaps[$number];
		my $root = tree($work, $snap);
		$text .= sprintf "#-----------\nsnapshot=%d\n#-----------\ntime=%d\nmem_heap_B=%d\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=%s\n", $number,
		    $is_dated ? ($snap->{at} - $snaps[0]{at}) * 1000 + 0.5 : $number, $root->{sum},
		    !$root->{sum} ? 'empty' : $number == $peak ? 'peak' : 'detailed';
		node(\$text, $root, 0, $root->{sum},
			'(heap allocation functions) malloc/new/new[], --alloc-fns, etc.') if $root->{sum};
	}
	return $text;
}

# A text with ":" for "#", which begins a comment for the readers of this form.
sub line { return $_[0] =~ tr/#/:/r }

# The tree { sum, children by frame } of one snapshot: below the root the functions that called the
# allocator, below each its callers. Bytes of a stack are whole numbers, which add up to the whole
# part of the sum of the estimates.
sub tree {
	my ($work, $snap) = @_;
	my $records = $work->{store}{records};
	my $root = Reduce::new_tree();
	my @values = unpack '(LFF)*', $snap->{counts};
	my ($exact, $told) = (0, 0);
	while (my ($number, @pair) = splice @values, 0, 3) {
		my $record = $records->[$number];
		next unless $record->{path};
		$exact += ($snap->{dump}->estimate(@pair))[1];
		my $bytes = int($exact) - $told;
		$told += $bytes;
		Reduce::add_to_tree($root, $bytes, @{ $record->{texts} //= texts($record, $work->{self}) });
	}
	return $root;
}

my %text_of; # frames as texts, by place

# The frames of a record's stack as texts, the function that called the allocator first.
sub texts {
	my ($record, $self) = @_;
	return [map { @{ $text_of{$_} //=
				    [Export::told_frames($_, $self->frames_kept($_))] } } unpack 'N*',
		Reduce::cut(@$record{qw(places libraries)})];
}

# Adds a node, its larger children, and the rest of them in one line. All nodes append to the same
# text ($text refers to it): a text that is returned would be copied once a level. $all: bytes of
# the root, $name: text of the node.
sub node {
	no warnings 'recursion';
	my ($text, $node, $depth, $all, $name) = @_;
	my $children = $node->{children};
	my @large = sort { $children->{$b}{sum} <=> $children->{$a}{sum}
		    || $a cmp $b } grep { $children->{$_}{sum} >= THRESHOLD * $all } keys %$children;
	my $small = keys(%$children) - @large;
	my $rest = 0;
	$rest += $children->{$_}{sum} for grep { $children->{$_}{sum}
		    < THRESHOLD * $all } keys %$children;
	$$text .= sprintf "%sn%d: %d %s\n", ' ' x $depth, @large + ($small ? 1 : 0), $node->{sum},
	    line($name);
	node($text, $children->{$_}, $depth + 1, $all, $_) for @large;
	$$text .= sprintf "%sn0: %d in %d place%s below massif's threshold (%.2f%%)\n",
	    ' ' x ($depth + 1), $rest, $small, $small == 1 ? ',' : 's, all',
	    100 * THRESHOLD if $small;
}
