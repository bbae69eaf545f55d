# Labels: what live memory was allocated for, as the program named it (thread.prof.label): a tenant,
# a request, a phase. A profile tells for a stack the sampled live objects and bytes of each label;
# what remains of the stack's counts has no label. The estimate of a stack is divided in proportion
# to these sampled counts. $text, except in take(), is what a profile says of one stack,
# "ID:OBJECTS:BYTES ..."; undef: nothing. Callers: Dump (take), Reduce (is_told, divided, check;
# also for the verb export), Top (table), Report (is_told, parts, data).
package Labels;

use constant NONE => '(no label)'; # what stands for memory without a label

# Whether a Dump tells labels.
sub is_told { return $_[0]{label} ? 1 : 0 }

# Takes a line "# label ID TEXT" into { label } of a Dump; \xNN in the text stands for a byte. A label
# that reads like NONE gets quotes.
sub take {
	my ($dump, $id, $text) = @_;
	$text =~ s/\\x([0-9a-fA-F]{2})/chr hex $1/ge;
	$text = Talk::clean($text);
	$dump->{label}{$id} = $text eq NONE ? "\"$text\"" : $text;
}

# [label, objects, bytes] of each word of $text; a label of which the profile has no text is called
# "label ID". A word that is damaged is a doubt, and left out.
sub told {
	my ($dump, $text) = @_;
	my @told;
	for my $word (split ' ', $text // '') {
		if ($word =~ /^(\d{1,10}):(\d{1,20}):(\d{1,20})$/) {
			push @told, [$dump->{label}{$1} // "label $1", $2, $3];
		} else {
			Talk::doubt("$dump->{file}: damaged: it has labels of stacks that cannot be read; what they have counts as without a label");
		}
	}
	return @told;
}

# [label, share of the objects, share of the bytes] for each label of a stack; shares are 0 to 1.
# $objects and $bytes are the sampled counts of the stack. The label '' has what is left, if
# something is.
sub shares {
	my ($dump, $text, $objects, $bytes) = @_;
	my (@shares, %share);
	my ($rest_objects, $rest) = (1, 1);
	for my $told (told($dump, $text)) {
		my $name = $told->[0];
		my ($some, $part) = ($objects ? $told->[1] / $objects : 0, $bytes ? $told->[2] / $bytes : 0);
		$some = $rest_objects if $some > $rest_objects;
		$part = $rest if $part > $rest;
		push @shares, $share{$name} = [$name, 0, 0] unless $share{$name};
		$share{$name}[1] += $some;
		$share{$name}[2] += $part;
		$rest_objects -= $some;
		$rest -= $part;
	}
	push @shares, ['', $rest_objects, $rest] if $rest > 1e-9 || $rest_objects > 1e-9;
	return @shares;
}

# Divides rows of one stack (rows as Reduce::stacks makes them, before $row->[7] is set) among the
# labels of the stack: for each row and label a copy with the label's share of the objects (samples
# too) and of the bytes (ages too), and the label as $row->[9], '' for what has none. $counts:
# [objects, bytes] of the stack, sampled.
sub divided {
	my ($dump, $text, $counts, @rows) = @_;
	my @shares = shares($dump, $text, @$counts);
	my @out;
	for my $row (@rows) {
		for my $share (@shares) {
			my @part = @$row;
			$part[$_] *= $share->[1] for 1, 4;
			$part[2] *= $share->[2];
			my $columns = Ages::unpacked($row->[6]);
			$part[6] = Ages::packed([map { $_ * $share->[2] } @$columns]) if $columns;
			$part[9] = $share->[0];
			push @out, \@part;
		}
	}
	return @out;
}

# ---- the report ----
use constant PART => 'LLFF'; # as parts() packs

# What the labels of one stack have: a text that holds (record, label, objects, bytes) for each
# label, packed; the counts are sampled. Record is $number, the index of the stack's record in
# { records } of the store (Report::gather); label is an index into { label_list } of the store, to
# which new labels are added here.
sub parts {
	my ($store, $dump, $number, $text) = @_;
	my $parts = '';
	for my $told (told($dump, $text)) {
		my ($name, @pair) = @$told;
		my $label = $store->{label_index}{$name} //= push(@{ $store->{label_list} }, $name) - 1;
		$parts .= pack PART, $number, $label, @pair;
	}
	return $parts;
}

# The labels as members of the data of a report's page, '' without labels: their texts, and pairs of
# record and label. A record is named by its { at }, its index in { order } of $work. The keys of
# %$whole are the indices, in { snaps } of $work, of the snapshots whose stacks the page has. In
# each of these it sets { labels_told }: how the counts of the pairs changed (Threads::told).
sub data {
	my ($work, $whole) = @_;
	my $store = $work->{store};
	return '' unless $store->{label_list};
	my @whole = map { $work->{snaps}[$_] } grep { $whole->{$_} } 0 .. $#{ $work->{snaps} };
	my ($pairs, @told) = Threads::told(map { pairs_of($store, $_) } @whole);
	$whole[$_]{labels_told} = $told[$_] for 0 .. $#whole;
	return '"labels":[' . join(',', map { Report::json($_) } @{ $store->{label_list} }) . "],\n\"label_pairs\":[$pairs],\n";
}

# A hash for a snapshot: its keys are { at } of a record and the index of a label, packed as NN; its
# values are [objects, bytes]. Records that the filters take away have no { at } and are not in it.
sub pairs_of {
	my ($store, $snap) = @_;
	my %cell;
	my @values = unpack '(' . PART . ')*', $snap->{label_parts};
	for (my $i = 0; $i < @values; $i += 4) {
		my $at = $store->{records}[$values[$i]]{at} // next;
		my $cell = $cell{ pack 'NN', $at, $values[$i + 1] } //= [0, 0];
		$cell->[$_] += $values[$i + 2 + $_] for 0, 1;
	}
	return \%cell;
}

# ---- top --by label ----
# A table of Top::build's form, with a row for each label; { callers } of a row has the functions
# that hold most of it.
sub table {
	my ($view, $option) = @_;
	my $self = Reduce::entries($option->{grain}, $option);
	my $fold = Fold->new($self, $option);
	my (%row, $all);
	for my $stack (@{ $view->{stacks} }) {
		my @path = $self->of_stack($stack);
		next unless $self->is_kept(\@path);
		my $owner = $path[$fold->owner($stack->[2], \@path) || 0];
		my $row = $row{ $stack->[9] // '' } //= { held => {} };
		for my $sum ($row, $all //= {}) {
			$sum->{self} += $stack->[2];
			$sum->{objects} += $stack->[1];
			$sum->{variance} += $stack->[7] // Noise::variance(@$stack[1, 2, 4]);
			$sum->{samples} += $stack->[4];
			$sum->{ages} = Ages::add_packed($sum->{ages}, $stack->[6]) if defined $stack->[6];
		}
		$row->{held}{$owner} += $stack->[2];
	}
	my $span = Ages::longest(@{ $view->{dumps} });
	for my $name (keys %row) {
		my $row = $row{$name};
		@$row{qw(name cum margin age is_bare place)} = (length $name ? $name : NONE, $row->{self},
			Noise::margin(@$row{qw(variance samples)}), Ages::median($row->{ages}, $span), 0, 0);
		$row->{callers} = Top::callers($self, delete $row->{held});
	}
	my @rows = sort { $b->{self} <=> $a->{self} || $a->{name} cmp $b->{name} } values %row;
	return { rows => \@rows, bytes => $all->{self} // 0, objects => $all->{objects} // 0, fold => $fold,
		variance => $all->{variance} // 0, margin => Noise::margin(map { $_ // 0 } @$all{qw(variance samples)}),
		has_ages => $all->{ages} ? 1 : 0 };
}

# Whether --by label or --label is given; then all Dumps must have labels, else it fails. Reduce asks
# this for live counts only.
sub check {
	my ($option, @dumps) = @_;
	return 0 unless $option->{by} eq 'label' || length $option->{label};
	for my $dump (@dumps) {
		Talk::fail(1, "$dump->{file}: has no labels: no thread that allocated had set thread.prof.label, "
			    . 'or it was written by a version without them') unless is_told($dump);
	}
	return 1;
}
